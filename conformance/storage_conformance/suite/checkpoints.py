"""Chapter CKPT: paths, names, and what a load brings back."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st

from storage_conformance.attribution import play
from storage_conformance.lab import Lab
from storage_conformance.recorder import Violation
from storage_conformance.structure import Fields, Leaf, Node, Text
from storage_conformance.subject import Literal
from storage_conformance.suite.check import check
from storage_conformance.suite.sequels import (
    PAIR,
    SHAPES,
    STEP,
    TEXTS,
    capacity,
    filled,
    kinds,
    label,
    load_aside,
    row,
    rows,
    sequel,
    setup_in,
    setups_of,
    shelved,
)
from storage_conformance.trial import Setup, Step

WRITERS, READERS = ("dumps", "dump", "save"), ("loads", "load")


class Somewhere:
    """An `os.PathLike` that is neither a string nor a `Path`."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __fspath__(self) -> str:
        return str(self._path)


def spelled(spelling: str, path: Path, slot: str) -> Literal:
    """A path, in one of the spellings that have to be accepted."""
    if spelling == "str":
        return Literal(str(path), f"str({label(slot)})")
    if spelling == "Path":
        return Literal(path, label(slot))
    return Literal(
        Somewhere(path), f'type("Somewhere", (), {{"__fspath__": lambda self: str({label(slot)})}})()'
    )


@check(
    "CKPT-1",
    examples=15,
    given=setups_of(lambda features: (PAIR, STEP, *((TEXTS,) if "non_tensor" in features else ()))),
)
def all_names_of_dumping_and_loading_mean_the_same(lab: Lab, setup: Setup) -> None:
    trial = shelved(lab, setup, *filled(setup, "full"))
    path, dumped = trial.dumps[0]
    load_aside(trial, path, dumped, "CKPT-5")
    for writer, reader in product(WRITERS, READERS):
        again = lab.path()
        shown = Literal(again, label(f"{writer}-{reader}"))
        with lab.checking("CKPT-1"):
            trial.storage.call(writer, shown)
        load_aside(trial, again, dumped, "CKPT-1", reader=reader, shown=shown)


@check("CKPT-2", examples=10, setup=st.sampled_from([setup_in(shape) for shape in SHAPES]))
def every_spelling_of_a_path_is_taken(lab: Lab, setup: Setup) -> None:
    trial = shelved(lab, setup, *filled(setup, "partial"))
    path, dumped = trial.dumps[0]
    load_aside(trial, path, dumped, "CKPT-5")
    for writer, reader in (*product(("dumps",), READERS), *product(WRITERS[1:], READERS[:1])):
        for spelling in ("Path", "str", "PathLike"):
            requirement = "CKPT-1" if spelling == "Path" else "CKPT-2"
            again, slot = lab.path(), f"{writer}-{reader}-{spelling}"
            shown = spelled(spelling, again, slot)
            with lab.checking(requirement):
                trial.storage.call(writer, shown)
                if not again.exists():
                    raise Violation(
                        f"{writer} wrote nothing at the path",
                        claim=f"({label(slot)}).exists()",
                        actual="False",
                    )
            load_aside(trial, again, dumped, requirement, reader=reader, shown=shown)


@check(
    "CKPT-3",
    examples=30,
    writer=st.sampled_from(WRITERS),
    parents=st.sampled_from(("a", "a/b", "a/b/c")),
    spelling=st.sampled_from(("Path", "str")),
)
def parent_folders_of_a_dump_are_created(lab: Lab, writer: str, parents: str, spelling: str) -> None:
    setup = setup_in(SHAPES[0])
    trial = shelved(lab, setup, *filled(setup, "partial"))
    load_aside(trial, *trial.dumps[0], "CKPT-5")
    written_before = lab.path()
    with lab.checking("CKPT-1"):
        trial.storage.call(writer, Literal(written_before, label("1")))
    load_aside(trial, written_before, trial.model, "CKPT-1", shown=Literal(written_before, label("1")))
    path = lab.path() / parents / "dump"
    with lab.checking("CKPT-3"):
        trial.storage.call(writer, spelled(spelling, path, f"{parents}/dump"))
    load_aside(trial, path, trial.model, "CKPT-3", shown=spelled("Path", path, f"{parents}/dump"))


