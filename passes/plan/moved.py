"""Plans whose steps have moved: what passes over plans give, and steps under other numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan, Step


@dataclass(frozen=True, slots=True)
class Moved:
    """A plan whose steps have moved.

    Attributes:
        plan: the plan.
        origins: for each step its number in the plan before; -1 for a new one.
        slots: for each slot of the plan before the slot that it has become.
        told: for copies of the plan before, how each result is handed on now.
        within: for steps of the plan before that are part of another one now, that one.
    """

    plan: Plan
    origins: tuple[int, ...]
    slots: tuple[int, ...]
    told: Mapping[int, str] = field(default_factory=dict)
    within: Mapping[int, int] = field(default_factory=dict)


def renamed(
    step: Step, slot_of: Callable[[int], int], place: Sequence[int] | Mapping[int, int]
) -> Step:
    """A step over other slots, with targets at other places."""
    if isinstance(step, Launch):
        return Launch(step.kernel, tuple(map(slot_of, step.arguments)), step.where)
    if isinstance(step, Copy):
        return Copy(slot_of(step.source), slot_of(step.target))
    if isinstance(step, HostCall):
        return step.renamed(slot_of)
    if isinstance(step, Branch):
        return Branch(slot_of(step.predicate), place[step.target])
    return Jump(place[step.target]) if isinstance(step, Jump) else step


__all__ = ["Moved", "renamed"]
