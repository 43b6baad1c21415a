"""Tests of passes and of lowering as text in, text out.

``check_pass(cse, before, after)`` parses, verifies, runs, compares up to renaming, prints and
parses back, evaluates both sides on random inputs with special values, and runs again: on the
result (which must stay) and on shuffled orders. ``check_kernels(before, after)`` does the same for
the kernels of a group. ``GRAPHC_BLESS=1`` writes what comes out into the test file.
"""

from __future__ import annotations

import inspect
import os
import random
import re
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from bits import assert_same_bits

from graphc.base.options import Options
from graphc.base.target import named
from graphc.checking.interpreter import Budget, OutOfBudget, evaluate
from graphc.checking.samples import random_array
from graphc.ir.dims.expressions import symbol_name
from graphc.ir.equal import difference, structural_hash
from graphc.ir.graph import Graph, Node
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import payloads, print_graph, symbols_in
from graphc.ir.value import Value
from graphc.ir.verify import verify
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.lower.program import plan_program
from graphc.ops.fused import fused_op
from graphc.plan.interp import run_plan
from passes.graph.dce import dce
from passes.infra.base import PassContext, PassFunction, has_open_regions, on_regions
from passes.infra.instruments import shuffled

BLESS = "GRAPHC_BLESS"
SIZE = 3
"""What symbolic dims are while both sides are evaluated."""

ELEMENTS = 1_000_000
"""How many an evaluation may make; a node counts as ``Budget.LEAST`` at least."""


def check_pass(
    pass_: PassFunction,
    before: str,
    after: str,
    *,
    options: Options | None = None,
    tolerance: float | None = None,
    idempotent: bool = True,
    regions: bool = True,
    **told: Any,
) -> PassContext:
    """Checks what a pass makes of a graph; gives back its context, with the decisions.

    Args:
        pass_: the pass.
        before: the graph's text.
        after: the text of what the pass shall give.
        options: what the pass is told.
        tolerance: None if both sides must agree to the bit on all inputs; else how far, relatively,
            they may differ on ordinary ones.
        idempotent: running the pass on its result must give the identical graph.
        regions: the pass works on each level of control flow by itself; else on all at once.
        told: what else the pass is told, as ``target`` or ``renewed``.
    """

    def context_of_run() -> PassContext:
        return PassContext(options or Options(), **told)

    run = on_regions(pass_) if regions else pass_
    graph = parse_graph(before)
    verify(graph)
    context = context_of_run()
    result = run(graph, context)
    verify(result)
    _compare(result, after)
    text = print_graph(result)
    again = parse_graph(text, payloads(result))
    assert structural_hash(again) == structural_hash(result)
    assert print_graph(again) == text
    same_meaning(graph, result, tolerance)
    if idempotent:
        assert run(result, context_of_run()) is result, "the pass changes its own result"
    for seed in range(3):
        other = run(shuffled(graph, random.Random(seed)), context_of_run())
        verify(other)
        found = difference(normal(other), normal(result))
        assert found is None, f"in another order of the nodes: {found}\n{other}"
    return context


def check_kernels(
    before: str,
    after: str,
    *,
    target: str = "x86-64-v3",
    attrs: Mapping[str, Any] | None = None,
    atol: float = 1e-6,
) -> None:
    """Checks what lowering makes of a graph that is one group: its kernels, in order.

    Args:
        before: the group's text, as the body of a fused node has it.
        after: the text of the kernels.
        target: the name of what they are for.
        attrs: of the fused node.
        atol: how far results may be from those of the graph, beside 1e-5 of what they are.
    """
    body = parse_graph(before)
    verify(body)
    inputs, outputs = ([Value(v.type) for v in values] for values in (body.inputs, body.outputs))
    fused = Node(fused_op, tuple(inputs), attrs or {}, tuple(outputs), (body,))
    plan = plan_program(Graph("g", inputs, [fused], outputs), 0, named(target)).plan
    text = "".join(map(print_kernel, plan.kernels))
    for kernel in plan.kernels:
        verify_kernel(kernel)
        assert print_kernel(parse_kernel(print_kernel(kernel))) == print_kernel(kernel)
    if os.environ.get(BLESS):
        _bless(after, text)
    else:
        assert text == textwrap.dedent(after).lstrip("\n"), f"lowering gives\n{text}"
    sizes = {symbol_name(symbol): SIZE for symbol in symbols_in(body)}
    arrays = sample(body, np.random.default_rng(0), special=False)
    for one, other in zip(evaluate(body, arrays), run_plan(plan, arrays, sizes), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-5, atol=atol)


