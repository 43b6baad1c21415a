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
               | %v, … "=" "serial" %v "<" dim "carry" "(" %v "=" %v, … ")" "{" … "yield" %v, … "}"
               | %v, … "=" "reduce" ORDER %v "<" size ["," "if" %v] "{" … "yield" COMBINE %v, … "}"
               | statement "@" SCHEDULE "(" INT, … ")", behind the head where there is a body
               | "contract" TEMPLATE "[" size, size, size "]" matrix "=" matrix "*" matrix
                 ["workspace" %name]
    matrix  := %name "[" %v, size, size "]"
    size    := dim | %v
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from graphc.ir.dtypes import DType, int64
from graphc.ir.lowering import Combine
from graphc.ir.text.numbers import float_of
from graphc.kernel.analysis.split import with_split
from graphc.kernel.ir import (
    Apply,
    Buffer,
    Carry,
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
    Reducer,
    Role,
    Site,
    Size,
    Statement,
    Store,
    Var,
    reduced_dtype,
)
from graphc.kernel.printer import MAXIMUM_NESTING
from graphc.kernel.scalar import PRIMITIVES
from graphc.kernel.scanner import NAME, NUMBER, Scanner
from graphc.kernel.schedule.kinds import SCHEDULES, Schedule, arity

_ROLES: tuple[Role, ...] = get_args(Role)
_COMBINES: tuple[Combine, ...] = get_args(Combine)


def parse_kernel(text: str, buffers: Sequence[Buffer] = ()) -> Kernel:
    """Reads a kernel; see ``verify_kernel`` for whether it makes sense.

    Buffers that are given, all or none, stand for those of the text, in its order.

    Raises:
        ParseError: if the text is ill-formed or names what it does not define.
    """
    return _Parser(text, buffers).kernel()


@dataclass(slots=True)
class _Open:
    """A body being read: whose it is, what is defined in it, its statements so far."""

    kind: str
    order: str
    results: list[str]
    index: Var
    extent: object
    condition: Var | None
    arguments: list[tuple[Var, Var]]
    names: dict[str, Var]
    statements: list[Statement]
    start: int
    schedule: Schedule | None = None


