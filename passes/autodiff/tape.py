"""Which nodes a derivative passes through, in order: shared by reverse and forward mode.

Invariant: a tape holds exactly the nodes on a differentiable path from xs to ys, producers before
consumers; an op that is differentiated through its decomposition is replaced by the nodes of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from graphc.base.errors import GradientError, GraphcError, UnsupportedError
from graphc.ir.edit import GraphEditor
from graphc.ir.graph import Graph, Node
from graphc.ir.op import (
    Flat,
    Linear,
    NotDifferentiable,
    OpDef,
    Regional,
    ThroughDecomposition,
)
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.narrow_floats import rounded, types_of, widened


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """An output of a decomposed node, and the equal value that its decomposition gives."""

    output: Value
    result: Value


@dataclass(frozen=True, slots=True)
class Tape:
    """What there is to differentiate.

    Attributes:
        entries: nodes and aliases on a path, producers before consumers.
        active: the values on those paths that depend differentiably on xs.
        needed: every value that ys depend on in any way, ys included.
    """

    entries: list[Node | Alias]
    active: set[Value]
    needed: set[Value]


def record(editor: GraphEditor, graph: Graph, ys: Sequence[Value], xs: Sequence[Value]) -> Tape:
    """The tape from xs to ys; decompositions it needs are added to the editor."""
    needed, useful = read_by(graph, ys)
    active = {x for x in xs if x.dtype.is_differentiable}
    entries: list[Node | Alias] = []
    for node in graph.nodes:
        if not any(value in useful for value in node.outputs):
            continue
        # Last in, first out: a decomposition takes the place of its node.
        pending: list[Node | Alias] = [node]
        while pending:
            entry = pending.pop()
            if isinstance(entry, Alias):
                if entry.result in active:
                    active.add(entry.output)
                    entries.append(entry)
            elif any(value in active for value in flowing(entry)):
                if any(v.dtype.is_storage and v in useful for v in entry.outputs):
                    raise refuse(entry, "nothing is computed with a dtype for storage alone")
                if isinstance(entry.op.derivative, ThroughDecomposition):
                    pending.extend(reversed(_decomposed(editor, entry)))
                else:
                    active.update(value for value in entry.outputs if value.dtype.is_differentiable)
                    entries.append(entry)
    return Tape(entries, active, needed)


def flowing(node: Node) -> Iterator[Value]:
    """The inputs through which the node's derivative passes."""
    derivative = node.op.derivative
    if isinstance(derivative, Flat):
        return
    through: Collection[int] = range(len(node.inputs))
    if isinstance(derivative, Linear):
        through = [place for place in through if place not in derivative.fixed]
    elif isinstance(derivative, Regional) and derivative.through is not None:
        through = derivative.through(node.attrs)
    for place in through:
        if node.inputs[place].dtype.is_inexact:
            yield node.inputs[place]


def read_by(graph: Graph, ys: Iterable[Value]) -> tuple[set[Value], set[Value]]:
    """The values that ys depend on: in any way, and differentiably."""
    needed = set(ys)
    useful = {y for y in needed if y.dtype.is_differentiable}
    for node in reversed(graph.nodes):
        if not any(value in needed for value in node.outputs):
            continue
        needed.update(node.inputs)
        if any(value in useful for value in node.outputs):
            useful.update(flowing(node))
    return needed, useful


def _decomposed(editor: GraphEditor, node: Node) -> list[Node | Alias]:
    """The nodes of the decomposition, then what their results stand for."""
    if not node.op.lowering.is_coarse:
        raise UnsupportedError(
            f"gradient of {node.op.name}: it has no decomposition to differentiate",
            where=node.provenance.where,
        )
    editor.take_made()
    with differentiating(editor, node, derives=False):
        parts = node.op.lowering.parts(widened(node.inputs), node.attrs)
        results = rounded(parts, types_of(node.outputs))
    made: list[Node | Alias] = list(editor.take_made())
    made.extend(map(Alias, node.outputs, results))
    return made


def cause_of(op: OpDef) -> str:
    """What gradient nodes give as their cause."""
    return f"gradient of {op.name}"


@contextmanager
def differentiating(
    editor: GraphEditor, node: Node | None, derives: bool = True
) -> Iterator[None]:
    """New nodes get the node's line and the cause "gradient of"; errors name both.

    They are of the way back, unless they don't ``derive``.
    """
    cause = cause_of(node.op) if node is not None else "gradient"
    try:
        with editor.rewriting(node, cause, derives):
            yield
    except GraphcError as error:
        if node is not None and error.where is None:
            error.where = node.provenance.where
        error.cause = error.cause or cause
        raise


def refuse(node: Node, reason: str | None = None) -> GraphcError:
    """The error for a node that has no derivative; the reason is that of its op unless given."""
    where = node.provenance.where
    derivative = node.op.derivative
    if reason is None:
        reason = derivative.reason if isinstance(derivative, NotDifferentiable) else "no rule"
    return GradientError(
        f"{node.op.name} has no derivative: {reason}",
        where=where,
        node=repr(node),
        hint="put gx.stop_gradient before it if it shall count as a constant",
    )


def multiplied(factor: Value, partial: Value) -> Value:
    """A cotangent or tangent times a partial derivative; what it masks stays masked."""
    if partial.dtype.is_float:
        product: Value = surface_function("guarded_multiply")(factor, partial)
        return product
    chosen: Value = surface_function("where")(partial, factor, 0)
    return chosen


def total(terms: Sequence[Value]) -> Value:
    """The sum, added in pairs: a thousand terms are ten additions deep."""
    add = surface_function("add")
    level = list(terms)
    while len(level) > 1:
        odd = level[-1:] if len(level) % 2 else []
        level = [add(level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)] + odd
    return level[0]


def prune(editor: GraphEditor, graph: Graph, results: Iterable[Value | None]) -> Graph:
    """The finished graph without the new nodes that no result needs."""
    wanted = {value for value in results if value is not None}
    for node in reversed(editor.nodes()[len(graph.nodes) :]):
        if not any(value in wanted or editor.is_used(value) for value in node.outputs):
            editor.remove(node)
    return editor.finish()
