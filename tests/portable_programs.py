"""Programs whose results every target must agree on, and running them where the target runs.

A program is compiled for a target with the loop over steps into one object. Its tables and memory
go to a file that a small driver reads: it fills in addresses, walks the steps and writes the
memory back. So the code that is tested is that of any program; only what calls it is a test's.
"""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from windows_library import WindowsLibrary

import graphc as gx
from graphc.aot.link import link
from graphc.base.options import Options
from graphc.base.target import Target
from graphc.codegen.walker import emit_walker
from graphc.compiler import levels_of
from graphc.extract import extract
from graphc.ir.dims import evaluate
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan
from graphc.plan.memory import offsets_for_sizes
from graphc.plan.table import (
    BRANCH,
    COPY,
    JUMP,
    LAUNCH,
    PARALLEL,
    POOL_BYTES,
    POOL_ENTRY,
    SKIP,
    WALKER,
    WORKER,
)
from graphc.runtime.jit import compile_object
from graphc.runtime.program import aligned_empty
from graphc.runtime.tasks import cuts_of

Array = np.ndarray[Any, Any]

THREADS = 3
"""How many run what is split, where there are threads: every such launch, however small."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A graph, its fetches by name, effects, and feeds."""

    graph: gx.Graph
    fetches: dict[str, Any]
    effects: list[Any]
    feeds: dict[Any, Array]


class Recorder:
    """Collects values under names that say what they are."""

    def __init__(self) -> None:
        self.fetches: dict[str, Any] = {}
        self.effects: list[Any] = []
        self.feeds: dict[Any, Array] = {}
        self.rng = np.random.default_rng(5)

    def feed(self, array: Array, dims: Any = None) -> Any:
        value = gx.placeholder(array.shape if dims is None else dims, array.dtype.name)
        self.feeds[value] = array
        return value

    def normal(self, *shape: int, dtype: str = "float32", dims: Any = None) -> Any:
        return self.feed(self.rng.standard_normal(shape).astype(dtype), dims)

    def add(self, name: str, value: Any) -> None:
        assert name not in self.fetches
        self.fetches[name] = value


# --- samples -------------------------------------------------------------------------------------


