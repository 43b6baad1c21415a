"""The levels below the graph, compared: graph, kernel, machine code, and the plan in its arena.

Role: check mode for all that runs after the graph passes. Every distinct kernel is evaluated on
random inputs as the graph says it, as the kernel interpreter reads it and as machine code; then the
whole program runs once in its arena and once with memory of its own for each value, which tells a
wrong layout or reuse of memory. Invariant: what is not compared is recorded as a decision not
taken, with the reason.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.base.errors import (
    GraphcError,
    IndexRangeError,
    LinAlgError,
    ShapeError,
    VerifyError,
)
from graphc.base.target import Target
from graphc.checking.compare import Difference, difference, same_bits
from graphc.checking.interpreter import Budget, evaluate_node
from graphc.checking.interpreter import evaluate as evaluate_graph
from graphc.checking.levels.blame import guilty_operation, memory_fault
from graphc.checking.levels.kernels import (
    ELEMENTS,
    KernelComparison,
    may_not_end,
    run_native,
    too_long,
)
from graphc.checking.levels.substitutes import Substitutes
from graphc.checking.reaction import ELEMENTS as GRAPH_ELEMENTS
from graphc.checking.samples import cost, feeds, random_array
from graphc.checking.sizes import fitting_sizes
from graphc.checking.unexplained import unexplained
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.ir.graph import Graph, Node
from graphc.ir.host import stand_ins
from graphc.ir.text.printer import symbols_in
from graphc.ir.value import Value
from graphc.kernel.interp import CheckFailure, run_kernel
from graphc.kernel.ir import Kernel
from graphc.kernel.printer import computation_key
from graphc.lower.fused_node import lower_group
from graphc.lower.launch_fission import Series
from graphc.ops.fused import fused_op
from graphc.plan.interp import blank, run_plan
from graphc.plan.ir import Plan
from graphc.runtime.program import Program
from passes.infra.base import PassContext, open_nodes

LAUNCHES = 2000
"""Programs that launch more kernels are not run step by step."""

ROUNDS = 3

_PART_OF_LOOP = "it is no kernel of its own, but part of a loop's"


def check_levels(graph: Graph, program: Program, context: PassContext, target: Target) -> None:
    """Compares all kernels of a program, and then the program with itself.

    Args:
        graph: what the program was made of: fused nodes and control flow.
        program: compiled.
        context: hears of what is not compared.
        target: what the program was compiled for.

    Raises:
        VerifyError: naming the kernel, the level and the user's line, or LevelMismatch with the
            kernel's text and arguments.
    """
    fused = [node for node in open_nodes(graph) if node.op is fused_op]
    if not fused:
        return
    candidates = fitting_sizes(symbols_in(graph), program.plan.guards)
    if not candidates:
        none = "no sizes were found that the guards allow"
        context.decline("check", fused[-1], f"kernels are not checked: {none}")
        return
    numbers = {computation_key(kernel): n for n, kernel in enumerate(program.plan.kernels)}
    substitutes = Substitutes(target)
    seen: set[str] = set()
    for node in fused:
        series = lower_group(node, target)
        key = computation_key(series.whole)
        if key in seen:
            continue
        seen.add(key)
        found = [numbers.get(computation_key(member.kernel)) for member in series.members]
        entries = [program.entries[number] for number in found if number is not None]
        if len(entries) < len(found):
            name = series.whole.name
            context.decline("check", node, f"kernel {name} is not checked: {_PART_OF_LOOP}")
            continue
        for sizes in candidates:
            reason = _check_kernel(node, series, entries, sizes, substitutes, target)
            if reason is None:
                break
        else:
            name = series.whole.name
            context.decline("check", node, f"kernel {name} is not checked: {reason}")
    with stand_ins():
        reason = _check_program(graph, program, candidates[0])
    if reason is not None:
        context.decline("check", fused[-1], f"the use of memory is not checked: {reason}")


def _too_large(node: Node, kernel: Kernel, sizes: Mapping[str, int]) -> str | None:
    if sum(evaluate(buffer.type.size, sizes) for buffer in kernel.buffers) > ELEMENTS:
        return f"more than {ELEMENTS} elements"
    if cost(node.regions[0], sizes) > GRAPH_ELEMENTS:
        return f"more than {GRAPH_ELEMENTS} elements on the way"
    return too_long(kernel, sizes)


# --- kernels -------------------------------------------------------------------------------------


def _check_kernel(
    node: Node,
    series: Series,
    entries: Sequence[int],
    sizes: Mapping[str, int],
    substitutes: Substitutes,
    target: Target,
) -> str | None:
    """Compares one kernel at all levels; why not, if that can't be done at these sizes."""
    kernel = series.whole
    reason = _too_large(node, kernel, sizes)
    if reason is not None:
        return reason
    region = node.regions[0]
    loose = any(inner.op.numerics != "E" for inner in region.walk())
    dims = {name: sizes[name] for name in kernel.dims}
    for special, given in feeds(Graph("", node.inputs, (), ()), sizes, ROUNDS):
        # a kernel may see neighbouring axes of a value as one
        arguments = [
            array.reshape(tuple(evaluate(dim, sizes) for dim in buffer.type.shape))
            for buffer, array in zip(kernel.buffers, given, strict=False)
        ]
        arguments += [blank(buffer.type, sizes) for buffer in kernel.buffers[len(given) :]]
        try:
            with np.errstate(all="ignore"):
                expected = evaluate_node(node, given, sizes)
        except (IndexRangeError, LinAlgError):
            # indices at random are out of range, matrices have no factors; machine code must find
            # the same
            expected = []
        except ShapeError as error:
            return f"sizes that are tried don't fit: {error.message}"
        interpreted = [array.copy() for array in arguments]
        failed = run_kernel(kernel, interpreted, dims)
        if bool(failed) is bool(expected) and not _looks_up_nothing(region, sizes):
            raise _lowering(node, kernel, "they do not fail the same checks of indices")
        if expected and not (special and loose):
            made = interpreted[len(given) : len(given) + len(expected)]
            _check_lowering(node, kernel, given, expected, made, sizes, target)
        try:
            _check_members(series, entries, arguments, sizes, substitutes)
        except VerifyError as error:
            error.where = error.where or node.provenance.where
            raise
    return None


