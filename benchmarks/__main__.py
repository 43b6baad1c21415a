"""The command line: ``python -m benchmarks [--only GLOB] [--peers NAMES] [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from benchmarks.conductor import Conductor, Settings
from benchmarks.peers import PEERS
from benchmarks.worker import CLOCKS
from benchmarks.workloads import chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; 1 if a result was wrong or a peer failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compares graphc with its peers, one thread each, taking turns.",
    )
    parser.add_argument("--only", default="*", metavar="GLOB", help="workloads, comma-separated")
    parser.add_argument("--peers", default=",".join(PEERS), help="comma-separated, of %(default)s")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all figures")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--rounds", type=int, help="measurements a workload and peer (default 15)")
    parser.add_argument("--batch-ms", type=float, help="length of a measurement (default 30)")
    parser.add_argument("--cpu", type=int, help="the CPU to run on (default: the last allowed)")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="what is measured")
    given = parser.parse_args(arguments)

    peers = [name.strip() for name in given.peers.split(",")]
    for peer in peers:
        if peer not in PEERS:
            parser.error(f"unknown peer {peer!r}; known are {', '.join(PEERS)}")
    workloads = chosen(given.only, quick=given.quick)
    if not workloads:
        known = ", ".join(workload.name for workload in chosen("*"))
        parser.error(f"no workload matches {given.only!r}; known are {known}")
    settings = Settings(
        rounds=given.rounds or (3 if given.quick else 15),
        batch_seconds=(given.batch_ms or (1.0 if given.quick else 30.0)) / 1e3,
        workload_seconds=30.0,
        cpu=max(os.sched_getaffinity(0)) if given.cpu is None else given.cpu,
        quick=given.quick,
        clock=given.clock,
    )

    conductor = Conductor(peers, settings)
    try:
        for absent, reason in conductor.absent.items():
            print(f"{absent} takes no part: {reason}", file=sys.stderr)
        described = report.machine(settings.cpu, settings.clock, conductor.versions)
        names = conductor.peers
        print("\n".join(report.heading(described, names)), flush=True)
        measured = []
        problems: list[str] = []
        for workload, results in zip(workloads, conductor.run(workloads), strict=True):
            measured.append((workload, results))
            problems += report.complaints(workload, results)
            print(report.line(workload, results, names), flush=True)
    finally:
        conductor.close()
    if problems:
        print("\n".join(["", *(f"- {problem}" for problem in problems)]))
    if given.json is not None:
        data = report.document(described, measured)
        given.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
