"""Complex numbers against NumPy: arithmetic, moves, comparisons, promotion, refusals, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from bits import assert_same_bits
from slow_parameters import slow_unless

import graphc as gx
from graphc.checking.samples import specials
from graphc.ir.dtypes import ALL, COMPLEX, EVERY, DType, promote, promote_weak

OFF = gx.Options(cache="off")


def draw(seed: int, *shape: int, dtype: Any = np.complex64) -> Any:
    random = np.random.default_rng(seed)
    return (random.standard_normal(shape) + 1j * random.standard_normal(shape)).astype(dtype)


def run(function: Callable[..., Any], *arrays: Any, options: gx.Options = OFF) -> Any:
    """The function of placeholders for the arrays, which may have any sizes."""
    with gx.Graph() as graph:
        values = [gx.placeholder((None,) * np.ndim(a), np.asarray(a).dtype) for a in arrays]
        result = function(*values)
    return gx.Session(graph, options=options).compile(result, values)(*arrays)


def agree(given: Any, wanted: Any, dtype: Any = None, ulp: float = 4) -> None:
    """Equal but for a few ulp of the larger part."""
    wanted = np.asarray(wanted)
    assert given.dtype == (wanted.dtype if dtype is None else dtype)
    assert given.shape == wanted.shape
    if wanted.dtype.kind not in "fc":
        assert np.array_equal(given, wanted)
        return
    tolerance = ulp * float(np.finfo(given.dtype).eps)
    np.testing.assert_allclose(given, wanted, rtol=tolerance, atol=tolerance * 4)


X, Y = draw(0, 7, 5), draw(1, 7, 5)

OPERATIONS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "add": (lambda x, y: x + y, lambda x, y: x + y),
    "subtract": (lambda x, y: x - y, lambda x, y: x - y),
    "multiply": (lambda x, y: x * y, lambda x, y: x * y),
    "divide": (lambda x, y: x / y, lambda x, y: x / y),
    "negative": (lambda x, y: -x, lambda x, y: -x),
    "positive": (lambda x, y: +x, lambda x, y: x),
    "abs": (lambda x, y: abs(x), lambda x, y: abs(x)),
    "equal": (lambda x, y: gx.equal(x, gx.where(gx.real(x) > 0, x, y)),
              lambda x, y: x.real > 0),
    "not_equal": (lambda x, y: gx.not_equal(x, gx.where(gx.real(x) > 0, x, y)),
                  lambda x, y: x.real <= 0),
    "conj": (lambda x, y: gx.conj(x), lambda x, y: x.conj()),
    "conjugate": (lambda x, y: gx.conjugate(x), lambda x, y: x.conj()),
    "real": (lambda x, y: gx.real(x), lambda x, y: x.real),
    "imag": (lambda x, y: gx.imag(x), lambda x, y: x.imag),
    "angle": (lambda x, y: gx.angle(x), lambda x, y: np.angle(x)),
    "degrees": (lambda x, y: gx.angle(x, deg=True), lambda x, y: np.angle(x, deg=True)),
    "complex": (lambda x, y: gx.complex(gx.real(x), gx.imag(y)),
                lambda x, y: (x.real + 1j * y.imag).astype(np.complex64)),
    "sign": (lambda x, y: gx.sign(x), lambda x, y: np.sign(x)),
    "square": (lambda x, y: gx.square(x), lambda x, y: x * x),
    "reciprocal": (lambda x, y: gx.reciprocal(x), lambda x, y: 1 / x),
    "transpose": (lambda x, y: x.T, lambda x, y: x.T),
    "reshape": (lambda x, y: gx.reshape(x, (-1,)), lambda x, y: x.reshape(-1)),
    "slice": (lambda x, y: x[::-2, 1:3], lambda x, y: x[::-2, 1:3]),
    "pick": (lambda x, y: x[[1, 2, 1]], lambda x, y: x[[1, 2, 1]]),
    "take": (lambda x, y: gx.take(x, [0, -1], 0), lambda x, y: x[[0, -1]]),
    "take_along": (lambda x, y: gx.take_along_axis(x, np.zeros((7, 1), int), 1),
                   lambda x, y: x[:, :1]),
    "concatenate": (lambda x, y: gx.concatenate([x, y, x], 1),
                    lambda x, y: np.concatenate([x, y, x], 1)),
    "stack": (lambda x, y: gx.stack([x, y], -1), lambda x, y: np.stack([x, y], -1)),
    "pad": (lambda x, y: gx.pad(x, 1, constant_values=2 - 1j),
            lambda x, y: np.pad(x, 1, constant_values=2 - 1j)),
    "where": (lambda x, y: gx.where(gx.imag(x) > 0, x, y),
              lambda x, y: np.where(x.imag > 0, x, y)),
    "broadcast": (lambda x, y: x[:1] + y, lambda x, y: x[:1] + y),
    "flip": (lambda x, y: gx.flip(x, 0), lambda x, y: np.flip(x, 0)),
    "roll": (lambda x, y: gx.roll(x, 2, 0), lambda x, y: np.roll(x, 2, 0)),
    "tril": (lambda x, y: gx.tril(x), lambda x, y: np.tril(x)),
    "zeros_like": (lambda x, y: gx.zeros_like(x), lambda x, y: np.zeros_like(x)),
    "full_like": (lambda x, y: gx.full_like(x, 1j), lambda x, y: np.full_like(x, 1j)),
    "astype": (lambda x, y: x.astype("complex128"), lambda x, y: x.astype(np.complex128)),
    "to_bool": (lambda x, y: x.astype("bool"), lambda x, y: x.astype(bool)),
    "from_float": (lambda x, y: gx.real(x).astype("complex64"),
                   lambda x, y: x.real.astype(np.complex64)),
    "isnan": (lambda x, y: gx.isnan(x), lambda x, y: np.isnan(x)),
    "isfinite": (lambda x, y: gx.isfinite(x), lambda x, y: np.isfinite(x)),
    "isreal": (lambda x, y: gx.isreal(x), lambda x, y: np.isreal(x)),
    "logical_not": (lambda x, y: gx.logical_not(x), lambda x, y: np.logical_not(x)),
    "sum": (lambda x, y: gx.sum(x, 0), lambda x, y: x.sum(0)),
    "view": (lambda x, y: gx.view_as_complex(gx.view_as_real(x) * 2), lambda x, y: x * 2),
}  # fmt: skip


@slow_unless(lambda name, dtype: dtype == "complex64" or [*OPERATIONS].index(name) % 4 == 0)
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_operations_are_numpys(name: str, dtype: str) -> None:
    function, wanted = OPERATIONS[name]
    x, y = X.astype(dtype), Y.astype(dtype)
    expected = np.asarray(wanted(x, y))
    if name in ("astype", "complex", "from_float"):
        expected = expected.astype("complex128" if name == "astype" else dtype)
        if name == "from_float":
            dtype = "complex64"
    element = np.complex64 if name == "from_float" else None
    agree(run(function, x, y), expected.astype(element or expected.dtype))


@pytest.mark.parametrize("level", [0, 1, 2])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 0), (1, 1, 4)])
def test_shapes_and_levels(shape: tuple[int, ...], level: int) -> None:
    x, y = draw(2, *shape), draw(3, *shape)
    options = gx.Options(cache="off", optimize=level)
    agree(run(lambda a, b: (a * b - gx.conj(a)) / b, x, y, options=options), (x * y - x.conj()) / y)


def test_strided_feeds_and_other_dtypes() -> None:
    wide = draw(4, 6, 8, dtype=np.complex128)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "complex128")
        y = x * 2j
    exe = gx.Session(graph, options=OFF).compile(y, [x])
    for given in (wide[::2, ::-3], wide.T, wide.real, np.arange(6).reshape(2, 3), [[1, 2j]]):
        agree(exe(given), np.asarray(given, np.complex128) * 2j)
    swapped = wide.astype(wide.dtype.newbyteorder())
    agree(exe(swapped), wide * 2j)


# --- special values ------------------------------------------------------------------------------


def pairs(dtype: str) -> tuple[Any, Any]:
    special = specials(np.dtype(dtype))
    one, other = np.meshgrid(special, special)
    return one.ravel(), other.ravel()


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", ["add", "negative", "abs", "conj", "angle", "isnan", "isfinite"])
def test_special_values_are_numpys(name: str, dtype: str) -> None:
    function, wanted = OPERATIONS[name]
    x, y = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(wanted(x, y))
    given = run(function, x, y)
    if name in ("abs", "angle"):
        agree(given, expected)
    else:
        assert_same_bits(given, expected)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_products_and_quotients_at_special_values(dtype: str) -> None:
    """By the formulas that NumPy's loops have, each operation rounded once."""
    x, y = pairs(dtype)
    a, b, c, d = x.real, x.imag, y.real, y.imag
    with np.errstate(all="ignore"):
        parts = a * c - b * d, a * d + b * c
        wide = np.abs(c) >= np.abs(d)
        ratio = np.where(wide, d / c, c / d)
        scale = np.asarray(1, a.dtype) / np.where(wide, c + d * ratio, d + c * ratio)
        re = np.where(wide, a + b * ratio, a * ratio + b) * scale
        im = np.where(wide, b - a * ratio, b * ratio - a) * scale
        zero = wide & (c == 0)
        quotient = np.where(zero, a / np.abs(c), re), np.where(zero, b / np.abs(c), im)
        numpys = x / y
    for function, wanted in ((lambda x, y: x * y, parts), (lambda x, y: x / y, quotient)):
        given = run(function, x, y)
        assert_same_bits(given.real, wanted[0])
        assert_same_bits(given.imag, wanted[1])
    finite = np.isfinite(numpys)
    assert np.array_equal(np.isfinite(given), finite)
    assert np.array_equal(np.isnan(given.real), np.isnan(numpys.real))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_lengths_neither_overflow_nor_vanish(dtype: str) -> None:
    info = np.finfo(dtype)
    big, small = float(info.max) / 2, float(info.tiny)
    x = np.array([big + big * 1j, small * (3 + 4j), complex(np.inf, np.nan), 0], dtype)
    agree(run(lambda v: abs(v), x), np.abs(x))
    y = np.array([big * (1 + 1j), small * (3 + 4j) * 64], dtype)
    agree(run(lambda v: v / v, y), np.ones(2, dtype))


