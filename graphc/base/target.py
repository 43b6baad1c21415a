"""The machine code is made for: CPU, features, vector width, caches.

Loads LLVM's binding only when the host is asked for, so that loading an exported artifact does not.
"""

from __future__ import annotations

import platform
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

from graphc.base.caches import USUAL, caches_of
from graphc.base.errors import UnsupportedError
from graphc.base.llvm import binding, within

CACHE_LINE = 64
"""Bytes of a cache line on every target. What a program holds in memory begins with one, and
threads never write to the same."""

PAGE = 4096
"""Bytes of a page; a processor takes addresses that are alike modulo this for the same."""


@dataclass(frozen=True, slots=True)
class CpuBit:
    """Where the ``cpuid`` instruction tells of a feature: a bit of a register, for a leaf."""

    leaf: int
    register: str
    bit: int


@dataclass(frozen=True, slots=True)
class CpuNeeds:
    """What a CPU must have for a psABI level of x86-64.

    Attributes:
        features: LLVM's name of each feature, and where ``cpuid`` tells of it (subleaf 0).
        states: the bits that ``xgetbv`` must give for register 0, since the system must save the
            wide registers too. It may be asked only where the bit ``OSXSAVE`` is set.
    """

    features: Mapping[str, CpuBit]
    states: int = 0


OSXSAVE = CpuBit(1, "ecx", 27)
"""The system has switched on ``xgetbv``."""

_V2 = {
    "sse3": CpuBit(1, "ecx", 0),
    "ssse3": CpuBit(1, "ecx", 9),
    "cx16": CpuBit(1, "ecx", 13),
    "sse4.1": CpuBit(1, "ecx", 19),
    "sse4.2": CpuBit(1, "ecx", 20),
    "popcnt": CpuBit(1, "ecx", 23),
    "sahf": CpuBit(0x80000001, "ecx", 0),
}
_V3 = _V2 | {
    "fma": CpuBit(1, "ecx", 12),
    "movbe": CpuBit(1, "ecx", 22),
    "xsave": CpuBit(1, "ecx", 26),
    "avx": CpuBit(1, "ecx", 28),
    "f16c": CpuBit(1, "ecx", 29),
    "bmi": CpuBit(7, "ebx", 3),
    "avx2": CpuBit(7, "ebx", 5),
    "bmi2": CpuBit(7, "ebx", 8),
    "lzcnt": CpuBit(0x80000001, "ecx", 5),
}
_V4 = _V3 | {
    "avx512f": CpuBit(7, "ebx", 16),
    "avx512dq": CpuBit(7, "ebx", 17),
    "avx512cd": CpuBit(7, "ebx", 28),
    "avx512bw": CpuBit(7, "ebx", 30),
    "avx512vl": CpuBit(7, "ebx", 31),
}

LEVELS: Mapping[str, CpuNeeds] = {
    "x86-64": CpuNeeds({}),
    "x86-64-v2": CpuNeeds(_V2),
    "x86-64-v3": CpuNeeds(_V3, 0x6),
    "x86-64-v4": CpuNeeds(_V4, 0xE6),
}
"""The psABI levels of x86-64, each with all that the ones before it need."""


