"""Programs of the guard sweep: a call in a context over placeholders of drawn dims, and its feeds.

A seed says all of a program, and with a number all of a run's feeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from guard_arrays import Array, Edge
from guard_calls import CALLS, IN_NO_LIBRARY, Call

import graphc as gx

SIZES = ("number", "shape", "reckoned")
"""What is wanted of unknown sizes of results that nothing computes: themselves; what has shapes
made of them; numbers computed with them. Where all are known, the results."""
CORES = ("forward", "forward", "gradient", "gradient", "curved", "second", "tangent", *SIZES)
"""What is wanted of a call: its results; the gradients of their sum, or of the sum of their
squares; the gradients of these; how its results change along its operands; their sizes."""
WRAPPERS = (
    ("plain",) * 5
    + ("taken", "untaken", "untaken", "loop", "nested", "assign", "step", "group", "depends")
)  # fmt: skip
"""Where it stands: fetched; in the branch of a ``cond`` that runs, or doesn't; in the body of a
loop, there in a branch every other trip; in what a variable is given, or trained by, with that
effect alone fetched; as an effect, or as what another value depends on by control."""
EFFECTS = ("assign", "step", "group")
"""Those that give no array."""
CARRIERS = ("call",) * 6 + ("run", "run", "fed", "cached", "saved", "library")
"""What runs it: an executable, a session, one whose first operand is fed in the place of what would
compute it, a program from the cache, a graph that was saved, a library."""
RATE = 0.125
"""The learning rate of a step."""

_LARGEST = 300_000
"""Elements of an operand."""


# --- what is drawn -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis of an operand: its letter or digit, and the dim that the placeholder has."""

    word: str
    dim: int | str | None


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: its kind (``f``, ``b``, ``i``), what it indexes, its dtype and its axes."""

    kind: str
    indexed: str
    dtype: str
    axes: tuple[Axis, ...]

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(str(axis.dim) for axis in self.axes)}]"


@dataclass(frozen=True, slots=True)
class Program:
    """All that a seed says of a program.

    Attributes:
        seed: what it was drawn from.
        call: what it calls.
        core, wrapper, carrier: its context, words of ``CORES``, ``WRAPPERS`` and ``CARRIERS``.
        level: of ``Options.optimize``.
        edge: where its arrays lie in their pages.
        operands: what is fed.
        base: a size for each letter; that of the axes of known size.
        picked: which result is fetched alone, modulo how many there are; None for all.
        kept: whether results are written to arrays that are given.
    """

    seed: int
    call: Call
    core: str
    wrapper: str
    carrier: str
    level: int
    edge: Edge
    operands: tuple[Operand, ...]
    base: dict[str, int]
    picked: int | None
    kept: bool

    @property
    def context(self) -> str:
        """Core and wrapper."""
        return f"{self.core} {self.wrapper}"

    def __str__(self) -> str:
        given = ", ".join(map(str, self.operands))
        one = "" if self.picked is None else f" result {self.picked} alone,"
        return (
            f"{self.call.name}({given}){_line(self.call)} {self.context},{one} {self.carrier}, "
            f"level {self.level}, {self.edge} of a page"
        )


def _line(call: Call) -> str:
    """Where a spelling stands that is more than the function's name."""
    code = call.function.__code__
    file = Path(code.co_filename).name
    return f" {file}:{code.co_firstlineno}" if file.startswith("guard_") else ""


def _size(rng: np.random.Generator) -> int:
    small = (0, 1, 1, 2, 3, 3, 4, 5, 7, 8, 9, 16, 17, 33)
    return int(rng.choice(small)) if rng.random() < 0.92 else int(rng.choice((64, 100, 257, 1025)))


