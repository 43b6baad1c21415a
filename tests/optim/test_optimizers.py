"""Optimisers against plain NumPy: the formulas again, written as loops over arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

STEPS = 20
ROWS, COLUMNS = 6, 4

State = dict[str, Any]
Formula = Callable[[Any, Any, State, int], Any]


def numpy_sgd(
    rate: float,
    momentum: float = 0,
    nesterov: bool = False,
    weight_decay: float = 0,
    dampening: float = 0,
) -> Formula:
    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + weight_decay * p
        if momentum:
            if t == 1:
                state["b"] = g
            else:
                state["b"] = momentum * state["b"] + (1 - dampening) * g
            g = g + momentum * state["b"] if nesterov else state["b"]
        return p - rate * g

    return step


def numpy_adam(
    rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    epsilon: float = 1e-8,
    weight_decay: float = 0,
    decoupled: bool = False,
) -> Formula:
    first, second = betas

    def step(p: Any, g: Any, state: State, t: int) -> Any:
        if decoupled:
            p = p * (1 - rate * weight_decay)
        else:
            g = g + weight_decay * p
        state["m"] = first * state.get("m", 0) + (1 - first) * g
        state["v"] = second * state.get("v", 0) + (1 - second) * g * g
        mean = state["m"] / (1 - first**t)
        spread = state["v"] / (1 - second**t)
        return p - rate * mean / (np.sqrt(spread) + epsilon)

    return step


def numpy_rmsprop(
    rate: float = 0.01,
    alpha: float = 0.99,
    epsilon: float = 1e-8,
    momentum: float = 0,
    centered: bool = False,
    weight_decay: float = 0,
) -> Formula:
    def step(p: Any, g: Any, state: State, t: int) -> Any:
        g = g + weight_decay * p
        state["v"] = alpha * state.get("v", 0) + (1 - alpha) * g * g
        spread = state["v"]
        if centered:
            state["a"] = alpha * state.get("a", 0) + (1 - alpha) * g
            spread = spread - state["a"] ** 2
        move = g / (np.sqrt(spread) + epsilon)
        if momentum:
            move = state["b"] = momentum * state.get("b", 0) + move
        return p - rate * move

    return step


CASES = {
    "sgd": (lambda: gx.optim.SGD(0.1), numpy_sgd(0.1)),
    "sgd-decay": (lambda: gx.optim.SGD(0.1, weight_decay=0.05), numpy_sgd(0.1, weight_decay=0.05)),
    "sgd-momentum": (lambda: gx.optim.SGD(0.05, 0.9), numpy_sgd(0.05, 0.9)),
    "sgd-dampening": (
        lambda: gx.optim.SGD(0.05, 0.9, dampening=0.3, weight_decay=0.01),
        numpy_sgd(0.05, 0.9, dampening=0.3, weight_decay=0.01),
    ),
    "sgd-nesterov": (
        lambda: gx.optim.SGD(0.05, 0.8, nesterov=True, weight_decay=0.01),
        numpy_sgd(0.05, 0.8, nesterov=True, weight_decay=0.01),
    ),
    "adam": (lambda: gx.optim.Adam(), numpy_adam()),
    "adam-given": (
        lambda: gx.optim.Adam(0.02, (0.8, 0.95), 1e-4, weight_decay=0.1),
        numpy_adam(0.02, (0.8, 0.95), 1e-4, 0.1),
    ),
    "adamw": (lambda: gx.optim.AdamW(), numpy_adam(weight_decay=0.01, decoupled=True)),
    "adamw-given": (
        lambda: gx.optim.AdamW(0.02, weight_decay=0.3),
        numpy_adam(0.02, weight_decay=0.3, decoupled=True),
    ),
    "rmsprop": (lambda: gx.optim.RMSProp(), numpy_rmsprop()),
    "rmsprop-momentum": (
        lambda: gx.optim.RMSProp(0.005, 0.9, momentum=0.7, weight_decay=0.02),
        numpy_rmsprop(0.005, 0.9, momentum=0.7, weight_decay=0.02),
    ),
    "rmsprop-centered": (
        lambda: gx.optim.RMSProp(0.005, 0.9, momentum=0.5, centered=True),
        numpy_rmsprop(0.005, 0.9, momentum=0.5, centered=True),
    ),
}


class Problem:
    """Least squares: loss = Σ (x w + b − t)², whose gradients are known."""

    def __init__(self, dtype: str = "float64") -> None:
        rng = np.random.default_rng(5)
        self.data = rng.normal(size=(ROWS, COLUMNS)).astype(dtype)
        self.targets = rng.normal(size=ROWS).astype(dtype)
        self.start = rng.normal(size=COLUMNS).astype(dtype)
        self.x = gx.placeholder((None, COLUMNS), dtype, name="x")
        self.w = gx.variable(self.start, name="w")
        self.b = gx.variable(np.zeros((), dtype), name="b")
        residual = gx.sum(self.x * self.w, axis=1) + self.b - self.targets
        self.loss = gx.sum(residual * residual)

    def trained(self, formula: Formula, steps: int = STEPS) -> tuple[Any, Any, list[Any]]:
        """w, b and the losses before each step, by NumPy."""
        w, b = self.start.copy(), np.zeros((), self.start.dtype)
        states: tuple[State, State] = ({}, {})
        losses = []
        for t in range(1, steps + 1):
            residual = (self.data * w).sum(1) + b - self.targets
            losses.append((residual * residual).sum())
            slope = 2 * (residual[:, None] * self.data).sum(0)
            w, b = (
                formula(w, slope, states[0], t),
                formula(b, 2 * residual.sum(), states[1], t),
            )
        return w, b, losses


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with gx.Graph() as current:
        yield current


@pytest.mark.parametrize("name", CASES)
def test_follows_its_formula(name: str, graph: Any) -> None:
    make, formula = CASES[name]
    problem = Problem()
    train = make().minimize(problem.loss)
    session = gx.Session(graph)
    losses = []
    for _ in range(STEPS):
        done, loss = session.run([train, problem.loss], {problem.x: problem.data})
        assert done is None
        losses.append(loss)
    w, b, expected = problem.trained(formula)
    np.testing.assert_allclose(losses, expected, rtol=1e-12)
    np.testing.assert_allclose(session.get(problem.w), w, rtol=1e-12)
    np.testing.assert_allclose(session.get(problem.b), b, rtol=1e-12)


@pytest.mark.parametrize("name", ["sgd-dampening", "adam", "adamw-given", "rmsprop-centered"])
def test_float32_parameters_stay_float32(name: str, graph: Any) -> None:
    make, formula = CASES[name]
    problem = Problem("float32")
    train = make().minimize(problem.loss)
    session = gx.Session(graph)
    for _ in range(STEPS):
        session.run(train, {"x": problem.data})
    w, _, _ = problem.trained(formula)
    found = session.get(problem.w)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, w, rtol=2e-5)


def test_order_of_fetches_does_not_matter(graph: Any) -> None:
    problem = Problem()
    train = gx.optim.SGD(0.01).minimize(problem.loss)
    _, _, expected = problem.trained(numpy_sgd(0.01), 2)
    for fetches, place in (([problem.loss, train], 0), ([train, problem.loss], 1)):
        session = gx.Session(graph)
        found = [session.run(fetches, {"x": problem.data})[place] for _ in range(2)]
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("optimizer", [gx.optim.SGD, gx.optim.Adam, gx.optim.AdamW])
def test_learning_rate_may_be_scheduled(optimizer: Any, graph: Any) -> None:
    problem = Problem()
    step = gx.variable(np.int64(0), name="epoch", trainable=False)
    rate = 0.1 * gx.power(np.float64(0.5), step)
    train = gx.group(optimizer(rate).minimize(problem.loss), step.assign_add(1))
    session = gx.Session(graph)
    w, state = problem.start, {}
    for t in range(1, 5):
        slope = _slope(problem, w, session.get(problem.b))
        now = 0.1 * 0.5 ** (t - 1)
        formula = {
            gx.optim.SGD: numpy_sgd(now),
            gx.optim.Adam: numpy_adam(now),
            gx.optim.AdamW: numpy_adam(now, weight_decay=0.01, decoupled=True),
        }[optimizer]
        w = formula(w, slope, state, t)
        session.run(train, {"x": problem.data})
    np.testing.assert_allclose(session.get(problem.w), w, rtol=1e-12)


def _slope(problem: Problem, w: Any, b: Any) -> Any:
    residual = (problem.data * w).sum(1) + b - problem.targets
    return 2 * (residual[:, None] * problem.data).sum(0)


def test_learning_rate_may_be_fed(graph: Any) -> None:
    problem = Problem("float32")
    rate = gx.placeholder((), "float64", name="rate")
    train = gx.optim.SGD(rate).minimize(problem.loss, [problem.w])
    session = gx.Session(graph)
    session.run(train, {"x": problem.data, "rate": 0.0})
    np.testing.assert_array_equal(session.get(problem.w), problem.start)
    session.run(train, {"x": problem.data, "rate": 0.01})
    assert (session.get(problem.w) != problem.start).all()
    assert session.get(problem.b) == 0


# --- slots and the counter -----------------------------------------------------------------------


def test_slots_are_named_after_the_parameter_and_not_trainable(graph: Any) -> None:
    problem = Problem()
    train = gx.optim.Adam().minimize(problem.loss)
    session = gx.Session(graph)
    session.run([train, train], {"x": problem.data})
    session.run(train, {"x": problem.data})
    slope = _slope(problem, problem.start, 0.0)
    first = session.get("w/first_moment")
    assert first.shape == (COLUMNS,) and np.sign(first).tolist() == np.sign(slope).tolist()
    assert session.get("b/second_moment").shape == ()
    count = session.get("adam/step")
    assert count == 2 and count.dtype == np.int64
    assert not graph.find("w/first_moment").trainable
    with pytest.raises(gx.GraphError, match="nothing to train"):
        gx.optim.SGD(0.1).minimize(gx.sum(graph.find("w/first_moment")))


def test_only_what_keeps_something_has_slots(graph: Any) -> None:
    gx.optim.SGD(0.1).minimize(Problem().loss)
    assert sum(node.op.name == "variable" for node in graph.nodes) == 2


def test_parameters_without_a_name(graph: Any) -> None:
    w = gx.variable(np.ones(3))
    train = gx.optim.SGD(0.25, momentum=0.5).minimize(gx.sum(w * w))
    session = gx.Session(graph)
    session.run(train)
    np.testing.assert_array_equal(session.get(w), np.full(3, 0.5))
    session.run(train)
    np.testing.assert_array_equal(session.get(w), np.full(3, 0.0))


def test_sessions_train_apart(graph: Any) -> None:
    problem = Problem()
    train = gx.optim.Adam(0.1).minimize(problem.loss)
    one, other = gx.Session(graph), gx.Session(graph)
    for _ in range(3):
        one.run(train, {"x": problem.data})
    other.run(train, {"x": problem.data})
    w, _, _ = problem.trained(numpy_adam(0.1), 1)
    np.testing.assert_allclose(other.get(problem.w), w, rtol=1e-12)
    assert (one.get("adam/step"), other.get("adam/step")) == (3, 1)


def test_works_outside_the_graphs_block(graph: Any) -> None:
    problem = Problem()
    with gx.Graph():
        train = gx.optim.SGD(0.05, 0.9, dampening=0.5).minimize(problem.loss)
    session = gx.Session(graph)
    session.run(train, {"x": problem.data})
    w, _, _ = problem.trained(numpy_sgd(0.05, 0.9, dampening=0.5), 1)
    np.testing.assert_allclose(session.get(problem.w), w, rtol=1e-12)


# --- several steps, chosen variables, given gradients --------------------------------------------


def test_minimize_twice_keeps_two_states(graph: Any) -> None:
    """Two steps on the same variables neither need nor disturb each other."""
    x, y = (gx.placeholder((), "float64", name=name) for name in "xy")
    w = gx.variable(np.float64(1), name="w")
    optimizer = gx.optim.SGD(0.25, momentum=0.5)
    on_x, on_y = (optimizer.minimize(w * value) for value in (x, y))
    session = gx.Session(graph)
    session.run(on_x, {x: 2.0})
    assert session.get(w) == 0.5
    session.run(on_y, {y: 4.0})
    assert session.get(w) == -0.5
    session.run(on_x, {x: 2.0})
    assert session.get(w) == -1.25


def test_steps_on_disjoint_variables_run_together(graph: Any) -> None:
    u, v = (gx.variable(np.float64(1), name=name) for name in "uv")
    loss = u * v
    both = gx.group(gx.optim.SGD(0.5).minimize(loss, [u]), gx.optim.SGD(0.25).minimize(-loss, [v]))
    session = gx.Session(graph)
    assert session.run([both, loss]) == [None, 1.0]
    assert (session.get(u), session.get(v)) == (0.5, 1.25)


def test_default_variables_are_those_the_loss_depends_on(graph: Any) -> None:
    used = gx.variable(np.ones(2), name="used")
    gx.variable(np.ones(2), name="unused")
    frozen = gx.variable(np.ones(2), name="frozen", trainable=False)
    count = gx.variable(np.int64(3), name="count")
    train = gx.optim.SGD(0.5).minimize(gx.sum(used * frozen * count))
    session = gx.Session(graph)
    session.run(train)
    found = session.get(["used", "unused", "frozen"])
    np.testing.assert_array_equal(found, [[-0.5, -0.5], [1, 1], [1, 1]])
    assert session.get("count") == 3


def test_frozen_variables_can_be_asked_for(graph: Any) -> None:
    w = gx.variable(np.float64(1), trainable=False)
    session = gx.Session(graph)
    session.run(gx.optim.SGD(0.5).minimize(w * w, [w]))
    assert session.get(w) == 0


def test_apply_gradients_takes_any_gradients(graph: Any) -> None:
    problem = Problem()
    slopes = gx.gradients(problem.loss, [problem.w, problem.b])
    clipped, norm = gx.optim.clip_by_global_norm(slopes, 0.5)
    train = gx.optim.SGD(1.0).apply_gradients(zip(clipped, [problem.w, problem.b], strict=True))
    session = gx.Session(graph)
    _, found = session.run([train, norm], {"x": problem.data})
    residual = (problem.data * problem.start).sum(1) - problem.targets
    slope = _slope(problem, problem.start, 0.0)
    expected = np.sqrt((slope**2).sum() + (2 * residual.sum()) ** 2)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(
        session.get(problem.w), problem.start - slope * 0.5 / expected, rtol=1e-12
    )


# --- clipping ------------------------------------------------------------------------------------


def test_clipping_keeps_structure_and_bits_within_the_bound(graph: Any) -> None:
    rng = np.random.default_rng(1)
    arrays = {"a": rng.normal(size=(3, 2)), "b": (rng.normal(size=4).astype(np.float32),)}
    gradients = {"a": gx.constant(arrays["a"]), "b": (gx.constant(arrays["b"][0]),)}
    clipped, norm = gx.optim.clip_by_global_norm(gradients, 100.0)
    found, size = gx.Session(graph).run([clipped, norm])
    np.testing.assert_array_equal(found["a"], arrays["a"])
    np.testing.assert_array_equal(found["b"][0], arrays["b"][0])
    assert found["b"][0].dtype == np.float32
    expected = np.sqrt((arrays["a"] ** 2).sum() + (arrays["b"][0] ** 2).sum())
    np.testing.assert_allclose(size, expected, rtol=1e-7)


def test_clipped_gradients_have_the_norm_asked_for(graph: Any) -> None:
    clipped, _ = gx.optim.clip_by_global_norm(
        [gx.constant(np.array([3.0, 0.0])), gx.constant(np.float64(4))], 1
    )
    vector, number = gx.Session(graph).run(clipped)
    np.testing.assert_allclose(vector, [0.6, 0.0], rtol=1e-15)
    np.testing.assert_allclose(number, 0.8, rtol=1e-15)


def test_clipped_complex_gradients_have_the_norm_of_their_sizes(graph: Any) -> None:
    arrays = np.array([3 + 4j, 1j], np.complex64), np.array([2.0], np.float32)
    (clipped, real), norm = gx.optim.clip_by_global_norm([gx.constant(a) for a in arrays], 1.0)
    got = gx.Session(graph).run([clipped, real, norm])
    size = np.sqrt(30)
    for result, wanted in zip(got, (arrays[0] / size, arrays[1] / size, size), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-6)
    assert got[0].dtype == np.complex64 and got[2].dtype == np.float32


def test_clipping_zeros_and_what_is_not_finite(graph: Any) -> None:
    gradient = gx.placeholder((2,), "float64")
    (clipped,), norm = gx.optim.clip_by_global_norm([gradient], 2.0)
    session = gx.Session(graph)
    np.testing.assert_array_equal(session.run(clipped, {gradient: np.zeros(2)}), np.zeros(2))
    assert np.isnan(session.run(norm, {gradient: np.array([np.nan, 1])}))


# --- errors --------------------------------------------------------------------------------------


def test_nothing_to_train_raises(graph: Any) -> None:
    x = gx.placeholder((), "float64")
    for variables in (None, []):
        with pytest.raises(gx.GraphError, match="nothing to train") as caught:
            gx.optim.Adam().minimize(x * x, variables)
        assert caught.value.where is not None and caught.value.where.filename == __file__
    with pytest.raises(gx.GraphError, match="no gradients"):
        gx.optim.Adam().apply_gradients([])
    with pytest.raises(gx.GraphError, match="no gradients"):
        gx.optim.clip_by_global_norm([], 1.0)


def test_a_variable_the_loss_does_not_need_raises(graph: Any) -> None:
    problem = Problem()
    other = gx.variable(np.ones(2), name="other")
    with pytest.raises(gx.GradientError, match="'other'"):
        gx.optim.SGD(0.1).minimize(problem.loss, [problem.w, other])


def test_gradients_that_do_not_fit_raise(graph: Any) -> None:
    w = gx.variable(np.ones(3), name="w")
    optimizer = gx.optim.SGD(0.1)
    with pytest.raises(gx.ShapeError, match="'w'"):
        optimizer.apply_gradients([(np.ones(2), w)])
    with pytest.raises(gx.DTypeError, match="'w'"):
        optimizer.apply_gradients([(np.ones(3, np.float32), w)])
    with pytest.raises(gx.GraphError, match="twice"):
        optimizer.apply_gradients([(np.ones(3), w), (np.ones(3), w)])
    with pytest.raises(gx.GradientError, match="no gradient"):
        optimizer.apply_gradients([(None, w)])
    with pytest.raises(gx.GraphError, match="not a variable"):
        optimizer.apply_gradients([(np.ones(3), w * 2)])


def test_wrong_hyperparameters_raise(graph: Any) -> None:
    vector = gx.placeholder((2,))
    wrong: list[Callable[[], Any]] = [
        lambda: gx.optim.SGD(-0.1),
        lambda: gx.optim.SGD(float("nan")),
        lambda: gx.optim.SGD(0.1, nesterov=True),
        lambda: gx.optim.SGD(0.1, 0.9, nesterov=True, dampening=0.1),
        lambda: gx.optim.Adam(betas=(0.9, 1.0)),
        lambda: gx.optim.AdamW(weight_decay=-1),
        lambda: gx.optim.RMSProp(momentum=-1),
        lambda: gx.optim.clip_by_global_norm([vector], 0),
        lambda: gx.optim.Adam(vector),
    ]
    for make in wrong:
        with pytest.raises(ValueError):
            make()


def test_a_step_inside_a_branch_is_refused(graph: Any) -> None:
    w = gx.variable(np.float64(1), name="w")
    flag = gx.placeholder((), "bool")
    with pytest.raises(gx.GraphError, match="branch"):
        gx.cond(flag, lambda: gx.optim.SGD(0.1).minimize(w * w), lambda: None)


def test_complex_parameters_are_refused() -> None:
    """Their gradient is that of JAX, whose conjugate leads down."""
    with gx.Graph():
        z = gx.variable(np.complex64(3 + 4j), name="z")
        with pytest.raises(gx.DTypeError, match="parameter 'z' is complex64") as caught:
            gx.optim.SGD(0.1).minimize(gx.abs(z - (1 + 1j)) ** 2)
    assert "gx.complex" in str(caught.value)
