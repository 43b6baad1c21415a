"""Einstein summation: products of tensors whose axes are named by letters.

The coarse op ``einsum`` stays whole in the user's graph; it decomposes to products of two tensors
each, in the order that ``contraction_order`` finds. Invariant: attrs ``subscripts`` is complete:
without blanks, and with an output.

Order of the arithmetic (class R): letters of one operand alone are summed first; two tensors
that share summed letters are one matrix product, or a product and a sum where one of them has no
other letters; the order of the pairs depends on the subscripts and the sizes, with ``HINT`` for
symbolic ones. A sum over an axis that is empty is 0 in whatever order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, at_hint, compare, equal, product
from graphc.ir.dtypes import ALL, DType, bool_, floating, int64
from graphc.ir.guard import Data
from graphc.ir.lowering import Decompose
from graphc.ir.op import Domain, OpDef, ThroughDecomposition, register
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.complex.parts import as_decomposed
from graphc.ops.convert import common_shape, promoted, size_beside
from graphc.ops.guards import Guards, check_size, guarded, show, unproved
from graphc.ops.linalg.contraction_order import contraction_order
from graphc.ops.linalg.matmul import contracted
from graphc.ops.move.shape import broadcast_to, permuted, sample, with_shape
from graphc.ops.move.slicing import padded, part
from graphc.ops.pointwise.logic import logical_and, where
from graphc.ops.reduce.axes import any_op, reduced, sum_op
from graphc.ops.source import constant_beside

Labels = tuple[str, ...]
"""Names of axes: letters, and numbers for those of an ellipsis, counted from the right."""


# --- subscripts ----------------------------------------------------------------------------------


def _fail(subscripts: str, message: str, hint: str | None = None) -> ShapeError:
    return ShapeError(f"einsum {subscripts!r}: {message}", where=caller(), hint=hint)


def _check_term(subscripts: str, term: str) -> None:
    """Letters, and at most one ellipsis.

    Raises:
        ShapeError: naming the character that is neither.
    """
    rest = term.replace("...", "", 1)
    for letter in rest:
        if not (letter.isascii() and letter.isalpha()):
            hint = "an ellipsis is three dots, once an operand" if letter == "." else None
            raise _fail(subscripts, f"{letter!r} in {term!r} is not a letter", hint)


def _complete(subscripts: str, count: int) -> str:
    """The subscripts without blanks and with an output: NumPy's, if none is given.

    Raises:
        ShapeError: for text that is no subscripts, or of another number of operands.
    """
    text = "".join(subscripts.split())
    given, arrow, output = text.partition("->")
    terms = given.split(",")
    for term in (*terms, output):
        _check_term(subscripts, term)
    if len(terms) != count:
        raise _fail(subscripts, f"it names {len(terms)} operands and {count} are given")
    counts = Counter(letter for term in terms for letter in term if letter != ".")
    if not arrow:
        ellipsis = "..." if "..." in given else ""
        output = ellipsis + "".join(sorted(c for c, times in counts.items() if times == 1))
    for letter in output.replace("...", ""):
        if letter not in counts:
            raise _fail(subscripts, f"the output's {letter!r} is in no operand")
        if output.count(letter) > 1:
            raise _fail(subscripts, f"the output has {letter!r} twice")
    return f"{given}->{output}"


@dataclass(frozen=True, slots=True)
class _Axes:
    """What subscripts say of operands of known shapes.

    Attributes:
        operands: the labels of each operand's axes.
        output: those of the result.
        dims: the length of each label's axis.
        guards: the equalities that are left to check at run time.
    """

    operands: tuple[Labels, ...]
    output: Labels
    dims: dict[str, Dim]
    guards: Guards

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The shape of the result."""
        return tuple(self.dims[label] for label in self.output)


def _labels(term: str, extra: int) -> Labels:
    """The axes of a term whose ellipsis stands for ``extra`` axes."""
    before, dots, after = term.partition("...")
    middle = [str(number) for number in reversed(range(extra))] if dots else []
    return (*before, *middle, *after)


