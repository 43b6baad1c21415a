"""Double-double numbers: sums of two float64, with 106 bits, as the shadow of float64 programs.

Sums, products, quotients and square roots are those of T. J. Dekker, "A floating-point technique
for extending the available precision" (Numerische Mathematik 18, 1971), made of D. E. Knuth's
error-free sum. Elementary functions are evaluated in the long double of the machine, which must
have more bits than float64, and are good to its precision; the range is that of float64.

Invariant: a number is stored as a complex one, high part and remainder. So NumPy moves both at
once (reshaping, indexing, selecting), and compares them in the right order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import UnsupportedError
from graphc.checking.audit.shadow import Doubles, Wide, numeric_attributes
from graphc.checking.long_double import FUNCTIONS, IS_WIDE
from graphc.ir.attributes import Array
from graphc.ir.graph import Graph, Node
from graphc.ops.linalg.matmul import contract_op
from graphc.ops.pointwise.logic import astype_op
from graphc.ops.pointwise.precision import reduce_precision_op
from passes.graph.decompose import decompose
from passes.infra.base import PassContext

_SPLITTER = 2.0**27 + 1


# --- arithmetic ----------------------------------------------------------------------------------


def pack(high: Any, low: Any) -> Wide:
    """A normalised pair as one array; no remainder where the number is not finite."""
    high = np.asarray(high, np.float64)
    keeps = np.isfinite(high) & np.isfinite(low)
    result = np.empty(np.shape(keeps), np.complex128)
    result.real = high
    result.imag = np.where(keeps, low, 0.0)
    return result


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b rounded, and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: Any) -> tuple[Any, Any]:
    """The upper and the lower half of the significand."""
    scaled = _SPLITTER * a
    upper = scaled - (scaled - a)
    return upper, a - upper


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    """a * b rounded, and its error."""
    product = a * b
    a1, a2 = _split(a)
    b1, b2 = _split(b)
    return product, ((a1 * b1 - product) + a1 * b2 + a2 * b1) + a2 * b2


def add(x: Wide, y: Wide) -> Wide:
    """x + y."""
    high, low = _two_sum(x.real, y.real)
    other, rest = _two_sum(x.imag, y.imag)
    top, error = _two_sum(high, low + other)
    total = top + (error + rest)
    keeps = ~np.isfinite(high) | ((high == 0) & (total == 0))  # -0 + 0 would be 0
    return pack(np.where(keeps, high, total), (error + rest) - (total - top))


def negative(x: Wide) -> Wide:
    """-x, of the parts: the product by -1 of complex numbers would mix them."""
    return pack(-x.real, -x.imag)


def multiply(x: Wide, y: Wide) -> Wide:
    """x * y."""
    high, low = _two_product(x.real, y.real)
    return _normal(high, low + (x.real * y.imag + x.imag * y.real))


def divide(x: Wide, y: Wide) -> Wide:
    """x / y, by one step of long division from the quotient of the high parts."""
    quotient = x.real / y.real
    rest = add(x, negative(multiply(pack(quotient, 0.0), y)))
    return _normal(quotient, rest.real / y.real)


def sqrt(x: Wide) -> Wide:
    """The square root, by one step of Newton's from that of the high part."""
    root = np.sqrt(x.real)
    square, error = _two_product(root, root)
    rest = ((x.real - square) - error) + x.imag
    return _normal(root, np.where(root == 0, 0.0, rest / (2 * root)))


def _normal(high: Any, low: Any) -> Wide:
    """A pair whose low part may reach into the high one."""
    total = high + np.where(np.isfinite(high) & np.isfinite(low), low, 0.0)
    total = np.where((high == 0) & (total == 0), high, total)  # -0 + 0 would be 0
    return pack(total, low - (total - high))


