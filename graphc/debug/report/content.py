"""Everything a report shows, as plain data.

Invariant: the page is made from this alone; nothing here knows how it looks.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphc.compiling.compiled import Compiled
from graphc.debug.profile import Profile
from graphc.debug.report.code import functions_of_assembly
from graphc.debug.report.memory import memory_data
from graphc.debug.report.tables import Tables
from graphc.ir.draw.layout import LONGEST, ROW
from graphc.ir.draw.picture import KINDS
from graphc.ir.draw.svg import SHAPES
from graphc.ir.graph import Node
from graphc.kernel.printer import print_kernel
from graphc.ops.fused import fused_op
from graphc.plan.abi import kernel_symbols
from graphc.plan.ir import Launch
from graphc.runtime.jit import assembly
from passes.infra.base import open_nodes


def content_of(compiled: Compiled, profile: Profile | None) -> dict[str, Any]:
    """The data of a report but for the kernels' texts.

    ``passes``: {name, seconds, before, after, graph, decisions}, where a decision is
    [rule, value, line, number, reason]; ``kernels``: {name, launches, values, lines, seconds,
    runs}; the rest is as ``Tables`` and ``memory_data`` say.
    """
    tables = Tables()
    previous = source = tables.graph(compiled.source)
    passes = []
    for record in compiled.records:
        graph = tables.graph(record.graph)
        tables.compare(previous, graph)
        passes.append(
            {
                "name": record.name,
                "seconds": record.seconds,
                "before": record.nodes_before,
                "after": record.nodes_after,
                "graph": graph,
                "decisions": [
                    [
                        decision.rule,
                        tables.value(decision.value, decision.where),
                        tables.line(decision.where),
                        decision.number,
                        decision.reason,
                    ]
                    for decision in record.decisions
                ],
            }
        )
        previous = graph
    kernels = _kernels(compiled, tables, profile)
    memory = memory_data(compiled, tables, profile)
    return {
        "title": compiled.source.name,
        "target": f"{compiled.target.cpu}, {compiled.target.triple}",
        "kinds": [[kind, KINDS[kind], SHAPES[kind]] for kind in KINDS],
        "longest": LONGEST * ROW,
        "source": source,
        "passes": passes,
        "kernels": kernels,
        "memory": memory,
        "profile": None
        if profile is None
        else {"runs": profile.runs, "sizes": dict(profile.sizes), "seconds": profile.seconds},
        "values": tables.values,
        "nodes": tables.nodes,
        "lines": tables.lines,
        "graphs": tables.graphs,
        "diffs": tables.diffs,
    }


def kernel_texts(compiled: Compiled) -> list[list[str]]:
    """For each kernel its text, the LLVM text, the assembly, and what was said of its schedule."""
    kernels = compiled.plan.kernels
    if not kernels:
        return []
    symbols = kernel_symbols(len(kernels))
    functions = compiled.levels.text.joined().functions
    llvm = [f"{functions[symbol]}\n" for symbol in symbols]
    machine = functions_of_assembly(assembly(compiled.llvm_ir, compiled.target), symbols)
    said = ["\n".join(compiled.schedule_lines(number)) for number in range(len(kernels))]
    return [
        [print_kernel(kernel), *texts]
        for kernel, *texts in zip(kernels, llvm, machine, said, strict=True)
    ]


def _kernels(compiled: Compiled, tables: Tables, profile: Profile | None) -> list[dict[str, Any]]:
    plan = compiled.plan
    measured = {} if profile is None else {time.kernel: time for time in profile.kernels}
    nodes = _nodes_of_kernels(compiled)
    launches: dict[int, list[int]] = {}
    for position, step in enumerate(plan.steps):
        if isinstance(step, Launch):
            launches.setdefault(step.kernel, []).append(position)
    result = []
    for number, kernel in enumerate(plan.kernels):
        made = nodes.get(number, [])
        lines = [
            tables.line(inner.provenance.where)
            for node in made
            for inner in node.regions[0].nodes
            if inner.provenance.where is not None
        ]
        time = measured.get(number)
        result.append(
            {
                "name": kernel.name,
                "launches": launches.get(number, []),
                "values": [tables.value(value) for node in made for value in node.outputs],
                "lines": list(dict.fromkeys(lines)),
                "seconds": None if time is None else time.seconds,
                "runs": None if time is None else time.launches,
            }
        )
    return result


def _nodes_of_kernels(compiled: Compiled) -> Mapping[int, list[Node]]:
    """The fused nodes that each kernel computes, or a part of them."""
    result: dict[int, list[Node]] = {}
    for node in open_nodes(compiled.graph):
        if node.op is fused_op:
            for position in compiled.launches[node]:
                step = compiled.plan.steps[position]
                assert isinstance(step, Launch), "fused nodes are launched"
                result.setdefault(step.kernel, []).append(node)
    return result
