"""THE table: which graph passes run, in which order, and why in that order.

Invariant: the constraints hold; they are checked when this module is imported. Differentiation ran
when the user built the gradients, so the surface graph already holds them.
"""

from __future__ import annotations

from passes.control_flow.fuse_loops import fuse_loops
from passes.control_flow.join_loops import join_loops
from passes.control_flow.known_branches import PARTS as BRANCHES
from passes.control_flow.known_branches import known_branches
from passes.control_flow.loop_invariants import loop_invariants
from passes.control_flow.merge_loops import merge_loops
from passes.control_flow.prune_regions import prune_regions
from passes.control_flow.spent_rows import spent_rows
from passes.fusion.fusion import PARTS as FUSION
from passes.fusion.fusion import fusion
from passes.graph.canonicalize import canonicalize
from passes.graph.concat_in_place import concat_in_place
from passes.graph.cse import cse
from passes.graph.dce import dce
from passes.graph.decompose import decompose, is_core
from passes.graph.fold import fold
from passes.graph.fold_scales_into_weights import PARTS as WEIGHTS
from passes.graph.fold_scales_into_weights import fold_scales_into_weights
from passes.graph.layout import layout
from passes.graph.matmul_chains import matmul_chains
from passes.graph.move_views import PARTS as VIEWS
from passes.graph.move_views import move_views
from passes.graph.order_variable_updates import order_variable_updates
from passes.graph.precompute import precompute
from passes.graph.relax import relax
from passes.graph.schedule import schedule
from passes.graph.shapes import shapes
from passes.graph.simplify import simplify
from passes.graph.widen import is_wide, widen
from passes.infra.manager import Before, Needs, Step, check_levels, check_order, names_of
from passes.kernels.pipeline import names as kernel_passes
from passes.plan.concurrent_steps import CONCURRENT_STEPS
from passes.plan.in_place import INPLACE
from passes.plan.loop_kernels import LOOP_KERNELS
from passes.recompute.late_pointwise import late_pointwise
from passes.recompute.recompute import recompute
from passes.rules import ALGEBRA, RELAXED, SHAPES
from passes.stability.stabilize import PARTS as STABILIZE
from passes.stability.stabilize import stabilize

PIPELINE: tuple[Step, ...] = (
    Step(widen, required=True, leaves=is_wide),
    Step(canonicalize),
    Step(prune_regions, regions=False),
    Step(cse),
    Step(merge_loops),
    Step(dce, regions=False),
    Step(fold),
    Step(simplify, parts=ALGEBRA.names, inexact=ALGEBRA.inexact),
    Step(known_branches, parts=BRANCHES, regions=False),
    Step(stabilize, parts=STABILIZE, inexact=STABILIZE),
    Step(dce, regions=False),
    Step(fold_scales_into_weights, parts=WEIGHTS, inexact=WEIGHTS),
    Step(shapes, parts=SHAPES.names, inexact=SHAPES.inexact),
    Step(decompose, required=True, leaves=is_core),
    Step(canonicalize),
    Step(fold),
    Step(simplify, parts=ALGEBRA.names, inexact=ALGEBRA.inexact),
    Step(known_branches, parts=BRANCHES, regions=False),
    Step(prune_regions, regions=False),
    Step(move_views, parts=VIEWS),
    Step(matmul_chains, inexact=frozenset({matmul_chains.__name__})),
    Step(shapes, parts=SHAPES.names, inexact=SHAPES.inexact),
    Step(loop_invariants),
    Step(cse),
    Step(dce, regions=False),
    Step(precompute),
    Step(relax, parts=RELAXED.names, inexact=RELAXED.inexact),
    Step(layout, level=2),
    Step(concat_in_place, level=1),
    Step(late_pointwise, regions=False, level=2),
    Step(spent_rows, level=1),
    Step(fuse_loops, level=1),
    Step(join_loops, level=1),
    Step(fusion, required=True, parts=FUSION, level=1),
    Step(schedule, level=2),
    Step(recompute, regions=False, level=2),
    Step(order_variable_updates, regions=False, level=1),
)

SHARED = next(place for place, step in enumerate(PIPELINE) if step.level)
"""So many steps come first in every program: all that choose bits, and what these rest on."""

