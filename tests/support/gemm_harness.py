"""Compiled matrix products of each dtype and target, called with NumPy arrays between red zones.

The oracle of bits is a scalar kernel of the same emitter: one multiply-add after the other.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest

from graphc.base.target import Target, host, named
from graphc.codegen.gemm import (
    emit_gemm,
    emit_gemm_packed,
    gemm_workspace_bytes,
    reads_in_place,
    reads_transpose_in_place,
)
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import ltype
from graphc.ir.dtypes import COMPUTED_FLOATS, DType, bool_
from graphc.kernel.panels import depth_limit, even_depth, pack, panel_width
from graphc.runtime.jit import Library, compile_object

Array = np.ndarray[Any, np.dtype[Any]]

POINTER, INTEGER = ctypes.c_void_p, ctypes.c_int64
NEAR = (POINTER, POINTER, INTEGER)  # the workspace, then what is brought near
GUARD = 512  # bytes of red zone on either side
MARK = 0xA5

LAYOUTS = ("plain", "transposed", "strided", "reversed")


def targets() -> dict[str, Target]:
    """The targets that this machine can run."""
    native = host()
    found = {"host": native, "host-without-fma": native.without_fma(), "v2": named("x86-64-v2")}
    if native.vector_bits >= 256:
        found["v3"] = named("x86-64-v3")
    return found


TARGETS = targets()
every_target = pytest.mark.parametrize("target", TARGETS)
every_float = pytest.mark.parametrize("dtype", COMPUTED_FLOATS, ids=str)


class Products:
    """The compiled functions of one dtype and target, called with NumPy arrays."""

    def __init__(self, dtype: DType, target: Target) -> None:
        module = ModuleEmitter(target)
        self.dtype, self.target = dtype, target
        names = [emit_gemm(module, dtype, target)]
        assert names[0] == emit_gemm(module, dtype, target)
        if dtype.is_float:
            names.append(emit_gemm_packed(module, dtype, target))
            names.append(_emit_chain(module, dtype))
        library = Library(compile_object(module.text(), target), names)
        self.library = library
        self._gemm = library.function(names[0], *[POINTER] * 3, *[INTEGER] * 8, *NEAR)
        if dtype.is_float:
            self._packed = library.function(names[1], *[POINTER] * 3, *[INTEGER] * 8, *NEAR)
            self._chain = library.function(names[2], *[POINTER] * 3, *[INTEGER] * 7)

    def product(self, a: Array, b: Array, gap: int = 0, near: Array | None = None) -> Array:
        """a @ b, with guarded result and workspace and ``gap`` untouched elements between rows.

        ``near`` is a table of addresses and strides.
        """
        (m, k), n = a.shape, b.shape[1]
        is_flat = _strides(b) == (n, 1) and reads_in_place(self.dtype, self.target, n)
        result, workspace = self._result(m, n, gap), self._workspace(a, n, not is_flat)
        self._gemm(
            a.ctypes.data, b.ctypes.data, result.address, m, n, k,
            *_strides(a), *_strides(b), n + gap, workspace.address, *_table(near),
        )  # fmt: skip
        workspace.check()
        return self._taken(result, m, n, gap)

    def packed_product(self, a: Array, b: Array, gap: int = 0, near: Array | None = None) -> Array:
        """a @ b with b packed beforehand."""
        (m, k), n = a.shape, b.shape[1]
        depth = even_depth(k, depth_limit(self.dtype, self.target)) if k else 1
        panels = pack(b, panel_width(self.dtype, self.target), depth) if b.size else b
        packed = Guarded(panels.nbytes)
        packed.content[:] = panels.reshape(-1).view(np.uint8)
        result, workspace = self._result(m, n, gap), self._workspace(a, n, False)
        self._packed(
            a.ctypes.data, packed.address, result.address, m, n, k,
            *_strides(a), depth, panels.shape[1] * panels.shape[3] if b.size else 0, n + gap,
            workspace.address, *_table(near),
        )  # fmt: skip
        workspace.check()
        packed.check()
        return self._taken(result, m, n, gap)

    def chain(self, a: Array, b: Array) -> Array:
        """The oracle: every element by one scalar chain."""
        (m, k), n = a.shape, b.shape[1]
        result = np.empty((m, n), self.dtype.numpy)
        self._chain(
            a.ctypes.data, b.ctypes.data, result.ctypes.data, m, n, k, *_strides(a), *_strides(b)
        )
        return result

    def _result(self, m: int, n: int, gap: int) -> Guarded:
        return Guarded(m * (n + gap) * self.dtype.bytes)

    def _workspace(self, a: Array, n: int, packs_right: bool) -> Guarded:
        """No larger than what products of such operands may ask for."""
        m, strides = a.shape[0], _strides(a)
        in_place = strides == (1, m) and reads_transpose_in_place(self.dtype, self.target, m)
        packs_left = strides[1] != 1 and not in_place
        return Guarded(
            gemm_workspace_bytes(
                self.dtype, self.target, a.shape[0], n, a.shape[1],
                packs_left=packs_left, packs_right=packs_right,
                is_transposed=strides[0] == 1 != strides[1],
            )
        )  # fmt: skip

    def _taken(self, result: Guarded, m: int, n: int, gap: int) -> Array:
        result.check()
        whole = result.content.view(self.dtype.numpy).reshape(m, n + gap)
        assert (np.ascontiguousarray(whole[:, n:]).view(np.uint8) == MARK).all()
        return whole[:, :n].copy()


class Guarded:
    """A block of marked bytes between red zones. As floats, the marks are ordinary numbers."""

    def __init__(self, size: int) -> None:
        self._bytes = np.full(size + 2 * GUARD, MARK, np.uint8)
        self.content = self._bytes[GUARD : GUARD + size]
        self.address = self._bytes.ctypes.data + GUARD

    def check(self) -> None:
        """Fails if a red zone was written."""
        assert (self._bytes[:GUARD] == MARK).all()
        assert (self._bytes[GUARD + self.content.size :] == MARK).all()


def _emit_chain(module: ModuleEmitter, dtype: DType) -> str:
    f = Builder(module, f"chain_{dtype}", "*a *b *c m n k a_row a_col b_row b_col", internal=False)
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    a_row, a_col, b_row, b_col = f.given("a_row", "a_col", "b_row", "b_col")
    element, size = element_of(dtype), dtype.bytes
    scalar = ltype(element)
    with f.loop(0, m) as row, f.loop(0, n) as column:
        left = f.at(a, element, row.index * a_row)
        right = f.at(b, element, column.index * b_col)
        with f.loop(0, k, 1, [f.const(0.0, scalar)]) as step:
            x = f.load(f.at(left, element, step.index * a_col), scalar, size)
            y = f.load(f.at(right, element, step.index * b_row), scalar, size)
            step.yields = [f.fma(x, y, step.carries[0])]
        place = f.at(c, element, row.index * n, column.index)
        f.store(step.results[0], place, size)
    f.finish()
    return f.name


@cache
def products(dtype: DType, target: str) -> Products:
    """Compiled once per dtype and target."""
    return Products(dtype, TARGETS[target])


def _strides(array: Array) -> tuple[int, int]:
    row, column = (stride // array.itemsize for stride in array.strides)
    return row, column


def _table(near: Array | None) -> tuple[int | None, int]:
    return (None, 0) if near is None else (near.ctypes.data, len(near))


def matrix(generator: np.random.Generator, shape: tuple[int, int], dtype: DType) -> Array:
    """A contiguous random matrix."""
    if dtype.is_float:
        return generator.standard_normal(shape).astype(dtype.numpy)
    if dtype is bool_:
        return generator.random(shape) < 0.3
    info = np.iinfo(dtype.numpy)
    return generator.integers(info.min, info.max, shape, dtype.numpy, endpoint=True)


def laid_out(array: Array, layout: str) -> Array:
    """The same numbers with other strides; what lies between them is NaN or large."""
    rows, columns = array.shape
    filler = np.nan if array.dtype.kind == "f" else 1
    if layout == "plain":
        return array
    if layout == "transposed":
        return np.ascontiguousarray(array.T).T
    if layout == "strided":
        whole = np.full((2 * rows, 3 * columns + 1), filler, array.dtype)
        view = whole[::2, 1 : 3 * columns + 1 : 3]
    else:
        view = np.full((rows, columns), filler, array.dtype)[::-1, ::-1]
    view[...] = array
    return view
