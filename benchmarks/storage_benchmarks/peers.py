"""Replay buffers of other libraries, filled with the small record; each is imported when it is made.

What they share with a storage is little: rows go where a cursor of their own is, reads draw the rows themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .records import SMALL

CAPACITY, BATCH = SMALL.capacity, 256

Arrays = dict[str, np.ndarray[Any, Any]]


def arrays(rows: int) -> Arrays:
    """The small record under the names that these libraries use."""
    batch = SMALL.make(rows)
    return {
        "obs": batch["obs"].numpy(),
        "act": batch["action"].numpy(),
        "next_obs": batch["next", "obs"].numpy(),
        "rew": batch["next", "reward"].numpy(),
        "done": batch["next", "done"].numpy(),
    }


class Peer:
    """A buffer of 20,000 rows, all of them written.

    Attributes:
        name: with the version that was tried.
        module: what has to be there to make one.
        write: writes 256 prepared rows; ``None`` where only one row at a time can be written.
        write_row: writes one prepared row; ``None`` where nobody would.
        read: draws 256 rows and reads them.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    write: Callable[[], object] | None = None
    write_row: Callable[[], object] | None = None
    read: Callable[[], object]


class Cpprb(Peer):
    name, module = "cpprb 11.0", "cpprb"

    def __init__(self) -> None:
        from cpprb import ReplayBuffer

        fields = {"obs": {"shape": 4}, "act": {"shape": 2}, "next_obs": {"shape": 4}, "rew": {}}
        buffer = ReplayBuffer(CAPACITY, {**fields, "done": {"dtype": bool}})
        rows, row = arrays(BATCH), arrays(1)
        self.write = lambda: buffer.add(**rows)
        self.write_row = lambda: buffer.add(**row)
        self.read = lambda: buffer.sample(BATCH)
        _fill(self.write, BATCH)


class StableBaselines(Peer):
    name, module = "stable-baselines3 2.9", "stable_baselines3"

    def __init__(self) -> None:
        from gymnasium.spaces import Box
        from stable_baselines3.common.buffers import ReplayBuffer

        def writing(environments: int) -> tuple[Any, Callable[[], object]]:
            buffer = ReplayBuffer(
                CAPACITY, Box(-1, 1, (4,)), Box(-1, 1, (2,)), device="cpu", n_envs=environments
            )
            rows = arrays(environments)
            told = [rows["obs"], rows["next_obs"], rows["act"], rows["rew"][:, 0], rows["done"][:, 0]]
            infos: list[dict[str, Any]] = [{}] * environments
            return buffer, lambda: buffer.add(*told, infos)

        _, self.write = writing(BATCH)  # a row of each of as many environments
        buffer, self.write_row = writing(1)
        self.read = lambda: buffer.sample(BATCH)
        _fill(self.write, BATCH)
        _fill(self.write_row, 1)


class Tianshou(Peer):
    name, module = "tianshou 2.0", "tianshou"

    def __init__(self) -> None:
        from tianshou.data import Batch, ReplayBuffer

        buffer, row = ReplayBuffer(CAPACITY), {key: rows[0] for key, rows in arrays(1).items()}
        told = Batch(
            obs=row["obs"],
            act=row["act"],
            rew=float(row["rew"][0]),
            terminated=False,
            truncated=False,
            obs_next=row["next_obs"],
            info={},
        )
        self.write_row = lambda: buffer.add(told)
        self.read = lambda: buffer.sample(BATCH)
        _fill(self.write_row, 1)


class Flashbax(Peer):
    name, module = "flashbax 0.1.3", "flashbax"

    def __init__(self) -> None:
        import flashbax
        import jax

        buffer = flashbax.make_item_buffer(
            max_length=CAPACITY, min_length=BATCH, sample_batch_size=BATCH, add_batches=True
        )
        add = jax.jit(buffer.add, donate_argnums=0)

        def draw(state: Any, key: Any) -> tuple[Any, Any]:
            key, drawn = jax.random.split(key)
            return buffer.sample(state, drawn), key

        sample = jax.jit(draw)
        rows = jax.tree.map(jax.numpy.asarray, arrays(BATCH))
        self._state = buffer.init(jax.tree.map(lambda leaf: leaf[0], rows))
        self._key = jax.random.PRNGKey(0)

        def write() -> None:
            self._state = jax.block_until_ready(add(self._state, rows))

        def read() -> Any:
            found, self._key = jax.block_until_ready(sample(self._state, self._key))
            return found

        self.write, self.read = write, read
        _fill(write, BATCH)
        read()


PEERS: tuple[type[Peer], ...] = (Cpprb, StableBaselines, Tianshou, Flashbax)


def _fill(write: Callable[[], object], rows: int) -> None:
    for _ in range(-(-CAPACITY // rows)):
        write()
