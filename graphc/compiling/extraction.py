"""From the user's graph and a fetch list to a frozen, functional graph.

What the fetches need is taken, in the order it was built. Variables read become inputs, variables
written become outputs, and no node mutates anything: ``assign`` is gone, its value is the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress

import numpy as np

from graphc.base.errors import FeedError, GraphError
from graphc.base.source import caller
from graphc.ir.attributes import Payload
from graphc.ir.belonging import how_to_run
from graphc.ir.builder import make_node
from graphc.ir.dims.expressions import DimExpr, is_symbol, symbols_of
from graphc.ir.equal import structure
from graphc.ir.graph import UNKNOWN, Graph, Node
from graphc.ir.guard import Guard
from graphc.ir.node_guards import demands, lifted
from graphc.ir.recorder import Recorder, producer_of
from graphc.ir.value import Value
from graphc.ops.control import custom_derivative_op, demand_op
from graphc.ops.dim_guards import symbolic, with_sizes_asked
from graphc.ops.host import after_op
from graphc.ops.indexing.unread import checks_of_unread
from graphc.ops.source import constant_op, placeholder_op
from graphc.ops.state import assign_op, variable_op


@dataclass(frozen=True, slots=True, eq=False)
class Extraction:
    """What one fetch list needs.

    Attributes:
        graph: inputs are ``feeds`` then ``states``; outputs are the fetches, then one new value
            for each of ``written``.
        feeds: values that must be fed, in the order they were built.
        states: variables that are read.
        written: variables that get a new value.
        telling: placeholders that need not be fed; where they are, guards can be checked that only
            their sizes tell.
    """

    graph: Graph
    feeds: tuple[Value, ...]
    states: tuple[Value, ...]
    written: tuple[Value, ...]
    telling: frozenset[Value] = frozenset()

    @property
    def renewed(self) -> tuple[tuple[int | None, int], ...]:
        """For each of ``written`` the input that is its old value, None if it is not read, and the
        output that is its new one."""
        inputs = {value: n for n, value in enumerate(self.states, len(self.feeds))}
        first = len(self.graph.outputs) - len(self.written)
        return tuple((inputs.get(value), n) for n, value in enumerate(self.written, first))


def needed(recorder: Recorder, roots: Iterable[Value], stop: Collection[Value]) -> list[Node]:
    """The nodes that the roots need, by data or by control, in the order they were built."""
    nodes, positions, requires = recorder.nodes, recorder.positions, recorder.requires
    is_token = None if recorder.order is None else _token_test(recorder)
    found = bytearray(len(nodes))
    stack = list(roots)
    while stack:
        value = stack.pop()
        position = positions.get(value)
        if position is None or found[position] or (stop and value in stop):
            continue
        found[position] = True
        node = nodes[position]
        # the value before an assignment says which write it follows, not that it must run
        if node.op is assign_op:
            stack += node.inputs[1:]
        elif is_token is not None and any(map(is_token, node.outputs)):
            # nor does the token before an effect
            stack += [value for value in node.inputs if not is_token(value)]
        else:
            stack += node.inputs
        if requires:
            for output in node.outputs:
                stack += requires.get(output, ())
    return [*compress(nodes, found)]


def _token_test(recorder: Recorder) -> Callable[[Value], bool]:
    """Whether a value is a token of the order of effects."""
    order, written = recorder.order, recorder.written
    return lambda value: value is order or written.get(value) is order


def in_order(recorder: Recorder, nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a graph with its ordered effects in a row: each reads the token of the one
    before it among these nodes, the first a constant. What is demanded at the end is the last."""
    if recorder.order is None:
        return [*nodes]
    is_token = _token_test(recorder)
    result: list[Node] = []
    token: Value | None = None
    for node in nodes:
        made = [value for value in node.outputs if is_token(value)]
        if made:
            if token is None:
                start = make_node(constant_op, (), {"value": Payload(np.array(False))}, (), UNKNOWN)
                result.append(start)
                token = start.output
            node = node.with_inputs([token if is_token(v) else v for v in node.inputs])
            (token,) = made
            place = node.provenance
        result.append(node)
    if token is not None:
        result.append(make_node(demand_op, (token,), {}, (), place))
    return result


