"""The native entry of executables: a function of CPython's C interface, as LLVM text.

One function serves every program of a process. It reads a table of what the program takes and
gives (``graphc.runtime.entry`` writes it), checks the arguments, takes an idle frame, makes the
results and runs the steps without the interpreter lock. Invariant: whatever is not plainly right
(another type, dtype, layout, rank, size or number of arguments, an unseen binding of the dims, no
idle frame, a failed step) is left to the careful callable, before anything has been changed. So
this function raises nothing of its own but a failed allocation.

It is written out by hand rather than with the emitter: it is about objects, not about lanes. What
reads as a call of ``@word`` or ``@data_of`` is put in place: no pass of LLVM does it, and two dozen
calls of one load each took 40 of 200 ns.
"""

from __future__ import annotations

from graphc.base.objects import ENTRY, ENTRY_IMPORTS, FUNCTIONS, OBJECT_TYPE, OBJECTS
from graphc.codegen.objects import ARRAY_FUNCTIONS, imported, in_place
from graphc.plan.table import (
    FRAME_RELEASES,
    FRAME_WALKER,
    INPUT_WORDS,
    OUTPUT_WORDS,
    TABLE_WORDS,
)


def emit_entry(linkage: str = "") -> str:
    """The module; ``linkage`` is that of the table of imports.

    What the built-in function is bound to is a tuple: the table, the recent bindings, the careful
    callable; the values of variables and the keys of those that are read; blocks to write new
    values to and the keys of those that are written.
    """
    count = len(FUNCTIONS + OBJECTS)
    table = f"@{ENTRY_IMPORTS} = {linkage} global [{count} x ptr] zeroinitializer"
    text = imported(in_place(_NEVER + ARRAY_FUNCTIONS + _HELPERS + _ENTRY))
    return f"{table}, align 8\n{text}"


_NEVER = "@never = internal constant i32 0\n"

_HELPERS = f"""
; The recent binding with these dims, borrowed, or null.
define internal ptr @binding_of(ptr %recent, ptr %dims, i64 %count) nounwind {{
entry:
  %bindings = call i64 @PyList_Size(ptr %recent)
  br label %head
head:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %i, %bindings
  br i1 %more, label %body, label %none
body:
  %bound = call ptr @PyList_GetItem(ptr %recent, i64 %i)
  %array = call ptr @PyTuple_GetItem(ptr %bound, i64 0)
  %known = call ptr @data_of(ptr %array)
  %same = call i1 @equal(ptr %known, ptr %dims, i64 %count)
  %next = add i64 %i, 1
  br i1 %same, label %found, label %head
found:
  ret ptr %bound
none:
  ret ptr null
}}

; An array for a result. Row: dtype, kind word, bytes an element, rank, number among what is written
; or -1, entries.
define internal ptr @result_of(ptr %self, ptr %maker, ptr %row, ptr %dims) nounwind {{
entry:
  %written = call i64 @word(ptr %row, i64 4)
  %is.written = icmp sge i64 %written, 0
  br i1 %is.written, label %look, label %fresh
look:
  %spares = call ptr @PyTuple_GetItem(ptr %self, i64 5)
  %keys = call ptr @PyTuple_GetItem(ptr %self, i64 6)
  %key = call ptr @PyTuple_GetItem(ptr %keys, i64 %written)
  %spare = call ptr @PyDict_GetItem(ptr %spares, ptr %key)
  %no.spare = icmp eq ptr %spare, null
  br i1 %no.spare, label %fresh, label %reuse
reuse:
  call void @Py_IncRef(ptr %spare)
  %deleted = call i32 @PyDict_DelItem(ptr %spares, ptr %key)
  ret ptr %spare
fresh:
  %small = icmp eq ptr %maker, @_Py_NoneStruct
  br i1 %small, label %plain, label %made
made:
  %array = call ptr @PyObject_CallNoArgs(ptr %maker)
  ret ptr %array
plain:
  %dtype = load ptr, ptr %row
  %rank = call i64 @word(ptr %row, i64 3)
  %rank.32 = trunc i64 %rank to i32
  call void @Py_IncRef(ptr %dtype)
  %empty = call ptr @PyArray_Empty(i32 %rank.32, ptr %dims, ptr %dtype, i32 0)
  ret ptr %empty
}}

; Runs a frame. The words of its record are the arguments of the loop over steps.
define internal i1 @ran(ptr %record) nounwind {{
entry:
  %walker = load ptr, ptr %record
  %steps = call i64 @word(ptr %record, i64 {FRAME_WALKER + 1})
  %count = call i64 @word(ptr %record, i64 {FRAME_WALKER + 2})
  %pointers = call i64 @word(ptr %record, i64 {FRAME_WALKER + 3})
  %dims = call i64 @word(ptr %record, i64 {FRAME_WALKER + 4})
  %status = call i64 @word(ptr %record, i64 {FRAME_WALKER + 5})
  %releases = call i64 @word(ptr %record, i64 {FRAME_RELEASES})
  %long = icmp ne i64 %releases, 0
  br i1 %long, label %release, label %walk
release:
  %thread = call ptr @PyEval_SaveThread()
  br label %walk
walk:
  %state = phi ptr [ null, %entry ], [ %thread, %release ]
  %stopped = call i64 %walker(i64 %steps, i64 %count, i64 %pointers, i64 %dims, i64 %status,
                              ptr @never)
  br i1 %long, label %restore, label %after
restore:
  call void @PyEval_RestoreThread(ptr %state)
  br label %after
after:
  %ended = icmp eq i64 %stopped, %count
  br i1 %ended, label %yes, label %failed
failed:
  %status.at = inttoptr i64 %status to ptr
  store <4 x i64> zeroinitializer, ptr %status.at, align 8
  ret i1 false
yes:
  ret i1 true
}}
"""