def specials(dtype: str) -> Array:
    """Values at the edges of a dtype."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        info = np.finfo(kind)
        positive = [
            0.0, info.smallest_subnormal, info.tiny / 2, info.tiny, info.eps, 0.5, 1.0, 1.5, 2.5,
            3.0, 127.5, 2.0**31, 2.0**32, 2.0**63, 2.0**64, info.max, np.inf,
        ]  # fmt: skip
        return np.array([*positive, *(-x for x in positive), np.nan], kind)
    if kind.kind == "b":
        return np.array([False, True])
    limits = np.iinfo(kind)
    numbers = {0, 1, 2, 3, 7, 8, 31, limits.bits - 1, limits.bits, limits.max, limits.max - 1}
    if limits.min:
        numbers |= {-1, -2, -3, -7, -limits.bits, limits.min, limits.min + 1}
    return np.array(sorted(numbers), kind)


def samples(dtype: str, count: int, rng: np.random.Generator) -> Array:
    """Edges, then any bits at all and numbers of common size: whole vectors and a tail."""
    edges = specials(dtype)
    kind = np.dtype(dtype)
    if kind.kind == "b":
        return rng.random(count) < 0.5
    raw = rng.integers(0, 256, count * kind.itemsize, dtype=np.uint8).view(kind)
    if kind.kind == "f":
        common = (rng.standard_normal(count) * 4).astype(kind)
        raw = np.where(rng.random(count) < 0.5, raw, common)
    raw[: len(edges)] = edges[:count]
    return raw


def pairs(dtype: str, rng: np.random.Generator) -> tuple[Array, Array]:
    """All pairs of edges, then pairs of samples."""
    edges = specials(dtype)
    left, right = (part.ravel() for part in np.meshgrid(edges, edges))
    more = [samples(dtype, 203, rng), samples(dtype, 203, rng)]
    rng.shuffle(more[1])
    return np.concatenate([left, more[0]]), np.concatenate([right, more[1]])


# --- programs ------------------------------------------------------------------------------------

FLOATS = ("float32", "float64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
DTYPES = (*FLOATS, *INTEGERS, "bool")


def scalars(r: Recorder) -> None:
    """Arithmetic, comparisons, conversions, bits: on edges of every dtype."""
    for dtype in DTYPES:
        array = samples(dtype, 259, r.rng)
        x = r.feed(array)
        for target in DTYPES:
            if target != dtype:
                r.add(f"{dtype} to {target}", x.astype(target))
        if dtype == "bool":
            continue
        a, b = (r.feed(part) for part in pairs(dtype, r.rng))
        for function in (
            gx.add, gx.subtract, gx.multiply, gx.floor_divide, gx.mod, gx.fmod, gx.minimum,
            gx.maximum, gx.less, gx.equal,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(a, b))
        if dtype in FLOATS:
            r.add(f"divide of {dtype}", a / b)
            r.add(f"arithmetic of {dtype}", (a * b + a) - b * 0.3)
            for function in (gx.sqrt, gx.floor, gx.ceil, gx.round, gx.trunc, gx.abs, gx.sign,
                             gx.isnan, gx.isinf, gx.isfinite):  # fmt: skip
                r.add(f"{function.__name__} of {dtype}", function(x))
        else:
            for function in (gx.left_shift, gx.right_shift, gx.bitwise_xor):
                r.add(f"{function.__name__} of {dtype}", function(a, b))
            r.add(f"power of {dtype}", gx.power(a, b))
            r.add(f"abs, sign of {dtype}", gx.abs(a) + gx.sign(b))
    # code for one lane: shapes of one element
    for number, value in enumerate((np.inf, -1e30, np.nan, -0.0, 1e-310, 37.5)):
        for dtype in FLOATS:
            x = r.feed(np.array([value]).astype(dtype))
            r.add(f"one {dtype} {number} to int32", x.astype("int32"))
            r.add(f"one {dtype} {number} to uint64", x.astype("uint64"))
            r.add(f"one {dtype} {number} mod", gx.fmod(x, x * 0 + 0.7))
            r.add(f"one {dtype} {number} extremes", gx.maximum(x, 0.0) - gx.minimum(-x, 0.0))


def functions(r: Recorder) -> None:
    """Elementary functions, so many that they are called."""
    for dtype in FLOATS:
        x = r.feed(samples(dtype, 517, r.rng))
        for function in (
            gx.exp, gx.exp2, gx.expm1, gx.log, gx.log2, gx.log1p, gx.sin, gx.cos, gx.tan, gx.tanh,
            gx.sinh, gx.cosh, gx.arctan, gx.erf, gx.erfc, gx.sigmoid,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(x))
        angles = r.feed((10.0 ** r.rng.uniform(-3, 30, 203)).astype(dtype))
        r.add(f"huge angles of {dtype}", gx.sin(angles) + gx.cos(angles) + gx.tan(angles))
        bases, exponents = pairs(dtype, r.rng)
        # glibc's powl, against which functions are held, gives inf for (-inf)^(-2^63)
        exponents[np.abs(exponents) == 2.0**63] = 9.0
        r.add(f"power of {dtype}", gx.power(r.feed(bases), r.feed(exponents)))
        small = r.normal(77, dtype=dtype)
        r.add(f"power, common, of {dtype}", gx.power(gx.abs(small), small * 5))


def arrays(r: Recorder) -> None:
    """Kernels of every kind: reductions, rows, products, attention, moves, scatters, loops."""
    for dtype in FLOATS:
        x = r.normal(37, 203, dtype=dtype)
        for name in ("sum", "mean", "max", "min", "var"):
            r.add(f"{name} of rows, {dtype}", getattr(gx, name)(x, axis=1))
            r.add(f"{name} of columns, {dtype}", getattr(gx, name)(x, axis=0))
        r.add(f"sum of all, {dtype}", x.sum())
        r.add(f"argmax, {dtype}", gx.argmax(x, axis=1))
        r.add(f"prod, {dtype}", gx.prod(x * 0.1 + 1.0, axis=1))
        r.add(f"softmax, {dtype}", gx.softmax(x))
        r.add(f"layer norm, {dtype}", gx.layer_norm(x, (203,)))
        r.add(f"cumsum, {dtype}", gx.cumsum(x, axis=1))
        r.add(f"transpose, {dtype}", gx.transpose(x) * 2.0)
        r.add(f"flip, {dtype}", gx.flip(x, 1) + x)
        r.add(f"pad, {dtype}", gx.pad(x, ((1, 2), (3, 0))))
        r.add(f"concatenate, {dtype}", gx.concatenate([x, x * 3.0], axis=1))
        places = r.feed(r.rng.integers(0, 37, 61))
        r.add(f"take, {dtype}", gx.take(x, places, axis=0) + 1.0)
        r.add(f"gather, {dtype}", x[places, places + 5])
        r.add(f"scatter, {dtype}", gx.scatter_add(gx.zeros((40, 203), dtype), places,
                                                  r.normal(61, 203, dtype=dtype)))  # fmt: skip
        for m, n, k in ((1, 40, 70), (3, 33, 65), (29, 77, 131), (50, 1, 90), (70, 300, 700)):
            left, right = r.normal(m, k, dtype=dtype), r.normal(k, n, dtype=dtype)
            r.add(f"product {m} {n} {k}, {dtype}", left @ right)
        left, right = r.normal(33, 65, dtype=dtype), r.normal(31, 65, dtype=dtype)
        bias = r.normal(31, dtype=dtype)
        r.add(f"epilogue, {dtype}", gx.relu(left @ gx.transpose(right) + bias))
        weight = gx.constant(r.rng.standard_normal((65, 48)).astype(dtype))
        r.add(f"panels, {dtype}", gx.sigmoid(left @ weight))
        r.add(f"rows of a product, {dtype}", gx.softmax(left @ weight))
    rows = r.normal(150, 7)
    picked = gx.take_along_axis(rows, r.feed(r.rng.integers(-7, 7, (150, 1))), axis=1)
    r.add("picked", picked)
    r.add("sum of picked", picked.sum())
    q, k, v = (r.normal(2, 45, 16) for _ in range(3))
    r.add("attention", gx.attention(q, k, v))
    scores = q @ gx.transpose(k, (0, 2, 1))
    hidden = gx.expand_dims(gx.arange(45), 1) < gx.arange(45)
    r.add("causal", gx.softmax(gx.where(hidden, -np.inf, scores)) @ v)
    for dtype in ("int8", "int32", "int64", "bool"):
        a = r.feed(samples(dtype, 20 * 33, r.rng).reshape(20, 33))
        b = r.feed(samples(dtype, 33 * 17, r.rng).reshape(33, 17))
        r.add(f"product of {dtype}", a @ b)
        r.add(f"sum of {dtype}", a.sum(axis=0))
        r.add(f"max of {dtype}", a.max(axis=1))
        r.add(f"transpose of {dtype}", gx.transpose(a))
    batch = r.normal(19, 24, dims=("batch", 24))
    r.add("symbolic rows", gx.softmax(batch * 2.0))
    r.add("symbolic columns", batch.sum(axis=0))
    r.add("symbolic transpose", gx.transpose(batch))
    flag = r.feed(np.array(True))
    r.add("cond", gx.cond(flag, lambda: batch * 2.0, lambda: batch + 1.0))
    count, total = gx.while_loop(
        lambda i, t: i < 5, lambda i, t: (i + 1, t * 0.5 + batch), (gx.constant(0), batch)
    )
    r.add("while", total)
    r.add("trips", count)
    large = r.normal(2300, 1801)
    r.add("streamed", gx.relu(large * 0.3 + 1.0))


def fast(r: Recorder) -> None:
    """What fast math allows: approximate functions, contracted and reordered arithmetic."""
    for dtype in FLOATS:
        x, y, z = (r.normal(41, 67, dtype=dtype) for _ in range(3))
        for function in (
            gx.log, gx.tanh, gx.sigmoid, gx.erf, gx.erfc, gx.sin, gx.cos, gx.exp,
        ):  # fmt: skip
            r.add(f"{function.__name__} of {dtype}", function(x * 2.0) * y + z)
        r.add(f"polynomial of {dtype}", ((x * 0.3 + 0.2) * x - 0.7) * x + y / 3.0)
        r.add(f"chain of {dtype}", (x @ gx.transpose(y)) @ z)
        r.add(f"gelu of {dtype}", gx.gelu(x))


def training(r: Recorder) -> None:
    """A step of Adam on a network with a normalised layer: gradients, and variables written."""
    x = r.normal(24, 40)
    labels = r.feed(r.rng.integers(0, 10, 24))
    first, second = (
        gx.variable((r.rng.standard_normal(shape) * 0.2).astype(np.float32))
        for shape in ((40, 64), (64, 10))
    )
    bias = gx.variable(np.zeros(64, np.float32))
    hidden = gx.gelu(gx.layer_norm(x @ first + bias, (64,)))
    loss = gx.mean(gx.softmax_cross_entropy(hidden @ second, labels))
    step = gx.optim.Adam(1e-2).minimize(loss)
    r.add("loss", loss)
    r.add("gradient", gx.gradients(loss, [first])[0])
    r.effects.append(step)


PROGRAMS: dict[str, Callable[[Recorder], None]] = {
    "scalars": scalars, "functions": functions, "arrays": arrays, "fast": fast,
    "training": training,
}  # fmt: skip
OPTIONS = {"fast": {"fast_math": frozenset({"nsz", "reassoc", "contract", "approx"})}}


@cache
def recorded(name: str) -> Recorded:
    """A program, built."""
    recorder = Recorder()
    with gx.Graph(name) as graph:
        PROGRAMS[name](recorder)
    return Recorded(graph, recorder.fetches, recorder.effects, recorder.feeds)


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
    text = levels.text.joined(emit_walker(target))
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
    pointers: list[int] = []
    dims: list[int] = []
    words: list[int] = []
    for step in plan.steps:
        kind, function, goal = SKIP, 0, 0
        row = len(pointers), len(dims)
        if isinstance(step, Launch):
            kernel = plan.kernels[step.kernel]
            kind, function, goal = LAUNCH, step.kernel, 1
            pointers += [place[slot] for slot in step.arguments]
            dims += [binding[name] for name in kernel.dims]
        elif isinstance(step, Copy):
            kind = COPY
            pointers += [place[step.source], place[step.target]]
            dims.append(sizes[step.target])
        elif isinstance(step, Branch):
            kind, goal = BRANCH, step.target
            pointers.append(place[step.predicate])
        elif isinstance(step, Jump):
            kind, goal = JUMP, step.target
        words += [kind, function, *row, goal, 0, 0, 0]
    for cut in cuts_of(plan, THREADS):
        extent = evaluate(cut.extent, binding)
        words[8 * cut.position] = PARALLEL
        words[8 * cut.position + 4 : 8 * cut.position + 7] = [extent, extent // 5 + 1, cut.seats]
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
