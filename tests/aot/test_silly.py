"""What is asked for and can't be: one error each, which names it and tells how to mend it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import libraries
import numpy as np
import pytest

import graphc as gx
from graphc.cli import main


@pytest.fixture(scope="module")
def exe() -> gx.Executable:
    with gx.Graph():
        x = gx.placeholder(("n", 2), name="x")
        return gx.Session().compile(x * 2, [x])


@pytest.mark.parametrize(
    "options",
    [
        *({"kind": kind} for kind in ("odd", "", None, ["shared"])),
        *({"target": target} for target in ("moon", "", None, ["host"])),
        *({"variants": given} for given in ("x86-64-v3", ("moon",), 3, None, (3,))),
        *({"dims": given} for given in ("n", 3, 0, [("n", (1, 2))], {"m": (1, 2)}, {3: (1, 2)})),
        *(
            {"dims": {"n": given}}
            for given in (
                3, None, "12", (3,), (5, 2), (-1, 2), (1.0, 2), ("a", "b"), (True, 2), (0, 2**63),
                (0, 2**41),
            )
        ),
        *({"name": name} for name in ("", 3, b"x", "a b", "graphc", "pthread", "x" * 250)),
        *({"name": name} for name in ("os", "numpy")),
        *({option: 1} for option in ("threads", "embed_weights", "freeze")),
        {"threads": None},
    ],
    ids=repr,
)  # fmt: skip
def test_what_cannot_be_is_refused(
    exe: gx.Executable, tmp_path: Path, options: dict[str, Any]
) -> None:
    with pytest.raises(gx.GraphcError) as caught:
        gx.aot.compile(exe, tmp_path / "library", **options)
    assert next(iter(options)) in caught.value.message
    assert caught.value.where is not None and Path(caught.value.where.filename) == Path(__file__)
    assert caught.value.hint and len(str(caught.value).splitlines()) <= 6
    assert not (tmp_path / "library").exists()


def test_directories_with_names_of_modules(tmp_path: Path, exe: gx.Executable) -> None:
    with pytest.raises(gx.GraphError, match=r"name='queue' is that of a Python module.*queue\.py"):
        gx.aot.compile(exe, tmp_path / "queue")
    assert not (tmp_path / "queue").exists()
    gx.aot.compile(exe, tmp_path / "queue", name="my_queue")
    gx.aot.compile(exe, tmp_path / "select", kind="package")  # which has no module


@pytest.mark.parametrize("dim", ["é", "min", "None", "class", "int64_t", "n_0"])
def test_dims_of_any_name(tmp_path: Path, dim: str) -> None:
    with gx.Graph():
        x, y = gx.placeholder((dim,), name="x"), gx.placeholder(("n",), name="y")
        twice = gx.placeholder((2 * y.shape[0],), name="twice")
        exe = gx.Session().compile([x * 2, twice + gx.concatenate([y, y])], [x, y, twice])
    library = libraries.library_of(exe, tmp_path / "library")
    feeds = [np.arange(size, dtype=np.float32) for size in (3, 2, 4)]
    for found, wanted in zip(library(*feeds), exe(*feeds), strict=True):
        assert np.array_equal(found, wanted)
    with pytest.raises(ValueError, match=r"twice has shape \(5,\), not \(4,\)"):
        library(*feeds[:2], np.zeros(5, np.float32))


def test_inputs_and_variables_of_one_name(tmp_path: Path) -> None:
    with gx.Graph():
        first, second = gx.placeholder((2,), name="x"), gx.placeholder((2,), name="x")
        other = gx.placeholder((), name="other")
        v, w = gx.variable(1.0, name="v"), gx.variable(2.0, name="v")
        fetches = [first - second * other, v.assign_add(1.0), w.assign_add(1.0)]
        exe = gx.Session().compile(fetches, [first, second, other])
    library = libraries.library_of(exe, tmp_path / "library")
    one, two = np.ones(2, np.float32), np.full(2, 2, np.float32)
    assert library(one, two, other=np.float32(3))[0].tolist() == [-5, -5]
    assert (library.get(0), library.get(1)) == (2, 3)
    with pytest.raises(KeyError, match="2 variables are called 'v'"):
        library.get("v")
    with pytest.raises(KeyError, match="no variable 2"):
        library.set(2, 0)
    with pytest.raises(TypeError, match="x is no input, or more than one"):
        library(x=one)
    with pytest.raises(TypeError, match="missing inputs: x, other"):
        library(one)
    with pytest.raises(TypeError, match="the inputs are x, x, other"):
        library(one, two, two, two)


def test_names_that_look_like_python(tmp_path: Path) -> None:
    with gx.Graph():
        x = gx.placeholder((2,), name='"a": null')
        exe = gx.Session().compile(x * 2, [x])
    library = libraries.library_of(exe, tmp_path / "library")
    assert library(**{'"a": null': np.ones(2, np.float32)})[0].tolist() == [2, 2]


def test_a_file_of_no_weights(tmp_path: Path, exe: gx.Executable) -> None:
    folder = tmp_path / "library"
    library = libraries.library_of(exe, folder, embed_weights=False)
    feed = np.ones((3, 2), np.float32)
    assert np.array_equal(library(feed)[0], exe(feed))
    assert np.array_equal(gx.aot.load(folder)(feed), exe(feed))


def test_every_array_has_a_name_in_the_file_of_weights(tmp_path: Path) -> None:
    names = ["a", "a", "a.1", "a.padding", "__metadata__", "constant.6"]
    with gx.Graph():
        variables = [gx.variable(np.full(3, n), name=name) for n, name in enumerate(names)]
        total = sum(variables[1:], variables[0]) + gx.constant(np.arange(3))
        exe = gx.Session().compile([total, *(v.assign_add(1) for v in variables)], [])
    folder = tmp_path / "library"
    gx.aot.compile(exe, folder, embed_weights=False)
    content = (folder / "library.safetensors").read_bytes()
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert head["__metadata__"]["writer"] == "graphc"
    parts = sorted(each["data_offsets"] for key, each in head.items() if key != "__metadata__")
    assert [start for start, _ in parts] == [0, *(end for _, end in parts[:-1])]
    assert len([key for key in head if not key.endswith(".padding")]) == 1 + len(names) + 1
    assert gx.aot.load(folder)()[0].tolist() == [15, 16, 17]


def test_the_module_refuses_the_library_of_another(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    with gx.Graph():
        x = gx.placeholder((4,), name="x")
        single, double = x * 2, gx.astype(x, "float64") * 2
        session = gx.Session()
    libraries.library_of(session.compile(single, [x]), folder)
    gx.aot.compile(session.compile(double, [x]), folder)
    # this process has the first library by this path already
    with pytest.raises(RuntimeError, match="replaced while this process ran, start a new process"):
        libraries.module_of(folder).Program()


def test_bounds_of_dims_hold_for_loaded_programs_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with gx.Graph():
        x = gx.placeholder(("batch_size", 2), name="x")
        exe = gx.Session().compile(x * 2, [x])
    folder = tmp_path / "library"
    gx.aot.compile(exe, folder, dims={"batch_size": (1, 4)})
    program = gx.aot.load(folder)
    for _ in range(3):
        for size in (0, 5):
            feed = np.ones((size, 2), np.float32)
            for given, named in (([feed], {}), ([], {"x": feed})):
                with pytest.raises(gx.ShapeError, match=f"batch_size.? is {size}, .* 1 to 4"):
                    program(*given, **named)
        for size in (1, 4):
            feed = np.ones((size, 2), np.float32)
            assert np.array_equal(program(feed), feed * 2)
            assert np.array_equal(program(x=feed.tolist()), feed * 2)
    with pytest.raises(gx.FeedError, match="1 axis instead of 2"):
        program(np.ones(2, np.float32))
    with pytest.raises(gx.FeedError):
        program(np.ones((2, 2), np.float32), other=1)
    out = np.zeros((2, 2), np.float32)
    assert program(np.ones((2, 2), np.float32), out=out) is out and out.min() == 2
    assert main(["bench", str(folder), "--seconds", "0.01"]) == 0
    assert "at batch_size=4" in capsys.readouterr().out
