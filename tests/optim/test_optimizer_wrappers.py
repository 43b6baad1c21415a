"""Clipping, accumulation, averages, loss scaling and steps that are taken back, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optimizer_formulas as formulas
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

optim = gx.optim
SHAPES = ((3, 4), (5,), (), (0,))
NAMES = "abcd"


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with gx.Graph() as current:
        yield current


class Fed:
    """Parameters of several shapes whose gradients are fed."""

    def __init__(self, optimizer: Any, graph: Any, commit: Any = "always", dtype: str = "float64"):
        self.rng = np.random.default_rng(9)
        self.start = [self.rng.normal(size=shape) for shape in SHAPES]
        self.variables = [
            gx.variable(array, name=name, dtype=dtype)
            for name, array in zip(NAMES, self.start, strict=True)
        ]
        self.slopes = [gx.placeholder(shape, dtype) for shape in SHAPES]
        pairs = zip(self.slopes, self.variables, strict=True)
        self.train = optimizer.apply_gradients(pairs, commit=commit)
        self.graph, self.session = graph, gx.Session(graph)

    def draw(self, size: float = 1.0) -> list[Any]:
        return [size * self.rng.normal(size=shape) for shape in SHAPES]

    def run(self, given: list[Any], session: Any = None) -> None:
        (session or self.session).run(self.train, dict(zip(self.slopes, given, strict=True)))

    def state(self) -> dict[str, Any]:
        return {variable.name: self.session.get(variable) for variable in self.graph.variables}

    def compare(self, wanted: list[Any], suffix: str = "", rtol: float = 1e-9) -> None:
        for name, array in zip(NAMES, wanted, strict=True):
            np.testing.assert_allclose(
                self.session.get(name + suffix), array, rtol=rtol, atol=rtol, err_msg=name
            )


class Followed:
    """The same parameters by a formula of NumPy."""

    def __init__(self, formula: formulas.Formula, start: list[Any]) -> None:
        self.formula, self.values, self.t = formula, [*start], 0
        self.states: list[formulas.State] = [{} for _ in start]

    def step(self, slopes: list[Any]) -> None:
        self.t += 1
        self.values = [
            self.formula(p, g, state, self.t)
            for p, g, state in zip(self.values, slopes, self.states, strict=True)
        ]


def norm(arrays: list[Any]) -> Any:
    return np.sqrt(sum((np.abs(array) ** 2).sum() for array in arrays))


def clipped(arrays: list[Any], maximum: float, by: str) -> list[Any]:
    if by == "value":
        return [np.clip(array, -maximum, maximum) for array in arrays]
    if by == "norm":
        return [array * min(1, maximum / max(norm([array]), 1e-300)) for array in arrays]
    return [array * min(1, maximum / norm(arrays)) for array in arrays]


def mean(arrays: list[list[Any]]) -> list[Any]:
    return [sum(parts) / len(arrays) for parts in zip(*arrays, strict=True)]


# --- clipping ------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["value", "norm"])
def test_clips_as_numpy_does(by: str, graph: Any) -> None:
    rng = np.random.default_rng(1)
    arrays = [rng.normal(size=shape) for shape in SHAPES]
    arrays[1] = (arrays[1] / 100).astype("float32")
    given = {"a": gx.constant(arrays[0]), "rest": [gx.constant(array) for array in arrays[1:]]}
    clip = optim.clip_by_value if by == "value" else optim.clip_by_norm
    found = gx.Session(graph).run(clip(given, 0.5))
    flat = [found["a"], *found["rest"]]
    for result, wanted in zip(flat, clipped(arrays, 0.5, by), strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-7)
    np.testing.assert_array_equal(flat[1], arrays[1])
    assert flat[1].dtype == np.float32


def test_clipping_by_a_value_of_the_graph(graph: Any) -> None:
    bound = gx.placeholder((), "float64")
    gradient = gx.constant(np.array([3, -4], "float32"))
    results = [
        optim.clip_by_value(gradient, bound),
        optim.clip_by_norm(gradient, bound),
        optim.clip_by_global_norm([gradient], bound)[0][0],
    ]
    by_value, *by_norm = gx.Session(graph).run(results, {bound: 1.0})
    np.testing.assert_array_equal(by_value, np.array([1, -1], "float32"))
    for found in by_norm:
        np.testing.assert_allclose(found, np.array([0.6, -0.8], "float32"), rtol=1e-6)


def test_clipping_keeps_nan_and_complex_directions(graph: Any) -> None:
    values = gx.constant(np.array([np.nan, np.inf, 1]))
    turned = gx.constant(np.array([3 + 4j, 0]))
    found = gx.Session(graph).run([optim.clip_by_value(values, 2), optim.clip_by_norm(turned, 1)])
    np.testing.assert_array_equal(found[0], [np.nan, 2, 1])
    np.testing.assert_allclose(found[1], [0.6 + 0.8j, 0])
    with pytest.raises(gx.DTypeError, match="no order"):
        optim.clip_by_value(turned, 1)


def test_squares_of_float16_do_not_overflow(graph: Any) -> None:
    gradient = gx.constant(np.array([300, 400], "float16"))
    (together,), size = optim.clip_by_global_norm([gradient], 1)
    found = gx.Session(graph).run([together, size, optim.clip_by_norm(gradient, 1)])
    assert found[1] == 500 and found[1].dtype == np.float32
    for result in (found[0], found[2]):
        assert result.dtype == np.float16
        np.testing.assert_allclose(result, [0.6, 0.8], rtol=1e-3)


@pytest.mark.parametrize("by", ["value", "norm", "global_norm"])
def test_an_optimiser_may_clip(by: Any, graph: Any) -> None:
    fed = Fed(optim.Clipped(optim.SGD(0.1, 0.9), 0.7, by=by), graph)
    followed = Followed(formulas.sgd(0.1, 0.9), fed.start)
    for size in (1, 0.01, 10, 0.3):
        slopes = fed.draw(size)
        fed.run(slopes)
        followed.step(clipped(slopes, 0.7, by))
    fed.compare(followed.values)


# --- accumulation --------------------------------------------------------------------------------


@pytest.mark.parametrize("every", [1, 3])
def test_steps_follow_means_of_gradients(every: int, graph: Any, tmp_path: Path) -> None:
    """Between them nothing that lies within changes; saved in the middle, it goes on the same."""
    rate = lambda n: 0.1 / (n + 1)  # noqa: E731
    fed = Fed(optim.Accumulated(optim.AdamW(rate, weight_decay=0.1), every), graph)
    followed = Followed(formulas.adam(rate, decay=0.1, decoupled=True), fed.start)
    later = gx.Session(graph)
    for turn in range(3):
        given = [fed.draw() for _ in range(every)]
        for number, slopes in enumerate(given):
            fed.compare(followed.values)
            assert fed.session.get("adamw/step") == turn
            fed.run(slopes)
            if turn == 1 and number == 0:
                fed.session.save(tmp_path / "middle.safetensors")
                later.restore(tmp_path / "middle.safetensors")
            elif turn >= 1:
                fed.run(slopes, later)
        followed.step(mean(given))
    fed.compare(followed.values)
    assert fed.session.get("accumulated/step") == 3 * every
    for variable in graph.variables:
        np.testing.assert_array_equal(fed.session.get(variable), later.get(variable))


@pytest.mark.parametrize("outside", [True, False])
def test_what_stands_outside_sees_gradients_first(outside: bool, graph: Any) -> None:
    if outside:
        optimizer = optim.Clipped(optim.Accumulated(optim.SGD(0.1), 2), 1.0)
    else:
        optimizer = optim.Accumulated(optim.Clipped(optim.SGD(0.1), 1.0), 2)
    fed = Fed(optimizer, graph)
    followed = Followed(formulas.sgd(0.1), fed.start)
    for _ in range(3):
        given = [fed.draw(), fed.draw(3)]
        for slopes in given:
            fed.run(slopes)
        if outside:
            followed.step(mean([clipped(slopes, 1.0, "global_norm") for slopes in given]))
        else:
            followed.step(clipped(mean(given), 1.0, "global_norm"))
    fed.compare(followed.values)


# --- averages ------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay, begin", [(0.9, 0), (0.8, 3), (None, 0), (None, 2)])
def test_averages_of_parameters(decay: float | None, begin: int, graph: Any) -> None:
    fed = Fed(optim.Averaged(optim.Adam(0.1), decay, begin), graph)
    followed = Followed(formulas.adam(0.1), fed.start)
    seen, average = [], fed.start
    for t in range(1, 8):
        slopes = fed.draw()
        fed.run(slopes)
        followed.step(slopes)
        if t <= begin + 1:
            seen = []
        seen.append(followed.values)
        if decay is None:
            average = mean(seen)
        elif len(seen) == 1:
            average = followed.values
        else:
            average = [
                decay * a + (1 - decay) * p
                for a, p in zip(average, followed.values, strict=True)
            ]
        fed.compare(followed.values)
        fed.compare(average, "/average")


def test_an_average_counts_steps_that_are_taken(graph: Any) -> None:
    fed = Fed(optim.Accumulated(optim.Averaged(optim.SGD(0.1), None), 2), graph)
    followed = Followed(formulas.sgd(0.1), fed.start)
    seen = []
    for _ in range(3):
        given = [fed.draw(), fed.draw()]
        for slopes in given:
            fed.run(slopes)
        followed.step(mean(given))
        seen.append(followed.values)
    fed.compare(mean(seen), "/average")


def test_a_model_is_built_with_averages(graph: Any) -> None:
    w = gx.variable(np.ones(3), name="w")
    model = lambda w: gx.sum(w * w)  # noqa: E731
    train = optim.Averaged(optim.SGD(0.25), None).minimize(model(w))
    evaluated = model(graph.find("w/average"))
    session = gx.Session(graph)
    for _ in range(2):
        session.run(train)
    np.testing.assert_allclose(session.run(evaluated), 3 * ((0.5 + 0.25) / 2) ** 2)


# --- steps that are not finite -------------------------------------------------------------------

WITHIN: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optim.SGD(0.1, 0.9, dampening=0.1),
    "lion": lambda: optim.Lion(0.1),
    "nadam": lambda: optim.NAdam(optim.cosine_decay(0.1, 100)),
    "adagrad": lambda: optim.Adagrad(0.1),
    "averaged": lambda: optim.Averaged(optim.Accumulated(optim.AdamW(0.1), 2)),
    "plateau": lambda: optim.Adam(optim.ReduceOnPlateau(0.1, gx.constant(1.0), patience=0)),
}


@pytest.mark.parametrize("name", WITHIN)
@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_step_that_is_not_finite_changes_nothing(name: str, wrong: float, graph: Any) -> None:
    fed = Fed(WITHIN[name](), graph, commit="finite")
    slopes = [fed.draw() for _ in range(5)]
    for given in slopes[:3]:
        fed.run(given)
    before = fed.state()
    for place in range(3):
        bad = fed.draw()
        bad[place] = np.asarray(bad[place])
        bad[place].flat[-1] = wrong
        fed.run(bad)
        for found, wanted in zip(fed.state().values(), before.values(), strict=True):
            np.testing.assert_array_equal(found, wanted)
    for given in slopes[3:]:
        fed.run(given)
    after, other = fed.state(), gx.Session(graph)
    for given in slopes:
        fed.run(given, other)
    for label, found in after.items():
        np.testing.assert_array_equal(found, other.get(label), err_msg=label)
        assert np.isfinite(found).all()


def test_slots_that_would_overflow_are_no_step_either(graph: Any) -> None:
    """The square of a finite gradient is infinite; an infinite slot would stop the parameter."""
    w = gx.variable(np.float32(1), name="w")
    slope = gx.placeholder((), name="slope")
    train = optim.Adam(0.1).apply_gradients([(slope, w)], commit="finite")
    session = gx.Session(graph)
    session.run(train, {slope: 1e30})
    assert (session.get("w"), session.get("w/second_moment"), session.get("adam/step")) == (1, 0, 0)
    session.run(train, {slope: 1.0})
    np.testing.assert_allclose(session.get("w"), 0.9, rtol=1e-6)


def test_minimize_takes_back_what_is_not_finite(graph: Any) -> None:
    x = gx.placeholder((2,), name="x")
    w = gx.variable(np.ones(2, "float32"), name="w")
    loss = gx.sum(gx.log(x) * w)
    step = optim.SGD(1.0).minimize(loss, commit="finite")
    session = gx.Session(graph)
    assert session.run([step, loss], {x: [0.0, 1.0]}) == [None, -np.inf]
    np.testing.assert_array_equal(session.get(w), [1, 1])
    session.run([loss, step], {x: [1.0, np.e]})
    np.testing.assert_allclose(session.get(w), [1, 0], atol=1e-6)


# --- loss scaling --------------------------------------------------------------------------------


def test_the_scale_follows_its_rule(graph: Any) -> None:
    """Halved where a gradient is not finite, which is no step; doubled after three good ones."""
    x = gx.placeholder((), name="x")
    w = gx.variable(np.float64(1), name="w", dtype="float64")
    scaled = optim.LossScaled(optim.Adam(0.1), 8.0, interval=3, least=2.0, most=16.0)
    train = scaled.minimize(w * gx.astype(x, "float64"))
    session = gx.Session(graph)
    followed, scale, good = Followed(formulas.adam(0.1), [np.float64(1)]), 8.0, 0
    fed = [1, 2, np.inf, 1, 1, 1, 2, 1, 1, 3, 1, 1, np.nan, np.nan, np.inf, np.inf, np.inf, 1, 1, 1]
    for number in fed:
        session.run(train, {x: number})
        if np.isfinite(number):
            followed.step([np.float64(number)])
            good += 1
            if good == 3:
                good, scale = 0, min(scale * 2, 16)
        else:
            good, scale = 0, max(scale / 2, 2)
        found = session.get(["lossscaled/scale", "lossscaled/good_steps", "adam/step"])
        assert found == [scale, good, followed.t]
        np.testing.assert_allclose(session.get(w), followed.values[0], rtol=1e-12)


def test_gradients_that_float16_has_not_are_kept_by_a_scale(graph: Any) -> None:
    x = gx.placeholder((2,), "float16", name="x")
    w = gx.variable(np.zeros(2), dtype="float16", name="w")
    loss = gx.sum(w * x) * 1e-4
    plain = optim.SGD(1e5).minimize(loss)
    scaled = optim.LossScaled(optim.SGD(1e5)).minimize(loss)
    session = gx.Session(graph)
    feeds = {x: np.array([1e-4, 3e-5], "float16")}
    session.run(plain, feeds)
    assert not session.get(w).any()
    session.run(scaled, feeds)
    np.testing.assert_allclose(session.get(w), [-1e-3, -3e-4], rtol=5e-3)


@pytest.mark.parametrize("optimizer", ["adam", "momentum"])
def test_float16_parameters_train_with_a_scale(optimizer: str, graph: Any) -> None:
    """Scales that overflow at first are found out, and skipped steps leave no trace."""
    rng = np.random.default_rng(0)
    data = rng.normal(size=(32, 4)).astype("float16")
    true = np.array([0.5, -1, 2, 0.25], "float16")
    x = gx.placeholder((None, 4), "float16", name="x")
    w = gx.variable(np.zeros(4), dtype="float16", name="w")
    loss = gx.mean(gx.square(x @ w - gx.constant(data @ true)))
    inner = optim.Adam(0.05) if optimizer == "adam" else optim.SGD(0.05, 0.9)
    scaled = optim.LossScaled(optim.Clipped(inner, 5.0), 2.0**20, interval=50)
    train = scaled.minimize(loss, commit="finite")
    session = gx.Session(graph)
    first = session.run(loss, {x: data})
    for _ in range(150):
        session.run(train, {x: data})
    assert session.get("lossscaled/scale") < 2.0**18
    assert session.run(loss, {x: data}) < 0.01 * first
    np.testing.assert_allclose(session.get(w), true, atol=0.05)


def test_scaling_goes_around_and_within_accumulation(graph: Any) -> None:
    x = gx.placeholder((), name="x")
    w = gx.variable(np.float32(0), name="w")
    loss = w * x
    around = optim.LossScaled(optim.Accumulated(optim.SGD(1.0), 2), 4.0)
    within = optim.Accumulated(optim.LossScaled(optim.SGD(1.0), 4.0), 2)
    for optimizer, wanted in ((around, [0, 0, -2, -2]), (within, [0, 0, 0, -2])):
        train = optimizer.minimize(loss)
        session = gx.Session(graph)
        seen = []
        for number in (1.0, np.inf, 3.0, 1.0):
            session.run(train, {x: number})
            seen.append(float(session.get(w)))
        assert seen == wanted


# --- what is refused -----------------------------------------------------------------------------


def refused() -> list[Callable[[], Any]]:
    adam = optim.Adam()
    return [
        lambda: optim.Accumulated(0.1, 2),
        lambda: optim.Accumulated(adam, 0),
        lambda: optim.Accumulated(adam, 2.5),
        lambda: optim.Averaged(optim.Adam),
        lambda: optim.Averaged(adam, 1.0),
        lambda: optim.Averaged(adam, begin=-1),
        lambda: optim.Clipped(None, 1.0),
        lambda: optim.Clipped(adam, 0.0),
        lambda: optim.Clipped(adam, "1"),
        lambda: optim.Clipped(adam, 1.0, by="size"),
        lambda: optim.LossScaled("adam"),
        lambda: optim.LossScaled(adam, interval=0),
        lambda: optim.LossScaled(adam, growth=1),
        lambda: optim.LossScaled(adam, backoff=0),
        lambda: optim.LossScaled(adam, backoff=1),
        lambda: optim.LossScaled(adam, 0.5),
        lambda: optim.LossScaled(adam, 2.0**30),
        lambda: optim.LossScaled(adam, least=0),
        lambda: optim.LossScaled(adam).apply_gradients([(1.0, gx.variable(1.0))]),
        lambda: adam.minimize(gx.variable(1.0), commit="sometimes"),
        lambda: adam.apply_gradients([(1.0, gx.variable(1.0))], commit=None),
        lambda: optim.clip_by_value([], 1.0),
        lambda: optim.clip_by_value([1.0], 1.0),
        lambda: optim.clip_by_norm([gx.constant(1)], 1.0),
        lambda: optim.clip_by_norm([gx.constant(1.0)], -1.0),
    ]


@pytest.mark.parametrize("number", range(25))
def test_wrong_wrappers_are_named(number: int) -> None:
    with pytest.raises(gx.GraphcError) as caught:
        refused()[number]()
    assert caught.value.hint and caught.value.where.filename == __file__
    assert len(refused()) == 25