def _looks_up_nothing(region: Graph, sizes: Mapping[str, int]) -> bool:
    """Whether indices of a take or scatter without elements are there.

    Code may look at them or not; checks of their own do (``graphc.ops.indexing.unread``).
    """
    return any(
        node.may_fail and 0 in (evaluate(dim, sizes) for dim in value.shape)
        for node in region.walk()
        for value in node.outputs
    )


def _check_members(
    series: Series,
    entries: Sequence[int],
    arguments: Sequence[Array],
    sizes: Mapping[str, int],
    substitutes: Substitutes,
) -> None:
    """Compares the launches of a kernel, one after the other, with their machine code."""
    given = sum(not buffer.is_room for buffer in series.whole.buffers)
    arrays = [*arguments, *(blank(b.type, sizes) for b in series.rooms[len(arguments) - given :])]
    for old, new in series.copied:
        arrays[new] = arrays[old].copy()
    for member, entry in zip(series.members, entries, strict=True):
        dims = {name: sizes[name] for name in member.kernel.dims}
        comparison = KernelComparison(member.kernel, [arrays[n] for n in member.places], dims)
        after, failures = comparison.run(entry, substitutes)
        if failures:
            return
        for place, array in zip(member.places, after, strict=True):
            arrays[place] = array


def _check_lowering(
    node: Node,
    kernel: Kernel,
    given: Sequence[Array],
    expected: Sequence[Array],
    made: Sequence[Array],
    sizes: Mapping[str, int],
    target: Target,
) -> None:
    """The kernel as interpreted must compute what its node means."""
    region = node.regions[0]
    loose = any(inner.op.numerics != "E" for inner in region.walk())
    inputs = dict(zip(region.inputs, given, strict=True))
    for output, wanted, array in zip(region.outputs, expected, made, strict=True):
        shaped = array.reshape(wanted.shape)
        found = unexplained(
            region.nodes, inputs, sizes, output, wanted, shaped, loose=loose, finite=True
        )
        if found is None:
            continue
        guilty = guilty_operation(region, given, sizes, target)
        if guilty is not None:
            raise _operation(*guilty)
        raise _lowering(node, kernel, f"for {output.type}, {found}")


