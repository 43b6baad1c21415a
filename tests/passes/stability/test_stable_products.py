"""Parts of wholes among other exponentials: log(sigmoid(x) * exp(y)) is no x + y - softplus(x).

What is large and cancels must not take the small rest with it, and what is infinite and cancels
must not become NaN. The truth is computed by hand, from what the factors are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gx

pytestmark = pytest.mark.check_mode

EDGES = [np.inf, 1e30, 1e4, 1e3, 50.0, 1.0, 0.0, -1.0, -50.0]
ROWS = np.outer(np.ones(9), [0.0, 1.0, -2.0]) + np.outer([1e6, 1e4, 1e3, 50, 1, 0, -1, -1e3, -1e6],
                                                         np.ones(3))  # fmt: skip
BESIDE = np.outer(np.linspace(-2, 2, 9), [1.0, 0.5, 0.25]) - 0.63


def log_sigmoid(x: Any) -> Any:
    return -(np.log1p(np.exp(-np.abs(x))) + np.maximum(-x, 0))


def total(x: Any) -> Any:
    return gx.sum(x, axis=1, keepdims=True)


def shifted(x: Any) -> Any:
    return gx.exp(x - gx.max(x, axis=1, keepdims=True))


def log_sum_exp(x: Any) -> Any:
    top = x.max(axis=1, keepdims=True)
    return np.log(np.exp(x - top).sum(axis=1, keepdims=True)) + top


def check(spelled: Callable[[Any, Any], Any], x: Any, y: Any, truth: Any, bound: float) -> None:
    x, y = np.asarray(x, np.float32), np.asarray(y, np.float32)
    with gx.Graph() as graph:
        nodes = [gx.placeholder(array.shape, name=name) for array, name in ((x, "x"), (y, "y"))]
        result = spelled(*nodes)
    session = gx.Session(graph)
    found = session.run(result, dict(zip(nodes, (x, y), strict=True)))
    fired = [d for record in session.compile(result, nodes).passes for d in record.decisions
             if record.name.startswith("stabilize")]  # fmt: skip
    assert fired, "the spelling is left as it is"
    wanted = truth(x.astype(np.float64), y.astype(np.float64))
    assert not np.isnan(found).any(), found
    np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize(("spelled", "truth"), [
    (lambda x, y: gx.log(gx.sigmoid(x) * gx.exp(y)), lambda x, y: y + log_sigmoid(x)),
    (lambda x, y: gx.log(gx.exp(y) / gx.sigmoid(x)), lambda x, y: y - log_sigmoid(x)),
    (lambda x, y: gx.log(gx.exp(y) / (1 + gx.exp(-x))), lambda x, y: y + log_sigmoid(x)),
    (lambda x, y: gx.log(gx.abs(y) / gx.sigmoid(x)),
     lambda x, y: np.log(abs(y)) - log_sigmoid(x)),
    (lambda x, y: gx.log(gx.sigmoid(x) * gx.sigmoid(x) * gx.exp(y)),
     lambda x, y: y + 2 * log_sigmoid(x)),
])  # fmt: skip
def test_sigmoids_of_any_size_beside_an_exponential(spelled: Any, truth: Any) -> None:
    check(spelled, EDGES, np.linspace(-1, 1, 9), truth, 4e-7)


@pytest.mark.parametrize(("spelled", "truth"), [
    (lambda x, y: gx.log(gx.nn.softmax(x) * gx.exp(y)), lambda x, y: x - log_sum_exp(x) + y),
    (lambda x, y: gx.log(gx.exp(y) / gx.nn.softmax(x)), lambda x, y: y - x + log_sum_exp(x)),
    (lambda x, y: gx.log(total(shifted(x)) * gx.exp(y)),
     lambda x, y: log_sum_exp(x) - x.max(axis=1, keepdims=True) + y),
    (lambda x, y: gx.log(gx.sum(shifted(x), axis=1) * gx.exp(y[:, 0])),
     lambda x, y: (log_sum_exp(x) - x.max(axis=1, keepdims=True))[:, 0] + y[:, 0]),
    (lambda x, y: gx.log(total(shifted(x) * gx.exp(y))),
     lambda x, y: log_sum_exp(x - x.max(axis=1, keepdims=True) + y)),
    (lambda x, y: gx.log(total(gx.nn.softmax(x) * gx.exp(y))),
     lambda x, y: log_sum_exp(x - log_sum_exp(x) + y)),
    (lambda x, y: gx.log(total(gx.sigmoid(x) * gx.exp(y))),
     lambda x, y: log_sum_exp(log_sigmoid(x) + y)),
])  # fmt: skip
def test_rows_of_any_size_beside_an_exponential(spelled: Any, truth: Any) -> None:
    check(spelled, ROWS, BESIDE, truth, 4e-7)
