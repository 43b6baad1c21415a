"""Matrix products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from graphc.base.tuning.sharing import SHARING
from graphc.ir.dims.expressions import Dim, ceil_div
from graphc.kernel.scanner import NAME
from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Cut, Estimator, Names, Size, Statement, Touch, Var
from graphc.kernel.statements.words import Reader, statement


@dataclass(frozen=True, slots=True, eq=False)
class MatrixOperand:
    """A matrix inside a buffer: where it starts and its strides, in elements."""

    buffer: Buffer
    offset: Var
    row_stride: Size
    column_stride: Size

    def moved(self, to: Mapping[Buffer, Buffer]) -> MatrixOperand:
        """The same in another buffer, if its own is a key."""
        return replace(self, buffer=to.get(self.buffer, self.buffer))

    def text(self, names: Names) -> str:
        """Its text."""
        strides = f"{names.size(self.row_stride)}, {names.size(self.column_stride)}"
        return f"{names.buffer(self.buffer)}[{names.read(self.offset)}, {strides}]"

    @staticmethod
    def parse(reader: Reader) -> MatrixOperand:
        """Reads its text."""
        buffer = reader.buffer()
        reader.expect("[")
        offset = reader.read()
        reader.expect(",")
        row_stride = reader.size()
        reader.expect(",")
        column_stride = reader.size()
        reader.expect("]")
        return MatrixOperand(buffer, offset, row_stride, column_stride)


MAX_NEAR = 4
"""The most matrices that a product prefetches while it is computed."""


@statement(("contract",), "none")
@dataclass(frozen=True, slots=True, eq=False)
class Contract(Statement):
    """c[m, n] = a[m, k] · b[k, n], one ascending-k chain per element (class R).

    ``template`` names the code: "panel" packs b on the way, if that pays; "packed" reads a b that
    lies in panels (``graphc.kernel.panels``): its buffer is [blocks, panels, depth, width], with
    the strides (width, 1) inside a panel. It may start at any panel of the first block.

    ``near`` are at most ``MAX_NEAR`` matrices of m × n that later statements read, with elements as
    large as those of c. They are prefetched meanwhile, which doesn't change the result.
    """

    template: Literal["panel", "packed"]
    m: Size
    n: Size
    k: Size
    a: MatrixOperand
    b: MatrixOperand
    c: MatrixOperand
    workspace: Buffer | None = None
    near: tuple[MatrixOperand, ...] = ()

    @property
    def matrices(self) -> tuple[MatrixOperand, ...]:
        """All matrices that it mentions."""
        return (self.a, self.b, self.c, *self.near)

    @property
    def sizes(self) -> tuple[Size, ...]:
        strides = [d for m in self.matrices for d in (m.row_stride, m.column_stride)]
        return (self.m, self.n, self.k, *strides)

    @property
    def operands(self) -> tuple[Var, ...]:
        sizes = [size for size in self.sizes if isinstance(size, Var)]
        return (*[matrix.offset for matrix in self.matrices], *sizes)

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return (self.a.buffer, self.b.buffer)

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return (self.c.buffer,)

    @property
    def prefetched(self) -> tuple[Buffer, ...]:
        return tuple([matrix.buffer for matrix in self.near])

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return () if self.workspace is None else (self.workspace,)

    @property
    def written(self) -> tuple[Size, ...]:
        return (self.m, self.n)

    @property
    def touches(self) -> tuple[Touch, ...]:
        m, n, k = self.m, self.n, self.k
        extents = [(self.a, m, k), (self.b, k, n), (self.c, m, n)]
        if self.template == "packed":
            del extents[1]  # a constant in panels, of known sizes
        return tuple(
            Touch(
                matrix.buffer,
                matrix.offset,
                ((rows, matrix.row_stride), (columns, matrix.column_stride)),
                (m, n) if matrix is self.c else (m, n, k),
            )
            for matrix, rows, columns in extents
        )

    def moved(self, to: Mapping[Buffer, Buffer]) -> Contract:
        room = self.workspace
        return replace(
            self,
            a=self.a.moved(to),
            b=self.b.moved(to),
            c=self.c.moved(to),
            workspace=None if room is None else to.get(room, room),
            near=tuple([matrix.moved(to) for matrix in self.near]),
        )

    @property
    def cut(self) -> Cut | None:
        if isinstance(self.m, Var) or isinstance(self.n, Var):
            return None
        axis, size, block = self.divided
        extent, least = ceil_div(size, block), 1
        if axis == "n" and self.is_streamed:
            whole = SHARING.few_rows_bytes // (block * self.b.buffer.type.dtype.bytes)
            half = min(whole, -(-extent // 2)) if isinstance(extent, int) else whole
            least = max(1, half)
        return Cut(extent, False, True, least)

    @property
    def divided(self) -> tuple[Literal["m", "n"], Dim, int]:
        """The size that ranges cut, its extent, and how much of it an iteration takes.

        Columns, where there are enough of them: no part of the right operand is then packed twice.
        """
        n, m = self.n, self.m
        assert not isinstance(n, Var) and not isinstance(m, Var), "so have products that are cut"
        few_columns = isinstance(n, int) and n < 4 * SHARING.column_block
        few_rows = isinstance(m, int) and m < 4 * SHARING.row_block
        if few_columns and not few_rows:
            return "m", m, SHARING.row_block
        return "n", n, SHARING.column_block

    @property
    def is_streamed(self) -> bool:
        """Whether its rows are known to be few, so that it streams through its right operand."""
        has_few_rows = isinstance(self.m, int) and self.m <= SHARING.few_rows
        return has_few_rows and self.template == "panel" and self.b.column_stride == 1

    def cost(self, estimator: Estimator) -> Dim:
        return estimator.product(self.c.buffer.type.dtype, self.m, self.n, self.k)

    def text(self, names: Names) -> str:
        a, b, c = (matrix.text(names) for matrix in (self.a, self.b, self.c))
        sizes = f"[{', '.join(map(names.size, (self.m, self.n, self.k)))}]"
        text = f"contract {self.template} {sizes} {c} = {a} * {b}"
        if self.workspace is not None:
            text += f" workspace {names.buffer(self.workspace)}"
        if self.near:
            text += f" near {', '.join(matrix.text(names) for matrix in self.near)}"
        return text

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Contract:
        start, name = reader.position, reader.match(NAME, "a template")
        template: Literal["panel", "packed"] = "packed" if name == "packed" else "panel"
        if template != name:
            reader.fail(f"expected panel or packed, found {name!r}", start)
        reader.expect("[")
        m = reader.size()
        reader.expect(",")
        n = reader.size()
        reader.expect(",")
        k = reader.size()
        reader.expect("]")
        c = MatrixOperand.parse(reader)
        reader.expect("=")
        a = MatrixOperand.parse(reader)
        reader.expect("*")
        b = MatrixOperand.parse(reader)
        workspace = reader.buffer() if reader.accept_word("workspace") else None
        near: list[MatrixOperand] = []
        if reader.accept_word("near"):
            near.append(MatrixOperand.parse(reader))
            while reader.accept(","):
                near.append(MatrixOperand.parse(reader))
        return cls(template, m, n, k, a, b, c, workspace, tuple(near))
