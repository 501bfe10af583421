"""What may be changed in the source of the reference, by the operators of Cosmic Ray.

Left out, since it is no behaviour: annotations, `__all__`, and the words of an exception. Of the operators, those that
say the same twice: one replacement of each arithmetic operator is enough.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

__all__ = ["Candidate", "changed", "find", "sampled"]

_ARITHMETIC = {
    "Add": "Sub", "Sub": "Add", "Mul": "FloorDiv", "Div": "Mul", "FloorDiv": "Mul", "Mod": "FloorDiv", "Pow": "Mul",
    "RShift": "LShift", "LShift": "RShift", "BitOr": "BitAnd", "BitAnd": "BitOr", "BitXor": "BitAnd",
}  # fmt: skip


@dataclass(frozen=True)
class Candidate:
    """One change at one place.

    Attributes:
        module: file name below the package.
        function: the qualified name of the function or class around it.
        line: the text of the line, which keeps its name when lines move.
        number: of the line, from 1.
        operator: of Cosmic Ray.
        occurrence: of the operator in the module.
        column: from 0.
    """

    module: str
    function: str
    line: str
    number: int
    operator: str
    occurrence: int
    column: int


def find(package: Path) -> list[Candidate]:
    """All candidates of a package, in the order of its files."""
    return [candidate for path in sorted(package.glob("*.py")) for candidate in _in_module(path)]


def sampled(candidates: list[Candidate], count: int, seed: int) -> list[Candidate]:
    """So many, no two at one place: a comparison that six operators know counts no more than a number."""
    places: dict[tuple[str, int, int], list[Candidate]] = {}
    for candidate in candidates:
        places.setdefault((candidate.module, candidate.number, candidate.column), []).append(candidate)
    random = Random(seed)
    chosen = random.sample(sorted(places), min(count, len(places)))
    return [random.choice(places[place]) for place in chosen]


def changed(package: Path, candidate: Candidate) -> str:
    """The source of the module with the change."""
    from cosmic_ray.mutating import mutate_code

    source = (package / candidate.module).read_text(encoding="utf-8")
    found = mutate_code(source, _operators()[candidate.operator], candidate.occurrence)
    assert found is not None, candidate
    return str(found)


@cache
def _operators() -> dict[str, Any]:
    from cosmic_ray.plugins import get_operator, operator_names

    found = {}
    for name in operator_names():
        kind = get_operator(name)
        short = name.removeprefix("core/")
        if kind.arguments() or not _wanted(short):
            continue
        found[short] = kind()
    return found


def _wanted(operator: str) -> bool:
    if operator.startswith("ReplaceBinaryOperator_"):
        _, old, new = operator.split("_")
        return _ARITHMETIC.get(old) == new
    return True


def _in_module(path: Path) -> Iterator[Candidate]:
    from cosmic_ray.ast import ast_nodes, get_ast

    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    scopes, silent = _scopes(source)
    tree = get_ast(source)
    for name, operator in _operators().items():
        places = (place for node in ast_nodes(tree) for place in operator.mutation_positions(node))
        for occurrence, ((number, column), _) in enumerate(places):
            if any(first <= (number, column) < last for first, last in silent):
                continue
            yield Candidate(
                path.name,
                _function(scopes, number),
                lines[number - 1].strip(),
                number,
                name,
                occurrence,
                column,
            )


Span = tuple[tuple[int, int], tuple[int, int]]


def _scopes(source: str) -> tuple[list[tuple[int, int, str]], list[Span]]:
    """Where functions and classes are, and the places that are no behaviour."""
    scopes: list[tuple[int, int, str]] = []
    silent: list[Span] = []

    def visit(node: ast.AST, name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = name
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inner = f"{name}.{child.name}".lstrip(".")
                scopes.append((child.lineno, child.end_lineno or child.lineno, inner))
            silent.extend(_silent(child))
            visit(child, inner)

    visit(ast.parse(source), "")
    return scopes, silent


def _silent(node: ast.AST) -> Iterator[Span]:
    quiet: list[ast.expr | None] = []
    if isinstance(node, ast.arg | ast.AnnAssign):
        quiet = [node.annotation]
    elif isinstance(node, ast.FunctionDef):
        quiet = [node.returns]
    elif isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
        quiet = list(node.exc.args)
    elif isinstance(node, ast.Assign) and any(
        isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
    ):
        quiet = [node.value]
    elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == "Callable":
        quiet = [node]
    for found in quiet:
        if found is not None:
            yield (found.lineno, found.col_offset), (found.end_lineno or 0, found.end_col_offset or 0)


def _function(scopes: list[tuple[int, int, str]], number: int) -> str:
    around = [scope for scope in scopes if scope[0] <= number <= scope[1]]
    return max(around, key=lambda scope: scope[0])[2] if around else ""
