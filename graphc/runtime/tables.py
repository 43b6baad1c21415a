"""The tables of a plan at one binding of the symbolic dims, as the native loop walks them.

The run time of libraries does the same natively (``graphc.aot.native.binding``), over the same
tables; ``tests/aot/test_tables.py`` compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import mul
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphc.ir.dims.expressions import Dim, DimExpr, evaluate, symbol_name
from graphc.plan.abi import (
    CUT_FIELDS,
    FAIL,
    GUARD_FIELDS,
    HOST,
    IDLE_FIELDS,
    LAUNCH,
    SKIP,
    STEP_FIELDS,
    STEP_WORDS,
)
from graphc.plan.ir import Plan
from graphc.plan.tables import tables_of
from graphc.runtime.address import address_of
from graphc.runtime.code import Code
from graphc.runtime.pool import pool_address
from graphc.runtime.tasks import write_tasks


class BoundTables(NamedTuple):
    """What a binding makes of a plan's tables; runs only read it.

    Attributes:
        steps: rows of ``graphc.plan.abi``.
        cells: the sizes that kernels and copies get.
        offsets: where each slot of the layout lies in the arena.
        peak: the bytes of the arena.
    """

    steps: NDArray[np.int64]
    cells: NDArray[np.int64]
    offsets: Sequence[int]
    peak: int


class Template:
    """What all bindings of a plan with its code share.

    Attributes:
        tables: of the plan.
    """

    def __init__(
        self,
        plan: Plan,
        symbols: Sequence[DimExpr],
        code: Code,
        threads: int,
        hosts: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        """``symbols`` are all that the plan mentions; ``threads`` may run a launch; ``hosts`` are
        the rows of ``HostCalls``."""
        assert plan.layout is not None, "a plan is placed before it runs"
        self.tables = tables = tables_of(plan, symbols)
        self._layout, self._threads = plan.layout, threads
        most = {copies: min(copies, threads) for copies in {*tables.copies}}
        self._copies = [*map(most.__getitem__, tables.copies)]
        self._steps = np.zeros((max(1, len(plan.steps)), STEP_WORDS), np.int64)
        if tables.steps:
            rows = np.array(tables.steps, np.int64).reshape(-1, STEP_FIELDS)
            self._steps[:, : rows.shape[1]] = rows
            launches = rows[:, 0] == LAUNCH
            self._steps[:, 1] = 0
            if code.entries:
                entries = np.array(code.entries, np.uint64).view(np.int64)
                self._steps[launches, 1] = entries[rows[launches, 1]]
            if hosts:
                called = rows[:, 0] == HOST
                words = np.array(hosts, np.uint64).view(np.int64)
                self._steps[called, 1], self._steps[called, 4], self._steps[called, 5] = words.T
        guards = [*tables.rows(tables.guards, GUARD_FIELDS)]
        # of each guard that is a step: where it stands, its sides, whether the left one may be 1
        self._required = [
            (position, *guards[tables.steps[STEP_FIELDS * position + 1]][:3])
            for position, kind in enumerate(tables.steps[::STEP_FIELDS])
            if kind == FAIL
        ]
        self._needed = self._dims_of_a_run()
        self._cells = np.array(tables.cells, np.int64)
        self._names = [symbol_name(symbol) for symbol in tables.symbols]
        self._bounds = np.array(tables.bounds, np.int64)
        shared = threads > 1 and (tables.cuts or tables.groups)
        self._pool = pool_address(code.worker, code.loop) if shared else 0

    def at(self, binding: Mapping[str, int]) -> BoundTables:
        """The tables for these sizes, with which the guards of the plan hold."""
        tables = self.tables
        values, broken = self._values(binding)
        known = [size if size > 0 else 0 for size in values]
        sizes = [*map(mul, map(known.__getitem__, tables.buffers), self._copies)]
        offsets, peak = self._layout.at(sizes)
        # from behind, since the entries of dims are ``~number``
        numbers = [*(binding[name] for name in self._names), *reversed(values)]
        cells = np.array(numbers or [0], np.int64)[self._cells]
        steps = self._steps.copy()
        for position, *_ in self._required:
            steps[position, 0] = FAIL if position in broken else SKIP
        write_tasks(steps, tables, values, self._threads, self._pool, address_of(self._bounds))
        amounts = [values[size] for size in tables.idle_sizes]
        for position, first, count in () if all(amounts) else tables.rows(tables.idle, IDLE_FIELDS):
            if not any(amounts[first : first + count]):
                steps[position, 0] = SKIP
        return BoundTables(steps, cells, offsets, peak)

    def _dims_of_a_run(self) -> list[tuple[int, Dim]]:
        """The dims that tables point to, but for those that only guards of the whole plan mention.

        Whoever bound the symbols has checked these, and not all of their parts need have a value.
        """
        tables = self.tables
        numbers = {*tables.buffers, *tables.idle_sizes, *tables.works, *tables.reckoned}
        numbers.update(~cell for cell in {*tables.cells} if cell < 0)
        for _, extent, work, *_ in tables.rows(tables.cuts, CUT_FIELDS):
            numbers |= {extent, work}
        for _, left, right, _ in self._required:
            numbers |= {left, right}
        return [(number, dim) for number, dim in enumerate(tables.dims) if number in numbers]

    def _values(self, binding: Mapping[str, int]) -> tuple[list[int], set[int]]:
        """The values of dims by number, 0 for one that no run needs, and the steps that are guards
        which do not hold.

        What would divide by zero, in a branch or body whose guards do not hold, is 0.
        """
        values = [0] * len(self.tables.dims)
        undefined: dict[int, ZeroDivisionError] = {}
        for number, dim in self._needed:
            try:
                values[number] = dim if isinstance(dim, int) else evaluate(dim, binding)
            except ZeroDivisionError as error:
                undefined[number] = error
        broken: set[int] = set()
        for position, left, right, may_be_one in self._required:
            holds = values[left] == values[right] or (may_be_one and values[left] == 1)
            if not holds or left in undefined or right in undefined:
                broken.add(position)
        if undefined and not broken:
            raise next(iter(undefined.values()))
        return values, broken


__all__ = ["BoundTables", "Template"]
