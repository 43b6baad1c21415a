"""Times of kernels: a program run step by step, and what each kernel took.

Invariant: measuring changes nothing but the arrays that it is given to write to.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.base.source import Location
from graphc.ir.attributes import Array
from graphc.ir.host import HostFunction
from graphc.plan.ir import HostCall, Launch
from graphc.runtime.program import Program


@dataclass(frozen=True, slots=True)
class KernelTime:
    """What one kernel took in a run, its launches together.

    Attributes:
        kernel: its number in ``Executable.kernels``; -1 for copies, and less for Python functions.
        name: its label.
        launches: how often it ran in a run.
        seconds: the median over the runs.
        share: of the time of all kernels and copies.
        where: the user's line of its first launch.
    """

    kernel: int
    name: str
    launches: int
    seconds: float
    share: float
    where: Location | None


@dataclass(frozen=True, slots=True)
class Profile:
    """A measurement of a program.

    Attributes:
        kernels: the slowest first.
        steps: the median seconds of each step of the plan, its repetitions in a run together.
        runs: how many runs were timed.
        sizes: the sizes of the symbolic dims in them.
    """

    kernels: tuple[KernelTime, ...]
    steps: Mapping[int, float]
    runs: int
    sizes: Mapping[str, int]

    @property
    def seconds(self) -> float:
        """Of all kernels and copies of a run."""
        return sum(kernel.seconds for kernel in self.kernels)

    def __str__(self) -> str:
        width = max([len(kernel.name) for kernel in self.kernels] + [6])
        lines = [f"{'#':>3} {'kernel':<{width}} {'launches':>8} {'µs':>10} {'share':>6}  line"]
        for kernel in self.kernels:
            number = kernel.kernel if kernel.kernel >= 0 else ""
            line = f"{number:>3} {kernel.name:<{width}}"
            line += f" {kernel.launches:>8} {kernel.seconds * 1e6:>10.1f}"
            where = kernel.where.brief if kernel.where is not None else ""
            lines.append(f"{line} {kernel.share:>6.1%}  {where}".rstrip())
        return "\n".join(lines)


def profiled(
    program: Program, arrays: Sequence[Array], runs: int, into: Mapping[int, Array]
) -> Profile:
    """Runs a program once and then ``runs`` times more, which are timed.

    ``into`` has the arrays to write results to, by their position; other results are dropped.

    Raises:
        ShapeError, IndexRangeError: as ``Program.run``.
    """
    program.run(arrays, into)
    plan = program.plan
    launches: Counter[int] = Counter()

    def timed() -> Counter[int]:
        spent: Counter[int] = Counter()

        def observe(position: int, nanoseconds: int) -> None:
            spent[position] += nanoseconds
            launches[position] += 1

        program.run(arrays, into, observe)
        return spent

    measured = [timed() for _ in range(runs)]
    steps_of: dict[int, list[int]] = {}
    functions: dict[HostFunction, int] = {}
    for position in sorted(launches):
        step = plan.steps[position]
        if isinstance(step, Launch):
            number = step.kernel
        elif isinstance(step, HostCall):
            number = -2 - functions.setdefault(step.function, len(functions))
        else:
            number = -1
        steps_of.setdefault(number, []).append(position)
    seconds = {
        kernel: statistics.median(sum(spent[n] for n in steps) for spent in measured) / 1e9
        for kernel, steps in steps_of.items()
    }
    total = sum(seconds.values())
    called = {-2 - number: function.name for function, number in functions.items()}
    kernels = [
        KernelTime(
            kernel,
            plan.kernels[kernel].name if kernel >= 0 else called.get(kernel, "copies"),
            sum(launches[position] for position in steps_of[kernel]) // runs,
            seconds[kernel],
            seconds[kernel] / total,
            getattr(plan.steps[steps_of[kernel][0]], "where", None),
        )
        for kernel in sorted(seconds, key=lambda kernel: (-seconds[kernel], kernel))
    ]
    medians = {n: statistics.median(spent[n] for spent in measured) / 1e9 for n in launches}
    return Profile(tuple(kernels), medians, runs, program.bind(arrays))