class _Parser(Scanner):
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
        return Site(axis, what, self.where())

    # --- bodies ----------------------------------------------------------------------------------

    def _body(self) -> tuple[Statement, ...]:
        """The statements up to the brace that closes the kernel."""
        self._enter(_Open("kernel", "", [], Var(int64), 0, None, [], {}, [], self.position))
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
        block = self._open[-1]
        items: list[tuple[str, Var]] = []
        if block.kind not in ("serial", "reduce"):
            self.fail(f"a {block.kind} body yields nothing")
        while True:
            start = self.position
            combine = self.match(NAME, "a combination") if block.kind == "reduce" else ""
            if combine and combine not in _COMBINES:
                self.fail(f"expected one of {', '.join(_COMBINES)}, found {combine!r}", start)
            items.append((combine, self._read()))
            if not self.accept(","):
                break
        self.end_of_line()
        self.skip_lines()
        self.expect("}")
        self._close(self._open.pop(), items)

    def _close(self, block: _Open, items: list[tuple[str, Var]]) -> None:
        """Makes the loop or reduction whose body is complete."""
        if len(items) != len(block.results):
            self.fail(f"{len(block.results)} results, but {len(items)} yielded", block.start)
        statement: Statement
        body = tuple(block.statements)
        if block.kind == "reduce":
            results = [Var(reduced_dtype(combine, term.dtype)) for combine, term in items]
            reducers = tuple(
                Reducer(combine, result, term)  # type: ignore[arg-type]
                for (combine, term), result in zip(items, results, strict=True)
            )
            head = block.index, block.extent, block.order
            statement = Reduce(*head, body, reducers, block.condition)  # type: ignore[arg-type]
        else:
            results = [Var(argument.dtype) for argument, _ in block.arguments]
            carries = tuple(
                Carry(result, argument, initial, following)
                for result, (argument, initial), (_, following) in zip(
                    results, block.arguments, items, strict=True
                )
            )
            statement = Loop(block.index, block.extent, block.kind, body, carries)  # type: ignore[arg-type]
        self._open[-1].statements.append(statement)
        if block.schedule is not None:
            self._schedule[statement] = block.schedule
        for name, result in zip(block.results, results, strict=True):
            self._define(name, result, block.start)

    # --- scalars ---------------------------------------------------------------------------------

    def _define(self, name: str, var: Var, start: int) -> None:
        if any(name in block.names for block in self._open):
            self.fail(f"{name} is defined already", start)
        self._open[-1].names[name] = var

    def _read(self) -> Var:
        start, name = self.position, self.scalar()
        for block in reversed(self._open):
            if name in block.names:
                return block.names[name]
        self.fail(f"{name} is not defined here", start)

    def _size(self) -> Size:
        return self._read() if self.looking_at_sign("%") else self.dim()

    def _reads(self) -> list[Var]:
        result = [self._read()]
        while self.accept(","):
            result.append(self._read())
        return result

    def _buffer(self) -> Buffer:
        start, key, _ = self._buffer_name()
        if key not in self._buffers:
            self.fail(f"the kernel has no buffer {key}", start)
        return self._buffers[key]

    # --- statements ------------------------------------------------------------------------------

    def _statement(self) -> None:
        start = self.position
        if not self.looking_at_sign("%"):
            self._plain(start)
            return
        names = [self.scalar()]
        while self.accept(","):
            names.append(self.scalar())
        if len(set(names)) != len(names):
            self.fail("a scalar is defined twice", start)
        self.expect("=")
        place, word = self.position, self.match(NAME, "a statement")
        if word in ("reduce", "serial"):
            self._loop(word, names, start)
            return
        if len(names) != 1:
            self.fail(f"{word} has one result", start)
        statement = self._expression(word, place)
        self._add(statement)
        self._define(names[0], statement.result, start)
        self.end_of_line()

    def _add(self, statement: Statement) -> None:
        self._open[-1].statements.append(statement)
        schedule = self._accept_schedule()
        if schedule is not None:
            self._schedule[statement] = schedule

    def _accept_schedule(self) -> Schedule | None:
        if not self.accept("@"):
            return None
        start, name = self.position, self.match(NAME, "a schedule")
        kind = SCHEDULES.get(name)
        if kind is None:
            self.fail(f"expected one of {', '.join(SCHEDULES)}, found {name!r}", start)
        self.expect("(")
        numbers: list[int] = []
        for place in range(arity(kind)):
            if place:
                self.expect(",")
            numbers.append(self.not_negative("a number"))
        self.expect(")")
        return kind(*numbers)

    def _plain(self, start: int) -> None:
        word = self.match(NAME, "a statement")
        if word in ("parallel", "across", "vector", "serial"):
            self._loop(word, [], start)
            return
        if word == "store":
            buffer = self._buffer()
            self.expect("[")
            index = self._read()
            self.expect("]")
            self.expect(",")
            self._add(Store(buffer, index, self._read()))
        elif word == "contract":
            self._add(self._contract())
        else:
            self.fail(f"expected a statement, found {word!r}", start)
        self.end_of_line()

    def _loop(self, kind: str, results: list[str], start: int) -> None:
        order = ""
        if kind == "reduce":
            place, order = self.position, self.match(NAME, "lanes or chain")
            if order not in ("lanes", "chain"):
                self.fail(f"expected lanes or chain, found {order!r}", place)
        name_start, name = self.position, self.scalar()
        self.expect("<")
        extent = self._size()
        condition: Var | None = None
        if kind == "reduce" and self.accept(","):
            self.word("if")
            condition = self._read()
        arguments: list[tuple[Var, Var]] = []
        names: list[tuple[str, int, Var]] = [(name, name_start, Var(int64))]
        if kind == "serial" and self.accept_word("carry"):
            self.expect("(")
            while True:
                place, argument = self.position, self.scalar()
                self.expect("=")
                initial = self._read()
                arguments.append((Var(initial.dtype), initial))
                names.append((argument, place, arguments[-1][0]))
                if not self.accept(","):
                    break
            self.expect(")")
        if kind != "reduce" and len(arguments) != len(results):
            self.fail(f"{len(results)} results, but {len(arguments)} carried", start)
        index, schedule = names[0][2], self._accept_schedule()
        opened = _Open(
            kind, order, results, index, extent, condition, arguments, {}, [], start, schedule
        )
        self._enter(opened)
        for defined, place, var in names:
            self._define(defined, var, place)

    def _expression(self, word: str, start: int) -> Const | DimValue | Apply | Cast | Load | Check:
        if word == "const":
            dtype = self.dtype()
            return Const(Var(dtype), self._literal(dtype))
        if word == "dim":
            return DimValue(Var(int64), self.dim())
        if word == "cast":
            return Cast(Var(self.dtype()), self._read())
        if word == "check":
            site, start = self.integer(), self.position
            wraps = not self.looking_at(NUMBER)
            if not wraps:
                if self.integer() != 0:
                    self.fail("a check has no lower bound but 0", start)
                self.expect("<=")
            index = self._read()
            self.expect("<")
            return Check(Var(int64), index, self.dim(), site, wraps)
        if word == "load":
            buffer = self._buffer()
            self.expect("[")
            index = self._read()
            self.expect("]")
            condition = self._read() if self.accept_word("if") else None
            other = self._read() if self.accept_word("else") else None
            return Load(Var(buffer.type.dtype), buffer, index, condition, other)
        definition = PRIMITIVES.get(word)
        if definition is None:
            self.fail(f"unknown primitive {word!r}", start)
        operands = self._reads()
        if len(operands) != definition.arity:
            self.fail(f"{word} takes {definition.arity} operands, not {len(operands)}", start)
        result = Var(definition.result_dtype([operand.dtype for operand in operands]))
        return Apply(result, word, tuple(operands))

    def _literal(self, dtype: DType) -> bool | int | float:
        if dtype.kind == "bool":
            start, word = self.position, self.match(NAME, "True or False")
            if word not in ("True", "False"):
                self.fail(f"expected True or False, found {word!r}", start)
            return word == "True"
        if not dtype.is_float:
            return self.integer()
        start, token = self.position, self.match(NUMBER, "a number")
        try:
            return float_of(token)
        except ValueError as error:
            self.fail(str(error), start)

    def _contract(self) -> Contract:
        start, template = self.position, self.match(NAME, "a template")
        if template not in ("panel", "packed"):
            self.fail(f"expected panel or packed, found {template!r}", start)
        self.expect("[")
        m = self._size()
        self.expect(",")
        n = self._size()
        self.expect(",")
        k = self._size()
        self.expect("]")
        c = self._matrix()
        self.expect("=")
        a = self._matrix()
        self.expect("*")
        b = self._matrix()
        workspace = self._buffer() if self.accept_word("workspace") else None
        near = []
        if self.accept_word("near"):
            near.append(self._matrix())
            while self.accept(","):
                near.append(self._matrix())
        operands = a, b, c, workspace, tuple(near)
        return Contract(template, m, n, k, *operands)  # type: ignore[arg-type]

    def _matrix(self) -> MatrixOperand:
        buffer = self._buffer()
        self.expect("[")
        offset = self._read()
        self.expect(",")
        row_stride = self._size()
        self.expect(",")
        column_stride = self._size()
        self.expect("]")
        return MatrixOperand(buffer, offset, row_stride, column_stride)


__all__ = ["parse_kernel"]
