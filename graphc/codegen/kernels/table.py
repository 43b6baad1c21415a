"""What emits loops: a function for each kind of schedule, which it registers itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeAlias, TypeVar

from graphc.base.modules import load_all
from graphc.codegen.kernels.scope import KernelScope
from graphc.kernel.ir import Block
from graphc.kernel.schedule.base import Schedule

LoopEmitter: TypeAlias = Callable[[KernelScope, Block, Any], None]

F = TypeVar("F", bound=Callable[..., None])

_LOOPS: dict[type[Schedule], LoopEmitter] = {}


def emits(kind: type[Schedule]) -> Callable[[F], F]:
    """Decorator: the function emits the loops of a kind of schedule."""

    def enter(function: F) -> F:
        _LOOPS[kind] = function
        return function

    return enter


@cache
def loop_emitters() -> Mapping[type[Schedule], LoopEmitter]:
    """The functions by the kinds of schedules."""
    load_all("graphc.codegen.kernels")
    return _LOOPS


__all__ = ["LoopEmitter", "emits", "loop_emitters"]
