"""Reductions of rows, of columns and of everything."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads.base import (
    FUNCTION_FLOPS,
    Array,
    Arrays,
    Goal,
    Workload,
    layer_norm,
    normal,
    softmax,
)


def _logsumexp(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    highest = x.max(-1, keepdims=True)
    return ((highest + np.log(np.exp(x - highest).sum(-1, keepdims=True)))[..., 0],)


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    of_rows = _of_rows(16, 64) if quick else _of_rows(4096, 1024)
    return of_rows + (_of_more(1 << 12, 64) if quick else _of_more(1 << 24, 4096))


def _of_rows(rows: int, columns: int) -> tuple[Workload, ...]:
    size = rows * columns

    def matrix(random: np.random.Generator) -> Arrays:
        return {"x": normal(random, rows, columns)}

    return (
        Workload(
            "softmax",
            "softmax",
            f"softmax of rows, {rows}×{columns}",
            matrix,
            lambda i: (softmax(i["x"]),),
            flops=size * (FUNCTION_FLOPS + 4),
            bytes=size * 8,
            goals=(Goal(0.75),),
        ),
        Workload(
            "layer_norm",
            "layer_norm",
            f"layer norm of rows, gain and bias, {rows}×{columns}",
            lambda random: {
                "x": normal(random, rows, columns),
                "gain": normal(random, columns),
                "bias": normal(random, columns),
            },
            lambda i: (layer_norm(i["x"], i["gain"], i["bias"]),),
            flops=size * 8,
            bytes=size * 8,
            absolute=1e-4,
            goals=(Goal(0.5),),
        ),
        Workload(
            "logsumexp",
            "logsumexp",
            f"log-sum-exp of rows, {rows}×{columns}",
            matrix,
            _logsumexp,
            flops=size * (FUNCTION_FLOPS + 3),
            bytes=size * 4,
            reads=True,
            goals=(Goal(0.5),),
        ),
        Workload(
            "row_sum",
            "row_sum",
            f"sums of rows, {rows}×{columns}",
            matrix,
            lambda i: (i["x"].sum(-1),),
            flops=size,
            bytes=size * 4,
            reads=True,
            absolute=1e-3,
        ),
        Workload(
            "mean_var",
            "mean_var",
            f"mean and variance of rows, {rows}×{columns}",
            matrix,
            lambda i: (i["x"].mean(-1), i["x"].var(-1)),
            flops=size * 4,
            bytes=size * 4,
            reads=True,
            absolute=1e-4,
            goals=(Goal(0.5),),
        ),
    )


def _of_more(summed: int, side: int) -> tuple[Workload, ...]:
    return (
        Workload(
            "sum",
            "sum",
            f"sum of {summed:,} floats",
            lambda random: {"x": normal(random, summed) + np.float32(0.5)},
            lambda i: (i["x"].sum(),),
            flops=summed,
            bytes=summed * 4,
            reads=True,
            relative=1e-3,
            goals=(Goal(0.9),),
        ),
        Workload(
            "column_sum",
            "column_sum",
            f"sums of columns, {side}×{side}",
            lambda random: {"x": normal(random, side, side)},
            lambda i: (i["x"].sum(0),),
            flops=side * side,
            bytes=side * side * 4,
            reads=True,
            absolute=5e-3,
            goals=(Goal(0.75),),
        ),
    )