def normal(graph: Graph) -> Graph:
    """The live nodes in the order in which the outputs need them."""
    live = dce(graph, PassContext())
    done = set(live.inputs)
    numbers = {value: number for number, value in enumerate(live.inputs)}
    order = []
    stack: list[Any] = list(reversed(live.outputs))
    while stack:
        value = stack[-1]
        if value in done:
            stack.pop()
            continue
        node = live.producers[value]
        missing = [operand for operand in node.inputs if operand not in done]
        if missing:
            stack.extend(reversed(missing))
            continue
        order.append(_ordered(node, numbers))
        done.update(node.outputs)
        numbers.update((value, len(numbers)) for value in node.outputs)
    return graph.with_parts(nodes=order)


def _ordered(node: Node, numbers: dict[Value, int]) -> Node:
    """Operands of commutative ops in the order in which they were made, regions normal too."""
    if has_open_regions(node):
        return replace(node, regions=tuple(normal(region) for region in node.regions))
    if node.regions:
        return _normal_body(node, numbers)
    if not node.op.algebra.commutative:
        return node
    return replace(node, inputs=tuple(sorted(node.inputs, key=lambda value: numbers[value])))


def _normal_body(node: Node, numbers: dict[Value, int]) -> Node:
    """A fused node: operands in the order in which they were made, results by what they are."""
    (body,) = node.regions
    order = sorted(range(len(node.inputs)), key=lambda place: numbers[node.inputs[place]])
    body = body.with_parts(inputs=tuple(body.inputs[place] for place in order))
    alone = [normal(body.with_parts(outputs=(value,))) for value in body.outputs]
    places = sorted(range(len(alone)), key=lambda place: structural_hash(alone[place]))
    body = normal(body.with_parts(outputs=tuple(body.outputs[place] for place in places)))
    return replace(
        node,
        inputs=tuple(node.inputs[place] for place in order),
        outputs=tuple(node.outputs[place] for place in places),
        regions=(body,),
    )


# --- expectations --------------------------------------------------------------------------------


def _compare(result: Graph, after: str) -> None:
    if os.environ.get(BLESS):
        _bless(after, print_graph(result))
        return
    expected = parse_graph(after)
    found = difference(result, expected)
    assert found is None, f"{found}\nthe pass gives\n{result}"


def _bless(old: str, new: str) -> None:
    """Replaces the expectation in the test file that gave it."""
    frame = inspect.currentframe()
    while frame is not None and old not in _source(frame.f_code.co_filename):
        frame = frame.f_back
    assert frame is not None, "no caller has the expectation as it stands"
    path = Path(frame.f_code.co_filename)
    source = _source(str(path))
    assert source.count(old) == 1, f"the expectation is not unique in {path.name}"
    found = re.search(r"^( *)\S", old.lstrip("\n"), re.MULTILINE)
    indent = found.group(1) if found else ""
    tail = old[len(old.rstrip(" ")) :]
    path.write_text(source.replace(old, "\n" + textwrap.indent(new, indent) + tail), "utf-8")


def _source(filename: str) -> str:
    """The text of a file; empty for what is none."""
    path = Path(filename)
    return path.read_text(encoding="utf-8") if path.is_file() else ""


# --- meaning -------------------------------------------------------------------------------------


def same_meaning(before: Graph, after: Graph, tolerance: float | None = None) -> None:
    """Evaluates both graphs on random inputs; to the bit unless a tolerance is given.

    Loops that would run as often as the largest integer says are left out, but not all four.
    """
    compared = 0
    for seed in range(4):
        inputs = sample(before, np.random.default_rng(seed), special=tolerance is None)
        with np.errstate(all="ignore"):
            try:
                expected = evaluate(before, inputs, budget=Budget(ELEMENTS))
            except OutOfBudget:
                continue
            given = evaluate(after, inputs, budget=Budget(2 * ELEMENTS))
        compared += 1
        for one, other in zip(expected, given, strict=True):
            if tolerance is None:
                assert_same_bits(one, other)
            else:
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=0)
    assert compared, "no input of four lets the loops end"


def sample(graph: Graph, rng: np.random.Generator, *, special: bool) -> list[Any]:
    """An array for each input."""
    sizes = {symbol_name(symbol): SIZE for symbol in symbols_in(graph)}
    return [random_array(value.type, sizes, rng, special) for value in graph.inputs]