# --- promotion, constants, refusals --------------------------------------------------------------


def test_promotion_is_numpys() -> None:
    numpys = [one for one in EVERY if one.numpy.isbuiltin == 1]
    for one in numpys:
        for other in numpys:
            assert promote(one, other) == np.promote_types(one.numpy, other.numpy)
    for one in numpys:
        wanted = np.result_type(np.zeros(1, one.numpy), 1j)
        assert promote_weak(one, 1j) == wanted
        if one.is_complex:
            assert promote_weak(one, 1.5) is promote_weak(one, 2) is one


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_real_operands_beside_complex_ones(dtype: DType) -> None:
    real = np.arange(4).astype(dtype.numpy)
    x = draw(5, 4)
    agree(run(lambda a, b: a + b, real, x), real + x)
    agree(run(lambda a: a * (2 - 1j), real), real * (2 - 1j))


def test_constants() -> None:
    with gx.Graph() as graph:
        values = [
            gx.constant(1 + 2j),
            gx.constant([1j, 2]),
            gx.constant(np.complex128(3j)),
            gx.zeros((2,), "complex64"),
            gx.full((2,), 1j),
            gx.constant(2, "complex128"),
        ]
    results = gx.Session(graph, options=OFF).run(values)
    wanted = [
        np.complex64(1 + 2j), np.array([1j, 2], np.complex64), np.complex128(3j),
        np.zeros(2, np.complex64), np.full(2, 1j, np.complex64), np.complex128(2),
    ]  # fmt: skip
    for given, expected in zip(results, wanted, strict=True):
        assert_same_bits(np.asarray(given), np.asarray(expected))


