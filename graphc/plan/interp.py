"""The reference interpreter of plans: walks the steps in Python, one array a slot.

Invariant: what a plan means here does not depend on where its layout puts things. Every slot has
memory of its own, what is given from outside is read-only, and what nothing has written yet holds a
pattern that stands out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from graphc.base.errors import GraphcError, ShapeError
from graphc.ir.attributes import Array
from graphc.ir.dims.expressions import evaluate
from graphc.ir.types import TensorType
from graphc.kernel.interp import CheckFailure, run_kernel
from graphc.kernel.ir import Kernel
from graphc.plan.ir import Branch, Copy, HostCall, Jump, Launch, Plan

Launcher: TypeAlias = Callable[
    [Kernel, Sequence[Array], Mapping[str, int]], Sequence[CheckFailure]
]
"""Runs a kernel on its arguments, outputs in place; gives the checks that failed."""

Filler: TypeAlias = Callable[[TensorType, Mapping[str, int]], Array]
"""Makes an array that nothing has written yet."""

Observer: TypeAlias = Callable[[Launch, Kernel, Sequence[Array], Sequence[Array]], None]
"""Told of a launch: the step, its kernel, copies of all arguments before it, and those after."""


def run_plan(
    plan: Plan,
    arrays: Sequence[Array],
    binding: Mapping[str, int],
    *,
    observe: Observer | None = None,
    launch: Launcher = run_kernel,
    unwritten: Filler | None = None,
) -> list[Array]:
    """The results of a plan.

    Args:
        plan: placed in an arena or not.
        arrays: for ``plan.feeds``, C-contiguous, of the slots' dtypes and shapes; not written.
        binding: sizes of the symbolic dims.
        observe: called after each launch. What it raises ends the run.
        launch: what runs kernels.
        unwritten: makes the memory of values that nothing has written yet; ``blank`` unless given.

    Raises:
        ShapeError: for arrays that don't fit, or sizes that a guard forbids or should.
        IndexRangeError: where an index is out of range.
        VerifyError: for an ill-formed kernel, or one that writes what is only to be read.
    """
    for guard in plan.guards:
        failure = guard.failure(binding)
        if failure is not None:
            raise failure
    memory = slot_arrays(plan, arrays, binding, unwritten or blank)
    position = 0
    while position < len(plan.steps):
        step = plan.steps[position]
        position += 1
        if isinstance(step, Launch):
            _launch(plan, step, memory, binding, launch, observe)
        elif isinstance(step, Copy):
            _bytes(memory[step.target])[...] = _bytes(memory[step.source])
        elif isinstance(step, Branch):
            if not memory[step.predicate].reshape(-1)[0]:
                position = step.target
        elif isinstance(step, Jump):
            position = step.target
        elif isinstance(step, HostCall):
            _call(plan, step, memory)
        elif (failure := step.guard.failure(binding)) is not None:
            raise failure
    return [memory[slot] for slot in plan.outputs]


def slot_arrays(
    plan: Plan, arrays: Sequence[Array], binding: Mapping[str, int], unwritten: Filler
) -> list[Array]:
    """Memory for every slot: what is given, read-only, and new arrays for the rest.

    Raises:
        ShapeError: for arrays that don't fit their slots.
    """
    given = dict(zip(plan.feeds, arrays, strict=True)) | plan.constants
    memory = []
    for number, slot in enumerate(plan.slots):
        shape = tuple(evaluate(dim, binding) for dim in slot.type.shape)
        array = given.get(number)
        if array is None:
            array = unwritten(slot.type, binding)
        elif array.shape != shape or array.dtype != slot.type.dtype.numpy:
            raise ShapeError(
                f"{slot.kind} {slot.name!r} is {slot.type} with the shape {list(shape)}, "
                f"the array is {array.dtype}{list(array.shape)}",
                where=slot.where,
            )
        else:
            array = np.ascontiguousarray(array).reshape(shape).view()
            array.flags.writeable = False
        memory.append(array)
    return memory


def blank(type_: TensorType, binding: Mapping[str, int]) -> Array:
    """An array that nothing has written yet: NaN, or a number that nobody expects."""
    shape = tuple(evaluate(dim, binding) for dim in type_.shape)
    return np.full(shape, type_.dtype.unwritten, type_.dtype.numpy)


def _bytes(array: Array) -> Array:
    return array.reshape(-1).view(np.uint8)


def _elements(array: Array) -> Array:
    """An array as kernels see it, flat: of a complex element its two parts."""
    flat = array.reshape(-1)
    return flat.view(array.real.dtype) if array.dtype.kind == "c" else flat


def _arguments(
    kernel: Kernel, arrays: Sequence[Array], binding: Mapping[str, int]
) -> list[Array]:
    """Slots as the kernel's buffers see them: of the same elements, perhaps of another shape.

    A slot that is passed twice in one shape is one array.
    """
    seen: dict[tuple[int, tuple[int, ...]], Array] = {}
    result = []
    for buffer, array in zip(kernel.buffers, arrays, strict=True):
        shape = tuple(evaluate(dim, binding) for dim in buffer.type.shape)
        elements = _elements(array)
        if math.prod(shape) != elements.size:
            raise ShapeError(
                f"{kernel.name!r} takes {buffer.name!r} of shape {list(shape)}, and is given "
                f"{elements.size} elements"
            )
        result.append(seen.setdefault((id(array), shape), elements.reshape(shape)))
    return result


def _launch(
    plan: Plan,
    step: Launch,
    memory: Sequence[Array],
    binding: Mapping[str, int],
    launch: Launcher,
    observe: Observer | None,
) -> None:
    kernel = plan.kernels[step.kernel]
    arguments = _arguments(kernel, [memory[slot] for slot in step.arguments], binding)
    outputs = [
        array
        for buffer, array in zip(kernel.buffers, arguments, strict=True)
        if buffer.is_result
    ]
    if not kernel.sites and not any(math.prod(array.shape) for array in outputs):
        return
    before = [array.copy() for array in arguments] if observe is not None else []
    failures = launch(kernel, arguments, {name: binding[name] for name in kernel.dims})
    if observe is not None:
        observe(step, kernel, before, arguments)
    if failures:
        failure = min(failures, key=lambda failed: failed.position)
        site = kernel.sites[failure.site]
        raise site.failure(failure.index, failure.bound, step.where)


def _call(plan: Plan, step: HostCall, memory: Sequence[Array]) -> None:
    results = [memory[slot] for slot in step.made]
    dtypes = [plan.slots[slot].type.dtype for slot in step.made]
    given = [memory[slot].copy() for slot in step.given]
    try:
        made = step.function(given, dtypes, [array.shape for array in results])
    except GraphcError as error:
        error.where = error.where or step.where
        raise
    for into, array in zip(results, made, strict=True):
        into[...] = array
    if step.ordered:
        memory[step.results[0]][...] = True


__all__ = ["Filler", "Launcher", "Observer", "blank", "run_plan", "slot_arrays"]
