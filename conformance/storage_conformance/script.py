"""A counterexample as a stand-alone Python script: torch, tensordict and the backend, nothing of ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from storage_conformance.requirements import Requirement
from storage_conformance.tensorclasses import SOURCES

__all__ = ["importable", "stand_alone"]

_TENSORDICT = ("LazyStackedTensorDict", "NonTensorData", "NonTensorStack", "TensorDict", "tensorclass")
_STANDARD = ("contextlib", "copy", "os", "pickle", "tempfile")

_HELPERS = {
    "folder": "folder = pathlib.Path(tempfile.mkdtemp())\n",
    "refused": '''
@contextlib.contextmanager
def refused(*kinds):
    """The call inside has to raise."""
    try:
        yield
    except Exception as error:
        assert isinstance(error, kinds or (TypeError, ValueError, LookupError, RuntimeError, OSError)), repr(error)
    else:
        raise AssertionError("accepted; it has to be refused")
''',
    "in_inference_mode": """
def in_inference_mode(make):
    with torch.inference_mode():
        return make()
""",
    "change": '''
def change(data):
    """The caller changes its tensors in place."""
    if isinstance(data, torch.Tensor):
        data.logical_not_() if data.dtype == torch.bool else data.add_(1)
    elif data is not None and not isinstance(data, str):
        data = data.to_dict() if hasattr(data, "to_dict") else data
        for entry in data.values() if isinstance(data, dict) else data:
            change(entry)
''',
    "same": '''
def same(actual, expected):
    """Equal in dtype, shape and every bit."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    one, two = (t.detach().cpu().contiguous().reshape(-1) for t in (actual, expected))
    return t_bytes(one) == t_bytes(two)


def t_bytes(flat):
    return flat.clone().view(torch.uint8).tolist() if flat.numel() else []
''',
    "told": '''
def told(entity):
    """How often an entity was told since the last call of this function."""
    count, entity.times = entity.times, 0
    return count
''',
}

_ENTITY = """
class Entity:
    times = 0

    def mark_update(self, index):
        self.times += 1
"""


def importable(factory: Callable[..., Any]) -> str:
    """The line that imports a factory as `make`, or a remark where it has no importable name."""
    module, name = getattr(factory, "__module__", ""), getattr(factory, "__qualname__", "")
    if module and name and "<" not in name:
        first, _, rest = name.partition(".")
        return (
            f"from {module} import {first} as make"
            if not rest
            else f"import {module}\n\nmake = {module}.{name}"
        )
    return f"make = ...  # the factory of the backend: {factory!r}"


def stand_alone(
    steps: tuple[str, ...], last: str, *, make: str, requirement: Requirement, backend: str, seed: int
) -> str:
    """The text of a script that fails on the faulty storage and passes on one that conforms."""
    body = "\n".join((*steps, last))
    used = set(re.findall(r"[A-Za-z_]\w*", body))
    classes = [name for name in SOURCES if name in used]
    helpers = [text for name, text in _HELPERS.items() if name in used]
    entities = sorted(set(re.findall(r"\bentity\d+\b", body)))
    text = "\n".join([*helpers, *(SOURCES[name] for name in classes)])
    words = set(re.findall(r"[A-Za-z_]\w*", text + body))
    imports = [f"import {module}" for module in (*_STANDARD, "pathlib") if module in words]
    typing = [name for name in ("NamedTuple", "Optional") if name in words]
    lines = [
        f'"""{requirement.id}: {requirement.sentence}',
        "",
        f'Found on {backend} with seed {seed}. Raises where the requirement is violated.\n"""',
        "",
        *sorted(imports),
        *([f"from typing import {', '.join(typing)}"] if typing else []),
        "",
        *(["import numpy"] if "numpy" in words else []),
        "import torch",
        *(
            [f"from tensordict import {', '.join(n for n in _TENSORDICT if n in words)}"]
            if words & set(_TENSORDICT)
            else []
        ),
        "",
        make,
        text,
        _ENTITY if entities else "",
        *(f"{name} = Entity()" for name in entities),
        "",
        *steps,
        last,
        "",
    ]
    return re.sub(r"\n{4,}", "\n\n\n", "\n".join(lines))
