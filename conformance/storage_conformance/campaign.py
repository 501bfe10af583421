"""Runs the machine and the checks on one backend, and finds out about each requirement.

The hunt never stops at a failure: it writes the requirement down with the shortest program seen so far and goes on
with a fresh storage, so that one fault does not hide another. Only then the program of each requirement that failed,
and was not expected to, is made small.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, nullcontext, suppress
from functools import partial
from types import TracebackType
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky, HypothesisException
from hypothesis.stateful import run_state_machine_as_test

from storage_conformance import accelerator, suite
from storage_conformance.attribution import attribute
from storage_conformance.backend import Backend
from storage_conformance.backends.reference import backend as reference
from storage_conformance.finding import Failure, Finding
from storage_conformance.interruption import can_kill
from storage_conformance.lab import Lab, poisoned_memory, scratch
from storage_conformance.machines.storage import StorageMachine
from storage_conformance.profile import Profile
from storage_conformance.recorder import Found, Recorder
from storage_conformance.reduction import reduced
from storage_conformance.requirements import specification
from storage_conformance.script import Counterexample, importable, stand_alone
from storage_conformance.suite.check import CHECKS, Check
from storage_conformance.trial import Setup, Step
from storage_conformance.trimming import trimmed

__all__ = ["Campaign", "SmokeError"]

MACHINE = "machine"
ATTEMPTS = 3
"""How often a hunt begins anew, with another seed, on a storage that does not act alike twice."""

ATTRIBUTIONS = 60
"""How many violations of one requirement are traced to who answers for them; more would say nothing new."""


class SmokeError(Exception):
    """The backend cannot be built (`built` is False), or not written once and read once."""

    def __init__(self, message: str, *, built: bool) -> None:
        super().__init__(message)
        self.built = built


class Shown(AssertionError):
    """Lets Hypothesis shrink: the requirement in question is violated."""


class Campaign:
    """All that is found out about one backend in one session.

    Args:
        backend: the storage under test.
        selected: ids of the requirements to look at.
        profile: how long to hunt.
        seed: decides every draw.
        expected: ids that are known to fail; their programs are not shrunk.
        device: where storages live.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        selected: frozenset[str],
        profile: Profile,
        seed: int,
        expected: frozenset[str] = frozenset(),
        device: str = "cpu",
    ) -> None:
        self.backend = backend
        self.device = device
        self.selected = frozenset(i for i in selected if self.applies(i) is None)
        self.profile = profile
        self.seed = seed
        self.expected = expected
        self.recorder = Recorder()
        self.failures: dict[str, Failure] = {}
        self._stack = ExitStack()
        self._done: set[str] = set()
        self._met: Counter[str] = Counter()
        self._shown: dict[str, tuple[Counterexample, Found]] = {}
        self._programs: dict[str, tuple[Setup, tuple[Step, ...]]] = {}

    def __enter__(self) -> Campaign:
        self._stack.enter_context(self.backend.context())
        self._folder = self._stack.enter_context(scratch())
        load_checks()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def applies(self, requirement: str) -> str | None:
        """None, or the reason why a requirement is not tested on this backend."""
        for feature in specification().requirements[requirement].features:
            if feature == "accelerator":
                if self.device == "cpu":
                    return "needs an accelerator (--conformance-device)"
            elif feature == "fork" and not (self.device == "cpu" and can_kill()):
                return "needs os.fork, and a process without accelerators"
            elif feature in self.backend.refuses:
                return f"feature `{feature}` is refused"
            elif feature not in self.backend.features:
                return f"feature `{feature}` is not claimed"
        return None

    def smoke(self) -> None:
        """Makes a storage, writes one row and reads it.

        Raises:
            SmokeError: one of these raised.
        """
        options = {} if self.device == "cpu" else {"device": self.device}
        try:
            storage = self.backend.factory(2, **options)
        except Exception as error:
            raise SmokeError(
                f"the factory of {self.backend.name} raised {type(error).__name__}: {error}", built=False
            ) from error
        try:
            storage.set(0, torch.ones(2, device=self.device))
            storage.get(0)
        except Exception as error:
            raise SmokeError(
                f"{self.backend.name} could not be written once and read once: {type(error).__name__}: {error}",
                built=True,
            ) from error

    def finding(self, requirement: str) -> Finding:
        """Runs what evaluates a requirement, unless that was done, and says what was found."""
        for check in CHECKS.values():
            if requirement in check.requirements and self._selects(check):
                self._once(check.name, partial(self._hunt_check, check))
        self._once(MACHINE, self._hunt_machine)
        failure = self.failures.get(requirement)
        if failure and not failure.shrunk and requirement not in self.expected:
            self._once(f"shrink {requirement}", lambda: self._shrink(requirement))
        return Finding(requirement, self.recorder.evaluations[requirement], self.failures.get(requirement))

    # --- hunting ---------------------------------------------------------------------------------------------------

    def _selects(self, check: Check) -> bool:
        return any(requirement in self.selected for requirement in check.requirements)

    def _once(self, name: str, act: Callable[[], None]) -> None:
        if name not in self._done:
            self._done.add(name)
            act()

    def _hunt_machine(self) -> None:
        share = max(0.15, min(1.0, 2 * len(self.selected) / len(specification().requirements)))
        self._run_machine(max(20, int(self.profile.programs * share)))

    def _run_machine(self, examples: int) -> None:
        def on_found(machine: StorageMachine, found: Found) -> None:
            self._found(found, machine)

        lab = Lab(self.backend, self.recorder, self._folder, self.device)
        lab_class = type(
            f"{StorageMachine.__name__}_{self.backend.name}",
            (StorageMachine,),
            {"lab": lab, "on_found": on_found},
        )
        chosen = self._settings(examples, None, stateful_step_count=self.profile.steps)

        def run(number: int) -> None:
            seed(number)(lab_class)
            run_state_machine_as_test(lab_class, settings=chosen)

        with self._surroundings(poisoned=True):
            self._in_spite_of_chance(run)

    def _in_spite_of_chance(self, run: Callable[[int], None]) -> None:
        """Runs with our seed, and with others where a storage that acts by chance confuses Hypothesis."""
        for attempt in range(ATTEMPTS):
            with suppress(Flaky):
                return run(self.seed + 1000 * attempt)
        return None

    def _found(self, found: Found, machine: StorageMachine) -> None:
        assert machine.setup is not None
        self._met[found.requirement] += 1
        if self._met[found.requirement] > ATTRIBUTIONS:
            return
        program = machine.lab.program
        requirement = attribute(machine.lab, machine.setup, machine.steps, found)
        if self._record(requirement, found, program.render, None):
            self._programs[requirement] = machine.setup, tuple(machine.steps)

    def _hunt_check(self, check: Check) -> None:
        self._run_check(check, only=None)

    def _run_check(self, check: Check, only: str | None) -> None:
        lab = Lab(self.backend, self.recorder if only is None else Recorder(), self._folder, self.device)

        def noted(found: Found) -> bool:
            if only is None:
                self._record(found.requirement, found, lab.program.render, None)
            return found.requirement != only

        lab.noted = noted

        def once(**arguments: Any) -> None:
            lab.start()
            try:
                check.function(lab, **arguments)
            except Found as found:
                self._record(found.requirement, found, lab.program.render, only)

        with self._surroundings(poisoned=check.poisoned):
            if check.examples == 1:
                try:
                    once()
                except Shown:
                    assert only is not None
                return
            examples = max(2, int(check.examples * self.profile.examples))
            test = given(**check.arguments(self.backend.features))(once)
            decorated = self._settings(examples, only)(test)
            self._in_spite_of_chance(lambda number: seed(number)(decorated)())

    def _record(
        self, requirement: str, found: Found, render: Callable[[], tuple[str, ...]], only: str | None
    ) -> bool:
        """Writes a violation down if it is the first or a shorter one, and says whether it did."""
        if requirement not in self.selected or only not in (None, requirement):
            return False
        before = self.failures.get(requirement)
        steps = render()
        better = only is not None or before is None or len(steps) < len(before.steps)
        if better:
            self.failures[requirement] = self._failure(requirement, found, steps, shrunk=only is not None)
        if only is not None:
            raise Shown(found.message)
        return better

    def _failure(self, requirement: str, found: Found, calls: tuple[str, ...], *, shrunk: bool) -> Failure:
        program = Counterexample.of(calls, found)
        self._shown[requirement] = program, found
        return self._told(requirement, shrunk=shrunk)

    def _told(self, requirement: str, *, shrunk: bool) -> Failure:
        program, found = self._shown[requirement]
        script = stand_alone(
            program, make=self._make(), requirement=specification().requirements[requirement],
            backend=f"{self.backend.name} {self.backend.version}".strip(), seed=self.seed,
        )  # fmt: skip
        return Failure(program.message, program.shown, found.exception, shrunk, self.seed, script)

    def _make(self) -> str:
        """The lines of a script that define `make`."""
        make = self.backend.script or importable(self.backend.factory)
        if torch.device(self.device).type != accelerator.NAME:
            return make
        return f"from storage_conformance import accelerator\n\naccelerator.install()\n\n{make}"

    def _shrink(self, requirement: str) -> None:
        """Makes the counterexample small, and leaves out what has nothing to do with it."""
        self._reduce(requirement)
        program, found = self._shown[requirement]
        with self._surroundings(poisoned=True):
            program = trimmed(program, self.backend.factory, reference().factory)
        self._shown[requirement] = program, found
        self.failures[requirement] = self._told(requirement, shrunk=True)

    def _reduce(self, requirement: str) -> None:
        """Hypothesis makes the counterexamples of a check small, the reduction those of the machine."""
        for check in CHECKS.values():
            if (
                requirement in check.requirements
                and self._selects(check)
                and self._shrinks(check, requirement)
            ):
                return
        if requirement in self._programs:
            lab = Lab(self.backend, Recorder(), self._folder, self.device)
            with self._surroundings(poisoned=True):
                small = reduced(lab, *self._programs[requirement], requirement)
            if small is not None:
                found, lab = small
                self.failures[requirement] = self._failure(
                    requirement, found, lab.program.render(), shrunk=True
                )

    def _shrinks(self, check: Check, requirement: str) -> bool:
        hunted = self.failures[requirement]
        with suppress(Shown, HypothesisException, ExceptionGroup):
            self._run_check(check, requirement)
        return self.failures[requirement] is not hunted

    def _settings(self, examples: int, only: str | None, **more: Any) -> settings:
        return settings(
            max_examples=examples,
            phases=(Phase.generate,) if only is None else (Phase.generate, Phase.shrink),
            derandomize=False,
            database=None,
            deadline=None,
            print_blob=False,
            report_multiple_bugs=False,
            suppress_health_check=(
                HealthCheck.too_slow,
                HealthCheck.data_too_large,
                HealthCheck.differing_executors,
            ),
            backend="hypothesis",
            **more,
        )

    def _surroundings(self, *, poisoned: bool) -> ExitStack:
        stack = ExitStack()
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(poisoned_memory() if poisoned else nullcontext())
        return stack


def load_checks() -> None:
    """Imports every module of the suite, so that its checks are registered."""
    for module in pkgutil.iter_modules(suite.__path__):
        importlib.import_module(f"{suite.__name__}.{module.name}")
