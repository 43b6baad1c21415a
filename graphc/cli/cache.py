"""``graphc cache``: what is kept on disk between processes."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from graphc.base.words import plural

if TYPE_CHECKING:
    from graphc.cli.common import Commands


def add(commands: Commands) -> None:
    """Adds the command."""
    cache = commands.add_parser(
        "cache",
        help="show or clear the cache of compiled programs",
        description="Shows where the cache of compiled programs lies and what it holds.",
    )
    cache.add_argument("action", nargs="?", choices=("show", "clear"), default="show")
    cache.set_defaults(command=_cache)


def _cache(options: argparse.Namespace) -> int:
    from graphc.base.options import Options
    from graphc.runtime.cache import MAX_BYTES, cache_of

    cache = cache_of(Options.from_environment().cache)
    if cache is None:
        print("the cache is off")
        return 0
    if options.action == "clear":
        count = cache.clear()
        print(f"{cache.directory}: {plural(count, 'file')} removed")
        return 0
    usage = cache.usage()
    size = f"{usage.bytes / 1e6:.1f} MB of {MAX_BYTES / 1e6:,.0f} MB"
    print(f"{cache.directory}: {plural(usage.entries, 'file')}, {size}")
    for name, count in usage.realms:
        print(f"  {count:>6}  {name}")
    return 0
