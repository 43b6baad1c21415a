"""Values that may not exist, because guards stand behind them.

Role: tells ``Value.shape`` which sizes have to remember what they are read off. Invariant: nodes
are judged when somebody asks, each once, so that building does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphc.base.forks import lock
from graphc.ir.dims.expressions import Sources
from graphc.ir.guard import demands, guards_within

if TYPE_CHECKING:
    from graphc.ir.graph import Node
    from graphc.ir.recorder import Recorder
    from graphc.ir.value import Value


class Failing:
    """Values of a recorder that are not there for some sizes."""

    __slots__ = ("_judged", "_known", "_lock", "_of_sources")

    def __init__(self) -> None:
        # whether by a run alone, of those that are not there for some sizes
        self._known: dict[Value, bool] = {}
        self._judged = 0
        self._of_sources: dict[int, tuple[Sources, bool | None]] = {}
        self._lock = lock()

    def by_running(self, sources: Sources, recorder: Recorder) -> bool | None:
        """None for values that always are there, made from none that has guards or relies on one.

        Else whether some of these are guards of branches or bodies, so that only a run tells which
        of them count.
        """
        if self._judged < len(recorder.nodes):
            with self._lock:
                new = recorder.nodes[self._judged :]
                for node in new:
                    self._judge(node, recorder)
                self._judged += len(new)
        return self._of(sources, recorder)

    def _judge(self, node: Node, recorder: Recorder) -> None:
        found = [*map(self._known.get, node.inputs)]
        if recorder.relies:
            relied = (recorder.relies.get(output) for output in node.outputs)
            found += [self._of(sources, recorder) for sources in relied if sources is not None]
        by_running = True in found or guards_within(node)
        if by_running or False in found or demands(node):
            self._known.update(dict.fromkeys(node.outputs, by_running))

    def _of(self, sources: Sources, recorder: Recorder) -> bool | None:
        """As ``by_running``, of values that were judged; worked out once for a tuple."""
        if len(sources) == 1 and not isinstance(sources[0], tuple):
            return self._of_value(sources[0], recorder)
        known = self._of_sources.get(id(sources))
        if known is not None:
            return known[1]
        found: set[bool | None] = set()
        seen: set[int] = set()
        stack: list[Any] = [*sources]
        while stack:
            item = stack.pop()
            if not isinstance(item, tuple):
                found.add(self._of_value(item, recorder))
            elif id(item) in self._of_sources:
                found.add(self._of_sources[id(item)][1])
            elif id(item) not in seen:
                seen.add(id(item))
                stack += item
        result = True if True in found else False if False in found else None
        # the tuple stays, so that no other gets its id
        self._of_sources[id(sources)] = sources, result
        return result

    def _of_value(self, value: Value, recorder: Recorder) -> bool | None:
        graph = value.graph
        if graph is None or graph is recorder:
            return self._known.get(value)
        # a node in a branch may rely on a value around it
        return graph.failing.by_running((value,), graph)


__all__ = ["Failing"]
