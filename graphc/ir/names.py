"""The names in a graph: who bears which, which are free, and who is meant by one.

A name is a label that several values may bear; only who looks for one needs it to be that of one
value. Effects have names apart from those of values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, TypeVar

from graphc.base.errors import NameLookupError
from graphc.base.forks import lock
from graphc.base.source import caller
from graphc.base.words import known_names, shown
from graphc.ir.builder import default
from graphc.ir.effect import Effect
from graphc.ir.graph import Node
from graphc.ir.value import Value

_Named = TypeVar("_Named", Value, Value | Effect)


class Named(Protocol):
    """What errors tell of the recorder whose names these are."""

    name: str

    def producer(self, value: Value) -> Node | None: ...


class Names:
    """The names of one recorder.

    Names of new nodes get in when somebody asks for a name, so that building does not pay for it.
    That is also when values that are always called something get theirs.

    Args:
        nodes: those whose values may have a name, or are always called something; it grows.

    Attributes:
        changes: grows with each change of a name and each effect, which may change what names mean.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.changes = 0
        self._nodes = nodes
        self._noted = 0
        self._values: dict[str, list[Value]] = {}
        self._effects: dict[str, list[Effect]] = {}
        self._numbers: dict[str, int] = {}
        self._lock = lock()

    def settle(self) -> None:
        """Notes the names of the nodes that there are."""
        if self._noted == len(self._nodes):
            return
        with self._lock:
            for node in self._nodes[self._noted :]:
                for value in node.outputs:
                    name = value._name
                    if name is None:
                        if value.stem is None:
                            continue
                        name = value._name = self._free(value.stem)
                    self._values.setdefault(name, []).append(value)
                self._noted += 1

    def note_effect(self, effect: Effect) -> None:
        """A new effect bears its name."""
        assert effect.name is not None
        with self._lock:
            self.changes += 1
            self._effects.setdefault(effect.name, []).append(effect)

    def change(self, value: Value, name: str | None) -> None:
        """Gives a value of the recorder another name, or none."""
        self.settle()
        with self._lock:
            self.changes += 1
            if value._name is not None:
                others = [other for other in self._values.pop(value._name) if other is not value]
                if others:
                    self._values[value._name] = others
            value._name = name
            if name is not None:
                self._values.setdefault(name, []).append(value)

    def _free(self, stem: str) -> str:
        """A name that nothing bears yet: the stem, or the stem with the next number that is free.

        The same program gets the same names, since numbers go by the order of building.
        """
        number = self._numbers.get(stem, 0)
        while (name := f"{stem}_{number}" if number else stem) in self._values:
            number += 1
        self._numbers[stem] = number
        return name

    def value(self, name: str, recorder: Named) -> Value:
        """The value of that name in the recorder.

        Raises:
            NameLookupError: if no value, or more than one, bears it; names their lines.
        """
        self.settle()
        found = self._values.get(name, ()) if isinstance(name, str) else ()
        return _only(recorder, name, found, "value", self._values)

    def value_or_effect(self, name: str, recorder: Named) -> Value | Effect:
        """The value or the effect of that name in the recorder.

        Raises:
            NameLookupError: if neither, or more than one, bears it; names their lines.
        """
        self.settle()
        found: list[Value | Effect] = [*self._values.get(name, ()), *self._effects.get(name, ())]
        return _only(recorder, name, found, "value or effect", (*self._values, *self._effects))

    def __getstate__(self) -> dict[str, object]:
        return {name: part for name, part in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        vars(self).update(state)
        self._lock = lock()


def _only(
    recorder: Named, name: str, found: Sequence[_Named], kind: str, known: Iterable[str]
) -> _Named:
    if len(found) == 1:
        return found[0]
    if not found:
        raise NameLookupError(
            f"no {kind} is called {shown(name)}",
            where=caller(),
            hint=known_names(str(name), known)
            or f"nothing of graph {recorder.name!r} has a name; "
            "gx.Session(graph) runs another graph",
        )
    values = [item.values[0] if isinstance(item, Effect) else item for item in found]
    makers = filter(None, map(recorder.producer, values))
    lines = ", ".join(str(node.provenance.where) for node in makers)
    what = "values" if all(isinstance(item, Value) for item in found) else "values or effects"
    again = "gx.reset_default_graph()" if recorder is default() else "a new gx.Graph()"
    raise NameLookupError(
        f"{len(found)} {what} are called {name!r}, built at {lines}",
        where=caller(),
        hint="use the value itself instead of its name; if a cell or a function built it once "
        f"more because it ran again, begin anew, with {again}",
    )


__all__ = ["Names"]
