"""Values of variables in files, and what was trained in what is deployed (fault 16)."""

from __future__ import annotations

import os
import stat
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from variable_bytes import header, same

import graphc as gx
from graphc import aot
from graphc.cli import main
from graphc.session.variable_files import Mismatch, Restored, file_names

DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32",
    "float64",
)  # fmt: skip

CODES = dict(
    zip(
        DTYPES,
        ("BOOL", "I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64", "F32", "F64"),
        strict=True,
    )
)


def line() -> Any:
    """A small model that is trained: graph, feeds, prediction and step."""
    with gx.Graph("line") as graph:
        x = gx.placeholder((None, 2), name="x")
        w = gx.variable(np.zeros(2, np.float32), name="w")
        b = gx.variable(0.0)
        prediction = x @ w + b
        prediction.name = "prediction"
        target = gx.placeholder((None,), name="target")
        step = gx.optim.Adam(0.1).minimize(gx.nn.mse(prediction, target))
    points = np.random.default_rng(0).normal(size=(32, 2)).astype(np.float32)
    feeds = {"x": points, "target": points @ np.float32([2, -3]) + np.float32(0.5)}
    return graph, feeds, prediction, step


# --- variables and their names -------------------------------------------------------------------


def test_fault_16_a_graph_lists_its_variables_in_the_order_of_creation() -> None:
    graph, _, _, _ = line()
    assert [value.name for value in graph.variables] == [
        "w", "variable", "adam/step", "w/first_moment", "w/second_moment",
        "variable/first_moment", "variable/second_moment",
    ]  # fmt: skip
    assert all(isinstance(value, gx.Variable) for value in graph.variables)
    assert gx.Graph().variables == ()


def test_fault_16_every_variable_has_a_name_the_same_each_time() -> None:
    def names() -> list[Any]:
        with gx.Graph() as graph:
            gx.variable(1.0)
            gx.placeholder((), name="variable_1")
            gx.variable(2.0)
            gx.variable(3.0, name="variable_4")
            gx.variable(4.0)
            gx.variable(5.0)
        return [value.name for value in graph.variables]

    assert names() == names()
    assert names() == ["variable", "variable_2", "variable_4", "variable_3", "variable_5"]


def test_fault_16_files_tell_variables_of_one_name_apart() -> None:
    with gx.Graph() as graph:
        made = [gx.variable(float(n), name=name) for n, name in enumerate(("w", "w", "w_1", "w"))]
        made[0].name = None
        made.append(gx.variable(9.0, name="variable"))
    assert list(file_names(graph)) == ["variable_1", "w", "w_1", "w_2", "variable"]
    assert all(a is b for a, b in zip(file_names(graph).values(), made, strict=True))


def test_fault_16_naming_many_variables_is_linear() -> None:
    with gx.Graph() as graph:
        for number in range(3000):
            gx.variable(np.int8(1), name=None if number % 2 else "w")
    names = list(file_names(graph))
    assert len(set(names)) == 3000
    assert names[-2:] == ["w_1499", "variable_1499"]
    assert graph.names._numbers["variable"] <= 1500


