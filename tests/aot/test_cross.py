"""Libraries for other machines: 200 steps of training have the bits of a session of that kind."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from libraries import WARNINGS, library_of
from object_symbols import undefined_symbols
from test_native import batch, network
from tools import need_linker, tool, zig_cc
from windows_library import WindowsLibrary

import graphc as gx
from graphc.base.target import NAMES, host, named, stand_in
from graphc.runtime.address import aligned_empty

STEPS, BATCH = 200, 8

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "step.h"

int main(int count, char **arguments) {
  static float x[8 * 20];
  static int64_t t[8];
  float loss;
  int64_t dims[STEP_DIMS] = {8}, bytes = 0;
  const void *inputs[STEP_INPUTS];
  void *outputs[STEP_OUTPUTS], *workspace;
  step_context *context = NULL;
  FILE *file = count == 2 ? fopen(arguments[1], "rb") : NULL;
  if (!file) return 2;
  inputs[STEP_INPUT_X] = x;
  inputs[STEP_INPUT_T] = t;
  outputs[0] = &loss;
  if (step_create(&context, NULL, 3) != GRAPHC_OK) return 3;
  if (step_workspace(context, dims, &bytes) != GRAPHC_OK) return 4;
  workspace = malloc((size_t)bytes + 1);
  while (fread(x, sizeof x, 1, file) == 1 && fread(t, sizeof t, 1, file) == 1) {
    if (step_run(context, dims, inputs, outputs, workspace, bytes) != GRAPHC_OK) {
      printf("%s\\n", step_error(context));
      return 5;
    }
    printf("%a\\n", (double)loss);
  }
  free(workspace);
  step_destroy(context);
  return 0;
}
"""

ALONE = """
#include <stddef.h>
#include "step.h"

static long system_call(long number, long where, const void *data, long size) {
  register long x8 __asm__("x8") = number, x0 __asm__("x0") = where, x2 __asm__("x2") = size;
  register const void *x1 __asm__("x1") = data;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
  return x0;
}

void *memset(void *to, int value, size_t size) {
  for (volatile char *p = to; size--;) *p++ = (char)value;
  return to;
}
void *memcpy(void *to, const void *from, size_t size) {
  const char *q = from;
  for (volatile char *p = to; size--;) *p++ = *q++;
  return to;
}
void *memmove(void *to, const void *from, size_t size) {
  volatile char *p = to;
  const char *q = from;
  if (p < q) return memcpy(to, from, size);
  while (size--) p[size] = q[size];
  return to;
}
#define NOT_CALLED(name) void name(void) { system_call(94, 9, NULL, 0); }
NOT_CALLED(malloc) NOT_CALLED(free) NOT_CALLED(syscall) NOT_CALLED(sched_getcpu)
NOT_CALLED(sched_getaffinity) NOT_CALLED(pthread_create) NOT_CALLED(pthread_detach)
NOT_CALLED(pthread_self) NOT_CALLED(pthread_sigmask) NOT_CALLED(pthread_setaffinity_np)
int getpid(void) { return 1; }

static _Alignas(64) char context[1 << 16], workspace[1 << 20];

void _start(void) {
  static float x[8 * 20];
  static int64_t t[8];
  float loss;
  int64_t dims[STEP_DIMS] = {8}, bytes = 0;
  const void *inputs[STEP_INPUTS];
  void *outputs[STEP_OUTPUTS] = {&loss};
  step_context *made = (step_context *)context;
  long status = 0;
  inputs[STEP_INPUT_X] = x;
  inputs[STEP_INPUT_T] = t;
  if (step_context_bytes() > (int64_t)sizeof context) status = 2;
  if (!status && step_initialise(made, sizeof context, NULL, 1) != GRAPHC_OK) status = 3;
  if (!status && step_workspace(made, dims, &bytes) != GRAPHC_OK) status = 4;
  if (bytes > (int64_t)sizeof workspace) status = 5;
  while (!status && system_call(63, 0, x, sizeof x) == sizeof x) {
    if (system_call(63, 0, t, sizeof t) != sizeof t) status = 6;
    else if (step_run(made, dims, inputs, outputs, workspace, bytes) != GRAPHC_OK) status = 7;
    else if (system_call(64, 1, &loss, sizeof loss) != sizeof loss) status = 8;
  }
  system_call(94, status, NULL, 0);
}
"""
"""A program of Linux for AArch64 without a C library, which would take minutes to make."""

