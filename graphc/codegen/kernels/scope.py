"""What is known while the code of one kernel is emitted: its values, places and sizes.

Whoever emits a statement gets the scope and changes it; which function emits which statement the
scope is told (``graphc.codegen.kernels.kernel``), so that no module here imports all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

from graphc.base.lazily import once
from graphc.base.target import Target
from graphc.base.tuning.machine import Tuning
from graphc.codegen.kernels.lane_values import (
    Binding,
    Held,
    KnownLanes,
    LinearLanes,
    Repeated,
    Vectors,
)  # fmt: skip
from graphc.codegen.kernels.task_range import Ranges
from graphc.codegen.llvm.dims import DimRegs
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import ltype
from graphc.ir.dims.expressions import Dim
from graphc.kernel.analysis.index_range import Affine, index_forms
from graphc.kernel.analysis.periods import Period, Periods
from graphc.kernel.ir import Block, Buffer, Kernel, Size, Statement, Var
from graphc.kernel.statements.base import Access

EmitterTable: TypeAlias = Mapping[type[Statement], Callable[["KernelScope", Any], None]]
"""What emits each class of statements, told a scope and the statement."""


@dataclass(frozen=True, slots=True)
class Emitters:
    """Who emits what.

    Attributes:
        statements: the function of each class of statements.
        iteration: emits a body of whose scalars nothing behind it reads any.
    """

    statements: EmitterTable
    iteration: Callable[[KernelScope, Sequence[Statement]], None]


class KernelScope:
    """The state of emitting one kernel into a module.

    Attributes:
        lanes: how many elements the code under emission computes at once.
        mask: which of these there are, None for all.
        count: how many of the first ones these are, where there is a mask.
        dims: the values of dims.
        held: what some lanes have left in scratch since the last loop over rows began or ended.
        vectors: what the loads of a period have read last.
        rounded: float32s that narrow floats are, by the registers of these.
        halves: registers of float16 that an instruction has made, which can write them, too.
        short: scalars whose NaN, if they are any, have no digits that bfloat16 lacks.
        streamed: the results whose stores are non-temporal, and under which condition.
        streaming: the stores of the present loop that are, and under which condition.
        tiles: where elements lie that a tile has read already.
        ranges: what of each loop is to be run.
        reports: whether checks report indices that are out of range.
    """

    def __init__(
        self,
        module: ModuleEmitter,
        e: FunctionEmitter,
        kernel: Kernel,
        target: Target,
        emitters: Emitters,
    ) -> None:
        self.module = module
        self.e = e
        self._emitters = emitters
        self.kernel = kernel
        self.target = target
        self.tuning = Tuning.of(target)
        self.lanes = 1
        self.mask: Reg | None = None
        self.count: Reg | int = 1
        self.held: dict[Buffer, Held] = {}
        self.vectors: dict[Period, Vectors] = {}
        self.rounded: dict[str, Reg] = {}
        self.halves: set[str] = set()
        self.short: set[Var] = set()
        self._bindings: dict[Var, Binding] = {}
        self._pointers: dict[Buffer, Reg] = {}
        self.dims = DimRegs(self.e)
        self.streamed: dict[Buffer, Reg] = {}
        self.streaming: dict[Access, Reg] = {}
        self.tiles: dict[Statement, Reg] = {}
        self.reports = True
        self.ranges = Ranges(self.e, kernel, self.dim)

    @once
    def forms(self) -> Mapping[Var, Affine]:
        """The forms of all scalars that have one; most kernels need none."""
        return index_forms(self.kernel)

    @once
    def periods(self) -> Periods:
        """Which loads and stores share the elements of a few neighbours."""
        return Periods(self.kernel, self.forms)

    # --- bindings --------------------------------------------------------------------------------

    def bind(self, var: Var, binding: Binding) -> None:
        """Says what a scalar is while emitting the current lanes."""
        self._bindings[var] = binding

    def binding(self, var: Var) -> Binding:
        """What a scalar is: uniform, per lane, linear over lanes, or told by groups of them."""
        return self._bindings[var]

    def literal(self, var: Var) -> bool | int | float | None:
        """The number, if all lanes are one that is known."""
        found = self._bindings.get(var)
        return found.value if isinstance(found, Reg) else None

    def uniform(self, var: Var) -> Reg | None:
        """The scalar register, if all lanes agree."""
        found = self._bindings[var]
        return found if isinstance(found, Reg) and found.type.lanes == 1 else None

    def spread(self, var: Var) -> Reg:
        """The value with as many lanes as the code under emission has."""
        found = self._bindings[var]
        if isinstance(found, LinearLanes):
            if self.lanes == 1:
                return found.base
            e, vector = self.e, ltype("i64", self.lanes)
            offsets = e.iota(vector)
            if not is_literal(found.stride, 1):
                offsets = offsets * e.splat(found.stride, self.lanes)
            return e.splat(found.base, self.lanes) + offsets
        if isinstance(found, KnownLanes):
            return self.e.lanes(found.lanes, ltype(element_of(var.dtype), self.lanes))
        if isinstance(found, Repeated):
            with self.grouped({var: found.groups}, found.times):
                groups = self.spread(var)
            order = [lane // found.times for lane in range(self.lanes)]
            return self.e.shuffled(groups, groups, order)
        return self.e.splat(found, self.lanes)

    @contextmanager
    def grouped(self, bindings: Mapping[Var, Binding], times: int) -> Iterator[None]:
        """Inside, a lane stands for ``times`` equal ones, as ``bindings`` say; they end with it."""
        before = {var: self._bindings[var] for var in bindings}
        self._bindings.update(bindings)
        self.lanes //= times
        yield
        self.lanes *= times
        self._bindings.update(before)

    def pointer(self, buffer: Buffer) -> Reg:
        """Where a buffer starts."""
        return self._pointers[buffer]

    def place(self, buffer: Buffer, pointer: Reg) -> None:
        """Says where a buffer starts from here on."""
        self._pointers[buffer] = pointer

    def size(self, size: Size) -> Reg:
        """A dim or a scalar that all lanes agree on, as an i64 register or literal."""
        if not isinstance(size, Var):
            return self.dim(size)
        found = self.uniform(size)
        assert found is not None, "lanes agree on sizes"
        return found

    def dim(self, dim: Dim) -> Reg:
        """A dim as an i64 register or literal."""
        return self.dims.of(dim)

    def bounds(self, statement: Block) -> tuple[Reg, Reg]:
        """The iterations to run: those in the range, or all of a loop that is not cut."""
        if self.ranges.cuts(statement):
            return self.ranges.bounds(statement)
        return self.e.const(0), self.size(statement.extent)

    # --- statements ------------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement]) -> None:
        """Emits statements in order, for the current number of lanes."""
        functions = self._emitters.statements
        for statement in body:
            functions[type(statement)](self, statement)

    @contextmanager
    def unreported(self) -> Iterator[None]:
        """Inside, checks give the places that numbers say, and report none: their turn comes."""
        self.reports = False
        yield
        self.reports = True

    def iteration(self, body: Sequence[Statement]) -> None:
        """Emits a body of whose scalars nothing behind it reads any."""
        self._emitters.iteration(self, body)


__all__ = ["Emitters", "KernelScope"]