def fold(combine: Callable[[Wide, Wide], Wide], x: Wide, axis: int, neutral: float) -> Wide:
    """All numbers along an axis combined, by halves."""
    while x.shape[axis] > 1:
        half = x.shape[axis] // 2
        parts = np.split(x, [half, 2 * half], axis)
        folded = combine(parts[0], parts[1])
        x = np.concatenate([folded, parts[2]], axis) if parts[2].shape[axis] else folded
    if not x.shape[axis]:
        return np.full((*x.shape[:axis], *x.shape[axis + 1 :]), complex(neutral, 0.0))
    return np.asarray(np.take(x, 0, axis))


def _where(condition: Wide, x: Wide, y: Wide, seldom: bool = False) -> Wide:
    return np.where(condition, x, y)


def _deviations(x: Wide, axis: int) -> Wide:
    if not x.shape[axis]:
        return fold(add, x, axis, 0.0)
    total = np.expand_dims(fold(add, x, axis, 0.0), axis)
    differences = add(x, negative(divide(total, np.full_like(total, x.shape[axis]))))
    return fold(add, multiply(differences, differences), axis, 0.0)


def _running(combine: Callable[[Wide, Wide], Wide], x: Wide, axis: int) -> Wide:
    result = np.moveaxis(x.copy(), axis, 0)
    for place in range(1, result.shape[0]):
        result[place] = combine(result[place - 1], result[place])
    return np.moveaxis(result, 0, axis)


def _matrix_product(a: Wide, b: Wide, transpose_a: bool, transpose_b: bool) -> Wide:
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    total = np.zeros((*left.shape[:-1], right.shape[-1]), np.complex128)
    for k in range(left.shape[-1]):
        total = add(total, multiply(left[..., :, k, None], right[..., None, k, :]))
    return total


# --- functions -----------------------------------------------------------------------------------


def _long(x: Wide) -> Any:
    total = np.asarray(x.real, np.longdouble) + np.asarray(x.imag, np.longdouble)
    return np.where(x.imag == 0, np.asarray(x.real, np.longdouble), total)  # -0 + 0 would be 0


def _from_long(number: Any) -> Wide:
    high = np.asarray(number).astype(np.float64)
    return pack(high, np.asarray(np.asarray(number) - high, np.float64))


def _minimum(x: Wide, y: Wide) -> Wide:
    return np.asarray(np.minimum(x, y))


def _maximum(x: Wide, y: Wide) -> Wide:
    return np.asarray(np.maximum(x, y))


def _guarded(factor: Wide, other: Wide) -> Wide:
    return np.where(factor == 0, 0.0, multiply(factor, other))


_ARITHMETIC: dict[str, Callable[..., Wide]] = {
    "add": add,
    "subtract": lambda x, y: add(x, negative(y)),
    "multiply": multiply,
    "guarded_multiply": _guarded,
    "divide": divide,
    "negative": negative,
    "sqrt": sqrt,
    "abs": lambda x: np.where(x.real < 0, negative(x), x),
    "minimum": _minimum,
    "maximum": _maximum,
    "where": _where,
    "logaddexp": lambda x, y: _from_long(np.logaddexp(_long(x), _long(y))),
    "nextafter": lambda x, y: pack(np.nextafter(x.real, y.real), 0.0),
    "reduce_sum": lambda x, axis, order: fold(add, x, axis, 0.0),
    "reduce_prod": lambda x, axis, order: fold(multiply, x, axis, 1.0),
    "reduce_deviations": lambda x, axis, order, scale=1.0, shift=0.0: _deviations(
        multiply(x, np.full_like(x, scale)), axis
    ),
    "reduce_max": lambda x, axis, order: np.max(x, axis=axis),
    "reduce_min": lambda x, axis, order: np.min(x, axis=axis),
}


# --- the shadow ----------------------------------------------------------------------------------


