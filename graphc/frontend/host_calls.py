"""Python in the midst of a run: ``host_call``, and ``print``, ``check`` and ``summary`` made of it.

Ordered calls, and control flow that has some inside, write one token after the other, as
assignments write a variable (``Recorder.order``). So they run where assignments would: if they are
fetched or required, and in branches and bodies whenever these run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any, NamedTuple

import numpy as np

from graphc.base.errors import CheckError, DTypeError, GraphcError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.control_flow import cond
from graphc.frontend.state import latest_value
from graphc.ir.attributes import Array
from graphc.ir.builder import apply_node, builder_for, building, current
from graphc.ir.dims.expressions import Dim
from graphc.ir.dtypes import DType, bool_
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.effect import Effect
from graphc.ir.graph import Node
from graphc.ir.host import HostFunction, host_function
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value, checked_name
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, dim_of
from graphc.ops.host import after_op, host_call_op, order_op, ordered_host_call_op


def host_call(
    function: Callable[..., Any],
    *values: Any,
    result_types: Any = (),
    ordered: bool = False,
    derivative: Callable[..., Any] | None = None,
    name: str | None = None,
) -> Any:
    """What a Python function gives for arrays, called when the graph runs.

    A call takes some microseconds and copies its operands and results; it holds Python's lock,
    which kernels don't. Errors of the function are the causes of the ``HostCallError`` that the run
    raises; KeyboardInterrupt and the like are raised as they are. No variable has changed then.

    Unless it is ``ordered``, a function is taken for pure: what it gives depends on its arguments
    alone. It is called only where its results are needed, and perhaps once for several equal calls.
    An ordered one is called exactly once in each run that needs its results, or the effect that it
    gives where it has none, and in branches and loops whenever these run. Ordered calls run in the
    order in which they were built.

    Args:
        function: gets a NumPy array for each value, which it may keep and change. It gives an array
            for one result type, and a tuple or list of arrays for several. Arrays must have the
            dtype and shape that were promised, in any layout; Python's numbers, and lists of them,
            are converted.
        values: what it is called with.
        result_types: ``(shape, dtype)``, or anything with a shape and a dtype, or a list of these;
            nothing, if the function gives nothing. Dims are ints or those of values, as in
            ``x.shape[0]``.
        ordered: whether what the function does counts, and not what it gives alone.
        derivative: ``derivative(inputs, outputs, cotangents)`` builds the cotangent of each input,
            None for zero; all of these are tuples of values. Cotangents of results that are no
            floats are None. Without one, a gradient through the call is an error.
        name: of the result; results of several have its number behind it.

    Returns:
        A value, or a tuple of values if several types are given as a list or tuple; an effect for
        none.

    Raises:
        GraphError: for what is no function, for a call that gives nothing and is not ordered, and
            for ordered calls built by a derivative.
        ShapeError: for sizes that are no dims.
        DTypeError: for what is no dtype.
    """
    for what, given in (("function", function), ("derivative", derivative)):
        if not callable(given) and (given is not None or what == "function"):
            raise GraphError(
                f"the {what} of host_call is {shown(given)}, not a function",
                where=caller(),
                hint="give the function itself, which is called with arrays when the graph runs",
            )
    label = checked_name(name)
    types, is_single = _types_of(result_types)
    in_order = switch(ordered, "ordered")
    if not types and not in_order:
        raise GraphError(
            "a host_call that gives nothing never runs",
            where=caller(),
            hint="say what it gives, as result_types=(x.shape, x.dtype), or that what it does "
            "counts: ordered=True",
        )
    called = host_function(function, derivative, label)
    results = _call(called, _operands(values), types, in_order, label)
    if not types:
        return _effect(results, label)
    results = results[-len(types) :]
    return results[0] if is_single else results


def print_(format: Any, *values: Any, passing: Any = None, name: str | None = None) -> Any:
    """Prints values when the graph runs, to ``sys.stdout`` as it is then.

    It runs in order with other ordered calls, where ``host_call`` says. No gradient looks at it.

    Args:
        format: a text for ``str.format``, as "x = {}"; a format such as {:.3f} is that of each
            element. Without a text, what is given is printed in a row.
        values: what stands in the braces.
        passing: a value to be given back; whatever is made of it prints, its gradient too.
        name: of the effect.

    Returns:
        ``passing``, or an effect: fetch it, group it, or require it with ``control_dependencies``.

    Raises:
        GraphError: for a text that does not fit the values.
    """
    if not isinstance(format, str):
        format, values = " ".join(["{}"] * (1 + len(values))), (format, *values)
    operands = _operands(values)
    _check_format(format, operands, "print")
    label = checked_name(name)
    called = host_function(_Printing(format), None, "print")
    return _passing(_effect(_call(called, operands, (), True, None), label), passing)


def check(
    condition: Any,
    message: str = "a condition does not hold",
    *values: Any,
    passing: Any = None,
    name: str | None = None,
) -> Any:
    """Ends a run with a ``CheckError`` where not all elements of a condition are true.

    No variable has changed then. While all are true no Python runs. It runs in order with other
    ordered calls, where ``host_call`` says. No gradient looks at it.

    Args:
        condition: bools of any shape.
        message: a text for ``str.format``.
        values: what stands in the braces.
        passing: a value to be given back; whatever is made of it is checked, its gradient too.
        name: of the effect.

    Returns:
        ``passing``, or an effect: fetch it, group it, or require it with ``control_dependencies``.

    Raises:
        DTypeError: for a condition that is not of bools.
        GraphError: for a text that does not fit the values.
    """
    if not isinstance(message, str):
        raise GraphError(
            f"the message of check is {shown(message)}",
            where=caller(),
            hint="the condition comes first, then a text, then the values in its braces",
        )
    tested, *others = _operands((condition, *values))
    if tested.dtype is not bool_:
        raise DTypeError(
            f"the condition of check is {tested.dtype}, not bool",
            where=caller(),
            hint="compare it, for example with x > 0",
        )
    _check_format(message, others, "check")
    label = checked_name(name)
    failing = host_function(_Failing(message), None, "check", (CheckError,))

    def fail() -> None:
        _call(failing, (tested, *others), (), True, None)

    holds = surface_function("all")(tested)
    effect = cond(holds, lambda: None, fail)
    return _passing(_effect(effect.values, label), passing)


class Summary(NamedTuple):
    """What ``gx.summary`` tells of a tensor.

    Attributes:
        name: what it is called.
        dtype, shape: its type.
        least, mean, greatest: of all elements that are not NaN, or NaN where there are none; of
            complex numbers those of their magnitudes.
        nans, infinities: how many elements are so.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    least: float
    mean: float
    greatest: float
    nans: int
    infinities: int

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.dtype}{list(self.shape)}, min {self.least:.6g}, mean "
            f"{self.mean:.6g}, max {self.greatest:.6g}, {self.nans} NaN, {self.infinities} infinite"
        )


