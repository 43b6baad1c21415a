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

from graphc.ir.text.printer import bounds_clause, quote, symbol_order, where_text
from graphc.kernel.ir import Buffer, Kernel, Site, Size, Statement, Var
from graphc.kernel.schedule.base import Schedule

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
    problem = f" problem {quote(site.problem)}" if site.problem else ""
    return f"axis {site.axis} of {quote(site.what)}{problem}"


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

    def define(self, *results: Var) -> str:
        """New names for scalars."""
        texts = []
        for var in results:
            text = self._numbers[var] = f"%{len(self._numbers)}"
            texts.append(text)
        return ", ".join(texts)

    def read(self, *operands: Var) -> str:
        """The names of scalars."""
        return ", ".join([self._numbers.get(var, "%?") for var in operands])

    def size(self, size: Size) -> str:
        """A dim, or the name of a scalar."""
        return self.read(size) if isinstance(size, Var) else str(size)

    def buffer(self, buffer: Buffer) -> str:
        """The name of a buffer."""
        return self._names.get(buffer, "%??")

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
                    end = owner.end(self)
                    if end is not None:
                        self.lines.append(current + end)
                    self.lines.append(f"{current[:-2]}}}")
                continue
            line = current + statement.text(self) + self._scheduled(statement)
            if statement.block is not None:
                line += " {"
                open_blocks.append((iter(statement.body), statement))
            self.lines.append(line)
            self.places[statement] = line

    def _scheduled(self, statement: Statement) -> str:
        found = self._schedule.get(statement) if self._schedule else None
        return "" if found is None else f" @ {found}"


__all__ = [
    "MAXIMUM_NESTING",
    "computation_key",
    "kernel_key",
    "print_kernel",
    "print_statement",
    "print_statements",
]