REFUSED: tuple[Callable[[Any], Any], ...] = (
    lambda x: x < x, lambda x: gx.max(x), lambda x: gx.top_k(x, 1), lambda x: gx.floor(x),
    lambda x: x % x, lambda x: x // x, lambda x: gx.maximum(x, x), lambda x: gx.argmax(x),
    lambda x: x & x, lambda x: gx.arctan2(x, x), lambda x: gx.clip(x, 0, 1),
    lambda x: gx.nn.softmax(x), lambda x: gx.quantile(x, 0.5), lambda x: gx.erf(x),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_is_for_real_numbers_is_refused(number: int) -> None:
    with gx.Graph():
        x = gx.placeholder((3, 3), "complex64")
        with pytest.raises(gx.DTypeError) as caught:
            REFUSED[number](x)
    assert caught.value.where is not None and caught.value.where.filename == __file__
    assert caught.value.hint


def test_updates_of_places_are_complex_values() -> None:
    x, u, places = draw(2, 4, 3), draw(3, 3, 3, dtype=np.complex128), np.array([0, 3, 0])
    for name, ufunc in (("add", np.add), ("subtract", np.subtract)):
        wanted = x.copy()
        ufunc.at(wanted, places, u.astype(np.complex64))
        agree(run(lambda x, i, u, name=name: getattr(x.at[i], name)(u), x, places, u), wanted)
    agree(run(lambda x, u: x.at[1:].set(u), x, u), np.concatenate([x[:1], u]).astype(x.dtype))
    real = u.real.astype(np.float32)
    agree(run(lambda x, u: x.at[1:].set(u), x, real), np.concatenate([x[:1], real]))
    with pytest.raises(gx.DTypeError, match="an update of complex128 in a tensor of float32"):
        run(lambda x, u: x.at[1:].set(u), x.real.copy(), u)


def test_imaginary_parts_are_not_lost_silently() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), "complex64")
        v = gx.variable(np.zeros(3, np.float32))
        for attempt in (
            lambda: x.astype("float32"),
            lambda: x.astype("int64"),
            lambda: gx.constant(1j, "float32"),
            lambda: v.assign(x),
            lambda: gx.ones((3,)).at[0].set(1j),
        ):
            with pytest.raises(gx.DTypeError) as caught:
                attempt()
            assert caught.value.hint