@dataclass(frozen=True, slots=True)
class Target:
    """A target of code generation.

    Attributes:
        triple: LLVM's target triple.
        cpu: LLVM's name of the CPU or psABI level.
        features: LLVM's feature string ("+avx2,+fma,…").
        has_fma: whether contractions and functions may use fused multiply-add.
        vector_bits: width of the vector registers to plan for.
        l1_bytes, l2_bytes: data caches of one core, for schedules: no bit of a result depends on
            them.

    Named targets are fixed data, the same on every machine, so that what is made for them is. The
    host's caches are those that the system tells of.
    """

    triple: str
    cpu: str
    features: str
    has_fma: bool
    vector_bits: int
    l1_bytes: int = USUAL.l1_bytes
    l2_bytes: int = USUAL.l2_bytes

    @property
    def architecture(self) -> str:
        """The first part of the triple, with one name for one thing: x86_64, aarch64, wasm32."""
        name = self.triple.split("-", 1)[0]
        return "aarch64" if name == "arm64" else name

    @property
    def system(self) -> str:
        """What object files are made for: linux, windows, macos or none."""
        for word, name in (("linux", "linux"), ("windows", "windows"), ("macosx", "macos")):
            if f"-{word}" in self.triple:
                return name
        return "none"

    @property
    def has_threads(self) -> bool:
        """Whether kernels can be run by the thread pool, which sleeps as Linux lets it."""
        return self.system == "linux"

    @property
    def streams(self) -> bool:
        """Whether stores past the caches pay (x86: whole lines without reading them first)."""
        return self.architecture == "x86_64"

    @property
    def has_wide_products(self) -> bool:
        """Whether a product of two 64-bit words has an instruction that gives all of its bits."""
        return self.architecture != "wasm32"

    @property
    def has_compress(self) -> bool:
        """Whether chosen words of a vector are put side by side in one instruction or two.

        Without fused multiply-add LLVM has no AVX-512 either.
        """
        return self.has_fma and "+avx512f" in self.features.split(",")

    @property
    def has_half_conversions(self) -> bool:
        """Whether instructions convert between float16 and float32 (F16C, any 64-bit Arm)."""
        return self.architecture == "aarch64" or "+f16c" in self.features.split(",")

    @property
    def stores_halves(self) -> bool:
        """Whether the instruction that makes float16 of float32 can write it to memory (F16C)."""
        return self.architecture == "x86_64" and self.has_half_conversions

    @property
    def packs_conditions(self) -> bool:
        """Whether LLVM can make an integer of the truth values of a vector."""
        return self.architecture != "wasm32"

    @property
    def scales(self) -> bool:
        """Whether vectors are multiplied by powers of two in one instruction (AVX-512's scalef).

        Only beside fused multiply-add: without it a function may round an exponent up for one
        lane count and down for another.
        """
        return self.has_fma and self.vector_bits >= 512 and "+avx512f" in self.features.split(",")

    @property
    def masks(self) -> bool:
        """Whether some lanes of a vector, of elements of any size, are loaded and stored as fast as
        all of them (AVX-512, which LLVM has only beside fused multiply-add)."""
        names = self.features.split(",")
        return self.has_fma and {"+avx512bw", "+avx512vl"}.issubset(names)

    @property
    def permuted_bits(self) -> int:
        """The widest vectors of words that one instruction permutes as another one says; 0 if none.

        Without fused multiply-add LLVM has no AVX-512 either.
        """
        names = self.features.split(",")
        if self.has_fma and "+avx512f" in names:
            return 512
        return 256 if "+avx2" in names else 0

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
        UnsupportedError: on anything but Linux on 64-bit x86 with SSE4.2, or without LLVM.
    """
    unsupported = unsupported_platform()
    if unsupported is not None:
        raise UnsupportedError(
            f"graphc is tested on Linux x86-64 only, this is {unsupported}",
            hint="run it on Linux on an x86-64 machine",
        )
    return within(_described)


def _described() -> Target:
    """This machine, as LLVM knows it, with the caches that the system tells of."""
    llvm = binding()
    triple = llvm.get_process_triple()
    features = llvm.get_host_cpu_features()
    if not features.get("sse4.2"):
        raise UnsupportedError("this CPU lacks SSE4.2 (x86-64-v2), which graphc needs")
    bits = 512 if features.get("avx512f") else 256 if features.get("avx2") else 128
    return Target(
        triple,
        llvm.get_host_cpu_name(),
        features.flatten(),
        bool(features.get("fma")),
        bits,
        *caches_of(),
    )


def named(name: str) -> Target:
    """A target by its name: one of ``NAMES``.

    "host" is this machine; each other name means the same everywhere. "x86-64-v2" (no FMA),
    "x86-64-v3" (AVX2 and FMA) and "x86-64-v4" (AVX-512) are the psABI levels on Linux, "aarch64" is
    any 64-bit Arm on Linux, "aarch64-macos" Apple's, "x86-64-windows" Windows on x86-64-v3, and
    "wasm32" WebAssembly with vectors.

    Raises:
        UnsupportedError: for another name.
    """
    if name == "host":
        return host()
    found = _NAMED.get(name)
    if found is None:
        raise UnsupportedError(f"unknown target {name!r}", hint=f"known are {', '.join(NAMES)}")
    return found


def _x86(level: str, bits: int, triple: str = "x86_64-unknown-linux-gnu") -> Target:
    names = [f"+{name}" for name in LEVELS[level].features]
    if bits >= 512:
        # LLVM otherwise takes vectors of 512 bits apart on this level
        names.append("-prefer-256-bit")
    return Target(triple, level, ",".join(names), "+fma" in names, bits)


_WASM = "+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext,+simd128"

_NAMED: Mapping[str, Target] = {
    "x86-64-v2": _x86("x86-64-v2", 128),
    "x86-64-v3": _x86("x86-64-v3", 256),
    "x86-64-v4": _x86("x86-64-v4", 512),
    "aarch64": Target("aarch64-unknown-linux-gnu", "generic", "+fp-armv8,+neon", True, 128),
    "aarch64-macos": Target("arm64-apple-macosx11.0.0", "apple-m1", "+fp-armv8,+neon", True, 128),
    "x86-64-windows": _x86("x86-64-v3", 256, "x86_64-w64-windows-gnu"),
    "wasm32": Target("wasm32-unknown-unknown", "generic", _WASM, False, 128),
}

ANYWHERE = _x86("x86-64", 128)
"""What starts on every x86-64, to find out what it can do; kernels need the rounding of v2."""

NAMES = ("host", *_NAMED)
"""The names of targets."""


def obstacle(target: Target) -> str | None:
    """Why code for a target can't run in this process; None if it can."""
    here = host()
    if (target.architecture, target.system) != (here.architecture, here.system):
        return f"this machine is {here.triple}"
    wanted = {name for name in target.features.split(",") if name.startswith("+")}
    missing = sorted(wanted.difference(here.features.split(",")))
    if missing:
        return f"this CPU lacks {', '.join(name[1:] for name in missing)}"
    return None


def require_here(target: Target) -> None:
    """Checks that code for a target can run in this process.

    Raises:
        UnsupportedError: if it can't; loading such code would end the process.
    """
    reason = obstacle(target)
    if reason is not None:
        raise UnsupportedError(
            f"a program for {target.triple}, {target.cpu}, cannot run here: {reason}",
            hint="give no target, or one that this machine can run",
        )


def stand_in(target: Target) -> Target:
    """The target of this machine whose code gives the same bits as that of ``target``.

    Bits depend on fused multiply-add alone.

    Raises:
        UnsupportedError: if the target has FMA and this machine has not.
    """
    if obstacle(target) is None:
        return target
    here = host()
    if not target.has_fma:
        return here.without_fma()
    if not here.has_fma:
        raise UnsupportedError(
            f"constants for {target.triple} are computed with fused multiply-add, "
            "which this CPU lacks",
            hint="compile on a CPU with FMA, or for a target without it",
        )
    return here
