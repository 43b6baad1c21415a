"""einsum against NumPy's, with dims known when the graph is built and dims that are not."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless

import graphc as gx
from graphc.compiling.extraction import extract
from graphc.ops.linalg.contraction_order import EXACT, contraction_order
from passes.graph.decompose import decompose
from passes.infra.base import PassContext

pytestmark = pytest.mark.check_mode

CASES = [
    ("ij,jk->ik", ((2, 3), (3, 4))), ("ij,jk", ((2, 3), (3, 4))), ("ba", ((2, 3),)),
    ("ij->", ((2, 3),)), ("ij->j", ((2, 3),)), ("ii", ((3, 3),)), ("ii->i", ((3, 3),)),
    ("iij->ji", ((2, 2, 3),)), ("iijj->ij", ((2, 2, 3, 3),)), ("iii->i", ((3, 3, 3),)),
    ("i,i", ((4,), (4,))), ("i,i->i", ((4,), (4,))), ("i,j->ij", ((2,), (3,))),
    ("i,j->ji", ((2,), (3,))), ("ij,j->i", ((2, 3), (3,))), ("i,ij->j", ((2,), (2, 3))),
    ("ij,i->j", ((2, 3), (2,))), ("ji,jk->ik", ((3, 2), (3, 4))), ("ij,kj->ki", ((2, 3), (4, 3))),
    ("bij,bjk->bik", ((5, 2, 3), (5, 3, 4))), ("ibj,jbk->kbi", ((2, 5, 3), (3, 5, 4))),
    ("bi,bi->b", ((5, 3), (5, 3))), ("ib,ib->b", ((3, 5), (3, 5))),
    ("ib,ibj->bj", ((3, 5), (3, 5, 2))),
    ("...ij,...jk->...ik", ((2, 1, 2, 3), (4, 3, 2))), ("...i,i", ((2, 4, 3), (3,))),
    ("i...->...", ((2, 3, 4),)), ("...ij->...ji", ((4, 2, 3),)), ("...,...", ((2, 1), (3,))),
    ("i...,...i->...", ((2, 3, 4), (3, 4, 2))), ("...ii->...i", ((2, 3, 3),)),
    (",ij->ij", ((), (2, 3))), (",", ((), ())), ("->", ((),)), ("", ((),)), ("...", ((2, 3),)),
    ("ij,jk,kl->il", ((2, 3), (3, 4), (4, 5))), ("ij,ij,ij->", ((2, 3),) * 3),
    ("ijk,jl,kl,m->iml", ((2, 3, 4), (3, 5), (4, 5), (2,))),
    ("ijkl,jk,l->i", ((2, 3, 4, 5), (3, 4), (5,))),
    ("bqhd,bkhd->bhqk", ((2, 3, 4, 5), (2, 6, 4, 5))), ("ij,kl->", ((2, 3), (4, 5))),
    ("aBc,cB->a", ((2, 3, 4), (4, 3))), ("ij,jk->ik", ((2, 1), (3, 4))),
    ("ij,ij->i", ((2, 1), (1, 3))),
    ("ij,jk->ik", ((2, 0), (0, 4))), ("ij,jk->ik", ((0, 3), (3, 4))), ("ii->i", ((0, 0),)),
    ("ii->i", ((1, 1),)), ("ij,jk->ki", ((1, 1), (1, 1))), (" i j , j k -> i k ", ((2, 3), (3, 4))),
    ("abc,abd,e->dce", ((2, 3, 4), (2, 3, 5), (2,))), ("abc,bad->cd", ((2, 3, 4), (3, 2, 5))),
]  # fmt: skip


def arrays_for(shapes: Any, dtype: Any, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    low = 0 if np.dtype(dtype).kind in "bu" else -4
    high = 2 if np.dtype(dtype).kind == "b" else 5
    return [np.asarray(rng.integers(low, high, shape)).astype(dtype) for shape in shapes]


def compiled(subscripts: str, arrays: list[Any], symbolic: bool) -> Any:
    """A call; of arrays of any sizes, those of 1 excepted, if it is symbolic."""
    with gx.Graph() as graph:
        inputs = [
            gx.placeholder([None if symbolic and n != 1 else n for n in a.shape], a.dtype)
            for a in arrays
        ]
        result = gx.einsum(subscripts, *inputs)
    return gx.Session(graph).compile(result, inputs)


def kept(subscripts: str, shapes: Any, dtype: str, symbolic: bool) -> bool:
    """Known sizes matter where there are axes of none or one; what is summed, in some cases."""
    number = CASES.index((subscripts, shapes))
    if dtype != "float64":
        return symbolic and number % 8 == (4 if dtype == "bool" else 0)
    return symbolic or number % 3 == 0 or min((n for s in shapes for n in s), default=2) < 2


@slow_unless(kept)
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "int8", "bool"])
@pytest.mark.parametrize(("subscripts", "shapes"), CASES, ids=lambda case: str(case))
def test_einsum(subscripts: str, shapes: Any, dtype: str, symbolic: bool) -> None:
    """Small integers as floats are exact in any order."""
    arrays = arrays_for(shapes, dtype)
    expected = np.einsum(subscripts, *arrays)
    found = compiled(subscripts, arrays, symbolic)(*arrays)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_numpy_calls_it_and_operands_are_promoted() -> None:
    a, b = arrays_for(((2, 3), (3, 2)), "int32"), arrays_for(((3, 2),), "float32")[0]
    with gx.Graph() as graph:
        x = gx.placeholder((2, 3), "int32")
        y = np.einsum("ij,jk->ik", x, b)
        z = gx.einsum(",ij->ij", 2, x)
    assert y.dtype is gx.float64 and z.dtype is gx.int32
    found = gx.Session(graph).run([y, z], {x: a[0]})
    np.testing.assert_array_equal(found[0], a[0] @ b)
    np.testing.assert_array_equal(found[1], a[0] * 2)


@pytest.mark.parametrize(
    ("subscripts", "shapes", "told"),
    [
        ("ij,jk->ik", ((2, 3), (4, 5)), "'j' are of 3 and 4"),
        ("ii", ((1, 3),), "'i' are of 1 and 3"),
        ("ij,jk", ((2, 3),), "names 2 operands and 1"),
        ("ij->ik", ((2, 3),), "'k' is in no operand"),
        ("ij->ii", ((2, 3),), "'i' twice"),
        ("i1", ((2, 3),), "'1' in 'i1' is not a letter"),
        ("i..", ((2, 3),), "not a letter"),
        ("i...j...", ((2, 3),), "not a letter"),
        ("i->j->k", ((2,),), "not a letter"),
        ("ij", ((2, 3, 4),), "more axes than 'ij'"),
        ("ijk", ((2, 3),), "fewer axes than 'ijk'"),
        ("...i->i", ((2, 3),), "the output has none"),
        ("...,...", ((2,), (3,)), "do not broadcast"),
    ],
)
def test_errors_name_the_subscripts_and_the_line(subscripts: str, shapes: Any, told: str) -> None:
    with gx.Graph(), pytest.raises(gx.ShapeError) as raised:
        gx.einsum(subscripts, *(gx.placeholder(shape) for shape in shapes))
    message = str(raised.value)
    assert told in message and f"einsum '{subscripts}" in message and __file__ in message


def test_subscripts_come_first() -> None:
    with gx.Graph(), pytest.raises(gx.ShapeError, match="first, as text"):
        gx.einsum(gx.placeholder((2,)), "i")  # type: ignore[arg-type]


def test_lengths_are_compared_when_it_runs() -> None:
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, None)), gx.placeholder((None, None))
        z = gx.einsum("ij,jk->ik", x, y)
        t = gx.einsum("ii->i", x)
    session = gx.Session(graph)
    assert session.run(z, {x: np.ones((2, 3)), y: np.ones((3, 4))}).shape == (2, 4)
    with pytest.raises(gx.ShapeError) as raised:
        session.run(z, {x: np.ones((2, 3)), y: np.ones((5, 4))})
    assert "'ij,jk->ik': the axes 'j' are of 3 and 5 elements" in str(raised.value)
    assert __file__ in str(raised.value)
    with pytest.raises(gx.ShapeError, match="'ii->i': the axes 'i'"):
        session.run(t, {x: np.ones((2, 3))})


@pytest.mark.parametrize("sizes", [(1, 3), (3, 1), (3, 3), (1, 1)])
def test_an_ellipsis_broadcasts_at_run_time(sizes: tuple[int, int]) -> None:
    a, b = np.arange(sizes[0] * 2.0).reshape(-1, 2), np.arange(sizes[1] * 2.0).reshape(-1, 2)
    np.testing.assert_array_equal(
        compiled("...i,...i->...", [a, b], True)(a, b), np.einsum("...i,...i->...", a, b)
    )
    with gx.Graph() as graph:
        x, y = gx.placeholder((None, 2), "float64"), gx.placeholder((None, 2), "float64")
        z = gx.einsum("...i,...i->...", x, y)
    found = gx.Session(graph).run(z, {x: a, y: b})
    np.testing.assert_array_equal(found, np.einsum("...i,...i->...", a, b))


def core_ops(subscripts: str, *shapes: Any) -> list[str]:
    with gx.Graph() as graph:
        inputs = [gx.placeholder(shape) for shape in shapes]
        result = gx.einsum(subscripts, *inputs)
    assert [node.op.name for node in graph.nodes][-1] == "einsum"
    nodes = decompose(extract(graph, [result]).graph, PassContext()).nodes
    return [node.op.name for node in nodes if node.op.name != "reshape"]


@pytest.mark.parametrize(
    ("subscripts", "shapes", "ops"),
    [
        ("ij,jk->ik", ((2, 3), (3, 4)), ["contract"]),
        ("ji,kj->ik", ((3, 2), (4, 3)), ["contract"]),
        ("ij,jk->ki", ((2, 3), (3, 4)), ["contract"]),
        ("bij,bkj->bik", ((5, 2, 3), (5, 4, 3)), ["contract"]),
        ("bij,jk->bik", ((5, 2, 3), (3, 4)), ["contract"]),
        ("ijk,jkl->il", ((5, 2, 3), (2, 3, 4)), ["contract"]),
        ("ij,j->i", ((2, 3), (3,)), ["multiply", "reduce_sum"]),
        ("i,ij->j", ((2,), (2, 3)), ["contract"]),
        ("bij,bj->bi", ((5, 2, 3), (5, 3)), ["multiply", "reduce_sum"]),
        ("ij->ji", ((2, 3),), ["transpose"]),
    ],
)
def test_what_it_becomes(subscripts: str, shapes: Any, ops: list[str]) -> None:
    assert core_ops(subscripts, *shapes) == ops


def work_of(operands: Any, output: str, sizes: Any, order: Any) -> int:
    """Multiplications of an order of contractions."""
    tensors = dict(enumerate(set(labels) for labels in operands))
    total = 0
    for number, (first, second) in enumerate(order, len(operands)):
        a, b = tensors.pop(first), tensors.pop(second)
        total += int(np.prod([sizes[label] for label in a | b], dtype=object))
        tensors[number] = (a | b) & set(output).union(*tensors.values())
    assert len(tensors) == 1
    return total


def all_orders(count: int) -> Any:
    """Every sequence of pairs."""

    def extend(left: tuple[int, ...], new: int, order: Any) -> Any:
        if len(left) == 1:
            yield order
        for pair in itertools.combinations(left, 2):
            rest = tuple(item for item in left if item not in pair)
            yield from extend((*rest, new), new + 1, [*order, pair])

    return extend(tuple(range(count)), count, [])


@pytest.mark.parametrize("seed", range(20))
def test_the_order_is_the_best(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = "abcdefg"
    sizes = {label: int(rng.integers(0, 9)) for label in labels}
    counted = {label: max(size, 1) for label, size in sizes.items()}
    operands = ["".join(rng.choice(list(labels), 3, replace=False)) for _ in range(5)]
    text = "".join(operands)
    output = "".join(sorted(set(text))[:2])
    # what one operand has alone is summed before any product
    operands = ["".join(c for c in o if text.count(c) > 1 or c in output) for o in operands]
    order = contraction_order(operands, output, sizes)
    best = min(work_of(operands, output, counted, other) for other in all_orders(5))
    assert work_of(operands, output, counted, order) == best
    assert contraction_order(operands, output, sizes) == order


def test_many_operands() -> None:
    """A chain of matrices with a vector at its end is a chain of products with a vector."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    operands = [letters[i : i + 2] for i in range(25)] + ["z"]
    assert len(operands) > EXACT
    sizes = dict.fromkeys(letters, 10)
    order = contraction_order(operands, "a", sizes)
    assert work_of(operands, "a", sizes, order) == 25 * 100
    arrays = [np.eye(3)[:, ::-1] for _ in operands[:-1]] + [np.arange(3.0)]
    found = compiled(f"{','.join(operands)}->a", arrays, False)(*arrays)
    np.testing.assert_array_equal(found, np.arange(3.0)[::-1])


