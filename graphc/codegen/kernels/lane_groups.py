"""Values that neighbouring lanes share are computed once for each group of lanes.

    %b = right_shift %i, 2      four lanes agree, if the first one's %i is a multiple of 4:
    %c = multiply %b, %b        so both are computed for a quarter of the lanes
    %l = and %i, 3              0, 1, 2, 3, 0 ...: known while code is emitted
    %f = equal %l, 0            so is this
    %x = select %f, %c, %d      one shuffle of the quarters

Each lane keeps the value that its statement gives it, so nothing but time depends on groups. That
an index begins with a multiple is proved from its affine form and from where its loop starts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import gcd
from typing import TypeVar

import numpy as np

from graphc.codegen.kernels.lane_values import Binding, KnownLanes, LinearLanes, Repeated
from graphc.codegen.kernels.scope import KernelScope
from graphc.codegen.llvm.instructions import Reg, is_literal
from graphc.kernel.analysis.lane_groups import MOST, power_in
from graphc.kernel.ir import Var
from graphc.kernel.statements.base import Scalar

Computation = TypeVar("Computation", bound=Scalar)


def emit_by_groups(
    k: KernelScope, statement: Computation, emit: Callable[[KernelScope, Computation], None]
) -> bool:
    """Binds the result of a statement by groups of lanes, if its operands are told by such.

    ``emit`` emits it for the lanes that there are then.
    """
    operands = statement.operands
    index = _of_index(k, statement)
    if index is not None:
        k.bind(statement.result, index)
        return True
    bindings = [k.binding(var) for var in operands]
    if not any(isinstance(binding, (Repeated, KnownLanes)) for binding in bindings):
        return False
    known = [_known(k, var, binding) for var, binding in zip(operands, bindings, strict=True)]
    if all(numbers is not None for numbers in known):
        k.bind(statement.result, _computed(k, statement, known))
        return True
    times = gcd(*[_times(binding, k.lanes) for binding in bindings])
    if times > 1:
        inside = {
            var: _of_groups(binding, times)
            for var, binding in zip(operands, bindings, strict=True)
        }
        with k.grouped(inside, times):
            emit(k, statement)
            groups = k.binding(statement.result)
        k.bind(statement.result, _repeated(groups, times))
        return True
    if statement.primitive == "select" and isinstance(bindings[0], KnownLanes):
        k.bind(statement.result, _chosen(k, bindings[0], operands[1:]))
        return True
    return False


def _of_index(k: KernelScope, statement: Scalar) -> Binding | None:
    """What a shift or a mask makes of neighbouring indices, the first of which is a multiple."""
    if statement.primitive not in ("right_shift", "and"):
        return None
    place, number = statement.operands
    found, literal = k.binding(place), k.literal(number)
    if not isinstance(found, LinearLanes) or not is_literal(found.stride, 1) or literal is None:
        return None
    step = max(found.aligned, _step(k, place))
    if statement.primitive == "and":
        if not 0 <= literal < step:
            return None
        return KnownLanes(tuple([lane & int(literal) for lane in range(k.lanes)]))
    times = 1 << int(literal) if 0 < literal < MOST.bit_length() else 0
    if not times or step % times or k.lanes % times:
        return None
    shifted = LinearLanes(found.base.ashr(int(literal)), found.stride, step // times)
    return _repeated(shifted, times, k.lanes)


def _repeated(groups: Binding, times: int, lanes: int = 0) -> Binding:
    """Groups as a binding of the lanes; one group is a value on which all lanes agree."""
    if isinstance(groups, KnownLanes):
        return KnownLanes(tuple([number for number in groups.lanes for _ in range(times)]))
    if isinstance(groups, Repeated):
        return Repeated(groups.groups, groups.times * times)
    if isinstance(groups, LinearLanes):
        return groups.base if lanes == times else Repeated(groups, times)
    return groups if groups.type.lanes == 1 else Repeated(groups, times)


def _times(binding: Binding, lanes: int) -> int:
    """The lanes of the largest groups that agree; 0 if all do."""
    if isinstance(binding, Repeated):
        return binding.times
    if isinstance(binding, KnownLanes):
        times = 1
        while times < lanes and all(
            binding.lanes[lane] == binding.lanes[lane + times]
            for lane in range(0, lanes, 2 * times)
        ):
            times *= 2
        return 0 if times == lanes else times
    return 0 if isinstance(binding, Reg) and binding.type.lanes == 1 else 1


def _of_groups(binding: Binding, times: int) -> Binding:
    """The binding of a scalar in vectors with a lane for each group of ``times`` equal lanes."""
    if isinstance(binding, Repeated):
        if binding.times == times:
            return binding.groups
        return Repeated(binding.groups, binding.times // times)
    return KnownLanes(binding.lanes[::times]) if isinstance(binding, KnownLanes) else binding


def _known(k: KernelScope, var: Var, binding: Binding) -> Sequence[float] | None:
    """The numbers of all lanes, if they are known."""
    if isinstance(binding, KnownLanes):
        return binding.lanes
    number = k.literal(var)
    return None if number is None else (number,)


def _computed(
    k: KernelScope, statement: Scalar, known: Sequence[Sequence[float] | None]
) -> KnownLanes:
    """What a statement gives for known numbers, by its reference."""
    arrays = [
        np.array(numbers, var.dtype.numpy)
        for numbers, var in zip(known, statement.operands, strict=True)
    ]
    result = statement.reference(*arrays)
    return KnownLanes(tuple(np.broadcast_to(result, k.lanes).tolist()))


def _chosen(k: KernelScope, condition: KnownLanes, operands: Sequence[Var]) -> Reg:
    """Lanes of two operands as a known condition says, in one shuffle of their groups."""
    bindings = [k.binding(var) for var in operands]
    times = gcd(*[_times(binding, k.lanes) for binding in bindings]) or k.lanes
    inside = {
        var: _of_groups(binding, times) for var, binding in zip(operands, bindings, strict=True)
    }
    with k.grouped(inside, times):
        groups = k.lanes
        one, other = (k.spread(var) for var in operands)
    order = [
        lane // times + (0 if holds else groups) for lane, holds in enumerate(condition.lanes)
    ]
    return k.e.shuffled(one, other, order)


# --- where indices begin --------------------------------------------------------------------------


def _step(k: KernelScope, var: Var) -> int:
    """A power of two that divides the first lane's index, whatever a run does."""
    form = k.forms.get(var)
    if form is None:
        return 1
    result = power_in(form.base)
    for index, (coefficient, _) in form.terms.items():
        found = k.binding(index)
        aligned = found.aligned if isinstance(found, LinearLanes) else 1
        result = min(result, aligned * power_in(coefficient))
    return result


__all__ = ["emit_by_groups"]
