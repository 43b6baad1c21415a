"""Calls of every public function over unknown sizes, fed sizes that fit and sizes that do not.

    PYTHONPATH=. python tests/support/guard_sweep.py --seed 0 --count 10000  # what fails, by kind
    PYTHONPATH=. python tests/support/guard_sweep.py --program 1234  # one program

A *program* is one call of ``guard_calls`` over placeholders, in a context, compiled once; a *run*
feeds it arrays of drawn sizes that lie at the edge of a page nobody may touch. What is right is
what the same call does over placeholders of known sizes: where that is refused while building, the
run must raise the same error for the same line, naming the same shapes; else it gives the numbers
that the reference interpreter gives. Batches run in child processes, so that one that reads beyond
an array ends no more than itself, and is told of.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from guard_arrays import Array, GuardedArray, guarded
from guard_programs import (
    RATE,
    SIZES,
    Built,
    Feeds,
    Program,
    apart,
    broadcasts,
    build,
    draw,
    feeds,
    scaled,
    total,
    wanted,
)
from tools import child_environment

import graphc as gx
from graphc.base.source import Location
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract

RUNS = 8
"""Runs of a program."""

_LARGEST = 3_000_000
"""Elements of a value; runs of larger ones are left out."""
_SECONDS = 120
"""A program that takes longer hangs."""
_BATCH = 400
"""Programs of a child process."""


# --- what is right -------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    """What a run gives: arrays, or an error."""

    arrays: list[Array] = field(default_factory=list)
    error: Exception | None = None
    skipped: bool = False
    scale: float = 0.0
    """How large the numbers are that the results are made of."""


def right(program: Program, given: Feeds) -> Outcome:
    """What the call gives over known sizes, evaluated by the reference interpreter."""
    of_wrapper = {"untaken": 0, "loop": given.number, "nested": (given.number + 1) // 2}
    times = of_wrapper.get(program.wrapper, 1)
    nothing = Outcome([np.zeros(())])
    try:
        with gx.Graph() as graph:
            operands = [gx.placeholder(a.shape, a.dtype) for a in given.arrays]
            arrays = list(given.arrays)
            if program.wrapper == "step":
                weight = gx.placeholder((), "float64")
                outputs = wanted(program, scaled(operands, weight))
                loss = total(outputs) + weight
                fetches = [gx.gradients(loss, weight), *apart(outputs, weight)]
                operands, arrays = [*operands, weight], [*arrays, np.ones(())]
            else:
                fetches = wanted(program, operands)
        if any(_count(v.shape) > _LARGEST for node in graph.nodes for v in node.outputs):
            return Outcome(skipped=True)
        if not times:
            return nothing
        extraction = extract(graph, fetches)
        table = dict(zip(operands, arrays, strict=True))
        with np.errstate(all="ignore"):
            fed = [table[v] for v in extraction.feeds]
            if extraction.states:
                fed += gx.Session(graph).get(list(extraction.states))
            values = evaluate(extraction.graph, fed)
    except Exception as error:
        return Outcome(error=error) if times else nothing
    if program.wrapper in ("plain", "group", "depends"):
        return {"group": Outcome(), "depends": nothing}.get(program.wrapper, Outcome(list(values)))
    if program.wrapper == "step":
        values = values[:1]
    with np.errstate(all="ignore"):
        whole = np.sum([v.astype(np.float64).sum() for v in values])
        scale = np.sum([np.abs(v.astype(np.float64)).sum() for v in values])
    whole = 1 - RATE * whole if program.wrapper == "step" else whole * times
    return Outcome([np.asarray(whole)], scale=float(scale))


def _count(shape: Sequence[Any]) -> int:
    return prod(int(size) for size in shape)


def _looks_up(program: Program, error: Exception | None) -> bool:
    """Whether it is an index that is wrong where only sizes are wanted: none is looked up then."""
    is_index = isinstance(error, gx.IndexRangeError) and "at position" in error.message
    return program.core in SIZES and is_index


def _fits_numpy(program: Program, given: Feeds) -> bool | None:
    """Whether NumPy takes these arrays, where it has the function."""
    if program.call.numpy is None:
        return None
    try:
        with np.errstate(all="ignore"):
            program.call.numpy(*given.arrays)
    except (ValueError, IndexError):
        return False
    return True


# --- what is done --------------------------------------------------------------------------------


class Runner:
    """A compiled program."""

    def __init__(self, program: Program, built: Built, directory: str) -> None:
        self.program, self.built = program, built
        cache = f"{directory}/cache" if program.carrier == "cached" else "off"
        options = gx.Options(optimize=program.level, cache=cache)
        fetches, order = built.fetches, built.order
        self.kept = [True] * len(order)
        if program.carrier == "saved":
            gx.save(f"{directory}/saved.gir", fetches)
            fetches = gx.load(f"{directory}/saved.gir")
            # what nothing needs is not saved
            names = {node.outputs[0].name: node.outputs[0] for node in fetches[0].graph.nodes}
            self.kept = [v.name in names for v in order]
            order = [names[v.name] for v in order if v.name in names]
        elif program.carrier == "cached":
            gx.Session(built.graph, options=options).compile(fetches, order)
        graph = fetches[0].graph if program.carrier == "saved" else built.graph
        self.session = gx.Session(graph, options=options)
        self.run_: Callable[..., Any] = self.session.compile(fetches, order)
        if program.carrier == "library":
            gx.aot.compile(self.run_, f"{directory}/library", kind="package")
            self.run_ = gx.aot.load(f"{directory}/library")
        elif program.carrier == "run":
            self.run_ = lambda *a: self.session.run(fetches, dict(zip(order, a, strict=True)))

    def run(self, given: Feeds, expected: Outcome) -> tuple[Outcome, bool]:
        """What it gives, and whether it wrote beside an array."""
        program, variable = self.program, self.built.variable
        held = [guarded(a, program.edge) for a in (*given.arrays, np.asarray(given.number))]
        arrays = [h.array for h, kept in zip(held, self.kept, strict=True) if kept]
        into: dict[str, Any] = {}
        if program.kept and program.carrier != "run" and expected.arrays and variable is None:
            results = [GuardedArray(a.shape, a.dtype, program.edge) for a in expected.arrays]
            into["out"] = [result.array for result in results]
            held += results
        if variable is not None:
            self.session.set({variable: _BEFORE[program.wrapper]})
        outcome = Outcome()
        try:
            found = self.run_(*arrays, **into)
            outcome.arrays = [np.array(a) for a in found if a is not None]
        except Exception as error:
            outcome.error = error
        if variable is not None:
            outcome.arrays = [np.asarray(self.session.get(variable))]
        return outcome, any(h.touched for h in held)


_BEFORE = {"assign": 7.0, "step": 1.0}
"""What variables hold before a run."""


# --- what is compared ----------------------------------------------------------------------------


def faults(
    program: Program, expected: Outcome, got: Outcome, touched: bool
) -> Iterator[tuple[str, str]]:
    """The kinds of what is wrong with a run, with details."""
    if touched:
        yield "wrote beside an array", ""
    if expected.error is None and got.error is None:
        single = any(o.dtype == "float32" for o in program.operands)
        # in float32 a gradient that cancels may keep two digits; two thirds have float64
        if found := _differs(expected, got.arrays, 1e-2 if single else 1e-8):
            yield found
        return
    if expected.error is None:
        yield f"raised {type(got.error).__name__} where nothing is wrong", _told(got.error)
        return
    if got.error is None:
        bare = "" if isinstance(expected.error, gx.GraphcError) else "bare, of known sizes: "
        yield f"no {bare}{type(expected.error).__name__}", _told(expected.error)
        return
    if got.arrays and got.arrays[0] != _BEFORE[program.wrapper]:
        yield "a variable changed though the run failed", ""
    yield from _wrong_error(expected.error, got.error, program.carrier)


def _wrong_error(wanted: Exception, given: Exception, carrier: str) -> Iterator[tuple[str, str]]:
    both = f"{_told(wanted)} / {_told(given)}"
    if not isinstance(wanted, gx.GraphcError):
        yield f"known sizes give a bare {type(wanted).__name__}", both
        return
    if type(wanted) is not type(given):
        yield f"{type(given).__name__} instead of {type(wanted).__name__}", both
        return
    assert isinstance(given, gx.GraphcError)
    if wanted.where is None:
        yield "known sizes give an error without a line", both
    elif given.where is None:
        yield "no line", both
    # a saved graph has lines of its own
    elif carrier != "saved" and _place(wanted.where) != _place(given.where):
        yield "another line", f"{wanted.where} / {given.where}: {both}"
    shapes = re.findall(r"\[[\d, ]*\]", wanted.message)
    if not all(shape in given.message for shape in shapes):
        yield "shapes are not named", both


def _place(where: Location) -> tuple[str, int]:
    """A line, in a file of a name alone, as libraries keep it."""
    return Path(where.filename).name, where.line


def _told(error: Exception | None) -> str:
    text = error.message if isinstance(error, gx.GraphcError) else str(error)
    return f"{type(error).__name__}: {text[:200]}"


def _differs(wanted: Outcome, got: Sequence[Array], room: float) -> tuple[str, str] | None:
    for one, other in zip(wanted.arrays, got, strict=True):
        if one.shape != other.shape or one.dtype != other.dtype:
            return "another shape", f"{one.dtype}{one.shape} {other.dtype}{other.shape}"
        if one.dtype.kind != "f":
            if not np.array_equal(one, other):
                return "other values", f"{_some(one)} {_some(other)}"
            continue
        finite = np.abs(one[np.isfinite(one)])
        # the operands are about 1, and what cancels is as good as they are
        scale = max(wanted.scale, float(finite.max(initial=1.0)))
        with np.errstate(all="ignore"):
            if not np.allclose(one, other, rtol=room, atol=room * scale, equal_nan=True):
                return "other values", f"{_some(one)} {_some(other)}"
    return None


def _some(array: Array) -> str:
    return f"{array.ravel()[:5].tolist()}"


# --- batches -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that went wrong in a run, or in building or compiling a program (run -1)."""

    seed: int
    run: int
    call: str
    context: str
    kind: str
    text: str
    detail: str
    size: int


