"""Values that may not exist, because guards stand behind them.

Role: tells ``Value.shape`` which sizes have to remember what they are read off. Invariant: nodes
are judged when somebody asks, each once, so that building does not pay for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from graphc.base.forks import lock
from graphc.ir.dims.expressions import Sources
from graphc.ir.graph import Node
from graphc.ir.node_guards import demands, guards_within
from graphc.ir.value import Value


class Failing:
    """Values of a recorder that are not there for some sizes."""

    __slots__ = ("_judged", "_known", "_lock", "_nodes", "_of_sources", "_relies")

    def __init__(self, nodes: Sequence[Node], relies: Mapping[Value, Sources]) -> None:
        """Of the recorder's nodes and what values rely on, which both grow."""
        self._nodes = nodes
        self._relies = relies
        # whether by a run alone, of those that are not there for some sizes
        self._known: dict[Value, bool] = {}
        self._judged = 0
        self._of_sources: dict[int, tuple[Sources, bool | None]] = {}
        self._lock = lock()

    def by_running(self, sources: Sources) -> bool | None:
        """None for values that always are there, made from none that has guards or relies on one.

        Else whether some of these are guards of branches or bodies, so that only a run tells which
        of them count.
        """
        if self._judged < len(self._nodes):
            with self._lock:
                new = self._nodes[self._judged :]
                for node in new:
                    self._judge(node)
                self._judged += len(new)
        return self._of(sources)

    def _judge(self, node: Node) -> None:
        found = [*map(self._known.get, node.inputs)]
        if self._relies:
            relied = (self._relies.get(output) for output in node.outputs)
            found += [self._of(sources) for sources in relied if sources is not None]
        by_running = True in found or guards_within(node)
        if by_running or False in found or demands(node):
            self._known.update(dict.fromkeys(node.outputs, by_running))

    def _of(self, sources: Sources) -> bool | None:
        """As ``by_running``, of values that were judged; worked out once for a tuple."""
        if len(sources) == 1 and not isinstance(sources[0], tuple):
            return self._of_value(sources[0])
        known = self._of_sources.get(id(sources))
        if known is not None:
            return known[1]
        found: set[bool | None] = set()
        seen: set[int] = set()
        stack: list[Any] = [*sources]
        while stack:
            item = stack.pop()
            if not isinstance(item, tuple):
                found.add(self._of_value(item))
            elif id(item) in self._of_sources:
                found.add(self._of_sources[id(item)][1])
            elif id(item) not in seen:
                seen.add(id(item))
                stack += item
        result = True if True in found else False if False in found else None
        # the tuple stays, so that no other gets its id
        self._of_sources[id(sources)] = sources, result
        return result

    def _of_value(self, value: Value) -> bool | None:
        home = value.graph
        if home is None:
            return self._known.get(value)
        failing: Failing = home.failing
        # a node in a branch may rely on a value around it
        return self._known.get(value) if failing is self else failing.by_running((value,))


__all__ = ["Failing"]
