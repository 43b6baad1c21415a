"""What the op contract test is made of: tracing one op, sampling it, running its rules on arrays.

Invariant: nothing here knows a single op by name; everything is read from its ``OpDef``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bits import assert_same_bits

from graphc.checking.interpreter import evaluate
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply_node
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import NARROW_FLOATS, DType, bool_, dtype, float32, int64
from graphc.ir.graph import Graph
from graphc.ir.lowering import Decompose, Element, Pointwise, Structural, View
from graphc.ir.op import OpDef, Partials, all_ops
from graphc.ir.recorder import Recorder
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES, cast
from graphc.ops.narrow_floats import rounded, types_of, widened

# --- building ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Traced:
    """One op over placeholders, as users' graph and as the compiler's."""

    recorder: Recorder
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]

    @property
    def graph(self) -> Graph:
        """Everything recorded so far, from the placeholders to the op's outputs."""
        return self.graph_of(self.outputs)

    def graph_of(self, outputs: Sequence[Value]) -> Graph:
        """Everything recorded so far, from the placeholders to some outputs."""
        nodes = [node for node in self.recorder.nodes if node.op.name != "placeholder"]
        return Graph("traced", self.inputs, nodes, outputs)


def placeholders(
    recorder: Recorder, arrays: Sequence[Any], symbolic: bool = False
) -> tuple[Value, ...]:
    """A placeholder per array; if symbolic, equal sizes above 1 are one symbol."""
    made = []
    for array in arrays:
        shape = tuple(f"n{size}" if symbolic and size > 1 else size for size in array.shape)
        made.append(surface_function("placeholder")(shape, dtype(array.dtype)))
    return tuple(made)


def trace(
    op: OpDef,
    arrays: Sequence[Any],
    attrs: Attributes,
    symbolic: bool = False,
    recorder: Recorder | None = None,
) -> Traced:
    """The op itself over placeholders like the arrays, in a graph of its own unless given."""
    recorder = recorder or Recorder("contract")
    with recorder:
        inputs = placeholders(recorder, arrays, symbolic)
        outputs = apply_node(op, inputs, attrs).outputs
    return Traced(recorder, inputs, outputs)


def trace_decomposition(op: OpDef, arrays: Sequence[Any], attrs: Attributes) -> Traced:
    """The op's decomposition over placeholders like the arrays."""
    assert isinstance(op.lowering, Decompose)
    recorder = Recorder("decomposition")
    with recorder:
        inputs = placeholders(recorder, arrays)
        # as the pass does: types are computed, attributes are those of the node
        results = op.lowering.parts(widened(inputs), attrs)
        outputs = rounded(results, op.infer(types_of(inputs), attrs))
    return Traced(recorder, inputs, tuple(outputs))


def run(function: Callable[..., Any], *arrays: Any, symbolic: bool = False) -> Any:
    """What a function of values gives for arrays, by the interpreter."""
    fed = [np.asarray(array) for array in arrays]
    recorder = Recorder("run")
    with recorder:
        inputs = placeholders(recorder, fed, symbolic)
        output = function(*inputs)
    return evaluate(Traced(recorder, inputs, (output,)).graph, fed)[0]


# --- sampling ------------------------------------------------------------------------------------


def sampled_ops() -> list[OpDef]:
    """Every op that stands for itself: not constants, state and control."""
    return [op for op in all_ops() if not isinstance(op.lowering, Structural)]


def cases() -> list[tuple[OpDef, DType]]:
    """Every op with every dtype of its domain."""
    return [(op, element) for op in sampled_ops() for element in op.domain.dtypes]


def sample(op: OpDef, element: DType, seed: int) -> tuple[list[Any], dict[str, Any]]:
    """Arrays and attributes for an op."""
    assert op.domain.example is not None, f"{op.name} has no example in its domain"
    arrays, attrs = op.domain.example(np.random.default_rng(seed), element)
    return [np.asarray(array) for array in arrays], dict(attrs)


def is_pointwise(op: OpDef) -> bool:
    """True if each output element depends on the same element of each input."""
    return isinstance(op.lowering, Pointwise) or isinstance(op.derivative, Partials)


def special_values(element: DType) -> Any:
    """NaN, infinities, zeros, denormals and extremes; both ends of integers."""
    if element is bool_:
        return np.array([False, True])
    if element.is_float:
        limits = element.format
        numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, np.nan, np.inf, -np.inf,
                   limits.smallest, -limits.smallest_normal,
                   limits.largest, -limits.largest, limits.spacing]  # fmt: skip
        return np.array(numbers, element.numpy)
    least, greatest = element.least, element.greatest
    return np.array([least, greatest, 0, 1, 2, 7, greatest - 1], element.numpy)


def special_sample(op: OpDef, element: DType) -> tuple[list[Any], dict[str, Any]]:
    """A pointwise op on every combination of special values of its inputs."""
    arrays, attrs = sample(op, element, 0)
    columns = [special_values(dtype(array.dtype)) for array in arrays]
    grid = np.meshgrid(*columns, indexing="ij")
    return [np.ascontiguousarray(part) for part in grid], attrs


# --- comparing -----------------------------------------------------------------------------------


