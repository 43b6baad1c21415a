"""Tile and block sizes of matrix products, and the memory that follows from them.

Sizes never change a result's bits: each element is one ascending chain over k whatever the blocks.
How B is packed is said in ``graphc.kernel.panels``.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.base.target import Target
from graphc.base.tuning.sharing import SHARING
from graphc.codegen.llvm.storage import element_of
from graphc.codegen.llvm.types import LType, ltype
from graphc.ir.dtypes import DType
from graphc.kernel.panels import depth_limit, panel_width, vector_bits

_ALIGNMENT = 64
# Rows of C per tile, for vectors of 512, 256 and 128 bits. A tile of two vectors' width needs twice
# as many accumulators; the rest of the 32 or 16 registers hold B, a broadcast of A and a product.
_TILE_ROWS = {512: 8, 256: 6, 128: 4}


@dataclass(frozen=True, slots=True)
class Blocking:
    """How a float product is cut.

    Attributes:
        dtype: float32 or float64.
        bits: width of the vectors used.
        lanes: elements in a vector.
        tile_rows, tile_columns: the part of C held in registers.
        block_k: longest part of k handled at once.
        block_m, block_n: rows of packed A, columns of packed B handled at once.
        block_stream: columns of C that the row-stream path keeps in the second-level cache, with a
            few rows of B that wide.
        block_row: columns of one row of C whose sums lie in the first-level cache meanwhile.
        stream_columns: from so many columns on, B counts as wide.
        direct_rows, direct_stride: up to so many rows of C, or elements between rows of B, B with
            unit column stride is read where it is.
        pack_a_columns, pack_a_stride, pack_a_depth: from so many columns of C, elements between
            columns of A, and depth on, A with unit row stride is packed: what a tile reads of fewer
            columns stays in the first-level cache. Rows of A are read where they are.
        far_row: from so many elements between rows of C on, C is asked for before it is written.
    """

    dtype: DType
    bits: int
    lanes: int
    tile_rows: int
    tile_columns: int
    block_k: int
    block_m: int
    block_n: int
    block_stream: int
    block_row: int
    stream_columns: int
    direct_rows: int
    direct_stride: int
    pack_a_columns: int
    pack_a_stride: int
    pack_a_depth: int
    far_row: int

    @property
    def element(self) -> str:
        """LLVM's name of the element type."""
        return element_of(self.dtype)

    @property
    def scalar(self) -> LType:
        """The element as an LLVM type."""
        return ltype(self.element)

    @property
    def vector(self) -> LType:
        """One vector of elements."""
        return ltype(self.element, self.lanes)

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.dtype.bytes

    @property
    def suffix(self) -> str:
        """What the names of this blocking's functions end in."""
        return f"f{self.dtype.bits}_{self.bits}"

    @property
    def masked(self) -> bool:
        """Whether the target has masked loads and stores of this width."""
        return self.bits > 128

    @property
    def takes_parts(self) -> bool:
        """Whether tiles read and write parts of vectors at the right edge, where B lies as well.

        With AVX2, 128 x 512 by 512 x 10 took a quarter longer so than with what is packed.
        """
        return self.bits == 512


def blocking(dtype: DType, target: Target) -> Blocking:
    """The block sizes for a float dtype on a target."""
    bits = vector_bits(target)
    lanes = bits // dtype.bits
    # 64-bit Arm has 32 registers too, of 128 bits
    rows = 8 if target.architecture == "aarch64" else _TILE_ROWS[bits]
    deep = bits == 512
    return Blocking(
        dtype=dtype,
        bits=bits,
        lanes=lanes,
        tile_rows=rows,
        tile_columns=panel_width(dtype, target),
        block_k=depth_limit(dtype, target),
        block_m=96 if deep else 72,
        block_n=256 if deep else 512,
        block_stream=(16384 if deep else 8192) // dtype.bytes,
        block_row=16384 // dtype.bytes,
        stream_columns=8192 // dtype.bytes,
        direct_rows=48,
        direct_stride=2048 // dtype.bytes,
        pack_a_columns=256,
        pack_a_stride=3072 // dtype.bytes,
        pack_a_depth=192,
        far_row=640 // dtype.bytes,
    )


def reads_in_place(dtype: DType, target: Target, n: int) -> bool:
    """Whether no part of b is packed: one of n columns side by side, and any of its blocks that
    begin and end at a panel."""
    sizes = blocking(dtype, target)
    return n % sizes.tile_columns == 0 and n <= sizes.direct_stride


def reads_transpose_in_place(dtype: DType, target: Target, m: int) -> bool:
    """Whether no part of a is packed that is stored as its transpose, m rows side by side."""
    return m < blocking(dtype, target).pack_a_stride


def round_up(value: int, multiple: int) -> int:
    """The next multiple at or above a value."""
    return -(-value // multiple) * multiple


def gemm_workspace_bytes(
    dtype: DType,
    target: Target,
    m: int,
    n: int,
    k: int,
    *,
    packs_left: bool = True,
    packs_right: bool = True,
    is_transposed: bool = True,
) -> int:
    """An upper bound of the workspace of ``emit_gemm`` and ``emit_gemm_packed``, in bytes.

    Zero for integers and bool, and for empty products. It grows with each size, so that a bound of
    a size may stand for it, and is convex in k, up to ``Blocking.block_k`` and constant from there.

    Args:
        packs_left: false if rows of a have unit column stride, or ``reads_transpose_in_place``
            says so.
        packs_right: false if b lies in panels, or ``reads_in_place`` says so.
        is_transposed: false if a is not stored as its transpose, through which one column streams.
    """
    if not dtype.is_float or min(m, n, k) <= 0:
        return 0
    sizes = blocking(dtype, target)
    depth = min(k, sizes.block_k)
    # a product with a column vector runs as its transpose, which packs A in place of B
    columns = max(n, m)
    elements = 0
    if packs_left or packs_right:
        elements = depth * round_up(min(columns, sizes.block_n), sizes.tile_columns)
    if columns >= sizes.pack_a_columns and (packs_left or packs_right):
        # a single column of b is taken for the left operand, whose strides may be any
        rows = min(m, sizes.block_m) if packs_left else 1
        elements += depth * (rows + sizes.lanes)
    longest = max(n if m == 1 else 0, m if is_transposed else 0)
    if longest:
        # the last block may be longer by half, and what precedes the first whole line comes first
        row = sizes.lanes + min(longest, sizes.block_row + sizes.block_row // 2)
        elements = max(elements, row)
    if m > 1:
        rows = min(m, SHARING.few_rows)
        block = sizes.block_stream // (1 if rows <= sizes.tile_rows else 2)
        # the last block may be longer by half, and tiles begin up to a vector before the matrix
        width = round_up(min(n + sizes.lanes, block + block // 2), sizes.tile_columns)
        elements = max(elements, round_up(rows, sizes.tile_rows) * width)
    return round_up(elements * dtype.bytes, _ALIGNMENT)
