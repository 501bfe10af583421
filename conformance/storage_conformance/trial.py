"""One storage and its model, side by side: each method is the story of one step of a program.

Machines draw the arguments, and failures are explained by replaying these methods with simpler ones. `Pair` compares,
`Calls` writes and reads; here are the steps after which the program goes on with what was dumped or copied.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tensordict import TensorDictBase, is_tensorclass

from storage_conformance.batch import Batch
from storage_conformance.calls import Calls, change
from storage_conformance.concern import (
    INDEX_REQUIREMENTS,
    dtype_requirement,
    index_requirement,
    structure_requirements,
)
from storage_conformance.damage import altered, copied, cut, files_of, missing, removed, shown_file
from storage_conformance.index import Index
from storage_conformance.interrupted import Place, dump_again, dump_killed, dump_midway, holds
from storage_conformance.interruption import Moment
from storage_conformance.lab import Lab
from storage_conformance.model import Model
from storage_conformance.recorder import Raised, error_of
from storage_conformance.steps import Setup, Step
from storage_conformance.subject import Literal, Subject
from storage_conformance.verification import Blame, law

__all__ = [
    "INDEX_REQUIREMENTS", "Blame", "Setup", "Step", "Trial", "change", "dtype_requirement", "index_requirement", "law",
    "structure_requirements",
]  # fmt: skip

ERRORS: dict[str, type[BaseException]] = {"OSError": OSError, "KeyboardInterrupt": KeyboardInterrupt}
HARM = (("CKPT-15", (missing, cut)), ("CKPT-16", (altered,)))


class Trial(Calls):
    """A whole program on a storage under test beside its model.

    Attributes:
        dumps: paths of dumps written by the program, with the model of that moment.
    """

    def __init__(self, lab: Lab, setup: Setup) -> None:
        super().__init__(lab, setup)
        self.dumps: dict[int, tuple[Path, Model]] = {}

    # --- dumps, copies, clear --------------------------------------------------------------------------------------

    def dump(self, slot: int, verb: str = "dumps") -> None:
        """A dump, over the older one of that slot if there is one."""
        path = self.dumps[slot][0] if slot in self.dumps else self.lab.path()
        with self.lab.checking("CKPT-20"):
            self.storage.call(verb, Literal(path, f'folder / "{slot}"'))
        self.verify(law("CKPT-21"))
        if slot in self.dumps:
            self._count("CKPT-19")
        if verb != "dumps":
            self._count("CKPT-1")
        self.dumps[slot] = path, self.model.copy()

    def load(self, slot: int, verb: str = "loads") -> None:
        """A load into the storage of the program."""
        path, dumped = self.dumps[slot]
        fresh = self.model.fresh
        with self.lab.checking("CKPT-5" if fresh else "CKPT-9"):
            self.storage.call(verb, Literal(path, f'folder / "{slot}"'))
        self._count("CKPT-10", "CKPT-18")
        self._loaded(dumped, "CKPT-5" if fresh else "CKPT-9")

    def load_elsewhere(self, slot: int, size: int) -> None:
        """A load into a fresh storage of another size, with which the program goes on."""
        path, dumped = self.dumps[slot]
        self._replace(self.another(size), Model(size, self.model.ndim, self.model.trailing, self.model.node))
        alike = self.model.capacity == dumped.capacity
        with self.lab.checking("CKPT-5" if alike else "CKPT-10"):
            self.storage.call("loads", Literal(path, f'folder / "{slot}"'))
        self._count("CKPT-10", "CKPT-18")
        self._loaded(dumped, "CKPT-5")

    def refuse_load(self, slot: int, size: int) -> None:
        """A load of more rows than fit, into a fresh storage."""
        path, _ = self.dumps[slot]
        small = self.another(size)
        self.lab.refused(
            "CKPT-11", lambda: small.call("loads", Literal(path, f'folder / "{slot}"')), what="the load"
        )
        model = Model(size, self.model.ndim, self.model.trailing, self.model.node)
        self.verify_other(small, model, law("ERR-3"))

    def dump_midway(self, slot: int, moment: Moment, error: str) -> None:
        """A dump that raises, over the older one of that slot if there is one; the next one is complete."""
        self._dump_again(slot, partial(dump_midway, moment=moment, error=ERRORS[error]))

    def dump_killed(self, slot: int, moment: Moment) -> None:
        """A dump whose process is killed; the next one is complete."""
        self._dump_again(slot, partial(dump_killed, moment=moment))

    def _dump_again(self, slot: int, failing: Callable[[Trial, Place], None]) -> None:
        """A dump that fails, after seeing that both dumps can be loaded where none fails, and one that does not."""
        path, model = self.dumps[slot] if slot in self.dumps else (self.lab.path(), None)
        size = max(self.model.size, model.size if model else 0)
        shown = f'folder / "{slot}"'
        if model is not None and not self._load_aside(path, model, size, name="older", shown=shown):
            return
        sound = self.lab.path()
        with self.lab.checking("CKPT-20"):
            self.storage.call("dumps", Literal(sound, f'folder / "{sound.name}"'))
        exact = self._load_aside(sound, self.model, size, shown=f'folder / "{sound.name}"')
        removed(sound)
        if not exact:
            return
        place = Place(path, shown, size, None if model is None else (self.setup, model))
        failing(self, place)
        dump_again(self, place)
        self.dumps[slot] = path, self.model.copy()

    def load_damaged(self, slot: int, file: int, number: int, used: bool) -> None:
        """A load of a damaged copy of a dump, into a storage that is fresh or used: it is refused, or exact."""
        path, dumped = self.dumps[slot]
        if not self._load_aside(path, dumped, dumped.size, shown=f'folder / "{slot}"'):
            return None
        copy = copied(self.lab, path)
        slot_shown, shown = f'folder / "{slot}"', f'folder / "{copy.name}"'
        copies = f"(shutil.copytree if ({slot_shown}).is_dir() else shutil.copy)({slot_shown}, {shown})"
        self.storage.program.add("{}", Literal(None, copies))
        found = files_of(copy)
        name = found[file % len(found)]
        requirement, kinds = HARM[number % len(HARM)]
        harm = [damage for kind in kinds for damage in kind(copy / name)]
        damage = harm[number // len(HARM) % len(harm)]
        damage.act(copy / name)
        self.storage.program.add("{}", Literal(None, damage.text.replace("{}", shown_file(name, shown))))
        storage, model = self.another(dumped.size), self._fresh(dumped.size)
        if used:
            index, batch = Index("int", (0,)), Batch(self.model.node, self.model.trailing)
            with self.lab.checking("SET-1"):
                storage.set(index, batch)
            model.set(model.for_writing(index), batch)
        error = error_of(partial(storage.call, "loads", Literal(copy, shown)))
        removed(copy)
        if error is not None:
            self.lab.allowed(error)
            self._count(requirement)
            return self.verify_other(storage, model, law("ERR-3"))
        model.take(dumped)
        return self.verify_other(storage, model, law(requirement))

    def _load_aside(self, path: Path, dumped: Model, size: int, *, shown: str, name: str = "") -> bool:
        """Loads a sound dump into one more storage; whether that is exact: else it is no matter of damage."""
        storage, model = self.another(size, name), self._fresh(size)
        with self.lab.checking("CKPT-5" if model.capacity == dumped.capacity else "CKPT-10"):
            storage.call("loads", Literal(path, shown))
        model.take(dumped)
        self.verify_other(storage, model, self._blame("CKPT-5", fresh=True))
        return holds(self, storage, size, (self.setup, dumped), "CKPT-5")

    def _fresh(self, size: int) -> Model:
        return Model(size, self.model.ndim, self.model.trailing, self.model.node)

    def _blame(self, rows: str, *, fresh: bool) -> Blame:
        return Blame(
            "CKPT-6", rows, max_size="CKPT-10", shape="CKPT-6", others=rows, last_row="CKPT-23", text="CKPT-8",
            structure="CKPT-7" if fresh else "", device="DEV-8" if self.setup.device == "auto" else "",
        )  # fmt: skip

    def _loaded(self, dumped: Model, rows: str) -> None:
        fresh = self.model.fresh
        self.model.take(dumped)
        self.verify(self._blame(rows, fresh=fresh))
        self._count(
            "CKPT-7" if fresh else rows,
            *(("CKPT-8",) if "DATA-16" in self._claims or "DATA-17" in self._claims else ()),
        )
        self._told("OBS-3", self._all_rows())

    def deepcopy(self) -> None:
        """The program goes on with a deep copy; the original must not follow."""
        original, model = self.storage, self.model
        with self.lab.checking("COPY-1"):
            try:
                copied = original.deepcopy(self.unused_name())
            except Raised as raised:
                if isinstance(raised.error, TypeError):
                    return
                raise
        self._replace(copied, model.copy())
        self.verify(law("COPY-1"))
        self.twin = original, model, "COPY-2"

    def pickle(self) -> None:
        """The program goes on with the unpickled storage; the original must not follow."""
        original, model = self.storage, self.model
        with self.lab.checking("COPY-3"):
            copied = original.repickled(self.unused_name())
        self._replace(copied, model.copy())
        self.verify(law("COPY-3"))
        self.twin = original, model, "COPY-2"

    def transfer(self, size: int | None) -> None:
        """The program goes on with another storage that loaded the state dict; the original must not follow.

        With `size` None the state goes back into the same storage.
        """
        original, model = self.storage, self.model
        state = self._state_dict(original)
        if size is not None:
            self._replace(self.another(size), Model(size, model.ndim, model.trailing, model.node))
        rows = "COPY-6" if size is None else "COPY-5"
        with self.lab.checking(rows):
            self.storage.call("load_state_dict", state)
        if self.model is not model:
            self.model.take(model)
        self.verify(
            Blame(
                rows,
                rows,
                max_size="COPY-8",
                shape=rows,
                others=rows,
                last_row="COPY-10",
                structure=rows,
                text=rows,
            )
        )
        self._count("COPY-8")
        if size is not None:
            self.twin = original, model, "COPY-7"
        self._told("OBS-3", self._all_rows())

    def rewind(self, batch: Batch) -> None:
        """A state dict that is taken, followed by a write, and loaded again into the same storage."""
        before = self.model.copy()
        with self.lab.checking("COPY-5"):
            state = self.storage.call("state_dict")
        self.storage.program.precede("state = copy.deepcopy(")
        self.storage.program.follow(")")
        frozen = Literal(_cloned(state), "state")
        self.write(Index("int", (0,)), batch)
        with self.lab.checking("COPY-6"):
            self.storage.call("load_state_dict", frozen)
        self.model.take(before)
        self.verify(
            Blame(
                "COPY-6",
                "COPY-6",
                max_size="COPY-8",
                shape="COPY-6",
                others="COPY-6",
                last_row="COPY-10",
                text="COPY-6",
            )
        )
        self._told("OBS-3", self._all_rows())

    def _state_dict(self, storage: Subject) -> Literal:
        with self.lab.checking("COPY-5"):
            state = storage.call("state_dict")
        storage.program.precede("state = ")
        return Literal(state, "state")

    def clear(self) -> None:
        with self.lab.checking("QRY-9"):
            self.storage.call("clear")
        self.model.clear()
        self.journal.clear()  # whether a clear is told is left open
        self.verify(
            Blame("QRY-9", "QRY-9", max_size="QRY-10", device="QRY-10", shape="QRY-9", last_row="QRY-9")
        )


def _cloned(value: Any) -> Any:
    """A deep copy that clones tensors of every kind."""
    if isinstance(value, torch.Tensor | TensorDictBase) or is_tensorclass(value):
        return value.clone()
    if isinstance(value, dict):
        copied = copy.copy(value)  # of the same type: an OrderedDict with attributes of its own stays one
        copied.update({key: _cloned(entry) for key, entry in value.items()})
        return copied
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return type(value)(_cloned(entry) for entry in value)
    return value
