"""What ``Session.run_many`` takes: feeds that are stacked, or an iterator of feeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from graphc.base.errors import FeedError, GraphcError, ShapeError
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole
from graphc.runtime.trips import Stacked
from graphc.session.feeds import converted_feed

_SECONDS = 0.01
"""What a portion of steps takes."""

_MOST = 4096
"""Steps in a portion at most, since the operands of each have addresses of their own."""


def stacked_feeds(
    values: Sequence[Value], given: Sequence[Any], steps: Any
) -> tuple[list[Stacked], int]:
    """What is fed in each step, and how many steps there are.

    Raises:
        FeedError: for what does not fit, numbers of steps that differ, and where nothing tells it.
    """
    told = [] if steps is None else [(positive(steps), "steps=")]
    feeds = []
    for value, item in zip(values, given, strict=True):
        varies = _axes(item) == len(value.shape) + 1
        array = converted_feed(value, item, stacked=varies)
        feeds.append(Stacked(array, varies))
        if varies:
            told.append((len(array), f"the feed for {value.name or 'an unnamed value'}"))
    if not told:
        raise FeedError(
            "nothing tells how many steps there are",
            where=caller(),
            hint="give steps=, or feed arrays with an axis of steps in front",
        )
    (count, one), *others = told
    for other_count, other in others:
        if other_count != count:
            raise FeedError(
                f"{one} says {plural(count, 'step')}, {other} {other_count}",
                where=caller(),
                hint="arrays with an axis more than what they are fed for have the steps in front; "
                "without it they are fed in all steps",
            )
    return feeds, positive(count)


def _axes(given: Any) -> int:
    """How many axes there are; -1 of what has none that agree, which the conversion refuses."""
    try:
        return np.ndim(given)
    except (TypeError, ValueError):
        return -1


def positive(steps: Any) -> int:
    """A number of steps.

    Raises:
        FeedError: for any other.
    """
    if is_whole(steps) and steps > 0:
        return int(steps)
    raise FeedError(
        f"the number of steps is {shown(steps)}", where=caller(), hint="it is an int from 1 on"
    )


def name_step(error: GraphcError, step: int) -> None:
    """Has an error say in which step it came; the first one is 0."""
    error.message = f"step {step}: {error.message}"


def portions(steps: int) -> Iterator[int]:
    """Numbers of steps to make in a row, each after the one before it is done.

    A portion takes a hundredth of a second, if a step doesn't take longer: in between who waits
    for variables gets them, and signals are seen to.
    """
    count = 1
    while steps > 0:
        count = min(count, steps)
        began = time.perf_counter()
        yield count
        spent = time.perf_counter() - began
        steps -= count
        count = max(1, min(int(count * _SECONDS / spent), _MOST))


def over_batches(run: Callable[[Any], Any], batches: Iterable[Any], steps: Any) -> Any:
    """Stacked results of a run for each of the feeds that an iterator gives.

    Raises:
        ShapeError: for results whose shapes differ; what ran stays.
    """
    most = None if steps is None else positive(steps)
    found = []
    for batch in islice(batches, most):
        try:
            found.append(run(batch))
        except GraphcError as error:
            name_step(error, len(found))
            raise
    if not found:
        raise FeedError(
            "the iterator gave no feeds",
            where=caller(),
            hint="a generator is used up once it was iterated over: make a new one",
        )
    columns = zip(*map(leaves, found), strict=True)
    stacks = iter([_stack(column) for column in columns])
    return rebuild(found[0], lambda leaf: next(stacks))


def _stack(results: Sequence[Array | None]) -> Array | None:
    """One array of the results of all steps; None for an effect."""
    arrays = [result for result in results if result is not None]
    if not arrays:
        return None
    first = arrays[0].shape
    for number, array in enumerate(arrays):
        if array.shape != first:
            raise ShapeError(
                f"step {number}: a result has shape {array.shape}, in step 0 it has {first}",
                where=caller(),
                hint="fetch what has one shape in all steps, such as a mean",
            )
    return np.stack(arrays)
