"""``gx.training.total``, ``mean`` and ``accuracy``: figures that runs add up in variables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gx


def test_figures_of_batches_of_any_size_are_those_of_all_rows() -> None:
    """Whole and weighted means, by runs and by many of them; ``result`` is that before a run."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(20, 3)).astype("float32")
    counts = rng.uniform(size=(20, 1)).astype("float32")
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), name="x")
        w = gx.placeholder((None, 1), name="w")
        metrics = [gx.training.total(x), gx.training.mean(x), gx.training.mean(x, w, "weighted")]
    session = gx.Session(graph)
    updates = [metric.update for metric in metrics]
    for part in (slice(0, 3), slice(3, 12), slice(12, 20)):
        fetches = [metrics[0].result, updates]
        seen, now = session.run(fetches, {x: rows[part], w: counts[part]})
        np.testing.assert_allclose(seen, rows[: part.start].sum(dtype=float), rtol=1e-12)
        known, weights = rows[: part.stop].astype(float), counts[: part.stop].astype(float)
        wanted = [known.sum(), known.mean(), (known * weights).sum() / (weights.sum() * 3)]
        np.testing.assert_allclose(now, wanted, rtol=1e-12)
    results = session.run([metric.result for metric in metrics])
    assert results == now
    session.run([metric.reset for metric in metrics])
    assert session.run(metrics[0].result) == 0 and np.isnan(session.run(metrics[1].result))
    steps = session.run_many(updates, {x: rows.reshape(5, 4, 3), w: counts.reshape(5, 4, 1)})
    np.testing.assert_allclose([step[-1] for step in steps], now, rtol=1e-12)


@pytest.mark.parametrize("as_classes", [False, True])
def test_accuracy(as_classes: bool) -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.7], [0.5, 0.4]], "float32")
    with gx.Graph() as graph:
        given = gx.placeholder((None, 2), name="given")
        labels = gx.placeholder((None,), "int32", name="labels")
        found = gx.argmax(given, 1) if as_classes else given
        whole = gx.training.accuracy(found, labels)
        half = gx.training.accuracy(found, labels, [1.0, 0.0], name="half")
    session = gx.Session(graph)
    feeds = {given: scores.reshape(2, 2, 2), labels: [[1, 1], [1, 0]]}
    one, other = session.run_many([whole.update, half.update], feeds)
    assert one.tolist() == [0.5, 0.75] and other.tolist() == [1.0, 1.0]


def test_figures_are_saved_and_failed_runs_add_nothing(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        i = gx.placeholder((), "int64", name="i")
        mean = gx.training.mean(x)
        picked = gx.take(gx.constant([0.0]), i, axis=0)
    session = gx.Session(graph)
    session.run([mean.update, picked], {x: 3, i: 0})
    with pytest.raises(gx.IndexRangeError):
        session.run([mean.update, picked], {x: 100, i: 1})
    session.save(tmp_path / "values")
    other = gx.Session(graph)
    other.restore(tmp_path / "values")
    assert other.run(mean.update, {x: 4}) == 3.5
    assert gx.optim.trainable_variables(mean.update) == []


def test_what_is_no_figure() -> None:
    with gx.Graph():
        x = gx.placeholder((4, 2), "complex64", name="x")
        with pytest.raises(gx.DTypeError, match="complex numbers are added up"):
            gx.training.mean(x)
        with pytest.raises(gx.ShapeError, match=r"scores have shape \[4, 2\], labels \[\]"):
            gx.training.accuracy(gx.abs(x), 1)
        with pytest.raises(gx.ShapeError):
            gx.training.mean(gx.abs(x), np.ones(3))
