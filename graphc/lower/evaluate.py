"""Scalars of a region at an index: elements of values, evaluated on demand.

Pointwise ops demand their operands at the same index, views at a mapped one. Reductions must have
been computed before, for the current row. Demands are kept on a stack, so long chains don't
recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.base.errors import UnsupportedError, VerifyError
from graphc.ir.dims.expressions import Dim, broadcasts_to
from graphc.ir.dtypes import DType
from graphc.ir.graph import Graph, Node
from graphc.ir.lowering import Element, Lowering, Pointwise, Reshape, View
from graphc.ir.types import Shape
from graphc.ir.value import Value
from graphc.kernel.builder import KernelBuilder
from graphc.kernel.ir import Buffer, Site, Var
from graphc.lower.index import Index, broadcast_index, flat_index, reshape_index
from graphc.ops.source import constant_op

Key = tuple[Value, Index]


class Evaluator:
    """Evaluates values of one region; ``memo`` holds what is known in the open loops.

    Attributes:
        buffers: where region inputs, and values saved in scratch, are loaded from.
        places: where in its buffer the element at an index is, of values that don't lie there in
            the order of their indices.
        elsewhere: what gives the element at an index, of values that are computed outside.
    """

    def __init__(self, builder: KernelBuilder, region: Graph) -> None:
        self.b = builder
        self.region = region
        self._producers = region.producers
        self.buffers: dict[Value, Buffer] = {}
        self.places: dict[Value, Callable[[Index], Var]] = {}
        self.elsewhere: dict[Value, Callable[[Index], Var]] = {}
        self._scopes: list[dict[Key, Var]] = [{}]
        # the shape that the index of a value runs over, where it is another than the value's own
        self._over: dict[Key, Shape] = {}

    # --- scopes ----------------------------------------------------------------------------------

    def push(self) -> None:
        """Opens a loop: scalars that are evaluated from now on are forgotten at ``pop``."""
        self._scopes.append({})

    def pop(self) -> None:
        """Closes the innermost loop."""
        self._scopes.pop()

    def know(self, value: Value, index: Index, var: Var) -> None:
        """Records a scalar (the result of a reduction)."""
        self._scopes[-1][value, index] = var

    def _known(self, key: Key) -> Var | None:
        for scope in reversed(self._scopes):
            if key in scope:
                return scope[key]
        return None

    def place(self, value: Value, index: Index) -> Var:
        """Where the element at an index is in the value's buffer."""
        placed = self.places.get(value)
        return flat_index(self.b, index, value.shape) if placed is None else placed(index)

    # --- evaluation ------------------------------------------------------------------------------

    def at(self, value: Value, index: Index) -> Var:
        """The element of a value."""
        root = (value, index)
        stack: list[Key] = [root]
        while stack:
            key = stack[-1]
            if self._known(key) is not None:
                stack.pop()
                continue
            missing = self._step(key)
            if missing:
                stack.extend(missing)
            else:
                stack.pop()
        result = self._known(root)
        assert result is not None
        return result

    def _step(self, key: Key) -> Sequence[Key]:
        """Computes one element, or says which others it needs first."""
        value, index = key
        buffer = self.buffers.get(value)
        if buffer is not None:
            self._set(key, self.b.load(buffer, self.place(value, index)))
            return ()
        if value in self.elsewhere:
            self._set(key, self.elsewhere[value](index))
            return ()
        node = self._producers.get(value)
        if node is None:
            raise VerifyError(f"a fused region reads {value!r}, which it does not hold")
        if node.op is constant_op:
            self._set(key, self.b.constant(node.attrs["value"].array.reshape(-1)[0], value.dtype))
            return ()
        step = _STEPS.get(type(node.op.lowering))
        if step is not None:
            return step(self, node, node.op.lowering, key)
        if node.op.lowering.is_reduction:
            raise VerifyError(f"{node!r} is read at another row than the one being computed")
        raise UnsupportedError(f"operation {node.op.name} cannot stand in a fused loop")

    def _reshape(self, node: Node, lowering: Reshape, key: Key) -> Sequence[Key]:
        value, index = key
        (source,) = node.inputs
        return self._alias(key, (source, reshape_index(self.b, index, value.shape, source.shape)))

    def _view(self, node: Node, lowering: View, key: Key) -> Sequence[Key]:
        value, index = key
        (source,) = node.inputs
        moved = lowering.index(_Operands(self, node), source.type, value.type, node.attrs, index)
        return self._alias(key, (source, tuple(moved)))  # type: ignore[arg-type]

    def _element(self, node: Node, lowering: Element, key: Key) -> Sequence[Key]:
        value, index = key
        types = [operand.type for operand in node.inputs]
        result = lowering.rule(_Operands(self, node), types, value.type, node.attrs, index)
        self._set(key, result)  # type: ignore[arg-type]
        return ()

    def _pointwise(self, node: Node, lowering: Pointwise, key: Key) -> Sequence[Key]:
        value, index = key
        over = self._over.get(key, value.shape)
        operands: list[Var] = []
        missing: list[Key] = []
        for operand in node.inputs:
            place = self._place_of(operand, index, over)
            known = self._known((operand, place))
            if known is None:
                missing.append((operand, place))
            else:
                operands.append(known)
        if missing:
            return missing
        if isinstance(lowering.rule, str):
            result = self.b.apply(lowering.rule, *operands)
        else:
            result = lowering.rule(self.b, operands, node.attrs)  # type: ignore[assignment,arg-type]
        if result.dtype is not value.dtype:
            raise VerifyError(f"lowering of {node!r} gives {result.dtype}, not {value.dtype}")
        self._set(key, result)
        return ()

    def _place_of(self, operand: Value, index: Index, over: Shape) -> Index:
        """The operand's element for an element of a shape that it broadcasts to.

        Where sizes are unknown, an operand that is computed here is evaluated at the index itself.
        The values that it loads are then broadcast to the larger shape.
        """
        shape = operand.shape
        if shape == over:
            return index
        node = self._producers.get(operand)
        is_made = node is not None and node.op.lowering.is_pointwise
        if (
            is_made
            and operand not in self.buffers
            and len(shape) == len(over)
            and 1 not in shape
            and all(map(broadcasts_to, shape, over))
        ):
            self._over[operand, index] = over
            return index
        return broadcast_index(self.b, index, over, shape)

    def _alias(self, key: Key, source: Key) -> Sequence[Key]:
        known = self._known(source)
        if known is None:
            return (source,)
        self._set(key, known)
        return ()

    def _set(self, key: Key, var: Var) -> None:
        self._scopes[-1][key] = var


