"""Chapter DATA: tensors, TensorDicts and tensorclasses that come back as something else."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, is_tensorclass

from storage_conformance.mutants.mutant import mutant
from storage_conformance.mutants.rewriting import Rewriting, fields_of, is_lazy, is_plain, nested, rebuilt

__all__: list[str] = []


def _is_a(value: Any, name: str) -> bool:
    return type(value).__name__ == name and is_tensorclass(value)  # of the suite, or of a script


ELSEWHERE = "SET-3 ERR-3 COPY-9"
"""Requirements whose checks write and compare structures of every kind."""

ITEMS = "IDX-12 IDX-1 IDX-2 IDX-4 GET-3 QRY-2"


@mutant("DATA-1", may=f"{ELSEWHERE} {ITEMS}")
class GivesItemsADimension(Rewriting):
    """An item without dimensions comes back with one."""

    def returned(self, index: Any, value: Any) -> Any:
        return value.reshape(1) if is_plain(value) and value.dim() == 0 else value


@mutant("DATA-1", may=f"{ELSEWHERE} {ITEMS} DTYPE-6")
class GivesNumbers(Rewriting):
    """An item without dimensions comes back as a Python number."""

    def returned(self, index: Any, value: Any) -> Any:
        return value.item() if is_plain(value) and value.dim() == 0 else value


@mutant("DATA-1", may=f"{ELSEWHERE} DTYPE-8 IDX-7")
class WrapsTensors(Rewriting):
    """Tensors read by a list of rows come back in a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        if is_plain(value) and isinstance(index, list):
            return TensorDict({"data": value}, batch_size=value.shape[: self.ndim])
        return value


@mutant("DATA-2", may=ELSEWHERE)
class DropsEmptyContainers(Rewriting):
    """A nested TensorDict without leaves is lost."""

    def returned(self, index: Any, value: Any) -> Any:
        return self._pruned(value) if type(value) is TensorDict else value

    def _pruned(self, value: Any) -> Any:
        fields = {n: self._pruned(e) if type(e) is TensorDict else e for n, e in fields_of(value).items()}
        return rebuilt(value, {n: e for n, e in fields.items() if type(e) is not TensorDict or fields_of(e)})


@mutant("DATA-2", may=ELSEWHERE)
class FlattensNestedKeys(Rewriting):
    """The entries of a nested TensorDict come back on the first level."""

    def returned(self, index: Any, value: Any) -> Any:
        if type(value) is not TensorDict:
            return value
        fields: dict[str, Any] = {}
        for name, entry in fields_of(value).items():
            inner = (
                {f"{name}.{key}": e for key, e in fields_of(entry).items()}
                if type(entry) is TensorDict
                else {}
            )
            fields.update(inner or {name: entry})
        return rebuilt(value, fields)


@mutant("DATA-2", may=ELSEWHERE)
class ReachesFourLevelsDown(Rewriting):
    """What lies below the fourth level of nesting comes back as zero."""

    def returned(self, index: Any, value: Any) -> Any:
        return self._reached(value, 4) if type(value) is TensorDict else value

    def _reached(self, value: Any, levels: int) -> Any:
        if type(value) is TensorDict:
            fields = {name: self._reached(entry, levels - 1) for name, entry in fields_of(value).items()}
            return rebuilt(value, fields)
        return torch.zeros_like(value) if levels < 0 and isinstance(value, torch.Tensor) else value


@mutant("DATA-2", may=f"{ELSEWHERE} IDX-7")
class LosesDeepKeysInSamples(Rewriting):
    """Read by a list, the third level of nesting is lost."""

    def returned(self, index: Any, value: Any) -> Any:
        if type(value) is not TensorDict or not isinstance(index, list):
            return value
        fields = {n: self._shallow(e) if type(e) is TensorDict else e for n, e in fields_of(value).items()}
        return rebuilt(value, fields)

    def _shallow(self, value: Any) -> Any:
        return rebuilt(value, {n: e for n, e in fields_of(value).items() if type(e) is not TensorDict})


@mutant("DATA-3", may=ELSEWHERE)
class CutsNestedBatchSizes(Rewriting):
    """A nested TensorDict comes back with the batch size of the outer one."""

    def returned(self, index: Any, value: Any) -> Any:
        if not nested(value):
            return value
        return rebuilt(value, {n: self._cut(e, value.batch_size) for n, e in fields_of(value).items()})

    def _cut(self, entry: Any, batch_size: torch.Size) -> Any:
        return (
            TensorDict(fields_of(entry), batch_size=batch_size, device=entry.device)
            if type(entry) is TensorDict
            else entry
        )


@mutant("DATA-3", may=ELSEWHERE)
class CutsDeepBatchSizes(CutsNestedBatchSizes):
    """On the third level of nesting a TensorDict comes back with the batch size of the second one."""

    def returned(self, index: Any, value: Any) -> Any:
        if not nested(value):
            return value
        cut = super().returned
        return rebuilt(
            value, {n: cut(index, e) if type(e) is TensorDict else e for n, e in fields_of(value).items()}
        )


