"""Effects run in order, where they are asked for; ``gx.print``, ``check`` and ``summary``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.frontend.host_calls import Summary

LEVELS = (0, 1, 2, 3)

pytestmark = pytest.mark.check_mode


def each_session(graph: Any) -> list[gx.Session]:
    return [
        gx.Session(graph, options=gx.Options(optimize=level, verify=True, threads=threads))
        for level in LEVELS
        for threads in (1, 2)
    ]


# --- order ---------------------------------------------------------------------------------------


def _noting(calls: list[Any]) -> Callable[..., Any]:
    def build(label: str, *values: Any, **options: Any) -> Any:
        def note(*arrays: Any) -> None:
            calls.append((label, *(array.tolist() for array in arrays)))

        return gx.host_call(note, *values, ordered=True, **options)

    return build


def test_effects_run_in_the_order_of_building_if_they_are_asked_for() -> None:
    calls: list[Any] = []
    note = _noting(calls)
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        effects = [note(str(n), gx.exp(x) * 0 + n if n % 2 else x * n) for n in range(9)]
        with gx.control_dependencies(effects[4]):
            y = x + 1
        grouped = gx.group(effects[7], effects[5], effects[6], name="some")
    for session in each_session(graph):
        for fetches, wanted in (
            (effects[::-1], range(9)),
            ([effects[8], effects[0]], (0, 8)),
            (y, (4,)),
            (grouped, (5, 6, 7)),
            (["some", y], (4, 5, 6, 7)),
            (x + 1, ()),
        ):
            for _ in range(2):
                calls.clear()
                session.run(fetches, {x: 1})
                assert calls == [(str(n), float(n)) for n in wanted]


def test_results_of_ordered_calls_ask_for_them() -> None:
    count = iter(range(1000))
    with gx.Graph() as graph:
        first, second, third = (
            gx.host_call(lambda: next(count), result_types=((), "int64"), ordered=True)
            for _ in range(3)
        )
    session = gx.Session(graph)
    assert session.run([third, first, second]) == [2, 0, 1]
    assert session.run(second) == 3
    assert session.run([third, first]) == [5, 4]


def test_effects_of_branches_and_bodies_run_when_these_do() -> None:
    calls: list[Any] = []
    note = _noting(calls)
    with gx.Graph() as graph:
        x = gx.placeholder((), "int64", name="x")
        before = note("before", x)

        def body(i: Any, s: Any) -> Any:
            note("turn", i)
            odd = gx.cond(i % 2 == 1, lambda: (note("odd", i, s), s + 1)[1], lambda: s + 2)
            note("end", odd)
            return i + 1, odd

        _, total = gx.while_loop(lambda i, s: i < 3, body, (0, x))
        after = note("after", total)
    turns = [
        ("turn", 0), ("end", 12), ("turn", 1), ("odd", 1, 12), ("end", 13),
        ("turn", 2), ("end", 15),
    ]  # fmt: skip
    for session in each_session(graph):
        for fetches, expected in (
            (total, turns),
            ([after, before], [("before", 10), *turns, ("after", 15)]),
            ([before], [("before", 10)]),
        ):
            calls.clear()
            session.run(fetches, {x: 10})
            assert calls == expected


def test_a_branch_may_do_and_give_nothing() -> None:
    calls: list[Any] = []
    note = _noting(calls)

    def doing() -> None:
        note("then")

    with gx.Graph() as graph:
        p = gx.placeholder((), "bool", name="p")
        effect = gx.cond(p, doing, lambda: None)
        given = gx.cond(p, lambda: (note("a"), p), lambda: (note("b"), p))
    assert isinstance(effect, gx.Effect) and isinstance(given[0], gx.Effect)
    for session in each_session(graph):
        calls.clear()
        assert session.run(effect, {p: False}) is None and not calls
        assert session.run(effect, {p: True}) is None and calls == [("then",)]
        session.run([given[0], effect], {p: True})
        assert calls[1:] == [("then",), ("a",)]
        assert session.run(given[1], {p: False}) == False  # noqa: E712
        assert calls[3:] == [("b",)]


def test_effects_and_assignments_go_together() -> None:
    calls: list[Any] = []
    note = _noting(calls)
    with gx.Graph() as graph:
        v = gx.variable(0, name="v")

        def body(i: Any) -> Any:
            v.assign_add(i)
            note("v", v.read())
            return [i + 1]

        (end,) = gx.while_loop(lambda i: i < 4, body, [0])
        step = gx.group(v.read())
    for session in each_session(graph):
        calls.clear()
        session.run([end, step])
        assert calls == [("v", 0), ("v", 1), ("v", 3), ("v", 6)]
        assert session.get(v) == 6


def test_a_condition_of_a_loop_has_no_effects() -> None:
    with gx.Graph(), pytest.raises(gx.GraphError, match="has ordered effects"):
        gx.while_loop(lambda i: (gx.print("{}", i), i < 3)[1], lambda i: [i + 1], [0])


def test_a_failed_run_changes_no_variable_and_the_session_goes_on() -> None:
    fails = [True]

    def sometimes(a: Any) -> Any:
        if fails[0]:
            raise ZeroDivisionError("no good")
        return a

    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        v = gx.variable(np.zeros(3, np.float32), name="v")
        new = v.assign_add(x)
        y = gx.host_call(sometimes, new, result_types=x)
    for session in each_session(graph):
        fails[0] = True
        for _ in range(2):
            with pytest.raises(gx.HostCallError, match="ZeroDivisionError: no good") as caught:
                session.run([new, y], {x: np.ones(3, np.float32)})
            assert isinstance(caught.value.__cause__, ZeroDivisionError)
            trace = caught.value.__cause__.__traceback__
            assert trace is not None and trace.tb_next is not None
            assert "gx.host_call(sometimes" in str(caught.value)
            assert not session.get(v).any()
        fails[0] = False
        np.testing.assert_array_equal(session.run(y, {x: np.ones(3, np.float32)}), np.ones(3))
        np.testing.assert_array_equal(session.get(v), np.ones(3))


# --- print, check, summary -----------------------------------------------------------------------


def test_print(capsys: pytest.CaptureFixture[str]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        plain = gx.print(x, 3)
        formed = gx.print("{1:.2f} of {0} {{}}", gx.sum(x), x)
        y = gx.print("passed", passing=gx.exp(x)) * 2
        slope = gx.gradients(y, x)
    session = gx.Session(graph)
    given = np.array([0.0, 1.0], np.float32)
    session.run([formed, plain], {x: given})
    assert capsys.readouterr().out == "[0. 1.] 3\n[0.00 1.00] of 1.0 {}\n"
    np.testing.assert_allclose(session.run(slope, {x: given}), 2 * np.exp(given), rtol=1e-6)
    assert capsys.readouterr().out == "passed\n"
    session.run([slope, y], {x: given})
    assert capsys.readouterr().out == "passed\n"
    session.run(x * 2, {x: given})
    assert capsys.readouterr().out == ""


def test_texts_may_name_elements_and_consoles_may_lack(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with gx.Graph() as graph:
        said = gx.print("{0[2]} of {0}", np.arange(5))
        with pytest.raises(gx.GraphError, match="there is no value 1"):
            gx.print("{} and {}", 1)
    session = gx.Session(graph)
    session.run(said)
    assert capsys.readouterr().out == "2 of [0 1 2 3 4]\n"
    monkeypatch.setattr(sys, "stdout", None)
    session.run(said)


def test_errors_that_have_no_text_are_told() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError

    def fail(array: Any) -> Any:
        raise Mute

    with gx.Graph() as graph:
        result = gx.host_call(fail, 1.0, result_types=((), "float32"))
    with pytest.raises(gx.HostCallError, match="fail raised Mute"):
        gx.Session(graph).run(result)


def test_check() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None, 2), name="x")
        y = gx.check(x > 0, "sum is {:.1f}", gx.sum(x), passing=x) * 2
        slope = gx.gradients(y, x)
        scalar = gx.check(gx.sum(x) < 100, name="small")
    good = np.array([[1, 2], [3, 4]], np.float32)
    for session in each_session(graph):
        np.testing.assert_array_equal(session.run(y, {x: good}), good * 2)
        for fetch in (y, slope):
            with pytest.raises(gx.CheckError) as caught:
                session.run(fetch, {x: np.array([[1, 2], [-3, 4], [-5, 1]], np.float32)})
            assert caught.value.message == "sum is 0.0 (at [1, 0], and 1 more of 6)"
            assert isinstance(caught.value, AssertionError)
            assert "gx.check(x > 0" in str(caught.value)
        assert session.run(["small", scalar], {x: good}) == [None, None]
        with pytest.raises(gx.CheckError, match="a condition does not hold"):
            session.run("small", {x: good * 50})
        np.testing.assert_array_equal(session.run(y, {x: good[:0]}), good[:0])


def test_checks_run_no_python_while_they_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphc.ir.host import HostFunction

    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        y = gx.check(x > 0, passing=x)
    exe = gx.Session(graph, options=gx.Options(cache="off")).compile(y, [x])
    exe(np.ones(3, np.float32))
    monkeypatch.setattr(HostFunction, "__call__", None)
    exe(np.ones(3, np.float32))


def test_summary(capsys: pytest.CaptureFixture[str]) -> None:
    found: list[Summary] = []
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        shown = gx.summary(x)
        y = gx.summary(x * 2, "double", callback=found.append, passing=x)
        counts = gx.summary(gx.astype(x, "int8"), "counts")
    session = gx.Session(graph)
    given = np.array([1, np.nan, np.inf, -3.0])
    session.run([shown, y], {x: given})
    assert capsys.readouterr().out == (
        "x: float64[4], min -3, mean inf, max inf, 1 NaN, 1 infinite\n"
    )
    assert found == [Summary("double", "float64", (4,), -6.0, np.inf, np.inf, 1, 1)]
    session.run([y, counts], {x: np.zeros(0)})
    assert "counts: int8[0], min nan, mean nan, max nan, 0 NaN" in capsys.readouterr().out
    assert np.isnan(found[1].least) and found[1].shape == (0,)


def test_complex_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with gx.Graph() as graph:
        z = gx.placeholder((2,), "complex64", name="z")
        told = gx.summary(z)
        y = gx.host_call(np.conj, gx.check(gx.abs(z) > 1, passing=z) * 2, result_types=z)
        shown = gx.print(y)
    for session in each_session(graph):
        found = session.run([y, told, shown], {z: np.array([3 + 4j, 2])})
        np.testing.assert_array_equal(found[0], [6 - 8j, 4])
        assert capsys.readouterr().out == (
            "z: complex64[2], min 2, mean 3.5, max 5, 0 NaN, 0 infinite\n[6.-8.j 4.-0.j]\n"
        )