SCRIPT = """
const { readFileSync } = require('fs');
const code = new WebAssembly.Instance(new WebAssembly.Module(readFileSync('step.wasm'))).exports;
const data = readFileSync('data');
const bytes = Number(code.step_context_bytes());
let end = code.memory.buffer.byteLength;
const room = (size) => {
  const start = (end + 63) & ~63;
  end = start + size;
  const missing = end - code.memory.buffer.byteLength;
  if (missing > 0) code.memory.grow(Math.ceil(missing / 65536));
  return start;
};
const context = room(bytes);
const [x, t, loss, dims, need] = [640, 64, 4, 8, 8].map(room);
const [inputs, outputs] = [8, 4].map(room);
const check = (status) => { if (status !== 0) throw new Error('status ' + status); };
check(code.step_initialise(context, BigInt(bytes), 0, 1));
let memory = new DataView(code.memory.buffer);
memory.setBigInt64(dims, 8n, true);
check(code.step_workspace(context, dims, need));
const size = memory.getBigInt64(need, true);
const workspace = room(Number(size));
memory = new DataView(code.memory.buffer);
memory.setUint32(inputs, x, true);
memory.setUint32(inputs + 4, t, true);
memory.setUint32(outputs, loss, true);
const lines = [];
for (let at = 0; at < data.length; at += 704) {
  new Uint8Array(code.memory.buffer, x, 640).set(data.subarray(at, at + 640));
  new Uint8Array(code.memory.buffer, t, 64).set(data.subarray(at + 640, at + 704));
  check(code.step_run(context, dims, inputs, outputs, workspace, size));
  lines.push(memory.getUint32(loss, true));
}
console.log(lines.join('\\n'));
"""


def training(folder: Path, target: str, reference: str, **options: Any) -> list[float]:
    """Writes the library of a step and its data; gives the losses of a session."""
    graph, x, t, _, (train, loss) = network()
    step = gx.Session(graph, target=named(reference)).compile([train, loss], [x, t])
    gx.aot.compile(step, folder, target=target, name="step", **options)
    batches = [batch(BATCH, seed) for seed in range(STEPS)]
    content = b"".join(a.tobytes() + b.astype(np.int64).tobytes() for a, b in batches)
    (folder / "data").write_bytes(content)
    return [float(step(*arrays)[1]) for arrays in batches]


