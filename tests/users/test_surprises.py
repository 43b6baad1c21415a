"""Small mistakes and odd spellings of users: each works, or says what is wrong and where."""

from __future__ import annotations

import copy
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import child_environment

import graphc as gx
from graphc.base import target
from graphc.ir.equal import structural_hash
from graphc.ir.graph import Graph
from graphc.ir.text.parser import parse_graph
from graphc.plan.printer import constants_of, parse_plan, print_plan

pytestmark = pytest.mark.check_mode

HERE = Path(__file__).name


@pytest.fixture
def graph() -> Any:
    with gx.Graph() as graph:
        yield graph


def raised(kind: type[gx.GraphcError], text: str, call: Any) -> gx.GraphcError:
    """The error that a call raises, which names a line of this file."""
    with pytest.raises(kind, match=text) as caught:
        call()
    where = caught.value.where
    assert where is not None and Path(where.filename).name == HERE
    return caught.value


# --- dims ----------------------------------------------------------------------------------------


def test_dims_in_attributes_need_their_placeholder(graph: Any) -> None:
    x = gx.placeholder((None, 3), name="x")
    rows = gx.dim(x.shape[0])
    filled = gx.zeros(()) + gx.cond(True, lambda: rows * 2, lambda: rows)
    session = gx.Session(graph)
    assert session.run(rows, {x: np.zeros((7, 3))}) == 7
    assert session.run(filled, {x: np.zeros((7, 3))}) == 14
    with pytest.raises(gx.FeedError, match="x"):
        session.run(rows)


def test_fresh_symbols_never_meet_names_of_users(graph: Any, tmp_path: Path) -> None:
    first = gx.placeholder((None,), name="first")
    named = gx.placeholder(("d1",), name="named")
    assert str(first.shape) != str(named.shape)
    feeds = {"first": np.ones(2), "named": np.ones(3)}
    sums = [gx.sum(first), gx.sum(named)]
    assert gx.Session(graph).run(sums, feeds) == [2, 3]
    gx.save(tmp_path / "graph.gir", sums)
    loaded = gx.load(tmp_path / "graph.gir")
    assert gx.Session(loaded[0].graph).run(loaded, feeds) == [2, 3]
    with loaded[0].graph:
        fresh = gx.placeholder((None,))
    assert str(fresh.shape) not in (str(first.shape), str(named.shape))


@pytest.mark.parametrize("name", ["", "_d1", "_rows", "2*n", "a b", "f(n, m)", "*/"])
def test_names_of_dims_that_are_refused(graph: Any, name: str) -> None:
    raised(gx.ShapeError, "not a name of a dim", lambda: gx.placeholder((name,)))


# --- options -------------------------------------------------------------------------------------


