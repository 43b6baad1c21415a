"""``gx.debug.watch_gradients``: layers whose gradients vanish, explode or are dead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx

SIZE = 6


def network() -> tuple[Any, Any]:
    """Layers that feed sums: one as usual, and one of each kind that is marked."""
    rng = np.random.default_rng(0)
    with gx.Graph("layers") as graph:
        x = gx.placeholder((None, SIZE), name="x")

        def layer(name: str, *shape: int) -> Any:
            return gx.variable(rng.normal(size=shape or (SIZE, 4)).astype("float32"), name=name)

        usual, other, faint, loud, dead, half = map(
            layer, ("usual", "other", "faint", "loud", "<dead>", "half")
        )
        bias = layer("bias", 4)
        shift = np.array([0, 0, -1e3, -1e3], "float32")
        terms = [
            gx.tanh(x @ usual) + bias,
            gx.tanh(x @ other),
            1e-7 * gx.tanh(x @ faint),
            1e7 * gx.tanh(x @ loud),
            gx.relu(x @ dead - 1e3),
            gx.relu(x @ half + shift),
        ]
        loss = sum(gx.sum(term * term) for term in terms)
        loss.name = "loss"
    return graph, loss


def batches(count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.normal(size=(8, SIZE)).astype("float32")} for _ in range(count)]


def test_layers_and_what_is_said_of_them(tmp_path: Path) -> None:
    graph, loss = network()
    session = gx.Session(graph)
    before = session.get("usual")
    found = gx.debug.watch_gradients(session, loss, iter(batches(3)))
    verdicts = {layer.name: layer.verdict for layer in found.layers}
    assert verdicts == {
        "usual": "", "other": "", "faint": "vanishes", "loud": "explodes", "<dead>": "dead",
        "half": "2 of 4 units dead", "bias": "",
    }  # fmt: skip
    assert np.array_equal(session.get("usual"), before), "nothing is trained"
    assert [layer.name for layer in found.marked] == ["faint", "loud", "<dead>", "half"]
    assert found.batches == 3 and found.loss == "loss"
    half = found.layers[5]
    assert (half.units, half.dead, half.zeros, half.size) == (4, 2, 0.5, 24)
    head, *rows = str(found).splitlines()[1:]
    assert head.split()[:3] == ["layer", "rms", "largest"] and len(rows) == 7
    assert rows[5].startswith("half") and rows[5].endswith("2 of 4  2 of 4 units dead")
    found.report(tmp_path / "gradients.html")
    page = (tmp_path / "gradients.html").read_text()
    assert page.count('<tr class="marked">') == 4 and page.count("<tr") == 8
    assert "&lt;dead&gt;" in page and "<dead>" not in page and "script" not in page.lower()


def test_figures_are_those_of_the_gradients() -> None:
    """Over one batch, of chosen variables; the parameters' norms are beside them."""
    graph, loss = network()
    session = gx.Session(graph)
    bias, usual = graph.find("bias"), graph.find("usual")
    (feeds,) = batches(1)
    found = gx.debug.watch_gradients(session, loss, feeds, [usual, bias])
    for layer, variable in zip(found.layers, (usual, bias), strict=True):
        slope = session.run(gx.gradients(loss, variable), feeds).astype(float)
        value = session.get(variable).astype(float)
        np.testing.assert_allclose(layer.rms, np.sqrt((slope**2).mean()), rtol=1e-6)
        assert layer.largest == np.abs(slope).max()
        norm = np.linalg.norm(slope) / np.linalg.norm(value)
        np.testing.assert_allclose(layer.relative, norm, rtol=1e-6)
        assert layer.where is not None and layer.where.filename == __file__


def test_gradients_that_are_not_finite() -> None:
    with gx.Graph() as graph:
        w = gx.variable(np.array([1.0, 0.0, 4.0], "float32"), name="w")
        v = gx.variable(np.float32(0), name="v")
        loss = gx.sum(gx.sqrt(w)) + v
    found = gx.debug.watch_gradients(gx.Session(graph), loss)
    one, other = found.layers
    assert (one.verdict, one.not_finite, one.largest) == ("not finite", 1, 0.5)
    assert other.verdict == "" and np.isnan(other.relative) and other.units == 1


def test_what_is_refused() -> None:
    graph, loss = network()
    session = gx.Session(graph)
    for arguments, message in (
        ((3,), "a loss is a value"),
        ((loss, {}, []), "no variable to look at"),
        ((loss, {}, [loss]), "not all of these are variables"),
        ((loss, []), "there is no batch"),
        ((loss, 3), "feeds are int"),
    ):
        with pytest.raises(gx.GraphcError, match=message):
            gx.debug.watch_gradients(session, *arguments)
