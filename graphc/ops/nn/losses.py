"""Losses: softmax cross entropy and the mean squared error.

Invariant: losses are computed from shifted logits, never from the logarithm of a softmax, so that
any finite logits give finite losses and derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import compare
from graphc.ir.dtypes import FLOATS, INTEGERS, DType, floating
from graphc.ir.lowering import Decompose, Element, ElementBuilder, Scalar
from graphc.ir.op import Custom, Domain, Flat, OpDef, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.convert import as_value, promoted
from graphc.ops.declare import float_operand, refuse
from graphc.ops.guards import show, unproved
from graphc.ops.indexing.core import take_along_axis_op
from graphc.ops.indexing.places import checked
from graphc.ops.move.shape import with_shape
from graphc.ops.nn.layers import log_softmax, log_softmax_reference, shifted, softmax
from graphc.ops.pointwise.arithmetic import guarded_multiply, square
from graphc.ops.pointwise.math import exp, log
from graphc.ops.reduce.axes import sum_
from graphc.ops.reduce.core import element_guards
from graphc.ops.reduce.statistics import mean

# --- labels --------------------------------------------------------------------------------------


def _class_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    (labels,) = inputs
    if not labels.dtype.is_integer:
        raise DTypeError(f"class_index takes integers, not {labels.dtype}")
    return [labels]


def _class_reference(labels: Any, *, classes: int, axis: int) -> Any:
    checked(labels, classes, axis, wraps=False)
    return labels


def _class_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    checked = b.checked_index(b.load(0, index), attrs["classes"], attrs["axis"], wraps=False)
    return b.cast(checked, result.dtype)


def _class_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return [rng.integers(0, 5, (3, 4)).astype(element.numpy)], {"classes": 5, "axis": 1}


class_index_op = register(
    OpDef(
        name="class_index",
        doc="The integers themselves, each checked to be a class: at least 0 and below "
        "``classes``, the size of this axis. They do not count from the end.",
        infer=_class_type,
        reference=_class_reference,
        derivative=Flat(),
        lowering=Element(_class_rule),
        may_fail=True,
        domain=Domain(INTEGERS, example=_class_example),
    )
)


def _classes(labels: Value, logits: Value) -> Value:
    last = logits.ndim - 1
    return apply(class_index_op, labels, classes=logits.shape[last], axis=last)


# --- cross entropy -------------------------------------------------------------------------------


def _entropy_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    logits, labels = inputs
    if logits.dtype not in FLOATS or not (labels.dtype.is_integer or labels.dtype is logits.dtype):
        raise DTypeError(
            f"softmax_cross_entropy does not take {logits.dtype} logits with {labels.dtype} labels",
            hint="logits are floats, labels integer classes or probabilities of the same dtype",
        )
    if logits.rank == 0:
        raise ShapeError("logits need an axis of classes")
    expected = logits.shape[:-1] if labels.dtype.is_integer else logits.shape
    fits = labels.rank == len(expected) and all(
        compare("eq", given, wanted) is not False
        for given, wanted in zip(labels.shape, expected, strict=True)
    )
    if not fits:
        raise ShapeError(
            f"labels {labels} do not fit logits {logits}",
            hint="classes are integers and have the logits' shape without the last axis; "
            "probabilities are floats and have all of it",
        )
    return [TensorType(logits.dtype, logits.shape[:-1])]


def _entropy_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    logits, labels = inputs
    last = logits.ndim - 1
    if not labels.dtype.is_integer:
        return -sum_(guarded_multiply(labels, log_softmax(logits)), last)
    lowered = shifted(logits, (last,))
    column = surface_function("expand_dims")(labels, last)
    picked = apply(take_along_axis_op, lowered, column, axis=last, wraps=False)
    result: Value = log(sum_(exp(lowered), last)) - surface_function("squeeze")(picked, last)
    return result


def _entropy(logits: Any, labels: Any) -> Any:
    with np.errstate(all="ignore"):
        logarithms = log_softmax_reference(np.asarray(logits, np.float64), (logits.ndim - 1,))
        if floating(labels.dtype):
            terms = np.where(labels == 0, 0, labels * logarithms)
            return np.asarray(0 - np.sum(terms, axis=-1)).astype(logits.dtype)
        places = _class_reference(labels, classes=logits.shape[-1], axis=logits.ndim - 1)
        picked = np.take_along_axis(logarithms, places[..., None].astype(np.int64), -1)
        return np.asarray(0 - picked[..., 0]).astype(logits.dtype)


def _entropy_slope(logits: Value, labels: Value) -> Value:
    """d loss / d logits."""
    shares = softmax(logits)
    if labels.dtype.is_integer:
        known = _classes(labels, logits)
        slope: Value = shares - surface_function("one_hot")(known, logits.shape[-1], logits.dtype)
        return slope
    return shares * sum_(labels, logits.ndim - 1, True) - labels


def _entropy_jvp(
    tangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    logits, labels = inputs
    last = logits.ndim - 1
    along_logits, along_labels = tangents
    result: Value | None = None
    if along_logits is not None:
        slope = _entropy_slope(logits, labels)
        result = sum_(guarded_multiply(along_logits, slope), last)
    if along_labels is not None:
        term = -sum_(guarded_multiply(along_labels, log_softmax(logits)), last)
        result = term if result is None else result + term
    return (result,)


def _entropy_vjp(
    cotangents: Sequence[Value | None],
    inputs: Sequence[Value],
    outputs: Sequence[Value],
    attrs: Attributes,
) -> Sequence[Value | None]:
    (cotangent,) = cotangents
    if cotangent is None:
        return None, None
    logits, labels = inputs
    column = surface_function("expand_dims")(cotangent, logits.ndim - 1)
    to_logits = guarded_multiply(column, _entropy_slope(logits, labels))
    if labels.dtype.is_integer:
        return to_logits, None
    return to_logits, guarded_multiply(column, -log_softmax(logits))


def _entropy_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    logits = rng.uniform(-4, 4, (3, 5)).astype(element.numpy)
    if rng.integers(2):
        return (logits, rng.integers(0, 5, 3)), {}
    weights = rng.uniform(0.1, 1, (3, 5))
    return (logits, (weights / weights.sum(1, keepdims=True)).astype(element.numpy)), {}


softmax_cross_entropy_op = register(
    OpDef(
        name="softmax_cross_entropy",
        doc="-sum(labels * log_softmax(logits)) over the last axis; labels are integer classes or "
        "probabilities.",
        infer=_entropy_type,
        reference=_entropy,
        derivative=Custom(_entropy_jvp, _entropy_vjp),
        lowering=Decompose(_entropy_rule),
        may_fail=True,
        numerics="R",
        domain=Domain(FLOATS, example=_entropy_example),
    )
)


@surface
def softmax_cross_entropy(logits: Any, labels: Any) -> Value:
    """The cross entropy of softmax(logits) against labels, one loss per example.

    Args:
        logits: floats [*s, classes].
        labels: integer classes [*s], checked at run time, or probabilities [*s, classes].

    Returns:
        Losses [*s] in the logits' dtype, finite for any finite logits.

    Raises:
        IndexRangeError: at run time, for a class that is negative or not below ``classes``.
        ShapeError: if there are no classes, or labels don't fit; at run time for unknown sizes.
    """
    scores = float_operand(logits)
    targets = as_value(labels, scores)
    if targets.dtype.is_float:
        scores, targets = promoted(scores, targets)
    elif not targets.dtype.is_integer:
        raise refuse("labels are integer classes or probabilities, not bools")
    guards: Attributes = {}
    if scores.ndim:
        guards = element_guards("softmax", scores, (scores.ndim - 1,))
    return apply(softmax_cross_entropy_op, scores, _fitted(targets, scores), **guards)


def _fitted(labels: Value, logits: Value) -> Value:
    """The labels in the shape that the logits ask for; what is not proved is checked later."""
    expected = logits.shape[:-1] if labels.dtype.is_integer else logits.shape
    if labels.ndim != len(expected) or labels.shape == expected:
        return labels
    message = f"labels {labels.dtype}{{}} do not fit logits {logits.dtype}{{}}"
    pairs = zip(labels.shape, expected, strict=True)
    guards = unproved(pairs, message, labels.shape, logits.shape)
    return with_shape(labels, expected, guards)


@surface
def mse(prediction: Any, target: Any) -> Value:
    """The mean of squared differences over all elements, a scalar.

    Args:
        prediction, target: tensors of one shape. Nothing is broadcast: [n, 1] and [n] would give
            n² differences, which nobody wants of a loss.

    Raises:
        ShapeError: if the shapes are proved to differ; what is not proved is checked when the
            graph runs.
    """
    left, right = promoted(prediction, target)
    message = f"mse of {left.dtype}{{}} and {right.dtype}{{}}: the shapes must be equal"
    hint = "reshape one to the other's shape, for example with target.reshape(prediction.shape)"
    if left.ndim != right.ndim:
        text = message.format(show(left.shape), show(right.shape))
        raise ShapeError(text, where=caller(), hint=hint)
    pairs = zip(left.shape, right.shape, strict=True)
    guards = unproved(pairs, message, left.shape, right.shape, hint=hint)
    return mean(square(left - with_shape(right, left.shape, guards)))