def assert_close(op: OpDef, got: Any, wanted: Any) -> None:
    """Within the op's class: to the bit (E), or to its documented accuracy (R, T)."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    element = dtype(got.dtype)
    if op.numerics == "E" or not element.is_float:
        assert_same_bits(got, wanted)
        return
    assert got.dtype == wanted.dtype and got.shape == wanted.shape
    single = element.computed is float32
    if element in NARROW_FLOATS:
        # float32 results that differ a little are rounded to neighbours at most
        got, wanted = got.astype(np.float32), wanted.astype(np.float32)
        scale = float(np.max(np.abs(wanted[np.isfinite(wanted)]), initial=0.0))
        room = element.format.smallest + (0.0 if is_pointwise(op) else 2e-6 * scale)
        np.testing.assert_allclose(got, wanted, rtol=1.01 * element.format.spacing, atol=room)
        return
    if op.max_ulp and is_pointwise(op):
        # NumPy's own float64 functions are good to about 2 ulp
        room = (op.max_ulp + (0.5 if single else 2.0)) * float(np.finfo(got.dtype).eps)
        tiny = 4 * float(np.finfo(got.dtype).smallest_subnormal)
        np.testing.assert_allclose(got, wanted, rtol=room, atol=tiny)
        return
    finite = wanted[np.isfinite(wanted)]
    scale = float(np.max(np.abs(finite), initial=0.0))
    precision = 2e-6 if single else 1e-13
    np.testing.assert_allclose(got, wanted, rtol=8 * precision, atol=precision * min(scale, 1e30))


# --- lowering rules on arrays --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lanes:
    """A kernel scalar for all output elements at once."""

    dtype: DType
    array: Any


class ArrayElements:
    """An element builder that computes with NumPy: what a lowering rule means."""

    def __init__(self, operands: Sequence[Any]) -> None:
        self.operands = list(operands)

    def constant(self, value: bool | int | float, element: DType) -> Lanes:
        return Lanes(element, np.asarray(value, element.numpy))

    def dim(self, size: Dim) -> Lanes:
        assert isinstance(size, int)
        return Lanes(int64, np.asarray(size, np.int64))

    def apply(self, primitive: str, *operands: Any) -> Lanes:
        definition = PRIMITIVES[primitive]
        assert len(operands) == definition.arity
        elements = [operand.dtype for operand in operands]
        working = elements[1:] if primitive == "select" else elements
        assert all(element is working[0] for element in working), f"{primitive} of {elements}"
        assert definition.takes(working[0]), f"{primitive} of {elements}"
        result = definition.result_dtype(elements)
        values = definition.reference(*(np.asarray(operand.array) for operand in operands))
        return Lanes(result, np.asarray(values).astype(result.numpy, copy=False))

    def cast(self, operand: Any, element: DType) -> Lanes:
        return Lanes(element, cast(operand.array, element))

    def load(self, operand: int, index: Sequence[Any]) -> Lanes:
        array = self.operands[operand]
        return Lanes(dtype(array.dtype), array[tuple(part.array for part in index)])

    def load_if(self, condition: Any, operand: int, index: Sequence[Any], other: Any) -> Lanes:
        array = self.operands[operand]
        full = np.broadcast_arrays(condition.array, *(part.array for part in index))
        safe = tuple(np.where(full[0], part, 0) for part in full[1:])
        if array.size == 0:
            assert not np.any(full[0])
            return Lanes(dtype(array.dtype), np.broadcast_to(other.array, full[0].shape))
        return Lanes(dtype(array.dtype), np.where(full[0], array[safe], other.array))

    def checked_index(self, index: Any, bound: Dim, axis: int, wraps: bool = True) -> Lanes:
        assert isinstance(bound, int)
        assert np.all((index.array >= (-bound if wraps else 0)) & (index.array < bound))
        places = index.array.astype(np.int64)
        return Lanes(int64, np.where(places < 0, places + bound, places))


def has_element_rule(op: OpDef) -> bool:
    """Whether the op's lowering says what one element of its output is."""
    return isinstance(op.lowering, (Pointwise, View, Element))


def run_lowering(op: OpDef, traced: Traced, arrays: Sequence[Any], attrs: Attributes) -> Any:
    """The op's lowering rule on whole arrays, for an op that has a rule per element."""
    output = traced.outputs[0]
    shape = tuple(int(size) for size in output.shape)  # type: ignore[call-overload]
    types = [value.type for value in traced.inputs]
    element = output.dtype
    if not op.lowering.keeps_words:
        arrays = [cast(array, dtype(array.dtype).computed) for array in arrays]
        types = [type_.with_dtype(type_.dtype.computed) for type_ in types]
        element = element.computed
    builder: Any = ArrayElements(arrays)
    index: list[Any] = [Lanes(int64, part) for part in np.indices(shape, dtype=np.int64)]
    if isinstance(op.lowering, Pointwise):
        operands: list[Any] = [Lanes(dtype(array.dtype), array) for array in arrays]
        rule = op.lowering.rule
        result: Any = (
            builder.apply(rule, *operands)
            if isinstance(rule, str)
            else rule(builder, operands, attrs)
        )
    elif isinstance(op.lowering, View):
        source = op.lowering.index(builder, types[0], output.type, attrs, index)
        result = builder.load(0, source)
    else:
        assert isinstance(op.lowering, Element)
        result = op.lowering.rule(builder, types, output.type, attrs, index)
    assert result.dtype is element
    return np.broadcast_to(cast(result.array, output.dtype), shape)


__all__ = [
    "ArrayElements",
    "Traced",
    "assert_close",
    "cases",
    "has_element_rule",
    "is_pointwise",
    "placeholders",
    "run",
    "run_lowering",
    "sample",
    "sampled_ops",
    "special_sample",
    "special_values",
    "trace",
    "trace_decomposition",
]
