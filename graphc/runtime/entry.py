"""Calling programs without Python in between.

``native_call`` gives a built-in function that checks plain arguments and runs a program in a third
of a microsecond; everything else it hands to the careful callable it was given. It reads arrays
where CPython and NumPy keep what it needs, so it exists only where ``available``: everywhere else
the careful callable is used as it is, with the same results.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graphc.base.object_layouts import (
    ARRAY_DATA,
    ARRAY_DIMS,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    DTYPE_KIND,
    DTYPE_SIZE,
    ENTRY,
    ENTRY_IMPORTS,
    FUNCTIONS,
    OBJECT_TYPE,
    PLAIN,
    WRITEABLE,
)
from graphc.base.target import host
from graphc.ir.attributes import Array
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.plan.abi import INPUT_WORDS, OUTPUT_WORDS, TABLE_WORDS
from graphc.runtime.address import can_read_directly, documented_address
from graphc.runtime.code import Glue
from graphc.runtime.program import Program

Container = Literal["single", "list", "tuple"]
"""What the results come in."""

_CONTAINERS: tuple[Container, ...] = ("single", "list", "tuple")

_FASTCALL_WITH_KEYWORDS = 0x80 | 0x02
"""METH_FASTCALL | METH_KEYWORDS."""

_OUT = sys.intern("out")
"""The keyword, as calls in Python's code spell it."""

_EMPTY = 184
"""The place of PyArray_Empty in NumPy's table of functions."""


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


@cache
def available() -> bool:
    """Whether arrays lie in memory as the native entry reads them.

    True for CPython with its lock; checked with arrays of several kinds, nothing is assumed of the
    version.
    """
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return False
    if object.__basicsize__ != ARRAY_DATA or not can_read_directly():
        return False
    if np.ndarray.__basicsize__ < ARRAY_FLAGS + 4 or np.dtype.__basicsize__ < DTYPE_SIZE + 8:
        return False
    return _numpy_empty() is not None and all(map(_lies_as_expected, _samples()))


def _samples() -> list[Array]:
    whole = np.zeros((4, 6), np.float32)
    frozen = np.arange(3)
    frozen.flags.writeable = False
    unaligned = np.zeros(33, np.uint8)[1:].view(np.float64)
    kinds = [np.zeros(2, kind) for kind in "?bBhHiIlLefdFD"]
    return [whole, whole.T, whole[1:, ::-2], whole.astype(">f4"), frozen, unaligned, *kinds,
            np.zeros((), np.int8), np.zeros((0, 3))]  # fmt: skip


def _lies_as_expected(array: Array) -> bool:
    """Whether what the native entry would read of an array is what NumPy says of it."""
    start, dtype = id(array), id(array.dtype)

    def word(address: int) -> int:
        return ctypes.c_int64.from_address(address).value

    kind = ctypes.string_at(dtype + DTYPE_KIND, 3)
    dims = word(start + ARRAY_DIMS)
    return (
        word(start + OBJECT_TYPE) == id(np.ndarray)
        and word(start + ARRAY_DATA) == documented_address(array)
        and ctypes.c_int.from_address(start + ARRAY_RANK).value == array.ndim
        and all(word(dims + 8 * axis) == size for axis, size in enumerate(array.shape))
        and word(start + ARRAY_DTYPE) == dtype
        and ctypes.c_int.from_address(start + ARRAY_FLAGS).value & 0xFFFF == array.flags.num
        and bool(array.flags.num & WRITEABLE) == array.flags.writeable
        and bool(array.flags.num & PLAIN == PLAIN)
        == (array.flags.c_contiguous and array.flags.aligned)
        and kind == (array.dtype.kind + array.dtype.char + array.dtype.byteorder).encode()
        and word(dtype + DTYPE_SIZE) == array.itemsize
    )


def _numpy_empty() -> int | None:
    """The address of PyArray_Empty, tried; None where NumPy's table is not what was expected."""
    core = sys.modules.get("numpy._core._multiarray_umath")
    capsule = getattr(core, "_ARRAY_API", None)
    if capsule is None:
        return None
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    address = table[_EMPTY]
    if not address:
        return None
    empty = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.py_object, ctypes.c_int
    )(address)
    shape, dtype = np.array([3, 5]), np.dtype(np.int16)
    # the function takes a reference of its own to the dtype, which a ctypes call does not give
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(dtype))
    made = empty(2, documented_address(shape), dtype, 0)
    plain = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype == dtype
    return address if plain and made.flags.c_contiguous and made.flags.owndata else None