@check(
    "CKPT-4",
    examples=45,
    writer=st.sampled_from(WRITERS),
    ndim=st.integers(1, 3),
    device=st.sampled_from(("cpu", "auto")),
)
def a_fresh_storage_cannot_be_dumped(lab: Lab, writer: str, ndim: int, device: str) -> None:
    setup = Setup(6, ndim, (2,) * (ndim - 1), PAIR, device)
    trial = play(lab, setup)
    lab.refused(
        "CKPT-4", lambda: trial.storage.call(writer, Literal(lab.path(), label("0"))), what="the dump"
    )


@check("CKPT-5", "CKPT-6", examples=100, given=setups_of())
def a_fresh_storage_gets_the_rows_of_a_dump(lab: Lab, setup: Setup) -> None:
    state = ("partial", "gap", "full")[hash_of(setup) % 3]
    play(
        lab,
        setup,
        *filled(setup, state, bits=True),
        Step("dump", (0,)),
        Step("load_elsewhere", (0, setup.size)),
        row(setup, capacity(setup) - 1, 3),
        Step("dump", (1,)),
        Step("load_elsewhere", (1, setup.size)),
    )


@check("CKPT-5", examples=6, given=lambda features: {"seed": st.sampled_from((0, 1))})
def every_bit_pattern_comes_back(lab: Lab, seed: int) -> None:
    """So many arbitrary patterns that there are NaNs of all kinds among them."""
    sizes = (
        (torch.float16, 64),
        (torch.bfloat16, 1024),
        (torch.float32, 1024),
        (torch.float64, 8192),
        (torch.complex64, 1024),
    )
    node = Fields(tuple((str(dtype)[6:], Leaf(dtype, (size,))) for dtype, size in sizes))
    setup = Setup(1, node=node)
    play(lab, setup, rows(setup, 0, 1, seed, bits=True), Step("dump", (0,)), Step("load_elsewhere", (0, 1)))


@check(
    "CKPT-5",
    "CKPT-6",
    examples=30,
    shape=st.sampled_from(SHAPES),
    state=st.sampled_from(("partial", "gap", "full")),
)
def a_fresh_storage_gets_the_rows_of_a_dump_in_every_shape(lab: Lab, shape: Any, state: str) -> None:
    setup = setup_in(shape)
    play(
        lab,
        setup,
        *filled(setup, state, bits=True),
        Step("dump", (0,)),
        Step("load_elsewhere", (0, setup.size)),
    )


@check(
    "CKPT-6",
    "CKPT-9",
    examples=45,
    shape=st.sampled_from(SHAPES),
    counts=st.sampled_from(((1, 3), (3, 1), (2, 2), (4, 2), (2, 4))),
)
def a_load_sets_the_length_of_a_used_storage(lab: Lab, shape: Any, counts: tuple[int, int]) -> None:
    setup = setup_in(shape)
    dumped, held = (min(count, capacity(setup)) for count in counts)
    source = shelved(lab, setup, rows(setup, 0, dumped, 7))
    sequel(lab, source, setup, rows(setup, 0, held, 2), Step("load", (0,)))


@check("CKPT-7", examples=100, given=setups_of())
def containers_come_back_at_every_level(lab: Lab, setup: Setup) -> None:
    play(
        lab,
        setup,
        *filled(setup, "partial"),
        Step("dump", (0,)),
        Step("load_elsewhere", (0, setup.size)),
        Step("dump", (1,)),
        Step("load_elsewhere", (1, setup.size)),
    )


@check("CKPT-8", examples=40, given=lambda features: texts_and_states())
def texts_come_back_row_by_row(lab: Lab, node: Node, state: str, used: bool) -> None:
    """Without the feature, nothing is drawn that needs it: the requirement is not selected then."""
    setup = Setup(5, node=node)
    source = shelved(lab, setup, *filled(setup, state, 3))
    if used:
        sequel(lab, source, setup, rows(setup, 0, 4, 20), Step("load", (0,)), row(setup, 1, 30))
    else:
        sequel(lab, source, setup, Step("load", (0,)), row(setup, 1, 30))


SEVERAL_TEXTS = (
    Fields((("text", Text()), ("a", Leaf()), ("other", Text()))),
    Fields((("text", Text()), ("next", Fields((("a", Leaf()), ("note", Text()), ("more", Text())))))),
)


