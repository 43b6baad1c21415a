"""Where values come from: constants and placeholders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.ir.attributes import Array, Attributes, Payload, SharedAttributes
from graphc.ir.builder import building, current
from graphc.ir.dims.expressions import Dim, DimExpr, Size, symbol
from graphc.ir.dtypes import DType, DTypeLike, complex64, float32, int64, kind_of, named
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Element, Structural
from graphc.ir.op import Domain, Flat, NotDifferentiable, OpDef, register
from graphc.ir.recorder import Recorder, current_recorder, producer_of
from graphc.ir.surface import surface
from graphc.ir.types import TensorType
from graphc.ir.value import Value


def _constant_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    payload: Payload = attrs["value"]
    return [payload.type]


constant_op = register(
    OpDef(
        name="constant",
        doc="A fixed array.",
        infer=_constant_type,
        reference=lambda value: value.array,
        derivative=Flat(),
        lowering=Structural(),
    )
)


def _placeholder_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [TensorType(attrs["dtype"], attrs["shape"])]


def _not_fed(**attrs: object) -> None:
    raise DTypeError("a placeholder has no value of its own", hint="feed it")


placeholder_op = register(
    OpDef(
        name="placeholder",
        doc="A value fed at every run.",
        infer=_placeholder_type,
        reference=_not_fed,
        derivative=NotDifferentiable("a placeholder has no inputs"),
        lowering=Structural(),
    )
)


def payload_of(value: Any, dtype_: DTypeLike | None = None) -> Payload:
    """The array of a constant; Python floats become float32, ints int64, complex numbers complex64.

    Arrays keep their dtype.

    Raises:
        DTypeError: for what is not an array of a supported dtype.
    """
    if type(value) is np.ndarray and dtype_ is None and value.dtype.kind in "fiubc":
        return Payload(value)
    if isinstance(value, Value):
        raise DTypeError(
            "a symbolic value is not a constant",
            where=caller(),
            hint="give an array, as np.zeros(3, 'float32'); session.run(value) computes one",
        )
    if isinstance(value, Size):
        raise DTypeError(
            f"{value} is not a constant: the size is told by the feeds",
            where=caller(),
            hint="use gx.dim(size), a tensor",
        )
    if isinstance(value, np.ma.MaskedArray) and np.any(value.mask):
        raise DTypeError(
            "a tensor has no masked entries", where=caller(), hint="fill them first: .filled(x)"
        )
    strong = isinstance(value, (np.ndarray, np.generic))
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise DTypeError(
            f"cannot make a tensor of {type(value).__name__}: {error}",
            where=caller(),
            hint="all items of a list must have one shape",
        ) from error
    if array.dtype.kind == "O" and isinstance(value, int):
        raise DTypeError(
            f"{shown(value)} is out of the range of every integer dtype",
            where=caller(),
            hint="write it as a float, or take it modulo 2**64",
        )
    if kind_of(array.dtype) in "OSUMmV":
        raise DTypeError(
            f"cannot make a tensor of {type(value).__name__} (dtype {array.dtype})",
            where=caller(),
            hint="give numbers or booleans of one shape",
        )
    if dtype_ is not None:
        element = as_dtype(dtype_)
        if array.dtype.kind == "c" and not element.is_complex:
            raise DTypeError(
                f"{shown(value)} is complex, and {element} holds no imaginary parts",
                where=caller(),
                hint="take .real, or give a complex dtype",
            )
        array = array.astype(element.numpy)
    elif not strong and not _holds_arrays(value):
        weak = {"f": float32, "i": int64, "c": complex64}.get(array.dtype.kind)
        if weak is not None:
            array = array.astype(weak.numpy)
    return Payload(array)


def _holds_arrays(value: Any) -> bool:
    """True for (nested) sequences that contain NumPy scalars or arrays, which are strong."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, (np.ndarray, np.generic)):
            return True
        if isinstance(item, (list, tuple)):
            stack.extend(item)
    return False


@surface
def constant(value: Any, dtype: DTypeLike | None = None, name: str | None = None) -> Value:
    """A fixed array, copied.

    Python floats become float32, ints int64, complex numbers complex64; arrays keep their dtype.
    """
    payload = payload_of(value, dtype)
    builder = current()
    if builder is None:
        builder = current_recorder()
    return builder.add(constant_op, (), {"value": payload}, (), name).output


def _check_order(shape: Any, dtype: Any) -> None:
    """Refuses a shape where the dtype belongs, and a dtype where the shape does.

    Raises:
        DTypeError: for the one.
        ShapeError: for the other.
    """
    is_name, is_dtype = isinstance(shape, str), isinstance(shape, str) and named(shape) is not None
    if isinstance(dtype, (tuple, list)) or is_count(dtype, 0):
        given = f", {shape!r}" if is_dtype else f", name={shape!r}" if is_name else ""
        raise DTypeError(
            f"a placeholder's shape comes first and its dtype second, which is {shown(dtype)} here",
            where=caller(),
            hint=f"write gx.placeholder({shown(dtype)}{given})",
        )
    if is_dtype:
        raise ShapeError(
            f"the shape of a placeholder is {shape!r}, which is a dtype",
            where=caller(),
            hint=f"write gx.placeholder(shape, {shape!r}), where () is the shape of one number",
        )


