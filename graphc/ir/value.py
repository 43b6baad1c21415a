"""Values: what nodes produce and consume, and what users hold in their hands.

A value is its identity. It has a type and a label but does not point at its producer: the graph
holds that table, so the same value can be redefined by a rewrite while users, fetches and names
stay put. Operators and methods know no op: they reach the user-level functions by name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from graphc.base.errors import GraphError, UnsupportedError
from graphc.base.source import caller
from graphc.ir import surface
from graphc.ir.dims.expressions import Dim, asked_within, read_off
from graphc.ir.dtypes import DType
from graphc.ir.symbolic import Symbolic, refuse
from graphc.ir.types import Shape, TensorType

functions: Mapping[str, Callable[..., Value]] = surface.functions


class Home(Protocol):
    """What a value needs of the graph in which it was built, which is a ``Recorder``.

    Attributes:
        has_guards: whether there may be none of some of its values.
    """

    @property
    def has_guards(self) -> bool: ...

    def may_be_missing(self, value: Value) -> bool:
        """Whether there is no such value where sizes do not fit."""

    def settle_names(self) -> None:
        """Gives names to the values that are always called something."""

    def rename(self, value: Value, name: str | None) -> None:
        """Gives a value another name, or none."""

    def producer(self, value: Value) -> Any:
        """The node that makes the value; None for inputs of a region."""


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


class Value(Symbolic):
    """A symbolic tensor.

    Hash is identity (values are keys of feeds); ``==``, ``<`` and so on build element-wise nodes
    as in NumPy, so compiler code compares values with ``is``.

    Attributes:
        type: dtype and shape.
        name: a label, not unique; None where nobody gave one. A new one may be set.
        stem: what the value is called, with a number if others are, where nobody gave a name.
        graph: the ``gx.Graph`` in which the user built it, None for values made by passes.
    """

    __slots__ = ("__weakref__", "_graph", "_name", "_type")

    stem: ClassVar[str | None] = None

    if TYPE_CHECKING:
        # Recorders hold values, so their type is known above only. This module sees a ``Home``.
        _graph: Any

        @property
        def type(self) -> TensorType: ...

        @property
        def graph(self) -> Any: ...

    else:
        type = _fixed("_type", "type")
        graph = _fixed("_graph", "graph")

    def __init__(
        self, type: TensorType, name: str | None = None, graph: Home | None = None
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
        if self._name is None and self.stem is not None:
            graph: Home | None = self._graph
            if graph is not None:
                graph.settle_names()
        return self._name

    @name.setter
    def name(self, name: str | None) -> None:
        checked_name(name)
        graph: Home | None = self._graph
        if graph is None:
            self._name = name
        else:
            graph.rename(self, name)

    @property
    def shape(self) -> Shape:
        """The dims, ints or symbolic.

        What a user builds with a symbolic one relies on this value: it has no number where the
        value has none, since sizes don't fit.
        """
        shape = self._type.shape
        graph: Home | None = self._graph
        if graph is None or not graph.has_guards or asked_within(sys._getframe(1)):
            return shape
        return self._read(shape, graph)

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
        graph: Home | None = self._graph
        if graph is None or not graph.has_guards or asked_within(sys._getframe(1)):
            return self._type.size
        (size,) = self._read((self._type.size,), graph)
        return size

    def _read(self, dims: Shape, graph: Home) -> Shape:
        """The dims, as read off this value where it may turn out that there is none."""
        if not graph.may_be_missing(self):
            return dims
        sources = (self,)
        return tuple([read_off(dim, sources) for dim in dims])

    def __repr__(self) -> str:
        label = f" {self.name!r}" if self.name is not None else ""
        graph: Home | None = self._graph
        node = None if graph is None else graph.producer(self)
        if node is None:
            return f"<Value{label} {self.type}>"
        where = node.provenance.where
        line = f" at {where.brief}" if where is not None else ""
        return f"<Value{label} {self.type} = {node.op.name}{line}>"


    # --- operators -------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Value:
        return functions["add"](self, other)

    def __radd__(self, other: Any) -> Value:
        return functions["add"](other, self)

    def __sub__(self, other: Any) -> Value:
        return functions["subtract"](self, other)

    def __rsub__(self, other: Any) -> Value:
        return functions["subtract"](other, self)

    def __mul__(self, other: Any) -> Value:
        return functions["multiply"](self, other)

    def __rmul__(self, other: Any) -> Value:
        return functions["multiply"](other, self)

    def __truediv__(self, other: Any) -> Value:
        return functions["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return functions["divide"](other, self)

    def __floordiv__(self, other: Any) -> Value:
        return functions["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return functions["floor_divide"](other, self)

    def __mod__(self, other: Any) -> Value:
        return functions["mod"](self, other)

    def __rmod__(self, other: Any) -> Value:
        return functions["mod"](other, self)

    def __pow__(self, other: Any, modulus: Any = None) -> Value:
        if modulus is not None:
            raise UnsupportedError(
                "pow of a symbolic value takes no modulus", where=caller(), hint="write x**y % z"
            )
        return functions["power"](self, other)

    def __rpow__(self, other: Any) -> Value:
        return functions["power"](other, self)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return functions["floor_divide"](self, other), functions["mod"](self, other)

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return functions["floor_divide"](other, self), functions["mod"](other, self)

    def __matmul__(self, other: Any) -> Value:
        return functions["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return functions["matmul"](other, self)

    def __and__(self, other: Any) -> Value:
        return functions["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Value:
        return functions["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Value:
        return functions["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Value:
        return functions["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Value:
        return functions["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Value:
        return functions["bitwise_xor"](other, self)

    def __lshift__(self, other: Any) -> Value:
        return functions["left_shift"](self, other)

    def __rlshift__(self, other: Any) -> Value:
        return functions["left_shift"](other, self)

    def __rshift__(self, other: Any) -> Value:
        return functions["right_shift"](self, other)

    def __rrshift__(self, other: Any) -> Value:
        return functions["right_shift"](other, self)

    def __neg__(self) -> Value:
        return functions["negative"](self)

    def __pos__(self) -> Value:
        return self

    def __abs__(self) -> Value:
        return functions["abs"](self)

    def __round__(self, digits: int | None = None) -> Value:
        return functions["round"](self, 0 if digits is None else digits)

    def __trunc__(self) -> Value:
        return functions["trunc"](self)

    def __floor__(self) -> Value:
        return functions["floor"](self)

    def __ceil__(self) -> Value:
        return functions["ceil"](self)

    def __invert__(self) -> Value:
        return functions["bitwise_not"](self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return functions["equal"](self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return functions["not_equal"](self, other)

    def __lt__(self, other: Any) -> Value:
        return functions["less"](self, other)

    def __le__(self, other: Any) -> Value:
        return functions["less_equal"](self, other)

    def __gt__(self, other: Any) -> Value:
        return functions["greater"](self, other)

    def __ge__(self, other: Any) -> Value:
        return functions["greater_equal"](self, other)

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Value:
        return functions["getitem"](self, key)

    def __len__(self) -> int:
        return self._first_dim("len()")

    def __iter__(self) -> Iterator[Value]:
        first = self._first_dim("iteration")
        return iter([self[position] for position in range(first)])

    def _first_dim(self, what: str) -> int:
        shape = self.shape
        if not shape:
            refuse(what, "the value is a scalar")
        if not isinstance(shape[0], int):
            refuse(f"known length for {what}", f"its first dim is {shape[0]}; use gx.while_loop")
        return shape[0]

    # --- methods ---------------------------------------------------------------------------------

    @property
    def T(self) -> Value:
        """The axes in reverse order."""
        return functions["transpose"](self)

    @property
    def mT(self) -> Value:
        """Each matrix of a stack transposed."""
        return functions["matrix_transpose"](self)

    @property
    def device(self) -> str:
        """Where programs run, in the words of the array API standard: there is one place."""
        return "cpu"

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard; see ``graphc.array_api``."""
        return surface.array_namespace(api_version)

    def astype(self, dtype: Any) -> Value:
        """Converts the elements; see ``gx.astype``."""
        return functions["astype"](self, dtype)

    def reshape(self, *shape: Any) -> Value:
        """The same elements, in row-major order, in another shape; one dim may be -1."""
        return functions["reshape"](self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Value:
        """Permutes the axes; reverses them where none are given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return functions["transpose"](self, order)

    def flatten(self) -> Value:
        """All elements in row-major order, as a vector."""
        return functions["reshape"](self, (-1,))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.sum``."""
        return functions["sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.mean``."""
        return functions["mean"](self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.prod``."""
        return functions["prod"](self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.max``."""
        return functions["max"](self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.min``."""
        return functions["min"](self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.any``."""
        return functions["any"](self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.all``."""
        return functions["all"](self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Value:
        """See ``gx.var``."""
        return functions["var"](self, axis=axis, keepdims=keepdims, ddof=ddof)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Value:
        """See ``gx.std``."""
        return functions["std"](self, axis=axis, keepdims=keepdims, ddof=ddof)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.argmax``."""
        return functions["argmax"](self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.argmin``."""
        return functions["argmin"](self, axis=axis, keepdims=keepdims)

    def cumprod(self, axis: Any = None) -> Value:
        """See ``gx.cumprod``."""
        return functions["cumprod"](self, axis=axis)

    def swapaxes(self, first: int, second: int) -> Value:
        """See ``gx.swapaxes``."""
        return functions["swapaxes"](self, first, second)

    def squeeze(self, axis: Any = None) -> Value:
        """See ``gx.squeeze``."""
        return functions["squeeze"](self, axis)

    def ravel(self) -> Value:
        """All elements in row-major order, as a vector."""
        return functions["ravel"](self)

    def take(self, indices: Any, axis: Any = None, mode: str = "error") -> Value:
        """See ``gx.take``."""
        return functions["take"](self, indices, axis, mode)

    @property
    def at(self) -> Any:
        """What gives new values with some elements changed, as ``x.at[key].set(v)``: ``gx.at``."""
        return functions["at"](self)

    def repeat(self, repeats: int, axis: Any = None) -> Value:
        """See ``gx.repeat``."""
        return functions["repeat"](self, repeats, axis)

    def round(self) -> Value:
        """See ``gx.round``."""
        return functions["round"](self)

    def cumsum(self, axis: Any = None) -> Value:
        """See ``gx.cumsum``."""
        return functions["cumsum"](self, axis=axis)

    def clip(self, low: Any = None, high: Any = None) -> Value:
        """See ``gx.clip``."""
        return functions["clip"](self, low, high)


def names_of(values: Iterable[Value]) -> list[str | None]:
    """The names of many values, at once."""
    return [value._name for value in values]
