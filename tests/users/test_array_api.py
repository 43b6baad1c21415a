"""The namespace of the array API standard: names, signatures, dtypes, and programs written with it.

Numbers are those of ``gx``, which other tests hold against NumPy's. The standard's own suite runs
on ``array_api_eager``, which says how.
"""

from __future__ import annotations

import inspect
from typing import Any

import array_api_eager as eager
import numpy as np
import pytest

import graphc as gx
from graphc import array_api as xp
from graphc.ir.dtypes import COMPLEX, COMPUTED, COMPUTED_FLOATS, INTEGERS
from graphc.ir.surface import other_names

STANDARD = """
abs acos acosh add all any arange argmax argmin asarray asin asinh astype atan atan2 atanh
bitwise_and bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool
broadcast_arrays broadcast_to can_cast ceil clip concat conj copysign cos cosh count_nonzero
cumulative_prod cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye finfo
flip float32 float64 floor floor_divide from_dlpack full full_like greater greater_equal hypot iinfo
imag inf int16 int32 int64 int8 isdtype isfinite isinf isnan less less_equal linspace log log10
log1p log2 logaddexp logical_and logical_not logical_or logical_xor matmul matrix_transpose max
maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis nextafter not_equal ones
ones_like permute_dims pi positive pow prod real reciprocal remainder repeat reshape result_type
roll round sign signbit sin sinh sqrt square squeeze stack std subtract sum take take_along_axis tan
tanh tensordot tile tril triu trunc uint16 uint32 uint64 uint8 unstack var vecdot where zeros
zeros_like
"""


def test_names_of_the_standard_are_there() -> None:
    names = STANDARD.split()
    assert not [name for name in names if not hasattr(xp, name)]
    assert set(names) <= set(dir(xp))
    assert not [name for name in dir(xp) if name.startswith("_") and "array" not in name]
    with pytest.raises(AttributeError, match="no attribute 'arcsin'"):
        xp.arcsin  # noqa: B018


def test_signatures_take_what_the_standard_gives_by_name() -> None:
    for name in ("arange", "empty", "eye", "full", "linspace", "ones", "zeros_like", "asarray"):
        assert {"dtype", "device"} <= inspect.signature(getattr(xp, name)).parameters.keys(), name
    assert "correction" in inspect.signature(xp.var).parameters
    assert list(inspect.signature(xp.clip).parameters) == ["x", "min", "max"]


def test_a_value_knows_its_namespace() -> None:
    with gx.Graph():
        x = gx.placeholder((None, 2))
        assert x.__array_namespace__() is xp
        assert x.__array_namespace__(api_version="2023.12") is xp
        for version in ("2031.12", "first"):
            with pytest.raises(gx.UnsupportedError, match=version) as caught:
                x.__array_namespace__(api_version=version)
        assert caught.value.where is not None and caught.value.where.filename == __file__
        assert x.device == "cpu" and x.mT.shape == (2, x.shape[0])
        with pytest.raises(gx.UnsupportedError, match="device 'cuda'"):
            xp.zeros(3, device="cuda")


def standardised(x: Any) -> Any:
    """A program that knows no library."""
    xp = x.__array_namespace__()
    centred = (x - xp.mean(x, axis=0, keepdims=True)) / xp.std(x, axis=0, correction=1)
    angles = xp.atan2(centred, xp.clip(centred, min=0.5, max=None))
    order = xp.cumulative_sum(xp.pow(angles, 2), axis=1, include_initial=True)
    return xp.concat([order, xp.permute_dims(xp.eye(4, 5, dtype=x.dtype), (0, 1))], axis=0)


def test_a_program_that_knows_no_library_gives_the_same_numbers() -> None:
    array = np.random.default_rng(0).normal(size=(6, 4))
    with gx.Graph() as graph:
        x = gx.placeholder((None, 4), "float64")
        result = standardised(x)
    wanted = standardised(array)
    np.testing.assert_allclose(gx.Session(graph).run(result, {x: array}), wanted, rtol=1e-12)
    np.testing.assert_allclose(standardised(eager.Array(array)).array, wanted, rtol=1e-12)