class DoubleDoubleShadow:
    """106 bits; for programs in any dtype."""

    name = "double-double"
    digits = 106

    def __init__(self) -> None:
        """Raises UnsupportedError where long double is no wider than float64."""
        if not IS_WIDE:
            raise UnsupportedError(
                "double-double audits need a long double wider than float64, which this machine "
                "does not have",
                hint='programs in float32 can be audited with precision="float64"',
            )
        self._decomposed: dict[Node, Graph] = {}

    def widen(self, array: Array) -> Wide:
        """The same numbers."""
        return pack(array, np.zeros(array.shape))

    def parts(self, wide: Wide) -> tuple[Doubles, Doubles]:
        """High parts and remainders."""
        return wide.real, wide.imag

    def evaluate(
        self, node: Node, operands: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Wide | None]:
        """The node by this arithmetic; coarse ops by their decomposition."""
        with np.errstate(all="ignore"):
            if node.op.lowering.is_coarse:
                results = self._coarse(node, operands, sizes)
            else:
                results = self._results(node, operands, numeric_attributes(node, sizes))
        return [
            result if value.dtype.is_float else None
            for value, result in zip(node.outputs, results, strict=True)
        ]

    def _coarse(
        self, node: Node, operands: Sequence[Array], sizes: Mapping[str, int]
    ) -> list[Array]:
        graph = self._decomposed.get(node)
        if graph is None:
            alone = Graph(node.op.name, tuple(dict.fromkeys(node.inputs)), (node,), node.outputs)
            graph = self._decomposed[node] = decompose(alone, PassContext())
        values: dict[Any, Array] = dict(zip(node.inputs, operands, strict=True))
        for step in graph.nodes:
            arrays = [values[value] for value in step.inputs]
            made = self._results(step, arrays, numeric_attributes(step, sizes))
            values.update(zip(step.outputs, made, strict=True))
        return [values[value] for value in graph.outputs]

    def _results(
        self, node: Node, operands: Sequence[Array], attrs: Mapping[str, Any]
    ) -> list[Array]:
        if not node.op.any_precision:
            return [self._core(node, operands, attrs)]
        longs = [_long(array) if _is_wide(array) else array for array in operands]
        made = node.op.reference(*longs, **attrs)
        results = made if isinstance(made, tuple) else (made,)
        pairs = zip(node.outputs, results, strict=True)
        return [_from_long(part) if v.dtype.is_float else np.asarray(part) for v, part in pairs]

    def _core(self, node: Node, operands: Sequence[Array], attrs: Mapping[str, Any]) -> Array:
        op = node.op
        if len(node.outputs) > 1:
            raise _unknown(node)
        if not node.output.dtype.is_float or not any(map(_is_wide, operands)):
            plain = [array.real if _is_wide(array) else array for array in operands]
            result = np.asarray(op.reference(*plain, **attrs))
            return self.widen(result) if node.output.dtype.is_float else result
        if op is astype_op or op is reduce_precision_op:
            # that digits are dropped is the error that is looked for
            return operands[0]
        if op.name in _ARITHMETIC:
            return np.asarray(_ARITHMETIC[op.name](*operands, **attrs))
        if op.lowering.running is not None:
            return _running(_ARITHMETIC[op.lowering.running], operands[0], attrs["axis"])
        if op is contract_op:
            left, right = operands
            return _matrix_product(left, right, attrs["transpose_a"], attrs["transpose_b"])
        if op.lowering.is_move or op.lowering.rearranges:
            return np.asarray(op.reference(*operands, **attrs))
        if op.name in FUNCTIONS:
            return _from_long(FUNCTIONS[op.name](*map(_long, operands)))
        if op.lowering.updates is not None:
            longs = [_long(array) if _is_wide(array) else array for array in operands]
            return _from_long(op.reference(*longs, **attrs))
        raise _unknown(node)


def _unknown(node: Node) -> UnsupportedError:
    return UnsupportedError(
        f"a double-double audit does not know {node.op.name}",
        where=node.provenance.where,
        node=repr(node),
        hint='precision="float64" audits float32 programs with every op',
    )


def _is_wide(array: Array) -> bool:
    return array.dtype.kind == "c"