def _converted(value: Any, dtype_: DType) -> Payload:
    array = np.array(value, dtype=dtype_.numpy, order="C")
    array.flags.writeable = False
    return Payload(array)


@lru_cache(maxsize=1024, typed=True)
def _number(number: float, name: str, zero: str) -> Attributes:
    """The attributes of a constant: a Python number in the dtype of that name.

    Loops write the same few again and again. ``zero`` is how a zero is spelled, so that -0.0 is not
    taken for 0.0, which it equals.
    """
    return SharedAttributes(value=_converted(number, as_dtype(name)))


def constant_beside(value: Any, dtype_: DType, beside: Value) -> Value:
    """A constant in the graph of another value: how scalars enter expressions."""
    if type(value) in (float, int, bool):
        attrs = _number(value, dtype_.name, "" if value else str(value))
    else:
        attrs = {"value": _converted(value, dtype_)}
    builder = current()
    if builder is None or (isinstance(builder, Recorder) and builder.parent is None):
        owner: Recorder | None = beside.graph
        builder = owner or current_recorder()
    return builder.add(constant_op, (), attrs).output


def known_array(value: Value) -> Array | None:
    """The elements of a constant of the user's graph; None of what a run computes."""
    node = producer_of(value)
    if node is None or node.op is not constant_op:
        return None
    payload: Payload = node.attrs["value"]
    return payload.array


def built_beside(op: OpDef, attrs: Mapping[str, Any], beside: Value | None = None) -> Value:
    """A node without operands in the graph of ``beside``, or in the current one."""
    builder = current()
    foreign = builder is None or (isinstance(builder, Recorder) and builder.parent is None)
    owner: Recorder | None = beside.graph if foreign and beside is not None else None
    return (owner or builder or current_recorder()).add(op, (), attrs).output


dim_op = register(
    OpDef(
        name="dim",
        doc="The size attrs dim, symbolic or not, as an int64 scalar.",
        infer=lambda inputs, attrs: [TensorType(int64, ())],
        reference=lambda dim: np.asarray(dim, np.int64),
        derivative=Flat(),
        lowering=Element(lambda b, input_types, output_type, attrs, index: b.dim(attrs["dim"])),
        domain=Domain((int64,), example=lambda rng, element: ((), {"dim": 5})),
    )
)


def _placeholder_dim(dim: Any, recorder: Recorder) -> Dim:
    if dim is None:
        return recorder.fresh_symbol()
    if isinstance(dim, str):
        if not dim.isidentifier() or dim.startswith("_"):
            raise ShapeError(
                f"{dim!r} is not a name of a dim",
                where=caller(),
                hint="a name is an identifier, such as batch, without an underscore in front, "
                "which those have that graphc makes up; use None for a dim without a name",
            )
        return symbol(dim)
    if isinstance(dim, DimExpr):
        return dim
    if isinstance(dim, (int, np.integer)) and not isinstance(dim, bool):
        if dim < 0:
            raise ShapeError(
                f"a dim cannot be {dim}", where=caller(), hint="use None for an unknown dim"
            )
        return int(dim)
    raise ShapeError(
        f"{shown(dim)} is not a dim", where=caller(), hint="a dim is an int, a name or None"
    )


@surface
def placeholder(
    shape: Sequence[Any] | int | None = (), dtype: DTypeLike = "float32", name: str | None = None
) -> Value:
    """A value to be fed at every run.

    Args:
        shape: per axis an int, a name (equal names are equal sizes, checked at run) or None (any
            size, a fresh symbol each).
        dtype: the element type; feeds are converted by the rules of ``Session.run``.
        name: a label; feeds may use it instead of the value.

    Raises:
        ShapeError: for what is no shape, such as the name of a dtype.
        DTypeError: for what is no dtype.
        GraphError: inside a branch or a loop body, where nothing can be fed.
    """
    _check_order(shape, dtype)
    recorder = current_recorder()
    if recorder.parent is not None:
        raise GraphError(
            "a placeholder cannot be made inside a branch or a loop body",
            where=caller(),
            hint="make it outside and read it inside",
        )
    given = (shape,) if isinstance(shape, (int, str)) else () if shape is None else shape
    if not isinstance(given, Iterable):
        raise ShapeError(
            f"shape is {shown(shape)}", where=caller(), hint="give a tuple, such as (None, 3)"
        )
    resolved = tuple(_placeholder_dim(dim, recorder) for dim in given)
    element = as_dtype(dtype)
    with building(recorder):
        return recorder.add(
            placeholder_op, (), {"dtype": element, "shape": resolved}, (), name
        ).output
