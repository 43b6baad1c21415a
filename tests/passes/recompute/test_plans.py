"""Plans of recomputation: right sequences, exact peaks, and work near the least there is."""

from __future__ import annotations

import heapq
import random
from collections.abc import Sequence

import pytest

from passes.recompute.order import order_of
from passes.recompute.problem import Problem, Run, simulated
from passes.recompute.search import planned


def chain(layers: int, kept: int = 1) -> Problem:
    """A network's steps: each layer makes the next state and what its derivative reads, backward
    steps read both; an update behind each."""
    reads: list[list[int]] = []
    makes: list[list[int]] = []
    size: list[int] = []

    def new(number_of_bytes: int) -> int:
        size.append(number_of_bytes)
        return len(size) - 1

    state, inner = [], []
    for layer in range(layers):
        reads.append(state[-1:])
        state.append(new(64))
        inner.append([new(64) for _ in range(kept)])
        makes.append([state[-1], *inner[layer]])
    back: list[int] = []
    for layer in reversed(range(layers)):
        reads.append([*inner[layer], *back])
        back = [new(64)]
        makes.append(list(back))
        reads.append([*back, *state[layer - 1 : layer]])
        makes.append([])
    return problem(reads, makes, size, [4 if made else 1 for made in makes])


def problem(
    reads: Sequence[Sequence[int]],
    makes: Sequence[Sequence[int]],
    size: Sequence[int],
    cost: Sequence[int],
) -> Problem:
    count = len(reads)
    maker = {value: step for step, made in enumerate(makes) for value in made}
    sources = [sorted({maker[value] for value in read}) for read in reads]
    repeatable = [bool(made) for made in makes]
    return Problem(
        reads, makes, size, [0] * count, cost, repeatable, sources, [[] for _ in range(count)]
    )


def drawn(count: int, seed: int) -> Problem:
    """Steps that read some of what was made before."""
    source = random.Random(seed)
    reads = [
        sorted({step - 1 - min(step - 1, int(source.expovariate(0.5))) for _ in range(2)})
        if step
        else []
        for step in range(count)
    ]
    makes = [[step] for step in range(count)]
    size = [64 * source.randint(1, 3) for _ in range(count)]
    return problem(reads, makes, size, [source.randint(1, 5) for _ in range(count)])


def check(of: Problem, run: Run) -> None:
    """That a sequence is right, and takes what is said, told from it alone."""
    there: set[int] = set()
    for step in run.sequence:
        assert there >= set(of.reads[step])
        there.update(of.makes[step])
    first = dict.fromkeys(run.sequence)
    assert list(first) == list(range(of.count))
    for step, may in enumerate(of.repeatable):
        assert may or run.sequence.count(step) == 1
    extra = sum(of.cost[step] for step in run.sequence) - sum(of.cost)
    assert run.cost == extra
    assert run.peak == max(alive(of, run.sequence, place) for place in range(len(run.sequence)))


def alive(of: Problem, sequence: Sequence[int], place: int) -> int:
    """The bytes alive at a place: what is written there or before and read there or behind, before
    it is written again."""
    total = 0
    for value, size in enumerate(of.size):
        writes = [n for n, step in enumerate(sequence) if value in of.makes[step]]
        for number, begin in enumerate(writes):
            end = writes[number + 1] if number + 1 < len(writes) else len(sequence)
            reads = [n for n in range(begin, end) if value in of.reads[sequence[n]]]
            if begin <= place <= max(reads, default=begin if not of.users[value] else -1):
                total += size
    return total


