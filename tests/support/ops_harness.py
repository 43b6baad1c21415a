"""Evaluates small recorded graphs by the ops' NumPy references and checks every node on the way.

For each node: the inferred type is that of the array; the lowering rule, run for every output
element, gives the reference's bits; a linear op and its transpose are adjoint.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import IndexRangeError, ShapeError
from graphc.ir.dims.expressions import Dim, DimExpr, evaluate, symbol_name
from graphc.ir.dtypes import DType, bool_, int64
from graphc.ir.graph import Node
from graphc.ir.lowering import Decompose, Element, View
from graphc.ir.op import Custom, Linear, Multilinear
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES, cast

placeholder = surface_function("placeholder")
Check = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar of the element interpreter."""

    value: Any
    dtype: DType


class Elements:
    """An element builder that computes at once."""

    def __init__(self, arrays: Sequence[Any], sizes: Mapping[str, int]) -> None:
        self.arrays = arrays
        self.sizes = sizes
        self.loads = 0

    def constant(self, value: Any, dtype: DType) -> Number:
        return Number(dtype.numpy.type(value), dtype)

    def dim(self, dim: Dim) -> Number:
        return Number(np.int64(evaluate(dim, self.sizes)), int64)

    def apply(self, primitive: str, *operands: Number) -> Number:
        known = PRIMITIVES[primitive]
        assert len(operands) == known.arity
        compared = operands[1:] if primitive == "select" else operands
        assert len({operand.dtype for operand in compared}) == 1, primitive
        assert compared[0].dtype.kind in known.kinds
        dtype = known.result_dtype([operand.dtype for operand in operands])
        values = [np.asarray(operand.value) for operand in operands]
        return Number(dtype.numpy.type(known.reference(*values)), dtype)

    def cast(self, operand: Number, dtype: DType) -> Number:
        return Number(dtype.numpy.type(cast(operand.value, dtype)), dtype)

    def load(self, operand: int, index: Sequence[Number]) -> Number:
        array = self.arrays[operand]
        place = tuple(int(number.value) for number in index)
        assert all(number.dtype is int64 for number in index)
        assert len(place) == array.ndim
        assert all(0 <= i < size for i, size in zip(place, array.shape, strict=True)), place
        self.loads += 1
        return Number(array[place], _dtype_of(array))

    def load_if(self, condition: Number, operand: int, index: Any, other: Number) -> Number:
        assert condition.dtype is bool_
        return self.load(operand, index) if condition.value else other

    def checked_index(
        self, index: Number, bound: Dim, axis: int, wraps: bool = True
    ) -> Number:
        size = evaluate(bound, self.sizes)
        if not (-size if wraps else 0) <= index.value < size:
            raise IndexRangeError(f"index {index.value} out of range for axis {axis} of {size}")
        return Number(np.int64(index.value % size), int64)


def _dtype_of(array: Any) -> DType:
    from graphc.ir.dtypes import dtype

    return dtype(array.dtype)


def resolve(attribute: Any, sizes: Mapping[str, int]) -> Any:
    """An attribute with its dims evaluated."""
    if isinstance(attribute, DimExpr):
        return evaluate(attribute, sizes)
    if isinstance(attribute, tuple):
        return tuple(resolve(item, sizes) for item in attribute)
    return attribute