# --- memory --------------------------------------------------------------------------------------


def test_a_chain_is_one_kernel() -> None:
    with gx.Graph() as graph:
        x, y = (gx.placeholder(("n",), "complex64") for _ in range(2))
        z = (x * y + 2j) * gx.conj(x) - x / y
    exe = gx.Session(graph, options=OFF).compile(z, [x, y])
    assert len(exe.kernels) == 1
    text = str(exe.graph)
    assert "complex" not in text.split("fused")[1].split("join_slices")[0]
    a, b = draw(6, 100), draw(7, 100)
    agree(exe(a, b), (a * b + 2j) * a.conj() - a / b, np.complex64)


def variables() -> tuple[gx.Graph, Any, Any, Any]:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "complex64", name="x")
        v = gx.variable(draw(8, 3), name="v")
        new = v.assign(v * x)
    return graph, x, v, new


def test_variables_loops_and_branches(tmp_path: Any) -> None:
    graph, x, v, new = variables()
    with graph:
        doubled = gx.cond(gx.real(gx.sum(x)) > 0, lambda: x * 2, lambda: gx.conj(x))
        _, power = gx.while_loop(
            lambda i, acc: i < 3, lambda i, acc: (i + 1, acc * x), (gx.constant(0), x)
        )
    session = gx.Session(graph, options=OFF)
    array, start = draw(9, 3), draw(8, 3)
    wanted = start
    for _ in range(2):
        wanted = wanted * array
        updated, branch, looped = session.run([new, doubled, power], {x: array})
        agree(updated, wanted, ulp=8)
        agree(branch, array * 2 if array.sum().real > 0 else array.conj())
        agree(looped, array**4, ulp=16)
    path = tmp_path / "v.safetensors"
    session.save(path)
    again = gx.Session(graph, options=OFF)
    again.restore(path)
    agree(again.run(v), wanted, ulp=8)


def test_files_and_libraries(tmp_path: Any) -> None:
    table = draw(10, 40, dtype=np.complex128)
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 40), "complex64", name="x")
        y = x * gx.constant(table) + (1 - 2j)
    session = gx.Session(graph, options=OFF)
    array = draw(11, 3, 40)
    wanted = session.run(y, {x: array})
    agree(wanted, array * table + (1 - 2j))
    gx.save(tmp_path / "graph", [y], session=session)
    (loaded,) = gx.load(tmp_path / "graph")
    assert loaded.dtype == np.complex128
    assert_same_bits(gx.Session(loaded.graph, options=OFF).run(loaded, {"x": array}), wanted)
    for embedded in (True, False):
        place = tmp_path / f"library{embedded}"
        gx.aot.compile(session.compile(y, [x]), place, embed_weights=embedded)
        assert_same_bits(np.asarray(gx.aot.load(place)(array)), wanted)


