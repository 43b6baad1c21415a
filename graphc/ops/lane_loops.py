"""Loops that one kernel runs: the contract of loop fusion, which makes them, and of lowering.

The variables of such a loop have one shape, that of its *lanes*, and each trip computes a lane's
values of nothing but that lane. So lanes may run one after the other, each through all trips with
its variables in registers, in place of trip after trip over all lanes. Beside them stand

* scalars, on which all lanes agree: counters, and what is computed of them;
* stacks, of which a trip reads and writes rows of the lanes' shape: the results of ``scan``.

What depends on neither lanes nor stacks can be computed at any index, like what a map computes.

Lanes agree on how many trips there are, unless ``graphc.ops.own_trips`` proves that those which
would stop before others keep what they have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from graphc.base.errors import VerifyError
from graphc.ir.graph import Graph, Node
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.ops.control import while_op
from graphc.ops.indexing.core import take_op
from graphc.ops.loops import Row, WhileLoop
from graphc.ops.move.joining import concatenate_op
from graphc.ops.move.slicing import pad_op
from graphc.ops.own_trips import own_condition
from graphc.ops.source import constant_op

SHAPES = "its variables have different shapes"
ACROSS = "a lane reads what another lane has made"
NO_LOOP = "no loop over lanes computes it"
ALIKE = "whether there is another trip differs from lane to lane"
COMPLEX = "kernels know of complex numbers their parts alone"
GUARDED = "its regions check sizes"
ENDLESS = "nothing but a condition bounds its trips"
CHECKED = "indices are checked of which lanes may read a part, or each lane others"
STORED = "it picks elements of what is computed, which would have to be stored"
TAPE = "rows of a stack are read before all are written"
COUNTED = "lanes run trips of their own, and something reads how many"


@dataclass(frozen=True, slots=True, eq=False)
class LaneForm:
    """What stands for what in a loop of lanes.

    Attributes:
        shape: what lanes run over.
        stacks: the variables that are stacks, with what writes a row of each.
        filled: those of them of which every row is written and none is read.
        goes_on: the value of the condition's region that says so of each lane, where lanes run
            trips of their own.
        own: the place of the variable that it is, if it is one; all lanes begin with it true.
    """

    shape: Shape
    stacks: Mapping[int, Row]
    filled: frozenset[int]
    goes_on: Value | None = None
    own: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class LaneBody:
    """A fused body that runs loops of lanes, one after the other.

    What stands between them is pointwise work on lanes, and on stacks. A loop reads rows that one
    before it has stacked, or rows of what is computed of such stacks, row by row. Each lane needs
    its own column alone, so a stack that nothing else reads is a *tape*.

    Attributes:
        loops: the loops.
        forms: of each one.
        read: the stacks that are read in the body.
    """

    loops: Mapping[Node, WhileLoop]
    forms: Mapping[Node, LaneForm]
    read: frozenset[Value]

    @property
    def shape(self) -> Shape:
        """What lanes run over."""
        return next(iter(self.forms.values())).shape


def runs_loops(region: Graph) -> bool:
    """Whether a fused body runs loops."""
    return any(node.op is while_op for node in region.nodes)


def lane_body(region: Graph) -> LaneBody:
    """What stands for what in a fused body that runs loops.

    Raises:
        VerifyError: if no kernel can be made of it, with the reason and the node's line.
    """
    walk = _BodyWalk(region)
    for node in region.nodes:
        found = walk.obstacle(node)
        if found is not None:
            raise VerifyError(
                f"no kernel can be made of loops: {node.op.name}: {found}",
                where=node.provenance.where,
            )
    return LaneBody(walk.loops, walk.forms, frozenset(walk.read))


def obstacle(loop: WhileLoop) -> str | None:
    """Why one kernel can't run a loop lane by lane, by itself; None if it can."""
    return _obstacle(loop, frozenset(), frozenset())


