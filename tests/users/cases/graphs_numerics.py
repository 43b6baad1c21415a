"""Graphs of the cases about accuracy, subnormals, integer arithmetic and casts."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from cases.registry import CaseRun, case


@case("nan-exp-overflow")
def exp_at_every_length(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([gx.exp(x), *(gx.exp(x[:n]) for n in range(1, 20))])


@case("nan-denormal")
def subnormals(run: CaseRun) -> list[Any]:
    x, array = run.input("x"), run.inputs["x"]
    factors = (2.0**-124, 2.0**-140)

    def numpy_products() -> list[bytes]:
        return [(array * np.float32(factor)).tobytes() for factor in factors]

    before = numpy_products()
    outputs = run.fetch([x * factor for factor in factors])
    assert numpy_products() == before, "the floating-point mode of the process was changed"
    return outputs


@case("alg-fma")
def product_minus_itself(run: CaseRun) -> list[Any]:
    a, b = run.input("a"), run.input("b")
    product = a * b
    same_as_a = run.enter(run.inputs["a"])
    outputs = run.fetch([product, a * b - product, a * b - b * a, a * a - same_as_a * same_as_a])
    run.agree(outputs[3:], [np.zeros(1000)])
    # Alone, the product need not be stored, which is what invites a contraction.
    run.agree(run.fetch([a * a - same_as_a * same_as_a]), [np.zeros(1000)])
    return outputs[:3]


@case("num-sum-1e7", feeds_only=True)
def sum_of_ten_million(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([gx.sum(x), gx.mean(x)])


@case("num-var-large-mean")
def variance_around_a_large_mean(run: CaseRun) -> list[Any]:
    x, y, k = run.input("x"), run.input("y"), run.input("k")
    outputs = run.fetch([gx.var(x), gx.std(x), gx.var(y), gx.var(k), gx.std(k)])
    variance, deviation = outputs[3:]
    assert variance >= 0 and deviation >= 0
    return outputs[:4]


@case("num-log1p-expm1")
def tiny_arguments(run: CaseRun) -> list[Any]:
    x = run.input("x")
    difference = (gx.expm1(x) - gx.expm1(-x)) / 2
    outputs = run.fetch([gx.log1p(x), gx.expm1(x), difference, gx.sinh(x)])
    run.agree(outputs[2:], [np.sinh(run.inputs["x"])] * 2)
    return outputs[:2]


@case("num-trig-large")
def large_angles(run: CaseRun) -> list[Any]:
    x = run.input("x")
    outputs = run.fetch([gx.sin(x), gx.cos(x), gx.tan(x)])
    tangent = np.tan(np.asarray(run.inputs["x"], np.float64)).astype(np.float32)
    run.agree(outputs[2:], [tangent])
    return outputs[:2]


@case("num-cumsum")
def cumulative(run: CaseRun) -> list[Any]:
    x, i, e = run.input("x"), run.input("i"), run.input("e")
    outputs = run.fetch(
        [
            gx.cumsum(x, axis=0),
            gx.cumsum(x, axis=1),
            gx.cumsum(x, axis=-1)[:, ::-1],
            gx.cumprod(x, axis=1),
            gx.cumsum(i),
            gx.cumsum(e, axis=0),
            gx.cumsum(x[:, ::-1], axis=1),
            gx.cumsum(x),
        ]
    )
    run.agree(outputs[7:], [np.cumsum(run.inputs["x"])])
    return outputs[:7]


@case("int-uint8-then-cast")
def narrow_then_widen(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch(
        [
            (x + x).astype("int16"),
            (x * x).astype("int16"),
            (np.uint8(0) - x).astype("int32"),
            (-x).astype("int16"),
        ]
    )


@case("int-nsw")
def wrap_around(run: CaseRun) -> list[Any]:
    x = run.input("x")
    return run.fetch([(x + 1) > x, ((x * 2) // 2) == x, gx.abs(x), -x, (x + x).astype("int64")])


@case("int-floordiv-mod")
def floor_division(run: CaseRun) -> list[Any]:
    x = run.input("x")
    real = x.astype("float64")

    def outputs(four: list[Any], two_real: list[Any], two: list[Any]) -> list[Any]:
        return [
            *(x // d for d in four),
            *(x % d for d in four),
            *(real % d for d in two_real),
            *(gx.fmod(x, d) for d in two),
        ]

    divisors = [np.int32(d) for d in (5, -5, 2, -2)]
    fed = [run.enter(d) for d in divisors]
    fed_real = [run.enter(np.float64(d)) for d in (5, -5)]
    run.agree(run.fetch(outputs(fed, fed_real, fed[:2])), run.expected)
    run.agree(run.fetch(outputs([5, -5, 2, -2], [5.0, -5.0], [5, -5])), run.expected)
    return run.fetch(outputs(divisors, [5.0, -5.0], divisors[:2]))


@case("int-div-zero")
def divide_by_zero(run: CaseRun) -> list[Any]:
    x, d = run.input("x"), run.input("d")
    return run.fetch([x // d, x % d])


@case("int-shift")
def shift_by_the_width(run: CaseRun) -> list[Any]:
    x, u = run.input("x"), run.input("u")
    wide = np.array([1, -1, -(2**40)], np.int64)
    amounts_32 = [np.int32(s) for s in (0, 1, 31, 32, 37)]
    amounts_8 = [np.uint8(s) for s in (0, 7, 8, 13)]
    amounts_64 = [np.int64(s) for s in (0, 1, 63, 64, 69)]

    def outputs(of_32: list[Any], of_8: list[Any]) -> list[Any]:
        return [
            *(gx.left_shift(x, s) for s in of_32),
            *(gx.right_shift(x, s) for s in of_32),
            *(gx.left_shift(u, s) for s in of_8),
            *(gx.right_shift(u, s) for s in of_8),
        ]

    fed = run.fetch(outputs([run.enter(s) for s in amounts_32], [run.enter(s) for s in amounts_8]))
    run.agree(fed, run.expected)
    v = run.enter(wide)
    run.agree(
        run.fetch([op(v, s) for op in (gx.left_shift, gx.right_shift) for s in amounts_64]),
        [op(wide, s) for op in (np.left_shift, np.right_shift) for s in amounts_64],
    )
    return run.fetch(outputs(amounts_32, amounts_8))


@case("cast-float-int")
def cast_out_of_range(run: CaseRun) -> list[Any]:
    x = run.input("x")
    bad = np.asarray(run.inputs["bad"])
    limits = [("int32", np.int32), ("uint8", np.uint8), ("int64", np.int64)]
    # Casts saturate and NaN becomes 0, for every lane and wherever the cast is evaluated.
    policy = []
    for _, dtype in limits:
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        lanes = [
            0 if np.isnan(value) else high if value > high else low if value < low else int(value)
            for value in bad.tolist()
        ]
        policy.append(np.array(lanes, dtype))
    for constant in (False, True):
        entered = run.enter(bad, constant=constant)
        run.agree(run.fetch([entered.astype(name) for name, _ in limits]), policy)
    return run.fetch(
        [
            x.astype("int32"),
            x.astype("int64"),
            x[:4].astype("int8"),
            gx.abs(x[:4]).astype("uint8"),
        ]
    )


@case("int-pow")
def integer_power(run: CaseRun) -> list[Any]:
    a, e, b = run.input("a"), run.input("e"), run.input("b")
    short = run.enter(np.array([222, -222], np.int16))
    return run.fetch([a**e, b**-2.0, short ** np.int16(2)])


@case("dtype-promotion")
def promotion(run: CaseRun) -> list[Any]:
    names = ("i4", "f4", "i8", "u1", "i1", "u8", "f2", "b")
    i4, f4, i8, u1, i1, u8, f2, b = map(run.input, names)
    sums = [i4 + f4, i8 + f4, u1 + i1, u8 + i8, f2 + f4, b + u1]
    return run.fetch([*sums, f4 * 2.0, gx.divide(i4, i4), i4 * 2.0])


@case("dtype-int-reduce")
def accumulators(run: CaseRun) -> list[Any]:
    u, i, h, m = (run.input(name) for name in "uihm")
    sums = [u.sum(), u.mean(), i.sum(), gx.cumsum(i), h.mean(), h.sum()]
    return run.fetch([*sums, m @ m.T, i.mean()])


@case("sort-nan")
def sorting_special_values(run: CaseRun) -> list[Any]:
    x, zeros = run.input("x"), run.enter(np.array([0.0, -0.0, 0.0]))
    array = run.inputs["x"]
    outputs = [gx.sort(x), gx.argsort(x), gx.sort(x[:0]), gx.sort(x[:1]), gx.argsort(zeros)]
    largest, places = run.fetch(list(gx.top_k(x, 3)))
    run.agree([largest, places], [[np.nan] * 3, np.flatnonzero(np.isnan(array))[:3]])
    return run.fetch(outputs)