def test_arguments_beat_the_environment_field_by_field(
    graph: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHC", "verify,fuel=7,threads=2")
    session = gx.Session(graph, options=gx.Options(fuel=9))
    assert (session.options.fuel, session.options.verify, session.threads) == (9, True, 2)
    session = gx.Session(graph, options=gx.Options(threads=1), threads=3)
    assert (session.options.threads, session.threads, session.options.fuel) == (3, 3, 7)


def test_options_that_are_none(graph: Any) -> None:
    raised(gx.GraphError, "threads=0", lambda: gx.Session(graph, threads=0))
    given: Any = {"verify": True}
    error = raised(gx.GraphError, "verify", lambda: gx.Session(graph, options=given))
    assert error.hint is not None and "gx.Options" in error.hint


def test_an_unknown_pass_to_switch_off(graph: Any) -> None:
    options = gx.Options(off=frozenset(["nonsense"]))
    error = raised(gx.GraphError, "nonsense", lambda: gx.Session(graph, options=options))
    assert error.hint is not None and "cse" in error.hint


# --- structures ----------------------------------------------------------------------------------


def test_branches_of_different_structures(graph: Any) -> None:
    v = gx.placeholder((3,), name="v")
    raised(
        gx.ShapeError,
        "the else branch gives a dict with keys 'a', 'b' where a list of 2 is expected",
        lambda: gx.cond(True, lambda: [v, v], lambda: {"a": v, "b": v}),
    )


# --- sizes and indices at run time ---------------------------------------------------------------


@pytest.mark.parametrize("index", [5, -3])
def test_an_index_out_of_range_at_run_time(graph: Any, index: int) -> None:
    v = gx.placeholder((None,), name="v")
    value = v[index]
    raised(
        gx.IndexRangeError,
        f"^index {index} is out of range for axis 0 of size 2\n",
        lambda: gx.Session(graph).run(value, {v: np.zeros(2)}),
    )
    assert gx.Session(graph).run(value, {v: np.arange(6.0)}) == np.arange(6.0)[index]


@pytest.mark.parametrize("name", ["max", "min", "argmax", "argmin"])
def test_an_empty_reduction_at_run_time(graph: Any, name: str) -> None:
    v = gx.placeholder((None,), name="v")
    value = getattr(gx, name)(v)
    raised(
        gx.ShapeError,
        rf"^{name} of an empty axis 0 of \[0\] has no value\n",
        lambda: gx.Session(graph).run(value, {v: np.zeros(0)}),
    )


def test_a_failed_broadcast_at_run_time_names_sizes(graph: Any) -> None:
    v, w = gx.placeholder((None,), name="v"), gx.placeholder((None, 4), name="w")
    total, wide = v + w, gx.broadcast_to(v, (3, 4))
    feeds = {v: np.zeros(2), w: np.zeros((3, 4))}
    raised(
        gx.ShapeError,
        r"^add: shapes \[2\] and \[3, 4\] do not broadcast\n",
        lambda: gx.Session(graph).run(total, feeds),
    )
    raised(
        gx.ShapeError,
        r"^cannot broadcast \[2\] to \[3, 4\]\n",
        lambda: gx.Session(graph).run(wide, feeds),
    )


def test_the_interpreter_says_the_same(graph: Any) -> None:
    from graphc.checking.interpreter import evaluate

    v = gx.placeholder((None,), name="v")
    source: Graph = gx.Session(graph).compile(v[5]).source
    raised(gx.IndexRangeError, "^index 5 is out of range", lambda: evaluate(source, [np.zeros(2)]))


def test_guards_in_texts(graph: Any) -> None:
    v, w = gx.placeholder((None,), name="v"), gx.placeholder(("n",), name="w")
    executable = gx.Session(graph).compile([v[5], gx.max(v), v + w, gx.broadcast_to(v, (4,))])
    plan = executable.compiled.plan
    text = print_plan(plan)
    back = parse_plan(text, constants_of(plan))
    assert back.guards == plan.guards and len(plan.guards) >= 4
    assert print_plan(back) == text
    source = executable.source
    assert structural_hash(parse_graph(str(source))) == structural_hash(source)


@pytest.mark.parametrize("label", [-1, 5])
def test_labels_are_classes(graph: Any, label: int) -> None:
    logits = gx.placeholder((None, 5), name="logits")
    labels = gx.placeholder((None,), "int64", name="labels")
    loss = gx.nn.softmax_cross_entropy(logits, labels)
    (gradient,) = gx.gradients(gx.sum(loss), [logits])
    text = f"index {label} is out of range for axis 1 of size 5"
    for value in (loss, gradient):
        session = gx.Session(graph)
        feeds = {logits: np.zeros((2, 5)), labels: [4, label]}
        raised(gx.IndexRangeError, text, lambda s=session, v=value, f=feeds: s.run(v, f))
        assert np.isfinite(session.run(value, {**feeds, labels: [4, 0]})).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_scatter_add_has_the_bits_of_numpy(graph: Any, dtype: str) -> None:
    rng = np.random.default_rng(5)

    def spread(*shape: int) -> Any:
        return (rng.normal(size=shape) * 10.0 ** rng.integers(-6, 6, shape)).astype(dtype)

    base, updates, indices = spread(7, 5), spread(900, 5), rng.integers(-7, 7, 900)
    given = [gx.placeholder(a.shape, str(a.dtype)) for a in (base, indices, updates)]
    found = gx.Session(graph).run(
        gx.scatter_add(*given), dict(zip(given, (base, indices, updates), strict=True))
    )
    np.add.at(base, indices, updates)
    assert found.tobytes() == base.tobytes()


# --- spellings -----------------------------------------------------------------------------------


def test_numpy_functions_of_values(graph: Any) -> None:
    x = gx.placeholder((None, 3), name="x")
    numpy: Any = np
    assert numpy.shape(x) == x.shape
    assert (numpy.ndim(x), numpy.size(x), numpy.size(x, 1)) == (2, x.size, 3)
    assert numpy.mean(x, axis=0).shape == (3,)
    raised(gx.UnsupportedError, "np.mean.*'dtype'", lambda: numpy.mean(x, dtype="float64"))
    raised(gx.UnsupportedError, "np.sum.*'where'", lambda: numpy.sum(x, where=True))


@pytest.mark.parametrize("feeds", [[1], 5, []])
def test_feeds_that_are_no_mapping(graph: Any, feeds: Any) -> None:
    v = gx.placeholder((1,), name="v")
    raised(gx.FeedError, "not a mapping", lambda: gx.Session(graph).run(v, feeds))


def test_control_dependencies_of_one_value(graph: Any) -> None:
    variable = gx.variable(np.zeros(2))
    written = variable.assign(np.ones(2))
    with gx.control_dependencies(written):
        result = gx.constant(1.0) + 1
    session = gx.Session(graph)
    session.run(result)
    assert session.get(variable).tolist() == [1, 1]
    raised(gx.GraphError, "neither a value nor an effect", lambda: gx.control_dependencies([3]))
    raised(
        gx.GraphError, "is not a variable of this session's graph", lambda: session.get(result)
    )


def test_dtypes_that_there_are_not(graph: Any) -> None:
    raised(gx.DTypeError, "longdouble", lambda: gx.constant(np.zeros(2, np.longdouble)))
    raised(gx.DTypeError, "float6_e2m3fn", lambda: gx.constant(0.0, dtype="float6_e2m3fn"))


def test_text_of_kernels(graph: Any) -> None:
    x = gx.placeholder((4,), name="x")
    executable = gx.Session(graph).compile(gx.exp(x))
    assert executable.kernel_ir().startswith('kernel "exp"')


# --- imports -------------------------------------------------------------------------------------


def test_other_platforms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    with pytest.warns(RuntimeWarning, match="Darwin on arm64"):
        target.warn_of_platform()
    with pytest.raises(gx.UnsupportedError, match="Darwin on arm64"):
        target.host.__wrapped__()
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert target.unsupported_platform() is None


def test_importing_elsewhere_warns() -> None:
    program = "import platform; platform.system = lambda: 'Windows'; import graphc"
    done = subprocess.run(
        [sys.executable, "-c", program], env=child_environment(), capture_output=True, text=True
    )
    assert done.returncode == 0 and "Windows on" in done.stderr


def test_registry_does_not_depend_on_imports() -> None:
    program = """
from graphc.ir.op import all_ops
known = {op.name for op in all_ops()}
import graphc.compiling.compiler, graphc.frontend.saving, graphc.session.session
assert {"requires", "effect", "structure"} <= known == {op.name for op in all_ops()}
"""
    subprocess.run([sys.executable, "-c", program], env=child_environment(), check=True)


def test_a_value_is_its_identity_and_so_is_a_copy_of_it() -> None:
    """Fault 10."""
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        v = gx.variable(np.ones(3, "float32"), name="v")
        y = x + v
    assert copy.copy(y) is y and copy.copy(v) is v and copy.copy(graph) is graph
    session = gx.Session(graph)
    assert session.run(copy.copy(y), {copy.copy(x): np.ones(3)}).tolist() == [2.0, 2.0, 2.0]
    # a deep copy is of the whole graph, whose values are others
    other = copy.deepcopy(y)
    with pytest.raises(gx.GraphError, match="belongs to another graph"):
        session.run(other, {x: np.ones(3)})
    again, given = copy.deepcopy((y, x))
    assert gx.Session(again.graph).run(again, {given: np.ones(3)}).tolist() == [2.0, 2.0, 2.0]
