"""What differs from one Python or NumPy to the next, and must not matter (fault 34).

Since Python 3.13 records compare field by field with ``==``, also where both have the same object
in a field; of symbolic values and arrays that is no truth value.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
import io
import pkgutil
import shutil
import subprocess
import sys
import typing
import zipfile
from collections.abc import Callable, Iterator, Mapping, Set
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import pythons

import graphc as gx
import passes
from graphc.base.errors import GraphError, ParseError
from graphc.cli import run as run_command
from graphc.ir.text.archive import read_arrays
from graphc.ir.value import Value

# --- records --------------------------------------------------------------------------------------


@cache
def namespace(module: ModuleType) -> dict[str, Any]:
    """The names of a module, those that it imports for type checkers alone included."""
    names = dict(vars(module))
    for statement in ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.If) and ast.unparse(statement.test) == "TYPE_CHECKING":
            exec(compile(ast.Module(statement.body, []), str(module.__file__), "exec"), names)
    return names


def compares_by_fields(class_: Any) -> bool:
    """Whether it is a dataclass whose ``==`` is that of its fields."""
    return dataclasses.is_dataclass(class_) and class_.__dataclass_params__.eq  # type: ignore


def without_truth(type_: Any, inside: tuple[Any, ...] = ()) -> str | None:
    """What of the type's content has an ``==`` that is no truth value, as a path; None if nothing.

    Keys of mappings and elements of sets are found by their hash, which is identity.
    """
    origin = typing.get_origin(type_) or type_
    if origin in (Callable, type, typing.Literal):
        return None
    if isinstance(origin, type):
        if issubclass(origin, Value | np.ndarray):
            return origin.__name__
        if issubclass(origin, Set):
            return None
    if compares_by_fields(origin) and origin not in inside:
        hints = typing.get_type_hints(
            origin, namespace(sys.modules[origin.__module__]), dict(vars(origin))
        )
        for field in dataclasses.fields(origin):
            found = without_truth(hints[field.name], (*inside, origin)) if field.compare else None
            if found is not None:
                return f"{origin.__name__}.{field.name}: {found}"
    parts = typing.get_args(type_)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        parts = parts[1:]
    return next(filter(None, (without_truth(part, inside) for part in parts)), None)


def dataclasses_of(*packages: ModuleType) -> Iterator[type]:
    """The dataclasses that the modules of packages define."""
    for package in packages:
        for info in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            if not info.name.endswith(".__main__"):
                for found in vars(importlib.import_module(info.name)).values():
                    is_record = isinstance(found, type) and dataclasses.is_dataclass(found)
                    if is_record and found.__module__ == info.name:
                        yield found


def test_fault_34_no_record_compares_values_or_arrays() -> None:
    """Those that hold any are their identity (``eq=False``), or leave the field out."""
    found = list(dataclasses_of(gx, passes))
    assert len(found) > 150
    wrong = [f"{class_.__module__}: {without_truth(class_)}" for class_ in found
             if compares_by_fields(class_) and without_truth(class_)]  # fmt: skip
    assert not wrong, "\n".join(wrong)


@dataclasses.dataclass(frozen=True)
class Weight:
    """A record of a user."""

    value: Value


@dataclasses.dataclass(frozen=True)
class Layer:
    """A record that holds another one, in a field that only type checkers can resolve here."""

    name: str
    weights: list[Weight]


def test_the_search_for_such_records_finds_them() -> None:
    assert without_truth(Layer) == "Layer.weights: Weight.value: Value"
    assert without_truth(dict[Value, int]) is None
    assert without_truth(dict[str, tuple[int, np.ndarray[Any, Any]]]) == "ndarray"
    assert without_truth(Callable[[Value], Value]) is None


def test_a_users_record_that_compares_values_is_told_where_it_does() -> None:
    first, second = (Weight(gx.placeholder((2,), name=name)) for name in "xy")
    with pytest.raises(gx.ConcreteValueError) as caught:
        bool(first == second)
    where = caught.value.where
    assert where is not None and where.filename == __file__


# --- rows that exponentials belong to -------------------------------------------------------------


def total(value: Value) -> Value:
    return gx.sum(value, axis=1, keepdims=True)


MIXED: dict[str, Callable[[Value, Value, Value], Value]] = {
    "apart": lambda p, q, m: gx.log(total(p)) + gx.log(total(gx.exp(q)) / gx.exp(m)),
    "product": lambda p, q, m: gx.log(total(p) * (total(gx.exp(q)) / gx.exp(m))),
    "sum": lambda p, q, m: gx.exp(gx.log(total(p) + (total(gx.exp(q)) / gx.exp(m)))),
}


@pytest.mark.parametrize("name", MIXED)
def test_fault_34_one_row_beside_the_largest_element_of_another(name: str) -> None:
    """With every Python: the largest element of x is subtracted from what belongs to y."""
    x, y = np.linspace(-3, 4, 12).reshape(3, 4), np.linspace(2, -1, 12).reshape(3, 4)
    with gx.Graph() as graph:
        a, b = (gx.placeholder((3, 4), "float64", name=name) for name in "ab")
        top = gx.max(a, axis=1, keepdims=True)
        result = MIXED[name](gx.exp(a - top), b, top)
    top = x.max(axis=1, keepdims=True)
    p = np.exp(x - top).sum(axis=1, keepdims=True)
    q = np.exp(y).sum(axis=1, keepdims=True) / np.exp(top)
    truth = p + q if name == "sum" else np.log(p) + np.log(q)
    np.testing.assert_allclose(gx.Session(graph).run(result, {a: x, b: y}), truth, rtol=1e-14)


# --- files of arrays ------------------------------------------------------------------------------

HEADERS = [
    "", "{", "{'descr': '<f4', 'fortran_order': False, 'shape': (2", "  {", "\t{}\n {}", "'''", "'",
    "{'a': \\", "(" * 300, "1_", "0777L", "{1: 2}", "[]", "\x00", "lambda: 0", "é", "{}\n\n  }",
    "$",
]  # fmt: skip


def npy(header: str) -> bytes:
    """A file of an array with this header."""
    text = header.encode("latin1") + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(16)


@pytest.mark.parametrize("header", HEADERS)
def test_fault_34_headers_that_do_not_parse_are_damage(header: str, tmp_path: Path) -> None:
    """What reading them raises is another kind of error with each Python."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("x.npy", npy(header))
    with pytest.raises(ParseError, match="can't be read"):
        read_arrays(packed.getvalue())
    (tmp_path / "x.npy").write_bytes(npy(header))
    with pytest.raises(GraphError, match=r"is no \.npy file"):
        run_command._array(str(tmp_path / "x.npy"))


