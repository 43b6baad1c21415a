"""Random arrays to evaluate graphs on, among them the values at which rewriting goes wrong.

Invariant: what is drawn depends on the generator, the types and the sizes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from graphc.ir.attributes import Array
from graphc.ir.dims import expressions
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.dtypes import floating
from graphc.ir.graph import Graph
from graphc.ir.types import TensorType

ORDINARY = (-4.0, 4.0)
"""Where ordinary floats lie."""


def specials(dtype: np.dtype[Any]) -> Array:
    """The special values of a dtype: zeros, infinities, NaN, the smallest and largest numbers."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind == "c":
        parts = specials(np.zeros(0, dtype).real.dtype)
        pairs: Array = np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2)
        return pairs.view(dtype).reshape(-1)
    if floating(dtype):
        edges = as_dtype(dtype).format
        numbers: list[float] = [0.0, 1.0, 0.5, 3.0, edges.smallest, edges.smallest_normal]
        numbers += [edges.largest, np.inf]
        return np.array([*numbers, *(-number for number in numbers), np.nan], dtype)
    element = as_dtype(dtype)
    least, greatest = int(element.least), int(element.greatest)
    found = {least, least + 1, -2, -1, 0, 1, 2, 3, greatest - 1, greatest}
    return np.array([number for number in sorted(found) if least <= number <= greatest], dtype)


def random_array(
    type_: TensorType,
    sizes: Mapping[str, int],
    random: np.random.Generator,
    special: bool,
    interval: tuple[float, float] = ORDINARY,
) -> Array:
    """Ordinary elements, floats of the interval; special ones often, if wanted.

    Integers are small and not negative as long as they are ordinary, since they may be indices.
    """
    if type_.dtype.is_complex:
        parts = random_array(type_.stored, sizes, random, special, interval)
        return parts.view(type_.dtype.numpy)[..., 0]
    shape = tuple(expressions.evaluate(dim, sizes) for dim in type_.shape)
    dtype = np.dtype(type_.dtype.numpy)
    if floating(dtype):
        array = random.uniform(*interval, shape).astype(dtype)
    else:
        array = random.integers(0, 2 if dtype.kind == "b" else 3, shape).astype(dtype)
    if special:
        # all of them in turn, so that few elements hold many
        chosen = np.resize(random.permutation(specials(dtype)), array.size).reshape(shape)
        array = np.where(random.random(shape) < 0.6, chosen, array)
    return np.asarray(array, dtype)


def feeds(
    graph: Graph,
    sizes: Mapping[str, int],
    rounds: int = 3,
    interval: tuple[float, float] = ORDINARY,
) -> Iterator[tuple[bool, list[Array]]]:
    """Arrays for the inputs of a graph, several times, and whether special values are among them.

    Integers are special in every second of the rounds that are; they may be indices.
    """
    for seed in range(rounds):
        random = np.random.default_rng(seed)
        special = seed < rounds - 1
        yield special, [
            random_array(
                v.type, sizes, random, special and (v.dtype.is_inexact or seed % 2 == 1), interval
            )
            for v in graph.inputs
        ]


def cost(graph: Graph, sizes: Mapping[str, int]) -> int:
    """About how many elements an evaluation touches, every loop body run once."""
    total = 0
    for node in graph.walk():
        made = 0
        for value in node.outputs:
            size = 1
            for dim in value.shape:
                size *= expressions.evaluate(dim, sizes)
            made += size
        if node.op.lowering.is_product:
            made *= expressions.evaluate(node.inputs[0].shape[-1], sizes)
        total += made
    return total


__all__ = ["ORDINARY", "cost", "feeds", "random_array", "specials"]
