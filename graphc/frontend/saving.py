"""Graphs in files: ``save`` and ``load`` of what a list of fetches needs.

The file is the graph's text (``ir.text.files``) as the user built it, with placeholders, variables
and assignments. What a recorder knows beside its nodes is written as nodes at the end, which
``load`` takes out again (``ops.files``). Nothing read is executed or unpickled. Graphs with inputs,
as ``print(executable.source)`` gives them, load too: their inputs become placeholders.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphc.base.errors import ArtifactError, GraphError, ParseError
from graphc.base.source import caller
from graphc.base.warn import warn
from graphc.base.words import shown
from graphc.compiling.extraction import needed, with_sources
from graphc.frontend.state import Variable, group
from graphc.frontend.structure import leaves
from graphc.frontend.structure_data import structure_data, structure_of
from graphc.ir.attributes import Array, Payload
from graphc.ir.builder import make_node
from graphc.ir.dims import expressions
from graphc.ir.effect import Effect
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.op import OpDef
from graphc.ir.recorder import Recorder
from graphc.ir.text.files import load_graph, save_graph
from graphc.ir.text.printer import symbols_in
from graphc.ir.value import Value
from graphc.ops.files import effect_op, relies_op, requires_op, structure_op
from graphc.ops.host import refuse_host_calls
from graphc.ops.source import placeholder_op
from graphc.ops.state import assign_op, variable_op

if TYPE_CHECKING:
    from graphc.session.session import Session

_FRESH = re.compile(r"_d([0-9]{1,18})", re.ASCII)


# --- writing -------------------------------------------------------------------------------------


def save(path: str | os.PathLike[str], fetches: Any, *, session: Session | None = None) -> None:
    """Writes what the fetches need to ``path``, and large constants to ``path`` + ``.npz``.

    Variables start from the values that they have in ``session``. Without one they keep their
    initial values, and if the graph assigns to one of them, which training does, a warning says so.

    Args:
        path: the file, by habit ``*.gir``.
        fetches: values, effects or nested lists, tuples and dicts of them, of one graph.
        session: whose values of the variables to save.

    Raises:
        GraphError: for fetches of several graphs, or that are no values or effects, and for a
            session of another graph.
        UnsupportedError: for structures that files can't hold, and for Python functions.
        FileError: if the file can't be written.
    """
    flat = list(leaves(fetches))
    structure = structure_data(fetches)
    recorder = _recorder_of(flat)
    roots = [v for leaf in flat for v in (leaf.values if isinstance(leaf, Effect) else (leaf,))]
    needs = with_sources(recorder, needed(recorder, roots, ()))
    refuse_host_calls(needs, "a file")
    nodes = _saved_nodes(recorder, needs)
    nodes = _with_facts(recorder, nodes, session)
    saved = {value for node in nodes for value in node.outputs}
    for node in list(nodes):
        for value in node.outputs:
            required, relied = recorder.requires.get(value, ()), recorder.relied_on(value)
            for op, found in ((requires_op, required), (relies_op, relied)):
                others = [v for v in dict.fromkeys(found) if v in saved]
                if others:
                    nodes.append(_file_node(op, (value, *others)))
    outputs: list[Value] = []
    for leaf in flat:
        if isinstance(leaf, Effect):
            nodes.append(_file_node(effect_op, leaf.values, name=leaf.name))
            outputs.append(nodes[-1].output)
        else:
            outputs.append(leaf)
    if structure != ["list", *range(len(flat))]:
        nodes.append(_file_node(structure_op, (), data=json.dumps(structure)))
        outputs.append(nodes[-1].output)
    save_graph(path, Graph(recorder.name, (), nodes, outputs))


def _recorder_of(flat: Sequence[Any]) -> Recorder:
    """The one graph that all fetches belong to."""
    recorder: Recorder | None = None
    for leaf in flat:
        if not isinstance(leaf, (Value, Effect)):
            raise GraphError(
                f"{shown(leaf)} is neither a value nor an effect",
                where=caller(),
                hint="the path comes first, then what to compute: gx.save(path, fetches, "
                "session=session); values of variables alone are written by session.save(path)",
            )
        for value in leaf.values if isinstance(leaf, Effect) else (leaf,):
            owner: Recorder | None = value.graph
            if owner is None or owner.parent is not None:
                raise GraphError(f"{value!r} belongs to a branch or a loop body", where=caller())
            if recorder is not None and owner is not recorder:
                raise GraphError("the fetches belong to several graphs", where=caller())
            recorder = owner
    return recorder if recorder is not None else Recorder("graph")


def _saved_nodes(recorder: Recorder, nodes: Sequence[Node]) -> list[Node]:
    """The nodes, and the variables they write; each assignment follows the last one saved.

    A write does not need the one before it to run, so there may be some between them that are not
    saved.
    """
    found = {node.outputs[0]: node for node in nodes}
    for node in nodes:
        variable = recorder.written.get(node.outputs[0])
        producer = recorder.producer(variable) if variable is not None else None
        if producer is not None:
            found.setdefault(producer.outputs[0], producer)
    latest: dict[Value, Value] = {}
    result: list[Node] = []
    for node in sorted(found.values(), key=lambda node: recorder.positions[node.outputs[0]]):
        written = recorder.written.get(node.outputs[0])
        if written is not None:
            before = latest.get(written, written)
            latest[written] = node.output
            node = replace(node, inputs=(before, *node.inputs[1:]))
        result.append(node)
    return result


def _with_facts(recorder: Recorder, nodes: Sequence[Node], session: Session | None) -> list[Node]:
    """The nodes, with the values that variables shall start from, and what they know beside."""
    kept = [node.output for node in nodes if node.op is variable_op]
    present = _values_in(session, recorder, kept)
    written = {*recorder.written.values()}
    untrained: list[Value] = []
    result: list[Node] = []
    for node in nodes:
        value = node.outputs[0]
        if isinstance(value, Variable):
            attrs = dict(node.attrs)
            if not value.trainable:
                attrs["trainable"] = False
            stored = value.stored
            if present:
                attrs["initial"], stored = Payload(present[value]), "session"
            elif stored is None and value in written:
                untrained.append(value)
                stored = "initial"
            if stored is not None:
                attrs["values"] = stored
            node = replace(node, attrs=attrs)
        result.append(node)
    if untrained:
        names = ", ".join(shown(value.name) for value in untrained[:4])
        warn(
            f"variables that the graph assigns to are saved with their initial values: {names}"
            + ", …" * (len(untrained) > 4),
            hint="save what a session has made of them: gx.save(path, fetches, session=session); "
            "a new gx.Session(graph) has the initial values",
        )
    return result


def _values_in(session: Any, recorder: Recorder, variables: Sequence[Value]) -> dict[Value, Array]:
    """What a session has for the variables; nothing without a session."""
    if session is None:
        return {}
    if getattr(session, "graph", None) is not recorder:
        of = f"a session of graph {session.graph.name!r}" if hasattr(session, "graph") else session
        raise GraphError(
            f"session={of if isinstance(of, str) else shown(of)}, but the fetches are of graph "
            f"{recorder.name!r}",
            where=caller(),
            hint="give the session that ran the fetches",
        )
    found = session.get(list(variables))
    for array in found:
        array.flags.writeable = False
    return dict(zip(variables, found, strict=True))


def _file_node(op: OpDef, inputs: Sequence[Value], name: str | None = None, **attrs: Any) -> Node:
    return make_node(op, inputs, attrs, (), Provenance(), name=name)


# --- reading -------------------------------------------------------------------------------------


def load(path: str | os.PathLike[str]) -> Any:
    """The fetches that ``save`` wrote, in the structure they had, in a new graph.

    Raises:
        ParseError: if the file is damaged or no graph.
        FileError: if it can't be read.
    """
    return _Loader(load_graph(path)).fetches()


class _Loader:
    """Makes a recorder of one saved graph."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.recorder = Recorder(graph.name)
        self.renamed: dict[Value, Value] = {}
        self.effects: dict[Value, Effect] = {}
        self.structure: Any = None

    def fetches(self) -> Any:
        """Records all nodes; gives the fetches."""
        for value in self.graph.inputs:
            attrs = {"dtype": value.dtype, "shape": value.shape}
            node = make_node(placeholder_op, (), attrs, (), Provenance(), (value,))
            self.recorder.adopt(node)
        structures: set[Value] = set()
        for node in self.graph.nodes:
            inputs = tuple(self._operand(value, node) for value in node.inputs)
            if node.op is requires_op:
                self.recorder.require(inputs[0], inputs[1:])
            elif node.op is relies_op:
                self.recorder.rely(inputs[0], inputs[1:])
            elif node.op is effect_op:
                self.effects[node.output] = group(*inputs, name=node.output.name)
            elif node.op is structure_op:
                structures.add(node.output)
                self.structure = _data_of(node)
            else:
                self._record(node, inputs)
        self.recorder._symbols = _largest_number(self.graph)
        outputs = [value for value in self.graph.outputs if value not in structures]
        found = [self.effects.get(v) or self._operand(v, None) for v in outputs]
        if self.structure is None:
            return found
        try:
            return structure_of(self.structure, len(found), found.__getitem__)
        except ArtifactError as error:
            raise ParseError(error.message) from error

    def _operand(self, value: Value, node: Node | None) -> Value:
        found = self.renamed.get(value, value)
        if found.graph is not self.recorder:
            reader = node.op.name if node is not None else "return"
            raise ParseError(
                f"{reader} reads what is no value, but stands in files only",
                where=node.provenance.where if node is not None else None,
            )
        return found

    def _record(self, node: Node, inputs: tuple[Value, ...]) -> None:
        recorder, attrs, outputs = self.recorder, node.attrs, node.outputs
        if node.op is variable_op:
            attrs = dict(attrs)
            trainable = attrs.pop("trainable", True)
            stored = attrs.pop("values", None)
            old = node.output
            variable = Variable(old.type, old.name, recorder, trainable is not False)
            variable.stored = stored if isinstance(stored, str) else None
            self.renamed[old] = variable
            outputs = (variable,)
        recorder.adopt(replace(node, inputs=inputs, attrs=attrs, outputs=outputs))
        if node.op is assign_op:
            before = inputs[0]
            written = before if isinstance(before, Variable) else recorder.written.get(before)
            if written is None:
                raise ParseError("assigns to no variable", where=node.provenance.where)
            recorder.written[node.output] = written
            recorder.latest[written] = node.output


def _data_of(node: Node) -> Any:
    data = node.attrs.get("data")
    try:
        return json.loads(data) if isinstance(data, str) else None
    except (ValueError, RecursionError) as error:
        raise ParseError("the structure of the fetches is damaged") from error


def _largest_number(graph: Graph) -> int:
    """The largest number of a symbol that a graph made up, so that fresh symbols are new."""
    names: Iterable[str] = (expressions.symbol_name(symbol) for symbol in symbols_in(graph))
    found = (_FRESH.fullmatch(name) for name in names)
    return max((int(match[1]) for match in found if match is not None), default=0)


__all__ = ["load", "save"]
