"""Keys that follow each other: a generator's state is a variable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx


def keys_of(seed: int, numbers: Any) -> list[list[int]]:
    """The keys of a seed, without a state."""
    with gx.Graph() as graph:
        keys = [gx.random.fold_in(gx.random.key(seed), n) for n in numbers]
    return [key.tolist() for key in gx.Session(graph).run(keys)]


def test_keys_are_counted_from_the_seed() -> None:
    with gx.Graph() as graph:
        keys = [gx.random.next_key() for _ in range(3)]
    session = gx.Session(graph, seed=-2)
    assert [key.tolist() for key in session.run(keys)] == keys_of(-2, (1, 2, 3))
    assert session.get("random_state").tolist() == [2**64 - 2, 3]
    # what is not fetched is counted as far as it was built before
    assert session.run(keys[1]).tolist() == keys_of(-2, (5,))[0]
    assert session.run([keys[2], keys[0]])[1].tolist() == keys_of(-2, (6,))[0]
    assert gx.Session(graph).run(keys[0]).tolist() == keys_of(0, (1,))[0]
    assert len(graph.variables) == 1 and not graph.variables[0].trainable


def test_the_state_is_set_saved_and_restored(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        u = gx.random.uniform(gx.random.next_key(), (4,))
    session = gx.Session(graph, seed=3)
    session.run(u)
    session.save(tmp_path / "state")
    following = [session.run(u) for _ in range(2)]
    other = gx.Session(graph, seed=9)
    other.restore(tmp_path / "state")
    assert all(np.array_equal(other.run(u), wanted) for wanted in following)
    other.set({"random_state": np.array([3, 1], np.uint64)})
    assert np.array_equal(other.run(u), following[0])


def test_generators_are_apart() -> None:
    with gx.Graph() as graph:
        one, two = gx.random.Generator(5), gx.random.Generator(6, name="noise")
        keys = [one.next_key(), two.next_key(), one.next_key(), gx.random.next_key()]
    session = gx.Session(graph, seed=1)
    wanted = keys_of(5, (1,)) + keys_of(6, (1,)) + keys_of(5, (2,)) + keys_of(1, (1,))
    assert [key.tolist() for key in session.run(keys)] == wanted
    assert session.get("noise").tolist() == [6, 1]


def test_branches_and_loops_take_keys() -> None:
    def body(n: Any, last: Any) -> Any:
        return n + 1, gx.random.next_key()

    with gx.Graph() as graph:
        first = gx.placeholder((), "bool")
        count = gx.placeholder((), "int64")
        key = gx.random.next_key()
        chosen = gx.cond(first, lambda: gx.random.next_key() ^ np.uint32(1), lambda: key)
        _, last = gx.while_loop(lambda n, k: n < count, body, [0, key])
        after = gx.random.next_key()
    session = gx.Session(graph)
    for taken in (True, False):
        session.set({"random_state": np.array([0, 0], np.uint64)})
        found = session.run([key, chosen, last, after], {first: taken, count: 5})
        wanted = keys_of(0, (1, 2, 6 + taken, 7 + taken))
        assert found[0].tolist() == wanted[0] and found[2].tolist() == wanted[2]
        assert found[3].tolist() == wanted[3]
        assert (found[1] ^ np.uint32(taken)).tolist() == wanted[1 if taken else 0]


def test_a_library_draws_as_its_session_would(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        u = gx.random.normal(gx.random.next_key(), (6,))
    session = gx.Session(graph, seed=4)
    gx.aot.compile(session.compile(u), tmp_path / "draws", kind="package")
    library = gx.aot.load(tmp_path / "draws")
    for _ in range(3):
        assert np.array_equal(library(), session.run(u))


def test_what_is_wrong_is_told() -> None:
    with gx.Graph() as graph:
        gx.variable(1.0, "random_state")
        with pytest.raises(gx.GraphError, match="no state of a generator"):
            gx.random.next_key()
        for seed in (1.5, "a", 2**64):
            with pytest.raises(gx.DTypeError, match="seed"):
                gx.Session(graph, seed=seed)  # type: ignore[arg-type]