def summary(
    value: Any,
    name: str | None = None,
    *,
    callback: Callable[[Summary], Any] | None = None,
    passing: Any = None,
) -> Any:
    """Prints what is in a tensor when the graph runs: its shape, least, mean and greatest element,
    and how many are NaN or infinite.

    It runs in order with other ordered calls, where ``host_call`` says. No gradient looks at it.

    Args:
        value: the tensor.
        name: what it is called; by default the value's own name. It is that of the effect, too.
        callback: gets a ``Summary`` instead of its being printed.
        passing: a value to be given back; whatever is made of it is told of, its gradient too.

    Returns:
        ``passing``, or an effect: fetch it, group it, or require it with ``control_dependencies``.

    Raises:
        GraphError: for a callback that can't be called.
    """
    if callback is not None and not callable(callback):
        raise GraphError(
            f"the callback of summary is {shown(callback)}, not a function",
            where=caller(),
            hint="give a function of a summary, as print",
        )
    label = checked_name(name)
    operands = _operands((value,))
    called = _Summing(label or operands[0].name or "value", callback)
    results = _call(host_function(called, None, "summary"), operands, (), True, None)
    return _passing(_effect(results, label), passing)


# --- functions -----------------------------------------------------------------------------------


class _Printing:
    """Prints arrays."""

    def __init__(self, format: str) -> None:
        self.format = format

    def __call__(self, *arrays: Array) -> None:
        _write(_formatted(self.format, arrays))


