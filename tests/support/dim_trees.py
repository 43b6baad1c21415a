"""Random expressions of sizes: trees, the dims made of them, and a plain evaluator."""

from __future__ import annotations

import itertools
import operator
from typing import Any

from hypothesis import strategies as st

from graphc.ir.dims.expressions import (
    Dim,
    dim_max,
    dim_min,
    program,
    select,
    symbol,
)

RELATIONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le}

BINARY = {name: getattr(operator, name) for name in ("add", "sub", "mul", "floordiv", "mod")}

# name, lower, upper, values to try
SYMBOLS = {
    "n": (0, None, (0, 1, 2, 7, 30)),
    "m": (1, None, (1, 2, 3, 16)),
    "k": (2, 5, (2, 3, 5)),
    "odd name": (-3, 4, (-3, -1, 0, 4)),
}

SYMBOLIC = {name: symbol(name, low, high) for name, (low, high, _) in SYMBOLS.items()}

ENVIRONMENTS = [
    dict(zip(SYMBOLS, values, strict=True))
    for values in itertools.product(*(tries for _, _, tries in SYMBOLS.values()))
]

Tree = Any

leaves = st.one_of(st.integers(-6, 8), st.sampled_from(sorted(SYMBOLS)))

trees = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([*BINARY, "min", "max"]), inner, inner),
        st.tuples(st.just("select"), st.sampled_from(sorted(RELATIONS)), *[inner] * 4),
    ),
    max_leaves=9,
)


def build(tree: Tree) -> Dim:
    """The dim of a tree, through the public operations."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return SYMBOLIC[tree]
    if tree[0] == "select":
        return select(tree[1], *(build(part) for part in tree[2:]))
    left, right = build(tree[1]), build(tree[2])
    if tree[0] in BINARY:
        result: Dim = BINARY[tree[0]](left, right)
        return result
    return dim_min(left, right) if tree[0] == "min" else dim_max(left, right)


def reference(tree: Tree, environment: dict[str, int]) -> int:
    """The value of a tree in Python's integers; every part is computed."""
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return environment[tree]
    if tree[0] == "select":
        left, right, if_true, if_false = (reference(part, environment) for part in tree[2:])
        return if_true if RELATIONS[tree[1]](left, right) else if_false
    left, right = (reference(part, environment) for part in tree[1:])
    if tree[0] in BINARY:
        value: int = BINARY[tree[0]](left, right)
        return value
    return min(left, right) if tree[0] == "min" else max(left, right)


def built(tree: Tree) -> Dim | None:
    """The dim, or None for a tree that divides by a constant zero."""
    try:
        return build(tree)
    except ZeroDivisionError:
        return None


def defined(tree: Tree) -> list[tuple[dict[str, int], int]]:
    """The environments (a spread of them) where nothing divides by zero, with the values."""
    found = []
    for environment in ENVIRONMENTS[::7]:
        try:
            found.append((environment, reference(tree, environment)))
        except ZeroDivisionError:
            continue
    return found


def run(dims: list[Dim], environment: dict[str, int]) -> list[int]:
    """Executes straight-line code with strict arms, where a division by 0 gives some 12345."""
    values: list[int] = []
    code, results = program(dims)
    for kind, *operands in code:
        if kind == "const":
            values.append(operands[0])
        elif kind == "symbol":
            values.append(environment[operands[0]])
        elif kind == "select":
            left, right, if_true, if_false = (values[operand] for operand in operands[1:])
            values.append(if_true if RELATIONS[operands[0]](left, right) else if_false)
        else:
            left, right = (values[operand] for operand in operands)
            if kind in ("floordiv", "mod"):
                values.append(BINARY[kind](left, right) if right else 12345)
            elif kind in ("min", "max"):
                values.append(min(left, right) if kind == "min" else max(left, right))
            else:
                values.append(BINARY[kind](left, right))
    return [values[result] for result in results]
