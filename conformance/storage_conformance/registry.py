"""From the names after `--conformance` to backends.

A name is that of a backend registered by a conftest hook, an entry point or this package, or
`package.module:attribute`.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from storage_conformance.backend import Backend
from storage_conformance.backends import SHIPPED
from storage_conformance.backends.distributions import version_of_package
from storage_conformance.errors import ConfigurationError, suggestion

__all__ = ["GROUP", "Registration", "registrations", "resolve"]

GROUP = "storage_conformance.backends"

_FORBIDDEN = set("[],") | set(" \t\n")


@dataclass(frozen=True)
class Registration:
    """A name that can be asked for.

    Attributes:
        name: the name.
        origin: who registered it, for people to read.
        build: gives the backend; imports what it needs.
    """

    name: str
    origin: str
    build: Callable[[], Backend]


def registrations(hooked: Iterable[Backend]) -> dict[str, list[Registration]]:
    """Everything registered, by name; two registrations of one name only matter once it is asked for."""
    found: dict[str, list[Registration]] = {}
    for registration in _registered(hooked):
        found.setdefault(registration.name, []).append(registration)
    return found


def resolve(
    names: Sequence[str], hooked: Iterable[Backend], *, features: frozenset[str] = frozenset(), folder: Path
) -> tuple[Backend, ...]:
    """The backends of these names, in this order.

    Args:
        names: registered names or `package.module:attribute`.
        hooked: backends registered by the conftest hook.
        features: what bare classes among them claim.
        folder: imported from first, as `python -m pytest` does and `pytest` does not.

    Raises:
        ConfigurationError: a name is unknown, used twice or leads to nothing that makes storages.
    """
    known = registrations(hooked)
    found: dict[str, Backend] = {}
    claimed = False
    for name in names:
        if ":" in name:
            backend, bare = _imported(name, folder)
        else:
            backend, bare = _registered_as(name, known), False
        if bare:
            backend, claimed = replace(backend, features=features), True
        if _FORBIDDEN & set(backend.name) or "::" in backend.name or not backend.name:
            raise ConfigurationError(
                f"A backend cannot be called {backend.name!r}: its name becomes part of node ids such as "
                "SPEC.md::LEN-3[name], so it must not be empty or have blanks, commas, brackets or '::'."
            )
        if backend.name in found:
            raise ConfigurationError(f"Backend {backend.name!r} was asked for twice.")
        found[backend.name] = backend
    if features and not claimed:
        raise ConfigurationError(
            "--conformance-features is for a bare class (package.module:attribute): a registered backend says "
            f"itself what it claims, as {', '.join(found)} does."
        )
    return tuple(found.values())


def _registered(hooked: Iterable[Backend]) -> Iterator[Registration]:
    for backend in hooked:
        yield Registration(backend.name, "conftest hook", _constant(backend))
    for entry in metadata.entry_points(group=GROUP):
        origin = f"entry point of {entry.dist.name}" if entry.dist else "entry point"
        yield Registration(entry.name, origin, _loader(entry))
    for name, target in SHIPPED.items():
        yield Registration(name, "shipped", _shipped(target))


def _constant(backend: Backend) -> Callable[[], Backend]:
    return lambda: backend


def _shipped(target: str) -> Callable[[], Backend]:
    module, _, attribute = target.partition(":")
    return lambda: getattr(importlib.import_module(module), attribute)()


def _loader(entry: metadata.EntryPoint) -> Callable[[], Backend]:
    def load() -> Backend:
        try:
            target = entry.load()
        except (Exception, SystemExit) as error:
            raise ConfigurationError(
                f"Backend {entry.name!r}, an entry point to {entry.value}, cannot be loaded: {_told(error)}."
            ) from error
        backend, bare = _as_backend(target, entry.name, entry.value)
        return replace(backend, version=entry.dist.version) if bare and entry.dist else backend

    return load


def _registered_as(name: str, known: dict[str, list[Registration]]) -> Backend:
    if not name:
        raise ConfigurationError(
            f"--conformance needs the name of a backend; registered are {', '.join(known)}."
        )
    candidates = known.get(name, [])
    if not candidates:
        raise ConfigurationError(
            f"There is no backend {name!r}; registered are {', '.join(known)}.{suggestion(name, known)} "
            "Anything else is named package.module:attribute."
        )
    if len(candidates) > 1:
        origins = " and by ".join(candidate.origin for candidate in candidates)
        raise ConfigurationError(f"Backend {name!r} is registered more than once, by {origins}: rename one.")
    return candidates[0].build()


def _imported(name: str, folder: Path) -> tuple[Backend, bool]:
    module_name, _, path = name.partition(":")
    if not all(part.isidentifier() for part in [*module_name.split("."), *path.split(".")]):
        raise ConfigurationError(f"{name!r} is not of the form package.module:attribute.")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise ConfigurationError(
                f"Backend {name!r}: there is no module {error.name!r} in {folder} or elsewhere on sys.path."
            ) from error
        raise ConfigurationError(
            f"Backend {name!r}: importing {module_name} failed: {_told(error)}."
        ) from error
    except (Exception, SystemExit) as error:
        raise ConfigurationError(
            f"Backend {name!r}: importing {module_name} failed: {_told(error)}."
        ) from error
    target: Any = module
    for part in path.split("."):
        if not hasattr(target, part):
            raise ConfigurationError(
                f"Backend {name!r}: {module_name} has no attribute {path!r}.{suggestion(part, dir(target))}"
            )
        target = getattr(target, part)
    return _as_backend(target, name, name, version=version_of_package(module_name))


def _as_backend(target: Any, name: str, where: str, *, version: str = "") -> tuple[Backend, bool]:
    """A backend, and whether it was made from a bare class or factory, which claims nothing."""
    if isinstance(target, Backend):
        return target, False
    if not callable(target):
        raise ConfigurationError(
            f"Backend {name!r}: {where} is a {type(target).__name__}, not a class, a factory called as "
            "factory(max_size, device=..., ndim=...) or a Backend."
        )
    return Backend(name, target, version=version), True


def _told(error: BaseException) -> str:
    """An exception in one line, with the place where it was raised."""
    trace = error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    place = f" ({Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno})" if trace else ""
    return f"{type(error).__name__}: {error}{place}"
