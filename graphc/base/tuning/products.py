"""How matrix products are cut where neither dtype nor target matters."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class ProductTuning(NamedTuple):
    """Sizes of blocks, and which way a product goes."""

    # --- the work behind a product, by blocks ---

    block_columns: int = 256
    """Columns of a block. Products cut their right operand in blocks of as many, so nothing is
    packed that would not be."""

    wide_block_columns: int = 512
    """The same where the work behind reads and writes ``wide_block_arrays``: the longer their runs
    are, the sooner the processor fetches what comes next. An update by Adam behind a product of
    784 x 128 x 512 takes 1.3 ms so, and 1.7 with runs of 256."""

    wide_block_arrays: int = 4
    """Arrays in the shape of the product."""

    block_bytes: int = 512 * 1024
    """Bytes of a block: about half of a large second-level cache. Smaller ones pack more often."""

    block_and_near_bytes: int = 768 * 1024
    """Bytes of a block together with what is prefetched for the work on it."""

    uneven_blocks: int = 16
    """Blocks from which on it matters little that one thread gets one more than another."""

    column_multiple: int = 32
    """Blocks of columns begin at multiples of this: at a panel, and at a whole vector."""

    # --- products that are inlined ---

    tiny_work: int = 2048
    """Multiply-adds of a product, up to which it may be inlined."""

    tiny_unrolled: int = 128
    """Multiply-adds up to which nothing is left of the loop over the depth."""

    tiny_sums: int = 12
    """Vectors of sums that stay in registers."""

    tiny_gathered: int = 512
    """Elements of a right operand whose rows have gaps, for each row of the left one, up to which
    they are read one by one. The library is faster beyond: it reads columns as they lie."""

    # --- products with reductions of their rows, as attention ---

    product_rows_bytes: int = 192 * 1024
    """Bytes of a block of rows: beside it the operands of both products stay in the cache too."""

    long_product_rows_bytes: int = 1024 * 1024
    """Of long rows, or those of symbolic length, there are ``masked_rows`` in a block if they fit
    into as many bytes, else fewer: the second-level cache holds little else then, but the right
    operand is passed over less often."""

    masked_rows: int = 32
    """Rows of a block under a mask: a causal mask hides more from small ones."""

    masked_columns: int = 96
    """Columns below which it isn't worth looking at the mask."""

    # --- few rows ---

    any_rows: int = 8
    """Rows of C up to which B is read once, row by row, whether it is wide or not. If it is wide,
    ``Sharing.few_rows`` is the limit: its tiles would be a few cache lines from each of many
    pages."""

    transposed_rows: int = 5
    """Rows up to which B with contiguous columns is transposed on the way, not packed: that takes a
    half to three quarters of the time. With 8, and columns powers of two apart, it takes
    longer."""

    transposed_aligned_steps: int = 1024
    """Steps from which on it pays to begin with a cache line there: the steps before it are single
    ones."""

    panels_of_rows: Mapping[int, int] = MappingProxyType({1: 4, 2: 2})
    """Panels that one row, or two, meet at a time."""

    half_tile_rows: int = 4
    """Rows of C in the smaller of two kernels that stream through B."""

    half_tile_streams: int = 8
    """Rows of B that it reads side by side; the larger one reads twice as many where vectors have
    512 bits, which was faster."""

    group_depth: int = 128
    """The part of k that one call of them gets where no other group of rows reads the same
    again."""

    groups_depth: int = 32
    """The same where others do."""

    separate_sums_depth: int = 64
    """The depth from which on sums are kept apart from the result, to which they have to be
    copied."""

    aligned_tiles: int = 8
    """Tiles of a row from which on it pays to begin where a cache line does."""

    next_rows_bytes: int = 1024
    """Bytes of the rows of B that follow which are prefetched, while as many of those before are
    read."""

    # --- one row ---

    row_streams: int = 8
    """Rows of B that are read side by side."""

    row_vectors: int = 4
    """Vectors of a tile: as much of each of those rows is read before the next one's turn, and of
    two tiles in a cache."""

    single_streams: int = 64
    """The same where a row of B has no more than that: fewer loops, and what is read is near."""

    far_sums_bytes: int = 65536
    """Bytes of the sums that stay in the second-level cache meanwhile, if B comes from memory."""

    next_rows_from_bytes: int = 1 << 20
    """Bytes of B from which on the beginnings of rows are prefetched: what a second-level cache
    holds is read a twentieth slower so."""

    # --- many rows ---

    panel_requests: int = 8
    """Of the next panel a tile prefetches at most as many times the rows that it has itself."""

    kept_bytes: int = 320 * 1024
    """A block of the right operand of fewer bytes is in the second-level cache, if it was used of
    late."""

    # --- integers ---

    integer_rows: int = 4
    """Rows of a tile of integers."""

    integer_depth: int = 32
    """The part of k of a block of integers."""

    integer_block_bytes: int = 4096
    """Bytes of each row of a block of integers."""


PRODUCTS = ProductTuning()


__all__ = ["PRODUCTS", "ProductTuning"]
