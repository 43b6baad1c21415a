"""Which scalars that a loop carries agree in all lanes of the vector loop around it.

Counters of trips and what is computed of them do. So they stay in scalar registers, and the places
that they lead to are neighbours for neighbouring lanes.
"""

from __future__ import annotations

from collections.abc import Callable

from graphc.kernel.ir import Block, Var, walk


def uniform_carries(loop: Block, agrees: Callable[[Var], bool]) -> frozenset[Var]:
    """The arguments of carried scalars that agree in all lanes, in every iteration.

    Args:
        loop: a serial loop.
        agrees: whether a scalar from outside of the loop does.
    """
    uniform = {carry.argument for carry in loop.carries if agrees(carry.initial)}
    following = {carry.argument: carry.following for carry in loop.carries}
    while True:
        agree = _inside(loop, uniform, agrees)
        lost = [argument for argument in uniform if not agree(following[argument])]
        if not lost:
            return frozenset(uniform)
        uniform.difference_update(lost)


def _inside(
    loop: Block, uniform: set[Var], agrees: Callable[[Var], bool]
) -> Callable[[Var], bool]:
    """Whether a scalar agrees that is read in the loop, if these arguments do."""

    def agree(var: Var) -> bool:
        return known[var] if var in known else agrees(var)

    known = {carry.argument: carry.argument in uniform for carry in loop.carries}
    known[loop.index] = True
    for statement in walk(loop.body):
        block = statement.block
        if block is not None:
            # what a loop inside carries or reduces is not looked into
            known[block.index] = not block.lanes_inside
            inner = [carry.argument for carry in block.carries]
            known.update(dict.fromkeys((*inner, *block.results), False))
            continue
        known.update(dict.fromkeys(statement.results, all(map(agree, statement.operands))))
    return agree


__all__ = ["uniform_carries"]
