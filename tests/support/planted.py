"""Errors planted in the compiler on purpose, for the tests of what must find them."""

from __future__ import annotations

from typing import Any

import pytest

import graphc as gx
import passes.graph.simplify
from graphc.codegen.kernels import primitives, tiled_transpose
from graphc.ir.graph import Node
from graphc.ir.value import Value
from graphc.kernel.ir import Kernel
from graphc.lower import contraction, rows
from graphc.ops.fusion_contract import OTHER_ROWS
from passes.fusion import fusion, groups
from passes.plan import in_place
from passes.rewriting.pattern import Rule, rule
from passes.rewriting.rewrite import RuleSet
from passes.rules import ALGEBRA
from passes.rules.common import FLOATS

WRONG_RULE = "sinh-times"
WRONG_DIFFERENCE = "planted-sub-self"


def wrong_rule(patch: pytest.MonkeyPatch) -> None:
    """sinh(x) * y becomes x * y, as it nearly is for small x."""
    _plant_rule(patch, rule(WRONG_RULE, lambda x, y: (gx.sinh(x) * y, x * y), dtypes=FLOATS))


def wrong_difference(patch: pytest.MonkeyPatch) -> None:
    """x - x becomes 0, which it is not where x is infinite."""
    made = rule(WRONG_DIFFERENCE, lambda x: (x - x, gx.zeros_like(x)), dtypes=FLOATS)
    _plant_rule(patch, made)


def _plant_rule(patch: pytest.MonkeyPatch, wrong: Rule) -> None:
    patch.setattr(passes.graph.simplify, "ALGEBRA", RuleSet([*ALGEBRA.rules, wrong]))


def wrong_fusion(patch: pytest.MonkeyPatch) -> None:
    """Sums over different axes are taken for the same loops."""
    right = fusion.reduction_obstacle

    def obstacle(group: groups.Group, node: Node) -> str | None:
        found = right(group, node)
        return None if found == "they reduce different axes" else found

    patch.setattr(fusion, "reduction_obstacle", obstacle)


def refused_fusion(patch: pytest.MonkeyPatch) -> None:
    """A value of each row is taken to belong to the row even if it is spread over columns.

    The contract of groups, which lowering asks for, does not allow that.
    """
    right = fusion.pointwise_obstacle

    def obstacle(group: groups.Group, node: Node, own: list[Value]) -> str | None:
        found = right(group, node, own)
        return None if found == OTHER_ROWS else found

    patch.setattr(fusion, "pointwise_obstacle", obstacle)


def wrong_lowering(patch: pytest.MonkeyPatch) -> None:
    """Whatever is reduced is read along the first axis."""
    patch.setattr(rows, "_full_index", lambda row, axis, position: (position, *row))


def failing_products(patch: pytest.MonkeyPatch) -> None:
    """Lowering trips over a product with work on its elements, with an error of its own."""

    def lowered(*given: Any) -> None:
        raise RuntimeError("planted")

    patch.setattr(contraction, "_in_blocks", lowered)


def wrong_reuse(patch: pytest.MonkeyPatch) -> None:
    """Any operand of the same type may be overwritten, in whatever order it is read."""

    def pairs(kernel: Kernel, together: bool = False) -> list[tuple[int, int]]:
        ins = [n for n, b in enumerate(kernel.buffers) if b.role == "in"]
        outs = [n for n, b in enumerate(kernel.buffers) if b.role == "out"]
        types = [buffer.type for buffer in kernel.buffers]
        return [(i, o) for i in ins for o in outs if types[i] == types[o]][:1]

    patch.setattr(in_place, "safe_pairs", pairs)


def wrong_code(patch: pytest.MonkeyPatch) -> None:
    """Machine code of additions is a little off."""
    right = primitives._EMITTERS["add"]

    def emit(e: Any, operands: Any, dtype: Any) -> Any:
        result = right(e, operands, dtype)
        if not dtype.is_float:
            return result
        return result * 1.25

    patch.setitem(primitives._EMITTERS, "add", emit)


def wrong_tile(patch: pytest.MonkeyPatch) -> None:
    """What is read along the outer loop of a tile is not transposed."""
    patch.setattr(tiled_transpose, "transposed", lambda e, rows: rows)