@dataclass(slots=True)
class Report:
    """What a sweep did."""

    programs: int = 0
    runs: int = 0
    raised: int = 0
    faults: list[Fault] = field(default_factory=list)
    refused: int = 0
    """Programs that are refused when they are defined, and so have no run."""
    unbuilt: Counter[str] = field(default_factory=Counter)
    """Calls of those that known sizes would let be built, with the error."""

    def add(self, told: dict[str, Any]) -> None:
        """What a child says."""
        self.programs += 1
        self.runs += told["runs"]
        self.raised += told["raised"]
        self.faults += [Fault(**f) for f in told["faults"]]
        self.refused += told["refused"]
        self.unbuilt.update(told["unbuilt"])

    def table(self) -> str:
        """How many runs failed, by kind, context and call; of each kind the smallest ones."""
        lines = [
            f"{self.programs} programs, {self.refused} refused at once; {self.runs} runs, "
            f"{self.raised} of which had to raise: "
            f"{len(self.faults)} faults in {len({(f.seed, f.run) for f in self.faults})} runs"
        ]
        kinds = Counter(f.kind for f in self.faults)
        for kind, count in kinds.most_common():
            lines.append(f"\n{kind}: {count}")
            these = [f for f in self.faults if f.kind == kind]
            contexts = Counter(f.context for f in these)
            lines.append("  " + ", ".join(f"{c} {n}" for c, n in contexts.most_common()))
            calls = Counter(f.call for f in these)
            lines.append("  " + ", ".join(f"{c} {n}" for c, n in calls.most_common(40)))
            shown: dict[str, Fault] = {}
            for fault in sorted(these, key=lambda f: f.size):
                shown.setdefault(fault.call, fault)
            for fault in list(shown.values())[:12]:
                lines.append(f"    [{fault.seed}] {fault.text}")
                if fault.detail:
                    lines.append(f"        {fault.detail}")
        if self.unbuilt:
            lines.append("\nnot built over unknown sizes:")
            lines += [f"  {n} {what}" for what, n in self.unbuilt.most_common()]
        return "\n".join(lines)


