"""Values: what nodes produce and consume, and what users hold in their hands.

A value is its identity. It has a type and a label but does not point at its producer: the graph
holds that table, so the same value can be redefined by a rewrite while users, fetches and names
stay put.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Self

from graphc.base.errors import GraphError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.dims.expressions import Dim, asked_within, read_off
from graphc.ir.dtypes import DType
from graphc.ir.operators import Operators
from graphc.ir.types import Shape, TensorType

if TYPE_CHECKING:
    from graphc.ir.recorder import Recorder


def checked_name(name: Any) -> str | None:
    """The name a user gives to something.

    Raises:
        GraphError: for what is neither text nor None.
    """
    if name is None or isinstance(name, str):
        return name
    raise GraphError(
        f"{name!r} is no name", where=caller(), hint="a name is a string; None is for no name"
    )


def _fixed(slot: str, what: str) -> Any:
    """A property that reads a slot and refuses to write it.

    What code of graphc asks for each node that is recorded it reads from the slot itself.
    """

    def refuse(value: Value, new: object) -> None:
        raise UnsupportedError(
            f"the {what} of {value!r} can't be set: values are immutable, but for their names",
            where=caller(),
            hint="build a new value, with astype or reshape",
        )

    return property(attrgetter(slot), refuse)


class Value(Operators):
    """A symbolic tensor.

    Hash is identity (values are keys of feeds); ``==``, ``<`` and so on build element-wise nodes
    as in NumPy, so compiler code compares values with ``is``.

    Attributes:
        type: dtype and shape.
        name: a label, not unique; None where nobody gave one. A new one may be set.
        stem: what the value is called, with a number if others are, where nobody gave a name.
        graph: the recorder in which the user built it, None for values made by passes.
    """

    __slots__ = ("__weakref__", "_graph", "_name", "_type")

    stem: ClassVar[str | None] = None

    if TYPE_CHECKING:

        @property
        def type(self) -> TensorType: ...

        @property
        def graph(self) -> Recorder | None: ...

    else:
        type = _fixed("_type", "type")
        graph = _fixed("_graph", "graph")

    def __init__(
        self, type: TensorType, name: str | None = None, graph: Recorder | None = None
    ) -> None:
        self._type = type
        self._name = name
        self._graph = graph

    def __copy__(self) -> Self:
        """The value itself: another one would be in no graph.

        A deep copy copies the graph too, like a pickle.
        """
        return self

    def __getstate__(self) -> tuple[object, ...]:
        return (self._type, self.name, self._graph)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self._type, self._name, self._graph = state

    @property
    def name(self) -> str | None:
        """A label, not unique; None where there is none. By a new one the graph finds the value.

        Raises:
            GraphError: on setting it to what is neither text nor None.
        """
        if self._name is None and self.stem is not None and self._graph is not None:
            self._graph.names.settle()
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        checked_name(name)
        if self._graph is not None and self in self._graph.positions:
            self._graph.names.change(self, name)
        else:
            self._name = name

    @property
    def shape(self) -> Shape:
        """The dims, ints or symbolic.

        What a user builds with a symbolic one relies on this value: it has no number where the
        value has none, since sizes don't fit.
        """
        shape = self._type.shape
        graph = self._graph
        if graph is None or not graph.has_guards or asked_within(sys._getframe(1)):
            return shape
        return self._read(shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._type.shape)

    @property
    def size(self) -> Dim:
        """Number of elements, a dim as those of the shape are."""
        graph = self._graph
        if graph is None or not graph.has_guards or asked_within(sys._getframe(1)):
            return self._type.size
        (size,) = self._read((self._type.size,))
        return size

    def _read(self, dims: Shape) -> Shape:
        """The dims, as read off this value where it may turn out that there is none."""
        graph = self._graph
        sources = (self,)
        if graph is None or graph.failing.by_running(sources, graph) is None:
            return dims
        return tuple([read_off(dim, sources) for dim in dims])

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name is not None else ""
        node = self.graph.producer(self) if self.graph is not None else None
        if node is None:
            return f"<Value{label} {self.type}>"
        where = node.provenance.where
        line = f" at {where.brief}" if where is not None else ""
        return f"<Value{label} {self.type} = {node.op.name}{line}>"


def names_of(values: Iterable[Value]) -> list[str | None]:
    """The names of many values, at once."""
    return [value._name for value in values]
