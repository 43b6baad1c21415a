"""Compiling portable programs for a target, and running them where the target runs.

A program is compiled for a target with the loop over steps into one object. Its tables and memory
go to a file that a small driver reads: it fills in addresses, walks the steps and writes the
memory back. So the code that is tested is that of any program; only what calls it is a test's.
"""

from __future__ import annotations

import struct
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from portable_programs import OPTIONS, Array, Recorded, recorded
from windows_library import WindowsLibrary

import graphc as gx
from graphc.aot.link import link
from graphc.base.options import Options
from graphc.base.target import Target
from graphc.codegen.native.plan_walker import emit_walker
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import extract
from graphc.ir.dims.expressions import evaluate
from graphc.plan.abi import (
    CUT_FIELDS,
    FAIL,
    PARALLEL,
    POOL_BYTES,
    POOL_ENTRY,
    SKIP,
    STEP_FIELDS,
    WALKER,
    WORKER,
)
from graphc.plan.ir import Plan
from graphc.plan.memory import offsets_for_sizes
from graphc.plan.tables import tables_of
from graphc.runtime.address import aligned_empty
from graphc.runtime.binding import Binder
from graphc.runtime.jit import compile_object

THREADS = 3
"""How many run what is split, where there are threads: every such launch, however small."""


# --- for a target --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Built:
    """A program compiled for a target.

    Attributes:
        plan: what it does.
        image: the object file.
        arrays: for each of ``plan.feeds`` what is fed.
        names: of the results.
    """

    plan: Plan
    image: bytes
    arrays: tuple[Array, ...]
    names: tuple[str, ...]


@cache
def built(name: str, target: Target) -> Built:
    """A program for a target."""
    return build(recorded(name), target, Options(threads=THREADS, **OPTIONS.get(name, {})))


def build(program: Recorded, target: Target, options: Options) -> Built:
    """Compiles for a target; new values of variables are results beside the fetches."""
    effects = [value for effect in program.effects for value in effect.values]
    extraction = extract(program.graph, tuple(program.fetches.values()), effects)
    levels = levels_of(extraction, options, target)
    text = levels.text.joined(emit_walker(target)).text
    fresh = gx.Session(program.graph)
    given = [program.feeds[value] for value in extraction.feeds]
    given += [fresh.get(value) for value in extraction.states]
    names = [*program.fetches, *(f"variable {n}" for n, _ in enumerate(extraction.written))]
    return Built(levels.plan, compile_object(text, target), tuple(given), tuple(names))


def here(name: str, target: Target) -> dict[str, Array]:
    """The results of a program compiled for a target that this machine can run."""
    return run_here(recorded(name), target, Options(**OPTIONS.get(name, {})))


def run_here(program: Recorded, target: Target, options: Options) -> dict[str, Array]:
    """The results of a session's run, and the new values of variables."""
    session = gx.Session(program.graph, target=target, options=options)
    results: dict[str, Array] = session.run([program.fetches, program.effects], program.feeds)[0]
    effects = [value for effect in program.effects for value in effect.values]
    extraction = extract(program.graph, tuple(program.fetches.values()), effects)
    written = enumerate(extraction.written)
    return results | {f"variable {n}": session.get(variable) for n, variable in written}


