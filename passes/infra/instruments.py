"""Instruments: actions around every pass, from outside: verify, check, dump, shuffle, time.

Invariant: an instrument never changes what a graph means; shuffling only changes an order that no
pass may rely on.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from graphc.base.errors import VerifyError
from graphc.ir.graph import Graph, Node
from graphc.ir.text.printer import print_graph
from graphc.ir.value import Value
from graphc.ir.verify import verify
from graphc.ops.fused import fused_op
from graphc.ops.fusion_contract import form_of
from passes.checks.check_mode import Check
from passes.infra.base import PassContext, PassFunction, has_open_regions, open_nodes


class Instrument(Protocol):
    """Something that looks at the graph around each pass."""

    def before(
        self, name: str, graph: Graph, run: PassFunction, inexact: frozenset[str]
    ) -> Graph:
        """The graph that the pass shall get: the given one, or one of the same meaning.

        ``run`` is the pass, on the graph and the regions of its control flow; ``inexact`` are the
        names of its decisions that may change bits.
        """

    def after(self, name: str, graph: Graph, holds: Sequence[Callable[[Node], bool]]) -> None:
        """Looks at what the pass gave; ``holds`` are the conditions all nodes must meet by now."""


def instruments_of(context: PassContext) -> list[Instrument]:
    """The instruments that the options ask for, in the order they apply.

    Checking needs to hear of rules too, and becomes the context's observer.
    """
    options = context.options
    result: list[Instrument] = []
    if options.shuffle_seed is not None:
        result.append(Shuffle(options.shuffle_seed))
    if options.verify:
        result.append(Verify())
    if options.check:
        check = Check(context)
        context.observer = check
        result.append(check)
    if options.dump:
        result.append(Dump(options.dump, _to_stderr))
    return result


def _to_stderr(text: str) -> None:
    sys.stderr.write(text)


@dataclass(frozen=True, slots=True)
class Verify:
    """Checks all invariants of the graph after every pass."""

    def before(
        self, name: str, graph: Graph, run: PassFunction, inexact: frozenset[str]
    ) -> Graph:
        """Leaves the graph alone."""
        return graph

    def after(self, name: str, graph: Graph, holds: Sequence[Callable[[Node], bool]]) -> None:
        """Raises VerifyError, naming the node, where an invariant or a condition fails.

        So does a fused body of which no kernel can be made.
        """
        verify(graph)
        for node in open_nodes(graph):
            if node.op is fused_op:
                form_of(node.regions[0], node.provenance.where)
            if not all(condition(node) for condition in holds):
                raise VerifyError(
                    f"{node.op.name} should not be left by now",
                    where=node.provenance.where,
                    node=repr(node),
                )


@dataclass(frozen=True, slots=True)
class Dump:
    """Writes the graph's text, with provenance, after chosen passes."""

    names: tuple[str, ...]
    write: Callable[[str], None]

    def before(
        self, name: str, graph: Graph, run: PassFunction, inexact: frozenset[str]
    ) -> Graph:
        """Leaves the graph alone."""
        return graph

    def after(self, name: str, graph: Graph, holds: Sequence[Callable[[Node], bool]]) -> None:
        """Writes it if the pass, or this run of it, or every pass is asked for."""
        if any(asked in ("all", name, name.partition("#")[0]) for asked in self.names):
            self.write(f"// after {name}\n{print_graph(graph, provenance=True)}")


class Shuffle:
    """Hands every pass its nodes in another random topological order, from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def before(
        self, name: str, graph: Graph, run: PassFunction, inexact: frozenset[str]
    ) -> Graph:
        """The same graph in another order, regions of control flow too."""
        return shuffled(graph, self._random)

    def after(self, name: str, graph: Graph, holds: Sequence[Callable[[Node], bool]]) -> None:
        """Looks at nothing."""


def shuffled(graph: Graph, source: random.Random) -> Graph:
    """A random topological order of the same nodes; linear in nodes and operands."""
    waiting: dict[Value, int] = {}
    readers: dict[Value, list[Node]] = {}
    ready: list[Node] = []
    own = graph.producers
    for node in graph.nodes:
        # An operand given twice counts once.
        needed = [value for value in dict.fromkeys(node.inputs) if value in own]
        waiting[node.outputs[0]] = len(needed)
        for value in needed:
            readers.setdefault(value, []).append(node)
        if not needed:
            ready.append(node)
    order: list[Node] = []
    while ready:
        # Swapping with the last makes taking a random one constant work.
        chosen = source.randrange(len(ready))
        ready[chosen], ready[-1] = ready[-1], ready[chosen]
        node = ready.pop()
        order.append(node)
        for value in node.outputs:
            for reader in readers.get(value, ()):
                waiting[reader.outputs[0]] -= 1
                if not waiting[reader.outputs[0]]:
                    ready.append(reader)
    nodes = [
        replace(node, regions=tuple(shuffled(region, source) for region in node.regions))
        if has_open_regions(node)
        else node
        for node in order
    ]
    return graph.with_parts(nodes=nodes)
