"""Sizes among numbers: what arithmetic with tensors and Python's floats makes of dims.

Role: below ``graphc.ir.dims.algebra``, the half of a dim that isn't algebra.  A dim enters the
arithmetic of a tensor as a Python int would, and a quotient of sizes as a Python float would: both
take the dtype of the floats they meet.  What needs the number itself is refused, naming what takes
its place.
"""

from __future__ import annotations

from types import FrameType
from typing import Any, NoReturn

import numpy as np

from graphc.base.errors import ConcreteValueError
from graphc.base.source import caller
from graphc.ir.surface import functions
from graphc.ir.symbolic import Symbolic


def refuse(what: str, instead: str) -> NoReturn:
    """Says that a size is known only when the graph runs.

    Raises:
        ConcreteValueError: naming what takes its place.
    """
    raise ConcreteValueError(
        f"{what} before the graph runs: the size is told by the feeds",
        where=caller(),
        hint=f"use {instead}, or give the placeholder a number for the size",
    )


def mixed(name: str, left: Any, right: Any) -> Any:
    """An operation of sizes and numbers, or of a size and NumPy's arrays; others say what to do."""
    pair = left, right
    if all(isinstance(o, (Size, int, float)) and not isinstance(o, np.generic) for o in pair):
        return SizeNumber(name, pair)
    if any(isinstance(operand, (np.generic, np.ndarray)) for operand in pair):
        return functions[name](left, right)
    return NotImplemented


def asked_within(frame: FrameType) -> bool:
    """Whether the code of a frame is graphc's own."""
    name: str = frame.f_globals.get("__name__", "")
    return name.partition(".")[0] in ("graphc", "passes")


class Size:
    """What is a number once the sizes are known: a dim, or a quotient of them."""

    __slots__ = ()

    def __truediv__(self, other: Any) -> Any:
        return mixed("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return mixed("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return mixed("power", self, other)

    def __rpow__(self, other: Any) -> Any:
        return mixed("power", other, self)

    def __int__(self) -> NoReturn:
        refuse(f"{self} is no int", "gx.dim(size), a tensor")

    def __float__(self) -> NoReturn:
        refuse(f"{self} is no float", "gx.dim(size), a tensor")

    def __index__(self) -> NoReturn:
        refuse(f"{self} is no int", "what takes dims, as gx.arange, gx.zeros and gx.reshape do")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        return Symbolic.__array_ufunc__(self, ufunc, method, *inputs, **options)  # type: ignore[arg-type]


class SizeNumber(Size):
    """A number made of sizes and Python's numbers, such as ``1 / x.shape[0]``.

    It is weak, as a Python float is: computed in float64, it takes the dtype of the tensor it
    meets, and is float32 where nothing else decides.

    Attributes:
        name: of the function.
        operands: dims, numbers and others of these.
    """

    __slots__ = ("name", "operands")

    def __init__(self, name: str, operands: tuple[Any, ...]) -> None:
        self.name = name
        self.operands = operands

    def __add__(self, other: Any) -> Any:
        return mixed("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return mixed("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return mixed("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return mixed("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return mixed("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return mixed("multiply", other, self)

    def __floordiv__(self, other: Any) -> Any:
        return mixed("floor_divide", self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return mixed("floor_divide", other, self)

    def __mod__(self, other: Any) -> Any:
        return mixed("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return mixed("mod", other, self)

    def __neg__(self) -> Any:
        return mixed("multiply", self, -1.0)

    def __bool__(self) -> NoReturn:
        refuse(f"whether {self} is 0 is not known", "gx.dim(size), a tensor, and compare that")

    def _unknown(self, other: Any) -> Any:
        if isinstance(other, (Size, int, float)):
            refuse(f"how {self} compares is not known", "gx.dim(size), a tensor, and compare that")
        return NotImplemented

    __lt__ = __le__ = __gt__ = __ge__ = _unknown

    def __eq__(self, other: object) -> Any:
        return self is other or self._unknown(other)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.operands))})"
