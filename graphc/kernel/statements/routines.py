"""Calls of native routines with rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from graphc.ir.dims.expressions import Dim
from graphc.kernel.routines.base import routine
from graphc.kernel.scanner import NAME
from graphc.kernel.signature import Buffer
from graphc.kernel.statements.base import Estimator, Names, Size, Statement, Touch, Var
from graphc.kernel.statements.words import Reader, statement


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """Elements of a buffer that follow each other: where they start, and how many there are."""

    buffer: Buffer
    offset: Var
    extent: Size

    def moved(self, to: Mapping[Buffer, Buffer]) -> Span:
        """The same in another buffer, if its own is a key."""
        return replace(self, buffer=to.get(self.buffer, self.buffer))

    def text(self, names: Names) -> str:
        """Its text."""
        extent = names.size(self.extent)
        return f"{names.buffer(self.buffer)}[{names.read(self.offset)}, {extent}]"

    @staticmethod
    def parse(reader: Reader) -> Span:
        """Reads its text."""
        buffer = reader.buffer()
        reader.expect("[")
        offset = reader.read()
        reader.expect(",")
        extent = reader.size()
        reader.expect("]")
        return Span(buffer, offset, extent)


@statement(("call",), "none")
@dataclass(frozen=True, slots=True, eq=False)
class Call(Statement):
    """``targets = routine(sources, numbers)``, by the routine of ``graphc.kernel.routines``.

    Every element of the targets is written. ``workspace`` is room for the routine's own use. One
    that may fail has a ``site``, by which it reports an index that is out of range.
    """

    routine: Final[str] = field()
    numbers: tuple[Size, ...] = field()
    targets: tuple[Span, ...] = field()
    sources: tuple[Span, ...] = field()
    workspace: Buffer | None = None
    site: int | None = None

    @property
    def may_fail(self) -> bool:  # type: ignore[override]
        return self.site is not None

    @property
    def spans(self) -> tuple[Span, ...]:
        """All elements that it mentions."""
        return (*self.sources, *self.targets)

    @property
    def sizes(self) -> tuple[Size, ...]:
        return (*self.numbers, *[span.extent for span in self.spans])

    @property
    def operands(self) -> tuple[Var, ...]:
        sizes = [size for size in self.sizes if isinstance(size, Var)]
        return (*[span.offset for span in self.spans], *sizes)

    @property
    def reads(self) -> tuple[Buffer, ...]:
        return tuple([span.buffer for span in self.sources])

    @property
    def writes(self) -> tuple[Buffer, ...]:
        return tuple([span.buffer for span in self.targets])

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        return () if self.workspace is None else (self.workspace,)

    @property
    def written(self) -> tuple[Size, ...]:
        return tuple([span.extent for span in self.targets[:1]])

    @property
    def touches(self) -> tuple[Touch, ...]:
        return tuple(
            [
                Touch(span.buffer, span.offset, ((span.extent, 1),), (span.extent,))
                for span in self.spans
            ]
        )

    @property
    def signature(self) -> str:
        return self.routine

    def moved(self, to: Mapping[Buffer, Buffer]) -> Call:
        room = self.workspace
        return replace(
            self,
            targets=tuple([span.moved(to) for span in self.targets]),
            sources=tuple([span.moved(to) for span in self.sources]),
            workspace=None if room is None else to.get(room, room),
        )

    def cost(self, estimator: Estimator) -> Dim:
        dtypes = [span.buffer.type.dtype for span in self.spans]
        return routine(self.routine).work(dtypes, [estimator.size(n) for n in self.numbers])

    def text(self, names: Names) -> str:
        numbers = ", ".join(map(names.size, self.numbers))
        targets, sources = (
            ", ".join([span.text(names) for span in spans])
            for spans in (self.targets, self.sources)
        )
        checks = "" if self.site is None else f" check {self.site}"
        text = f"call {self.routine} [{numbers}]{checks} {targets} = {sources}"
        if self.workspace is not None:
            text += f" workspace {names.buffer(self.workspace)}"
        return text

    @classmethod
    def parse(cls, reader: Reader, word: str, start: int, results: Sequence[str]) -> Call:
        name = reader.match(NAME, "a routine")
        reader.expect("[")
        numbers = [reader.size()]
        while reader.accept(","):
            numbers.append(reader.size())
        reader.expect("]")
        site = reader.integer() if reader.accept_word("check") else None
        targets = _spans(reader)
        reader.expect("=")
        sources = _spans(reader)
        workspace = reader.buffer() if reader.accept_word("workspace") else None
        return cls(name, tuple(numbers), targets, sources, workspace, site)


def _spans(reader: Reader) -> tuple[Span, ...]:
    spans = [Span.parse(reader)]
    while reader.accept(","):
        spans.append(Span.parse(reader))
    return tuple(spans)
