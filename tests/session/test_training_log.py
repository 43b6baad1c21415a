"""``gx.training.Log``: a CSV file, and a line that shows how far a training is."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx

Log = gx.training.Log


def rows_of(path: Path) -> list[list[str]]:
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_rows_of_steps(tmp_path: Path) -> None:
    """Single steps, stacked ones, and what another process goes on with after a row was cut off."""
    path = tmp_path / "log.csv"
    with Log(path) as log:
        log(loss=np.float32(0.1), note=2)
        assert len(rows_of(path)) == 2, "a row is there when the call is over"
        log(loss=np.array([0.25, np.nan]), note=np.array([3, 4]))
        log(loss=[], note=[])
    with open(path, "a") as file:
        file.write("3,0.0")
    with Log(path, append=True) as log:
        assert log.step == 3
        log(loss=1, note=5)
    head, *rows = rows_of(path)
    assert head == ["step", "seconds", "loss", "note"]
    assert [[step, *figures] for step, _, *figures in rows] == [
        ["0", "0.1", "2"], ["1", "0.25", "3"], ["2", "nan", "4"], ["3", "1", "5"],
    ]  # fmt: skip
    seconds = [float(row[1]) for row in rows]
    assert seconds == sorted(seconds)
    Log(path)
    assert rows_of(path) == []
    with Log(path, append=True) as log:
        log(loss=1)
    assert len(rows_of(path)) == 2


def test_the_line() -> None:
    """It is written over the one before it, and left at the end; nothing is shown unasked."""
    stream = io.StringIO()
    with Log(steps=4, progress=True, stream=stream) as log:
        for n in range(4):
            log(loss=1 / (n + 3))
    first, *_, last = stream.getvalue().split("\r")[1:]
    assert first.startswith("step 1/4  loss 0.3333  ") and first.endswith(" s left")
    assert last.startswith("step 4/4  loss 0.1667  ") and last.rstrip().endswith("steps/s")
    assert last.endswith("\n") and len(last) > len(first), "it covers what stood there"
    quiet = io.StringIO()
    with Log(stream=quiet) as log:
        log(loss=1)
    assert quiet.getvalue() == ""


@pytest.mark.parametrize(
    ("first", "then", "message"),
    [
        ({}, {}, "the figures of a step are none"),
        ({"a": 1}, {"b": 1}, "are b, those before a"),
        ({"a": [1, 2], "b": [1]}, None, r"figures have the shapes a \(2,\), b \(1,\)"),
        ({"a": np.ones((2, 2))}, None, r"figures have the shapes a \(2, 2\)"),
    ],
)
def test_figures_that_are_refused(first: Any, then: Any, message: str) -> None:
    log = Log()
    with pytest.raises(gx.FeedError, match=message):
        log(**first)
        log(**then)


def test_files_that_can_not_be_used(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    for options in ({"path": tmp_path}, {"path": tmp_path / "other.csv", "append": True}):
        with pytest.raises(gx.FileError, match="can't be used"):
            Log(**options)
    for wrong in ({"steps": 0}, {"append": True}):
        with pytest.raises(gx.GraphError):
            Log(**wrong)
    assert (tmp_path / "other.csv").read_text() == "a,b\n1,2\n"
