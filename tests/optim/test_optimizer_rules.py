"""Each optimiser's trajectory against NumPy, and what all of them have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import optimizer_formulas as formulas
import pytest
from optimizer_formulas import Formula, trained
from renewals import addresses, commit_of
from slow_parameters import slow_unless

import graphc as gx

pytestmark = pytest.mark.check_mode

STEPS = 8
SHAPES = {
    "matrix": (3, 4),
    "vector": (5,),
    "cube": (2, 3, 2),
    "scalar": (),
    "one": (1,),
    "square": (1, 1),
    "none": (0,),
    "no_rows": (0, 3),
}

optim = gx.optim
CASES: dict[str, tuple[Callable[[], Any], Formula]] = {
    "sgd": (lambda: optim.SGD(0.1), formulas.sgd(0.1)),
    "momentum": (
        lambda: optim.SGD(0.05, 0.9, dampening=0.3, weight_decay=0.01),
        formulas.sgd(0.05, 0.9, decay=0.01, dampening=0.3),
    ),
    "nesterov": (
        lambda: optim.SGD(0.05, 0.8, nesterov=True, weight_decay=0.01),
        formulas.sgd(0.05, 0.8, True, 0.01),
    ),
    "sign": (lambda: optim.SignSGD(0.01, 0.1), formulas.sign_sgd(0.01, 0.1)),
    "lion": (lambda: optim.Lion(), formulas.lion()),
    "lion-given": (
        lambda: optim.Lion(0.01, (0.7, 0.95), weight_decay=0.1),
        formulas.lion(0.01, 0.7, 0.95, 0.1),
    ),
    "adagrad": (lambda: optim.Adagrad(), formulas.adagrad()),
    "adagrad-given": (
        lambda: optim.Adagrad(0.1, 1e-3, 0.05, initial=0.2),
        formulas.adagrad(0.1, 1e-3, 0.05, 0.2),
    ),
    "adadelta": (lambda: optim.Adadelta(), formulas.adadelta()),
    "adadelta-given": (
        lambda: optim.Adadelta(0.5, 0.8, 1e-3, 0.05),
        formulas.adadelta(0.5, 0.8, 1e-3, 0.05),
    ),
    "rmsprop": (lambda: optim.RMSProp(), formulas.rmsprop()),
    "rmsprop-given": (
        lambda: optim.RMSProp(0.005, 0.9, 1e-3, 0.5, True, 0.02),
        formulas.rmsprop(0.005, 0.9, 1e-3, 0.5, True, 0.02),
    ),
    "adam": (lambda: optim.Adam(), formulas.adam()),
    "adam-given": (
        lambda: optim.Adam(0.02, (0.8, 0.95), 1e-4, 0.1),
        formulas.adam(0.02, 0.8, 0.95, 1e-4, 0.1),
    ),
    "adamw": (
        lambda: optim.AdamW(0.02, weight_decay=0.3),
        formulas.adam(0.02, decay=0.3, decoupled=True),
    ),
    "amsgrad": (
        lambda: optim.AMSGrad(0.02, (0.8, 0.5), weight_decay=0.1),
        formulas.adam(0.02, 0.8, 0.5, decay=0.1, largest=True),
    ),
    "adamax": (lambda: optim.Adamax(), formulas.adamax()),
    "adamax-given": (
        lambda: optim.Adamax(0.02, (0.8, 0.5), 1e-3, 0.1),
        formulas.adamax(0.02, 0.8, 0.5, 1e-3, 0.1),
    ),
    "nadam": (lambda: optim.NAdam(), formulas.nadam()),
    "nadam-given": (
        lambda: optim.NAdam(0.02, (0.8, 0.9), 1e-3, 0.1, momentum_decay=0.5),
        formulas.nadam(0.02, 0.8, 0.9, 1e-3, 0.1, 0.5),
    ),
    "radam": (lambda: optim.RAdam(), formulas.radam()),
    "radam-given": (
        lambda: optim.RAdam(0.02, (0.8, 0.9), 1e-3, 0.1),
        formulas.radam(0.02, 0.8, 0.9, 1e-3, 0.1),
    ),
    "lars": (lambda: optim.LARS(10.0), formulas.lars(10.0)),
    "lars-given": (
        lambda: optim.LARS(0.3, 0.7, 0.1, 0.05, 0.01, True),
        formulas.lars(0.3, 0.7, 0.1, 0.05, 0.01, True),
    ),
    "lamb": (lambda: optim.LAMB(), formulas.lamb()),
    "lamb-given": (
        lambda: optim.LAMB(0.1, (0.8, 0.9), 1e-3, 0.1),
        formulas.lamb(0.1, 0.8, 0.9, 1e-3, 0.1),
    ),
    "adafactor": (lambda: optim.Adafactor(), formulas.adafactor()),
    "adafactor-given": (
        lambda: optim.Adafactor(0.6, 0.5, (1e-3, 0.1), 0.7, 0.1),
        formulas.adafactor(0.6, 0.5, (1e-3, 0.1), 0.7, 0.1),
    ),
    "adafactor-absolute": (
        lambda: optim.Adafactor(optim.linear_schedule(0.1, 0.01, 5), relative=False),
        formulas.adafactor(lambda n: 0.1 - 0.09 * min(n / 5, 1), relative=False),
    ),
}
USUAL = [name for name in CASES if f"{name}-given" not in CASES]
"""One of each kind, with hyperparameters given."""


class Problem:
    """Parameters of many shapes, with loss Σ p² / 2 + Σ d p for each, where d is fed."""

    def __init__(self, dtype: str = "float64") -> None:
        rng = np.random.default_rng(7)
        self.start = {name: rng.normal(size=shape) for name, shape in SHAPES.items()}
        self.slopes = [
            {name: rng.normal(size=shape) for name, shape in SHAPES.items()} for _ in range(STEPS)
        ]
        self.variables = {
            name: gx.variable(array, name=name, dtype=dtype) for name, array in self.start.items()
        }
        loss: Any = gx.constant(0.0, dtype)
        for name, variable in self.variables.items():
            fed = gx.placeholder(SHAPES[name], dtype, name=f"slope_of_{name}")
            loss = loss + gx.sum(variable * variable) * 0.5 + gx.sum(fed * variable)
        self.loss = loss

    def feeds(self, step: int) -> dict[str, Any]:
        """What is fed in a step, counted from 0."""
        return {f"slope_of_{name}": array for name, array in self.slopes[step].items()}

    def expected(self, formula: Callable[[str], Formula] | Formula, steps: int = STEPS) -> Any:
        """All parameters after steps by NumPy; a formula may depend on the parameter's name."""
        return {
            name: trained(
                formula(name) if formula.__code__.co_argcount == 1 else formula,
                self.start[name],
                [slopes[name] for slopes in self.slopes[:steps]],
            )
            for name in SHAPES
        }