def tables(program: Built) -> tuple[bytes, dict[int, tuple[int, int]]]:
    """What the driver reads, and of each output slot where it lies in memory and its bytes.

    Head: counts of steps, of pointers, of dims, bytes of memory (int64). Then the steps, with the
    number of the kernel in place of its address; pointers as offsets into memory; dims; memory.
    """
    plan = program.plan
    assert plan.layout is not None
    binding: dict[str, int] = {}
    for slot, array in zip(plan.feeds, program.arrays, strict=True):
        for dim, size in zip(plan.slots[slot].type.shape, array.shape, strict=True):
            if not isinstance(dim, int):
                binding[str(dim)] = size
    sizes = {n: evaluate(slot.bytes, binding) for n, slot in enumerate(plan.slots)}
    offsets, end = offsets_for_sizes(
        plan.layout.solution, [sizes[slot] for slot in plan.layout.slots]
    )
    place = dict(zip(plan.layout.slots, offsets, strict=True))
    for slot in (*plan.feeds, *plan.constants, *plan.outputs):
        end = -(-end // 64) * 64
        place[slot] = end
        end += sizes[slot]
    memory = np.zeros(end, np.uint8)
    contents = dict(zip(plan.feeds, program.arrays, strict=True)) | plan.constants
    for slot, array in contents.items():
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        memory[place[slot] : place[slot] + len(raw)] = raw
    symbols = Binder(plan).symbols
    table = tables_of(plan, symbols)
    values = [evaluate(dim, binding) for dim in table.dims]
    given = [binding[str(symbol)] for symbol in symbols]
    pointers = [place[slot] for slot in table.entries]
    dims = [given[cell] if cell >= 0 else values[~cell] for cell in table.cells]
    words: list[int] = []
    for kind, *row in table.rows(table.steps, STEP_FIELDS):
        words += (SKIP if kind == FAIL else kind, *row, 0, 0, 0)
    for position, extent, _, seats, _ in table.rows(table.cuts, CUT_FIELDS):
        count = values[extent]
        words[8 * position] = PARALLEL
        words[8 * position + 4 : 8 * position + 7] = [count, count // 5 + 1, min(seats, THREADS)]
    head = (len(plan.steps), len(pointers), len(dims), end)
    numbers = (*head, *words, *pointers, *dims)
    image = struct.pack(f"<{len(numbers)}q", *numbers) + memory.tobytes()
    return image, {slot: (place[slot], sizes[slot]) for slot in plan.outputs}


def results(program: Built, memory: bytes) -> dict[str, Array]:
    """The results of a run, from the memory that it left."""
    plan = program.plan
    _, places = tables(program)
    found = {}
    for label, slot in zip(program.names, plan.outputs, strict=True):
        start, size = places[slot]
        dtype = plan.slots[slot].type.dtype.numpy
        found[label] = np.frombuffer(memory[start : start + size], dtype)
    return found


def differences(one: dict[str, Array], other: dict[str, Array]) -> dict[str, list[Any]]:
    """Where bits differ, NaN counting as one value: by name some places and both values."""
    assert one.keys() == other.keys()
    found = {}
    for name, left in one.items():
        a, b = left.reshape(-1), other[name].reshape(-1)
        assert a.dtype == b.dtype and a.shape == b.shape
        word = np.dtype(f"u{a.dtype.itemsize}")
        same = a.view(word) == b.view(word)
        if a.dtype.kind == "f":
            same |= np.isnan(a) & np.isnan(b)
        places = np.nonzero(~same)[0][:4]
        if len(places):
            found[name] = [(int(at), a[at], b[at]) for at in places]
    return found


# --- drivers -------------------------------------------------------------------------------------

DRIVER = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
KERNEL_DECLARATIONS
typedef void kernel(void *, void *, void *, int64_t, int64_t, int64_t);
static kernel *const kernels[] = {KERNEL_NAMES};
int64_t WALKER(int64_t *, int64_t, void **, int64_t *, int64_t *, int32_t *);
void *WORKER(void *);
_Alignas(64) static char pool[POOL_BYTES];
static int64_t words(FILE *file, int64_t *into, int64_t count) {
  return fread(into, 8, count, file) == (size_t)count;
}
int main(int count, char **names) {
  FILE *file = fopen(names[1], "rb");
  int64_t head[4], status[4] = {0};
  int32_t cancel = 0;
  if (!file || !words(file, head, 4)) return 2;
  int64_t *steps = malloc(head[0] * 64 + 8), *offsets = malloc(head[1] * 8 + 8);
  int64_t *dims = malloc(head[2] * 8 + 8);
  void **pointers = malloc(head[1] * sizeof(void *) + 8);
  char *raw = malloc(head[3] + 128);
  char *memory = (char *)(((uintptr_t)raw + 63) & ~(uintptr_t)63);
  if (!words(file, steps, head[0] * 8) || !words(file, offsets, head[1])) return 3;
  if (!words(file, dims, head[2])) return 4;
  if (fread(memory, 1, head[3], file) != (size_t)head[3]) return 5;
  fclose(file);
  for (int64_t i = 0; i < head[1]; i++) pointers[i] = memory + offsets[i];
  *(void **)(pool + POOL_ENTRY) = (void *)WORKER;
  for (int64_t i = 0; i < head[0]; i++) {
    steps[i * 8 + 1] = (int64_t)(uintptr_t)kernels[steps[i * 8 + 1]];
    steps[i * 8 + 7] = (int64_t)(uintptr_t)pool;
  }
  int64_t ran = WALKER(steps, head[0], pointers, dims, status, &cancel);
  if (ran != head[0]) return 6;
  file = fopen(names[2], "wb");
  if (!file || fwrite(memory, 1, head[3], file) != (size_t)head[3]) return 7;
  return fclose(file) ? 8 : 0;
}
"""


def driver(program: Built) -> str:
    """The C text of a driver for a program."""
    names = [f"kernel_{number}" for number in range(len(program.plan.kernels))]
    declared = "\n".join(
        f"void {name}(void *, void *, void *, int64_t, int64_t, int64_t);" for name in names
    )
    words = {
        "KERNEL_DECLARATIONS": declared, "KERNEL_NAMES": ", ".join(names), "WALKER": WALKER,
        "WORKER": WORKER, "POOL_BYTES": str(POOL_BYTES), "POOL_ENTRY": str(POOL_ENTRY),
    }  # fmt: skip
    text = DRIVER
    for word, meaning in words.items():
        text = text.replace(word, meaning)
    return text


def run_driver(program: Built, compiler: list[str], runner: list[str], at: Path) -> Any:
    """Links a program to its driver with a C compiler and runs it; gives the results."""
    image, _ = tables(program)
    (at / "program.o").write_bytes(program.image)
    (at / "driver.c").write_text(driver(program))
    (at / "in").write_bytes(image)
    command = [*compiler, "-O1", "-o", "driver", "driver.c", "program.o"]
    subprocess.run(command, cwd=at, check=True, capture_output=True, timeout=900)
    subprocess.run([*runner, "./driver", "in", "out"], cwd=at, check=True, timeout=600)
    return results(program, (at / "out").read_bytes())


SCRIPT = """
const { readFileSync, writeFileSync } = require('fs');
const [program, input, output] = process.argv.slice(2);
const { exports: code } = new WebAssembly.Instance(new WebAssembly.Module(readFileSync(program)));
const file = readFileSync(input);
const word = (at) => file.readBigInt64LE(8 * at);
const [steps, pointers, dims, size] = [0, 1, 2, 3].map((at) => Number(word(at)));
let end = code.__heap_base.value;
const room = (bytes) => { const at = (end + 63) & ~63; end = at + bytes; return at; };
const places = [64 * steps, 4 * pointers, 8 * dims, 32, 4, size].map(room);
code.memory.grow(Math.ceil(end / 65536) - code.memory.buffer.byteLength / 65536);
const memory = new DataView(code.memory.buffer);
const [at_steps, at_pointers, at_dims, at_status, at_cancel, at_memory] = places;
let next = 4;
for (let i = 0; i < 8 * steps; i++) {
  let value = word(next++);
  if (i % 8 == 1) value = BigInt(memory.getUint32(code.kernels.value + 4 * Number(value), true));
  memory.setBigInt64(at_steps + 8 * i, value, true);
}
for (let i = 0; i < pointers; i++)
  memory.setUint32(at_pointers + 4 * i, at_memory + Number(word(next++)), true);
for (let i = 0; i < dims; i++) memory.setBigInt64(at_dims + 8 * i, word(next++), true);
const bytes = new Uint8Array(code.memory.buffer, at_memory, size);
bytes.set(file.subarray(8 * next));
const ran = code.WALKER(at_steps, BigInt(steps), at_pointers, at_dims, at_status, at_cancel);
if (ran != BigInt(steps)) process.exit(1);
writeFileSync(output, bytes);
"""


def run_module(program: Built, target: Target, runner: list[str], at: Path) -> Any:
    """Links a program to a WebAssembly module and runs it; gives the results."""
    image, _ = tables(program)
    names = [f"kernel_{number}" for number in range(len(program.plan.kernels))]
    declared = [f"declare void @{kernel}(ptr, ptr, ptr, i64, i64, i64)" for kernel in names]
    table = ", ".join(f"ptr @{kernel}" for kernel in names)
    text = "\n".join((*declared, f"@kernels = constant [{len(names)} x ptr] [{table}]"))
    objects = [program.image, compile_object(text, target)]
    module = link(objects, [WALKER, "kernels", "__heap_base"], target, "program")
    (at / "program.wasm").write_bytes(module)
    (at / "in").write_bytes(image)
    (at / "run.cjs").write_text(SCRIPT.replace("WALKER", WALKER))
    command = [*runner, "run.cjs", "program.wasm", "in", "out"]
    subprocess.run(command, cwd=at, check=True, timeout=600)
    return results(program, (at / "out").read_bytes())


def run_dll(program: Built, target: Target) -> Any:
    """Links a program to a DLL and runs it in this process; gives the results."""
    image, _ = tables(program)
    names = [f"kernel_{number}" for number in range(len(program.plan.kernels))]
    library = WindowsLibrary(link([program.image], [WALKER, *names], target, "program"))
    assert library.imports_nothing
    steps, pointers, dims, _ = (int(n) for n in np.frombuffer(image, np.int64, 4))
    numbers = np.frombuffer(image, np.int64, 8 * steps + pointers + dims, 32).copy()
    memory = aligned_empty(len(image) - 32 - numbers.nbytes)
    memory[:] = np.frombuffer(image, np.uint8, len(memory), 32 + numbers.nbytes)
    table = numbers[: 8 * steps].reshape(steps, 8)
    table[:, 1] = [library.addresses[names[number]] for number in table[:, 1]]
    numbers[8 * steps : 8 * steps + pointers] += memory.ctypes.data
    words = np.zeros(5, np.int64)
    start = numbers.ctypes.data
    ran = library.call(
        WALKER, start, steps, start + 64 * steps, start + 64 * steps + 8 * pointers,
        words.ctypes.data, words.ctypes.data + 32,
    )  # fmt: skip
    assert ran == steps
    return results(program, memory.tobytes())
