"""How far the structure is from its aims: ``python tests/repository/structure_counts.py``.

A concept that many files name is costly to add to. The counts say of statements of kernels and of
lowering kinds how many files of the product know them by name, and where circles of imports and
entries at the top have come back. ``support/tuning_constants.py`` prints constants that may have
been tuned.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import networkx

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("graphc", "passes")

STATEMENTS = {
    "graphc.kernel.statements.scalars": ("Const", "DimValue", "Apply", "Cast", "Check"),
    "graphc.kernel.statements.memory": ("Load", "Store"),
    "graphc.kernel.statements.blocks": ("Loop", "Reduce"),
    "graphc.kernel.statements.products": ("Contract",),
    "graphc.kernel.statements.routines": ("Call",),
    "graphc.kernel.statements.base": ("Statement", "Scalar", "Access", "Block"),
}
"""By the module that defines them; what stands in the last one is not counted, but asked for."""
KINDS = (
    "Pointwise", "View", "Reshape", "Element", "Reduction", "Scan", "Scatter", "Contraction",
    "Native", "Decompose", "Structural",
)  # fmt: skip
DEFINED_IN = {"kind": "graphc.ir.lowering"}


@dataclass(frozen=True)
class Count:
    """One number.

    Attributes:
        name: what is counted.
        found: the number.
        most: what it may be at most.
        where: the files, or whatever makes up the number.
    """

    name: str
    found: int
    most: int
    where: tuple[str, ...]

    def __str__(self) -> str:
        mark = "" if self.found <= self.most else "  <-- too many"
        return f"{self.name:<48} {self.found:>4} of {self.most}{mark}"


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of the product, by their paths."""
    return {
        str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8"))
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


@cache
def nodes() -> dict[str, tuple[ast.AST, ...]]:
    """All nodes of each module that say what it imports or asks for, or name a module."""
    kinds = ast.Import | ast.ImportFrom | ast.Call | ast.Compare | ast.MatchClass | ast.Constant
    return {
        path: tuple(node for node in ast.walk(tree) if isinstance(node, kinds))
        for path, tree in trees().items()
    }


@cache
def imports() -> dict[str, dict[str, dict[str, str]]]:
    """Of each module what it imports: by module the names that it has here, and those there."""
    found: dict[str, dict[str, dict[str, str]]] = {}
    for path, within in nodes().items():
        own = found[path] = {}
        for node in within:
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                names = {alias.asname or alias.name: alias.name for alias in node.names}
                own.setdefault(node.module, {}).update(names)
    return found


def naming(name: str, module: str) -> tuple[str, ...]:
    """The files that name a class of a module, the one that defines it among them."""
    own = module.replace(".", "/") + ".py"
    return tuple(
        path
        for path, imported in imports().items()
        if path == own or name in imported.get(module, {}).values()
    )


def tested_classes(node: ast.AST) -> set[str]:
    """The names of the classes that a call, a comparison or a pattern asks for."""
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance":
        return {part.id for part in ast.walk(node.args[1]) if isinstance(part, ast.Name)}
    if isinstance(node, ast.Compare):
        left = node.left
        if isinstance(left, ast.Call) and getattr(left.func, "id", "") == "type":
            return {
                part.id
                for c in node.comparators
                for part in ast.walk(c)
                if isinstance(part, ast.Name)
            }
    if isinstance(node, ast.MatchClass) and isinstance(node.cls, ast.Name):
        return {node.cls.id}
    return set()


def asking(names: tuple[str, ...], module: str) -> tuple[str, ...]:
    """The files that ask whether something is one of these classes."""
    own = module.replace(".", "/") + ".py"
    found = []
    for path, within in nodes().items():
        known = {here for here, there in imports()[path].get(module, {}).items() if there in names}
        known |= set(names) if path == own else set()
        if known and any(tested_classes(node) & known for node in within):
            found.append(path)
    return tuple(found)


def circles() -> tuple[str, ...]:
    """Modules that import each other, imports for types and within functions included."""
    modules = {}
    for path in trees():
        parts = Path(path).with_suffix("").parts
        modules[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = networkx.DiGraph()
    for module, path in modules.items():
        for target in _imports(nodes()[path]):
            while target not in modules and "." in target:
                target = target.rpartition(".")[0]
            if target in modules and target != module:
                graph.add_edge(module, target)
    return tuple(
        " ".join(sorted(circle))
        for circle in networkx.strongly_connected_components(graph)
        if len(circle) > 1
    )


def _imports(within: tuple[ast.AST, ...]) -> Iterator[str]:
    for node in within:
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def entries(package: str) -> tuple[str, ...]:
    """What stands at the top of a package: rooms and loose modules."""
    return tuple(
        sorted(
            path.name
            for path in (ROOT / package).iterdir()
            if not path.name.startswith("__") and (path.suffix == ".py" or any(path.rglob("*.py")))
        )
    )


def counts() -> list[Count]:
    """All of them."""
    result = []
    for module, names in [*STATEMENTS.items()][:-1]:
        for name in names:
            where = naming(name, module)
            result.append(Count(f"files that name the statement {name}", len(where), 5, where))
    asked = tuple(
        sorted({path for module, names in STATEMENTS.items() for path in asking(names, module)})
    )
    result.append(Count("files that ask for the class of a statement", len(asked), 6, asked))
    for name in KINDS:
        where = tuple(
            path for path in naming(name, DEFINED_IN["kind"]) if not path.startswith("graphc/ops/")
        )
        result.append(Count(f"files that name the lowering kind {name}", len(where), 4, where))
    found = circles()
    result.append(Count("circles of imports", len(found), 0, found))
    for package, most in (("graphc", 22), ("passes", 15)):
        top = entries(package)
        result.append(Count(f"entries at the top of {package}", len(top), most, top))
    loose = tuple(name for package in PACKAGES for name in entries(package) if name.endswith(".py"))
    result.append(Count("loose modules at the top", len(loose), 7, loose))
    return result


def main() -> int:
    """Prints all counts, and what makes up those that are too high; gives how many those are."""
    failed = [count for count in counts() if count.found > count.most]
    for count in counts():
        print(count)
        if count in failed:
            for place in count.where:
                print(f"    {place}")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
