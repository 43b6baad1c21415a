"""Elementary functions where they are used, or called from a library.

Invariant: both are one and the same code, so the bits do not depend on the choice. Inlined, a
function takes LLVM some two milliseconds; a call takes next to nothing, and the library is compiled
once in a process. What the calls cost a run is the saving of registers around them, a few
nanoseconds a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from graphc.base.target import Target
from graphc.base.tuning.fusion import FUSION
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.instructions import Reg
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.types import F32, F64, LType
from graphc.codegen.math import approx, cube_root, f32, f64, inverse
from graphc.codegen.math.common import FloatMath
from graphc.kernel.ir import Kernel, walk

_TABLES = {
    F32.format: f32.FUNCTIONS | inverse.FUNCTIONS | cube_root.FUNCTIONS | approx.SINGLE,
    F64.format: f64.FUNCTIONS | inverse.FUNCTIONS | cube_root.FUNCTIONS | approx.DOUBLE,
}
NAMES = frozenset(_TABLES[F32.format])
"""The primitives that are elementary functions."""


def emit_function(e: FunctionEmitter, name: str, operands: Sequence[Reg]) -> Reg:
    """An elementary function of float operands, as the module wants it."""
    type_ = operands[0].type
    if not e.module.calls_functions:
        return _inlined(e, name, operands)
    symbol, library = _library(name, type_, len(operands), e.module.target)
    e.module.libraries[symbol] = library
    types = ", ".join(str(operand.type) for operand in operands)
    e.module.declare(symbol, str(type_), types, "nounwind memory(none)")
    return e.call(symbol, type_, *operands)


@dataclass(frozen=True, slots=True)
class Calls:
    """Where a program calls elementary functions.

    Attributes:
        all: whether it calls them rather than has them inlined.
        glue: for each kernel whether it does little else.
    """

    all: bool
    glue: tuple[bool, ...]


def calls_of(kernels: Sequence[Kernel], quick: bool = False) -> Calls:
    """Where a program of these kernels calls functions; all of it is glue if it shall be quick.

    That takes LLVM a fifth of the time for single operations, and a third for fused ones, whose
    loops then run up to a fifth longer.
    """
    if quick:
        return Calls(True, (True,) * len(kernels))
    counts = [sum(part.primitive in NAMES for part in walk(kernel.body)) for kernel in kernels]
    calls = max(counts, default=0) > FUSION.inlined_in_kernel
    calls = calls or sum(counts) > FUSION.inlined_in_program
    return Calls(calls, tuple(calls and is_glue(kernel) for kernel in kernels))


def is_glue(kernel: Kernel) -> bool:
    """Whether a kernel that calls its functions does little else: plain loops with calls in them.

    Nearly all of its time then passes in the functions, so little is gained by optimising it.
    """
    calls = others = 0
    for part in walk(kernel.body):
        block = part.block
        if block is not None:
            if block.reducers or block.carries or block.kind == "across":
                return False
        elif not part.is_scalar and part.access is None:
            return False
        elif part.primitive in NAMES:
            calls += 1
        else:
            others += 1
    return calls * FUSION.glue_per_call >= others


def _inlined(e: FunctionEmitter, name: str, operands: Sequence[Reg]) -> Reg:
    type_ = operands[0].type
    return _TABLES[type_.format][name](FloatMath(e, type_), *operands)


@cache
def _library(name: str, type_: LType, arity: int, target: Target) -> tuple[str, Module]:
    """A function as a module of its own, and its symbol."""
    module = ModuleEmitter(target)
    symbol = f"graphc_{name}_of_{type_.suffix}"
    parameters = {f"x{index}": type_ for index in range(arity)}
    e = FunctionEmitter(module, symbol, parameters, type_)
    e.finish(_inlined(e, name, e.given(*parameters)))
    return symbol, module.module()
