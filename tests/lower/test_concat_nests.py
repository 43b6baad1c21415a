"""Concatenations inside of maps: a loop nest for each piece, no choice at each element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.options import Options
from graphc.base.tuning.fusion import FusionTuning
from graphc.checking.compare import same_bits
from graphc.checking.interpreter import evaluate
from graphc.kernel.ir import Kernel, walk
from graphc.kernel.printer import print_kernel
from graphc.kernel.statements.blocks import Loop
from graphc.kernel.statements.memory import Load

pytestmark = pytest.mark.check_mode


def p(*shape: Any, **rest: Any) -> Any:
    return gx.placeholder(shape, **rest)


def chooses(kernels: tuple[Kernel, ...]) -> bool:
    """Whether a kernel asks at each element which piece it lies in."""
    return any(
        isinstance(statement, Load) and statement.condition is not None
        for kernel in kernels
        for statement in walk(kernel.body)
    )


def joined(x: Any, y: Any, axis: int = 1) -> Any:
    return gx.concatenate([x, y, x], axis)


NESTS: dict[str, Callable[[Any, Any], Any]] = {
    "alone": lambda x, y: joined(x, y),
    "rows": lambda x, y: joined(x, y, 0),
    "a function of it": lambda x, y: gx.tanh(joined(x, y)) * 2.0,
    "with a vector": lambda x, y: gx.nn.relu(joined(x, y) + p(12)),
    "with a column": lambda x, y: joined(x, y) * x[:, :1],
    "with a whole": lambda x, y: joined(x, y) + gx.broadcast_to(y[:1, :1], (4, 12)) @ p(12, 12),
    "with a view": lambda x, y: joined(x, y) + p(12, 4).T,
    "with work beside": lambda x, y: joined(x, y) + gx.exp(p(4, 12)),
    "two of them": lambda x, y: joined(x, y) * joined(y, x),
    "two that share": lambda x, y: joined(x, y) * gx.concatenate([x, x, p(4, 4)], 1),
    "several results": lambda x, y: [joined(x, y) + 1.0, gx.sin(joined(x, y) + 1.0)],
    "of rows of one element": lambda x, y: gx.concatenate([x[:, 1:2], y[:, :1]], 1) + y[:1, :2],
    "reduced": lambda x, y: gx.nn.softmax(joined(x, y) * 2.0),
    "reduced with more": lambda x, y: (joined(x, y) + p(4, 12).sum(1, keepdims=True)).sum(0),
    "integers": lambda x, y: joined(x.astype("int8"), y.astype("int8")) // p(12, dtype="int8"),
    "booleans": lambda x, y: joined(x > 0, y > 0) & p(4, 1, dtype="bool"),
}

CHOICES: dict[str, Callable[[Any, Any], Any]] = {
    "turned": lambda x, y: joined(x, y).T + 1.0,
    "pieces of other places": lambda x, y: joined(x, y) + gx.concatenate([x, p(4, 8)], 1),
}


@pytest.mark.parametrize("axis", [0, 1])
def test_a_nest_for_each_piece(axis: int) -> None:
    with gx.Graph() as graph:
        x, y = p(8, 16), p(8, 16)
        fetched = gx.concatenate([x, y], axis)
    (kernel,) = gx.Session(graph).compile(fetched, [x, y]).compiled.plan.kernels
    loops = [statement for statement in walk(kernel.body) if isinstance(statement, Loop)]
    assert not chooses((kernel,)), print_kernel(kernel)
    # rows lie one after the other, so each piece is one run
    assert [loop.extent for loop in loops] == ([128] * 2 if axis == 0 else [8, 16] * 2)


@pytest.mark.parametrize("case", [*NESTS, *CHOICES])
def test_it_is_the_reference(case: str) -> None:
    with gx.Graph() as graph:
        x, y = p(4, 4, name="x"), p(4, 4, name="y")
        fetched = (NESTS | CHOICES)[case](x, y)
    exe = gx.Session(graph, options=Options(numerics="strict", check=True)).compile(fetched)
    assert chooses(exe.compiled.plan.kernels) == (case in CHOICES)
    random = np.random.default_rng(2)
    arrays = [
        (random.standard_normal([int(n) for n in value.shape]) * 9).astype(value.dtype.numpy)
        for value in exe.compiled.source.inputs
    ]
    results = exe(*arrays)
    expected = evaluate(exe.compiled.source, arrays)
    found = results if isinstance(results, list) else [results]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_sizes_known_at_run_time(axis: int) -> None:
    with gx.Graph() as graph:
        x, y, z = p("a", "b", "c"), p("a", "b", "c"), p("c")
        pieces = [x, y, x] if axis < 2 else [x, y]
        whole = gx.concatenate(pieces, axis)
        fetched = [whole, gx.nn.relu(whole * 2.0 + 1.0)]
        if axis < 2:
            fetched.append(whole - z)
    exe = gx.Session(graph).compile(fetched, [x, y, z])
    assert not chooses(exe.compiled.plan.kernels)
    random = np.random.default_rng(3)
    for sizes in [(2, 3, 40), (1, 1, 1), (0, 2, 3), (3, 0, 2), (2, 2, 0)]:
        a, b = (random.standard_normal(sizes).astype("float32") for _ in range(2))
        c = random.standard_normal(sizes[-1]).astype("float32")
        expected = np.concatenate([a, b, a] if axis < 2 else [a, b], axis)
        found = exe(a, b, c)
        np.testing.assert_array_equal(found[0], expected)
        np.testing.assert_array_equal(found[1], np.maximum(expected * 2 + 1, 0))
        if axis < 2:
            np.testing.assert_array_equal(found[2], expected - c)


def test_pieces_of_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A concatenation that is a piece itself, along another axis, is written by its nests."""
    monkeypatch.setattr(FusionTuning, "slice_bytes", 0)
    with gx.Graph() as graph:
        x, y = p("n", 4), p("n", 3)
        inner = gx.concatenate([x, y, x], 1)
        fetched = gx.concatenate([inner, gx.exp(gx.concatenate([y, x, x], 1)), inner + 1.0], 0)
    exe = gx.Session(graph, options=Options(verify=True, check=True)).compile(fetched, [x, y])
    plan = exe.compiled.plan
    assert not any(slot.kind == "temporary" for slot in plan.slots)
    assert not chooses(plan.kernels)
    off = gx.Session(graph, options=Options(off={"concat_in_place"})).compile(fetched, [x, y])
    random = np.random.default_rng(4)
    arrays = [random.standard_normal((5, size)).astype("float32") for size in (4, 3)]
    assert same_bits(exe(*arrays), off(*arrays)).all()


