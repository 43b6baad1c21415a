"""The micro-kernel: a tile of C in registers, one ascending chain of multiply-adds per element.

Strides of A and of B's rows are run-time values, so that packed and plain operands share the code.
The chain starts from zero or, for later parts of k, from what C holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.builder import Builder, edge_mask, masked_load, masked_store
from graphc.codegen.gemm.prefetch_plan import emit_request
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.prefetch import prefetch


def emit_tile(
    module: ModuleEmitter, sizes: Blocking, tile_rows: int, vectors: int, edge: bool = False
) -> str:
    """Defines the kernel of ``tile_rows`` × (``vectors`` · lanes); returns its name.

    Signature: (k, a, a_row, a_col, b, b_row, c, c_row, rows, resume). ``rows`` (at least 1) may be
    less than ``tile_rows``: the rows beyond repeat the last one, the same numbers stored to the
    same place. ``resume`` not 0 starts from C. At an edge the number of columns follows, which end
    in the last vector; beyond them nothing is read or written.
    """
    name = f"gemm_{'edge' if edge else 'tile'}{tile_rows}x{vectors}_{sizes.suffix}"
    if module.has(name):
        return name
    last_parameter = " columns" if edge else ""
    f = Builder(module, name, f"k *a a_row a_col *b b_row *c c_row rows resume{last_parameter}")
    k, a, a_row, a_col, b, b_row = f.given("k", "a", "a_row", "a_col", "b", "b_row")
    c, c_row, rows, resume = f.given("c", "c_row", "rows", "resume")
    last = rows - 1
    clamped = [f.least(f.const(row), last) for row in range(tile_rows)]
    left = _rows(f, sizes, a, a_row, clamped)
    mask = None
    if edge:
        (columns,) = f.given("columns")
        mask = edge_mask(f, columns - (vectors - 1) * sizes.lanes, sizes.lanes)
    chains = _Chains(f, sizes, left, (a_col, b_row), vectors, mask)
    places = chains.places(_rows(f, sizes, c, c_row, clamped))
    _ask_for_result(f, sizes, places[::vectors], vectors, c_row)
    start = _start_of_chains(f, sizes, places, resume, chains.masks * tile_rows)
    chains.store(chains.steps(k, [*start, f.const(0), b]), places)
    f.finish()
    return name


def emit_strip(module: ModuleEmitter, sizes: Blocking) -> str:
    """Defines the kernel of whole tiles below each other, a panel wide; returns its name.

    Signature: (k, a, a_row, a_col, b, b_row, c, c_row, tiles, resume, requests, count). Each tile
    makes ``count`` requests (``ahead``) at equal distances.
    """
    name = f"gemm_strip_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "k *a a_row a_col *b b_row *c c_row tiles resume *requests count")
    k, a, a_row, a_col, b, b_row = f.given("k", "a", "a_row", "a_col", "b", "b_row")
    c, c_row, tiles, resume = f.given("c", "c_row", "tiles", "resume")
    table, count = f.given("requests", "count")
    distance = k.udiv(count + 1)
    rest = k - distance * count
    numbers = [f.const(row) for row in range(sizes.tile_rows)]
    vectors = sizes.tile_columns // sizes.lanes
    with f.loop(0, tiles, 1, [a, c]) as tile:
        left, result = tile.carries
        chains = _Chains(f, sizes, _rows(f, sizes, left, a_row, numbers), (a_col, b_row), vectors)
        places = chains.places(_rows(f, sizes, result, c_row, numbers))
        _ask_for_result(f, sizes, places[::vectors], vectors, c_row)
        start = _start_of_chains(f, sizes, places, resume)
        with f.loop(0, count, 1, [*start, f.const(0), b]) as loop:
            loop.yields = chains.steps(distance, loop.carries)
            emit_request(f, sizes, table, loop.index)
        chains.store(chains.steps(rest, loop.results), places)
        tile.yields = [
            f.at(place, sizes.element, row * sizes.tile_rows)
            for place, row in ((left, a_row), (result, c_row))
        ]
    f.finish()
    return name


class _Chains:
    """The chains of a tile, and the steps that carry them on."""

    def __init__(
        self,
        f: Builder,
        sizes: Blocking,
        left: Sequence[Reg],
        strides: tuple[Reg, Reg],
        vectors: int,
        mask: Reg | None = None,
    ) -> None:
        """``left`` are the rows of A, ``strides`` those from one step to the next in A and B, and
        ``mask`` the columns that there are in the last vector."""
        self._f, self._sizes, self._left, self._vectors = f, sizes, left, vectors
        self.masks = [*[None] * (vectors - 1), mask]
        self._a_step, self._b_step = (stride * sizes.size for stride in strides)

    def places(self, rows: Sequence[Reg]) -> list[Reg]:
        """Where the vectors of C are that begin in these rows."""
        return [self._beside(row, v) for row in rows for v in range(self._vectors)]

    def steps(self, length: Reg, carries: Sequence[Reg]) -> Sequence[Reg]:
        """So many steps of all chains; carries the sums and where A and B are read."""
        f = self._f
        with f.loop(0, length, 1, carries) as loop:
            loop.yields = self._step(loop.carries)
        return loop.results

    def store(self, carries: Sequence[Reg], places: Sequence[Reg]) -> None:
        """Leaves the sums in C."""
        for number, (value, place) in enumerate(zip(carries[:-2], places, strict=True)):
            masked_store(self._f, value, place, self.masks[number % self._vectors])

    def _step(self, carries: Sequence[Reg]) -> list[Reg]:
        f, sizes = self._f, self._sizes
        *sums, a_offset, b_place = carries
        columns = range(self._vectors)
        right = [
            masked_load(f, self._beside(b_place, v), sizes.vector, self.masks[v]) for v in columns
        ]
        for number, row in enumerate(self._left):
            place = f.at(row, "i8", a_offset)
            left = f.splat(f.load(place, sizes.scalar, sizes.size), sizes.lanes)
            for v in columns:
                chain = number * self._vectors + v
                sums[chain] = f.fma(left, right[v], sums[chain])
        return [*sums, a_offset + self._a_step, f.at(b_place, "i8", self._b_step)]

    def _beside(self, place: Reg, vector: int) -> Reg:
        f, sizes = self._f, self._sizes
        return f.at(place, sizes.element, vector * sizes.lanes)


def _rows(f: Builder, sizes: Blocking, base: Reg, stride: Reg, numbers: Sequence[Reg]) -> list[Reg]:
    return [f.at(base, sizes.element, number * stride) for number in numbers]


def _ask_for_result(
    f: Builder, sizes: Blocking, rows: Sequence[Reg], vectors: int, c_row: Reg
) -> None:
    """Asks for what will be written, unless rows of C are short: it is in a cache then."""
    with f.when(c_row >= sizes.far_row):
        for row in rows:
            prefetch(f, row, vectors * sizes.lanes * sizes.size, write=True)


def emit_row(module: ModuleEmitter, sizes: Blocking, rows: int, panels: int) -> str:
    """Defines the kernel of one or two rows by several panels; returns its name.

    Signature: (k, a, a_row, a_col, b, b_step, c, c_row, resume): panels lie ``b_step`` apart.
    ``resume`` not 0 starts from C.
    """
    name = f"gemm_row{rows}x{panels}_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "k *a a_row a_col *b b_step *c c_row resume")
    k, a, a_row, a_col, b, b_step = f.given("k", "a", "a_row", "a_col", "b", "b_step")
    c, c_row, resume = f.given("c", "c_row", "resume")
    vector, element, lanes, width = sizes.vector, sizes.element, sizes.lanes, sizes.tile_columns
    bases = [f.at(b, element, b_step * panel) for panel in range(panels)]
    a_rows = [f.at(a, element, a_row * row) for row in range(rows)]
    offsets = range(0, width, lanes)
    places = [
        f.at(c, element, c_row * row, panel * width + offset)
        for row in range(rows)
        for panel in range(panels)
        for offset in offsets
    ]
    start = _start_of_chains(f, sizes, places, resume)
    with f.loop(0, k, 1, start) as loop:
        across, down = loop.index * a_col, loop.index * width
        lefts = [f.load(f.at(row, element, across), sizes.scalar, sizes.size) for row in a_rows]
        rights = [
            f.load(f.at(base, element, down, offset), vector, sizes.size)
            for base in bases
            for offset in offsets
        ]
        pairs = [(f.splat(left, lanes), right) for left in lefts for right in rights]
        loop.yields = [
            f.fma(left, right, total)
            for (left, right), total in zip(pairs, loop.carries, strict=True)
        ]
    for value, place in zip(loop.results, places, strict=True):
        f.store(value, place, sizes.size)
    f.finish()
    return name


def _start_of_chains(
    f: Builder,
    sizes: Blocking,
    places: Sequence[Reg],
    resume: Reg,
    masks: Sequence[Reg | None] = (),
) -> list[Reg]:
    """Zeros, or what C holds at these places, and within masks, if ``resume`` is not 0."""
    entry, load, body = f.block, f.label("resume"), f.label("start")
    f.branch(resume.differs(0), load, body)
    f.start(load)
    held = [
        masked_load(f, place, sizes.vector, mask)
        for place, mask in zip(places, masks or [None] * len(places), strict=True)
    ]
    f.jump(body)
    f.start(body)
    zero = f.zeros(sizes.vector)
    return [f.phi(sizes.vector, [(zero, entry), (value, load)]) for value in held]