@cache
def _compiled() -> tuple[int, int, object]:
    """The addresses of the process's own native entry and of its table; what keeps them loaded."""
    from graphc.codegen.native.python_entry import emit_entry
    from graphc.runtime.jit import compile_object, key_of, shared_library

    text = emit_entry(host()).text
    # the same for threads that come at once: whichever result is kept here, all are called
    library = shared_library(
        (ENTRY, ENTRY_IMPORTS), key_of(text), host(), partial(compile_object, text)
    )
    assert library is not None, "what is compiled is there"
    return library.addresses[ENTRY], library.addresses[ENTRY_IMPORTS], library


def _method(glue: Glue | None) -> _MethodDef:
    """The native entry that came with a program's code, or the one that the process compiles."""
    entry, table = _compiled()[:2] if glue is None else (glue.entry, glue.imports)
    imports = _imports()
    ctypes.memmove(table, imports, ctypes.sizeof(imports))
    return _MethodDef(b"call", entry, _FASTCALL_WITH_KEYWORDS, b"A compiled program.")


@cache
def _imports() -> ctypes.Array[ctypes.c_uint64]:
    """The content of the table of imports."""
    empty = _numpy_empty()
    assert empty is not None, "the native entry is made only where it is available"
    found = [_address(getattr(ctypes.pythonapi, name)) for name in FUNCTIONS]
    found += (empty, id(np.ndarray), id(None), id(_OUT), id(list), id(tuple))
    return (ctypes.c_uint64 * len(found))(*found)


def _address(function: Any) -> int:
    address = ctypes.cast(function, ctypes.c_void_p).value
    assert address is not None
    return address


class Variables(NamedTuple):
    """The variables of a program, as a session holds them.

    Attributes:
        values: their present values, looked up at each call. Whoever changes several at once does
            it in a single operation.
        read: the keys of the inputs behind those that are fed.
        spares: arrays to write new values to; each is taken out when it is used.
        written: the keys of the last results.
        lends: one word; while it is not 0 nobody but the program that has them may read values.
        in_place: whether this is such a program, which gives those it has new values in place.
    """

    values: dict[Value, Array]
    read: tuple[Value, ...]
    spares: dict[Value, Array]
    written: tuple[Value, ...]
    lends: NDArray[np.int64]
    in_place: bool


def _described(type_: TensorType) -> tuple[int, int, int]:
    """What is compared of an array of this type: the dtype's kind word and size, and the rank."""
    dtype = type_.dtype.numpy
    kind = ctypes.c_int64.from_address(id(dtype) + DTYPE_KIND).value
    return kind, dtype.itemsize, type_.rank


def native_call(
    program: Program,
    positions: Sequence[int],
    arguments: int,
    container: Container,
    careful: Callable[..., Any],
    variables: Variables,
) -> Callable[..., Any]:
    """A built-in function that runs a program and gives all its results; only where ``available``.

    Args:
        program: what runs; one that need not be interruptible.
        positions: for each input that is fed, which argument it is.
        arguments: how many arguments a call has; some may be needed by no input.
        container: what the results come in.
        careful: is called with the arguments where they are not plainly right, and with keywords
            if there are any, and gives the result or raises.
        variables: what is read and written beside.
    """
    plan = program.plan
    sources = [*positions, *(~n for n in range(len(variables.read)))]
    inputs: list[int] = []
    outputs: list[int] = []
    places: list[int] = []
    types = [plan.slots[slot].type for slot in plan.feeds]
    results = [plan.slots[slot].type for slot in plan.outputs]
    fetched = len(results) - len(variables.written)
    start = TABLE_WORDS + INPUT_WORDS * len(types) + OUTPUT_WORDS * len(results)
    for source, type_, into in zip(sources, types, program.input_places, strict=True):
        inputs += [source, *_described(type_), start + len(places), len(into)]
        places += into
    for position, (type_, into) in enumerate(zip(results, program.output_places, strict=True)):
        written = max(position - fetched, -1)
        described = id(type_.dtype.numpy), *_described(type_), written
        outputs += [*described, start + len(places), len(into)]
        places += into
    rank = sum(type_.rank for type_ in types)
    counts = [arguments, len(types), len(results), _CONTAINERS.index(container), rank]
    head = [*counts, TABLE_WORDS + len(inputs), int(variables.in_place)]
    words = [*head, *inputs, *outputs, *places]
    table: NDArray[np.int64] = np.array(words, np.int64)
    definition = _method(program.glue)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    bound = (
        table, program.call_natively(), careful, variables.values, variables.read, variables.spares,
        variables.written, variables.lends, program, definition,
    )  # fmt: skip
    call: Callable[..., Any] = make(ctypes.addressof(definition), bound, None)
    return call