_STEPS: Mapping[type[Lowering], Callable[[Evaluator, Node, Any, Key], Sequence[Key]]] = {
    Pointwise: Evaluator._pointwise,
    Reshape: Evaluator._reshape,
    View: Evaluator._view,
    Element: Evaluator._element,
}
"""The kinds of which single elements can be computed: each computes one, or says which others it
needs first."""


class _Operands:
    """The ElementBuilder that rules of ops see: the kernel builder, plus loads of operands."""

    def __init__(self, evaluator: Evaluator, node: Node) -> None:
        self._evaluator = evaluator
        self._node = node
        self._b = evaluator.b

    def constant(self, value: bool | int | float, dtype: DType) -> Var:
        return self._b.constant(value, dtype)

    def dim(self, dim: Dim) -> Var:
        return self._b.dim(dim)

    def apply(self, primitive: str, *operands: Any) -> Var:
        return self._b.apply(primitive, *operands)

    def cast(self, operand: Any, dtype: DType) -> Var:
        return self._b.cast(operand, dtype)

    def load(self, operand: int, index: Sequence[Any]) -> Var:
        return self._evaluator.at(self._node.inputs[operand], tuple(index))

    def load_if(self, condition: Any, operand: int, index: Sequence[Any], other: Any) -> Var:
        """Guards the read where the operand is in memory; computed operands are selected."""
        value = self._node.inputs[operand]
        buffer = self._evaluator.buffers.get(value)
        if buffer is not None:
            place = self._evaluator.place(value, tuple(index))
            return self._b.load(buffer, place, condition, other)
        # constants, counters and views of them: computed without touching memory, at any index
        computed = self._evaluator.at(value, tuple(index))
        return self._b.apply("select", condition, computed, other)

    def checked_index(self, index: Any, bound: Dim, axis: int, wraps: bool = True) -> Var:
        if not self._node.op.may_fail:
            raise VerifyError(f"{self._node!r} checks an index, but its OpDef has no may_fail")
        name = self._node.attrs.get("of", self._node.op.name)
        site = Site(axis, name, self._node.provenance.where)
        return self._b.check(index, bound, site, wraps)