class _BodyWalk:
    """One walk over a fused body."""

    def __init__(self, region: Graph) -> None:
        self.region = region
        self.loops: dict[Node, WhileLoop] = {}
        self.forms: dict[Node, LaneForm] = {}
        self.read: set[Value] = set()
        everything = {value for node in region.nodes for value in node.inputs}
        self._scalars_read = {v for v in everything.union(region.outputs) if not v.shape}
        # whether all rows of a stack are there, and what is computed of stacks
        self._stacks: dict[Value, bool] = {}
        self._rows: set[Value] = set()
        self._lanes: set[Value] = set()
        self._computed: set[Value] = set()

    def obstacle(self, node: Node) -> str | None:
        """Why a node can't be computed; notes what it is."""
        if node.op is while_op:
            return self._loop(node)
        if any(value in self._stacks or value in self._rows for value in node.inputs):
            return self._of_stacks(node)
        shape = next(iter(self.forms.values())).shape if self.forms else ()
        walk = _Walk(shape, set(), self.region.inputs)
        walk.lanes, walk.computed = self._lanes, self._computed
        return walk.obstacle(node)

    def _of_stacks(self, node: Node) -> str | None:
        if not node.op.lowering.is_pointwise or not self._lanes.isdisjoint(node.inputs):
            return ACROSS
        bound = [value for value in node.inputs if value in self._stacks or value in self._rows]
        if any(value.shape != node.output.shape for value in bound):
            return ACROSS
        self._rows.update(node.outputs)
        return self._note_read(bound)

    def _note_read(self, values: Iterable[Value]) -> str | None:
        stacks = [value for value in values if value in self._stacks]
        self.read.update(stacks)
        return None if all(self._stacks[value] for value in stacks) else TAPE

    def _loop(self, node: Node) -> str | None:
        loop = WhileLoop(node, self.region.producers.get)
        rows = {value for value in loop.captured if value in self._stacks or value in self._rows}
        lanes = {value for value in loop.captured if value in self._lanes}
        if any(v in self._computed and v not in rows and v not in lanes for v in loop.captured):
            return STORED
        found = self._note_read(rows) or _obstacle(loop, lanes, rows)
        if found is not None:
            return found
        if loop.size(loop.limit()[0]) is None:
            return ENDLESS
        form = lane_form(loop)
        if any(form.shape != other.shape for other in self.forms.values()):
            return SHAPES
        if any(value in self._stacks or value in self._rows for value in loop.start):
            return TAPE
        if form.goes_on is not None and not self._scalars_read.isdisjoint(node.outputs):
            return COUNTED
        self.loops[node], self.forms[node] = loop, form
        for place, value in enumerate(node.outputs):
            if place in form.stacks:
                self._stacks[value] = place in form.filled
            elif value.shape:
                self._lanes.add(value)
        return None


def lane_form(loop: WhileLoop) -> LaneForm:
    """The form of a loop of lanes."""
    stacks = _stacks(loop)
    filled = frozenset(place for place, row in stacks.items() if _is_filled(loop, row))
    goes_on = own_condition(loop)
    variables = enumerate(loop.condition.inputs[: loop.count])
    own = next((place for place, value in variables if value is goes_on), None)
    return LaneForm(_lanes(loop, stacks), stacks, filled, goes_on, own)


def _obstacle(loop: WhileLoop, lanes: Collection[Value], tapes: Collection[Value]) -> str | None:
    """Why one kernel can't run a loop, which captures lanes and tapes."""
    body, condition = loop.body, loop.condition
    if body.guards or condition.guards:
        return GUARDED
    results = [value for node in body.nodes for value in node.outputs]
    if any(value.dtype.is_complex for value in (*body.inputs, *results)):
        return COMPLEX
    stacks = _stacks(loop)
    shape = _lanes(loop, stacks)
    for place, value in enumerate(body.inputs[: loop.count]):
        own = value.shape[1:] if place in stacks else value.shape
        if own != shape and (own or place in stacks):
            return SHAPES
    rows = {body.inputs[place] for place in stacks}
    captured = dict(zip(body.inputs[loop.count :], loop.captured, strict=True))
    rows.update(own for own, value in captured.items() if value in tapes)
    walk = _Walk(shape, rows, body.inputs[loop.count :])
    if shape:
        variables = body.inputs[: loop.count]
        walk.lanes.update(value for value in variables if value.shape == shape)
    walk.lanes.update(own for own, value in captured.items() if value in lanes)
    written = {row.node for row in stacks.values()}
    for node in body.nodes:
        found = walk.row(node) if node in written else walk.obstacle(node)
        if found is not None:
            return f"{node.op.name}: {found}"
    return _condition_obstacle(loop, shape, {*lanes, *tapes})


