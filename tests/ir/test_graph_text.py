"""The text form, equality and hash of the graph IR."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tiny_ops
from effort import assert_linear
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_ops import ADD, CONSTANT, GROUP, TAG, chain, node, sample, tagged, value
from tools import ROOT, SUPPORT

from graphc.base.errors import GraphcError, GraphError, ParseError, VerifyError
from graphc.base.source import Location
from graphc.ir import attributes, dtypes
from graphc.ir.attributes import Payload
from graphc.ir.dims import expressions
from graphc.ir.equal import difference, structural_hash
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import payloads, print_graph
from graphc.ir.verify import verify


@pytest.fixture(scope="module", autouse=True)
def _operations() -> Iterator[None]:
    with tiny_ops.registered():
        yield


def round_trip(graph: Graph) -> Graph:
    text = print_graph(graph)
    back = parse_graph(text, payloads(graph))
    assert print_graph(back) == text
    assert difference(graph, back) is None
    assert structural_hash(back) == structural_hash(graph)
    verify(back)
    return back


# --- printing and reading ----------------------------------------------------------------------


def test_text_of_sample() -> None:
    assert print_graph(sample()) == (
        'graph "main" dims (n: 1..64) (%0 "x": float32[n, 64], '
        '%1 "w \\"quoted\\"\\n": float32[n, 64]) {\n'
        "  %2 = test.add(%0, %1) : float32[n, 64]\n"
        '  %3 "half", %4 "half" = test.halves(%2) {axis = 1} : float32[n, 32], float32[n, 32]\n'
        "  %5 = test.constant() {value = float32[2] (0x1.8p+0, -0x0p+0)} : float32[2]\n"
        '  %6 "loss", %7 "loss" = test.group(%2) : float32[n, 64], float32[n, 64] {\n'
        '    region "body" (%0: float32[n, 64]) {\n'
        "      %1 = test.group(%0) : float32[n, 64] {\n"
        '        region "inner" (%0: float32[n, 64]) {\n'
        "          %1 = test.negate(%0) : float32[n, 64]\n"
        "          return %1\n"
        "        }\n"
        "      }\n"
        "      return %1, %0\n"
        "    }\n"
        "  }\n"
        '  %8 = test.tag(%0) {kinds = (@int8, None, True), label = "a, b} // c", '
        "size = dim(2*n + 1)} : float32[n, 64]\n"
        "  return %6, %4, %0\n"
        "}\n"
    )


def test_sample_round_trips_with_names_and_bounds() -> None:
    back = round_trip(sample())
    assert [v.name for v in back.inputs] == ["x", 'w "quoted"\n']
    assert expressions.bounds(back.inputs[0].shape[0]) == (1, 64)
    assert back.nodes[3].regions[0].name == "body"


def test_empty_graph_round_trips() -> None:
    round_trip(Graph("", [], [], []))


def bits_to_float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


@pytest.mark.parametrize(
    "attribute",
    [
        "\\", "\\n",
        None, True, False, 0, 1, -5, 10**40, 0.0, -0.0, 0.1, 5e-324, 1.7e308, float("inf"),
        float("-inf"), float("nan"), bits_to_float(0xFFF8000000000001),
        bits_to_float(0x7FF0000000000001), "", "a\\b\"c", "größe ☃ \U0001f600",
        "\ud83d", "\ud83d\ude00", "\x00\x1f\x7f\u2028\r\n\t", "inf", "%0 // x", dtypes.bool_,
        dtypes.uint64, (), (1,), (1, 2.0, (False, ())), expressions.symbol("n") * 2,
        expressions.symbol("odd ] name", 2, 3) // 2
        + expressions.dim_max(expressions.symbol("k"), 3),
        (expressions.symbol("n", -3), 4),
    ],
)  # fmt: skip
def test_attributes_round_trip(attribute: Any) -> None:
    back = round_trip(tagged(a=attribute)).nodes[0].attrs["a"]
    assert attributes.key(back) == attributes.key(attribute)


@pytest.mark.parametrize("name", ["a", "A_1", "inf", "nan", "two words", "1", "é", "x.y"])
def test_names_of_attributes_round_trip(name: str) -> None:
    assert list(round_trip(tagged(**{name: 1})).nodes[0].attrs) == [name]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (16,), (2, 3), (0, 5), (17,), (3, 40)])
def test_constants_round_trip(dtype: dtypes.DType, shape: tuple[int, ...]) -> None:
    generator = np.random.default_rng(0)
    raw = generator.integers(0, 256, int(np.prod(shape)) * dtype.bytes, np.uint8)
    if dtype is dtypes.bool_:
        raw &= 1
    array = raw.view(dtype.numpy).reshape(shape)
    made = node(CONSTANT, value=Payload(array))
    graph = Graph("g", [], [made], [made.output])
    back = round_trip(graph).nodes[0].attrs["value"].array
    assert back.dtype == array.dtype and back.tobytes() == array.tobytes()
    assert bool(payloads(graph)) == (array.size > 16)


@pytest.mark.parametrize("width", [32, 64])
def test_nan_payloads_survive(width: int) -> None:
    patterns = {
        32: [0x7FC00000, 0xFFC00001, 0x7F800001, 0x80000000],
        64: [0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001, 1 << 63],
    }[width]
    array = np.array(patterns, f"u{width // 8}").view(f"f{width // 8}")
    made = node(CONSTANT, value=Payload(array))
    back = round_trip(Graph("g", [], [made], [made.output]))
    assert back.nodes[0].attrs["value"].array.tobytes() == array.tobytes()


def test_payloads_inside_tuples_and_regions_are_found() -> None:
    large = Payload(np.arange(40.0))
    x, inner = value(2), value(2)
    tag = node(TAG, inner, many=((large,), 1))
    region = Graph("r", [inner], [tag], [tag.output])
    group = node(GROUP, x, regions=[region])
    graph = Graph("g", [x], [group], [group.output])
    assert list(payloads(graph)) == [large.digest.hex()]
    round_trip(graph)


def test_hand_written_forms_are_read() -> None:
    graph = parse_graph(
        """
        graph "g" (%x: float32[2]) {   // comments are skipped
          %c = test.constant() {value = float32[2] (0.1, 3,)} : float32[2]
          %y = test.add(%x, %c)
             : float32[2]
          return %y, %x
        }
        """
    )
    assert graph.nodes[0].attrs["value"].array.tolist() == np.array([0.1, 3], "f4").tolist()


def test_provenance_is_a_comment() -> None:
    graph = sample()
    here = Provenance(Location("model.py", 7), "rule mul-one", (Location("other\n.py", 9),))
    nodes = [replace(n, provenance=here) for n in graph.nodes]
    graph = Graph("main", graph.inputs, nodes, graph.outputs)
    text = print_graph(graph, provenance=True)
    assert "  // model.py:7 rule mul-one with other .py:9\n" in text
    assert text.count("//") == 7 + 1
    assert difference(parse_graph(text), graph) is None


def test_nodes_are_located_in_the_file() -> None:
    graph = parse_graph(print_graph(sample()), filename="m.gir")
    assert [str(n.provenance.where) for n in graph.nodes] == [
        "m.gir:2", "m.gir:3", "m.gir:4", "m.gir:5", "m.gir:16",
    ]  # fmt: skip


def test_broken_graphs_print() -> None:
    x, other = value(2), value(2)
    made = node(ADD, x, other)
    assert "test.add(%0, %?)" in print_graph(Graph("g", [x], [made], [made.output]))
    with pytest.raises(GraphError, match="cannot be a list"):
        print_graph(tagged(a=[1]))


def test_symbol_of_two_bounds_prints_but_is_refused() -> None:
    a, b = value(expressions.symbol("n", 1)), value(expressions.symbol("n", 2))
    graph = Graph("g", [a, b], [], [a])
    with pytest.raises(VerifyError, match="symbol n has bounds"):
        verify(graph)
    with pytest.raises(ParseError, match="'n' has bounds already"):
        parse_graph(print_graph(graph))


# --- errors of the parser ------------------------------------------------------------------------

HEAD = 'graph "g" (%0: float32[4], %1: float32[n]) {\n'


@pytest.mark.parametrize(
    ("body", "message", "line", "column"),
    [
        ("  %2 = test.nothing(%0) : float32[4]\n return %2 }", "called 'test.nothing'", 2, 8),
        ("  %2 = test.add(%0, %7) : float32[4]\n return %2 }", "%7 is not defined", 2, 21),
        ("  %2 = test.add(%0, %2) : float32[4]\n return %2 }", "%2 is not defined", 2, 21),
        ("  %0 = test.add(%0, %0) : float32[4]\n return %0 }", "%0 is defined already", 2, 3),
        ("  %2 = test.add(%0) : float32[4]\n return %2 }", "takes 2 operands, not 1", 2, 8),
        ("  %2 = test.add(%0, %1) : float32[4]\n return %2 }", "operands differ", 2, 8),
        ("  %2 = test.halves(%0, %0) {axis = 0} : float32[2]\n}", "2 operands", 2, 8),
        ("  %2 = test.halves(%0) : float32[2]\n return %2 }", "axis", 2, 8),
        ("  %2 = test.halves(%0) {axis = 9} : float32[2]\n return %2 }", "does not take", 2, 8),
        ("  %2 = test.negate(%0) : float32[5]\n return %2 }", "gives float32[4], the text", 2, 26),
        ("  %2 = test.halves(%0) {axis = 0} : float32[2], float32[2] }", "1 results, but 2", 2, 3),
        ("  %2 = test.tag(%0) {a = 1, a = 2} : float32[4]\n}", "given twice", 2, 29),
        ("  %2 = test.tag(%0) {a = foo} : float32[4]\n}", "expected an attribute", 2, 26),
        ("  %2 = test.tag(%0) {a = (1)} : float32[4]\n}", "a tuple of one", 2, 28),
        ("  %2 = test.tag(%0) {a = @float17} : float32[4]\n}", "unknown dtype", 2, 27),
        ("  %2 = test.tag(%0) {a = dim(n +)} : float32[4]\n}", "expected a value", 2, 30),
        ("  %2 = test.tag(%0) {a = dim(n} : float32[4]\n}", "unclosed", 2, 29),
        ("  %2 = test.tag(%0) {a = nan:0x0} : float32[4]\n}", "not a NaN", 2, 26),
        ("  %2 = test.tag(%0) {a = 0x1p+5000} : float32[4]\n}", "too large", 2, 26),
        ('  %2 = test.tag(%0) {a = "\\q"} : float32[4]\n}', "bad escape", 2, 27),
        ("  %2 = test.tag(%0) {a = int8[1] (200)} : float32[4]\n}", "not an int8", 2, 26),
        ("  %2 = test.tag(%0) {a = float32[1] (0x1.1p-149)} : float32[4]", "not a float", 2, 26),
        ("  %2 = test.tag(%0) {a = float32[2] (1)} : float32[4]\n}", "has 2 elements", 2, 26),
        ("  %2 = test.tag(%0) {a = float32[n] (1)} : float32[4]\n}", "symbolic", 2, 26),
        ("  %2 = test.tag(%0) {a = payload #00 float32[20]} : float32[4]\n}", "not among", 2, 34),
        ("  %2 = test.tag(%0) : float32[-4]\n}", "no axis", 2, 23),
        ("  %2 = test.tag(%0) : float32[4, ]\n}", "expected a value", 2, 33),
        ("  %2 = $", "unexpected character '$'", 2, 8),
        ("  return %0\n} x", "expected the end", 3, 3),
        ("  return %0\n", "the end of the text", 3, 1),
        (
            '  %2 = test.group(%0) : float32[4] {\nregion "r" (%3: float32[4]) {\nreturn %1}}',
            "%1 is outside this region", 4, 8,
        ),
        (
            '  %2 = test.group(%1) : float32[4] {\nregion "r" (%3: float32[4]) {\nreturn %3}}',
            "not of the operands' types", 2, 8,
        ),
    ],
)  # fmt: skip
def test_parser_errors_tell_where(body: str, message: str, line: int, column: int) -> None:
    text = HEAD + body
    with pytest.raises(ParseError) as caught:
        parse_graph(text)
    shown = str(caught.value).splitlines()
    assert message in str(caught.value)
    assert f"  at line {line}, column {column}" in shown
    assert shown[-1].index("^") == column - 1 + 4


def test_deep_nesting_is_refused_not_crashed() -> None:
    deep = "(" * 100_000
    with pytest.raises(ParseError, match="nested more than"):
        parse_graph(HEAD + f"%2 = test.tag(%0) {{a = {deep}")
    regions = '%1 = test.group(%0) : float32[4] { region "r" (%0: float32[4]) {' * 3000
    with pytest.raises(ParseError, match="nested more than"):
        parse_graph('graph "g" (%0: float32[4]) {' + regions)


def test_foreign_constants_are_refused() -> None:
    payload = Payload(np.arange(20.0))
    text = print_graph(tagged(a=payload))
    digest = payload.digest.hex()
    with pytest.raises(ParseError, match="is another one"):
        parse_graph(text, {digest: np.arange(20.0) + 1})
    with pytest.raises(ParseError, match="the array is"):
        parse_graph(text, {digest: np.arange(20)})


def mutate(text: str, generator: random.Random) -> str:
    pieces = [
        "%0", "{", "}", "(", ")", '"', "\\", "//", "nan", "0x", "payload #", "dim(", "..", "@",
        "region", "\n", "9" * 30, "float32[", "]", "-", "é", "\x00", ",", "select(", "**",
    ]  # fmt: skip
    for _ in range(generator.randint(1, 4)):
        start = generator.randrange(len(text))
        end = start + generator.choice([0, 1, 1, 2, 10, 80])
        kind = generator.randrange(4)
        if kind == 0:
            text = text[:start] + text[end:]
        elif kind == 1:
            text = text[:start] + generator.choice(pieces) + text[end:]
        elif kind == 2:
            text = text[:start] + text[start:end] * 2 + text[end:]
        else:
            other = generator.randrange(len(text))
            text = text[:start] + text[other : other + end - start] + text[end:]
        text = text or " "
    return text


@pytest.mark.parametrize("seed", range(5))
def test_mutated_text_raises_only_graphc_errors(seed: int) -> None:
    generator = random.Random(seed)
    text = print_graph(sample())
    survivors = 0
    for _ in range(400):
        changed = mutate(text, generator)
        try:
            graph = parse_graph(changed)
        except GraphcError:
            continue
        verify(graph)
        survivors += 1
        again = parse_graph(print_graph(graph))
        assert structural_hash(again) == structural_hash(graph), changed
    assert survivors > 0


ATTRIBUTES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from(dtypes.ALL),
    lambda inner: st.lists(inner, max_size=4).map(tuple),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.text(min_size=1, max_size=8), ATTRIBUTES, max_size=4))
def test_any_attributes_round_trip(attrs: dict[str, Any]) -> None:
    x = value(2)
    made = Node(TAG, (x,), attrs, (value(2),))
    round_trip(Graph("g", [x], [made], [made.output]))


# --- equality and hash ---------------------------------------------------------------------------


def test_names_labels_and_lines_do_not_count() -> None:
    text = print_graph(sample())
    renamed = text.replace('"main"', '"other"').replace('"loss"', '"x"').replace('"body"', '""')
    a, b = parse_graph(text), parse_graph(renamed, filename="other.gir")
    assert difference(a, b) is None
    assert structural_hash(a) == structural_hash(b)


BASE = HEAD + (
    '  %2 = test.tag(%0) {a = 0x0p+0, b = 1} : float32[4]\n'
    '  %3 = test.group(%2) : float32[4] {\n'
    '    region "r" (%0: float32[4]) {\n      %1 = test.add(%0, %0) : float32[4]\n'
    '      return %1\n    }\n  }\n  return %3, %2\n}\n'
)  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("0x0p+0", "-0x0p+0", "node 0 (test.tag): attributes"),
        ("b = 1", "b = True", "attributes"),
        ("b = 1", 'b = "1"', "attributes"),
        ("b = 1", "c = 1", "attributes"),
        ("return %3, %2", "return %2, %3", "outputs: %3, %2 against %2, %3"),
        ("return %3, %2", "return %3", "outputs"),
        ("(%0: float32[4], %1", "(%1", "inputs"),
        ("float32[n]", "float32[m]", "inputs"),
        ('"g" (', '"g" dims (n: 1..) (', "different bounds"),
        ("return %1\n    }", "return %0\n    }", "region 0, outputs: %1 against %0"),
        ("%1 = test.add(%0, %0)", "%1 = test.negate(%0)", "region 0, node 0 (test.add): op"),
        ("test.group(%2)", "test.group(%0)", "operands %2 against %0"),
        ("  return %3, %2", "  %4 = test.negate(%2) : float32[4]\n  return %3, %2", "nodes"),
    ],
)
def test_everything_else_counts(old: str, new: str, message: str) -> None:
    changed = BASE.replace(old, new)
    if old.startswith("(%0: float32[4], %1"):
        changed = BASE.replace("(%0: float32[4], %1: float32[n])", "(%0: float32[4])")
    assert changed != BASE
    a, b = parse_graph(BASE), parse_graph(changed)
    assert message in str(difference(a, b))
    assert difference(a, b) is not None
    assert structural_hash(a) != structural_hash(b)


def test_order_of_nodes_counts() -> None:
    lines = BASE.splitlines()
    extra = "  %9 = test.negate(%0) : float32[4]"
    a = parse_graph("\n".join([*lines[:2], extra, *lines[2:]]))
    b = parse_graph("\n".join([lines[0], extra, *lines[1:]]))
    assert structural_hash(a) != structural_hash(b)


def test_hash_is_the_same_in_every_process() -> None:
    script = (
        "import tiny_ops\n"
        "from graphc.ir.equal import structural_hash\n"
        "with tiny_ops.registered(): print(structural_hash(tiny_ops.sample()), end='')"
    )
    for seed in ("0", "1"):
        environment = {
            **os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{SUPPORT}:{ROOT}",
        }  # fmt: skip
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert done.stdout == structural_hash(sample())


def test_hash_of_undefined_values_is_refused() -> None:
    with pytest.raises(VerifyError, match="not defined"):
        _ = structural_hash(Graph("g", [], [], [value(2)]))


def test_long_chains_print_hash_parse_and_verify_in_linear_time() -> None:
    def round_trip(count: int) -> Callable[[], None]:
        graph = chain(count)

        def run() -> None:
            text = print_graph(graph)
            assert structural_hash(graph)
            back = parse_graph(text)
            verify(back)
            assert difference(graph, back) is None

        return run

    round_trip(20_000)()
    assert_linear(round_trip, 250)
