"""Reading CPython's and NumPy's objects in LLVM text: where things lie, and functions about arrays.

Invariant: nothing here changes an object or calls into the interpreter, and an array is read only
after its type was compared. The places are those of CPython with its lock and NumPy 2;
``graphc.runtime.entry`` checks them before any of this is used.
"""

from __future__ import annotations

import itertools
import re

from graphc.base.objects import (
    ARRAY_DATA,
    ARRAY_DIMS,
    ARRAY_DTYPE,
    ARRAY_FLAGS,
    ARRAY_RANK,
    DTYPE_KIND,
    DTYPE_SIZE,
    ENTRY_IMPORTS,
    FUNCTIONS,
    OBJECT_TYPE,
    OBJECTS,
    PLAIN,
    WRITEABLE,
)


def in_place(text: str) -> str:
    """Text with loads where it reads as if it called ``@word`` or ``@data_of``."""
    word = r"\1.word = getelementptr i64, ptr \2, i64 \3\n  \1 = load i64, ptr \1.word"
    data = rf"\1.data = getelementptr i8, ptr \2, i64 {ARRAY_DATA}\n  \1 = load ptr, ptr \1.data"
    return _DATA.sub(data, _WORD.sub(word, text))


def imported(text: str) -> str:
    """Text that reads the addresses it needs from the table of imports, wherever it names one.

    So the same text serves in a library, which neither names nor needs CPython when it is linked.
    """
    number = itertools.count()

    def loaded(found: re.Match[str]) -> str:
        own = f"%import.{next(number)}"
        place = f"ptr getelementptr (i8, ptr @{ENTRY_IMPORTS}, i64 {8 * _IMPORTS.index(found[2])})"
        return f"  {own} = load ptr, {place}\n{found[1]}{own}{found[3]}"

    return _IMPORTED.sub(loaded, text)


_IMPORTS = (*FUNCTIONS, *OBJECTS)

_IMPORTED = re.compile(rf"^(  .*)@({'|'.join(_IMPORTS)})\b(.*)$", re.MULTILINE)
"""A line that names one of these."""

_WORD = re.compile(r"(%[\w.]+) = call i64 @word\(ptr (%[\w.]+), i64 ([%\w.]+)\)")
"""The int64 at a position."""

_DATA = re.compile(r"(%[\w.]+) = call ptr @data_of\(ptr (%[\w.]+)\)")
"""Where an array's elements start."""


def _described(flags: int) -> str:
    """Goes on at ``%shape`` if ``%object`` is an array with these flags and what ``%row`` says
    beside dims, else at ``%no``."""
    return f"""\
  %type.at = getelementptr i8, ptr %object, i64 {OBJECT_TYPE}
  %type = load ptr, ptr %type.at
  %exact = icmp eq ptr %type, @PyArray_Type
  br i1 %exact, label %array, label %no
array:
  %rank.at = getelementptr i8, ptr %object, i64 {ARRAY_RANK}
  %rank.32 = load i32, ptr %rank.at
  %rank = sext i32 %rank.32 to i64
  %rank.wanted = call i64 @word(ptr %row, i64 3)
  %rank.right = icmp eq i64 %rank, %rank.wanted
  %flags.at = getelementptr i8, ptr %object, i64 {ARRAY_FLAGS}
  %flags = load i32, ptr %flags.at
  %plain = and i32 %flags, {flags}
  %is.plain = icmp eq i32 %plain, {flags}
  %dtype.at = getelementptr i8, ptr %object, i64 {ARRAY_DTYPE}
  %dtype = load ptr, ptr %dtype.at
  %kind.at = getelementptr i8, ptr %dtype, i64 {DTYPE_KIND}
  %kind = load i64, ptr %kind.at
  %kind.wanted = call i64 @word(ptr %row, i64 1)
  %kind.right = icmp eq i64 %kind, %kind.wanted
  %size.at = getelementptr i8, ptr %dtype, i64 {DTYPE_SIZE}
  %size = load i64, ptr %size.at
  %size.wanted = call i64 @word(ptr %row, i64 2)
  %size.right = icmp eq i64 %size, %size.wanted
  %both = and i1 %rank.right, %is.plain
  %also = and i1 %kind.right, %size.right
  %all = and i1 %both, %also
  br i1 %all, label %shape, label %no"""