_ENTRY = f"""
define ptr @{ENTRY}(ptr %self, ptr %args, i64 %given, ptr %names) nounwind {{
entry:
  %table.array = call ptr @PyTuple_GetItem(ptr %self, i64 0)
  %table = call ptr @data_of(ptr %table.array)
  %recent = call ptr @PyTuple_GetItem(ptr %self, i64 1)
  %expected = load i64, ptr %table
  %inputs = call i64 @word(ptr %table, i64 1)
  %outputs = call i64 @word(ptr %table, i64 2)
  %container = call i64 @word(ptr %table, i64 3)
  %rank = call i64 @word(ptr %table, i64 4)
  %output.rows.at = call i64 @word(ptr %table, i64 5)
  %input.rows = getelementptr i64, ptr %table, i64 {TABLE_WORDS}
  %output.rows = getelementptr i64, ptr %table, i64 %output.rows.at
  %dims = alloca i64, i64 %rank
  %both = add i64 %inputs, %outputs
  %objects = alloca ptr, i64 %both
  %right = icmp eq i64 %given, %expected
  br i1 %right, label %count.names, label %careful

; The only name there may be is ``out``; its value stands behind the arguments. For several results
; that is a list or tuple of as many.
count.names:
  %positional = icmp eq ptr %names, null
  br i1 %positional, label %start, label %keyword
keyword:
  %names.count = call i64 @PyTuple_Size(ptr %names)
  %one.name = icmp eq i64 %names.count, 1
  br i1 %one.name, label %keyword.out, label %careful
keyword.out:
  %name = call ptr @PyTuple_GetItem(ptr %names, i64 0)
  %is.out = icmp eq ptr %name, @graphc_out
  br i1 %is.out, label %keyword.value, label %careful
keyword.value:
  %out.at = getelementptr ptr, ptr %args, i64 %given
  %out = load ptr, ptr %out.at
  %no.out = icmp eq ptr %out, @_Py_NoneStruct
  %out.single = icmp eq i64 %container, 0
  %out.single.or.none = or i1 %no.out, %out.single
  %out.or.null = select i1 %no.out, ptr null, ptr %out
  br i1 %out.single.or.none, label %start, label %out.several
out.several:
  %out.type.at = getelementptr i8, ptr %out, i64 {OBJECT_TYPE}
  %out.type = load ptr, ptr %out.type.at
  %out.list = icmp eq ptr %out.type, @PyList_Type
  br i1 %out.list, label %out.list.size, label %out.no.list
out.list.size:
  %out.listed = call i64 @PyList_Size(ptr %out)
  br label %out.size
out.no.list:
  %out.tuple = icmp eq ptr %out.type, @PyTuple_Type
  br i1 %out.tuple, label %out.tuple.size, label %careful
out.tuple.size:
  %out.tupled = call i64 @PyTuple_Size(ptr %out)
  br label %out.size
out.size:
  %out.kind = phi i64 [ 1, %out.list.size ], [ 2, %out.tuple.size ]
  %out.count = phi i64 [ %out.listed, %out.list.size ], [ %out.tupled, %out.tuple.size ]
  %out.each = icmp eq i64 %out.count, %outputs
  br i1 %out.each, label %start, label %careful
start:
  %target = phi ptr [ null, %count.names ], [ %out.or.null, %keyword.value ], [ %out, %out.size ]
  %target.kind = phi i64 [ 0, %count.names ], [ 0, %keyword.value ], [ %out.kind, %out.size ]
  br label %check

check:
  %c = phi i64 [ 0, %start ], [ %c.next, %check.fits ]
  %c.dims = phi ptr [ %dims, %start ], [ %c.dims.next, %check.fits ]
  %c.more = icmp slt i64 %c, %inputs
  br i1 %c.more, label %check.body, label %bind
check.body:
  %c.at = mul i64 %c, {INPUT_WORDS}
  %c.row = getelementptr i64, ptr %input.rows, i64 %c.at
  %c.source = load i64, ptr %c.row
  %c.argument = icmp sge i64 %c.source, 0
  br i1 %c.argument, label %check.argument, label %check.state
check.argument:
  %c.arg.at = getelementptr ptr, ptr %args, i64 %c.source
  %c.arg = load ptr, ptr %c.arg.at
  br label %check.object
check.state:
  %c.key.at = xor i64 %c.source, -1
  %states = call ptr @PyTuple_GetItem(ptr %self, i64 3)
  %keys = call ptr @PyTuple_GetItem(ptr %self, i64 4)
  %c.key = call ptr @PyTuple_GetItem(ptr %keys, i64 %c.key.at)
  %c.held = call ptr @PyDict_GetItem(ptr %states, ptr %c.key)
  %c.unknown = icmp eq ptr %c.held, null
  br i1 %c.unknown, label %careful, label %check.object
check.object:
  %c.object = phi ptr [ %c.arg, %check.argument ], [ %c.held, %check.state ]
  %c.fits = call i1 @fits(ptr %c.object, ptr %c.row, ptr %c.dims)
  br i1 %c.fits, label %check.fits, label %careful
check.fits:
  %c.object.at = getelementptr ptr, ptr %objects, i64 %c
  store ptr %c.object, ptr %c.object.at
  %c.rank = call i64 @word(ptr %c.row, i64 3)
  %c.dims.next = getelementptr i64, ptr %c.dims, i64 %c.rank
  %c.next = add i64 %c, 1
  br label %check

bind:
  %bound = call ptr @binding_of(ptr %recent, ptr %dims, i64 %rank)
  %unbound = icmp eq ptr %bound, null
  br i1 %unbound, label %careful, label %frames
frames:
  %idle = call ptr @PyTuple_GetItem(ptr %bound, i64 1)
  %idle.count = call i64 @PyList_Size(ptr %idle)
  %all.busy = icmp eq i64 %idle.count, 0
  %bound.array = call ptr @PyTuple_GetItem(ptr %bound, i64 0)
  %bound.dims = call ptr @data_of(ptr %bound.array)
  %m.dims.0 = getelementptr i64, ptr %bound.dims, i64 %rank
  br i1 %all.busy, label %careful, label %look
look:
  %no.target = icmp eq ptr %target, null
  br i1 %no.target, label %take, label %target.head

; What takes a result goes behind the inputs: later ones must lie apart from it as well.
target.head:
  %g = phi i64 [ 0, %look ], [ %g.next, %target.fits ]
  %g.dims = phi ptr [ %m.dims.0, %look ], [ %g.dims.next, %target.fits ]
  %g.more = icmp slt i64 %g, %outputs
  br i1 %g.more, label %target.pick, label %take
target.pick:
  switch i64 %target.kind, label %target.tuple [
    i64 0, label %target.check
    i64 1, label %target.list
  ]
target.list:
  %g.listed = call ptr @PyList_GetItem(ptr %target, i64 %g)
  br label %target.check
target.tuple:
  %g.tupled = call ptr @PyTuple_GetItem(ptr %target, i64 %g)
  br label %target.check
target.check:
  %g.object = phi ptr [ %target, %target.pick ], [ %g.listed, %target.list ],
                      [ %g.tupled, %target.tuple ]
  %g.at = mul i64 %g, {OUTPUT_WORDS}
  %g.row = getelementptr i64, ptr %output.rows, i64 %g.at
  %g.others = add i64 %inputs, %g
  %g.takes = call i1 @takes(ptr %g.object, ptr %g.row, ptr %g.dims, ptr %objects, i64 %g.others)
  br i1 %g.takes, label %target.fits, label %careful
target.fits:
  %g.object.at = getelementptr ptr, ptr %objects, i64 %g.others
  store ptr %g.object, ptr %g.object.at
  %g.rank = call i64 @word(ptr %g.row, i64 3)
  %g.dims.next = getelementptr i64, ptr %g.dims, i64 %g.rank
  %g.next = add i64 %g, 1
  br label %target.head
take:
  %idle.last = sub i64 %idle.count, 1
  %frame = call ptr @PyList_GetItem(ptr %idle, i64 %idle.last)
  call void @Py_IncRef(ptr %frame)
  call void @Py_IncRef(ptr %bound)
  %t.cut = call i32 @PyList_SetSlice(ptr %idle, i64 %idle.last, i64 %idle.count, ptr null)
  %record.array = call ptr @PyTuple_GetItem(ptr %frame, i64 0)
  %record = call ptr @data_of(ptr %record.array)
  %pointers.word = call i64 @word(ptr %record, i64 {FRAME_WALKER + 3})
  %pointers = inttoptr i64 %pointers.word to ptr
  br label %hold

; From here on every object is held: others may drop theirs while the lock is released.
hold:
  %h = phi i64 [ 0, %take ], [ %h.next, %hold.body ]
  %h.more = icmp slt i64 %h, %inputs
  br i1 %h.more, label %hold.body, label %contain
hold.body:
  %h.at = getelementptr ptr, ptr %objects, i64 %h
  %h.object = load ptr, ptr %h.at
  call void @Py_IncRef(ptr %h.object)
  %h.row.at = mul i64 %h, {INPUT_WORDS}
  %h.row = getelementptr i64, ptr %input.rows, i64 %h.row.at
  %h.last = getelementptr i64, ptr %h.row, i64 {INPUT_WORDS - 2}
  call void @point(ptr %h.object, ptr %pointers, ptr %table, ptr %h.last)
  %h.next = add i64 %h, 1
  br label %hold

contain:
  switch i64 %container, label %make.tuple [ i64 0, label %make.single  i64 1, label %make.list ]
make.single:
  br label %make
make.list:
  %list = call ptr @PyList_New(i64 %outputs)
  %list.none = icmp eq ptr %list, null
  br i1 %list.none, label %release, label %make
make.tuple:
  %tuple = call ptr @PyTuple_New(i64 %outputs)
  %tuple.none = icmp eq ptr %tuple, null
  br i1 %tuple.none, label %release, label %make
make:
  %result.0 = phi ptr [ null, %make.single ], [ %list, %make.list ], [ %tuple, %make.tuple ]
  %makers = call ptr @PyTuple_GetItem(ptr %bound, i64 2)
  br label %output
output:
  %m = phi i64 [ 0, %make ], [ %m.next, %output.placed ]
  %m.dims = phi ptr [ %m.dims.0, %make ], [ %m.dims.next, %output.placed ]
  %result.m = phi ptr [ %result.0, %make ], [ %result.next, %output.placed ]
  %m.more = icmp slt i64 %m, %outputs
  br i1 %m.more, label %output.body, label %run
output.body:
  %m.at = mul i64 %m, {OUTPUT_WORDS}
  %m.row = getelementptr i64, ptr %output.rows, i64 %m.at
  br i1 %no.target, label %output.fresh, label %output.kept
output.kept:
  %m.kept.place = add i64 %inputs, %m
  %m.kept.at = getelementptr ptr, ptr %objects, i64 %m.kept.place
  %kept = load ptr, ptr %m.kept.at
  call void @Py_IncRef(ptr %kept)
  br label %output.made
output.fresh:
  %maker = call ptr @PyTuple_GetItem(ptr %makers, i64 %m)
  %fresh = call ptr @result_of(ptr %self, ptr %maker, ptr %m.row, ptr %m.dims)
  %not.made = icmp eq ptr %fresh, null
  br i1 %not.made, label %drop, label %output.made
output.made:
  %made = phi ptr [ %fresh, %output.fresh ], [ %kept, %output.kept ]
  %m.last = getelementptr i64, ptr %m.row, i64 {OUTPUT_WORDS - 2}
  call void @point(ptr %made, ptr %pointers, ptr %table, ptr %m.last)
  switch i64 %container, label %place.tuple [
    i64 0, label %output.placed
    i64 1, label %place.list
  ]
place.list:
  %l.set = call i32 @PyList_SetItem(ptr %result.m, i64 %m, ptr %made)
  br label %output.placed
place.tuple:
  %t.set = call i32 @PyTuple_SetItem(ptr %result.m, i64 %m, ptr %made)
  br label %output.placed
output.placed:
  %result.next = phi ptr [ %made, %output.made ], [ %result.m, %place.list ],
                         [ %result.m, %place.tuple ]
  %m.rank = call i64 @word(ptr %m.row, i64 3)
  %m.dims.next = getelementptr i64, ptr %m.dims, i64 %m.rank
  %m.next = add i64 %m, 1
  br label %output

run:
  %ran = call i1 @ran(ptr %record)
  br i1 %ran, label %release, label %failed

; The careful callable runs it again and says what was wrong.
failed:
  call void @Py_DecRef(ptr %result.m)
  br label %release

; An allocation failed; NumPy has said so.
drop:
  %nothing = icmp eq ptr %result.m, null
  br i1 %nothing, label %release, label %drop.container
drop.container:
  call void @Py_DecRef(ptr %result.m)
  br label %release

release:
  %answer = phi ptr [ null, %make.list ], [ null, %make.tuple ], [ %result.m, %run ],
                    [ null, %failed ], [ null, %drop ], [ null, %drop.container ]
  %again = phi i1 [ false, %make.list ], [ false, %make.tuple ], [ false, %run ],
                  [ true, %failed ], [ false, %drop ], [ false, %drop.container ]
  %r.set = call i32 @PyList_Append(ptr %idle, ptr %frame)
  %r.lost = icmp slt i32 %r.set, 0
  br i1 %r.lost, label %lost, label %returned
lost:
  call void @PyErr_Clear()
  br label %returned
returned:
  call void @Py_DecRef(ptr %frame)
  call void @Py_DecRef(ptr %bound)
  br label %free
free:
  %f = phi i64 [ 0, %returned ], [ %f.next, %free.body ]
  %f.more = icmp slt i64 %f, %inputs
  br i1 %f.more, label %free.body, label %end
free.body:
  %f.at = getelementptr ptr, ptr %objects, i64 %f
  %f.object = load ptr, ptr %f.at
  call void @Py_DecRef(ptr %f.object)
  %f.next = add i64 %f, 1
  br label %free
end:
  br i1 %again, label %careful, label %leave
leave:
  ret ptr %answer

careful:
  %callable = call ptr @PyTuple_GetItem(ptr %self, i64 2)
  %elsewhere = call ptr @PyObject_Vectorcall(ptr %callable, ptr %args, i64 %given, ptr %names)
  ret ptr %elsewhere
}}
"""
