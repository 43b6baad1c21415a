"""The reference interpreter of kernels: what they mean, in NumPy.

Every enclosing parallel or vector loop and every reduction is an axis of the arrays that stand for
scalars, so a kernel over millions of elements takes few NumPy calls; serial loops, and those in
which the size of something is worked out, run one iteration after the other. Loops of great volume
run in blocks of their index, which bounds memory. A scalar has one axis per enclosing loop that
runs side by side, of length 1 where it does not vary.

Every access is checked. After a failed check of a user's index the outputs are void, and accesses
that leave a buffer because of it read 0 and write nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from graphc.base.errors import VerifyError
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.kernel import panels
from graphc.kernel.analysis.scratch_scope import Owner, scratch_homes
from graphc.kernel.fused_multiply_add import fma
from graphc.kernel.ir import Block, Buffer, Kernel, Size, Statement, Var, walk
from graphc.kernel.reference_reductions import combine_nothing, combine_terms
from graphc.kernel.routines import routine
from graphc.kernel.scalar import PRIMITIVES, cast
from graphc.kernel.statements.blocks import Loop, Reduce
from graphc.kernel.statements.memory import Load, Store
from graphc.kernel.statements.products import Contract, MatrixOperand
from graphc.kernel.statements.routines import Call, Span
from graphc.kernel.statements.scalars import Apply, Cast, Check, Const, DimValue
from graphc.kernel.verify import verify_kernel

# Iterations that run side by side; their arrays then fit a large cache.
_VOLUME = 1 << 18


@dataclass(frozen=True, slots=True)
class CheckFailure:
    """A user's index that is out of range.

    Attributes:
        site: which of the kernel's sites.
        index: the index as the user gave it.
        bound: what it had to be below.
        position: the indices of the loops around the check, outermost first.
    """

    site: int
    index: int
    bound: int
    position: tuple[int, ...]


def run_kernel(
    kernel: Kernel,
    arrays: Sequence[Array | None],
    dims: Mapping[str, int],
    *,
    functions: Mapping[str, Callable[..., Array]] = MappingProxyType({}),
    product: Callable[[Array, Array], Array] = np.matmul,
    multiply_add: Callable[[Array, Array, Array], Array] = fma,
    routines: Mapping[str, Callable[..., Sequence[Array]]] = MappingProxyType({}),
) -> list[CheckFailure]:
    """Runs a kernel; outputs are written in place.

    Args:
        kernel: verified before it runs.
        arrays: one for each buffer in their order, C-contiguous, of the buffer's dtype and shape;
            entries of scratch buffers are not used and may be None.
        dims: values of the kernel's symbols.
        functions: stand in for the references of primitives of these names. Those of class R have
            a bound and not bits; with given bits of theirs the whole kernel has given bits.
        product: what multiplies [..., m, k] by [..., k, n].
        multiply_add: x * y + z, by which squares are added: rounded once, or twice on targets that
            have it not in one.
        routines: stand in for the references of native routines of these names, as functions do.

    Returns:
        the first failure, by position, of each site that failed, in the order of sites.

    Raises:
        VerifyError: for an ill-formed kernel, arguments that don't fit it, or an access outside a
            buffer.
        UnsupportedError: for a product of packed panels, whose layout is the target's.
    """
    verify_kernel(kernel)
    interpreter = _Interpreter(kernel, dims, functions, product, multiply_add, routines)
    interpreter.bind(arrays)
    with np.errstate(all="ignore"):
        interpreter.body(None, kernel.body)
    return [interpreter.failures[site] for site in sorted(interpreter.failures)]


def runs_one_by_one(loop: Block) -> bool:
    """Whether a loop's iterations are not run side by side: a serial one's, and those whose body
    defines the size of something in it, in which they may differ."""
    if loop.loop("serial") is not None:
        return True
    defined = {loop.index}
    for statement in walk(loop.body):
        if any(size in defined for size in statement.sizes if isinstance(size, Var)):
            return True
        block = statement.block
        if block is not None:
            defined.add(block.index)
        else:
            defined.update(statement.results)
    return False


@dataclass(frozen=True, slots=True, eq=False)
class _Room:
    """The flat storage of a buffer; with a copy for each iteration of the axes in ``private``."""

    flat: Array
    size: int
    private: tuple[int, ...]


@dataclass(slots=True)
class _Frame:
    """An open loop: the first index of the block that runs; serial ones have no axis."""

    start: int
    axis: int | None


class _Interpreter:
    """The state of one run."""

    def __init__(
        self,
        kernel: Kernel,
        dims: Mapping[str, int],
        functions: Mapping[str, Callable[..., Array]],
        product: Callable[[Array, Array], Array],
        multiply_add: Callable[[Array, Array, Array], Array],
        routines: Mapping[str, Callable[..., Sequence[Array]]],
    ) -> None:
        self._kernel = kernel
        self._dims = dims
        self._functions = functions
        self._product = product
        self._multiply_add = multiply_add
        self._routines = routines
        self._rooms: dict[Buffer, _Room] = {}
        self._homes = scratch_homes(kernel)
        self._values: dict[Var, Array] = {}
        self._axes: list[int] = []
        self._frames: list[_Frame] = []
        self._volumes: dict[Owner, int] = {}
        self.failures: dict[int, CheckFailure] = {}

    def bind(self, arrays: Sequence[Array | None]) -> None:
        """Takes the arguments."""
        buffers = self._kernel.buffers
        if len(arrays) != len(buffers):
            raise VerifyError(f"{len(arrays)} arrays for {len(buffers)} buffers")
        for buffer, array in zip(buffers, arrays, strict=True):
            if buffer.is_room:
                continue
            shape = tuple(self._size(dim) for dim in buffer.type.shape)
            if array is None or array.dtype != buffer.type.dtype.numpy or array.shape != shape:
                given = "None" if array is None else f"{array.dtype}{list(array.shape)}"
                raise VerifyError(f"buffer {buffer.name!r} is {buffer.type}, the array is {given}")
            if not array.flags.c_contiguous:
                raise VerifyError(f"the array for buffer {buffer.name!r} is not contiguous")
            if buffer.is_result and not array.flags.writeable:
                raise VerifyError(f"the array for output {buffer.name!r} is read-only")
            self._rooms[buffer] = _Room(array.reshape(-1), array.size, ())

    # --- blocks ----------------------------------------------------------------------------------

    def _size(self, dim: Size) -> int:
        if isinstance(dim, Var):
            # no enclosing loop that runs side by side defines it, so there is one value
            (size,) = self._values[dim].reshape(-1).tolist()
            return int(size)
        try:
            return evaluate(dim, self._dims)
        except (KeyError, ZeroDivisionError) as error:
            raise VerifyError(f"dim {dim} has no value: {error.args[0]}") from error

    def _volume(self, owner: Owner, body: Sequence[Statement]) -> int:
        """The most iterations (or elements) that one iteration of a block runs side by side."""
        known = self._volumes.get(owner)
        if known is not None:
            return known
        result = 1
        for buffer in self._homes.get(owner, ()):
            result = max(result, self._size(buffer.type.size))
        for statement in body:
            block = statement.block
            if block is not None:
                inner = self._volume(block, block.body)
                if block.loop("serial") is None:
                    inner *= max(1, self._size(block.extent))
                result = max(result, inner)
            else:
                touched = [
                    math.prod(self._size(extent) for extent, _ in touch.axes)
                    for touch in statement.touches
                ]
                result = max(result, sum(touched))
        self._volumes[owner] = result
        return result

    def body(self, owner: Owner, body: Sequence[Statement]) -> None:
        """Runs one iteration of a block, on all axes."""
        for buffer in self._homes.get(owner, ()):
            size = self._size(buffer.type.size)
            private = tuple(self._axes)
            flat = np.empty(size * math.prod(private), buffer.type.dtype.numpy)
            # What is read before it is written must stand out.
            flat.fill(buffer.type.dtype.unwritten)
            self._rooms[buffer] = _Room(flat, size, private)
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: Statement) -> None:
        RUNS[type(statement)](self, statement)

    def _apply(self, statement: Apply) -> None:
        name = statement.primitive
        reference = self._functions.get(name) or PRIMITIVES[name].reference
        operands = [self._read(var) for var in statement.operands]
        self._write(statement.result, np.asarray(reference(*operands)))

    def _const(self, statement: Const) -> None:
        self._write(statement.result, np.array(statement.value, statement.result.dtype.numpy))

    def _dim_value(self, statement: DimValue) -> None:
        self._write(statement.result, np.array(self._size(statement.dim), np.int64))

    def _cast(self, statement: Cast) -> None:
        self._write(
            statement.result, cast(self._read(statement.operand), statement.result.dtype)
        )

    # --- scalars ---------------------------------------------------------------------------------

    def _spread(self, array: Array) -> Array:
        """The array with an axis for each of the current ones."""
        missing = len(self._axes) - array.ndim
        return array.reshape(array.shape + (1,) * missing) if missing else array

    def _read(self, var: Var) -> Array:
        return self._spread(self._values[var])

    def _write(self, var: Var, array: Array) -> None:
        self._values[var] = self._spread(array.astype(var.dtype.numpy, copy=False))

    # --- memory ----------------------------------------------------------------------------------

    def _places(self, buffer: Buffer, index: Array, used: Array | None) -> tuple[Array, Array]:
        """Places in the buffer's storage, 0 where not used, and which are used.

        ``index`` may have axes beyond the current ones. ``used`` None means all.
        """
        room = self._rooms[buffer]
        good = (index >= 0) & (index < room.size)
        if used is not None:
            index, good, used = np.broadcast_arrays(index, good, used)
        wrong = ~good if used is None else used & ~good
        if wrong.any() and not self.failures:
            raise VerifyError(
                f"kernel {self._kernel.name!r}: index {int(index[wrong].flat[0])} is outside "
                f"buffer {buffer.name!r} of {room.size} elements"
            )
        good = good if used is None else good & used
        place = index if used is None and good.all() else np.where(good, index, 0)
        if room.private:
            copies = np.arange(math.prod(room.private), dtype=np.int64).reshape(room.private)
            place = place + copies.reshape(copies.shape + (1,) * (index.ndim - copies.ndim)) * (
                room.size
            )
            good = np.broadcast_to(good, place.shape)
        return place, good

    def _fetch(
        self, buffer: Buffer, index: Array, used: Array | None, other: Array | None
    ) -> Array:
        place, good = self._places(buffer, index, used)
        flat = self._rooms[buffer].flat
        if not flat.size:
            value = np.zeros(place.shape, flat.dtype)
        else:
            value = flat.take(place, mode="clip")
        if good.all():
            return value
        return np.where(good, value, flat.dtype.type(0) if other is None else other)

    def _load(self, statement: Load) -> None:
        index = self._read(statement.index)
        used = other = None
        if statement.condition is not None and statement.other is not None:
            used, other = self._read(statement.condition), self._read(statement.other)
        self._write(statement.result, self._fetch(statement.buffer, index, used, other))

    def _store(self, statement: Store) -> None:
        self._put(statement.buffer, self._read(statement.index), self._read(statement.value))

    def _put(self, buffer: Buffer, index: Array, value: Array) -> None:
        place, good = self._places(buffer, index, None)
        place, good, value = np.broadcast_arrays(place, good, value)
        # One axis: of several writes to a place the last in program order must win.
        place, good, value = place.reshape(-1), good.reshape(-1), value.reshape(-1)
        if not good.all():
            place, value = place[good], value[good]
        self._rooms[buffer].flat[place] = value

    def _check(self, statement: Check) -> None:
        index = self._read(statement.index)
        bound = self._size(statement.bound)
        wrapped = np.where(index < 0, index + bound, index) if statement.wraps else index
        bad = (wrapped < 0) | (wrapped >= bound)
        self._fail(statement.site, bad, index, bound)
        self._write(statement.result, np.where(bad, 0, wrapped))

    def _fail(self, site: int, bad: Array, index: Array, bound: int) -> None:
        """Notes the first of the indices that are bad."""
        if not bad.any():
            return
        first = np.unravel_index(int(np.argmax(bad)), bad.shape)
        position = tuple(
            frame.start + (0 if frame.axis is None else int(first[frame.axis]))
            for frame in self._frames
        )
        known = self.failures.get(site)
        if known is None or position < known.position:
            self.failures[site] = CheckFailure(site, int(index[first]), bound, position)

    # --- loops -----------------------------------------------------------------------------------

    def _loop(self, statement: Loop) -> None:
        if runs_one_by_one(statement):
            self._serial(statement)
        else:
            self._parallel(statement)

    def _serial(self, statement: Loop) -> None:
        carried = [self._read(carry.initial) for carry in statement.carries]
        frame = _Frame(0, None)
        self._frames.append(frame)
        for trip in range(self._size(statement.extent)):
            frame.start = trip
            self._write(statement.index, np.array(trip, np.int64))
            for carry, array in zip(statement.carries, carried, strict=True):
                self._write(carry.argument, array)
            if statement.lasts is not None and not self._read(statement.lasts).any():
                break
            self.body(statement, statement.body)
            following = [self._read(carry.following) for carry in statement.carries]
            if statement.lasts is not None:
                self._require_kept(self._read(statement.lasts), carried, following)
            carried = following
        self._frames.pop()
        for carry, array in zip(statement.carries, carried, strict=True):
            self._write(carry.result, array)

    def _require_kept(
        self, lasts: Array, before: Sequence[Array], after: Sequence[Array]
    ) -> None:
        """Refuses another iteration that changes what is carried where the loop has ended."""
        if lasts.all():
            return
        for one, other in zip(before, after, strict=True):
            if max(one.size, other.size) == 1:
                continue  # what all agree on moves on for all
            ended, *arrays = np.broadcast_arrays(~lasts, one, other)
            old, new = (array[ended] for array in arrays)
            bits = f"u{old.dtype.itemsize}"
            # of narrow floats, too, what is no number differs from itself
            same = (old.view(bits) == new.view(bits)) | ((old != old) & (new != new))
            if not same.all():
                raise VerifyError(
                    f"kernel {self._kernel.name!r}: iterations that run side by side differ in "
                    "whether a loop goes on, and it changes what it has ended with"
                )

    def _side_by_side(self, statement: Block, start: int, count: int) -> None:
        """Runs iterations on an axis of their own, which stays open."""
        axis = len(self._axes)
        self._axes.append(count)
        self._frames.append(_Frame(start, axis))
        index = np.arange(start, start + count, dtype=np.int64)
        self._write(statement.index, index.reshape((1,) * axis + (count,)))
        self.body(statement, statement.body)

    def _parallel(self, statement: Loop) -> None:
        extent = self._size(statement.extent)
        each = math.prod(self._axes) * self._volume(statement, statement.body)
        block = max(1, _VOLUME // each)
        outer = self._values
        for start in range(0, extent, block):
            self._values = dict(outer)
            self._side_by_side(statement, start, min(block, extent - start))
            self._axes.pop()
            self._frames.pop()
        self._values = outer

    def _reduce(self, statement: Reduce) -> None:
        extent = self._size(statement.extent)
        nothing = [
            combine_nothing(reducer.combine, reducer.term.dtype, reducer.result.dtype)
            for reducer in statement.reducers
        ]
        needed = None if statement.condition is None else self._read(statement.condition)
        if extent <= 0 or (needed is not None and not needed.any()):
            for reducer, empty in zip(statement.reducers, nothing, strict=True):
                self._write(reducer.result, empty)
            return
        outer = self._values
        self._values = dict(outer)
        self._side_by_side(statement, 0, extent)
        terms = [self._read(reducer.term) for reducer in statement.reducers]
        self._axes.pop()
        self._frames.pop()
        self._values = outer
        for reducer, term, empty in zip(statement.reducers, terms, nothing, strict=True):
            spread = np.broadcast_to(term, (*term.shape[:-1], extent))
            result = combine_terms(
                reducer.combine, spread, reducer.term.dtype, statement.order, self._multiply_add
            )
            if needed is not None:
                result = np.where(self._spread(needed), self._spread(result), empty)
            self._write(reducer.result, result)

    # --- matrix products -------------------------------------------------------------------------

    def _matrix(self, operand: MatrixOperand, rows: int, columns: int) -> Array:
        offset = self._read(operand.offset)
        row = np.arange(rows, dtype=np.int64)[:, None] * self._size(operand.row_stride)
        column = np.arange(columns, dtype=np.int64) * self._size(operand.column_stride)
        places: Array = offset[..., None, None] + (row + column)
        return places

    def _contract(self, statement: Contract) -> None:
        m, n, k = (self._size(dim) for dim in (statement.m, statement.n, statement.k))
        a = self._fetch(statement.a.buffer, self._matrix(statement.a, m, k), None, None)
        if statement.template == "packed":
            shape = tuple(self._size(dim) for dim in statement.b.buffer.type.shape)
            offset = self._read(statement.b.offset)
            right = offset[..., None, None] + panels.places(shape, k, n)
        else:
            right = self._matrix(statement.b, k, n)
        b = self._fetch(statement.b.buffer, right, None, None)
        result = self._product(a, b)
        self._put(statement.c.buffer, self._matrix(statement.c, m, n), result)

    # --- routines --------------------------------------------------------------------------------

    def _row(self, span: Span) -> Array:
        """The places of the elements, along an axis behind the current ones."""
        offset = self._read(span.offset)
        places: Array = offset[..., None] + np.arange(self._size(span.extent))
        return places

    def _call(self, statement: Call) -> None:
        sources = [
            self._fetch(span.buffer, self._row(span), None, None) for span in statement.sources
        ]
        numbers = [self._size(size) for size in statement.numbers]
        found = routine(statement.routine)
        if found.fault is not None and statement.site is not None:
            value = found.fault(*sources, *numbers)
            self._fail(statement.site, value != 0, found.reported(value), numbers[-1])
        meaning: Callable[..., Sequence[Array]] = found.reference
        if statement.routine in self._routines:
            meaning = self._routines[statement.routine]
        results = meaning(*sources, *numbers)
        for span, result in zip(statement.targets, results, strict=True):
            self._put(span.buffer, self._row(span), result)


RUNS: Mapping[type[Statement], Callable[[_Interpreter, Any], None]] = {
    Const: _Interpreter._const,
    DimValue: _Interpreter._dim_value,
    Apply: _Interpreter._apply,
    Cast: _Interpreter._cast,
    Load: _Interpreter._load,
    Check: _Interpreter._check,
    Store: _Interpreter._store,
    Loop: _Interpreter._loop,
    Reduce: _Interpreter._reduce,
    Contract: _Interpreter._contract,
    Call: _Interpreter._call,
}
"""What runs each class of statements."""


__all__ = ["RUNS", "CheckFailure", "run_kernel", "runs_one_by_one"]
