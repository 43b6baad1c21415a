"""The text form of plans: reading what ``text`` prints.

Every text gives a plan or raises ParseError with line, column and an excerpt; nothing in it is
evaluated. Slots are resolved here; whether the plan is well-formed is for ``verify_plan``.

    plan   := "plan" NAME ["dims" "(" SYMBOL ":" INT ".." [INT], … ")"] "slots" slot*
              "feeds" [%slot, …] "outputs" [%slot, …] guard* [layout] ["loops" INT ".." INT, …]
              ["renewed" %slot ["from" %slot], …] ["commit" INT] group*
              "steps" (INT ":" step)* "kernels" kernel*
    slot   := %slot "=" KIND STRING DTYPE "[" dim, … "]" ["copies" INT] ["#" DIGEST] [where]
    guard  := "guard" ("equal" | "broadcasts" | "index") "[" dim "," dim "]" STRING
              ["of" "[" dim, … "]"] [where]
    layout := "layout" "peak" INT "bound" INT "steps" INT place* "order" [%slot, …]
    group  := "beside" INT "," INT, … "work" "[" dim, … "]"
    place  := %slot "size" INT "offset" INT "align" INT "in" %slot ["above" %slot, …]
    step   := "launch" INT "(" [%slot, …] ")" [where] | "copy" %slot "to" %slot
              | "branch" %slot "else" INT | "jump" INT | "require" guard
              | "host" STRING INT "(" [%slot, …] ")" "to" "(" [%slot, …] ")" ["ordered"] [where]
    where  := "at" STRING ":" INT [":" INT [".." INT]]
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from graphc.base.errors import ParseError
from graphc.ir.attributes import Array, Payload
from graphc.ir.guard import Guard
from graphc.ir.host import numbered
from graphc.ir.types import TensorType
from graphc.kernel.ir import Kernel
from graphc.kernel.parser import parse_kernel
from graphc.kernel.scanner import NAME, NUMBER, Scanner
from graphc.plan.ir import (
    Branch,
    ConcurrentGroup,
    Copy,
    HostCall,
    Jump,
    Launch,
    Layout,
    Plan,
    Require,
    Slot,
    SlotKind,
    Step,
)
from graphc.plan.memory import MemorySolution

_KINDS: dict[str, SlotKind] = {kind: kind for kind in get_args(SlotKind)}
_DIGEST = re.compile(r"[0-9a-f]{1,128}", re.ASCII)
_KERNELS = re.compile(r"^kernels[ \t\r]*$", re.MULTILINE)
_KERNEL_END = re.compile(r"^\}[ \t\r]*$", re.MULTILINE)
_BLANK = re.compile(r"\s*")


def parse_plan(text: str, constants: Mapping[str | int, Array] | Mapping[str, Array]) -> Plan:
    """Reads a plan; see ``verify_plan`` for whether it makes sense.

    Args:
        text: what ``print_plan`` gives.
        constants: the arrays of constant slots, by the digest in the text or by slot number.

    Raises:
        ParseError: if the text is ill-formed, names what it does not define, or an array is
            missing or not the one that the text names.
    """
    found = _KERNELS.search(text)
    if found is None:
        raise ParseError("the text of a plan has a line 'kernels'; here is none")
    arrays = {str(key): array for key, array in constants.items()}
    return _Parser(text[: found.start()], arrays).plan(_kernels(text, found.end()))


def _kernels(text: str, position: int) -> tuple[Kernel, ...]:
    """The kernels from a position on; each ends with a line that is a brace."""
    kernels: list[Kernel] = []
    while True:
        found = _BLANK.match(text, position)
        start = found.end() if found is not None else position
        if start == len(text):
            return tuple(kernels)
        end = _KERNEL_END.search(text, start)
        stop = len(text) if end is None else end.end()
        piece = text[start:stop]
        try:
            kernels.append(parse_kernel(piece))
        except ParseError:
            # Again, behind as many lines as come before it, so that the error names the right one.
            parse_kernel("\n" * text.count("\n", 0, start) + piece)
            raise
        position = stop


class _Parser(Scanner):
    """Reads one text up to its kernels."""

    def __init__(self, text: str, constants: Mapping[str, Array]) -> None:
        super().__init__(text)
        self._given = constants
        self._slots: list[Slot] = []
        self._constants: dict[int, Array] = {}

    def plan(self, kernels: tuple[Kernel, ...]) -> Plan:
        """The whole text."""
        self.skip_lines()
        self.word("plan")
        name = self.string("the plan's name in quotes")
        self.bounds()
        self._line_end()
        self._section("slots")
        while self.looking_at_sign("%"):
            self._slot()
        feeds = self._slot_list("feeds")
        outputs = self._slot_list("outputs")
        guards: list[Guard] = []
        while self.accept_word("guard"):
            guards.append(self._guard())
            self._line_end()
        layout = self._layout() if self.accept_word("layout") else None
        loops = self._loops() if self.accept_word("loops") else ()
        renewed = self._renewed() if self.accept_word("renewed") else ()
        commit = self._commit() if self.accept_word("commit") else None
        groups: list[ConcurrentGroup] = []
        while self.accept_word("beside"):
            groups.append(self._group())
        self._section("steps")
        steps: list[Step] = []
        while self.looking_at(NUMBER):
            start, number = self.position, self.integer()
            if number != len(steps):
                self.fail(f"step {len(steps)} comes next, not {number}", start)
            self.expect(":")
            steps.append(self._step(len(kernels)))
            self._line_end()
        if self.position < len(self.text):
            self.fail("expected a step or kernels")
        return Plan(
            name, tuple(self._slots), tuple(steps), kernels, feeds, outputs, self._constants,
            tuple(guards), layout, loops, commit, tuple(groups), renewed,
        )  # fmt: skip

    # --- pieces ----------------------------------------------------------------------------------

    def _line_end(self) -> None:
        self.end_of_line()
        self.skip_lines()

    def _section(self, word: str) -> None:
        self.word(word)
        self._line_end()

    def _slot_number(self) -> int:
        start, token = self.position, self.scalar()[1:]
        # A longer number than that of the slots names none, and may be too long to convert.
        if len(token) > 18 or int(token) >= len(self._slots):
            self.fail(f"the plan has no slot %{token}", start)
        return int(token)

    def _slot_numbers(self) -> tuple[int, ...]:
        if not self.looking_at_sign("%"):
            return ()
        result = [self._slot_number()]
        while self.accept(","):
            result.append(self._slot_number())
        return tuple(result)

    def _slot_list(self, word: str) -> tuple[int, ...]:
        self.word(word)
        result = self._slot_numbers()
        self._line_end()
        return result

    def _slot(self) -> None:
        start, number = self.position, len(self._slots)
        if self.scalar() != f"%{number}":
            self.fail(f"slot %{number} comes next", start)
        self.expect("=")
        start, word = self.position, self.match(NAME, "a kind of slot")
        if word not in _KINDS:
            self.fail(f"expected one of {', '.join(_KINDS)}, found {word!r}", start)
        name = self.string("the slot's name in quotes")
        type_ = self.tensor_type()
        copies = self.not_negative("copies") if self.accept_word("copies") else 1
        if self.accept("#"):
            start, digest = self.position, self.match(_DIGEST, "a digest")
            self._constants[number] = self._constant(number, digest, type_, start)
        self._slots.append(Slot(_KINDS[word], type_, name, self.where(), copies))
        self._line_end()

    def _constant(self, number: int, digest: str, type_: TensorType, start: int) -> Array:
        array = self._given.get(digest, self._given.get(str(number)))
        if array is None:
            self.fail(f"the array of constant #{digest} is not among those given", start)
        payload = Payload(array)
        if payload.array.dtype != type_.dtype.numpy or payload.array.shape != type_.shape:
            given = f"{array.dtype}{list(array.shape)}"
            self.fail(f"constant #{digest} is {type_} in the text but the array is {given}", start)
        if payload.digest.hex() != digest:
            self.fail(f"the array given for constant #{digest} is another one", start)
        return payload.array

    def _guard(self) -> Guard:
        start, relation = self.position, self.match(NAME, "equal, broadcasts or index")
        if relation not in ("equal", "broadcasts", "index"):
            self.fail(f"expected equal, broadcasts or index, found {relation!r}", start)
        start, pair = self.position, self.dim_list()
        if len(pair) != 2:
            self.fail("a guard compares two dims", start)
        message = self.string("the guard's message in quotes")
        shown = tuple(self.dim_list()) if self.accept_word("of") else None
        guard = Guard(
            pair[0], pair[1], message, self.where(), relation == "broadcasts", shown,
            relation == "index",
        )  # fmt: skip
        return guard

    def _group(self) -> ConcurrentGroup:
        bounds = [self.not_negative("a step")]
        while self.accept(","):
            bounds.append(self.not_negative("a step"))
        self.word("work")
        works = self.dim_list()
        self._line_end()
        return ConcurrentGroup(tuple(bounds), tuple(works))

    def _commit(self) -> int:
        step = self.not_negative("a step")
        self._line_end()
        return step

    def _renewed(self) -> tuple[tuple[int | None, int], ...]:
        pairs: list[tuple[int | None, int]] = []
        while True:
            new = self._slot_number()
            pairs.append((self._slot_number() if self.accept_word("from") else None, new))
            if not self.accept(","):
                break
        self._line_end()
        return tuple(pairs)

    def _loops(self) -> tuple[tuple[int, int], ...]:
        loops: list[tuple[int, int]] = []
        while True:
            first = self.not_negative("a step")
            self.expect("..")
            loops.append((first, self.not_negative("a step")))
            if not self.accept(","):
                break
        self._line_end()
        return tuple(loops)

    # --- layout ----------------------------------------------------------------------------------

    def _counted(self, word: str) -> int:
        self.word(word)
        return self.not_negative(word)

    def _layout(self) -> Layout:
        peak, bound, work = self._counted("peak"), self._counted("bound"), self._counted("steps")
        self._line_end()
        slots: list[int] = []
        numbers: list[tuple[int, int, int]] = []
        roots: list[int] = []
        below: list[tuple[int, ...]] = []
        begin = self.position
        while self.looking_at_sign("%"):
            slots.append(self._slot_number())
            numbers.append((self._counted("size"), self._counted("offset"), self._counted("align")))
            self.word("in")
            roots.append(self._slot_number())
            below.append(self._slot_numbers() if self.accept_word("above") else ())
            self._line_end()
        order = self._slot_list("order")
        position = {slot: place for place, slot in enumerate(slots)}
        if len(position) != len(slots):
            self.fail("a slot has two places in the layout", begin)
        mentioned = {*roots, *order, *(slot for group in below for slot in group)}
        for slot in mentioned - position.keys():
            self.fail(f"slot %{slot} has no place in the layout", begin)
        solution = MemorySolution(
            offsets=tuple(offset for _, offset, _ in numbers),
            peak=peak,
            lower_bound=bound,
            roots=tuple(position[slot] for slot in roots),
            alignments=tuple(alignment for _, _, alignment in numbers),
            order=tuple(position[slot] for slot in order),
            predecessors=tuple(tuple(position[slot] for slot in group) for group in below),
            steps=work,
        )
        return Layout(tuple(slots), solution, tuple(size for size, _, _ in numbers))

    # --- steps -----------------------------------------------------------------------------------

    def _step(self, kernels: int) -> Step:
        start, word = self.position, self.match(NAME, "a step")
        if word == "launch":
            start, kernel = self.position, self.not_negative("a kernel")
            if kernel >= kernels:
                self.fail(f"the plan has no kernel {kernel}", start)
            arguments = self._slots_in_parentheses()
            return Launch(kernel, arguments, self.where())
        if word == "copy":
            source = self._slot_number()
            self.word("to")
            return Copy(source, self._slot_number())
        if word == "branch":
            predicate = self._slot_number()
            self.word("else")
            return Branch(predicate, self.not_negative("a step"))
        if word == "jump":
            return Jump(self.not_negative("a step"))
        if word == "require":
            self.word("guard")
            return Require(self._guard())
        if word == "host":
            return self._host_call()
        self.fail(f"expected launch, copy, branch, jump, require or host, found {word!r}", start)

    def _slots_in_parentheses(self) -> tuple[int, ...]:
        self.expect("(")
        slots = self._slot_numbers()
        self.expect(")")
        return slots

    def _host_call(self) -> HostCall:
        start, name = self.position, self.string("the name of a function")
        function = numbered(self.not_negative("a number"), name)
        if function is None:
            self.fail(f"there is no Python function {name!r} of this number in this process", start)
        arguments = self._slots_in_parentheses()
        self.word("to")
        results = self._slots_in_parentheses()
        ordered = self.accept_word("ordered")
        return HostCall(function, arguments, results, ordered, self.where())


__all__ = ["parse_plan"]