def _axes(subscripts: str, shapes: Sequence[tuple[Dim, ...]]) -> _Axes:
    """What complete subscripts say of operands of these shapes.

    Raises:
        ShapeError: naming the subscripts, for shapes that don't fit.
    """
    given, _, output = subscripts.partition("->")
    operands: list[Labels] = []
    ellipses: list[tuple[Dim, ...]] = []
    for term, shape in zip(given.split(","), shapes, strict=True):
        dotted = "..." in term
        extra = len(shape) - len(term.replace("...", ""))
        if extra < 0 or (extra and not dotted):
            few = "fewer" if extra < 0 else "more"
            message = f"an operand of shape {show(shape)} has {few} axes than {term!r}"
            raise _fail(subscripts, message)
        operands.append(_labels(term, extra))
        if dotted:
            start = term.index("...")
            ellipses.append(shape[start : start + extra])
    dims, guards = _dims(subscripts, operands, shapes)
    if ellipses:
        message = f"einsum {subscripts!r}: shapes {' and '.join('{}' for _ in ellipses)}, which "
        message += "... stands for, do not broadcast"
        wide, fit = common_shape(ellipses, message)
        if wide and "..." not in output:
            message = f"... stands for {show(wide)} and the output has none"
            raise _fail(subscripts, message, "add ... to the output")
        dims.update((str(len(wide) - 1 - place), dim) for place, dim in enumerate(wide))
        guards = (*guards, *fit)
    extra = max(map(len, ellipses), default=0)
    return _Axes(tuple(operands), _labels(output, extra), dims, guards)


def _dims(
    subscripts: str, operands: Sequence[Labels], shapes: Sequence[tuple[Dim, ...]]
) -> tuple[dict[str, Dim], Guards]:
    """The length of each letter's axis, and what has to be checked: 1 fits any other length."""
    found: dict[str, list[Dim]] = {}
    pairs: list[tuple[str, Dim, Dim]] = []
    for labels, shape in zip(operands, shapes, strict=True):
        own: dict[str, Dim] = {}
        for label, dim in zip(labels, shape, strict=True):
            if label.isdigit():
                continue
            if label in own:
                # A diagonal is not broadcast.
                pairs.append((label, own[label], dim))
            own[label] = _length(own.get(label, dim), dim)
        for label, dim in own.items():
            found.setdefault(label, []).append(dim)
    result: dict[str, Dim] = {}
    for label, dims in found.items():
        wide = [dim for dim in dims if dim != 1]
        result[label] = next((d for d in wide if isinstance(d, int)), wide[0] if wide else 1)
        pairs.extend((label, result[label], dim) for dim in wide)
    guards: dict[Data, None] = {}
    for label, one, other in pairs:
        message = f"einsum {subscripts!r}: the axes {label!r} are of {{}} and {{}} elements"
        guards.update(dict.fromkeys(unproved([(one, other)], message, one, other)))
    return result, tuple(guards)


def _length(one: Dim, other: Dim) -> Dim:
    """The length of a diagonal of two axes that a guard makes alike: a number if one is."""
    return other if isinstance(other, int) else one


# --- decomposition -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A tensor and the labels of its axes, all different."""

    value: Value
    labels: Labels


def _arranged(term: _Term, labels: Labels) -> Value:
    """The tensor with its axes in another order."""
    return permuted(term.value, [term.labels.index(label) for label in labels])


def _summed(term: _Term, labels: Sequence[str]) -> _Term:
    """The sum over axes; bools are joined by or."""
    axes = [axis for axis, label in enumerate(term.labels) if label in labels]
    if not axes:
        return term
    op = any_op if term.value.dtype is bool_ else sum_op
    left = tuple(label for label in term.labels if label not in labels)
    return _Term(reduced(op, term.value, axes, False), left)


def _diagonal(term: _Term) -> _Term:
    """Repeated labels become one axis.

    The elements (i, i) of n by n ones lie n + 1 apart, so they are the first column of rows of
    n + 1; a margin of n makes the last row whole.
    """
    while len(set(term.labels)) < len(term.labels):
        label = next(label for label, times in Counter(term.labels).items() if times > 1)
        first = term.labels.index(label)
        second = term.labels.index(label, first + 1)
        others = [a for a in range(len(term.labels)) if a not in (first, second)]
        size = _length(term.value.shape[first], term.value.shape[second])
        moved = permuted(term.value, [*others, first, second])
        beside = moved.shape[:-2]
        flat = with_shape(moved, (*beside, size * size), ())
        grown = padded(flat, (0,) * flat.ndim, (*(0 for _ in beside), size))
        rows = with_shape(grown, (*beside, size, size + 1), ())
        column = with_shape(part(rows, rows.ndim - 1, 0, 1), (*beside, size), ())
        term = _Term(column, (*(term.labels[a] for a in others), label))
    return term


