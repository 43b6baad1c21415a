"""``graphc cache``: what is kept on disk between processes."""

from __future__ import annotations

import argparse
from collections import Counter

from graphc.base.words import plural
from graphc.cli.command import Command, argument


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
    entries, makers = Counter[str](), Counter[str]()
    for name, count in usage.realms:
        entries[name] += count
        makers[name] += 1
    for name, count in sorted(entries.items()):
        several = f", of {makers[name]} versions or settings" if makers[name] > 1 else ""
        print(f"  {count:>6}  {name}{several}")
    return 0


COMMAND = Command(
    "cache",
    "show or clear the cache of compiled programs",
    "Shows where the cache of compiled programs lies and what it holds.",
    (argument("action", nargs="?", choices=("show", "clear"), default="show"),),
    _cache,
)