def test_gradients_of_a_chain() -> None:
    a, b, c = (np.random.default_rng(0).uniform(-1, 1, shape) for shape in ((2, 3), (3, 4), (4, 4)))
    with gx.Graph() as graph:
        x, y, z = (gx.placeholder(array.shape, "float64") for array in (a, b, c))
        loss = gx.sum(gx.einsum("ij,jk,kk->i", x, y, z) * np.array([1.0, 2.0]))
        slopes = gx.gradients(loss, [x, y, z])
    found = gx.Session(graph).run(slopes, {x: a, y: b, z: c})
    weights, diagonal = np.array([1.0, 2.0]), np.diag(c)
    np.testing.assert_allclose(found[0], np.outer(weights, b @ diagonal))
    np.testing.assert_allclose(found[1], np.outer(weights @ a, diagonal))
    np.testing.assert_allclose(found[2], np.diag((weights @ a) @ b))


# --- empty axes (fault 5) ------------------------------------------------------------------------

EMPTY = [
    ("ab,fd->", {"f": 0}), ("ab,fd->", {"a": 0}), ("ab,fd->", {"d": 0, "b": 0}),
    ("ab,fd->a", {"f": 0}), ("ab,bc,cd->ad", {"b": 0}), ("ab,bc,cd->ad", {"c": 0}),
    ("ab,bc,cd->ad", {"a": 0}), ("a,b,c->", {"b": 0}), ("ab,ab,c->c", {"a": 0}),
    ("aab,c->c", {"a": 0}), ("abc,bd,e->ae", {"d": 0}), ("ij,jk->ik", {"j": 0}),
]  # fmt: skip


