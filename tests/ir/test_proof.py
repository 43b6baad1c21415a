"""The prover of bounds: what it proves holds for all small sizes, and what matters is proved."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

import graphc as gx
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim
from graphc.ir.guard import Guard
from graphc.ir.proof.facts import Assumed
from graphc.ir.proof.prover import Prover
from graphc.kernel.analysis.bounds import overruns

N, M = expressions.symbol("n"), expressions.symbol("m")
ROW, COLUMN = expressions.symbol("i"), expressions.symbol("j")


def random_dim(random_: random.Random, atoms: list[Dim], depth: int = 2) -> Dim:
    """A small expression."""
    if depth == 0 or random_.random() < 0.3:
        return random_.choice([*atoms, random_.randint(-3, 4)])
    a, b = (random_dim(random_, atoms, depth - 1) for _ in range(2))
    kind = random_.randrange(9)
    if kind == 0:
        return a * b
    if kind == 1:
        return a // random_.randint(1, 5)
    if kind == 2:
        return a % random_.randint(1, 5)
    if kind == 3:
        return expressions.dim_max(a, b)
    if kind == 4:
        return expressions.select("eq", a, b, random_.choice(atoms), 1)
    if kind == 5:
        return a // expressions.dim_max(b, 1)
    if kind == 6:
        return a % expressions.dim_max(b, 1)
    return a + b if kind == 7 else a - b


@pytest.mark.parametrize("seed", range(400))
def test_what_is_proved_holds(seed: int) -> None:
    """Random goals over two sizes and two indices, under a random guard and condition."""
    random_ = random.Random(seed)
    extents = [random_dim(random_, [N, M], 1), random_dim(random_, [N, M, ROW], 1)]
    guard = Guard(N, random_dim(random_, [M], 1), "", broadcasts=random_.random() < 0.5)
    condition = ("le", random_dim(random_, [ROW, N], 1), random_dim(random_, [COLUMN, M], 1))
    goal = random_dim(random_, [N, M, ROW, COLUMN])
    prover = Prover(Assumed([guard]), [(ROW, extents[0]), (COLUMN, extents[1])], [condition])
    if not prover.holds(goal):
        return
    for n, m in itertools.product(range(6), repeat=2):
        sizes = {"n": n, "m": m}
        left, right = n, expressions.evaluate(guard.right, sizes)
        if left != right and not (guard.broadcasts and left == 1):
            continue
        for i in range(max(expressions.evaluate(extents[0], sizes), 0)):
            for j in range(max(expressions.evaluate(extents[1], {**sizes, "i": i}), 0)):
                known = {**sizes, "i": i, "j": j}
                left, right = (expressions.evaluate(side, known) for side in condition[1:3])
                if left <= right:
                    assert expressions.evaluate(goal, known) >= 0, (goal, known)


def test_blocks_rows_and_broadcasts_are_proved() -> None:
    wide = expressions.broadcast(N, M)
    broadcasts = [Guard(N, wide, "", broadcasts=True), Guard(M, wide, "", broadcasts=True)]
    moves = expressions.select("eq", M, 1, 0, 1)
    assert Prover(Assumed(broadcasts), [(ROW, wide)]).holds(M - 1 - ROW * moves)
    assert not Prover(Assumed(broadcasts[:1]), [(ROW, wide)]).holds(M - 1 - ROW * moves)
    block = [(ROW, expressions.ceil_div(N, 256)), (COLUMN, expressions.dim_min(256, N - 256 * ROW))]
    assert Prover(Assumed([]), block).holds(N - 1 - 256 * ROW - COLUMN)
    assert not Prover(Assumed([]), block).holds(N - 2 - 256 * ROW - COLUMN)


@pytest.mark.parametrize("level", [1, 3])
def test_kernels_of_unknown_sizes_are_proved_without_asking(level: int) -> None:
    """None of these needs a guard that the user's own operations do not."""
    with gx.Graph() as graph:
        a, b = (gx.placeholder((None, None), "float64") for _ in range(2))
        fetched = [
            a + b, a[1:, ::2] * 2.0, gx.concatenate([a, b]), gx.stack([a, b]), a @ b, a.T + 1.0,
            gx.nn.softmax(a @ b), gx.pad(a, 2), gx.cumsum(a, axis=0), gx.argmax(a),
            gx.max(a, axis=0), gx.sum(a), gx.gradients(gx.sum(a * b), [a, b]),
            gx.nn.attention(a, b, b, causal=True), gx.reshape(a, (-1,)) * 2.0,
            gx.tile(a, (2, 2)), gx.nn.layer_norm(a), gx.var(a, axis=0),
        ]  # fmt: skip
        for value in fetched:
            session = gx.Session(graph, options=gx.Options(optimize=level))
            plan = session.compile(value).compiled.plan
            guards = (*plan.guards, *(guard for _, guard in plan.required))
            assert not any("fault of the compiler" in guard.message for guard in guards)
            for kernel in plan.kernels:
                found = overruns(kernel, guards)
                assert not [str(one) for one in found if not one.conditional], value