ARRAY_FUNCTIONS = f"""
; Writes an array's address to its entries of the pointer table. A row ends with where its list of
; entries starts and how long it is.
define internal void @point(ptr %array, ptr %pointers, ptr %table, ptr %last) nounwind {{
entry:
  %data = call ptr @data_of(ptr %array)
  %first = load i64, ptr %last
  %count = call i64 @word(ptr %last, i64 1)
  %list = getelementptr i64, ptr %table, i64 %first
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %done
body:
  %place = call i64 @word(ptr %list, i64 %i)
  %at = getelementptr ptr, ptr %pointers, i64 %place
  store ptr %data, ptr %at
  %next = add i64 %i, 1
  br label %head
done:
  ret void
}}

; Whether an object is the array that a row describes; if so, its dims are copied.
; Row: source, kind word, bytes an element, rank, entries.
define internal i1 @fits(ptr %object, ptr %row, ptr %dims) nounwind {{
entry:
{_described(PLAIN)}
shape:
  %from.at = getelementptr i8, ptr %object, i64 {ARRAY_DIMS}
  %from = load ptr, ptr %from.at
  br label %head
head:
  %i = phi i64 [ 0, %shape ], [ %next, %body ]
  %more = icmp slt i64 %i, %rank
  br i1 %more, label %body, label %yes
body:
  %dim = call i64 @word(ptr %from, i64 %i)
  %to = getelementptr i64, ptr %dims, i64 %i
  store i64 %dim, ptr %to
  %next = add i64 %i, 1
  br label %head
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i1 @equal(ptr %a, ptr %b, i64 %count) nounwind {{
entry:
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %x = call i64 @word(ptr %a, i64 %i)
  %y = call i64 @word(ptr %b, i64 %i)
  %same = icmp eq i64 %x, %y
  %next = add i64 %i, 1
  br i1 %same, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}

define internal i64 @bytes_of(ptr %array) nounwind {{
entry:
  %rank.at = getelementptr i8, ptr %array, i64 {ARRAY_RANK}
  %rank.32 = load i32, ptr %rank.at
  %rank = sext i32 %rank.32 to i64
  %dims.at = getelementptr i8, ptr %array, i64 {ARRAY_DIMS}
  %dims = load ptr, ptr %dims.at
  %dtype.at = getelementptr i8, ptr %array, i64 {ARRAY_DTYPE}
  %dtype = load ptr, ptr %dtype.at
  %size.at = getelementptr i8, ptr %dtype, i64 {DTYPE_SIZE}
  %size = load i64, ptr %size.at
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %bytes = phi i64 [ %size, %entry ], [ %more.bytes, %body ]
  %more = icmp slt i64 %i, %rank
  br i1 %more, label %body, label %done
body:
  %dim = call i64 @word(ptr %dims, i64 %i)
  %more.bytes = mul i64 %bytes, %dim
  %next = add i64 %i, 1
  br label %head
done:
  ret i64 %bytes
}}

; Whether a result that a row describes can be written to an object: it is a plain array that can
; be written, of these dims, and has no byte in common with an input.
define internal i1 @takes(ptr %object, ptr %row, ptr %dims, ptr %inputs, i64 %count) nounwind {{
entry:
{_described(PLAIN | WRITEABLE)}
shape:
  %own.at = getelementptr i8, ptr %object, i64 {ARRAY_DIMS}
  %own = load ptr, ptr %own.at
  %same = call i1 @equal(ptr %own, ptr %dims, i64 %rank)
  br i1 %same, label %place, label %no
place:
  %data = call ptr @data_of(ptr %object)
  %first = ptrtoint ptr %data to i64
  %bytes = call i64 @bytes_of(ptr %object)
  %end = add i64 %first, %bytes
  br label %head
head:
  %i = phi i64 [ 0, %place ], [ %next, %body ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %body, label %yes
body:
  %input.at = getelementptr ptr, ptr %inputs, i64 %i
  %input = load ptr, ptr %input.at
  %other = call ptr @data_of(ptr %input)
  %other.first = ptrtoint ptr %other to i64
  %other.bytes = call i64 @bytes_of(ptr %input)
  %other.end = add i64 %other.first, %other.bytes
  %before = icmp ule i64 %end, %other.first
  %behind = icmp ule i64 %other.end, %first
  %apart = or i1 %before, %behind
  %next = add i64 %i, 1
  br i1 %apart, label %head, label %no
yes:
  ret i1 true
no:
  ret i1 false
}}
"""
"""``point``, ``fits``, ``equal``, ``bytes_of`` and ``takes``: what they do stands before each."""
