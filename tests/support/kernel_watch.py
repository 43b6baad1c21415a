"""Watches what tests compile: verifies plans, and holds machine code against the interpreter.

Role: while a watch is installed, the plan of every program is verified when the program is made,
and every distinct kernel printed, parsed and verified; when it is first launched it also runs twice
on the program's own arrays, natively and interpreted from the parsed text, and both must agree to
the bit (any NaN is as good as any other). Functions of class R have a bound instead of bits: the
interpreter takes theirs from loops compiled for the same target, after holding these against a
wider precision; products of matrices likewise come from one plain chain of multiply-adds per
element.

A program that brings new kernels first runs step by step, with an array per slot; the results must
be those of the real run, which lays everything out in one arena. Python functions that it calls
give zeros then, and results are not compared.

What is not compared is counted in ``skipped``, by reason: kernels of more than ``ELEMENTS``, or of
more than ``too_long`` allows. Kernels that the first run does not
reach within ``LAUNCHES`` (a branch not taken, a loop of no or very many trips) are compared on
random arrays. Kernels that have nothing to write at their first sizes wait for other sizes.
Processes that a test starts are not watched. Whatever the interpreter cannot do raises.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import pytest
from kernel_substitutes import checked_substitutes

import graphc.aot.loader
import graphc.compiling.cached.entries
import graphc.compiling.compiler
from graphc.aot.artifact import Artifact
from graphc.aot.machine_code import MachineCode
from graphc.base.errors import GraphcError, IndexRangeError, VerifyError
from graphc.base.target import Target, named
from graphc.checking.compare import same_bits
from graphc.checking.levels.kernels import (
    ELEMENTS,
    KernelComparison,
    LevelMismatch,
    may_not_end,
    run_native,
    shown,
    too_long,
)
from graphc.checking.levels.substitutes import Substitutes
from graphc.ir.dims.expressions import evaluate
from graphc.ir.host import stand_ins
from graphc.ir.types import TensorType
from graphc.kernel.interp import CheckFailure
from graphc.kernel.ir import Kernel
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import kernel_key, print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.plan.interp import run_plan
from graphc.plan.ir import Plan
from graphc.plan.verify import verify_plan
from graphc.runtime.code import Code
from graphc.runtime.program import Program

Array = np.ndarray[Any, Any]

LAUNCHES = 500
"""So many steps are launched one by one before the rest of a program is left to the real run."""

# --- programs ------------------------------------------------------------------------------------


class _Enough(Exception):
    """Ends a run step by step."""


class KernelWatch:
    """What was compared so far in this process.

    Attributes:
        printed: keys of kernels that went through their text form.
        compared: keys of kernels whose machine code was held against the interpreter, by target.
        skipped: how many kernels were not compared, by reason.
        programs: how many programs ran step by step to the end, with the results of the real run.
        failures: what was found in threads, where an exception may get lost.
    """

    def __init__(self) -> None:
        self.printed: set[str] = set()
        self.compared: set[tuple[str, Target]] = set()
        self.skipped: Counter[str] = Counter()
        self.programs = 0
        self.failures: list[str] = []
        self.paused = False
        self._lock = threading.RLock()
        self._targets: dict[tuple[int, ...], Target] = {}
        self._pending: WeakKeyDictionary[Program, dict[str, int]] = WeakKeyDictionary()
        self._target_of: WeakKeyDictionary[Program, Target] = WeakKeyDictionary()
        self._sizes: WeakKeyDictionary[Program, set[tuple[Any, ...]]] = WeakKeyDictionary()
        self._known: dict[Target, Substitutes] = {}

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Watches every program that is made from now on."""
        compiled, loaded = graphc.compiling.compiler.load_code, graphc.aot.loader.machine_code_of
        stored = graphc.compiling.cached.entries.stored_code
        create, run = Program.__init__, Program.run

        def compiled_code(text: Any, target: Target) -> Code:
            code = compiled(text, target)
            self._targets[code.entries] = target
            return code

        def stored_code(head: Any, target: Target, *rest: Any) -> Code | None:
            code = stored(head, target, *rest)
            if code is not None:
                self._targets[code.entries] = target
            return code

        def loaded_code(artifact: Artifact) -> MachineCode:
            found = loaded(artifact)
            self._targets[found.code.entries] = named(found.program.name.replace("_", "-"))
            return found

        def watched_create(program: Program, plan: Plan, code: Code, *rest: Any) -> None:
            create(program, plan, code, *rest)
            if not self.paused:
                self._made(program, self._targets.pop(code.entries))

        def watched_run(
            program: Program, arrays: Sequence[Array], *rest: Any, **named: Any
        ) -> Any:
            if self.paused or not self._pending.get(program):
                return run(program, arrays, *rest, **named)
            stepped = self._walk(program, arrays)
            try:
                results = run(program, arrays, *rest, **named)
            except IndexRangeError:
                if isinstance(stepped, list):
                    self._report("only the program as a whole fails a check of an index")
                raise
            if isinstance(stepped, IndexRangeError):
                self._report(f"a check fails in the program run step by step alone: {stepped}")
            if isinstance(stepped, list):
                self._compare_results(program, stepped, results)
            return results

        patch.setattr(graphc.compiling.compiler, "load_code", compiled_code)
        patch.setattr(graphc.aot.loader, "machine_code_of", loaded_code)
        patch.setattr(graphc.compiling.cached.entries, "stored_code", stored_code)
        patch.setattr(Program, "__init__", watched_create)
        patch.setattr(Program, "run", watched_run)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Watches nothing inside."""
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before

    def _report(self, problem: str) -> None:
        if threading.current_thread() is not threading.main_thread():
            self.failures.append(problem)
        raise LevelMismatch(problem)

    def _made(self, program: Program, target: Target) -> None:
        try:
            verify_plan(program.plan)
        except VerifyError as error:
            self._report(str(error))
        pending: dict[str, int] = {}
        for number, kernel in enumerate(program.plan.kernels):
            key = kernel_key(kernel)
            if key not in self.printed:
                text = print_kernel(kernel)
                twin = parse_kernel(text)
                verify_kernel(twin)
                if kernel_key(twin) != key or print_kernel(twin) != text:
                    self._report(f"printed and parsed, this kernel is another one:\n{text}")
                self.printed.add(key)
            if (key, target) not in self.compared:
                pending[key] = number
        self._pending[program] = pending
        self._target_of[program] = target
        self._sizes[program] = set()

    def _walk(self, program: Program, arrays: Sequence[Array]) -> list[Array] | Exception | None:
        """Runs step by step; gives the results, a failed check, or None if there is more to run."""
        try:
            binding = program.bind(arrays)
            # refuses sizes whose sums and products are too large
            program._bound(arrays)
        except GraphcError:
            return None
        with self._lock:
            pending = self._pending[program]
            sizes = tuple(sorted(binding.items()))
            if sizes in self._sizes[program]:
                return None
            if not [key for key in list(pending) if self._wanted(program, key, binding)]:
                return None
            self._sizes[program].add(sizes)
            launch = self._launcher(program, binding)
            result: list[Array] | Exception | None
            try:
                if program.plan.host_calls:
                    # they are called once a run, in the real one
                    with stand_ins():
                        run_plan(program.plan, arrays, binding, launch=launch)
                    result = None
                else:
                    result = run_plan(program.plan, arrays, binding, launch=launch)
                    self.programs += 1
            except IndexRangeError as failed:
                result = failed
            except _Enough:
                result = None
            except LevelMismatch as mismatch:
                self._report(str(mismatch))
            self._compare_unreached(program, binding)
            return result

    def _launcher(self, program: Program, binding: Mapping[str, int]) -> Any:
        numbers = {id(kernel): number for number, kernel in enumerate(program.plan.kernels)}
        keys = {number: key for key, number in self._pending[program].items()}
        launches = 0

        def launch(
            kernel: Kernel, arrays: Sequence[Array], dims: Mapping[str, int]
        ) -> list[CheckFailure]:
            nonlocal launches
            launches += 1
            if launches > max(LAUNCHES, len(program.plan.steps)):
                raise _Enough
            number = numbers[id(kernel)]
            entry = program.entries[number]
            key = keys.pop(number, None)
            if key is None:
                return run_native(kernel, entry, [array.ctypes.data for array in arrays], dims)
            return self._compare(program, key, kernel, entry, arrays, dims)

        return launch

    def _wanted(self, program: Program, key: str, dims: Mapping[str, int]) -> bool:
        """Whether a kernel is still to be compared; if it would take too long that is counted."""
        pending = self._pending[program]
        kernel = program.plan.kernels[pending[key]]
        reason = None
        if sum(evaluate(buffer.type.size, dims) for buffer in kernel.buffers) > ELEMENTS:
            reason = f"more than {ELEMENTS} elements"
        else:
            reason = too_long(kernel, dims)
        if reason is not None:
            self.skipped[reason] += 1
        if reason is not None or (key, self._target_of[program]) in self.compared:
            del pending[key]
        return key in pending

    def _compare(
        self,
        program: Program,
        key: str,
        kernel: Kernel,
        entry: int,
        arrays: Sequence[Array],
        dims: Mapping[str, int],
    ) -> list[CheckFailure]:
        target = self._target_of[program]
        self._pending[program].pop(key, None)
        self.compared.add((key, target))
        substitutes = self._known.setdefault(target, checked_substitutes(target))
        after, failures = KernelComparison(kernel, arrays, dims).run(entry, substitutes)
        for buffer, array, result in zip(kernel.buffers, arrays, after, strict=True):
            if buffer.role != "in":
                array[...] = result
        return failures

    def _compare_unreached(self, program: Program, binding: Mapping[str, int]) -> None:
        if any(guard.failure(binding) is not None for _, guard in program.plan.required):
            return  # what such a guard protects can't be reached with these sizes
        random = np.random.default_rng(5)
        for key, number in list(self._pending[program].items()):
            kernel = program.plan.kernels[number]
            if may_not_end(kernel):
                continue  # the arrays are random
            arrays = [_random(buffer.type, binding, random) for buffer in kernel.buffers]
            dims = {name: binding[name] for name in kernel.dims}
            written = sum(
                array.size
                for buffer, array in zip(kernel.buffers, arrays, strict=True)
                if buffer.is_result
            )
            if written:
                try:
                    self._compare(program, key, kernel, program.entries[number], arrays, dims)
                except LevelMismatch as mismatch:
                    self._report(str(mismatch))

    def _compare_results(
        self, program: Program, stepped: Sequence[Array], results: Sequence[Array]
    ) -> None:
        # There may be more results than outputs: those that the caller already has.
        for number, (step, whole) in enumerate(zip(stepped, results, strict=True)):
            if not same_bits(np.ascontiguousarray(step), np.ascontiguousarray(whole)).all():
                self._report(
                    f"result {number} of plan {program.plan.name!r} depends on its layout: run "
                    f"whole it is\n{shown(whole)}\nstep by step\n{shown(step)}"
                )


def _random(type_: TensorType, binding: Mapping[str, int], random: np.random.Generator) -> Array:
    shape = tuple(evaluate(dim, binding) for dim in type_.shape)
    if type_.dtype.is_float:
        return random.standard_normal(shape).astype(type_.dtype.numpy)
    return random.integers(0, 2, shape).astype(type_.dtype.numpy)


__all__ = ["KernelWatch", "LevelMismatch", "run_native", "same_bits"]
