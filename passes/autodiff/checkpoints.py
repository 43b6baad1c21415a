"""The way back through a loop in a fixed amount of memory, whatever the number of its trips.

Some states are kept on a stack, a fixed number at most. On the way back the loop runs again from
the last kept state to the trip that is next, and keeps states on its way at binomial distances:
with s places and no trip run more than r times again, C(s + r, r) trips are covered, and no other
choice covers more (Griewank and Walther, "Algorithm 799: revolve", ACM Transactions on Mathematical
Software 26, 2000).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import comb

import numpy as np

from graphc.base.tuning.fusion import MEMORY
from graphc.ir.dtypes import int64
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.loops import Counter
from graphc.ops.source import constant_beside
from passes.autodiff.body_gradient import BodyGradient
from passes.autodiff.loop import Loop
from passes.autodiff.region_builder import Groups, Region, repeat

_MOST = 2**62
"""More trips than any loop has."""


def kept_in_slots(
    gradient: BodyGradient, first: Sequence[Value], counter: Counter | None
) -> list[Value]:
    """Cotangents before the loop and of what is shared, from a stack of kept states."""
    loop, node = gradient.loop, gradient.loop.node
    places = loop.closed(loop.needed(gradient.read()))
    trips = loop.number(counter) if counter is not None else _counted(loop)
    take, zeros = surface_function("take"), surface_function("zeros")
    slots = MEMORY.trips_kept

    def more(made: Region, own: Groups, outside: Sequence[Value]) -> Value:
        return own["left"][0] > 0

    def back(made: Region, own: Groups, outside: Sequence[Value]) -> Mapping[str, list[Value]]:
        """One trip: the state before it, its derivative, the state that is kept last."""
        (left,) = own["left"]
        held = {name: own[name] for name in ("at", "top", "numbers", "state", "kept")}
        here = _forward(loop, places, held, left - 1, outside)
        state = dict(zip(places, here["state"], strict=True))
        given = loop.body_inputs(outside, left - 1, state)
        before, sums, _ = gradient.trip(made, given, own["cotangents"], own["sums"])
        (top,) = here["top"]
        last = surface_function("maximum")(top, 0)
        return {
            "left": [left - 1],
            "at": [take(here["numbers"][0], last, 0)],
            "top": [top - 1],
            "numbers": here["numbers"],
            "state": [take(rows, last, 0) for rows in here["kept"]],
            "kept": here["kept"],
            "cotangents": before,
            "sums": sums,
        }

    def number(value: int) -> Value:
        return constant_beside(value, int64, trips)

    start = [loop.start[place] for place in places]
    carried = {
        "left": [trips],
        "at": [number(0)],
        "top": [number(-1)],
        "numbers": [zeros((slots,), int64)],
        "state": start,
        "kept": [zeros((slots, *value.shape), value.dtype) for value in start],
        "cotangents": list(first),
        "sums": gradient.first_sums(),
    }
    ends = repeat(node, carried, node.inputs, more, back)
    return [*ends["cotangents"], *ends["sums"]]


def _forward(
    loop: Loop, places: Sequence[int], held: Groups, target: Value, operands: Sequence[Value]
) -> Groups:
    """Runs trips again up to the one of a number, and keeps states on the way."""
    slots = MEMORY.trips_kept
    minimum = surface_function("minimum")

    def is_before(made: Region, own: Groups, outside: Sequence[Value]) -> Value:
        return own["at"][0] < outside[0]

    def stretch(made: Region, own: Groups, outside: Sequence[Value]) -> Mapping[str, list[Value]]:
        """Keeps the state, then runs the trips up to the next that is kept."""
        goal, inner = outside[0], outside[1:]
        (at,) = own["at"]
        top = own["top"][0] + 1
        numbers = own["numbers"][0].at[top].set(at)
        kept = [rows.at[top].set(x) for rows, x in zip(own["kept"], own["state"], strict=True)]
        end = minimum(at + _distance(slots - 1 - top, goal - at), goal)
        there = repeat(
            loop.node,
            {"at": [at], "state": own["state"]},
            [end, *inner],
            is_before,
            lambda made, own, outside: _trip(made, loop, places, own, outside[1:]),
        )
        return {**there, "top": [top], "numbers": [numbers], "kept": kept}

    return repeat(loop.node, held, [target, *operands], is_before, stretch)


def _trip(
    made: Region, loop: Loop, places: Sequence[int], own: Groups, operands: Sequence[Value]
) -> Mapping[str, list[Value]]:
    """The state behind one more trip."""
    (at,) = own["at"]
    state = dict(zip(places, own["state"], strict=True))
    given = loop.body_inputs(operands, at, state)
    wanted = [loop.body.outputs[place] for place in places]
    return {"at": [at + 1], "state": made.copied(loop.body, given, wanted)}


def _distance(free: Value, trips: Value) -> Value:
    """How many trips to run until the next state is kept.

    ``trips`` come before the one that is next on the way back, ``free`` places are left. With none,
    all of them.
    """
    table = _reach()
    take, where = surface_function("take"), surface_function("where")
    reach = surface_function("constant")(table)
    # the fewest times that some trip must run again, with the state at hand as one that is kept
    times = surface_function("sum")((take(reach, free, 1) <= trips).astype(int64))
    chosen = take(take(reach, surface_function("clip")(times - 1, 0, len(table) - 1), 0), free, 0)
    found: Value = where(free > 0, chosen, trips)
    return found


def _reach() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    """How many trips are covered: a row for each number of times that one runs again, a column for
    each number of places that are free beside that of the state at hand."""
    rows = 24
    return np.array(
        [
            [min(comb(free + 1 + times, times), _MOST) for free in range(MEMORY.trips_kept)]
            for times in range(rows)
        ],
        np.int64,
    )


def _counted(loop: Loop) -> Value:
    """The number of trips, by the loop run again beside a counter."""
    none = constant_beside(0, int64, loop.start[0])
    ends = loop.again({"trips": [none]}, lambda own, _: {"trips": [own["trips"][0] + 1]})
    return ends["trips"][0]
