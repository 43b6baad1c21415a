"""``checkpoint``: functions whose values the backward part computes again instead of keeping them.

Nodes built while such a function runs bear the call in their provenance, which differentiation and
passes hand on; the graph itself stays what it would be. ``passes.recompute`` makes the copies,
behind fusion, where nothing merges them back.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.frontend.regions import check_callable, outer_recorder
from graphc.frontend.structure import leaves
from graphc.ir.value import Value

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(function: Callable[P, R]) -> Callable[P, R]:
    """The function with less memory for its derivative: what it computes is not kept for that.

    Values made inside are dropped after their last use outside of the function's own derivative,
    which computes them again from what goes into the function. Results have the same bits. Calls
    may be nested, read values from outside, and be differentiated any number of times, also within
    the bodies of loops. What ``optimize`` below 2 compiles keeps everything, and so does what is
    loaded from a file of ``gx.save``, which doesn't say which calls there were.

    Args:
        function: builds values from its arguments, which are of any kind.

    Returns:
        A function of the same arguments that gives the same.

    Raises:
        GraphError: for what is no function; when it is called without a value and builds in another
            graph than the one entered.
    """
    check_callable("checkpoint", function=function)

    @functools.wraps(function)
    def call(*arguments: P.args, **named: P.kwargs) -> R:
        given = [leaf for leaf in leaves((arguments, named)) if isinstance(leaf, Value)]
        recorder = outer_recorder(*given)
        with recorder.checkpointed():
            result = function(*arguments, **named)
        for leaf in leaves(result):
            if isinstance(leaf, Value) and leaf.graph is not recorder:
                raise GraphError(
                    "the function of checkpoint builds in another graph than the one entered",
                    where=caller(),
                    hint="call it inside of `with graph:`, or give it a value of that graph",
                )
        return result

    return call
