"""Figures of a target: schedules of kernels."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from graphc.base.target import CACHE_LINE, PAGE, Target


class Tuning(NamedTuple):
    """When a schedule of a kernel's loops, stores and loads pays, and its sizes."""

    # --- caches ---

    near_bytes: int
    """An array of no more bytes is in the second-level cache when it is read again."""

    pipeline_bytes: int
    """Bytes that the rows at work may take: half of the second-level cache."""

    row_block_shared_bytes: int
    """Rows that read more bytes lose what they read in common: three quarters of the first-level
    cache."""

    pipeline_stages: int
    """Stages up to which rows are pipelined: more have more constants and accumulators than there
    are registers, of which there are twice as many where they are widest. The gradient of softmax,
    of four stages, takes 24 cycles for 16 floats with AVX-512 in place of 27 row by row, but with
    AVX2 41 in place of 38."""

    carried_registers: int
    """Vector registers of what a loop carries in vectors. Each trip waits for the one before, and
    vectors side by side hide that: the logistic map over 4096 lanes took 1.4 us a trip with two
    registers and 0.5 with eight, on a Xeon with AVX-512."""

    far_bytes: int = 24 << 20
    """An array of more bytes is thought to come from memory: it finds no room in a third-level
    cache of 32 MB, which holds other things as well."""

    # --- non-temporal stores ---

    stream_bytes: int = 12 << 20
    """Bytes of a result from which on it bypasses the caches. A pointwise kernel whose 12 MB were
    read next took a third less time where they were fresh each time, a fifth more where they were
    the same."""

    reducing_stream_bytes: int = 8 << 20
    """The same for kernels that reduce: with software-pipelined rows, a store to a line that misses
    every cache waits. Softmax of 8 MB and reading that took 0.8 ms in place of 1.35 where its
    result was fresh each time, and 0.75 in place of 0.65 where it was the same."""

    stream_row_bytes: int = 2048
    """Loops that write less at a time would lose more at their ends than non-temporal stores
    gain."""

    stream_prefetch: tuple[int, int] = (2048, 1)
    """Prefetch distance in bytes, and the cache level, of a vector loop with non-temporal stores.
    On a Zen 4 relu(a·x + b)·c of 64 MB took 3.3 ms without, 3.1 with 512 bytes, and 2.8 with 1 to
    4 KB."""

    # --- tiled transposes ---

    tile_side: int = 16
    """Rows and columns of a tile, and of what one piece of code transposes; elements of eight bytes
    fill a line with half as many. Of shorter elements tiles past the caches have as many as fill a
    line: parts of lines there take memory ten times as long."""

    tile_block_bytes: int = 384
    """Bytes of a row that are written together past the caches. With 256 one thread took 4 %
    longer for 4096 x 4096 float32 on a Zen 4 and 6 % for 4096 x 2048 float64; with 512 two threads
    took 4 % longer for float32, since sources that lie 16 KB apart share 64 lines of its
    second-level cache. Rows no longer than that are near each other in any order: 16 x 96 x 112 x
    112 float32 to channels last took a third longer by blocks."""

    tile_prefetch_bytes: int = 256
    """Prefetch distance along a source of tiles; 128 to 512 are as good."""

    # --- software-pipelined rows ---

    pipeline_steps: int = 8
    """Steps of a row below which most of the time is spent between loops over its columns."""

    pipeline_near_bytes: int = 4 << 20
    """If all that rows are read from is smaller, so are their results, and caches have the lines
    that are written. Elsewhere a line is waited for, with other stages in between longer than
    without: layer norm took 14.4 cycles for 16 floats of 8 MB row by row, pipelined 25. What goes
    past the caches, in whole lines, is not waited for: then it took 12.4."""

    pipeline_prefetch: tuple[int, int] = (16 << 10, 2)
    """Prefetch distance and cache level. While functions are computed, what comes next is so on its
    way: softmax of 4096 x 1024 floats with other work on the machine takes 1.1 ms in place of 1.4,
    and layer norm, alone, 0.76 in place of 0.83. Into the first-level cache layer norm took 10 %
    longer."""

    # --- 4K aliasing ---

    alias_free_bytes: int = PAGE - 640
    """A load at most as many bytes ahead of a store, modulo a page, doesn't wait for it. The last
    640 bytes of the page are read before the store is done: with a result there softmax took
    1.9 ms, and 1.05 with it anywhere else."""

    alias_beginnings: tuple[int, ...] = (0, 1024, 2048)
    """How far in its page a row in scratch may begin before the row it is made of, in bytes."""

    alias_turns: tuple[int, ...] = (8, 16, 24, 4)
    """By how many steps writing may be ahead of reading. Each choice fails for one or two places of
    the rows that are read, and no two choices fail for the same place."""

    # --- reductions down columns, by blocks ---

    column_block_bytes: int = 16 << 10
    """Bytes that one level of one block takes on the stack."""

    column_stack_bytes: int = 128 << 10
    """Bytes that all levels of all reductions may take together."""

    column_block_rows: int = 64
    """Rows up to which they are so near each other that one vector of columns at a time does as
    well."""

    column_block_columns: int = 64
    """Columns below which they are left to the plain loop."""

    column_block_streams: int = 8
    """Rows that are read side by side, a divisor of ``CHUNK``; with 16 a column sum took a third
    longer."""

    column_prefetch: tuple[int, int] = (1024, 2)
    """Prefetch distance and cache level: column sums of 4096 x 4096 floats took 2.6 ms without, 2.3
    so, and 3.3 when fetched into the first-level cache, where partial results lie. What lies in
    the third-level cache is read faster without: 1024 x 1024 floats took a fifth longer so."""

    # --- blocked rows ---

    row_block_rows: int = 8
    """Rows at a time. (x + bias) · row · column of 2048 x 4096 floats took 2.4 ms row by row, 1.95
    with 4 or 8 at a time, and 2.06 with 16."""

    row_block_bytes: int = 512
    """Bytes that are written of a row at a time, and the prefetch distance: with 2 KB it took
    2.3 ms, since that much of eight rows has no room."""

    # --- gathers ---

    gather_iterations: int = 4
    """Prefetch distance in iterations. Taking 8192 of 50,000 rows of 256 floats took 0.47 ms on a
    Zen 4; fetched one row ahead 0.34, 4 rows 0.31, 16 rows 0.34."""

    gather_row_bytes: int = 2 * CACHE_LINE
    """Of rows of fewer bytes so many are under way at once that none is waited for long."""

    gather_lines: int = 16
    """Lines of a row that are prefetched, beyond which the processor reads ahead by itself."""

    gather_unknown_lines: int = 4
    """The same for rows of symbolic length."""

    # --- vectors ---

    whole_row: int = 32
    """Rows of a multiple of as many elements have no loop tail."""

    free_lanes: int = 8
    """Lanes below which a reduction whose order is free takes single elements."""

    free_registers: int = 4
    """Vector registers for each part of the accumulators of a reduction whose order is free: enough
    to hide the latency of combining, and with three parts few enough for the registers of every
    target."""

    @staticmethod
    @cache
    def of(target: Target) -> Tuning:
        """What pays on a target."""
        return Tuning(
            near_bytes=target.l2_bytes,
            pipeline_bytes=target.l2_bytes // 2,
            row_block_shared_bytes=target.l1_bytes * 3 // 4,
            pipeline_stages=4 if target.vector_bits == 512 else 3,
            carried_registers=8 if target.vector_bits == 512 else 4,
        )


__all__ = ["Tuning"]
