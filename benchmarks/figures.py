"""What follows from the samples: medians, ratios, shares of the limit, goals reached.

Ratios are of time, graphc's over the peer's: below 1 graphc is faster. Peers measure in the same
rounds, so a ratio is the median over rounds of the ratio within a round, which a slow drift of the
machine does not touch. A peer that writes results into buffers that are kept is compared with
graphc doing the same, if that was measured.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from benchmarks.conductor import Measurement
from benchmarks.peers import KEEPERS, OWN, OWN_KEPT, OWNS
from benchmarks.workloads.base import BEST, NEAR_LIMIT, Goal

Results = Mapping[str, Measurement]


def is_timed(measurement: Measurement | None) -> bool:
    """Whether there are figures."""
    return measurement is not None and measurement.status == "timed" and bool(measurement.samples)


def median(measurement: Measurement) -> float:
    """Median microseconds a call."""
    return statistics.median(measurement.samples)


def spread(measurement: Measurement) -> float:
    """How far apart the quartiles are, as a part of the median: how quiet the machine was."""
    if len(measurement.samples) < 4:
        return (max(measurement.samples) - min(measurement.samples)) / median(measurement)
    low, _, high = statistics.quantiles(measurement.samples, n=4)
    return (high - low) / median(measurement)


def ratio(results: Results, peer: str) -> float | None:
    """graphc's time over the peer's; None where one of them has no figure."""
    own = results.get(OWN_KEPT) if peer in KEEPERS else None
    if not is_timed(own):
        own = results.get(OWN)
    other = results.get(peer)
    if own is None or other is None or not is_timed(own) or not is_timed(other):
        return None
    return statistics.median(a / b for a, b in zip(own.samples, other.samples, strict=False))


@dataclass(frozen=True, slots=True)
class Best:
    """The peer that graphc has to beat, and graphc's time over its."""

    peer: str
    ratio: float


def best(results: Results) -> Best | None:
    """The peer against which graphc stands worst."""
    ratios = ((ratio(results, peer), peer) for peer in results if peer not in OWNS)
    found = [(share, peer) for share, peer in ratios if share is not None]
    if not found:
        return None
    share, peer = max(found)
    return Best(peer, share)


def share_of_limit(results: Results) -> float | None:
    """The least possible time over that of graphc's best variant; None where it says nothing.

    The limit is measured beside each sample, so that a ratio within a round means something.
    """
    own = [results[name] for name in (OWN, OWN_KEPT) if is_timed(results.get(name))]
    shares = [
        statistics.median(a / b for a, b in zip(one.least, one.samples, strict=True))
        for one in own
        if one.least
    ]
    return max(shares, default=None)


def reached(goal: Goal, results: Results) -> bool | None:
    """Whether a goal is reached, by the ratio or by the physical limit; None if nobody can tell."""
    share = share_of_limit(results)
    if share is not None and share >= NEAR_LIMIT:
        return True
    if goal.peer != BEST:
        found = ratio(results, goal.peer)
    else:
        leader = best(results)
        found = None if leader is None else leader.ratio
    return None if found is None else found <= goal.share


def geometric_mean(ratios: Iterable[float]) -> float:
    """Of ratios of several workloads."""
    logarithms = [math.log(one) for one in ratios]
    return math.exp(sum(logarithms) / len(logarithms))
