"""Structures of items: every data kind, dtype and feature shape that SPEC.md names."""

from __future__ import annotations

from functools import cache

import torch
from hypothesis import strategies as st

from storage_conformance.structure import Absent, Fields, Leaf, Node, Record, Text, Tree

__all__ = ["DTYPES", "dtypes", "feature_shapes", "leaf_nodes", "structures"]

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128,
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
)  # fmt: skip


def dtypes() -> st.SearchStrategy[torch.dtype]:
    """Every dtype that a storage must support; float32 first, so that failures shrink to it."""
    return st.sampled_from(DTYPES)


def feature_shapes() -> st.SearchStrategy[tuple[int, ...]]:
    """Feature shapes of up to three dimensions, sizes of zero included."""
    return st.sampled_from(((), (2,), (1,), (2, 3), (0,), (3, 1), (2, 1, 2), (2, 0)))


def leaf_nodes() -> st.SearchStrategy[Leaf]:
    return st.builds(Leaf, dtypes(), feature_shapes())


@cache
def structures(features: frozenset[str], *, one_dimension: bool) -> st.SearchStrategy[Node]:
    """Structures of items that a backend with these optional features has to take.

    Args:
        features: the features it claims.
        one_dimension: whether `ndim` is 1; values that are not tensors are left out elsewhere.
    """
    leaf = leaf_nodes()
    extra = st.sampled_from(((), (2,)))

    def fields(
        children: list[tuple[str, st.SearchStrategy[Node]]],
    ) -> st.SearchStrategy[tuple[tuple[str, Node], ...]]:
        return st.tuples(*(st.tuples(st.just(name), child) for name, child in children))

    def record(kind: str, **children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        return st.builds(Record, st.just(kind), fields(list(children.items())), extra)

    flat = st.builds(Fields, fields([("a", leaf), ("b", leaf)]), extra)
    nested = st.builds(
        Fields,
        fields(
            [
                ("a", leaf),
                ("next", st.builds(Fields, fields([("obs", leaf), ("a", leaf)]), extra)),
                ("none", st.just(Fields(()))),
            ]
        ),
        st.just(()),
    )
    step = record("Step", obs=leaf, reward=leaf)
    kinds: list[st.SearchStrategy[Node]] = [
        leaf,
        flat,
        nested,
        step,
        record("LongStep", obs=leaf, reward=leaf, done=leaf),
        record("Transition", step=step, value=leaf).filter(_same_extra),
        st.builds(Fields, fields([("step", step), ("b", leaf)]), st.just(())),
        record("Masked", obs=leaf, mask=st.just(Absent())),
    ]
    if "pytree" in features:
        inner = st.builds(Tree, st.just("list"), fields([("0", leaf), ("1", leaf)]))
        kinds += [
            st.builds(Tree, st.just("dict"), fields([("a", leaf), ("b", inner)])),
            st.builds(Tree, st.just("tuple"), fields([("0", leaf), ("1", leaf)])),
            st.builds(
                Tree,
                st.just("namedtuple"),
                fields([("x", leaf), ("y", st.builds(Tree, st.just("dict"), fields([("c", leaf)])))]),
            ),
        ]
    if "non_tensor" in features and one_dimension:
        text: st.SearchStrategy[Node] = st.just(Text())
        kinds += [
            st.builds(Fields, fields([("a", leaf), ("text", text)]), st.just(())),
            st.builds(Record, st.just("Captioned"), fields([("obs", leaf), ("caption", text)]), st.just(())),
        ]
    return st.sampled_from(kinds).flatmap(lambda kind: kind)


def _same_extra(node: Node) -> bool:
    """A tensorclass inside another shares its batch size, so that both constructions name the same one."""
    return isinstance(node, Record) and not node.extra
