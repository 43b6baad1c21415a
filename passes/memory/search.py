"""A bounded search for a tighter placement than the greedy fits find.

Invariant: deterministic. Effort is counted in array elements touched, never in seconds, and the
random words come from a fixed seed, so neither the load nor the speed of a machine changes a plan.

The search builds placements bottom-up: the next block rests on the blocks already placed, at an
offset not below that of the last one (every placement can be pushed down into this form). Only
blocks that start lower than the lowest end that any choice would give need to be tried next: the
other block would fit underneath. These two reductions are due to M. D. Moffitt, "MiniMalloc"
(ASPLOS 2023), which explores them depth first. Here it is a beam search: a beam of states advances
together, as rows of arrays.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from graphc.plan.memory import align_up
from passes.memory.fit import LiveBlocks, place_in_order

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Words = NDArray[np.uint64]

_SEED = 20230325
# Children of which the height is estimated, and of which it is worked out; by trials.
_CANDIDATES_PER_STATE = 16
_FINALISTS_PER_STATE = 2
# (width, sharpness, weight of the preference); the order and the values were found by trials.
_ROUNDS = (
    (12, 100.0, 0.1),
    (40, 100.0, 0.03),
    (24, 200.0, 0.3),
    (24, 50.0, 0.1),
    (24, 200.0, 0.1),
    (24, 400.0, 0.03),
    (24, 100.0, 0.1),
    (96, 100.0, 0.1),
)


@dataclass(frozen=True, slots=True)
class BeamSettings:
    """One run of the beam.

    * `width`: states kept after each placement.
    * `sharpness`: how strongly the fullest sections outweigh the rest in a state's score.
    * `preference`: which blocks to place early, a name of `preferences`.
    * `weight`: how much that counts against the score.
    """

    width: int
    sharpness: float
    preference: str
    weight: float


@dataclass(frozen=True, slots=True, eq=False)
class Sections:
    """Time cut into the steps at which the set of live blocks is maximal.

    * `first`, `last`: section range of each block, `last` exclusive.
    * `live`: 1.0 where a block is live in a section, shape (blocks, sections).
    * `members`: block indices, section after section; `cuts`: where each section begins in it.
    * `overlap`: whether two blocks share a section, shape (blocks, blocks).
    """

    first: Indices
    last: Indices
    live: Floats
    members: Indices
    cuts: Indices
    overlap: NDArray[np.bool_]


def sections_of(blocks: LiveBlocks) -> Sections:
    """Sections of a problem: a start counts only if some block ends before the next start."""
    # not numpy.unique, which brings in masked arrays: a megabyte of memory and 10 ms
    starts = np.array(sorted(set(blocks.starts)), np.int64)
    ends = np.array(sorted(set(blocks.ends)), np.int64)
    following = np.append(starts[1:], ends[-1])
    next_end = ends[np.searchsorted(ends, starts, side="right")]
    times = starts[next_end <= following]
    first = np.searchsorted(times, np.asarray(blocks.starts))
    last = np.searchsorted(times, np.asarray(blocks.ends))
    position = np.arange(len(times))
    present = (position >= first[:, None]) & (position < last[:, None])
    live = present.astype(np.float64)
    section, members = np.nonzero(present.T)
    cuts = np.searchsorted(section, position)
    return Sections(first, last, live, members, cuts, (live @ live.T) > 0)


def preferences(sections: Sections, sizes: Floats) -> dict[str, Floats]:
    """For each named heuristic a value in [0, 1] per block; large means place early."""
    count = sections.live.shape[1]
    width = (sections.last - sections.first) / count
    totals = sizes @ sections.live
    crowding = np.max(sections.live * totals, axis=1)

    def scaled(value: Floats) -> Floats:
        largest: np.float64 = value.max()
        return value / largest

    return {
        "none": np.zeros(len(sizes)),
        "early": 1.0 - sections.first / count,
        "width": scaled(width),
        "size": scaled(sizes),
        "area": scaled(width * sizes),
        "crowding": scaled(crowding),
        "crowding and width": 0.5 * (scaled(crowding) + scaled(width)),
        "size and width": 0.5 * (scaled(sizes) + scaled(width)),
    }


def schedule() -> list[BeamSettings]:
    """The runs to try, cheap ones first; each is bounded by the best placement so far."""
    names = (
        "none", "area", "early", "size and width", "crowding and width",
        "width", "size", "crowding",
    )  # fmt: skip
    return [
        BeamSettings(width, sharpness, name, weight)
        for width, sharpness, weight in _ROUNDS
        for name in names
    ]


@dataclass(slots=True)
class Effort:
    """What is left of the work that a search may do, in array elements touched."""

    remaining: int

    def spend(self, amount: int) -> bool:
        """Take `amount`; False when it is more than what is left (and nothing is left then)."""
        if amount > self.remaining:
            self.remaining = 0
            return False
        self.remaining -= amount
        return True


@dataclass(slots=True, eq=False)
class _States:
    """A beam: one row per state.

    Per section `floor`: height already reached, `start`: where blocks still to come can begin at
    the earliest, `rest`: their bytes. `open` and `base` per block: not yet placed, and the lowest
    offset it can have. `bottom`: offset of the last placed block. `merit`: preference collected.
    `key`: hash of the set of placed blocks.
    """

    floor: Floats
    start: Floats
    rest: Floats
    open: NDArray[np.bool_]
    base: Floats
    bottom: Floats
    merit: Floats
    key: Words


def beam_order(
    sections: Sections,
    sizes: Floats,
    bound: int,
    limit: int,
    settings: BeamSettings,
    effort: Effort,
) -> list[int] | None:
    """An order of placement whose peak is expected below `limit`.

    `sizes` are block sizes as exact floats, `bound` the height to aim at. A state is dropped when
    some section cannot stay below `limit`: its height, or the lowest block still to come there,
    plus the bytes of all blocks still to come. That is worked out for the most promising children,
    which are chosen by an estimate from their parents. None when no state is left, or the effort
    is spent.
    """
    count, section_count = sections.live.shape
    preference = preferences(sections, sizes)[settings.preference]
    generator = random.Random(_SEED)

    def words(number: int) -> Words:
        return np.array([generator.getrandbits(64) for _ in range(number)], dtype=np.uint64)

    block_words, section_words = words(count), words(section_count)
    states = _States(
        floor=np.zeros((1, section_count)),
        start=np.zeros((1, section_count)),
        rest=(sizes @ sections.live)[None, :],
        open=np.ones((1, count), dtype=np.bool_),
        base=np.zeros((1, count)),
        bottom=np.zeros(1),
        merit=np.zeros(1),
        key=np.zeros(1, dtype=np.uint64),
    )
    history: list[tuple[Indices, Indices]] = []
    per_child = 6 * section_count
    per_finalist = len(sections.members) + 4 * section_count + 6 * count
    for step in range(count):
        offset = np.maximum(states.base, states.bottom[:, None])
        lowest_end = np.where(states.open, offset + sizes, np.inf).min(axis=1)
        parent, block = np.nonzero(states.open & (offset < lowest_end[:, None]))
        if len(parent) > settings.width * _CANDIDATES_PER_STATE:
            lowest = np.argsort(offset[parent, block], kind="stable")
            chosen = np.sort(lowest[: settings.width * _CANDIDATES_PER_STATE])
            parent, block = parent[chosen], block[chosen]
        if not effort.spend(len(parent) * per_child):
            return None
        merit = states.merit[parent] + preference[block] * ((1.0 - step / count) / count)
        finalists = settings.width * _FINALISTS_PER_STATE
        if len(parent) > finalists:
            rough = _rough_reach(sections, sizes, states, parent, block)
            hopeful = np.flatnonzero(rough.max(axis=1) < limit)
            score = _score(rough[hopeful], bound, settings) - settings.weight * merit[hopeful]
            chosen = np.sort(hopeful[np.argsort(np.round(score, 9), kind="stable")[:finalists]])
            parent, block, merit = parent[chosen], block[chosen], merit[chosen]
        if not effort.spend(len(parent) * per_finalist):
            return None
        children = _place(sections, sizes, states, parent, block, merit, block_words)
        reach = children.start + children.rest
        hopeful = np.flatnonzero(reach.max(axis=1) < limit)
        if not len(hopeful):
            return None
        # Rounded, so that the last bits of a machine's exp and log don't choose between states.
        score = _score(reach[hopeful], bound, settings) - settings.weight * merit[hopeful]
        score = np.round(score, 9)
        # What is placed and how high it stands is all that the future depends on.
        floors = children.floor[hopeful].astype(np.uint64)
        identity = children.key[hopeful] + (floors * section_words).sum(axis=1, dtype=np.uint64)
        distinct = np.unique(identity, return_index=True)[1]
        best = distinct[np.argsort(score[distinct], kind="stable")[: settings.width]]
        kept = hopeful[best]
        states = _rows(children, kept)
        history.append((parent[kept], block[kept]))
    row = int(states.floor.max(axis=1).argmin())
    order: list[int] = []
    for parents, placed in reversed(history):
        order.append(int(placed[row]))
        row = int(parents[row])
    order.reverse()
    return order


def _score(reach: Floats, bound: int, settings: BeamSettings) -> Floats:
    """How far the fullest sections are above the bound: a soft maximum over them."""
    exponent = np.minimum(settings.sharpness * (reach / bound - 1.0), 600.0)
    total: Floats = np.exp(exponent).sum(axis=1)
    return np.log(total) / settings.sharpness


def _rough_reach(
    sections: Sections, sizes: Floats, states: _States, parent: Indices, block: Indices
) -> Floats:
    """How high the sections of children get at least, but for what they do to other blocks."""
    bottom = np.maximum(states.base[parent, block], states.bottom[parent])
    size = sizes[block][:, None]
    inside = sections.live[block] > 0
    start = np.maximum(states.start[parent], bottom[:, None])
    start = np.where(inside, np.maximum(start, bottom[:, None] + size), start)
    heights: Floats = start + states.rest[parent] - size * sections.live[block]
    return heights


def _rows(states: _States, rows: Indices) -> _States:
    return _States(
        states.floor[rows], states.start[rows], states.rest[rows], states.open[rows],
        states.base[rows], states.bottom[rows], states.merit[rows], states.key[rows],
    )  # fmt: skip


def _place(
    sections: Sections,
    sizes: Floats,
    states: _States,
    parent: Indices,
    block: Indices,
    merit: Floats,
    block_words: Words,
) -> _States:
    """The states after placing `block[i]` in row `parent[i]`."""
    bottom = np.maximum(states.base[parent, block], states.bottom[parent])
    top = bottom + sizes[block]
    spans = sections.live[block]
    still_open = states.open[parent]
    still_open[np.arange(len(block)), block] = False
    floor = np.where(spans > 0, top[:, None], states.floor[parent])
    base = np.where(
        sections.overlap[block], np.maximum(states.base[parent], top[:, None]), states.base[parent]
    )
    waiting = np.where(still_open, np.maximum(base, bottom[:, None]), np.inf)
    lowest = np.minimum.reduceat(waiting[:, sections.members], sections.cuts, axis=1)
    return _States(
        floor=floor,
        start=np.where(np.isinf(lowest), floor, np.maximum(lowest, floor)),
        rest=states.rest[parent] - sizes[block][:, None] * spans,
        open=still_open,
        base=base,
        bottom=bottom,
        merit=merit,
        key=states.key[parent] + block_words[block],
    )


def improve(
    blocks: LiveBlocks,
    neighbours: Sequence[Sequence[int]],
    offsets: list[int],
    target: int,
    effort: Effort,
) -> list[int]:
    """Replace a placement by better ones until its peak is at most `target` or the effort is spent.

    `neighbours` is the result of `overlaps`. The beam works on sizes rounded up to each block's
    alignment; the order it finds is then placed exactly, which decides.
    """
    # Every placed block costs a beam at least one child, and a child seven elements a block: with
    # less than that no beam comes to its end, and cutting time into sections is wasted too.
    if effort.remaining < 7 * len(blocks) ** 2:
        return offsets
    sections = sections_of(blocks)
    sizes = np.array(
        [align_up(s, a) for s, a in zip(blocks.sizes, blocks.alignments, strict=True)],
        dtype=np.float64,
    )
    peak = blocks.peak(offsets)
    for settings in schedule():
        if peak <= target or not effort.remaining:
            break
        order = beam_order(sections, sizes, target, peak, settings, effort)
        if order is not None:
            candidate = place_in_order(blocks, neighbours, order)
            if blocks.peak(candidate) < peak:
                offsets, peak = candidate, blocks.peak(candidate)
    return offsets