def _prepared(value: Value, labels: Labels, axes: _Axes) -> _Term:
    """An operand with the dims that its labels have; an axis of 1 beside longer ones is dropped."""
    term = _diagonal(_Term(value, labels))
    kept = {
        label: dim
        for label, dim in zip(term.labels, term.value.shape, strict=True)
        if dim != 1 or axes.dims[label] == 1
    }
    plain = with_shape(term.value, tuple(kept.values()), ())
    wide = tuple(axes.dims[label] for label in kept)
    # Letters of unproved length are guarded; what an ellipsis stands for may turn out to be 1.
    if any(label.isdigit() and not equal(dim, axes.dims[label]) for label, dim in kept.items()):
        return _Term(broadcast_to(plain, wide), tuple(kept))
    return _Term(with_shape(plain, wide, ()), tuple(kept))


def _aligned(term: _Term, labels: Labels) -> Value:
    """The tensor with its axes in the order of ``labels`` and 1 for those that it has not."""
    order = tuple(label for label in labels if label in term.labels)
    value = _arranged(term, order)
    dims = dict(zip(order, value.shape, strict=True))
    return with_shape(value, tuple(dims.get(label, 1) for label in labels), ())


def _multiplied(a: _Term, b: _Term, labels: Labels) -> _Term:
    """The elementwise product over these labels."""
    left, right = _aligned(a, labels), _aligned(b, labels)
    value = logical_and(left, right) if left.dtype is bool_ else left * right
    return _Term(value, labels)


def _by_place(labels: Iterable[str], order: Labels) -> Labels:
    """The labels in the order they have elsewhere; those that are not there come last."""
    places = {label: place for place, label in enumerate(order)}
    return tuple(sorted(labels, key=lambda label: places.get(label, len(order))))


def _contracted(a: _Term, b: _Term, needed: set[str], output: Labels) -> _Term:
    """The product of two tensors, summed over the labels that nobody else needs."""
    shared = [label for label in a.labels if label in b.labels]
    summed = [label for label in shared if label not in needed]
    if not summed:
        return _multiplied(a, b, _by_place(dict.fromkeys((*a.labels, *b.labels)), output))
    only_a = tuple(label for label in a.labels if label not in shared)
    only_b = tuple(label for label in b.labels if label not in shared)
    for whole, vector, free in ((a, b, only_b), (b, a, only_a)):
        if not free and (whole.labels[-1] in summed or not (only_a or only_b)):
            # Each element is used once: a product of matrices would save nothing.
            return _summed(_multiplied(whole, vector, whole.labels), summed)
    first = _by_place((*only_a, *only_b), output)[0]
    if not only_b or (only_a and first in only_b):
        a, b, only_a, only_b = b, a, only_b, only_a
    batch = _by_place([label for label in shared if label in needed], output)
    return _as_matrices(a, b, batch, only_a, only_b, summed)


def _as_matrices(
    a: _Term, b: _Term, batch: Labels, only_a: Labels, only_b: Labels, summed: Sequence[str]
) -> _Term:
    """The product as one of stacks of matrices, with as few transposes as the labels allow."""
    dims = dict(zip((*a.labels, *b.labels), (*a.value.shape, *b.value.shape), strict=True))

    def lies(term: _Term, rows: Labels, columns: Labels) -> bool:
        return term.labels == (*batch, *rows, *columns)

    def copies(inner: Labels) -> int:
        pairs = ((a, only_a), (b, only_b))
        return sum(not (lies(t, free, inner) or lies(t, inner, free)) for t, free in pairs)

    def matrices(term: _Term, rows: Labels, columns: Labels) -> tuple[Value, bool]:
        """The term as stored, and whether that is transposed."""
        transposed = lies(term, columns, rows) and not lies(term, rows, columns)
        groups = (columns, rows) if transposed else (rows, columns)
        shape = [product(dims[label] for label in group) for group in groups]
        if batch:
            shape.insert(0, product(dims[label] for label in batch))
        value = _arranged(term, (*batch, *groups[0], *groups[1]))
        return with_shape(value, tuple(shape), ()), transposed

    inner = min((_by_place(summed, term.labels) for term in (a, b)), key=copies)
    left, transpose_a = matrices(a, only_a, inner)
    right, transpose_b = matrices(b, inner, only_b)
    result = contracted(left, right, transpose_a=transpose_a, transpose_b=transpose_b)
    labels = (*batch, *only_a, *only_b)
    return _Term(with_shape(result, tuple(dims[label] for label in labels), ()), labels)


