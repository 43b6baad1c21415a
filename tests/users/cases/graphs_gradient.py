"""Graphs of the cases about reverse mode: ties, kinks, masked branches, broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gx
from cases.registry import CaseRun, case


@case("gr-pow-zero")
def gradient_of_power(run: CaseRun) -> list[Any]:
    x = run.input("x")
    exponents = (0, 1, 2, 3)
    as_ints = [gx.gradients(gx.sum(x**n), x) for n in exponents]
    as_floats = [gx.gradients(gx.sum(x ** float(n)), x) for n in exponents]
    fed = [run.enter(np.float64(n)) for n in exponents]
    as_inputs = [gx.gradients(gx.sum(x**n), x) for n in fed]
    # The derivative by the exponent is NaN for a negative base; that must stay its own affair.
    beside_exponents = [gx.gradients(gx.sum(x**n), [x, n])[0] for n in fed]
    for spelling in (as_floats, as_inputs, beside_exponents):
        run.agree(run.fetch(spelling), run.expected)
    # At bases 0 and above the derivative by the exponent is x**n·log(x), with 0 where x is 0.
    base = run.enter(np.array([0.0, 1.0, 3.0]))
    by_exponent = gx.gradients(gx.sum(base ** fed[2]), fed[2])
    run.agree(run.fetch([by_exponent]), [np.asarray(9 * np.log(3.0))])
    return run.fetch(as_ints)


@case("gr-where-trap")
def gradient_through_where(run: CaseRun) -> list[Any]:
    x = run.input("x")
    losses = [
        gx.where(x > 0, gx.sqrt(x), 0.0),
        gx.where(x > 0, gx.log(x), x),
        gx.where(x != 0, gx.sin(x) / x, 1.0),
    ]
    return run.fetch([gx.gradients(gx.sum(loss), x) for loss in losses])


@case("gr-max-ties")
def gradient_at_ties(run: CaseRun) -> list[Any]:
    x = run.input("x")
    by_x = gx.gradients(gx.max(x), x)
    a, b = run.enter(np.array([1.0, -2.0, 0.0])), run.enter(np.array([1.0, -2.0, 0.0]))
    by_a, by_b = gx.gradients(gx.sum(gx.maximum(a, b)), [a, b])
    by_both = gx.gradients(gx.sum(gx.maximum(a, a)), a)
    mass, shares, summed, own = run.fetch([gx.sum(by_x), by_x, by_a + by_b, by_both])
    # The rule: ties share evenly.
    run.agree([shares, summed, own], [np.array([1, 0, 1, 1]) / 3, np.ones(3), np.ones(3)])
    # Each alone, so that other kernels compute them.
    run.agree(run.fetch([by_x]), [shares])
    run.agree(run.fetch([by_a, by_b]), [np.full(3, 0.5)] * 2)
    return [mass]


@case("gr-kinks")
def gradient_at_kinks(run: CaseRun) -> list[Any]:
    x = run.input("x")
    losses = [
        gx.nn.relu(x),
        gx.where(x > 0, x, 0.0),
        gx.abs(x),
        gx.floor(x),
        gx.sign(x),
        gx.clip(x, 3, 4),
        gx.round(x),
        gx.ceil(x),
    ]
    gradients = run.fetch([gx.gradients(gx.sum(loss), x) for loss in losses])
    run.agree(gradients[6:], [np.zeros(3)] * 2)
    return gradients[:6]


@case("gr-second-order")
def second_derivatives(run: CaseRun) -> list[Any]:
    x, v = run.input("x"), run.input("v")

    def diagonal(y: Any) -> Any:
        return gx.gradients(gx.gradients(gx.sum(y), x), x)

    def hessian_times_v(loss: Any) -> Any:
        return gx.gradients(gx.sum(gx.gradients(loss, x) * v), x)

    return run.fetch(
        [
            diagonal(x**3),
            diagonal(gx.exp(-x * x)),
            diagonal(gx.tanh(x)),
            diagonal(x * gx.log(x)),
            hessian_times_v(gx.logsumexp(x)),
            hessian_times_v(gx.sum(x**4) / 12),
        ]
    )


@case("gr-broadcast", feeds_only=True)
def gradient_of_broadcast_operands(run: CaseRun) -> list[Any]:
    x_fed, b_fed, s_fed = (np.asarray(run.inputs[name]) for name in "xbs")
    x = gx.placeholder((None, 3), "float64", name="x")
    b = gx.placeholder((3,), "float64", name="b")
    wide = gx.placeholder((None, 3), "float64", name="wide")
    s = gx.placeholder((), "float64", name="s")
    gradients = gx.gradients(gx.sum((x + b) * s), [x, b, s])
    by_wide = gx.gradients(gx.sum((x + wide) * s), wide)
    with gx.Session() as session:
        by_x, by_b, by_s = session.run(gradients, {x: x_fed, b: b_fed, s: s_fed})
        empty = np.zeros((0, 3))
        by_b_of_empty = session.run(gradients[1], {x: empty, b: b_fed, s: s_fed})
        by_row = session.run(by_wide, {x: x_fed, wide: b_fed[None], s: s_fed})
        by_full = session.run(by_wide, {x: x_fed, wide: x_fed, s: s_fed})
        by_row_of_empty = session.run(by_wide, {x: empty, wide: b_fed[None], s: s_fed})
        assert session.compile_count == 3
    run.agree([by_full, by_row_of_empty], [np.full((4, 3), 2.0), np.zeros((1, 3))])
    return [by_x, by_b, by_s, by_b_of_empty, by_row]


@case("gr-fanout")
def gradient_of_a_thousand_uses(run: CaseRun) -> list[Any]:
    x, unused = run.input("x"), run.input("u")
    total = x * 0
    for k in range(1, 1000):
        total = total + x * k
    loss = gx.sum(total)
    return run.fetch(
        [
            gx.gradients(loss, x),
            gx.gradients(gx.sum(x * x), x),
            gx.gradients(gx.sum(x * x * x), x),
            gx.gradients(loss, unused, unconnected="zeros"),
        ]
    )


@case("gr-lse-inf")
def gradient_with_minus_infinity(run: CaseRun) -> list[Any]:
    x = run.input("x")
    by_x = gx.gradients(gx.sum(gx.logsumexp(x, axis=1)), x)
    row = x[0]
    by_row = gx.gradients(gx.nn.softmax(row)[0], row)
    # The same row, masked by adding −inf to a finite logit.
    logits = run.enter(np.array([0.0, 5.0, 1.0]))
    masked = gx.nn.softmax(logits + run.enter(np.array([0.0, -np.inf, 0.0])))
    by_logits = gx.gradients(masked[0], logits)
    outputs = run.fetch([by_x, by_row, by_logits])
    run.agree(outputs[2:], run.expected[1:])
    return outputs[:2]


@case("gr-xent")
def cross_entropy_of_huge_logits(run: CaseRun) -> list[Any]:
    x, y = run.input("x"), run.input("y")
    loss = gx.nn.softmax_cross_entropy(x, y)
    gradient = gx.gradients(gx.sum(loss), x)
    # Spelled by hand, the loss must meet the same answer.
    picked = gx.take_along_axis(gx.nn.log_softmax(x), gx.expand_dims(y, 1), axis=1)
    by_hand = -gx.squeeze(picked, axis=1)
    by_hand_gradient = gx.gradients(gx.sum(by_hand), x)
    outputs = run.fetch([loss, gradient, by_hand, by_hand_gradient])
    run.agree(outputs[2:], run.expected)
    return outputs[:2]


@case("gr-int-zero")
def gradient_through_integers(run: CaseRun) -> list[Any]:
    x = run.input("x")
    losses = [
        x.astype("int32").astype("float64"),
        x * gx.argmax(x),
        gx.where(x > 1, 2.0, 3.0),
    ]
    return run.fetch([gx.gradients(gx.sum(loss), x) for loss in losses])


@case("gr-cond")
def gradient_of_a_branch(run: CaseRun) -> list[Any]:
    x1, x2, z = run.input("x1"), run.input("x2"), run.input("z")

    def chosen(predicate: bool, x: gx.Value) -> gx.Value:
        return gx.cond(run.enter(np.array(predicate)), lambda: gx.sqrt(x), lambda: x * x)

    first, second = chosen(False, x1), chosen(True, x2)
    other = gx.cond(run.enter(np.array(True)), lambda: x2 * x2, lambda: (z * x2).sum())
    outputs = run.fetch(
        [
            first,
            gx.gradients(first, x1),
            second,
            gx.gradients(second, x2),
            gx.gradients(other, z),
            # once more
            gx.gradients(first, x1),
            gx.gradients(second, x2),
        ]
    )
    run.agree(outputs[5:], [run.expected[1], run.expected[3]])
    return outputs[:5]


@case("gr-scan")
def gradient_of_a_recurrence(run: CaseRun) -> list[Any]:
    x, a = run.input("x"), run.input("a")

    def values(rows: gx.Value) -> list[gx.Value]:
        def step(h: gx.Value, row: gx.Value) -> tuple[gx.Value, gx.Value]:
            following = a * h + row
            return following, following

        last, states = gx.scan(step, run.enter(np.array(0.0)), rows)
        by_last = gx.gradients(last, [a, rows], unconnected="zeros")
        by_all = gx.gradients(states.sum(), [a, rows], unconnected="zeros")
        return [states, by_all[0], by_last[0], by_last[1], by_all[1]]

    short = run.fetch([*values(x[:1]), *values(x[:0])])
    first, empty, one, zero = run.expected[0][:1], np.zeros(0), np.ones(1), np.array(0.0)
    run.agree(short, [first, zero, zero, one, one, empty, zero, zero, empty, empty])
    return run.fetch(values(x))
