"""The text form of kernels: reading what ``text`` prints.

Every text gives a kernel or raises ParseError with line, column and an excerpt; nothing in it is
evaluated. Names and dtypes are resolved here; whether the kernel is well-formed is for
``verify_kernel``. A statement takes one line.

    kernel  := "kernel" NAME ["split" INT] ["dims" "(" SYMBOL ":" INT ".." [INT], … ")"]
               "(" buffer, … ")" ["sites" "(" site, … ")"] "{" statement* "}"
    buffer  := ("in" | "out" | "part" | "update" | "scratch") %name ":" DTYPE "[" dim, … "]"
    site    := "axis" INT "of" STRING ["at" STRING ":" INT [":" INT [".." INT]]]
    statement := %v "=" "const" DTYPE LITERAL | %v "=" "dim" dim | %v "=" "cast" DTYPE %v
               | %v "=" PRIMITIVE %v, … | %v "=" "load" %name "[" %v "]" ["if" %v "else" %v]
               | %v "=" "check" SITE ["0" "<="] %v "<" dim | "store" %name "[" %v "]" "," %v
               | ("parallel" | "across" | "vector" | "serial") %v "<" size "{" statement* "}"
               | %v, … "=" "serial" %v "<" dim "carry" "(" %v "=" %v, … ")"
                 ["while" %v] "{" … "yield" %v, … "}"
               | %v, … "=" "reduce" ORDER %v "<" size ["," "if" %v] "{" … "yield" COMBINE %v, … "}"
               | statement "@" SCHEDULE "(" INT, … ")", behind the head where there is a body
               | "contract" TEMPLATE "[" size, size, size "]" matrix "=" matrix "*" matrix
                 ["workspace" %name]
    matrix  := %name "[" %v, size, size "]"
    size    := dim | %v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import get_args

from graphc.kernel.analysis.split import with_split
from graphc.kernel.ir import Buffer, Kernel, Role, Site, Size, Statement, Var
from graphc.kernel.printer import MAXIMUM_NESTING
from graphc.kernel.scalar import PRIMITIVES
from graphc.kernel.scanner import NAME
from graphc.kernel.schedule.base import Schedule
from graphc.kernel.schedule.kind import arity, schedules
from graphc.kernel.statements.words import WORDS, Head, Reader

_ROLES: tuple[Role, ...] = get_args(Role)


def parse_kernel(text: str, buffers: Sequence[Buffer] = ()) -> Kernel:
    """Reads a kernel; see ``verify_kernel`` for whether it makes sense.

    Buffers that are given, all or none, stand for those of the text, in its order.

    Raises:
        ParseError: if the text is ill-formed or names what it does not define.
    """
    return _Parser(text, buffers).kernel()


@dataclass(slots=True)
class _Open:
    """A body being read.

    Attributes:
        head: of the statement that it belongs to; None for the kernel's.
        results: the names of what that gives.
        start: where that begins.
        schedule: how that is carried out.
        names: what is defined in the body.
        statements: the body so far.
    """

    head: Head | None
    results: Sequence[str]
    start: int
    schedule: Schedule | None = None
    names: dict[str, Var] = field(default_factory=dict)
    statements: list[Statement] = field(default_factory=list)


def _unknown(word: str, gives: bool) -> str:
    """What is wrong with the first word of a statement."""
    return f"unknown primitive {word!r}" if gives else f"expected a statement, found {word!r}"


class _Parser(Reader):
    """Reads one text; the innermost open body comes last."""

    def __init__(self, text: str, given: Sequence[Buffer]) -> None:
        super().__init__(text)
        self._given = given
        self._buffers: dict[str, Buffer] = {}
        self._open: list[_Open] = []
        self._schedule: dict[Statement, Schedule] = {}

    # --- the head --------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        """The whole text."""
        self.skip_lines()
        self.word("kernel")
        name = self.string("the kernel's name in quotes")
        split = self.not_negative("a number of levels") if self.accept_word("split") else 0
        self.bounds()
        self._buffer_list()
        sites: list[Site] = []
        if self.accept_word("sites"):
            self.expect("(")
            while True:
                sites.append(self._site())
                if not self.accept(","):
                    break
            self.expect(")")
        body = self._body()
        self.skip_lines()
        if self.position < len(self.text):
            self.fail("expected the end of the text")
        buffers = tuple(self._buffers.values())
        kernel = Kernel(name, buffers, body, tuple(sites), schedule=self._schedule)
        return with_split(kernel, split)

    def _buffer_list(self) -> None:
        self.expect("(")
        if self.accept(")"):
            return
        while True:
            start, word = self.position, self.match(NAME, "the role of a buffer")
            role = next((known for known in _ROLES if known == word), None)
            if role is None:
                self.fail(f"expected {', '.join(_ROLES)}, found {word!r}", start)
            start, key, name = self._buffer_name()
            if key in self._buffers:
                self.fail(f"{key} is a buffer already", start)
            self.expect(":")
            buffer = Buffer(name, role, self.tensor_type())
            self._buffers[key] = self._given[len(self._buffers)] if self._given else buffer
            if not self.accept(","):
                break
        self.expect(")")

    def _buffer_name(self) -> tuple[int, str, str]:
        start = self.position
        self.expect("%")
        name = self.string("a name") if self.looking_at_sign('"') else self.match(NAME, "a name")
        return start, f"%{name}", name

    def _site(self) -> Site:
        self.word("axis")
        axis = self.integer()
        self.word("of")
        what = self.string("what the check guards")
        problem = self.string("a problem") if self.accept_word("problem") else ""
        return Site(axis, what, self.where(), problem)

    # --- bodies ----------------------------------------------------------------------------------

    def _body(self) -> tuple[Statement, ...]:
        """The statements up to the brace that closes the kernel."""
        self._enter(_Open(None, (), self.position))
        while True:
            self.skip_lines()
            if self.accept("}"):
                done = self._open.pop()
                if not self._open:
                    return tuple(done.statements)
                self._close(done, [])
            elif self.accept_word("yield"):
                self._yield()
            else:
                self._statement()
                continue
            self.end_of_line()

    def _enter(self, block: _Open) -> None:
        if len(self._open) > MAXIMUM_NESTING:
            self.fail(f"loops are nested more than {MAXIMUM_NESTING} deep", block.start)
        self.expect("{")
        self.end_of_line()
        self._open.append(block)

    def _yield(self) -> None:
        head = self._open[-1].head
        if head is None or head.item is None:
            self.fail(f"a {'kernel' if head is None else head.word} body yields nothing")
        items = [head.item()]
        while self.accept(","):
            items.append(head.item())
        self.end_of_line()
        self.skip_lines()
        self.expect("}")
        self._close(self._open.pop(), items)

    def _close(self, block: _Open, items: Sequence[Var]) -> None:
        """Makes the statement whose body is complete."""
        assert block.head is not None, "the kernel's own body is no statement's"
        if len(items) != len(block.results):
            self.fail(f"{len(block.results)} results, but {len(items)} yielded", block.start)
        statement = block.head.close(tuple(block.statements), items)
        self._open[-1].statements.append(statement)
        if block.schedule is not None:
            self._schedule[statement] = block.schedule
        for name, result in zip(block.results, statement.results, strict=True):
            self._define(name, result, block.start)

    # --- scalars ---------------------------------------------------------------------------------

    def _define(self, name: str, var: Var, start: int) -> None:
        if any(name in block.names for block in self._open):
            self.fail(f"{name} is defined already", start)
        self._open[-1].names[name] = var

    def read(self) -> Var:
        """A scalar that is defined."""
        start, name = self.position, self.scalar()
        for block in reversed(self._open):
            if name in block.names:
                return block.names[name]
        self.fail(f"{name} is not defined here", start)

    def size(self) -> Size:
        """A dim, or a scalar that is defined."""
        return self.read() if self.looking_at_sign("%") else self.dim()

    def buffer(self) -> Buffer:
        """A buffer of the kernel."""
        start, key, _ = self._buffer_name()
        if key not in self._buffers:
            self.fail(f"the kernel has no buffer {key}", start)
        return self._buffers[key]

    # --- statements ------------------------------------------------------------------------------

    def _statement(self) -> None:
        start, names = self.position, self._results()
        place, first = self.position, self.match(NAME, "a statement")
        # functions that formulas enter later are primitives like all others
        spelled = "add" if first in PRIMITIVES else first
        word = WORDS.get((spelled, bool(names)))
        if word is None:
            self.fail(_unknown(first, bool(names)), place)
        if word.gives == "one" and len(names) != 1:
            self.fail(f"{first} has one result", start)
        read = word.parse(self, first, start if word.gives == "some" else place, names)
        if isinstance(read, Head):
            self._enter(_Open(read, names, start, self._accept_schedule()))
            for defined, place, var in read.defined:
                self._define(defined, var, place)
            return
        self._add(read)
        for name, result in zip(names, read.results, strict=True):
            self._define(name, result, start)
        self.end_of_line()

    def _results(self) -> list[str]:
        """The names of what a statement gives."""
        start, names = self.position, []
        if self.looking_at_sign("%"):
            names.append(self.scalar())
            while self.accept(","):
                names.append(self.scalar())
            if len(set(names)) != len(names):
                self.fail("a scalar is defined twice", start)
            self.expect("=")
        return names

    def _add(self, statement: Statement) -> None:
        self._open[-1].statements.append(statement)
        schedule = self._accept_schedule()
        if schedule is not None:
            self._schedule[statement] = schedule

    def _accept_schedule(self) -> Schedule | None:
        if not self.accept("@"):
            return None
        start, name = self.position, self.match(NAME, "a schedule")
        kind = schedules().get(name)
        if kind is None:
            self.fail(f"expected one of {', '.join(schedules())}, found {name!r}", start)
        self.expect("(")
        numbers: list[int] = []
        for place in range(arity(kind)):
            if place:
                self.expect(",")
            numbers.append(self.not_negative("a number"))
        self.expect(")")
        return kind(*numbers)


__all__ = ["parse_kernel"]
