"""`LazyTensorStorage`: what SPEC.md asks for, in its order."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, Literal, NoReturn

import torch
from torch import Tensor

from . import checkpoint
from .arguments import LARGEST_COUNT, count, device_of, outside_inference_mode
from .checkpoint import CheckpointError
from .dump_file import Damaged, Done
from .dump_reading import Reading
from .entities import Entities, Entity, changed_by
from .indexing import Index, Selection, resolve, row_dimensions, row_number
from .memory import Memory
from .nodes import TensorNode, ValueNode
from .places import wrong_shape
from .progress import Progress
from .schema import Item, Schema, infer
from .snapshot import Snapshot, decode, encode

STAGED = 2**25
"""Bytes of rows up to which a load reads them into memory of their own first: no disk can fail after that."""
_LOST = "this storage has no rows now, since some of them were replaced already."


class LazyTensorStorage:
    """A pre-allocated storage of rows: tensors, TensorDicts, tensorclasses, and pytrees of tensors.

    The first write fixes the structure of an item and allocates memory for all rows, on the storage's device and on no
    other; rows that were never written read as zero. Writes check everything before they change anything. Addresses
    do not change after the first write. An index made of integers and slices reads a view, and writing to that view
    writes to the storage; any other index reads a copy.

    Args:
        max_size: the largest number of elements; with ``ndim > 1`` rounded up to whole rows at the first write.
        device: where the elements are stored; ``"auto"`` takes the device of the first write.
        ndim: how many leading dimensions count when the size is measured. A storage of shape ``[3, 4]`` has 3
            elements with ``ndim=1``, 12 with ``ndim=2``.

    Raises:
        TypeError: ``max_size`` or ``ndim`` is no integer, or ``device`` neither a string nor a ``torch.device``.
        ValueError: ``max_size`` or ``ndim`` is out of range.
        RuntimeError: torch does not know the device, or has none.

    Examples:
        >>> data = TensorDict(
        ...     {"some data": torch.randn(10, 11), ("some", "nested", "data"): torch.randn(10, 11, 12)},
        ...     batch_size=[10, 11],
        ... )
        >>> storage = LazyTensorStorage(100)
        >>> storage.set(range(10), data)
        >>> len(storage)
        10
        >>> storage.get(0)  # doctest: +ELLIPSIS
        TensorDict(
            fields={
                some data: Tensor(shape=torch.Size([11]), device=cpu, dtype=torch.float32, is_shared=False),
                some: TensorDict(
                    fields={
                        nested: TensorDict(
                            fields={
                                data: Tensor(shape=torch.Size([11, 12]), device=cpu, dtype=torch.float32, ...)},
                            batch_size=torch.Size([11]),
                            device=cpu,
                            is_shared=False)},
                    batch_size=torch.Size([11]),
                    device=cpu,
                    is_shared=False)},
            batch_size=torch.Size([11]),
            device=cpu,
            is_shared=False)
        >>> storage.set(0, storage.get(0).zero_())
        >>> storage.get(0)["some data"].count_nonzero()
        tensor(0)
        >>> len(storage)
        10

        A tensorclass comes back as that tensorclass:

        >>> @tensorclass
        ... class MyClass:
        ...     foo: torch.Tensor
        ...     bar: torch.Tensor
        >>> data = MyClass(foo=torch.randn(10, 11), bar=torch.randn(10, 11, 12), batch_size=[10, 11])
        >>> storage = LazyTensorStorage(10)
        >>> storage.set(range(10), data)
        >>> storage.get(0)
        MyClass(
            bar=Tensor(shape=torch.Size([11, 12]), device=cpu, dtype=torch.float32, is_shared=False),
            foo=Tensor(shape=torch.Size([11]), device=cpu, dtype=torch.float32, is_shared=False),
            batch_size=torch.Size([11]),
            device=cpu,
            is_shared=False)

    Implements: NEW-1 to NEW-7, LAZY-2, LAZY-3, QRY-6, ERR-5.
    """

    def __init__(self, max_size: int, *, device: torch.device | str = "cpu", ndim: int = 1) -> None:
        self._requested_size = count("max_size", max_size)
        self._ndim = count("ndim", ndim)
        self._requested_device: torch.device | Literal["auto"] = device_of(device)
        self._entities = Entities()
        self._become_fresh()

    def _become_fresh(self) -> None:
        self._schema: Schema | None = None
        self._memory: Memory | None = None
        self._readable = 0
        self._last_row: int | None = None

    # Capacity (CAP) --------------------------------------------------------------------------------------------------

    @property
    def max_size(self) -> int:
        """The largest number of elements: the argument of the constructor until the first write fixes whole rows.

        Implements: CAP-1, CAP-2.
        """
        if self._memory is None:
            return self._requested_size
        return self._memory.rows * self._memory.trailing.numel()

    @property
    def ndim(self) -> int:
        """How many leading dimensions count when the size is measured.

        Implements: NEW-2.
        """
        return self._ndim

    def _capacity(self, trailing: torch.Size) -> int:
        cells = trailing.numel()
        if not cells:
            raise ValueError(
                f"no capacity follows from the trailing shape {list(trailing)}; nothing was written."
            )
        rows = -(-self._requested_size // cells)
        if rows * cells > LARGEST_COUNT:
            raise ValueError(
                f"{rows} rows of {cells} elements are more than can be counted; nothing was written."
            )
        return rows

    # Length and shape (LEN) ------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The elements that can be read: whole rows, up to the highest one written.

        Implements: LEN-1 to LEN-6, LEN-8, LEN-9.
        """
        return self._readable if self._memory is None else self._readable * self._memory.trailing.numel()

    @property
    def shape(self) -> torch.Size | None:
        """``[W, *T]``: the rows that can be read, and the trailing shape; ``None`` before the first write.

        Implements: LEN-1, LEN-7.
        """
        return None if self._memory is None else torch.Size((self._readable, *self._memory.trailing))

    # Device (DEV) ----------------------------------------------------------------------------------------------------

    @property
    def device(self) -> torch.device | Literal["auto"]:
        """Where the elements are, as the leaves name it; ``"auto"`` until the first write if that was asked for.

        Implements: DEV-1 to DEV-5, DEV-7, DEV-8.
        """
        return self._requested_device if self._memory is None else self._memory.device

    def _device_for(self, leaves: list[Tensor]) -> torch.device:
        """The device of a first write of ``leaves``. Raises: ``ValueError``."""
        if isinstance(self._requested_device, torch.device):
            _refuse_meta(leaves, self._requested_device)
            return self._requested_device
        _refuse_meta(leaves, torch.device("cpu"))  # a storage without values has to be asked for by name
        devices = {leaf.device for leaf in leaves}
        if len(devices) > 1:
            names = ", ".join(sorted(map(str, devices)))
            raise ValueError(
                f"the leaves are on {names}, device='auto' needs one device; nothing was written."
            )
        return devices.pop() if devices else torch.device("cpu")

    # Writing (SET) ---------------------------------------------------------------------------------------------------

    def set(self, index: Index, data: Item) -> None:
        """Write items to rows, and raise the length to the highest of them.

        Args:
            index: what to write, counted from the capacity: an integer, a slice, a range, a list of integers, an
                integer or bool tensor, ``...``, or a tuple of at most ``ndim`` of these.
            data: one item, or a batch of them with the dimensions of the index in front; a list is a batch of items.

        Raises:
            IndexError: a row is beyond the capacity, a mask has another length, a tuple is too long.
            TypeError: no index, no data, another type than that of the first write, or a dtype that would change
                values.
            ValueError: another structure, shape or number of rows than those of the storage and the index.
            MemoryError: the first write could not be allocated.

        Nothing is changed where it raises.

        Implements: SET-1 to SET-15, SET-18, SET-19, CAP-3 to CAP-7, LAZY-3, LAZY-6, DEV-6, DEV-9, DEV-10, DEV-16,
        ERR-1.
        """
        # Without the detour a small write takes a thirtieth less.
        act = self._set_outside if torch.is_inference_mode_enabled() else self._set
        changed = act(index, data)
        if changed is not None:
            self._entities.tell(changed)

    def __setitem__(self, index: Index, data: Item) -> None:
        """Change rows that can be read.

        Raises:
            RuntimeError: nothing was ever written.
            IndexError: a row cannot be read.
            TypeError, ValueError: as `set`.

        Implements: SET-16, SET-17, LEN-9, QRY-8, ERR-2.
        """
        changed = self._assign(index, data)
        if changed is not None:
            self._entities.tell(changed)

    @outside_inference_mode
    def _set_outside(self, index: Index, data: Item) -> Tensor | None:
        return self._set(index, data)

    def _set(self, index: Index, data: Item) -> Tensor | None:
        if self._schema is None or self._memory is None:
            return self._first_set(index, data)
        selection = resolve(index, self._memory.rows, self._memory.trailing)
        changed = self._write(self._schema, self._memory, selection, data)
        if selection.top:
            self._readable = max(self._readable, selection.top)
            self._last_row = selection.last
        return changed

    def _first_set(self, index: Index, data: Item) -> Tensor | None:
        index_dimensions = row_dimensions(index, self._ndim)
        if type(data) is list and not data:
            # The end of a stream: no item to learn from, but no row to write either.
            if resolve(index, self._requested_size, torch.Size([1] * (self._ndim - 1))).top:
                raise ValueError("an empty list for an index that addresses rows; nothing was written.")
            return None
        schema = infer(data, index_dimensions, self._ndim)
        selection = resolve(index, self._capacity(schema.trailing), schema.trailing)
        leaves, values = schema.collect(data, selection.shape, index_dimensions)
        device = self._device_for(leaves)
        if not selection.top:
            return None
        memory = Memory(schema, self._capacity(schema.trailing), device)
        prepared, leaves = memory.prepare(selection, leaves)
        changed = self._changed(selection, schema.trailing)

        # Nothing can fail from here on.
        memory.write(prepared, leaves, 0)
        memory.write_values(selection, values)
        self._schema, self._memory = schema, memory
        self._readable, self._last_row = selection.top, selection.last
        return changed

    @outside_inference_mode
    def _assign(self, index: Index, data: Item) -> Tensor | None:
        schema, memory = self._initialised()
        selection = resolve(index, self._readable, memory.trailing)
        return self._write(schema, memory, selection, data)

    def _write(self, schema: Schema, memory: Memory, selection: Selection, data: Item) -> Tensor | None:
        fast = memory.fast if selection.top else None
        plain = None if fast is None else fast.open(data, selection.shape)
        if plain is not None:
            changed = self._changed(selection, memory.trailing) if self._entities.attached else None
            memory.write_plain(selection, plain, self._readable)
            return changed

        leaves, values = schema.take(data, selection.shape, selection.index_dimensions(memory.trailing))
        plain = None if fast is None else fast.check(leaves, selection.shape)
        prepared = selection
        if plain is None:
            leaves = schema.check(leaves, selection.shape)
            _refuse_meta(leaves, memory.device)
            if not selection.top:
                return None
            prepared, leaves = memory.prepare(selection, leaves)
        changed = self._changed(selection, memory.trailing)

        # Nothing can fail from here on.
        if plain is None:
            memory.write(prepared, leaves, self._readable)
        else:
            memory.write_plain(selection, plain, self._readable)
        memory.write_values(selection, values)
        return changed

    # Reading (GET) ---------------------------------------------------------------------------------------------------

    @outside_inference_mode
    def get(self, index: Index) -> Item:
        """Read rows, in the order of the index.

        Args:
            index: what to read, counted from the rows that can be read; see `set`.

        Returns:
            An item, or a batch with the dimensions of the index in front. The container is new; the memory is a view of
            the storage for an index of integers and slices, a copy otherwise. Nothing in it requires grad.

        Raises:
            RuntimeError: nothing was ever written.
            IndexError: a row is at or above the length, a mask has another shape, a tuple is too long.
            TypeError: no index.

        Implements: GET-1 to GET-6, IDX-20, LAZY-1, QRY-1.
        """
        schema, memory = self._initialised()
        selection = resolve(index, self._readable, memory.trailing)
        leaves = memory.read(selection)
        if not schema.values:
            return schema.build(leaves, [], selection.shape, memory.device)
        return schema.build(
            leaves,
            memory.read_values(selection),
            selection.shape,
            memory.device,
            uniform_from=selection.index_dimensions(memory.trailing),
        )

    def __getitem__(self, index: Index) -> Item:
        """As `get`."""
        return self.get(index)

    def _initialised(self) -> tuple[Schema, Memory]:
        if self._schema is None or self._memory is None:
            raise RuntimeError(
                "nothing was ever written to this storage: there is nothing to read or assign."
            )
        return self._schema, self._memory

    # Attached entities (OBS) -----------------------------------------------------------------------------------------

    def attach(self, entity: Entity) -> None:
        """Call ``entity.mark_update(index)`` after each change.

        ``index`` is an int64 tensor on the CPU: the rows changed, ``[n]``; with ``ndim > 1`` the coordinates of the
        elements changed, ``[n, ndim]``. An entity is kept once, however often it is attached, and is told in the order
        of attachment. If one raises, the others are told all the same, and the first exception is raised to the writer
        after that; the write stands.

        Raises:
            TypeError: there is no callable ``mark_update``.

        Implements: OBS-1 to OBS-12.
        """
        self._entities.attach(entity)

    def detach(self, entity: Entity) -> None:
        """Stop telling ``entity``; one that is not attached is ignored.

        Implements: OBS-13.
        """
        self._entities.detach(entity)

    def _changed(self, selection: Selection, trailing: torch.Size) -> Tensor | None:
        """What to tell the entities; `None` if there is nobody to be told."""
        if not self._entities.attached or not selection.top:
            return None
        return changed_by(selection, trailing)

    # Checkpoints (CKPT) ----------------------------------------------------------------------------------------------

    def dumps(self, path: str | os.PathLike[str], *, progress: Progress = None) -> None:
        """Write the rows that can be read to the folder ``path``, replacing an older dump there.

        At every instant the folder holds the whole old dump or the whole new one. See `dump_file` for the format.
        Besides the storage this takes a few MiB of memory, however many rows there are.

        Args:
            path: a folder, which is made if it is missing.
            progress: called with the bytes written and the bytes in all; ``True`` draws a bar with tqdm. What it
                raises ends the dump, and the old one stays.

        Raises:
            RuntimeError: nothing was ever written.
            TypeError: a value has no exact JSON form.
            OSError: the file system refuses.

        Implements: CKPT-1 to CKPT-4, CKPT-18 to CKPT-22.
        """
        if self._memory is None:
            raise RuntimeError("nothing was ever written to this storage: there is nothing to dump.")
        checkpoint.write(path, self._snapshot(), progress)

    def loads(self, path: str | os.PathLike[str], *, progress: Progress = None) -> None:
        """Replace the rows by those of a dump.

        A dump by TorchRL's ``LazyTensorStorage`` is read as well; see `torchrl_dump` for what it leaves open.
        The dump must fit: its rows into the capacity, its structure to that of a storage that was written before. Every
        byte is verified before anything is changed, and where this raises nothing is. One exception: in a
        storage that was written before, more than 32 MiB are read twice, and should the disk fail or somebody
        interrupt the second time, all rows are gone; the error says so.

        Args:
            path: the folder of the dump.
            progress: called with the bytes verified and the bytes in all; ``True`` draws a bar with tqdm. What it
                raises ends the load, and nothing is changed.

        Raises:
            FileNotFoundError: there is no dump at ``path``.
            CheckpointError: the dump is damaged, or of another format.
            ValueError: the rows do not fit, or the structure differs.
            TypeError: a dtype would change values.

        Implements: CKPT-1, CKPT-2, CKPT-5 to CKPT-17, CKPT-23, CKPT-24, DEV-8, DEV-15, OBS-3,
        ERR-3.
        """
        with checkpoint.opened(path, self._schema, self._ndim, progress) as (dump, done):
            changed = self._load(dump, done)
        if changed is not None:
            self._entities.tell(changed)

    def dump(self, path: str | os.PathLike[str]) -> None:
        """As `dumps`."""
        self.dumps(path)

    def save(self, path: str | os.PathLike[str]) -> None:
        """As `dumps`."""
        self.dumps(path)

    def load(self, path: str | os.PathLike[str]) -> None:
        """As `loads`."""
        self.loads(path)

    @outside_inference_mode
    def _snapshot(self) -> Snapshot:
        """The rows that can be read; the leaves are views."""
        schema, memory = self._initialised()
        everything = resolve(slice(None), self._readable, memory.trailing)
        return Snapshot(
            schema=schema,
            ndim=self._ndim,
            readable=self._readable,
            last_row=self._last_row,
            leaves=memory.read(everything),
            values=memory.read_values(everything),
        )

    def _restore(self, snapshot: Snapshot) -> None:
        changed = self._replace(snapshot)
        if changed is not None:
            self._entities.tell(changed)

    @outside_inference_mode
    def _load(self, dump: Reading, done: Done) -> Tensor | None:
        schema, rows, nodes, value_nodes = self._place_for(dump)
        same_dtypes = [node.dtype for node in nodes] == [node.dtype for node in schema.leaves]
        if dump.size <= STAGED or not same_dtypes:
            return self._replace(dump.snapshot(done))
        everything = resolve(slice(0, dump.readable), rows, schema.trailing)
        fresh = self._memory is None
        memory = Memory(schema, rows, self._device_for([])) if self._memory is None else self._memory
        leaves: list[Tensor] = [torch.empty(0)] * len(nodes)
        for leaf, node in zip(memory.leaves, nodes, strict=True):
            leaves[node.position] = leaf[: dump.readable]
        changed = self._changed(everything, schema.trailing)
        if fresh:
            memory.touched = dump.readable
            values = dump.pour(leaves, done)
            self._schema, self._memory = schema, memory
        else:
            dump.verify(done)
            memory.touched = max(memory.touched, dump.readable)
            try:
                values = dump.pour(leaves, lambda _: None)
            except Damaged as error:
                self.clear()  # no rows are better than a mixture
                raise CheckpointError(f"the dump was changed while it was read: {error}; {_LOST}") from error
            except BaseException as error:
                self.clear()
                error.add_note(_LOST)
                raise
        memory.forget_values(0)
        memory.write_values(everything, [values[node.position] for node in value_nodes])
        self._readable, self._last_row = dump.readable, dump.last_row
        return changed

    def _place_for(self, rows_: Snapshot | Reading) -> tuple[Schema, int, list[TensorNode], list[ValueNode]]:
        """Where rows from elsewhere go: the schema, the capacity, and their leaves and values in its order.

        Raises:
            ValueError: they do not fit.
        """
        if rows_.ndim != self._ndim:
            raise ValueError(
                f"those rows have ndim={rows_.ndim}, this storage ndim={self._ndim}; nothing was changed."
            )
        if self._schema is None or self._memory is None:
            schema, capacity = rows_.schema, self._capacity(rows_.schema.trailing)
            nodes, value_nodes = schema.leaves, schema.values
        else:
            schema, capacity = self._schema, self._memory.rows
            nodes, value_nodes = schema.match(rows_.schema)
        if rows_.readable > capacity:
            raise ValueError(
                f"{rows_.readable} rows do not fit into the {capacity} of this storage; nothing was changed."
            )
        for mine, node in zip(schema.leaves, nodes, strict=True):
            if mine.feature_shape != node.feature_shape:
                raise wrong_shape(mine.path, "shape", node.feature_shape, torch.Size(), mine.feature_shape)
        return schema, capacity, nodes, value_nodes

    @outside_inference_mode
    def _replace(self, snapshot: Snapshot) -> Tensor | None:
        schema, rows, nodes, value_nodes = self._place_for(snapshot)
        leaves = [snapshot.leaves[node.position] for node in nodes]
        values = [snapshot.values[node.position] for node in value_nodes]
        everything = resolve(slice(0, snapshot.readable), rows, schema.trailing)
        leaves = schema.check(leaves, everything.shape)
        fresh, memory = self._memory is None, self._memory
        if memory is None:
            memory = Memory(schema, rows, self._device_for(leaves))
        else:
            _refuse_meta(leaves, memory.device)
        _, leaves = memory.prepare(everything, leaves)
        changed = self._changed(everything, schema.trailing)

        # Nothing can fail from here on.
        memory.forget_values(0)
        memory.write(everything, leaves, 0)
        memory.write_values(everything, values)
        if fresh:
            self._schema, self._memory = schema, memory
        self._readable, self._last_row = snapshot.readable, snapshot.last_row
        return changed

    # Copies, pickles and state dicts (COPY) --------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """The rows that can be read, as plain tensors, numbers, strings, lists and dicts.

        The tensors share the storage's memory where it is on the CPU. ``torch.load(..., weights_only=True)`` can read
        what ``torch.save`` made of it, as long as the values that are not tensors are plain as well.

        Implements: COPY-5 to COPY-7, COPY-9, COPY-10.
        """
        return encode(None if self._memory is None else self._snapshot())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Replace the rows by those of a `state_dict`; the state of a fresh storage makes this one fresh.

        Raises:
            ValueError: no such state, the rows do not fit, or the structure differs.
            TypeError: a dtype would change values, or ``state`` is no dict.

        Implements: COPY-5 to COPY-10, ERR-4, OBS-3.
        """
        snapshot = decode(state, self._schema)
        if snapshot is None:
            self._become_fresh()
        else:
            self._restore(snapshot)

    def __getstate__(self) -> dict[str, Any]:
        """The arguments and the rows; attached entities watch the original only.

        Implements: COPY-3, COPY-4.
        """
        state: dict[str, Any] = {
            "max_size": self._requested_size,
            "ndim": self._ndim,
            "device": str(self._requested_device),
            "snapshot": None,
        }
        if self._memory is not None:
            state["snapshot"] = self._snapshot().copy()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Implements: COPY-3, DEV-17."""
        self.__init__(state["max_size"], device=state["device"], ndim=state["ndim"])  # type: ignore[misc]
        if state["snapshot"] is not None:
            self._replace(state["snapshot"])

    def __deepcopy__(self, memo: dict[int, Any]) -> LazyTensorStorage:
        """Implements: COPY-1, COPY-2, COPY-4."""
        copied = LazyTensorStorage(self._requested_size, device=self._requested_device, ndim=self._ndim)
        memo[id(self)] = copied
        if self._memory is not None:
            copied._replace(self._snapshot())
        return copied

    def __copy__(self) -> NoReturn:
        """Two storages with one memory and two lengths would contradict each other."""
        raise TypeError(
            "a shallow copy of a storage would share its memory but not its length; use copy.deepcopy."
        )

    # Queries (QRY) ---------------------------------------------------------------------------------------------------

    @property
    def last_row(self) -> int | None:
        """The row of the last element, in the order of the index, of the last `set` that wrote anything.

        Implements: QRY-7, QRY-8.
        """
        return self._last_row

    def clear(self) -> None:
        """Take all rows away; structure, memory, device and attached entities stay.

        Implements: QRY-9, QRY-10, LAZY-4.
        """
        self._readable = 0
        self._last_row = None
        if self._memory is not None:
            self._memory.forget_values(0)

    def __iter__(self) -> Iterator[Item]:
        """The items of the rows that can be read, by row.

        Implements: QRY-2.
        """
        row = 0
        while row < self._readable:
            yield self.get(row)
            row += 1

    def __contains__(self, row: object) -> bool:
        """Whether ``storage[row]`` can be read.

        Raises:
            TypeError: ``row`` is no integer.

        Implements: QRY-3, QRY-4.
        """
        return -self._readable <= row_number(row) < self._readable

    def __repr__(self) -> str:
        """Implements: QRY-5."""
        shape = None if self.shape is None else list(self.shape)
        structure = "" if self._schema is None else f", structure={self._schema.root.summary()}"
        return (
            f"{type(self).__name__}(shape={shape}, len={self._readable and len(self)}, max_size={self.max_size}, "
            f"ndim={self._ndim}, device={str(self.device)!r}{structure})"
        )


def _refuse_meta(leaves: list[Tensor], device: torch.device) -> None:
    """Implements: DEV-9."""
    if device.type != "meta":
        for leaf in leaves:
            if leaf.is_meta:
                raise ValueError("data on the meta device have no values to store; nothing was written.")
