"""``graphc inspect``: what is in a library."""

from __future__ import annotations

import argparse

from graphc.cli.command import LIBRARY, Command


def _inspect(options: argparse.Namespace) -> int:
    from graphc.aot.artifact import opened

    with opened(options.library) as artifact:
        print(artifact.signature)
        print("files:")
        for name, info in artifact.files.items():
            print(f"  {name}: {info.bytes:,} bytes, SHA-256 {info.sha256}")
    return 0


COMMAND = Command(
    "inspect",
    "say what is in a library",
    "Says what is in a library, after checking its files; runs nothing of it.",
    (LIBRARY,),
    _inspect,
)
