"""Values that are not tensors as lines of JSON, for dumps.

One column after the other: ``null`` for a column without values, otherwise arrays of `IN_A_LINE` values each, the last
one of what is left. Null, booleans, numbers and strings stand for themselves; anything else is a pair of a tag and a
content.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any

from .nodes import Column
from .values import Several

IN_A_LINE = 1024


def lines_of(columns: list[Column]) -> Iterator[bytes]:
    """The lines, with their ends.

    Raises:
        TypeError: a value has no exact JSON form.
    """
    for column in columns:
        if not column:
            yield b"null\n"
            continue
        for start in range(0, len(column), IN_A_LINE):
            try:
                values = [_json_of(value) for value in column[start : start + IN_A_LINE]]
                yield json.dumps(values, separators=(",", ":")).encode("ascii") + b"\n"
            except RecursionError:
                raise TypeError("a value is nested too deeply for a dump; nothing was written.") from None


def values_of(next_line: Callable[[], bytes], columns: int, elements: int) -> list[Column]:
    """The inverse of `lines_of`, for columns of ``elements`` values each.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, RecursionError: these are no such lines.
    """
    return [_column(next_line, elements) for _ in range(columns)]


def _column(next_line: Callable[[], bytes], elements: int) -> Column:
    found: list[Any] = []
    while True:
        plain = json.loads(next_line())
        if plain is None and not found:
            return None
        if type(plain) is not list or len(plain) != min(IN_A_LINE, elements - len(found)):
            raise ValueError("there is not one value for each element")
        found += map(_value_of, plain)
        if len(found) == elements:
            return found


def _json_of(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, float, str):
        return value
    if kind is int:
        # Python refuses to write or read very long numbers in decimal.
        return value if -(2**63) <= value < 2**63 else ["int", hex(value)]
    if kind in (list, tuple, Several):
        return [kind.__name__.lower(), [_json_of(entry) for entry in value]]
    if kind is dict:
        return ["dict", [[_json_of(key), _json_of(entry)] for key, entry in value.items()]]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode("ascii")]
    raise TypeError(
        f"a value of type {kind.__module__}.{kind.__qualname__} has no exact JSON form, and a dump holds no pickle; "
        "nothing was written."
    )


def _value_of(plain: Any) -> Any:
    if not isinstance(plain, list):
        if isinstance(plain, dict):
            raise ValueError("a value is a JSON object")
        return plain
    tag, content = plain
    if tag == "int":
        return int(content, 16)
    if tag == "bytes":
        return base64.b64decode(content, validate=True)
    if tag == "dict":
        return {_value_of(key): _value_of(entry) for key, entry in content}
    return {"list": list, "tuple": tuple, "several": Several}[tag](_value_of(entry) for entry in content)