def _write(line: str) -> None:
    """Writes a line at once, so that those of several threads stay whole."""
    if sys.stdout is not None:  # as in programs without a console
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


class _Failing:
    """Raises the error of a condition that does not hold."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __call__(self, condition: Array, *arrays: Array) -> None:
        message = _formatted(self.message, arrays)
        if condition.ndim:
            places = np.argwhere(~condition)
            first = ", ".join(map(str, places[0]))
            message += f" (at [{first}], and {len(places) - 1:,} more of {condition.size:,})"
        raise CheckError(message)


class _Summing:
    """Tells of an array."""

    def __init__(self, name: str, callback: Callable[[Summary], Any] | None) -> None:
        self.name = name
        self.callback = callback

    def __call__(self, array: Array) -> None:
        nans = np.isnan(array)
        infinities = np.isinf(array)
        numbers = array[~nans]
        if np.iscomplexobj(numbers):
            numbers = np.abs(numbers)
        least, greatest, mean = np.nan, np.nan, np.nan
        if numbers.size:
            with np.errstate(all="ignore"):
                least, greatest = float(numbers.min()), float(numbers.max())
                mean = float(numbers.mean(dtype=np.float64))
        found = Summary(
            self.name, str(array.dtype), array.shape, least, mean, greatest,
            int(nans.sum()), int(infinities.sum()),
        )  # fmt: skip
        if self.callback is None:
            _write(str(found))
        else:
            self.callback(found)


class _Formatter(Formatter):
    """As ``str.format``, but the format of an array is that of its elements."""

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Any) -> Any:
        try:
            return super().get_value(key, args, kwargs)
        except IndexError:
            raise LookupError(f"there is no value {key}") from None

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec and isinstance(value, np.ndarray) and value.ndim:
            each = {"all": lambda element: format(element, format_spec)}
            return np.array2string(value, formatter=each)  # type: ignore[arg-type]
        if isinstance(value, np.ndarray) and not value.ndim:
            value = value[()]
        return str(super().format_field(value, format_spec))


def _formatted(format: str, arrays: Sequence[Array]) -> str:
    return _Formatter().vformat(format, arrays, {})


def _check_format(format: str, values: Sequence[Value], what: str) -> None:
    samples = [np.ones((1,) * value.ndim, value.dtype.numpy) for value in values]
    try:
        _formatted(format, samples)
    except IndexError:
        return  # of an element that samples don't have
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise GraphError(
            f"the text {shown(format)} of {what} does not fit its values: {error}",
            where=caller(),
            hint="each {} stands for one value; braces themselves are written {{ and }}",
        ) from error


# --- building ------------------------------------------------------------------------------------


def _operands(values: Sequence[Any]) -> tuple[Value, ...]:
    beside = next((value for value in values if isinstance(value, Value)), None)
    return tuple([as_value(value, beside) for value in values])


def _call(
    function: HostFunction,
    operands: Sequence[Value],
    types: Sequence[TensorType],
    ordered: bool,
    name: str | None,
) -> tuple[Value, ...]:
    """The results of a call; in order these are a token and the others."""
    attrs = {
        "function": function,
        "dtypes": tuple([type_.dtype for type_ in types]),
        "shapes": tuple([tuple(type_.shape) for type_ in types]),
    }
    if not ordered:
        found = builder_for(operands) if operands else current_recorder()
        with building(found):
            node = apply_node(host_call_op, operands, attrs)
        return _named(node, node.outputs, name)
    recorder = _recorder(operands)
    order = _order(recorder)
    node = recorder.add(
        ordered_host_call_op, (latest_value(recorder, order), *operands), attrs
    )
    token, *results = node.outputs
    recorder.written[token] = order
    recorder.latest[order] = token
    return (token, *_named(node, results, name))


def _recorder(operands: Sequence[Value]) -> Recorder:
    """Whose order an ordered call joins."""
    if current() is None or isinstance(current(), Recorder):
        found = builder_for(operands) if operands else current_recorder()
        if isinstance(found, Recorder):
            return found
    raise GraphError(
        "an ordered call can't be built by a derivative",
        where=caller(),
        hint="what a derivative builds may run at any time: use ordered=False",
    )


def _named(node: Node, results: Sequence[Value], name: str | None) -> tuple[Value, ...]:
    for place, value in enumerate(results):
        if name is not None:
            label = name if len(results) == 1 else f"{name}_{place}"
            if isinstance(value.graph, Recorder):
                value.graph.rename(value, label)
    return tuple(results)


def _order(recorder: Recorder) -> Value:
    """The token that the effects of a graph begin with."""
    top = recorder
    while top.parent is not None:
        top = top.parent
    if top.order is None:
        top.order = top.add(order_op, (), {}).output
    return top.order


def _effect(results: Sequence[Value], name: str | None) -> Effect:
    effect = Effect(results[:1], name)
    recorder = results[0].graph
    if name is not None and isinstance(recorder, Recorder):
        recorder.names.note_effect(effect)
    return effect


def _passing(effect: Effect, value: Any) -> Any:
    """The effect, or a value that asks for it."""
    if value is None:
        return effect
    (token,) = effect.values
    given = as_value(value, token)
    recorder = token.graph
    assert isinstance(recorder, Recorder)
    return recorder.add(after_op, (given, token), {}).output


def _types_of(given: Any) -> tuple[tuple[TensorType, ...], bool]:
    """Result types, and whether it is a single one."""
    if given is None:
        return (), False
    if _is_type(given):
        return (_type_of(given),), True
    if not isinstance(given, (list, tuple)):
        raise ShapeError(
            f"result_types is {shown(given)}",
            where=caller(),
            hint="give (shape, dtype), or a list of these",
        )
    return tuple(map(_type_of, given)), False


def _is_type(given: Any) -> bool:
    if isinstance(given, (list, tuple)):
        return len(given) == 2 and _names_dtype(given[1])
    return hasattr(given, "shape") and hasattr(given, "dtype")


def _names_dtype(item: Any) -> bool:
    return isinstance(item, (str, type, DType, np.dtype))


def _type_of(given: Any) -> TensorType:
    if not _is_type(given):
        raise ShapeError(
            f"a result type is {shown(given)}",
            where=caller(),
            hint="give (shape, dtype), as (x.shape, x.dtype)",
        )
    shape, dtype = given if isinstance(given, (list, tuple)) else (given.shape, given.dtype)
    dims: list[Dim] = []
    for size in shape if isinstance(shape, (list, tuple)) else (shape,):
        if size is None:
            raise ShapeError(
                "the size of a result must be known before the function is called, which None says "
                "it is not",
                where=caller(),
                hint="give an int or the size of a value, x.shape[0]; where it is not known, give "
                "as many elements as there may be, and how many there are as a second result",
            )
        dims.append(dim_of(size))
    try:
        return TensorType(as_dtype(dtype), tuple(dims))
    except GraphcError as error:
        error.where = error.where or caller()
        raise


__all__ = ["Summary", "check", "host_call", "print_", "summary"]