PLACED = next(place for place, step in enumerate(PIPELINE) if step.run is recompute)
"""So many come before the arena is looked at: the others may have to run anew."""

ORDER: tuple[Before | Needs, ...] = (
    Needs("canonicalize", "widen", "rules are about the dtypes that are computed in"),
    Before("merge_loops", "dce", "a loop that is run again carries all that the first one does"),
    Needs("simplify", "dce", "almost half of what derivatives of loops carry is needed by nobody"),
    Needs("decompose", "dce", "decomposing what nobody needs is work for nothing"),
    Needs("fold", "canonicalize", "folding looks for elements that are moved in one spelling"),
    Needs("simplify", "cse", "a rule that wants one value twice finds it only after merging"),
    Needs("merge_loops", "cse", "it looks for each value of a region once"),
    Needs("stabilize", "cse", "exp(x) on both sides of a quotient must be one value"),
    Needs("fold_scales_into_weights", "fold", "they and the factors must have been computed"),
    Needs("fold_scales_into_weights", "dce", "it asks who else reads a product"),
    Before("stabilize", "decompose", "it looks for sums over any axes, not for their parts"),
    Needs("known_branches", "fold", "a predicate is known once it is a constant"),
    Needs("loop_invariants", "decompose", "parts of a coarse operation may be invariant"),
    Needs("loop_invariants", "prune_regions", "carried values that stand still are captures"),
    Before("loop_invariants", "fusion", "what moves are operations, not kernels"),
    Before("stabilize", "shapes", "it follows moves to where their gradient moves back"),
    Needs("decompose", "shapes", "its rules look for reductions of any axes, not for their parts"),
    Needs("move_views", "decompose", "it moves through pointwise work, which some ops only become"),
    Needs("matmul_chains", "decompose", "what stands between two products is taken apart by then"),
    Needs("fusion", "decompose", "kernels are made of core operations"),
    Needs("precompute", "decompose", "what runs are core operations"),
    Before("precompute", "layout", "weights that are computed are packed too"),
    Needs("relax", "simplify", "rules about functions and sums look for the exact ones"),
    Needs("relax", "shapes", "so do those about reductions"),
    Needs("relax", "precompute", "constants run with the same flags and are chosen for there"),
    Before("relax", "fusion", "fused bodies are closed"),
    Needs("layout", "decompose", "products stand in many spellings before it"),
    Before("layout", "fusion", "what a kernel reads is settled before kernels are"),
    Needs("concat_in_place", "move_views", "slices of concatenations are taken of their pieces"),
    Needs("concat_in_place", "layout", "which pieces have kernels of their own is settled by then"),
    Before("concat_in_place", "fusion", "the kernel that computes a piece puts it in its place"),
    Needs("spent_rows", "dce", "it asks who reads a loop's results"),
    Before("spent_rows", "fuse_loops", "what is captured may be computed in a loop's kernel"),
    Needs("fuse_loops", "decompose", "a kernel runs core operations"),
    Needs("fuse_loops", "loop_invariants", "what is invariant is computed once, and not by a lane"),
    Needs("join_loops", "fuse_loops", "loops are joined that are kernels"),
    Before("join_loops", "fusion", "work between loops is part of neither's kernel"),
    Before("fuse_loops", "fusion", "bodies of loops that are no kernels are fused by themselves"),
    Before("late_pointwise", "fusion", "it says what kernels of the forward part don't compute"),
    Before("decompose", "fusion", "fused bodies are closed"),
    Before("cse", "fusion", "kernels are not compared with each other's parts"),
    Before("fusion", "schedule", "what is scheduled are kernels"),
    Needs("recompute", "schedule", "which values are alive late is a matter of the order"),
    Before("schedule", "order_variable_updates", "it delays updates that come too early"),
    Before("recompute", "order_variable_updates", "copies read old values of variables too"),
)

check_order(PIPELINE, ORDER)
check_levels(PIPELINE[SHARED:])

BELOW = frozenset({CONCURRENT_STEPS, INPLACE, LOOP_KERNELS}) | kernel_passes()
"""Decisions that are taken below the graph and can be switched off too."""

INEXACT = frozenset[str]().union(*(step.inexact for step in PIPELINE))
"""Decisions that may change bits; the others never do."""

NAMES = names_of(PIPELINE, BELOW)
"""What options and tests may name."""
