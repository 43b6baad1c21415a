"""Dtypes for storage alone: moved, converted, in files and libraries; what computes refuses."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import assert_same_bits
from libraries import ran
from tools import ROOT

import graphc as gx
from graphc.ir.dtypes import ALL, COMPLEX, STORAGE, STORAGE_NAMES, DType
from graphc.kernel.scalar import cast

each_dtype = pytest.mark.parametrize("element", STORAGE, ids=str)
some_dtypes = pytest.mark.parametrize("element", [gx.float8_e4m3fn, gx.int4], ids=str)
FILES = [element for element in STORAGE if element.safetensors]


def words(element: DType) -> Any:
    """Every value."""
    return np.arange(2**element.width, dtype=np.uint8).view(element.numpy)


def drawn(element: DType, *shape: int, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    return random.integers(0, 2**element.width, shape).astype(np.uint8).view(element.numpy)


def run(function: Any, *arrays: Any, unknown: bool = False) -> Any:
    """What a function of values gives for arrays, compiled."""
    with gx.Graph() as graph:
        inputs = [
            gx.placeholder((None,) * array.ndim if unknown else array.shape, array.dtype)
            for array in arrays
        ]
        outputs = function(*inputs)
    return gx.Session(graph).run(outputs, dict(zip(inputs, arrays, strict=True)))


def test_they_are_those_of_ml_dtypes() -> None:
    for element in STORAGE:
        known = getattr(ml_dtypes, element.name)
        assert getattr(gx, element.name) is element == known == np.dtype(known)
        with gx.Graph():
            assert gx.constant(np.zeros(2, known)).dtype is element
            assert gx.constant(known(1)).dtype is element
    assert {element.name for element in STORAGE} == {*STORAGE_NAMES} <= {*dir(gx)}


# --- conversions ---------------------------------------------------------------------------------


@each_dtype
def test_every_value_becomes_every_dtype(element: DType) -> None:
    x = words(element)
    targets = (*ALL, *COMPLEX, *STORAGE)
    results = run(lambda x: [x.astype(target) for target in targets], x)
    for target, result in zip(targets, results, strict=True):
        with np.errstate(all="ignore"):
            assert_same_bits(result, cast(x, target), str(target))


@each_dtype
def test_every_dtype_is_rounded_to_it(element: DType) -> None:
    numbers = np.arange(-300, 300) / 8
    arrays = [np.abs(numbers).astype(source.numpy) for source in ALL]
    results = run(lambda *values: [value.astype(element) for value in values], *arrays)
    for array, result in zip(arrays, results, strict=True):
        assert_same_bits(result, cast(array, element), str(array.dtype))


@pytest.mark.parametrize("unknown", [False, True])
def test_conversions_join_kernels(unknown: bool) -> None:
    """A quantised layer: weights and their scales become numbers where they are used."""
    weights, scale = drawn(gx.int4, 64), np.float32(0.25)
    x = np.linspace(-2, 2, 64, dtype=np.float32)

    def layer(w: Any, x: Any) -> Any:
        return (w.astype("float32") * scale * x).astype(gx.float8_e5m2)

    got = run(layer, weights, x, unknown=unknown)
    assert_same_bits(got, (weights.astype(np.float32) * scale * x).astype(got.dtype))
    with gx.Graph():
        shape = (None,) if unknown else (64,)
        operands = [gx.placeholder(shape, array.dtype) for array in (weights, x)]
        exe = gx.Session().compile(layer(*operands), operands)
    assert len(exe.kernels) == 1


@some_dtypes
@pytest.mark.parametrize("options", [{"check": True}, {"optimize": 0}, {"threads": 2}], ids=str)
def test_every_way_to_compile(element: DType, options: dict[str, Any]) -> None:
    left, right = drawn(gx.int4, 30, 8), drawn(element, 8, 5, seed=1)
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, 8), gx.int4), gx.placeholder((8, None), element)
        numbers = [x[::-1].astype("float32"), gx.nan_to_num(y.T.astype("float32"))]
        result = (numbers[0] @ numbers[1].T).astype("float8_e5m2")
    got = gx.Session(graph, options=gx.Options(**options)).run(result, {x: left, y: right})
    wanted = left[::-1].astype(np.float32) @ np.nan_to_num(right.astype(np.float32))
    assert_same_bits(got, wanted.astype(got.dtype))


def test_dtypes_of_one_size_are_told_apart() -> None:
    """The fast call takes arrays of the dtype alone; others are converted."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), gx.float8_e4m3fn)
        exe = gx.Session(graph).compile(x.astype("float32"), [x])
    numbers = np.array([1, 2, 3.5], np.float32)
    for _ in range(3):
        for given in (gx.float8_e4m3fn, gx.float8_e5m2, gx.float8_e4m3fnuz):
            assert_same_bits(exe(numbers.astype(given.numpy)), numbers)


