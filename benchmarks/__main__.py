"""The command line: ``python -m benchmarks [--only GLOB] [--peers NAMES] [--json FILE]``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import chart, report
from benchmarks.conductor import Conductor, Settings
from benchmarks.limits import LimitsProcess
from benchmarks.peers import PEERS
from benchmarks.worker import CLOCKS
from benchmarks.workloads import chosen
from benchmarks.workloads.base import Workload

DEFAULT_PEERS = "graphc,graphc-out,numpy,jax,onnxruntime"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compares graphc with its peers, taking turns.",
    )
    parser.add_argument("--only", default="*", metavar="GLOB", help="workloads, comma-separated")
    parser.add_argument(
        "--peers",
        default=DEFAULT_PEERS,
        help=f"comma-separated, of {', '.join(PEERS)}; or all (default: %(default)s)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to write all figures")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="where to write the table")
    parser.add_argument("--chart", type=Path, metavar="FILE", help="where to draw it, as SVG")
    parser.add_argument("--quick", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument("--rounds", type=int, help="measurements a workload and peer (default 15)")
    parser.add_argument("--batch-ms", type=float, help="length of a measurement (default 30)")
    parser.add_argument(
        "--cell-seconds", type=float, default=180.0, metavar="S",
        help="a peer that takes longer for a workload is not waited for (default %(default)g)",
    )
    parser.add_argument("--threads", type=int, default=1, help="for every peer (default 1)")
    parser.add_argument("--cpus", help="to run on, comma-separated (default: the last allowed)")
    parser.add_argument(
        "--memory", action="store_true", help="memory in use instead of times, in fresh processes"
    )
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="what is measured")
    parser.add_argument(
        "--python",
        default=sys.executable,
        metavar="FILE",
        help="the interpreter of the peers' environment, if not graphc's",
    )
    return parser


def _settings(parser: argparse.ArgumentParser, given: argparse.Namespace) -> Settings:
    allowed = sorted(os.sched_getaffinity(0))
    cpus = tuple(int(cpu) for cpu in given.cpus.split(",")) if given.cpus else ()
    if not cpus:
        cpus = tuple(allowed[-given.threads :])
    if len(cpus) != given.threads or not set(cpus) <= set(allowed):
        parser.error(f"{given.threads} threads on CPUs {cpus}; allowed are {allowed}")
    return Settings(
        rounds=given.rounds or (3 if given.quick else 15),
        batch_seconds=(given.batch_ms or (1.0 if given.quick else 30.0)) / 1e3,
        workload_seconds=30.0,
        cell_seconds=given.cell_seconds,
        cpus=cpus,
        quick=given.quick,
        clock=given.clock,
        python=given.python,
    )


def _asked(
    parser: argparse.ArgumentParser, given: argparse.Namespace
) -> tuple[list[str], tuple[Workload, ...]]:
    peers = list(PEERS) if given.peers == "all" else [n.strip() for n in given.peers.split(",")]
    for peer in peers:
        if peer not in PEERS:
            parser.error(f"unknown peer {peer!r}; known are {', '.join(PEERS)}")
    workloads = chosen(given.only, quick=given.quick)
    if not workloads:
        known = ", ".join(workload.name for workload in chosen("*"))
        parser.error(f"no workload matches {given.only!r}; known are {known}")
    return peers, workloads


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs what the command line asks for; 1 if a result was wrong or a peer failed."""
    parser = _parser()
    given = parser.parse_args(arguments)
    peers, workloads = _asked(parser, given)
    settings = _settings(parser, given)
    untimed = given.quick or given.memory
    meter = None if untimed else LimitsProcess(settings.cpus)
    limits = None if meter is None else meter.limits()
    conductor = Conductor(peers, settings, meter)
    lines: list[str] = []

    def say(*texts: str) -> None:
        lines.extend(texts)
        print("\n".join(texts), flush=True)

    try:
        for absent, reason in conductor.absent.items():
            print(f"{absent} takes no part: {reason}", file=sys.stderr)
        described = report.machine(settings, limits, conductor.versions)
        names = conductor.peers
        heading = report.memory_heading if given.memory else report.heading
        say(*heading(described, names))
        measured = []
        problems: list[str] = []
        run = conductor.run_for_memory if given.memory else conductor.run
        for workload, results in zip(workloads, run(workloads), strict=True):
            measured.append((workload, results))
            problems += report.complaints(workload, results)
            if given.memory:
                say(report.memory_line(workload, results, names))
            else:
                say(report.line(workload, results, names))
    finally:
        conductor.close()
        if meter is not None:
            meter.close()
    if not given.memory:
        say("", *report.summary(measured))
    if problems:
        say("", *(f"- {problem}" for problem in problems))
    if given.markdown is not None:
        given.markdown.write_text("\n".join([*lines, ""]), encoding="utf-8")
    if given.chart is not None:
        given.chart.write_text(chart.drawn(measured, given.threads), encoding="utf-8")
    if given.json is not None:
        data = report.document(described, limits, measured)
        given.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
