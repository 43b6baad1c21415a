"""THE table: which graph passes run, in which order, and why in that order.

Invariant: the constraints hold; they are checked when this module is imported. Differentiation ran
when the user built the gradients, so the surface graph already holds them.
"""

from __future__ import annotations

from passes.dce import dce
from passes.decompose import decompose, is_core
from passes.fusion import fusion
from passes.manager import Before, Needs, Step, check_order
from passes.schedule import schedule

PIPELINE: tuple[Step, ...] = (
    Step(dce),
    Step(decompose, required=True, leaves=is_core),
    Step(dce),
    Step(fusion, required=True),
    Step(schedule),
)

ORDER: tuple[Before | Needs, ...] = (
    Needs("decompose", "dce", "decomposing what nobody needs is work for nothing"),
)

check_order(PIPELINE, ORDER)
