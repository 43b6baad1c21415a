"""The text form of kernels: printing, and the key under which kernels share code.

One statement a line, its schedule behind ``@``; scalars are numbered in the order of the text, so
equal kernels print equally and printing what was parsed gives the same text. Every dtype is stated
or follows from what is. Kernels that are broken print too, so that a dump can show why: a scalar
that nothing defines is ``%?``, a buffer that the kernel lacks ``%??``.

    kernel "softmax" split 1 (in %x: float32[n, 64], out %y: float32[n, 64]) {
      %0 = const int64 64
      parallel %1 < n {
        %2 = multiply %1, %0
        %3 = reduce lanes %4 < 64 {
          %5 = add %2, %4
          %6 = load %x[%5]
          yield maximum %6
        }
        …
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from graphc.ir.dtypes import DType
from graphc.ir.text.printer import bounds_clause, float_text, quote, symbol_order, where_text
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
    Site,
    Size,
    Statement,
    Store,
    Var,
)
from graphc.kernel.schedule.kinds import Schedule

MAXIMUM_NESTING = 32
"""Loops and reductions may be nested this deep; the interpreter gives each an axis."""

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*", re.ASCII)


def print_kernel(kernel: Kernel) -> str:
    """The text of a kernel, ending in a newline; ``parse_kernel`` reads it back."""
    names = {buffer: _buffer_name(buffer.name) for buffer in kernel.buffers}
    sites = [_site_text(site) + where_text(site.where) for site in kernel.sites]
    return f"kernel {quote(kernel.name)}{_rest(kernel, kernel.schedule, names, sites)}"


def print_statement(kernel: Kernel, statement: Statement) -> str:
    """One statement as the kernel's text has it, its body left out."""
    return print_statements(kernel).get(statement, "")


def print_statements(kernel: Kernel) -> dict[Statement, str]:
    """Each statement as the kernel's text has it, in order, bodies left out."""
    names = {buffer: _buffer_name(buffer.name) for buffer in kernel.buffers}
    printer = _Printer(names, kernel.schedule)
    printer.block(kernel.body, "  ")
    return {statement: line.strip(" {") for statement, line in printer.places.items()}


def kernel_key(kernel: Kernel) -> str:
    """What the code of a kernel depends on: its text without names and source lines.

    Kernels of equal keys take the same buffers and dims in the same order.
    """
    return _key(kernel, kernel.schedule)


def computation_key(kernel: Kernel) -> str:
    """What a kernel computes, however it is carried out: its key without the schedule."""
    return _key(kernel, {})


def _key(kernel: Kernel, schedule: Mapping[Statement, Schedule]) -> str:
    names = {buffer: f"%b{place}" for place, buffer in enumerate(kernel.buffers)}
    return _rest(kernel, schedule, names, [_site_text(site) for site in kernel.sites])


def _rest(
    kernel: Kernel,
    schedule: Mapping[Statement, Schedule],
    names: dict[Buffer, str],
    sites: Sequence[str],
) -> str:
    printer = _Printer(names, schedule)
    printer.block(kernel.body, "  ")
    buffers = ", ".join(f"{b.role} {names[b]}: {b.type}" for b in kernel.buffers)
    sites_clause = f" sites ({', '.join(sites)})" if sites else ""
    split = f" split {kernel.split.levels}" if kernel.split else ""
    symbols = bounds_clause(sorted(kernel.symbols, key=symbol_order))
    head = f"{split}{symbols} ({buffers}){sites_clause} {{"
    return "\n".join([head, *printer.lines, "}", ""])


def _buffer_name(name: str) -> str:
    return f"%{name}" if _PLAIN_NAME.fullmatch(name) else f"%{quote(name)}"


def _site_text(site: Site) -> str:
    return f"axis {site.axis} of {quote(site.what)}"


def const_text(value: bool | int | float, dtype: DType) -> str:
    """A literal, exact."""
    return float_text(float(value)) if dtype.is_float else str(value)


