"""Decisions as tests: what a program must have been compiled to, checked like a number.

    gx.testing.expect(exe, kernels=1, peak_bytes="8 MB", recompiles=0, fired=["log-sum-exp"])

Numbers are bounds: a program that gets better still passes. Invariant: all expectations are
checked before anything is raised, and each that fails says what was found and, where that is known,
why.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from graphc.base.errors import GraphcError, GraphError
from graphc.base.source import caller
from graphc.base.words import is_count, shown
from graphc.ir.value import Value
from graphc.plan.ir import Copy, Launch
from graphc.session.executable import Executable
from graphc.session.feeds import mapping_of
from passes.infra.base import Decision
from passes.pipeline import NAMES

_UNITS = {
    "B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9,
    "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")
_BULLET = "\n  * "
_SHOWN = 5
"""So many kernels, values or decisions are listed."""


class ExpectationError(GraphcError, AssertionError):
    """What a program was expected to be compiled to, and is not."""

    @property
    def failures(self) -> tuple[str, ...]:
        """One text for each expectation that does not hold."""
        return tuple(self.message.split(_BULLET)[1:])


def expect(
    executable: Executable,
    *,
    kernels: int | None = None,
    steps: int | None = None,
    peak_bytes: int | str | None = None,
    recompiles: int | None = None,
    fired: Iterable[str] = (),
    not_fired: Iterable[str] = (),
    fused: Iterable[tuple[Value | str, Value | str]] = (),
    dims: Mapping[str, int] | None = None,
) -> None:
    """Checks what a program was compiled to.

    Args:
        executable: what ``Session.compile`` gives.
        kernels: the most different kernels that it may have.
        steps: the most launches and copies that it may have, each turn of a loop counted once.
        peak_bytes: the most that its temporaries may take: a number of bytes, or text such as
            ``"8 MB"`` or ``"512 KiB"``.
        recompiles: the most programs that its session may have compiled after this one.
        fired: names of rules, or of passes without rules, that changed something.
        not_fired: names of those that changed nothing.
        fused: pairs of values, or their names, that one kernel computes.
        dims: the sizes of symbolic dims that ``peak_bytes`` is about; by default those that
            memory was planned for.

    Raises:
        ExpectationError: an AssertionError that says of each expectation what was found.
        GraphError: for a size that can't be read, and for a name in ``not_fired`` that no rule or
            pass bears.
        NameLookupError: for a value that is not there.
    """
    if not isinstance(executable, Executable):
        raise GraphError(
            f"what is expected of is an executable, not {shown(executable)}",
            where=caller(),
            hint="give what session.compile(fetches, feeds) gives",
        )
    for name, most in (("kernels", kernels), ("steps", steps), ("recompiles", recompiles)):
        if most is not None and not is_count(most, 0):
            raise GraphError(
                f"{name} is {shown(most)}", where=caller(), hint="it must be None or an int"
            )
    fired, not_fired = _names_in("fired", fired), _names_in("not_fired", not_fired)
    pairs = _pairs_in(fused)
    failures = [
        *_kernels(executable, kernels),
        *_steps(executable, steps),
        *_memory(executable, peak_bytes, mapping_of({} if dims is None else dims, "dims")),
        *_recompiles(executable, recompiles),
        *_fired(executable, fired, not_fired),
    ]
    for a, b in pairs:
        answer = executable.why_not_fused(a, b)
        if not answer:
            failures.append(f"fused: {answer}")
    if failures:
        listed = "".join(f"{_BULLET}{failure}" for failure in failures)
        raise ExpectationError(f"{executable!r} is not what was expected:{listed}", where=caller())


def _names_in(what: str, given: Any) -> list[str]:
    """The names that are expected of."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        names = list(given)
        if all(isinstance(name, str) for name in names):
            return names
    raise GraphError(
        f"{what} is {shown(given)}", where=caller(), hint='give a list of names, as ["cse"]'
    )


def _pairs_in(given: Any) -> list[tuple[Any, Any]]:
    """The pairs of values that one kernel is expected to compute."""
    if isinstance(given, Iterable) and not isinstance(given, str):
        pairs = list(given)
        if all(isinstance(pair, (list, tuple)) and len(pair) == 2 for pair in pairs):
            return [(a, b) for a, b in pairs]
    raise GraphError(
        f"fused is {shown(given)}", where=caller(), hint="give a list of pairs, as [(a, b)]"
    )


