"""Figures of a run: medians, ratios, Markdown and JSON, with the machine named.

Ratios are of speed, the peer's time over graphc's, so that 2 means twice as fast as the peer. Peers
measure in the same rounds, so a ratio is the median over rounds of the ratio within a round, which
a slow drift of the machine does not touch.
"""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.conductor import Measurement
from benchmarks.workloads import Goal, Workload

OWN = "graphc"


def machine(cpu: int, clock: str, versions: Mapping[str, str]) -> dict[str, str]:
    """What the figures were measured on."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="ascii").splitlines():
        key, _, text = line.partition(":")
        if key.strip() == "model name":
            model = text.strip()
            break
    caches = []
    for index in sorted(Path(f"/sys/devices/system/cpu/cpu{cpu}/cache").glob("index*")):
        kind, level, size = (
            (index / name).read_text(encoding="ascii").strip() for name in ("type", "level", "size")
        )
        if kind != "Instruction":
            caches.append(f"L{level} {size}")
    return {
        "cpu": f"{model}, {os.cpu_count()} CPUs, tied to CPU {cpu}",
        "caches": ", ".join(caches),
        "system": f"{platform.system()} {platform.release()}, Python {platform.python_version()}",
        "clock": clock,
        "load": f"{os.getloadavg()[0]:.2f} at the start",
        "versions": ", ".join(f"{name} {version}" for name, version in versions.items()),
    }


def median(measurement: Measurement) -> float:
    """Median microseconds a call."""
    return statistics.median(measurement.samples)


def ratio(results: Mapping[str, Measurement], peer: str) -> float | None:
    """graphc's speed over the peer's; None where one of them has no figure."""
    own, other = results.get(OWN), results.get(peer)
    if own is None or other is None or "timed" not in own.status == other.status:
        return None
    if not own.samples or not other.samples:
        return None
    return statistics.median(b / a for a, b in zip(own.samples, other.samples, strict=False))


def spread(measurement: Measurement) -> float:
    """How far apart the quartiles are, as a part of the median: how quiet the machine was."""
    if len(measurement.samples) < 4:
        return (max(measurement.samples) - min(measurement.samples)) / median(measurement)
    low, _, high = statistics.quantiles(measurement.samples, n=4)
    return (high - low) / median(measurement)


def reached(goal: Goal, results: Mapping[str, Measurement]) -> bool | None:
    """Whether a goal is reached; None where that cannot be told."""
    if goal.most_microseconds is not None:
        own = results.get(OWN)
        return None if own is None or not own.samples else median(own) < goal.most_microseconds
    speed = ratio(results, goal.peer)
    return None if speed is None or goal.least_speed is None else speed >= goal.least_speed


# --- Markdown ------------------------------------------------------------------------------------


def heading(described: Mapping[str, str], peers: Sequence[str]) -> list[str]:
    """The machine and the first two lines of the table."""
    others = [peer for peer in peers if peer != OWN]
    columns = ["workload", *peers, *(f"{OWN}/{peer}" for peer in others), "spread", "goal"]
    return [
        *(f"- {key}: {text}" for key, text in described.items()),
        "",
        "Times are medians; ratios are of speed (2.00: half the peer's time).",
        "",
        _row(columns),
        _row(["---", *["---:"] * (len(columns) - 2), "---"]),
    ]


def line(workload: Workload, results: Mapping[str, Measurement], peers: Sequence[str]) -> str:
    """A workload's line of the table."""
    cells = [workload.name]
    cells += [_time(results[peer]) if peer in results else "–" for peer in peers]
    for peer in peers:
        if peer != OWN:
            speed = ratio(results, peer)
            cells.append("–" if speed is None else f"{speed:.2f}")
    own = results.get(OWN)
    cells.append(f"{spread(own):.0%}" if own is not None and own.samples else "–")
    goal = workload.goal
    verdict = None if goal is None else reached(goal, results)
    note = "" if verdict is None else (": reached" if verdict else ": **missed**")
    cells.append("" if goal is None else f"{goal}{note}")
    return _row(cells)


def complaints(workload: Workload, results: Mapping[str, Measurement]) -> list[str]:
    """What did not agree with the reference, or failed."""
    return [
        f"{workload.name}: {peer} {measurement.status}: {measurement.detail}"
        for peer, measurement in results.items()
        if measurement.status in ("wrong", "failed")
    ]


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _time(measurement: Measurement) -> str:
    if measurement.status != "timed" or not measurement.samples:
        return "–" if measurement.status == "unsupported" else f"**{measurement.status}**"
    microseconds = median(measurement)
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e-3), (float("inf"), "s", 1e-6)):
        if microseconds < limit:
            return f"{microseconds * scale:.3g} {unit}"
    raise AssertionError("a time is below infinity")


# --- JSON ----------------------------------------------------------------------------------------


def document(
    described: Mapping[str, str],
    measured: Sequence[tuple[Workload, Mapping[str, Measurement]]],
) -> dict[str, Any]:
    """Everything that was measured, as plain data."""
    return {
        "machine": dict(described),
        "workloads": {
            workload.name: {
                "what": workload.what,
                "timed": workload.timed,
                "goal": None if workload.goal is None else str(workload.goal),
                "reached": None if workload.goal is None else reached(workload.goal, results),
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
    if measurement.samples:
        figures |= {
            "median_microseconds": median(measurement),
            "least_microseconds": min(measurement.samples),
            "spread": spread(measurement),
            "first_seconds": measurement.first_seconds,
            "error_in_tolerances": measurement.error,
            "samples_microseconds": measurement.samples,
        }
        if peer != OWN:
            figures["graphc_speed_ratio"] = ratio(results, peer)
    return figures
