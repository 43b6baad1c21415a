"""Loops over primitives for several targets, and results measured in units in the last place."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from graphc.base.target import Target, host, named
from graphc.checking.levels.loops import FUNCTIONS, Loops
from graphc.ir.dtypes import DType
from graphc.runtime import jit

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


def functions(target: Target, dtype: DType, lane_counts: Iterable[int]) -> Loops:
    """Loops over every inexact primitive of a dtype, for several lane counts."""
    loops = Loops(target)
    for lanes in lane_counts:
        for name in FUNCTIONS:
            loops.add_primitive(name, dtype, lanes)
    return loops


@cache
def _libm() -> jit.Library:
    """Loops over the C library's error functions, in double and in extended precision."""
    text = ""
    for name, (suffix, kind) in product(("erf", "erfc"), (("", "double"), ("l", "x86_fp80"))):
        symbol, call = f"{name}{suffix}_loop", f"{name}{suffix}"
        text += f"""
declare {kind} @{call}({kind})
define void @{symbol}(ptr %in, ptr %out, i64 %count) {{
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
    return jit.load(text, ("erf_loop", "erfl_loop", "erfc_loop", "erfcl_loop"))


def _error_function(name: str, x: Array) -> Array:
    x = np.ascontiguousarray(x)
    result = np.empty_like(x)
    symbol = f"{name}_loop" if x.dtype == np.float64 else f"{name}l_loop"
    arguments = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    _libm().function(symbol, *arguments)(x.ctypes.data, result.ctypes.data, x.size)
    return result


APPROXIMATE = "_approx"


def wide_reference(name: str, *arrays: Array) -> Array:
    """The function in the next wider precision: float64 for float32, extended for float64."""
    wide = np.float64 if arrays[0].dtype == np.float32 else np.longdouble
    with np.errstate(all="ignore"):
        operands = [array.astype(wide) for array in arrays]
        name = name.removesuffix(APPROXIMATE)
        if name in ("erf", "erfc"):
            return _error_function(name, operands[0])
        if name == "sigmoid":
            return np.asarray(1 / (1 + np.exp(-operands[0])))
        result: Array = getattr(np, name)(*operands)
        return result


def function_errors(name: str, got: Array, wide: Array) -> Array:
    """``ulp_errors`` of a function; approximate ones may give 0 for denormal numbers."""
    errors = ulp_errors(got, wide)
    if not name.endswith(APPROXIMATE):
        return errors
    vanished = (got == 0) & (np.abs(wide) < np.finfo(got.dtype).smallest_normal)
    return np.where(vanished & (np.signbit(got) == np.signbit(wide)), 0.0, errors)


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
