"""The values that a session's variables have, and how runs replace them.

Invariant: a thread finds of all that a run writes either what was before or what is after, whatever
way the run ends. Values are plain arrays. A program whose plan has a commit step writes new values
where the old ones lie: then the arrays are lent to the run, and nobody else finds them until they
are given back. For other programs two blocks take turns.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

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
        values: the present ones, but for those that are lent; native code looks them up here.
        spare: blocks to write new values to.
    """

    def __init__(self, initial: Callable[[Value], Array]) -> None:
        """``initial`` gives the value of a variable that has none yet, or raises."""
        self.values: dict[Value, Array] = {}
        self.spare: dict[Value, Array] = {}
        self._initial = initial
        self._working: dict[Value, Array] = {}
        self._writing = threading.RLock()
        self._writer: int | None = None
        self._changed = threading.Condition(threading.Lock())
        self._waiting = 0
        _FORKS.known.add(self)

    def hold(self) -> None:
        """Waits until no run writes variables, and keeps others from it."""
        self._writing.acquire()
        self._changed.acquire()

    def let_go(self) -> None:
        """Ends that, in the thread that asked for it."""
        self._changed.release()
        self._writing.release()

    # --- reading ---------------------------------------------------------------------------------

    def read(self, variables: Sequence[Value]) -> list[Array]:
        """The present values, as of one moment; whoever keeps them keeps them from being lent."""
        with self._changed:
            self._wait_for(variables)
            return [*map(self._current, variables)]

    def copies(self, variables: Sequence[Value]) -> list[Array]:
        """Copies of the present values, as of one moment."""
        with self._changed:
            self._wait_for(variables)
            return [self._current(variable).copy() for variable in variables]

    def everything(self) -> list[tuple[Value, Array]]:
        """All values that were read or written before."""
        with self._changed:
            self._wait_for([*self._working])
            return [*self.values.items()]

    def variables_of(self, uses: Uses, plan: Plan) -> Variables:
        """What native code reads and writes of a program's variables."""
        values = self.values if plan.commit is None else self._working
        return Variables(values, uses.states, self.spare, uses.written)

    def _current(self, variable: Value) -> Array:
        array = self.values.get(variable)
        if array is None:
            array = self._working.get(variable)
        if array is None:
            array = self.values.setdefault(variable, self._initial(variable))
        return array

    def _wait_for(self, variables: Sequence[Value]) -> None:
        """Waits until no other thread's run has any of these variables; the lock is held."""
        values, working = self.values, self._working
        if not working or self._writer == threading.get_ident():
            return
        self._waiting += 1
        try:
            self._changed.wait_for(lambda: all(v in values or v not in working for v in variables))
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
        for position, variable in enumerate(uses.written, start=first):
            spare = self.spare.pop(variable, None)
            if spare is not None:
                targets[position] = spare
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
        with self.renewing(uses, plan, in_place):
            results = [*call(*arguments)]
            first = len(results) - len(written)
            new = results[first:]
            del results[first:]
            self.replace(written, new)
        return results

    # --- writing ---------------------------------------------------------------------------------

    def set(self, new: Mapping[Value, Array]) -> None:
        """Gives variables new values, all at once."""
        with self._writing, self._changed:
            old = dict(self.values)  # see replace
            self.values.update(new)
        del old

    @contextmanager
    def renewing(self, uses: Uses, plan: Plan, in_place: bool) -> Iterator[None]:
        """Keeps other writers out while a program runs that writes variables; then ``replace``."""
        with self._writing:
            if plan.commit is None or not in_place:
                yield
                return
            try:
                self._lend(uses.states, uses.written)
                yield
            finally:
                self._give_back(uses.written)

    def _lend(self, read: Iterable[Value], written: Sequence[Value]) -> None:
        """Hands a run what it reads, and what it writes to be written where it lies.

        Variables are lent together: a run that ended has written all of them or none. None is lent
        while somebody holds one or waits for one, or one is still as the graph gave it.
        """
        values, working, spare = self.values, self._working, self.spare
        count, alone = sys.getrefcount, object()
        references = count(alone) + 1  # that of the dict of values
        with self._changed:
            self._writer = threading.get_ident()
            for variable in read:
                working[variable] = self._current(variable)
            if self._waiting or not all(map(values.__contains__, written)):
                return
            for variable in written:
                array = values[variable]
                held = references + (variable in working)
                if count(array) > held or not array.flags.writeable:
                    return
            for variable in written:
                spare[variable] = working[variable] = values.pop(variable)

    def _give_back(self, written: Iterable[Value]) -> None:
        values, working, spare = self.values, self._working, self.spare
        with self._changed:
            for variable in written:
                if variable not in values and variable in working:
                    values[variable] = working[variable]
                    spare.pop(variable, None)
            working.clear()
            self._writer = None
            self._changed.notify_all()

    def replace(self, variables: Sequence[Value], new: Sequence[Array]) -> None:
        """Gives variables the values a run has made, all at once; for who excludes other writers.

        An old block is kept to write the next value to, if it is ours alone: fresh memory costs as
        much as the kernel that fills it.
        """
        values, spare = self.values, self.spare
        # held, so that nothing dies before all are replaced: other code could run then, and native
        # code, which takes no lock, see half of it
        old = [values.get(variable) for variable in reversed(variables)]
        made = dict(zip(variables, new, strict=True))
        with self._changed:
            values.update(made)
        count, alone = sys.getrefcount, object()
        references = count(alone)
        for variable in variables:
            array = old.pop()
            # only blocks that a run made can be written to
            if array is not None and count(array) == references and array.flags.writeable:
                spare[variable] = array


_FORKS = _Forks()