@mutant("DATA-4", may=f"{ELSEWHERE} DATA-3 IDX-9 IDX-12 IDX-13")
class CutsTheBatchSize(Rewriting):
    """Batch dimensions beyond those that are counted are lost."""

    fewest = 1

    def returned(self, index: Any, value: Any) -> Any:
        single = isinstance(index, int)
        known = single or (isinstance(index, slice | list | range) or index is ...)
        if not nested(value) or not known or self.ndim < self.fewest:
            return value
        counted = value.batch_size[: self.ndim - 1 if single else self.ndim]
        return (
            TensorDict(fields_of(value), batch_size=counted, device=value.device)
            if type(value) is TensorDict
            else value
        )


@mutant("DATA-4", may=f"{ELSEWHERE} DATA-3")
class CutsTheBatchSizeOfGrids(CutsTheBatchSize):
    """With `ndim > 1` batch dimensions beyond those that are counted are lost."""

    fewest = 2


@mutant("DATA-5")
class SortsKeys(Rewriting):
    """The keys come back in alphabetical order."""

    def returned(self, index: Any, value: Any) -> Any:
        return rebuilt(value, dict(sorted(fields_of(value).items()))) if type(value) is TensorDict else value


@mutant("DATA-5")
class PutsContainersLast(Rewriting):
    """Read by a list, nested TensorDicts come after the tensors."""

    def returned(self, index: Any, value: Any) -> Any:
        if type(value) is not TensorDict or not isinstance(index, list):
            return value
        return rebuilt(value, dict(sorted(fields_of(value).items(), key=lambda entry: nested(entry[1]))))


@mutant("DATA-6", may=ELSEWHERE)
class ForgetsTheClass(Rewriting):
    """A tensorclass comes back as a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        return value.to_tensordict(retain_none=False) if is_tensorclass(value) else value


@mutant("DATA-6", may=f"{ELSEWHERE} {ITEMS} DATA-7 DATA-8 DATA-17")
class ForgetsTheClassOfItems(ForgetsTheClass):
    """A single item of a tensorclass comes back as a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        return super().returned(index, value) if isinstance(index, int) else value


@mutant("DATA-6", may=ELSEWHERE)
class ForgetsTheSubclass(Rewriting):
    """A tensorclass that inherits from another one comes back as that one."""

    def returned(self, index: Any, value: Any) -> Any:
        if not _is_a(value, "LongStep"):
            return value
        step: Any = type(value).__mro__[1]
        return step._from_tensordict(value._tensordict.select("obs", "reward"))


@mutant("DATA-7", may=ELSEWHERE)
class ForgetsNestedClasses(Rewriting):
    """A nested tensorclass comes back as a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        return (
            rebuilt(value, {n: self._plain(e) for n, e in fields_of(value).items()})
            if nested(value)
            else value
        )

    def _plain(self, entry: Any) -> Any:
        if not nested(entry):
            return entry
        fields = {n: self._plain(e) for n, e in fields_of(entry).items() if e is not None}
        return TensorDict(fields, batch_size=entry.batch_size, device=entry.device)


@mutant("DATA-7", may=ELSEWHERE)
class ForgetsClassesInTensorDicts(ForgetsNestedClasses):
    """A tensorclass in a nested TensorDict comes back as a TensorDict."""

    def returned(self, index: Any, value: Any) -> Any:
        if type(value) is not TensorDict:
            return value
        inner = super().returned
        return rebuilt(
            value, {n: inner(index, e) if type(e) is TensorDict else e for n, e in fields_of(value).items()}
        )


@mutant("DATA-8", may=ELSEWHERE)
class FillsAbsentFields(Rewriting):
    """A field that was None in every write comes back as zeros."""

    def returned(self, index: Any, value: Any) -> Any:
        if not _is_a(value, "Masked") or value.mask is not None:
            return value
        return rebuilt(value, {**fields_of(value), "mask": torch.zeros(value.batch_size)})


@mutant("DATA-8", may=ELSEWHERE)
class FillsAbsentFieldsOfSamples(FillsAbsentFields):
    """Read by a tensor of rows, a field that was None in every write comes back as zeros."""

    def returned(self, index: Any, value: Any) -> Any:
        return super().returned(index, value) if is_plain(index) and index.dtype == torch.int64 else value


class _Optional(Rewriting):
    """Not a mutant itself: mends the optional field of data."""

    def given(self, index: Any, data: Any) -> Any:
        return self._mended(data, self.example) if self.example is not None and not is_lazy(data) else data

    def _mended(self, data: Any, held: Any) -> Any:
        if _is_a(data, "Masked") and type(held) is type(data):
            return self.mend(data, held)
        if type(data) is TensorDict and type(held) is TensorDict:
            return rebuilt(data, {n: self._mended(e, held.get(n, None)) for n, e in fields_of(data).items()})
        return data

    def mend(self, data: Any, held: Any) -> Any:
        raise NotImplementedError


@mutant("DATA-9", may="SET-10 SET-11 ERR-1 ERR-2")
class FillsWhatIsAbsent(_Optional):
    """None for a field that held a tensor is written as zeros."""

    def mend(self, data: Any, held: Any) -> Any:
        if data.mask is not None or held.mask is None:
            return data
        mask = torch.zeros(data.batch_size, dtype=held.mask.dtype)
        return rebuilt(data, {**fields_of(data), "mask": mask})


@mutant("DATA-9", may="SET-10 SET-11 ERR-1 ERR-2")
class DropsWhatWasAbsent(_Optional):
    """A tensor for a field that was None is dropped."""

    def mend(self, data: Any, held: Any) -> Any:
        return data if held.mask is not None else rebuilt(data, {**fields_of(data), "mask": None})
