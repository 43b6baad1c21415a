"""How the derivative of a trip adds to what other trips have added up.

    total + scatter_add(0, i, a)    ->  scatter_add(total, i, a)
    total + while(0, ...)           ->  while(total, ...), where the variable only adds up

So a trip that reads rows of a captured value takes the time of these rows, not that of the value:
also if it reads several, whose cotangents are added before, or if a loop inside reads them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from graphc.ir.builder import apply
from graphc.ir.graph import Graph, Node
from graphc.ir.value import Value
from graphc.ops.convert import converted
from graphc.ops.indexing.scatter import scatter_add_op, scatter_along_op
from graphc.ops.pointwise.arithmetic import add_op
from passes.autodiff.region_builder import Region
from passes.control_flow.regions import is_loop
from passes.rewriting.constants import known

Readers = Callable[[Graph], Counter[Value]]
_SCATTERS = (scatter_add_op, scatter_along_op)


def added(
    made: Region, total: Value, term: Value, is_alone: bool, readers: Readers
) -> Value:
    """The sum of a loop variable and a term, in the dtype of the variable.

    Args:
        made: where the term is computed, under construction.
        total: what was added up, an input of the region.
        term: what is added.
        is_alone: whether the term stands for nothing else.
        readers: how often each value of a graph is read, counted once a graph.
    """
    parts, opened = _parts(made, term)
    whole: list[Value] = []
    scatters: list[Node] = []
    continued: Value | None = None
    for part in parts:
        node = _scatter(made, part)
        if node is not None:
            scatters.append(node)
        elif (
            continued is None
            and is_alone
            and _sums_from_zero(made, part, total, readers)
            and _read_within(made, (part, *opened), opened)
        ):
            continued = _continued(made, part, total)
        else:
            whole.append(part)
    if continued is None and not scatters:
        return total + converted(term, total.dtype)
    result = total if continued is None else continued
    for part in whole:
        result = result + converted(part, total.dtype)
    for node in scatters:
        _, indices, updates = node.inputs
        with made.editor.rewriting(node):
            updates = converted(updates, total.dtype)
            result = apply(node.op, result, indices, updates, **node.attrs)
    return result


def _parts(made: Region, term: Value) -> tuple[list[Value], list[Value]]:
    """The values that a sum adds, in order, and the sums in it."""
    parts: list[Value] = []
    opened: dict[Value, None] = {}
    waiting = [term]
    while waiting:
        value = waiting.pop()
        node = made.editor.producer(value)
        # opened once, so that what is added to itself again and again is not written out
        if node is not None and _is_sum(node) and value not in opened:
            opened[value] = None
            waiting += reversed(node.inputs)
        else:
            parts.append(value)
    return parts, list(opened)


def _is_sum(node: Node) -> bool:
    """Whether it adds values of one shape, broadcast neither."""
    return node.op is add_op and node.inputs[0].shape == node.inputs[1].shape


def _scatter(made: Region, value: Value) -> Node | None:
    """The node that scatters into zeros; None if another one makes the value."""
    node = made.editor.producer(value)
    is_one = node is not None and node.op in _SCATTERS and _is_zero(made, node.inputs[0])
    return node if is_one else None


def _is_zero(made: Region, value: Value) -> bool:
    found = known(value, made.editor.producer)
    return found is not None and not found.array.any()


# --- loops inside --------------------------------------------------------------------------------


def _sums_from_zero(made: Region, value: Value, total: Value, readers: Readers) -> bool:
    """Whether it is a variable of a loop that starts from zeros, to which trips only add."""
    node = made.editor.producer(value)
    if node is None or not is_loop(node) or value.type != total.type:
        return False
    place = _place(node, value)
    return _is_zero(made, node.inputs[place]) and _adds_up(node, place, readers)


def _adds_up(node: Node, place: int, readers: Readers) -> bool:
    """Whether nothing but its own sum reads a variable of a loop."""
    condition, body = node.regions
    if readers(condition)[condition.inputs[place]]:
        return False
    times = readers(body)
    value = body.outputs[place]
    while times[value] == 1:
        if value is body.inputs[place]:
            return True
        maker = body.producers.get(value)
        if maker is None:
            return False
        if is_loop(maker) and _adds_up(maker, _place(maker, value), readers):
            value = maker.inputs[_place(maker, value)]
        elif maker.op in _SCATTERS or _is_sum(maker):
            value = maker.inputs[0]
        else:
            return False
    return False


def _place(node: Node, value: Value) -> int:
    """Which result of the node it is."""
    return next(place for place, other in enumerate(node.outputs) if other is value)


def times_read(graph: Graph) -> Counter[Value]:
    """How often each value is read, as an output too."""
    counts = Counter(graph.outputs)
    for node in graph.nodes:
        counts.update(node.inputs)
    return counts


def _read_within(made: Region, values: Sequence[Value], opened: Collection[Value]) -> bool:
    """Whether nothing but these sums reads the values."""
    inside = set(opened)
    return all(
        user.outputs[0] in inside
        for value in values
        for user in made.editor.users(value)
    )


def _continued(made: Region, value: Value, total: Value) -> Value:
    """The variable of a loop that starts from the total."""
    node = made.editor.producer(value)
    assert node is not None, "a loop makes it"
    place = _place(node, value)
    made.editor.put(
        node.with_inputs([*node.inputs[:place], total, *node.inputs[place + 1 :]])
    )
    return value
