"""Moving elements: transposes and gathered rows."""

from __future__ import annotations

import numpy as np

from benchmarks.workloads.base import Goal, Workload, normal


def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    side = 32 if quick else 4096
    image = (2, 4, 8, 8) if quick else (16, 64, 112, 112)
    words, width, picked = (50, 16, 20) if quick else (50_000, 256, 8192)
    return (
        Workload(
            "transpose",
            "transpose",
            f"transposed copy, {side}×{side}",
            lambda random: {"x": normal(random, side, side)},
            lambda i: (i["x"].T,),
            bytes=side * side * 8,
            goals=(Goal(0.5),),
        ),
        Workload(
            "channels_last",
            "channels_last",
            f"{'×'.join(map(str, image))}, NCHW to NHWC",
            lambda random: {"x": normal(random, *image)},
            lambda i: (i["x"].transpose(0, 2, 3, 1),),
            bytes=float(np.prod(image)) * 8,
            goals=(Goal(0.5),),
        ),
        Workload(
            "embedding",
            "embedding",
            f"{picked} rows of a table, {words}×{width}",
            lambda random: {
                "table": normal(random, words, width),
                "rows": random.integers(0, words, picked),
            },
            lambda i: (i["table"][i["rows"]],),
            bytes=picked * width * 8,
        ),
    )