class _Printer:
    """Collects the lines of a body; scalars are numbered as they are defined."""

    def __init__(
        self, names: dict[Buffer, str], schedule: Mapping[Statement, Schedule]
    ) -> None:
        self._names = names
        self._schedule = schedule
        self._numbers: dict[Var, str] = {}
        self.lines: list[str] = []
        self.places: dict[Statement, str] = {}

    def _define(self, *results: Var) -> str:
        texts = []
        for var in results:
            text = self._numbers[var] = f"%{len(self._numbers)}"
            texts.append(text)
        return ", ".join(texts)

    def _read(self, *operands: Var) -> str:
        return ", ".join([self._numbers.get(var, "%?") for var in operands])

    def _size(self, size: Size) -> str:
        return self._read(size) if isinstance(size, Var) else str(size)

    def _element(self, buffer: Buffer, index: Var) -> str:
        return f"{self._names.get(buffer, '%??')}[{self._read(index)}]"

    def block(self, body: Sequence[Statement], indent: str) -> None:
        """Prints a body and those inside it."""
        open_blocks: list[tuple[Iterator[Statement], Statement | None]] = [(iter(body), None)]
        while open_blocks:
            statements, owner = open_blocks[-1]
            current = indent + "  " * (len(open_blocks) - 1)
            statement = next(statements, None)
            if statement is None:
                open_blocks.pop()
                if owner is not None:
                    self._close(owner, current)
            elif isinstance(statement, (Loop, Reduce)):
                head = self._head(statement) + self._scheduled(statement)
                self.lines.append(f"{current}{head} {{")
                self.places[statement] = self.lines[-1]
                open_blocks.append((iter(statement.body), statement))
            else:
                line = self._line(statement) + self._scheduled(statement)
                self.lines.append(current + line)
                self.places[statement] = self.lines[-1]

    def _scheduled(self, statement: Statement) -> str:
        found = self._schedule.get(statement) if self._schedule else None
        return "" if found is None else f" @ {found}"

    def _head(self, statement: Loop | Reduce) -> str:
        extent = self._size(statement.extent)
        if isinstance(statement, Reduce):
            needed = statement.condition
            condition = None if needed is None else self._read(needed)
            results = self._define(*(reducer.result for reducer in statement.reducers))
            index = self._define(statement.index)
            prefix = f"{results} = " if results else ""
            text = f"{prefix}reduce {statement.order} {index} < {extent}"
            return text if condition is None else f"{text}, if {condition}"
        if not statement.carries:
            return f"{statement.kind} {self._define(statement.index)} < {extent}"
        initial = [self._read(carry.initial) for carry in statement.carries]
        results = self._define(*(carry.result for carry in statement.carries))
        index = self._define(statement.index)
        carried = ", ".join(
            f"{self._define(carry.argument)} = {first}"
            for carry, first in zip(statement.carries, initial, strict=True)
        )
        return f"{results} = {statement.kind} {index} < {extent} carry ({carried})"

    def _close(self, owner: Statement, indent: str) -> None:
        if isinstance(owner, Reduce):
            terms = ", ".join(f"{r.combine} {self._read(r.term)}" for r in owner.reducers)
            self.lines.append(f"{indent}yield {terms}".rstrip())
        elif isinstance(owner, Loop) and owner.carries:
            following = self._read(*(carry.following for carry in owner.carries))
            self.lines.append(f"{indent}yield {following}")
        self.lines.append(f"{indent[:-2]}}}")

    def _line(self, statement: Statement) -> str:
        if isinstance(statement, Store):
            target = self._element(statement.buffer, statement.index)
            return f"store {target}, {self._read(statement.value)}"
        if isinstance(statement, Contract):
            return self._contract(statement)
        if not isinstance(statement, (Const, DimValue, Apply, Cast, Load, Check)):
            return f"{type(statement).__name__}?"
        # Operands first: a statement that reads its own result must print as broken.
        text = self._expression(statement)
        return f"{self._define(statement.result)} = {text}"

    def _expression(self, statement: Statement) -> str:
        if isinstance(statement, Const):
            dtype = statement.result.dtype
            return f"const {dtype} {const_text(statement.value, dtype)}"
        if isinstance(statement, DimValue):
            return f"dim {statement.dim}"
        if isinstance(statement, Apply):
            return f"{statement.primitive} {self._read(*statement.operands)}"
        if isinstance(statement, Cast):
            return f"cast {statement.result.dtype} {self._read(statement.operand)}"
        if isinstance(statement, Load):
            text = f"load {self._element(statement.buffer, statement.index)}"
            if statement.condition is not None:
                text += f" if {self._read(statement.condition)}"
            if statement.other is not None:
                text += f" else {self._read(statement.other)}"
            return text
        assert isinstance(statement, Check)
        least = "" if statement.wraps else "0 <= "
        return f"check {statement.site} {least}{self._read(statement.index)} < {statement.bound}"

    def _matrix(self, operand: MatrixOperand) -> str:
        name = self._names.get(operand.buffer, "%??")
        offset = self._read(operand.offset)
        strides = f"{self._size(operand.row_stride)}, {self._size(operand.column_stride)}"
        return f"{name}[{offset}, {strides}]"

    def _contract(self, statement: Contract) -> str:
        a, b, c = (self._matrix(m) for m in (statement.a, statement.b, statement.c))
        sizes = f"[{', '.join(map(self._size, (statement.m, statement.n, statement.k)))}]"
        text = f"contract {statement.template} {sizes} {c} = {a} * {b}"
        if statement.workspace is not None:
            text += f" workspace {self._names.get(statement.workspace, '%??')}"
        if statement.near:
            text += f" near {', '.join(map(self._matrix, statement.near))}"
        return text


__all__ = [
    "MAXIMUM_NESTING",
    "computation_key",
    "const_text",
    "kernel_key",
    "print_kernel",
    "print_statement",
    "print_statements",
]
