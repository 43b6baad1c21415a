"""What the tests of differentiation share: placeholders, samples, evaluation by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import graphc as gx
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.frontend.structure import leaves, rebuild


def run(fetches: Any, feeds: Mapping[Any, Any] | None = None) -> Any:
    """The fetches in their structure, interpreted; variables have their initial values."""
    wanted = list(leaves(fetches))
    recorder = wanted[0].graph
    extraction = extract(recorder, wanted)
    inputs = {value: np.asarray(array, value.dtype.numpy) for value, array in (feeds or {}).items()}
    for state in extraction.states:
        inputs[state] = recorder.producer(state).attrs["initial"].array
    results = iter(evaluate(extraction.graph, inputs)[: len(wanted)])
    return rebuild(fetches, lambda leaf: next(results))


def scalars(names: str) -> list[Any]:
    return [gx.placeholder((), "float64", name=name) for name in names]


def arrays(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-2, 2, shape) for shape in shapes]


def close(actual: Any, expected: Any, rtol: float = 1e-12) -> None:
    for one, other in zip(leaves(actual), leaves(expected), strict=True):
        assert np.shape(one) == np.shape(other)
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-14)
