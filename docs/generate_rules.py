"""Writes docs/rules.md, the reference of rewriting rules, from the rules themselves.

    python docs/generate_rules.py            # rewrites docs/rules.md
    python docs/generate_rules.py --check    # fails if docs/rules.md is out of date

Invariant: an entry is what the rule's function builds, so the page cannot say anything else.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from generate_ops import dtypes_label, escaped, write

from graphc.ir import attributes
from graphc.ir.builder import building
from graphc.ir.dtypes import COMPUTED, DType, float32
from graphc.ir.graph import Node
from graphc.ir.value import Value
from passes.rewriting.constants import payload_array
from passes.rewriting.pattern import Rule, Sketch
from passes.rules import RULE_SETS

PAGE = Path(__file__).resolve().parent / "rules.md"

INTRODUCTION = """\
# Rules

This page is generated from the rules by `python docs/generate_rules.py`; edit the files in
`passes/rules/`, not the page. [adding_a_pass.md](adding_a_pass.md) shows how to add one,
[numerics.md](numerics.md) explains classes and flags.

What matches the left side becomes the right side. `Options(off={...})` switches rules off by name;
each firing is a decision with the user's line in the records of the pass.

**Class** E keeps every bit. T changes bits within the bound that is given, in epsilons of the dtype
and relative to the result (with `reassoc`, to the largest value on the way); it is off under
`numerics="strict"`. **Flags** are those of `Options(fast_math={...})` that a rule needs, all of
them. **dtypes**: *any* is bool, all integers and all floats; *floats* are float32 and float64, in which
those of 16 bits are computed too; *numbers* are integers and these floats;
*bits* is bool and the integers; *–* means that the rule holds whatever they are. Single letters are
tensors of any shapes that broadcast, unless a note says that they are constants or attributes.
"""

_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "floor_divide": "//", "mod": "%",
    "power": "**", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<",
    "right_shift": ">>", "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=",
    "greater": ">", "greater_equal": ">=",
}  # fmt: skip
_PREFIX = {"negative": "-", "bitwise_not": "~"}


def page() -> str:
    """The whole page."""
    count = sum(len(rules.rules) for rules in RULE_SETS)
    parts = [INTRODUCTION, f"There are {count} rules.\n"]
    for module, rules in _by_module().items():
        summary = (inspect.getdoc(sys.modules[module]) or "").partition("\n")[0]
        parts.append(f"## `{module.replace('.', '/')}.py`\n\n{escaped(summary)}\n")
        parts.append("| rule | left | right | class | dtypes | flags | notes |\n|-|-|-|-|-|-|-|")
        parts.append("\n".join(_row(rule) for rule in rules) + "\n")
    return "\n".join(parts).rstrip() + "\n"


def _by_module() -> dict[str, list[Rule]]:
    result: dict[str, list[Rule]] = {}
    for rules in RULE_SETS:
        for rule in rules.rules:
            result.setdefault(rule.identity.__module__, []).append(rule)
    return result


def _row(rule: Rule) -> str:
    dtype = float32 if float32 in rule.dtypes or not rule.dtypes else rule.dtypes[0]
    left, right = _sides(rule, dtype)
    grade = rule.numerics if not rule.bound else f"{rule.numerics} ({rule.bound:g})"
    cells = (
        f"`{rule.name}`",
        escaped(f"`{left}`"),
        escaped(f"`{right}`"),
        grade,
        dtypes_label(rule.dtypes, COMPUTED),
        ", ".join(f"`{flag}`" for flag in sorted(rule.needs)),
        escaped("; ".join(_notes(rule))),
    )
    return f"| {' | '.join(cells)} |"


def _notes(rule: Rule) -> Iterator[str]:
    if rule.masks:
        yield f"bool: {', '.join(rule.masks)}"
    if rule.constants:
        yield f"constant: {', '.join(rule.constants)}"
    if rule.free:
        yield f"attribute: {', '.join(rule.free)}"
    for name, compute in rule.derived.items():
        yield f"{name} is {_summary(compute) or 'computed'}"
    if rule.when is not None:
        yield f"if {_summary(rule.when) or 'a condition on them holds'}"
    if rule.exclusive:
        yield "if nothing else reads the steps of the left side"


def _summary(function: Any) -> str:
    text = (inspect.getdoc(function) or "").partition("\n")[0].rstrip(".")
    text = text.removeprefix("Whether ")
    return text[:1].lower() + text[1:]


# --- expressions ---------------------------------------------------------------------------------


def _sides(rule: Rule, dtype: DType) -> tuple[str, str]:
    symbols = rule.symbols(dtype)
    sketch = Sketch()
    with building(sketch):
        sides = rule.identity(**symbols)
    texts = {value: name for name, value in symbols.items() if isinstance(value, Value)}
    free = {attributes.key(example): name for name, example in rule.free.items()}
    flags = [key for key in free if key in (attributes.key(False), attributes.key(True))]
    # With both truth values taken, what the right side computes would look like the other one.
    right_free = {**free, **dict.fromkeys(flags, "…")} if len(flags) > 1 else free
    left_nodes = {node.outputs[0] for node in sketch.needed(sides[0])}
    for value, node in sketch.producers.items():
        texts[value] = _expression(node, texts, free if value in left_nodes else right_free)
    left, right = (_outer(texts[side]) for side in sides)
    return left, right


def _expression(node: Node, texts: Mapping[Value, str], free: Mapping[Any, str]) -> str:
    """Infix expressions stand in parentheses, so that they can be operands."""
    name = node.op.name
    operands = [texts[value] for value in node.inputs]
    if name == "constant":
        return str(payload_array(node).reshape(-1)[0])
    if name == "broadcast_to" and "shape" in node.attrs and not free:
        return operands[0]
    if name in _INFIX:
        return f"({operands[0]} {_INFIX[name]} {operands[1]})"
    if name in _PREFIX:
        return f"{_PREFIX[name]}{operands[0]}"
    for given in node.attrs.values():
        operands.append(free.get(attributes.key(given), _attribute(given)))
    return f"{name}({', '.join(_outer(operand) for operand in operands)})"


def _attribute(given: Any) -> str:
    return str(given) if isinstance(given, (DType, bool, int, float, str)) else "…"


def _outer(text: str) -> str:
    """Without the parentheses around the whole."""
    if not text.startswith("("):
        return text
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[1:-1] if place == len(text) - 1 else text
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the page; the exit code."""
    return write(PAGE, page(), "docs/generate_rules.py", arguments)


if __name__ == "__main__":
    sys.exit(main())
