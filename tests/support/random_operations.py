"""Operations of random programs: what makes a value out of those that there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc as gx

DTYPES = ("float32", "float64", "int32", "int64", "uint8", "int8", "bool")

MOST_ELEMENTS = 2000


class Maker:
    """Builds step by step; ``pool`` holds values with the shapes that they have at run time.

    Steps that write ``variables`` add the new values to ``written``, and ``effects`` to be run.
    """

    def __init__(
        self, pool: list[tuple[Any, tuple[int, ...]]], chains: bool = False
    ) -> None:
        self.pool = pool
        self.chains = chains
        self.variables: list[Any] = []
        self.written: list[Any] = []
        self.effects: list[Any] = []

    def add(self, value: Any, shape: Sequence[int]) -> None:
        self.pool.append((value, tuple(shape)))

    def pick(self, number: int) -> tuple[Any, tuple[int, ...]]:
        # of 61 numbers three in four
        if self.chains and number < 46:
            return self.pool[-1]
        return self.pool[-1 - number % len(self.pool)]

    def alike(self, number: int, which: int) -> tuple[Any, tuple[int, ...]]:
        """One of the values that have the dtype and the shape of a value, itself among them."""
        x, shape = self.pick(number)
        found = [
            value for value, other in self.pool
            if other == shape and value.dtype is x.dtype
            and list(map(str, value.shape)) == list(map(str, x.shape))
        ]  # fmt: skip
        return found[which % len(found)], shape

    def step(self, make: Step, a: int, b: int, c: int) -> None:
        value, shape = make(self, a, b, c)
        agree = zip(value.shape, shape, strict=True)
        assert all(dim == size for dim, size in agree if isinstance(dim, int))
        if int(np.prod(shape)) <= MOST_ELEMENTS:
            self.add(value, shape)

    def floats(self, number: int) -> tuple[Any, tuple[int, ...]]:
        """A float operand; others are converted."""
        value, shape = self.pick(number)
        return (value if value.dtype.is_float else value.astype("float32")), shape

    def pair(self, a: int, b: int) -> tuple[Any, Any, tuple[int, ...]]:
        """Two operands that broadcast; a second one that does not is replaced by a part of it."""
        (x, left), (y, right) = self.pick(a), self.pick(b)
        if left != right:
            try:
                shape = np.broadcast_shapes(left, right)
            except ValueError:
                return x, x, left
            if not _provably_broadcasts(x.shape, y.shape):
                return x, x, left
            return x, y, shape
        return (x, y, left) if _provably_broadcasts(x.shape, y.shape) else (x, x, left)


def _provably_broadcasts(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Dims that are only equal by chance are left alone: they are an error for other sizes."""
    pairs = zip(reversed(a), reversed(b), strict=False)
    return all(str(x) == str(y) or "1" in (str(x), str(y)) for x, y in pairs)


Step = Callable[[Maker, int, int, int], tuple[Any, tuple[int, ...]]]


def unary(function: Callable[[Any], Any]) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        value, shape = m.floats(a)
        return function(value), shape

    return make


def _any_unary(function: Callable[[Any], Any]) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        value, shape = m.pick(a)
        if value.dtype.kind == "bool":
            value = value.astype("int32")
        return function(value), shape

    return make


def _binary(function: Callable[[Any, Any], Any], bools: bool = False) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        x, y, shape = m.pair(a, b)
        if x.dtype.kind == "bool" and y.dtype.kind == "bool" and not bools:
            x = x.astype("int64")
        return function(x, y), shape

    return make


def _bits(function: Callable[[Any, Any], Any]) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        x, y, shape = m.pair(a, b)
        x, y = (v.astype("int32") if v.dtype.is_float else v for v in (x, y))
        if {x.dtype.kind, y.dtype.kind} == {"int", "uint"}:
            x, y = x.astype("int64"), y.astype("int64")
        return function(x, y), shape

    return make


def _scalar(function: Callable[[Any, Any], Any]) -> Step:
    """With a Python number."""

    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        value, shape = m.pick(a)
        number: Any = (0, 1, 2, 3, -1 if value.dtype.kind == "int" else 1)[b % 5]
        if value.dtype.is_float:
            number = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0)[b % 7]
        if value.dtype.kind == "bool":
            value = value.astype("int32")
        return (function(value, number) if c % 2 else function(number, value)), shape

    return make


