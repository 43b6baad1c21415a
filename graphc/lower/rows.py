"""Row kernels: reductions of one axis and the work around them, row by row, in stages.

All reductions of the region reduce the same axis of the same full shape. For each position of the
other axes (the row) the kernel runs its stages: the reductions that depend on nothing but inputs,
those that depend on the first ones, and so on, and last the outputs of the full shape. Costly
values that several stages need are kept in row scratch instead of computed again.

Reductions that few rows need have stages of their own, behind the stages whose results tell which
rows these are (``graphc.lower.conditional_reductions``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from graphc.base.errors import VerifyError
from graphc.ir.dims.expressions import Dim, product
from graphc.ir.dtypes import DType
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Combine, Reduction
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.kernel.builder import KernelBuilder, ReduceScope
from graphc.kernel.ir import Buffer, Kernel, LoopKind, Order, Size, Var, lanes
from graphc.lower.conditional_reductions import Need, either, needs
from graphc.lower.evaluate import Evaluator
from graphc.lower.grouped_reductions import (
    Groups,
    ReductionTerm,
    find_in_long_row,
    is_long,
    or_nothing,
    reduce_long_row,
)
from graphc.lower.index import Index, flat_index, reshape_index
from graphc.lower.region import Result, Slices, open_loop, open_loops, open_region
from graphc.lower.shifted_variance import combinations, leading, share, squared_deviations
from graphc.ops.fusion_contract import Form


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """Reductions that run in one loop over the row, and the rows that need them."""

    nodes: list[Node]
    need: Need


Held = dict[Value, tuple[Buffer, Var]]
"""Values whose rows lie in a buffer, and where the row begins there."""


def lower_rows(region: Graph, form: Form, slices: Slices) -> Kernel:
    """The staged kernel of a region with reductions."""
    b, evaluator, results = open_region(region, slices)
    work = RowWork(b, region, form, results, {})
    if work.is_long:
        work.emit_in_groups(b, evaluator)
        return b.finish()
    with ExitStack() as loops:
        kind: LoopKind = "parallel" if work.inner else "vector"
        work.emit(b, evaluator, open_loops(b, evaluator, loops, work.outer, kind), {}, {})
    return b.finish()


class RowWork:
    """The work on one row.

    Attributes:
        inner: whether rows lie in memory one after the other.
        outer: the shape that numbers the rows: the full shape without the reduced axis.
    """

    def __init__(
        self,
        b: KernelBuilder,
        region: Graph,
        form: Form,
        wanted: list[Result],
        further: Collection[Value],
    ) -> None:
        """``wanted`` are the results of full shape or of one element a row; ``further`` values of
        full shape go where ``emit`` is told."""
        full, axis = form.shape, form.axis
        self.full, self.axis, self.inner = full, axis, axis == len(full) - 1
        self.outer = full[:axis] + full[axis + 1 :]
        self._full = [r for r in wanted if r.value.shape == full and not form.is_row(r.value)]
        self._row = [r for r in wanted if not any(r is other for other in self._full)]
        self._stages = _stages(region, {})
        if self.inner or not self.is_long:
            # long columns are read once for all reductions
            self._stages = _stages(region, needs(region, form))
        last = [*(result.value for result in self._full), *further]
        # a long row lies in no cache, so what several stages need is computed by each
        saves = self.inner and not self.is_long
        self._saved = _worth_saving(region, self._stages, full, last) if saves else {}
        self._scratch = {
            value: b.buffer(f"row{n}", "scratch", TensorType(value.dtype, (full[axis],)))
            for n, value in enumerate(self._saved)
        }

    def emit(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        row: Index,
        given: Held,
        further: Held,
        length: Size | None = None,
    ) -> None:
        """One row; the rows of ``given`` are read where they lie, those of ``further`` written.

        With a ``length``, only the first ``length`` elements of the row are read.
        """
        if length is None:
            length = self.full[self.axis]
        kept, pivots = dict(given), dict[Value, Var]()
        for number, stage in enumerate(self._stages):
            keep = {v: self._scratch[v] for v, first in self._saved.items() if first == number}
            condition = self._condition(b, evaluator, stage, row)
            line = _Line(b, evaluator, row, length, self.axis, self.inner, kept, condition)
            _reduce(line, stage.nodes, keep, pivots)
            kept |= {value: (buffer, b.dim(0)) for value, buffer in keep.items()}
        self._store_rows(b, evaluator, row)
        self._store_full(b, evaluator, row, length, kept, further)

    def _condition(
        self, b: KernelBuilder, evaluator: Evaluator, stage: _Stage, row: Index
    ) -> Var | None:
        """Whether a row needs the reductions of a stage; None if each does."""
        result: Var | None = None
        for value in stage.need:
            holds = evaluator.at(value, reshape_index(b, row, self.outer, value.shape))
            result = holds if result is None else b.apply("or", result, holds)
        return result

    def _store_full(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        row: Index,
        length: Size,
        kept: Held,
        further: Held,
    ) -> None:
        """The results of full shape, and ``further`` values, of a row."""
        if not self._full and not further:
            return
        with ExitStack() as last:
            kind: LoopKind = "vector" if self.inner else "serial"
            position = open_loop(b, evaluator, last, length, kind)
            index = _full_index(row, self.axis, position)
            _recall(b, evaluator, kept, index, position)
            elements = [evaluator.at(result.value, index) for result in self._full]
            others = [evaluator.at(value, index) for value in further]
            for result, element in zip(self._full, elements, strict=True):
                result.store(b, index, element)
            for (buffer, start), element in zip(further.values(), others, strict=True):
                b.store(buffer, b.apply("add", start, position), element)

    def _store_rows(self, b: KernelBuilder, evaluator: Evaluator, row: Index) -> None:
        """The results of one element a row."""
        for result in self._row:
            index = reshape_index(b, row, self.outer, result.value.shape)
            whole = result.slice is None
            place = flat_index(b, row, self.outer) if whole else result.place(b, index)
            b.store(result.buffer, place, evaluator.at(result.value, index))

    @property
    def is_long(self) -> bool:
        """Whether there is one row, or one reduction of columns, so long that threads share it."""
        extent = self.full[self.axis]
        if not self._stages or any(d != 1 for d in self.full[: self.axis]):
            return False
        if self.inner:
            width = lanes(_term_dtype(self._stages[0].nodes[0]))
            return is_long(extent // width, width)
        if len(self._stages) != 1 or self._full:
            return False
        nodes = self._stages[0].nodes
        if any(_combine(node).startswith("arg") or _deviates(node) for node in nodes):
            return False
        return is_long(extent, product(self.outer))

    def emit_in_groups(self, b: KernelBuilder, evaluator: Evaluator) -> None:
        """The whole kernel, its reductions in groups."""
        if self.inner:
            self._emit_long_row(b, evaluator)
            return
        (stage,), extent = self._stages, self.full[self.axis]
        terms = [self._term(b, evaluator, node) for node in stage.nodes]
        groups = Groups(b, evaluator, extent, self.outer, terms)
        groups.reduce()
        with groups.totals() as (row, results):
            results = or_nothing(b, extent, terms, results)
            for node, result in zip(stage.nodes, results, strict=True):
                evaluator.know(node.output, row, result)
            self._store_rows(b, evaluator, row)

    def _emit_long_row(self, b: KernelBuilder, evaluator: Evaluator) -> None:
        extent = self.full[self.axis]
        row, pivots = (b.dim(0),) * len(self.outer), dict[Value, Var]()
        for number, stage in enumerate(self._stages):
            if stage.need:
                # hardly ever: one thread does, in the order that groups keep to
                condition = self._condition(b, evaluator, stage, row)
                line = _Line(b, evaluator, row, extent, self.axis, True, {}, condition)
                _reduce(line, stage.nodes, {}, pivots)
                continue
            for find in (False, True):
                nodes = [node for node in stage.nodes if _combine(node).startswith("arg") is find]
                if not nodes:
                    continue
                if find:
                    terms = [self._term(b, evaluator, node) for node in nodes]
                    results = find_in_long_row(b, evaluator, extent, row, terms, f"{number}_")
                else:
                    label = f"{number}_"
                    results = self._reduce_long_row(b, evaluator, nodes, row, label, pivots)
                for node, result in zip(nodes, results, strict=True):
                    evaluator.know(node.output, row, result)
        self._store_rows(b, evaluator, row)
        self._store_full(b, evaluator, row, extent, {}, {})

    def _reduce_long_row(
        self,
        b: KernelBuilder,
        evaluator: Evaluator,
        nodes: list[Node],
        row: Index,
        label: str,
        pivots: dict[Value, Var],
    ) -> list[Var]:
        """The results of reductions of one stage; adds to the pivots."""
        extent = self.full[self.axis]
        leads = _leads(nodes, pivots)
        if leads:
            count = leading(extent, "lanes", _term_dtype(next(iter(leads.values()))))
            shares = [self._term(b, evaluator, node, share_of=count) for node in leads.values()]
            means = reduce_long_row(b, evaluator, count, row, shares, f"{label}lead")
            pivots.update(zip(leads, means, strict=True))
        terms: list[ReductionTerm] = []
        for node in nodes:
            if _deviates(node):
                terms += self._deviations(b, evaluator, node, pivots[node.inputs[0]])
            else:
                terms.append(self._term(b, evaluator, node))
        results = iter(reduce_long_row(b, evaluator, extent, row, terms, label))
        return [_result(b, node, extent, "lanes", results) for node in nodes]

    def _term(
        self, b: KernelBuilder, evaluator: Evaluator, node: Node, share_of: Dim | None = None
    ) -> ReductionTerm:
        """The term of a reduction by position and row; or its share in a mean of ``share_of``."""

        def at(position: Var, row: Index) -> Var:
            term = _term(b, evaluator, node, _full_index(row, self.axis, position))
            return term if share_of is None else share(b, term, share_of)

        combine = _combine(node)
        return ReductionTerm("add" if combine == "deviations" else combine, _term_dtype(node), at)

    def _deviations(
        self, b: KernelBuilder, evaluator: Evaluator, node: Node, pivot: Var
    ) -> list[ReductionTerm]:
        """The terms of the two sums of shifted deviations."""

        def at(position: Var, row: Index) -> Var:
            term = _term(b, evaluator, node, _full_index(row, self.axis, position))
            return _deviation(b, node, term, pivot)

        combines = combinations(self.full[self.axis], "lanes")
        return [ReductionTerm(combine, _term_dtype(node), at) for combine in combines]


def _full_index(row: Index, axis: int, position: Var) -> Index:
    return (*row[:axis], position, *row[axis:])


@dataclass(frozen=True, slots=True, eq=False)
class _Line:
    """A row under reduction.

    Attributes:
        length: how many of its elements are read.
        kept: values whose rows lie in a buffer.
        condition: whether the row needs the reduction; None if each row does.
    """

    b: KernelBuilder
    evaluator: Evaluator
    row: Index
    length: Size
    axis: int
    inner: bool
    kept: Held
    condition: Var | None

    @property
    def order(self) -> Order:
        """In which its terms are combined."""
        return "lanes" if self.inner else "chain"

    @contextmanager
    def along(self, extent: Size) -> Iterator[tuple[ReduceScope, Index]]:
        """A reduction loop over the first elements of the row; gives its scope and their index."""
        with self.b.reduce(extent, self.order, self.condition) as scope:
            self.evaluator.push()
            index = _full_index(self.row, self.axis, scope.index)
            _recall(self.b, self.evaluator, self.kept, index, scope.index)
            yield scope, index
            self.evaluator.pop()


def _reduce(
    line: _Line, nodes: list[Node], keep: dict[Value, Buffer], known: dict[Value, Var]
) -> None:
    """One stage: a loop over the row that feeds all its reductions.

    Adds to ``known`` the pivots that every row has.
    """
    b, evaluator, extent = line.b, line.evaluator, line.length
    pivots = known | _pivots(line, _leads(nodes, known))
    if line.condition is None:
        known.update(pivots)
    with line.along(extent) as (scope, index):
        for value, buffer in keep.items():
            b.store(buffer, scope.index, evaluator.at(value, index))
        for node in nodes:
            term, combine = _term(b, evaluator, node, index), _combine(node)
            if combine == "deviations":
                deviation = _deviation(b, node, term, pivots[node.inputs[0]])
                ways = combinations(_known(extent), line.order)
                scope.terms += [(way, deviation) for way in ways]
            else:
                scope.terms.append((combine, term))
    results = iter(scope.results)
    for node in nodes:
        evaluator.know(node.output, line.row, _result(b, node, extent, line.order, results))


def _leads(nodes: list[Node], known: Collection[Value]) -> dict[Value, Node]:
    """One reduction of deviations for each operand whose pivot is not known."""
    return {n.inputs[0]: n for n in nodes if _deviates(n) and n.inputs[0] not in known}


def _pivots(line: _Line, leads: dict[Value, Node]) -> dict[Value, Var]:
    """For each operand its pivot: the mean of the leading terms, which shifts all of them."""
    if not leads:
        return {}
    b, first = line.b, next(iter(leads.values()))
    count = leading(_known(line.length), line.order, _term_dtype(first))
    with line.along(count) as (scope, index):
        for node in leads.values():
            term = _term(b, line.evaluator, node, index)
            scope.terms.append(("add", share(b, term, count)))
    return dict(zip(leads, scope.results, strict=True))


def _deviation(b: KernelBuilder, node: Node, term: Var, pivot: Var) -> Var:
    """The difference of a term from the pivot, scaled and shifted as the reduction says."""
    result = b.apply("subtract", term, pivot)
    scale, shift = node.attrs.get("scale", 1.0), node.attrs.get("shift", 0.0)
    if scale != 1.0:
        result = b.apply("multiply", result, b.constant(scale, term.dtype))
    return b.apply("add", result, b.constant(shift, term.dtype)) if shift else result


def _result(
    b: KernelBuilder, node: Node, extent: Size, order: Order, results: Iterator[Var]
) -> Var:
    """The result of a reduction, from the next results of its combinations."""
    if _deviates(node):
        shift = node.attrs.get("shift", 0.0)
        return squared_deviations(b, _known(extent), order, shift, results)
    return next(results)


def _known(extent: Size) -> Dim:
    """A length that is known before a row is looked at, as whole rows have."""
    if isinstance(extent, Var):
        raise VerifyError("deviations are of whole rows")
    return extent


def _combine(node: Node) -> Combine | Literal["deviations"]:
    assert isinstance(node.op.lowering, Reduction)
    return node.op.lowering.combine


def _deviates(node: Node) -> bool:
    return _combine(node) == "deviations"


def _term(b: KernelBuilder, evaluator: Evaluator, node: Node, index: Index) -> Var:
    """The term of a reduction at an index."""
    term = evaluator.at(node.inputs[0], index)
    return term if _combine(node).startswith("arg") else b.cast(term, node.output.dtype)


def _recall(
    b: KernelBuilder,
    evaluator: Evaluator,
    kept: Held,
    index: Index,
    position: Var,
) -> None:
    """Values that lie in a buffer are loaded, not computed."""
    for value, (buffer, start) in kept.items():
        evaluator.know(value, index, b.load(buffer, b.apply("add", start, position)))


def _stages(region: Graph, needs: Mapping[Node, Need]) -> list[_Stage]:
    """Reductions by how many others they depend on.

    Reductions of different lane counts don't share a stage, and conditional ones share none with
    others.
    """
    depth = _depths(region, {})
    if needs:
        # no condition waits for a reduction that has one
        depth = _depths(region, {node: _deepest(depth, need) for node, need in needs.items()})
    stages: dict[tuple[int, bool, int], list[Node]] = {}
    for node in region.nodes:
        if node.op.lowering.is_reduction:
            key = (depth[node.output] - 1, node in needs, lanes(_term_dtype(node)))
            stages.setdefault(key, []).append(node)
    return [
        _Stage(stages[key], either(*(needs.get(node, ()) for node in stages[key])))
        for key in sorted(stages)
    ]


def _depths(region: Graph, least: Mapping[Node, int]) -> dict[Value, int]:
    """How many reductions each value depends on in a chain; ``least`` has lower bounds."""
    depth: dict[Value, int] = {}
    for node in region.nodes:
        level = max(_deepest(depth, node.inputs), least.get(node, 0))
        level += node.op.lowering.is_reduction
        depth.update(dict.fromkeys(node.outputs, level))
    return depth


def _deepest(depth: Mapping[Value, int], values: Iterable[Value]) -> int:
    return max((depth.get(value, 0) for value in values), default=0)


def _term_dtype(node: Node) -> DType:
    if _combine(node).startswith("arg"):
        return node.inputs[0].dtype
    return node.output.dtype


def _costly(node: Node) -> bool:
    return node.op.lowering.is_pointwise and node.op.numerics == "R"


def _worth_saving(
    region: Graph, stages: list[_Stage], full: tuple[Dim, ...], last: list[Value]
) -> dict[Value, int]:
    """Costly full-shape values that more than one stage reads, with the first that does.

    A stage that few rows need neither keeps a value nor is a reason to.
    """
    roots = [[] if s.need else [node.inputs[0] for node in s.nodes] for s in stages]
    if last:
        roots.append(last)
    readers: dict[Value, list[int]] = {}
    for number, values in enumerate(roots):
        seen: set[Value] = set()
        stack = list(values)
        while stack:
            value = stack.pop()
            if value in seen:
                continue
            seen.add(value)
            node = region.producers.get(value)
            if node is None or node.op.lowering.is_reduction:
                continue
            if value.shape == full and _costly(node):
                found = readers.setdefault(value, [])
                found.append(number)
                if len(found) > 1:
                    continue  # it will be loaded, so its operands are not needed here
            stack.extend(node.inputs)
    return {value: numbers[0] for value, numbers in readers.items() if len(numbers) > 1}
