"""The invariants of kernels, checked.

Code generation and the interpreter rely on every rule here and check none of them again: each
scalar is defined once and read only where its block is open, dtypes agree, only outputs and scratch
are written, loops nest in ways that have a meaning, and no index is provably outside its buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, get_args

import numpy as np

from graphc.base.errors import VerifyError
from graphc.ir.dims import expressions
from graphc.ir.dtypes import DType, bool_, int64
from graphc.ir.lowering import Combine
from graphc.kernel import panels
from graphc.kernel.analysis.index_range import Affine, note_form, outside
from graphc.kernel.analysis.split import possible_levels, with_split
from graphc.kernel.ir import (
    CASCADED,
    Block,
    Buffer,
    Kernel,
    LoopKind,
    Order,
    Role,
    Statement,
    Var,
    lanes,
    walk,
)
from graphc.kernel.printer import MAXIMUM_NESTING, print_statement
from graphc.kernel.routines import REGISTRY
from graphc.kernel.scalar import PRIMITIVES, stop_between
from graphc.kernel.schedule.kind import refusal
from graphc.kernel.schedule.nest import Nest
from graphc.kernel.statements.blocks import Loop, Reduce, reduced_dtype
from graphc.kernel.statements.memory import Load, Store
from graphc.kernel.statements.products import MAX_NEAR, Contract
from graphc.kernel.statements.routines import Call
from graphc.kernel.statements.scalars import Apply, Cast, Check, Const, DimValue

_ROLES = get_args(Role)
_KINDS = get_args(LoopKind)
_ORDERS = get_args(Order)
_COMBINES = get_args(Combine)


def verify_kernel(kernel: Kernel) -> None:
    """Checks a kernel.

    Raises:
        VerifyError: naming the kernel, the rule and the statement.
    """
    _Verifier(kernel).run()


class _Frame:
    """An open block: how it iterates and what is defined in it."""

    __slots__ = ("body", "defined", "owner", "position", "vectorised")

    def __init__(
        self, owner: Block | None, body: Sequence[Statement], vectorised: bool
    ) -> None:
        self.owner = owner
        self.body = body
        self.position = 0
        self.defined: list[Var] = []
        self.vectorised = vectorised


class _Verifier:
    """One walk in program order; ``visible`` holds the scalars of the open blocks."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._buffers = set(kernel.buffers)
        self._ever: set[Var] = set()
        self._visible: set[Var] = set()
        self._frames: list[_Frame] = []
        self._forms: dict[Var, Affine] = {}
        self._current: Statement | None = None

    def _fail(self, problem: str) -> NoReturn:
        node = print_statement(self._kernel, self._current) if self._current is not None else None
        raise VerifyError(f"kernel {self._kernel.name!r}: {problem}", node=node)

    def _require(self, holds: bool, problem: str) -> None:
        if not holds:
            self._fail(problem)

    # --- the walk --------------------------------------------------------------------------------

    def run(self) -> None:
        """Checks everything."""
        self._check_buffers()
        self._check_symbols()
        self._check_split()
        self._check_schedule()
        self._frames.append(_Frame(None, self._kernel.body, False))
        while self._frames:
            frame = self._frames[-1]
            if frame.position == len(frame.body):
                self._leave(frame)
                continue
            statement = frame.body[frame.position]
            frame.position += 1
            self._current = statement
            block = statement.block
            if block is not None:
                self._enter(block)
            else:
                for operand in statement.operands:
                    self._read(operand)
                self._statement(statement)

    def _check_buffers(self) -> None:
        names: set[str] = set()
        for buffer in self._kernel.buffers:
            self._require(buffer.role in _ROLES, f"buffer {buffer.name!r} has no such role")
            self._require(buffer.name not in names, f"two buffers are called {buffer.name!r}")
            names.add(buffer.name)

    def _check_split(self) -> None:
        split, found = self._kernel.split, len(possible_levels(self._kernel))
        if split is None:
            return
        self._require(
            1 <= split.levels <= found,
            f"ranges go over {split.levels} levels, of which there are {found}",
        )
        known = with_split(self._kernel, split.levels).split
        self._require(split == known, f"{split} is not {known}")

    def _check_schedule(self) -> None:
        schedule = self._kernel.schedule
        if not schedule:
            return
        statements, nest = set(walk(self._kernel.body)), Nest(self._kernel)
        for statement, chosen in schedule.items():
            self._require(statement in statements, f"{chosen} is of no statement of the kernel")
            self._current = statement
            found = refusal(chosen, nest, statement)
            self._require(found is None, f"a statement can't be {chosen}: {found}")
        self._current = None

    def _check_symbols(self) -> None:
        bounds: dict[str, tuple[int | None, int | None]] = {}
        for symbol in self._kernel.symbols:
            name = expressions.symbol_name(symbol)
            known = bounds.setdefault(name, expressions.bounds(symbol))
            self._require(known == expressions.bounds(symbol), f"symbol {name!r} has two bounds")

    def _define(self, var: Var, dtype: DType | None = None) -> None:
        self._require(var not in self._ever, "a scalar is defined twice")
        if dtype is not None:
            self._require(var.dtype is dtype, f"the result is {var.dtype}, not {dtype}")
        self._ever.add(var)
        self._visible.add(var)
        self._frames[-1].defined.append(var)

    def _read(self, var: Var, dtype: DType | None = None, what: str = "an operand") -> None:
        if var not in self._visible:
            scope = "outside its block" if var in self._ever else "before it is defined"
            self._fail(f"{what} is read {scope}")
        if dtype is not None:
            self._require(var.dtype is dtype, f"{what} is {var.dtype}, not {dtype}")

    def _enter(self, statement: Block) -> None:
        outer = self._frames[-1]
        self._require(
            len(self._frames) <= MAXIMUM_NESTING, f"more than {MAXIMUM_NESTING} nested loops"
        )
        extent = statement.extent
        if isinstance(extent, Var):
            self._require(
                statement.loop("serial") is None,
                "iterations that run in order are counted by a dim",
            )
            self._read(extent, int64, "the extent")
            self._require(
                not any(
                    extent in frame.defined
                    for frame in self._frames
                    if frame.vectorised or (frame.owner is not None and frame.owner.reducers)
                ),
                "iterations that run side by side would differ in an extent",
            )
        else:
            _, high = expressions.bounds(extent)
            self._require(high is None or high >= 0, f"no loop has the extent {extent}")
        CHECKS[type(statement)](self, statement)
        vectorised = outer.vectorised or statement.lanes_inside
        self._frames.append(_Frame(statement, statement.body, vectorised))
        self._define(statement.index, int64)
        note_form(self._forms, statement)
        for carry in statement.carries:
            self._define(carry.argument, carry.initial.dtype)

    def _check_reduce(self, statement: Reduce) -> None:
        self._require(statement.order in _ORDERS, f"no order is called {statement.order!r}")
        self._require(
            not (statement.order == "lanes" and self._frames[-1].vectorised),
            "a lanes reduction stands inside a vector loop or lanes reduction",
        )
        self._require(bool(statement.reducers), "a reduction without results")
        if statement.condition is not None:
            self._read(statement.condition, bool_, "the condition")
            self._require(
                not any(s.writes or s.may_fail for s in walk(statement.body)),
                "a reduction with a condition has effects",
            )

    def _check_loop(self, statement: Loop) -> None:
        kind, outer = statement.kind, self._frames[-1]
        self._require(kind in _KINDS, f"no loop is of kind {kind!r}")
        if kind == "vector":
            self._require(
                not outer.vectorised,
                "a vector loop stands inside a vector loop or lanes reduction",
            )
        if kind in ("parallel", "across"):
            reduces = outer.owner is not None and bool(outer.owner.reducers)
            self._require(
                not outer.vectorised and not reduces,
                f"a loop of kind {kind} stands inside a vector loop or reduction",
            )
        self._require(kind == "serial" or not statement.carries, f"a {kind} loop carries values")
        for carry in statement.carries:
            self._read(carry.initial, None, "an initial value")
        lasts = statement.lasts
        carried = lasts is None or any(carry.argument is lasts for carry in statement.carries)
        self._require(carried, "what says whether a loop goes on is not carried")
        self._require(lasts is None or lasts.dtype is bool_, "a loop goes on by what is no bool")

    def _leave(self, frame: _Frame) -> None:
        owner = self._current = frame.owner
        if owner is not None:
            for carry in owner.carries:
                self._read(carry.following, carry.argument.dtype, "a carried value")
            for reducer in owner.reducers:
                self._read(reducer.term, None, "a term")
        self._visible.difference_update(frame.defined)
        self._frames.pop()
        if owner is not None:
            for carry in owner.carries:
                self._define(carry.result, carry.argument.dtype)
            self._reducers(owner)

    def _reducers(self, owner: Block) -> None:
        width = max((lanes(reducer.term.dtype) for reducer in owner.reducers), default=0)
        for reducer in owner.reducers:
            dtype, combine = reducer.term.dtype, reducer.combine
            self._require(combine in _COMBINES, f"no combination is called {combine!r}")
            self._require(
                combine not in ("and", "or", "xor") or not dtype.is_float, f"{combine} of {dtype}"
            )
            self._require(combine != "squares" or dtype.is_float, f"{combine} of {dtype}")
            # Code runs all reducers with as many lanes as the widest needs.
            self._require(
                owner.order == "chain"
                or not (dtype.is_rounded and combine in CASCADED)
                or lanes(dtype) == width,
                f"a lanes reduction of {dtype} beside one that has {width} lanes",
            )
            self._define(reducer.result, reduced_dtype(combine, dtype))

    # --- statements ------------------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        check = CHECKS.get(type(statement))
        if check is None:
            self._fail(f"{type(statement).__name__} is no statement")
        check(self, statement)
        note_form(self._forms, statement)

    def _check_dim(self, statement: DimValue) -> None:
        self._define(statement.result, int64)

    def _check_cast(self, statement: Cast) -> None:
        source, target = statement.operand.dtype, statement.result.dtype
        between = stop_between(source, target)
        self._require(between is None, f"{source} becomes {target} by way of {between}")
        self._define(statement.result)

    def _check_check(self, statement: Check) -> None:
        self._read(statement.index, int64, "the index")
        self._require(
            0 <= statement.site < len(self._kernel.sites), f"there is no site {statement.site}"
        )
        self._define(statement.result, int64)

    def _check_store(self, statement: Store) -> None:
        self._check_written(statement.buffer)
        self._read(statement.index, int64, "the index")
        self._read(statement.value, statement.buffer.type.dtype, "the value")
        self._check_range(statement.buffer, statement.index)

    def _check_const(self, statement: Const) -> None:
        value, dtype = statement.value, statement.result.dtype
        if dtype.is_float:
            right = type(value) is float
            if right:
                with np.errstate(all="ignore"):
                    rounded = dtype.numpy.type(value).item()
                right = rounded == value or value != value
        elif dtype is bool_:
            right = type(value) is bool
        else:
            right = type(value) is int and dtype.least <= value <= dtype.greatest
        self._require(right, f"{value!r} is not a literal of {dtype}")
        self._define(statement.result)

    def _check_apply(self, statement: Apply) -> None:
        definition = PRIMITIVES.get(statement.primitive)
        if definition is None:
            self._fail(f"no primitive is called {statement.primitive!r}")
        operands = statement.operands
        count = len(operands)
        self._require(
            count == definition.arity,
            f"{statement.primitive} takes {definition.arity} operands, not {count}",
        )
        alike = operands
        if definition.result == "second":
            self._read(operands[0], bool_, "the condition")
            alike = operands[1:]
        dtype = alike[0].dtype
        self._require(
            definition.takes(dtype), f"{statement.primitive} does not take {dtype}"
        )
        for operand in alike:
            self._read(operand, dtype)
        self._define(
            statement.result, definition.result_dtype([operand.dtype for operand in operands])
        )

    def _check_buffer(self, buffer: Buffer) -> None:
        self._require(buffer in self._buffers, f"buffer {buffer.name!r} is not the kernel's")

    def _check_written(self, buffer: Buffer) -> None:
        self._check_buffer(buffer)
        self._require(buffer.role != "in", f"input {buffer.name!r} is written")

    def _check_load(self, statement: Load) -> None:
        dtype = statement.buffer.type.dtype
        self._check_buffer(statement.buffer)
        self._read(statement.index, int64, "the index")
        self._require(
            (statement.condition is None) == (statement.other is None),
            "a guarded load needs a condition and another value",
        )
        if statement.condition is not None and statement.other is not None:
            self._read(statement.condition, bool_, "the condition")
            self._read(statement.other, dtype, "the other value")
        else:
            self._check_range(statement.buffer, statement.index)
        self._define(statement.result, dtype)

    def _check_range(self, buffer: Buffer, index: Var) -> None:
        if any(frame.owner is not None and frame.owner.extent == 0 for frame in self._frames):
            return
        form = self._forms.get(index)
        place = outside(form, buffer.type.size) if form is not None else None
        if place is not None:
            self._fail(
                f"index {place} is outside buffer {buffer.name!r} of {buffer.type.size} elements"
            )

    def _check_contract(self, statement: Contract) -> None:
        self._require(
            not self._frames[-1].vectorised, "a product stands inside a vector loop"
        )
        dtype = statement.c.buffer.type.dtype
        for matrix in (statement.a, statement.b, statement.c):
            self._check_buffer(matrix.buffer)
            self._read(matrix.offset, int64, "an offset")
            found = matrix.buffer.type.dtype
            self._require(found is dtype, f"a product of {found} into {dtype}")
        self._check_written(statement.c.buffer)
        for size in statement.sizes:
            if isinstance(size, Var):
                self._read(size, int64, "a size")
        self._require(
            statement.template in ("panel", "packed"), f"no template {statement.template!r}"
        )
        if statement.template == "packed":
            shape, b = statement.b.buffer.type.shape, statement.b
            k = statement.k
            known = isinstance(k, int) and panels.holds(shape, k)
            self._require(known, f"a buffer of shape {shape} does not hold packed rows of {k}")
            strides = (b.row_stride, b.column_stride)
            self._require(strides == (shape[3], 1), "strides are not those inside a panel")
        self._require(statement.c.column_stride == 1, "the product's columns are not adjacent")
        self._require(
            statement.c.buffer not in (statement.a.buffer, statement.b.buffer),
            "a product overwrites its operand",
        )
        self._require(len(statement.near) <= MAX_NEAR, f"more than {MAX_NEAR} matrices near")
        for matrix in statement.near:
            self._check_buffer(matrix.buffer)
            self._read(matrix.offset, int64, "an offset")
            self._require(
                matrix.buffer.role != "out" and matrix.buffer.type.dtype.bytes == dtype.bytes,
                f"{matrix.buffer.name!r} is no operand with elements as large as the product's",
            )
            self._require(matrix.column_stride == 1, "columns brought near are not adjacent")
        self._check_workspace(statement.workspace)

    def _check_call(self, statement: Call) -> None:
        self._require(not self._frames[-1].vectorised, "a call stands inside a vector loop")
        found = REGISTRY.get(statement.routine)
        if found is None:
            self._fail(f"no routine is called {statement.routine!r}")
        counts = (
            ("sources", found.sources, len(statement.sources)),
            ("targets", found.targets, len(statement.targets)),
            ("numbers", len(found.numbers), len(statement.numbers)),
        )
        for what, wanted, given in counts:
            self._require(wanted == given, f"{found.name} takes {wanted} {what}, not {given}")
        self._require(
            (found.fault is None) == (statement.site is None),
            f"{found.name} has no check, though it may fail, or one that it needs not",
        )
        if statement.site is not None:
            known = 0 <= statement.site < len(self._kernel.sites)
            self._require(known, f"there is no site {statement.site}")
        for span in statement.spans:
            self._check_buffer(span.buffer)
            self._read(span.offset, int64, "an offset")
        for span in statement.targets:
            self._check_written(span.buffer)
        for size in statement.sizes:
            if isinstance(size, Var):
                self._read(size, int64, "a size")
        self._require(
            not set(statement.reads) & {*statement.writes, *statement.scratch},
            "a routine overwrites what it reads",
        )
        self._check_workspace(statement.workspace)

    def _check_workspace(self, room: Buffer | None) -> None:
        if room is not None:
            self._check_buffer(room)
            self._require(room.role == "scratch", f"workspace {room.name!r} is no scratch")


CHECKS: Mapping[type[Statement], Callable[[_Verifier, Any], None]] = {
    Const: _Verifier._check_const,
    DimValue: _Verifier._check_dim,
    Apply: _Verifier._check_apply,
    Cast: _Verifier._check_cast,
    Load: _Verifier._check_load,
    Check: _Verifier._check_check,
    Store: _Verifier._check_store,
    Contract: _Verifier._check_contract,
    Call: _Verifier._check_call,
    Loop: _Verifier._check_loop,
    Reduce: _Verifier._check_reduce,
}
"""The rules of each class; of one with a body those that hold before it."""


__all__ = ["CHECKS", "verify_kernel"]
