"""What all optimisers share: how a loss, or given gradients, become one step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from graphc.base.errors import DTypeError, GraphError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.differentiate import gradients as gradients_of
from graphc.frontend.parameters import (
    checked_pairs,
    no_loss,
    refuse_regions,
    trainable_variables,
    warn_of_wide,
)
from graphc.frontend.state import Variable, group
from graphc.ir.effect import Effect
from graphc.ir.value import Value
from graphc.ops.arguments import items_of
from graphc.ops.convert import converted
from graphc.ops.pointwise.logic import isfinite, where
from graphc.ops.reduce.axes import all_
from graphc.optim.steps import Pair, Parameter, Rule, Step, Write

Commit: TypeAlias = Literal["always", "finite"]


class Optimizer(ABC):
    """What all optimisers share."""

    __slots__ = ()

    def minimize(
        self,
        loss: Value,
        variables: Sequence[Variable] | None = None,
        commit: Commit = "always",
    ) -> Effect:
        """One step that makes the loss smaller.

        Warns (``GraphcWarning``) if parameters are float64 only because NumPy's arrays are, beside
        inputs of float32.

        Two steps that change the same variable do not add up if they are fetched in one run: the
        one built last wins. To descend on two losses at once, minimise their sum.

        Args:
            loss: a float scalar.
            variables: what to change; by default all trainable variables the loss depends on, in
                the order they were made.
            commit: "finite" leaves all variables that the step writes as they were, counters too,
                unless all numbers it would write are finite.

        Returns:
            An effect: fetching it runs the step and gives None.

        Raises:
            GraphError: if there is nothing to train, or in a branch or loop body.
            GradientError: if the loss does not depend on one of ``variables``.
            ShapeError: if the loss is not a scalar.
        """
        if not isinstance(loss, Value):
            raise no_loss(loss)
        if loss.ndim:
            raise ShapeError(
                f"a loss is a scalar, not {loss.type}",
                where=caller(),
                hint="reduce it with .mean() or .sum()",
            )
        refuse_regions()
        chosen: Sequence[Variable] = (
            trainable_variables(loss) if variables is None else items_of(variables, "variables")
        )
        if not chosen:
            raise GraphError(
                "there is nothing to train: the loss depends on no trainable variable"
                if variables is None
                else "there is nothing to train: the list of variables is empty",
                where=caller(),
                hint="make parameters with gx.variable and compute the loss from them",
            )
        _check_commit(commit)
        step = Step(self._name)
        assert loss.graph is not None
        with loss.graph:
            slopes = self._gradients(step, loss, chosen)
        effect = self._finished(step, zip(slopes, chosen, strict=True), commit)
        warn_of_wide(loss, chosen)
        return effect

    def apply_gradients(
        self, pairs: Iterable[tuple[Any, Variable]], commit: Commit = "always"
    ) -> Effect:
        """One step along given gradients, such as clipped ones.

        Args:
            pairs: (gradient, variable); a gradient has the shape and dtype of its variable.
            commit: as of ``minimize``.

        Returns:
            An effect: fetching it runs the step and gives None.

        Raises:
            GraphError: if there are no pairs, or a variable comes twice.
            ShapeError, DTypeError: if a gradient does not fit its variable, or that is complex.
        """
        _check_commit(commit)
        return self._finished(Step(self._name), pairs, commit)

    @property
    def _name(self) -> str:
        return type(self).__name__.lower()

    def _gradients(self, step: Step, loss: Value, variables: Sequence[Variable]) -> Sequence[Value]:
        """The gradients that ``_update`` takes."""
        found: Sequence[Value] = gradients_of(loss, variables)
        return found

    @abstractmethod
    def _update(self, pairs: Sequence[Pair]) -> None:
        """Has the step of parameters with these gradients write what they become."""

    def _finished(self, step: Step, pairs: Iterable[tuple[Any, Variable]], commit: str) -> Effect:
        checked = checked_pairs(pairs)
        for _, parameter in checked:
            if parameter.dtype.is_complex:
                raise DTypeError(
                    f"parameter {parameter.name!r} is {parameter.dtype}: a step along its "
                    "gradient, which is not conjugated, would lead away",
                    where=caller(),
                    hint="train its two parts, which gx.complex(x, y) joins",
                )
        graph = checked[0][1].graph
        assert graph is not None
        with graph:
            entries = [(Parameter(step, variable), slope) for slope, variable in checked]
            self._update([(entry, converted(slope, entry.dtype)) for entry, slope in entries])
            if commit == "finite":
                step.writes = chosen_writes(are_finite(step.writes), step.writes)
            assigned = [write.target.assign(write.new) for write in step.writes]
        return group(assigned, name=step.name)


class RuleOptimizer(Optimizer):
    """An optimiser that is a formula: how a parameter follows its gradient."""

    __slots__ = ()

    def _update(self, pairs: Sequence[Pair]) -> None:
        rule = self._rule(pairs[0][0].step)
        for parameter, gradient in pairs:
            parameter.write(rule(parameter, gradient))

    @abstractmethod
    def _rule(self, step: Step) -> Rule:
        """A function from a parameter and its gradient to the parameter's new value."""


def are_finite(writes: Iterable[Write]) -> Value:
    """Whether all elements of all floats that are written are finite: one bool.

    What is written for one parameter is joined element by element, which takes one pass.
    """
    flags: dict[tuple[object, ...], Value] = {}
    for write in writes:
        if write.new.dtype.is_float:
            key = (write.owner, write.new.shape)
            flag = isfinite(write.new)
            flags[key] = flags[key] & flag if key in flags else flag
    first, *others = (all_(flag) for flag in flags.values())
    for other in others:
        first = first & other
    return first


def chosen_writes(condition: Value, writes: Iterable[Write]) -> list[Write]:
    """What is written where a condition holds; else all variables get what they had."""
    return [replace(w, new=where(condition, w.new, w.target)) for w in writes]


def _check_commit(given: Any) -> None:
    if not isinstance(given, str) or given not in ("always", "finite"):
        raise GraphError(
            f"commit is {shown(given)}", where=caller(), hint='give "always" or "finite"'
        )


__all__ = ["Commit", "Optimizer", "RuleOptimizer", "are_finite", "chosen_writes"]
