"""What programs call besides a storage, as source text for stand-alone scripts: each name with its definition."""

from __future__ import annotations

from storage_conformance.interruption import EVENTS

__all__ = ["CONSTANTS", "HELPERS", "STANDARD", "TENSORDICT"]

TENSORDICT = ("LazyStackedTensorDict", "NonTensorData", "NonTensorStack", "TensorDict", "tensorclass")
STANDARD = (
    "contextlib", "copy", "decimal", "enum", "errno", "fractions", "gc", "json", "math", "operator", "os", "pathlib",
    "pickle", "resource", "shutil", "signal", "stat", "struct", "sys", "tempfile", "warnings",
)  # fmt: skip
CONSTANTS = {
    "inf": "from math import inf",
    "nan": "from math import nan",
    "device": "from torch import device",
    "SimpleNamespace": "from types import SimpleNamespace",
    "OrderedDict": "from collections import OrderedDict",
    "Fraction": "from fractions import Fraction",
    "Decimal": "from decimal import Decimal",
}

_ENTITIES = '''
class Entity:
    """Writes down what it is told."""

    def __init__(self):
        self.calls = []

    def mark_update(self, index):
        self.calls.append(index.clone() if hasattr(index, "clone") else index)
        order.append(self)


order = []


def told(entity):
    """How often an entity was told since it was last called upon to forget."""
    return sum(other is entity for other in order)


def told_in_order(*entities):
    return [*map(id, order)] == [*map(id, entities)]


def forget():
    order.clear()
'''

_FAILURES = '''
def watches():
    """Whoever is called before each call of Python that creates, changes, moves or removes a file."""
    found, events = [], {EVENTS}

    def hook(event, _):
        if found and event in events:
            found[-1]()

    sys.addaudithook(hook)
    return found


waiting = watches()


@contextlib.contextmanager
def failing(call, size, act):
    """`act` is called before a call to the file system, or no file gets longer than `size` bytes."""
    left, (soft, hard) = [call], resource.getrlimit(resource.RLIMIT_FSIZE)

    def count():
        left[0] -= 1
        if left[0] == 0:
            act()

    waiting.append(count)
    if size is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        waiting.pop()
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
'''.replace("{EVENTS}", repr(sorted(EVENTS)))

