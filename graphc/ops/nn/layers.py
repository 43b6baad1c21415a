"""Activations and normalisations of neural networks.

Invariant: each is a coarse op that stays whole in the user's graph, so that rules can see it, and
decomposes to pointwise ops and row reductions; derivatives are written from finished results, so
that large logits and masked (-inf) ones stay finite.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import equal
from graphc.ir.dtypes import FLOATS, DType, float64
from graphc.ir.lowering import Decompose
from graphc.ir.op import Derivative, Domain, OpDef, ThroughDecomposition, register
from graphc.ir.surface import surface, surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.scalar import PRIMITIVES
from graphc.ops.arguments import number, switch
from graphc.ops.convert import axes_of
from graphc.ops.declare import (
    NUMBERS,
    float_operand,
    like,
    number_operands,
    pointwise,
    through_float64,
)
from graphc.ops.derive import of_one_input
from graphc.ops.pointwise.arithmetic import guarded_multiply, rsqrt, square
from graphc.ops.pointwise.math import erfc, exp, expm1, log, log1p, logaddexp, sigmoid, tanh
from graphc.ops.pointwise.rounding import abs_, maximum, minimum
from graphc.ops.reduce.axes import max_op, sum_
from graphc.ops.reduce.core import require_dtype
from graphc.ops.reduce.scaled_norms import root_of_squares, scales, square_of
from graphc.ops.reduce.statistics import (
    finite_shift,
    finite_shift_reference,
    mean,
    two_pass_variance,
)

# --- activations ---------------------------------------------------------------------------------

relu_op = pointwise(
    "relu",
    "maximum(x, 0); NaN stays. The derivative at 0 is 0.",
    NUMBERS,
    partials=lambda inputs, output, attrs: (inputs[0] > 0,),
    parts=lambda inputs, attrs: maximum(inputs[0], 0),
    reference=lambda x, **attrs: PRIMITIVES["maximum"].reference(x, np.zeros((), x.dtype)),
    arity=1,
    differentiable=(0.5, 4.0),
)


def _select(condition: Value, x: Any, y: Any) -> Value:
    result: Value = surface_function("where")(condition, x, y)
    return result


def _slope_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    return (rng.uniform(-4, 4, (3, 4)).astype(element.numpy),), {"slope": 0.125}


leaky_relu_op = pointwise(
    "leaky_relu",
    "x above 0, else attrs slope times x. The derivative at 0 is the slope.",
    FLOATS,
    partials=lambda inputs, output, attrs: (
        _select(inputs[0] > 0, like(1, inputs[0]), like(attrs["slope"], inputs[0])),
    ),
    parts=lambda inputs, attrs: _select(inputs[0] > 0, inputs[0], inputs[0] * attrs["slope"]),
    reference=lambda x, slope: np.where(x > 0, x, x * x.dtype.type(slope)),
    example=_slope_example,
)
_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)


def _gelu_rule(inputs: Sequence[Value], attrs: Attributes) -> Value:
    (x,) = inputs
    if attrs["approximate"]:
        inner = (x + square(x) * x * 0.044715) * _SQRT_2_OVER_PI
        return x * 0.5 * (tanh(inner) + 1)
    return x * 0.5 * erfc(x * -_SQRT_HALF)


def _gelu(x: Any, approximate: bool) -> Any:
    with np.errstate(all="ignore"):
        wide = np.asarray(x, np.float64)
        if approximate:
            share = 1 + np.tanh(_SQRT_2_OVER_PI * (wide + 0.044715 * wide * wide * wide))
        else:
            share = PRIMITIVES["erfc"].reference(wide * -_SQRT_HALF)
        return np.asarray(0.5 * wide * share).astype(x.dtype)


def _gelu_example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    values = rng.uniform(-4, 4, (3, 4)).astype(element.numpy)
    return (values,), {"approximate": bool(rng.integers(2))}


gelu_op = pointwise(
    "gelu",
    "x times the normal distribution function of x, or, with attrs approximate, its tanh form.",
    FLOATS,
    derivative=ThroughDecomposition(),
    parts=_gelu_rule,
    reference=_gelu,
    numerics="R",
    example=_gelu_example,
)
silu_op = pointwise(
    "silu",
    "x * sigmoid(x).",
    FLOATS,
    derivative=ThroughDecomposition(),
    parts=lambda inputs, attrs: inputs[0] * sigmoid(inputs[0]),
    reference=through_float64(lambda x: x * PRIMITIVES["sigmoid"].reference(x)),
    arity=1,
    numerics="R",
)
softplus_op = pointwise(
    "softplus",
    "log(1 + exp(x)) without overflow.",
    FLOATS,
    partials=lambda inputs, output, attrs: (sigmoid(inputs[0]),),
    parts=lambda inputs, attrs: logaddexp(inputs[0], 0),
    reference=through_float64(lambda x: np.logaddexp(x, 0)),
    arity=1,
    numerics="R",
)


def _logcosh(x: Any) -> Any:
    small = np.log1p(2 * np.square(np.sinh(np.minimum(np.abs(x), 1) / 2)))
    return np.where(np.abs(x) < 1, small, np.logaddexp(x, -x) - math.log(2))


def _logcosh_parts(inputs: Sequence[Value], attrs: Attributes) -> Value:
    """Below 1 as log1p of 2 sinh(x/2)^2, which keeps x^2 / 2 where x is tiny."""
    size = abs_(inputs[0])
    near = expm1(minimum(size, 1))
    small = log1p(square(near) / (2 * (near + 1)))
    return _select(size < 1, small, size + log1p(exp(size * -2)) - math.log(2))


logcosh_op = pointwise(
    "logcosh",
    "log(cosh(x)) without overflow, and without cancellation near 0.",
    FLOATS,
    partials=lambda inputs, output, attrs: (tanh(inputs[0]),),
    parts=_logcosh_parts,
    reference=through_float64(_logcosh),
    arity=1,
    numerics="R",
)


@surface
def logcosh(x: Any) -> Value:
    """log(cosh(x)), a smooth form of abs(x) whose derivative is tanh(x)."""
    return apply(logcosh_op, float_operand(x))


@surface
def relu(x: Any) -> Value:
    """maximum(x, 0) element by element; NaN stays NaN. The derivative at 0 is 0."""
    return apply(relu_op, *number_operands(x))


@surface
def leaky_relu(x: Any, slope: float = 0.01) -> Value:
    """x where it is above 0, else slope * x. The derivative at 0 is the slope."""
    return apply(leaky_relu_op, float_operand(x), slope=number(slope, "slope"))


@surface
def gelu(x: Any, approximate: bool = False) -> Value:
    """x times the standard normal distribution function of x.

    With ``approximate`` the tanh form 0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) of
    Hendrycks and Gimpel, arXiv:1606.08415.
    """
    return apply(gelu_op, float_operand(x), approximate=switch(approximate, "approximate"))


@surface
def silu(x: Any) -> Value:
    """x * sigmoid(x), also known as swish."""
    return apply(silu_op, float_operand(x))


@surface
def softplus(x: Any) -> Value:
    """log(1 + exp(x)) without overflow."""
    return apply(softplus_op, float_operand(x))


# --- ops along rows ------------------------------------------------------------------------------

Row = Callable[[Value, Attributes], Value]


def _row_op(
    name: str,
    doc: str,
    rule: Row,
    reference: Callable[..., Any],
    derivative: Derivative,
    **attrs: Any,
) -> OpDef:
    """A float op of one input and its shape, along attrs ``axes``."""

    def infer(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
        require_dtype(name, inputs[0], FLOATS)
        return [inputs[0]]

    def example(rng: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
        values = rng.uniform(-4, 4, (3, 4, 5)).astype(element.numpy)
        return (values,), {"axes": (int(rng.integers(3)),), **attrs}

    def wide_reference(x: Any, **given: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.asarray(reference(np.asarray(x, np.float64), **given)).astype(x.dtype)

    return register(
        OpDef(
            name=name,
            doc=doc,
            infer=infer,
            reference=wide_reference,
            derivative=derivative,
            lowering=Decompose(lambda inputs, attrs: rule(inputs[0], attrs)),
            numerics="R",
            domain=Domain(FLOATS, example=example),
        )
    )


def shifted(x: Value, axes: Sequence[int]) -> Value:
    """x less its largest element over the axes, or what ``finite_shift`` has in its place.

    Where an axis is empty there is nothing to shift, so no element is asked for.
    """
    if any(equal(x.shape[axis], 0) for axis in axes):
        return x
    return x - finite_shift(apply(max_op, x, axes=tuple(axes), keepdims=True))


def _shifted(x: Any, axes: Any) -> Any:
    largest = np.max(x, axis=axes, keepdims=True, initial=-np.inf)
    return x - finite_shift_reference(largest)


def _softmax_rule(x: Value, attrs: Attributes) -> Value:
    powers = exp(shifted(x, attrs["axes"]))
    return powers / sum_(powers, attrs["axes"], True)


def _softmax(x: Any, axes: Any) -> Any:
    powers = np.exp(_shifted(x, axes))
    return powers / np.sum(powers, axis=axes, keepdims=True)


def _softmax_mode(change: Value, x: Value, y: Value, attrs: Attributes) -> Value:
    """The Jacobian is symmetric: diag(y) - y y^T."""
    return y * (change - sum_(change * y, attrs["axes"], True))


softmax_op = _row_op(
    "softmax", "exp(x) divided by its sum over attrs axes, without overflow.",
    _softmax_rule, _softmax, of_one_input(_softmax_mode, _softmax_mode),
)  # fmt: skip


def _log_softmax_rule(x: Value, attrs: Attributes) -> Value:
    lowered = shifted(x, attrs["axes"])
    return lowered - log(sum_(exp(lowered), attrs["axes"], True))


def log_softmax_reference(x: Any, axes: Any) -> Any:
    """log_softmax in NumPy."""
    lowered = _shifted(x, axes)
    return lowered - np.log(np.sum(np.exp(lowered), axis=axes, keepdims=True))


log_softmax_op = _row_op(
    "log_softmax", "x - logsumexp(x) over attrs axes, without overflow.",
    _log_softmax_rule, log_softmax_reference,
    of_one_input(
        lambda t, x, y, attrs: t - sum_(guarded_multiply(exp(y), t), attrs["axes"], True),
        lambda ct, x, y, attrs: ct - exp(y) * sum_(ct, attrs["axes"], True),
    ),
)  # fmt: skip


def _inverse_root(squares: Value, operand: Value, attrs: Attributes) -> Value:
    """1 / sqrt(squares + epsilon), the first the mean square of the operand over attrs axes.

    Right where the squares leave the range, and to the bit the plain formula elsewhere.
    """
    epsilon = attrs["epsilon"]

    def scaled(factor: Any, shift: float) -> Value:
        total = mean(square_of(operand, factor, shift), attrs["axes"], True)
        result: Value = total + like(epsilon, operand) * factor * factor
        return result

    vanishes = epsilon < scales(operand.dtype).low
    return root_of_squares(
        squares + epsilon, scaled, together=False, vanishes=vanishes, root=rsqrt
    )


def _deviation_scale(x: Value, attrs: Attributes) -> Value:
    options = {"axes": attrs["axes"], "keepdims": True, "ddof": 0}
    deviation = x - mean(x, attrs["axes"], True)
    return _inverse_root(two_pass_variance(x, options), deviation, attrs)


def _layer_norm_mode(change: Value, x: Value, y: Value, attrs: Attributes) -> Value:
    """The Jacobian is symmetric: (I - 11^T/n - y y^T/n) / deviation."""
    axes = attrs["axes"]
    level = mean(change, axes, True)
    return (change - level - y * mean(change * y, axes, True)) * _deviation_scale(x, attrs)


def _over_root(x: Any, axes: Any, epsilon: float) -> Any:
    """x / sqrt(mean(x * x) + epsilon) in NumPy."""
    bounds = scales(float64)
    total = np.mean(np.square(x), axis=axes, keepdims=True) + epsilon
    factor = np.where(np.isinf(total), bounds.down, np.where(total < bounds.low, bounds.up, 1.0))
    scaled = x * factor
    squares = np.mean(np.square(scaled), axis=axes, keepdims=True)
    return scaled / np.sqrt(squares + factor * factor * epsilon)


def _layer_norm(x: Any, axes: Any, epsilon: float) -> Any:
    return _over_root(x - np.mean(x, axis=axes, keepdims=True), axes, epsilon)


layer_norm_op = _row_op(
    "layer_norm", "(x - mean) / sqrt(variance + attrs epsilon) over attrs axes, in two passes.",
    lambda x, attrs: (x - mean(x, attrs["axes"], True)) * _deviation_scale(x, attrs),
    _layer_norm, of_one_input(_layer_norm_mode, _layer_norm_mode), epsilon=1e-5,
)  # fmt: skip


def _square_scale(x: Value, attrs: Attributes) -> Value:
    return _inverse_root(mean(square(x), attrs["axes"], True), x, attrs)


def _rms_norm_mode(change: Value, x: Value, y: Value, attrs: Attributes) -> Value:
    """The Jacobian is symmetric: (I - y y^T/n) / root mean square."""
    share = y * mean(change * y, attrs["axes"], True)
    return (change - share) * _square_scale(x, attrs)


rms_norm_op = _row_op(
    "rms_norm", "x / sqrt(mean(x * x) + attrs epsilon) over attrs axes.",
    lambda x, attrs: x * _square_scale(x, attrs),
    _over_root,
    of_one_input(_rms_norm_mode, _rms_norm_mode), epsilon=1e-5,
)  # fmt: skip


def _along_rows(op: OpDef, x: Any, axis: int | Sequence[int], **attrs: Any) -> Value:
    value = float_operand(x)
    return apply(op, value, axes=axes_of(axis, value.ndim), **attrs)


@surface
def softmax(x: Any, axis: int | Sequence[int] = -1) -> Value:
    """exp(x) / sum(exp(x)) along an axis, without overflow; a row of -inf gives NaN."""
    return _along_rows(softmax_op, x, axis)


@surface
def log_softmax(x: Any, axis: int | Sequence[int] = -1) -> Value:
    """log(softmax(x)) along an axis, finite wherever x is."""
    return _along_rows(log_softmax_op, x, axis)


@surface
def layer_norm(
    x: Any,
    gain: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    axis: int | Sequence[int] = -1,
) -> Value:
    """(x - mean) / sqrt(variance + epsilon) along an axis, times gain plus bias where given.

    The variance is that of the population, in two passes; gain and bias broadcast.
    """
    result = _along_rows(layer_norm_op, x, axis, epsilon=number(epsilon, "epsilon"))
    if gain is not None:
        result = result * gain
    return result if bias is None else result + bias


@surface
def rms_norm(
    x: Any, gain: Any = None, epsilon: float = 1e-5, axis: int | Sequence[int] = -1
) -> Value:
    """x / sqrt(mean(x * x) + epsilon) along an axis, times gain where given."""
    result = _along_rows(rms_norm_op, x, axis, epsilon=number(epsilon, "epsilon"))
    return result if gain is None else result * gain


@surface
def embedding(table: Any, indices: Any) -> Value:
    """Rows of a table [n, …] by integer indices [*s]: [*s, …]. Indices are checked at run time."""
    result: Value = surface_function("take")(table, indices, axis=0)
    return result
