"""Random typed programs for fuzzing: recipes of small numbers, and what they build.

A recipe never fails to build: operands are chosen modulo what there is, and an operation that does
not fit them is bent until it does. So Hypothesis can cut a recipe anywhere and it shrinks well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
from hypothesis import strategies as st
from random_operations import DTYPES, STEPS, Maker, Step

import graphc as gx

SHAPES: tuple[tuple[int, ...], ...] = (
    (), (1,), (5,), (3, 4), (4, 3), (1, 4), (3, 1), (0, 4), (2, 3, 4), (40,), (3, 70), (2, 33),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """What to build.

    Attributes:
        inputs: of each placeholder the number of its shape and of its dtype.
        steps: of each operation its number and three numbers that choose operands and attributes.
        symbolic: whether the sizes of placeholders are unknown to the compiler.
        special: whether feeds hold NaN, infinities, zeros of both signs, extremes.
        fetched: how many of the last values are fetched.
        seed: of the feeds.
        variables: of each variable the number of its shape and of its dtype.
    """

    inputs: tuple[tuple[int, ...], ...]
    steps: tuple[tuple[int, ...], ...]
    symbolic: bool
    special: bool
    fetched: int
    seed: int
    variables: tuple[tuple[int, ...], ...] = ()


SMALL = st.integers(0, 60)


def recipes(
    *,
    special: bool | None = None,
    most: int = 16,
    steps: Sequence[Step] | None = None,
    variables: int = 0,
) -> st.SearchStrategy[Recipe]:
    """Recipes of up to ``most`` operations; feeds with special values, without, or both.

    If there are ``variables`` at all, there is one or more.
    """
    count = len(STEPS if steps is None else steps)
    step = st.tuples(st.integers(0, count - 1), SMALL, SMALL, SMALL)
    drawn = st.builds(
        Recipe,
        st.lists(st.tuples(SMALL, SMALL), min_size=1, max_size=3).map(tuple),
        st.lists(step, min_size=1, max_size=most).map(tuple),
        st.booleans(),
        st.booleans() if special is None else st.just(special),
        st.integers(1, 4),
        st.integers(0, 1000),
        st.lists(
            st.tuples(SMALL, SMALL), min_size=min(variables, 1), max_size=variables
        ).map(tuple),
    )
    # those shrink well, but more than half have one step, and inputs without axes
    even = st.integers(0, 2**32 - 1).map(
        lambda seed: evenly(seed, count, most, special, variables)
    )
    return st.one_of(drawn, even)


def evenly(
    seed: int, count: int, most: int, special: bool | None, variables: int = 0
) -> Recipe:
    """A recipe all of whose numbers are as likely as each other, the lengths of its lists too."""
    random = Random(seed)

    def several(longest: int, limits: Sequence[int]) -> tuple[tuple[int, ...], ...]:
        count = random.randint(1, longest)
        return tuple(tuple(map(random.randrange, limits)) for _ in range(count))

    return Recipe(
        several(3, (61, 61)),
        several(most, (count, 61, 61, 61)),
        random.random() < 0.5,
        random.random() < 0.5 if special is None else special,
        random.randint(1, 4),
        random.randint(0, 1000),
        several(variables, (61, 61)) if variables else (),
    )


@dataclass(frozen=True, slots=True)
class Program:
    """A built recipe: the graph, its fetches and feeds, each operation's value, and the effects."""

    graph: gx.Graph
    fetches: list[Any]
    feeds: dict[Any, Any]
    values: list[Any]
    effects: list[Any]


def build(
    recipe: Recipe,
    steps: Sequence[Step] | None = None,
    shapes: Sequence[tuple[int, ...]] = SHAPES,
    chains: bool = False,
) -> Program:
    """The program of a recipe whose numbers of operations are places in ``steps``.

    Its inputs have some of the ``shapes``. In ``chains`` most operands were made last.
    """
    steps = STEPS if steps is None else steps
    rng = np.random.default_rng(recipe.seed)
    feeds: dict[Any, Any] = {}
    with gx.Graph() as graph:
        maker = Maker([], chains)
        for number, (shape_number, dtype_number) in enumerate(recipe.inputs):
            shape = shapes[shape_number % len(shapes)]
            dtype = DTYPES[dtype_number % len(DTYPES)]
            known = [f"d{size}" if recipe.symbolic and size > 1 else size for size in shape]
            value = gx.placeholder(known, dtype, name=f"x{number}")
            feeds[value] = sample(shape, np.dtype(dtype), rng, recipe.special)
            maker.add(value, shape)
        for number, (shape_number, dtype_number) in enumerate(recipe.variables):
            shape = SHAPES[shape_number % len(SHAPES)]
            dtype = np.dtype(DTYPES[dtype_number % len(DTYPES)])
            variable = gx.variable(sample(shape, dtype, rng, recipe.special), name=f"v{number}")
            maker.variables.append(variable)
            maker.add(variable, shape)
        inputs = len(maker.pool)
        for number, a, b, c in recipe.steps:
            maker.step(steps[number % len(steps)], a, b, c)
    values = [value for value, _ in maker.pool[inputs:]]
    fetches = values[-recipe.fetched :] or [maker.pool[-1][0]]
    return Program(graph, fetches, feeds, values, maker.effects)


def sample(
    shape: Sequence[int], dtype: np.dtype[Any], rng: np.random.Generator, special: bool
) -> Any:
    """A feed."""
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind == "f":
        array = rng.uniform(-3, 3, shape)
        if special:
            info = np.finfo(dtype)
            odd = [0.0, -0.0, np.nan, np.inf, -np.inf, info.max, info.tiny, info.smallest_subnormal]
            array = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), array)
        return np.asarray(array, dtype)
    limits = np.iinfo(dtype)
    array = rng.integers(max(limits.min, -9), 10, shape)
    if special:
        odd = [limits.min, limits.max, 0, 1]
        array = np.where(rng.random(shape) < 0.3, rng.choice(odd, shape), array)
    return np.asarray(array).astype(dtype)
