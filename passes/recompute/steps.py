"""A fused graph as the problem of recomputation: its nodes are the steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from graphc.base.target import CACHE_LINE
from graphc.ir.dims.expressions import at_hint
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.value import Value
from graphc.ops.fused import checks_ahead, fused_op
from passes.graph.tasks import Tasks, tasks_of
from passes.infra.base import Estimate, has_open_regions
from passes.recompute.problem import Problem, simulated

Renewed = Sequence[tuple[int | None, int]]
"""Of variables that get new values the input that is the old one, if any, and the output."""


def problem_of(
    graph: Graph, estimate: Callable[[Node], Estimate], renewed: Renewed
) -> Problem:
    """The problem: its steps are the nodes in their order, its values what lies in the arena.

    Control flow runs once, and takes what its regions do at most. What may fail, calls Python,
    makes a part of a value or writes a variable runs once too.
    """
    tasks = tasks_of(graph)
    written = {graph.outputs[new] for _, new in renewed}
    reads, scratch, cost, repeatable = [], [], [], []
    for place, node in enumerate(graph.nodes):
        # a view is no step: who reads it reads what it is a view of
        reads.append([] if node.op.lowering.keeps_memory else tasks.reads[place])
        is_kernel = node.op is fused_op
        work, room = 1, 0
        if is_kernel:
            found = estimate(node)
            work, room = max(1, found.work), found.scratch
        elif has_open_regions(node):
            room = _within(node, estimate)
        scratch.append(room)
        cost.append(work)
        alone = all(len(tasks.makers[storage]) == 1 for storage in tasks.makes[place])
        fails = is_kernel and (checks_ahead(node) or node.may_fail_within)
        writes = not written.isdisjoint(node.outputs)
        repeatable.append(is_kernel and alone and not fails and not writes)
    waits = _waits(graph, renewed)
    late = _late_readers(graph, tasks)
    size = [-(-size // CACHE_LINE) * CACHE_LINE for size in tasks.size]
    return Problem(
        reads, tasks.makes, size, scratch, cost, repeatable, tasks.sources, waits, late
    )


def _within(node: Node, estimate: Callable[[Node], Estimate]) -> int:
    """What the regions of control flow take at most, loop variables beside; nested no deeper than
    regions may be."""
    most = 0
    for region in node.regions:
        problem = problem_of(region, estimate, ())
        most = max(most, simulated(problem, problem.first_plan()).peak)
    return most + sum(at_hint(value.type.bytes) for value in node.outputs)


def _waits(graph: Graph, renewed: Renewed) -> list[list[int]]:
    """For each node that makes a new value of a variable the others that read the old one."""
    waits: list[list[int]] = [[] for _ in graph.nodes]
    if not renewed:
        return waits
    root: dict[Value, Value] = {}
    for node in graph.nodes:
        if node.op.lowering.keeps_memory:
            root[node.output] = root.get(node.inputs[0], node.inputs[0])
    readers: dict[Value, list[int]] = {}
    maker: dict[Value, int] = {}
    for number, node in enumerate(graph.nodes):
        for value in {root.get(value, value) for value in node.inputs}:
            readers.setdefault(value, []).append(number)
        maker.update(dict.fromkeys(node.outputs, number))
    for old, new in renewed:
        value = graph.outputs[new]
        place = maker.get(root.get(value, value))
        if place is not None and old is not None:
            waits[place] += [r for r in readers.get(graph.inputs[old], ()) if r != place]
    return waits


def _late_readers(graph: Graph, tasks: Tasks) -> dict[int, list[list[int]]]:
    """For values that only a call of ``gx.checkpoint`` and its derivative read their readers in the
    derivative, for each such call."""
    made: dict[int, Provenance] = {}
    read: dict[int, list[tuple[int, list[Provenance]]]] = {}
    for place, node in enumerate(graph.nodes):
        for value, origin in _origins(node):
            if origin.checkpoints and value in tasks.storage:
                made.setdefault(tasks.storage[value], origin)
        if not made or node.op.lowering.keeps_memory:
            continue
        for value, origins in _readers(node):
            storage = tasks.storage.get(value, -1)
            if storage in made:
                read.setdefault(storage, []).append((place, origins))
    found: dict[int, list[list[int]]] = {}
    for storage, origin in made.items():
        for call, times in origin.checkpoints:
            passed = {
                place: [dict(other.checkpoints).get(call, -1) for other in origins]
                for place, origins in read.get(storage, ())
            }
            if all(min(each, default=0) >= 0 for each in passed.values()):
                late = [p for p, each in passed.items() if min(each, default=0) > times]
                found.setdefault(storage, []).append(late)
    return found


def _origins(node: Node) -> list[tuple[Value, Provenance]]:
    """What a node makes, each with the provenance of the operation that does."""
    if node.op is not fused_op:
        return [(value, node.provenance) for value in node.outputs]
    (region,) = node.regions
    return [
        (value, region.producers[inner].provenance)
        for value, inner in zip(node.outputs, region.outputs, strict=True)
        if inner in region.producers
    ]


def _readers(node: Node) -> list[tuple[Value, list[Provenance]]]:
    """What a node reads, each with the provenances of the operations that do."""
    if node.op is not fused_op:
        return [(value, [node.provenance]) for value in node.inputs]
    (region,) = node.regions
    users = region.users()
    return [
        (value, [user.provenance for user in users.get(inner, ())])
        for value, inner in zip(node.inputs, region.inputs, strict=True)
    ]