def compare(session: Any, expected: Any, rtol: float = 1e-9) -> None:
    for name, wanted in expected.items():
        found = session.get(name)
        assert found.shape == np.shape(wanted)
        np.testing.assert_allclose(found, wanted, rtol=rtol, atol=rtol, err_msg=name)


@pytest.fixture(autouse=True)
def graph() -> Iterator[Any]:
    with gx.Graph() as current:
        yield current


@pytest.mark.parametrize("name", CASES)
def test_follows_its_formula(name: str, graph: Any, tmp_path: Path) -> None:
    """Also when it is saved and restored on the way; another session has no part in it."""
    make, formula = CASES[name]
    problem = Problem()
    train = make().minimize(problem.loss)
    session, later, other = (gx.Session(graph) for _ in range(3))
    for step in range(STEPS // 2):
        session.run([train, problem.loss], problem.feeds(step))
    session.save(tmp_path / "half.safetensors")
    later.restore(tmp_path / "half.safetensors")
    for step in range(STEPS // 2, STEPS):
        session.run([train, problem.loss], problem.feeds(step))
        later.run([problem.loss, train], problem.feeds(step))
    compare(session, problem.expected(formula))
    compare(other, problem.start)
    for variable in graph.variables:
        np.testing.assert_array_equal(session.get(variable), later.get(variable))


@pytest.mark.parametrize("name", USUAL)
def test_makes_a_quadratic_smaller(name: str, graph: Any) -> None:
    rng = np.random.default_rng(3)
    factors = gx.constant(np.linspace(0.5, 2.0, 12).reshape(3, 4), "float32")
    w = gx.variable(rng.normal(size=(3, 4)), dtype="float32")
    loss = gx.sum(factors * w * w)
    train = CASES[name][0]().minimize(loss)
    session = gx.Session(graph)
    before = session.run(loss)
    for _ in range(60):
        session.run(train)
    assert session.run(loss) < before * (0.999 if "adadelta" in name else 0.95)


@pytest.mark.parametrize(
    "name", ["momentum", "adam", "adamw", "adadelta-given", "radam", "lamb", "lars", "adafactor"]
)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@slow_unless(lambda name, dtype: dtype == "float16" or name == "adam")
def test_narrow_parameters_are_stepped_in_float32(name: str, dtype: str, graph: Any) -> None:
    """Only the parameter is rounded, once a step; a ε below what float16 has is no 0."""
    make, formula = CASES[name]
    rng = np.random.default_rng(2)
    start = gx.constant(rng.normal(size=(4, 3)), dtype)
    w = gx.variable(gx.Session(graph).run(start), name="w", dtype=dtype)
    slope = gx.placeholder((4, 3), dtype)
    train = make().apply_gradients([(slope, w)])
    session = gx.Session(graph)
    wanted = session.get(w).astype("float64")
    state: formulas.State = {}
    for t in range(1, 7):
        fed = rng.normal(size=(4, 3)).astype(w.dtype.numpy)
        session.run(train, {slope: fed})
        wanted = formula(wanted, fed.astype("float64"), state, t)
        found = session.get(w)
        assert found.dtype == w.dtype.numpy
        rounding = {"float32": 2e-6, "float16": 1e-3, "bfloat16": 1e-2}[dtype]
        np.testing.assert_allclose(found.astype("float64"), wanted, rtol=rounding, atol=rounding)
        wanted = found.astype("float64")
    slots = [v for v in graph.variables if v.name.startswith("w/")]
    assert slots and all(slot.dtype is gx.float32 for slot in slots)


def test_norms_of_zero_leave_rates_alone(graph: Any) -> None:
    """A bias that starts at zero would stay there."""
    for make, formula in ((optim.LAMB, formulas.lamb), (optim.LARS, formulas.lars)):
        w = gx.variable(np.zeros(3))
        slope = gx.placeholder((3,), "float64")
        train = make(0.1).apply_gradients([(slope, w)])
        session, wanted, state = gx.Session(graph), np.zeros(3), formulas.State()
        for t, fed in enumerate((np.zeros(3), np.array([1.0, -2, 0]), np.zeros(3)), 1):
            session.run(train, {slope: fed})
            wanted = formula(0.1)(wanted, fed, state, t)
            np.testing.assert_allclose(session.get(w), wanted, rtol=1e-9)
        assert session.get(w).any()


def test_adafactor_keeps_a_row_and_a_column(graph: Any) -> None:
    w = gx.variable(np.ones((4, 5, 6), "float32"), name="w")
    train = optim.Adafactor().minimize(gx.sum(w * w))
    shapes = {v.name: v.shape for v in graph.variables if v is not w}
    assert shapes == {
        "adafactor/step": (), "w/row_squares": (4, 5), "w/column_squares": (4, 6)
    }  # fmt: skip
    session = gx.Session(graph)
    session.run(train)
    assert np.isfinite(session.get(w)).all() and (session.get(w) < 1).all()


# --- masks ---------------------------------------------------------------------------------------

DECAYING: dict[str, tuple[Callable[[Any], Any], Callable[[float], Formula]]] = {
    "sgd": (
        lambda mask: optim.SGD(0.1, weight_decay=0.2, mask=mask),
        lambda decay: formulas.sgd(0.1, decay=decay),
    ),
    "lion": (
        lambda mask: optim.Lion(0.01, weight_decay=0.2, mask=mask),
        lambda decay: formulas.lion(0.01, decay=decay),
    ),
    "adagrad": (
        lambda mask: optim.Adagrad(weight_decay=0.2, mask=mask),
        lambda decay: formulas.adagrad(decay=decay),
    ),
    "adam": (
        lambda mask: optim.Adam(weight_decay=0.2, mask=mask),
        lambda decay: formulas.adam(decay=decay),
    ),
    "lamb": (
        lambda mask: optim.LAMB(0.1, weight_decay=0.2, mask=mask, adapted=mask),
        lambda decay: formulas.lamb(0.1, decay=decay, adapted=bool(decay)),
    ),
    "lars": (
        lambda mask: optim.LARS(0.1, weight_decay=0.2, mask=mask, adapted=mask),
        lambda decay: formulas.lars(0.1, decay=decay, adapted=bool(decay)),
    ),
    "adafactor": (
        lambda mask: optim.Adafactor(0.1, weight_decay=0.2, mask=mask),
        lambda decay: formulas.adafactor(0.1, decay=decay),
    ),
    "adamw": (
        lambda mask: optim.AdamW(0.1, weight_decay=0.2, mask=mask),
        lambda decay: formulas.adam(0.1, decay=decay, decoupled=True),
    ),
}


@slow_unless(lambda name, by: by == "test" or name == "sgd")
@pytest.mark.parametrize("name", DECAYING)
@pytest.mark.parametrize("by", ["test", "list"])
def test_only_parameters_of_the_mask_decay(name: str, by: str, graph: Any) -> None:
    make, formula = DECAYING[name]
    problem = Problem()
    chosen = [v for v in problem.variables.values() if v.ndim > 1]
    train = make(chosen if by == "list" else lambda v: v.ndim > 1).minimize(problem.loss)
    session = gx.Session(graph)
    for step in range(4):
        session.run(train, problem.feeds(step))
    compare(session, problem.expected(lambda name: formula(0.2 * (len(SHAPES[name]) > 1)), 4))


def test_a_mask_is_a_test_or_a_list_of_variables(graph: Any) -> None:
    w = gx.variable(np.ones(3), name="w")
    for wrong in ("w", 1, ["w"], w, w * 2):
        with pytest.raises(gx.GraphError, match="a mask is"):
            optim.AdamW(mask=wrong)
    with pytest.raises(gx.DTypeError, match="what a mask gives"):
        optim.AdamW(mask=lambda variable: None).minimize(gx.sum(w * w))


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda: optim.Lion(betas=(0.9,)),
        lambda: optim.Lion(-1e-4),
        lambda: optim.SignSGD(0.1, weight_decay=-1),
        lambda: optim.Adagrad(initial=-1),
        lambda: optim.Adagrad(epsilon=-1),
        lambda: optim.Adadelta(rho=1.0),
        lambda: optim.Adadelta(rho=float("nan")),
        lambda: optim.NAdam(momentum_decay=-1),
        lambda: optim.RAdam(betas=(0.9, 1.0)),
        lambda: optim.Adamax(epsilon=-1),
        lambda: optim.AMSGrad(weight_decay=-1),
        lambda: optim.LAMB(betas=(0.9, 1)),
        lambda: optim.LAMB(adapted="biases"),
        lambda: optim.LARS(0.1, trust=-1),
        lambda: optim.LARS(0.1, epsilon=-1),
        lambda: optim.Adafactor(epsilons=(0, 1e-3)),
        lambda: optim.Adafactor(epsilons=(1e-30,)),
        lambda: optim.Adafactor(clip=0),
        lambda: optim.Adafactor(relative="no"),
        lambda: optim.Adam(gx.constant(1)),
        lambda: optim.Adam(gx.ones((2,))),
    ],
)
def test_wrong_hyperparameters_are_named(make: Callable[[], Any]) -> None:
    with pytest.raises(gx.GraphcError) as caught:
        make()
    assert caught.value.hint and caught.value.where.filename == __file__


# --- what a step is compiled to ------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in USUAL if n.split("-")[0] not in ("lamb", "adafactor")])
def test_a_step_is_one_kernel_a_parameter_in_place(name: str, graph: Any) -> None:
    """Beside it there is at most one of what the whole step computes; LARS looks at norms first."""
    shapes = [(512, 300), (300,)]
    slopes = [gx.placeholder(shape) for shape in shapes]
    variables = [gx.variable(np.ones(shape, "float32")) for shape in shapes]
    train = CASES[name][0]().apply_gradients(zip(slopes, variables, strict=True))
    session = gx.Session(graph, options=gx.Options(optimize=3))
    run = session.compile(train, slopes)
    gx.testing.expect(run, steps=5 if "lars" in name else 3, peak_bytes=64)
    feeds = [np.ones(shape, "float32") for shape in shapes]
    run(*feeds)
    run(*feeds)
    before = addresses(session, *graph.variables)
    run(*feeds)
    assert commit_of(run) is not None
    assert addresses(session, *graph.variables) == before