def trained(folder: Path, compiler: list[str], run: list[str], *flags: str) -> list[float]:
    """The losses of ``MAIN``, linked with the object of a step."""
    (folder / "main.c").write_text(MAIN)
    command = [*compiler, *flags, *WARNINGS, "main.c", "step.o", "-o", "main"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    text = subprocess.run(
        [*run, "./main", "data"], cwd=folder, capture_output=True, text=True, timeout=300,
        check=True,
    ).stdout  # fmt: skip
    return [float.fromhex(line) for line in text.split()]


@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3"])
def test_a_program_in_c_trains_as_a_session(tmp_path: Path, level: str) -> None:
    if stand_in(named(level)) != named(level):
        pytest.skip(f"this CPU is below {level}")
    expected = training(tmp_path / "step", level, level, kind="object")
    assert trained(tmp_path / "step", [tool("cc")], [], "-pthread") == expected
    assert len(set(expected)) == STEPS


@pytest.mark.skipif(not host().has_fma, reason="this CPU has no fused multiply-add")
def test_aarch64_alone_trains_as_x86_with_fma(tmp_path: Path) -> None:
    emulator, compiler, folder = tool("qemu-aarch64"), zig_cc(), tmp_path / "step"
    expected = training(folder, "aarch64", "x86-64-v3", kind="object")
    (folder / "main.c").write_text(ALONE)
    flags = ["-target", "aarch64-linux-musl", "-ffreestanding", "-fno-stack-protector", "-O1"]
    for command in (
        [*compiler, *flags, "-c", "main.c", "-o", "main.o"],
        [*compiler[:-1], "ld.lld", "main.o", "step.o", "-o", "main"],
    ):
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    with (folder / "data").open("rb") as data:
        done = subprocess.run(
            [emulator, "./main"], cwd=folder, stdin=data, capture_output=True, timeout=300,
            check=True,
        )  # fmt: skip
    assert np.frombuffer(done.stdout, np.float32).tolist() == expected


@pytest.mark.slow
@pytest.mark.skipif(not host().has_fma, reason="this CPU has no fused multiply-add")
def test_aarch64_trains_as_x86_with_fma(tmp_path: Path) -> None:
    emulator, compiler = tool("qemu-aarch64"), zig_cc()
    expected = training(tmp_path / "step", "aarch64", "x86-64-v3", kind="object")
    flags = ("-target", "aarch64-linux-musl", "-static")
    assert trained(tmp_path / "step", compiler, [emulator], *flags) == expected


def test_wasm_trains_as_x86_without_fma(tmp_path: Path) -> None:
    need_linker(named("wasm32"))
    folder = tmp_path / "step"
    expected = training(folder, "wasm32", "x86-64-v2")
    assert not list(folder.glob("*.py"))
    (folder / "run.cjs").write_text(SCRIPT)
    text = subprocess.run(
        [tool("node"), "run.cjs"], cwd=folder, capture_output=True, text=True, timeout=300,
        check=True,
    ).stdout  # fmt: skip
    found = np.array([int(line) for line in text.split()], np.uint32).view(np.float32)
    assert [float(value) for value in found] == expected


@pytest.mark.slow
def test_windows_trains_as_linux(tmp_path: Path) -> None:
    """In memory of the caller: a process on Linux has no function of Windows to allocate some."""
    need_linker(named("x86-64-windows"))
    if stand_in(named("x86-64-v3")) != named("x86-64-v3"):
        pytest.skip("this CPU is below x86-64-v3")
    folder = tmp_path / "step"
    expected = training(folder, "x86-64-windows", "x86-64-v3")
    library = WindowsLibrary((folder / "step.dll").read_bytes())
    size = library.call("step_context_bytes")
    context, dims, need = aligned_empty(size), np.array([BATCH]), np.zeros(1, np.int64)
    at = [array.ctypes.data for array in (context, dims, need)]
    assert library.call("step_initialise", at[0], size, 0, 1) & 0xFFFFFFFF == 0
    assert library.call("step_workspace", *at) & 0xFFFFFFFF == 0
    workspace = aligned_empty(int(need[0]))
    loss = np.zeros(1, np.float32)
    outputs = np.array([loss.ctypes.data])
    found = []
    for number in range(STEPS):
        arrays = batch(BATCH, number)
        inputs = np.array([array.ctypes.data for array in arrays])
        status = library.call(
            "step_run", *at[:2], inputs.ctypes.data, outputs.ctypes.data, workspace.ctypes.data,
            len(workspace),
        )  # fmt: skip
        assert status & 0xFFFFFFFF == 0
        found.append(float(loss[0]))
    assert found == expected


@pytest.mark.parametrize("target", [name for name in NAMES if name != "host"])
def test_objects_for_every_target(tmp_path: Path, target: str) -> None:
    """They have the weights in them, and need what every C library has."""
    graph, x, _, logits, _ = network()
    infer = gx.Session(graph).compile(logits, [x])
    gx.aot.compile(infer, tmp_path / "net", target=target, kind="object", freeze=False)
    image = (tmp_path / "net" / "net.o").read_bytes()
    (w2,) = [n.output for n in graph.nodes if n.output.name == "w2"]
    assert gx.Session(graph).get(w2).tobytes() in image
    memory = {"memcpy", "memset", "memmove", "bzero", "malloc", "free"}
    system = {
        "getpid", "syscall", "pthread_create", "pthread_detach", "pthread_self", "pthread_sigmask",
        "pthread_setaffinity_np", "sched_getaffinity", "sched_getcpu",
    }  # fmt: skip
    found = undefined_symbols(image)
    if target == "wasm32":
        assert found == set()
    else:
        assert found <= memory | (system if named(target).has_threads else {"___chkstk_ms"})


def test_with_and_without_fma_differ_by_roundings(tmp_path: Path) -> None:
    """The documented bound: 2·k·2⁻²⁴ of the sum of the k products' magnitudes."""
    if stand_in(named("x86-64-v3")) != named("x86-64-v3"):
        pytest.skip("this CPU is below x86-64-v3")
    random = np.random.default_rng(4)
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 300), "float32", name="x")
        w = gx.placeholder((300, 40), "float32", name="w")
        y = x @ w
    exe = gx.Session(graph).compile(y, [x, w])
    a, b = (random.standard_normal(s).astype(np.float32) for s in ((50, 300), (300, 40)))
    found = [
        library_of(exe, tmp_path / level, target=level, name="product")(a, b)[0].astype(np.float64)
        for level in ("x86-64-v2", "x86-64-v3")
    ]
    bound = 2 * 300 * 2.0**-24 * (np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64))
    difference = np.abs(found[0] - found[1])
    assert (difference <= bound).all() and difference.any()