def _where(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    x, y, shape = m.pair(a, b)
    mask = x > y if c % 2 else x.astype("bool")
    return gx.where(mask, x, y if y.dtype is x.dtype else y.astype(x.dtype)), shape


def _cast(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    return value.astype(DTYPES[b % len(DTYPES)]), shape


def _reduce(name: str, *, empty: bool = True, floats: bool = False) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        value, shape = m.floats(a) if floats else m.pick(a)
        function = getattr(gx, name)
        if name in ("sum", "prod", "max", "min", "argmax") and value.dtype.kind == "bool":
            value = value.astype("int32")
        axis = b % (len(shape) + 1) - 1 if shape else -1
        keep = bool(c % 2)
        extent = int(np.prod(shape)) if axis < 0 else shape[axis]
        if not shape or (not empty and not extent):
            return value + value, shape
        if axis < 0:
            return function(value, keepdims=keep), (1,) * len(shape) if keep else ()
        dims = shape[:axis] + ((1,) if keep else ()) + shape[axis + 1 :]
        return function(value, axis=axis, keepdims=keep), dims

    return make


def _scan(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if not shape:
        return value, shape
    if value.dtype.kind == "bool":
        value = value.astype("int32")
    return gx.cumsum(value, axis=b % len(shape)), shape


def _transpose(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    order = list(np.random.default_rng(b).permutation(len(shape)))
    axes = [int(axis) for axis in order]
    return gx.transpose(value, axes), tuple(shape[axis] for axis in axes)


def _slice(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if not shape:
        return value, shape
    axis = b % len(shape)
    part = (slice(1, None), slice(None, None, -1), slice(None, -1), slice(None, None, 2))[c % 4]
    index = (slice(None),) * axis + (part,)
    return value[index], np.empty(shape)[index].shape


def _expand(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if len(shape) > 3:
        return value, shape
    axis = b % (len(shape) + 1)
    return gx.expand_dims(value, axis), (*shape[:axis], 1, *shape[axis:])


def _flatten(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    return gx.reshape(value, (-1,)) if np.prod(shape) else value, (
        (int(np.prod(shape)),) if np.prod(shape) else shape
    )


def _broadcast(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if len(shape) > 3:
        return value, shape
    return gx.broadcast_to(value, (b % 3, *value.shape)), (b % 3, *shape)


def _concatenate(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    x, shape = m.pick(a)
    if not shape:
        return gx.stack([x, x]), (2,)
    axis = b % len(shape)
    joined = (*shape[:axis], 2 * shape[axis], *shape[axis + 1 :])
    return gx.concatenate([x, x if c % 2 else x[::-1] if len(shape) == 1 else x], axis=axis), joined


def _pad(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if not shape:
        return value, shape
    widths = [(0, 0)] * len(shape)
    widths[b % len(shape)] = (c % 3, 1)
    padded = tuple(size + sum(w) for size, w in zip(shape, widths, strict=True))
    return gx.pad(value, widths), padded


def _take(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if not shape or not shape[0]:
        return value, shape
    places = np.random.default_rng(b).integers(-shape[0], shape[0], 3)
    return gx.take(value, places, axis=0), (3, *shape[1:])


def _matmul(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    value, shape = m.pick(a)
    if value.dtype.kind == "bool":
        value = value.astype("int32")
    if len(shape) != 2:
        return value + value, shape
    kind = c % 3
    if kind == 0:
        return value @ value.T, (shape[0], shape[0])
    if kind == 1:
        return value.T @ value, (shape[1], shape[1])
    weights = np.random.default_rng(b).integers(-3, 4, (4, 9)).astype(value.dtype.numpy)
    if shape[1] != 4 or not isinstance(value.shape[1], int):
        return value @ value.T, (shape[0], shape[0])
    return value @ gx.constant(weights), (shape[0], 9)


def _rows(function: Callable[[Any], Any]) -> Step:
    def make(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
        value, shape = m.floats(a)
        if not shape or not shape[-1]:
            return value, shape
        return function(value), shape

    return make


def crossed(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    """Two values expanded against each other along their last axes, of which one is reduced.

    The result often has the shape of one of them, whose memory it could take over: a running sum
    joins no kernel, so between two of them that is memory of the plan. The other is a row of its
    like, or the whole.
    """
    x, shape = m.pick(a)
    if not shape or not all(shape):
        return x, shape
    y, _ = m.alike(a, b)
    if b % 3:
        y = y[(0,) * (len(shape) - 1)]
    x, y = (v.astype("int32") if v.dtype.kind == "bool" else v for v in (x, y))
    combine = (gx.add, gx.multiply, gx.subtract, gx.minimum)[c % 4]
    name, axis = ("sum", "max", "min", "argmax")[c // 4 % 4], -1 - b % 2
    table = combine(gx.expand_dims(gx.cumsum(x, axis=-1), axis), gx.expand_dims(y, -3 - axis))
    return gx.cumsum(getattr(gx, name)(table, axis=-1 - c % 2), axis=-1), shape


def _cond(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    (x, shape), (y, _) = m.floats(a), m.pick(b)
    test = (y.astype("float32").sum() > 1.0) if c % 3 else gx.constant(bool(c % 2))
    return gx.cond(test, lambda: gx.abs(x) + 1, lambda: x * 2 - 1), shape


def _loop(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    x, shape = m.floats(a)
    trips = b % 4

    def body(count: Any, value: Any, dead: Any) -> Any:
        return count + 1, value * 0.5 + gx.sin(x), dead + 1.0

    result = gx.while_loop(
        lambda count, value, dead: count < trips, body, (gx.constant(0), x, x * 0.0)
    )
    return result[1], shape


def joining(m: Maker, a: int, b: int, c: int) -> tuple[Any, tuple[int, ...]]:
    """Several values of one shape put together, some twice."""
    x, shape = m.pick(a)
    if not shape:
        return gx.stack([x, x]), (2,)
    axis = b % len(shape)
    pieces = [m.alike(a, b + c * number)[0] for number in range(2 + c % 3)]
    joined = (*shape[:axis], len(pieces) * shape[axis], *shape[axis + 1 :])
    return gx.concatenate(pieces, axis=axis), joined


def _power(x: Any, y: Any) -> Any:
    """Integers have no negative powers."""
    return gx.power(x, abs(y) if isinstance(y, int) else y)


STEPS: tuple[Step, ...] = (
    _binary(lambda x, y: x + y), _binary(lambda x, y: x - y), _binary(lambda x, y: x * y),
    _binary(gx.divide), _binary(gx.maximum), _binary(gx.minimum), _binary(gx.floor_divide),
    _binary(gx.mod), _binary(lambda x, y: x > y, True), _binary(lambda x, y: gx.equal(x, y), True),
    _binary(lambda x, y: x <= y, True), _bits(lambda x, y: x & y), _bits(lambda x, y: x ^ y),
    _scalar(lambda x, y: x + y), _scalar(lambda x, y: x * y), _scalar(lambda x, y: x - y),
    _scalar(gx.divide), _scalar(_power), _scalar(gx.maximum),
    _any_unary(lambda x: -x), _any_unary(gx.abs), _any_unary(gx.sign),
    _any_unary(lambda x: x.astype("bool")),
    unary(gx.exp), unary(gx.log), unary(gx.tanh), unary(gx.sqrt), unary(gx.sigmoid),
    unary(gx.sin), unary(gx.floor), unary(gx.round), unary(gx.log1p), unary(gx.expm1),
    unary(gx.nn.relu), unary(gx.nn.softplus), unary(gx.nn.gelu),
    unary(lambda x: gx.log(1 + gx.exp(x))), unary(lambda x: 1 / (1 + gx.exp(-x))),
    _where, _cast, _cast,
    _reduce("sum"), _reduce("max", empty=False), _reduce("mean", empty=False, floats=True),
    _reduce("any"), _reduce("prod"), _reduce("argmax", empty=False),
    _reduce("var", empty=False, floats=True), _reduce("logsumexp", empty=False, floats=True),
    _scan, _transpose, _transpose, _slice, _slice, _expand, _flatten, _broadcast, _concatenate,
    _pad, _take, _matmul, _matmul,
    _rows(gx.nn.softmax), _rows(gx.nn.log_softmax), _rows(gx.nn.layer_norm),
    _rows(lambda x: gx.exp(x) / gx.exp(x).sum(axis=-1, keepdims=True)),
    _cond, _loop, crossed,
)  # fmt: skip

CROSSING: tuple[Step, ...] = (
    _reduce("sum"), _reduce("max", empty=False), _matmul, _take, _scan, crossed, crossed,
)  # fmt: skip
"""What is kept in memory, and tables that are made and reduced of it."""
