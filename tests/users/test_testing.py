"""Decisions as tests: expectations that hold pass, those that fail say what was found and why."""

from __future__ import annotations

import copy
import inspect

import numpy as np
import pytest

import graphc as gx
from graphc.session.executable import Executable
from graphc.testing import ExpectationError, bytes_of, expect

pytestmark = pytest.mark.check_mode


def softmax_exe() -> tuple[Executable, gx.Value, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 64), name="x")
        powers = gx.exp(x)
        y = powers / gx.sum(powers, axis=1, keepdims=True)
        z = gx.tanh(y)
    exe: Executable = gx.Session(graph).compile(z, [x])
    return exe, y, z


def failures(exe: Executable, **expectations: object) -> tuple[str, ...]:
    with pytest.raises(ExpectationError) as caught:
        expect(exe, **expectations)  # type: ignore[arg-type]
    assert isinstance(caught.value, AssertionError)
    assert caught.value.where is not None and caught.value.where.filename == __file__
    return caught.value.failures


def test_what_holds_passes() -> None:
    exe, y, z = softmax_exe()
    expect(
        exe,
        kernels=1,
        steps=1,
        peak_bytes="1 kB",
        recompiles=0,
        fired=["softmax", "fuse"],
        not_fired=["log-sum-exp", "inplace"],
        fused=[(y, z)],
    )
    expect(exe)
    gx.testing.expect(exe, kernels=5)


def test_every_failure_is_named() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((64, 64), name="x")
        a = gx.tanh(x @ x)
        b = gx.exp(a @ x) * 1.0
        line = inspect.currentframe().f_lineno - 1  # type: ignore[union-attr]
    exe = gx.Session(graph).compile(b, [x])
    found = failures(
        exe, kernels=1, steps=1, peak_bytes=100, fired=["neg-neg"], not_fired=["mul-one"],
        fused=[(a, b)],
    )  # fmt: skip
    kernels, steps, peak, fired, not_fired, fused = found
    assert kernels.startswith("kernels: at most 1 expected, 2 found: ")
    assert steps.startswith("steps: at most 1 expected, 2 found: ")
    assert peak.startswith("peak_bytes: at most 100 expected, ") and "float32[64, 64] at" in peak
    assert fired == "fired: neg-neg did nothing"
    assert not_fired == f"not_fired: mul-one was applied at {__file__}:{line}"
    assert fused.startswith("fused: ") and "a matrix product reads its operands" in fused


def test_why_rules_did_not_fire() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        y = gx.exp(x) / gx.sum(gx.exp(x)) + gx.exp(gx.constant(1.0))
    off = gx.Session(graph, options=gx.Options(off={"softmax"})).compile(y, [x])
    assert failures(off, fired=["softmax"]) == ("fired: softmax did nothing, it is switched off",)
    strict = gx.Session(graph, options=gx.Options(numerics="strict")).compile(y, [x])
    (text,) = failures(strict, fired=["softmax"])
    assert 'numerics="strict"' in text
    (text,) = failures(strict, fired=["fold"])
    assert "exp is not exact at" in text
    (text,) = failures(strict, fired=["sofmax"])
    assert "did you mean softmax" in text


def test_recompilation_is_counted_and_explained() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), name="x")
        h = x * 2.0
        y = gx.exp(h)
    session = gx.Session(graph)
    exe = session.compile(y, [x])
    for size in (1, 5, 1000):
        session.run(y, {x: np.ones(size)})
    expect(exe, recompiles=0)
    session.run(y, {h: np.ones(3)})
    session.run([y, h], {x: np.ones(3)})
    assert session.compile_count == 3
    (text,) = failures(exe, recompiles=1)
    assert "at most 1 expected, 2 found" in text
    assert "with other values fed: float32[" in text and "new fetches" in text
    assert f"asked for at {__file__}:" in text
    assert session.compilations[0].reason.startswith("new fetches")


def test_peak_bytes_at_given_sizes() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 64), name="x")
        w = gx.placeholder((64, 64), name="w")
        y = gx.tanh(gx.tanh(x @ w) @ w) @ w
    exe = gx.Session(graph).compile(y, [x, w])
    expect(exe, peak_bytes="1 MB", dims={"n": 64})
    assert len(failures(exe, peak_bytes="1 MB", dims={"n": 100_000})) == 1


def test_sizes() -> None:
    assert bytes_of(7) == 7 and bytes_of("8 MB") == 8_000_000
    assert bytes_of("1.5KiB") == 1536 and bytes_of("3 B") == 3
    for wrong in ("8", "MB", "8 QB", "-1 MB", True, 2.5):
        with pytest.raises(gx.GraphError, match="not a size"):
            bytes_of(wrong)  # type: ignore[arg-type]


def test_unknown_names_are_errors_where_they_could_not_fail() -> None:
    exe, _, _ = softmax_exe()
    with pytest.raises(gx.GraphError, match="sofmax") as caught:
        expect(exe, not_fired=["sofmax"])
    assert "did you mean softmax" in str(caught.value)


def test_failures_survive_copying() -> None:
    exe, _, _ = softmax_exe()
    with pytest.raises(ExpectationError) as caught:
        expect(exe, kernels=0)
    assert copy.copy(caught.value).failures == caught.value.failures