def test_bits_above_a_number_are_not_read() -> None:
    dirty = np.arange(256, dtype=np.uint8)
    for element in (gx.int4, gx.uint4, gx.int2, gx.uint2):
        got = run(lambda x: x.astype("int32"), dirty.view(element.numpy))
        np.testing.assert_array_equal(got, dirty.view(element.numpy).astype(np.int32))


# --- moves ---------------------------------------------------------------------------------------

MOVES: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "itself": (lambda x, y: x, lambda x, y: x),
    "transpose": (lambda x, y: x.T, lambda x, y: x.T),
    "reshape": (lambda x, y: x.reshape((-1,)), lambda x, y: x.reshape(-1)),
    "slice": (lambda x, y: x[1:, ::2], lambda x, y: x[1:, ::2]),
    "backwards": (lambda x, y: gx.flip(x, 1), lambda x, y: x[:, ::-1]),
    "concatenate": (lambda x, y: gx.concatenate([x, y]), lambda x, y: np.concatenate([x, y])),
    "stack": (lambda x, y: gx.stack([y, y], 1), lambda x, y: np.stack([y, y], 1)),
    "take": (
        lambda x, y: gx.take(y, gx.constant([2, -1, 0]), 0),
        lambda x, y: y[[2, -1, 0]],
    ),
    "where": (
        lambda x, y: gx.where(y.astype("bool"), y, y[::-1]),
        lambda x, y: np.where(y.astype(bool), y, y[::-1]),
    ),
    "pad": (
        lambda x, y: gx.pad(x, ((1, 0), (0, 2))),
        lambda x, y: np.pad(x.view(np.uint8), ((1, 0), (0, 2))).view(x.dtype),
    ),
    "set": (
        lambda x, y: y.at[gx.constant([1])].set(y[:1]),
        lambda x, y: np.concatenate([y[:1], y[:1], y[2:]]),
    ),
    "along": (
        lambda x, y: gx.take_along_axis(y, gx.constant(np.ones((1, 6), np.int64)), 0),
        lambda x, y: y[1:2],
    ),
    "broadcast": (
        lambda x, y: gx.broadcast_to(y[0], (3, 6)), lambda x, y: np.broadcast_to(y[0], (3, 6)),
    ),
    "repeat": (lambda x, y: gx.repeat(y, 2, 1), lambda x, y: np.repeat(y, 2, 1)),
    "roll": (lambda x, y: gx.roll(y, 1, 0), lambda x, y: np.roll(y, 1, 0)),
    "zeros": (lambda x, y: gx.zeros_like(x), lambda x, y: np.zeros_like(x)),
    "full": (
        lambda x, y: gx.full((3,), 1, y.dtype), lambda x, y: np.ones(3, np.float32).astype(y.dtype),
    ),
    "stop_gradient": (lambda x, y: gx.stop_gradient(x), lambda x, y: x),
    "branch": (
        lambda x, y: gx.cond(gx.sum(y[0].astype("float32")) > 1e9, lambda: y, lambda: y[::-1]),
        lambda x, y: y[::-1],
    ),
    "loop": (
        lambda x, y: gx.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a[::-1]), (0, y))[1],
        lambda x, y: y[::-1],
    ),
}  # fmt: skip


@each_dtype
def test_moves_keep_the_words(element: DType) -> None:
    y = drawn(element, 4, 6, seed=1)
    with gx.Graph() as graph:
        a, b = gx.placeholder((None, 6), element), gx.placeholder((4, 6), element)
        outputs = [move(a, b) for move, _ in MOVES.values()]
    exe = gx.Session(graph).compile(outputs, [a, b])
    for size in (0, 1, 5):
        x = drawn(element, size, 6)
        for given in (x, np.repeat(x, 2, 0)[::2], np.asfortranarray(x)):
            for (name, (_, move)), result in zip(MOVES.items(), exe(given, y), strict=True):
                assert_same_bits(result, move(x, y), name)


