"""Bits that must not depend on batch size, on what is fetched, on alignment or on threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.base.target import Target, host

BATCHES = (1, 2, 7, 8, 64, 1000)
TARGETS = {"fma": host(), "no fma": host().without_fma()}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> Target:
    return TARGETS[request.param]


def rows_agree(
    target: Target,
    function: Callable[..., Any],
    width: int,
    *others: np.ndarray[Any, Any],
    dtype: str = "float32",
    symbolic: bool = True,
) -> None:
    """Every row of ``function(x, *others)`` has the bits that it has in the largest batch."""
    whole = np.random.default_rng(width).normal(size=(max(BATCHES), width)).astype(dtype)

    def built(batch: int | None) -> tuple[gx.Session, Any, Any]:
        with gx.Graph() as graph:
            x = gx.placeholder((batch, width), dtype)
            y = function(x, *(gx.constant(other.astype(dtype)) for other in others))
        return gx.Session(graph, target=target), x, y

    session, x, y = built(None)
    expected = session.run(y, {x: whole})
    for batch in BATCHES:
        if not symbolic:
            session, x, y = built(batch)
        for start in (0, 5) if batch < max(BATCHES) else (0,):
            got = session.run(y, {x: whole[start : start + batch]})
            assert got.tobytes() == expected[start : start + batch].tobytes(), (batch, start)


def matrix(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(len(shape)).normal(size=shape)


@slow_unless(lambda target, dtype: dtype == "float32" or target == "fma")
@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("sizes", [(1, 1), (3, 5), (64, 16), (100, 33), (784, 10), (1300, 48)])
def test_matrix_products(
    target: Target, sizes: tuple[int, int], dtype: str, symbolic: bool
) -> None:
    width, columns = sizes
    rows_agree(target, gx.matmul, width, matrix(width, columns), dtype=dtype, symbolic=symbolic)


@slow_unless(
    lambda target, width, dtype: width == 33 or (dtype == "float32" and target == "fma")
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("width", [1, 31, 33, 1000, 5000])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(axis=1),
        lambda x: x.prod(axis=1),
        lambda x: x.mean(axis=-1, keepdims=True) * x,
        gx.nn.softmax,
        gx.nn.layer_norm,
        lambda x: gx.logsumexp(x, axis=1),
        lambda x: gx.var(x, axis=1),
        lambda x: gx.cumsum(x, axis=1),
    ],
    ids=["sum", "prod", "mean", "softmax", "layer_norm", "logsumexp", "var", "cumsum"],
)
def test_rows(target: Target, function: Callable[[Any], Any], width: int, dtype: str) -> None:
    rows_agree(target, function, width, dtype=dtype)


@pytest.mark.parametrize(
    "name",
    ["exp", "log1p", "expm1", "tanh", "sin", "cos", "erf", "sigmoid", "sinh", "arctan", "exp2"],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_in_body_and_tail(target: Target, name: str, dtype: str) -> None:
    rows_agree(target, lambda x: getattr(gx, name)(abs(x) * 3.0), 5, dtype=dtype)


def test_a_small_network(target: Target) -> None:
    def network(x: Any, w: Any, v: Any) -> Any:
        return gx.nn.softmax(gx.nn.layer_norm(gx.nn.gelu(x @ w)) @ v)

    rows_agree(target, network, 50, matrix(50, 40), matrix(40, 10))


def test_batched_products_are_those_of_each_matrix(target: Target) -> None:
    a, b = matrix(5, 9, 40).astype(np.float32), matrix(5, 40, 17).astype(np.float32)
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, None, 40)), gx.placeholder((None, 40, 17))
        z = x @ y
        u, v = gx.placeholder((None, 40)), gx.placeholder((40, 17))
        w = u @ v
    session = gx.Session(graph, target=target)
    together = session.run(z, {x: a, y: b})
    for number in range(5):
        assert session.run(w, {u: a[number], v: b[number]}).tobytes() == together[number].tobytes()


@pytest.mark.parametrize("function", [lambda x: x.sum(axis=1), gx.nn.softmax, lambda x: x @ x.T])
def test_alignment_and_layout_of_feeds_do_not_matter(
    target: Target, function: Callable[[Any], Any]
) -> None:
    given = matrix(37, 53).astype(np.float32)
    with gx.Graph() as graph:
        x = gx.placeholder((None, None))
        y = function(x)
    session = gx.Session(graph, target=target)
    expected = session.run(y, {x: given}).tobytes()
    room = np.zeros(given.size + 16, np.float32)
    for shift in range(16):
        moved = room[shift : shift + given.size].reshape(given.shape)
        moved[:] = given
        assert session.run(y, {x: moved}).tobytes() == expected
    assert session.run(y, {x: np.asfortranarray(given)}).tobytes() == expected
    assert session.run(y, {x: given.astype(">f8")}).tobytes() == expected


def test_programs_compiled_anew_give_the_same_bits(target: Target) -> None:
    def once() -> bytes:
        with gx.Graph() as graph:
            x = gx.placeholder((None, 30), name="x")
            w = gx.variable(matrix(30, 20).astype(np.float32))
            loss = (gx.tanh(x @ w) ** 2).mean()
            step = gx.optim.Adam(1e-2).minimize(loss)
        session = gx.Session(graph, target=target)
        for rows in (3, 17):
            session.run(step, {x: matrix(rows, 30)})
        result: bytes = session.get(w).tobytes()
        return result

    assert once() == once()
