"""Operations timed in turns, so that all of them meet the same machine.

One operation in a loop has its memory and its code in the caches, and is two to four times quicker than in a
training loop; and another process that starts halfway would be counted against whoever is measured second.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping

Operation = Callable[[int], object]
"""Called with the number of the round, by which it picks what it writes or reads."""

WARM_UP = 5


def medians(operations: Mapping[str, Operation], rounds: int, *, seed: int = 0) -> dict[str, float]:
    """The median time of each operation in microseconds, over ``rounds`` rounds in a new random order each."""
    order = random.Random(seed)
    names = list(operations)
    times: dict[str, list[int]] = {name: [] for name in names}
    for number in range(-WARM_UP, rounds):
        order.shuffle(names)
        for name in names:
            operation = operations[name]
            start = time.perf_counter_ns()
            operation(number)
            taken = time.perf_counter_ns() - start
            if number >= 0:
                times[name].append(taken)
    return {name: statistics.median(taken) / 1000 for name, taken in times.items()}