def test_dtypes() -> None:
    assert xp.finfo(xp.float32).eps == np.finfo(np.float32).eps
    assert xp.finfo("float64").smallest_normal == np.finfo(np.float64).tiny
    assert (xp.iinfo("int8").min, xp.iinfo(xp.uint16).max) == (-128, 65535)
    for element in (*COMPUTED, *COMPLEX):
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating",
                     "complex floating", "numeric"):  # fmt: skip
            wanted = np.isdtype(element.numpy, kind)
            assert xp.isdtype(element, kind) == wanted, (element, kind)
    assert xp.isdtype(xp.int8, (xp.float32, "integral"))
    assert xp.result_type(xp.int8, xp.uint8) is xp.int16
    assert xp.result_type(xp.float32, 1, True) is xp.float32
    assert xp.result_type(xp.int8, 1.0) is xp.float64
    assert xp.result_type(1, 2.0) is xp.float32
    assert xp.can_cast(xp.int8, xp.int64) and not xp.can_cast(xp.int64, xp.int8)
    for call, message in (
        (lambda: xp.finfo("int8"), "finfo of int8"), (lambda: xp.iinfo("bool"), "iinfo of bool"),
        (lambda: xp.isdtype("int8", "whole"), "no kind"), (lambda: xp.result_type(), "of nothing"),
    ):  # fmt: skip
        with pytest.raises(gx.DTypeError, match=message):
            call()


def test_what_there_is() -> None:
    info = xp.__array_namespace_info__()
    assert info.default_dtypes() == {
        "real floating": xp.float32, "complex floating": xp.complex64, "integral": xp.int64,
        "indexing": xp.int64,
    }  # fmt: skip
    assert list(info.dtypes(kind="complex floating").values()) == [xp.complex64, xp.complex128]
    assert list(info.dtypes(kind="integral").values()) == [*INTEGERS]
    assert list(info.dtypes(kind=("bool", "real floating"))) == ["bool", *map(str, COMPUTED_FLOATS)]
    assert info.devices() == [info.default_device()] == ["cpu"]
    assert not info.capabilities()["data-dependent shapes"]


def test_an_axis_out_of_range_is_an_index_error() -> None:
    with gx.Graph():
        x = gx.placeholder((2, 3))
        for call in (lambda: xp.expand_dims(x, axis=4), lambda: xp.flip(x, axis=-3)):
            with pytest.raises(IndexError, match="out of range for a tensor of rank") as caught:
                call()
            assert isinstance(caught.value, gx.AxisError) and isinstance(caught.value, ValueError)


def test_where_numpy_is_not_as_the_standard_has_it_graphc_is_as_numpy() -> None:
    """The numbers of the tests that ``array_api_exceptions.txt`` lists, with their signs."""
    one = [np.inf, np.inf, -np.inf, -np.inf, 2.0, -2.0]
    other = [3.0, -3.0, 3.0, -3.0, -np.inf, np.inf]
    with np.errstate(invalid="ignore"):
        quotients = np.floor_divide(one, other)
    np.testing.assert_array_equal(quotients, [np.nan] * 4 + [-1.0] * 2)
    x, y = (eager.asarray(numbers, dtype=xp.float64) for numbers in (one, other))
    for got in (eager.floor_divide(x, y), x // y):
        np.testing.assert_array_equal(got.array, quotients)
    x //= y
    np.testing.assert_array_equal(x.array, quotients)
    for name, number, signs in (
        ("expm1", complex(-0.0, 0.0), (True, False)), ("tanh", complex(np.inf, 3), (False, True))
    ):  # fmt: skip
        result = getattr(eager, name)(eager.asarray([number], dtype=xp.complex128)).array
        np.testing.assert_array_equal(result, getattr(np, name)([number]))
        assert tuple(np.signbit([result.real[0], result.imag[0]])) == signs, name


def test_eager_arrays_share_or_copy() -> None:
    x = eager.asarray([1, 2])
    assert eager.asarray(x, copy=False) is x and eager.asarray(x, copy=True) is not x
    assert eager.asarray(1j).dtype is xp.complex64 and eager.asarray(1.0).dtype is xp.float32
    with pytest.raises(ValueError, match="without a copy"):
        eager.asarray(x, dtype=xp.float32, copy=False)


def test_corrections_need_not_be_whole() -> None:
    array = np.arange(6.0).reshape(2, 3)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None), "float64")
        fetches = [xp.var(x, correction=0.5), xp.std(x, axis=1, correction=1.0)]
    wide, narrow = gx.Session(graph).run(fetches, {x: array})
    np.testing.assert_allclose(wide, np.var(array, ddof=0.5))
    np.testing.assert_allclose(narrow, np.std(array, axis=1, ddof=1))


def test_dtypes_compare_with_any_text() -> None:
    for text in ("float32", "no dtype", "a/path.py::test[x]", "3,["):
        assert (xp.float32 == text) == (text == "float32")


def test_second_names_are_the_same_functions() -> None:
    names = other_names()
    assert names["acos"] == "arccos" and "absolute" in names
    for name, known in names.items():
        assert getattr(gx, name) is getattr(gx, known), name
        assert name in dir(gx) and known not in names
    with gx.Graph():
        x = gx.placeholder((2,))
        assert np.true_divide(x, x).type == (x / x).type