def test_double_precision_has_no_place_in_safetensors(tmp_path: Any) -> None:
    with gx.Graph() as graph:
        gx.variable(np.zeros(2, np.complex128), name="v")
    with pytest.raises(gx.GraphError, match="complex128"):
        gx.Session(graph, options=OFF).save(tmp_path / "v.safetensors")


@pytest.mark.parametrize("dtype", COMPLEX, ids=str)
def test_text_keeps_every_bit(dtype: DType) -> None:
    from graphc.compiling.extraction import extract
    from graphc.ir.text.parser import parse_graph
    from graphc.ir.text.printer import print_graph

    special = specials(dtype.numpy)[:8]
    with gx.Graph() as graph:
        values = [gx.constant(special), gx.constant(special[3])]
    before = extract(graph, values).graph
    after = parse_graph(print_graph(before))
    assert print_graph(after) == print_graph(before)


# --- derivatives ---------------------------------------------------------------------------------


def test_gradients_are_jaxs() -> None:
    """Of a real loss by z = a + ib: dL/da - i dL/db, by differences."""
    z = draw(12, 4, dtype=np.complex128)
    w = draw(13, 4, dtype=np.complex128)

    def loss(x: Any, y: Any) -> Any:
        return gx.sum(abs(x * y + x / (y + 3)) ** 2 + gx.real(gx.conj(x) * x * y) + gx.angle(x))

    with gx.Graph() as graph:
        x, y = (gx.placeholder((4,), "complex128") for _ in range(2))
        total = loss(x, y)
        slopes = gx.gradients(total, [x, y])
        tangent = gx.jvp(total, [x, y], [gx.constant(w), gx.constant(z)])
    exe = gx.Session(graph, options=OFF).compile([total, slopes, tangent], [x, y])
    _, found, change = exe(z, w)
    step = 1e-6
    for place, gradient in enumerate(found):
        for n in range(4):
            for unit, sign in ((1, 1), (1j, -1)):
                moved = []
                for direction in (step, -step):
                    given = [z.copy(), w.copy()]
                    given[place][n] += unit * direction
                    moved.append(exe(*given)[0])
                slope = (moved[0] - moved[1]) / (2 * step)
                part = gradient[n].real if unit == 1 else gradient[n].imag
                assert abs(sign * part - slope) < 1e-6 * max(1, abs(slope))
    wanted = np.sum(found[0] * w + found[1] * z).real
    assert abs(change - wanted) < 1e-9 * abs(wanted)


def test_holomorphic_gradients_are_products() -> None:
    z, w = draw(14, 3, dtype=np.complex128), draw(15, 3, dtype=np.complex128)
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "complex128")
        cube = x * x * x
        by = gx.gradients(cube, x, grad_ys=gx.constant(w))
        with pytest.raises(gx.DTypeError, match="complex"):
            gx.gradients(cube, x)
    agree(gx.Session(graph, options=OFF).run(by, {x: z}), 3 * z * z * w, ulp=16)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_python_functions_get_complex_arrays(level: int) -> None:
    """Though kernels see the memory of their parts."""
    with gx.Graph() as graph:
        x = gx.placeholder((2,), "complex64")
        kind = ((2,), "complex64")
        y = gx.host_call(lambda v: np.conj(v) * 2, x * 2j, result_types=kind)
        z = gx.view_as_real(gx.host_call(np.conj, x, result_types=kind))
    array = draw(16, 2)
    options = gx.Options(cache="off", optimize=level)
    found, parts, real = gx.Session(graph, options=options).run([y, z, gx.real(y)], {x: array})
    agree(found, (array * 2j).conj() * 2)
    agree(parts, np.stack([array.real, -array.imag], -1))
    agree(real, found.real)


def test_check_mode_takes_open_bits_of_complex_results() -> None:
    with gx.Graph() as graph:
        m, x = gx.placeholder((5, 9), "complex64"), gx.placeholder((9,), "complex64")
        fetched = [m @ x, gx.sum(m, 0), gx.sum(m, 1)]
    a, b = draw(20, 5, 9), draw(21, 9)
    found = gx.Session(graph, options=gx.Options(check=True)).run(fetched, {m: a, x: b})
    for one, other in zip(found, (a @ b, a.sum(0), a.sum(1)), strict=True):
        agree(one, other, np.complex64)
