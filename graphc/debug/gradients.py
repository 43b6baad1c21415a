"""Gradients by layer: which vanish, explode or are dead, over a few batches.

The gradients are computed by the session as in a step, and looked at in float64. What is said of a
layer compares it with the other ones; the figures stand beside it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.base.errors import FeedError, GraphError
from graphc.base.source import Location, caller
from graphc.frontend.differentiate import gradients
from graphc.frontend.parameters import trainable_variables
from graphc.frontend.state import Variable
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.ops.arguments import items_of

if TYPE_CHECKING:
    from graphc.session.session import Session

VANISHES, EXPLODES = 1e-4, 1e4
"""Of the median over the layers whose gradients are neither zero nor infinite: below and above
this many times that a root mean square is said to vanish or to explode."""

DEAD = 0.5
"""A layer is marked if so many of its units have gradients of zero."""


@dataclass(frozen=True, slots=True)
class LayerGradient:
    """The gradient of one parameter over some batches.

    Attributes:
        name: of the variable.
        where: the line that made it.
        size: how many elements it has.
        rms: the root of the mean square over all elements and batches; of those that are finite.
        largest: the largest size of an element.
        relative: the norm by that of the parameter, in the mean over batches; NaN of a parameter
            that is zero.
        zeros: the share of elements that are zero in all batches.
        units: how many units there are, which are the columns along the last axis; the elements of
            a vector; 1 of a scalar.
        dead: how many of them have zeros only, in all batches.
        not_finite: how many elements are NaN or infinite, all batches together.
        verdict: "dead", "explodes", "vanishes", "not finite", "N of M units dead", or nothing.
    """

    name: str
    where: Location | None
    size: int
    rms: float
    largest: float
    relative: float
    zeros: float
    units: int
    dead: int
    not_finite: int
    verdict: str


@dataclass(frozen=True, slots=True)
class Gradients:
    """The gradients of a loss by layer; its text is a table, ``report`` writes a page.

    Attributes:
        loss: what it is called.
        batches: over how many of them.
        layers: in the order in which the parameters were made.
    """

    loss: str
    batches: int
    layers: tuple[LayerGradient, ...]

    @property
    def _title(self) -> str:
        count = "1 batch" if self.batches == 1 else f"{self.batches} batches"
        return f"gradients of {self.loss} by layer, {count}"

    @property
    def marked(self) -> tuple[LayerGradient, ...]:
        """The layers of which something is said."""
        return tuple(layer for layer in self.layers if layer.verdict)

    def __str__(self) -> str:
        head, *rows = self.table()
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        lines = [self._title]
        for row in (head, *rows):
            name, *figures, verdict = row
            pairs = zip(figures, widths[1:-1], strict=True)
            cells = [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in pairs), verdict]
            lines.append("  ".join(cells).rstrip())
        return "\n".join(lines)

    def table(self) -> list[tuple[str, ...]]:
        """Its head and a row for each layer, as texts."""
        head = ("layer", "rms", "largest", "of the layer", "zeros", "dead units", "")
        return [head, *map(_row, self.layers)]

    def report(self, path: str | os.PathLike[str]) -> None:
        """Writes an HTML page that shows the layers; it needs no network and no script.

        Raises:
            GraphError: for what is no path.
            FileError: if the file can't be written.
        """
        from graphc.debug.report.gradients import write_gradients

        head, *rows = self.table()
        places = ["" if each.where is None else each.where.brief for each in self.layers]
        placed = [(row[0], place, *row[1:]) for row, place in zip(rows, places, strict=True)]
        table = [(head[0], "line", *head[1:]), *placed]
        write_gradients(path, self._title, table, [layer.rms for layer in self.layers])


def _row(layer: LayerGradient) -> tuple[str, ...]:
    relative = "–" if math.isnan(layer.relative) else f"{layer.relative:.1e}"
    return (
        layer.name, f"{layer.rms:.1e}", f"{layer.largest:.1e}", relative, f"{layer.zeros:.0%}",
        f"{layer.dead} of {layer.units}", layer.verdict,
    )  # fmt: skip


def watch_gradients(
    session: Session, loss: Value, feeds: Any = None, variables: Sequence[Variable] | None = None
) -> Gradients:
    """How large the gradients of a loss are, layer by layer.

    The values of variables are the present ones, and stay as they are: nothing is trained. The
    graph gets the nodes of the gradients.

    Args:
        session: has the graph of the loss.
        loss: a real value; all its elements are summed up.
        feeds: a dict of arrays, as ``session.run`` takes it, or an iterable of such dicts: more
            batches tell units that are dead from those that a batch left out.
        variables: of which; by default the trainable ones that the loss depends on.

    Raises:
        GraphError: for variables that are none, and for a loss without any.
        FeedError: for no batch.
        GradientError: if a variable has no path to the loss.
    """
    if not isinstance(loss, Value):
        raise GraphError(
            f"a loss is a value of a graph, not {type(loss).__name__}", where=caller()
        )
    found = trainable_variables(loss) if variables is None else items_of(variables, "variables")
    chosen = [each for each in found if isinstance(each, Variable)]
    if not chosen or len(chosen) < len(found):
        raise GraphError(
            "there is no variable to look at" if not found else "not all of these are variables",
            where=caller(),
            hint="give what gx.variable made and the loss depends on",
        )
    slopes = gradients(loss, chosen)
    tallies = [_Tally(variable) for variable in chosen]
    count = 0
    for batch in _batches(feeds):
        for tally, slope in zip(tallies, session.run(slopes, batch), strict=True):
            tally.add(slope, session.get(tally.variable))
        count += 1
    if not count:
        raise FeedError("there is no batch", where=caller(), hint="give feeds of at least one run")
    scale = _median([tally.rms for tally in tallies if tally.is_usual])
    return Gradients(loss.name or "a loss", count, tuple(tally.layer(scale) for tally in tallies))


def _batches(given: Any) -> Iterable[Any]:
    if given is None or isinstance(given, Mapping):
        return [given]
    if isinstance(given, Iterable):
        return given
    raise FeedError(
        f"feeds are {type(given).__name__}", where=caller(), hint="give a dict, or several"
    )


def _median(numbers: Sequence[float]) -> float:
    return float(np.median(numbers)) if numbers else math.nan


class _Tally:
    """What the gradients of a parameter have come to so far."""

    def __init__(self, variable: Variable) -> None:
        self.variable = variable
        self._squares, self._count = 0.0, 0
        self._largest = 0.0
        self._relative: list[float] = []
        self._not_finite = 0
        self._is_zero: Array | None = None

    def add(self, slope: Array, value: Array) -> None:
        """The gradient of a batch, and the parameter."""
        sizes = np.abs(slope.astype(np.complex128 if slope.dtype.kind == "c" else np.float64))
        finite = sizes[np.isfinite(sizes)]
        self._not_finite += sizes.size - finite.size
        squares = float(np.square(finite).sum())
        self._squares, self._count = self._squares + squares, self._count + finite.size
        self._largest = max(self._largest, float(finite.max(initial=0.0)))
        norm = float(np.linalg.norm(np.abs(value).astype(np.float64)))
        self._relative.append(math.sqrt(squares) / norm if norm else math.nan)
        zero = sizes == 0
        self._is_zero = zero if self._is_zero is None else self._is_zero & zero

    @property
    def rms(self) -> float:
        """The root of the mean square."""
        return math.sqrt(self._squares / self._count) if self._count else math.nan

    @property
    def is_usual(self) -> bool:
        """Whether others are compared with it."""
        return bool(self._squares) and not self._not_finite

    def layer(self, scale: float) -> LayerGradient:
        """What is to say, where the gradients of usual layers have a root mean square ``scale``."""
        zero = self._is_zero
        assert zero is not None, "there was a batch"
        columns = zero.reshape(-1, zero.shape[-1]).all(axis=0) if zero.ndim else zero[None]
        dead, units = int(columns.sum()), columns.size
        verdict = ""
        if self._not_finite:
            verdict = "not finite"
        elif dead == units and units:
            verdict = "dead"
        elif self.rms > EXPLODES * scale:
            verdict = "explodes"
        elif self.rms < VANISHES * scale:
            verdict = "vanishes"
        elif units > 1 and dead >= DEAD * units:
            verdict = f"{dead} of {units} units dead"
        producer = self.variable.graph.producer(self.variable) if self.variable.graph else None
        return LayerGradient(
            self.variable.name or "a variable",
            None if producer is None else producer.provenance.where,
            zero.size,
            self.rms,
            self._largest,
            float(np.mean(self._relative)),
            float(zero.mean()) if zero.size else 0.0,
            units,
            dead,
            self._not_finite,
            verdict,
        )


__all__ = ["Gradients", "LayerGradient", "watch_gradients"]
