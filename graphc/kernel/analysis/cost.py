"""Cost model: the time of a launch, estimated from the statements of its kernel.

Estimates need to be right within a factor of two or so. They decide whether threads share a kernel,
and whether a run is too short to release the interpreter's lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from graphc.base.tuning.sharing import COSTS
from graphc.ir.dims.expressions import Dim, dim_min, product
from graphc.ir.dtypes import DType
from graphc.kernel.ir import Kernel, Size, Statement, Var, walk
from graphc.kernel.scalar import PRIMITIVES

_DIVISIONS = frozenset({"divide", "floor_divide", "mod", "sqrt", "fmod"})


def kernel_work(kernel: Kernel) -> Dim:
    """The estimated time of one launch on one thread, in picoseconds."""
    return _Estimator(_likely_sizes(kernel)).body(kernel.body, False)


def _likely_sizes(kernel: Kernel) -> dict[Var, Dim]:
    """Likely values of scalars that are sizes: a block is a whole one, or the whole extent."""
    result: dict[Var, Dim] = {}
    for statement in walk(kernel.body):
        known, primitive = statement.known, statement.primitive
        if known is not None:
            (var,) = statement.results
            result[var] = known
        elif primitive in ("minimum", "select", "subtract"):
            operands, (var,) = statement.operands, statement.results
            found = [result[operand] for operand in operands[-2:] if operand in result]
            if primitive == "minimum" and found:
                result[var] = reduce(dim_min, found)
            elif primitive == "select" and found:
                result[var] = found[0]
            elif primitive == "subtract" and operands[0] in result:
                # what is left of it from the start of a block on
                result[var] = result[operands[0]]
    return result


class _Estimator:
    """The costs that statements estimate with (``statements.base.Estimator``)."""

    def __init__(self, sizes: Mapping[Var, Dim]) -> None:
        self._sizes = sizes
        self._vectors = False

    def size(self, size: Size) -> Dim:
        """The likely value of a size."""
        return self._sizes.get(size, COSTS.unknown_trips) if isinstance(size, Var) else size

    def body(self, body: Sequence[Statement], is_vector: bool) -> Dim:
        """One iteration; recursion is as deep as loops are nested."""
        outer, self._vectors = self._vectors, self._vectors or is_vector
        total: Dim = 0
        for statement in body:
            total = total + statement.cost(self)
        self._vectors = outer
        return total

    def _element(self, cost: int) -> int:
        """Work on one element: outside of vectors it takes a while whatever it is."""
        return cost if self._vectors else max(cost, COSTS.scalar)

    def access(self, dtype: DType) -> int:
        """An element loaded or stored."""
        return self._element(COSTS.byte * dtype.bytes)

    def primitive(self, name: str, dtype: DType) -> int:
        """A primitive of operands of a dtype."""
        definition = PRIMITIVES[name]
        if not definition.exact:
            return self._element(COSTS.function * definition.weight * dtype.bytes)
        return self._element((COSTS.division if name in _DIVISIONS else COSTS.simple) * dtype.bytes)

    def conversion(self, dtype: DType) -> int:
        """A conversion to a dtype."""
        return self._element(COSTS.simple * dtype.bytes)

    def check(self) -> int:
        """A check of an index."""
        return self._element(COSTS.check)

    def combination(self, count: int) -> int:
        """One term of each of ``count`` reducers."""
        return count * COSTS.scalar // 16

    def product(self, dtype: DType, m: Size, n: Size, k: Size) -> Dim:
        """A matrix product."""
        each = COSTS.other_product
        if dtype.is_float:
            each = COSTS.float_product * dtype.bits // 32
        rows, columns, depth = (self.size(size) for size in (m, n, k))
        read = COSTS.operand_byte * dtype.bytes * depth * (rows + columns)
        return each * product((rows, columns, depth)) + read


__all__ = ["kernel_work"]
