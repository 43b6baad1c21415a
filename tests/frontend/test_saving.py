"""Graphs saved to files and loaded again."""

from __future__ import annotations

import random
from collections import namedtuple
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from session_harness import assert_same

import graphc as gx
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import print_graph

pytestmark = pytest.mark.filterwarnings("ignore:variables that the graph assigns to")


def variables(graph: Any) -> list[Any]:
    return [node.output for node in graph.nodes if node.op.name == "variable"]


def placeholders(graph: Any) -> list[Any]:
    return [node.output for node in graph.nodes if node.op.name == "placeholder"]


def run(fetches: Any, graph: Any, *arrays: Any) -> tuple[Any, list[Any]]:
    """Two runs in a session of its own: the last results, and the variables afterwards."""
    with gx.Session(graph) as session:
        feeds = dict(zip(placeholders(graph), arrays, strict=True))
        session.run(fetches, feeds)
        return session.run(fetches, feeds), session.get(variables(graph))


def round_trip(path: Path, fetches: Any, graph: Any, *arrays: Any) -> Any:
    gx.save(path, fetches)
    loaded = gx.load(path)
    new = graph_of(loaded)
    assert new is not graph
    assert_same(run(fetches, graph, *arrays), run(loaded, new, *arrays))
    return loaded


def graph_of(fetches: Any) -> Any:
    from graphc.frontend.structure import leaves

    for leaf in leaves(fetches):
        values = leaf.values if isinstance(leaf, gx.Effect) else (leaf,)
        for value in values:
            return value.graph
    raise AssertionError("no fetches")


def test_a_list_of_values_comes_back_in_order(tmp_path: Path) -> None:
    with gx.Graph("my graph") as g:
        x = gx.placeholder(("batch", 4), name="x")
        big = gx.constant(np.arange(100, dtype="float32").reshape(4, 25), name="big")
        y = gx.exp(x @ big * 0.001)
        fetches = [y, x, y, gx.sum(y, axis=1)]
    loaded = round_trip(tmp_path / "a.gir", fetches, g, np.ones((3, 4), "float32"))
    assert isinstance(loaded, list)
    assert loaded[0] is loaded[2]
    assert loaded[0].graph.name == "my graph"
    assert loaded[1] is loaded[0].graph.find("x")
    assert [value.type for value in loaded] == [value.type for value in fetches]


def test_structures_come_back(tmp_path: Path) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((2,), name="x")
        fetches = {"a": [x + 1, (x * 2,)], 3: {}, None: x, True: []}
    round_trip(tmp_path / "a.gir", fetches, g, np.ones(2, "float32"))
    with g:
        assert isinstance(round_trip(tmp_path / "b.gir", x - 1, g, np.ones(2)), gx.Value)
    with pytest.raises(gx.UnsupportedError, match="key"):
        gx.save(tmp_path / "c.gir", {1.5: x})
    with pytest.raises(gx.UnsupportedError, match="deep"):
        nested: Any = x
        for _ in range(70):
            nested = [nested]
        gx.save(tmp_path / "c.gir", nested)
    assert not (tmp_path / "c.gir").exists()


def test_named_tuples_come_back_with_their_fields(tmp_path: Path) -> None:
    class Pair(NamedTuple):
        first: Any
        second: Any

    with gx.Graph() as g:
        x = gx.placeholder((3, 3), name="x")
        fetches = {"svd": gx.linalg.svd(x), "pair": [Pair(x, gx.linalg.slogdet(x))]}
    loaded = round_trip(tmp_path / "a.gir", fetches, g, np.diag([1.0, 2, 3]))
    assert type(loaded["svd"]).__name__ == "SVDResult"
    assert loaded["svd"].S.shape == (3,) and loaded["svd"]._fields == ("U", "S", "Vh")
    assert loaded["pair"][0].second.logabsdet.shape == ()
    renamed = namedtuple("renamed", ("a", "a"), rename=True)
    with pytest.raises(gx.UnsupportedError, match="a renamed cannot be saved"):
        gx.save(tmp_path / "b.gir", renamed(x, x))


def test_names_of_every_kind(tmp_path: Path) -> None:
    names = ["", " ", "a/b/../c", 'q"\\', "ü ∑ 🙂 \u202e", "two\nlines", "x" * 10_000, "dup", "dup"]
    with gx.Graph("gr/aph ü") as g:
        inputs = [gx.placeholder((1,), name=name) for name in names]
        fetches = [*inputs, gx.variable(1.0, name="v/ü"), sum(inputs[1:], inputs[0])]
    loaded = round_trip(tmp_path / "a.gir", fetches, g, *([np.ones(1)] * len(names)))
    assert [value.name for value in loaded[: len(names)]] == names
    assert loaded[0].graph.name == "gr/aph ü"
    assert loaded[0].graph.find("v/ü") is loaded[-2]
    with pytest.raises(gx.NameLookupError, match="2 values"):
        loaded[0].graph.find("dup")


