"""Options of a compilation, from arguments and from the environment variable ``GRAPHC``.

Invariant: an ``Options`` is checked when it is made, so that whoever reads one can trust it. An
argument beats the environment, the environment beats the default; unknown keys are errors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from graphc.base.errors import GraphError
from graphc.base.source import caller
from graphc.base.threads import usable_threads
from graphc.base.words import is_count, shown

VARIABLE = "GRAPHC"
MOST_OPTIMIZED = 3
"""The highest level of ``optimize``."""
FAST_MATH = ("nnan", "ninf", "nsz", "reassoc", "contract", "approx")


_SWITCHES = ("on", "off", "yes", "no", "true", "false", "0", "1", "none")
"""What one may write to switch something, in any case."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile and run.

    Attributes:
        numerics: "default", or "strict": no rewriting that changes bits, not even for stability.
        fast_math: flags that open inexact rewriting: ``nnan`` (no NaN occurs), ``ninf`` (no
            infinity), ``nsz`` (the sign of zero does not matter), ``reassoc`` (sums and products
            may be regrouped), ``contract`` (multiply and add may be fused), ``approx`` (faster and
            less accurate functions). They permit; each rule says which it needs.
        verify: check all invariants after every pass.
        check: evaluate every pass and every rule that fires before and after, on random inputs with
            special values, and every kernel at its three levels; a difference is an error that
            names what made it. Slow.
        check_numerics: look at each result of a run; a NaN or an infinity is an error that names
            the operation that made it, or the feed it came with. Those of constants may pass.
        shuffle_seed: put nodes into another random topological order before every pass.
        off: names of optional passes and of rules that don't run.
        dump: names of passes after which the graph is printed; "all" stands for every one.
        fuel: how many optional decisions (rules, merging, folding, fusion, reuse of memory) may be
            made; None is no limit.
        decisions: a file to which each decision is appended as a line when it is made. Numbers of
            decisions, and fuel, then count on from what is in it, so that all programs that write
            to it have one numbering.
        threads: how many threads may run a kernel; None for all usable CPUs.
        time: print what each pass took.
        html: write a report of each program that a session compiles: of the first to this file,
            of the second to one whose name has ``-2`` before its ending, and so on.
        optimize: how much to spend on compiling; results are the same to the bit. 0 makes one small
            kernel of each operation; 1 fuses, leaves constants in their layout, and has machine
            code translated without optimising it; 2 has all there is, and in a session large
            programs answer with the program of 0 until theirs is ready (``Executable.wait``); 3 is
            2 without that: compiling ends when all is done.
        cache: the directory that keeps compiled programs between processes, or "off"; None is
            ``graphc`` in the user's directory of caches.
        memory_limit: what the arena of a run may take, in bytes or as "512MB" or "1.5GiB"; values
            are computed again where it would take more. Symbolic sizes are those planned for, and
            ``optimize`` is 2 or 3. None is no limit. Under ``fuel``, ``decisions`` and
            ``shuffle_seed`` it is aimed at, and nothing is refused.
    """

    numerics: Literal["default", "strict"] = "default"
    fast_math: frozenset[str] = frozenset()
    verify: bool = False
    check: bool = False
    check_numerics: bool = False
    shuffle_seed: int | None = None
    off: frozenset[str] = frozenset()
    dump: tuple[str, ...] = ()
    fuel: int | None = None
    decisions: str | None = None
    threads: int | None = None
    time: bool = False
    html: str | None = None
    optimize: int = 2
    cache: str | None = None
    memory_limit: int | str | None = None

    def __post_init__(self) -> None:
        """Takes any collection of names.

        Raises:
            GraphError: for a value that an option cannot have.
        """
        for name in ("fast_math", "off"):
            object.__setattr__(self, name, frozenset(_names(name, getattr(self, name))))
        object.__setattr__(self, "dump", tuple(_names("dump", self.dump)))
        if self.numerics not in ("default", "strict"):
            raise _refusal(
                f"numerics is {self.numerics!r}", hint='it must be "default" or "strict"'
            )
        unknown = sorted(self.fast_math.difference(FAST_MATH))
        if unknown:
            raise _refusal(
                f"unknown fast-math flag {', '.join(map(repr, unknown))}",
                hint=f"known are {', '.join(FAST_MATH)}",
            )
        for name, least in (("fuel", 0), ("threads", 1), ("shuffle_seed", 0)):
            _check_number(name, getattr(self, name), least)
        object.__setattr__(self, "memory_limit", _bytes(self.memory_limit))
        if type(self.optimize) is not int or not 0 <= self.optimize <= MOST_OPTIMIZED:
            raise _refusal(
                f"optimize is {self.optimize!r}", hint=f"it must be an int, 0 to {MOST_OPTIMIZED}"
            )
        kinds = ("html", "the name of a file"), ("decisions", "a path"), ("cache", "a directory")
        for name, what in kinds:
            given = getattr(self, name)
            if given is not None and not (isinstance(given, str) and given and "\0" not in given):
                raise _refusal(f"{name} is {shown(given)}", hint=f"it must be None or {what}")
        if self.cache is not None and self.cache != "off" and self.cache.lower() in _SWITCHES:
            raise _refusal(
                f"cache is {self.cache!r}",
                hint="leave it out for the usual directory, or give a directory (one of that name "
                f'is "./{self.cache}"), or "off" for none',
            )
        for name in ("verify", "check", "check_numerics", "time"):
            given = getattr(self, name)
            if not isinstance(given, bool):
                raise _refusal(f"{name} is {shown(given)}", hint="it must be True or False")

    @property
    def most_bytes(self) -> int | None:
        """The memory limit in bytes."""
        assert not isinstance(self.memory_limit, str), "it is made a number"
        return self.memory_limit

    @property
    def thread_count(self) -> int:
        """How many threads may run a kernel: those asked for, or one for each usable CPU."""
        return self.threads or usable_threads()

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] | None = None, **arguments: Any
    ) -> Options:
        """The defaults, changed by the variable ``GRAPHC``, changed by the arguments.

        ``GRAPHC="check,time,dump=fusion,off=cse+dce,seed=7,fuel=412"``: settings are separated by
        commas, several names of one setting by ``+`` (or the setting is repeated).

        Raises:
            GraphError: for an unknown setting, naming the known ones, or a value it cannot have.
        """
        text = (os.environ if environment is None else environment).get(VARIABLE, "")
        return cls(**{**_parse(text), **arguments})

    @classmethod
    def resolved(
        cls, given: Options | None, environment: Mapping[str, str] | None = None
    ) -> Options:
        """What applies when a user gives ``given``: what it leaves at its default may be set by
        the environment.

        Raises:
            GraphError: as ``from_environment``.
        """
        ambient = cls.from_environment(environment)
        if given is None:
            return ambient
        default = cls()
        chosen = {
            field.name: getattr(given, field.name)
            for field in fields(cls)
            if getattr(given, field.name) != getattr(default, field.name)
        }
        return replace(ambient, **chosen)


# --- checking ------------------------------------------------------------------------------------


def _refusal(message: str, *, hint: str) -> GraphError:
    """The error for an option, at the user's line."""
    return GraphError(message, where=caller(), hint=hint)


