"""The values that a session's variables have, and how runs replace them.

Invariant: a thread finds of all that a run writes either what was before or what is after, whatever
way the run ends. Values are plain arrays. A program whose plan has a commit step writes new values
where the old ones lie: then the arrays are lent to the run, and nobody else reads them until they
are given back. For other programs two blocks take turns.

Between two steps of a small network this is a good part of the time, and finds the caches full of
other things. Hence iterators in place of loops, and nothing that is moved from one dict to another.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.plan.ir import Plan
from graphc.runtime.entry import Variables
from graphc.runtime.program import Program


class Uses(Protocol):
    """What a program does with variables: those behind its feeds, and those it gives new values.

    Its last results are these, in their order.
    """

    @property
    def states(self) -> tuple[Value, ...]: ...

    @property
    def written(self) -> tuple[Value, ...]: ...


class _Forks:
    """Lets a process fork only between runs that write variables.

    The child has memory as it was at that moment, and none of the threads that could finish a run.
    """

    def __init__(self) -> None:
        self.known: weakref.WeakSet[Holdings] = weakref.WeakSet()
        self._held: list[Holdings] = []
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=self._wait, after_in_parent=self._go_on, after_in_child=self._go_on
            )

    def _wait(self) -> None:
        self._held = [*self.known]
        for holdings in self._held:
            holdings.hold()

    def _go_on(self) -> None:
        while self._held:
            self._held.pop().let_go()


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
        self._writing = threading.RLock()
        self._lent: Sequence[Value] = ()
        self._lends = np.zeros(1, np.int64)
        self._writer: int | None = None
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._waiting = 0
        self._alone = _references({0: object()}, (0,))
        _FORKS.known.add(self)

    def hold(self) -> None:
        """Waits until no run writes variables, and keeps others from it."""
        self._writing.acquire()
        self._lock.acquire()

    def let_go(self) -> None:
        """Ends that, in the thread that asked for it."""
        self._lock.release()
        self._writing.release()

    # --- reading ---------------------------------------------------------------------------------

    def read(self, variables: Sequence[Value]) -> list[Array]:
        """The present values, as of one moment; whoever keeps them keeps them from being lent."""
        with self._lock:
            self._wait_for(variables)
            return [*map(self._current, variables)]

    def copies(self, variables: Sequence[Value]) -> list[Array]:
        """Copies of the present values, as of one moment."""
        with self._lock:
            self._wait_for(variables)
            return [self._current(variable).copy() for variable in variables]

    def everything(self) -> list[tuple[Value, Array]]:
        """All values that were read or written before."""
        with self._lock:
            self._wait_for([*self.values])
            return [*self.values.items()]

    def variables_of(self, uses: Uses, plan: Plan) -> Variables:
        """What native code reads and writes of a program's variables."""
        lends = self._lends if uses.states or uses.written else np.zeros(1, np.int64)
        in_place = plan.commit is not None
        return Variables(self.values, uses.states, self.spare, uses.written, lends, in_place)

    def _current(self, variable: Value) -> Array:
        array = self.values.get(variable)
        if array is None:
            array = self.values.setdefault(variable, self._initial(variable))
            self._given.add(variable)
        return array

    def _wait_for(self, variables: Sequence[Value]) -> None:
        """Waits until no other thread's run has any of these variables; the lock is held."""
        if not self._lent or self._writer == threading.get_ident():
            return
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: set(self._lent).isdisjoint(variables))
        finally:
            self._waiting -= 1

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
            try:
                if plan.commit is not None and in_place:
                    self._lend(written)
                elif self._lent:
                    # by a run that this one interrupts
                    self._give_back()
                results = [*call(*arguments)]
                first = len(results) - len(written)
                new = results[first:]
                del results[first:]
                self.replace(written, new)
            finally:
                if self._lent:
                    self._give_back()
        return results

    # --- writing ---------------------------------------------------------------------------------

    def set(self, new: Mapping[Value, Array]) -> None:
        """Gives variables new values, all at once."""
        with self._writing, self._lock:
            old = dict(self.values)  # see replace
            self.values.update(new)
            self._given.difference_update(new)
        del old

    def adopt(self, given: Iterable[tuple[Value, Array]]) -> None:
        """Takes over arrays that may not be ours to write to, as values of variables."""
        with self._writing, self._lock:
            self.values.update(given)
            self._given.update(self.values)

    def _lend(self, written: Sequence[Value]) -> None:
        """Lets a run write these variables where they lie, if nothing speaks against it.

        Variables are lent together: a run that ended has written all of them or none. None is lent
        while somebody holds one or waits for one, or one is still as it was given.
        """
        with self._lock:
            self._writer = threading.get_ident()
            # from here on native code, which takes no lock, holds none that it does not hold now
            self._lent, self._lends[0] = written, 1
            # None, for a variable without a value, is held by many
            held = _references(self.values, written) > len(written) * self._alone
            given = self._given and not self._given.isdisjoint(written)
            if held or given or self._waiting:
                self._end_loan()

    def _give_back(self) -> None:
        with self._lock:
            self._end_loan()

    def _end_loan(self) -> None:
        """The lock is held."""
        self._lends[0], self._lent = 0, ()
        self._writer = None
        if self._waiting:
            self._changed.notify_all()

    def replace(self, variables: Sequence[Value], new: Sequence[Array]) -> None:
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
        with self._lock:
            values.update(made)
            self._given.difference_update(made)
        count, alone = sys.getrefcount, object()
        references = count(alone)
        for variable in variables:
            array = old.pop()
            # only blocks that a run made can be written to
            if array is not None and count(array) == references and array.flags.writeable:
                spare[variable] = array


def _references(values: Mapping[Any, Any], keys: Iterable[Any]) -> int:
    """How often what stands in a dict under these keys is referred to, all together."""
    return sum(map(sys.getrefcount, map(values.get, keys)))


_FORKS = _Forks()
