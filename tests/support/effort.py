"""How much work a call does, counted and not timed: the same number on every machine.

Costs that grow linearly are shown with it: a run over eight times as much takes about eight times
the lines. Lines that Python executes are counted (a loop on one line counts once a round), each
function that is called too; what a single call into C walks over is not seen.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def lines_run(run: Callable[[], object]) -> int:
    """The lines of Python that ``run`` executes in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    finally:
        sys.settrace(before)
    return count


def assert_linear(
    make: Callable[[int], Callable[[], object]], few: int, times: int = 8, slack: float = 1.25
) -> None:
    """That the work which ``make`` returns for a size grows no faster than the size.

    Counted for the sizes ``few`` and ``few * times``, after one run that fills caches; ``slack``
    leaves room for logarithms.
    """
    make(few)()
    small, large = (lines_run(make(size)) for size in (few, few * times))
    assert large <= slack * times * small, f"{small} lines for {few}, {large} for {few * times}"
