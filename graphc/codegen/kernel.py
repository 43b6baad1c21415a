"""One kernel to one LLVM function.

    void name(ptr buffers, ptr dims, ptr status, i64 begin, i64 end, i64 seat)

``buffers`` is an array of pointers in the kernel's order, ``dims`` the int64 values of
``kernel.sizes`` and ``status`` four int64s (code, site, value, bound) of which a failing check
fills in the first to happen. A kernel that is split runs the iterations from ``begin`` to ``end``,
what follows them being one more, and of each scratch buffer uses the copy of its ``seat``; others
run everything.

Vector loops are emitted twice by the same code, for vectors and for what is left, so both agree to
the bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.base.errors import UnsupportedError
from graphc.base.lazily import once
from graphc.base.target import CACHE_LINE, Target
from graphc.codegen.binding import Binding, Linear, is_literal, storage
from graphc.codegen.dims import DimRegs
from graphc.codegen.emitter import (
    I64,
    POINTER_ALIGN,
    PTR,
    FunctionEmitter,
    ModuleEmitter,
    Reg,
    element_of,
    ltype,
)
from graphc.codegen.flat_rows import emit_flat_rows
from graphc.codegen.gathering import ask_ahead, picked_rows
from graphc.codegen.gemm import columns_before, gemm_library
from graphc.codegen.lanes import any_lane, first_lane
from graphc.codegen.leftover import emit_leftover, fitting, vector_width
from graphc.codegen.memory import AHEAD, Held, ask_for_streams, load_element, store_element
from graphc.codegen.ranges import Ranges
from graphc.codegen.scalar import emit_cast, emit_primitive
from graphc.codegen.seldom import emit_iteration, emit_reduce
from graphc.codegen.shared_rows import emit_shared_rows
from graphc.codegen.staggered import emit_staggered
from graphc.codegen.streaming import finish_stores, read_once, start_of_lines, streamed_buffers
from graphc.codegen.stripes import emit_stripes
from graphc.codegen.tiles import emit_across
from graphc.ir.dims import Dim, ceil_div
from graphc.kernel.index_range import Affine, index_forms
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Cast,
    Check,
    Const,
    Contract,
    DimValue,
    Kernel,
    Load,
    Loop,
    MatrixOperand,
    Reduce,
    Size,
    Statement,
    Store,
    Var,
)
from graphc.kernel.panels import panel_width
from graphc.kernel.split import divided, is_streamed
from graphc.plan.table import INDEX_ERROR

ATTRIBUTES = "nounwind alignstack(64)"
"""Of kernels. What registers have no room for lies on the stack, and so does all that glue saves
around calls: each vector in one line of the cache. Else one now and then lies across the end of
a page, by where the system puts the stack: a chain of functions took five times as long in one
process of twenty."""


class KernelEmitter:
    """Emits one kernel into a module.

    Attributes:
        lanes: how many elements the code under emission computes at once.
        mask: which of these there are, None for all.
        dims: the values of dims.
        held: what some lanes have left in scratch since the last loop over rows began or ended.
    """

    def __init__(
        self, module: ModuleEmitter, kernel: Kernel, symbol: str, target: Target, glue: bool
    ) -> None:
        self.module = module
        self.kernel = kernel
        self.target = target
        self.e = FunctionEmitter(
            module,
            symbol,
            (
                ("ptr noalias", "%buffers"), ("ptr noalias", "%dims"), ("ptr", "%status"),
                ("i64", "%begin"), ("i64", "%end"), ("i64", "%seat"),
            ),
            attributes=ATTRIBUTES,
        )  # fmt: skip
        self.lanes = 1
        self.mask: Reg | None = None
        self.held: dict[Buffer, Held] = {}
        self._glue = glue
        self._bindings: dict[Var, Binding] = {}
        self._pointers: dict[Buffer, Reg] = {}
        self.dims = DimRegs(self.e)
        self.read_once = read_once(kernel)
        self.streamed: dict[Buffer, Reg] = {}
        self.streaming: dict[Store, Reg] = {}
        self.tiles: dict[Load, Reg] = {}
        self.ranges = Ranges(self.e, kernel, self.dim)

    @once
    def forms(self) -> Mapping[Var, Affine]:
        """The forms of all scalars that have one; most kernels need none."""
        return index_forms(self.kernel)

    def emit(self) -> None:
        """Defines the function."""
        e = self.e
        for position, buffer in enumerate(self.kernel.buffers):
            slot = e.element_pointer(Reg("%buffers", PTR), e.const(position, I64), "ptr")
            self._pointers[buffer] = e.load(slot, PTR, POINTER_ALIGN)
        for position, part in enumerate(self.kernel.sizes):
            slot = e.element_pointer(Reg("%dims", PTR), e.const(position, I64), "i64")
            self.dims.given[part] = e.load(slot, I64, 8)
        for buffer in self.kernel.buffers:
            if buffer.role == "scratch" and self.kernel.split is not None:
                lines = self.dim(ceil_div(buffer.type.bytes, CACHE_LINE) * CACHE_LINE)
                copy = e.binary("mul", lines, Reg("%seat", I64))
                self._pointers[buffer] = e.element_pointer(self._pointers[buffer], copy, "i8")
        self.streamed = streamed_buffers(self, self.kernel)
        self.iteration(self.kernel.body)
        finish_stores(self)
        e.finish()

    # --- bindings --------------------------------------------------------------------------------

    def bind(self, var: Var, binding: Binding) -> None:
        """Says what a scalar is while emitting the current lanes."""
        self._bindings[var] = binding

    def binding(self, var: Var) -> Binding:
        """What a scalar is: uniform, per lane, or linear over lanes."""
        return self._bindings[var]

    def uniform(self, var: Var) -> Reg | None:
        """The scalar register, if all lanes agree."""
        found = self._bindings[var]
        return found if isinstance(found, Reg) and found.type.lanes == 1 else None

    def spread(self, var: Var) -> Reg:
        """The value with as many lanes as the code under emission has."""
        found = self._bindings[var]
        if isinstance(found, Linear):
            if self.lanes == 1:
                return found.base
            e, vector = self.e, ltype("i64", self.lanes)
            offsets = e.iota(vector)
            if not is_literal(found.stride, 1):
                offsets = e.binary("mul", offsets, e.splat(found.stride, self.lanes))
            return e.binary("add", e.splat(found.base, self.lanes), offsets)
        return self.e.splat(found, self.lanes)

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

    # --- statements ------------------------------------------------------------------------------

    def statements(self, body: Sequence[Statement]) -> None:
        """Emits statements in order, for the current number of lanes."""
        for statement in body:
            if isinstance(statement, Apply):
                self._apply(statement)
            elif isinstance(statement, Load):
                self.bind(statement.result, load_element(self, statement))
            elif isinstance(statement, Store):
                store_element(self, statement)
            elif isinstance(statement, Const):
                dtype = statement.result.dtype
                self.bind(statement.result, self.e.const(statement.value, ltype(element_of(dtype))))
            elif isinstance(statement, Cast):
                self._cast(statement)
            elif isinstance(statement, DimValue):
                self.bind(statement.result, self.dim(statement.dim))
            elif isinstance(statement, Check):
                self._check(statement)
            elif isinstance(statement, Reduce):
                emit_reduce(self, statement)
            elif isinstance(statement, Loop):
                self._loop(statement)
            else:
                self._contract(statement)

    def iteration(self, body: Sequence[Statement]) -> None:
        """Emits a body of whose scalars nothing behind it reads any."""
        emit_iteration(self, body)

    def _apply(self, statement: Apply) -> None:
        operands = [self._bindings[var] for var in statement.operands]
        dtype = statement.operands[-1].dtype
        if all(isinstance(o, Reg) and o.type.lanes == 1 for o in operands):
            regs = [o for o in operands if isinstance(o, Reg)]
            self.bind(statement.result, emit_primitive(self.e, statement.primitive, regs, dtype))
            return
        linear = self._linear(statement.primitive, operands)
        if linear is not None:
            self.bind(statement.result, linear)
            return
        regs = [self.spread(var) for var in statement.operands]
        self.bind(statement.result, emit_primitive(self.e, statement.primitive, regs, dtype))

    def _linear(self, primitive: str, operands: Sequence[Binding]) -> Linear | None:
        """Sums and multiples of linear and uniform indices stay linear."""
        if len(operands) != 2 or not any(isinstance(o, Linear) for o in operands):
            return None
        e, (a, b) = self.e, operands
        for operand in operands:
            if isinstance(operand, Reg) and operand.type.lanes != 1:
                return None
        if primitive in ("add", "subtract"):
            name = "add" if primitive == "add" else "sub"
            left = a if isinstance(a, Linear) else Linear(a, e.const(0, I64))
            right = b if isinstance(b, Linear) else Linear(b, e.const(0, I64))
            return Linear(
                e.binary(name, left.base, right.base), self._fold(name, left.stride, right.stride)
            )
        if primitive == "multiply":
            if isinstance(a, Linear) and isinstance(b, Reg):
                return Linear(e.binary("mul", a.base, b), self._fold("mul", a.stride, b))
            if isinstance(b, Linear) and isinstance(a, Reg):
                return Linear(e.binary("mul", b.base, a), self._fold("mul", b.stride, a))
        return None

    def _fold(self, name: str, a: Reg, b: Reg) -> Reg:
        """Integer arithmetic on strides, done now if both are literals or one changes nothing."""
        unit = int(name == "mul")
        if is_literal(b, unit) or (name != "sub" and is_literal(a, unit)):
            return a if is_literal(b, unit) else b
        try:
            x, y = int(a.text), int(b.text)
        except ValueError:
            return self.e.binary(name, a, b)
        value = x + y if name == "add" else x - y if name == "sub" else x * y
        return self.e.const(value, I64)

    def _cast(self, statement: Cast) -> None:
        source, target = statement.operand.dtype, statement.result.dtype
        operand = self.uniform(statement.operand)
        if operand is None:
            operand = self.spread(statement.operand)
        self.bind(statement.result, emit_cast(self.e, operand, source, target))

    def _check(self, statement: Check) -> None:
        e = self.e
        index = self.uniform(statement.index)
        if index is None:
            index = self.spread(statement.index)
        lanes = index.type.lanes
        bound_scalar = self.dim(statement.bound)
        bound = e.splat(bound_scalar, lanes)
        zero = e.const(0, index.type)
        wrapped = index
        if statement.wraps:
            wrapped = e.select(e.icmp("slt", index, zero), e.binary("add", index, bound), index)
        bad = e.icmp("uge", wrapped, bound)
        if self.mask is not None and lanes > 1:
            bad = e.binary("and", bad, self.mask)
        some, first = bad, index
        if lanes > 1:
            some = any_lane(e, bad)
        with e.when(some):
            if lanes > 1:
                first = e.assign(I64, f"extractelement {index}, {first_lane(e, bad)}")
            self._report(INDEX_ERROR, statement.site, first, bound_scalar)
        self.bind(statement.result, e.select(bad, zero, wrapped))

    def _report(self, code: int, site: int, value: Reg, bound: Reg) -> None:
        """Fills the status record unless something failed before."""
        e = self.e
        status = Reg("%status", PTR)
        clear = e.icmp("eq", e.load(status, I64, 8), e.const(0, I64))
        with e.when(clear):
            for position, item in enumerate((e.const(code, I64), e.const(site, I64), value, bound)):
                e.store(item, e.element_pointer(status, e.const(position, I64), "i64"), 8)

    # --- loops -----------------------------------------------------------------------------------

    def _loop(self, statement: Loop) -> None:
        if statement.kind == "vector" and self.lanes == 1:
            self.vector_loop(statement)
            return
        if statement.kind == "across" and emit_across(self, statement):
            return
        if self.lanes == 1 and any(
            emit(self, statement) for emit in (emit_staggered, emit_flat_rows, emit_shared_rows)
        ):
            return
        e = self.e
        initial = [self.spread(carry.initial) for carry in statement.carries]
        lower, upper = self.bounds(statement)
        picked = picked_rows(statement, self.target.l2_bytes) if self.lanes == 1 else []
        self.held = {}
        with e.loop(lower, upper, 1, initial) as loop:
            if picked:
                ask_ahead(self, statement, picked, loop.index, upper)
            self.bind(statement.index, loop.index)
            for carry, register in zip(statement.carries, loop.carries, strict=True):
                self.bind(carry.argument, register)
            with self.ranges.iteration(statement, loop.index):
                (self.statements if statement.carries else self.iteration)(statement.body)
            loop.yields = [self.spread(carry.following) for carry in statement.carries]
        self.held = {}
        for carry, register in zip(statement.carries, loop.results, strict=True):
            self.bind(carry.result, register)

    def bounds(self, statement: Loop) -> tuple[Reg, Reg]:
        """The iterations to run: those in the range, or all of a loop that is not cut."""
        if self.ranges.cuts(statement):
            return self.ranges.bounds(statement)
        return self.e.const(0, I64), self.size(statement.extent)

    def vector_loop(
        self, statement: Loop, bounds: tuple[Reg, Reg] | None = None, ahead: int = AHEAD
    ) -> None:
        """Emits a vector loop, over a part of its elements or over all it is to run.

        Where it streams it asks for what it reads so many bytes ahead.
        """
        e, extent = self.e, statement.extent
        width = vector_width(statement.body, self.target, self._glue)
        if isinstance(extent, int):
            width = fitting(width, extent, self.target)
        if emit_stripes(self, statement, width):
            return
        cut = bounds is not None or self.ranges.cuts(statement)
        lower, upper = bounds or self.bounds(statement)
        if isinstance(extent, int) and extent < max(width, 2):
            emit_leftover(self, statement, lower, upper, width, None if cut else extent)
            return
        self.streaming.clear()
        start = start_of_lines(self, statement.body, statement.index, extent, lower)
        if start is not None:
            start = e.intrinsic("smin", I64, start, upper)
            rest = e.binary("and", e.binary("sub", upper, start), e.const(-width, I64))
            whole = e.binary("add", start, rest)
        elif isinstance(extent, int) and not cut:
            whole = e.const(extent - extent % width, I64)
        else:
            count = e.binary("sub", upper, lower)
            whole = e.binary("add", lower, e.binary("and", count, e.const(-width, I64)))
        self.lanes = width
        with e.loop(start or lower, whole, width) as loop:
            self.bind(statement.index, Linear(loop.index, e.const(1, I64)))
            self.iteration(statement.body)
            ask_for_streams(self, statement.body, width, ahead)
        self.lanes = 1
        self.streaming.clear()
        if start is not None:
            # what lies before the first line and after the last, by one piece of code
            zero = e.const(0, I64)
            with e.loop(zero, e.const(2, I64), 1) as part:
                before = e.icmp("eq", part.index, zero)
                first = e.select(before, lower, whole)
                past = e.select(before, start, upper)
                emit_leftover(self, statement, first, past, width, None)
        elif not isinstance(extent, int) or extent % width:
            known = extent % width if isinstance(extent, int) and not cut else None
            emit_leftover(self, statement, whole, upper, width, known)

    # --- matrix products -------------------------------------------------------------------------

    def _contract(self, statement: Contract) -> None:
        e = self.e
        self.held.pop(statement.c.buffer, None)
        dtype = statement.c.buffer.type.dtype
        packed = statement.template == "packed"
        symbol, library = gemm_library(dtype, self.target, packed)
        self.module.libraries[symbol] = library
        a, b, c = (self._matrix(m) for m in (statement.a, statement.b, statement.c))
        m, n, k = (self.size(size) for size in (statement.m, statement.n, statement.k))
        strides = [self.size(statement.a.row_stride), self.size(statement.a.column_stride)]
        if packed:
            _, panels, depth, width = statement.b.buffer.type.shape
            if width != panel_width(dtype, self.target):
                raise UnsupportedError(
                    f"contract_panels: panels of {width} columns are not for this target, whose "
                    f"panels have {panel_width(dtype, self.target)}"
                )
            strides += [self.dim(depth), self.dim(panels * width)]
        else:
            strides += [self.size(statement.b.row_stride), self.size(statement.b.column_stride)]
        strides.append(self.size(statement.c.row_stride))
        room = (
            self.pointer(statement.workspace)
            if statement.workspace is not None
            else Reg("null", PTR)
        )
        near = [self._matrix(matrix) for matrix in statement.near]
        if self.ranges.cuts(statement):
            a, b, c, near, m, n = self._part_of_product(statement, a, b, c, near, m, n)
        table = self._near(statement, near)
        operands = (a, b, c, m, n, k, *strides, room, table, e.const(len(near), I64))
        self.module.declare(symbol, "void", ", ".join(str(operand.type) for operand in operands))
        e.call(symbol, None, *operands)

    def _part_of_product(
        self, statement: Contract, a: Reg, b: Reg, c: Reg, near: list[Reg], m: Reg, n: Reg
    ) -> tuple[Reg, Reg, Reg, list[Reg], Reg, Reg]:
        """The operands and sizes of the rows or columns of a product in the present range."""
        e = self.e
        name, size, block = divided(statement)
        element = storage(statement.c.buffer.type.dtype)
        bounds = self.ranges.bounds(statement)
        first, past = (e.binary("mul", bound, e.const(block, I64)) for bound in bounds)
        if name == "n" and is_streamed(statement):
            zero, end = e.const(0, I64), self.size(size)
            before = columns_before(e, b, statement.b.buffer.type.dtype.bytes)
            is_end = e.icmp("sge", past, end)
            first = e.intrinsic("smax", I64, e.binary("sub", first, before), zero)
            past = e.select(is_end, end, e.binary("sub", past, before))
        count = e.binary("sub", e.intrinsic("smin", I64, past, self.size(size)), first)

        def at(base: Reg, stride: Size) -> Reg:
            offset = e.binary("mul", first, self.size(stride))
            return e.element_pointer(base, offset, element)

        if name == "m":
            rows = (statement.a.row_stride, statement.c.row_stride)
            strides = [matrix.row_stride for matrix in statement.near]
            near = list(map(at, near, strides))
            return at(a, rows[0]), b, at(c, rows[1]), near, count, n
        packed = statement.template == "packed"
        # a column of panels is as long as they are deep
        stride = statement.b.buffer.type.shape[-2] if packed else statement.b.column_stride
        return a, at(b, stride), at(c, 1), [at(place, 1) for place in near], m, count

    def _near(self, statement: Contract, near: list[Reg]) -> Reg:
        """A table of what to bring near: addresses and the bytes from one row to the next."""
        if not near:
            return Reg("null", PTR)
        e = self.e
        table = e.alloca(I64, 2 * len(near))
        for number, (place, matrix) in enumerate(zip(near, statement.near, strict=True)):
            size = e.const(matrix.buffer.type.dtype.bytes, I64)
            stride = e.binary("mul", self.size(matrix.row_stride), size)
            for offset, value in enumerate((place, stride)):
                entry = e.element_pointer(table, e.const(2 * number + offset, I64), "i64")
                e.store(value, entry, 8)
        return table

    def _matrix(self, operand: MatrixOperand) -> Reg:
        offset = self.uniform(operand.offset)
        assert offset is not None, "matrix products stand in scalar loops"
        return self.e.element_pointer(
            self.pointer(operand.buffer), offset, storage(operand.buffer.type.dtype)
        )


def emit_kernel(
    module: ModuleEmitter, kernel: Kernel, symbol: str, target: Target, glue: bool = False
) -> None:
    """Defines a kernel's function in a module; ``graphc.codegen.elementary`` says what is glue."""
    KernelEmitter(module, kernel, symbol, target, glue).emit()