def test_rows_read_it_from_memory() -> None:
    with gx.Graph() as graph:
        x, y = p(8, 16, name="x"), p(8, 16, name="y")
        whole = gx.concatenate([x, y], 1)
        fetched = whole.sum(1)
    exe = gx.Session(graph).compile(fetched, [x, y])
    assert len(exe.compiled.plan.kernels) == 2
    assert "choose among its pieces" in str(exe.why_not_fused(whole, fetched))


def test_many_pieces_are_copied_once() -> None:
    with gx.Graph() as graph:
        xs = [p(64, 64) for _ in range(20)]
        fetched = gx.concatenate(xs, 1)
    exe = gx.Session(graph, options=Options(check=True)).compile(fetched, xs)
    plan = exe.compiled.plan
    assert len(plan.kernels) == 3
    assert not any(slot.kind == "temporary" for slot in plan.slots)
    arrays = [np.full((64, 64), number, "float32") for number in range(20)]
    np.testing.assert_array_equal(exe(*arrays), np.concatenate(arrays, 1))


def test_large_regions_stay_one_nest() -> None:
    with gx.Graph() as graph:
        x, y = p(4, 4), p(4, 4)
        value = gx.concatenate([x, y, x, y, x, y, x, y], 1)
        for _ in range(8):
            value = gx.tanh(value) + 1.0
    (kernel,) = gx.Session(graph).compile(value, [x, y]).compiled.plan.kernels
    assert chooses((kernel,))


@pytest.mark.parametrize("sizes", [(1, 0), (0, 1), (0, 0), (3, 0), (0, 1, 0)])
def test_pieces_without_elements(sizes: tuple[int, ...]) -> None:
    """The others keep theirs, in a kernel of its own as well."""
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(5, size)).astype("float32") for size in sizes]
    expected = np.concatenate(arrays, axis=1)
    for off in [(), ("move_views",), ("concat_in_place",), ("fuse",)]:
        with gx.Graph() as graph:
            fed = [p(5, size) for size in sizes]
            pieces = [gx.negative(x) for x in fed]
            whole = gx.concatenate(pieces, axis=1)
        session = gx.Session(graph, options=Options(off=off, verify=True))
        for fetches in ([whole], [whole, *pieces]):
            assert np.array_equal(session.compile(fetches, fed)(*arrays)[0], -expected), off
