"""Functions that say their own derivative: anywhere in a graph, differentiated again, refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from derivative_checks import check

import graphc as gx

X = np.array([-1.0, 0.5, 2.0])


@gx.custom_gradient
def clipped(x: gx.Value) -> Any:
    """exp, with a gradient between -1 and 1."""
    y = gx.exp(x)
    return y, lambda cotangent: gx.clip(cotangent * y, -1.0, 1.0)


def gradient_of(function: Any, *arrays: Any) -> list[Any]:
    with gx.Graph() as graph:
        xs = [gx.placeholder(("n",) * np.ndim(array), "float64") for array in arrays]
        y = function(*xs)
        found = [y, *gx.gradients(y.sum(), xs, unconnected="zeros")]
    session = gx.Session(graph)
    return list(session.run(found, dict(zip(xs, arrays, strict=True))))


def test_the_rule_counts_as_the_gradient() -> None:
    y, slope = gradient_of(clipped, X)
    np.testing.assert_allclose(y, np.exp(X), rtol=1e-15)
    np.testing.assert_array_equal(slope, np.minimum(np.exp(X), 1))


def test_second_derivatives_are_those_of_the_rule() -> None:
    _, bend = gradient_of(lambda x: gx.gradients(clipped(x).sum(), x), X)
    np.testing.assert_array_equal(bend, [np.exp(-1), 0, 0])


@pytest.mark.parametrize("count", [0, 3])
def test_in_loops_in_branches(count: int) -> None:
    def nested(x: gx.Value) -> gx.Value:
        def step(i: gx.Value, c: gx.Value) -> gx.Value:
            return gx.cond(c.sum() > -9.0, lambda: clipped(c * 0.5), lambda: c)

        return gx.fori_loop(0, count, step, x)

    _, slope = gradient_of(nested, X)
    # the cotangent is clipped with the slope, from the last trip on
    backwards, states = np.ones(3), [X]
    for _ in range(count):
        states.append(np.exp(states[-1] * 0.5))
    for state in states[:0:-1]:
        backwards = 0.5 * np.clip(backwards * state, -1, 1)
    np.testing.assert_allclose(slope, backwards, rtol=1e-14)


def test_structures_several_arguments_and_none() -> None:
    @gx.custom_gradient
    def both(a: gx.Value, b: gx.Value) -> Any:
        def rule(outputs: Any) -> Any:
            return outputs["sum"] * 2.0 + outputs["parts"][0], None

        return {"sum": a + b, "parts": [a * b]}, rule

    def total(a: gx.Value, b: gx.Value) -> gx.Value:
        made = both(a, b)
        return made["sum"] * 3.0 + made["parts"][0]

    y, of_a, of_b = gradient_of(total, X, X)
    np.testing.assert_allclose(y, 6 * X + X * X, rtol=1e-15)
    np.testing.assert_array_equal(of_a, [7, 7, 7])
    np.testing.assert_array_equal(of_b, [0, 0, 0])


def test_cotangents_are_summed_over_what_broadcast() -> None:
    def scaled(x: gx.Value, w: gx.Value) -> gx.Value:
        rule = gx.custom_gradient(lambda w: (x * w, lambda cotangent: cotangent * x))
        return rule(w)

    _, _, of_w = gradient_of(scaled, X, np.float64(3))
    np.testing.assert_allclose(of_w, X.sum(), rtol=1e-15)


def test_what_is_not_an_argument_counts_as_constant() -> None:
    def closed(x: gx.Value, w: gx.Value) -> gx.Value:
        return gx.custom_gradient(lambda x: (x * w, lambda cotangent: cotangent * w))(x)

    _, of_x, of_w = gradient_of(closed, X, X)
    np.testing.assert_array_equal(of_x, X)
    np.testing.assert_array_equal(of_w, [0, 0, 0])


def test_nothing_of_it_is_compiled(tmp_path: Any) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), "float64", name="x")
        y = gx.fori_loop(0, 2, lambda i, c: clipped(c), x)
    executable = gx.Session(graph).compile(y)
    assert "custom_derivative" not in str(executable.graph)
    assert "custom_derivative" not in str(executable.passes[0])
    path = tmp_path / "graph.gir"
    gx.save(path, [y])
    (again,) = gx.load(path)
    with gx.Session(again.graph) as session:
        np.testing.assert_array_equal(session.run(again, {"x": X}), np.exp(np.exp(X)))


def test_mistakes() -> None:
    x = gx.placeholder((3,), "float64")
    for function, error, match in (
        (lambda x: x, gx.GraphError, "give a pair"),
        (lambda x: (x, x), gx.GraphError, "give a pair"),
        (lambda x: (x, lambda c: (c, c)), gx.GraphError, "gives 2 cotangents for 1 argument"),
        (lambda x: (x, lambda: x), gx.GraphError, "is called with 1 argument"),
        (lambda x: (x, lambda c: c.sum()), gx.ShapeError, r"float64\[\] for argument 0"),
        (lambda x: (x, lambda c: c.astype("float32")), gx.DTypeError, r"gives float32\[3\]"),
    ):
        with pytest.raises(error, match=match):
            gx.custom_gradient(function)(x)
    with pytest.raises(gx.GraphError, match="custom_gradient is 3, not a function"):
        gx.custom_gradient(3)  # type: ignore[arg-type]
    with pytest.raises(gx.GradientError, match="is for gx"):
        gx.jvp(clipped(x), x, x)


def test_a_result_that_a_rule_reads_changes_as_it_says() -> None:
    """The iteration is differentiated neither once nor twice: after no trip it gives x itself."""

    @gx.custom_gradient
    def root(x: gx.Value) -> Any:
        y = gx.fori_loop(0, 9, lambda i, y: gx.stop_gradient(0.5 * (y + x / y)), x)
        return y, lambda cotangent: cotangent / (2 * y)

    _, bend = gradient_of(lambda x: gx.gradients(root(x).sum(), x), X[1:])
    np.testing.assert_allclose(bend, -0.25 * X[1:] ** -1.5, rtol=1e-12)


# --- rules for tangents --------------------------------------------------------------------------


@gx.custom_jvp
def root(x: gx.Value) -> Any:
    """The square root by an iteration that has no derivative."""
    y = gx.fori_loop(0, 9, lambda i, y: gx.stop_gradient(0.5 * (y + x / y)), x)
    return y, lambda tangent: tangent / (2 * y)


def test_both_modes_follow_a_rule_for_tangents() -> None:
    (slope,) = check(lambda x: (root(x) ** 3).sum(), X[1:])
    np.testing.assert_allclose(slope, 1.5 * np.sqrt(X[1:]), rtol=1e-12)


def test_a_rule_for_tangents_in_loops_and_branches() -> None:
    def nested(x: gx.Value) -> gx.Value:
        def step(carry: gx.Value, _: None) -> Any:
            grown = gx.cond(carry.sum() > 0.0, lambda: root(carry) * 1.5, lambda: carry)
            return grown, grown[0]

        last, rows = gx.scan(step, x, length=3)
        return last.sum() + (rows * rows).sum()

    check(nested, X[1:])


def test_a_rule_for_tangents_of_structures() -> None:
    @gx.custom_jvp
    def both(a: gx.Value, b: gx.Value) -> Any:
        def rule(da: gx.Value, db: gx.Value) -> Any:
            # a shape that broadcasts, a product by a loop, and zeros
            product = gx.fori_loop(0, 2, lambda i, c: c + 0.5 * (da * b + a * db), da * 0.0)
            return {"sum": da.sum() + db.sum(), "parts": [product, None]}

        total = gx.broadcast_to(a.sum() + b.sum(), a.shape)
        return {"sum": total, "parts": [a * b, gx.argmax(a)]}, rule

    def weighed(a: gx.Value, b: gx.Value) -> gx.Value:
        made = both(a, b)
        return (made["sum"] * a + made["parts"][0] ** 2).sum() * 0.1

    check(weighed, X, X[::-1] + 0.3)


def test_rules_for_tangents_that_are_refused() -> None:
    x = gx.placeholder((3,), "float64")
    for function, error, match in (
        (lambda x: x, gx.GraphError, "function of custom_jvp gives"),
        (lambda x: (x, lambda: x), gx.GraphError, "custom_jvp is called with 1 argument"),
        (lambda x: (x, lambda t: (t, t)), gx.ShapeError, "a tuple of 2 where one value"),
        (lambda x: (x, lambda t: t[:2]), gx.ShapeError, r"cannot broadcast \[2\] to"),
        (lambda x: (x, lambda t: t[None]), gx.ShapeError, r"float64\[1, 3\] for result 0"),
        (lambda x: (x, lambda t: t.astype("float32")), gx.DTypeError, r"gives float32\[3\]"),
    ):
        with pytest.raises(error, match=match):
            gx.custom_jvp(function)(x)
    for rule in (lambda t: t * t, gx.abs, lambda t: gx.cond(t[0] > 0, lambda: t, lambda: -t)):
        with pytest.raises(gx.GradientError, match="not linear in the tangents") as caught:
            bent = gx.custom_jvp(lambda x, rule=rule: (x * 1.0, rule))(x)
            gx.gradients(bent.sum(), x)
        assert "bent = gx.custom_jvp" in str(caught.value)


def test_a_rule_changes_nothing() -> None:
    x, calls = gx.placeholder((3,), "float64"), gx.variable(np.float64(0), name="calls")

    def assigning(cotangent: gx.Value) -> gx.Value:
        calls.assign_add(1.0)
        return cotangent

    def printing(cotangent: gx.Value) -> gx.Value:
        gx.print("{}", cotangent)
        return cotangent

    for rule, match in ((assigning, "assigns 'calls'"), (printing, "has an effect")):
        with pytest.raises(gx.GraphError, match=match):
            gx.custom_gradient(lambda x, rule=rule: (x, rule))(x)