def relied(nodes: Sequence[Node], stop: Collection[Value] = ()) -> list[Node]:
    """The further nodes whose guards count, since one of these relies on what they make.

    What makes a value of ``stop`` does not run.
    """
    found: dict[Value, Node] = {}
    seen: set[int] = set()
    stack = [value for node in nodes for value in _relied(node, seen)]
    if not stack:
        return []
    known = {node.outputs[0] for node in nodes}
    while stack:
        value = stack.pop()
        if stop and value in stop:
            continue
        node = producer_of(value)
        if node is not None and node.outputs[0] not in known:
            known.add(node.outputs[0])
            found[node.outputs[0]] = node
            stack += (*node.inputs, *_relied(node, seen))
    return sorted(found.values(), key=_position)


def _leading_to_guards(nodes: Sequence[Node]) -> list[Node]:
    """Those of ordered nodes that have guards or are made from what has, and all of their operands.

    What else is relied on always holds.
    """
    guarded: set[Value] = set()
    for node in nodes:
        if any(v in guarded for v in (*node.inputs, *_relied(node))) or demands(node):
            guarded.update(node.outputs)
    kept: list[Node] = []
    wanted = set(guarded)
    for node in reversed(nodes):
        if not wanted.isdisjoint(node.outputs):
            kept.append(node)
            wanted.update((*node.inputs, *_relied(node)))
    return kept[::-1]


def _position(node: Node) -> tuple[int, int]:
    """Where a node stands, after all that are outside of its branch or body."""
    value = node.outputs[0]
    owner: Recorder | None = value.graph
    if owner is None:
        return 0, 0
    depth, level = 0, owner.parent
    while level is not None:
        depth, level = depth + 1, level.parent
    return depth, owner.positions[value]


def parted(
    recorder: Recorder,
    nodes: Sequence[Node],
    stop: Collection[Value] = (),
    inputs: Sequence[Value] = (),
) -> tuple[list[Node], tuple[Guard, ...]]:
    """Nodes of a recorder without guards, and what they and those they rely on need of sizes.

    Placeholders among the inputs rely on what the sizes in their shapes were read off.
    Guards are in the order the nodes were built: so the error is that of the first operation that
    does not fit.
    """
    more: list[Node] = []
    if recorder.has_guards:
        given = filter(None, map(recorder.producer, inputs))
        more = relied([*(node for node in given if node.op is placeholder_op), *nodes], stop)
    everything = sorted([*nodes, *more], key=_position) if more else nodes
    asking = with_sizes_asked(everything, stop)
    if asking is everything and not recorder.has_guards:
        return [*nodes], ()
    bare, guards = lifted(asking)
    if more:
        made = {node.outputs[0]: node for node in bare}
        bare = [made[node.outputs[0]] for node in nodes]
    return bare, guards


def _relied(node: Node, seen: set[int] | None = None) -> Iterator[Value]:
    """What a node relies on directly, without what is in tuples that were seen before."""
    for value in node.outputs:
        owner: Recorder | None = value.graph
        if owner is not None and owner.relies:
            yield from owner.relied_on(value, seen)


def without_assignments(nodes: Sequence[Node]) -> tuple[list[Node], dict[Value, Value]]:
    """The nodes but for ``assign`` and ``after``, and what stands for the values of these."""
    stands_for: dict[Value, Value] = {}
    if {assign_op, after_op}.isdisjoint([node.op for node in nodes]):
        return list(nodes), stands_for
    result: list[Node] = []
    for node in nodes:
        inputs = tuple(stands_for.get(value, value) for value in node.inputs)
        if node.op is assign_op:
            stands_for[node.output] = inputs[1]
        elif node.op is after_op:
            stands_for[node.output] = inputs[0]
        elif all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
            result.append(node)
        else:
            result.append(replace(node, inputs=inputs))
    return result, stands_for


def without_rules(graph: Graph) -> Graph:
    """The graph without the rules of derivatives that users gave: differentiation is done."""
    if not graph.has_regions:
        return graph
    stands_for: dict[Value, Value] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if stands_for:
            node = node.with_inputs([stands_for.get(value, value) for value in node.inputs])
        if node.op is custom_derivative_op:
            stands_for.update(zip(node.outputs, node.inputs, strict=False))
        elif node.regions:
            nodes.append(node.with_regions(list(map(without_rules, node.regions))))
        else:
            nodes.append(node)
    return graph.rebuilt(nodes, [stands_for.get(value, value) for value in graph.outputs])