def _operation(node: Node, found: Difference) -> VerifyError:
    return VerifyError(
        f"{node.op.name} by itself is one thing by its reference and another by its kernel: "
        f"{found} by the kernel",
        where=node.provenance.where,
        node=repr(node),
        hint="fusion has no part in it: the reference, or the lowering of the op, is wrong",
    )


def _lowering(node: Node, kernel: Kernel, problem: str) -> VerifyError:
    return VerifyError(
        f"the kernel {kernel.name!r} does not compute what its fused node means: {problem}",
        where=node.provenance.where,
        node=repr(node),
        hint="each operation by itself is right; if a decision of fusion is at fault, "
        "gx.debug.bisect names it",
    )


# --- the whole program ---------------------------------------------------------------------------


class _Enough(Exception):
    """Ends a run step by step."""


def _check_program(graph: Graph, program: Program, sizes: Mapping[str, int]) -> str | None:
    """Holds a run without an arena against the graph, and one in the arena against that.

    Gives why not, if that can't be done.
    """
    if cost(graph, sizes) > GRAPH_ELEMENTS:
        return f"more than {GRAPH_ELEMENTS} elements"
    plan = program.plan
    random = np.random.default_rng(0)
    arrays = [random_array(plan.slots[n].type, sizes, random, False) for n in plan.feeds]
    numbers = {id(kernel): number for number, kernel in enumerate(plan.kernels)}
    launches = 0

    def launch(
        kernel: Kernel, arguments: Sequence[Array], dims: Mapping[str, int]
    ) -> list[CheckFailure]:
        nonlocal launches
        # such a launch takes milliseconds
        launches += LAUNCHES // 20 if may_not_end(kernel) else 1
        if launches > LAUNCHES:
            raise _Enough
        entry = program.entries[numbers[id(kernel)]]
        return run_native(kernel, entry, [array.ctypes.data for array in arguments], dims)

    try:
        expected = run_plan(plan, arrays, sizes, launch=launch)
    except _Enough:
        return f"more than {LAUNCHES} launches"
    except GraphcError as error:
        return f"random inputs don't fit: {error.message}"
    reason = _check_plan(graph, plan, arrays, expected, sizes)
    given = program.run(arrays)
    for number, (wanted, array) in enumerate(zip(expected, given, strict=True)):
        if not same_bits(wanted, array).all():
            launches = 0
            fault = memory_fault(plan, arrays, sizes, expected, launch)
            raise _memory(plan.name, number, difference(wanted, array), fault)
    return reason


def _check_plan(
    graph: Graph,
    plan: Plan,
    arrays: Sequence[Array],
    expected: Sequence[Array],
    sizes: Mapping[str, int],
) -> str | None:
    """The steps in order, each value in memory of its own, must compute what the graph means."""
    inputs = dict(zip(graph.inputs, arrays, strict=True))
    loose = any(node.op.numerics != "E" for node in graph.walk())
    try:
        with np.errstate(all="ignore"):
            meant = evaluate_graph(graph, inputs, sizes, Budget(GRAPH_ELEMENTS))
        for output, wanted, array in zip(graph.outputs, meant, expected, strict=True):
            shaped = array.reshape(wanted.shape)
            found = unexplained(
                graph.nodes, inputs, sizes, output, wanted, shaped, loose=loose, finite=True
            )
            if found is not None:
                raise _plan(plan.name, output, found)
    except VerifyError:
        raise
    except GraphcError as error:
        return f"the plan is not compared with its graph: {error.message}"
    return None


def _plan(name: str, output: Value, found: Difference) -> VerifyError:
    return VerifyError(
        f"the steps of {name!r} do not compute what its graph means: for {output.type}, {found}",
        hint="the kernels were compared before and agree; what lies between them is at fault: "
        "control flow, copies, or which value a kernel is given",
    )


def _memory(name: str, number: int, found: Any, fault: str | None) -> VerifyError:
    hint = "if a decision to reuse memory is at fault, gx.debug.bisect names it"
    if fault is not None:
        hint = f"memory is not used again too early: {fault}"
    return VerifyError(
        f"result {number} of {name!r} depends on where values lie in memory: {found}", hint=hint
    )


__all__ = ["check_levels"]
