"""Matrix products."""

from __future__ import annotations

from benchmarks.workloads.base import Goal, Workload, normal

_SIZES = (
    *((n, n, n) for n in (64, 128, 256, 512, 1024, 2048)),
    (1, 1024, 4096),
    (32, 784, 512),
    (8, 4096, 4096),
)

def workloads(quick: bool) -> tuple[Workload, ...]:
    """The family."""
    count, (m, k, n) = (3, (8, 4, 8)) if quick else (64, (128, 64, 128))
    return (
        *(_product(*size, quick) for size in _SIZES),
        Workload(
            "matmul_batched",
            "matmul",
            f"{count} times {m}×{k} by {k}×{n}",
            lambda random: {"a": normal(random, count, m, k), "b": normal(random, count, k, n)},
            lambda i: (i["a"] @ i["b"],),
            flops=2 * count * m * k * n,
            bytes=4 * count * (m * k + k * n + m * n),
            absolute=1e-3,
            goals=(Goal(1.0),),
        ),
    )


def _product(m: int, k: int, n: int, quick: bool) -> Workload:
    name = f"matmul_{m}" if m == k == n else f"matmul_{m}x{k}x{n}"
    if quick:
        m, k, n = (min(size, 8 + size // 64) for size in (m, k, n))
    return Workload(
        name,
        "matmul",
        f"{m}×{k} by {k}×{n}",
        lambda random: {"a": normal(random, m, k), "b": normal(random, k, n)},
        lambda i: (i["a"] @ i["b"],),
        flops=2 * m * k * n,
        bytes=4 * (m * k + k * n + m * n),
        absolute=2e-3,
        goals=(Goal(1.0),),
    )
