"""What neighbouring lanes share is computed once for each group of them, and stays what it is.

Each kernel's machine code is held against the interpreter, as in all tests.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.target import named, obstacle
from graphc.base.tuning.machine import Tuning

KEY = np.array([1, 2], np.uint32)
LEVELS = ("x86-64-v4", "x86-64-v3", "x86-64-v2")
TARGETS = [name for name in LEVELS if obstacle(named(name)) is None]


def of_index(size: Any) -> tuple[Any, Any]:
    """Shared and known parts of an index, which NumPy computes as well."""
    i = gx.arange(size) if not isinstance(size, int) else np.arange(size)
    fours = (i >> 2) * 7 + 1
    first = (i & 1) == 0
    where = gx.where if not isinstance(size, int) else np.where
    pair = where((i & 2) == 0, fours, (i >> 3) ^ 5)
    chosen = where(first, pair, -pair) + where(first, i >> 1, i) * (i & 3)
    chosen = chosen + (i + fours) * (i - (i & 1)) - (fours - i)
    return chosen, (i >> 4).astype("float32") * 0.5 + (i >> 5).astype("float32")


@pytest.mark.parametrize("target", TARGETS)
def test_shared_values_of_an_index(target: str) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "bool")
        results = of_index(x.shape[0])
    session = gx.Session(graph, target=named(target))
    for size in (0, 1, 2, 3, 31, 64, 65, 127, 1000):
        found = session.run(list(results), {x: np.zeros(size, bool)})
        for one, other in zip(found, of_index(size), strict=True):
            assert np.array_equal(one, other)


def instructions(executable: Any, pattern: str) -> int:
    """How often the text of a program's kernels has a line."""
    return len(re.findall(pattern, executable.llvm_ir()))


@pytest.mark.parametrize("shape", [(6400,), (64, 100), (20, 5, 64), (25, 7, 3)])
def test_blocks_of_words_are_computed_once_for_four_lanes(shape: tuple[int, ...]) -> None:
    with gx.Graph() as graph:
        key = gx.placeholder((2,), "uint32")
        u = gx.random.uniform(key, shape) * 2.0 + 1.0
    executable = gx.Session(graph, target=named("x86-64-v3")).compile(u, [key])
    lanes = {int(found) for found in re.findall(r"mul <(\d+) x i64>", executable.llvm_ir())}
    stored = {int(found) for found in re.findall(r"fmul <(\d+) x float>", executable.llvm_ir())}
    assert max(stored) == 4 * max(lanes)
    # twenty products of a block, less that with a word that is 0
    assert instructions(executable, rf"mul <{max(lanes)} x i64>") <= 20


def test_rows_that_begin_within_a_group_are_computed_lane_by_lane() -> None:
    with gx.Graph() as graph:
        key, x = gx.placeholder((2,), "uint32"), gx.placeholder((None, 37))
        rows = gx.max(gx.random.uniform(key, x.shape), axis=1)
        columns = gx.random.uniform(key, x.shape)[:, 1:].transpose()
        whole = gx.random.uniform(key, (37 * 19,))
    feeds = {key: KEY, x: np.zeros((19, 37))}
    most, turned, flat = gx.Session(graph).run([rows, columns, whole], feeds)
    assert np.array_equal(most, flat.reshape(19, 37).max(1))
    assert np.array_equal(turned, flat.reshape(19, 37)[:, 1:].T)


@pytest.mark.parametrize("target", TARGETS)
def test_streamed_results_that_start_anywhere(target: str, monkeypatch: Any) -> None:
    monkeypatch.setattr(Tuning, "stream_bytes", 1)
    monkeypatch.setattr(Tuning, "stream_row_bytes", 64)
    with gx.Graph() as graph:
        key = gx.placeholder((2,), "uint32")
        x = gx.placeholder((None,))
        drawn = [gx.random.uniform(key, x.shape), gx.random.normal(key, x.shape)]
    executable = gx.Session(graph, target=named(target), threads=1).compile(drawn, [key, x])
    assert "sfence" in executable.llvm_ir()
    wanted = executable(KEY, np.zeros(3000, np.float32))
    for size in (63, 1003, 3000):
        for offset in (0, 1, 3, 4):
            into = {}
            for number in range(2):
                room = np.empty(size + 128, np.float32)
                start = -room.ctypes.data % 64 // 4 + offset * (number + 1)
                into[number] = room[start : start + size]
            executable.compiled.program.run([KEY, np.zeros(size, np.float32)], into=into)
            for number in range(2):
                assert np.array_equal(into[number], wanted[number][:size])


def test_threads_share_groups_as_they_are() -> None:
    with gx.Graph() as graph:
        key = gx.placeholder((2,), "uint32")
        draws = [gx.random.normal(key, (999_999,)), gx.random.bits(key, (777, 1001), "uint8")]
    one, two = (gx.Session(graph, threads=threads).run(draws, {key: KEY}) for threads in (1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))
