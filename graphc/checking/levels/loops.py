"""Single primitives of kernels as compiled loops over arrays.

What a function of class R gives is open within a bound, but the same on one target wherever its
code stands. These loops are that code, standing alone.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.base.target import Target
from graphc.codegen.kernels.primitives import emit_primitive
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter, joined
from graphc.codegen.llvm.storage import element_of, from_storage, storage, to_storage
from graphc.codegen.llvm.types import I64, PTR, ltype
from graphc.codegen.math.calls import NAMES
from graphc.ir.attributes import Array
from graphc.ir.dtypes import DType, bool_
from graphc.kernel.scalar import PRIMITIVES
from graphc.runtime import jit

FUNCTIONS = tuple(name for name in PRIMITIVES if name in NAMES)
"""The elementary functions."""


def operand_dtypes(name: str, dtype: DType) -> list[DType]:
    """The dtypes of a primitive's operands."""
    types = [dtype] * PRIMITIVES[name].arity
    if name == "select":
        types[0] = bool_
    return types


class Loops:
    """A library of array loops, each over one primitive."""

    def __init__(self, target: Target) -> None:
        self._module = ModuleEmitter(target)
        self._target = target
        self._symbols: dict[str, np.dtype[Any]] = {}
        self._library: jit.Library | None = None

    def add(
        self,
        symbol: str,
        operands: Sequence[DType],
        result: DType,
        lanes: int,
        body: Callable[[FunctionEmitter, list[Reg]], Reg],
    ) -> None:
        """A loop over arrays whose length is a multiple of ``lanes``."""
        pointers = [f"in{index}" for index in range(len(operands))]
        parameters = dict.fromkeys((*pointers, "out"), PTR) | {"count": I64}
        e = FunctionEmitter(self._module, symbol, parameters)
        with e.loop(0, e.parameter("count"), lanes) as loop:
            inputs = []
            for pointer, dtype in zip(pointers, operands, strict=True):
                address = e.at(e.parameter(pointer), storage(dtype), loop.index)
                value = e.load(address, ltype(storage(dtype), lanes), 1)
                inputs.append(from_storage(e, value, dtype))
            value = body(e, inputs)
            assert value.type == ltype(element_of(result), lanes)
            address = e.at(e.parameter("out"), storage(result), loop.index)
            e.store(to_storage(e, value, result), address, 1)
        e.finish()
        self._symbols[symbol] = result.numpy

    def add_primitive(self, name: str, dtype: DType, lanes: int) -> str:
        """A loop over a primitive; returns its symbol."""
        symbol = f"loop_{name}_{dtype}_{lanes}"
        types = operand_dtypes(name, dtype)
        result = PRIMITIVES[name].result_dtype(types)
        self.add(symbol, types, result, lanes, lambda e, x: emit_primitive(e, name, x, dtype))
        return symbol

    def __call__(self, symbol: str, *arrays: Array) -> Array:
        """Runs a loop; everything that was added is compiled at the first call."""
        if self._library is None:
            whole = joined([*self._module.libraries.values(), self._module.module()])
            self._library = jit.load(whole.text, self._symbols, self._target)
        result = np.empty(arrays[0].shape, self._symbols[symbol])
        pointers = [ctypes.c_void_p] * (len(arrays) + 1)
        function = self._library.function(symbol, *pointers, ctypes.c_int64)
        assert all(array.flags.c_contiguous for array in arrays)
        function(*(array.ctypes.data for array in arrays), result.ctypes.data, result.size)
        return result


__all__ = ["FUNCTIONS", "Loops", "operand_dtypes"]