def test_variables_keep_their_initial_values_and_flags(tmp_path: Path) -> None:
    with gx.Graph():
        big = gx.variable(np.random.default_rng(0).normal(size=(9, 9)), name="big")
        fixed = gx.variable(np.float32(np.nan), name="fixed", trainable=False)
        gx.save(tmp_path / "a.gir", [big, fixed])
    first, second = gx.load(tmp_path / "a.gir")
    assert isinstance(first, gx.Variable) and isinstance(second, gx.Variable)
    assert (first.trainable, second.trainable) == (True, False)
    with gx.Session(first.graph) as session:
        np.testing.assert_array_equal(
            session.get(first), np.random.default_rng(0).normal(size=(9, 9))
        )
        assert np.isnan(session.get(second))


def test_chains_of_assignments_survive(tmp_path: Path) -> None:
    with gx.Graph() as g:
        v = gx.variable(np.ones(3, "float32"), name="v")
        first = v.assign_add(1.0)
        second = v.assign_sub(gx.sum(first) * 0.5)
        fetches = [gx.group(second, name="train"), v.read(), v]
    loaded = round_trip(tmp_path / "a.gir", fetches, g)
    effect, _, variable = loaded
    assert isinstance(effect, gx.Effect) and effect.name == "train"
    # What is built next goes on from the latest write, as it would have before.
    with loaded[1].graph:
        third = variable.assign_add(10.0)
    with g:
        expected = v.assign_add(10.0)
    assert_same(run([expected], g), run([third], third.graph))


def test_writes_that_nothing_needs_are_left_out(tmp_path: Path) -> None:
    with gx.Graph() as g:
        v = gx.variable(np.ones(2, "float32"), name="v")
        v.assign(v * 100)
        second = v.assign(np.zeros(2, "float32"))
        v.assign(v * 7)
        fourth = v.assign(second + 5)
    (loaded,) = round_trip(tmp_path / "a.gir", [fourth], g)
    assigned = [node for node in loaded.graph.nodes if node.op.name == "assign"]
    (variable,) = variables(loaded.graph)
    assert [node.inputs[0] for node in assigned] == [variable, assigned[0].output]


def test_control_dependencies_survive(tmp_path: Path) -> None:
    with gx.Graph() as g:
        x = gx.placeholder((2,))
        v = gx.variable(np.zeros(2, "float32"))
        with gx.control_dependencies([gx.group(v.assign_add(x))]):
            y = x * 3
    loaded = round_trip(tmp_path / "a.gir", [y], g, np.ones(2))
    _, (state,) = run(loaded, loaded[0].graph, np.ones(2))
    np.testing.assert_array_equal(state, [2, 2])


def test_control_flow_with_assignments_survives(tmp_path: Path) -> None:
    with gx.Graph() as g:
        x = gx.placeholder(("n",), name="x")
        v = gx.variable(np.float32(1.0), name="v")
        step = gx.constant(np.arange(40, dtype="float32"))
        branch = gx.cond(gx.sum(x) > 0, lambda: v.assign(v.read() * 2), lambda: v.read() + 1)

        def body(i: Any, t: Any) -> Any:
            v.assign_add(gx.sum(t))
            return i + 1, t + gx.sum(step)

        looped = gx.while_loop(lambda i, t: i < 3, body, (0, x))
        fetches = {"branch": branch, "loop": looped}
    round_trip(tmp_path / "a.gir", fetches, g, np.ones(5))
    round_trip(tmp_path / "a.gir", fetches, g, -np.ones(5))


def test_fresh_symbols_of_a_loaded_graph_are_new(tmp_path: Path) -> None:
    with gx.Graph():
        gx.save(tmp_path / "a.gir", [gx.placeholder((None, None, "d7"))])
    (value,) = gx.load(tmp_path / "a.gir")
    with value.graph:
        other = gx.placeholder((None,))
    assert not set(other.shape) & set(value.shape)


def test_the_file_is_text_that_parses_and_prints_the_same(tmp_path: Path) -> None:
    with gx.Graph():
        x = gx.placeholder((None, 3), "float64", name="x")
        v = gx.variable(np.zeros(3), name="v", trainable=False)
        with gx.control_dependencies([v.assign(gx.sum(x, axis=0))]):
            gx.save(tmp_path / "a.gir", (gx.exp(x),))
    text = (tmp_path / "a.gir").read_text()
    assert print_graph(parse_graph(text)) == text
    gx.save(tmp_path / "b.gir", gx.load(tmp_path / "a.gir"))
    assert (tmp_path / "b.gir").read_text() == text
    assert (tmp_path / "a.gir").stat().st_mode & 0o077 == 0
    assert not list(tmp_path.glob("*.npz"))


