"""The Python module beside a library: calls it by ctypes, needs NumPy and nothing of graphc."""

from __future__ import annotations

import pprint
import sys
from typing import Any

from graphc.aot.inside import DIGEST, DIGEST_BYTES
from graphc.aot.library import Content, Design, Tensor
from graphc.aot.native.records import BAD_MATRIX
from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.ir.dims.text import format_name

_TAUGHT = """import ml_dtypes  # noqa: F401, so that NumPy knows its dtypes
"""
_TAKEN = sys.stdlib_module_names | {"numpy"}


def check_module_name(name: str) -> None:
    """Refuses a name whose module would hide one of Python's or NumPy from what is beside it.

    Raises:
        GraphError: naming it.
    """
    if name in _TAKEN:
        raise GraphError(
            f"name={name!r} is that of a Python module, which the library's {name}.py would hide",
            where=caller(),
            hint="give another name=, or write to a directory of another name",
        )


def python_text(
    content: Content, design: Design, library: str, weights: str | None, digest: bytes
) -> str:
    """The module's source.

    Args:
        content: the library.
        design: how it is built.
        library, weights: names of files beside the module.
        digest: of what the library says of itself.
    """
    data = {
        "prefix": design.name,
        "library": library,
        "weights": weights,
        "digest": digest.hex(),
        # spelled as they are in shapes, where "2*n" and the dim of that name must differ
        "dims": [[format_name(name), *bounds] for name, *bounds in content.symbols],
        "inputs": _listed(content.inputs),
        "outputs": _listed(content.outputs),
        "variables": _listed(content.variables),
    }
    shown = pprint.pformat(data, width=98, sort_dicts=False)
    text = _TEXT.replace("@NAME@", design.name).replace("@DIGEST@", str(DIGEST))
    text = text.replace("@BAD_MATRIX@", str(BAD_MATRIX))
    tensors = (*content.inputs, *content.outputs, *content.variables)
    is_taught = any(tensor.type.dtype.is_taught for tensor in tensors)
    text = text.replace("@TAUGHT@", _TAUGHT if is_taught else "")
    return text.replace("@BYTES@", str(DIGEST_BYTES)).replace("@DATA@", shown)


def _listed(tensors: tuple[Tensor, ...]) -> list[list[Any]]:
    return [
        [t.name, t.type.dtype.name, [d if isinstance(d, int) else str(d) for d in t.type.shape]]
        for t in tensors
    ]


