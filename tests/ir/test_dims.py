"""Symbolic dimensions: canonical forms, proofs and programs against a plain evaluator."""

from __future__ import annotations

import copy
import functools
import gc
import operator
import pickle
import threading
from functools import partial
from typing import Any, cast

import numpy as np
import pytest
from at_once import at_once
from dim_trees import (
    RELATIONS,
    SYMBOLIC,
    Tree,
    built,
    defined,
    reference,
    run,
    trees,
)
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphc.base.errors import ConcreteValueError
from graphc.ir.dims.expressions import (
    Dim,
    DimExpr,
    bounds,
    broadcast,
    broadcasts_to,
    ceil_div,
    compare,
    dim_max,
    dim_min,
    equal,
    evaluate,
    less,
    less_equal,
    parse_dim,
    product,
    program,
    select,
    substitute,
    symbol,
    symbol_name,
    symbols_of,
)


@settings(max_examples=100, deadline=None)
@example(("select", "eq", 1, ("max", ("mod", -1, "m"), "m"), 0, 1))
@given(trees)
def test_every_form_evaluates_alike(tree: Tree) -> None:
    check_forms(tree)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None)
@given(trees)
def test_fuzz_forms(tree: Tree) -> None:
    check_forms(tree)


def check_forms(tree: Tree) -> None:
    """Text, pickles, bounds, programs and substitutions of a dim are of one value."""
    dim = built(tree)
    if dim is None:
        return
    text = str(dim)
    assert parse_dim(text, SYMBOLIC) == dim
    assert pickle.loads(pickle.dumps(dim)) == dim
    low, high = bounds(dim)
    for environment, expected in defined(tree):
        value = evaluate(dim, environment)
        assert type(value) is int
        assert value == expected
        assert run([dim], environment) == [expected]
        assert substitute(dim, environment) == expected
        assert low is None or low <= expected
        assert high is None or high >= expected


@settings(max_examples=200, deadline=None)
@given(trees, trees)
def test_substitution_of_expressions(tree: Tree, replacement: Tree) -> None:
    dim, value = built(tree), built(replacement)
    if dim is None or value is None:
        return
    try:
        # Reasoning relies on the bounds, so the replacement must respect those of n.
        replaced = substitute(dim, {"n": dim_max(value, 0)})
    except ZeroDivisionError:
        return
    for environment, number in defined(replacement):
        inside = {**environment, "n": max(number, 0)}
        try:
            expected = reference(tree, inside)
        except ZeroDivisionError:
            continue
        assert evaluate(replaced, environment) == expected


@settings(max_examples=150, deadline=None)
@given(trees, trees)
def test_compare_never_lies(left: Tree, right: Tree) -> None:
    check_comparisons(left, right)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None)
@given(trees, trees)
def test_fuzz_comparisons(left: Tree, right: Tree) -> None:
    check_comparisons(left, right)


def check_comparisons(left: Tree, right: Tree) -> None:
    """Every answer of ``compare`` holds for all sizes at which both are defined."""
    a, b = built(left), built(right)
    if a is None or b is None:
        return
    answers = {relation: compare(relation, a, b) for relation in RELATIONS}
    lefts = dict((tuple(e.items()), v) for e, v in defined(left))
    for environment, value in defined(right):
        other = lefts.get(tuple(environment.items()))
        if other is None:
            continue
        for relation, answer in answers.items():
            assert answer is None or answer == RELATIONS[relation](other, value)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.lists(st.sampled_from("abc"), max_size=3))))
def test_equal_polynomials_are_one_object(parts: list[tuple[int, list[str]]]) -> None:
    def total(ordered: list[tuple[int, list[str]]]) -> Dim:
        result: Dim = 0
        for coefficient, names in ordered:
            result = result + coefficient * product(symbol(name) for name in names)
        return result

    first, second = total(parts), total([(c, names[::-1]) for c, names in reversed(parts)])
    assert first is second or (isinstance(first, int) and first == second)


n, m = symbol("n"), symbol("m", 1)


def test_interning_and_bounds() -> None:
    assert symbol("n") is n
    assert symbol("n", 1) is not n
    assert n + 1 is 1 + n
    assert (n + 1) * (n - 1) is n * n - 1
    assert hash(n + m) == hash(m + n)
    assert bounds(m) == (1, None)
    assert bounds(symbol("k", 2, 5) * -3 + 1) == (-14, -5)
    assert bounds(n * m - n) == (0, None)
    assert bounds(7) == (7, 7)
    with pytest.raises(ValueError, match="lower bound 3 above"):
        symbol("x", 3, 2)
    with pytest.raises(ValueError, match="non-empty"):
        symbol("")


