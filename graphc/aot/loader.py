"""Loading packages and running them, with LLVM's loader and NumPy alone.

Invariant: neither this module nor what it imports needs the passes or code generation.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from graphc.aot.artifact import (
    CONSTANTS,
    OBJECT,
    PLAN,
    PLAN_DIGEST,
    STATE,
    Package,
    Signature,
    TensorInfo,
    read_package,
)
from graphc.base.errors import (
    ArtifactError,
    GraphError,
    NameLookupError,
    ParseError,
    VerifyError,
)
from graphc.base.source import caller
from graphc.base.target import host
from graphc.base.threads import usable_threads
from graphc.base.words import known_names
from graphc.feeds import arguments_by_place, converted_feed
from graphc.ir import dtypes
from graphc.ir.archive import read_arrays
from graphc.ir.attributes import Array
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.plan.ir import Plan, Slot
from graphc.plan.parser import parse_plan
from graphc.plan.table import WALKER, WORKER, kernel_symbols
from graphc.plan.verify import verify_plan
from graphc.runtime.code import Code
from graphc.runtime.jit import Library
from graphc.runtime.program import Program
from graphc.structure_data import structure_of
from graphc.targets import arranged, targets_of


class LoadedProgram:
    """A program from a package; call it with its arguments in order or by name.

    Results come in the structure that was exported; effects give None. Variables belong to this
    object: runs update them, and the package on disk stays as it is. Safe to use from many threads.

    Attributes:
        signature: what the package says of itself.
    """

    def __init__(self, signature: Signature, program: Program, state: Sequence[Array]) -> None:
        self.signature = signature
        self._program = program
        self._state = list(state)
        self._lock = threading.RLock()
        plan = program.plan
        self._feeds = [(info.name, info.type) for info in signature.arguments]
        self._order = _feed_order(signature.arguments)
        self._needed = [
            Value(plan.slots[slot].type, signature.arguments[place].name)
            for slot, place in zip(plan.feeds[: len(self._order)], self._order, strict=True)
        ]
        results = iter(plan.outputs)
        leaves = [
            None if info is None else Value(plan.slots[next(results)].type, info.name)
            for info in signature.results
        ]
        self._fetches = structure_of(signature.structure, len(leaves), leaves.__getitem__)
        self._variables = [_variable_value(info) for info in signature.variables]
        self._reads = _feed_order(signature.variables)
        self._writes = [
            (position, info.written)
            for position, info in enumerate(signature.variables)
            if info.written is not None
        ]

    # --- running ---------------------------------------------------------------------------------

    def __call__(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """Runs once.

        Args:
            arguments: what the executable took, in its order.
            out: arrays to write results to, as for an executable.
            named: the rest of the arguments, by name; one called "out" goes by position.

        Raises:
            FeedError: for a missing, unknown or repeated argument, one that does not fit, or an
                array of ``out`` that can't take its result.
            ShapeError: where sizes don't fit each other.
            IndexRangeError: where an index is out of range.
        """
        given = arguments_by_place(arguments, named, self._feeds, self._order)
        arrays = [
            converted_feed(value, given[place])
            for value, place in zip(self._needed, self._order, strict=True)
        ]
        into = None if out is None else targets_of(self._fetches, out, arrays)
        return arranged(self._fetches, self._run(arrays, into))

    def _run(self, arrays: Sequence[Array], into: Mapping[int, Array] | None) -> list[Array]:
        if not self._writes:
            with self._lock:
                state = [self._state[position] for position in self._reads]
            return self._program.run([*arrays, *state], into)
        with self._lock:
            outputs = self._program.run([*arrays, *(self._state[n] for n in self._reads)], into)
            for position, output in self._writes:
                self._state[position] = outputs[output]
            return outputs

    # --- variables -------------------------------------------------------------------------------

    def get(self, variable: str | int) -> Array:
        """A copy of a variable's present value, by its name or its place in the signature.

        Raises:
            NameLookupError: if no variable, or more than one, has that name.
        """
        position = _position(self.signature.variables, variable, )
        with self._lock:
            return self._state[position].copy()

    def set(self, values: Mapping[str | int, Any]) -> None:
        """Gives variables new values, all or none; the arrays are copied.

        Raises:
            NameLookupError: if no variable, or more than one, has a name.
            FeedError: if a value does not fit its variable.
        """
        new: dict[int, Array] = {}
        for key, given in values.items():
            position = _position(self.signature.variables, key)
            new[position] = np.array(converted_feed(self._variables[position], given))
        with self._lock:
            for position, array in new.items():
                self._state[position] = array

    def __repr__(self) -> str:
        counts = self.signature
        return (
            f"<LoadedProgram {counts.name!r}: {len(counts.arguments)} arguments, "
            f"{len(counts.results)} results, {len(counts.variables)} variables>"
        )


def _feed_order(infos: Sequence[TensorInfo]) -> list[int]:
    """The positions of those that the plan reads, in the order of its feeds."""
    read = [(info.read, position) for position, info in enumerate(infos) if info.read is not None]
    return [position for _, position in sorted(read)]


def _position(variables: Sequence[TensorInfo], key: Any) -> int:
    if type(key) is int and 0 <= key < len(variables):
        return key
    found = [position for position, info in enumerate(variables) if info.name == key]
    if len(found) == 1 and isinstance(key, str):
        return found[0]
    if len(found) > 1:
        raise NameLookupError(
            f"{len(found)} variables are called {key!r}",
            where=caller(),
            hint="use its place instead",
        )
    names = [info.name for info in variables if info.name is not None]
    raise NameLookupError(
        f"no variable is called {key!r}", where=caller(), hint=known_names(str(key), names)
    )


# --- loading -------------------------------------------------------------------------------------


def load_package(path: str | os.PathLike[str], threads: int | None = None) -> LoadedProgram:
    """The program of a package; see ``graphc.aot.load``."""
    if threads is not None and (type(threads) is not int or threads < 1):
        raise GraphError(
            f"threads is {threads!r}",
            where=caller(),
            hint="it must be None or an int of at least 1",
        )
    package = read_package(path)
    try:
        return _loaded(package, threads or usable_threads())
    except ArtifactError as error:
        error.message = f"package {os.fspath(path)!r}: {error.message}"
        raise


def _loaded(package: Package, threads: int) -> LoadedProgram:
    signature, files = package.signature, package.files
    _check_target(signature)
    plan = _plan(files)
    state = _state(signature, files)
    _check_signature(signature, plan)
    return LoadedProgram(signature, Program(plan, _code(signature, files), threads), state)


def _check_target(signature: Signature) -> None:
    here = host()
    if _platform(signature.triple) != _platform(here.triple):
        raise ArtifactError(f"it is made for {signature.triple}, this machine is {here.triple}")
    wanted = {name for name in signature.features.split(",") if name.startswith("+")}
    missing = sorted(wanted.difference(here.features.split(",")))
    if missing:
        names = ", ".join(name[1:] for name in missing)
        raise ArtifactError(
            f"it is made for a {signature.cpu}; this CPU lacks {names}",
            hint="export it for this machine, or for an older CPU",
        )


def _platform(triple: str) -> tuple[str, ...]:
    """What of a triple must agree: the vendor means nothing."""
    architecture, *rest = triple.split("-")
    return (architecture, *rest[1:])


def _plan(files: Mapping[str, bytes]) -> Plan:
    constants = _arrays(files, CONSTANTS)
    try:
        plan = parse_plan(files[PLAN].decode(), constants)
        verify_plan(plan)
    except (ParseError, VerifyError) as error:
        raise ArtifactError(f"{PLAN}: {error.message}") from error
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{PLAN} is not UTF-8 text") from error
    if plan.layout is None:
        raise ArtifactError(f"{PLAN} has no layout")
    return plan


def _arrays(files: Mapping[str, bytes], name: str) -> dict[str, Array]:
    try:
        return read_arrays(files[name])
    except ParseError as error:
        raise ArtifactError(f"{name}: {error.message}") from error


def _state(signature: Signature, files: Mapping[str, bytes]) -> list[Array]:
    arrays = _arrays(files, STATE)
    if set(arrays) != {str(number) for number in range(len(signature.variables))}:
        raise ArtifactError(f"{STATE} does not hold the variables of the signature")
    state = [np.asarray(arrays[str(n)], order="C") for n in range(len(signature.variables))]
    for info, array in zip(signature.variables, state, strict=True):
        if array.dtype != np.dtype(info.dtype) or array.shape != info.shape:
            raise ArtifactError(
                f"{STATE}: variable {info} has a value {array.dtype}{list(array.shape)}"
            )
    return state


def _variable_value(info: TensorInfo) -> Value:
    shape = tuple(dim for dim in info.shape if isinstance(dim, int))
    return Value(TensorType(dtypes.dtype(info.dtype), shape), info.name)


def _check_signature(signature: Signature, plan: Plan) -> None:
    """Signature and plan speak of the same program."""
    kinds = [plan.slots[slot].kind for slot in plan.feeds]
    feeds = kinds.count("feed")
    _check_cover(plan, plan.feeds[:feeds], signature.arguments, "arguments", 0)
    _check_cover(plan, plan.feeds[feeds:], signature.variables, "variables", feeds)
    results = [info for info in signature.results if info is not None]
    written = [info for info in signature.variables if info.written is not None]
    if [info.written for info in results] != list(range(len(results))):
        raise ArtifactError("results and the plan's outputs don't agree")
    if len(results) + len(written) != len(plan.outputs):
        raise ArtifactError("results and the plan's outputs don't agree")
    numbers = {info.written for info in (*results, *written)}
    if numbers != set(range(len(plan.outputs))):
        raise ArtifactError("results and the plan's outputs don't agree")
    for info in (*results, *written):
        assert info.written is not None
        _check_type(info, plan.slots[plan.outputs[info.written]])
    if any(not isinstance(dim, int) for info in signature.variables for dim in info.shape):
        raise ArtifactError("a variable has a symbolic shape")
    if signature.kernels != len(plan.kernels):
        raise ArtifactError("the number of kernels is not the plan's")
    structure_of(signature.structure, len(signature.results), lambda number: None)


def _check_cover(
    plan: Plan, slots: Sequence[int], infos: Sequence[TensorInfo], what: str, first: int
) -> None:
    read = [info for info in infos if info.read is not None]
    if sorted(info.read - first for info in read if info.read is not None) != [*range(len(slots))]:
        raise ArtifactError(f"{what} and the plan's feeds don't agree")
    for info in read:
        assert info.read is not None
        _check_type(info, plan.slots[slots[info.read - first]])


def _check_type(info: TensorInfo, slot: Slot) -> None:
    shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in slot.type.shape)
    if (info.dtype, info.shape) != (slot.type.dtype.name, shape):
        raise ArtifactError(f"{info} is {slot.type} in the plan")


def _code(signature: Signature, files: Mapping[str, bytes]) -> Code:
    symbols = kernel_symbols(signature.kernels)
    try:
        library = Library(files[OBJECT], (*symbols, WALKER, WORKER, PLAN_DIGEST))
    except RuntimeError as error:
        raise ArtifactError(f"{OBJECT} can't be loaded: {error}") from error
    digest = ctypes.string_at(library.addresses[PLAN_DIGEST], 32)
    if digest != hashlib.sha256(files[PLAN]).digest():
        raise ArtifactError(f"{OBJECT} was compiled for another plan than {PLAN}")
    return Code.of((library,), symbols)


__all__ = ["LoadedProgram", "load_package"]