def extract(
    recorder: Recorder,
    fetches: Sequence[Value],
    effects: Sequence[Value] = (),
    fed: Collection[Value] = (),
) -> Extraction:
    """The graph that computes the fetches.

    ``effects`` must run too but give no result. Values that are ``fed`` are inputs, whatever makes
    them, where something reads them or speaks of their sizes.

    Raises:
        GraphError: for values of another graph.
    """
    for value in (*fetches, *effects):
        if value.graph is not recorder:
            raise GraphError(
                f"{value!r} belongs to another graph than the session's",
                where=caller(),
                hint=how_to_run(value),
            )
    nodes = needed(recorder, (*fetches, *effects), fed)
    feeds: list[Value] = []
    if fed:
        nodes = [_without_fed(node, fed) for node in nodes]
        used = {value for node in nodes for value in node.inputs} | set(fetches)
        feeds += [v for v in fed if v in used]
    states: list[Value] = []
    others: list[Node] = []
    for node in nodes:
        op = node.op
        if op is placeholder_op:
            feeds.append(node.outputs[0])
        elif op is variable_op:
            states.append(node.outputs[0])
        else:
            others.append(node)
    others, guards = parted(recorder, others, fed, feeds)
    read = {*feeds}
    unread = [value for value in fed if value not in read]
    feeds += _sources_of_dims(recorder, [*others, *_sources(nodes)], feeds, unread)
    unknown = _untold(symbols_of(*{dim for guard in guards for dim in guard.dims}), feeds)
    telling: frozenset[Value] = frozenset()
    if unknown:
        more, telling = _telling_guards(recorder, guards, unknown, unread)
        feeds += more
    body, stands_for = without_assignments(others)
    written = recorder.written
    last = {written[output]: value for output, value in stands_for.items() if output in written}
    outputs = [stands_for.get(value, value) for value in fetches] + list(last.values())
    must = {stands_for.get(value, value) for value in effects}
    must |= required(recorder, nodes, stands_for)
    body += demanded(body, outputs, must)
    body = in_order(recorder, body)
    inputs = (*feeds, *states)
    told = _told(guards, inputs) if unknown else guards
    graph = without_rules(Graph(recorder.name, inputs, body, outputs, told))
    return Extraction(graph, tuple(feeds), tuple(states), tuple(last), telling)


def _is_plain(value: Value) -> bool:
    """Whether the value alone tells all of its sizes."""
    return all(isinstance(dim, int) or is_symbol(dim) for dim in value.shape)


def _sources(nodes: Iterable[Node]) -> Iterator[Node]:
    return (node for node in nodes if node.op is placeholder_op or node.op is variable_op)


def required(
    recorder: Recorder, nodes: Iterable[Node], stands_for: Mapping[Value, Value]
) -> set[Value]:
    """What must be computed since it is required by one of the nodes, of its own recorder."""
    requires = recorder.requires
    if not requires:
        return set()
    found = (requires.get(value, ()) for node in nodes for value in node.outputs)
    return {stands_for.get(v, v) for v in chain(*found) if v in recorder.positions}


def demanded(nodes: Sequence[Node], outputs: Sequence[Value], must: set[Value]) -> list[Node]:
    """What may fail on the way to values that must be computed, where no output is made from it,
    and a node that reads its results."""
    checking = [n for n in nodes if (n.op.may_fail or n.regions) and n.may_fail_within]
    if not checking:
        return []
    unread = [more for node in checking if (more := checks_of_unread(node))]
    found = [[more[-1].output] for more in reversed(unread)]
    place = checking[-1].provenance
    read = {*outputs}
    for node in reversed(nodes) if must else ():
        if not read.isdisjoint(node.outputs):
            read.update(node.inputs)
        elif must.isdisjoint(node.outputs):
            continue
        elif node.may_fail_within:
            found.append([value for value in node.outputs if value in must])
            read.update(node.inputs)
        else:
            must.update(node.inputs)
    if not found:
        return []
    read_all = make_node(demand_op, [*chain(*reversed(found))], {}, (), place)
    return [*chain(*unread), read_all]


def _telling_guards(
    recorder: Recorder, guards: Sequence[Guard], unknown: set[DimExpr], unread: Iterable[Value]
) -> tuple[list[Value], frozenset[Value]]:
    """The fed values that nothing reads from which all unknown sizes of a guard follow, and the
    placeholders that, if they were fed, would tell further unknown sizes."""
    plain = [value for value in unread if _is_plain(value)]
    left = _untold(unknown, plain)
    told = (guard.symbols for guard in guards if left.isdisjoint(guard.symbols))
    found = _first_to_tell(unknown.intersection(chain(*told)), plain)
    left = _untold(unknown, found)
    others = (value for value in _placeholders(recorder) if _is_plain(value))
    return found, frozenset(value for value in others if left.intersection(value.shape))


