"""Graphs of the cases about sessions: feeds, fetches, variables, names, compilations."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from cases.measure import MEGABYTE, memory_growth
from cases.registry import CaseRun, case


@case("ses-fetch-placeholder", feeds_only=True)
def fetch_placeholder_and_constant(run: CaseRun) -> list[Any]:
    x, c = run.input("x"), run.input("c")
    y = x + c
    fed = np.array(run.inputs["x"])
    with gx.Session() as session:
        for _ in range(2):
            outputs = session.run([x, x, y, y, c], {x: fed})
            kept = [output.copy() for output in outputs]
            for k, output in enumerate(outputs):
                output[...] = -99.0
                run.agree(outputs[k + 1 :], kept[k + 1 :])
            run.agree(kept, run.expected)
            nested = session.run({"a": x, "b": [y, c]}, {x: fed})
            assert isinstance(nested["b"], list) and nested.keys() == {"a", "b"}
            run.agree([nested["a"], *nested["b"]], [run.expected[k] for k in (0, 2, 4)])
            nested["b"][1][...] = -99.0
    run.agree([fed, run.inputs["c"]], [run.expected[0], run.expected[4]])
    return kept


@case("ses-view-output", feeds_only=True)
def fetch_views(run: CaseRun) -> list[Any]:
    x = run.input("x")
    fed = np.array(run.inputs["x"])
    y = x * 2
    fetches = [gx.reshape(x, (2, 3)), x[::2], y, gx.reshape(y, (3, 2)), gx.reshape(x, (2, 3)).T]
    with gx.Session() as session:
        outputs = session.run(fetches, {x: fed})
    third = outputs[2].copy()
    fed[:] = -1
    outputs[2][:] = 0
    return [*outputs[:2], third, *outputs[3:]]


@case("ses-feed-intermediate", feeds_only=True)
def feed_an_intermediate_value(run: CaseRun) -> list[Any]:
    x_fed, y_fed = run.inputs["x"], run.inputs["y"]
    x = gx.placeholder((2,), "float64", name="x")
    y = x + 1
    z = y * 2
    with gx.Session() as session:
        outputs = [
            session.run(z, {y: y_fed}),
            session.run(z, {x: x_fed, y: y_fed}),
            session.run(z, {x: x_fed}),
        ]
        with pytest.raises(gx.FeedError):
            session.run(z, {y: np.zeros(3)})
        with pytest.raises(gx.FeedError):
            session.run(z, {})
        run.agree(session.run([z, y], {y: y_fed}), [run.expected[0], y_fed])
        run.agree([session.run(z, {x: x_fed})], run.expected[2:])
    return outputs


@case("ses-feed-kinds", feeds_only=True)
def feeds_of_every_kind(run: CaseRun) -> list[Any]:
    x = gx.placeholder((None, 3), "float32", name="x")
    y = x * 2
    masked = np.ma.masked_array(np.ones((1, 3), np.float32), mask=[[False, True, False]])
    wrong: list[Any] = [
        np.array(1.0, np.float32),
        np.ones((2, 4), np.float32),
        None,
        [["a", "b", "c"]],
        np.array([["1", "2", "3"]]),
        np.ones((1, 3), complex),
        masked,
        [[1, 2, 3], [4]],
    ]
    count = gx.placeholder((), "int8", name="count")
    with gx.Session() as session:
        outputs = [session.run(y, {x: run.inputs[name]}) for name in "ldi"]
        for feed in wrong:
            with pytest.raises(gx.FeedError) as raised:
                session.run(y, {x: feed})
            assert "x" in str(raised.value)
        with pytest.raises(gx.FeedError) as raised:
            session.run(y, {x: wrong[1]})
        message = str(raised.value)
        assert "2, 4" in message, "the error does not name the shape that was given"
        assert ", 3)" in message, "the error does not name the shape that was expected"
        for feed in (1.5, 128, -129):
            with pytest.raises(gx.FeedError):
                session.run(count + 1, {count: feed})
        buffer = memoryview(np.ones((2, 3), np.float32))
        kinds = [
            buffer,
            np.ma.masked_array(np.ones((2, 3), np.float32)),
            np.ones((2, 3), bool),
            np.ones((2, 3), ">f4"),
            np.ones((3, 2), np.float32).T,
        ]
        run.agree([session.run(y, {x: kind}) for kind in kinds], [run.expected[1]] * len(kinds))
    assert all(output.dtype == np.float32 for output in outputs)
    return outputs


@case("ses-variables")
def variable_reads_and_updates(run: CaseRun) -> list[Any]:
    v = gx.variable(np.array(1.0), name="v")
    update = v.assign(v + 1)
    a = gx.variable(np.array(3.0), name="a")
    b = gx.variable(np.array(5.0), name="b")
    swap = [a.assign(b), b.assign(a)]
    with gx.Session() as session:
        before, updated, again = session.run([v, update, v])
        run.agree([before, again, session.get(v)], [np.array(1.0), np.array(1.0), np.array(2.0)])
        second = session.run([v, update, v])
        run.agree(second, [np.array(2.0), np.array(3.0), np.array(2.0)])
        run.agree([before, updated], run.expected[:2])
        session.run(swap)
        swapped = np.array([session.get(a), session.get(b)])
        run.agree([session.run(v)], [np.array(3.0)])
    with gx.Session() as other:
        run.agree([other.run(v)], [np.array(1.0)])
    return [before, updated, swapped]


@case("ses-growth")
def two_thousand_runs(run: CaseRun) -> list[Any]:
    x = run.input("x")
    fixed = -x
    with gx.Session() as session, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output = session.run(fixed, run.feeds)
        with memory_growth() as growth:
            for _ in range(2000):
                run.agree([session.run(-x, run.feeds)], run.expected)
        assert session.compile_count == 1 or caught, "compiled again and again, without a word"
        with memory_growth() as fixed_growth:
            for _ in range(2000):
                session.run(fixed, run.feeds)
    assert growth.final < 20 * MEGABYTE
    assert fixed_growth.final < 5 * MEGABYTE
    return [output]


@case("ses-dup-names", feeds_only=True)
def duplicate_and_odd_names(run: CaseRun) -> list[Any]:
    x = gx.placeholder((), "float64", name="x")
    y = gx.placeholder((), "float64", name="x")
    names = ["with space", "größe/π", "a/b/c", 'quote" \\ and\nline', "long" * 1000]
    odd = [gx.placeholder((), "float64", name=name) for name in names]
    difference = x - y
    total = odd[0]
    for value in odd[1:]:
        total = total * 2 + value
    feeds = {x: run.inputs["x"], y: run.inputs["y"]}
    odd_feeds = {name: float(k) for k, name in enumerate(names)}
    with gx.Session() as session:
        output = session.run(difference, feeds)
        run.agree([session.run(total, odd_feeds)], [np.array(26.0)])
        for name in names:
            run.agree([session.run(name, odd_feeds)], [np.array(odd_feeds[name])])
        for ambiguous in (
            lambda: session.run(difference, {"x": 1.0}),
            lambda: session.run("x", feeds),
        ):
            with pytest.raises(gx.NameLookupError) as raised:
                ambiguous()
            # Both candidates are named with their lines.
            assert str(raised.value).count(Path(__file__).name) >= 2
        with pytest.raises(gx.NameLookupError):
            session.run("nowhere", feeds)
        # An empty name works as a label, or is refused in words.
        try:
            empty = gx.placeholder((), "float64", name="")
        except gx.GraphcError as error:
            assert "name" in str(error)
        else:
            run.agree([session.run(empty * 2, {empty: 2.0})], [np.array(4.0)])
    again, again_x, again_y, again_total = run.save_and_load([difference, x, y, total])
    with gx.Session(again.graph) as session:
        loaded = session.run(again, {again_x: run.inputs["x"], again_y: run.inputs["y"]})
        run.agree([loaded, session.run(again_total, odd_feeds)], [output, np.array(26.0)])
        with pytest.raises(gx.NameLookupError):
            session.run(again, {"x": 1.0})
    assert again_x.name == again_y.name == "x"
    return [output]


CHILD = """
import pickle, sys
session, y, x, v = pickle.loads(open(sys.argv[1], "rb").read())
result = session.run([y, v], {x: [1.0, 2.0]})
open(sys.argv[2], "wb").write(result[0].tobytes() + result[1].tobytes())
"""


@case("ses-pickle", feeds_only=True)
def pickle_and_copy(run: CaseRun) -> list[Any]:
    x = run.input("x")
    v = gx.variable(np.array(1.0), name="v")
    y = gx.exp(x)
    with gx.Session() as session:
        output = session.run(y, run.feeds)
        session.set({v: np.array(4.0)})
        recipe = pickle.dumps((session, y, x, v))
        copies = [pickle.loads(recipe), copy.deepcopy((session, y, x, v))]
        for twin, twin_y, twin_x, twin_v in copies:
            result, state = twin.run([twin_y, twin_v], {twin_x: run.inputs["x"]})
            assert result.tobytes() == output.tobytes() and state == 4.0
            twin.set({twin_v: np.array(5.0)})
        assert session.get(v) == 4.0, "a copy shares its variables with the original"
    pickled, answer = run.directory / "session.pickle", run.directory / "answer"
    pickled.write_bytes(recipe)
    subprocess.run(
        [sys.executable, "-c", CHILD, str(pickled), str(answer)],
        check=True,
        timeout=600,
        cwd=Path(gx.__file__).parent.parent,
    )
    assert answer.read_bytes() == output.tobytes() + np.array(4.0).tobytes()
    loaded_y, loaded_x = run.save_and_load([y, x])
    with gx.Session(loaded_y.graph) as session:
        loaded = session.run(loaded_y, {loaded_x: run.inputs["x"]})
    assert loaded.tobytes() == output.tobytes()
    chain = x
    for _ in range(20_000):
        chain = chain + 1.0
    assert sys.getrecursionlimit() <= 1000
    long_y, long_x = pickle.loads(pickle.dumps((chain, x)))
    with gx.Session(long_y.graph) as session:
        long = session.run(long_y, {long_x: run.inputs["x"]})
    run.agree([long], [np.asarray(run.inputs["x"]) + 20_000.0])
    return [output]


@case("ses-determinism", feeds_only=True)
def same_bits_for_any_thread_count(run: CaseRun) -> list[Any]:
    x = run.input("x")
    fetches = [gx.sum(x), gx.mean(x, axis=0), gx.nn.softmax(x), x.T @ x]
    seen: set[bytes] = set()
    for threads in (1, 2, 8):
        with gx.Session(threads=threads) as session:
            for _ in range(34):
                outputs = session.run(fetches, run.feeds)
                seen.add(b"".join(output.tobytes() for output in outputs))
    assert len(seen) == 1
    return [outputs[0]]


@case("sh-dynamic-batch", feeds_only=True)
def many_batch_sizes(run: CaseRun) -> list[Any]:
    x = gx.placeholder((None, 4), "float64", name="x")
    w, b = run.input("w"), run.input("b")
    y = gx.sum(gx.nn.softmax(x @ w + b), axis=0)
    with gx.Session() as session:
        outputs = [session.run(y, run.feeds | {x: run.inputs[f"x{k}"]}) for k in range(6)]
        assert session.compile_count == 1
    return outputs


@case("perf-recompile", feeds_only=True)
def growing_length(run: CaseRun) -> list[Any]:
    w = run.input("w")
    x = gx.placeholder((None, 8), "float64", name="x")
    batches = gx.placeholder((None, None, 8), "float64", name="batches")
    y = gx.mean(gx.tanh(x @ w), axis=1)
    both = gx.mean(gx.tanh(batches @ w), axis=2)
    arrays = [array for name, array in run.inputs.items() if name != "w"]
    with gx.Session() as session:
        outputs = [session.run(y, run.feeds | {x: array}) for array in arrays]
        assert session.compile_count == 1
        for size, (array, expected) in enumerate(zip(arrays, run.expected, strict=True)):
            batch = np.stack([array] * (size % 5)) if size % 5 else np.zeros((0, *array.shape))
            result = session.run(both, run.feeds | {batches: batch})
            run.agree([result], [np.broadcast_to(expected, batch.shape[:2])])
        assert session.compile_count == 2
    return outputs


@case("perf-run-overhead", feeds_only=True)
def small_and_large_feeds(run: CaseRun) -> list[Any]:
    x = run.input("x")
    y = gx.sin(x)
    many = [gx.placeholder((1,), "float32", name=f"feed{k}") for k in range(20)]
    angles = [np.array([0.1 * k], np.float32) for k in range(20)]
    large = gx.placeholder((None,), "float32", name="large")
    with gx.Session() as session:
        (output,) = session.run([y], run.feeds)
        prepared = session.compile(y, [x])
        run.agree([prepared(run.inputs["x"]) for _ in range(3)], [output] * 3)
        run.agree(session.compile([gx.sin(value) for value in many], many)(*angles), np.sin(angles))
        total = session.compile(gx.sum(large), [large])
        run.agree([total(np.ones(8, np.float32))], [np.float32(8)])
        array = np.full(25_000_000, 0.5, np.float32)
        with memory_growth() as growth:
            result = total(array)
    assert growth.peak < 20 * MEGABYTE, "a feed that is only summed was copied"
    run.agree([result], [np.float32(12_500_000)])
    return [output]