@slow_unless(lambda subscripts, symbolic: symbolic or subscripts == "ab,fd->")
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize(("subscripts", "lengths"), EMPTY)
def test_nothing_is_added_over_an_empty_axis(
    subscripts: str, lengths: dict[str, int], symbolic: bool
) -> None:
    """Fault 5: einsum("ab,fd->", a, zeros((0, 2))) with inf in a was NaN."""
    terms = subscripts.partition("->")[0].split(",")
    arrays = [np.full([lengths.get(c, 2) for c in term], np.inf) for term in terms]
    exe = compiled(subscripts, arrays, symbolic)
    result, expected = exe(*arrays), np.einsum(subscripts, *arrays)
    assert result.shape == expected.shape
    assert np.array_equal(result.view("u8"), np.zeros_like(expected).view("u8"))
    # with nothing empty the infinities are there
    filled = [np.full([2] * len(term), np.inf) for term in terms]
    exe = exe if symbolic else compiled(subscripts, filled, symbolic)
    assert np.isposinf(exe(*filled)).all()


def test_gradients_of_einsums_without_terms_are_zero() -> None:
    with gx.Graph() as graph:
        a = gx.placeholder((None, None), "float64")
        b = gx.placeholder((None, None), "float64")
        slopes = gx.gradients(gx.einsum("ab,fd->", a, b), [a, b])
    ones = np.full((2, 3), np.inf)
    first, second = gx.Session(graph).run(slopes, {a: ones, b: np.zeros((0, 2))})
    assert np.array_equal(first, np.zeros((2, 3))) and second.shape == (0, 2)
