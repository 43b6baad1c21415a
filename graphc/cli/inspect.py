"""``graphc inspect``: what an exported package is."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.cli.common import Commands


def add(commands: Commands) -> None:
    """Adds the command."""
    inspect = commands.add_parser(
        "inspect", help="say what a package is", description="Says what is in a package."
    )
    inspect.add_argument("package", metavar="PACKAGE")
    inspect.set_defaults(command=_inspect)


def _inspect(options: argparse.Namespace) -> int:
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
    return 0
