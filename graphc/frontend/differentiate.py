"""``gx.gradients`` and ``gx.jvp``: derivatives of what the user built, as further values.

Role: takes what ys need out of the recorder, lets ``passes.autodiff`` differentiate it, and
appends the new nodes to the recorder. Invariant: the user's own nodes stay as they are; inside a
branch or loop body being traced the new nodes join that body, and values from outside count as
what they are there, so that paths through them are found.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal

from graphc.base.errors import DTypeError, GradientError, GraphError
from graphc.base.source import caller
from graphc.frontend.structure import leaves, rebuild
from graphc.ir.belonging import origin
from graphc.ir.builder import apply, builder_for
from graphc.ir.graph import Graph, Node
from graphc.ir.recorder import Recorder, producer_of
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.convert import PYTHON_SCALARS, as_value
from graphc.ops.move.shape import reshape_op
from graphc.ops.source import constant_beside
from passes.autodiff.forward import forward
from passes.autodiff.reverse import reverse


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    unconnected: Literal["raise", "zeros"] = "raise",
) -> Any:
    """The gradients of the sum of all elements of all ys by each of xs.

    They are values like any other, so they can be differentiated again. Where ops are discrete
    (comparisons, rounding, indices) or stopped (``stop_gradient``) the derivative is zero; ties of
    maxima share evenly.

    The gradient of a real y by a complex x = a + ib is JAX's, dy/da - i dy/db: its conjugate is the
    direction in which y grows. Complex ys need ``grad_ys``, and for holomorphic functions the
    gradient is then dy/dx times the weight.

    Args:
        ys: a float value, or nested lists, tuples and dicts of them.
        xs: what to differentiate by, in the same way: float or complex values, inputs or
            intermediate ones.
        grad_ys: what to weigh ys by, in the structure of ys; None, also in places, means ones. Each
            is broadcast to the shape of its y.
        unconnected: what to do with an x on which no y depends: "raise", or "zeros".

    Returns:
        One gradient per x, of its dtype and shape, in the structure of xs.

    Raises:
        GradientError: if no path leads from an x to ys, or one leads through an operation
            without a derivative.
        DTypeError: for ys or xs that are neither floats nor complex, and for complex ys without
            weights.
    """
    if unconnected not in ("raise", "zeros"):
        raise GraphError(
            f"unconnected={unconnected!r}", where=caller(), hint='give "raise" or "zeros"'
        )
    y_leaves = differentiable(ys, "ys")
    x_leaves = differentiable(xs, "xs")
    weights = [
        None if weight is None else _beside(weight, y, "grad_ys")
        for weight, y in zip(_matching(ys, grad_ys, "grad_ys"), y_leaves, strict=True)
    ]
    for y, weight in zip(y_leaves, weights, strict=True):
        if y.dtype.is_complex and weight is None:
            raise DTypeError(
                f"the gradient of the complex value {_name(y)} is no direction",
                where=caller(),
                hint="differentiate gx.real(y), gx.imag(y) or gx.abs(y), or give grad_ys",
            )
    scope = _Scope(y_leaves, x_leaves)
    outer_ys, outer_xs = scope.outer(y_leaves), scope.outer(x_leaves)
    seeds = [None if weight is None else scope.outer([weight])[0] for weight in weights]
    graph = scope.graph(outer_ys, [seed for seed in seeds if seed is not None])
    grown, found = reverse(graph, outer_ys, outer_xs, seeds)
    if unconnected == "raise":
        for x, gradient in zip(x_leaves, found, strict=True):
            if gradient is None:
                raise _no_path(x)
    made = scope.adopted(graph, grown, found, outer_ys)
    results = [
        surface_function("zeros_like")(x) if gradient is None else gradient
        for x, gradient in zip(x_leaves, made, strict=True)
    ]
    return _rebuilt(xs, results)


def jvp(ys: Any, xs: Any, tangents: Any) -> Any:
    """How ys change when xs change by ``tangents``: the product of the Jacobian and a vector.

    Args:
        ys: a float value, or nested lists, tuples and dicts of them.
        xs: float values, in the same way.
        tangents: one for each x, in the structure of xs; each is broadcast to the shape of its x.

    Returns:
        One tangent per y, of its dtype and shape, in the structure of ys; zeros for a y that does
        not depend on xs.

    Raises:
        GradientError: if a path leads through an operation without a derivative.
        DTypeError: for ys or xs that are not floats.
    """
    y_leaves = differentiable(ys, "ys")
    x_leaves = differentiable(xs, "xs")
    given = [
        _beside(tangent, x, "tangents")
        for tangent, x in zip(_matching(xs, tangents, "tangents"), x_leaves, strict=True)
    ]
    scope = _Scope(y_leaves, x_leaves)
    outer_ys, directions = scope.outer(y_leaves), scope.outer(given)
    graph = scope.graph(outer_ys, directions)
    grown, found = forward(graph, outer_ys, scope.outer(x_leaves), directions)
    made = scope.adopted(graph, grown, found, outer_ys)
    results = [
        surface_function("zeros_like")(y) if tangent is None else tangent
        for y, tangent in zip(y_leaves, made, strict=True)
    ]
    return _rebuilt(ys, results)


class _Scope:
    """The recorder that gets the new nodes, and those it is traced inside of.

    Attributes:
        recorder: the branch or loop body being traced, else the graph of ys.
    """

    def __init__(self, ys: Sequence[Value], xs: Sequence[Value]) -> None:
        recorder = builder_for(ys)
        if not isinstance(recorder, Recorder):
            raise GraphError("gradients are built in a user's graph, not in a pass")
        self.recorder = recorder
        for value in (*ys, *xs):
            if not recorder.encloses(value):
                raise GraphError(
                    f"value {_name(value)} belongs to another graph: it is of {origin(value)}, "
                    f"the gradient of graph {recorder.name!r}",
                    where=caller(),
                    hint="ys and xs must be built in one graph",
                )
        self._captured: dict[Value, Value] = {}
        level: Recorder | None = recorder
        while level is not None:
            for outside, inside in level.captures.items():
                if outside.graph is level.parent:
                    self._captured[inside] = outside
            level = level.parent

    def outer(self, values: Iterable[Value]) -> list[Value]:
        """What the values are where they were built: captures undone."""
        result = []
        for value in values:
            while value in self._captured:
                value = self._captured[value]
            result.append(value)
        return result

    def graph(self, ys: Sequence[Value], others: Sequence[Value]) -> Graph:
        """All that ys and others need, in the order of building, outer recorders first."""
        found: dict[Value, tuple[int, int, Node]] = {}
        sources: dict[Value, None] = {}
        stack = [*ys, *others]
        while stack:
            value = stack.pop()
            owner: Recorder | None = value.graph
            node = owner.producer(value) if owner is not None else None
            if owner is None or node is None:
                sources[value] = None
            elif node.outputs[0] not in found:
                inputs = tuple(self.outer(node.inputs))
                found[node.outputs[0]] = (
                    self._depth(owner), owner.positions[node.outputs[0]], _reading(node, inputs)
                )  # fmt: skip
                stack.extend(inputs)
        ordered = sorted(found.values(), key=lambda entry: entry[:2])
        return Graph(self.recorder.name, tuple(sources), [node for *_, node in ordered], ys)

    def adopted(
        self, graph: Graph, grown: Graph, results: Sequence[Value | None], ys: Sequence[Value]
    ) -> list[Value | None]:
        """Appends what a graph has grown by to the recorder; gives the results there.

        They rely on ys: where a value has none, since sizes don't fit, it has no derivative either,
        even if that reads nothing which has to fit.
        """
        values = (value for node in graph.nodes for value in node.outputs)
        may_fail = not all(value.type.is_static for value in (*graph.inputs, *values))
        made: set[Value] = set()
        for node in grown.nodes[len(graph.nodes) :]:
            inputs = tuple(self.recorder.local(value) for value in node.inputs)
            self.recorder.adopt(_reading(node, inputs))
            made.update(node.outputs)
        found: list[Value | None] = []
        for value in results:
            if value is not None and value not in made:
                value = self.recorder.local(value)
                if may_fail:
                    value = apply(reshape_op, value, shape=value.shape)
            if value is not None and may_fail:
                self.recorder.rely(value, ys)
            found.append(value)
        return found

    @staticmethod
    def _depth(recorder: Recorder) -> int:
        depth, level = 0, recorder.parent
        while level is not None:
            depth, level = depth + 1, level.parent
        return depth


def _reading(node: Node, inputs: tuple[Value, ...]) -> Node:
    """The node with other operands of equal types; itself if they are the same."""
    if all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    return replace(node, inputs=inputs)


# --- operands ------------------------------------------------------------------------------------


def _name(value: Value) -> str:
    return repr(value.name) if value.name is not None else f"of type {value.type}"


def _no_path(x: Value) -> GradientError:
    node = producer_of(x)
    built = f" (built at {node.provenance.where})" if node is not None else ""
    return GradientError(
        f"no path leads from the value {_name(x)}{built} to ys, so it has no gradient",
        where=caller(),
        hint='give unconnected="zeros" to get zeros',
    )


def differentiable(structure: Any, what: str) -> list[Value]:
    """The values of a structure, all of which have derivatives."""
    result = []
    for leaf in leaves(structure):
        if not isinstance(leaf, Value):
            raise DTypeError(
                f"{what} holds {leaf!r}, which is not a value of a graph",
                where=caller(),
                hint="give values, or lists, tuples and dicts of them",
            )
        if not leaf.dtype.is_differentiable:
            raise DTypeError(
                f"{what} holds the value {_name(leaf)} of dtype {leaf.dtype}, which has no "
                "derivative",
                where=caller(),
                hint="differentiate float or complex values",
            )
        result.append(leaf)
    return result


def _beside(given: Any, value: Value, what: str) -> Value:
    """A cotangent or tangent in the type of the value it belongs to."""
    fits = value.dtype.is_complex or not isinstance(given, complex)
    if isinstance(given, PYTHON_SCALARS) and fits:
        operand = constant_beside(given, value.dtype, value)
    else:
        operand = as_value(given, value)
    if operand.dtype is not value.dtype:
        raise DTypeError(
            f"{what} gives {operand.type} for the value {_name(value)} of dtype {value.dtype}",
            where=caller(),
            hint="convert it with astype",
        )
    if operand.shape != value.shape:
        operand = surface_function("broadcast_to")(operand, value.shape)
    return operand


# --- structures ----------------------------------------------------------------------------------


def _parts(structure: Any) -> list[Any] | None:
    """What a list, tuple or dict holds, None for a leaf."""
    if isinstance(structure, dict):
        return list(structure.values())
    return list(structure) if isinstance(structure, (list, tuple)) else None


def _matching(structure: Any, other: Any, what: str) -> list[Any]:
    """The leaves of ``other``, which has the structure; a None stands for Nones throughout.

    Raises:
        GradientError: if the structures differ.
    """
    parts = _parts(structure)
    if parts is None:
        return [other]
    if other is None:
        return [None for _ in leaves(structure)]
    others = _parts(other)
    if isinstance(structure, dict) and isinstance(other, dict):
        others = [other[key] for key in structure] if other.keys() == structure.keys() else None
    elif isinstance(structure, dict) or isinstance(other, dict):
        others = None
    if others is None or len(others) != len(parts):
        raise GradientError(
            f"{what} has not the structure of the values it belongs to",
            where=caller(),
            hint="nest lists, tuples and dicts in the same way",
        )
    pairs = zip(parts, others, strict=True)
    return [leaf for part, mate in pairs for leaf in _matching(part, mate, what)]


def _rebuilt(structure: Any, results: Iterable[Value]) -> Any:
    """The structure with these leaves."""
    remaining = iter(results)
    return rebuild(structure, lambda leaf: next(remaining))