@check("CKPT-8", given=lambda features: {"claims": st.just("non_tensor" in features)}, examples=2)
def texts_of_several_leaves_and_of_many_rows_come_back(lab: Lab, claims: bool) -> None:
    if not claims:
        return
    for node, state in product(SEVERAL_TEXTS, ("partial", "full")):
        setup = Setup(5, node=node)
        lab.start()
        source = shelved(lab, setup, *filled(setup, state, 3))
        sequel(lab, source, setup, Step("load", (0,)))
        lab.start()
        sequel(lab, source, setup, rows(setup, 0, 4, 20), Step("load", (0,)))
    many = Setup(1_100, node=TEXTS)
    lab.start()
    sequel(lab, shelved(lab, many, rows(many, 0, 1_100, 3)), many, Step("load", (0,)))


def texts_and_states() -> dict[str, st.SearchStrategy[Any]]:
    nodes = [node for node in kinds(frozenset({"non_tensor"})) if _has_text(node)]
    return {
        "node": st.sampled_from(nodes),
        "state": st.sampled_from(("partial", "full")),
        "used": st.booleans(),
    }


@check("CKPT-9", examples=100, given=setups_of())
def a_load_replaces_the_rows_of_a_used_storage(lab: Lab, setup: Setup) -> None:
    source = shelved(lab, setup, *filled(setup, "full", 5))
    for state in ("partial", "full"):
        sequel(lab, source, setup, *filled(setup, state, 9), Step("load", (0,)))


@check(
    "CKPT-9",
    examples=15,
    setup=st.sampled_from([setup_in(shape, node) for shape in SHAPES for node in (PAIR, STEP)]),
)
def loads_follow_each_other(lab: Lab, setup: Setup) -> None:
    """A longer dump after a shorter one, and the shorter one again, into the storage that wrote both."""
    count = capacity(setup)
    play(
        lab,
        setup,
        rows(setup, 0, 1, 4),
        Step("dump", (0,)),
        rows(setup, 0, count, 8),
        Step("dump", (1,)),
        Step("load", (0,)),
        Step("load", (1,)),
        Step("load", (0,)),
        row(setup, count - 1, 6),
        Step("load", (1,)),
    )


@check(
    "CKPT-14",
    examples=30,
    reader=st.sampled_from(READERS),
    state=st.sampled_from(("fresh", "partial", "full")),
    place=st.sampled_from(("missing", "missing/dump")),
)
def a_path_without_a_dump_is_not_found(lab: Lab, reader: str, state: str, place: str) -> None:
    setup = setup_in(SHAPES[0])
    source = shelved(lab, setup, *filled(setup, "partial"))
    load_aside(source, *source.dumps[0], "CKPT-5")
    load_aside(source, *source.dumps[0], "CKPT-1", reader=reader)
    trial = play(lab, setup, *filled(setup, state))
    path = lab.path() / "dump" if "/" in place else lab.path()
    lab.refused("CKPT-14", lambda: trial.storage.call(reader, Literal(path, label(place))), what="the load")


@check(
    "CKPT-23",
    examples=60,
    given=lambda features: {
        "setup": st.sampled_from([setup_in(shape, node) for shape in SHAPES for node in (PAIR, STEP)])
    },
    last=st.integers(0, 4),
    used=st.booleans(),
)
def the_last_written_row_comes_back(lab: Lab, setup: Setup, last: int, used: bool) -> None:
    count = capacity(setup)
    last %= count
    source = shelved(lab, setup, rows(setup, 0, count), row(setup, last, 1))
    trial = sequel(lab, source, setup, *([rows(setup, 0, 1, 3)] if used else []), Step("load", (0,)))
    trial.write(*row(setup, (last + 1) % count, 2).arguments)


@check("CKPT-23", given=lambda features: {"clears": st.just("clear" in features)}, examples=2)
def no_last_written_row_comes_back_of_a_cleared_storage(lab: Lab, clears: bool) -> None:
    if not clears:
        return
    setup = setup_in(SHAPES[0])
    source = shelved(lab, setup, *filled(setup, "full"), Step("clear", ()))
    sequel(lab, source, setup, *filled(setup, "partial"), Step("load", (0,)))
    sequel(lab, source, setup, Step("load", (0,)))


def hash_of(setup: Setup) -> int:
    """The same number in each process."""
    return sum(map(ord, repr(setup.node))) + setup.size


def _has_text(node: Node) -> bool:
    return isinstance(node, Text) or any(_has_text(child) for _, child in getattr(node, "children", ()))