def _names(option: str, given: Any) -> list[str]:
    is_collection = isinstance(given, Iterable) and not isinstance(given, str)
    items = list(given) if is_collection else None
    if items is None or not all(isinstance(item, str) and item for item in items):
        hint = "it must be a collection of names, such as {'cse', 'dce'}"
        raise _refusal(f"{option} is {shown(given)}", hint=hint)
    return items


def _check_number(name: str, value: Any, least: int) -> None:
    if value is None or is_count(value, least):
        return
    hint = f"it must be None or an int of at least {least}"
    raise _refusal(f"{name} is {shown(value)}", hint=hint)


_UNITS = {
    "": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12,
    "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40,
}  # fmt: skip
_AMOUNT = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)


def _bytes(given: Any) -> int | None:
    """A number of bytes, from that or from a text such as "512MB"."""
    if given is None or is_count(given, 1):
        return given  # type: ignore[no-any-return]
    found = _AMOUNT.fullmatch(given) if isinstance(given, str) else None
    if found is not None and found[2].lower() in _UNITS:
        amount = int(float(found[1]) * _UNITS[found[2].lower()])
        if amount:
            return amount
    hint = 'it must be None, an int of bytes, or a text such as "512MB" or "1.5GiB"'
    raise _refusal(f"memory_limit is {shown(given)}", hint=hint)


# --- the environment -----------------------------------------------------------------------------

# setting -> (option, kind of value)
_SETTINGS: dict[str, tuple[str, Literal["flag", "names", "int", "word"]]] = {
    "verify": ("verify", "flag"),
    "check": ("check", "flag"),
    "check_numerics": ("check_numerics", "flag"),
    "time": ("time", "flag"),
    "dump": ("dump", "names"),
    "off": ("off", "names"),
    "seed": ("shuffle_seed", "int"),
    "fuel": ("fuel", "int"),
    "decisions": ("decisions", "word"),
    "threads": ("threads", "int"),
    "numerics": ("numerics", "word"),
    "fast_math": ("fast_math", "names"),
    "html": ("html", "word"),
    "optimize": ("optimize", "int"),
    "cache": ("cache", "word"),
    "memory_limit": ("memory_limit", "word"),
}

_EXAMPLES = {
    "dump": "all",
    "off": "cse+dce",
    "seed": "7",
    "fuel": "12",
    "decisions": "d.txt",
    "threads": "1",
    "numerics": "strict",
    "fast_math": "nsz+reassoc",
    "html": "out.html",
    "optimize": "1",
    "cache": "off",
    "memory_limit": "512MB",
}


def _parse(text: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        setting, equals, value = (part.strip() for part in item.partition("="))
        if setting not in _SETTINGS:
            raise _refusal(
                f"{VARIABLE} has the unknown setting {setting!r}",
                hint=f"known are {', '.join(_SETTINGS)}",
            )
        option, kind = _SETTINGS[setting]
        if bool(equals) is (kind == "flag") or (equals and not value):
            problem = "has no value" if kind != "flag" else "takes no value"
            form = setting if kind == "flag" else f"{setting}={_EXAMPLES.get(setting, '…')}"
            raise _refusal(f"{VARIABLE}: {setting} {problem}", hint=f"write {form}")
        if kind == "flag":
            result[option] = True
        elif kind == "names":
            names = [name.strip() for name in value.split("+")]
            result[option] = (*result.get(option, ()), *names)
        elif kind == "int":
            try:
                result[option] = int(value)
            except ValueError:
                raise _refusal(
                    f"{VARIABLE}: {setting} is {value!r}", hint="it must be a whole number"
                ) from None
        else:
            result[option] = value
    return result
