"""One storage and its model, side by side, with the entities that are told: what every step of a program compares."""

from __future__ import annotations

from typing import Any

from storage_conformance.concern import structure_requirements
from storage_conformance.index import Span
from storage_conformance.lab import Lab
from storage_conformance.listener import Journal, Listener, check_index
from storage_conformance.model import Model
from storage_conformance.recorder import Violation
from storage_conformance.steps import Setup
from storage_conformance.subject import Literal, Subject
from storage_conformance.verification import Blame, Verification, law

__all__ = ["Pair"]


class Pair:
    """A storage under test beside its model.

    Attributes:
        storage: the storage that the program goes on with; a load or a copy may replace it.
        model: what it should hold.
        twin: the storage that a copy was made of, which must not follow.
        listeners: the entities attached, in order.
    """

    def __init__(self, lab: Lab, setup: Setup) -> None:
        self.lab = lab
        self.setup = setup
        self.verification = Verification(lab, setup)
        lab.start()
        self.model = Model(setup.size, setup.ndim, setup.trailing, setup.node)
        self.storage = self.another(setup.size, "storage")
        self.twin: tuple[Subject, Model, str] | None = None
        self.journal = Journal()
        self.listeners: list[Listener] = []
        self._names = 0
        for _ in range(setup.listeners):
            self.attach()
        self._claims = structure_requirements(setup.node)
        self.verify(Blame("LEN-1", "LEN-1", max_size="CAP-1", shape="LEN-1"))

    # --- entities --------------------------------------------------------------------------------------------------

    def attach(self) -> None:
        """One more entity; the first one looks at the storage whenever it is told."""
        name = f"entity{len(self.listeners)}"
        listener = Listener(name, self.journal, None if self.listeners else self.storage)
        with self.lab.checking("OBS-1"):
            watching = "Entity()" if self.listeners else f"Watching({self.storage.name})"
            self.storage.call("attach", Literal(listener, f"{name} := {watching}"))
        self.listeners.append(listener)

    def detach(self) -> None:
        listener = self.listeners.pop()
        with self.lab.checking("OBS-13"):
            self.storage.call("detach", Literal(listener, listener.name))

    def _told(self, requirement: str, span: Span | None) -> None:
        """Checks who was told what since the last step; nobody, if `span` is None or empty."""
        calls, names = list(self.journal), [listener.name for listener in self.listeners]
        self.journal.clear()
        if span is None or not span.cells:
            if self.listeners:
                with self.lab.checking("OBS-11"):
                    if calls:
                        name = calls[0].name
                        self.storage.program.before_last("forget()")
                        raise Violation(
                            f"{name} was told although nothing changed",
                            claim=f"told({name}) == 0",
                            actual=str(len(calls)),
                        )
            return
        if not (names or calls):
            return
        with self.lab.checking(requirement):
            counts = {name: sum(call.name == name for call in calls) for name in names}
            for name, times in counts.items():
                if times != 1:
                    self.storage.program.before_last("forget()")
                    raise Violation(
                        f"{name}.mark_update was called {times} times",
                        claim=f"told({name}) == 1",
                        actual=str(times),
                    )
        if strangers := {call.name for call in calls} - set(names):
            with self.lab.checking("OBS-13"):
                name = min(strangers)
                self.storage.program.before_last("forget()")
                raise Violation(f"{name} was told although it is not attached", claim=f"told({name}) == 0")
        with self.lab.checking("OBS-4"):
            if [call.name for call in calls] != names:
                self.storage.program.before_last("forget()")
                raise Violation(
                    f"told in the order {[call.name for call in calls]}, attached in the order {names}",
                    claim=f"told_in_order({', '.join(names)})",
                )
        for call in calls:
            with self.lab.checking("OBS-9" if self.model.ndim == 1 else "OBS-10"):
                check_index(call.index, span, self.model.ndim, f"{call.name}.calls[-1]")
        with self.lab.checking("OBS-5"):
            self._check_seen(calls[0])

    def _check_seen(self, call: Any) -> None:
        if isinstance(call.length, Exception):
            raise Violation(f"reading the storage inside mark_update raised {call.length}")
        if call.length is None:
            return
        if call.length != len(self.model):
            raise Violation(
                f"the length inside mark_update was {call.length}, afterwards it is {len(self.model)}",
                claim=f"{call.name}.length == {len(self.model)}",
                actual=str(call.length),
            )
        rows = (self.model.readable, *self.model.trailing)
        self._compare(call.rows, self._all_rows(), rows, f"{call.name}.rows")

    # --- comparing -------------------------------------------------------------------------------------------------

    def verify(self, blame: Blame, touched: set[int] | None = None) -> None:
        """Compares everything that can be observed of the storage with the model."""
        self.verification.verify(self.storage, self.model, blame, touched or set())

    def verify_other(self, storage: Subject, model: Model, blame: Blame) -> None:
        """The same for another storage of the program."""
        self.verification.verify(storage, model, blame, set())

    def _verify_twin(self) -> None:
        if self.twin:
            storage, model, requirement = self.twin
            self.verify_other(storage, model, law(requirement))

    def _compare(self, value: Any, span: Span, lead: tuple[int, ...], expression: str = "") -> None:
        self.verification.compare(self.model, value, span, lead, expression)

    def _all_rows(self) -> Span:
        return Span(
            tuple(range(len(self.model))), (self.model.readable, *self.model.trailing), self.model.trailing
        )

    def another(self, size: int, name: str = "") -> Subject:
        """One more fresh storage made as that of the program, of another size, under a name not yet used."""
        options: dict[str, Any] = {}
        if self.setup.ndim != 1:
            options["ndim"] = self.setup.ndim
        if self.setup.device != "cpu":
            options["device"] = self.setup.device
        with self.lab.checking("NEW-1"):
            return self.lab.make(size, name=name or self.unused_name(), **options)

    def _replace(self, storage: Subject, model: Model) -> None:
        """The program goes on with another storage, to which nobody is attached."""
        self.storage, self.model, self.twin = storage, model, None
        self.journal = Journal()
        self.listeners = []

    def unused_name(self) -> str:
        """A variable name for one more storage."""
        self._names += 1
        return f"storage{self._names}"

    def _count(self, *requirements: str) -> None:
        self.lab.recorder.evaluations.update(requirements)
