"""Graphs of the cases about algebra, NaN and common subexpressions."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from cases.registry import CaseRun, case


@case("alg-mul-zero")
def multiply_by_zero(run: CaseRun) -> list[Any]:
    return run.fetch([run.input("x") * 0.0])


@case("alg-zero-div-x")
def zero_divided(run: CaseRun) -> list[Any]:
    return run.fetch([0.0 / run.input("x")])


@case("alg-add-zero-sign")
def add_zero(run: CaseRun) -> list[Any]:
    x = run.input("x")
    a, b, c = x + 0.0, x - 0.0, x + (-0.0)
    return run.fetch([a, b, c, 1 / a, 1 / b, 1 / c])


@case("alg-neg-zero")
def negate_zero(run: CaseRun) -> list[Any]:
    x = run.input("x")
    lengths = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
    outputs = run.fetch([-x, 0.0 - x, x * -1.0, *(-x[:n] for n in lengths)])
    every_length = [-x[:n] for n in range(1, 38)]
    run.agree(run.fetch(every_length), [-run.inputs["x"][:n] for n in range(1, 38)])
    return outputs


@case("alg-argmin-relu")
def argmin_of_monotone(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch(
        [
            gx.argmin(gx.maximum(x, 0), axis=-1),
            gx.argmin(gx.floor(x), axis=-1),
            gx.argmax(gx.sign(x), axis=-1),
        ]
    )


@case("alg-argmax-saturate")
def argmax_of_saturated(run: CaseRun) -> list[Any]:
    x, y = run.input("x"), run.input("y")
    sigmoid = 1 / (1 + gx.exp(-np.float32(10) * x))
    return run.fetch([gx.argmax(gx.tanh(x)), gx.argmax(gx.exp(y)), gx.argmax(sigmoid)])


@case("alg-pow-half")
def power_of_half(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([x**0.5, x**-0.5])


@case("alg-pow-special")
def power_specials(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([x**0.0, 1.0**x, x**1.0, x**2.0, x**3.0, x**-1.0, x ** (1 / 3)])


@case("alg-log-exp")
def log_of_exp(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([gx.log(gx.exp(x)), gx.exp(gx.log(x))])


@case("alg-reassoc-const")
def reassociate(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([(x + 1e8) - 1e8, (x * 1e30) * 1e-30, (x * 1e-30) * 1e30])


@case("alg-switch-sink")
def sink_into_select(run: CaseRun) -> list[Any]:
    c, x, y = run.input("c"), run.input("x"), run.input("y")
    selected = gx.where(c, x, 0.0)
    return run.fetch([selected / y, selected * y])


@case("nan-minmax")
def minimum_and_maximum(run: CaseRun) -> list[Any]:
    a, b = run.input("a"), run.input("b")
    return run.fetch(
        [
            gx.maximum(a, b),
            gx.minimum(a, b),
            gx.maximum(b, a),
            gx.clip(a, 0, 1),
            gx.maximum(a, 0),
            gx.maximum(0, a),
        ]
    )


@case("red-argmax-nan-ties")
def argmax_ties(run: CaseRun) -> list[Any]:
    x, i = run.input("x"), run.input("i")
    return run.fetch(
        [
            gx.argmax(x, axis=1),
            gx.argmin(x, axis=1),
            gx.argmax(x, axis=0),
            gx.argmax(i),
            gx.argmax(x),
        ]
    )


@case("red-nan-max")
def max_of_nan(run: CaseRun) -> list[Any]:
    x = run.input("x")
    missing = gx.isnan(x)
    return run.fetch(
        [
            gx.max(x, axis=1),
            gx.min(x, axis=1),
            gx.max(x, axis=0),
            gx.max(gx.where(missing, -np.inf, x), axis=1),
            gx.min(gx.where(missing, np.inf, x), axis=1),
        ]
    )


@case("ix-onehot-inf")
def gather_beside_inf(run: CaseRun) -> list[Any]:
    x, i, m = run.input("x"), run.input("i"), run.input("m")
    return run.fetch([x[i], gx.sum(gx.where(m, x, 0))])


@case("cse-true-1")
def constants_of_four_dtypes(run: CaseRun) -> list[Any]:
    x = run.input("x")
    ones = (np.True_, np.int64(1), np.float64(1), np.float32(1))
    outputs = run.fetch([x + one for one in ones])
    run.agree(run.fetch([x + gx.constant(one) for one in ones]), run.expected)
    return outputs


@case("cse-attrs")
def same_op_other_attributes(run: CaseRun) -> list[Any]:
    x, c = run.input("x"), run.input("c")
    outputs = run.fetch(
        [
            gx.sum(x, axis=0),
            gx.sum(x, axis=1),
            gx.sum(x),
            gx.sum(x, axis=0, keepdims=True),
            x.astype("float32"),
            gx.cumsum(x, axis=0),
            gx.cumsum(x, axis=1),
            gx.argmax(x, axis=0),
            gx.argmax(x, axis=1),
            gx.transpose(c, (1, 0, 2)),
            gx.transpose(c, (2, 1, 0)),
            gx.floor(x),
            gx.round(x),
        ]
    )
    # A cast there and back rounds; a cast to the dtype that x has does not.
    there_and_back = [x.astype("float32").astype("float64"), x.astype("float64")]
    narrow = np.asarray(run.inputs["x"]).astype(np.float32).astype(np.float64)
    run.agree(run.fetch(there_and_back), [narrow, run.inputs["x"]])
    return outputs


@case("sh-transpose-compose")
def compose_transposes(run: CaseRun) -> list[Any]:
    x, y = run.input("x"), run.input("y")

    def permute(value: Any, *permutations: tuple[int, ...]) -> Any:
        for permutation in permutations:
            value = gx.transpose(value, permutation)
        return value

    outputs = run.fetch(
        [
            permute(x, (1, 0, 2), (0, 2, 1)),
            permute(x, (1, 2, 0), (1, 2, 0)),
            permute(y, (1, 2, 3, 0), (3, 0, 1, 2)),
            permute(y, (1, 2, 3, 0), (1, 2, 3, 0)),
        ]
    )
    three = permute(x, (1, 2, 0), (1, 2, 0), (0, 2, 1))
    run.agree(
        run.fetch([three]),
        [np.transpose(run.inputs["x"], (1, 2, 0)).transpose(1, 2, 0).transpose(0, 2, 1)],
    )
    return outputs


@case("sh-gemm-identity")
def identity_transpose_before_matmul(run: CaseRun) -> list[Any]:
    x, w, q, b = (run.input(name) for name in "xwqb")
    return run.fetch(
        [
            x @ gx.transpose(w, (0, 1)) + b,
            x @ gx.transpose(q, (0, 1)),
            x @ gx.transpose(q, (1, 0)),
            (x @ q).T @ x,
        ]
    )


@case("alg-noncommutative")
def both_orders(run: CaseRun) -> list[Any]:
    a, b = run.input("a"), run.input("b")
    pairs = [
        (a - b, b - a), (a / b, b / a), (a @ b, b @ a), (a**b, b**a),
        (gx.arctan2(a, b), gx.arctan2(b, a)),
    ]  # fmt: skip
    return run.fetch([value for pair in pairs for value in pair])
