"""numexpr: expressions evaluated block by block into a kept array, by its virtual machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numexpr
import numpy as np

from benchmarks.peers.base import Peer, Prepared, arrays_of
from benchmarks.workloads.base import Arrays
from benchmarks.workloads.pointwise import (
    CHAIN_SCALE,
    CHAIN_SHIFT,
    NORMAL_SCALE,
    NORMAL_STEP,
    NORMAL_TERMS,
    RATE,
    RELU_FACTOR,
    VOLATILITY,
)

_NUMBERS = {
    name: np.float32(number)
    for name, number in {
        "scale": CHAIN_SCALE, "shift": CHAIN_SHIFT, "factor": RELU_FACTOR,
        "one": 1, "half": 0.5, "zero": 0,
    }.items()
}  # fmt: skip


class NumExpr(Peer):
    """numexpr from its wheel, which has no VML."""

    def versions(self) -> dict[str, str]:
        return {"numexpr": numexpr.__version__}

    def warm_up(self) -> None:
        numexpr.set_num_threads(self.threads)
        numexpr.evaluate("a + a", {"a": np.ones(8, np.float32)})


Builder = Callable[[Peer, Arrays, Arrays], Prepared]


def _into_kept(text: str) -> Builder:
    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        operands = inputs | _NUMBERS
        out = np.empty_like(inputs["x"])
        return Prepared(lambda: numexpr.evaluate(text, operands, out=out), arrays_of)

    return build


def _again(text: str) -> Builder:
    """Skips parsing; has no way to give an output array."""

    def build(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
        operands = inputs | _NUMBERS
        numexpr.validate(text, operands)
        return Prepared(lambda: numexpr.re_evaluate(local_dict=operands), arrays_of)

    return build


def _cumulative(d: str) -> str:
    k = f"(1/(1+{NORMAL_STEP}*abs({d})))"
    tail = str(NORMAL_TERMS[4])
    for term in NORMAL_TERMS[3::-1]:
        tail = f"({term}+{k}*{tail})"
    tail = f"{NORMAL_SCALE}*exp(-0.5*{d}*{d})*{k}*{tail}"
    return f"where({d} > 0, 1-{tail}, {tail})"


def _black_scholes(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    """It gives one result an expression, so shared terms are kept in arrays."""
    a: dict[str, Any] = dict(inputs)
    for name in ("v", "d1", "d2", "e", "n1", "n2", "call", "put"):
        a[name] = np.empty_like(inputs["s"])
    steps = {
        "v": f"{VOLATILITY}*sqrt(t)",
        "d1": f"(log(s/k) + {RATE + 0.5 * VOLATILITY**2}*t)/v",
        "d2": "d1 - v",
        "e": f"k*exp(-{RATE}*t)",
        "n1": _cumulative("d1"),
        "n2": _cumulative("d2"),
        "call": "s*n1 - e*n2",
        "put": "e*(1-n2) - s*(1-n1)",
    }

    def call() -> Any:
        for name, text in steps.items():
            numexpr.evaluate(text, a, out=a[name])
        return [a["call"], a["put"]]

    return Prepared(call, arrays_of)


_CHAIN = "one/(one+exp(-(scale*x+shift)))*tanh(x) + exp(-x*x) - half*sqrt(abs(x)+one)"
NumExpr.builders = {
    "pointwise": _into_kept(_CHAIN),
    "pointwise_approx": _into_kept(_CHAIN),
    "relu_scale": _into_kept("where(scale*x+shift > zero, scale*x+shift, zero)*factor"),
    "black_scholes": _black_scholes,
    "scales": _into_kept("(x + bias)*row*column"),
    "row_sum": _again("sum(x, axis=1)"),
    "sum": _again("sum(x)"),
    "column_sum": _again("sum(x, axis=0)"),
    "increment": _again("x + one"),
}
PEER = NumExpr