def test_a_lone_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    with pytest.raises(ParseError, match="a lone one"):
        read_arrays((tmp_path / "x.npy").read_bytes())


# --- what the whole suite runs with ---------------------------------------------------------------


def test_this_python_is_found_and_no_older_one() -> None:
    found = pythons.pythons()
    assert "{}.{}".format(*sys.version_info) in found
    assert all(pythons.version_of(path) >= (3, 11) for path in found.values())
    assert list(found) == sorted(found, key=lambda version: int(version.partition(".")[2]))
    assert pythons.main([]).split()[-1] == f"oldest={next(iter(found.values()))}"


def test_what_is_no_interpreter_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "python3.99").write_text("#!/bin/sh\nexit 127\n")
    assert pythons.version_of(str(tmp_path / "python3.99")) is None
    (tmp_path / "python3.99").chmod(0o755)
    assert pythons.version_of(str(tmp_path / "python3.99")) is None
    assert pythons.version_of(str(tmp_path / "nowhere")) is None


def test_the_oldest_releases_are_those_of_the_project() -> None:
    oldest = dict(release.split("==") for release in pythons.releases())
    assert oldest.keys() >= {"numpy", "llvmlite", "networkx"}
    assert int(np.__version__.split(".")[0]) == int(oldest["numpy"].split(".")[0])


@pytest.mark.skipif(not shutil.which("make"), reason="there is no make")
def test_make_runs_the_suite_with_each_of_them() -> None:
    found = "FOUND=3.98=/older 3.99=/newer oldest=/older"
    command = ["make", "--dry-run", "--always-make", "test-all", f"PYTHON={sys.executable}", found]
    shown = subprocess.run(command, cwd=pythons.ROOT, capture_output=True, text=True, check=True)
    for name, path in (("3.98", "/older"), ("3.99", "/newer"), ("oldest", "/older")):
        assert f"\n{path} -m venv .venv/test-{name}\n" in shown.stdout
        assert f"\n.venv/test-{name}/bin/python -m pytest" in shown.stdout
    pinned = [line for line in shown.stdout.splitlines() if "numpy==" in line]
    assert len(pinned) == 1 and pinned[0].startswith(".venv/test-oldest/bin/python -m pip install")
    assert "\nrm " not in shown.stdout