_TEXT = '''\
"""@NAME@: a library written by graphc, called with NumPy arrays. Needs nothing else."""

import ctypes
import functools
import os
import weakref

import numpy as np
@TAUGHT@
SIGNATURE = @DATA@


class _Ending(weakref.ref):
    """Frees the context of a program that dies, without any code of Python, in which Ctrl-C could
    come and be lost: the callback of a reference gets the reference, which the C function ignores.
    """

    _as_parameter_ = 0


_ENDINGS = set()


class Program:
    """A context of the library; call it with arrays, as SIGNATURE["inputs"] lists them or by name.

    One thread at a time uses a context; several contexts share the weights.
    """

    def __init__(self, threads=0, library=None, weights=None):
        folder = os.path.dirname(os.path.abspath(__file__))
        self._prefix = SIGNATURE["prefix"]
        self._context = None
        self._library = ctypes.CDLL(library or os.path.join(folder, SIGNATURE["library"]))
        pointer, word = ctypes.c_void_p, ctypes.c_int64
        known = self._function("internal", ctypes.c_int, result=pointer)(@DIGEST@)
        if ctypes.string_at(known, @BYTES@).hex() != SIGNATURE["digest"]:
            raise RuntimeError(
                f"{SIGNATURE['library']} is not the library that this module was written for; "
                "if it was replaced while this process ran, start a new process"
            )
        self._create = self._function("create", pointer, ctypes.c_char_p, ctypes.c_int)
        self._destroy = self._function("destroy", pointer, result=None)
        self._error = self._function("error", pointer, result=ctypes.c_char_p)
        self._status = self._function("status_text", ctypes.c_int, result=ctypes.c_char_p)
        self._workspace = self._function("workspace", pointer, pointer, pointer)
        self._shape = self._function(
            "shape", pointer, pointer, ctypes.c_int, ctypes.c_int, pointer
        )
        self._run = self._function(
            "run", pointer, pointer, pointer, pointer, pointer, word
        )
        self._get = self._function("get", pointer, ctypes.c_int, pointer, word)
        self._set = self._function("set", pointer, ctypes.c_int, pointer, word)
        if weights is None and SIGNATURE["weights"] is not None:
            weights = os.path.join(folder, SIGNATURE["weights"])
        path = None if weights is None else os.fsencode(weights)
        made = pointer()
        status = self._create(ctypes.addressof(made), path, threads)
        if status:
            raise RuntimeError(self._status(status).decode())
        self._context = made.value
        _ENDINGS.difference_update([ending for ending in _ENDINGS if ending() is None])
        self._ending = _Ending(self, functools.partial(self._destroy, self._context))
        _ENDINGS.add(self._ending)

    def _function(self, name, *parameters, result=ctypes.c_int):
        found = getattr(self._library, f"{self._prefix}_{name}")
        found.argtypes, found.restype = parameters, result
        return found

    def _check(self, status):
        if status:
            text = self._error(self._context) or self._status(status)
            of_matrix = status == @BAD_MATRIX@
            raise (np.linalg.LinAlgError if of_matrix else ValueError)(text.decode())

    def __call__(self, *arrays, **named):
        """Runs once; gives the outputs in a list."""
        infos = SIGNATURE["inputs"]
        names = [name for name, _, _ in infos]
        given = dict(enumerate(arrays))
        for name, array in named.items():
            places = [place for place, each in enumerate(names) if each == name]
            if len(places) != 1 or places[0] in given:
                raise TypeError(f"{name} is no input, or more than one; there are {names}")
            given[places[0]] = array
        if len(given) > len(names):
            raise TypeError(f"the inputs are {', '.join(names) or 'none'}")
        if len(given) != len(names):
            missing = ", ".join(name for place, name in enumerate(names) if place not in given)
            raise TypeError(f"missing inputs: {missing}")
        inputs, sizes = [], {}
        symbols = {name for name, _, _ in SIGNATURE["dims"]}
        for place, (name, dtype, shape) in enumerate(infos):
            array = np.asarray(given[place])
            if not np.can_cast(array.dtype, dtype, "same_kind"):
                raise TypeError(f"{name} is {array.dtype}, not {dtype}")
            array = np.asarray(array, dtype, order="C")
            if array.ndim != len(shape):
                raise ValueError(f"{name} has {array.ndim} axes, not {len(shape)}")
            for size, dim in zip(array.shape, shape):
                if dim in symbols:
                    if sizes.setdefault(dim, size) != size:
                        raise ValueError(f"{dim} is {sizes[dim]} and, in {name}, {size}")
            inputs.append(array)
        dims = np.array([sizes[name] for name, _, _ in SIGNATURE["dims"]] or [0], np.int64)
        for number, array in enumerate(inputs):
            if array.shape != self._sizes(dims, 0, number, array.ndim):
                wanted = self._sizes(dims, 0, number, array.ndim)
                raise ValueError(f"{names[number]} has shape {array.shape}, not {wanted}")
        outputs = [
            np.empty(self._sizes(dims, 1, number, len(shape)), dtype)
            for number, (_, dtype, shape) in enumerate(SIGNATURE["outputs"])
        ]
        size = ctypes.c_int64()
        self._check(self._workspace(self._context, dims.ctypes.data, ctypes.addressof(size)))
        workspace = np.empty(size.value, np.uint8)
        self._check(
            self._run(
                self._context, dims.ctypes.data, self._places(inputs), self._places(outputs),
                workspace.ctypes.data, size.value,
            )
        )
        return outputs

    def _sizes(self, dims, kind, number, rank):
        shape = np.zeros(max(rank, 1), np.int64)
        self._check(self._shape(self._context, dims.ctypes.data, kind, number, shape.ctypes.data))
        return tuple(int(size) for size in shape[:rank])

    @staticmethod
    def _places(arrays):
        return (ctypes.c_void_p * max(1, len(arrays)))(*(array.ctypes.data for array in arrays))

    def get(self, name):
        """A copy of a variable's value, by its name or its place in SIGNATURE["variables"]."""
        number, (_, dtype, shape) = self._variable(name)
        array = np.empty(shape, dtype)
        self._check(self._get(self._context, number, array.ctypes.data, array.nbytes))
        return array

    def set(self, name, value):
        """Gives a variable a value."""
        number, (_, dtype, shape) = self._variable(name)
        array = np.array(np.broadcast_to(value, shape), dtype, order="C")
        self._check(self._set(self._context, number, array.ctypes.data, array.nbytes))

    def _variable(self, name):
        infos = SIGNATURE["variables"]
        found = [number for number, info in enumerate(infos) if name in (info[0], number)]
        if len(found) == 1:
            return found[0], infos[found[0]]
        if found:
            raise KeyError(f"{len(found)} variables are called {name!r}; use the place of one")
        known = ", ".join(info[0] for info in infos) or "none"
        raise KeyError(f"no variable {name!r}; there are {known}")

    def close(self):
        """Frees the context."""
        if self._context is not None:
            context, self._context = self._context, None
            _ENDINGS.discard(self._ending)
            self._ending = None
            self._destroy(context)
'''

__all__ = ["python_text"]
