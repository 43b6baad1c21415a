"""The command line: ``graphc show``, ``graphc run`` and ``graphc inspect``.

Each command imports what it needs when it runs, so that running a package loads no compiler. What
goes wrong is said in one line on the error stream, and the exit code is 2.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.base.errors import GraphcError, GraphError

if TYPE_CHECKING:
    from graphc.aot.artifact import TensorInfo
    from graphc.extract import Extraction
    from graphc.ir.graph import Graph
    from passes.manager import PassRecord

_RUN = re.compile(r"(?P<name>[^#]+)(?:#(?P<number>[1-9][0-9]{0,8}))?")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; gives the exit code."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except GraphcError as error:
        return _complain(_one_line(error))
    except BrokenPipeError:
        # The reader went away; what is left in the buffer must not complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except KeyboardInterrupt:
        return 130
    return 0


def _complain(text: str) -> int:
    print(f"graphc: {text}", file=sys.stderr)
    return 2


def _one_line(error: GraphcError) -> str:
    text = error.message if error.hint is None else f"{error.message} ({error.hint})"
    return " ".join(text.split())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="graphc", description="Look into graphs and run exported programs."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    show = commands.add_parser(
        "show",
        help="print a saved graph at some point of its compilation",
        description="Prints a graph saved by graphc.save, as text. Without options: what its "
        "fetches need. PASS is a name like cse, or cse#2 for the second run; the environment "
        "variable GRAPHC gives options of the compiler.",
    )
    show.add_argument("file", metavar="FILE.gir")
    show.add_argument("--before", metavar="PASS", help="the graph that goes into a pass")
    show.add_argument("--after", metavar="PASS", help="the graph that comes out of a pass")
    level = show.add_mutually_exclusive_group()
    for name, what in (
        ("passes", "the passes and what each did"),
        ("kernels", "the kernels"),
        ("plan", "the plan: slots, steps and kernels"),
        ("llvm", "the LLVM text of the kernels"),
        ("asm", "their machine code, as assembly"),
    ):
        level.add_argument(
            f"--{name}", dest="level", action="store_const", const=name, help=f"print {what}"
        )
    show.set_defaults(command=_show)

    run = commands.add_parser(
        "run",
        help="run an exported package",
        description="Runs a package once, with the values of variables stored in it; the package "
        "stays as it is.",
    )
    run.add_argument("package", metavar="PACKAGE")
    run.add_argument(
        "--feed",
        metavar="NAME=FILE.npy",
        action="append",
        default=[],
        help="an argument by name, or by its place, from 0",
    )
    run.add_argument("--out", metavar="DIR", help="write results there, as result_0.npy and so on")
    run.set_defaults(command=_run)

    inspect = commands.add_parser(
        "inspect", help="say what a package is", description="Says what is in a package."
    )
    inspect.add_argument("package", metavar="PACKAGE")
    inspect.set_defaults(command=_inspect)
    return parser


# --- show ----------------------------------------------------------------------------------------


def _show(options: argparse.Namespace) -> None:
    if options.level is not None and (options.before or options.after):
        raise GraphError(f"--{options.level} and --before or --after exclude each other")
    from graphc.saving import load_extraction

    extraction = load_extraction(options.file)
    if options.level is not None and options.level != "passes":
        print(_compiled_text(extraction, options.level), end="")
        return
    if options.level is None and not options.before and not options.after:
        print(extraction.graph, end="")
        return
    records = _records(extraction)
    if options.level == "passes":
        for record in records:
            print(record)
        return
    wanted: list[tuple[str, Graph]] = []
    if options.before:
        place = _place(options.before, records)
        graph = records[place - 1].graph if place else extraction.graph
        wanted.append((f"before {records[place].name}", graph))
    if options.after:
        record = records[_place(options.after, records)]
        wanted.append((f"after {record.name}", record.graph))
    for label, graph in wanted:
        if len(wanted) > 1:
            print(f"// {label}")
        print(graph, end="")


def _records(extraction: Extraction) -> list[PassRecord]:
    from graphc.base.options import Options
    from graphc.base.target import host
    from passes.base import PassContext
    from passes.manager import run_pipeline
    from passes.pipeline import PIPELINE

    context = PassContext(options=Options.from_environment(), target=host())
    return run_pipeline(extraction.graph, PIPELINE, context)[1]


def _place(text: str, records: Sequence[PassRecord]) -> int:
    """Where in the records a run of a pass is; without a number its first run."""
    found = _RUN.fullmatch(text)
    name = f"{found['name']}#{found['number'] or 1}" if found is not None else text
    for place, record in enumerate(records):
        if record.name == name:
            return place
    known = ", ".join(record.name for record in records)
    raise GraphError(f"no pass {name} ran", hint=f"these did: {known}")


def _compiled_text(extraction: Extraction, level: str) -> str:
    from graphc.base.options import Options
    from graphc.base.target import host
    from graphc.compiler import compile_graph
    from graphc.kernel.text import print_kernel
    from graphc.plan.text import print_plan
    from graphc.runtime.jit import assembly

    compiled = compile_graph(extraction, Options.from_environment(), host())
    if level == "kernels":
        return "\n".join(map(print_kernel, compiled.plan.kernels))
    if level == "plan":
        return print_plan(compiled.plan)
    return compiled.llvm_ir if level == "llvm" else assembly(compiled.llvm_ir, compiled.target)


# --- packages ------------------------------------------------------------------------------------


def _run(options: argparse.Namespace) -> None:
    import numpy as np

    from graphc.aot.loader import load_package
    from graphc.structure import leaves

    program = load_package(options.package)
    infos = program.signature.arguments
    given: dict[int, Any] = {}
    for text in options.feed:
        place, path = _feed(text, infos)
        if place in given:
            raise GraphError(f"argument {infos[place]} is fed twice")
        given[place] = _array(path)
    lacking = [info for n, info in enumerate(infos) if info.read is not None and n not in given]
    if lacking:
        raise GraphError(
            f"these arguments are not fed: {'; '.join(map(str, lacking))}",
            hint="add --feed NAME=FILE.npy",
        )
    results = program(*(given.get(place) for place in range(len(infos))))
    if options.out is not None:
        os.makedirs(options.out, exist_ok=True)
    flat = list(leaves(results))
    for number, (info, array) in enumerate(zip(program.signature.results, flat, strict=True)):
        if info is None:
            continue
        head = f"result {number} {info.name or ''}".rstrip()
        shape = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        if options.out is None:
            print(f"{head}: {shape}\n{np.array2string(array)}")
        else:
            path = os.path.join(options.out, f"result_{number}.npy")
            np.save(path, array, allow_pickle=False)
            print(f"{head}: {shape} in {path}")


def _feed(text: str, infos: Sequence[TensorInfo]) -> tuple[int, str]:
    """The argument's place and the file; names and files may contain the sign of equality."""
    known = "; ".join(f"{place} is {info}" for place, info in enumerate(infos))
    for end in (position for position, sign in enumerate(text) if sign == "="):
        name, path = text[:end], text[end + 1 :]
        places = [place for place, info in enumerate(infos) if info.name == name]
        if not places and name.isascii() and name.isdigit() and len(name) < 10:
            places = [int(name)] if int(name) < len(infos) else []
        if len(places) > 1:
            raise GraphError(f"several arguments are called {name!r}", hint=f"by place: {known}")
        if places:
            return places[0], path
    raise GraphError(f"--feed {text!r} names no argument", hint=f"NAME=FILE.npy, where {known}")


def _array(path: str) -> Any:
    import numpy as np

    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise GraphError(f"{path} is no .npy file of numbers or bools") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise GraphError(f"{path} is no .npy file but an archive of several arrays")
    return array


def _inspect(options: argparse.Namespace) -> None:
    from graphc.aot.artifact import read_package

    package = read_package(options.package)
    signature = package.signature
    print(f"package {signature.name!r}, written by graphc {signature.graphc_version}")
    print(f"target: {signature.triple}, {signature.cpu}")
    features = [name[1:] for name in signature.features.split(",") if name.startswith("+")]
    print(f"CPU features it needs: {', '.join(features) or 'none'}")
    print(f"kernels: {signature.kernels}")
    for title, infos in (
        ("arguments", signature.arguments),
        ("results", signature.results),
        ("variables", signature.variables),
    ):
        print(f"{title}:" if infos else f"{title}: none")
        for place, info in enumerate(infos):
            unused = title == "arguments" and info is not None and info.read is None
            print(f"  {place} {'effect' if info is None else info}{', not needed' * unused}")
    print("files:")
    for name, content in package.files.items():
        print(f"  {name}: {len(content)} bytes")


__all__ = ["main"]