def _einsum_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    axes = _axes(attrs["subscripts"], [value.shape for value in inputs])
    pairs = zip(inputs, axes.operands, strict=True)
    terms = {number: _prepared(*pair, axes) for number, pair in enumerate(pairs)}
    uses = Counter(label for term in terms.values() for label in term.labels)
    uses.update(axes.output)
    for number, term in terms.items():
        terms[number] = _summed(term, [label for label in term.labels if uses[label] == 1])
    order = contraction_order(
        [term.labels for term in terms.values()],
        axes.output,
        {label: at_hint(dim) for label, dim in axes.dims.items()},
    )
    last = set(axes.dims)
    for number, (first, second) in enumerate(order, len(inputs)):
        a, b = terms.pop(first), terms.pop(second)
        last = {*a.labels, *b.labels}
        needed = {label for term in terms.values() for label in term.labels}.union(axes.output)
        terms[number] = _contracted(a, b, needed, axes.output)
    (result,) = terms.values()
    arranged = with_shape(_arranged(result, axes.output), axes.shape, attrs.get("guards", ()))
    return _unless_empty(arranged, [dim for label, dim in axes.dims.items() if label not in last])


def _unless_empty(result: Value, lengths: Iterable[Dim]) -> Value:
    """The result, but 0 where one of the axes summed before the last product is empty.

    There are no terms then, while the product of a sum of none by an infinity is NaN.
    """
    unsure = [dim for dim in lengths if compare("lt", 0, dim) is not True]
    if not unsure or not result.dtype.is_inexact:
        return result
    zero = constant_beside(0, result.dtype, result)
    if any(dim == 0 for dim in unsure):
        return broadcast_to(zero, result.shape)
    filled = size_beside(product(unsure), int64, result) > 0
    chosen: Value = where(filled, result, zero)
    return chosen


# --- the op --------------------------------------------------------------------------------------


def _einsum_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    shapes = [operand.shape for operand in inputs]
    shape = _axes(attrs["subscripts"], shapes).shape
    check_size(shape, shapes)
    return [inputs[0].with_shape(shape)]


def _einsum_reference(*arrays: Any, subscripts: str, guards: Any = ()) -> Any:
    """np.einsum in the arrays' dtype; float32 is computed in float64 and rounded once."""
    dtype = arrays[0].dtype
    wide = np.float64 if floating(dtype) else dtype
    axes = _axes(subscripts, [array.shape for array in arrays])
    with np.errstate(all="ignore"):
        if 0 in axes.dims.values():
            return np.zeros(axes.shape, dtype)
        # Beyond two operands NumPy's own loop would take the product of all lengths.
        optimize = len(arrays) > 2
        terms = [array.astype(wide) for array in arrays]
        return np.asarray(np.einsum(subscripts, *terms, optimize=optimize)).astype(dtype)


_EXAMPLES = (
    ("ij,jk->ik", ((3, 4), (4, 5))),
    ("bij,bkj,k->ib", ((2, 3, 4), (2, 5, 4), (5,))),
    ("iij,j...->...i", ((3, 3, 4), (4, 2, 5))),
)


def _einsum_example(random: Any, dtype: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    subscripts, shapes = _EXAMPLES[int(random.integers(len(_EXAMPLES)))]
    return [sample(random, dtype, *shape) for shape in shapes], {"subscripts": subscripts}


einsum_op = register(
    OpDef(
        name="einsum",
        doc=(
            "The product of the operands, whose axes attrs ``subscripts`` names, summed over what "
            "its output lacks, in the operands' dtype. Bools are joined by or of ands."
        ),
        infer=_einsum_type,
        reference=_einsum_reference,
        derivative=ThroughDecomposition(),
        lowering=Decompose(_einsum_rule),
        numerics="R",
        domain=Domain(dtypes=ALL, example=_einsum_example),
        of_complex=as_decomposed,
    )
)


@surface
def einsum(subscripts: str, *operands: Any) -> Value:
    """Einstein summation by NumPy's rules: products of tensors whose axes letters name.

    The order of the products is the one with the fewest operations up to eight operands, that of
    a greedy search beyond; symbolic dims count as 32 in it.

    Args:
        subscripts: a term of letters per operand and, after ->, those of the result; without
            output the letters that stand once, in alphabetical order. A letter twice in a term is a
            diagonal; ... stands for further axes, which broadcast. Axes of one letter have one
            length, or 1 where that is known when the graph is built.
        operands: tensors of any dtype, promoted to one, in which the result is summed.

    Raises:
        ShapeError: for subscripts that are none or don't fit the operands; for lengths that can't
            be compared now, when the graph runs.
    """
    if not isinstance(subscripts, str):
        hint = "as np.einsum does; lists of axes are not taken"
        raise ShapeError("einsum takes its subscripts first, as text", where=caller(), hint=hint)
    complete = _complete(subscripts, len(operands))
    values = promoted(*operands)
    axes = _axes(complete, [value.shape for value in values])
    return apply(einsum_op, *values, subscripts=complete, **guarded(axes.guards))