def run_program(
    program: Program, tell: Callable[[str], None] = lambda text: None
) -> dict[str, Any]:
    """Runs a program, and says before each run what it is."""
    told: dict[str, Any] = {"runs": 0, "raised": 0, "faults": [], "refused": 0, "unbuilt": []}

    def note(kind: str, detail: str, run: int = -1, given: Feeds | None = None) -> None:
        text = f"{program}" if given is None else f"{program}: {given}"
        size = 0 if given is None else sum(a.size for a in given.arrays)
        told["faults"].append(asdict(Fault(
            program.seed, run, str(program.call), program.context, kind, text, detail, size,
        )))  # fmt: skip

    tell(f"{program}: building")
    with tempfile.TemporaryDirectory() as directory:
        try:
            built = build(program)
        except gx.GraphcError as error:
            plain = replace(program, wrapper="plain")
            expected = [right(plain, feeds(program, run)).error for run in range(RUNS)]
            told["refused"] = 1
            if any(type(e) is not type(error) for e in expected):
                told["unbuilt"].append(f"{program.call} {program.core}: {_told(error)}")
            return told
        except Exception as error:
            note(f"building raises {type(error).__name__}", _told(error))
            return told
        try:
            runner = Runner(program, built, directory)
        except Exception as error:
            note(f"compiling raises {type(error).__name__}", _told(error))
            return told
        for run in range(RUNS):
            given = feeds(program, run)
            tell(f"{program}: {given}")
            if program.call.name == "einsum" and broadcasts(program, given):
                continue
            expected = right(program, given)
            if expected.skipped or _looks_up(program, expected.error):
                continue
            fits = _fits_numpy(program, given) if program.context == "forward plain" else None
            if fits is not None and fits != (expected.error is None):
                which = "NumPy takes what known sizes don't" if fits else "NumPy alone refuses"
                note(which, _told(expected.error), run, given)
            got, touched = runner.run(given, expected)
            told["runs"] += 1
            told["raised"] += expected.error is not None
            for kind, detail in faults(program, expected, got, touched):
                note(kind, detail, run, given)
    return told


