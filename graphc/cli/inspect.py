"""``graphc inspect``: what is in a library."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphc.cli.command import LIBRARY, Command

if TYPE_CHECKING:
    from graphc.aot.signature import Signature


def _inspect(options: argparse.Namespace) -> int:
    from graphc.aot.artifact import opened

    with opened(options.library) as artifact:
        _tell(artifact.signature)
        print("files:")
        for name, info in artifact.files.items():
            print(f"  {name}: {info.bytes:,} bytes, SHA-256 {info.sha256}")
    return 0


def _tell(signature: Signature) -> None:
    print(f"library {signature.name!r} ({signature.kind}), graphc {signature.graphc_version}")
    print(f"target: {signature.target}, {signature.triple}")
    flags = f", fast_math {', '.join(signature.fast_math)}" if signature.fast_math else ""
    print(f"numerics: {signature.numerics}{flags}")
    print(f"threads: {'as many as are asked for' if signature.threads else 'one'}")
    print("programs, the best first:")
    for program in signature.programs:
        sizes = ", ".join(f"{name}={size}" for name, size in program.sizes.items())
        print(
            f"  {program.name.replace('_', '-')}: {program.kernels} kernels, workspace "
            f"{program.workspace:,} bytes on one thread{f' at {sizes}' if sizes else ''}"
        )
    print("dims:" if signature.dims else "dims: none")
    for name, least, greatest in signature.dims:
        print(f"  {name}: {least} to {greatest:,}")
    for title, infos in (
        ("arguments", signature.arguments),
        ("results", signature.fetched),
        ("variables", signature.variables),
    ):
        print(f"{title}:" if infos else f"{title}: none")
        for place, info in enumerate(infos):
            unused = title == "arguments" and info is not None and info.read is None
            print(f"  {place} {'effect' if info is None else info}{', not needed' * unused}")
    stored = signature.weights.file
    where = "embedded" if stored is None else f"in {stored}"
    print(f"weights: {signature.weight_bytes:,} bytes, {where}")


COMMAND = Command(
    "inspect",
    "say what is in a library",
    "Says what is in a library, after checking its files; runs nothing of it.",
    (LIBRARY,),
    _inspect,
)