# --- refusals ------------------------------------------------------------------------------------

COMPUTES: dict[str, Callable[..., Any]] = {
    "add": lambda x: x + x,
    "weak": lambda x: x * 2,
    "negative": lambda x: -x,
    "equal": lambda x: x == x,
    "sum": lambda x: x.sum(),
    "mean": gx.mean,
    "cumsum": gx.cumsum,
    "matmul": lambda x: x @ x.T,
    "einsum": lambda x: gx.einsum("ij->i", x),
    "sort": gx.sort,
    "argmax": gx.argmax,
    "max": gx.max,
    "exp": gx.exp,
    "isnan": gx.isnan,
    "softmax": gx.nn.softmax,
    "relu": gx.nn.relu,
    "solve": lambda x: gx.linalg.solve(x, x),
    "eigh": gx.linalg.eigh,
    "scatter": lambda x: x.at[0].add(1),
    "histogram": gx.histogram,
    "promotion": lambda x: x + np.float32(1),
    "choice": lambda x: gx.where(True, x, x.astype("float32")),
    "concatenation": lambda x: gx.concatenate([x, x.astype("float32")]),
    "other storage": lambda x: gx.concatenate([x, x.astype("float8_e3m4")]),
    "implicit": lambda x: x.at[0].set(gx.zeros((4,), x.dtype.computed)),
    "clip": lambda x: gx.clip(x, 0, 1),
    "complex": lambda x: gx.complex(x, x),
    "fft": gx.fft.rfft,
    "random": lambda x: gx.random.bernoulli(gx.random.key(0), x),
}


@some_dtypes
@pytest.mark.parametrize("name", COMPUTES)
def test_what_computes_refuses_them(element: DType, name: str) -> None:
    with gx.Graph():
        x = gx.placeholder((4, 4), element, name="x")
        with pytest.raises(gx.DTypeError, match="for storage alone") as caught:
            COMPUTES[name](x)
    assert caught.value.hint == f'convert first, as with x.astype("{element.computed}")'
    assert caught.value.where is not None and caught.value.where.filename == __file__


def test_gradients_do_not_pass() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        stored = x.astype("float8_e4m3fn").astype("float32")
        with pytest.raises(gx.GradientError, match="a dtype for storage alone"):
            gx.gradients(gx.sum(stored), [x])
        with pytest.raises(gx.GradientError, match="a dtype for storage alone"):
            gx.jvp([gx.sum(stored)], [x], [gx.ones_like(x)])
        w = gx.variable(np.ones(3, gx.float8_e5m2.numpy))
        with pytest.raises(gx.DTypeError, match="float8_e5m2, which has no derivative"):
            gx.gradients(gx.sum(w.astype("float32")), [w])
        straight = x + gx.stop_gradient(stored - x)
        (slope,) = gx.gradients(gx.sum(straight**2 * w.astype("float32")), [x])
    given = np.array([0.1, 0.3, -2.7], np.float32)
    np.testing.assert_array_equal(
        gx.Session(graph).run(slope, {x: given}),
        2 * given.astype(gx.float8_e4m3fn.numpy).astype(np.float32),
    )


def test_feeds() -> None:
    with gx.Graph() as graph:
        x, i = gx.placeholder((3,), gx.float8_e4m3fn, name="x"), gx.placeholder((3,), gx.int4)
        wide = gx.placeholder((3,), "int8")
    session = gx.Session(graph)
    wanted = np.array([1, 0.3125, np.nan], x.dtype.numpy)
    assert_same_bits(session.run(x, {x: [1, 0.3, 1e9]}), wanted)
    assert_same_bits(session.run(i, {i: [-8, 7, 0]}), np.array([-8, 7, 0], i.dtype.numpy))
    given = np.array([-8, 7, 0], np.int8)
    assert_same_bits(session.run(wide, {wide: given.astype(i.dtype.numpy)}), given)
    with pytest.raises(gx.FeedError, match="values from -8 to 8") as caught:
        session.run(i, {i: [-8, 8, 0]})
    assert caught.value.hint is not None and "int4 holds -8 to 7" in caught.value.hint
    with pytest.raises(gx.FeedError, match="given dtype float8_e4m3fn"):
        session.run(i, {i: np.ones(3, x.dtype.numpy)})


