"""What a launch of a kernel takes, estimated from its statements.

The estimates need to be right within a factor of two or so: they decide whether handing parts to
threads pays, and whether a run is over before anybody could make use of the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

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

# Picoseconds, of one core at 3 to 4 GHz with wide vectors.
_BYTE = 25
"""A byte loaded or stored, between the bandwidth of the second-level cache and of memory."""
_SIMPLE = 5
"""An exact operation on a vector, for each byte of an element."""
_DIVISION = 40
"""Division, remainder and root likewise."""
_FUNCTION = 200
"""An elementary function likewise."""
_CHECK = 100
_SOME = 64
"""Iterations of a loop of which nothing is known in advance."""
_SCALAR = 300
"""What a statement outside of vectors takes at least."""
_PRODUCT = {32: 25, 64: 50}
"""A multiply-add of a float product, by bits; others run outside of tiles."""
_OTHER_PRODUCT = 250
_OPERAND_BYTE = 8
"""A byte of a product's operands, which those of few rows take as long to read as to multiply."""
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
        return sizes.get(size, _SOME) if isinstance(size, Var) else size

    total: Dim = 0
    for statement in body:
        if isinstance(statement, Loop):
            inner = _body_work(statement.body, vectors or statement.kind == "vector", sizes)
            total = total + size_of(statement.extent) * inner
        elif isinstance(statement, Reduce):
            if statement.condition is not None:
                continue  # few iterations need it
            inner = _body_work(statement.body, vectors or statement.order == "lanes", sizes)
            each = inner + len(statement.reducers) * _SCALAR // 16
            total = total + size_of(statement.extent) * each
        elif isinstance(statement, Contract):
            dtype = statement.c.buffer.type.dtype
            each = _PRODUCT.get(dtype.bits, _OTHER_PRODUCT) if dtype.is_float else _OTHER_PRODUCT
            m, n, k = (size_of(size) for size in (statement.m, statement.n, statement.k))
            read = _OPERAND_BYTE * dtype.bytes * k * (m + n)
            total = total + each * product((m, n, k)) + read
        else:
            cost = _statement_work(statement)
            total = total + (cost if vectors or not cost else max(cost, _SCALAR))
    return total


def _statement_work(statement: Statement) -> int:
    if isinstance(statement, Load):
        return _BYTE * statement.buffer.type.dtype.bytes
    if isinstance(statement, Store):
        return _BYTE * statement.buffer.type.dtype.bytes
    if isinstance(statement, Apply):
        size = statement.operands[-1].dtype.bytes
        if not PRIMITIVES[statement.primitive].exact:
            return _FUNCTION * size
        return (_DIVISION if statement.primitive in _DIVISIONS else _SIMPLE) * size
    if isinstance(statement, Cast):
        return _SIMPLE * statement.result.dtype.bytes
    return _CHECK if isinstance(statement, Check) else 0


__all__ = ["kernel_work"]
