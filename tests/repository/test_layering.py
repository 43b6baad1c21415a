"""The import direction, file length and independence of every module of `graphc` and `passes`.

The layers are those of the architecture; a module imports only from its own layer or from layers
with a smaller number, and no modules import each other in a circle. Imports inside functions and
under ``if TYPE_CHECKING:`` count.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest
from structure_counts import nodes, trees
from tools import ROOT, child_environment

PACKAGES = ("graphc", "passes")
MAXIMUM_LINES = 500
USER_LAYER = 9

# The longest matching prefix decides; what is not listed is a user-facing module of layer 9.
LAYERS = {
    "graphc.base": 1,
    "graphc.ir": 2,
    "graphc.kernel": 3,
    "graphc.plan": 3,
    "graphc.ops": 4,
    "graphc.checking": 5,
    "passes": 5,
    "graphc.lower": 6,
    "graphc.codegen": 6,
    "graphc.runtime": 7,
    "graphc.checking.levels": 8,
    "graphc.compiling": 8,
    "graphc": USER_LAYER,
    "graphc.checking.audit": USER_LAYER,
}

# Modules that name in a string what imports them, so that no import shows the circle: hooks by
# which something below offers what modules above do, and where files of a package lie.
BY_NAME = {
    ("graphc.ir.surface", "graphc.ops"),
    ("graphc.ir.surface", "graphc.frontend.array_api"),
    ("graphc.ir.surface", "graphc.linalg"),
    ("graphc.ir.surface", "graphc.fft"),
    ("graphc.ir.op", "graphc.ops.declare"),
    ("graphc.ir.showing", "graphc.ir.text.printer"),
    ("graphc.ir.showing", "graphc.ir.draw.export"),
    ("graphc.ir.showing", "graphc.ir.draw.svg"),
    ("graphc.ir.showing", "graphc.ir.draw.html"),
    ("graphc.debug.report.page", "graphc.debug.report"),
}

# The ahead-of-time loader must run where the compiler's parts are not wanted.
LOADER_PREFIX = "graphc.aot.load"
LOADER_FORBIDDEN = (
    "passes", "graphc.codegen", "graphc.lower", "graphc.compiling", "networkx",
    "llvmlite",
)  # fmt: skip

# Each process has imported one module more than the one it was forked from.
FORKED_IMPORTS = """
import importlib, json, os, sys, traceback
import llvmlite.binding, networkx, numpy
children = json.loads(sys.argv[1])

def failures_below(parent):
    failures = 0
    for name in children.get(parent, ()):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                importlib.import_module(name)
                print(name)
                status = min(failures_below(name), 100)
            except BaseException:
                print("import of", name, "failed:")
                traceback.print_exc(file=sys.stdout)
            sys.stdout.flush()
            os._exit(status)
        failures += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0
    return failures

sys.exit(min(failures_below(""), 100))
"""


@cache
def modules() -> dict[str, Path]:
    """Every module of the product by its dotted name; a package is named by its directory."""
    found = {}
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def layer_of(module: str) -> int:
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        layer = LAYERS.get(".".join(parts[:length]))
        if layer is not None:
            return layer
    raise AssertionError(f"{module} belongs to no known package")


def is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )


def import_statements(
    tree: ast.Module, *, at_import: bool = False
) -> Iterator[ast.Import | ast.ImportFrom]:
    """All import statements at any depth, or those that run when the module is imported."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.expr):
            continue
        if at_import and isinstance(node, ast.If) and is_type_checking(node.test):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif not (at_import and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)):
            pending.extend(ast.iter_child_nodes(node))


def own_module(name: str) -> str | None:
    """The module of the product that an import of `name` needs, None for a foreign one."""
    if name.split(".")[0] not in PACKAGES:
        return None
    while name not in modules() and "." in name:
        name = name.rpartition(".")[0]
    return name


def tree_of(module: str) -> ast.Module:
    return trees()[str(modules()[module].relative_to(ROOT))]