def test_constants_stay_plain_ints() -> None:
    two: Any = np.int64(2)
    three: Any = np.int64(3)
    values: list[Any] = [n - n, n * 0, m // m, m % m, n + np.int64(4) - n]
    values += [product((two, 3)), product(()), dim_min(two, 5), ceil_div(three, 2)]
    values += [select("lt", two, 2, three, 4), substitute(n + 1, {"n": three})]
    values += [evaluate(n * 2, {"n": three}), evaluate(three, {})]
    assert all(type(value) is int for value in values)
    assert three + n is n + 3
    assert three * n is 3 * n
    assert program([n + two])[0] == [("symbol", "n"), ("const", 2), ("add", 0, 1)]
    assert type(program([n + two])[0][1][1]) is int
    with pytest.raises(TypeError):
        product(cast(Any, (2.0, 3)))


def test_identity_survives_pickle_copy_and_collection() -> None:
    nested = select("eq", n, 1, dim_min(n // 3, m) * m, (n + 5) % 7)
    assert pickle.loads(pickle.dumps(nested)) is nested
    assert copy.copy(nested) is nested
    assert copy.deepcopy({"a": [nested]})["a"][0] is nested
    data, text = pickle.dumps(nested), str(nested)
    del nested
    gc.collect()
    assert str(pickle.loads(data)) == text


def test_interning_between_threads() -> None:
    made: list[list[Dim]] = [[] for _ in range(4)]
    start = threading.Barrier(4)

    def work(into: list[Dim]) -> None:
        start.wait()
        into.extend(symbol(f"t{i}") * 2 + dim_min(symbol(f"t{i}"), 5) for i in range(300))

    at_once(*(partial(work, into) for into in made))
    assert all(len({id(dim) for dim in same}) == 1 for same in zip(*made, strict=True))


def test_division_simplifies() -> None:
    k = symbol("k", 1)
    assert (n * m) // m is n
    assert (m * n) // n is not m
    assert (6 * n + 4) // 2 is 3 * n + 2
    assert (n * m + m) // m is n + 1
    assert ((n + 1) * (m + k)) // (m + k) is n + 1
    assert (n * m) // (m * k) is n // k
    assert (4 * n) // 6 is (2 * n) // 3
    assert n // 2 // 3 is n // 6
    assert (n - 1) // 2 + 1 is (n + 1) // 2
    assert ceil_div(n, 2) is (n + 1) // 2
    assert n % 1 == 0
    assert (4 * n + 6) % 4 == 2
    assert (n % 12 + m) % 4 is (n + m) % 4
    assert (n % 5) // 5 == 0
    assert (n % m) // m == 0
    assert (n % m) % m is n % m
    assert (n * m + n) % m is n % m
    for divide in (operator.floordiv, operator.mod):
        with pytest.raises(ZeroDivisionError):
            divide(n, 0)


@pytest.mark.parametrize("value", [-7, -6, -1, 0, 1, 6, 7])
@pytest.mark.parametrize("divisor", [-4, -3, -1, 1, 3, 4])
def test_floor_semantics_of_negatives(value: int, divisor: int) -> None:
    x, y = symbol("x", -100, 100), symbol("y", -10, 10)
    environment = {"x": value, "y": divisor}
    for a, b in ((x, divisor), (value, y), (x, y)):
        assert evaluate(a // b, environment) == value // divisor
        assert evaluate(a % b, environment) == value % divisor
        assert evaluate(ceil_div(a, b), environment) == -(-value // divisor)


def test_extremes_and_selection_simplify() -> None:
    assert dim_min(n, n) is n
    assert dim_min(n, n + 1) is n
    assert dim_max(n, n + 1) is n + 1
    assert dim_max(n, 0) is n
    assert dim_min(dim_min(n, m), n) is dim_min(m, n)
    assert dim_max(n, dim_min(n, m)) is n
    assert select("eq", m, 0, n, 5) == 5
    assert select("lt", n, 1, m, m) is m
    assert select("lt", n, m, n, m) is dim_min(n, m)
    assert select("le", n, m, m, n) is dim_max(n, m)
    assert select("eq", n, 1, 1, n) is n
    assert select("le", n, 0, 1, n) is dim_max(n, 1)
    assert select("ne", n, 1, n, m) is select("eq", n, 1, m, n)
    assert select("eq", 2 * n, 2, m, n) is select("eq", 1, n, m, n)
    assert select("eq", n, 1, select("eq", n, 1, m, 4), 5) is select("eq", n, 1, m, 5)
    with pytest.raises(ValueError, match="unknown relation"):
        select("gt", n, m, 1, 2)


def test_what_compare_proves() -> None:
    k = symbol("k", 2, 5)
    assert compare("eq", 3, 3) is True
    assert compare("lt", cast(Any, np.int64(3)), 3) is False
    assert less_equal(0, n) is True
    assert less(n, 0) is False
    assert less(n, n + 1) is True
    assert equal(n, m) is None
    assert compare("ne", n, n + 1) is True
    assert equal(2 * n, 2 * m + 1) is False
    assert less(k, 6) is True
    assert less_equal(n // 2, n) is True
    assert less_equal(n // 2 * 2, n) is True
    assert equal(n // 4 * 4 + n % 4, n) is True
    assert less_equal(n, n * m) is True
    assert less(n % m, m) is True
    assert less_equal(n // m, n) is True
    assert less_equal(dim_min(n, m), m) is True
    assert less_equal(dim_min(n, m) + 1, dim_max(n, m) + 1) is True
    assert less_equal(1, select("eq", n, 1, m, n + 1)) is True
    with pytest.raises(ValueError, match="unknown relation"):
        compare("gt", 1, 2)
    with pytest.raises(TypeError, match="not float"):
        compare("eq", 1.0, n)  # type: ignore[arg-type]


def test_misuse_is_refused() -> None:
    with pytest.raises(AttributeError):
        n.terms = ()
    with pytest.raises(TypeError):
        DimExpr()
    with pytest.raises(TypeError):
        n + None
    with pytest.raises(TypeError):
        n * "a"


def test_fault_20_comparisons_decide_or_raise() -> None:
    assert (n >= 0, n > -1, n >= 0, n + 1 > n, n < np.inf, np.int64(-1) < n) == (True,) * 6
    assert (n == -1, n == n + 1, n == 2.5, n == -np.inf, n < 0, n == None, n == "n") == (  # noqa: E711
        False,
    ) * 7
    assert (n != -1, m != 0, n != "n") == (True,) * 3
    assert bool(m) and n in [n] and (n, 3) == (n, 3)
    for relation in (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge):
        for other in (3, m, np.int64(3), 3.0):
            with pytest.raises(ConcreteValueError, match="is not known before the graph runs"):
                relation(n, other)
            with pytest.raises(ConcreteValueError, match="is not known before the graph runs"):
                relation(other, n)
    with pytest.raises(ConcreteValueError, match="whether n is 0"):
        bool(n)
    for needs in (int, float, range, operator.index):
        with pytest.raises(ConcreteValueError, match=r"n is no (int|float) before the graph runs"):
            needs(n)
    with pytest.raises(ConcreteValueError, match=r"gx\.zeros"):
        np.zeros((n, 3))


def test_symbols_evaluation_and_guarded_division() -> None:
    dim = select("eq", n, 0, 0, (12 * m) // n) + n % m
    assert symbols_of(dim) == {n, m}
    assert symbols_of(5) == frozenset()
    assert symbol_name(n) == "n"
    with pytest.raises(ValueError, match="not a symbol"):
        symbol_name(n + 1)
    assert evaluate(dim, {"n": 0, "m": 2}) == 0
    assert evaluate(dim, {"n": 5, "m": 2}) == 5
    with pytest.raises(KeyError, match="'m'"):
        evaluate(n * m, {"n": 1})
    with pytest.raises(ZeroDivisionError):
        evaluate(m // n, {"n": 0, "m": 1})
    assert substitute(n * m, {"n": m, "m": n}) is n * m
    assert substitute(n + 2 * m, {"n": m, "m": n}) is m + 2 * n


def test_code_of_simple_dims() -> None:
    assert program([5]) == ([("const", 5)], [0])
    assert program([n]) == ([("symbol", "n")], [0])
    code = [("symbol", "n"), ("symbol", "m"), ("const", 1), ("select", "eq", 0, 2, 1, 0)]
    assert program([select("eq", n, 1, m, n), 1]) == (code, [3, 2])
    assert program([dim_min(n, 4)])[0][-1][0] == "min"


def test_chained_resizing_stays_small() -> None:
    dim: Dim = n
    for _ in range(40):
        dim = (dim * 3 + 1) // 2
    assert len(str(dim)) < 1000
    assert len(program([dim])[0]) < 1000


def test_deep_nesting_costs_no_recursion() -> None:
    dim: Dim = n
    depth = 3000
    expected = 5
    for step in range(depth):
        dim = (dim + n) % (depth + 2 - step)
        expected = (expected + 5) % (depth + 2 - step)
    assert evaluate(dim, {"n": 5}) == expected
    assert substitute(dim, {"n": 5}) == expected
    assert run([dim], {"n": 5}) == [expected]
    assert parse_dim(str(dim)) is dim
    assert pickle.loads(pickle.dumps(dim)) is dim


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
    st.integers(0, 9),
)
def test_what_sizes_broadcast_to_is_a_set(names: list[str], random: Any, size: int) -> None:
    """Whatever the order and the grouping, one object; its value is the size that isn't 1."""
    dims: list[Dim] = [symbol(name) for name in names]
    whole = functools.reduce(broadcast, dims)
    parts = [*dims, whole]
    while len(parts) > 1:
        random.shuffle(parts)
        parts.append(broadcast(parts.pop(), parts.pop()))
    assert parts[0] is whole
    assert parse_dim(str(whole)) is whole
    assert pickle.loads(pickle.dumps(whole)) is whole
    assert all(broadcasts_to(dim, whole) for dim in dims)
    assert broadcasts_to(symbol("z"), whole) is False
    sizes = {name: random.choice((1, size)) for name in sorted({*names})}
    expected = next((value for value in sizes.values() if value != 1), 1)
    assert evaluate(whole, sizes) == expected
    assert run([whole], sizes) == [expected]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), min_size=2, max_size=8))
def test_a_multiple_of_a_set_is_one_size_of_another(steps: list[tuple[str, int]]) -> None:
    """The text of sets within sets reads as the same dim."""
    whole: Dim = symbol("d")
    for name, times in steps:
        whole = broadcast(broadcast(symbol(name), symbol(name) + 1), times * whole)
        assert parse_dim(str(whole)) is whole
