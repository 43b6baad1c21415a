"""The text form of plans: printing.

One slot, guard and step a line; kernels follow in their own text form. Everything a plan means is
in the text except the arrays of constants, which it names by digest (``constants_of`` gives them).
``parser.parse_plan`` reads it back, and printing what was read gives the same text. Plans that are
broken print too, so that a dump can show why.

    plan "graph" dims (n: 1..)
    slots
      %0 = feed "x" float32[n, 64]
      %1 = output "y" float32[n, 64] at "model.py":12:8..20
    feeds %0
    outputs %1
    layout peak 0 bound 0 steps 0
    order
    steps
      0: launch 0 (%0, %1) at "model.py":12:8..20
    kernels
    kernel "exp" (in %x: float32[n, 64], out %y: float32[n, 64]) {
      …
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from graphc.ir.attributes import Array, Payload
from graphc.ir.dims import expressions
from graphc.ir.dims.expressions import Dim, DimExpr
from graphc.ir.text.printer import bounds_clause, guard_text, quote, symbol_order, where_text
from graphc.kernel.printer import print_kernel
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
    Step,
)
from graphc.plan.parser import parse_plan


def print_plan(plan: Plan) -> str:
    """The text of a plan, ending in a newline; ``parse_plan`` reads it back."""
    lines = [f"plan {quote(plan.name)}{bounds_clause(symbols_in(plan))}", "slots"]
    for number, slot in enumerate(plan.slots):
        text = f"  %{number} = {slot.kind} {quote(slot.name)} {slot.type}"
        if slot.copies != 1:
            text += f" copies {slot.copies}"
        if number in plan.constants:
            text += f" #{Payload(plan.constants[number]).digest.hex()}"
        lines.append(text + where_text(slot.where))
    lines.append(f"feeds {_slots(plan.feeds)}".rstrip())
    lines.append(f"outputs {_slots(plan.outputs)}".rstrip())
    lines += [guard_text(guard) + where_text(guard.where) for guard in plan.guards]
    if plan.layout is not None:
        lines += _layout(plan.layout)
    if plan.loops:
        lines.append(f"loops {', '.join(f'{start}..{end}' for start, end in plan.loops)}")
    if plan.renewed:
        lines.append(f"renewed {', '.join(_renewed(old, new) for old, new in plan.renewed)}")
    if plan.commit is not None:
        lines.append(f"commit {plan.commit}")
    lines += [_group(group) for group in plan.groups]
    lines.append("steps")
    lines += [f"  {number}: {_step(step)}" for number, step in enumerate(plan.steps)]
    lines.append("kernels")
    return "\n".join(lines) + "\n" + "".join(map(print_kernel, plan.kernels))


def constants_of(plan: Plan) -> dict[str, Array]:
    """The arrays of constant slots by the digest that the text names them by."""
    return {Payload(array).digest.hex(): array for array in plan.constants.values()}


def symbols_in(plan: Plan) -> list[DimExpr]:
    """The symbols that slots and guards mention, by name and bounds."""
    return sorted(expressions.symbols_of(*dict.fromkeys(_dims_in(plan))), key=symbol_order)


def _dims_in(plan: Plan) -> Iterator[Dim]:
    for slot in plan.slots:
        yield from slot.type.shape
    for guard in (*plan.guards, *(guard for _, guard in plan.required)):
        yield from guard.dims
    for group in plan.groups:
        yield from group.works


def _slots(slots: Iterable[int]) -> str:
    return ", ".join(f"%{slot}" for slot in slots)


def _renewed(old: int | None, new: int) -> str:
    return f"%{new}" if old is None else f"%{new} from %{old}"


def _group(group: ConcurrentGroup) -> str:
    bounds, works = (", ".join(map(str, numbers)) for numbers in (group.bounds, group.works))
    return f"beside {bounds} work [{works}]"


def _layout(layout: Layout) -> list[str]:
    solution = layout.solution
    lines = [f"layout peak {solution.peak} bound {solution.lower_bound} steps {solution.steps}"]

    def buffers(numbers: Iterable[int]) -> str:
        known = range(len(layout.slots))
        return ", ".join(f"%{layout.slots[n]}" if n in known else "%?" for n in numbers)

    for slot, size, offset, root, alignment, below in zip(
        layout.slots, layout.sizes, solution.offsets, solution.roots, solution.alignments,
        solution.predecessors, strict=False,
    ):  # fmt: skip
        text = f"  %{slot} size {size} offset {offset} align {alignment}"
        text += f" in {buffers([root])}"
        lines.append(f"{text} above {buffers(below)}" if below else text)
    lines.append(f"order {buffers(solution.order)}".rstrip())
    return lines


def _step(step: Step) -> str:
    if isinstance(step, Launch):
        return f"launch {step.kernel} ({_slots(step.arguments)}){where_text(step.where)}"
    if isinstance(step, Copy):
        return f"copy %{step.source} to %{step.target}"
    if isinstance(step, Branch):
        return f"branch %{step.predicate} else {step.target}"
    if isinstance(step, HostCall):
        given, made = _slots(step.arguments), _slots(step.results)
        text = f"host {quote(step.function.name)} {step.function.number} ({given}) to ({made})"
        return f"{text}{' ordered' if step.ordered else ''}{where_text(step.where)}"
    if isinstance(step, Require):
        return f"require {guard_text(step.guard)}{where_text(step.guard.where)}"
    assert isinstance(step, Jump)
    return f"jump {step.target}"


__all__ = ["constants_of", "parse_plan", "print_plan", "symbols_in"]