@cache
def imports_of(module: str, *, at_import: bool = False) -> tuple[tuple[str, int], ...]:
    """(imported module of the product, line) for each import statement of a module."""
    path = modules()[module]
    found = []
    for statement in import_statements(tree_of(module), at_import=at_import):
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        else:
            base = statement.module or ""
            if statement.level:
                package = module if path.name == "__init__.py" else module.rpartition(".")[0]
                for _ in range(statement.level - 1):
                    package = package.rpartition(".")[0]
                base = f"{package}.{base}" if base else package
            # `from package import name` needs the submodule if there is one, else the package.
            names = [f"{base}.{alias.name}" for alias in statement.names]
        for name in names:
            target = own_module(name)
            if target is not None and target != module:
                found.append((target, statement.lineno))
    return tuple(found)


@cache
def import_graph() -> networkx.DiGraph:
    graph = networkx.DiGraph()
    graph.add_nodes_from(modules())
    graph.add_edges_from(
        (module, target) for module in modules() for target, _ in imports_of(module)
    )
    return graph


def named_by(module: str) -> set[str]:
    """The other modules of the product whose name is a string of this one."""
    strings = {
        node.value
        for node in nodes()[str(modules()[module].relative_to(ROOT))]
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    return {name for name in strings & modules().keys() if "." in name and name != module}


def test_there_are_modules_to_check() -> None:
    assert modules()


def test_every_package_directory_is_a_regular_package() -> None:
    missing = {
        str(path.parent.relative_to(ROOT))
        for path in modules().values()
        if not (path.parent / "__init__.py").exists()
    }
    assert not missing, f"no __init__.py in {sorted(missing)}"


def test_imports_point_to_the_same_layer_or_above() -> None:
    wrong = [
        f"{modules()[module].relative_to(ROOT)}:{line}: {module} (layer {layer_of(module)}) "
        f"imports {target} (layer {layer_of(target)})"
        for module in modules()
        for target, line in imports_of(module)
        if layer_of(target) > layer_of(module)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_import_circles() -> None:
    circles = [
        sorted(component)
        for component in networkx.strongly_connected_components(import_graph())
        if len(component) > 1
    ]
    assert not circles, f"modules that import each other: {circles}"


def test_circles_by_name_are_known() -> None:
    # the package itself offers everything by name
    found = {
        (module, target)
        for module in modules()
        if module != "graphc"
        for target in named_by(module)
        if networkx.has_path(import_graph(), target, module)
    }
    assert found == BY_NAME


def test_no_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in (*modules().values(), *(ROOT / "tests").rglob("*.py"))
    }
    long = {name: lines for name, lines in lengths.items() if lines > MAXIMUM_LINES}
    assert not long, f"files of more than {MAXIMUM_LINES} lines: {long}"


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = child_environment(OPENBLAS_NUM_THREADS="1")
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )


@cache
def loaded_with(module: str) -> frozenset[str]:
    """The module and all that its import loads."""
    found = {module}
    pending = [module]
    while pending:
        name = pending.pop()
        needed = {target for target, _ in imports_of(name, at_import=True)}
        if "." in name:
            needed.add(name.rpartition(".")[0])
        pending.extend(needed - found)
        found |= needed
    return frozenset(found)


@pytest.mark.slow
def test_each_module_imports_without_others() -> None:
    """Each module is imported where nothing of the product is, but what it imports itself.

    One interpreter loads the third-party libraries. The process of a module is forked from that of
    the module it imports that loads the most, so that few modules are loaded again and again.
    """
    children: dict[str, list[str]] = {}
    importable = {name for name in modules() if not name.endswith("__main__")}
    for name in sorted(importable):
        # a package and what its own module imports are loaded together
        below = [other for other in loaded_with(name) if name not in loaded_with(other)]
        # by name as well: equal choices would be made by the order of a set
        parent = max(below, key=lambda other: (len(loaded_with(other)), other), default="")
        children.setdefault(parent, []).append(name)
    result = run_python("-c", FORKED_IMPORTS, json.dumps(children))
    assert result.returncode == 0, result.stdout + result.stderr
    assert sorted(result.stdout.split()) == sorted(importable)


def test_loader_of_artifacts_loads_no_compiler() -> None:
    loaders = [name for name in modules() if name.startswith(LOADER_PREFIX)]
    assert loaders
    for name in loaders:
        result = run_python("-c", f"import sys, {name}; print(*sys.modules, sep='\\n')")
        assert result.returncode == 0, result.stderr
        unwanted = [
            loaded
            for loaded in result.stdout.split()
            if any(loaded == root or loaded.startswith(root + ".") for root in LOADER_FORBIDDEN)
        ]
        assert not unwanted, f"{name} loads {unwanted}"
