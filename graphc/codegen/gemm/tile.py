"""The micro-kernel: a tile of C in registers, one ascending chain of multiply-adds per element.

Strides of A and of B's rows are run-time values, so that packed and plain operands share the code.
The chain starts from zero or, for later parts of k, from what C holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.codegen.caches import prefetch
from graphc.codegen.emitter import ModuleEmitter, Reg
from graphc.codegen.gemm.ahead import emit_request
from graphc.codegen.gemm.blocking import Blocking
from graphc.codegen.gemm.build import Builder, phi


def emit_tile(
    module: ModuleEmitter, sizes: Blocking, tile_rows: int, vectors: int, *, asks: bool = False
) -> str:
    """Defines the kernel of ``tile_rows`` × (``vectors`` · lanes); returns its name.

    Signature: (k, a, a_row, a_col, b, b_row, c, c_row, rows, resume). ``rows`` (at least 1) may be
    less than ``tile_rows``: the rows beyond repeat the last one, the same numbers stored to the
    same place. ``resume`` not 0 starts from C. One that ``asks`` takes a table of requests
    (``ahead``) and their number as well, and makes them at equal distances; others start sooner.
    """
    name = f"gemm_{'asking_' * asks}tile{tile_rows}x{vectors}_{sizes.suffix}"
    if module.has(name):
        return name
    requests = " *requests count" if asks else ""
    f = Builder(module, name, f"k *a a_row a_col *b b_row *c c_row rows resume{requests}")
    k, a, a_row, a_col, b, b_row = f.parameter("k", "a", "a_row", "a_col", "b", "b_row")
    c, c_row, rows, resume = f.parameter("c", "c_row", "rows", "resume")
    vector, element, lanes = sizes.vector, sizes.element, sizes.lanes

    last = f.sub(rows, 1)
    clamped = [f.minimum(f.i64(row), last) for row in range(tile_rows)]
    a_rows = [f.at(a, element, f.mul(row, a_row)) for row in clamped]
    c_rows = [f.at(c, element, f.mul(row, c_row)) for row in clamped]
    for pointer in c_rows:
        prefetch(f, pointer, vectors * lanes * sizes.size, write=True)

    places = [
        f.at(pointer, element, f.i64(v * lanes)) for pointer in c_rows for v in range(vectors)
    ]
    start = _start_of_chains(f, sizes, places, resume)

    a_step, b_step = f.mul(a_col, sizes.size), f.mul(b_row, sizes.size)

    def chains(length: Reg, carries: Sequence[Reg]) -> Sequence[Reg]:
        """So many steps of all chains; carries the sums and where A and B are read."""
        with f.loop(f.i64(0), length, 1, carries) as loop:
            loop.yields = step(loop.carries)
        return loop.results

    def step(carries: Sequence[Reg]) -> Sequence[Reg]:
        sums = list(carries[:-2])
        a_offset, b_place = carries[-2:]
        right = [
            f.load(f.at(b_place, element, f.i64(v * lanes)), vector, sizes.size)
            for v in range(vectors)
        ]
        for row in range(tile_rows):
            place = f.at(a_rows[row], "i8", a_offset)
            left = f.splat(f.load(place, sizes.scalar, sizes.size), lanes)
            for v in range(vectors):
                sums[row * vectors + v] = f.fma(left, right[v], sums[row * vectors + v])
        return [*sums, f.add(a_offset, a_step), f.at(b_place, "i8", b_step)]

    final: Sequence[Reg] = [*start, f.i64(0), b]
    if asks:
        table, count = f.parameter("requests", "count")
        distance = f.quotient(k, f.add(count, 1))
        with f.loop(f.i64(0), count, 1, final) as loop:
            loop.yields = chains(distance, loop.carries)
            emit_request(f, sizes, table, loop.index)
        final = loop.results
        k = f.sub(k, f.mul(distance, count))
    final = chains(k, final)
    for value, place in zip(final[:-2], places, strict=True):
        f.store(value, place, sizes.size)
    f.finish()
    return name


def emit_row(module: ModuleEmitter, sizes: Blocking, rows: int, panels: int) -> str:
    """Defines the kernel of one or two rows by several panels; returns its name.

    Signature: (k, a, a_row, a_col, b, b_step, c, c_row, resume): panels lie ``b_step`` apart.
    ``resume`` not 0 starts from C.
    """
    name = f"gemm_row{rows}x{panels}_{sizes.suffix}"
    if module.has(name):
        return name
    f = Builder(module, name, "k *a a_row a_col *b b_step *c c_row resume")
    k, a, a_row, a_col, b, b_step = f.parameter("k", "a", "a_row", "a_col", "b", "b_step")
    c, c_row, resume = f.parameter("c", "c_row", "resume")
    vector, element, lanes, width = sizes.vector, sizes.element, sizes.lanes, sizes.tile_columns
    bases = [f.at(b, element, f.mul(b_step, panel)) for panel in range(panels)]
    a_rows = [f.at(a, element, f.mul(a_row, row)) for row in range(rows)]
    offsets = range(0, width, lanes)
    places = [
        f.at(c, element, f.mul(c_row, row), f.i64(panel * width + offset))
        for row in range(rows)
        for panel in range(panels)
        for offset in offsets
    ]
    start = _start_of_chains(f, sizes, places, resume)
    with f.loop(f.i64(0), k, 1, start) as loop:
        across, down = f.mul(loop.index, a_col), f.mul(loop.index, width)
        lefts = [f.load(f.at(row, element, across), sizes.scalar, sizes.size) for row in a_rows]
        rights = [
            f.load(f.at(base, element, down, f.i64(offset)), vector, sizes.size)
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
    f: Builder, sizes: Blocking, places: Sequence[Reg], resume: Reg
) -> list[Reg]:
    """Zeros, or what C holds at these places if ``resume`` is not 0."""
    entry, load, body = f.block, f.label("resume"), f.label("start")
    f.branch(f.compare("ne", resume, 0), load, body)
    f.start(load)
    held = [f.load(place, sizes.vector, sizes.size) for place in places]
    f.jump(body)
    f.start(body)
    zero = Reg("zeroinitializer", sizes.vector)
    return [phi(f, sizes.vector, [(zero, entry), (value, load)]) for value in held]
