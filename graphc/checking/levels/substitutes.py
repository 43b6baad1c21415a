"""Compiled functions and products of class R, from which the interpreter takes their bits.

Class R leaves results open within a bound, but the same on one target wherever the code stands. So
a function is a plain compiled loop, and a product of matrices one chain of multiply-adds per
element.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.base.target import Target
from graphc.checking.levels.loops import FUNCTIONS, Loops
from graphc.codegen.gemm.builder import Builder
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import ltype
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, dtype, floating
from graphc.kernel.fused_multiply_add import fma
from graphc.runtime import jit

Inspector = Callable[[str, DType, Sequence[Array], Array], None]
"""Told of each call of a function: name, dtype, operands and result."""


class Substitutes:
    """Functions and products as compiled code for one target must give them, bit for bit.

    Attributes:
        functions: by the name of the primitive.
    """

    def __init__(self, target: Target, inspect: Inspector | None = None) -> None:
        self._target = target
        self._inspect = inspect
        self._loops: dict[tuple[str, DType], tuple[Loops, str]] = {}
        self._chains: dict[DType, Any] = {}
        self.functions = {name: self._function(name) for name in FUNCTIONS}

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


__all__ = ["Inspector", "Substitutes"]
