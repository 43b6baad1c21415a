"""Variables, assignments, groups and control dependencies, as users write them.

A variable used as a value is its value at the start of the run. ``assign`` gives the new value;
``assign_add`` and ``read`` build on the latest write before them. What is written inside a branch
or a loop body is carried out of it explicitly (``control_flow.py``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.structure import leaves
from graphc.ir.builder import current
from graphc.ir.dims.expressions import Size
from graphc.ir.dtypes import DTypeLike
from graphc.ir.effect import Effect
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.surface import surface_function
from graphc.ir.types import TensorType
from graphc.ir.value import Value, checked_name
from graphc.ops.arguments import switch
from graphc.ops.convert import as_value, converted
from graphc.ops.guards import show
from graphc.ops.source import payload_of
from graphc.ops.state import assign_op, variable_op
from graphc.session.feeds import misfit


class Variable(Value):
    """A value that a session keeps between runs.

    Attributes:
        trainable: whether ``minimize`` updates it by default.
        stored: where ``gx.save`` took the initial value from, for a variable of a graph that
            ``gx.load`` read: "session", or "initial" if the graph saved gave it other values when
            it ran; None otherwise.
        is_asked_for: whether the dtype was asked for, rather than taken from an array.
    """

    __slots__ = ("is_asked_for", "stored", "trainable")

    stem = "variable"

    def __init__(
        self,
        type: TensorType,
        name: str | None,
        graph: Recorder,
        trainable: bool,
        is_asked_for: bool = False,
    ) -> None:
        super().__init__(type, name, graph)
        self.trainable = trainable
        self.is_asked_for = is_asked_for
        self.stored: str | None = None

    def __getstate__(self) -> tuple[object, ...]:
        return (*super().__getstate__(), self.trainable, self.stored, self.is_asked_for)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        *common, self.trainable, self.stored, self.is_asked_for = state
        super().__setstate__(tuple(common))

    def read(self) -> Value:
        """The latest value written before this in the order of building."""
        return latest_value(_recorder_of(self), self)

    def assign(self, value: Any) -> Value:
        """Gives the variable a new value, and gives that value.

        The value is broadcast to the variable's shape, and converted to its dtype where feeds would
        be: floats go to floats, integers to numbers, bools anywhere. Integers that are known must
        be in range; others wrap, as ``astype`` lets them.

        Raises:
            DTypeError: for a value of another kind, as a float for an integer variable.
            ShapeError: if the shape does not fit.
        """
        recorder = _recorder_of(self)
        new = self._taken(value)
        if new.shape != self.shape:
            new = self._broadcast(new)
        before = latest_value(recorder, self)
        node = recorder.add(assign_op, (before, new), {})
        recorder.written[node.output] = self
        recorder.latest[self] = node.output
        return node.output

    def _broadcast(self, new: Value) -> Value:
        """A value in the variable's shape."""
        try:
            result: Value = surface_function("broadcast_to")(new, self.shape)
        except ShapeError:
            raise ShapeError(
                f"a value of shape {show(new.shape)} does not fit {shown(self.name)}, "
                f"a variable of shape {show(self.shape)}",
                where=caller(),
                hint="a variable keeps its shape: give a value of it, or one that broadcasts to it",
            ) from None
        return result

    def _taken(self, value: Any) -> Value:
        """A value in the variable's dtype."""
        if isinstance(value, Size):
            value = as_value(value, self)
        if isinstance(value, Value):
            given: Any = value.dtype
        else:
            payload_of(value)
            given = np.asarray(value)
        problem = misfit(given, self.dtype)
        if problem is not None:
            what, hint = problem
            raise DTypeError(
                f"value assigned to {self.name or 'an unnamed variable'}: expected "
                f"{self.type.brief()}, given {what}",
                where=caller(),
                hint=hint,
            )
        if isinstance(value, Value):
            return converted(value, self.dtype)
        return as_value(given.astype(self.dtype.numpy), self)

    def assign_add(self, value: Any) -> Value:
        """Adds to the latest value, and gives the sum."""
        return self.assign(self.read() + value)

    def assign_sub(self, value: Any) -> Value:
        """Subtracts from the latest value, and gives the difference."""
        return self.assign(self.read() - value)


