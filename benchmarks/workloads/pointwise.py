"""Chains of pointwise operations on long arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.workloads.base import FUNCTION_FLOPS, Array, Arrays, Goal, Workload, normal

CHAIN_SCALE, CHAIN_SHIFT = 1.3, -0.2
RELU_FACTOR = 0.7
RATE, VOLATILITY = 0.02, 0.3
# Abramowitz and Stegun 26.2.17, as the usual Black-Scholes benchmarks have it
NORMAL_STEP, NORMAL_SCALE = 0.2316419, 0.3989422804014327
NORMAL_TERMS = (0.31938153, -0.356563782, 1.781477937, -1.821255978, 1.330274429)


def _chain(inputs: Arrays) -> tuple[Array, ...]:
    x = inputs["x"]
    gate = 1 / (1 + np.exp(-(CHAIN_SCALE * x + CHAIN_SHIFT)))
    return (gate * np.tanh(x) + np.exp(-x * x) - 0.5 * np.sqrt(np.abs(x) + 1),)


def _cumulative(d: Any, xp: Any) -> Any:
    """The normal distribution function."""
    k = 1 / (1 + NORMAL_STEP * xp.abs(d))
    tail = NORMAL_TERMS[4]
    for term in NORMAL_TERMS[3::-1]:
        tail = term + k * tail
    tail = NORMAL_SCALE * xp.exp(-0.5 * d * d) * k * tail
    return xp.where(d > 0, 1 - tail, tail)


def black_scholes(s: Any, k: Any, t: Any, xp: Any) -> tuple[Any, Any]:
    """Call and put; ``xp`` has abs, exp, log, sqrt and where."""
    deviation = VOLATILITY * xp.sqrt(t)
    d1 = (xp.log(s / k) + (RATE + 0.5 * VOLATILITY * VOLATILITY) * t) / deviation
    d2 = d1 - deviation
    strike = k * xp.exp(-RATE * t)
    n1, n2 = _cumulative(d1, xp), _cumulative(d2, xp)
    return s * n1 - strike * n2, strike * (1 - n2) - s * (1 - n1)


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    few, many = (1 << 12, 1 << 12) if quick else (1 << 22, 1 << 24)
    rows, columns = (8, 64) if quick else (2048, 4096)
    return (
        Workload(
            "ew_chain",
            "pointwise",
            f"sigmoid(a·x+b)·tanh(x) + exp(−x²) − ½·sqrt(|x|+1), {few:,} floats",
            lambda random: {"x": normal(random, few)},
            _chain,
            flops=few * (4 * FUNCTION_FLOPS + 12),
            bytes=few * 8,
            goals=(Goal(0.85),),
        ),
        Workload(
            "ew_chain_approx",
            "pointwise_approx",
            "the same with fast functions where the peer has a switch for them",
            lambda random: {"x": normal(random, few)},
            _chain,
            flops=few * (4 * FUNCTION_FLOPS + 12),
            bytes=few * 8,
            relative=1e-3,
            absolute=1e-4,
            goals=(Goal(0.7),),
        ),
        Workload(
            "ew_cheap",
            "relu_scale",
            f"relu(a·x+b)·c, {many:,} floats",
            lambda random: {"x": normal(random, many)},
            lambda i: (np.maximum(CHAIN_SCALE * i["x"] + CHAIN_SHIFT, 0) * RELU_FACTOR,),
            flops=many * 4,
            bytes=many * 8,
            goals=(Goal(0.7),),
        ),
        Workload(
            "black_scholes",
            "black_scholes",
            f"Black-Scholes call and put, {few:,} doubles",
            lambda random: {
                "s": random.uniform(5, 30, few),
                "k": random.uniform(1, 100, few),
                "t": random.uniform(0.25, 10, few),
            },
            lambda i: black_scholes(i["s"], i["k"], i["t"], np),
            flops=few * (5 * FUNCTION_FLOPS + 45),
            bytes=few * 40,
            double=True,
            relative=1e-9,
            absolute=1e-9,
            goals=(Goal(0.4),),
        ),
        Workload(
            "scales",
            "scales",
            f"(x + bias)·row·column, {rows}×{columns}",
            lambda random: {
                "x": normal(random, rows, columns),
                "bias": normal(random, columns),
                "row": normal(random, rows, 1),
                "column": normal(random, columns),
            },
            lambda i: ((i["x"] + i["bias"]) * i["row"] * i["column"],),
            flops=3 * rows * columns,
            bytes=8 * rows * columns,
            goals=(Goal(0.7),),
        ),
    )