def least_work(of: Problem, limit: int) -> int | None:
    """The least work of repetitions of any sequence that fits and in which steps first run in the
    given order, by Dijkstra's algorithm over what is there; None if none fits."""
    start = (0, frozenset[int]())
    best = {start: 0}
    queue = [(0, 0, start)]
    while queue:
        work, ticket, (stage, there) = heapq.heappop(queue)
        if work > best[stage, there]:
            continue
        if stage == of.count:
            return work
        following = [(work, (stage, there.difference({value}))) for value in there]
        for step in range(stage + 1):
            if not there.issuperset(of.reads[step]):
                continue
            # what nobody reads is not made
            for part in range(1 << len(of.makes[step])):
                made = [value for n, value in enumerate(of.makes[step]) if part >> n & 1]
                now = there.union(made)
                unused = all(of.users[value] for value in of.makes[step] if value not in now)
                if not unused or (step < stage and not made):
                    continue
                if sum(of.size[value] for value in now) <= limit:
                    spent = of.cost[step] if step < stage else 0
                    following.append((work + spent, (stage + (step == stage), now)))
        for spent, state in following:
            if spent < best.get(state, 1 << 60):
                best[state] = spent
                heapq.heappush(queue, (spent, ticket + len(best), state))
    return None


@pytest.mark.parametrize("seed", range(12))
def test_sequences_are_right(seed: int) -> None:
    of = drawn(40, seed)
    natural = simulated(of, of.first_plan())
    check(of, natural)
    assert natural.sequence == list(range(of.count))
    before = 0
    for part in (90, 75, 60, 45):
        run, _ = planned(of, natural.peak * part // 100)
        check(of, run)
        if run.peak > natural.peak * part // 100:
            break
        assert run.cost >= before
        before = run.cost


@pytest.mark.parametrize("layers", [3, 4])
def test_chains_are_near_the_optimum(layers: int) -> None:
    of = chain(layers)
    natural = simulated(of, of.first_plan()).peak
    compared = 0
    for limit in range(natural - 64, 0, -128):
        least = least_work(of, limit)
        run, _ = planned(of, limit)
        check(of, run)
        if least is None:
            assert run.peak > limit
        elif run.peak <= limit:
            compared += 1
            assert least <= run.cost <= 1.5 * least
    assert compared


@pytest.mark.parametrize("seed", range(4))
def test_small_graphs_are_near_the_optimum(seed: int) -> None:
    of = drawn(9, seed)
    natural = simulated(of, of.first_plan()).peak
    for limit in (natural - 64, natural - 128):
        least = least_work(of, limit)
        run, _ = planned(of, limit)
        if least is None:
            assert run.peak > limit
        elif run.peak <= limit:
            assert least <= run.cost <= 2 * least


def test_growth_is_linear() -> None:
    """Twice the layers take about twice the steps looked at, and plans are no worse."""
    works = []
    for layers in (40, 160):
        of = chain(layers, 3)
        limit = simulated(of, of.first_plan()).peak * 2 // 5
        run, _ = planned(of, limit)
        assert run.peak <= limit
        works.append(run.cost / sum(of.cost))
    assert works[1] < 1.2 * works[0]


def test_updates_come_as_early_as_they_can() -> None:
    of = chain(6)
    updates = [step for step in range(of.count) if not of.makes[step]]
    others = [step for step in range(of.count) if of.makes[step]]
    late = of.reordered([*others, *updates])
    order = order_of(late)
    assert sorted(order) == list(range(of.count))
    run = simulated(late.reordered(order), late.reordered(order).first_plan())
    assert run.peak == simulated(of, of.first_plan()).peak
    assert run.profile[-1] < simulated(late, late.first_plan()).profile[len(others)]


def test_what_writes_over_a_value_comes_behind_readers_that_run_again() -> None:
    # step 0 reads an old value, and is repeated for step 3; step 2 writes over it
    of = Problem(
        [[], [0], [1], [0, 1]],
        [[0], [1], [], []],
        [64, 64],
        [0, 4096, 0, 0],
        [1, 1, 1, 1],
        [True, False, False, False],
        [[], [0], [1], [0, 1]],
        [[], [], [0], []],
    )
    run = simulated(of, [[1], []])
    assert run.sequence == [0, 1, 0, 2, 3]
