"""Small sizes for symbolic dims, among them only such as the guards of a graph allow.

Invariant: what is found depends on the symbols and the guards alone, and takes a bounded search.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import DimExpr
from graphc.ir.guard import Guard

ATTEMPTS = 2
"""How many ways to choose the sizes are wanted."""

SMALL = (3, 4, 5, 6, 2, 8, 7, 9, 10, 12, 1, 16, 0)
"""What a dim is tried with, in this order."""

PROBES = (3, 1003)
"""Where a guard of one unknown dim is looked at, to find the size that it asks for."""

STEPS = 5000
"""So many guards are evaluated for one way to choose the sizes."""


class _Exhausted(Exception):
    """The search takes too long."""


def fitting_sizes(symbols: Sequence[DimExpr], guards: Sequence[Guard]) -> list[dict[str, int]]:
    """Sizes that meet all guards: first distinct ones, then the same for all where that goes.

    Args:
        symbols: the symbolic dims.
        guards: what must hold of them; a guard of other symbols is left alone.

    Returns:
        up to ``ATTEMPTS`` of them, all different; none where none were found.
    """
    names = {expressions.symbol_name(symbol): symbol for symbol in symbols}
    needs = [(guard, _symbols_of(guard)) for guard in guards]
    pending = [(guard, needed) for guard, needed in needs if needed <= names.keys()]
    if any(not needed and not _holds(guard, {}) for guard, needed in pending):
        return []
    found: list[dict[str, int]] = []
    for attempt in range(ATTEMPTS):
        wanted = {name: 3 + n if attempt == 0 else 4 for n, name in enumerate(names)}
        sizes = _Search(names, wanted, pending).run()
        if sizes is not None and sizes not in found:
            found.append(sizes)
    return found


class _Search:
    """Backtracking over the symbols in order; a guard is checked when its last symbol has a size.

    A symbol is tried with the size wanted, then with what a guard asks for that speaks of no other
    unknown, then with small ones.
    """

    def __init__(
        self,
        names: Mapping[str, DimExpr],
        wanted: Mapping[str, int],
        guards: Sequence[tuple[Guard, frozenset[str]]],
    ) -> None:
        self._names, self._wanted = list(names), wanted
        self._bounds = {name: expressions.bounds(symbol) for name, symbol in names.items()}
        places = {name: place for place, name in enumerate(names)}
        self._due: list[list[Guard]] = [[] for _ in names]
        for guard, needed in guards:
            if needed:
                self._due[max(places[name] for name in needed)].append(guard)
        self._left = STEPS

    def run(self) -> dict[str, int] | None:
        """The first sizes that fit, None if there are none or it takes too long to find them."""
        sizes: dict[str, int] = {}
        trail: list[Iterator[int]] = []
        try:
            while len(sizes) < len(self._names):
                place = len(sizes)
                if len(trail) == place:
                    trail.append(self._candidates(place, sizes))
                name = self._names[place]
                fitting = (n for n in trail[-1] if self._fits(place, {**sizes, name: n}))
                size = next(fitting, None)
                if size is not None:
                    sizes[name] = size
                    continue
                trail.pop()
                if not trail:
                    return None
                sizes.popitem()
        except _Exhausted:
            return None
        return sizes

    def _fits(self, place: int, sizes: Mapping[str, int]) -> bool:
        for guard in self._due[place]:
            self._left -= 1
            if self._left < 0:
                raise _Exhausted
            if not _holds(guard, sizes):
                return False
        return True

    def _candidates(self, place: int, sizes: Mapping[str, int]) -> Iterator[int]:
        name = self._names[place]
        low, high = self._bounds[name]
        asked = [_asked_for(guard, name, sizes) for guard in self._due[place]]
        small = [size + (low or 0) for size in SMALL]
        seen: set[int] = set()
        for size in (self._wanted[name], *asked, *small):
            if size is None:
                continue
            size = max(size, low or 0)
            size = size if high is None else min(size, high)
            if size not in seen:
                seen.add(size)
                yield size


def _symbols_of(guard: Guard) -> frozenset[str]:
    shown = guard.shown or ()
    parts = (guard.left, guard.right, *shown)
    return frozenset(
        expressions.symbol_name(symbol)
        for part in parts
        if isinstance(part, DimExpr)
        for symbol in expressions.symbols_of(part)
    )


def _holds(guard: Guard, sizes: Mapping[str, int]) -> bool:
    try:
        return guard.failure(sizes) is None
    except ZeroDivisionError:
        return False


def _asked_for(guard: Guard, name: str, sizes: Mapping[str, int]) -> int | None:
    """The size of the last unknown dim that makes both sides equal, where they are linear in it."""
    try:
        first, second = (
            expressions.evaluate(guard.left, known) - expressions.evaluate(guard.right, known)
            for known in ({**sizes, name: probe} for probe in PROBES)
        )
    except ZeroDivisionError:
        return None
    steps, low = first * (PROBES[1] - PROBES[0]), PROBES[0]
    if first == second or steps % (first - second):
        return None
    size = low + steps // (first - second)
    return size if size >= 0 else None


__all__ = ["ATTEMPTS", "fitting_sizes"]
