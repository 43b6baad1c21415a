"""Spellings of one variable against the truth, value and gradient, from denormals to infinity.

Compiled code of the whole pipeline is compared with mpmath, and with the same graph under
``numerics="strict"``: a result must be within its bound, or at least no worse than as spelled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp
from slow_parameters import slow_unless

import graphc as gx
from graphc.ir.graph import Node
from passes.stability.stabilize import PARTS

pytestmark = pytest.mark.check_mode

Function = Callable[[Any], Any]


def magnitudes(dtype: str) -> Any:
    """Both signs of what spellings go wrong at, the infinities and NaN."""
    info = np.finfo(dtype)
    sizes = [
        0.0, info.smallest_subnormal, info.tiny, 1e-20, 1e-8, 1e-5, 1e-3, 0.01, 0.3, 1.0, 3.0,
        10.0, 17.0, 40.0, 87.0, 88.6, 89.2, 100.0, 104.0, 700.0, 709.5, 710.2, 710.4, 745.0,
        1e3, 1e4, float(info.max) / 2, float(info.max), np.inf,
    ]  # fmt: skip
    return np.array([*sizes, *(-size for size in sizes), np.nan], dtype)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x)) if x >= 0 else mp.exp(x) / (1 + mp.exp(x))


def softplus(x: Any) -> Any:
    return mp.log1p(mp.exp(-abs(x))) + max(x, mp.mpf(0))


def tanh(x: Any) -> Any:
    return mp.sign(x) * -mp.expm1(-2 * abs(x)) / (1 + mp.exp(-2 * abs(x)))


def square_of_sech(x: Any) -> Any:
    return 4 * mp.exp(-2 * abs(x)) / (1 + mp.exp(-2 * abs(x))) ** 2


def bell(x: Any) -> Any:
    return sigmoid(x) * sigmoid(-x)


@dataclass(frozen=True)
class Case:
    """A spelling, what it means, and the derivative of that."""

    spelled: Callable[[gx.Value], gx.Value]
    value: Function
    slope: Function


E = gx.exp
SIGMOID = (sigmoid, bell)
LOG_SIGMOID = (lambda x: -softplus(-x), lambda x: sigmoid(-x))
SOFTPLUS = (softplus, sigmoid)
TANH = (tanh, square_of_sech)
SILU = (lambda x: x * sigmoid(x), lambda x: sigmoid(x) + x * bell(x))

CASES: dict[str, Case] = {
    "1/(1+e-x)": Case(lambda x: 1 / (1 + E(-x)), *SIGMOID),
    "ex/(1+ex)": Case(lambda x: E(x) / (1 + E(x)), *SIGMOID),
    "ex/(ex+1)": Case(lambda x: E(x) / (E(x) + 1.0), *SIGMOID),
    "reciprocal": Case(lambda x: gx.reciprocal(1 + E(-x)), *SIGMOID),
    "1-1/(1+ex)": Case(lambda x: 1 - 1 / (1 + E(x)), *SIGMOID),
    "e-x/(1+e-x)": Case(lambda x: E(-x) / (1 + E(-x)), lambda x: sigmoid(-x), lambda x: -bell(x)),
    "x/(1+e-x)": Case(lambda x: x / (1 + E(-x)), *SILU),
    "log(1+ex)": Case(lambda x: gx.log(1 + E(x)), *SOFTPLUS),
    "log1p(ex)": Case(lambda x: gx.log1p(E(x)), *SOFTPLUS),
    "-log(1/(1+e-x))": Case(
        lambda x: -gx.log(1 / (1 + E(-x))), lambda x: softplus(-x), lambda x: -sigmoid(-x)
    ),
    "log(sigmoid)": Case(lambda x: gx.log(gx.sigmoid(x)), *LOG_SIGMOID),
    "log(spelled sigmoid)": Case(lambda x: gx.log(E(x) / (1 + E(x))), *LOG_SIGMOID),
    "log(1-sigmoid)": Case(
        lambda x: gx.log(1 - gx.sigmoid(x)), lambda x: -softplus(x), lambda x: -sigmoid(x)
    ),
    "log1p(-sigmoid)": Case(
        lambda x: gx.log1p(-gx.sigmoid(x)), lambda x: -softplus(x), lambda x: -sigmoid(x)
    ),
    "log(1-spelled sigmoid)": Case(
        lambda x: gx.log(1 - 1 / (1 + E(-x))), lambda x: -softplus(x), lambda x: -sigmoid(x)
    ),
    "log odds": Case(
        lambda x: gx.log(gx.sigmoid(x) / (1 - gx.sigmoid(x))), lambda x: x, lambda x: mp.mpf(1),
    ),
    "log(ex+e-x)": Case(
        lambda x: gx.log(E(x) + E(-x)), lambda x: abs(x) + mp.log1p(mp.exp(-2 * abs(x))), tanh
    ),
    "log(1+x)": Case(lambda x: gx.log(1 + x), mp.log1p, lambda x: 1 / (1 + x)),
    "log(1-x)": Case(lambda x: gx.log(1 - x), lambda x: mp.log1p(-x), lambda x: -1 / (1 - x)),
    "ex-1": Case(lambda x: E(x) - 1, mp.expm1, mp.exp),
    "1-e-x": Case(lambda x: 1 - E(-x), lambda x: -mp.expm1(-x), lambda x: mp.exp(-x)),
    "tanh": Case(lambda x: (E(x) - E(-x)) / (E(x) + E(-x)), *TANH),
    "tanh, halves": Case(lambda x: ((E(x) - E(-x)) / 2) / ((E(x) + E(-x)) / 2), *TANH),
    "tanh of 2x": Case(lambda x: (E(2 * x) - 1) / (E(2 * x) + 1), *TANH),
    "tanh of -2x": Case(lambda x: (1 - E(-2 * x)) / (1 + E(-2 * x)), *TANH),
    "tanh by sigmoid": Case(lambda x: 2 * gx.sigmoid(2 * x) - 1, *TANH),
    "tanh by spelled sigmoid": Case(lambda x: 2 / (1 + E(-2 * x)) - 1, *TANH),
    "sinh/cosh": Case(lambda x: gx.sinh(x) / gx.cosh(x), *TANH),
    "sinh": Case(lambda x: (E(x) - E(-x)) / 2, mp.sinh, mp.cosh),
    "cosh": Case(lambda x: 0.5 * (E(x) + E(-x)), mp.cosh, mp.sinh),
    "log(1+sum)": Case(lambda x: gx.log(1 + E(x[:, None]).sum(1)), *SOFTPLUS),
    "column": Case(lambda x: gx.log((1 / (1 + E(-x[:, None])))[:, 0]), *LOG_SIGMOID),
}


def run(case: Case, dtype: str, numerics: str, x: Any) -> tuple[Any, Any, set[str]]:
    """Value, slope, and what the pass did."""
    with gx.Graph() as g:
        given = gx.placeholder((None,), dtype, name="x")
        value = case.spelled(given)
        slope = gx.gradients(value, given)
    session = gx.Session(g, options=gx.Options(numerics=numerics))
    executable = session.compile((value, slope), [given])
    fired = {decision.rule for record in executable.passes for decision in record.decisions}
    result = executable(x)
    return result[0], result[1], fired & PARTS


def exact(function: Function, x: Any) -> Any:
    """The truth; NaN where it is not real or has a pole."""
    with mp.workdps(60):
        try:
            result = function(mpmath.mpf(float(x)))
        except ZeroDivisionError:
            return None
        return None if isinstance(result, mpmath.mpc) else mpmath.mpf(result)


def error(given: Any, truth: Any, dtype: str) -> float:
    """The error in epsilons; what is below the normal numbers counts as one of those."""
    info = np.finfo(dtype)
    if abs(truth) > float(info.max):
        return 0.0 if given == np.inf * int(mp.sign(truth)) else np.inf
    if not np.isfinite(given):
        return np.inf
    scale = max(abs(truth), mpmath.mpf(float(info.tiny)))
    return float(abs(mpmath.mpf(float(given)) - truth) / scale / mpmath.mpf(float(info.eps)))


BOUND = 8
"""In epsilons: what a rewritten spelling may be off."""


@slow_unless(lambda name, dtype: dtype == "float32" or [*CASES].index(name) % 4 == 0)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_no_result_is_worse_than_as_spelled(name: str, dtype: str) -> None:
    case = CASES[name]
    x = magnitudes(dtype)
    with np.errstate(all="ignore"):
        *given, fired = run(case, dtype, "default", x)
        *spelled, none = run(case, dtype, "strict", x)
    assert fired and not none
    eps = float(np.finfo(dtype).eps)
    improved = 0
    for meaning, new, old in zip((case.value, case.slope), given, spelled, strict=True):
        for number, one, other in zip(x, new, old, strict=True):
            if np.isnan(number):
                assert np.isnan(one), f"{name}: NaN is lost"
            elif np.isinf(number):
                # Nothing that was right is lost at the infinities.
                limit = exact(meaning, np.copysign(1e6, number))
                wrong = np.isnan(other) or limit is None or error(other, limit, dtype) > BOUND
                assert not np.isnan(one) or wrong, f"{name} at {number}: {one}, {other}"
            else:
                truth = exact(meaning, number)
                if truth is None:
                    assert np.array_equal(one, other, equal_nan=True)
                    continue
                ours, theirs = error(one, truth, dtype), error(other, truth, dtype)
                near = abs(float(one) - float(truth)) <= 2 * eps if np.isfinite(one) else False
                assert ours <= max(BOUND, theirs) or near, (
                    f"{name} at {number}: {one} and not {mp.nstr(truth, 20)}, {other} as spelled"
                )
                improved += ours <= BOUND < theirs
    assert improved >= 2, "the rewriting gains nothing"


# --- binary cross-entropy ------------------------------------------------------------------------


def entropy(p: gx.Value, y: gx.Value) -> gx.Value:
    return -(y * gx.log(p) + (1 - y) * gx.log(1 - p))


ENTROPIES: dict[str, Callable[[gx.Value, gx.Value], gx.Value]] = {
    "sigmoid": lambda x, y: entropy(gx.sigmoid(x), y),
    "spelled": lambda x, y: entropy(1 / (1 + E(-x)), y),
    "other spelling": lambda x, y: entropy(E(x) / (1 + E(x)), y),
    "log1p": lambda x, y: -(y * gx.log(gx.sigmoid(x)) + (1 - y) * gx.log1p(-gx.sigmoid(x))),
    "two sums": lambda x, y: -(y * gx.log(gx.sigmoid(x))) - (1 - y) * gx.log(1 - gx.sigmoid(x)),
    "column": lambda x, y: entropy(gx.sigmoid(x[:, None])[:, 0], y),
}


@slow_unless(lambda name, dtype: dtype == "float32" or name == next(iter(ENTROPIES)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ENTROPIES)
def test_binary_cross_entropy(name: str, dtype: str) -> None:
    numbers = np.array([0.0, 1e-3, 3.0, 17.0, 40.0, 100.0, 800.0, 1e4], dtype)
    logits, labels = (
        grid.ravel().astype(dtype)
        for grid in np.meshgrid(np.concatenate([numbers, -numbers]), [0.0, 1.0, 0.25])
    )
    with gx.Graph() as g:
        x = gx.placeholder((None,), dtype, name="x")
        y = gx.placeholder((None,), dtype, name="y")
        loss = ENTROPIES[name](x, y)
        slope = gx.gradients(loss.mean(), x)
    value, change = gx.Session(g).run((loss, slope), {x: logits, y: labels})
    spelled = gx.Session(g, options=gx.Options(numerics="strict"))
    assert not all(
        np.isfinite(array).all() for array in spelled.run((loss, slope), {x: logits, y: labels})
    )
    eps = float(np.finfo(dtype).eps)
    with mp.workdps(60):
        for number, label, got, steep in zip(logits, labels, value, change, strict=True):
            at, mark = mpmath.mpf(float(number)), mpmath.mpf(float(label))
            exact_value = mark * softplus(-at) + (1 - mark) * softplus(at)
            exact_slope = ((1 - mark) * sigmoid(at) - mark * sigmoid(-at)) / len(logits)
            tiny = float(np.finfo(dtype).tiny)
            assert abs(got - exact_value) <= BOUND * eps * exact_value + tiny
            # With a soft label both parts count, and their difference may cancel.
            parts = ((1 - mark) * sigmoid(at) + mark * sigmoid(-at)) / len(logits)
            assert abs(steep - exact_slope) <= BOUND * eps * parts + tiny


# --- rows shifted by hand ------------------------------------------------------------------------


def shares(x: gx.Value, m: gx.Value) -> gx.Value:
    powers = E(x - m)
    return powers / powers.sum(-1, keepdims=True)


def bodies(node: Node) -> list[Node]:
    return [inner for region in node.regions for inner in region.nodes]


LARGEST: dict[str, Callable[[gx.Value], gx.Value]] = {
    "kept": lambda x: x.max(-1, keepdims=True),
    "expanded": lambda x: x.max(-1)[:, None],
    "stopped": lambda x: gx.stop_gradient(x.max(-1, keepdims=True)),
    "finite": lambda x: gx.where(gx.isfinite(m := x.max(-1, keepdims=True)), m, 0.0),
}
ROWS = np.array(
    [[1e4, 0.0, -1e4], [1.0, 2.0, 3.0], [-np.inf, 5.0, 88.0], [-1e30, -2e30, 3.0], [0.5] * 3]
)


@pytest.mark.parametrize("largest", LARGEST)
@pytest.mark.parametrize("shape", [(5, 3), (None, None)])
def test_softmax_shifted_by_hand(largest: str, shape: Any) -> None:
    with gx.Graph() as g:
        x = gx.placeholder(shape, "float64", name="x")
        p = shares(x, LARGEST[largest](x))
        q = gx.log(p)
    executable = gx.Session(g).compile((p, q), [x])
    # One maximum, not another one of what has been shifted.
    nodes = [inner for node in executable.graph.nodes for inner in (node, *bodies(node))]
    assert [node.op.name for node in nodes].count("reduce_max") == 1
    got, logarithm = executable(ROWS)
    with mp.workdps(60):
        for row, ours, theirs in zip(ROWS, got, logarithm, strict=True):
            powers = [mp.exp(mpmath.mpf(v) - row.max()) if v > -np.inf else 0 for v in row]
            total = sum(powers)
            for number, share, log_share in zip(row, ours, theirs, strict=True):
                if number == -np.inf:
                    assert share == 0 and log_share == -np.inf
                    continue
                truth = mpmath.mpf(number) - row.max() - mp.log(total)
                assert abs(log_share - truth) <= 1e-15 * max(abs(truth), 1)
                assert abs(share - mp.exp(truth)) <= 1e-15


WHOLE: dict[str, Callable[[gx.Value], gx.Value]] = {
    "softmax": lambda x: E(x) / E(x).sum(1, keepdims=True),
    "log softmax": lambda x: gx.log(E(x) / E(x).sum(1, keepdims=True)),
    "log of softmax": lambda x: gx.log(gx.nn.softmax(x)),
    "log-sum-exp": lambda x: gx.log(E(x).sum(1)),
    "log-mean-exp": lambda x: gx.log(E(x).mean(1)),
    "shifted": lambda x: shares(x, x.max(1, keepdims=True)),
    "with a zero": lambda x: E(x) / (1 + E(x).sum(1, keepdims=True)),
    "two": lambda x: E(x[:, :1]) / (E(x[:, :1]) + E(x[:, -1:])),
    "log of two": lambda x: gx.log(E(x[:, 0]) + E(x[:, -1])),
}


@slow_unless(lambda columns: columns != 2)
@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("name", WHOLE)
def test_rows_of_special_values(name: str, columns: int) -> None:
    """What is a number as spelled is the same number; NaN in a row does not get lost."""
    special = [-np.inf, np.inf, np.nan, 0.0, -0.0, 5e-324, 1.0, -30.0, 1e3, -1e3]
    grid = np.stack(np.meshgrid(*[special] * columns), -1).reshape(-1, columns)
    for rows in (grid, grid[:0]):
        with gx.Graph() as g:
            x = gx.placeholder((None, columns), "float64", name="x")
            value = WHOLE[name](x)
            slope = gx.gradients(value, x)
        given = gx.Session(g).run([value, slope], {x: rows})
        strict = gx.Session(g, options=gx.Options(numerics="strict"))
        with np.errstate(all="ignore"):
            spelled = strict.run([value, slope], {x: rows})
        ordinary = (np.abs(rows) < 700).all(1)
        for one, other in zip(given, spelled, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one[ordinary], other[ordinary], rtol=1e-12, atol=1e-15)
        # Of a value, finite as spelled, nothing is lost for infinite operands either.
        (one, _), (other, _) = given, spelled
        usual = (~(np.abs(rows) == 1e3)).all(1).reshape(-1, *[1] * (other.ndim - 1))
        right = np.isfinite(other) & usual
        np.testing.assert_allclose(
            one[right], other[right], rtol=1e-12, atol=1e-15, err_msg=f"{rows}"
        )
        missing = np.isnan(rows).any(1)
        if name not in ("two", "log of two"):
            lost = ~np.isnan(one) if one.ndim == 1 else ~np.isnan(one).any(1)
            assert not lost[missing].any()