# --- round trips ---------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,), (5, 7), (2, 3, 4)])
def test_fault_16_values_come_back_to_the_bit(shape: tuple[int, ...], tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    with gx.Graph() as graph:
        for dtype in DTYPES:
            gx.variable(np.zeros(shape, dtype), name=f"{dtype}/ü \n{shape}")
    size = int(np.prod(shape))
    given: list[Any] = []
    for value in graph.variables:
        dtype = value.dtype.numpy
        raw = rng.integers(0, 256, size * dtype.itemsize, np.uint8)
        given.append((raw & 1 if value.dtype is gx.bool_ else raw).view(dtype).reshape(shape))
    first, second = gx.Session(graph), gx.Session(graph)
    first.set(dict(zip(graph.variables, given, strict=True)))
    first.save(tmp_path / "a.safetensors")
    report = second.restore(tmp_path / "a.safetensors")
    same(second.get(list(graph.variables)), given)
    assert report.is_complete and len(report.loaded) == len(DTYPES)
    assert str(report).startswith("11 variables restored from ")


def test_fault_16_training_goes_on_as_if_it_had_never_stopped(tmp_path: Path) -> None:
    graph, feeds, _, step = line()
    through = gx.Session(graph)
    for _ in range(7):
        through.run(step, feeds)
    through.save(tmp_path / "half.safetensors")
    for _ in range(7):
        through.run(step, feeds)
    other, feeds, _, step = line()
    resumed = gx.Session(other)
    resumed.run(step, feeds)
    resumed.restore(tmp_path / "half.safetensors")
    for _ in range(7):
        resumed.run(step, feeds)
    same(resumed.get(list(other.variables)), through.get(list(graph.variables)))


def test_fault_16_other_writers_of_safetensors_are_read_and_read_ours(tmp_path: Path) -> None:
    from safetensors.numpy import load_file, save_file

    path = tmp_path / "a.safetensors"
    with gx.Graph() as graph:
        w = gx.variable(np.zeros((2, 3), np.float32), name="layer.weight")
    save_file({"layer.weight": np.arange(6, dtype=np.float32).reshape(2, 3)}, path)
    session = gx.Session(graph)
    session.restore(path)
    np.testing.assert_array_equal(session.get(w), np.arange(6).reshape(2, 3))
    session.save(path)
    np.testing.assert_array_equal(load_file(path)["layer.weight"], session.get(w))


def test_fault_16_what_is_saved_is_of_one_moment(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        a = gx.variable(np.zeros(20_000), name="a")
        b = gx.variable(np.zeros(20_000), name="b")
        step = gx.group(a.assign_add(1.0), b.assign_add(1.0))
    session = gx.Session(graph)
    over = threading.Event()

    def run() -> None:
        while not over.is_set():
            session.run(step)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        reader = gx.Session(graph)
        for number in range(20):
            session.save(tmp_path / f"{number}")
            reader.restore(tmp_path / f"{number}")
            left, right = reader.get([a, b])
            assert (left == left[0]).all() and (right == left).all()
    finally:
        over.set()
        thread.join()


# --- the file itself -----------------------------------------------------------------------------


def test_fault_16_only_the_owner_may_read_what_is_written(tmp_path: Path) -> None:
    graph, _, _, _ = line()
    path = tmp_path / "a.safetensors"
    path.write_bytes(b"before")
    path.chmod(0o644)
    before = os.umask(0)
    try:
        gx.Session(graph).save(path)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["a.safetensors"]


def test_fault_16_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    graph, _, _, _ = line()
    victim, path = tmp_path / "victim", tmp_path / "a.safetensors"
    victim.write_text("precious")
    path.symlink_to(victim)
    gx.Session(graph).save(path)
    assert victim.read_text() == "precious"
    assert not path.is_symlink()


def test_fault_16_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, _, _, _ = line()
    path = tmp_path / "a.safetensors"
    gx.Session(graph).save(path)
    before = path.read_bytes()

    def fails(*arguments: Any, **named: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(gx.FileError, match="No space"):
        gx.Session(graph).save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]


@pytest.mark.parametrize("name", ["__metadata__", "\ud800"])
def test_fault_16_names_that_files_cannot_hold_are_refused(name: str, tmp_path: Path) -> None:
    with gx.Graph() as graph:
        gx.variable(1.0, name=name)
    with pytest.raises(gx.GraphError, match="can't hold a variable of the name"):
        gx.Session(graph).save(tmp_path / "a")
    assert not os.listdir(tmp_path)


def test_fault_16_paths_that_are_none(tmp_path: Path) -> None:
    graph, _, _, _ = line()
    session = gx.Session(graph)
    for path in (None, 3, "", "a\0b"):
        with pytest.raises(gx.GraphError):
            session.save(path)  # type: ignore[arg-type]
        with pytest.raises(gx.GraphError):
            session.restore(path)  # type: ignore[arg-type]
    os.mkfifo(tmp_path / "pipe")
    for use in (session.save, session.restore):
        for path in (tmp_path, tmp_path / "no" / "a"):
            with pytest.raises(gx.FileError):
                use(path)
    with pytest.raises(gx.FileError, match="no file on a disk"):
        session.restore(tmp_path / "pipe")
    with pytest.raises(gx.DTypeError, match="partial"):
        session.restore(tmp_path / "a", partial="yes")  # type: ignore[arg-type]


# --- what does not fit ---------------------------------------------------------------------------


def three(path: Path) -> Any:
    """A graph that shares one variable of three with a file."""
    from safetensors.numpy import save_file

    save_file(
        {"same": np.ones(2, np.float32), "shape": np.ones(3, np.float32), "extra": np.ones(1)}, path
    )
    with gx.Graph("three") as graph:
        for name in ("same", "shape", "gone"):
            gx.variable(np.zeros(2, np.float32), name=name)
    return graph


def test_fault_16_restoring_is_strict_and_says_all_that_does_not_fit(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    graph = three(path)
    session = gx.Session(graph)
    before = session.get(list(graph.variables))
    with pytest.raises(gx.ArtifactError) as caught:
        session.restore(path)
    assert str(caught.value).splitlines()[:4] == [
        f"the file {str(path)!r} does not fit the variables of graph 'three'",
        "    1 missing in the file: 'gone'",
        "    1 unknown to the graph: 'extra'",
        "    1 of another dtype or shape: 'shape' (file float32[3], graph float32[2])",
    ]
    assert "partial=True" in str(caught.value.hint)
    same(session.get(list(graph.variables)), before)


def test_fault_16_restoring_in_part_takes_what_fits_and_reports(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    graph = three(path)
    session = gx.Session(graph)
    report = session.restore(path, partial=True)
    assert report == Restored(
        str(path),
        ("same",),
        ("gone",),
        ("extra",),
        (Mismatch("shape", "float32[3]", "float32[2]"),),
    )
    assert not report.is_complete
    assert repr(report).splitlines() == [
        f"1 variable restored from {str(path)!r}",
        "  1 missing in the file: 'gone'",
        "  1 unknown to the graph: 'extra'",
        "  1 of another dtype or shape: 'shape' (file float32[3], graph float32[2])",
    ]
    np.testing.assert_array_equal(session.get("same"), [1, 1])
    np.testing.assert_array_equal(session.get("shape"), [0, 0])


@pytest.mark.parametrize("wrong", ["int32", "float64", "BF16", "F16", "bool"])
def test_fault_16_dtypes_are_never_converted(wrong: str, tmp_path: Path) -> None:
    code = CODES.get(wrong, wrong)
    size = np.dtype(wrong).itemsize if wrong in CODES else 2
    shown = {"BF16": "bfloat16", "F16": "float16"}.get(wrong, wrong)
    path = tmp_path / "a"
    path.write_bytes(
        header({"w": {"dtype": code, "shape": [1], "data_offsets": [0, size]}}, b"\0" * size)
    )
    with gx.Graph() as graph:
        gx.variable(np.ones(1, np.float32), name="w")
    session = gx.Session(graph)
    with pytest.raises(gx.ArtifactError, match=rf"file {shown}\[1\], graph float32\[1\]"):
        session.restore(path)
    assert session.restore(path, partial=True).loaded == ()


def test_fault_16_long_lists_are_cut(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        for number in range(500):
            gx.variable(1.0, name=f"v{number}")
    gx.Session(gx.Graph()).save(tmp_path / "a")
    with pytest.raises(gx.ArtifactError, match=r"500 missing .* and 490 more") as caught:
        gx.Session(graph).restore(tmp_path / "a")
    assert len(str(caught.value)) < 1000


# --- what is deployed is what was trained --------------------------------------------------------


def trained() -> Any:
    graph, feeds, prediction, step = line()
    session = gx.Session(graph)
    for _ in range(50):
        session.run(step, feeds)
    return session, feeds, prediction, step


def test_fault_16_saving_with_a_session_keeps_what_was_trained(tmp_path: Path) -> None:
    session, feeds, prediction, _ = trained()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gx.save(tmp_path / "a.gir", prediction, session=session)
    loaded = gx.load(tmp_path / "a.gir")
    again = gx.Session(loaded.graph)
    expected = session.run(prediction, feeds)
    np.testing.assert_array_equal(again.run(loaded, {"x": feeds["x"]}), expected)
    assert np.abs(expected).max() > 0.5
    # saved once more it still says whose values these are
    gx.save(tmp_path / "b.gir", loaded)
    assert (tmp_path / "b.gir").read_text() == (tmp_path / "a.gir").read_text()


def test_fault_16_saving_without_a_session_warns_that_values_are_initial(tmp_path: Path) -> None:
    session, feeds, prediction, _ = trained()
    with pytest.warns(gx.GraphcWarning, match="initial values: 'w', 'variable'") as caught:
        gx.save(tmp_path / "a.gir", prediction)
    assert caught[0].filename == __file__
    assert "session=session" in str(caught[0].message)
    loaded = gx.load(tmp_path / "a.gir")
    assert not gx.Session(loaded.graph).run(loaded, {"x": feeds["x"]}).any()
    with gx.Graph() as graph:
        fixed = gx.variable(1.0) * 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gx.save(tmp_path / "b.gir", fixed)
        gx.save(tmp_path / "b.gir", prediction, session=gx.Session(prediction.graph))
    with pytest.raises(gx.GraphError, match="session of graph 'graph'"):
        gx.save(tmp_path / "b.gir", prediction, session=gx.Session(graph))
    with pytest.raises(gx.GraphError, match="session=3"):
        gx.save(tmp_path / "b.gir", prediction, session=3)  # type: ignore[arg-type]
    with pytest.raises(gx.GraphError, match="neither a value") as refused:
        gx.save(tmp_path / "b.gir", session)
    assert "session.save(path)" in str(refused.value.hint)


def test_fault_16_the_command_line_says_whose_values_it_exports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session, feeds, prediction, _ = trained()
    model, out = str(tmp_path / "a.gir"), str(tmp_path / "lib")
    gx.save(model, prediction, session=session)
    assert main(["compile", model, "-o", out, "--kind", "package"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"wrote {out}: 2 variables with values of a session\n"
    assert captured.err == ""
    expected = session.run(prediction, feeds)
    np.testing.assert_allclose(aot.load(out)(feeds["x"]), expected, rtol=1e-5)

    with pytest.warns(gx.GraphcWarning):
        gx.save(model, prediction)
    assert main(["compile", model, "-o", out, "--kind", "package"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"wrote {out}: 2 variables with initial values\n"
    assert captured.err.startswith(
        f"warning: {model} holds initial values, not trained ones, of 'w', 'variable'; "
    )
    assert captured.err.count("\n") == 1


def test_fault_16_libraries_of_a_session_carry_what_it_has_trained(tmp_path: Path) -> None:
    session, feeds, prediction, _ = trained()
    for number, freeze in enumerate((True, False)):
        path = tmp_path / str(number)
        exe = session.compile(prediction, ["x"])
        aot.compile(exe, path, kind="package", freeze=freeze)
        expected = session.run(prediction, feeds)
        np.testing.assert_allclose(aot.load(path)(feeds["x"]), expected, rtol=1e-5)
