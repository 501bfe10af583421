"""Dumps of the reference with something wrong in them, and what a load makes of each.

A load may refuse with `CheckpointError` and leave its target as it was, or load exactly what was written. Where only
the checksums are right, and the rest is the work of an enemy, it may also refuse for another documented reason, or load
something else: but it must not crash, hang, ask for more memory than the file can justify, or leave a target half
loaded.
"""

from __future__ import annotations

import json
import os
import random
import signal
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tensordict import NonTensorData, TensorDict

from lazy_tensor_storage import CheckpointError, LazyTensorStorage

FILE = "storage.safetensors"
SECONDS = 20
MEBIBYTES = 64
"""What a load may need of memory for a dump of a few kilobytes."""


@dataclass
class Tally:
    """What came of damaged dumps of one kind."""

    what: str
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        return bool(self.outcomes) and not self.wrong

    def __str__(self) -> str:
        found = ", ".join(f"{count:,} {name}" for name, count in sorted(self.outcomes.items()))
        wrong = "".join(f"\n    WRONG: {line}" for line in self.wrong[:9])
        return f"{self.what:<44} {self.outcomes.total():>9,} loads: {found}{wrong}"


def small(rows: int = 3) -> LazyTensorStorage:
    """A storage of tensors, bools, nested keys and values, whose dump has little more than a kilobyte."""
    storage = LazyTensorStorage(6)
    data = TensorDict(
        a=torch.arange(rows),
        b=TensorDict(c=torch.ones(rows, 2, dtype=torch.bool), batch_size=[rows]),
        s=NonTensorData("text", batch_size=[rows]),
        batch_size=[rows],
    )
    storage.set(range(rows), data)
    return storage


def contents(storage: LazyTensorStorage) -> Any:
    rows = [(item["a"].item(), item["b", "c"].tolist(), item["s"]) for item in storage]
    return storage.shape, storage.last_row, rows


