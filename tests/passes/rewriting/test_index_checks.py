"""A value that a run needed stays checked, even where its bits don't matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.compiling.extraction import extract
from passes.graph.simplify import simplify
from passes.infra.base import PassContext

Spelling = Callable[[gx.Value, gx.Value], gx.Value]
"""Of what is picked, and of as many other elements."""

CHECKED: dict[str, Spelling] = {
    "sub": lambda t, y: t - t,
    "mod": lambda t, y: t % t,
    "fmod": lambda t, y: gx.fmod(t, t),
    "mul zero": lambda t, y: t * 0,
    "and zero": lambda t, y: t & 0,
    "or ones": lambda t, y: t | -1,
    "xor": lambda t, y: t ^ t,
    "mod one": lambda t, y: t % 1,
    "floor": lambda t, y: 0 // t,
    "power": lambda t, y: t ** 0,
    "equal": lambda t, y: (t == t).astype("int32"),
    "less": lambda t, y: (t < t).astype("int32"),
    "later": lambda t, y: (t * 3 + 1) * 0 + y,
    "same arms": lambda t, y: gx.where(t > 2, y, y),
    "absorbed": lambda t, y: gx.minimum(y, gx.maximum(y, t)),
    "difference": lambda t, y: (y + t) - t,
    "known branch": lambda t, y: gx.where(np.array(True), y, t),
    "zero terms": lambda t, y: gx.sum(t * 0, axis=0) + y,
}
KEPT: dict[str, Spelling] = {
    "read elsewhere": lambda t, y: (t - t) + t,
    "its own mask": lambda t, y: gx.where(t > 2, t, t),
}


def program(spelled: Spelling) -> tuple[Any, gx.Value, list[gx.Value]]:
    with gx.Graph() as g:
        a = gx.placeholder((4,), "int32", name="a")
        i = gx.placeholder((3,), "int64", name="i")
        y = gx.placeholder((3,), "int32", name="y")
        result = spelled(gx.take(a, i), y)
    return g, result, [a, i, y]


@pytest.mark.parametrize("name", [*CHECKED, *KEPT])
def test_an_index_out_of_range_is_told(name: str) -> None:
    graph, result, feeds = program({**CHECKED, **KEPT}[name])
    executable = gx.Session(graph).compile(result, feeds)
    plain = gx.Session(graph, options=gx.Options(off=("simplify", "shapes"))).compile(result, feeds)
    a, y = np.array([3, -1, 0, 7], "int32"), np.array([5, 6, 7], "int32")
    good, bad = np.array([0, 3, -4]), np.array([0, 4, 1])
    assert np.array_equal(executable(a, good, y), plain(a, good, y))
    for one in (executable, plain):
        with pytest.raises(gx.IndexRangeError, match="index 4"):
            one(a, bad, y)


@pytest.mark.parametrize("name", KEPT)
def test_rules_apply_where_the_check_remains(name: str) -> None:
    graph, result, _ = program(KEPT[name])
    source = extract(graph, [result]).graph
    nodes = [node.op.name for node in simplify(source, PassContext()).nodes]
    assert "subtract" not in nodes and "where" not in nodes


def test_indices_known_to_be_in_range_fail_nowhere() -> None:
    with gx.Graph() as g:
        a = gx.placeholder((4,), "int32", name="a")
        inside = gx.take(a, np.array([0, 3, -4])) * 0
        unknown = gx.take(a, a) * 0
    for result, fired in ((inside, ["int-mul-zero"]), (unknown, [])):
        context = PassContext()
        simplify(extract(g, [result]).graph, context)
        assert [decision.rule for decision in context.decisions] == fired


def test_what_nobody_needs_is_not_checked() -> None:
    graph, result, feeds = program(lambda t, y: y + 1)
    executable = gx.Session(graph).compile(result, feeds)
    y = np.array([5, 6, 7], "int32")
    assert np.array_equal(executable(np.zeros(4, "int32"), np.array([9, 9, 9]), y), y + 1)


def test_loops_that_check_are_kept_too() -> None:
    with gx.Graph() as g:
        a = gx.placeholder((4,), "int32", name="a")
        i = gx.placeholder((), "int64", name="i")
        picked = gx.cond(i > 0, lambda: gx.take(a, i), lambda: gx.take(a, i * 2))
        nothing = picked * 0
    executable = gx.Session(g).compile(nothing, [a, i])
    data = np.zeros(4, "int32")
    assert executable(data, np.int64(3)) == 0
    with pytest.raises(gx.IndexRangeError):
        executable(data, np.int64(4))


def test_long_chains_with_many_checks_take_linear_time() -> None:
    with gx.Graph() as g:
        a = gx.placeholder((4,), "int32", name="a")
        i = gx.placeholder((4,), "int64", name="i")
        value = a
        for n in range(1500):
            value = gx.take(value, (i + n) % 4) * 0 + value
    context = PassContext()
    simplify(extract(g, [value]).graph, context)
    assert "int-mul-zero" not in {decision.rule for decision in context.decisions}
