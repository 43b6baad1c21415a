"""Functions of LLVM text: instructions, and the control flow around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeAlias

from graphc.codegen.llvm.instructions import Instructions, Reg
from graphc.codegen.llvm.module import Function, ModuleEmitter, pieces_of
from graphc.codegen.llvm.types import LType

Leave: TypeAlias = Callable[[Reg], None]
"""Leaves a block if a condition holds."""

Case: TypeAlias = Callable[..., AbstractContextManager[None]]
"""A block for some values of what is switched on."""


class FunctionEmitter(Instructions):
    """One function body, emitted front to back.

    ``finish()`` defines it in the module. Labels are fresh too.

    Attributes:
        name: its symbol.
        result: the type of what it gives; None for nothing.
        block: the label of the block under emission.
    """

    def __init__(
        self,
        module: ModuleEmitter,
        name: str,
        parameters: Mapping[str, LType],
        result: LType | None = None,
        *,
        linkage: str = "",
        attributes: str = "nounwind",
        noalias: Sequence[str] = (),
    ) -> None:
        """``noalias`` names parameters through which alone their memory is reached."""
        super().__init__(module)
        self.name = name
        self.result = result
        self._parameters = {
            parameter: Reg(self, f"%{parameter}", type_) for parameter, type_ in parameters.items()
        }
        head = ", ".join(
            f"{type_}{' noalias' if parameter in noalias else ''} %{parameter}"
            for parameter, type_ in parameters.items()
        )
        kind = "void" if result is None else result.text
        self._head = f"{linkage} {kind}", head, attributes
        self.block = "entry"

    def parameter(self, name: str) -> Reg:
        """The operand of that name which the function is called with."""
        return self._parameters[name]

    def given(self, *names: str) -> tuple[Reg, ...]:
        """Several of these operands."""
        return tuple(self._parameters[name] for name in names)

    # --- blocks -----------------------------------------------------------------------------------

    def label(self, hint: str) -> str:
        """A new label, without %."""
        self._count += 1
        return f"{hint}{self._count}"

    def start(self, label: str) -> None:
        """Begins a basic block."""
        self._lines.append(f"{label}:")
        self.block = label

    def jump(self, label: str) -> None:
        self.line(f"br label %{label}")

    def branch(self, condition: Reg, then: str, otherwise: str) -> None:
        self.line(f"br i1 {condition.text}, label %{then}, label %{otherwise}")

    def give(self, value: Reg | float = 0) -> None:
        """Returns; what is emitted behind it in the same block is never reached."""
        self._return(value)
        self.start(self.label("never"))

    def finish(self, value: Reg | float = 0) -> None:
        """Returns, ends the function and defines it in its module."""
        self._return(value)
        body = pieces_of("\n".join((*self._stack, *self._lines)))
        self.module.define(Function(self.name, *self._head, body))
        # operands refer to the function: without a circle all of it is freed at once
        for known in (self._parameters, self._literals, self._opaque, self._lines, self._stack):
            known.clear()

    def _return(self, value: Reg | float) -> None:
        if self.result is None:
            self.line("ret void")
        else:
            self.line(f"ret {self.narrowed(value, self.result)}")

    # --- control ---------------------------------------------------------------------------------

    @contextmanager
    def loop(
        self,
        lower: Reg | int,
        upper: Reg | int,
        step: int = 1,
        carries: Sequence[Reg] = (),
        hint: str = "i",
        lasts: Callable[[Sequence[Reg]], Reg] | None = None,
    ) -> Iterator[Loop]:
        """``for i in range(lower, upper, step)``, top-tested.

        Inside, ``loop.index`` and ``loop.carries`` are the phis; set ``loop.yields`` to the next
        values. After the block ``loop.results`` are the final ones. With ``lasts``, the loop ends
        where that makes a false i1 of the phis, too.
        """
        lower, upper = self.like(lower), self.like(upper)
        header, body, done = self.label("head"), self.label("body"), self.label("done")
        before = self.block
        self.jump(header)
        self.start(header)
        mark = len(self._lines)
        index = Reg(self, self.fresh(hint), lower.type)
        phis = [Reg(self, self.fresh("c"), carry.type) for carry in carries]
        inside = index < upper
        if lasts is not None:
            inside = inside & lasts(phis)
        self.branch(inside, body, done)
        self.start(body)
        loop = Loop(index, tuple(phis))
        yield loop
        following = self.assign(index.type, f"add nuw nsw {index}, {step}")
        end = self.block
        self.jump(header)
        self._lines[mark:mark] = [
            f"  {phi.text} = phi {phi.type} [ {first.text}, %{before} ], [ {last.text}, %{end} ]"
            for phi, first, last in zip(
                (index, *phis), (lower, *carries), (following, *loop.yields), strict=True
            )
        ]
        self.start(done)
        loop.results = tuple(phis)

    @contextmanager
    def each(self, count: Reg | int) -> Iterator[Reg]:
        """The block for 0, 1, 2 … below the count."""
        with self.loop(0, count) as loop:
            yield loop.index

    @contextmanager
    def when(self, condition: Reg, hint: str = "then") -> Iterator[None]:
        """Runs the block if the scalar condition holds."""
        then, done = self.label(hint), self.label("done")
        self.branch(condition, then, done)
        self.start(then)
        yield
        self.jump(done)
        self.start(done)

    def merged(
        self,
        condition: Reg,
        otherwise: Sequence[Reg],
        block: Callable[[], Sequence[Reg]],
        hint: str,
    ) -> list[Reg]:
        """What the block gives, which runs if the scalar condition holds; else ``otherwise``."""
        before = self.block
        with self.when(condition, hint):
            results, end = block(), self.block
        return [
            self.phi(a.type, [(b, before), (a, end)])
            for a, b in zip(results, otherwise, strict=True)
        ]

    @contextmanager
    def switch(self, value: Reg) -> Iterator[Case]:
        """The block that is emitted for the value, of those that are emitted within; or none."""
        done, mark, labels = self.label("done"), len(self._lines), dict[int, str]()

        @contextmanager
        def case(*numbers: int) -> Iterator[None]:
            label = self.label("case")
            labels.update(dict.fromkeys(numbers, label))
            self.start(label)
            yield
            self.jump(done)

        yield case
        cases = " ".join([f"{value.type} {n}, label %{label}" for n, label in labels.items()])
        self._lines.insert(mark, f"  switch {value}, label %{done} [ {cases} ]")
        self.start(done)

    def phi(self, type_: LType, sources: Sequence[tuple[Reg, str]]) -> Reg:
        """Joins values that come from several blocks; only at a block's beginning."""
        text = ", ".join([f"[ {value.text}, %{block} ]" for value, block in sources])
        return self.assign(type_, f"phi {type_.text} {text}")

    @contextmanager
    def region(self) -> Iterator[Leave]:
        """The block once, up to where a condition holds that what it is given is called with."""
        done = self.label("done")
        yield self._leaving(done)
        self.jump(done)
        self.start(done)

    @contextmanager
    def repeat(self) -> Iterator[Leave]:
        """The same again and again, until a condition holds."""
        again, done = self.label("again"), self.label("done")
        self.jump(again)
        self.start(again)
        yield self._leaving(done)
        self.jump(again)
        self.start(done)

    @contextmanager
    def forever(self) -> Iterator[None]:
        """The block again and again, until it gives a result."""
        head, done = self.label("head"), self.label("done")
        self.jump(head)
        self.start(head)
        yield
        self.jump(head)
        self.start(done)

    def _leaving(self, done: str) -> Leave:
        def leave_if(condition: Reg) -> None:
            stay = self.label("stay")
            self.branch(condition, done, stay)
            self.start(stay)

        return leave_if


class Loop:
    """The registers of a loop under emission."""

    __slots__ = ("carries", "index", "results", "yields")

    def __init__(self, index: Reg, carries: tuple[Reg, ...]) -> None:
        self.index = index
        self.carries = carries
        self.yields: Sequence[Reg] = ()
        self.results: tuple[Reg, ...] = ()
