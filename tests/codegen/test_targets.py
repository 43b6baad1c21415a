"""Targets by name, and code for all of them: what it needs from elsewhere, and that bits agree."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
import random_programs
from object_symbols import undefined_symbols
from portable_programs import PROGRAMS, Recorded
from portable_runs import (
    THREADS,
    build,
    built,
    differences,
    here,
    run_dll,
    run_driver,
    run_here,
    run_module,
)
from random_operations import STEPS
from random_programs import Recipe
from slow_parameters import slow_unless
from tools import SUPPORT, need_linker, tool, zig_cc

import graphc as gx
from graphc.base.target import (
    ANYWHERE,
    LEVELS,
    NAMES,
    OSXSAVE,
    CpuBit,
    Target,
    host,
    named,
    stand_in,
)
from graphc.codegen.llvm.dims import emit_dims
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.lanes import any_lane, first_lane
from graphc.codegen.llvm.module import ModuleEmitter
from graphc.codegen.llvm.types import I32, I64, PTR, ltype
from graphc.codegen.native.plan_walker import emit_walker
from graphc.ir.dims.expressions import symbol
from graphc.runtime.jit import assembly, compile_object, load

CROSS = [name for name in NAMES if name != "host"]

# --- names ---------------------------------------------------------------------------------------


def test_a_name_is_fixed_data() -> None:
    assert named("host") is host()
    assert named("x86-64-v3") == named("x86-64-v3")
    assert {name: named(name).architecture for name in CROSS} == {
        "x86-64-v2": "x86_64", "x86-64-v3": "x86_64", "x86-64-v4": "x86_64",
        "aarch64": "aarch64", "aarch64-macos": "aarch64", "x86-64-windows": "x86_64",
        "wasm32": "wasm32",
    }  # fmt: skip
    assert [named(name).system for name in CROSS[3:]] == ["linux", "macos", "windows", "none"]
    assert [name for name in CROSS if not named(name).has_fma] == ["x86-64-v2", "wasm32"]
    assert [name for name in CROSS if named(name).has_threads] == CROSS[:4]


def test_an_unknown_name_is_told_with_the_known_ones() -> None:
    with pytest.raises(gx.UnsupportedError, match=r"unknown target 'riscv'[^$]*aarch64-macos"):
        named("riscv")


def test_what_stands_in_for_a_target() -> None:
    assert stand_in(host()) == host()
    assert stand_in(named("x86-64-v2")) == named("x86-64-v2")
    assert not stand_in(named("wasm32")).has_fma
    if host().has_fma:
        assert stand_in(named("aarch64")) == host()
        assert stand_in(host().without_fma()) == host().without_fma()


@pytest.mark.parametrize("cache", ["on", "off"])
def test_what_cannot_run_here_is_refused(cache: str, tmp_path: Path) -> None:
    with gx.Graph() as graph:
        y = gx.placeholder((4,), name="x") + 1.0
    options = gx.Options(cache=str(tmp_path) if cache == "on" else "off")
    for name, reason in (("aarch64", "this machine is x86_64"), ("wasm32", "this machine is")):
        session = gx.Session(graph, target=named(name), options=options)
        with pytest.raises(gx.UnsupportedError, match=f"cannot run here: {reason}"):
            session.compile(y)
    beyond = replace(host(), features=f"{host().features},+amx-fp8,+amx-tf32")
    with pytest.raises(gx.UnsupportedError, match="this CPU lacks amx-fp8, amx-tf32"):
        gx.Session(graph, target=beyond, options=options).compile(y)


def test_constants_for_other_machines_are_computed_here() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((5,), name="x")
        table = gx.exp(gx.constant(np.linspace(-2, 2, 5, dtype=np.float32)))
        y = x * table
    from graphc.base.options import Options
    from graphc.compiling.compiler import levels_of
    from graphc.compiling.extraction import extract

    found = {}
    for name in ("x86-64-v2", "wasm32"):
        levels = levels_of(extract(graph, (y,)), Options(), named(name))
        (constant,) = levels.plan.constants.values()
        found[name] = constant.tobytes()
    assert found["wasm32"] == found["x86-64-v2"]


# --- what x86 features mean ----------------------------------------------------------------------

_CPUID = """
define void @cpuid(i32 %leaf, ptr %to) {
  %r = call { i32, i32, i32, i32 } asm "cpuid",
    "={ax},={bx},={cx},={dx},{ax},{cx}"(i32 %leaf, i32 0)
"""
_REGISTERS = ("eax", "ebx", "ecx", "edx")


def cpuid() -> str:
    stores = [
        f"""  %v{n} = extractvalue {{ i32, i32, i32, i32 }} %r, {n}
  %p{n} = getelementptr i32, ptr %to, i64 {n}
  store i32 %v{n}, ptr %p{n}"""
        for n in range(4)
    ]
    states = """
define i32 @states() {
  %r = call { i32, i32 } asm "xgetbv", "={ax},={dx},{cx}"(i32 0)
  %v = extractvalue { i32, i32 } %r, 0
  ret i32 %v
}
"""
    return "\n".join((_CPUID, *stores, "  ret void\n}", states))


def test_bits_of_cpuid_are_what_llvm_reads() -> None:
    library = load(cpuid(), ("cpuid", "states"))
    read = library.function("cpuid", ctypes.c_int32, ctypes.c_void_p)
    known: dict[int, dict[str, int]] = {}

    def is_set(place: CpuBit) -> bool:
        if place.leaf not in known:
            words = (ctypes.c_uint32 * 4)()
            read(ctypes.c_int32(ctypes.c_uint32(place.leaf).value), words)
            known[place.leaf] = dict(zip(_REGISTERS, words, strict=True))
        return bool(known[place.leaf][place.register] >> place.bit & 1)

    features = llvm.get_host_cpu_features()
    saved = library.function("states", result=ctypes.c_uint32)() if is_set(OSXSAVE) else 0
    places = LEVELS["x86-64-v4"].features
    assert len({(p.leaf, p.register, p.bit) for p in places.values()}) == len(places) == 21
    for level, needs in LEVELS.items():
        has = all(is_set(place) for place in needs.features.values())
        has = has and saved & needs.states == needs.states
        assert has == all(features.get(name, False) for name in needs.features), level
        if saved & needs.states == needs.states:
            for name, place in needs.features.items():
                assert is_set(place) == features[name], name


# a function whose code has the instruction exactly if the CPU has the feature; none shows sahf and
# xsave
_SHOWN = {
    "sse3": ("addsubps", """define <4 x float> @f(<4 x float> %a, <4 x float> %b) {
  %x = fsub <4 x float> %a, %b
  %y = fadd <4 x float> %a, %b
  %r = shufflevector <4 x float> %x, <4 x float> %y, <4 x i32> <i32 0, i32 5, i32 2, i32 7>
  ret <4 x float> %r
}"""),
    "ssse3": ("pabsb", """declare <16 x i8> @llvm.abs.v16i8(<16 x i8>, i1)
define <16 x i8> @f(<16 x i8> %a) {
  %r = call <16 x i8> @llvm.abs.v16i8(<16 x i8> %a, i1 false)
  ret <16 x i8> %r
}"""),
    "cx16": ("cmpxchg16b", """define i128 @f(ptr %p, i128 %a) {
  %r = cmpxchg ptr %p, i128 %a, i128 0 seq_cst seq_cst
  %v = extractvalue { i128, i1 } %r, 0
  ret i128 %v
}"""),
    "sse4.1": ("roundps", """declare <4 x float> @llvm.floor.v4f32(<4 x float>)
define <4 x float> @f(<4 x float> %a) {
  %r = call <4 x float> @llvm.floor.v4f32(<4 x float> %a)
  ret <4 x float> %r
}"""),
    "sse4.2": ("pcmpgtq", """define <2 x i1> @f(<2 x i64> %a, <2 x i64> %b) {
  %r = icmp sgt <2 x i64> %a, %b
  ret <2 x i1> %r
}"""),
    "popcnt": ("popcnt", """declare i32 @llvm.ctpop.i32(i32)
define i32 @f(i32 %a) {
  %r = call i32 @llvm.ctpop.i32(i32 %a)
  ret i32 %r
}"""),
    "fma": ("vfmadd", """declare double @llvm.fma.f64(double, double, double)
define double @f(double %a, double %b) {
  %r = call double @llvm.fma.f64(double %a, double %b, double %b)
  ret double %r
}"""),
    "movbe": ("movbe", """declare i32 @llvm.bswap.i32(i32)
define i32 @f(ptr %p) {
  %a = load i32, ptr %p
  %r = call i32 @llvm.bswap.i32(i32 %a)
  ret i32 %r
}"""),
    "avx": (r"vaddps\s+%ymm", """define <8 x float> @f(<8 x float> %a, <8 x float> %b) {
  %r = fadd <8 x float> %a, %b
  ret <8 x float> %r
}"""),
    "f16c": ("vcvtph2ps", """define float @f(half %a) {
  %r = fpext half %a to float
  ret float %r
}"""),
    "bmi": ("andn", """define i32 @f(i32 %a, i32 %b) {
  %n = xor i32 %a, -1
  %r = and i32 %n, %b
  ret i32 %r
}"""),
    "avx2": (r"vpaddd\s+%ymm", """define <8 x i32> @f(<8 x i32> %a, <8 x i32> %b) {
  %r = add <8 x i32> %a, %b
  ret <8 x i32> %r
}"""),
    "bmi2": ("shlx", """define i64 @f(i64 %a, i64 %b) {
  %r = shl i64 %a, %b
  ret i64 %r
}"""),
    "lzcnt": ("lzcnt", """declare i32 @llvm.ctlz.i32(i32, i1)
define i32 @f(i32 %a) {
  %r = call i32 @llvm.ctlz.i32(i32 %a, i1 false)
  ret i32 %r
}"""),
    "avx512f": (r"vaddps\s+%zmm", """define <16 x float> @f(<16 x float> %a, <16 x float> %b) {
  %r = fadd <16 x float> %a, %b
  ret <16 x float> %r
}"""),
    "avx512dq": (r"vpmullq\s+%zmm", """define <8 x i64> @f(<8 x i64> %a, <8 x i64> %b) {
  %r = mul <8 x i64> %a, %b
  ret <8 x i64> %r
}"""),
    "avx512cd": ("vplzcntd", """declare <16 x i32> @llvm.ctlz.v16i32(<16 x i32>, i1)
define <16 x i32> @f(<16 x i32> %a) {
  %r = call <16 x i32> @llvm.ctlz.v16i32(<16 x i32> %a, i1 false)
  ret <16 x i32> %r
}"""),
    "avx512bw": (r"vpaddb\s+%zmm", """define <64 x i8> @f(<64 x i8> %a, <64 x i8> %b) {
  %r = add <64 x i8> %a, %b
  ret <64 x i8> %r
}"""),
    "avx512vl": (r"vpabsq\s+%xmm", """declare <2 x i64> @llvm.abs.v2i64(<2 x i64>, i1)
define <2 x i64> @f(<2 x i64> %a) {
  %r = call <2 x i64> @llvm.abs.v2i64(<2 x i64> %a, i1 false)
  ret <2 x i64> %r
}"""),
}  # fmt: skip


def test_the_levels_have_the_features_that_llvm_gives_them() -> None:
    assert set(LEVELS["x86-64-v4"].features) - set(_SHOWN) == {"sahf", "xsave"}
    for level, needs in LEVELS.items():
        # the level as LLVM has it, without the list of this project
        bare = replace(ANYWHERE, cpu=level, features="-prefer-256-bit")
        for name, (instruction, text) in _SHOWN.items():
            shown = re.search(instruction, assembly(text, bare)) is not None
            assert shown == (name in needs.features), (level, name)


# --- what is written otherwise where LLVM would call or fail --------------------------------------


def test_questions_about_lanes() -> None:
    """The code for WebAssembly, translated for this machine."""
    for lanes in (1, 2, 16, 32):
        for target in (named("wasm32"), host()):
            module = ModuleEmitter(target)
            e = FunctionEmitter(module, "ask", {"x": PTR, "first": PTR}, I32)
            values = e.load(e.parameter("x"), ltype("i32", lanes), 4)
            condition = values.differs(0)
            found = any_lane(e, condition)
            if lanes > 1:
                with e.when(found):
                    e.store(first_lane(e, condition), e.parameter("first"), 8)
            e.finish(e.convert("zext", found, "i32"))
            library = load(module.text(), ("ask",))
            ask = library.function("ask", *[ctypes.c_void_p] * 2, result=ctypes.c_int32)
            for marked in ([], [0], [lanes - 1], list(range(lanes // 2, lanes))):
                flags = np.zeros(lanes, np.int32)
                flags[marked] = -5
                first = ctypes.c_int64(-1)
                assert ask(flags.ctypes.data, ctypes.byref(first)) == bool(marked)
                assert first.value == (marked[0] if marked and lanes > 1 else -1)


def test_products_that_do_not_fit_are_found() -> None:
    size, other = symbol("a", -(2**63), 2**63 - 1), symbol("b", -(2**63), 2**63 - 1)
    edges = [0, 1, -1, 2, -3, 2**31, 3037000499, 3037000500, 2**62, 2**63 - 1, -(2**63)]
    for target in (named("wasm32"), host()):
        module = ModuleEmitter(target)
        e = FunctionEmitter(module, "f", {"a": I64, "b": I64, "out": PTR}, I32)
        values = {size: e.parameter("a"), other: e.parameter("b")}
        over = emit_dims(e, [size * other], values, e.parameter("out"))
        e.finish(e.convert("zext", over, "i32"))
        library = load(module.text(), ("f",))
        f = library.function("f", *[ctypes.c_int64] * 2, ctypes.c_void_p, result=ctypes.c_int32)
        out = ctypes.c_int64()
        for a, b in product(edges, edges):
            assert f(a, b, ctypes.byref(out)) == (not -(2**63) <= a * b < 2**63), (a, b)
            assert out.value == (a * b + 2**63) % 2**64 - 2**63


# --- objects -------------------------------------------------------------------------------------

MEMORY = {"memcpy", "memmove", "memset"}
POOL = {
    "getpid", "syscall", "pthread_create", "pthread_detach", "pthread_self", "pthread_sigmask",
    "pthread_setaffinity_np", "sched_getaffinity", "sched_getcpu",
}  # fmt: skip
NEEDED = {name: MEMORY | POOL for name in CROSS if named(name).has_threads} | {
    "aarch64-macos": MEMORY,
    # mingw's libgcc and LLVM's compiler-rt have the probe of large stack frames
    "x86-64-windows": MEMORY | {"___chkstk_ms"},
    "wasm32": set(),
}


RUN = {
    "x86-64-v3": [name for name in PROGRAMS if name != "transforms64"],
    "wasm32": [name for name in PROGRAMS if name != "transforms32"],
}
"""Programs that the suite runs. Of transforms, the largest, each target has one dtype."""
ELSEWHERE = {
    ("scalars", "aarch64"), ("scalars", "x86-64-windows"), *product(["functions"], CROSS[2:]),
}  # fmt: skip
"""What calls the most functions, for one target of each kind."""


@slow_unless(
    lambda program, target: program in RUN.get(target, ()) or (program, target) in ELSEWHERE
)
@pytest.mark.parametrize("target", CROSS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_objects_need_next_to_nothing(program: str, target: str) -> None:
    assert undefined_symbols(built(program, named(target)).image) <= NEEDED[target]


@pytest.mark.parametrize("chosen", [ANYWHERE, *map(named, CROSS)], ids=["x86-64", *CROSS])
def test_the_loop_over_steps_is_for_every_target(chosen: Target) -> None:
    image = compile_object(emit_walker(chosen).text, chosen)
    expected = POOL if chosen.has_threads else set()
    assert undefined_symbols(image) - MEMORY == expected


def test_what_objects_need_is_found() -> None:
    text = "declare double @cos(double)\ndefine double @f(double %x) {\n"
    text += "  %r = call double @cos(double %x)\n  ret double %r\n}"
    for target in CROSS:
        assert undefined_symbols(compile_object(text, named(target))) == {"cos"}, target


_BUILD = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
from portable_runs import built
from graphc.base.target import named
for target in sys.argv[2:]:
    print(target, hashlib.sha256(built("functions", named(target)).image).hexdigest())
"""


def test_objects_are_the_same_in_every_process() -> None:
    targets = ["wasm32"]
    found = set()
    for seed in ("1", "2"):
        command = [sys.executable, "-c", _BUILD, str(SUPPORT), *targets]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        found.add(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)
    assert len(found) == 1


# --- bits ----------------------------------------------------------------------------------------

needs_fma = pytest.mark.skipif(not host().has_fma, reason="this CPU has no fused multiply-add")


def aarch64_compiler() -> list[str]:
    return [*zig_cc(), "-target", "aarch64-linux-musl", "-static"]


@needs_fma
def test_the_comparison_can_fail() -> None:
    one, other = (here("functions", named(level)) for level in ("x86-64-v2", "x86-64-v3"))
    assert len(differences(one, other)) > len(one) // 2


@needs_fma
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_aarch64_gives_the_bits_of_x86_with_fma(program: str, tmp_path: Path) -> None:
    image = built(program, named("aarch64"))
    found = run_driver(image, aarch64_compiler(), [tool("qemu-aarch64")], tmp_path)
    assert differences(here(program, named("x86-64-v3")), found) == {}


@slow_unless(lambda program: program in RUN["wasm32"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_wasm_gives_the_bits_of_x86_without_fma(program: str, tmp_path: Path) -> None:
    wasm = named("wasm32")
    need_linker(wasm)
    found = run_module(built(program, wasm), wasm, [tool("node")], tmp_path)
    assert differences(here(program, named("x86-64-v2")), found) == {}


@slow_unless(lambda program, level: program in RUN.get(level, ["functions"]))
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("level", ["x86-64-v2", "x86-64-v3", "x86-64-v4"])
def test_objects_give_the_bits_of_a_session(program: str, level: str, tmp_path: Path) -> None:
    if stand_in(named(level)) != named(level):
        pytest.skip(f"this CPU is below {level}")
    compiler = [tool("cc"), "-pthread"]
    found = run_driver(built(program, named(level)), compiler, [], tmp_path)
    reference = "x86-64-v3" if level == "x86-64-v4" else level
    assert differences(here(program, named(reference)), found) == {}


@needs_fma
@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_windows_gives_the_bits_of_linux(program: str) -> None:
    windows, linux = named("x86-64-windows"), named("x86-64-v3")
    need_linker(windows)
    if stand_in(linux) != linux:
        pytest.skip("this CPU is below x86-64-v3")
    found = run_dll(built(program, windows), windows)
    assert differences(here(program, linux), found) == {}


@pytest.mark.slow
@pytest.mark.parametrize("target", ["wasm32", "aarch64"])
def test_random_programs(target: str, tmp_path: Path) -> None:
    if target == "aarch64" and not host().has_fma:
        pytest.skip("this CPU has no fused multiply-add")
    need_linker(named(target))
    reference = named("x86-64-v2" if target == "wasm32" else "x86-64-v3")
    for seed in range(30):
        random = np.random.default_rng(seed)
        recipe = Recipe(
            inputs=tuple((int(a), int(b)) for a, b in random.integers(0, 60, (3, 2))),
            steps=tuple(
                (int(n), *map(int, random.integers(0, 60, 3)))
                for n in random.integers(0, len(STEPS), 24)
            ),
            symbolic=bool(seed % 2), special=seed % 3 == 0, fetched=6, seed=seed,
        )  # fmt: skip
        made = random_programs.build(recipe)
        fetches = {str(n): value for n, value in enumerate(made.fetches)}
        program = Recorded(made.graph, fetches, [], made.feeds)
        image = build(program, named(target), gx.Options(threads=THREADS))
        place = tmp_path / str(seed)
        place.mkdir()
        if target == "wasm32":
            found = run_module(image, named(target), [tool("node")], place)
        else:
            found = run_driver(image, aarch64_compiler(), [tool("qemu-aarch64")], place)
        assert differences(run_here(program, reference, gx.Options()), found) == {}, seed
