"""Writes docs/ops.md, the reference of operations and functions, from the op registry.

    python docs/generate_ops.py            # rewrites docs/ops.md
    python docs/generate_ops.py --check    # fails if docs/ops.md is out of date

Invariant: everything in the page except its headings comes from the declarations themselves, in an
order that depends on names alone, so the page is the same on every machine.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from graphc.codegen.math.common import MAX_ULP
from graphc.ir.dtypes import ALL, FLOATS, INTEGERS, DType, bool_
from graphc.ir.lowering import Decompose
from graphc.ir.op import (
    Custom,
    Flat,
    Linear,
    Multilinear,
    NotDifferentiable,
    OpDef,
    Partials,
    Regional,
    ThroughDecomposition,
    all_ops,
)
from graphc.ir.surface import other_names, surface_function, surface_names

PAGE = Path(__file__).resolve().parent / "ops.md"

INTRODUCTION = """\
# Operations and functions

This page is generated from the op registry by `python docs/generate_ops.py`; edit the
declarations, not the page. [numerics.md](numerics.md) explains the numerics classes,
[guide.md](guide.md) shows the functions at work.

Two things share many names. A *function* (`gx.add`) is what you call: it takes values, arrays and
Python numbers, converts and promotes them, and builds nodes. An *operation* (`add`) is what stands
in the graph, over operands of one dtype.
"""

FUNCTIONS = """\
## Functions

All of these are attributes of `graphc`. Operators and methods of values (`x + y`, `x.sum()`) and
NumPy's functions of the same name (`np.exp(x)`) call them. The parameter names are part of the
interface.
"""

OTHERS = """\
## Graphs, sessions, state and derivatives
"""

OPTIMISERS = """\
## Optimisers
"""

TRAINING = """\
## Training loops

