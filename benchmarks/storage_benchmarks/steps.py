"""How many steps the storage machine of the suite makes on the reference.

A step is one rule that was drawn and performed: one call on the storage, or one refusal, with its arguments drawn, the
same done to the model, and everything that follows from it compared.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from storage_conformance.backends.reference import backend
from storage_conformance.lab import Lab, poisoned_memory, scratch
from storage_conformance.machines.storage import StorageMachine
from storage_conformance.recorder import Found, Recorder

PROGRAMS, STEPS = 150, 20


def per_second() -> float:
    """Steps for each second of one core's time; a few programs come first, to fill what is cached."""
    with scratch() as folder, poisoned_memory(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lab = Lab(backend(), Recorder(), folder, "cpu")
        _run(lab, PROGRAMS // 5)
        start = time.process_time()
        steps = _run(lab, PROGRAMS)
        return steps / (time.process_time() - start)


def _run(lab: Lab, programs: int) -> int:
    steps = 0

    def perform(self: StorageMachine, verb: str, *arguments: Any) -> None:
        nonlocal steps
        steps += 1
        StorageMachine.perform(self, verb, *arguments)

    def on_found(_: StorageMachine, found: Found) -> None:
        raise found

    machine = type("Measured", (StorageMachine,), {"lab": lab, "on_found": on_found, "perform": perform})
    chosen = settings(
        max_examples=programs,
        stateful_step_count=STEPS,
        phases=(Phase.generate,),
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    seed(0)(machine)
    run_state_machine_as_test(machine, settings=chosen)
    return steps