def _condition_obstacle(
    loop: WhileLoop, shape: Shape, differing: Collection[Value]
) -> str | None:
    """Why lanes might differ in whether there is another trip, or can't tell for themselves."""
    condition, goes_on = loop.condition, own_condition(loop)
    told = _Walk(() if goes_on is None else shape, set(), condition.inputs[loop.count :])
    outside = dict(zip(condition.inputs[loop.count :], loop.captured, strict=True))
    told.lanes.update(own for own, value in outside.items() if value in differing)
    told.lanes.update(value for value in condition.inputs[: loop.count] if value.shape)
    if goes_on is not None:
        found = [told.obstacle(node) for node in condition.leading_to([goes_on])]
        return next((text for text in found if text is not None), None)
    for node in condition.nodes:
        if not told.lanes.isdisjoint(node.inputs):
            return ALIKE
        text = told.obstacle(node)
        if text is not None:
            return f"{node.op.name}: {text}"
    return ALIKE if condition.outputs[0] in told.lanes else None


class _Walk:
    """One walk over a region.

    Attributes:
        shape: what lanes run over.
        stacks: the stacks that may be read.
        lanes: the values of which each lane has its own.
        checked: other values, to compute which checks an index.
        computed: values to compute which reads memory, and so not to be had at any index.
    """

    def __init__(self, shape: Shape, stacks: set[Value], stored: Collection[Value]) -> None:
        """``stored`` are the values that lie in memory."""
        self.shape = shape
        self.stacks = stacks
        self.computed: set[Value] = set()
        self._stored = frozenset(stored)
        self.lanes: set[Value] = set()
        self.checked: set[Value] = set()

    def obstacle(self, node: Node) -> str | None:
        """Why a node can't be computed lane by lane; notes what is computed."""
        lowering = node.op.lowering
        if node.op is constant_op:
            return None if node.output.size == 1 else NO_LOOP
        if lowering.reads not in ("same", "moved", "picked") or node.regions:
            return NO_LOOP
        # a row is taken at a place that is in its axis; others look beyond what they pick from
        picked = node.inputs[:1] if node.op is take_op else node.inputs
        if lowering.reads == "picked" and not self.computed.isdisjoint(picked):
            return STORED
        if any(value in self._stored or value in self.computed for value in node.inputs):
            self.computed.update(node.outputs)
        if not self.stacks.isdisjoint(node.inputs):
            return self._row_read(node)
        bound = [value for value in node.inputs if value in self.lanes]
        if not bound:
            return self._shared(node)
        if not lowering.is_pointwise or node.output.shape != self.shape:
            return ACROSS
        if any(value.shape != self.shape for value in bound):
            return ACROSS
        self.lanes.update(node.outputs)
        return None

    def _shared(self, node: Node) -> str | None:
        """Why what no lane has made might be checked otherwise than once in each trip: an error
        says which index was the first."""
        if node.may_fail:
            if (node.inputs[1] if node.op is take_op else node.output).shape:
                return CHECKED
        elif self.checked.isdisjoint(node.inputs):
            return None
        elif node.op in (concatenate_op, pad_op):
            return CHECKED
        self.checked.update(node.outputs)
        return None

    def row(self, node: Node) -> str | None:
        """Why a scatter doesn't write a row of what each lane has."""
        _, place, row = node.inputs
        if place in self.lanes or row in self.stacks:
            return ACROSS
        return None if row.shape == self.shape else ACROSS

    def _row_read(self, node: Node) -> str | None:
        first, *others = node.inputs
        if node.op is not take_op or first not in self.stacks or node.attrs["axis"] != 0:
            return ACROSS
        (place,) = others
        if place.shape != () or place in self.lanes or place in self.stacks:
            return ACROSS
        if self.shape:
            self.lanes.update(node.outputs)
        return None


def _lanes(loop: WhileLoop, stacks: Mapping[int, Row]) -> Shape:
    """The shape of the first variable that is no scalar, else of a row of a stack."""
    variables = loop.body.inputs[: loop.count]
    own = [v.shape for place, v in enumerate(variables) if v.shape and place not in stacks]
    rows = [variables[place].shape[1:] for place in stacks]
    return (own or rows or [()])[0]


def _stacks(loop: WhileLoop) -> dict[int, Row]:
    """The variables of which each trip writes one row."""
    rows = loop.written_rows()
    return {place: row for place, row in rows.items() if row.node.attrs["axis"] == 0}


def _is_filled(loop: WhileLoop, row: Row) -> bool:
    """Whether each row of a stack is written by one trip, and none is read."""
    counter, own = loop.counter(), row.node.inputs[0]
    trips = loop.size(counter)
    if counter is None or trips != own.shape[0] or loop.first_number(counter) != 0:
        return False
    if row.how != "set" or row.users != (row.node,):
        return False
    return loop.by_counter(row.node.inputs[1], counter) in ((0, 1), (trips - 1, -1))


__all__ = ["LaneBody", "LaneForm", "lane_body", "lane_form", "obstacle", "runs_loops"]
