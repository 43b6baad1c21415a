"""The shadow run: a program's values and their shadows, side by side, node by node.

Invariant: what exists at a time are the values still to be read and those of one part of the
graph. Branches and loops go where the program's own values send them; recursion is as deep as
control flow is nested.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.base.errors import GraphcError, UnsupportedError
from graphc.base.source import Location
from graphc.checking.audit.measure import Finding, cancellation, findings, first_index, ulp_errors
from graphc.checking.audit.native import PartCompiler, is_constant
from graphc.checking.audit.report import Event, LineError
from graphc.checking.audit.shadow import Shadow, Wide, is_float, sum_of_magnitudes
from graphc.checking.interpreter import bind_dims
from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype, floating
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.control import cond_op, while_op
from graphc.ops.pointwise.logic import astype_op


@dataclass(slots=True)
class _Tally:
    """The errors of one line, so far."""

    where: Location | None
    operations: dict[str, None] = field(default_factory=dict)
    elements: int = 0
    finite: int = 0
    total: float = 0.0
    max_ulp: float = -1.0
    own_ulp: float = 0.0
    index: tuple[int, ...] = ()
    computed: float = 0.0
    exact: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """An array of the program and, of floats, its shadow."""

    computed: Array
    wide: Wide | None


class ShadowRun:
    """Walks a graph and notes the errors.

    Attributes:
        unmeasured: float values as precise as the shadow.
    """

    def __init__(self, native: PartCompiler, shadow: Shadow) -> None:
        self._native = native
        self._shadow = shadow
        self._tallies: dict[tuple[str, int] | None, _Tally] = {}
        self._events: dict[tuple[str, Value], Event] = {}
        self._trips: list[int] = []
        self.unmeasured = 0

    def pair(self, array: Array) -> Pair:
        """An array that is exact by definition."""
        is_wide = floating(array.dtype)
        return Pair(array, self._shadow.widen(array) if is_wide else None)

    # --- walking ---------------------------------------------------------------------------------

    def walk(
        self, graph: Graph, inputs: Sequence[Pair], known: Mapping[str, int] | None = None
    ) -> list[Pair]:
        """The outputs of a graph."""
        types = [value.type for value in graph.inputs]
        sizes = bind_dims(types, [pair.computed for pair in inputs], known)
        pairs = dict(zip(graph.inputs, inputs, strict=True))
        for part in self._native.parts(graph, sizes):
            if part.program is None:
                (node,) = part.nodes
                results = self._control(node, [pairs[value] for value in node.inputs], sizes)
                pairs.update(zip(node.outputs, results, strict=True))
            else:
                read = (value for value in part.inputs if value in pairs)
                arrays = {value: pairs[value].computed for value in read}
                made = part.run(self._native.dims | arrays)
                for node in part.nodes:
                    pairs.update(self._node(node, pairs, made, sizes))
            for value in part.dying:
                pairs.pop(value, None)
        return [pairs[value] for value in graph.outputs]

    def _control(self, node: Node, inputs: Sequence[Pair], sizes: Mapping[str, int]) -> list[Pair]:
        if node.op is cond_op:
            branch = node.regions[0 if inputs[0].computed else 1]
            return self.walk(branch, inputs[1:], sizes)
        if node.op is while_op:
            condition, body = node.regions
            carried = list(inputs[: len(node.outputs)])
            captured = inputs[len(node.outputs) :]
            self._trips.append(0)
            while bool(self.walk(condition, [*carried, *captured], sizes)[0].computed):
                carried = self.walk(body, [*carried, *captured], sizes)
                self._trips[-1] += 1
            self._trips.pop()
            return carried
        raise UnsupportedError(
            f"the audit does not know the control flow of {node.op.name}",
            where=node.provenance.where,
            node=repr(node),
        )

    def _node(
        self,
        node: Node,
        pairs: Mapping[Value, Pair],
        made: Mapping[Value, Array],
        sizes: Mapping[str, int],
    ) -> dict[Value, Pair]:
        """The pairs of a node's outputs; their errors are noted."""
        computed = [made[value] for value in node.outputs]
        inputs = [pairs[value] for value in node.inputs]
        shadows = [pair.wide is not None for pair in inputs]
        if is_constant(node) or node.op.calls_host or not (any(shadows) or node.op is astype_op):
            # nothing that goes in has an error, so what comes out is what it should be
            return dict(zip(node.outputs, map(self.pair, computed), strict=True))
        if not any(map(is_float, node.outputs)):
            return {value: Pair(made[value], None) for value in node.outputs}
        operands = [pair.computed if pair.wide is None else pair.wide for pair in inputs]
        given = [
            pair.computed if pair.wide is None else self._shadow.widen(pair.computed)
            for pair in inputs
        ]
        try:
            wide = self._shadow.evaluate(node, operands, sizes)
            own = self._shadow.evaluate(node, given, sizes)
        except GraphcError as error:
            error.where = error.where or node.provenance.where
            error.node = error.node or repr(node)
            raise
        result: dict[Value, Pair] = {}
        for value, array, shadow, alone in zip(node.outputs, computed, wide, own, strict=True):
            result[value] = Pair(array, shadow)
            if shadow is not None and alone is not None:
                if dtype(array.dtype).digits >= self._shadow.digits:
                    self.unmeasured += 1
                else:
                    self._measure(node, value, inputs, sizes, array, shadow, alone)
        return result

    # --- measuring -------------------------------------------------------------------------------

    def _measure(
        self,
        node: Node,
        value: Value,
        inputs: Sequence[Pair],
        sizes: Mapping[str, int],
        computed: Array,
        wide: Wide,
        own: Wide,
    ) -> None:
        high, low = self._shadow.parts(wide)
        errors = ulp_errors(computed, high, low)
        exact, rest = self._shadow.parts(own)
        own_errors = ulp_errors(computed, exact, rest)
        if computed.size:
            self._add(node, computed, high, errors, float(own_errors.max()))
        floats = [pair.computed for pair in inputs if pair.wide is not None]
        for finding in findings(node, computed, floats, exact):
            self._note(node, value, finding)
        parts = [self._shadow.parts(pair.wide)[0] for pair in inputs if pair.wide is not None]
        magnitudes = sum_of_magnitudes(node, parts, sizes)
        if magnitudes is not None:
            lost = cancellation(computed, errors, high, magnitudes)
            if lost is not None:
                self._note(node, value, lost)

    def _add(
        self, node: Node, computed: Array, exact: Array, errors: Array, own_ulp: float
    ) -> None:
        where = node.provenance.where
        line = None if where is None else (where.filename, where.line)
        tally = self._tallies.setdefault(line, _Tally(where))
        tally.operations[node.op.name] = None
        tally.elements += errors.size
        finite = errors[np.isfinite(errors)]
        tally.finite += finite.size
        tally.total += float(finite.sum())
        tally.own_ulp = max(tally.own_ulp, own_ulp)
        worst = float(errors.max())
        if worst > tally.max_ulp:
            index = first_index(errors == worst)
            tally.max_ulp, tally.index = worst, index
            tally.computed, tally.exact = float(computed[index]), float(exact[index])

    def _note(self, node: Node, value: Value, finding: Finding) -> None:
        """Enters an event; what happens at several turns of a loop is one."""
        key = (finding.kind, value)
        known = self._events.get(key)
        worst = known if known is not None and known.bits >= finding.bits else finding
        self._events[key] = Event(
            finding.kind,
            node.op.name,
            node.provenance.where,
            finding.count + (known.count if known is not None else 0),
            worst.index,
            worst.bits,
            worst.detail,
            node.provenance.order > 0,
            tuple(self._trips) if known is None else known.trips,
        )

    # --- what was found --------------------------------------------------------------------------

    def lines(self) -> tuple[LineError, ...]:
        """The errors line by line, in the order of the program."""
        return tuple(
            LineError(
                tally.where,
                tuple(tally.operations),
                tally.elements,
                tally.max_ulp,
                tally.total / tally.finite if tally.finite else 0.0,
                tally.own_ulp,
                tally.index,
                tally.computed,
                tally.exact,
            )
            for tally in self._tallies.values()
        )

    def events(self) -> tuple[Event, ...]:
        """What went wrong, in the order it happened."""
        return tuple(self._events.values())