def _told(guards: Sequence[Guard], inputs: Sequence[Value]) -> Sequence[Guard]:
    """The guards of sizes that the inputs tell.

    Others are of what a value relies on but does not read: where that is not fed, there is nothing
    to compare.
    """
    known = {symbol for value in inputs for symbol in symbols_of(*value.shape)}
    return [guard for guard in guards if guard.symbols <= known]


def _without_fed(node: Node, fed: Collection[Value]) -> Node:
    """A node some of whose results are fed makes others in their place, which nothing reads."""
    if not any(value in fed for value in node.outputs):
        return node
    outputs = tuple(Value(v.type, v.name) if v in fed else v for v in node.outputs)
    return replace(node, outputs=outputs)


def _sources_of_dims(
    recorder: Recorder, nodes: Sequence[Node], feeds: Sequence[Value], unread: Sequence[Value] = ()
) -> list[Value]:
    """Values that are fed, and placeholders, which nothing reads but whose sizes the graph speaks
    of."""
    others = [
        *filter(_is_plain, unread),
        *(value for value in _placeholders(recorder) if not value.type.is_static),
    ]
    if not others:
        return []
    spoken_of: set[DimExpr] = set()
    everything = [*nodes, *(n for node in nodes for r in node.regions for n in r.walk())]
    regions = (region for node in everything for region in node.regions)
    spoken_of.update(s for region in regions for guard in region.guards for s in guard.symbols)
    types = {id(value.type): value.type for node in everything for value in node.outputs}
    for attrs in [node.attrs for node in everything if node.attrs]:
        for attribute in attrs.values():
            if isinstance(attribute, (tuple, DimExpr)):
                spoken_of.update(symbolic(attribute))
    for type_ in types.values():
        spoken_of.update(symbolic(type_.shape))
    for value in feeds:
        spoken_of.update(symbolic(value.shape))
    symbols = symbols_of(*spoken_of)
    found = _first_to_tell(_untold(symbols, feeds), others)
    # sums of sizes and the like tell none of them, but must be what these say
    found += [v for v in unread if not _is_plain(v) and symbols_of(*v.shape) <= symbols]
    return found


def _placeholders(recorder: Recorder) -> list[Value]:
    return [node.outputs[0] for node in recorder.nodes if node.op is placeholder_op]


def _untold(spoken_of: Iterable[DimExpr], feeds: Iterable[Value]) -> set[DimExpr]:
    """The symbols that are no size of a feed."""
    unknown = {*spoken_of}
    unknown.difference_update(dim for value in feeds for dim in symbolic(value.shape))
    return unknown


def _first_to_tell(unknown: set[DimExpr], others: Iterable[Value]) -> list[Value]:
    """Those of the others that tell a size which is unknown, and which none before them tells."""
    result: list[Value] = []
    for value in others:
        if unknown.intersection(value.shape):
            unknown.difference_update(value.shape)
            result.append(value)
    return result


def with_sources(recorder: Recorder, nodes: Sequence[Node]) -> list[Node]:
    """The nodes and those whose sizes or guards they speak of, in the order they were built."""
    everything = [*nodes, *_leading_to_guards(relied(nodes))]
    fed = [node.outputs[0] for node in everything if node.op is placeholder_op]
    for value in _sources_of_dims(recorder, everything, fed):
        node = recorder.producer(value)
        assert node is not None
        everything.append(node)
    return sorted(everything, key=lambda node: recorder.positions[node.outputs[0]])


def missing_feed(value: Value, recorder: Recorder) -> FeedError:
    """Says which placeholder must be fed."""
    node = recorder.producer(value)
    where = node.provenance.where if node is not None else None
    return FeedError(
        f"placeholder {value.name or ''} of type {value.type} is needed but not fed".replace(
            "  ", " "
        ),
        where=where,
        hint="add it to the feeds",
    )


def program_key(extraction: Extraction) -> Hashable:
    """Equal for extractions that one program serves."""
    graph, states = extraction.graph, len(extraction.states)
    return structure(graph), _lines(extraction), states, extraction.renewed


def _lines(extraction: Extraction) -> tuple[tuple[str, int] | None, ...]:
    """The user's lines that errors of a run would name."""
    nodes = [*extraction.graph.walk()]
    graphs = [extraction.graph, *(region for node in nodes for region in node.regions)]
    found = [guard.where for graph in graphs for guard in graph.guards]
    found += [node.provenance.where for node in nodes if node.may_fail or node.op.calls_host]
    return tuple(None if where is None else (where.filename, where.line) for where in found)
