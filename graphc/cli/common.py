"""What several commands share: reading the files that they take."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from graphc.base.options import Options
    from graphc.compiler import Compiled
    from graphc.debug.case import Case
    from graphc.extract import Extraction

    Commands: TypeAlias = argparse._SubParsersAction[argparse.ArgumentParser]


def extraction_of_file(path: str) -> Extraction:
    """What the fetches of a graph saved by ``graphc.save`` need; ``-`` is the standard input."""
    from graphc.debug.case import extraction_of
    from graphc.saving import load

    return extraction_of(load("/dev/stdin" if path == "-" else path), {})[0]


def is_capsule(path: str) -> bool:
    """Whether a file is an archive, as capsules are, and no text."""
    if path == "-":
        return False
    with open(path, "rb") as file:
        return file.read(2) == b"PK"


def cases_of_file(path: str) -> list[Case]:
    """The run that a capsule holds, or runs of a saved graph on random inputs.

    Options are those of the capsule, or of the environment.
    """
    from graphc.base.options import Options
    from graphc.debug.capsule import load_capsule
    from graphc.debug.case import extraction_of, sampled_cases
    from graphc.saving import load

    if is_capsule(path):
        return [load_capsule(path).case]
    extraction, recorder = extraction_of(load(path), {})
    return sampled_cases(extraction, recorder, Options.from_environment())


def compiled_file(path: str) -> tuple[Compiled, Options]:
    """What a saved graph, or the graph of a capsule, is compiled to, and with which options.

    Options are those of the capsule, or of the environment.
    """
    from graphc.base.options import Options
    from graphc.base.target import host
    from graphc.compiler import compile_graph
    from graphc.debug.capsule import load_capsule

    if is_capsule(path):
        case = load_capsule(path).case
        context = case.context()
        return case.compiled(context), context.options
    options = Options.from_environment()
    return compile_graph(extraction_of_file(path), options, host()), options


__all__ = ["cases_of_file", "compiled_file", "extraction_of_file", "is_capsule"]
