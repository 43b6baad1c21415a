"""The values that a session's variables have, and how runs replace them.

Invariant: a thread sees all old or all new values of a run's variables, however the run ends.
Values are plain arrays. A program whose plan has a commit step writes new values in place: its run
borrows the arrays, and nobody else reads them until they are returned. For other programs two
blocks take turns.

Readers take no lock, so that handlers of signals and destructors, which run between any two
operations of a thread, can always read. Atomic steps are single operations of the interpreter, or
rest on an order: a writer lends first and then looks who holds an array; a reader holds an array
first and then looks whether it is lent. Writers keep other threads out. They refuse to begin within
a run of their own thread, whose values would replace the new ones when it ends.

In small networks this takes a good part of the time between two steps, with cold caches. So it has
iterators in place of loops, and moves nothing from one dict to another.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Protocol

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.forks import VARIABLES, held_lock, tell
from graphc.base.source import caller
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.plan.ir import Plan
from graphc.runtime.address import address_of
from graphc.runtime.entry import Variables
from graphc.runtime.program import Program
from graphc.runtime.trips import Stacked


class Uses(Protocol):
    """What a program does with variables: those behind its feeds, and those it gives new values.

    Its last results are these, in their order.
    """

    @property
    def states(self) -> tuple[Value, ...]: ...

    @property
    def written(self) -> tuple[Value, ...]: ...


_PATIENCE = 0.01
"""Seconds after which who waits looks again: a run that is interrupted at its end wakes nobody."""


class Holdings:
    """Values of variables.

    Attributes:
        values: the present ones; native code looks them up here.
        spare: blocks to write new values to.
    """

    def __init__(self, initial: Callable[[Value], Array]) -> None:
        """``initial`` gives the value of a variable that has none yet, or raises."""
        self.values: dict[Value, Array] = {}
        self.spare: dict[Value, Array] = {}
        self._initial = initial
        self._given: set[Value] = set()
        # the child has memory as it is then, and none of the threads that could finish a run
        self._writing = held_lock(VARIABLES)
        self._lent: Sequence[Value] = ()
        self._lends = np.zeros(1, np.int64)
        self._writer: int | None = None
        self._waiting: set[SimpleQueue[None]] = set()
        self._alone = _references({0: object()}, (0,))
        tell(self)

    def forked(self) -> None:
        """This process has lost all threads but one, so no other waits for values."""
        self._waiting.clear()

    # --- reading ---------------------------------------------------------------------------------

    def read(self, variables: Sequence[Value]) -> list[Array]:
        """The present values, as of one moment; whoever keeps them keeps them from being lent."""
        found = self._found(variables)
        if found is not None:
            return found
        woken: SimpleQueue[None] = SimpleQueue()
        # from here on nothing is lent any more
        self._waiting.add(woken)
        try:
            while (found := self._found(variables)) is None:
                with suppress(Empty):
                    woken.get(timeout=_PATIENCE)
        finally:
            self._waiting.discard(woken)
        return found

    def copies(self, variables: Sequence[Value]) -> list[Array]:
        """Copies of the present values, as of one moment."""
        return [array.copy() for array in self.read(variables)]

    def everything(self) -> list[tuple[Value, Array]]:
        """All values that were read or written before."""
        variables = [*self.values]
        return [*zip(variables, self.read(variables), strict=True)]

    def variables_of(self, uses: Uses, plan: Plan) -> Variables:
        """What native code reads and writes of a program's variables."""
        lends = self._lends if uses.states or uses.written else np.zeros(1, np.int64)
        in_place = plan.commit is not None
        return Variables(self.values, uses.states, self.spare, uses.written, lends, in_place)

    def _found(self, variables: Sequence[Value]) -> list[Array] | None:
        """The present values, or None while another thread's run has one of them."""
        values = self.values
        for variable in variables:
            if variable not in values:
                initial = self._initial(variable)
                self._given.add(variable)
                values.setdefault(variable, initial)
        found = [*map(values.__getitem__, variables)]
        # they are held: what is not lent by now will not be
        lent = self._lent
        if lent and self._writer != threading.get_ident() and not set(lent).isdisjoint(variables):
            return None
        return found

    # --- running ---------------------------------------------------------------------------------

    def inputs(self, uses: Uses, arrays: Sequence[Array]) -> Sequence[Array]:
        """What a program runs with: these arrays, and the variables that it reads."""
        return [*arrays, *self.read(uses.states)] if uses.states else arrays

    def results(
        self,
        program: Program,
        uses: Uses,
        inputs: Sequence[Array],
        into: Mapping[int, Array] | None = None,
    ) -> list[Array]:
        """The fetches and the new values of what is written, which is not committed."""
        targets = {} if into is None else dict(into)
        first = len(program.plan.outputs) - len(uses.written)
        in_place = self._lent and program.plan.commit is not None
        for position, variable in enumerate(uses.written, start=first):
            block = self.values[variable] if in_place else self.spare.pop(variable, None)
            if block is not None:
                targets[position] = block
        return program.run(inputs, targets)

    def run_and_commit(
        self,
        call: Callable[..., Sequence[Array]],
        arguments: Sequence[Any],
        uses: Uses,
        plan: Plan,
        in_place: bool = True,
    ) -> list[Array]:
        """The fetches, from what gives all results; the last ones are the variables' new values."""
        written = uses.written
        with self._writing:
            self._check_alone()
            try:
                self._writer = threading.get_ident()
                if plan.commit is not None and in_place:
                    self._lend(written)
                results = [*call(*arguments)]
                first = len(results) - len(written)
                new = results[first:]
                del results[first:]
                self._replace(written, new)
            finally:
                # nothing is called before that, so no interrupt comes between
                self._lends[0], self._lent, self._writer = 0, (), None
                if self._waiting:
                    self._wake()
        return results

    def run_trips(
        self,
        program: Program,
        uses: Uses,
        operands: tuple[Sequence[Stacked], Sequence[Stacked]],
        first: int,
        count: int,
    ) -> tuple[int, BaseException | None]:
        """Runs in a row, whose new values are committed together, as far as the runs were whole.

        Args:
            program: what runs.
            uses: the variables that it reads and writes.
            operands: what is fed, and where the fetches are written to.
            first: the first of these runs, as it is counted there.
            count: how many there are.

        Returns:
            How many were whole, and what the next one raised; ``None`` if there is no next one.
        """
        ended: list[tuple[int, BaseException | None]] = []

        def run() -> Sequence[Array]:
            feeds, results = operands
            states = self.read(uses.states)
            arrays = [*(feed.at(first) for feed in feeds), *states]
            read = [*(feed.addresses(first, count) for feed in feeds), *map(address_of, states)]
            written = [result.addresses(first, count) for result in results]
            turns = [self._turns(variable, count) for variable in uses.written]
            places = {variable: place for place, variable in enumerate(uses.states, len(feeds))}
            for variable, blocks in zip(uses.written, turns, strict=True):
                # the first value is read where the variable has it
                at = np.empty(count + 1, np.int64)
                for turn, block in enumerate(blocks, start=1):
                    at[turn :: len(blocks)] = address_of(block)
                written.append(at[1:])
                place = places.get(variable)
                if place is not None:
                    at[0] = read[place]
                    read[place] = at[:-1]
            done, error = program.run_trips(arrays, read, written, count)
            ended.append((done, error))
            if not done and error is not None:
                raise error
            return [blocks[(done - 1) % len(blocks)] for blocks in turns]

        if uses.written:
            self.run_and_commit(run, (), uses, program.plan)
        else:
            run()
        return ended[0]

    def _turns(self, variable: Value, count: int) -> list[Array]:
        """The blocks that take turns as the new value of a variable, in runs in a row.

        Where a variable is lent that is the one that has its value.
        """
        if self._lent:
            return [self.values[variable]]
        spare = self.spare.pop(variable, None)
        shape, dtype = variable.shape, variable.dtype.numpy
        kept = [] if spare is None else [spare]
        return [*kept, *(np.empty(shape, dtype) for _ in range(len(kept), min(count, 2)))]

    # --- writing ---------------------------------------------------------------------------------

    def set(self, new: Mapping[Value, Array]) -> None:
        """Gives variables new values, all at once."""
        with self._writing:
            self._check_alone()
            old = dict(self.values)  # see _replace
            self.values.update(new)
            self._given.difference_update(new)
        del old

    def adopt(self, given: Iterable[tuple[Value, Array]]) -> None:
        """Takes over arrays that may not be ours to write to, as values of variables."""
        new = dict(given)
        with self._writing:
            self._check_alone()
            self._given.update(new)
            self.values.update(new)

    def _check_alone(self) -> None:
        """Refuses to write within a run of this thread; others are kept out."""
        if self._writer is not None:
            raise GraphError(
                "variables are written while a run of the same thread writes them",
                where=caller(),
                hint="handlers of signals and destructors may read variables at any time; let them "
                "note what is to be written, and write it between two runs",
            )

    def _lend(self, written: Sequence[Value]) -> None:
        """Lets a run write these variables where they lie, if nothing speaks against it.

        Variables are lent together: a run that ended has written all of them or none. None is lent
        while somebody holds one or waits for one, or one is still as it was given.
        """
        # after this store no native call takes a new reference to these arrays
        self._lent, self._lends[0] = written, 1
        # None, for a variable without a value, is held by many
        held = _references(self.values, written) > len(written) * self._alone
        given = self._given and not self._given.isdisjoint(written)
        if held or given or self._waiting:
            self._lends[0], self._lent = 0, ()
            self._wake()

    def _wake(self) -> None:
        for woken in self._waiting.copy():
            woken.put(None)

    def _replace(self, variables: Sequence[Value], new: Sequence[Array]) -> None:
        """Gives variables the values a run has made, all at once; for who excludes other writers.

        An old block is kept to write the next value to, if it is ours alone: fresh memory costs as
        much as the kernel that fills it.
        """
        if self._lent is variables:
            # written where they lie
            return
        values, spare = self.values, self.spare
        # held, so that nothing dies before all are replaced: other code could run then, and native
        # code, which takes no lock, see half of it
        old = [values.get(variable) for variable in reversed(variables)]
        made = dict(zip(variables, new, strict=True))
        given = self._given.intersection(made)
        values.update(made)
        self._given.difference_update(made)
        count, alone = sys.getrefcount, object()
        references = count(alone)
        for variable in variables:
            array = old.pop()
            if array is not None and count(array) == references and variable not in given:
                spare[variable] = array


def _references(values: Mapping[Any, Any], keys: Iterable[Any]) -> int:
    """How often what stands in a dict under these keys is referred to, all together."""
    return sum(map(sys.getrefcount, map(values.get, keys)))
