"""Where graphs with Python functions can go, and where they can't; looking at them."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import print_graph
from graphc.plan.parser import parse_plan
from graphc.plan.printer import constants_of, print_plan

LEVELS = (0, 1, 2, 3)

pytestmark = pytest.mark.check_mode


def each_session(graph: Any) -> list[gx.Session]:
    return [
        gx.Session(graph, options=gx.Options(optimize=level, verify=True, threads=threads))
        for level in LEVELS
        for threads in (1, 2)
    ]


# --- where they can't go -------------------------------------------------------------------------


def test_files_libraries_and_capsules_refuse_them(tmp_path: Any) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.host_call(np.sort, x, result_types=x)
        z = gx.check(x > 0, passing=x)
        p = gx.print(x)
    session = gx.Session(graph)
    for fetch, name in ((y, "sort"), (z, "check"), (p, "print")):
        for refused in (
            lambda fetch=fetch: gx.save(tmp_path / "a.gir", fetch),
            lambda fetch=fetch: gx.aot.compile(session.compile(fetch, [x]), tmp_path / "library"),
        ):
            with pytest.raises(gx.UnsupportedError, match=f"can't hold {name}") as caught:
                refused()
            assert caught.value.where is not None and caught.value.where.filename == __file__
    assert not [*tmp_path.iterdir()]


def test_programs_that_call_python_are_not_kept_on_disk(tmp_path: Path) -> None:
    def program(factor: float) -> tuple[gx.Session, Any, Any]:
        with gx.Graph() as graph:
            x = gx.placeholder((3,), name="x")
            y = gx.host_call(lambda a: a * np.float32(factor), x, result_types=x, name="same")
        return gx.Session(graph, options=gx.Options(cache=str(tmp_path))), x, y

    for factor in (2.0, 3.0):
        session, x, y = program(factor)
        np.testing.assert_array_equal(session.run(y, {x: np.ones(3, np.float32)}), [factor] * 3)
        (made,) = session.compilations
        assert made.cache.endswith("this process alone knows: same")


def test_the_text_of_a_graph_names_functions_of_this_process() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.host_call(np.sort, x, result_types=x, name='a "name"')
        p = gx.print(x)
    compiled = gx.Session(graph).compile([y, p], [x]).compiled
    text = print_graph(compiled.source)
    assert print_graph(parse_graph(text, {})) == text
    with pytest.raises(gx.ParseError, match="no Python function"):
        parse_graph(text.replace('\\"name', '\\"other'), {})


def test_sessions_of_functions_that_pickle_do_too() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.host_call(np.sort, x, result_types=x)
        p = gx.check(x > 0, passing=y)
    graph, x, p = pickle.loads(pickle.dumps((graph, x, p)))
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(p, {x: np.array([3, 1, 2], "float32")}), [1, 2, 3])
    with pytest.raises(gx.CheckError):
        session.run(p, {x: np.zeros(3, "float32")})


# --- looking at them -----------------------------------------------------------------------------


def test_inspection_shows_calls(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.exp(gx.host_call(np.sort, x * 2, result_types=x, name="sorted")) + 1
        (z,) = gx.while_loop(
            lambda s: gx.sum(s) < 10,
            lambda s: [s + gx.host_call(np.abs, s, result_types=x, name="size")],
            [gx.abs(y)],
        )
    given = np.ones(3, np.float32)
    exe = gx.Session(graph, options=gx.Options(verify=True)).compile(z, [x])
    assert "host_call" in str(exe.explain(graph.find("sorted")))
    plan = print_plan(exe.compiled.plan)
    assert 'host "sorted" ' in plan and 'host "size" ' in plan
    assert print_plan(parse_plan(plan, constants_of(exe.compiled.plan))) == plan
    assert "sorted" in str(exe.profile(given))
    exe.report(tmp_path / "report.html")
    assert "host sorted" in (tmp_path / "report.html").read_text()


def test_check_mode_calls_no_function() -> None:
    calls: list[Any] = []

    def noted(a: Any) -> Any:
        calls.append(a)
        return a

    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        y = gx.exp(gx.host_call(noted, x * 2 + 1, result_types=x, ordered=True)) * 3 / 3
        z = gx.check(y > 0, passing=y)
    session = gx.Session(graph, options=gx.Options(check=True, cache="off"))
    exe = session.compile(z, [x])
    assert not calls
    given = np.linspace(0, 1, 5, dtype=np.float32)
    np.testing.assert_allclose(exe(given), np.exp(given * 2 + 1), rtol=1e-6)
    assert len(calls) == 1
