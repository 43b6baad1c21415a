"""The user's graph: an append-only recording of what was built, and the graph that is current.

``Recorder`` is what users know as ``gx.Graph``. The compiler never works on it: extraction takes
what a fetch list needs into a frozen ``ir.graph.Graph``. A branch or loop body is traced into a
recorder of its own whose ``parent`` it captures from.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType, TracebackType
from typing import Any, Self

from graphc.base.errors import GraphcError, GraphError
from graphc.base.forks import lock
from graphc.base.source import caller, location_of, user_frame
from graphc.ir.attributes import Attributes, SharedAttributes, bare
from graphc.ir.belonging import how_to_join, leaked, origin
from graphc.ir.builder import (
    building,
    current,
    default,
    infer,
    infer_with_regions,
    install_default,
)
from graphc.ir.dims.expressions import Dim, ReadDim, Sources, flat, symbol
from graphc.ir.effect import Effect
from graphc.ir.failing import Failing
from graphc.ir.graph import UNKNOWN, Graph, Node, Provenance
from graphc.ir.names import Names
from graphc.ir.node_guards import demands, guards_within, lifted
from graphc.ir.op import OpDef
from graphc.ir.showing import to_dot, to_html, to_networkx, to_svg
from graphc.ir.types import Shape, TensorType
from graphc.ir.value import Value, checked_name


def _signature(op: OpDef, inputs: Sequence[Value], attrs: Attributes) -> tuple[object, ...]:
    """The key of cached type inference: equal for two applications of an op whose operand types and
    attributes are the same objects."""
    if attrs:
        return op, id(attrs), *[id(value._type) for value in inputs]
    if len(inputs) == 2:
        left, right = inputs
        return op, None, id(left._type), id(right._type)
    return op, None, *[id(value._type) for value in inputs]


class Recorder:
    """A graph under construction.

    Use it as a context manager: placeholders, constants and variables built inside join it. Other
    ops join the graph of their operands.

    Attributes:
        name: a label.
        nodes: everything built, in order.
        names: what its values and effects are called.
        parent: the recorder a branch or loop body is traced inside of, None at the top.
        has_guards: whether a node needs something of sizes that are not known, or relies on others.
        may_run_guards: whether it has, or is within a graph that has, control flow with guards.
        order: the token of the start of a run, if there are ordered effects: it is written by each
            of them as a variable is by assignments; of the outermost graph alone.
        failing: its values of which there may be none.
        revision: grows with each node, named effect and change of a name, which may change what
            names mean.
    """

    def __init__(self, name: str = "graph", parent: Recorder | None = None) -> None:
        self.name = checked_name(name) or "graph"
        self.parent = parent
        self.nodes: list[Node] = []
        self.inputs: list[Value] = []
        self.captures: dict[Value, Value] = {}
        self.latest: dict[Value, Value] = {}
        self.carried: dict[Value, Value] = {}
        self.requires: dict[Value, tuple[Value, ...]] = {}
        self.relies: dict[Value, Sources] = {}
        self.has_guards = False
        self.may_run_guards: bool = parent is not None and parent.may_run_guards
        self.failing = Failing(self.nodes, self.relies)
        self.written: dict[Value, Value] = {}
        self._positions: dict[Value, int] = {}
        self._placed = 0
        self._places: dict[tuple[int, int], tuple[CodeType, Provenance]] = {}
        self._types: dict[tuple[str, Shape], TensorType] = {}
        # by what nodes of this graph keep alive
        self._inferred: dict[tuple[object, ...], tuple[TensorType, ...]] = {}
        self._named: list[Node] = []
        self.names = Names(self._named)
        self.order: Value | None = None
        self._symbols = 0
        self._control: list[tuple[Value, ...]] = []
        self._calls: tuple[int, ...] = ()
        self._calls_begun = 0
        self._tokens: list[object] = []
        self._lock = lock()

    # --- context ---------------------------------------------------------------------------------

    def __enter__(self) -> Recorder:
        scope = building(self)
        scope.__enter__()
        self._tokens.append(scope)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._tokens:
            raise GraphError(
                f"graph {self.name!r} is left but was not entered",
                where=caller(),
                hint="enter and leave a graph with a with statement",
            )
        self._tokens.pop().__exit__(kind, error, trace)  # type: ignore[attr-defined]

    def push_control(self, values: Sequence[Value]) -> None:
        """Nodes built until ``pop_control`` require the nodes that make these values."""
        self._control.append(tuple(values))

    def pop_control(self) -> None:
        """Ends the innermost ``push_control``."""
        self._control.pop()

    @contextmanager
    def checkpointed(self) -> Iterator[None]:
        """Nodes built in the block belong to a call of ``gx.checkpoint``."""
        top = self
        while top.parent is not None:
            top = top.parent
        top._calls_begun += 1
        outer = self._calls, self._places
        self._calls, self._places = (*self._calls, top._calls_begun), {}
        try:
            yield
        finally:
            self._calls, self._places = outer

    # --- building --------------------------------------------------------------------------------

    def add(
        self,
        op: OpDef,
        inputs: Sequence[Value],
        attrs: Attributes,
        regions: Sequence[Graph] = (),
        name: str | None = None,
        outputs: Sequence[Value] | None = None,
    ) -> Node:
        """Appends a node at the user's line; operands of an outer recorder are captured."""
        frame = user_frame(2)  # whoever calls this is graphc
        if frame is None:
            provenance = UNKNOWN.within(self._calls) if self._calls else UNKNOWN
        else:
            known = self._places.get((id(frame.f_code), frame.f_lasti))
            provenance = self._provenance(frame) if known is None else known[1]
        if name is not None:
            checked_name(name)
        for value in inputs:
            if value._graph is not self:
                inputs = [self.local(value) for value in inputs]
                break
        is_own = attrs and type(attrs) is not SharedAttributes
        read: Sources = ()
        if is_own and ReadDim.exist:
            attrs, read = bare(attrs)
        is_new = may_be_named = True
        if outputs is None:
            may_be_named = name is not None
            if is_own or regions:
                signature = types = None
            else:
                signature = _signature(op, inputs, attrs)
                types = self._inferred.get(signature)
            is_new = types is None
            if types is None:
                try:
                    types = self._types_of(op, inputs, attrs, regions)
                except GraphcError as error:
                    if error.where is None:
                        error.where = provenance.where
                    raise
                if signature is not None:
                    self._inferred[signature] = types
            if len(types) == 1:
                outputs = (Value(types[0], name, self),)
            else:
                outputs = tuple([Value(type_, name, self) for type_ in types])
        node = Node(op, tuple(inputs), attrs, tuple(outputs), tuple(regions), provenance)
        if is_new and not self.has_guards:
            self.has_guards = demands(node)
        if regions and guards_within(node):
            self.has_guards = self.may_run_guards = True
        if self._control:
            self._put_under_control(node)
        self.nodes.append(node)
        if may_be_named:
            self._named.append(node)
        if read:
            self.rely(outputs[0], read)
        return node

    def _types_of(
        self,
        op: OpDef,
        inputs: Sequence[Value],
        attrs: Attributes,
        regions: Sequence[Graph],
    ) -> tuple[TensorType, ...]:
        """The types of an operation's results; equal types are one object here."""
        if regions or op.effect == "control":
            found = infer_with_regions(op, inputs, attrs, regions)
        else:
            found = infer(op, inputs, attrs)
        if not inputs or (len(found) == 1 and found[0] is inputs[0]._type):
            return found
        known = self._types
        return tuple([known.setdefault((type_.dtype.name, type_.shape), type_) for type_ in found])

    def adopt(self, node: Node) -> None:
        """Appends a ready node (differentiation makes them) whose values become this graph's."""
        for value in node.outputs:
            value._graph = self
        if self._calls:
            node = replace(node, provenance=node.provenance.within(self._calls))
        if not self.has_guards:
            self.has_guards = demands(node)
        if node.regions and guards_within(node):
            self.has_guards = self.may_run_guards = True
        if self._control:
            self._put_under_control(node)
        self.nodes.append(node)
        self._named.append(node)

    def _put_under_control(self, node: Node) -> None:
        self.require(node.outputs[0], (v for group in self._control for v in group))

    def _provenance(self, frame: FrameType) -> Provenance:
        """The line of a frame: one object for all that one instruction builds, as in a loop."""
        code = frame.f_code
        made = Provenance(location_of(frame)).within(self._calls)
        # with the code, so that no other gets its id
        return self._places.setdefault((id(code), frame.f_lasti), (code, made))[1]

    def require(self, value: Value, needed: Iterable[Value]) -> None:
        """Whenever the node of ``value`` runs, the nodes of ``needed`` run too."""
        self.requires[value] = (*self.requires.get(value, ()), *needed)

    def rely(self, value: Value, others: Iterable[Any]) -> None:
        """Whenever the node of ``value`` runs, the guards of the others must hold.

        So it is for what is derived from values, a gradient or a tensor made of their sizes,
        without reading all of them. Others are values, in tuples of any depth; those of a graph
        that does not enclose this one say nothing here. Which guards of branches and bodies count
        depends on what runs there, so that others that are made from control flow with guards run
        too.
        """
        found = tuple(others)
        if not found:
            return
        before = self.relies.get(value)
        self.relies[value] = found if before is None else (*before, found)
        self.has_guards = True
        if self.may_run_guards and self.failing.by_running(found):
            around = filter(self.encloses, dict.fromkeys(flat(found)))
            self.require(value, [v for v in around if self.failing.by_running((v,))])

    def relied_on(self, value: Value, seen: set[int] | None = None) -> Iterator[Value]:
        """What a value relies on directly, without what is in tuples that were seen before."""
        found = self.relies.get(value)
        return iter(()) if found is None else filter(self.encloses, flat(found, seen))

    def local(self, value: Value) -> Value:
        """The value itself, or the region input that captures it from an outer recorder."""
        if value._graph is self or value._graph is None:
            return value
        if value in self.captures:
            return self.captures[value]
        if self.parent is None or not self.encloses(value):
            if value._graph.parent is not None:
                raise leaked(value)
            raise GraphError(
                f"value {value.name or value.type} belongs to another graph: it is of "
                f"{origin(value)}, the operation of graph {self.name!r}",
                where=caller(),
                hint=how_to_join(self, value._graph),
            )
        outer = self.parent.local(value)
        if outer in self.captures:
            self.captures[value] = self.captures[outer]
            return self.captures[outer]
        inner = Value(value.type, value.name, self)
        self.captures[outer] = inner
        if outer is not value:
            self.captures[value] = inner
        return inner

    def encloses(self, value: Value) -> bool:
        """True if the value was built in this recorder or one it is traced inside of."""
        recorder: Recorder | None = self
        while recorder is not None:
            if value._graph is recorder:
                return True
            recorder = recorder.parent
        return False

    def fresh_symbol(self) -> Dim:
        """A dim that no other dim of this graph is known to equal.

        Its name starts with an underscore, which no name given by a user does.
        """
        with self._lock:
            top = self
            while top.parent is not None:
                top = top.parent
            top._symbols += 1
            return symbol(f"_d{top._symbols}")

    def home(self, inputs: Sequence[Value]) -> Recorder:
        """The operands' own graph, or the region being traced, which captures them.

        Raises:
            GraphError: for a value of a branch or loop body, used outside of it.
        """
        if self.parent is None:
            for value in inputs:
                owner: Recorder | None = value._graph
                if owner is not None:
                    if owner.parent is not None:
                        raise leaked(value)
                    return owner
        return self

    # --- reading ---------------------------------------------------------------------------------

    @property
    def positions(self) -> Mapping[Value, int]:
        """Which of ``nodes`` makes a value; inputs of a region are not in it.

        Nodes get into it when somebody asks, so that building does not pay for it.
        """
        if self._placed < len(self.nodes):
            with self._lock:
                first, count = self._placed, len(self.nodes)
                new = enumerate(self.nodes[first:count], first)
                self._positions |= {v: position for position, node in new for v in node.outputs}
                self._placed = count
        return self._positions

    @property
    def variables(self) -> tuple[Value, ...]:
        """All variables, in the order of their creation: parameters, and what optimisers keep."""
        return tuple([node.outputs[0] for node in self.nodes if node.op.name == "variable"])

    @property
    def revision(self) -> int:
        """Grows whenever names may have come to mean other values."""
        return len(self.nodes) + self.names.changes

    def producer(self, value: Value) -> Node | None:
        """The node that makes the value; None for inputs of a region."""
        position = self._positions.get(value)
        if position is None:
            position = self.positions.get(value)
        return None if position is None else self.nodes[position]

    def may_be_missing(self, value: Value) -> bool:
        """Whether there is no such value where sizes do not fit."""
        return self.failing.by_running((value,)) is not None

    def settle_names(self) -> None:
        """Gives names to the values that are always called something."""
        self.names.settle()

    def rename(self, value: Value, name: str | None) -> None:
        """Gives a value another name, or none."""
        if value in self.positions:
            self.names.change(value, name)
        else:
            value._name = name

    def find(self, name: str) -> Value:
        """The value of that name.

        Raises:
            NameLookupError: if no value, or more than one, bears it; names their lines.
        """
        return self.names.value(name, self)

    def find_fetch(self, name: str) -> Value | Effect:
        """The value or the effect of that name.

        Raises:
            NameLookupError: if neither, or more than one, bears it; names their lines.
        """
        return self.names.value_or_effect(name, self)

    def freeze(self, outputs: Sequence[Value]) -> tuple[Graph, tuple[Value, ...]]:
        """A traced region as a graph, and the outer values its last inputs capture."""
        results = [self.local(value) for value in outputs]
        distinct: dict[Value, Value] = {}
        for outer, inner in self.captures.items():
            if outer.graph is self.parent:
                distinct.setdefault(inner, outer)
        inputs = (*self.inputs, *distinct)
        nodes, guards = lifted(self.nodes)
        return Graph(self.name, inputs, nodes, results, guards), tuple(distinct.values())

    # --- showing ---------------------------------------------------------------------------------

    to_networkx = to_networkx
    to_dot = to_dot
    to_svg = to_svg
    _repr_html_ = to_html

    def __repr__(self) -> str:
        parts = [f"{len(self.nodes)} nodes"]
        for op in ("placeholder", "variable"):
            found = [n.output.name or "unnamed" for n in self.nodes if n.op.name == op]
            if found:
                shown = ", ".join(found[:4]) + ", …" * (len(found) > 4)
                parts.append(f"{len(found)} {op}{'s' * (len(found) > 1)} ({shown})")
        return f"<Graph {self.name!r}: {', '.join(parts)}>"

    def __copy__(self) -> Self:
        """The graph itself, of which its values are; a deep copy copies them too."""
        return self

    def __getstate__(self) -> dict[str, object]:
        state = dict(self.__dict__)
        for name in ("_lock", "failing", "_positions", "_placed", "_places", "_types", "_inferred"):
            del state[name]
        # pickle recurses over what is nested
        state["relies"] = {value: tuple(flat(found)) for value, found in self.relies.items()}
        state["_tokens"] = []
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = lock()
        self.failing = Failing(self.nodes, self.relies)
        self._positions = {}
        self._placed = 0
        self._places = {}
        self._types = {}
        self._inferred = {}


install_default(Recorder("default"))


def producer_of(value: Value) -> Node | None:
    """The node by which the user built a value.

    None for values that passes made, and for inputs of regions.
    """
    owner: Recorder | None = value._graph
    return None if owner is None else owner.producer(value)


def default_graph() -> Recorder:
    """The graph that stands where none is entered."""
    found = default()
    assert isinstance(found, Recorder)
    return found


def reset_default_graph() -> None:
    """Puts a new, empty graph where none is entered, as for a notebook whose cells run again.

    The old one stays as it is: sessions of it go on, and its values can be fetched and built on;
    only what is built from nothing from now on joins the new one.

    Raises:
        GraphError: while the default graph is entered.
    """
    if current() is default():
        raise GraphError(
            "the default graph is entered, so another can't take its place",
            where=caller(),
            hint="leave its with block first",
        )
    install_default(Recorder("default"))


def current_recorder() -> Recorder:
    """The recorder that placeholders and the like join."""
    builder = current()
    return builder if isinstance(builder, Recorder) else default_graph()
