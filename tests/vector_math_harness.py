"""Compiles single primitives into array loops and measures results in units in the last place."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np

from graphc.base.target import Target, host, named
from graphc.codegen.emitter import (
    I64,
    PTR,
    FunctionEmitter,
    ModuleEmitter,
    Reg,
    element_of,
    ltype,
)
from graphc.codegen.scalar import emit_cast, emit_primitive
from graphc.ir.dtypes import DType, bool_
from graphc.kernel.scalar import PRIMITIVES
from graphc.runtime import jit

FUNCTIONS = tuple(name for name, primitive in PRIMITIVES.items() if not primitive.exact)

Array = np.ndarray[Any, Any]


def targets() -> dict[str, Target]:
    """The machine with FMA if it has it, without it, and the psABI levels that it can run."""
    chosen = {
        "host": host(),
        "host-without-fma": host().without_fma(),
        "x86-64-v2": named("x86-64-v2"),
    }
    if host().has_fma and host().vector_bits >= 256:
        chosen["x86-64-v3"] = named("x86-64-v3")
    return chosen


def operand_dtypes(name: str, dtype: DType) -> list[DType]:
    """The dtypes of a primitive's operands."""
    types = [dtype] * PRIMITIVES[name].arity
    if name == "select":
        types[0] = bool_
    return types


class Loops:
    """A library of array loops, each over one primitive or conversion."""

    def __init__(self, target: Target) -> None:
        self._module = ModuleEmitter(has_fma=target.has_fma)
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
        pointers = [("ptr", f"%in{index}") for index in range(len(operands))]
        e = FunctionEmitter(
            self._module, symbol, [*pointers, ("ptr", "%out"), ("i64", "%count")]
        )
        with e.loop(e.const(0, I64), Reg("%count", I64), lanes) as loop:
            inputs = []
            for (_, pointer), dtype in zip(pointers, operands, strict=True):
                memory = "i8" if dtype.kind == "bool" else element_of(dtype)
                address = e.element_pointer(Reg(pointer, PTR), loop.index, memory)
                value = e.load(address, ltype(memory, lanes), 1)
                if dtype.kind == "bool":
                    value = e.icmp("ne", value, e.const(0, value.type))
                inputs.append(value)
            value = body(e, inputs)
            assert value.type == ltype(element_of(result), lanes)
            memory = "i8" if result.kind == "bool" else element_of(result)
            if result.kind == "bool":
                value = e.convert("zext", value, memory)
            address = e.element_pointer(Reg("%out", PTR), loop.index, memory)
            e.store(value, address, 1)
        e.finish()
        self._symbols[symbol] = result.numpy

    def add_primitive(self, name: str, dtype: DType, lanes: int) -> str:
        """A loop over a primitive; returns its symbol."""
        symbol = f"loop_{name}_{dtype}_{lanes}"
        types = operand_dtypes(name, dtype)
        result = PRIMITIVES[name].result_dtype(types)
        self.add(symbol, types, result, lanes, lambda e, x: emit_primitive(e, name, x, dtype))
        return symbol

    def add_cast(self, source: DType, target: DType, lanes: int) -> str:
        """A loop over a conversion; returns its symbol."""
        symbol = f"loop_cast_{source}_{target}_{lanes}"
        self.add(symbol, [source], target, lanes, lambda e, x: emit_cast(e, x[0], source, target))
        return symbol

    def __call__(self, symbol: str, *arrays: Array) -> Array:
        """Runs a loop; everything that was added is compiled at the first call."""
        if self._library is None:
            self._library = jit.load(self._module.text(), self._symbols, self._target)
        result = np.empty(arrays[0].shape, self._symbols[symbol])
        pointers = [ctypes.c_void_p] * (len(arrays) + 1)
        function = self._library.function(symbol, *pointers, ctypes.c_int64)
        assert all(array.flags.c_contiguous for array in arrays)
        function(*(array.ctypes.data for array in arrays), result.ctypes.data, result.size)
        return result


def functions(target: Target, dtype: DType, lane_counts: Iterable[int]) -> Loops:
    """Loops over every inexact primitive of a dtype, for several lane counts."""
    loops = Loops(target)
    for lanes in lane_counts:
        for name in FUNCTIONS:
            loops.add_primitive(name, dtype, lanes)
    return loops


@cache
def _libm() -> jit.Library:
    """Loops over the C library's error function, in double and in extended precision."""
    text = ""
    for symbol, call, kind in (("double", "erf", "double"), ("extended", "erfl", "x86_fp80")):
        text += f"""
declare {kind} @{call}({kind})
define void @erf_{symbol}(ptr %in, ptr %out, i64 %count) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %from = getelementptr {kind}, ptr %in, i64 %i
  %to = getelementptr {kind}, ptr %out, i64 %i
  %x = load {kind}, ptr %from
  %y = call {kind} @{call}({kind} %x)
  store {kind} %y, ptr %to
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return jit.load(text, ("erf_double", "erf_extended"))


def _erf(x: Array) -> Array:
    x = np.ascontiguousarray(x)
    result = np.empty_like(x)
    symbol = "erf_double" if x.dtype == np.float64 else "erf_extended"
    arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    _libm().function(symbol, *arguments)(x.ctypes.data, result.ctypes.data, x.size)
    return result


def wide_reference(name: str, *arrays: Array) -> Array:
    """The function in the next wider precision: float64 for float32, extended for float64."""
    wide = np.float64 if arrays[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        operands = [array.astype(wide) for array in arrays]
        if name == "erf":
            return _erf(operands[0])
        if name == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-operands[0])))
        result: Array = getattr(np, name)(*operands)
        return result


def ulp_errors(got: Array, wide: Array) -> Array:
    """Distance from the exact value in ulps of it; inf where a special value or sign is wrong.

    An infinity where the exact value is finite counts as the first value beyond the largest.
    """
    information = np.finfo(got.dtype)
    with np.errstate(all="ignore"):
        bits = information.nmant
        _, exponent = np.frexp(wide)
        lowest = int(information.minexp)
        unit = np.ldexp(wide.dtype.type(1), np.maximum(exponent - 1, lowest) - bits)
        value = got.astype(wide.dtype)
        limit = np.ldexp(wide.dtype.type(1), int(information.maxexp))
        infinite = np.copysign(np.maximum(limit, np.abs(wide)), value)
        value = np.where(np.isinf(got) & np.isfinite(wide), infinite, value)
        errors = np.abs(value - wide) / unit
        special = ~np.isfinite(wide)
        right = np.where(np.isnan(wide), np.isnan(got), got == wide)
        errors = np.where(special, np.where(right, 0.0, np.inf), errors)
        errors = np.where(~special & np.isnan(got), np.inf, errors)
        wrong_sign = (np.signbit(got) != np.signbit(wide)) & ~np.isnan(wide)
        return np.where(wrong_sign, np.inf, errors).astype(np.float64)
