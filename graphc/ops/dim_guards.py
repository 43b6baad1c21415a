"""What quotients of sizes ask for: ``10 // x.shape[0]`` is none where x has no elements.

Role: a size that the user made of others by division may be of no value. That no divisor is 0 is
then asked where it is used. What a size that was read off a value needs, the guards of that value
say (``graphc.ir.dims.read_sizes``). Invariant: sizes of values that are computed or given ask for
nothing more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from graphc.ir.dims.algebra import DIVIDING, Atom, terms_of
from graphc.ir.dims.compare import RELATIONS
from graphc.ir.dims.expressions import Dim, DimExpr, equal
from graphc.ir.dims.walks import atoms_in_order
from graphc.ir.graph import Node
from graphc.ir.guard import ATTRIBUTE, Data, Guard, data_of
from graphc.ir.node_guards import may_demand
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ops.guards import nonempty_pair


def with_sizes_asked(nodes: Sequence[Node], given: Collection[Value] = ()) -> Sequence[Node]:
    """The nodes in order, those with guards of the sizes in their attributes that need some.

    What makes a value that is ``given`` does not run. Where no node needs any, ``nodes`` itself.
    """
    if not Atom.divide:
        return nodes
    mentioned = [dim for node in nodes if node.attrs for dim in _mentioned(node)]
    if not mentioned or not any(map(_is_asking, _evaluated(mentioned, ()))):
        return nodes
    # atoms whose sizes are asked for already, or of values that are there
    known: dict[Atom, None] = {}
    types: dict[int, TensorType] = {}
    result: list[Node] = []
    is_asked = False

    def told(values: Sequence[Value]) -> None:
        for value in values:
            if id(value.type) not in types:
                types[id(value.type)] = value.type
                for dim in value.type.shape:
                    known.update(dict.fromkeys(atoms_in_order(dim, known)))

    told([*given])
    for node in nodes:
        told(node.inputs)
        if may_demand(node):
            told(node.outputs)
        found: list[Data] = []
        sizes = _mentioned(node) if node.attrs else []
        evaluated = _evaluated(sizes, known)
        for atom in (atom for size in sizes for atom in atoms_in_order(size, known)):
            if atom in evaluated:
                known[atom] = None
                found += _asked(atom)
        if found:
            is_asked = True
            attrs = {**node.attrs, ATTRIBUTE: (*found, *node.attrs.get(ATTRIBUTE, ()))}
            node = node.with_attrs(attrs)
        result.append(node)
    return result if is_asked else nodes


def symbolic(attribute: Any) -> Iterator[DimExpr]:
    """The symbolic dims in an attribute: itself, or in tuples of any depth."""
    stack = [attribute]
    while stack:
        item = stack.pop()
        if isinstance(item, DimExpr):
            yield item
        elif isinstance(item, tuple):
            stack.extend(item)


def _mentioned(node: Node) -> list[DimExpr]:
    given = (value for name, value in node.attrs.items() if name != ATTRIBUTE)
    return [dim for value in given for dim in symbolic(value)]


def _evaluated(sizes: Iterable[Dim], known: Collection[Atom]) -> dict[Atom, None]:
    """The atoms but those known that are evaluated whatever the sizes are: what only one arm of a
    selection needs is not among them."""
    found: dict[Atom, None] = {}
    stack = [*sizes]
    while stack:
        for monomial, _ in terms_of(stack.pop()):
            for atom, _ in monomial:
                if atom not in known and atom not in found:
                    found[atom] = None
                    stack += atom.arguments[:2] if atom.kind in RELATIONS else atom.arguments
    return found


def _is_asking(atom: Atom) -> bool:
    return atom.kind in DIVIDING and equal(atom.arguments[1], 0) is not False


def _asked(atom: Atom) -> Iterator[Data]:
    if _is_asking(atom):
        left, right = nonempty_pair(atom.arguments[1])
        message = "a size is {} divided by {}"
        yield data_of(Guard(left, right, message, None, False, atom.arguments))


__all__ = ["symbolic", "with_sizes_asked"]
