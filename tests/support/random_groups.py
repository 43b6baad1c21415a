"""Random programs of what fusion groups: products, work on their elements and rows, and views.

What fusion may join is a matter of shapes: a view between a product and what follows, a reduction
of other axes, a join of pieces, a branch around. The steps here are few in kind and free in shape,
and continuous in floats, so that what comes out can be compared with NumPy's result in wider
numbers. Operations are bent until they fit, as in ``random_programs``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from random_operations import Maker, Step

import graphc as gx
from graphc.ir.dims.expressions import compare

Made = tuple[Any, tuple[int, ...]]

SHAPES: tuple[tuple[int, ...], ...] = (
    (3, 8, 4), (2, 4, 5), (4, 16), (2, 33), (40, 5), (2, 3, 4, 6), (1, 6), (6, 1), (64, 8), (6,),
    (2, 5, 4), (36, 12), (1, 1), (2, 40, 3), (), (3, 0), (1, 8, 4),
)  # fmt: skip
WIDTHS = (1, 2, 3, 16, 33, 8, 4)


def _number(m: Maker, number: int) -> Made:
    """A value to compute with; truth values as integers."""
    value, shape = m.pick(number)
    return (value.astype("int32") if value.dtype.kind == "bool" else value), shape


def _weights(dtype: Any, shape: Sequence[int], seed: int) -> Any:
    rng = np.random.default_rng(seed)
    if not dtype.is_float:
        return gx.constant(rng.integers(-2, 3, shape).astype(dtype.numpy))
    scale = 1 / np.sqrt(max(1, shape[-2] if len(shape) > 1 else shape[0]))
    return gx.constant((rng.normal(size=shape) * scale).astype(dtype.numpy))


def _product(m: Maker, a: int, b: int, c: int) -> Made:
    """With weights, with itself transposed, with another value, or with a vector."""
    x, shape = _number(m, a)
    if len(shape) < 1 or not isinstance(x.shape[-1], int):
        return _with_itself(x, shape, b)
    width, kind = WIDTHS[b % len(WIDTHS)], c % 4
    if kind == 0 and len(shape) > 2 and isinstance(x.shape[0], int):
        w = _weights(x.dtype, (*shape[:-2], shape[-1], width), c)
        return x @ w, (*shape[:-1], width)
    if kind == 1:
        return x @ _weights(x.dtype, (shape[-1],), c), shape[:-1]
    if kind == 2:
        return _with_itself(x, shape, b)
    return x @ _weights(x.dtype, (shape[-1], width), c), (*shape[:-1], width)


def _with_itself(x: Any, shape: tuple[int, ...], b: int) -> Made:
    if len(shape) < 2:
        return x + x, shape
    turned = gx.swapaxes(x, -1, -2)
    if b % 2:
        return _tamed(x @ turned, shape[-1]), (*shape[:-1], shape[-2])
    return _tamed(turned @ x, shape[-2]), (*shape[:-2], shape[-1], shape[-1])


def _tamed(value: Any, depth: int) -> Any:
    """Products of values with values stay in range."""
    return value * (0.25 / max(1, depth)) if value.dtype.is_float else value % 7


def _dense(m: Maker, a: int, b: int, c: int) -> Made:
    """A product with what usually follows: a bias, a function, a residual, rows made one."""
    y, shape = _product(m, a, b, 3)
    if not shape:
        return y, shape
    if isinstance(y.shape[-1], int):
        y = y + _weights(y.dtype, (shape[-1],), b)
    y = _function(y, c)
    if shape[-1] and y.dtype.is_float and c % 5 > 2:
        y = (gx.nn.log_softmax, gx.nn.softmax)[c % 2](y)
    return y, shape


FUNCTIONS: tuple[Callable[[Any], Any], ...] = (
    gx.nn.relu, lambda x: x * 2 - 1, gx.abs, lambda x: gx.where(x > 0, x, x * 3), lambda x: -x,
    lambda x: gx.maximum(x, 1), lambda x: gx.minimum(x, 0) + x,
)  # fmt: skip
SMOOTH: tuple[Callable[[Any], Any], ...] = (
    gx.tanh, gx.sigmoid, lambda x: gx.exp(-gx.abs(x)), gx.sin, lambda x: x / (1 + x * x),
)


def _function(x: Any, c: int) -> Any:
    known = (*FUNCTIONS, *SMOOTH) if x.dtype.is_float else FUNCTIONS
    function = known[c % len(known)]
    if x.dtype.kind == "uint" and function in (FUNCTIONS[1], FUNCTIONS[4]):
        return x * 3
    return function(x)


def _unary(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = _number(m, a)
    return _function(x, b), shape


def _binary(m: Maker, a: int, b: int, c: int) -> Made:
    x, y, shape = m.pair(a, b)
    if x.dtype.kind == "bool" and y.dtype.kind == "bool":
        x = x.astype("int32")
    operations = [gx.add, gx.subtract, gx.maximum, gx.minimum, gx.multiply]
    made = operations[c % 5](x, y)
    if made.dtype.is_float and c % 5 == 4:
        made = gx.tanh(made)
    return made, shape


def _alike(m: Maker, a: int, b: int, c: int) -> Made:
    """Two values of one shape, or one and its bias."""
    (x, shape), (y, _) = m.pick(a), m.alike(a, b)
    if x.dtype.kind == "bool":
        return x ^ y, shape
    return (x + y, gx.maximum(x, y), x - y)[c % 3], shape


def _rows(m: Maker, a: int, b: int, c: int) -> Made:
    """Whole rows, or columns, made one, spelled by hand or by name."""
    x, shape = m.floats(a)
    if not shape or not all(shape):
        return x, shape
    axis = b % len(shape)
    spelled: list[Callable[[], Any]] = [
        lambda: x - gx.max(x, axis=axis, keepdims=True),
        lambda: x / (1 + gx.sum(gx.abs(x), axis=axis, keepdims=True)),
        lambda: gx.exp(x - gx.logsumexp(x, axis=axis, keepdims=True)),
        lambda: gx.nn.softmax(x, axis=axis),
        lambda: x - gx.mean(x, axis=axis, keepdims=True),
        lambda: x / gx.sqrt(gx.mean(x * x, axis=axis, keepdims=True) + 1),
        lambda: gx.nn.layer_norm(x, epsilon=0.5),
    ]
    return spelled[c % len(spelled)](), shape


def _reduction(m: Maker, a: int, b: int, c: int) -> Made:
    """Of any axes; of floats those that are continuous."""
    x, shape = m.pick(a)
    names = ["sum", "mean", "max", "min", "var", "logsumexp"]
    if x.dtype.kind == "bool":
        names = ["any", "all", "sum"]
    elif not x.dtype.is_float:
        names = ["sum", "max", "argmax", "prod", "argmin"]
    name = names[c % len(names)]
    rng = np.random.default_rng(b)
    count = int(rng.integers(0, len(shape) + 1))
    axes: Any = tuple(sorted(int(n) for n in rng.permutation(len(shape))[:count]))
    keep = bool(b % 2)
    if name.startswith("arg"):
        axes = axes[:1]
    if not axes or not all(shape):
        return x ^ x if x.dtype.kind == "bool" else x + x, shape
    given = axes[0] if len(axes) == 1 else axes
    if x.dtype.kind == "bool" and name == "sum":
        x = x.astype("int32")
    made = getattr(gx, name)(x, axis=given, keepdims=keep)
    kept = tuple(
        1 if n in axes else size for n, size in enumerate(shape) if keep or n not in axes
    )
    return made, kept


def _regrouped(m: Maker, a: int, b: int, c: int) -> Made:
    """Two axes become one, or one becomes two."""
    x, shape = m.pick(a)
    if not shape:
        return gx.reshape(x, (1, 1)), (1, 1)
    axis = b % len(shape)
    if c % 2 and axis + 1 < len(shape):
        joined = x.shape[axis] * x.shape[axis + 1]
        dims = (*x.shape[:axis], joined, *x.shape[axis + 2 :])
        size = shape[axis] * shape[axis + 1]
        return gx.reshape(x, dims), (*shape[:axis], size, *shape[axis + 2 :])
    if not isinstance(x.shape[axis], int) or len(shape) > 4:
        return gx.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])), (
            *shape[:axis], 1, *shape[axis:],
        )  # fmt: skip
    parts = [n for n in (2, 3, 4, 1) if shape[axis] % n == 0]
    part = parts[c // 2 % len(parts)]
    pieces = (shape[axis] // part, part) if c % 3 else (part, shape[axis] // part)
    return gx.reshape(x, (*x.shape[:axis], *pieces, *x.shape[axis + 1 :])), (
        *shape[:axis], *pieces, *shape[axis + 1 :],
    )  # fmt: skip


def _view(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = m.pick(a)
    if not shape:
        return gx.broadcast_to(x, (1 + b % 3,)), (1 + b % 3,)
    axis, kind = b % len(shape), c % 7
    index: tuple[Any, ...] = (slice(None),) * axis
    if kind == 0:
        order = [int(n) for n in np.random.default_rng(b).permutation(len(shape))]
        return gx.transpose(x, order), tuple(shape[n] for n in order)
    if kind == 1 and len(shape) < 4:
        return gx.broadcast_to(x, (1 + b % 3, *x.shape)), (1 + b % 3, *shape)
    if kind == 2 and len(shape) < 5:
        return gx.expand_dims(x, axis), (*shape[:axis], 1, *shape[axis:])
    if kind == 3 and compare("eq", x.shape[axis], 1):
        return gx.squeeze(x, axis), (*shape[:axis], *shape[axis + 1 :])
    if kind == 4 and shape[axis]:
        return x[(*index, 0)], (*shape[:axis], *shape[axis + 1 :])
    if kind == 5 and compare("eq", x.shape[axis], 1):
        dims = (*x.shape[:axis], 3, *x.shape[axis + 1 :])
        return gx.broadcast_to(x, dims), (*shape[:axis], 3, *shape[axis + 1 :])
    if shape[axis] < 2:
        return gx.flip(x, axis), shape
    part = (slice(1, None), slice(None, None, -1), slice(None, -1), slice(None, None, 2))[b % 4]
    index = (*index, part)
    return x[index], np.empty(shape)[index].shape


def _joined(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = m.pick(a)
    pieces = [m.alike(a, b + c * number)[0] for number in range(2 + c % 2)]
    if not shape or (c % 3 == 2 and len(shape) < 5):
        axis = b % (len(shape) + 1)
        return gx.stack(pieces, axis=axis), (*shape[:axis], len(pieces), *shape[axis:])
    axis = b % len(shape)
    if c % 3 == 1:
        widths = [(0, 0)] * len(shape)
        widths[axis] = (c % 2, 2)
        padded = tuple(size + sum(w) for size, w in zip(shape, widths, strict=True))
        return gx.pad(x, widths), padded
    joined = (*shape[:axis], len(pieces) * shape[axis], *shape[axis + 1 :])
    return gx.concatenate(pieces, axis=axis), joined


def _scan(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = _number(m, a)
    if not shape:
        return x, shape
    return gx.cumsum(x, axis=b % len(shape)), shape


def _take(m: Maker, a: int, b: int, c: int) -> Made:
    x, shape = m.pick(a)
    if not shape or not shape[-1]:
        return x, shape
    places = np.random.default_rng(b).integers(0, shape[-1], 2)
    return gx.take(x, places, axis=-1), (*shape[:-1], 2)


def _cast(m: Maker, a: int, b: int, c: int) -> Made:
    """Never from floats to integers, which is not continuous."""
    x, shape = m.pick(a)
    if x.dtype.is_float:
        return x.astype("float64"), shape
    return x.astype(("float32", "float64", "int64", "int8", "bool")[b % 5]), shape


def _branch(m: Maker, a: int, b: int, c: int) -> Made:
    """A product and work on it in one branch or a loop, of which the result goes on."""
    x, shape = m.floats(a)
    if not shape or not isinstance(x.shape[-1], int):
        return gx.cond(gx.constant(bool(b % 2)), lambda: gx.nn.relu(x), lambda: -x), shape
    w = _weights(x.dtype, (shape[-1], shape[-1]), b)

    def work(value: Any) -> Any:
        made = _function(gx.nn.relu(value @ w).reshape((*x.shape, 1)), c)
        return gx.tanh(made.reshape(x.shape))

    if c % 3:
        first = gx.reshape(x, (-1,))[0] if all(shape) else gx.constant(1.0)
        return gx.cond((first > first) if b % 2 else (first <= first), lambda: work(x), lambda: x
                       ), shape  # fmt: skip
    trips = b % 3
    return gx.while_loop(
        lambda n, value: n < trips, lambda n, value: (n + 1, work(value)), (gx.constant(0), x)
    )[1], shape


def _gradient(m: Maker, a: int, b: int, c: int) -> Made:
    """The gradient of a value that was made by one that was there before."""
    y, shape = m.pick(a)
    if not y.dtype.is_float:
        return y, shape
    for number in range(len(m.pool)):
        x, dims = m.pool[(b + number) % len(m.pool)]
        if x.dtype is not y.dtype or x is y:
            continue
        try:
            return gx.gradients(gx.sum(gx.sin(y)), x), dims
        except (gx.GradientError, gx.UnsupportedError):
            continue
    return y, shape


GROUPED: tuple[Step, ...] = (
    _product, _product, _product, _dense, _dense, _unary, _unary, _unary, _binary, _alike, _rows,
    _rows, _reduction, _reduction, _reduction, _regrouped, _regrouped, _regrouped, _view, _view,
    _view, _joined, _joined, _scan, _take, _cast, _branch, _gradient, _gradient,
)  # fmt: skip
