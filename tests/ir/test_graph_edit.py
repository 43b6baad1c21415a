"""The editor of frozen graphs and the recorder of users' graphs."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import tiny_ops
from effort import assert_linear
from tiny_ops import ADD, HALVES, NEGATE, TAG, chain, node, value

import graphc as gx
from graphc.base.errors import GraphError, NameLookupError, ShapeError, VerifyError
from graphc.base.source import Location
from graphc.ir.builder import apply, apply_node, building
from graphc.ir.edit import GraphEditor
from graphc.ir.equal import difference, structural_hash
from graphc.ir.graph import Graph, Provenance
from graphc.ir.recorder import Recorder
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import print_graph
from graphc.ir.value import Value
from graphc.ir.verify import verify


@pytest.fixture(scope="module", autouse=True)
def _operations() -> Iterator[None]:
    with tiny_ops.registered():
        yield


def test_a_node_over_other_operands() -> None:
    """The identical one over its own; operations of any number of operands take fewer, too."""
    with gx.Graph() as graph:
        x, y = (gx.placeholder((2,)) for _ in range(2))
        made = gx.concatenate([x, y])
    joined = graph.producer(made)
    assert joined is not None and joined.with_inputs([x, y]) is joined
    for other in ([y, x], [x]):
        assert [*map(id, joined.with_inputs(other).inputs)] == [*map(id, other)]


def sample() -> Graph:
    return parse_graph(
        """
        graph "g" (%x: float32[4]) {
          %a "a" = test.negate(%x) : float32[4]
          %b "b" = test.add(%a, %x) : float32[4]
          %c "c" = test.negate(%b) : float32[4]
          return %c, %b
        }
        """,
        filename="g.gir",
    )


def edited(editor: GraphEditor) -> Graph:
    graph = editor.finish()
    verify(graph)
    return graph


def ops(graph: Graph) -> list[str]:
    return [n.op.name.removeprefix("test.") for n in graph.nodes]


# --- editor --------------------------------------------------------------------------------------


def test_unchanged_graph_is_the_identical_one() -> None:
    graph = sample()
    assert GraphEditor(graph).finish() is graph
    editor = GraphEditor(graph)
    editor.outputs = list(graph.outputs)
    assert editor.finish() is graph


def test_changed_ends_are_a_change() -> None:
    graph = sample()
    a, b, _ = (n.output for n in graph.nodes)
    editor = GraphEditor(graph)
    editor.outputs[0] = a
    changed = edited(editor)
    assert changed.outputs[0] is a and changed.outputs[1] is b
    editor = GraphEditor(graph)
    editor.inputs.append(value(2))
    assert len(edited(editor).inputs) == 2
    assert len(graph.inputs) == 1


def test_redefine_keeps_value_place_and_line() -> None:
    graph = sample()
    a, b, c = (n.output for n in graph.nodes)
    editor = GraphEditor(graph, "rule r")
    made = editor.redefine(b, TAG, [a], {"k": 1})
    assert made.output is b
    assert made.provenance == Provenance(Location("g.gir", 4), "rule r")
    assert [u.output for u in editor.users(graph.inputs[0])] == [a]
    assert editor.take_made() == [made] and editor.take_made() == []
    changed = edited(editor)
    assert ops(changed) == ["negate", "tag", "negate"]
    assert changed.outputs[0] is c and changed.outputs[1] is b
    assert ops(graph) == ["negate", "add", "negate"]


def test_redefine_refuses_other_types_inputs_and_multiple_outputs() -> None:
    x = value(4)
    halves = node(HALVES, x, axis=0)
    graph = Graph("g", [x], [halves], halves.outputs)
    editor = GraphEditor(graph)
    with pytest.raises(VerifyError, match="turns a value of type"):
        editor.redefine(node(HALVES, x, axis=0).outputs[0], NEGATE, [x], {})
    with pytest.raises(VerifyError, match="redefines"):
        editor.redefine(x, NEGATE, [x], {})
    for output in halves.outputs:
        with pytest.raises(VerifyError, match="redefines"):
            editor.redefine(output, NEGATE, [output], {})
    assert editor.finish() is graph


def test_substitute_by_a_fresh_value_keeps_the_old_identity() -> None:
    graph = sample()
    a, b, c = (n.output for n in graph.nodes)
    editor = GraphEditor(graph, "rule r")
    with editor.rewriting(editor.producer(b), "rule s"):
        inner = apply(TAG, a, k=1)
        editor.substitute(b, apply(NEGATE, inner))
    changed = edited(editor)
    assert ops(changed) == ["negate", "tag", "negate", "negate"]
    assert changed.outputs[0] is c and changed.outputs[1] is b
    assert changed.producers[b].provenance == Provenance(Location("g.gir", 4), "rule s")
    assert changed.producers[inner].provenance.where == Location("g.gir", 4)


def test_substitute_by_an_existing_value_moves_the_users() -> None:
    graph = sample()
    a, b, c = (n.output for n in graph.nodes)
    editor = GraphEditor(graph)
    old = editor.producer(b)
    editor.substitute(b, a)
    assert old is not None and editor.users(b) == [] and not editor.is_used(b)
    editor.remove(old)
    assert editor.producer(b) is None
    changed = edited(editor)
    assert ops(changed) == ["negate", "negate"]
    assert changed.outputs[0] is c and changed.outputs[1] is a
    assert changed.producers[c].inputs[0] is a


def test_substitute_a_graph_input_and_itself() -> None:
    graph = sample()
    editor = GraphEditor(graph)
    editor.substitute(graph.inputs[0], graph.inputs[0])
    assert editor.finish() is graph
    fresh = value(4)
    editor.inputs[0] = fresh
    editor.substitute(graph.inputs[0], fresh)
    assert ops(edited(editor)) == ops(graph)
    with pytest.raises(VerifyError, match="replaces"):
        editor.substitute(fresh, value(5))


def test_remove_refuses_what_is_read_or_gone() -> None:
    graph = sample()
    editor = GraphEditor(graph)
    first, second, last = graph.nodes
    for still_read in (first, second, last):
        with pytest.raises(VerifyError, match="still read"):
            editor.remove(still_read)
    extra = editor.add(NEGATE, [graph.inputs[0]], {})
    editor.remove(extra)
    with pytest.raises(VerifyError, match="no longer stands"):
        editor.remove(extra)
    assert ops(edited(editor)) == ops(graph)


def test_second_producer_is_refused() -> None:
    x = value(4)
    halves = node(HALVES, x, axis=0)
    other = node(HALVES, x, axis=0)
    editor = GraphEditor(Graph("g", [x], [halves], halves.outputs))
    with pytest.raises(VerifyError, match="second producer"):
        editor.put(replace(other, outputs=(other.outputs[0], halves.outputs[1])))


def test_order_stays_where_it_can() -> None:
    x = value(4)
    nodes = [node(NEGATE, x) for _ in range(5)]
    graph = Graph("g", [x], nodes, [n.output for n in nodes])
    editor = GraphEditor(graph)
    editor.redefine(nodes[1].output, TAG, [nodes[4].output], {})
    changed = edited(editor)
    expected = [nodes[0], nodes[4], nodes[1], nodes[2], nodes[3]]
    assert [n.output for n in changed.nodes] == [n.output for n in expected]
    assert [n.output for n in editor.nodes()] == [n.output for n in nodes]


def test_cycles_are_reported() -> None:
    graph = sample()
    a, b, _ = (n.output for n in graph.nodes)
    editor = GraphEditor(graph)
    editor.redefine(a, NEGATE, [b], {})
    with pytest.raises(VerifyError, match="cycle"):
        editor.finish()
    editor = GraphEditor(graph)
    editor.redefine(a, NEGATE, [a], {})
    with pytest.raises(VerifyError, match="cycle"):
        editor.finish()


def test_long_chains_are_edited_and_ordered() -> None:
    graph = chain(20_000)
    nodes = list(graph.nodes)
    random.Random(0).shuffle(nodes)
    editor = GraphEditor(Graph("g", graph.inputs, nodes, graph.outputs))
    editor.redefine(graph.nodes[0].output, NEGATE, graph.inputs, {})
    changed = edited(editor)
    assert len(changed.nodes) == 20_000
    assert [n.output for n in changed.nodes] == [n.output for n in graph.nodes]


def test_many_substitutions_take_linear_time() -> None:
    def substituting(count: int) -> Callable[[], None]:
        graph = chain(count)

        def run() -> None:
            editor = GraphEditor(graph)
            for old in graph.nodes:
                with editor.rewriting(old):
                    editor.substitute(old.output, apply(TAG, old.inputs[0], k=1))
            changed = edited(editor)
            assert set(ops(changed)) == {"tag"} and changed.outputs[0] is graph.outputs[0]

        return run

    assert_linear(substituting, 2500)


def test_rewriting_restores_the_builder_after_errors() -> None:
    graph = sample()
    editor = GraphEditor(graph)
    recorder = Recorder()
    with building(recorder):
        with pytest.raises(ShapeError), editor.rewriting(graph.nodes[0], "rule r"):
            apply(ADD, graph.inputs[0], value(9))
        assert editor.cause == "edit"
        apply(NEGATE, value(2))
    assert len(recorder.nodes) == 1
    assert editor.finish() is graph


# --- recorder ------------------------------------------------------------------------------------


def source(recorder: Recorder, name: str | None = None) -> Value:
    return Value(value(4).type, name, recorder)


def test_nodes_join_the_graph_of_their_operands() -> None:
    recorder, other = Recorder("a"), Recorder("b")
    x = source(recorder)
    with other:
        made = apply(NEGATE, x)
    assert made.graph is recorder and not other.nodes
    where = recorder.nodes[0].provenance.where
    assert where is not None and where.filename == __file__
    assert "apply(NEGATE, x)" in where.excerpt()
    with pytest.raises(GraphError, match="another graph"):
        apply(ADD, x, source(other))


def test_errors_carry_the_users_line_and_the_operation() -> None:
    recorder = Recorder()
    x, y = source(recorder, "x"), value(5, name="y")
    with pytest.raises(ShapeError) as caught:
        apply(ADD, x, y)
    assert caught.value.where is not None and caught.value.where.filename == __file__
    assert caught.value.node == "test.add(x: float32[4], y: float32[5])"
    assert recorder.nodes == []


def test_captures_go_through_two_nested_recorders() -> None:
    top = Recorder("top")
    middle = Recorder("middle", top)
    inner = Recorder("inner", middle)
    x, y = source(top, "x"), source(top, "y")
    with inner:
        first = apply(ADD, x, y)
        second = apply(ADD, first, x)
    with middle:
        third = apply(NEGATE, y)
    inner_graph, inner_outer = inner.freeze([second])
    middle_graph, middle_outer = middle.freeze([third])
    verify(inner_graph)
    verify(middle_graph)
    assert [v.name for v in inner_graph.inputs] == ["x", "y"]
    assert all(v.graph is middle for v in inner_outer)
    assert [a is b for a, b in zip(middle_outer, (x, y), strict=True)] == [True, True]
    assert inner_outer[0] is middle_graph.inputs[0]
    assert not top.nodes


def test_region_outputs_may_be_outer_values() -> None:
    top = Recorder("top")
    x = source(top)
    body = Recorder("body", top)
    graph, outer = body.freeze([x, x])
    verify(graph)
    assert len(graph.inputs) == 1 and outer[0] is x
    assert graph.outputs[0] is graph.outputs[1] is graph.inputs[0]


def test_siblings_do_not_see_each_other() -> None:
    top = Recorder("top")
    left, right = Recorder("left", top), Recorder("right", top)
    x = source(left)
    with right, pytest.raises(GraphError, match="does not enclose"):
        apply(NEGATE, x)


def test_adopted_nodes_belong_to_the_recorder() -> None:
    recorder = Recorder()
    x = source(recorder)
    made = node(NEGATE, x, name="made")
    recorder.adopt(made)
    assert made.output.graph is recorder
    assert recorder.producer(made.output) is made and recorder.producer(x) is None
    assert recorder.find("made") is made.output


def test_names() -> None:
    recorder = Recorder()
    x = source(recorder)
    single = apply(NEGATE, x, name="single")
    apply(NEGATE, x, name="double")
    apply(NEGATE, x, name="double")
    assert recorder.find("single") is single
    with pytest.raises(NameLookupError, match="no value is called 'other'"):
        recorder.find("other")
    with pytest.raises(NameLookupError, match="2 values are called 'double'") as caught:
        recorder.find("double")
    assert caught.value.message.count("test_graph_edit.py:") == 2
    assert isinstance(caught.value, KeyError)


def test_control_requirements_are_recorded() -> None:
    recorder = Recorder()
    x = source(recorder)
    first, second = apply(NEGATE, x), apply(NEGATE, x)
    recorder.push_control([first])
    recorder.push_control([second])
    inner = apply(NEGATE, x)
    recorder.pop_control()
    outer = apply(NEGATE, x)
    recorder.pop_control()
    apply(NEGATE, x)
    assert recorder.requires == {inner: (first, second), outer: (first,)}


def test_long_recorders_pickle() -> None:
    recorder = Recorder("long")
    x = source(recorder, "x")
    last = x
    for _ in range(20_000):
        last = apply(ADD, last, x)
    last.name = "last"
    back = pickle.loads(pickle.dumps(recorder))
    assert len(back.nodes) == 20_000
    end = back.nodes[-1].output
    assert end.name == "last" and end.graph is back
    assert back.producer(end) is back.nodes[-1]
    assert back.nodes[5].op is ADD
    assert str(back.nodes[5].provenance.where) == str(recorder.nodes[5].provenance.where)
    with back:
        apply(NEGATE, end)
    assert len(back.nodes) == 20_001


def test_frozen_graphs_pickle() -> None:
    graph = chain(20_000)
    digest = structural_hash(graph)
    assert graph.producers
    back = pickle.loads(pickle.dumps(graph))
    assert difference(graph, back) is None and structural_hash(back) == digest
    assert back.producers[back.outputs[0]] is back.nodes[-1]
    verify(back)
    named = pickle.loads(pickle.dumps(sample()))
    assert print_graph(named) == print_graph(sample())


def test_multiple_outputs_and_walk() -> None:
    recorder = Recorder()
    x = source(recorder)
    made = apply_node(HALVES, [x], {"axis": 0})
    low, high = made.outputs
    total = apply(ADD, low, high)
    graph = Graph("g", [x], recorder.nodes, [total])
    verify(graph)
    assert list(graph.walk()) == recorder.nodes
    assert graph.users()[low] == [recorder.nodes[1]]


def test_what_one_instruction_builds_has_one_provenance() -> None:
    with gx.Graph() as g:
        x = gx.placeholder((3,), "float32")
        y, z = gx.exp(x), gx.exp(x)
        for _ in range(2):
            y = gx.tanh(y)
    exps = [node.provenance for node in g.nodes if node.op.name == "exp"]
    tanhs = [node.provenance for node in g.nodes if node.op.name == "tanh"]
    assert tanhs[0] is tanhs[1]
    assert exps[0] is not exps[1]
    assert exps[0].where is not None
    assert exps[1].where is not None
    assert exps[0].where.line == exps[1].where.line
    assert exps[0].where.column != exps[1].where.column
    assert z.graph is g


def test_types_that_are_equal_are_one_object_in_a_graph() -> None:
    with gx.Graph() as g:
        x, w = gx.placeholder((5, 3)), gx.placeholder((3, 4))
        first, second = x @ w, x @ w
        added, again = first + second, second + first
        scaled, broadcast = added * 0.1, added * w[0]
        below = added < again
    assert all(value.type is first.type for value in (second, added, again, scaled, broadcast))
    assert below.type == first.type.with_dtype(gx.placeholder((), "bool").dtype)
    assert (gx.less(added, again)).type is below.type
    verify(Graph("g", [x, w], [n for n in g.nodes if n.inputs or n.attrs.keys() == {"value"}], []))


def test_an_operation_that_fails_fails_again_at_its_own_line() -> None:
    with gx.Graph() as g:
        x, y = gx.placeholder((2,)), gx.placeholder((3,))
        lines = []
        for build in (lambda: x + y, lambda: x + y):
            with pytest.raises(ShapeError) as caught:
                build()
            assert caught.value.where is not None
            lines.append(caught.value.where.column)
    assert lines[0] != lines[1]
    assert len(g.nodes) == 2


def test_what_stands_under_operands_of_one_type_tells_the_number_of_operands() -> None:
    with gx.Graph():
        x = gx.placeholder((2, 3))
        once, twice = gx.concatenate([x]), gx.concatenate([x, x])
        left, right = x @ gx.transpose(x), gx.transpose(x) @ x
    assert once.shape == (2, 3)
    assert twice.shape == (4, 3)
    assert left.shape == (2, 2)
    assert right.shape == (3, 3)
