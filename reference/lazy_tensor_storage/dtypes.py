"""Which dtypes are stored, and which conversions keep every value.

A dtype is supported if all kinds of index work with it and a dump can carry it. A write of another dtype than the
first write's is converted only where no value changes, apart from rounding between floating-point dtypes:

* the same dtype: bytes are moved, NaN payloads and signed zeros included;
* ``bool`` to any dtype;
* an integer dtype to an integer dtype that holds its whole range;
* an integer dtype to a floating-point or complex one, if every value written has a magnitude that the target counts
  exactly (up to 2**53 for float64, 2**24 for float32, 2**11 for float16, 2**8 for bfloat16, 2**4 and 2**3 for the
  two float8 dtypes);
* a floating-point or complex dtype to another (real to complex too), if no finite value written leaves the target's
  range and no infinity is lost.

Everything else raises ``TypeError``.

Implements: DTYPE-1, DTYPE-2, DTYPE-3, DTYPE-9.
"""

from __future__ import annotations

import torch
from torch import Tensor

INTEGERS = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})
FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
FLOATS = frozenset({torch.float64, torch.float32, torch.float16, torch.bfloat16}) | FLOAT8
COMPLEX = frozenset({torch.complex64, torch.complex128})
SUPPORTED = INTEGERS | FLOATS | COMPLEX | {torch.bool}

# The largest n such that every integer of magnitude up to n has a value of its own.
_EXACT_INTEGERS = {
    torch.float64: 2**53,
    torch.complex128: 2**53,
    torch.float32: 2**24,
    torch.complex64: 2**24,
    torch.float16: 2**11,
    torch.bfloat16: 2**8,
    torch.float8_e4m3fn: 2**4,
    torch.float8_e5m2: 2**3,
}


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype without its package, ``"float32"``."""
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    """The supported dtype of that name. Raises: ``KeyError``."""
    return _BY_NAME[name]


_BY_NAME = {name_of(dtype): dtype for dtype in SUPPORTED}


def convert(values: Tensor, target: torch.dtype, where: str) -> Tensor:
    """``values`` as ``target``, without a change of value.

    Args:
        values: a tensor of any shape and of another dtype than ``target``.
        target: the dtype of the leaf in the storage.
        where: names the leaf in messages.

    Raises:
        TypeError: a value would change, or may change.

    Implements: DTYPE-6, DTYPE-7.
    """
    source = values.dtype
    if source is torch.bool:
        return _cast(values, target)
    if source in INTEGERS and target in INTEGERS:
        have, room = torch.iinfo(source), torch.iinfo(target)
        if room.min <= have.min and have.max <= room.max:
            return values.to(target)
    elif source in INTEGERS and target in _EXACT_INTEGERS:
        if _within(values, _EXACT_INTEGERS[target]):
            return _cast(values, target)
        raise TypeError(
            f"{where} has dtype {name_of(source)}, the storage holds {name_of(target)}, which does not count exactly "
            f"beyond {_EXACT_INTEGERS[target]}; nothing was written."
        )
    elif (source in FLOATS and target in FLOATS | COMPLEX) or (source in COMPLEX and target in COMPLEX):
        converted = _cast(values, target)
        if not _overflowed(values, converted):
            return converted
        raise TypeError(
            f"{where} has dtype {name_of(source)} with values beyond the range of {name_of(target)}, which the "
            "storage holds; nothing was written."
        )
    raise TypeError(
        f"{where} has dtype {name_of(source)}, the storage holds {name_of(target)}: the values might change; "
        "nothing was written."
    )


def _cast(values: Tensor, target: torch.dtype) -> Tensor:
    # torch converts float8 from and to the wider floating-point dtypes only.
    if target in FLOAT8 and values.dtype not in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        values = values.to(torch.float32)
    if values.dtype in FLOAT8 and target in COMPLEX:
        values = values.to(torch.float32)
    return values.to(target)


def _within(values: Tensor, limit: int) -> bool:
    if values.device.type == "meta" or values.numel() == 0:
        return True
    low, high = torch.aminmax(values)
    return -limit <= int(low) and int(high) <= limit


def _overflowed(values: Tensor, converted: Tensor) -> bool:
    if values.device.type == "meta":
        return False
    # Complex numbers as pairs, float8 as float32 (which holds all of its values): torch tests neither for finiteness.
    before, after = (_parts(tensor) for tensor in (values, converted))
    if converted.dtype in COMPLEX and values.dtype not in COMPLEX:
        after = after[..., 0]
    return bool(
        (torch.isnan(before) != torch.isnan(after)).any() | (torch.isinf(before) != torch.isinf(after)).any()
    )


def _parts(tensor: Tensor) -> Tensor:
    if tensor.dtype in COMPLEX:
        return torch.view_as_real(tensor.resolve_conj())
    return tensor.to(torch.float32) if tensor.dtype in FLOAT8 else tensor