def test_what_is_asked_of_sizes_refuses_nothing_right() -> None:
    """Regrouped reductions of broadcast operands: too much for a proof, so sizes are asked."""
    with gx.Graph() as graph:
        a, b = (gx.placeholder((None,) * n, "float64", name=x) for n, x in ((2, "a"), (3, "b")))
        value = gx.var(a + b)
    session = gx.Session(graph, options=gx.Options(verify=True))
    random_ = np.random.default_rng(0)
    fitting = (
        ((3, 4), (2, 3, 4)), ((1, 4), (2, 3, 1)), ((70, 80), (1, 1, 1)), ((1, 1), (9, 9, 9)),
    )  # fmt: skip
    for shapes in fitting:
        x, y = (random_.normal(size=shape) for shape in shapes)
        found = session.run(value, {"a": x, "b": y})
        np.testing.assert_allclose(found, np.var(x + y), rtol=1e-12)


def test_what_is_asked_in_blocks_of_rows_is_of_sizes_alone() -> None:
    """The inner extent depends on the block, whose index nothing outside of the loop knows."""
    with gx.Graph() as graph:
        shapes = {"q": (None, 2), "k": (2, 2), "v": (2, None), "mask": (None,), "taken": ()}
        q, k, v, mask, taken = (gx.placeholder(s, "float64", n) for n, s in shapes.items())
        value = gx.cond(
            taken > 0.0, lambda: gx.sum(gx.nn.attention(q, k, v, mask)), lambda: gx.sum(q) * 0.0
        )
    session = gx.Session(graph, options=gx.Options(optimize=1))
    for rows, wide, masked in ((3, 2, 2), (0, 1, 2), (5, 4, 1)):
        feeds = {"q": np.ones((rows, 2)), "k": np.ones((2, 2)), "v": np.ones((2, wide))}
        feeds |= {"mask": np.zeros(masked), "taken": np.float64(0)}
        assert session.run(value, feeds) == 0.0
        assert session.run(value, feeds | {"taken": np.float64(1)}) == rows * wide


def test_rows_of_what_a_remainder_leaves_are_proved() -> None:
    """Rows lie as far apart as they have elements, of which there are some."""
    left = M - 2 % expressions.dim_max(M, 1)
    prover = Prover(Assumed([]), [(ROW, N), (COLUMN, left)])
    assert prover.holds(N * left - 1 - ROW * left - COLUMN)
    assert not prover.holds(N * left - 2 - ROW * left - COLUMN)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None))
        size = x.shape[1]
        turned = gx.concatenate([x[:, size - 2 % size :], x[:, : size - 2 % size]], axis=1)
    array = np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(
        gx.Session(graph).run(turned, {x: array}), np.roll(array, 2, axis=1)
    )
