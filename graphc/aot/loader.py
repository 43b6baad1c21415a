"""Loading libraries into a process and running them, with NumPy alone.

Invariant: neither this module nor what it imports needs the passes, code generation or LLVM.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graphc.aot.artifact import Artifact, opened
from graphc.aot.machine_code import MachineCode, machine_code_of
from graphc.aot.signature import ProgramInfo, Signature, TensorInfo
from graphc.base.errors import ArtifactError, GraphError, NameLookupError, ShapeError
from graphc.base.lazily import once
from graphc.base.source import Location, caller
from graphc.base.threads import usable_threads
from graphc.base.words import is_count, known_names, plural, shown
from graphc.frontend.structure_data import structure_of
from graphc.ir import dtypes
from graphc.ir.attributes import Array
from graphc.ir.dims.text import format_name
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.plan.ir import Plan
from graphc.plan.serialize import plan_of
from graphc.runtime.blocks import copies_of
from graphc.runtime.program import Program
from graphc.session.fast_call import CALL_SIGNATURE, Called, Calling
from graphc.session.feeds import arguments_by_place, converted_feed, mapping_of
from graphc.session.output_arrays import arranged, targets_of
from graphc.session.variable_store import Holdings


class _Uses(NamedTuple):
    """The variables that a program reads, in the order of its feeds, and those that it writes."""

    states: tuple[Value, ...]
    written: tuple[Value, ...]


class LoadedProgram(Called):
    """A program from a library; call it with its arguments in order or by name.

    ``program(*arrays, out=None, **named)`` runs once, as an executable of a session does, and
    raises what that raises. Results come in the structure that was exported; effects give None. In
    ``out`` may be arrays to write results to. Variables belong to this object: runs update them,
    and the library on disk stays as it is. Safe to use from many threads.

    Attributes:
        signature: what the library says of itself.
        program: the plan with its machine code.
    """

    def __init__(self, signature: Signature, program: Program, initial: Sequence[Array]) -> None:
        self.signature = signature
        self.program = program
        plan = program.plan
        self._feeds = [(info.name, info.type) for info in signature.arguments]
        self._order = _in_order(signature.arguments, "read")
        self._needed = [
            Value(plan.slots[slot].type, signature.arguments[place].name)
            for slot, place in zip(plan.feeds[: len(self._order)], self._order, strict=True)
        ]
        leaves = [
            None
            if info is None or info.written is None
            else Value(plan.slots[plan.outputs[info.written]].type, info.name)
            for info in signature.fetched
        ]
        # by what stands for them in shapes
        self._bounds = {format_name(name): (least, most) for name, least, most in signature.dims}
        self._fetches = structure_of(signature.structure, len(leaves), leaves.__getitem__)
        self._variables = [_variable_value(info) for info in signature.variables]
        values = dict(zip(self._variables, initial, strict=True))
        self._holdings = Holdings(values.__getitem__)
        self._uses = _Uses(
            tuple(self._variables[n] for n in _in_order(signature.variables, "read")),
            tuple(self._variables[n] for n in _in_order(signature.variables, "written")),
        )
        self.__call__ = self._first
        self.__signature__ = CALL_SIGNATURE

    # --- running ---------------------------------------------------------------------------------

    def _first(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """The first call makes what the others are."""
        self.__call__ = self._direct
        return self._careful(*arguments, out=out, **named)

    @once
    def _direct(self) -> Any:
        return Calling(
            self.program,
            self._fetches,
            len(self._feeds),
            self._order,
            self._uses,
            self._holdings,
            self._careful,
        ).direct()

    def _careful(self, /, *arguments: Any, out: Any = None, **named: Any) -> Any:
        """A call that converts what can be, and says what is wrong with the rest."""
        arrays = self._converted(arguments, named)
        into = None if out is None else targets_of(self._fetches, out, arrays)
        if not self._uses.written:
            return arranged(self._fetches, self._results(arrays, into))
        results = self._holdings.run_and_commit(
            self._results, (arrays, into), self._uses, self.program.plan
        )
        return arranged(self._fetches, results)

    def _results(self, arrays: Sequence[Array], into: Mapping[int, Array] | None) -> list[Array]:
        inputs = self._holdings.inputs(self._uses, arrays)
        return self._holdings.results(self.program, self._uses, inputs, into)

    def _converted(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> list[Array]:
        given = arguments_by_place(arguments, named, self._feeds, self._order)
        arrays = [
            converted_feed(value, given[place])
            for value, place in zip(self._needed, self._order, strict=True)
        ]
        # native code takes only sizes that were taken here before
        for array, place in zip(arrays, self._order, strict=True):
            self._check_sizes(array, self.signature.arguments[place])
        return arrays

    def _check_sizes(self, array: Array, info: TensorInfo) -> None:
        for dim, size in zip(info.shape, array.shape, strict=True):
            if isinstance(dim, str) and dim in self._bounds:
                least, most = self._bounds[dim]
                if not least <= size <= most:
                    raise ShapeError(
                        f"the size of dim {dim} is {size}, it must be {least} to {most}",
                        where=caller(),
                        hint="the library was written for these sizes",
                    )

    # --- variables -------------------------------------------------------------------------------

    def get(self, variable: str | int) -> Array:
        """A copy of a variable's present value, by its name or its place in the signature.

        Raises:
            NameLookupError: if no variable, or more than one, has that name.
        """
        found = self._variables[_position(self.signature.variables, variable)]
        (array,) = self._holdings.copies([found])
        return array

    def set(self, values: Mapping[str | int, Any]) -> None:
        """Gives variables new values, all or none; the arrays are copied.

        Raises:
            NameLookupError: if no variable, or more than one, has a name.
            FeedError: if a value does not fit its variable.
        """
        new: dict[Value, Array] = {}
        for key, given in mapping_of(values, "new values").items():
            variable = self._variables[_position(self.signature.variables, key)]
            new[variable] = converted_feed(variable, given)
        self._holdings.set(dict(zip(new, copies_of([*new.values()]), strict=True)))

    def __repr__(self) -> str:
        counts = self.signature
        parts = (
            plural(len(counts.arguments), "argument"), plural(len(counts.results), "result"),
            plural(len(counts.variables), "variable"),
        )  # fmt: skip
        return f"<LoadedProgram {counts.name!r}: {', '.join(parts)}>"


def _in_order(infos: Sequence[TensorInfo], what: str) -> list[int]:
    """The positions of those that the plan reads or writes, in the order in which it does."""
    found = [(getattr(info, what), position) for position, info in enumerate(infos)]
    return [position for number, position in sorted(f for f in found if f[0] is not None)]


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
    raise NameLookupError(
        f"no variable is called {key!r}",
        where=caller(),
        hint=known_names(str(key), [info.name for info in variables]),
    )


def _variable_value(info: TensorInfo) -> Value:
    shape = tuple(dim for dim in info.shape if isinstance(dim, int))
    return Value(TensorType(dtypes.dtype(info.dtype), shape), info.name)


# --- loading -------------------------------------------------------------------------------------


def load_library(path: str | os.PathLike[str], threads: int | None = None) -> LoadedProgram:
    """The program of a library; see ``graphc.aot.load``."""
    if threads is not None and not is_count(threads, 1):
        raise GraphError(
            f"threads is {shown(threads)}",
            where=caller(),
            hint="it must be None or an int of at least 1",
        )
    try:
        with opened(path) as artifact:
            found = machine_code_of(artifact)
            weights = _weights(artifact, found)
    except ArtifactError as error:
        error.where = caller()
        error.hint = error.hint or "export it again with gx.aot.compile"
        raise
    signature = artifact.signature
    used = (threads or usable_threads()) if signature.threads else 1
    program = Program(_plan(found.program, weights), found.code, used)
    initial = [
        _view(weights, offset, info.dtype, _variable_value(info).shape)
        for offset, info in zip(signature.initial, signature.variables, strict=True)
    ]
    return LoadedProgram(signature, program, initial)


def _weights(artifact: Artifact, found: MachineCode) -> Array:
    """All weights as bytes that can't be written: the library's own memory, or the mapped file."""
    signature = artifact.signature
    size, stored = signature.weight_bytes, signature.weights
    if not size:
        return np.zeros(0, np.uint8)
    if stored.file is None:
        block: Any = (ctypes.c_uint8 * size).from_address(found.weights)
        weights = np.frombuffer(block, np.uint8)
    else:
        descriptor = artifact.descriptors[stored.file]
        whole = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        weights = np.frombuffer(whole, np.uint8, size, stored.start)
    weights.flags.writeable = False
    return weights


def _view(weights: Array, offset: int, name: str, shape: Sequence[Any]) -> Array:
    dtype = np.dtype(name)
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    return weights[offset : offset + size].view(dtype).reshape(shape)


def _plan(info: ProgramInfo, weights: Array) -> Plan:
    constants = {
        slot: _view(weights, offset, dtype, shape) for slot, offset, dtype, shape in info.constants
    }
    lines = [Location(*line) for line in info.lines]
    return plan_of(info.plan, constants, lines)


__all__ = ["LoadedProgram", "load_library"]
