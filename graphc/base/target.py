"""The machine code is made for: CPU, features, vector width, caches.

Loads LLVM's binding only when the host is asked for, so that loading an exported artifact does not.
"""

from __future__ import annotations

import platform
import sys
import warnings
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

    @property
    def scales(self) -> bool:
        """Whether vectors are multiplied by powers of two in one instruction (AVX-512's scalef).

        Only beside fused multiply-add: without it a function may round an exponent up for one
        lane count and down for another.
        """
        return self.has_fma and self.vector_bits >= 512 and "+avx512f" in self.features.split(",")

    def without_fma(self) -> Target:
        """The same target with fused multiply-add switched off (it changes bits of class R)."""
        kept = [f for f in self.features.split(",") if f not in ("+fma", "+fma4")]
        return replace(self, features=",".join([*kept, "-fma", "-fma4"]), has_fma=False)


def unsupported_platform() -> str | None:
    """The name of the platform this runs on if it is not Linux on x86-64, else None."""
    system, machine = platform.system(), platform.machine()
    if system == "Linux" and machine.lower() in ("x86_64", "amd64"):
        return None
    return f"{system or sys.platform} on {machine or 'an unknown machine'}"


def warn_of_platform() -> None:
    """Warns where graphc was never tried, so that later failures surprise nobody."""
    name = unsupported_platform()
    if name is not None:
        warnings.warn(
            f"graphc is tested on Linux x86-64 only; it does not run graphs on {name}",
            RuntimeWarning,
            stacklevel=3,
        )


@cache
def host() -> Target:
    """The machine this runs on.

    Raises:
        UnsupportedError: on anything but Linux on 64-bit x86 with SSE4.2.
    """
    unsupported = unsupported_platform()
    if unsupported is not None:
        raise UnsupportedError(
            f"graphc is tested on Linux x86-64 only, this is {unsupported}",
            hint="run it on Linux on an x86-64 machine",
        )
    import llvmlite.binding as llvm

    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
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
