"""Sizes of the symbolic dims, read off the arrays of a run.

Invariant: a binding gives every symbol of a plan a size with which all its inputs have their shapes
and all its guards hold.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

from graphc.base.errors import ShapeError
from graphc.base.source import caller
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import Dim, DimExpr, Sizes, evaluate, is_symbol, symbol_name
from graphc.plan.ir import Plan


class Binder:
    """Where each symbol of a plan is read off the arrays, and which other axes must agree.

    Attributes:
        symbols: in the order in which a binding has them.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.symbols: list[DimExpr] = []
        self._first: dict[str, tuple[int, int]] = {}
        self._checks: list[tuple[Dim, int, int]] = []
        types = [plan.slots[slot].type for slot in plan.feeds]
        fixed = {key for key, type_ in {id(t): t for t in types}.items() if type_.is_static}
        for n, type_ in enumerate(types):
            if id(type_) in fixed:
                continue
            for axis, dim in enumerate(type_.shape):
                if isinstance(dim, int):
                    continue
                if is_symbol(dim) and symbol_name(dim) not in self._first:
                    self._first[symbol_name(dim)] = (n, axis)
                    self.symbols.append(dim)
                else:
                    self._checks.append((dim, n, axis))

    def bind(
        self, arrays: Sequence[Array], known: Container[tuple[int, ...]] = ()
    ) -> dict[str, int]:
        """The size of each symbol, always in one order, from the arrays given for ``plan.feeds``.

        Guards speak of sizes alone. So those of ``known``, in that order, need no check of guards;
        who gives them has bound them before.

        Raises:
            ShapeError: where equal dims got different sizes, naming both.
            GraphcError: what a guard that does not hold says.
        """
        sizes = {name: arrays[n].shape[axis] for name, (n, axis) in self._first.items()}
        binding = Sizes(sizes)
        for dim, n, axis in self._checks:
            if arrays[n].shape[axis] != evaluate(dim, binding):
                raise ShapeError(
                    self._mismatch(dim, n, axis, arrays),
                    where=caller(),
                    hint="a dim has one size in a run; sizes that may differ need different names",
                )
        if tuple(sizes.values()) in known:
            return binding
        for guard in self._plan.guards:
            failure = guard.failure(binding)
            if failure is not None:
                raise failure
        return binding

    def _mismatch(self, dim: Dim, n: int, axis: int, arrays: Sequence[Array]) -> str:
        def name_of(number: int) -> str:
            slot = self._plan.slots[self._plan.feeds[number]]
            return repr(slot.name) if slot.name else f"feed {number + 1}, {slot.type},"

        if str(dim) not in self._first:
            sizes = {name: arrays[m].shape[place] for name, (m, place) in self._first.items()}
            return (
                f"axis {axis} of {name_of(n)} must be {dim}, which is {evaluate(dim, sizes)}, "
                f"but is {arrays[n].shape[axis]}"
            )
        other, place = self._first[str(dim)]
        return (
            f"dim {dim} is {arrays[other].shape[place]} in axis {place} of {name_of(other)} "
            f"but {arrays[n].shape[axis]} in axis {axis} of {name_of(n)}"
        )
