"""Layouts of CPython's and NumPy's objects, and the functions of theirs that native calls use.

Code generation writes these into the native entry, ``graphc.runtime.entry`` checks them against the
interpreter at hand, and libraries are loaded without code generation; so they stand here. The
places are those of CPython with its lock and NumPy 2.
"""

from __future__ import annotations

OBJECT_TYPE = 8
ARRAY_DATA, ARRAY_RANK, ARRAY_DIMS, ARRAY_DTYPE, ARRAY_FLAGS = 16, 24, 32, 56, 64
DTYPE_KIND, DTYPE_SIZE = 24, 40
"""Bytes into the objects.

The eight bytes from the kind on also hold the byte order and NumPy's number of the type.
"""

PLAIN = 0x101
"""NumPy's flags of C-contiguous and aligned arrays."""

WRITEABLE = 0x400
"""NumPy's flag of arrays that can be written to."""

ENTRY = "graphc_call"
"""The symbol of the native entry, ``METH_FASTCALL | METH_KEYWORDS``."""

ENTRY_IMPORTS = "graphc_imports"
"""The symbol of the table of addresses that whoever loads the entry fills in."""

FUNCTIONS = (
    "PyTuple_GetItem", "PyTuple_New", "PyTuple_Size", "PyTuple_SetItem",
    "PyList_Size", "PyList_GetItem", "PyList_SetSlice", "PyList_Append", "PyList_New",
    "PyList_SetItem", "PyDict_GetItem", "PyDict_DelItem",
    "PyObject_Vectorcall", "PyObject_CallNoArgs",
    "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
"""Functions of CPython that the entry calls: the first entries of the table."""

OBJECTS = (
    "PyArray_Empty", "PyArray_Type", "_Py_NoneStruct", "graphc_out", "PyList_Type", "PyTuple_Type",
)  # fmt: skip
"""The others: NumPy's function, its type of arrays, None, the interned name ``out``, and two types
more."""
