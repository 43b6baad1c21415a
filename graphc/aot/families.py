"""For which processors a library has code: one, or several of a family among which it chooses."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from graphc.base.errors import GraphError, UnsupportedError
from graphc.base.source import caller
from graphc.base.target import ANYWHERE, LEVELS, NAMES, Target, host, named
from graphc.base.words import shown


@dataclass(frozen=True, slots=True)
class Family:
    """What a library is made for.

    Attributes:
        base: the plainest processor, for the code around the kernels.
        programs: name, level of x86-64 (0 elsewhere) and target of each program, the best first.
    """

    base: Target
    programs: tuple[tuple[str, int, Target], ...]

    @property
    def is_hosted(self) -> bool:
        """Whether there is a C library."""
        return self.base.system != "none"


def family_of(target: str, variants: Collection[str] = ()) -> Family:
    """The family of a target; ``variants`` are the levels to have code for, "x86-64-v3" for one.

    Raises:
        GraphError: for variants that are not of one family.
        UnsupportedError: for an unknown target.
    """
    if not isinstance(target, str) or target not in NAMES:
        raise UnsupportedError(
            f"unknown target {shown(target)}", where=caller(), hint=f"known are {', '.join(NAMES)}"
        )
    if isinstance(variants, str) or not isinstance(variants, Collection):
        raise GraphError(
            f"variants={shown(variants)}",
            where=caller(),
            hint='give a collection of names, such as ("x86-64-v2", "x86-64-v3")',
        )
    if target == "host":
        target = _level_of_host()
    if target in LEVELS:
        levels = list(LEVELS)
        known = [level for level in levels if level in NAMES]
        wrong = [each for each in variants if each not in known]
        if wrong:
            raise GraphError(
                f"variants={tuple(variants)!r}: {wrong[0]!r} is no level of x86-64",
                where=caller(),
                hint=f"the levels are {', '.join(known)}",
            )
        chosen = sorted(set(variants) or {target}, key=levels.index, reverse=True)
        programs = tuple(
            (_label(each), levels.index(each) + 1, named(each)) for each in chosen
        )
        return Family(ANYWHERE, programs)
    if variants:
        raise GraphError(
            f"variants={tuple(variants)!r} are given for {target}",
            where=caller(),
            hint="only x86-64 has several levels to choose among",
        )
    only = named(target)
    level = list(LEVELS).index(only.cpu) + 1 if only.cpu in LEVELS else 0
    base = replace(ANYWHERE, triple=only.triple) if level else only
    return Family(base, ((_label(target), level, only),))


def _level_of_host() -> str:
    """The best level that this machine has: a library for it can be run by others like it."""
    here = {name for name in host().features.split(",") if name.startswith("+")}
    fitting = (
        name for name, needs in LEVELS.items() if here.issuperset(f"+{f}" for f in needs.features)
    )
    return list(fitting)[-1]


def _label(target: str) -> str:
    return target.replace("-", "_")


__all__ = ["Family", "family_of"]
