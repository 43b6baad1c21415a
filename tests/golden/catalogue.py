"""Everything whose texts are held: the programs, and what is native and belongs to no program.

A source has columns, which are targets or families of processors, and for each column texts by
label. Texts are what one level of the compiler hands to the next: the graph behind the passes, the
plan, each kernel, and the LLVM text of each function before LLVM has seen it. Source lines and
names that users give are left out where they stand beside the code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial

import golden.columns
import golden.control
import golden.indexing
import golden.matrices
import golden.pointwise
import golden.products
import golden.refusals
import golden.rows
import golden.shapes
import golden.training  # noqa: F401
import graphc as gx
from golden.registry import PROGRAMS, Program, p, variable
from graphc.aot.families import family_of
from graphc.aot.library import Design, content_of, text_of
from graphc.base.target import named
from graphc.codegen.gemm import gemm_library
from graphc.codegen.llvm.emitter import FunctionEmitter
from graphc.codegen.llvm.module import Module, ModuleEmitter
from graphc.codegen.llvm.types import LType, ltype
from graphc.codegen.math.calls import NAMES, emit_function
from graphc.codegen.native.cpuid import emit_cpu_level
from graphc.codegen.native.host_call import emit_host_call
from graphc.codegen.native.plan_walker import KernelModule, emit_walker
from graphc.codegen.native.python_entry import emit_entry
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import Extraction, extract
from graphc.frontend.structure import leaves
from graphc.ir.dtypes import COMPUTED
from graphc.ir.effect import Effect
from graphc.ir.text.printer import print_graph
from graphc.kernel.printer import kernel_key
from graphc.kernel.scalar import PRIMITIVES
from graphc.plan.ir import Plan
from graphc.plan.printer import print_plan
from graphc.runtime.interrupt import handler_module

Texts = dict[str, str]

TARGETS = ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64", "wasm32")
"""The widths of registers there are, with masks and without, and with fused multiply-add and
without; those of other systems differ in nothing that kernels ask."""

FAMILIES = ("x86-64-v4", "aarch64", "aarch64-macos", "x86-64-windows", "wasm32")
"""Of libraries; the first has three variants."""


@dataclass(frozen=True, slots=True)
class Source:
    """What texts are made of.

    Attributes:
        columns: of the table of hashes.
        texts: those of a column, by label.
    """

    columns: tuple[str, ...]
    texts: Callable[[str], Texts]


# --- programs ------------------------------------------------------------------------------------


@cache
def _extracted(program: Program) -> Extraction:
    with gx.Graph(program.name) as graph:
        fetched = list(leaves(program.build()))
    effects = [value for leaf in fetched if isinstance(leaf, Effect) for value in leaf.values]
    values = [leaf for leaf in fetched if not isinstance(leaf, Effect)]
    return extract(graph, values, effects)


def _of_program(program: Program, column: str) -> Texts:
    levels = levels_of(_extracted(program), program.options, named(column))
    plan = levels.plan
    texts = {"graph": print_graph(levels.graph), "plan": _plan_text(plan)}
    codes: Texts = {}
    for module in levels.text.modules:
        functions, rest = _parts(module.text)
        codes |= {symbol: functions.pop(symbol) for symbol in module.symbols}
        texts[_module_label(module)] = "\n".join((rest, *functions.values()))
    for number, (symbol, kernel) in enumerate(zip(levels.text.symbols, plan.kernels, strict=True)):
        texts[f"kernel {number} {kernel.name}"] = kernel_key(kernel)
        texts[f"llvm {number} {kernel.name}"] = codes[symbol]
    texts |= {f"library {name}": made.text for name, made in levels.text.libraries.items()}
    return texts


def _plan_text(plan: Plan) -> str:
    return _PLACE.sub("", print_plan(replace(plan, kernels=())))


_PLACE = re.compile(r' at "(?:[^"\\]|\\.)*":\d+(?::\d+(?:\.\.\d+)?)?')


def _module_label(module: KernelModule) -> str:
    return "module of glue" if module.glue else "module"


def _parts(text: str) -> tuple[Texts, str]:
    """The functions of a module by symbol, and the lines beside them."""
    functions: dict[str, list[str]] = {}
    rest: list[str] = []
    lines = rest
    for line in text.splitlines():
        found = _DEFINED.match(line)
        if found is not None:
            lines = functions[found[1]] = []
        lines.append(line)
        if line == "}":
            lines = rest
    return {symbol: "\n".join(body) for symbol, body in functions.items()}, "\n".join(rest)


_DEFINED = re.compile(r"define [^@]*@([A-Za-z0-9_.]+)\(")


# --- what belongs to no program ------------------------------------------------------------------


def _labelled(what: str, made: Module | str) -> Texts:
    functions, rest = _parts(made if isinstance(made, str) else made.text)
    texts = {f"{what} {symbol}": body for symbol, body in functions.items()}
    return {**texts, f"{what}, beside functions": rest}


def _of_run_time(column: str) -> Texts:
    target = named(column)
    texts = _labelled("loop over steps", emit_walker(target))
    texts |= _labelled("loop of one thread", emit_walker(target, threads=False))
    texts |= _labelled("call of Python", emit_host_call(target))
    texts |= _labelled("entry", emit_entry(target)) | _labelled("interrupts", handler_module())
    if target.architecture == "x86_64":
        module = ModuleEmitter(target)
        emit_cpu_level(module, "level")
        texts |= _labelled("processor", module.text())
    return texts


def _of_products(column: str) -> Texts:
    texts: Texts = {}
    for dtype in COMPUTED:
        for packed in (False, True) if dtype.is_float else (False,):
            texts |= _labelled(*gemm_library(dtype, named(column), packed))
    return texts


def _of_functions(column: str) -> Texts:
    """Each elementary function of one lane and of several."""
    target = named(column)
    module = ModuleEmitter(target, calls_functions=True)
    for name in sorted(NAMES):
        for type_ in (ltype("float"), ltype("float", 32), ltype("double"), ltype("double", 8)):
            _call(module, name, type_)
    return {name: made.text for name, made in sorted(module.libraries.items())}


def _call(module: ModuleEmitter, name: str, type_: LType) -> None:
    parameters = {f"x{n}": type_ for n in range(PRIMITIVES[name].arity)}
    e = FunctionEmitter(module, f"caller_of_{name}_{type_.suffix}", parameters, type_)
    e.finish(emit_function(e, name, e.given(*parameters)))


@cache
def _exported() -> gx.Executable:
    with gx.Graph("exported") as graph:
        x = gx.placeholder(("batch", 20), name="x")
        w = variable(20, 30)
        y = gx.softmax(x @ w)
        z = x
        for function in (gx.exp, gx.log, gx.sin, gx.cos, gx.tan, gx.erf, gx.tanh, gx.sinh, gx.cosh):
            z = z + function(x)
        step = gx.group([w.assign(w * 0.5)])
        table = gx.take(y, p("k", dtype="int64"), 0)
    options = gx.Options(threads=1, cache="off")
    return gx.Session(graph, options=options).compile([table, y[1:, ::2], z, step])


def _of_library(column: str) -> Texts:
    variants = TARGETS[:3] if column == FAMILIES[0] else ()
    family = family_of(column, variants)
    design = Design("golden", family, threads=family.base.has_threads)
    content = content_of(_exported().exported(), design)
    return _labelled("library", text_of(content, design, (b"", 0, 0), "", bytes(32)))


# --- all -----------------------------------------------------------------------------------------

SOURCES: Mapping[str, Source] = {
    **{name: Source(TARGETS, partial(_of_program, made)) for name, made in PROGRAMS.items()},
    "run_time": Source(TARGETS, _of_run_time),
    "products": Source(TARGETS, _of_products),
    "functions": Source(TARGETS, _of_functions),
    "library": Source(FAMILIES, _of_library),
}
"""By name. Those behind the programs are the native run time, the products and functions that
kernels call, and a library as it is exported."""

__all__ = ["SOURCES", "TARGETS", "Source", "Texts"]