[The guide](guide.md#training-loops) says what for.
"""

RANDOM = """\
## Random numbers

Functions of `graphc.random`; [the guide](guide.md#random-numbers) says how keys are used.
"""

LINALG = """\
## Linear algebra

Functions of `graphc.linalg`; [numerics.md](numerics.md#linear-algebra) says how accurate they are.
"""

SPECIAL = """\
## Special functions

Functions of `graphc.special`, by SciPy's names, beside those that `graphc` has too.
"""

FOURIER = """\
## Fourier transforms

Functions of `graphc.fft`, by NumPy's names; [numerics.md](numerics.md#fourier-transforms) says how
accurate they are.
"""

OPERATIONS = """\
## Operations

**dtypes**: *any* is bool, all integers and all floats; *numbers* leaves out bool; *bits* is bool
and the integers; *–* means that the operation does not restrict them. **Gradient**: *partials* are
element-wise derivatives, *linear* operations transpose themselves, *multilinear* ones in each
operand, *own rule* is written out for both modes, *through parts* differentiates the
decomposition, *zero* is a derivative that is zero by convention, *none* raises. **Class** is the
numerics class: E exact, R reproducible. **ulp** is the largest error in units in the last
place that the tests allow; where the accuracy differs by dtype, both follow as float32 / float64.
**Core** operations reach fusion; the others are decomposed into them first.
"""

_FAMILIES = (
    ("source", "Sources"),
    ("creation", "Creation"),
    ("pointwise.arithmetic", "Arithmetic"),
    ("pointwise.math", "Functions of real numbers"),
    ("pointwise.fast", "What flags of fast math choose"),
    ("pointwise.rounding", "Rounding, signs and extremes"),
    ("pointwise.logic", "Comparisons, logic, bits and conversion"),
    ("reduce.axes", "Reductions"),
    ("reduce.scans", "Running sums, products and extremes"),
    ("reduce.statistics", "Statistics"),
    ("move.shape", "Shapes"),
    ("move.parts", "Parts and margins"),
    ("move.slicing", "Slices"),
    ("move.joining", "Joining"),
    ("indexing.getitem", "Indexing with brackets"),
    ("indexing.picking", "Picking and scattering"),
    ("indexing.at", "Updating parts"),
    ("indexing.dynamic", "Windows that begin at values"),
    ("indexing.nonzero", "What masks choose"),
    ("indexing.segments", "Segments, and places as one number"),
    ("indexing.core", "Index operations"),
    ("linalg.matmul", "Linear algebra"),
    ("sorting.order", "Sorting"),
    ("sorting.searching", "Searching"),
    ("sorting.counting", "Counting"),
    ("sorting.quantiles", "Medians and quantiles"),
    ("sorting.sets", "Sets"),
    ("nn.layers", "Neural networks (also in `graphc.nn`)"),
    ("nn.attention", "Attention (also in `graphc.nn`)"),
    ("nn.losses", "Losses (also in `graphc.nn`)"),
    ("linalg.einsum", "Einsum"),
    ("reduce.scaled_norms", "Roots"),
)


_MEMBERS = {
    "Session": (
        "run", "run_many", "compile", "get", "set", "save", "restore", "wait", "compile_count",
    ),  # fmt: skip
    "Variable": ("read", "assign", "assign_add", "assign_sub"),
}
"""What is asked of objects; executables have a page of their own, inspecting.md."""

_OF_GRAPHC = frozenset(
    f"graphc.ops.{name}" for name in ("linalg.matmul", "linalg.products", "move.triangles")
)
"""Modules of functions that ``graphc`` has too."""

_TOOLS = ("aot.compile", "aot.load", "debug.bisect", "debug.watch_gradients", "testing.expect")


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION, FUNCTIONS, *_functions(), OTHERS, *_others()]
    parts += [OPTIMISERS, *_optimisers(), TRAINING, *_training()]
    parts += [LINALG, *_linalg(), RANDOM, *_random()]
    parts += [SPECIAL, *_special(), FOURIER, *_fourier(), OPERATIONS, _operations()]
    return "\n".join(parts).rstrip() + "\n"


# --- functions -----------------------------------------------------------------------------------


def _functions() -> Iterable[str]:
    by_family: dict[str, list[str]] = {}
    for name in sorted(set(surface_names()) - other_names().keys()):
        family = surface_function(name).__module__.removeprefix("graphc.ops.")
        by_family.setdefault(family, []).append(name)
    titles = dict(_FAMILIES)
    order = [family for family, _ in _FAMILIES if family in by_family]
    order += sorted(by_family.keys() - titles.keys())
    for family in order:
        title = titles.get(family) or family.rpartition(".")[2].replace("_", " ").capitalize()
        yield f"### {title}\n"
        for name in by_family[family]:
            yield _entry(f"gx.{name}", surface_function(name))
    yield "### Second names\n"
    yield ", ".join(f"`gx.{name}` is `gx.{known}`" for name, known in other_names().items()) + ".\n"


def _others() -> Iterable[str]:
    graphc = importlib.import_module("graphc")
    for name in sorted(graphc._NAMES):
        item = getattr(graphc, name)
        yield _entry(f"gx.{name}", item)
        for member in _MEMBERS.get(name, ()):
            yield _entry(f"{name.lower()}.{member}", inspect.getattr_static(item, member))
    for label in _TOOLS:
        module, _, name = label.rpartition(".")
        yield _entry(f"gx.{label}", getattr(importlib.import_module(f"graphc.{module}"), name))


def _optimisers() -> Iterable[str]:
    optim = importlib.import_module("graphc.optim")
    for name in sorted(optim.__all__):
        yield _entry(f"gx.optim.{name}", getattr(optim, name))


def _training() -> Iterable[str]:
    training = importlib.import_module("graphc.session.training")
    for name in training.__all__:
        yield _entry(f"gx.training.{name}", getattr(training, name))


def _random() -> Iterable[str]:
    random = importlib.import_module("graphc.random")
    for name in random.__all__:
        yield _entry(f"gx.random.{name}", getattr(random, name))


def _linalg() -> Iterable[str]:
    linalg = importlib.import_module("graphc.linalg")
    for name in linalg.__all__:
        function = getattr(linalg, name)
        if inspect.isfunction(function) and function.__module__ not in _OF_GRAPHC:
            yield _entry(f"gx.linalg.{name}", function)


def _fourier() -> Iterable[str]:
    fourier = importlib.import_module("graphc.fft")
    for name in fourier.__all__:
        yield _entry(f"gx.fft.{name}", getattr(fourier, name))


def _special() -> Iterable[str]:
    special = importlib.import_module("graphc.special")
    for name in special.__all__:
        item = getattr(special, name)
        if item.__module__.startswith("graphc.ops.special") and item.__name__ == name:
            yield _entry(f"gx.special.{name}", item)


def _entry(label: str, item: Any) -> str:
    shown = label if isinstance(item, property) else f"{label}{_signature(item)}"
    return f"#### `{shown}`\n\n{_document(inspect.getdoc(item) or '')}\n"


def _signature(item: Callable[..., Any]) -> str:
    """Parameters with their defaults; annotations are in the text."""
    try:
        signature = inspect.signature(item)
    except ValueError:
        return ""
    shown: list[str] = []
    star = False
    for name, parameter in signature.parameters.items():
        if name == "self":
            continue
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        text = name
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            text, star = f"*{name}", True
        elif parameter.default is not inspect.Parameter.empty:
            text += f"={parameter.default!r}"
        shown.append(text)
    return f"({', '.join(shown)})"


def _document(text: str) -> str:
    """A docstring as Markdown: sections become lists, indented formulas code."""
    result: list[str] = []
    section = False
    for line in text.splitlines():
        stripped = line.strip()
        if line in ("Args:", "Returns:", "Raises:", "Attributes:"):
            result.append(f"*{line[:-1].replace('Args', 'Arguments')}*\n")
            section = True
        elif not stripped:
            result.append("")
            section = False
        elif section and line.startswith("    ") and not line.startswith("     "):
            result.append(f"- {stripped}")
        else:
            result.append(f"  {stripped}" if section else line)
    return "\n".join(result)


# --- operations ----------------------------------------------------------------------------------


def _operations() -> str:
    rows = ["| operation | computes | dtypes | gradient | class | ulp | core |", "|-|-|-|-|-|-|-|"]
    rows += [_row(op) for op in all_ops()]
    return "\n".join(rows)


def _row(op: OpDef) -> str:
    cells = (
        f"`{op.name}`",
        escaped(op.doc),
        dtypes_label(op.domain.dtypes),
        _gradient(op),
        op.numerics,
        _ulp(op),
        "no" if isinstance(op.lowering, Decompose) else "yes",
    )
    return f"| {' | '.join(cells)} |"


def escaped(text: str) -> str:
    """Prose for a cell of a table: code stays code, other signs are no markup."""
    parts = text.replace("``", "`").replace("|", "\\|").split("`")
    parts[::2] = [part.replace("*", "\\*").replace("_", "\\_") for part in parts[::2]]
    return "`".join(parts)


def dtypes_label(dtypes: Sequence[DType], among: Sequence[DType] = ALL) -> str:
    """A short name for a group of dtypes; those that are not ``among`` the ones in question count
    for nothing."""
    known = (
        ("–", ()),
        ("any", ALL),
        ("numbers", (*INTEGERS, *FLOATS)),
        ("floats", FLOATS),
        ("integers", INTEGERS),
        ("bits", (bool_, *INTEGERS)),
    )
    for label, group in known:
        if {*dtypes} & {*among} == {*group} & {*among}:
            return label
    return ", ".join(dtype.name for dtype in dtypes)


def _gradient(op: OpDef) -> str:
    derivative = op.derivative
    if isinstance(derivative, NotDifferentiable):
        return "none"
    labels: dict[type[Any], str] = {
        Partials: "partials",
        Linear: "linear",
        Multilinear: "multilinear",
        Custom: "own rule",
        ThroughDecomposition: "through parts",
        Regional: "through regions",
        Flat: "zero",
    }
    return labels[type(derivative)]


def _ulp(op: OpDef) -> str:
    if op.max_ulp == 0:
        return ""
    bound = f"{op.max_ulp:g}"
    by_dtype = MAX_ULP.get(op.name)
    if by_dtype is None:
        return bound
    return f"{bound} ({by_dtype['float32']:g} / {by_dtype['float64']:g})"


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes or checks the page; the exit code."""
    return write(PAGE, page(), "docs/generate_ops.py", arguments)


def write(path: Path, text: str, script: str, arguments: Sequence[str] | None) -> int:
    """Writes or checks a generated page; the exit code."""
    parser = argparse.ArgumentParser(description=f"Write docs/{path.name}.")
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args(arguments).check:
        path.write_text(text, encoding="utf-8")
        return 0
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return 0
    print(f"docs/{path.name} is out of date; run python {script}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