def _recorder_of(variable: Variable) -> Recorder:
    """The region being traced, or the variable's own graph."""
    builder = current()
    if isinstance(builder, Recorder) and builder.parent is not None and builder.encloses(variable):
        return builder
    recorder: Recorder | None = variable.graph
    assert recorder is not None
    return recorder


def latest_value(recorder: Recorder, variable: Value) -> Value:
    """The current value of a variable, or token of the order, at this point of building; in regions
    it is carried in."""
    known = recorder.latest.get(variable)
    if known is not None:
        return known
    if recorder.parent is None:
        return variable
    carried = Value(variable.type, variable.name, recorder)
    recorder.carried[variable] = carried
    recorder.latest[variable] = carried
    return carried


def variable(
    initial: Any,
    name: str | None = None,
    trainable: bool = True,
    dtype: DTypeLike | None = None,
) -> Variable:
    """A variable with an initial value; arrays keep their dtype, Python floats become float32.

    Args:
        initial: anything ``np.asarray`` takes, of fixed shape.
        name: a label; without one the variable is called "variable", the next "variable_1" and so
            on, the same in each run of the same program.
        trainable: whether ``minimize`` updates it by default.
        dtype: converts the initial value.

    Raises:
        DTypeError: for an initial value that is no array of a supported dtype.
        GraphError: inside a branch or a loop body.
    """
    if isinstance(initial, str):
        raise DTypeError(
            f"a variable's initial value comes first, which is {shown(initial)} here",
            where=caller(),
            hint=f"write gx.variable(initial, name={shown(initial)})",
        )
    recorder = current_recorder()
    if recorder.parent is not None:
        raise GraphError(
            "a variable cannot be made inside a branch or a loop body",
            where=caller(),
            hint="make it outside and assign to it inside",
        )
    payload = payload_of(initial, dtype)
    chosen = switch(trainable, "trainable")
    result = Variable(payload.type, checked_name(name), recorder, chosen, dtype is not None)
    recorder.add(variable_op, (), {"initial": payload}, outputs=(result,))
    return result


def group(*items: Any, name: str | None = None) -> Effect:
    """One effect that runs all given values and effects (or nested structures of them).

    A session finds it by its name, too.
    """
    values = [value for item in leaves(list(items)) for value in effect_values(item)]
    effect = Effect(values, name)
    recorder = values[0].graph if values else None
    if effect.name is not None and isinstance(recorder, Recorder):
        recorder.names.note_effect(effect)
    return effect


def effect_values(item: Any) -> Sequence[Value]:
    """The values behind a value or an effect.

    Raises:
        GraphError: for anything else.
    """
    if isinstance(item, Value):
        return (item,)
    if isinstance(item, Effect):
        return item.values
    raise GraphError(
        f"{shown(item)} is neither a value nor an effect",
        where=caller(),
        hint="group values that operations gave, effects, and lists of them",
    )


def control_dependencies(items: Any) -> AbstractContextManager[None]:
    """What is built in the block runs only together with these values and effects.

    Args:
        items: a value, an effect or a nested structure of them.

    Raises:
        GraphError: for anything else.
    """
    recorder = current_recorder()
    values = [value for item in leaves(items) for value in effect_values(item)]
    if recorder.parent is None and values and values[0].graph is not None:
        recorder = values[0].graph
    return _controlled(recorder, values)


@contextmanager
def _controlled(recorder: Recorder, values: Sequence[Value]) -> Iterator[None]:
    recorder.push_control(values)
    try:
        yield
    finally:
        recorder.pop_control()
