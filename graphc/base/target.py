"""The machine code is made for: CPU, features, vector width, caches.

Loads LLVM's binding only when the host is asked for, so that loading an exported artifact does not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from graphc.base.errors import UnsupportedError

# features that each psABI level of x86-64 adds, in LLVM's spelling
_LEVELS: dict[str, tuple[str, ...]] = {
    "x86-64-v2": ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3"),
    "x86-64-v3": (
        "cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3",
        "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """A target of code generation.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the CPU or psABI level.
        features: LLVM's feature string ("+avx2,+fma,…").
        has_fma: whether contractions and functions may use fused multiply-add.
        vector_bits: width of the vector registers to plan for.
        l1_bytes, l2_bytes: data caches of one core, for blocking.
    """

    triple: str
    cpu: str
    features: str
    has_fma: bool
    vector_bits: int
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 512 * 1024

    def without_fma(self) -> Target:
        """The same target with fused multiply-add switched off (it changes bits of class R)."""
        kept = [f for f in self.features.split(",") if f not in ("+fma", "+fma4")]
        return replace(self, features=",".join([*kept, "-fma", "-fma4"]), has_fma=False)


@cache
def host() -> Target:
    """The machine this runs on.

    Raises:
        UnsupportedError: on anything but 64-bit x86 with SSE4.2.
    """
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    if not triple.startswith("x86_64"):
        raise UnsupportedError(
            f"graphc is tested on Linux x86-64 only, this machine is {triple}",
            hint="run it on an x86-64 machine",
        )
    if not features.get("sse4.2"):
        raise UnsupportedError("this CPU lacks SSE4.2 (x86-64-v2), which graphc needs")
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return Target(
        triple, llvm.get_host_cpu_name(), features.flatten(), bool(features.get("fma")), bits
    )


def named(level: str) -> Target:
    """A psABI level of Linux x86-64: "x86-64-v2" (no FMA) or "x86-64-v3" (AVX2 and FMA)."""
    if level not in _LEVELS:
        raise UnsupportedError(f"unknown target {level!r}", hint=f"known are {', '.join(_LEVELS)}")
    features = ",".join(f"+{name}" for name in _LEVELS[level])
    wide = level == "x86-64-v3"
    return Target(
        "x86_64-unknown-linux-gnu", level, features, wide, 256 if wide else 128
    )
