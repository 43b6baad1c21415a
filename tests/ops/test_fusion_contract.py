"""The contract of fused groups: what fusion makes keeps it, and what breaks it is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import planted
import pytest

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.compiling.extraction import extract
from graphc.ir.graph import Graph
from graphc.ops.fused import fused_op
from graphc.ops.fusion_contract import form_of

Build = Callable[..., Any]


def body(build: Build, *shapes: tuple[int, ...]) -> Graph:
    """The core operations of a program, as the body of a group would hold them."""
    with gx.Graph() as graph:
        result = build(*(gx.placeholder(shape) for shape in shapes))
    return extract(graph, [result], [], {}).graph


def groups(build: Build, *shapes: tuple[int, ...]) -> list[str]:
    """The kinds of the groups that fusion makes."""
    with gx.Graph() as graph:
        result = build(*(gx.placeholder(shape) for shape in shapes))
    executable = gx.Session(graph, options=gx.Options(verify=True)).compile(result)
    made = executable.passes[-1].graph.nodes
    return [form_of(node.regions[0]).kind for node in made if node.op is fused_op]


@pytest.mark.parametrize(
    ("build", "shapes", "kinds"),
    [
        (lambda x: gx.tanh(x.T) + 1.0, [(3, 4)], ["map"]),
        (gx.nn.softmax, [(3, 40)], ["rows"]),
        (lambda x: gx.cumsum(x, axis=0), [(3, 40)], ["single"]),
        (
            lambda x, w: gx.nn.relu(gx.tanh(x @ w).reshape((6, 2, 8))), [(3, 4, 5), (5, 8)],
            ["product"],
        ),
        (lambda x, w: gx.nn.softmax(x @ w), [(64, 5), (5, 8)], ["rows"]),
        (lambda x, w, v: gx.nn.softmax(x @ w) @ v, [(64, 5), (5, 8), (8, 4)], ["pair"]),
        # rows that were grouped in another way are no rows of the product
        (
            lambda x, w: gx.nn.softmax(gx.nn.relu(gx.tanh(x @ w).reshape((2, 32, 8)))),
            [(64, 5), (5, 8)],
            ["product", "rows"],
        ),
    ],
)  # fmt: skip
def test_groups_have_the_form_that_they_were_made_for(
    build: Build, shapes: list[tuple[int, ...]], kinds: list[str]
) -> None:
    assert groups(build, *shapes) == kinds


@pytest.mark.parametrize(
    ("build", "shapes", "message"),
    [
        (
            lambda x, w: gx.tanh((x @ w).T), [(3, 4), (4, 5)],
            "the product group of contract, transpose, tanh: transpose: a matrix product is stored",
        ),
        (
            lambda x, w: gx.exp(x) @ w, [(3, 4), (4, 5)],
            "the product group of exp, contract: contract: a matrix product reads its operands",
        ),
        (
            lambda x, w: (x @ w) + gx.abs(x @ w).reshape((5, 3)).T, [(3, 4), (4, 5)], "transpose:",
        ),
        (lambda x: gx.cumsum(gx.exp(x)), [(9,)], "the single group of exp, cumsum: cumsum: scans"),
    ],
)  # fmt: skip
def test_what_no_kernel_can_be_made_of_is_named(
    build: Build, shapes: list[tuple[int, ...]], message: str
) -> None:
    """Fault 6."""
    with pytest.raises(VerifyError, match=message) as caught:
        form_of(body(build, *shapes))
    assert "test_fusion_contract.py" in str(caught.value)


def test_a_wrong_group_is_found_where_it_is_made(kernel_watch: Any) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4, 4), name="x")
        result = x + gx.sum(x, axis=1)
    session = gx.Session(graph, options=gx.Options(verify=True))
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        planted.refused_fusion(patch)
        with pytest.raises(VerifyError, match="it reads rows other than the one") as caught:
            session.compile(result)
    assert caught.value.cause == "fusion#1"
    assert "the rows group of reduce_sum, add" in caught.value.message