HELPERS = {
    "failing": _FAILURES,
    "midway": '''
def midway(act, *, call=0, size=None, error=OSError):
    """What `act` raises, which fails at that call to the file system or where its files reach that size, or None."""

    def fail():
        raise error(errno.ENOSPC, "No space left on device") if error is OSError else error

    with failing(call, size, fail):
        try:
            act()
        except BaseException as raised:
            return raised
    return None
''',
    "killed": '''
def killed(act, *, call=0, size=None):
    """Calls `act` in a copy of this process, which is killed then."""
    process = os.fork()
    if process:
        return os.waitpid(process, 0)
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        with failing(call, size, lambda: os.kill(os.getpid(), signal.SIGKILL)):
            act()
    finally:
        os._exit(0)
''',
    "alike": '''
def alike(one, other):
    """Whether two storages hold the same rows."""
    if one.shape is None or one.shape != other.shape:
        return False
    rows = slice(0, one.shape[0])
    try:
        return bool((one.get(rows) == other.get(rows)).all())
    except (KeyError, RuntimeError):
        return False
''',
    "surroundings": '''
def surroundings(folder, apart=None):
    """Everything in a folder, `apart` excepted: the bytes of files, where links lead, None for folders."""
    found = {}
    for path in [folder, *folder.rglob("*")]:
        if (path.is_symlink() or path.exists()) and path != apart and apart not in path.parents:
            content = path.read_bytes() if path.is_file() else None
            found[path] = os.readlink(path) if path.is_symlink() else content
    return found
''',
    "neighbourhood": '''
def neighbourhood(around, names):
    """A folder with files in it, and beside the path in it to which a dump is to go."""
    for place in (around, around / "in/here"):
        for name in names:
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            (place / name).write_text(name)
    return around
''',
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
    if isinstance(data, torch.Tensor) and not hasattr(data, "_tensordict"):
        if data.dtype == torch.bool:
            data.logical_not_()
        elif data.dtype.itemsize > 1 or not data.dtype.is_floating_point:
            data.add_(1)
    else:
        data = getattr(data, "_tensordict", data)  # of a tensorclass
        values = data.values() if hasattr(data, "values") else data
        for entry in values if not isinstance(data, str | None) else ():
            change(entry)
''',
    "add_fields": '''
def add_fields(value):
    """One field more in every container that can be changed."""
    inner = getattr(value, "_tensordict", value)
    if isinstance(inner, torch.Tensor):
        return
    for entry in inner.values() if hasattr(inner, "values") else inner if isinstance(inner, tuple | list) else ():
        add_fields(entry)
    with contextlib.suppress(Exception):
        if hasattr(inner, "batch_size"):
            inner["new"] = torch.zeros(inner.batch_size)
        elif isinstance(inner, dict):
            inner["new"] = torch.zeros(2)
        elif isinstance(inner, list):
            inner.append(torch.zeros(2))
''',
    "remove_fields": '''
def remove_fields(value):
    """No field left in any container that can be changed."""
    inner = getattr(value, "_tensordict", value)
    if isinstance(inner, torch.Tensor):
        return
    for entry in list(inner.values()) if hasattr(inner, "values") else inner if isinstance(inner, tuple | list) else ():
        remove_fields(entry)
    with contextlib.suppress(Exception):
        for key in list(inner.keys()) if hasattr(inner, "keys") else ():
            del inner[key]
        if isinstance(inner, list):
            inner.clear()
''',
    "may_refuse": '''
@contextlib.contextmanager
def may_refuse(*kinds):
    """The calls inside may be refused with one of these; where they are not, the rest has to hold."""
    with contextlib.suppress(*kinds):
        yield
''',
    "file_of": '''
def file_of(dump, name):
    """A file of a dump: the one of this name, or the largest one where a storage names its files otherwise."""
    if (dump / name).is_file() or dump.is_file():
        return dump / name if dump.is_dir() else dump
    return max((f for f in dump.rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
''',
    "same": '''
def same(actual, expected):
    """Equal in dtype, shape and every bit."""
    if not isinstance(actual, torch.Tensor) or actual.dtype != expected.dtype or actual.shape != expected.shape:
        return False
    one, two = (t.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1) for t in (actual, expected))
    return not one.numel() or one.clone().view(torch.uint8).tolist() == two.clone().view(torch.uint8).tolist()
''',
    "Entity": _ENTITIES,
    "Watching": '''
class Watching(Entity):
    """Looks at the storage when it is told."""

    def __init__(self, storage):
        super().__init__()
        self.storage = storage

    def mark_update(self, index):
        super().mark_update(index)
        self.length = len(self.storage)
        self.rows = self.storage.get(range(self.storage.shape[0]))
''',
    "Slotted": '''
class Slotted:
    """Has no `__dict__`, and no weak reference can be made to it."""

    __slots__ = ()

    def mark_update(self, index):
        order.append(self)
''',
    "Hollow": '''
class Hollow(Entity):
    """Is false in a condition, as an empty buffer is."""

    def __len__(self):
        return 0
''',
    "Twin_": '''
class Twin_(Entity):
    """Equal to every other one, and not hashable."""

    __hash__ = None

    def __eq__(self, other):
        return isinstance(other, Twin_)
''',
    "FrozenTwin": '''
class FrozenTwin(Entity):
    """Equal to every other one, with the same hash."""

    def __hash__(self):
        return 0

    def __eq__(self, other):
        return isinstance(other, FrozenTwin)
''',
    "Agreeable": '''
class Agreeable(Entity):
    """Equal to anything."""

    __hash__ = None

    def __eq__(self, other):
        return True
''',
    "Stubborn": '''
class Stubborn(Entity):
    """Cannot be compared, as an array of several elements."""

    __hash__ = None

    def __eq__(self, other):
        raise ValueError("the truth value is ambiguous")
''',
    "Namespace": """
def Namespace():
    entity = SimpleNamespace()
    entity.mark_update = lambda index: order.append(entity)
    return entity
""",
    "Class": """
def Class():
    def mark_update(entity, index):
        order.append(entity)

    return type("Entity", (), {"mark_update": classmethod(mark_update)})
""",
    "Broken": '''
class Broken:
    """An entity that raises."""

    def __init__(self, error):
        self.error = error

    def mark_update(self, index):
        raise self.error("a broken listener")
''',
    "Own": '''
class Own(Exception):
    """An exception that no storage knows."""
''',
    "as_parameters": '''
def as_parameters(data):
    """The same data, each tensor a parameter."""
    if isinstance(data, torch.Tensor):
        return torch.nn.Parameter(data) if data.is_floating_point() or data.is_complex() else data
    return data.apply(as_parameters)
''',
}