def test_extracted_graphs_load_with_placeholders_for_inputs(tmp_path: Path) -> None:
    with gx.Graph() as g, gx.Session(g) as session:
        x = gx.placeholder(("n",), name="x")
        source = session.compile([x * 2 + 1]).source
    (tmp_path / "a.gir").write_text(str(source))
    (y,) = gx.load(tmp_path / "a.gir")
    assert [value.name for value in placeholders(y.graph)] == ["x"]
    ((result,), _) = run([y], y.graph, np.arange(3.0))
    np.testing.assert_array_equal(result, [1, 3, 5])


def test_long_chains_save_and_load(tmp_path: Path) -> None:
    with gx.Graph():
        v = gx.variable(np.float32(0), name="v")
        value: Any = gx.placeholder((2,))
        for number in range(20_000):
            value = value + (v if number % 2 else 1.0)
        for _ in range(500):
            v.assign_add(1.0)
        gx.save(tmp_path / "a.gir", [value, gx.group(v.read())])
    loaded = gx.load(tmp_path / "a.gir")
    assert sum(node.op.name == "add" for node in loaded[0].graph.nodes) == 20_500


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    with gx.Graph():
        x = gx.placeholder((2,))
    with gx.Graph():
        y = gx.placeholder((2,))
    with pytest.raises(gx.GraphError, match="several graphs"):
        gx.save(tmp_path / "a.gir", [x, y])
    with pytest.raises(gx.GraphError, match="neither a value nor an effect"):
        gx.save(tmp_path / "a.gir", [x, 3])
    gx.save(tmp_path / "a.gir", [])
    assert gx.load(tmp_path / "a.gir") == []


HEAD = 'graph "g" (%0: float32[]) {\n'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("%1 = assign(%0, %0) : float32[]\n return %1", "assigns to no variable"),
        ("%1 = requires(%0, %0) : float32[]\n return %1", "stands in files only"),
        ("%1 = effect(%0) : bool[]\n %2 = logical_not(%1) : bool[]\n return %2", "logical_not"),
        ('%1 = structure() {data = "[["} : bool[]\n return %1', "damaged"),
        ('%1 = structure() {data = "[\\"named\\", [\\"f\\", \\"def\\"], 0]"} : bool[]\n '
         'return %0, %1', "names are none"),
        ('%1 = structure() {data = "[\\"list\\", 1]"} : bool[]\n return %0, %1', "structure"),
        ("%1 = nonsense(%0) : float32[]\n return %1", "nonsense"),
    ],
)
def test_ill_formed_files_are_refused(tmp_path: Path, body: str, message: str) -> None:
    (tmp_path / "a.gir").write_text(f"{HEAD}{body}\n}}\n")
    with pytest.raises(gx.ParseError, match=message):
        gx.load(tmp_path / "a.gir")


def test_damaged_files_raise_parse_error_only(tmp_path: Path) -> None:
    with gx.Graph():
        x = gx.placeholder(("n", 3), name="x")
        v = gx.variable(np.zeros(3, "float32"), name="v")
        w = gx.constant(np.ones((3, 30), "float32"))
        with gx.control_dependencies([v.assign_add(gx.sum(x, axis=0))]):
            y = gx.cond(gx.sum(x) > 0, lambda: x @ w, lambda: x @ w * 2)
        gx.save(tmp_path / "a.gir", {"y": y, "e": gx.group(v.read(), name="e")})
    text = (tmp_path / "a.gir").read_bytes()
    archive = (tmp_path / "a.gir.npz").read_bytes()
    chance = random.Random(3)
    refused = 0
    for number in range(300):
        kept = number % 3
        content = bytearray(archive if kept == 0 else text)
        for _ in range(chance.randint(1, 4)):
            place = chance.randrange(len(content))
            if chance.random() < 0.3:
                del content[place : place + chance.randint(1, 30)]
            else:
                content[place] = chance.choice(b'%#"{}[](),:=0123456789anx\n \xff\x00')
        (tmp_path / "b.gir").write_bytes(text if kept == 0 else content)
        (tmp_path / "b.gir.npz").write_bytes(content if kept == 0 else archive)
        try:
            gx.load(tmp_path / "b.gir")
        except gx.ParseError:
            refused += 1
    assert refused > 150
    with pytest.raises(gx.FileError, match="No such file"):
        gx.load(tmp_path / "none.gir")


def test_effects_keep_their_names(tmp_path: Path) -> None:
    with gx.Graph():
        count = gx.variable(np.float32(0), name="count")
        step = gx.group(count.assign_add(1.0), name="train")
    gx.save(tmp_path / "m.gir", step)
    loaded = gx.load(tmp_path / "m.gir")
    session = gx.Session(loaded.values[0].graph)
    assert loaded.name == "train" and session.run("train") is None
    assert session.get("count") == 1.0


def test_an_effect_alone_tells_its_graph(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        count = gx.variable(0, name="count")
        more = gx.group(count.assign_add(1))
    assert more.graph is graph
    gx.save(tmp_path / "more.gir", more, session=gx.Session(graph))
    loaded = gx.load(tmp_path / "more.gir")
    session = gx.Session(loaded.graph)
    assert session.run(loaded) is None and session.get("count") == 1
