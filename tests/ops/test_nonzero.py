"""What masks choose, in room for a known number, against NumPy's results cut and filled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from guard_arrays import GuardedArray, guarded

import graphc as gx
from graphc.base.target import named, obstacle

pytestmark = pytest.mark.check_mode


def _fitted(array: Any, size: int, fill: Any) -> Any:
    kept = array[:size]
    missing = np.full((size - len(kept), *kept.shape[1:]), fill, kept.dtype)
    return np.concatenate([kept, missing])


def test_masks_that_are_fed() -> None:
    with gx.Graph() as graph:
        m, c = gx.placeholder((None, 3), "bool"), gx.placeholder((None,), "bool")
        x = gx.placeholder((None, 3), "float64", name="x")
        fetches = [
            *gx.nonzero(m, size=5), *gx.nonzero(x, size=4, fill_value=(-1, -2)),
            gx.flatnonzero(m, size=3, fill_value=-1), gx.argwhere(m, size=6, fill_value=7),
            gx.compress(c, x, axis=0, size=3, fill_value=9.0), gx.compress(c, x, size=2),
            gx.compress(gx.ravel(m), x, size=5, fill_value=np.nan),
            gx.compress(c, x, 0, size=x.shape[0]),
        ]  # fmt: skip
        slope = gx.gradients(gx.sum(gx.sin(gx.compress(gx.ravel(m), x, size=5))), x)
    rng, session = np.random.default_rng(0), gx.Session(graph)
    for mask in (rng.random((4, 3)) < 0.4, np.zeros((4, 3), bool), np.ones((4, 3), bool),
                 np.zeros((0, 3), bool)):  # fmt: skip
        array = rng.normal(size=mask.shape) * (rng.random(mask.shape) < 0.4)
        chosen = rng.random(len(mask)) < 0.5
        wanted = [
            *(_fitted(part, 5, 0) for part in np.nonzero(mask)),
            *(_fitted(part, 4, -n) for n, part in enumerate(np.nonzero(array), 1)),
            _fitted(np.flatnonzero(mask), 3, -1), _fitted(np.argwhere(mask), 6, 7),
            _fitted(np.compress(chosen, array, 0), 3, 9),
            _fitted(np.compress(chosen, array), 2, 0),
            _fitted(np.extract(mask, array), 5, np.nan),
            _fitted(np.compress(chosen, array, 0), len(mask), 0),
        ]  # fmt: skip
        got, found = session.run([fetches, slope], {m: mask, c: chosen, x: array})
        for result, expected in zip(got, wanted, strict=True):
            np.testing.assert_array_equal(result, expected, strict=True)
        first = np.cumsum(mask).reshape(mask.shape) <= 5
        np.testing.assert_allclose(found, np.where(mask & first, np.cos(array), 0))


def test_masks_that_are_known() -> None:
    array = np.array([[1, 0], [0, 2]])
    with gx.Graph() as graph:
        x = gx.placeholder((2, 2), "float32", name="x")
        fetches = [
            *gx.nonzero(array), gx.argwhere(gx.constant(array)), gx.compress(array.ravel() > 0, x),
            gx.compress([True], x, axis=1),
        ]  # fmt: skip
        for build in (
            lambda: gx.nonzero(x), lambda: gx.flatnonzero(x), lambda: gx.argwhere(x),
            lambda: gx.compress(x[0] > 0, x, axis=0),
        ):  # fmt: skip
            with pytest.raises(gx.UnsupportedError) as raised:
                build()
            assert "size=" in str(raised.value.hint)
        with pytest.raises(gx.ShapeError):
            gx.compress([True, False, True], x, axis=0)
        with pytest.raises(gx.ShapeError):
            gx.nonzero(x[0, 0], size=1)
    fed = np.arange(4, dtype=np.float32).reshape(2, 2)
    wanted = [*np.nonzero(array), np.argwhere(array), np.extract(array > 0, fed), fed[:, :1]]
    for result, expected in zip(gx.Session(graph).run(fetches, {x: fed}), wanted, strict=True):
        np.testing.assert_array_equal(result, expected, strict=True)


LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
TARGETS = [name for name in LEVELS if obstacle(named(name)) is None]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("room", [0, 1, 7, 63, 64, 65, 200, 3000])
def test_places_of_any_many_in_any_room(room: int, target: str) -> None:
    with gx.Graph() as graph:
        mask = gx.placeholder((None,), "bool")
        places = gx.flatnonzero(mask, size=room, fill_value=-1)
    exe = gx.Session(graph, target=named(target), threads=1).compile(places, [mask])
    rng = np.random.default_rng(room)
    for length in (0, 1, 63, 64, 65, 128, 1000, 2049):
        for share in (0.0, 0.01, 0.3, 0.9, 1.0):
            chosen = rng.uniform(size=length) < share
            wanted = np.full(room, -1)
            found = np.flatnonzero(chosen)[:room]
            wanted[: found.size] = found
            for edge in ("begin", "end"):
                given, made = guarded(chosen, edge), GuardedArray((room,), np.int64, edge)
                exe.compiled.program.run([given.array], into={0: made.array})
                assert np.array_equal(made.array, wanted)
                assert not made.touched