def _some(items: Iterable[str]) -> str:
    """The first few of a list."""
    listed = list(items)
    rest = f", and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + rest


def _lines_of(executable: Executable, kernel: int) -> str:
    steps = executable.compiled.plan.steps
    lines = [str(s.where) for s in steps if isinstance(s, Launch) and s.kernel == kernel]
    return _some(dict.fromkeys(lines))


def _kernels(executable: Executable, most: int | None) -> Iterator[str]:
    found = executable.kernels
    if most is not None and len(found) > most:
        names = (f"{k.name} ({_lines_of(executable, n)})" for n, k in enumerate(found))
        yield f"kernels: at most {most} expected, {len(found)} found: {_some(names)}"


def _steps(executable: Executable, most: int | None) -> Iterator[str]:
    plan = executable.compiled.plan
    found = [step for step in plan.steps if isinstance(step, (Launch, Copy))]
    if most is not None and len(found) > most:
        names = (
            f"{plan.kernels[step.kernel].name} ({step.where})"
            if isinstance(step, Launch)
            else f"a copy of {plan.slots[step.source].type}"
            for step in found
        )
        yield f"steps: at most {most} expected, {len(found)} found: {_some(names)}"


def _memory(
    executable: Executable, most: int | str | None, dims: Mapping[str, int]
) -> Iterator[str]:
    if most is None:
        return
    peak = executable.memory_at(**dims).peak_bytes
    if peak > bytes_of(most):
        plan = executable.compiled.plan
        assert plan.layout is not None, "a compiled plan is placed"
        sized = sorted(zip(plan.layout.sizes, plan.layout.slots, strict=True), reverse=True)
        largest = (f"{plan.slots[n].type} at {plan.slots[n].where}" for _, n in sized)
        yield f"peak_bytes: at most {most} expected, {peak} found; the largest are {_some(largest)}"


def bytes_of(size: int | str) -> int:
    """A number of bytes, also from text such as ``8 MB``; ``kB`` is 1000 and ``KiB`` 1024 of them.

    Raises:
        GraphError: for anything else.
    """
    if isinstance(size, int) and not isinstance(size, bool):
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    if found is None or found[2] not in _UNITS:
        raise GraphError(
            f"{size!r} is not a size",
            where=caller(),
            hint=f"give bytes, or text such as '8 MB' in one of {', '.join(_UNITS)}",
        )
    return int(float(found[1]) * _UNITS[found[2]])


def _recompiles(executable: Executable, most: int | None) -> Iterator[str]:
    found = executable.recompilations
    if most is not None and len(found) > most:
        reasons = _some(map(str, found))
        yield f"recompiles: at most {most} expected, {len(found)} found: {reasons}"


def _fired(executable: Executable, wanted: list[str], unwanted: list[str]) -> Iterator[str]:
    decisions: dict[str, list[Decision]] = {}
    for record in executable.passes:
        for decision in record.decisions:
            decisions.setdefault(decision.rule, []).append(decision)
    made = {name for name, all_ in decisions.items() if any(d.number for d in all_)}
    for name in wanted:
        if name not in made:
            declined = decisions.get(name, [])
            yield f"fired: {name} did nothing{_why_not(executable, name, declined)}"
    _check_names(unwanted, decisions.keys())
    for name in unwanted:
        if name in made:
            places = _some(str(d.where) for d in decisions[name] if d.number)
            yield f"not_fired: {name} was applied at {places}"


def _why_not(executable: Executable, name: str, declined: list[Decision]) -> str:
    """What is known of why nothing was decided under a name."""
    options = executable.options
    if name in options.off:
        return ", it is switched off"
    if declined:
        return f": {_some(f'{d.reason} at {d.where}' for d in declined)}"
    if name not in NAMES.all:
        return f", and no rule or pass has this name{_close(name)}"
    return f', perhaps for numerics="{options.numerics}"' if options.numerics == "strict" else ""


def _close(name: str) -> str:
    found = difflib.get_close_matches(name, sorted(NAMES.all), cutoff=0.7)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def _check_names(names: Iterable[str], seen: Iterable[str]) -> None:
    known = NAMES.all.union(seen)
    for name in names:
        if name not in known:
            raise GraphError(
                f"not_fired={name!r}: no rule or pass has this name{_close(name)}",
                where=caller(),
                hint="docs/rules.md lists the rules",
            )


__all__ = ["ExpectationError", "bytes_of", "expect"]
