"""The numerics audit: how far what a program computes is from what it means, line by line.

A shadow in wider numbers is run beside the program, node by node, on the graph as written. The
program's values are computed natively under ``numerics="strict"``; what the rewrites outside of it
contribute is found by switching each off. ``Executable.audit`` is the way in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from graphc.base.errors import GraphError
from graphc.base.options import Options
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.checking.audit.double_double import DoubleDoubleShadow
from graphc.checking.audit.measure import ulp_errors
from graphc.checking.audit.native import PartCompiler, strict
from graphc.checking.audit.report import Audit, Contribution, Event, LineError, ResultError
from graphc.checking.audit.run import Pair, ShadowRun
from graphc.checking.audit.shadow import Doubles, DoubleShadow, Shadow
from graphc.compiling.compiled import Compiled
from graphc.compiling.compiler import compile_graph
from graphc.compiling.extraction import Extraction
from graphc.ir.attributes import Array
from graphc.ir.dtypes import dtype, floating
from passes.infra.base import Decision
from passes.pipeline import INEXACT

_SHADOWS: dict[str, Callable[[], Shadow]] = {
    "float64": DoubleShadow,
    "double-double": DoubleDoubleShadow,
}


def audit(
    extraction: Extraction,
    compiled: Compiled,
    options: Options,
    arrays: Sequence[Array],
    precision: str = "float64",
) -> Audit:
    """Runs a program and its shadow.

    Args:
        extraction, compiled, options: the program.
        arrays: its inputs, feeds then states; nothing is written back.
        precision: ``float64``, for programs in float32, or ``double-double``, for all.

    Raises:
        GraphError: for another precision.
        UnsupportedError: for an op that the shadow cannot evaluate, naming the user's line.
        IndexRangeError, ShapeError: whatever the program itself raises.
    """
    shadow = _shadow(precision)
    outputs = compiled.program.run(arrays)
    source = extraction.graph
    native = PartCompiler(options, compiled.target, dict(zip(source.inputs, arrays, strict=True)))
    run = ShadowRun(native, shadow)
    pairs = run.walk(source, [run.pair(np.asarray(array)) for array in arrays])
    measured = _Results(shadow, pairs)
    names = _names(extraction)
    results = [
        ResultError(names[place], *_extent(errors), _extent(measured.of_strict(place))[0])
        for place, errors in measured.errors(outputs)
    ]
    rewrites = _contributions(extraction, compiled, options, arrays, outputs, measured)
    return Audit(
        precision, run.lines(), run.events(), tuple(results), tuple(rewrites), run.unmeasured
    )


def _shadow(precision: str) -> Shadow:
    if not isinstance(precision, str) or precision not in _SHADOWS:
        raise GraphError(
            f"precision={shown(precision)}",
            where=caller(),
            hint=f"an audit has {' or '.join(map(repr, _SHADOWS))}",
        )
    return _SHADOWS[precision]()


class _Results:
    """The shadows of the results."""

    def __init__(self, shadow: Shadow, pairs: Sequence[Pair]) -> None:
        self._pairs = pairs
        self._exact: dict[int, tuple[Doubles, Doubles]] = {}
        for place, pair in enumerate(pairs):
            if pair.wide is not None and dtype(pair.computed.dtype).digits < shadow.digits:
                self._exact[place] = shadow.parts(pair.wide)

    def errors(self, outputs: Sequence[Array]) -> Iterator[tuple[int, Doubles]]:
        """Of each result that can be measured its place and its errors."""
        for place, exact in self._exact.items():
            yield place, ulp_errors(outputs[place], *exact)

    def of_strict(self, place: int) -> Doubles:
        """The errors of a result of the strict program."""
        return ulp_errors(self._pairs[place].computed, *self._exact[place])

    def worst(self, outputs: Sequence[Array], places: Collection[int]) -> float:
        """The largest error of the results at these places, NaN if none can be measured."""
        errors = (errors for place, errors in self.errors(outputs) if place in places)
        return max((_extent(error)[0] for error in errors), default=math.nan)


def _extent(errors: Doubles) -> tuple[float, float]:
    """The largest error and the mean of the finite ones."""
    finite = errors[np.isfinite(errors)]
    mean = float(finite.mean()) if finite.size else 0.0
    return float(errors.max(initial=0.0)), mean


def _names(extraction: Extraction) -> list[str]:
    """What results are called: their names, the variables they are new values of, or numbers."""
    outputs = extraction.graph.outputs
    results = len(outputs) - len(extraction.written)
    names = [value.name or f"result {n}" for n, value in enumerate(outputs[:results])]
    return names + [f"new value of {value.name or value.type}" for value in extraction.written]


# --- rewrites ------------------------------------------------------------------------------------


def _contributions(
    extraction: Extraction,
    compiled: Compiled,
    options: Options,
    arrays: Sequence[Array],
    outputs: Sequence[Array],
    measured: _Results,
) -> Iterator[Contribution]:
    """The rewrites that the strict program does not have, each switched off in turn."""
    target = compiled.target
    allowed = _fired(compile_graph(extraction, strict(options), target))
    # Equal graphs share a program, whose records name the lines of the first of them.
    own = extraction.graph is compiled.source
    program = compiled if own else compile_graph(extraction, options, target)
    for rewrite, decisions in _fired(program).items():
        if rewrite in allowed or rewrite not in INEXACT:
            continue
        without = replace(strict(options), numerics=options.numerics, fast_math=options.fast_math)
        without = replace(without, off=options.off | {rewrite})
        others = compile_graph(extraction, without, target).program.run(arrays)
        changed = [_changed(one, other) for one, other in zip(outputs, others, strict=True)]
        places = [n for n, count in enumerate(changed) if count] or range(len(outputs))
        lines = {str(decision.where): decision.where for decision in decisions}
        yield Contribution(
            rewrite,
            tuple(where for where in lines.values() if where is not None),
            measured.worst(outputs, places),
            measured.worst(others, places),
            sum(changed),
        )


def _fired(program: Compiled) -> dict[str, list[Decision]]:
    """The decisions made, by the name of the rewrite."""
    found: dict[str, list[Decision]] = {}
    for record in program.records:
        for decision in record.decisions:
            if decision.number:
                found.setdefault(decision.rule, []).append(decision)
    return found


def _changed(one: Array, other: Array) -> int:
    """In how many elements two arrays differ, NaN being NaN and 0 not -0."""
    with np.errstate(all="ignore"):
        different: Any = one != other
        if floating(one.dtype):
            different &= ~(np.isnan(one) & np.isnan(other))
            different |= (one == 0) & (other == 0) & (np.signbit(one) != np.signbit(other))
    return int(np.count_nonzero(different))


__all__ = ["Audit", "Contribution", "Event", "LineError", "ResultError", "audit"]
