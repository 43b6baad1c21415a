"""Keys: making them of seeds, and new ones of old ones.

A key is an ordinary uint32[2], the two words of Philox's key. The same key always gives the same
numbers; independent numbers take keys that were split or folded. New keys are blocks of the old
key's generator, of streams that no draw reads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.dtypes import DType, DTypeLike, uint32, uint64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole
from graphc.ops.convert import as_value, common_shape, converted, dims_of
from graphc.ops.declare import like
from graphc.ops.guards import check_size, show, unproved
from graphc.ops.move.joining import stack
from graphc.ops.move.shape import broadcast_to, stretched, with_shape
from graphc.ops.pointwise.rounding import floor
from graphc.ops.random.philox import DRAWS, FOLDS, KEYS, check_key, draw_op, philox_op
from graphc.ops.source import constant


def key_of(given: Any, name: str) -> Value:
    """A key as a value.

    Raises:
        DTypeError: for what is no uint32.
        ShapeError: for another shape than [2].
    """
    value = as_value(given)
    try:
        check_key(name, value.type)
    except (DTypeError, ShapeError) as error:
        error.where = caller()
        raise
    return _sized(value, (2,), f"{name} takes a key of shape [2], not {{}}")


def _sized(value: Value, shape: tuple[Dim, ...], message: str) -> Value:
    """The value, with a check at run time of sizes that are not known."""
    guards = unproved(zip(value.shape, shape, strict=True), message, value.shape)
    return with_shape(value, shape, guards)


def shape_of(given: Any, name: str) -> tuple[Dim, ...]:
    """The shape that a user asks for.

    Raises:
        ShapeError: for what is no shape, a negative size, or more elements than can be counted.
    """
    shape = dims_of(given)
    if any(not isinstance(dim, DimExpr) and dim < 0 for dim in shape):
        raise ShapeError(
            f"{name}: a shape of {show(shape)}", where=caller(), hint="sizes are not negative"
        )
    try:
        check_size(shape, [shape])
    except ShapeError as error:
        error.where = caller()
        raise
    return shape


def fitted(given: Any, name: str, *parameters: Value) -> tuple[tuple[Dim, ...], list[Value]]:
    """The shape of draws with parameters, and these in it.

    It is that which is asked for, or what the parameters broadcast to.

    Raises:
        ShapeError: for parameters that do not broadcast, to each other or to the shape.
    """
    if given is not None:
        shape = shape_of(given, name)
        return shape, [broadcast_to(parameter, shape) for parameter in parameters]
    shapes = [parameter.shape for parameter in parameters]
    message = f"{name}: shapes {' and '.join('{}' for _ in shapes)} do not broadcast"
    shape, guards = common_shape(shapes, message, hint="sizes must be equal or 1")
    return shape, [stretched(parameter, shape, guards) for parameter in parameters]


def drawn(key: Value, law: str, shape: tuple[Dim, ...], dtype: DType) -> Value:
    """Draws of a law that has no parameters.

    Narrow floats are rounded draws of what they are computed in. Uniform ones are rounded down, to
    as many digits as the dtype has, so that none is 1.
    """
    value = apply(draw_op, key, law=law, shape=shape, dtype=dtype.computed, purpose=DRAWS)
    if law == "uniform" and dtype.computed is not dtype:
        value = floor(value * 2.0**dtype.digits) * 2.0**-dtype.digits
    return converted(value, dtype)


def element_type(given: DTypeLike, kinds: str, name: str) -> DType:
    """The dtype that a user asks for, of one of some kinds.

    Raises:
        DTypeError: for another one.
    """
    dtype = as_dtype(given)
    if dtype.kind not in kinds.split():
        raise DTypeError(f"{name} gives {kinds.replace(' ', ' or ')}, not {dtype}", where=caller())
    return dtype


def key(seed: Any) -> Value:
    """The key of a seed: a uint32[2] of its low and its high 32 bits.

    Args:
        seed: an int from -2**63 to 2**64 - 1, negative ones modulo 2**64; or an integer scalar.

    Raises:
        DTypeError: for anything else.
    """
    hint = "a seed is an int, as gx.random.key(0), or an integer scalar of the graph"
    if isinstance(seed, Value):
        if not seed.dtype.is_integer:
            raise DTypeError(f"a seed of {seed.dtype}", where=caller(), hint=hint)
        if seed.shape != ():
            raise ShapeError(f"a seed of shape {show(seed.shape)}", where=caller(), hint=hint)
        return _halves(seed)
    if isinstance(seed, np.ndarray) and seed.shape == () and seed.dtype.kind in "iu":
        seed = int(seed)
    if not is_whole(seed) or not -(2**63) <= seed < 2**64:
        raise DTypeError(f"a seed is {shown(seed)}", where=caller(), hint=hint)
    low = int(seed) % 2**64
    return constant(np.array([low % 2**32, low >> 32], np.uint32))


def _halves(number: Value) -> Value:
    """The low and the high 32 bits of integers, on a new last axis."""
    wide = converted(number, uint64)
    return stack([converted(wide, uint32), converted(wide >> like(32, wide), uint32)], axis=-1)


def split(key: Any, num: Any = 2) -> Value:
    """New keys, one in each row of a uint32[num, 2]; the old key should not be used again.

    They are the words of the key's stream for keys; the first ones do not depend on ``num``.

    Args:
        key: a key.
        num: how many, an int or a dim; or a shape of keys.
    """
    shape = shape_of(num, "split")
    source = key_of(key, "split")
    return apply(draw_op, source, law="bits", shape=(*shape, 2), dtype=uint32, purpose=KEYS)


def fold_in(key: Any, data: Any) -> Value:
    """A new key of a key and an integer, such as the number of a step.

    Args:
        key: a key.
        data: an int or an integer scalar; what agrees modulo 2**64 gives the same key.

    Raises:
        DTypeError: for data that is no integer.
        ShapeError: for data that is no scalar.
    """
    source = key_of(key, "fold_in")
    if is_whole(data):
        data = constant(np.array(int(data) % 2**64, np.uint64))
    number = as_value(data, source)
    if not number.dtype.is_integer or number.shape != ():
        raise (ShapeError if number.dtype.is_integer else DTypeError)(
            f"fold_in of {number.type}",
            where=caller(),
            hint="fold in an int, or an integer scalar of the graph",
        )
    wide = converted(number, uint64)
    words = [wide, wide >> like(32, wide), like(0, wide), like(FOLDS, wide)]
    counter = stack([converted(word, uint32) for word in words])
    return apply(philox_op, source, counter)[:2]


def bits(key: Any, shape: Any = (), dtype: DTypeLike = "uint32") -> Value:
    """Random bits: unsigned integers that are uniform over all of their dtype.

    Elements are the bytes of the key's stream, in little-endian order, seen as the dtype; so the
    first n do not depend on how many there are.
    """
    element = element_type(dtype, "uint", "bits")
    return drawn(key_of(key, "bits"), "bits", shape_of(shape, "bits"), element)


def philox(key: Any, counter: Any) -> Value:
    """The generator itself: the four words that Philox 4x32-10 makes of each counter.

    Args:
        key: a uint32[2].
        counter: uint32 of shape [..., 4].
    """
    source = key_of(key, "philox")
    given = as_value(counter, source)
    if given.shape:
        sizes = (*given.shape[:-1], 4)
        given = _sized(given, sizes, "philox takes counters of shape [..., 4], not {}")
    return apply(philox_op, source, given)
