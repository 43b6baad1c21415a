"""Cost model: the time of a launch, estimated from the statements of its kernel.

Estimates need to be right within a factor of two or so. They decide whether threads share a kernel,
and whether a run is too short to release the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from graphc.base.tuning.sharing import COSTS
from graphc.ir.dims.expressions import Dim, dim_min, product
from graphc.kernel.ir import (
    Apply,
    Cast,
    Check,
    Const,
    Contract,
    DimValue,
    Kernel,
    Load,
    Loop,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
    walk,
)
from graphc.kernel.scalar import PRIMITIVES

_DIVISIONS = frozenset({"divide", "floor_divide", "mod", "sqrt", "fmod"})


def kernel_work(kernel: Kernel) -> Dim:
    """An estimate of what one launch takes on one thread, in picoseconds."""
    return _body_work(kernel.body, False, _likely_sizes(kernel))


def _likely_sizes(kernel: Kernel) -> dict[Var, Dim]:
    """What scalars that are sizes mostly are: a block is a whole one, or all there is."""
    result: dict[Var, Dim] = {}
    for statement in walk(kernel.body):
        if isinstance(statement, Const) and isinstance(statement.value, int):
            result[statement.result] = statement.value
        elif isinstance(statement, DimValue):
            result[statement.result] = statement.dim
        elif isinstance(statement, Apply):
            found = [result[var] for var in statement.operands[-2:] if var in result]
            if statement.primitive == "minimum" and found:
                result[statement.result] = reduce(dim_min, found)
            elif statement.primitive == "select" and found:
                result[statement.result] = found[0]
            elif statement.primitive == "subtract" and statement.operands[0] in result:
                # what is left of it from the start of a block on
                result[statement.result] = result[statement.operands[0]]
    return result


def _body_work(body: Sequence[Statement], vectors: bool, sizes: Mapping[Var, Dim]) -> Dim:
    """Recursion is as deep as loops are nested."""

    def size_of(size: Size) -> Dim:
        return sizes.get(size, COSTS.unknown_trips) if isinstance(size, Var) else size

    total: Dim = 0
    for statement in body:
        if isinstance(statement, Loop):
            inner = _body_work(statement.body, vectors or statement.kind == "vector", sizes)
            total = total + size_of(statement.extent) * inner
        elif isinstance(statement, Reduce):
            if statement.condition is not None:
                continue  # few iterations need it
            inner = _body_work(statement.body, vectors or statement.order == "lanes", sizes)
            each = inner + len(statement.reducers) * COSTS.scalar // 16
            total = total + size_of(statement.extent) * each
        elif isinstance(statement, Contract):
            dtype = statement.c.buffer.type.dtype
            each = COSTS.other_product
            if dtype.is_float:
                each = COSTS.float_product.get(dtype.bits, each)
            m, n, k = (size_of(size) for size in (statement.m, statement.n, statement.k))
            read = COSTS.operand_byte * dtype.bytes * k * (m + n)
            total = total + each * product((m, n, k)) + read
        else:
            cost = _statement_work(statement)
            total = total + (cost if vectors or not cost else max(cost, COSTS.scalar))
    return total


def _statement_work(statement: Statement) -> int:
    if isinstance(statement, Load):
        return COSTS.byte * statement.buffer.type.dtype.bytes
    if isinstance(statement, Store):
        return COSTS.byte * statement.buffer.type.dtype.bytes
    if isinstance(statement, Apply):
        size = statement.operands[-1].dtype.bytes
        if not PRIMITIVES[statement.primitive].exact:
            return COSTS.function * size
        return (COSTS.division if statement.primitive in _DIVISIONS else COSTS.simple) * size
    if isinstance(statement, Cast):
        return COSTS.simple * statement.result.dtype.bytes
    return COSTS.check if isinstance(statement, Check) else 0


__all__ = ["kernel_work"]