class Fuzz:
    """Loads one damaged dump after the other into a used storage and a fresh one, in turns.

    Args:
        folder: where the dump lies.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        small().dumps(folder)
        self.file = folder / FILE
        self.whole = self.file.read_bytes()
        self.right = contents(small())
        self.used = small(5)
        self.before = contents(self.used)
        self._turn = 0

    def load(self, content: bytes | None, tally: Tally, name: str, *, enemy: bool = False) -> None:
        """Loads `content` in place of the dump; what lies there already if it is None."""
        if content is not None:
            self.file.write_bytes(content)
        self._turn += 1
        fresh = self._turn % 2 == 0
        target = LazyTensorStorage(6) if fresh else self.used
        signal.alarm(SECONDS)
        try:
            target.loads(self.folder)
        except CheckpointError:
            tally.outcomes["refused"] += 1
        except (ValueError, TypeError, MemoryError) as error:
            tally.outcomes["refused for another reason"] += 1
            if not enemy:
                tally.wrong.append(f"{name}: {type(error).__name__}: {error}")
        except Exception as error:
            tally.outcomes["failed"] += 1
            tally.wrong.append(f"{name}: {type(error).__name__}: {error}")
        else:
            self._loaded(target, tally, name, enemy=enemy)
            self.used = small(5)
            return
        finally:
            signal.alarm(0)
        if (target.shape is not None) if fresh else (contents(target) != self.before):
            tally.wrong.append(f"{name}: refused, but the target changed")

    def _loaded(self, target: LazyTensorStorage, tally: Tally, name: str, *, enemy: bool) -> None:
        if enemy:
            tally.outcomes["loaded"] += 1
            list(target)  # whatever it is, it can be read
        elif contents(target) == self.right:
            tally.outcomes["loaded, all right"] += 1
        else:
            tally.outcomes["loaded, not right"] += 1
            tally.wrong.append(f"{name}: loaded something else")


def every_truncation(fuzz: Fuzz) -> Tally:
    """The file cut to every length."""
    tally = Tally("cut to every length")
    for length in range(len(fuzz.whole)):
        fuzz.load(fuzz.whole[:length], tally, f"the first {length} bytes")
    return tally


def every_byte(fuzz: Fuzz, values: Callable[[int], Iterator[int]]) -> Tally:
    """Every byte changed to each of some values, the file otherwise whole."""
    tally = Tally("each byte changed")
    fuzz.file.write_bytes(fuzz.whole)
    with fuzz.file.open("r+b", buffering=0) as file:
        for place, right in enumerate(fuzz.whole):
            for value in values(right):
                os.pwrite(file.fileno(), bytes([value]), place)
                fuzz.load(None, tally, f"byte {place} is {value}, not {right}")
            os.pwrite(file.fileno(), bytes([right]), place)
    return tally


def all_values(right: int) -> Iterator[int]:
    return (value for value in range(256) if value != right)


def one_bit(right: int) -> Iterator[int]:
    return (right ^ 1 << bit for bit in range(8))


def at_random(fuzz: Fuzz, count: int, seed: int) -> Tally:
    """Bytes changed, inserted, removed, repeated and moved, several at a time."""
    tally, draw = Tally("corrupted at random"), random.Random(seed)
    for number in range(count):
        fuzz.load(_corrupted(fuzz.whole, draw), tally, f"corruption {number} of seed {seed}")
    return tally


def _corrupted(whole: bytes, draw: random.Random) -> bytes:
    content = bytearray(whole)
    for _ in range(draw.choice((1, 1, 2, 3, 8))):
        place = draw.randrange(len(content) + 1)
        length = draw.choice((1, 1, 2, 4, 8, 64, 512))
        act = draw.randrange(6)
        if act == 0:
            content[place : place + length] = draw.randbytes(len(content[place : place + length]))
        elif act == 1:
            content[place:place] = draw.randbytes(length)
        elif act == 2:
            del content[place : place + length]
        elif act == 3:
            content[place:place] = content[place : place + length]
        elif act == 4:
            other = draw.randrange(len(content) + 1)
            piece = content[place : place + length]
            content[other : other + len(piece)] = piece
        else:
            content[place : place + length] = bytes(len(content[place : place + length]))
    return bytes(content)


# The work of an enemy, who can count check sums too ------------------------------------------------------------------


def sealed(whole: bytes, change: Callable[[dict[str, Any], dict[str, Any]], None]) -> bytes:
    """A dump with its manifest and the rest of its header changed, and every checksum right."""
    end = 8 + int.from_bytes(whole[:8], "little")
    header = json.loads(whole[8:end])
    manifest = json.loads(header["__metadata__"]["manifest"])
    change(manifest, header)
    text = json.dumps(manifest, separators=(",", ":"))
    header["__metadata__"] = {"manifest": text, "manifest.crc32": f"{zlib.crc32(text.encode()):08x}"}
    return with_header(json.dumps(header, separators=(",", ":")).encode(), whole[end:])


def with_header(head: bytes, rest: bytes) -> bytes:
    head += b" " * (-len(head) % 8)
    return len(head).to_bytes(8, "little") + head + rest


def changed_at_random(fuzz: Fuzz, count: int, seed: int) -> Tally:
    """Values in the manifest replaced by others, with right checksums."""
    tally, draw = Tally("manifest changed at random, sums right"), random.Random(seed)

    def change(manifest: dict[str, Any], header: dict[str, Any]) -> None:
        for _ in range(draw.choice((1, 1, 2, 3))):
            holder = draw.choice([manifest, manifest, header])
            while True:
                keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
                if not keys:
                    break
                key = draw.choice(keys)
                if isinstance(holder[key], dict | list) and draw.random() < 0.8:
                    holder = holder[key]
                    continue
                holder[key] = deepcopy(draw.choice(ODD))
                break

    for number in range(count):
        content = sealed(fuzz.whole, change)
        fuzz.load(content, tally, f"change {number} of seed {seed}", enemy=True)
    return tally


ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 2**31, 2**40, 2**62, 2**63, 2**64, -(2**63), 1e308, -0.5, "", "a", "../x",
    "/", "\0", "0", "leaf.0", "values", "float32", "float64", "bool", "object", "tensor", "value", "tensordict",
    "tensorclass", "dict", "tuple", "namedtuple", "os:path", [], [0], [2**62], [-1], [[]], {}, {"is": "tensor"},
    [["a", {}]], "\ud800",
)  # fmt: skip


def hostile(fuzz: Fuzz) -> Iterator[tuple[str, bytes]]:
    """Files that mean to take time or memory."""
    rest = fuzz.whole[8 + int.from_bytes(fuzz.whole[:8], "little") :]
    yield "an empty file", b""
    for length in (0, 1, 2**31, 2**40, 2**63 - 1, 2**64 - 1):
        yield f"a header of {length} bytes", length.to_bytes(8, "little") + fuzz.whole[8:]
    yield "a header that never ends", with_header(b"{" + b" " * 10**6, rest)
    for brackets in (b"[", b'{"a":', b'[{"a":'):
        yield f"10^6 times {brackets.decode()}", with_header(brackets * 10**6, rest)
    yield "10^6 keys", with_header(json.dumps({str(n): n for n in range(10**6)}).encode(), rest)
    yield "a key that stands twice", fuzz.whole.replace(b'"values":{', b'"leaf.0":{')
    for rows in (2**31, 2**40, 2**62, 2**63, 2**200, -1, 1e9, None):
        yield f"{rows} rows", sealed(fuzz.whole, lambda m, _, rows=rows: m.update(rows=rows))
        yield f"{rows} bytes of values", sealed(fuzz.whole, lambda m, _, rows=rows: m.update(values=rows))
        yield (
            f"{rows} trailing",
            sealed(fuzz.whole, lambda m, _, rows=rows: m.update(ndim=2, trailing=[rows])),
        )

    def empty_rows(manifest: dict[str, Any], header: dict[str, Any]) -> None:
        manifest.update(rows=2**62)
        for _, child in manifest["tree"]["fields"][:1]:
            child["shape"] = [0]

    yield "2^62 rows without bytes", sealed(fuzz.whole, empty_rows)

    def deep(levels: int) -> Callable[[dict[str, Any], dict[str, Any]], None]:
        def change(manifest: dict[str, Any], header: dict[str, Any]) -> None:
            for _ in range(levels):
                manifest["tree"] = {"is": "tensordict", "batch": [], "fields": [["a", manifest["tree"]]]}

        return change

    for levels in (50, 200, 300):
        yield f"{levels} levels", sealed(fuzz.whole, deep(levels))

    def wide(manifest: dict[str, Any], header: dict[str, Any]) -> None:
        child = manifest["tree"]["fields"][0][1]
        manifest["tree"]["fields"] = [[str(n), dict(child, at=n)] for n in range(10**5)]

    yield "10^5 leaves", sealed(fuzz.whole, wide)


def hostile_files(fuzz: Fuzz) -> Tally:
    """Each of `hostile`, with the memory that it takes."""
    tally = Tally("hostile headers")
    for name, content in hostile(fuzz):
        fuzz.file.write_bytes(content)
        allowed = MEBIBYTES + 24 * len(content) // 2**20  # JSON as Python's objects
        before = _peak(reset=True)
        for _ in range(2):  # into a used storage and into a fresh one
            fuzz.load(None, tally, name, enemy=True)
        if (taken := _peak() - before) > allowed:
            tally.wrong.append(f"{name}: took {taken} MiB for {len(content)} bytes")
    return tally


def _peak(*, reset: bool = False) -> int:
    """The most memory that this process had at one time (since `reset`), in MiB."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024
