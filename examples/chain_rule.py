"""The chain rule at work: small expressions whose gradients can be derived by hand.

Each example is written as its formula. ``gx.gradients`` gives the derivatives as further graph,
one session run gives values and gradients, and both are compared with what pen and paper give.

    python examples/chain_rule.py

The last line counts the examples that came out right.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Example:
    """A formula, where to evaluate it, and what pen and paper say.

    Attributes:
        title: the formula as text.
        inputs: by name.
        formula: from values in the order of ``inputs`` to a value.
        by_hand: from arrays in that order to the value and the gradient by each input asked for.
        by: the inputs to differentiate by; all unless given.
    """

    title: str
    inputs: dict[str, Any]
    formula: Callable[..., Any]
    by_hand: Callable[..., tuple[Any, Sequence[Any]]]
    by: tuple[str, ...] = ()


def steps_of_three(x: Any, y: Any) -> Any:
    """a = x y, b = a + y, L = b²."""
    a = x * y
    b = a + y
    return b * b


def shared(x: Any, y: Any) -> Any:
    """u = x + y, L = u y + u²: u is used twice, so two paths add up."""
    u = x + y
    return u * y + u * u


def cube_by_detour(u: Any) -> Any:
    """v = u², w = 3 u, L = v w."""
    v = u * u
    w = 3 * u
    return v * w


def least_squares(w: Any, x: Any, b: Any, t: Any) -> Any:
    """L = ½ ‖W x + b − t‖²."""
    error = w @ x + b - t
    return 0.5 * gx.sum(error * error)


def least_squares_by_hand(w: Array, x: Array, b: Array, t: Array) -> tuple[Any, Sequence[Any]]:
    """dL/dW = e xᵀ, dL/db = e, dL/dx = Wᵀ e."""
    error = w @ x + b - t
    return 0.5 * (error @ error), (np.outer(error, x), w.T @ error, error)


def layer(w: Any, x: Any, b: Any) -> Any:
    """L = Σ relu(W x + b)."""
    return gx.sum(gx.nn.relu(w @ x + b))


def layer_by_hand(w: Array, x: Array, b: Array) -> tuple[Any, Sequence[Any]]:
    """With m = 1 where W x + b > 0, else 0: dL/dW = m xᵀ, dL/dx = Wᵀ m, dL/db = m."""
    before = w @ x + b
    mask = (before > 0).astype(np.float64)
    return np.maximum(before, 0).sum(), (np.outer(mask, x), w.T @ mask, mask)


def entropy(s: Any) -> Any:
    """−log softmax(s)[k] of the smallest k, by the library's function."""
    return -gx.nn.log_softmax(s)[2]


def entropy_spelled_out(s: Any) -> Any:
    """The same by hand; for such scores exp overflows, unless the compiler sees the pattern."""
    return gx.log(gx.sum(gx.exp(s))) - s[2]


def entropy_by_hand(s: Array) -> tuple[Any, Sequence[Any]]:
    """dL/ds = softmax(s) − one_hot(k)."""
    shares = np.exp(s - s.max())
    shares /= shares.sum()
    value = s.max() - s[2] + np.log(np.exp(s - s.max()).sum())
    return value, (shares - np.eye(len(s))[2],)


MATRIX = np.array([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]])
VECTOR = np.array([2.0, -1.0, 4.0])
SHIFT = np.array([0.5, -0.75])
TARGET = np.array([1.0, 2.0])
SCORES = np.array([1000.0, 998.0, -1000.0, 997.5])

EXAMPLES = (
    Example(
        "z = (x + y) w",
        {"x": 2.0, "y": 3.0, "w": 4.0},
        lambda x, y, w: (x + y) * w,
        lambda x, y, w: ((x + y) * w, (w, w, x + y)),
    ),
    Example(
        "L = (x + y) y",
        {"x": 2.0, "y": 3.0},
        lambda x, y: (x + y) * y,
        lambda x, y: ((x + y) * y, (y, x + 2 * y)),
    ),
    Example(
        "u = x + y, L = u y + u²",
        {"x": 2.0, "y": 3.0},
        shared,
        lambda x, y: ((x + y) * (x + 2 * y), (2 * x + 3 * y, 3 * x + 4 * y)),
    ),
    Example(
        "a = x y, b = a + y, L = b²",
        {"x": 2.0, "y": 3.0},
        steps_of_three,
        lambda x, y: ((x * y + y) ** 2, (2 * y**2 * (x + 1), 2 * y * (x + 1) ** 2)),
    ),
    Example(
        "v = u², w = 3 u, L = v w",
        {"u": 2.0},
        cube_by_detour,
        lambda u: (3 * u**3, (9 * u**2,)),
    ),
    Example(
        "L = (x w + b − y)²",
        {"x": 3.0, "w": 0.5, "b": 0.25, "y": 1.0},
        lambda x, w, b, y: (x * w + b - y) ** 2,
        lambda x, w, b, y: (
            (x * w + b - y) ** 2,
            tuple(2 * (x * w + b - y) * slope for slope in (w, x, 1.0, -1.0)),
        ),
    ),
    Example(
        "L = ½ ‖W x + b − t‖²",
        {"W": MATRIX, "x": VECTOR, "b": SHIFT, "t": TARGET},
        least_squares,
        least_squares_by_hand,
        by=("W", "x", "b"),
    ),
    Example(
        "L = Σ relu(W x + b)",
        {"W": MATRIX, "x": VECTOR, "b": SHIFT},
        layer,
        layer_by_hand,
    ),
    Example("L = −log softmax(s)[k]", {"s": SCORES}, entropy, entropy_by_hand),
    Example("L = log Σ exp(s) − s[k]", {"s": SCORES}, entropy_spelled_out, entropy_by_hand),
)


def text(array: Any) -> str:
    """An array on one line."""
    return np.array2string(np.asarray(array), precision=6, separator=", ").replace("\n", "")


def check(example: Example) -> bool:
    """Runs one example, prints it, and says whether it is what pen and paper give."""
    with gx.Graph() as graph:
        inputs = {
            name: gx.placeholder(np.shape(given), "float64", name=name)
            for name, given in example.inputs.items()
        }
        value = example.formula(*inputs.values())
        by = example.by or tuple(inputs)
        slopes = gx.gradients(value, [inputs[name] for name in by])
    found, gradients = gx.Session(graph).run([value, slopes], example.inputs)
    expected, derived = example.by_hand(*map(np.asarray, example.inputs.values()))

    given = ", ".join(f"{name} = {text(array)}" for name, array in example.inputs.items())
    print(f"{example.title}\n  at {given}")
    print(f"  value {text(found)}")
    right = bool(np.allclose(found, expected, rtol=1e-12, atol=0))
    for name, gradient, by_hand in zip(by, gradients, derived, strict=True):
        agrees = bool(np.allclose(gradient, by_hand, rtol=1e-12, atol=0))
        print(f"  d/d{name} = {text(gradient)}" + ("" if agrees else f", not {text(by_hand)}"))
        right = right and agrees
    if not right:
        print(f"  by hand: value {text(expected)}")
    return right


def main() -> None:
    """Prints every example; ends with how many are right."""
    argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0]).parse_args()
    right = [check(example) for example in EXAMPLES]
    print(f"{sum(right)} of {len(right)} examples as derived by hand")
    if not all(right):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
