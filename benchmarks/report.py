"""A run as Markdown and as JSON, with the machine named."""

from __future__ import annotations

import dataclasses
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.conductor import Measurement, Settings
from benchmarks.figures import (
    best,
    geometric_mean,
    is_timed,
    median,
    ratio,
    reached,
    share_of_limit,
)
from benchmarks.figures import spread as spread_of
from benchmarks.limits import Limits
from benchmarks.peers import OWN, OWNS
from benchmarks.workloads.base import Workload

Measured = Sequence[tuple[Workload, Mapping[str, Measurement]]]


def machine(
    settings: Settings, limits: Limits | None, versions: Mapping[str, str]
) -> dict[str, str]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines():
        key, _, text = line.partition(":")
        if key.strip() == "model name":
            model = text.strip()
            break
    cpu = settings.cpus[0]
    caches = []
    for index in sorted(Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        kind, level, size = (
            (index / name).read_text(encoding="ascii").strip() for name in ("type", "level", "size")
        )
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    tied = ", ".join(map(str, settings.cpus))
    described = {
        "cpu": f"{model}, {os.cpu_count()} CPUs, tied to CPU {tied}",
        "caches": ", ".join(caches),
        "threads": str(len(settings.cpus)),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "clock": settings.clock,
        "load": f"{os.getloadavg()[0]:.2f} at the start",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }
    if limits is not None:
        described["limits"] = (
            f"copy {limits.copy / 1e9:.1f} GB/s past the caches, {limits.far_copy / 1e9:.0f} in "
            f"the third level, {limits.near_copy / 1e9:.0f} in the second; read "
            f"{limits.read / 1e9:.1f} GB/s, {limits.far_read / 1e9:.0f} and "
            f"{limits.near_read / 1e9:.0f} there; "
            f"multiply-adds {limits.single / 1e9:.0f} GFLOP/s in float32, "
            f"{limits.double / 1e9:.0f} in float64"
        )
    return described


# --- Markdown ------------------------------------------------------------------------------------


def heading(described: Mapping[str, str], peers: Sequence[str]) -> list[str]:
    """The machine and the first two lines of the table."""
    columns = ["workload", "goal", "of best", "best peer", "of limit", "spread", *peers]
    return [
        *(f"- {key}: {text}" for key, text in described.items()),
        "",
        "Times are medians; «of best» is graphc's time over the best peer's (0.50: half of it).",
        "",
        _row(columns),
        _row(["---", "---", "---:", "---", *["---:"] * (len(columns) - 4)]),
    ]


def line(workload: Workload, results: Mapping[str, Measurement], peers: Sequence[str]) -> str:
    """A workload's line of the table."""
    leader, share = best(results), share_of_limit(results)
    own = results.get(OWN)
    cells = [
        workload.name,
        verdict(workload, results),
        "–" if leader is None else f"{leader.ratio:.2f}",
        "–" if leader is None else leader.peer,
        "–" if share is None else f"{share:.0%}",
        f"{spread_of(own):.0%}" if own is not None and is_timed(own) else "–",
        *(_time(results[peer]) if peer in results else "–" for peer in peers),
    ]
    return _row(cells)


def memory_heading(described: Mapping[str, str], peers: Sequence[str]) -> list[str]:
    """The machine and the first two lines of the table of memory."""
    return [
        *(f"- {key}: {text}" for key, text in described.items()),
        "",
        "MiB of memory in use above that before the definition, at the highest point of a steady",
        "call; in parentheses what of it was not in use before that call.",
        "",
        _row(["workload", *peers]),
        _row(["---", *["---:"] * len(peers)]),
    ]


def memory_line(
    workload: Workload, results: Mapping[str, Measurement], peers: Sequence[str]
) -> str:
    """A workload's line of the table of memory."""
    return _row([workload.name, *(_memory(results[peer]) for peer in peers)])


def verdict(workload: Workload, results: Mapping[str, Measurement]) -> str:
    """The goals and whether this run reached them."""
    texts = []
    for goal in workload.goals:
        known = reached(goal, results)
        note = "" if known is None else (": reached" if known else ": **missed**")
        texts.append(f"{goal}{note}")
    return ", ".join(texts)


def summary(measured: Measured) -> list[str]:
    """Geometric means over the workloads that were measured."""
    lines = []
    for title, prefix in (("matrix products", "matmul_"), ("all workloads", "")):
        family = [results for workload, results in measured if workload.name.startswith(prefix)]
        leaders = [best(results) for results in family]
        ratios = [leader.ratio for leader in leaders if leader is not None]
        if len(ratios) > 1:
            mean = geometric_mean(ratios)
            lines.append(f"- geometric mean of «of best», {title} ({len(ratios)}): {mean:.2f}")
    return lines


def complaints(workload: Workload, results: Mapping[str, Measurement]) -> list[str]:
    """What did not agree with the reference, or failed."""
    return [
        f"{workload.name}: {peer} {measurement.status}: {measurement.detail}"
        for peer, measurement in results.items()
        if measurement.status in ("wrong", "failed")
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _without_figures(measurement: Measurement) -> str:
    if measurement.status == "unsupported":
        return "–"
    return measurement.detail if measurement.status == "late" else f"**{measurement.status}**"


def _memory(measurement: Measurement) -> str:
    if measurement.status != "timed":
        return _without_figures(measurement)
    return f"{measurement.program_mib:.1f} ({measurement.call_mib:.1f})"


def _time(measurement: Measurement) -> str:
    if not is_timed(measurement):
        return _without_figures(measurement)
    return shown(median(measurement))


def shown(microseconds: float) -> str:
    """A time for people."""
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e-3), (float("inf"), "s", 1e-6)):
        if microseconds < limit:
            return f"{microseconds * scale:.3g} {unit}"
    raise AssertionError("a time is below infinity")


# --- JSON ----------------------------------------------------------------------------------------


def document(
    described: Mapping[str, str], limits: Limits | None, measured: Measured
) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "machine": dict(described),
        "limits": None if limits is None else dataclasses.asdict(limits),
        "workloads": {
            workload.name: {
                "what": workload.what,
                "timed": workload.timed,
                "goals": [str(goal) for goal in workload.goals],
                "reached": [reached(goal, results) for goal in workload.goals],
                "share_of_limit": share_of_limit(results),
                "peers": {peer: _figures(results, peer) for peer in results},
            }
            for workload, results in measured
        },
    }


def _figures(results: Mapping[str, Measurement], peer: str) -> dict[str, Any]:
    measurement = results[peer]
    figures: dict[str, Any] = {"status": measurement.status}
    if measurement.detail:
        figures["detail"] = measurement.detail
    if measurement.status == "timed":
        figures |= {
            "first_seconds": measurement.first_seconds,
            "call_mib": measurement.call_mib,
            "program_mib": measurement.program_mib,
            "error_in_tolerances": measurement.error,
        }
    if measurement.samples:
        figures |= {
            "median_microseconds": median(measurement),
            "least_microseconds": min(measurement.samples),
            "spread": spread_of(measurement),
            "samples_microseconds": measurement.samples,
        }
        if measurement.least:
            figures["least_possible_microseconds"] = measurement.least
        if peer not in OWNS:
            figures["graphc_time_ratio"] = ratio(results, peer)
    return figures
