"""Graphs of the cases about random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from cases.registry import CaseRun, case


@case("cse-rng")
def two_draws(run: CaseRun) -> list[Any]:
    u1, u2 = (gx.random.uniform(gx.random.next_key(), (1000,)) for _ in range(2))
    with gx.Session() as session:
        one, other, zero, total = session.run([u1, u2, u1 - u1, gx.sum(u1)])
        apart = session.run([gx.exp(u1) - gx.exp(u1), gx.sum(gx.sqrt(u1) - gx.sqrt(u1)), u1])
        summed = session.run(gx.sum(gx.constant(one)))
    assert np.any(one != other) and not np.array_equal(apart[2], one)
    assert total == summed and not apart[0].any() and apart[1] == 0
    return [zero.astype(np.float64)]


@case("rng-fold")
def draws_of_runs_and_iterations(run: CaseRun) -> list[Any]:
    def body(step: Any, drawn: Any) -> Any:
        u = gx.random.uniform(gx.random.next_key(), (5,))
        return step + 1, gx.concatenate([drawn[1:], u[None]])

    u = gx.random.uniform(gx.random.next_key(), (100,))
    _, looped = gx.while_loop(lambda i, v: i < 4, body, [0, gx.zeros((4, 5))])
    streams = []
    for fetches in ([u, looped], run.save_and_load([u, looped])):
        for seed in (7, 7, 8):
            with gx.Session(fetches[0].graph, seed=seed) as session:
                streams.append([session.run(fetches) for _ in range(2)])
    for (first, rows), (second, _) in streams:
        assert np.any(first != second)
        assert all(np.any(rows[a] != rows[b]) for a in range(4) for b in range(a))
    for other in (1, 3, 4):
        for one, same in zip(streams[0], streams[other], strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert np.any(streams[0][0][0] != streams[2][0][0])
    return []