class Run:
    """The arrays of a recorded graph for given feeds."""

    def __init__(self, graph: Recorder, feeds: Mapping[Value, Any]) -> None:
        self.graph = graph
        self.arrays: dict[Value, Any] = dict(feeds)
        self.sizes: dict[str, int] = {}
        for value, array in feeds.items():
            for dim, size in zip(value.shape, array.shape, strict=True):
                if isinstance(dim, DimExpr):
                    self.sizes[symbol_name(dim)] = size

    def compute(self, node: Node) -> None:
        attrs = {name: resolve(item, self.sizes) for name, item in node.attrs.items()}
        for one, other, *_ in attrs.get("guards", ()):
            if one != other:
                raise ShapeError(f"{one} is not {other} in {node!r}")
        arrays = [self.arrays[value] for value in node.inputs]
        self.arrays[node.output] = np.asarray(node.op.reference(*arrays, **attrs))

    def needed(self, fetch: Value) -> list[Node]:
        wanted, result = {fetch}, []
        for node in reversed(self.graph.nodes):
            if node.outputs[0] in wanted and node.outputs[0] not in self.arrays:
                wanted.update(node.inputs)
                result.append(node)
        return result[::-1]

    def __getitem__(self, fetch: Value) -> Any:
        for node in self.needed(fetch):
            self.compute(node)
        return self.arrays[fetch]

    def check(self, fetch: Value) -> Any:
        """The array of ``fetch``, every node on the way checked."""
        for node in self.needed(fetch):
            self.compute(node)
            self._check_node(node)
        return self.arrays[fetch]

    def _check_node(self, node: Node) -> None:
        result = self.arrays[node.output]
        shape = tuple(evaluate(dim, self.sizes) for dim in node.output.shape)
        assert (result.shape, result.dtype) == (shape, node.output.dtype.numpy), node
        self._check_lowering(node, result)
        if result.dtype == np.float64:
            self._check_adjoint(node, result)

    def _check_lowering(self, node: Node, result: Any) -> None:
        lowering = node.op.lowering
        if isinstance(lowering, Decompose) and node.op.name in ("sum_to", "scatter_add_along_axis"):
            decomposed = lowering.rule(node.inputs, node.attrs)
            assert isinstance(decomposed, Value)
            rounding = 1e-6 if result.dtype == np.float32 else 1e-12
            np.testing.assert_allclose(self[decomposed], result, rtol=rounding, atol=rounding)
        if not isinstance(lowering, View | Element) or not node.inputs:
            return
        builder = Elements([self.arrays[value] for value in node.inputs], self.sizes)
        types = [value.type for value in node.inputs]
        lowered = np.empty_like(result)
        for place in np.ndindex(result.shape):
            index = [Number(np.int64(i), int64) for i in place]
            lowered[place] = self._element(lowering, builder, types, node, index)
        np.testing.assert_array_equal(lowered, result)

    @staticmethod
    def _element(
        lowering: View | Element,
        builder: Elements,
        types: Sequence[TensorType],
        node: Node,
        index: Sequence[Number],
    ) -> Any:
        rule: Any
        if isinstance(lowering, View):
            rule = lowering.index
            source = rule(builder, types[0], node.output.type, node.attrs, index)
            return builder.load(0, source).value
        rule = lowering.rule
        return rule(builder, types, node.output.type, node.attrs, index).value

    def _check_adjoint(self, node: Node, result: Any) -> None:
        derivative = node.op.derivative
        fixed = derivative.fixed if isinstance(derivative, Linear) else ()
        if any(not v.dtype.is_float for p, v in enumerate(node.inputs) if p not in fixed):
            return
        with self.graph:
            cotangent = surface_function("constant")(_counting(result.shape))
        # the dims may be symbolic
        cotangent._type = node.output.type
        seen = np.vdot(_counting(result.shape), result)
        if isinstance(derivative, Linear):
            back = derivative.transpose(cotangent, node.inputs, node.output, node.attrs)
            assert all(back[place] is None for place in fixed)
            self._check_sum(node, back, seen)
        elif isinstance(derivative, Multilinear):
            for place, rule in enumerate(derivative.transposes):
                back = [None] * len(node.inputs)
                back[place] = rule(cotangent, node.inputs, node.output, node.attrs)
                self._check_sum(node, back, seen)
        elif isinstance(derivative, Custom) and node.op.name == "pad":
            back = derivative.vjp([cotangent], node.inputs, node.outputs, node.attrs)
            (tangent,) = derivative.jvp(node.inputs, node.inputs, node.outputs, node.attrs)
            assert tangent is not None
            self._check_sum(node, back, np.vdot(_counting(result.shape), self[tangent]))

    def _check_sum(self, node: Node, back: Sequence[Value | None], seen: Any) -> None:
        total = 0.0
        for value, cotangent in zip(node.inputs, back, strict=True):
            if cotangent is not None:
                assert cotangent.shape == value.shape, (node, cotangent, value)
                total += np.vdot(self[cotangent], self.arrays[value])
        np.testing.assert_allclose(total, seen, rtol=1e-10, atol=1e-9)


def _counting(shape: Sequence[int]) -> Any:
    """Distinct small cotangents."""
    return np.arange(1.0, np.prod(shape, dtype=int) + 1).reshape(shape)


def agrees(
    function: Callable[..., Any],
    expected: Any,
    *arrays: Any,
    dims: str = "both",
    exact: bool = True,
) -> None:
    """Checks ``function`` of placeholders against arrays, with known dims and with unknown ones."""
    for symbolic in {"both": (False, True), "known": (False,), "unknown": (True,)}[dims]:
        with Recorder() as graph:
            inputs = [
                placeholder((None,) * array.ndim if symbolic else array.shape, array.dtype)
                for array in map(np.asarray, arrays)
            ]
            fetches = function(*inputs)
        feeds = {value: np.asarray(a) for value, a in zip(inputs, arrays, strict=True)}
        many = isinstance(fetches, list)
        pairs = zip(fetches, expected, strict=True) if many else [(fetches, expected)]
        for fetch, wanted in pairs:
            found = Run(graph, feeds).check(fetch)
            assert found.dtype == np.asarray(wanted).dtype
            assert found.shape == np.shape(wanted)
            if exact:
                np.testing.assert_array_equal(found, wanted)
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)
