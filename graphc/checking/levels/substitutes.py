"""Compiled functions, products and routines of class R: the interpreter takes their bits.

Class R leaves results open within a bound, but the same on one target wherever the code stands. So
a function is a plain compiled loop, and a product of matrices one chain of multiply-adds per
element. A native routine stands for itself, held against its meaning at every call.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from graphc.base.errors import VerifyError
from graphc.base.target import Target
from graphc.checking.levels.loops import Loops
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import ltype
from graphc.codegen.routines import routine_library
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, dtype, floating
from graphc.kernel.fused_multiply_add import fma
from graphc.kernel.routines import REGISTRY, Routine
from graphc.kernel.scalar import PRIMITIVES
from graphc.runtime import jit

Inspector = Callable[[str, DType, Sequence[Array], Array], None]
"""Told of each call of a function: name, dtype, operands and result."""


class Substitutes:
    """Functions and products as compiled code for one target must give them, bit for bit.

    Attributes:
        functions: by the name of the primitive.
        routines: those whose bits are open, by name.
    """

    def __init__(self, target: Target, inspect: Inspector | None = None) -> None:
        self._target = target
        self._inspect = inspect
        self._loops: dict[tuple[str, DType], tuple[Loops, str]] = {}
        self._chains: dict[DType, Any] = {}
        self.functions = {
            name: self._function(name)
            for name, primitive in PRIMITIVES.items()
            if not primitive.exact
        }
        self.routines = {
            name: self._routine(routine)
            for name, routine in REGISTRY.items()
            if routine.error is not None
        }

    def _function(self, name: str) -> Callable[..., Array]:
        def call(*operands: Array) -> Array:
            element = dtype(operands[0].dtype)
            arrays = [np.ascontiguousarray(array) for array in np.broadcast_arrays(*operands)]
            known = self._loops.get((name, element))
            if known is None:
                loops = Loops(self._target)
                known = self._loops[name, element] = loops, loops.add_primitive(name, element, 1)
            result = known[0](known[1], *arrays).reshape(arrays[0].shape)
            if self._inspect is not None:
                self._inspect(name, element, arrays, result)
            return result

        return call

    def _routine(self, routine: Routine) -> Callable[..., Sequence[Array]]:
        error = routine.error
        assert error is not None, "others have the bits of their reference"

        def call(*operands: Any) -> Sequence[Array]:
            sources, numbers = operands[: routine.sources], operands[routine.sources :]
            expected = routine.reference(*operands)
            results = [np.empty(array.shape, array.dtype) for array in expected]
            arrays = [*sources, *results]
            dtypes = tuple(dtype(array.dtype) for array in arrays)
            function = routine_function(routine.name, dtypes, len(numbers), self._target)
            room = np.empty(routine.room(dtypes, numbers), np.uint8)
            batch = expected[0].shape[:-1]
            wide = [np.broadcast_to(array, (*batch, array.shape[-1])) for array in arrays]
            for place in np.ndindex(batch):
                rows = [np.array(array[place]) for array in wide]
                pointers = [row.ctypes.data for row in rows]
                function(*pointers, *numbers, room.ctypes.data)
                for result, row in zip(results, rows[routine.sources :], strict=True):
                    result[place] = row
            for result, right, allowed in zip(results, expected, error(*operands), strict=True):
                _hold(routine.name, result, right, allowed)
            return results

        return call

    def multiply_add(self, x: Array, y: Array, z: Array) -> Array:
        """x * y + z, rounded once where the target does so."""
        return np.asarray(fma(x, y, z) if self._target.has_fma else x * y + z)

    def product(self, a: Array, b: Array) -> Array:
        """Matrix products of which every element is one chain in ascending order."""
        if not floating(a.dtype):
            return np.asarray(np.matmul(a, b))
        element = dtype(a.dtype)
        if element not in self._chains:
            self._chains[element] = _chain(element, self._target)
        (m, k), n = a.shape[-2:], b.shape[-1]
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        # whole vectors of columns
        wide = -(-n // _CHAIN_LANES) * _CHAIN_LANES
        count = math.prod(batch)
        left = np.ascontiguousarray(np.broadcast_to(a, (*batch, m, k))).reshape(count, m, k)
        right = np.zeros((*batch, k, wide), b.dtype)
        right[..., :n] = b
        right = right.reshape(count, k, wide)
        result = np.empty((count, m, wide), a.dtype)
        for x, y, z in zip(left, right, result, strict=True):
            self._chains[element](x.ctypes.data, y.ctypes.data, z.ctypes.data, m, wide, k)
        return result.reshape(*batch, m, wide)[..., :n]


def _hold(name: str, result: Array, right: Array, allowed: Array) -> None:
    """Raises if a routine is further from its meaning than it may be, where that is a number."""
    with np.errstate(all="ignore"):
        wrong = np.abs(result - right) > allowed
    wrong |= np.isfinite(right) & np.isfinite(allowed) & ~np.isfinite(result)
    if wrong.any():
        place = tuple(int(n) for n in np.argwhere(wrong)[0])
        raise VerifyError(
            f"{name} gives {result[place]} at {list(place)}, not {right[place]}, and in "
            f"{int(wrong.sum()) - 1} more places"
        )


@cache
def routine_function(
    name: str, dtypes: tuple[DType, ...], numbers: int, target: Target
) -> Any:
    symbol, module = routine_library(name, dtypes, target)
    library = _library(module.text, module.exports, target)
    pointers, words = [ctypes.c_void_p] * len(dtypes), [ctypes.c_int64] * numbers
    function = library.function(symbol, *pointers, *words, ctypes.c_void_p)
    function.library = library
    return function


@cache
def _library(text: str, symbols: tuple[str, ...], target: Target) -> jit.Library:
    return jit.load(text, symbols, target)


_CHAIN_LANES = 16


def _chain(element: DType, target: Target) -> Any:
    """``void (ptr a, ptr b, ptr c, i64 m, i64 n, i64 k)`` of packed arrays; n in whole vectors."""
    module = ModuleEmitter(target)
    f = Builder(module, "chain", "*a *b *c m n k", internal=False)
    a, b, c, m, n, k = f.given("a", "b", "c", "m", "n", "k")
    kind, size = element_of(element), element.bytes
    vector = ltype(kind, _CHAIN_LANES)
    with f.loop(0, m) as row, f.loop(0, n, _CHAIN_LANES) as column:
        with f.loop(0, k, 1, [f.const(0.0, vector)]) as step:
            x = f.load(f.at(a, kind, row.index * k, step.index), ltype(kind), size)
            y = f.load(f.at(b, kind, step.index * n, column.index), vector, size)
            step.yields = [f.fma(f.splat(x, _CHAIN_LANES), y, step.carries[0])]
        f.store(step.results[0], f.at(c, kind, row.index * n, column.index), size)
    f.finish()
    library = jit.load(module.text(), ("chain",), target)
    function = library.function("chain", *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 3)
    function.library = library
    return function


__all__ = ["Inspector", "Substitutes", "routine_function"]