def draw(seed: int) -> Program:
    """The program of a seed."""
    rng = np.random.default_rng((seed, 1))
    call = CALLS[int(rng.integers(len(CALLS)))]
    if len(call.operands) == 1 and rng.random() < 0.5:
        call = CALLS[int(rng.integers(len(CALLS)))]
    known = float(rng.choice((0.0, 0.0, 0.15, 0.4)))
    floats = str(rng.choice(("float64", "float64", "float32")))
    operands, base = _operands(call, known, floats, rng)
    wrapper, carrier = str(rng.choice(WRAPPERS)), str(rng.choice(CARRIERS))
    if wrapper in EFFECTS and carrier in ("saved", "library"):
        carrier = "call"
    core = str(rng.choice(CORES))
    if call.name == "next_key" and core == "forward":
        # the interpreter that judges single results is not given the variable of the state
        core = "reckoned"
    carrier = _held(call, carrier)
    return Program(
        seed, call, core, wrapper, carrier,
        int(rng.integers(4)), ("end", "begin")[int(rng.integers(4)) // 3], operands, base,
        int(rng.integers(4)) if rng.random() < 0.5 else None, bool(rng.random() < 0.3),
    )  # fmt: skip


def _held(call: Call, carrier: str) -> str:
    """The carrier, or one that can hold the call."""
    return "call" if call.name in IN_NO_LIBRARY and carrier == "library" else carrier


def unknown(call: Call, core: str, wrapper: str, carrier: str, seed: int = 0) -> Program:
    """A call in a context, over operands none of whose sizes is known."""
    operands, base = _operands(call, 0.0, "float64", np.random.default_rng((seed, 3)))
    operands = tuple(
        replace(o, axes=tuple(Axis(axis.word, None) for axis in o.axes)) for o in operands
    )
    carrier = _held(call, carrier)
    return Program(seed, call, core, wrapper, carrier, 2, "end", operands, base, None, False)


def _operands(
    call: Call, known: float, floats: str, rng: np.random.Generator
) -> tuple[tuple[Operand, ...], dict[str, int]]:
    """Operands for a call, so many of whose sizes are known, and a size for each letter."""
    words = [_word(word) for word in call.operands]
    letters = sorted({c for kind, index, axes in words for c in index + axes})
    base = {c: int(c) if c.isdigit() else _size(rng) for c in letters}
    operands = []
    for kind, index, axes in words:
        made = []
        for c in axes:
            draw_, dim = rng.random(), None
            if draw_ < known:
                dim = base[c]
            elif draw_ < known + 0.1 and c.isalpha():
                dim = f"n_{c}"
            made.append(Axis(c, dim))
        dtype = {"f": floats, "b": "bool", "i": "int64"}[kind]
        operands.append(Operand(kind, index, dtype, tuple(made)))
    return tuple(operands), base


def _word(word: str) -> tuple[str, str, str]:
    """The kind of a word, what it indexes, its axes."""
    kind, _, axes = word.rpartition(":")
    return kind[:1] or "f", kind[2:], axes.replace(".", "")


@dataclass(frozen=True, slots=True)
class Feeds:
    """The arrays of a run, and the number that its context takes: trips, or a predicate."""

    arrays: tuple[Array, ...]
    number: int

    def __str__(self) -> str:
        return f"fed {', '.join(str(list(a.shape)) for a in self.arrays)} and {self.number}"


def feeds(program: Program, run: int) -> Feeds:
    """The feeds of a run of a program."""
    rng = np.random.default_rng((program.seed, 2, run))
    fixed = {a.word for o in program.operands for a in o.axes if isinstance(a.dim, int)}
    letters = {
        c: n if c in fixed or c.isdigit() or rng.random() < 0.25 else _size(rng)
        for c, n in program.base.items()
    }
    sizes = {
        (i, j): axis.dim if isinstance(axis.dim, int) else letters[axis.word]
        for i, operand in enumerate(program.operands)
        for j, axis in enumerate(operand.axes)
    }
    _misfit(program, sizes, rng)
    arrays = []
    for i, operand in enumerate(program.operands):
        shape = tuple(sizes[i, j] for j in range(len(operand.axes)))
        while prod(shape) > _LARGEST:
            # named axes are the same size elsewhere
            free = [k for k, axis in enumerate(operand.axes) if axis.dim is None]
            if not free:
                return feeds(program, run + 1000)
            at = max(free, key=lambda k: shape[k])
            shape = (*shape[:at], shape[at] // 3, *shape[at + 1 :])
        arrays.append(_numbers(operand, shape, letters, rng))
    trips = int(rng.choice((0, 1, 3)))
    number = trips if program.wrapper in ("loop", "nested") else int(program.wrapper == "taken")
    return Feeds(tuple(arrays), number)


def broadcasts(program: Program, given: Feeds) -> bool:
    """Whether a size of 1 stands where another one fits, by the letters."""
    sizes: dict[str, set[int]] = {}
    for operand, array in zip(program.operands, given.arrays, strict=True):
        for axis, size in zip(operand.axes, array.shape, strict=True):
            sizes.setdefault(axis.word, set()).add(size)
    return any(1 in found and len(found) > 1 for found in sizes.values())


def _misfit(program: Program, sizes: dict[tuple[int, int], int], rng: np.random.Generator) -> None:
    """Changes sizes of no axis, of one, or of some, where they are unknown."""
    free = [
        (i, j)
        for i, operand in enumerate(program.operands)
        for j, axis in enumerate(operand.axes)
        if not isinstance(axis.dim, int)
    ]
    how = rng.random()
    if not free or how < 0.4:
        return
    many = how > 0.88
    chosen = [p for p in free if rng.random() < 0.3] if many else [free[rng.integers(len(free))]]
    for place in chosen:
        old = sizes[place]
        ways = (0, 1, old + 1, max(old - 1, 0), 2 * old, old + 2, 3, int(rng.choice((517, 70_001))))
        new = int(rng.choice(ways))
        dim = program.operands[place[0]].axes[place[1]].dim
        for i, operand in enumerate(program.operands):
            for j, axis in enumerate(operand.axes):
                if (i, j) == place or (dim is not None and axis.dim == dim):
                    sizes[i, j] = min(new, 517) if dim is not None else new


def _numbers(
    operand: Operand, shape: tuple[int, ...], letters: dict[str, int], rng: np.random.Generator
) -> Array:
    if operand.kind == "b":
        return rng.random(shape) < 0.5
    if operand.kind == "i":
        if not operand.indexed:
            return rng.integers(0, 9, shape)
        bound = prod(letters[c] for c in operand.indexed)
        low = 0 if rng.random() < 0.5 else -bound
        picked = rng.integers(low, bound, shape) if bound else np.zeros(shape, np.int64)
        if picked.size and rng.random() < 0.1:
            picked.flat[rng.integers(picked.size)] = rng.choice((bound, -bound - 1, 2**40))
        return picked
    return rng.uniform(0.5, 1.5, shape).astype(operand.dtype)


# --- what is built -------------------------------------------------------------------------------


def _flat(made: Any) -> list[Any]:
    return [v for part in made for v in _flat(part)] if isinstance(made, (list, tuple)) else [made]


def wanted(program: Program, operands: Sequence[Any]) -> list[Any]:
    """What a program wants of its call, over these values."""
    values = _wanted(program, operands)
    return values if program.picked is None else [values[program.picked % len(values)]]


def _wanted(program: Program, operands: Sequence[Any]) -> list[Any]:
    outputs = _flat(program.call.function(*operands))
    if program.core in SIZES:
        made = [v for size in _sizes(program, outputs) for v in _made(program.core, size)]
        return made or outputs
    moving = [v for v in operands if v.dtype.is_float]
    floats = [v for v in outputs if v.dtype.is_float]
    if program.core == "forward" or not moving or not floats:
        return outputs
    if program.core == "tangent":
        return _flat(gx.jvp(floats, moving, moving)) if _connected(floats, moving) else outputs
    if program.core != "gradient":
        floats = [gx.sum(v * v) for v in floats]
    found = _connected(floats, moving)
    if program.core == "second":
        found = _connected(found, moving) if found else found
    return found or outputs


def _sizes(program: Program, outputs: Sequence[Any]) -> list[Any]:
    """The sizes of results that are unknown over the operands of the program."""
    with gx.Graph():
        unknown = [gx.placeholder([a.dim for a in o.axes], o.dtype) for o in program.operands]
        shapes = [v.shape for v in _flat(program.call.function(*unknown))]
    known = [isinstance(dim, int) for shape in shapes for dim in shape]
    given = [dim for v in outputs for dim in v.shape]
    return [dim for dim, is_known in zip(given, known, strict=True) if not is_known]


def _made(core: str, size: Any) -> list[Any]:
    """What is made of a size, alone."""
    match core:
        case "number":
            return [gx.dim(size)]
        case "shape":
            return [gx.ones((size, 1), "float64"), gx.arange(9)[:size], gx.arange(size % 5)]
    weight = gx.constant(np.arange(1.0, 4.0))
    return [weight * size, weight + 1 / (1 + size), gx.maximum(weight, 2 * size - 1)]


def _connected(ys: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
    """The gradients that there are: zeros that come from no path say nothing of sizes."""
    found = []
    for x in xs:
        try:
            found.append(gx.gradients(ys, x))
        except gx.GradientError:
            continue
    return found


def total(values: Sequence[Any]) -> Any:
    """The sum of all elements, in float64."""
    result = gx.constant(np.float64(0))
    for value in values:
        result = result + gx.sum(value.astype("float64"))
    return result


def apart(outputs: Sequence[Any], weight: Any) -> list[Any]:
    """The outputs, where a step does not compute them since no path leads from the weight there."""
    floats = [v for v in outputs if v.dtype.is_float]
    return [] if floats and _connected(floats, [weight]) else [*outputs]


def scaled(operands: Sequence[Any], weight: Any) -> list[Any]:
    """The operands with a weight, where they are floats."""
    return [v * weight.astype(v.dtype) if v.dtype.is_float else v for v in operands]


@dataclass(slots=True)
class Built:
    """A program's graph: what is fed, fetched and written."""

    graph: Any
    operands: list[Any]
    number: Any
    fetches: list[Any]
    variable: Any = None

    @property
    def order(self) -> list[Any]:
        """What is fed, in order."""
        return [*self.operands, self.number]


def build(program: Program) -> Built:
    """The graph of a program, over unknown sizes."""
    with gx.Graph() as graph:
        operands = [
            gx.placeholder(tuple(a.dim for a in o.axes), o.dtype, name=f"x{i}")
            for i, o in enumerate(program.operands)
        ]
        if program.carrier == "fed":
            operands[0] = gx.stop_gradient(operands[0])
        number = gx.placeholder((), "int64", name="number")
        made = Built(graph, operands, number, [])

        def inside() -> Any:
            return total(wanted(program, operands))

        def nothing() -> Any:
            return gx.constant(np.float64(0))

        match program.wrapper:
            case "plain":
                made.fetches = wanted(program, operands)
            case "taken" | "untaken":
                if program.seed % 2:
                    made.fetches = [gx.cond(number > 0, inside, nothing)]
                else:
                    made.fetches = [gx.cond(gx.equal(number, 0), nothing, inside)]
            case "loop":
                body: Callable[..., Any] = lambda i, v: (i + 1, v + inside())  # noqa: E731
                start = (gx.constant(0), nothing())
                made.fetches = [gx.while_loop(lambda i, v: i < number, body, start)[1]]
            case "nested":
                body = lambda i, v: (i + 1, v + gx.cond(gx.equal(i % 2, 0), inside, nothing))  # noqa: E731
                start = (gx.constant(0), nothing())
                made.fetches = [gx.while_loop(lambda i, v: i < number, body, start)[1]]
            case "assign":
                made.variable = gx.variable(np.float64(7))
                made.fetches = [gx.group(made.variable.assign(inside()))]
            case "step":
                made.variable = gx.variable(np.float64(1))
                outputs = wanted(program, scaled(operands, made.variable))
                loss = total(outputs) + made.variable
                step = gx.optim.SGD(RATE).minimize(loss, [made.variable])
                made.fetches = [gx.group(step, *apart(outputs, made.variable))]
            case "group":
                made.fetches = [gx.group(wanted(program, operands))]
            case "depends":
                with gx.control_dependencies(wanted(program, operands)):
                    made.fetches = [number * np.float64(1)]
    return made
