"""Random programs of all public functions and all operations, in every dtype.

A program has steps of two kinds. Some call a public function, as ``guard_calls`` spells it, over
values of earlier steps in the dtypes and the shapes that the call wants. The others apply an
operation of the registry in one dtype of its domain, to values of earlier steps or to the operands
of its own example. Functions, and operations in their dtypes, are dealt in turn, so that enough
programs have them all. A step may stand in a branch or in the body of a loop.

``surface_checks`` runs the programs.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from guard_calls import CALLS, Call
from op_contract import cases, sample, sampled_ops, trace

import graphc as gx
from graphc.checking.samples import specials
from graphc.ir.builder import apply_node
from graphc.ir.dtypes import ALL, COMPLEX, FLOATS, INTEGERS, STORAGE, DType, bool_, dtype
from graphc.ir.lowering import Native
from graphc.ir.op import OpDef

Array = np.ndarray[Any, Any]
Case = tuple[OpDef, DType]

_SIZES = (0, 1, 1, 2, 3, 4, 5, 7)
_MOST_ELEMENTS = 3000
_TRIES = 40
"""Calls that are drawn at most for a step."""
_OF_REGISTRY = 2
"""Steps of a program that apply operations of the registry."""
STATEFUL = frozenset({"next_key", "host_call", "check"})
"""Calls that stay outside branches and loops, which run a step not at all, or twice."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of the pool, as a step wants it.

    Attributes:
        source: its place in the pool.
        shape: the elements are repeated to fill it.
        element: what they are converted to.
        least: where ``count`` is not 0, the least integer that the step takes.
        count: how many integers it takes; 0 for any.
    """

    source: int
    shape: tuple[int, ...]
    element: DType
    least: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """A call over values of the pool.

    Attributes:
        call: what is called.
        operands: what it takes.
        within: "" or what it stands in, a "branch" or a "loop".
        arrays: further feeds, which join the pool before the step.
        case: the operation and the dtype, where it is one of the registry.
    """

    call: Call
    operands: tuple[Operand, ...]
    within: str = ""
    arrays: tuple[Array, ...] = ()
    case: Case | None = None

    def __str__(self) -> str:
        shown = (f"{o.source}:{o.element}{list(o.shape)}" for o in self.operands)
        return f"{self.within} {self.call} of {', '.join(shown)}".strip()


@dataclass(slots=True)
class Program:
    """Arrays to feed, and steps; the pool holds the feeds and then what each step gives.

    Attributes:
        refused: calls with the dtypes that NumPy takes and graphc does not.
    """

    feeds: list[Array]
    steps: list[Step]
    refused: list[str] = field(default_factory=list)

    @property
    def arrays(self) -> list[Array]:
        """What all placeholders are fed, in their order."""
        return [*self.feeds, *(array for step in self.steps for array in step.arrays)]

    def __str__(self) -> str:
        feeds = ", ".join(f"{a.dtype}{list(a.shape)}" for a in self.feeds)
        return "\n".join([f"feeds {feeds}", *map(str, self.steps)])


# --- operands ------------------------------------------------------------------------------------


def adapted(value: Any, operand: Operand) -> Any:
    """A value of the pool as a step wants it."""
    wanted = operand.element
    if value.dtype.is_storage:
        value = value.astype(value.dtype.computed)
    if value.shape != operand.shape:
        value = gx.resize(value, operand.shape)
    if value.dtype.is_complex and not wanted.is_complex:
        value = gx.real(value)
    if wanted is bool_:
        return value if value.dtype is bool_ else value != 0
    if not wanted.is_integer:
        return value.astype(wanted)
    if value.dtype.is_float:
        value = gx.clip(gx.floor(gx.nan_to_num(value.astype("float64"))), -300, 300)
    if operand.count:
        value = value.astype("int64") % operand.count + operand.least
    return value.astype(wanted)


def flat(made: Any) -> list[Any]:
    """What a call gave, as a list."""
    return [v for part in made for v in flat(part)] if isinstance(made, (list, tuple)) else [made]


# --- drawing -------------------------------------------------------------------------------------


def draw(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng(seed)
    sizes = {letter: int(rng.choice(_SIZES)) for letter in "abcde"}
    program = Program([_feed(rng, sizes) for _ in range(rng.integers(1, 4))], [])
    count = len(program.feeds)
    kinds = [False] * int(rng.integers(1, 5)) + [True] * _OF_REGISTRY
    for number, of_registry in enumerate(rng.permutation(kinds)):
        if of_registry:
            place = sum(step.case is not None for step in program.steps)
            case = dealt_cases(seed)[place]
            step = _registry_step(rng, case, seed, count)
        else:
            found = _step(rng, program, sizes, count, 7 * seed + number)
            if found is None:
                continue
            step = found
        program.steps.append(step)
        count += len(step.arrays) + len(built(program)[1][-1])
    return program


@cache
def all_cases() -> list[Case]:
    """Every operation in every dtype of its domain, and in those for storage where it moves."""
    moves = [op for op in sampled_ops() if {*ALL} <= {*op.domain.dtypes}]
    stored = ((op, element) for op in moves for element in STORAGE)
    return [*cases(), *(case for case in stored if _is_taken(*case))]


def _is_taken(op: OpDef, element: DType) -> bool:
    try:
        trace(op, *sample(op, element, 0))
    except gx.DTypeError:
        return False
    return True


@cache
def _deck() -> list[Case]:
    """All of them, shuffled."""
    every = all_cases()
    return [every[place] for place in np.random.default_rng(0).permutation(len(every))]


def dealt_cases(seed: int) -> list[Case]:
    """The operations of the registry that the program of a seed holds."""
    deck = _deck()
    return [deck[(_OF_REGISTRY * seed + place) % len(deck)] for place in range(_OF_REGISTRY)]


@cache
def _calls() -> list[Call]:
    order = np.random.default_rng(1).permutation(len(CALLS))
    return [CALLS[place] for place in order]


def _feed(rng: np.random.Generator, sizes: dict[str, int]) -> Array:
    letters = "abcde"[: rng.integers(0, 4)]
    shape = tuple(sizes[letter] for letter in letters)
    return _array(rng, _dtype(rng), shape, bool(rng.random() < 0.3))


def _array(
    rng: np.random.Generator, element: DType, shape: tuple[int, ...], special: bool
) -> Array:
    """Ordinary numbers; every fifth is a special one where there are any."""
    if element is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if element.is_integer:
        array = np.asarray(rng.integers(0, min(9, int(element.greatest) + 1), shape))
    else:
        array = np.asarray(rng.uniform(-3, 3, shape))
    if element.is_complex:
        array = array + 1j * rng.uniform(-3, 3, shape)
    array = array.astype(element.numpy)
    if special:
        chosen = rng.choice(specials(element.numpy), shape)
        array = np.where(rng.random(shape) < 0.2, chosen, array)
    return np.asarray(array, element.numpy)


def _dtype(rng: np.random.Generator) -> DType:
    """Each kind of numbers often, and each dtype of a kind as often as another."""
    kinds = (FLOATS, COMPLEX, INTEGERS, (bool_,), STORAGE)
    kind = kinds[rng.choice(len(kinds), p=(0.5, 0.15, 0.2, 0.05, 0.1))] or FLOATS
    return kind[rng.integers(len(kind))]


def _step(
    rng: np.random.Generator, program: Program, sizes: dict[str, int], count: int, first: int
) -> Step | None:
    """A call that both take, so far as types tell; None if none was found."""
    calls = _calls()
    for trial in range(_TRIES):
        call = calls[(first if trial < 2 else int(rng.integers(len(calls)))) % len(calls)]
        main = _dtype(rng)
        operands = tuple(_operand(rng, word, sizes, count, main) for word in call.operands)
        if any(np.prod(o.shape) > _MOST_ELEMENTS for o in operands):
            continue
        within = str(rng.choice(("", "branch", "loop"), p=(0.8, 0.1, 0.1)))
        step = Step(call, operands, "" if call.name in STATEFUL else within)
        made = taken_by_numpy(step)
        if made is None and call.numpy is not None:
            continue  # NumPy does not take such operands
        if made and sum(part.size for part in made) > _MOST_ELEMENTS:
            continue
        try:
            results = built(_alone(step))[1][0]
        except gx.DTypeError:
            if call.numpy is not None:
                program.refused.append(f"{call} of {', '.join(str(o.element) for o in operands)}")
            continue
        except gx.GraphcError as error:
            if made is not None and "of an empty axis" not in error.message:
                raise
            continue
        if results and sum(_count(value) for value in results) <= _MOST_ELEMENTS:
            return step
    return None


def taken_by_numpy(step: Step) -> list[Array] | None:
    """What NumPy gives for operands of the types that a step has; None if it refuses."""
    try:
        return by_numpy(step, [_example(o) for o in step.operands])
    except Exception:  # whatever NumPy refuses with
        return None


def by_numpy(step: Step, arrays: Sequence[Array]) -> list[Array] | None:
    """What NumPy's function of the name gives; None if there is none.

    Raises:
        Exception: whatever NumPy raises for such operands.
    """
    if step.call.numpy is None:
        return None
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.asarray(part) for part in flat(step.call.numpy(*arrays))]


def _alone(step: Step) -> Program:
    """The step as a program of its own."""
    operands = tuple(
        Operand(place, o.shape, o.element, o.least, o.count)
        for place, o in enumerate(step.operands)
    )
    return Program([_example(o) for o in operands], [Step(step.call, operands, step.within)])


def _example(o: Operand) -> Array:
    number = 0.75 if o.element.is_inexact else o.element is bool_
    return np.full(o.shape, number, o.element.numpy)


def _count(value: Any) -> int:
    return int(np.prod([int(size) for size in value.shape]))


def _late(rng: np.random.Generator, count: int) -> int:
    """A place in the pool; late values are likelier, so that chains grow."""
    return count - 1 - min(count - 1, int(rng.exponential(1.5)))


def _operand(
    rng: np.random.Generator, word: str, sizes: dict[str, int], count: int, main: DType
) -> Operand:
    kind, _, axes = word.rpartition(":")
    shape = tuple(int(c) if c.isdigit() else sizes[c] for c in axes.replace(".", ""))
    element, bound = main if rng.random() < 0.8 else _dtype(rng), 0
    if kind[:1] == "b":
        element = bool_
    elif kind[:1] == "i":
        # numbers that are nowhere an index are small
        element, bound = INTEGERS[rng.integers(len(INTEGERS))], 9
    if kind[2:]:
        bound = int(np.prod([int(c) if c.isdigit() else sizes[c] for c in kind[2:]]))
        if not bound:
            shape = tuple(0 for _ in shape) or shape
    return Operand(_late(rng, count), shape, element, 0, max(bound, int(kind[:1] == "i")))


def _registry_step(rng: np.random.Generator, case: Case, seed: int, count: int) -> Step:
    """An operation over operands like those of its example.

    What is computed element by element, or moved, takes values of the pool; integers are folded
    into the range of the example's, since they may be indices. Routines take their example, which
    may be a table, or sorted, or a matrix of a certain kind.
    """
    op, element = case
    arrays, attrs = sample(op, element, seed)
    fed: list[Array] = []
    operands = []
    for array in arrays:
        own, least, bound = dtype(array.dtype), 0, 0
        if own.is_integer and array.size:
            least, bound = int(array.min()), int(array.max()) - int(array.min()) + 1
        drawn = rng.random() < 0.5 and not isinstance(op.lowering, Native)
        if op.lowering.is_product or bound > 2**31 or not drawn:
            operands.append(Operand(count + len(fed), array.shape, own))
            fed.append(array)
        else:
            operands.append(Operand(_late(rng, count), array.shape, own, least, bound))

    def function(*values: Any) -> Any:
        return list(apply_node(op, values, attrs).outputs)

    words = tuple(f"{o.element}:{','.join(map(str, o.shape))}" for o in operands)
    named = f"operation {op.name} {attrs or ''}".strip()
    within = str(rng.choice(("", "branch", "loop"), p=(0.8, 0.1, 0.1)))
    return Step(Call(named, words, function), tuple(operands), within, tuple(fed), case)


# --- building ------------------------------------------------------------------------------------


def called(step: Step, operands: Sequence[Any]) -> list[Any]:
    """What a step gives, computed where it stands."""
    def function() -> list[Any]:
        return flat(step.call.function(*operands))

    if step.within == "branch" and operands:
        first = gx.ravel(operands[0])
        if isinstance(first.shape[0], int) and first.shape[0] and not first.dtype.is_storage:
            return flat(gx.cond(first[0] == first[0], function, function))
    if step.within == "loop":
        twice = flat(gx.map(lambda n: function(), gx.arange(2)))
        return [each[1] for each in twice]
    return function()


def built(
    program: Program, graph: gx.Graph | None = None
) -> tuple[list[Any], list[list[Any]], list[list[Any]], gx.Graph]:
    """The placeholders, the results of each step, the operands of each step, and the graph, which
    may hold other programs."""
    graph = gx.Graph() if graph is None else graph
    with graph:
        fed = [gx.placeholder(a.shape, a.dtype) for a in program.feeds]
        pool: list[Any] = [*fed]
        results: list[list[Any]] = []
        given: list[list[Any]] = []
        for step in program.steps:
            own = [gx.placeholder(a.shape, a.dtype) for a in step.arrays]
            fed += own
            pool += own
            operands = [adapted(pool[o.source], o) for o in step.operands]
            made = called(step, operands)
            given.append(operands)
            results.append(made)
            pool += made
    return fed, results, given, graph


__all__ = [
    "Array",
    "Case",
    "Operand",
    "Program",
    "Step",
    "all_cases",
    "built",
    "by_numpy",
    "dealt_cases",
    "draw",
    "flat",
]
