"""``graphc run``: a library, once."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graphc.base.errors import GraphError
from graphc.cli.command import LIBRARY, THREADS, Command, argument

if TYPE_CHECKING:
    from graphc.aot.signature import TensorInfo


def _run(options: argparse.Namespace) -> int:
    import numpy as np

    from graphc.aot.loader import load_library
    from graphc.frontend.structure import leaves

    program = load_library(options.library, options.threads)
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
    for number, (info, array) in enumerate(zip(program.signature.fetched, flat, strict=True)):
        if info is None:
            continue
        head = f"result {number} {info.name}"
        shape = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        if options.out is None:
            print(f"{head}: {shape}\n{np.array2string(array)}")
        else:
            path = os.path.join(options.out, f"result_{number}.npy")
            np.save(path, array, allow_pickle=False)
            print(f"{head}: {shape} in {path}")
    return 0


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
    except OSError:
        raise
    except Exception as error:
        # NumPy's parts raise errors of many kinds, which differ from version to version.
        raise GraphError(f"{path} is no .npy file of numbers or bools") from error
    if not isinstance(array, np.ndarray):
        array.close()
        raise GraphError(f"{path} is no .npy file but an archive of several arrays")
    return array


COMMAND = Command(
    "run",
    "run a library",
    "Runs a library once, with the values of variables stored in it; the library stays as it is.",
    (
        LIBRARY,
        argument(
            "--feed",
            metavar="NAME=FILE.npy",
            action="append",
            default=[],
            help="an argument by name, or by its place, from 0",
        ),
        THREADS,
        argument("--out", metavar="DIR", help="write results there, as result_0.npy and so on"),
    ),
    _run,
)
