"""The fast path of a call, with little Python, for executables and loaded libraries alike.

Invariant: a fast call gives the results of the careful one, or leaves the call to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from graphc.ir.value import Value
from graphc.runtime.entry import Container, available, native_call
from graphc.runtime.program import Program
from graphc.session.output_arrays import arranging
from graphc.session.variable_store import Holdings, Uses

CALL_SIGNATURE = inspect.Signature(
    [
        inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL),
        inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None),
        inspect.Parameter("named", inspect.Parameter.VAR_KEYWORD),
    ]
)
"""Of a call; ``inspect`` does not find it in a slot."""


class Called:
    """Holds what its call comes to as a slot, so that none of Python's code runs before that does.

    A method would take as long as everything else in a call of native code.
    """

    __slots__ = ("__call__",)

    __call__: Callable[..., Any]


class _LeftToCareful(Exception):
    """Native code does not take the arguments of a call."""


def _leave(*_: Any) -> NoReturn:
    raise _LeftToCareful


class Calling(NamedTuple):
    """What a direct call does.

    Attributes:
        program: what runs.
        fetches: the structure of what it gives, with a value for each result.
        arguments: how many a call has.
        positions: for each feed of the program, which argument it is.
        uses: the variables that it reads and writes.
        holdings: where their values are.
        careful: is called with what native code doesn't take, and gives the fetches or raises.
    """

    program: Program
    fetches: Any
    arguments: int
    positions: Sequence[int]
    uses: Uses
    holdings: Holdings
    careful: Callable[..., Any]

    def direct(self) -> Callable[..., Any]:
        """The callable; the careful one where there is no other."""
        if self.program.is_long or self.program.runs_once or not available():
            return self.careful
        fetches, uses, plan = self.fetches, self.uses, self.program.plan
        written, holdings = uses.written, self.holdings
        container: Container = "tuple"
        plain = not written
        if type(fetches) in (list, tuple):
            plain = plain and all(isinstance(item, Value) for item in fetches)
            container = "list" if type(fetches) is list else "tuple"
        else:
            plain = plain and isinstance(fetches, Value)
            container = "single" if plain else "tuple"
        careful = self.careful
        call = native_call(
            self.program,
            self.positions,
            self.arguments,
            container,
            careful if plain else _leave,
            holdings.variables_of(uses, plan),
        )
        if plain:
            return call

        arrange, run = arranging(fetches), holdings.run_and_commit

        def call_and_arrange(*arguments: Any, out: Any = None, **named: Any) -> Any:
            if out is not None or named:
                return careful(*arguments, out=out, **named)
            try:
                results = run(call, arguments, uses, plan) if written else call(*arguments)
            except _LeftToCareful:
                results = None
            # only now, since converting arguments may run anything: nothing is lent any more
            return careful(*arguments) if results is None else arrange(results)

        return call_and_arrange


__all__ = ["CALL_SIGNATURE", "Called", "Calling"]