# --- files ---------------------------------------------------------------------------------------


@each_dtype
def test_values_survive_saved_graphs(element: DType, tmp_path: Path) -> None:
    large, small = drawn(element, 5000), words(element)[:9]
    with gx.Graph() as graph:
        state = gx.variable(large, name="state")
        fetched = [state.reshape((50, 100)), gx.constant(large), gx.constant(small)]
    wanted = gx.Session(graph).run(fetched)
    gx.save(tmp_path / "graph", fetched)
    loaded = gx.load(tmp_path / "graph")
    for got, right in zip(gx.Session(loaded[0].graph).run(loaded), wanted, strict=True):
        assert_same_bits(got, right)


@pytest.mark.parametrize("element", FILES, ids=str)
def test_variables_survive_safetensors(element: DType, tmp_path: Path) -> None:
    values = [drawn(element, 7, 3), drawn(element, 0, 4), drawn(element, 5, seed=2)]
    with gx.Graph() as graph:
        states = [gx.variable(value, name=f"w{n}") for n, value in enumerate(values)]
        other = gx.variable(np.arange(3.0), name="other")
        writes = [state.assign(gx.zeros_like(state)) for state in states]
    session = gx.Session(graph)
    session.save(tmp_path / "values")
    session.run(writes)
    assert session.restore(tmp_path / "values").is_complete
    for got, wanted in zip(session.run([*states, other]), [*values, np.arange(3.0)], strict=True):
        assert_same_bits(got, wanted)


def test_what_safetensors_lacks_is_refused(tmp_path: Path) -> None:
    with gx.Graph() as graph:
        gx.variable(np.ones(3, gx.int4.numpy), name="w")
    with pytest.raises(gx.GraphError, match="can't hold int4, as the variable 'w' is") as caught:
        gx.Session(graph).save(tmp_path / "values")
    assert caught.value.hint is not None and "astype('int8')" in caught.value.hint


@pytest.mark.parametrize("embed", [True, False])
def test_libraries(embed: bool, tmp_path: Path) -> None:
    weights = [drawn(element, 6, 4, seed=n) for n, element in enumerate(STORAGE)]
    x = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32)
    with gx.Graph() as graph:
        value = gx.placeholder((None, 6), name="x")
        ids = gx.placeholder((None, 6), gx.uint4, name="ids")
        outputs = []
        for weight in weights:
            held = gx.variable(weight) if weight.dtype == gx.int4 else gx.constant(weight)
            safe = gx.nan_to_num(held.astype("float32"))
            outputs += [value @ safe, held.T, (value * 2).astype(held.dtype)]
        outputs.append(ids[::-1])
    given = drawn(gx.uint4, 3, 6)
    session = gx.Session(graph)
    exe = session.compile(outputs, [value, ids])
    gx.aot.compile(exe, tmp_path / "net", embed_weights=embed)
    library = gx.aot.load(tmp_path / "net")
    for got, wanted in zip(library(x, given), exe(x, given), strict=True):
        assert_same_bits(got, wanted)
    header = (tmp_path / "net" / "net.h").read_text()
    assert "GRAPHC_FLOAT8_E4M3FN" in header and "GRAPHC_INT4" in header
    program = """
import numpy as np, net
x = np.zeros((2, 6), np.float32)
made = net.Program(1)(x, np.arange(12).reshape(2, 6).astype("uint4"))
print(made[-1].dtype, made[-1].tolist()[0][0], made[1].dtype)
"""
    said = ran(sys.executable, "-c", program, cwd=tmp_path / "net")
    assert said.split() == ["uint4", "6", STORAGE[0].name]


def test_without_ml_dtypes_they_are_named() -> None:
    program = """
import sys
sys.modules["ml_dtypes"] = None
import graphc as gx
for ask in (lambda: gx.placeholder((2,), "float8_e4m3fn"), lambda: gx.int4):
    try:
        ask()
    except gx.DTypeError as error:
        print(error.hint)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("pip install") == 2
