"""Where partial results leave the range on the way to a sum or product that is a number itself.

The contract (docs/numerics.md, "The order of sums") rounds each partial result to the dtype, and
one that overflows stays infinite or becomes NaN. References combine in wider numbers or in another
order, and so give a number there.

Role: the rule of check mode for this, in one place. A product is left open where one of its partial
products, in the order of the contract, overflows or underflows; the partial products of other
orders leave the range of any long product. A sum is left open where its terms above 0, or those
below, add up beyond the range, so that a partial sum of some order may leave it; not so where every
order gives the same infinity. Elsewhere no partial sum leaves the range, and the contract bounds
the error. The same goes for the products that a product of matrices adds, and for deviations.
Invariant: what is open is looked for in the core ops that coarse ones stand for, since those have
the partial results; nothing is open because a term is no number itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from graphc.base.errors import GraphcError
from graphc.checking.compare import same_bits, tolerance_of
from graphc.checking.interpreter import evaluate, resolve
from graphc.checking.reaction import Lookup, evaluated
from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.dtypes import floating
from graphc.ir.graph import Graph, Node
from graphc.ir.guard import without_guards
from graphc.ir.value import Value
from graphc.kernel.panels import unpack
from graphc.kernel.reference_reductions import combine_in_order
from graphc.ops.linalg.einsum import einsum_op
from passes.graph.decompose import decomposed_alone

MARKS = (np.nan, np.inf, -np.inf, 1.0)
"""What stands for a result that is open: whatever depends on it differs for one of these."""

SUBTRACTED = 16
"""Variances subtract at most this many times their result from a sum of squares."""


def open_places(
    nodes: Sequence[Node], given: Lookup, sizes: Mapping[str, int], value: Value
) -> Array | bool:
    """Where a value depends on a sum or product of which a partial result may leave the range.

    True, for everywhere, where what depends on such a result then looks beyond an array or runs on.

    Args:
        nodes: what computes the value.
        given: what the nodes read.
        sizes: of the symbolic dims.
        value: what one of the nodes makes.

    Raises:
        GraphcError: whatever a node raises of what is given, or OutOfBudget.
    """
    first = Marking(None)
    plain = evaluated(nodes, given, sizes, first)
    if not first.found or value not in plain:
        return False
    places = np.zeros(plain[value].shape, bool)
    for mark in MARKS:
        try:
            marked = evaluated(nodes, given, sizes, Marking(mark, first))
        except GraphcError:
            return True
        places |= ~same_bits(plain[value], marked[value])
    return places


class Marking:
    """Alters results (``graphc.checking.interpreter``): where one is open it becomes the mark.

    Attributes:
        found: whether any partial result left the range.
    """

    def __init__(self, mark: float | None, before: Marking | None = None) -> None:
        """Without a mark it only looks; one that looked before has decomposed what it met."""
        self.found = False
        self._mark = mark
        self._parts: dict[Node, Graph] = {} if before is None else before._parts

    def __call__(
        self,
        node: Node,
        operands: Sequence[Array],
        results: list[Array],
        sizes: Mapping[str, int],
    ) -> list[Array]:
        if node.op.numerics == "E":
            return results
        if node.op.lowering.is_coarse:
            results = self._marked_parts(node, operands, results, sizes)
        find = _FINDERS.get(node.op.name)
        if find is None or not floating(results[0].dtype):
            return results
        attrs = {name: resolve(a, sizes) for name, a in without_guards(node.attrs).items()}
        left, certain = find(*operands, **attrs)
        self.found |= bool(left.any())
        if self._mark is None:
            return results
        (result,) = results
        return [np.where(left & ~certain, result.dtype.type(self._mark), result)]

    def _marked_parts(
        self,
        node: Node,
        operands: Sequence[Array],
        results: list[Array],
        sizes: Mapping[str, int],
    ) -> list[Array]:
        """The results of a coarse op, marked where those of its core ops are."""
        if node not in self._parts:
            self._parts[node] = decomposed_alone(node)
        graph, inputs = self._parts[node], dict(zip(node.inputs, operands, strict=True))
        before, self.found = self.found, False
        marked = evaluate(graph, inputs, sizes, alter=self)
        if self.found and self._mark is not None:
            plain = evaluate(graph, inputs, sizes)
            results = [
                np.where(_is_untouched(*arrays), arrays[0], arrays[2])
                for arrays in zip(results, plain, marked, strict=True)
            ]
        self.found |= before
        return results


def _is_untouched(result: Array, plain: Array, marked: Array) -> Array:
    """Where a coarse op's result is what it is though its core ops leave the range.

    Not so where they give another infinity, or no number, since the whole has a wider range.
    """
    untouched = same_bits(plain, marked)
    untouched &= np.isfinite(plain) | same_bits(plain, result)
    return untouched


# --- the rule ------------------------------------------------------------------------------------

Places: TypeAlias = tuple[Array, Array]
"""Where partial results may leave the range, and where every order gives the same infinity."""

_UNIT = 1 / 8
"""Terms of sums are multiplied by that, so that a little beyond the range is a number."""


def _may_leave(sizes: Array) -> Array:
    """Sizes, in units of ``_UNIT``, that as rounding goes may be beyond the range."""
    return _is_beyond(sizes, -tolerance_of(sizes.dtype))


def _is_beyond(sizes: Array, margin: float) -> Array:
    return np.asarray(sizes >= as_dtype(sizes.dtype).format.largest * _UNIT * (1 + margin))


def _above_and_below(terms: Array) -> tuple[Array, Array]:
    """The terms above 0 and those below, in units; what is no number itself is left out."""
    scaled = np.where(np.isfinite(terms), terms * terms.dtype.type(_UNIT), 0)
    return np.maximum(scaled, 0), np.maximum(-scaled, 0)


def _sums(above: Array, below: Array, finite: Array) -> Places:
    """Of the terms above 0, and those below, added up in units, and where all are finite."""
    up, down = _may_leave(above), _may_leave(below)
    margin = tolerance_of(above.dtype)
    # beyond the range itself, and to one side alone: the same infinity in every order
    certain = _is_beyond(above - below, margin) & ~down
    certain |= _is_beyond(below - above, margin) & ~up
    return up | down, certain & finite


def _of_sum(terms: Array, axis: int, order: str) -> Places:
    above, below = (np.sum(side, axis=axis) for side in _above_and_below(terms))
    return _sums(above, below, np.all(np.isfinite(terms), axis=axis))


def _of_contraction(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Places:
    left = np.swapaxes(a, -1, -2) if transpose_a else a
    right = np.swapaxes(b, -1, -2) if transpose_b else b
    (a_above, a_below), (b_above, b_below) = _above_and_below(left), _above_and_below(right / _UNIT)
    finite = np.all(np.isfinite(left), axis=-1, keepdims=True)
    finite = finite & np.all(np.isfinite(right), axis=-2, keepdims=True)
    above = np.matmul(a_above, b_above) + np.matmul(a_below, b_below)
    return _sums(above, np.matmul(a_above, b_below) + np.matmul(a_below, b_above), finite)


def _of_panels(a: Array, packed: Array, k: int, n: int, transpose_a: bool) -> Places:
    return _of_contraction(a, unpack(packed, k, n), transpose_a, False)


def _of_einsum(*operands: Array, subscripts: str) -> Places:
    """Of all products and sums at once; its parts have partial results of their own."""
    sizes = [np.where(np.isfinite(operand), np.abs(operand), 0) for operand in operands]
    total = einsum_op.reference(sizes[0] * _UNIT, *sizes[1:], subscripts=subscripts)
    return _may_leave(total), np.zeros(total.shape, bool)


def _of_deviations(
    terms: Array, axis: int, order: str, scale: float = 1.0, shift: float = 0.0
) -> Places:
    """Where deviations from the pivot leave the range, or their sum, or their squares alone.

    The pivot is no farther from the mean than the farthest term, see SUBTRACTED for the squares. A
    term that is no number gives NaN in any order. The shift is small beside what leaves the range.
    """
    count = max(terms.shape[axis], 1)
    unit = terms.dtype.type(_UNIT)
    deviations = terms * unit - np.sum(terms * (unit / count), axis=axis, keepdims=True)
    farthest = 2 * np.max(np.abs(deviations), axis=axis, initial=0)
    squares = np.sum(np.square(deviations * terms.dtype.type(scale / _UNIT**0.5)), axis=axis)
    none = _may_leave(farthest) | _may_leave(farthest * (count * scale))
    left = none | _may_leave((1 + SUBTRACTED) * squares)
    certain = _is_beyond(squares, tolerance_of(terms.dtype)) & ~none
    return left & np.all(np.isfinite(terms), axis=axis), certain


def _of_product(terms: Array, axis: int, order: Any) -> Places:
    """Where a partial product is out of the range: NaN stands for one from there on."""
    last = np.moveaxis(np.where(np.isfinite(terms), terms, 1), axis, -1)
    if not last.shape[-1]:
        return np.zeros(last.shape[:-1], bool), np.zeros(last.shape[:-1], bool)
    numbers, tolerance = as_dtype(terms.dtype).format, tolerance_of(terms.dtype)
    least, largest = numbers.smallest_normal * (1 + tolerance), numbers.largest * (1 - tolerance)

    def multiply(total: Array, term: Array) -> Array:
        result = total * term
        size = np.abs(result)
        inside = (size >= least) & (size < largest) | (total == 0) | (term == 0)
        return np.where(inside, result, terms.dtype.type(np.nan))

    element = as_dtype(terms.dtype)
    result = combine_in_order(multiply, multiply, terms.dtype.type(1), last, element, order)
    return np.isnan(result), np.zeros(result.shape, bool)


_FINDERS: Mapping[str, Callable[..., Places]] = {
    "reduce_sum": _of_sum,
    "reduce_prod": _of_product,
    "reduce_deviations": _of_deviations,
    "contract": _of_contraction,
    "contract_panels": _of_panels,
    "einsum": _of_einsum,
}
"""The ops of several terms; running sums and products have references in their very order."""


__all__ = ["MARKS", "SUBTRACTED", "Marking", "open_places"]
