"""Native routines take as much of each array as their numbers say: no more than there is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from op_contract import sample

import graphc as gx
from graphc.ir.builder import apply, apply_node
from graphc.ir.dtypes import float32, float64
from graphc.ir.lowering import Native
from graphc.ir.op import OpDef, all_ops, lookup
from graphc.kernel.routines import routine

NATIVE = [op for op in all_ops() if isinstance(op.lowering, Native)]


@pytest.mark.parametrize("op", NATIVE, ids=str)
def test_extents_are_those_of_the_rows(op: OpDef) -> None:
    lowering = op.lowering
    assert isinstance(lowering, Native)
    element = op.domain.dtypes[-1]
    for seed in range(4):
        arrays, attrs = sample(op, element, seed)
        with gx.Graph():
            operands = [gx.placeholder(array.shape, array.dtype) for array in arrays]
            node = apply_node(op, operands, attrs)
        types = [value.type for value in (*node.inputs, *node.outputs)]
        extents = routine(lowering.routine).extents(
            lowering.numbers([value.type for value in node.inputs], node.attrs)
        )
        rows = [
            int(np.prod(type_.shape[type_.rank - rank :], dtype=np.int64))
            for type_, rank in zip(types, lowering.ranks, strict=True)
        ]
        assert list(extents) == rows


def operands_of(name: str, *shapes: tuple[Any, ...], **attrs: Any) -> Any:
    """A node of an op over placeholders that nothing has checked."""
    op = lookup(name)
    dtype = "float32" if float32 in op.domain.dtypes else "float64"
    kinds = [dtype] * len(shapes)
    if name in ("bincount", "binsum"):
        kinds[0] = "int64"
    values = [gx.placeholder(*pair) for pair in zip(shapes, kinds, strict=True)]
    return values, apply(op, *values, **attrs)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "message"),
    [
        ("binsum", [(3, 9), (3, 4)], {"bins": 5}, r"places \[3, 9\] and weights \[3, 4\]"),
        ("histogram", [(40,), (6,)], {"bins": 6}, "7 edges"),
        ("histogram", [(40,), (1,)], {"bins": 0}, "not 0"),
        ("histogram", [(40,), (100001,)], {"bins": 100000}, "not 100000"),
        ("top_k", [(3, 7)], {"k": 8}, "8 largest elements of an axis of 7"),
        ("top_k", [(3, 7)], {"k": -1}, "-1 largest"),
        ("searchsorted", [(3, 7), (4,)], {"right": True}, "a vector and rows"),
        ("solve", [(4, 4), (3, 2)], {}, "solve of"),
    ],
)
def test_sizes_that_contradict_each_other_are_refused(
    name: str, shapes: Any, attrs: Any, message: str
) -> None:
    with gx.Graph(), pytest.raises(gx.ShapeError, match=message):
        operands_of(name, *shapes, **attrs)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs", "fits", "small"),
    [
        ("binsum", [(3, "n"), (3, "m")], {"bins": 5}, {"n": 9, "m": 9}, {"n": 9, "m": 4}),
        ("histogram", [(40,), ("m",)], {"bins": 5}, {"m": 6}, {"m": 5}),
        ("solve", [("n", "n"), ("m", 2)], {}, {"n": 4, "m": 4}, {"n": 2, "m": 4}),
        ("fft", [(2, 8, "m"), (314,)], {"inverse": False, "scale": "none"}, {"m": 2}, {"m": 1}),
    ],
)
def test_sizes_that_only_a_run_tells_are_checked_by_it(
    name: str, shapes: Any, attrs: Any, fits: Any, small: Any
) -> None:
    with gx.Graph() as graph:
        values, result = operands_of(name, *shapes, **attrs)
    session = gx.Session(graph)

    def feeds(sizes: dict[str, int]) -> Any:
        arrays = []
        for value, shape in zip(values, shapes, strict=True):
            known = [sizes.get(size, size) for size in shape]
            array = np.eye(*known) if len(known) == 2 else np.ones(known)
            arrays.append(array.astype(value.dtype.numpy))
        return dict(zip(values, arrays, strict=True))

    session.run(result, feeds(fits))
    with pytest.raises(gx.ShapeError, match="would touch elements"):
        session.run(result, feeds(small))


def test_top_k_without_its_guard() -> None:
    for count in (4, 1000):
        with gx.Graph() as graph:
            x = gx.placeholder(("n",), name="x")
            places = apply(lookup("top_k"), x, k=count)
        got = gx.Session(graph).run(places, {x: np.arange(3, dtype=np.float32)})
        assert got[:3].tolist() == [2, 1, 0]
        assert not got[3:].any()


def test_mixed_dtypes_are_refused() -> None:
    with gx.Graph():
        a, b = (gx.placeholder((4,), element) for element in (float32, float64))
        for name, attrs in (("searchsorted", {"right": True}), ("histogram", {"bins": 3})):
            with pytest.raises(gx.DTypeError):
                apply(lookup(name), a, b, **attrs)
