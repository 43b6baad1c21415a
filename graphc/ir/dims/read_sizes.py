"""Sizes that were read off values: dims that know whose sizes they are.

Role: what ``Value.shape`` gives to users.  A program may compute with the size of a value that it
never computes.  Where sizes don't fit there is no such value, and so no such size: the node that
gets the size relies on what it was read off.  Invariant: a dim knows this from ``Value.shape`` to
the attributes of a node, for which ``graphc.ir.attributes.bare`` parts the two.  Types, guards and
passes have bare dims alone, so that equal dims are one object there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import Any, ClassVar, TypeAlias, TypeVar

from graphc.ir.dims.algebra import Dim, DimExpr, as_dim

_Function = TypeVar("_Function", bound=Callable[..., Any])


Sources: TypeAlias = tuple[Any, ...]
"""Values, and tuples of them of any depth."""


class ReadDim(DimExpr):
    """A dim, and the values that it was read off.

    It equals its bare dim wherever a user asks.

    Attributes:
        sources: the values, in tuples of any depth, which sums of many sizes share.
        exist: whether there has been one in this process. Most programs have none, and look for
            none then.
    """

    __slots__ = ("sources",)

    exist: ClassVar[bool] = False

    sources: Sources

    def __reduce__(self) -> tuple[Any, ...]:
        return (read_off, (as_dim(self), tuple(dict.fromkeys(flat(self.sources)))))


def read_off(dim: Dim, sources: Sources) -> Dim:
    """The dim, as one that was read off these values; a number is known without them."""
    if isinstance(dim, int):
        return dim
    ReadDim.exist = True
    made: ReadDim = object.__new__(ReadDim)
    for name, item in (
        ("terms", dim.terms),
        ("_hash", hash(dim)),
        ("_interval", None),
        ("sources", sources),
    ):
        object.__setattr__(made, name, item)
    return made


def flat(sources: Sources, seen: set[int] | None = None) -> Iterator[Any]:
    """The values in tuples of any depth, without those of tuples that were seen before."""
    met = set() if seen is None else seen
    stack: list[Any] = [sources]
    while stack:
        item = stack.pop()
        if not isinstance(item, tuple):
            yield item
        elif id(item) not in met:
            met.add(id(item))
            stack += item


def together(parts: Iterable[Any]) -> Sources:
    """The sources of those of the parts that were read off values."""
    found: dict[int, Sources] = {}
    for part in parts:
        if type(part) is ReadDim:
            told = part.sources
            found[id(told[0] if len(told) == 1 else told)] = told
    return found.popitem()[1] if len(found) == 1 else (*found.values(),)


def _joined(dim: Dim, parts: Iterable[Any]) -> Dim:
    """What was made of dims, as one that was read off what they were."""
    return read_off(as_dim(dim), together(parts))


def through(function: _Function) -> _Function:
    """The function of dims, whose result was read off what its arguments were."""

    @wraps(function)
    def told(*arguments: Any) -> Any:
        if ReadDim.exist and ReadDim in map(type, arguments):
            return _joined(function(*arguments), arguments)
        return function(*arguments)

    return told  # type: ignore[return-value]


def _operator(name: str) -> Callable[..., Any]:
    """An operator of dims: what is no dim beside them is told the whole of this one."""
    of_dims = getattr(DimExpr, name)

    def operate(self: ReadDim, *others: Any) -> Any:
        try:
            plain = [*map(as_dim, others)]
        except TypeError:
            return of_dims(self, *others)
        result = of_dims(as_dim(self), *plain)
        if isinstance(result, (int, DimExpr)):
            return _joined(result, (self, *others))
        return of_dims(self, *others)

    return operate


for _name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "pow",
    "neg", "pos", "abs",
):  # fmt: skip
    setattr(ReadDim, f"__{_name}__", _operator(f"__{_name}__"))

__all__ = ["ReadDim", "Sources", "flat", "read_off", "through", "together"]