def child(seed: int, count: int) -> None:
    """Runs programs and writes a line of JSON for each run that begins and each program."""
    import resource
    import warnings

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def tell(what: Any) -> None:
        sys.stdout.write(json.dumps(what) + "\n")
        sys.stdout.flush()

    for number in range(seed, seed + count):
        signal.alarm(_SECONDS)
        begins = {"begins": number}
        told = run_program(draw(number), lambda text, begins=begins: tell({**begins, "text": text}))
        tell({"ended": number, **told})


def sweep(seed: int, count: int) -> Report:
    """Runs the programs of as many seeds as give ``count`` runs, in child processes."""
    report = Report()
    next_, end = seed, seed + -(-count // RUNS)
    while next_ < end:
        until, text = min(end, next_ + _BATCH), ""
        numbers = ["--seed", str(next_), "--count", str(until - next_)]
        command = [sys.executable, __file__, "--child", *numbers]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=child_environment()
        )
        assert process.stdout is not None
        for line in process.stdout:
            told = json.loads(line)
            if "begins" in told:
                next_, text = told["begins"], told["text"]
            else:
                next_ = told.pop("ended") + 1
                report.add(told)
        status = process.wait()
        if status == 0:
            next_ = until
            continue
        kind = signal.Signals(-status).name if status < 0 else f"exit status {status}"
        program = draw(next_)
        report.programs += 1
        report.runs += 1
        report.faults.append(
            Fault(next_, -1, str(program.call), program.context, kind, text, "", 0)
        )
        next_ += 1
    return report


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--count", type=int, default=1000, help="how many runs")
    parser.add_argument("--program", type=int, help="run this program here, and say what it does")
    parser.add_argument("--faults", type=Path, help="a file for all that failed, as lines of JSON")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.child:
        child(given.seed, given.count)
        return 0
    if given.program is not None:
        report = Report()
        report.add(run_program(draw(given.program), print))
    else:
        report = sweep(given.seed, given.count)
    print(report.table())
    if given.faults is not None:
        lines = [json.dumps(asdict(fault)) for fault in report.faults]
        given.faults.write_text("".join(f"{line}\n" for line in lines))
    return 1 if report.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
