"""The text form of graphs: reading.

Every text either gives a graph that passes the verifier or raises ParseError with line, column and
an excerpt; nothing in the text is evaluated. The grammar is ``printer``'s, and a little wider for
what people write by hand: values may be called by words (``%loss``), floats may be decimal.

    graph  := "graph" NAME ["dims" "(" SYMBOL ":" INT ".." [INT], … ")"] body
    body   := "(" %v [NAME] ":" type, … ")" "{" guard* node* "return" [%v, …] "}"
    guard  := "guard" ("equal" | "broadcasts" | "index") dims TEXT ["of" dims]
    dims   := "[" dim, … "]"
    node   := %v [NAME], … "=" OP "(" [%v, …] ")" ["{" KEY "=" attribute, … "}"] ":" type, …
              ["{" ("region" NAME body)+ "}"]
    type   := DTYPE "[" dim, … "]"
    attribute := None | True | False | INT | FLOAT | STRING | "@" DTYPE | "dim" "(" dim ")"
               | "(" attribute, … ")" | type elements | "payload" "#" DIGEST type
               | "host" STRING INTEGER
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from graphc.base.errors import GraphcError, UnsupportedError
from graphc.base.source import Location
from graphc.ir.attributes import Array
from graphc.ir.dims import expressions
from graphc.ir.graph import Graph, Node, Provenance
from graphc.ir.guard import Guard
from graphc.ir.op import OpDef, lookup
from graphc.ir.text.printer import MAXIMUM_NESTING
from graphc.ir.text.reader import Reader
from graphc.ir.types import TensorType
from graphc.ir.value import Value
from graphc.ir.verify import infer_types


class _Parser(Reader):
    """Reads the graphs of one text; ``scopes`` are the values by name, the innermost graph last."""

    def __init__(self, text: str, constants: Mapping[str, Array], filename: str | None) -> None:
        super().__init__(text, constants, filename)
        self.scopes: list[dict[str, Value]] = []
        self.line = 1
        self.line_offset = 0

    def whole(self) -> Graph:
        self.expect("graph")
        name = self.string("the graph's name in quotes")
        if self.accept("dims"):
            self.bounds()
        graph = self.body(name, 0)
        if self.kind != "end":
            self.fail(f"expected the end of the text, found {self.found()}")
        return graph

    def bounds(self) -> None:
        self.expect("(")
        while True:
            start = self.start
            if self.kind == "string":
                try:
                    name = str(json.loads(self.token))
                except ValueError as error:
                    self.fail(str(error))
                self.take()
            else:
                name = self.expect_kind("name", "a symbol")
            self.expect(":")
            lower = self.integer()
            self.expect("..")
            upper = self.integer() if self.kind == "number" else None
            if name in self.symbols:
                self.fail(f"symbol {name!r} has bounds already", start)
            try:
                self.symbols[name] = expressions.symbol(name, lower, upper)
            except ValueError as error:
                self.fail(str(error), start)
            if not self.accept(","):
                self.expect(")")
                return

    def define(self, token: str, start: int, value: Value) -> None:
        if token in self.scopes[-1]:
            self.fail(f"{token} is defined already", start)
        self.scopes[-1][token] = value

    def label(self) -> str | None:
        return self.string("a name") if self.kind == "string" else None

    def read(self) -> Value:
        start, token = self.start, self.expect_kind("value", "a value like %0")
        value = self.scopes[-1].get(token)
        if value is not None:
            return value
        if any(token in scope for scope in self.scopes):
            self.fail(f"{token} is outside this region; pass it as an operand", start)
        self.fail(f"{token} is not defined before", start)

    def body(self, name: str, depth: int) -> Graph:
        if depth > MAXIMUM_NESTING:
            self.fail(f"regions are nested more than {MAXIMUM_NESTING} deep")
        self.scopes.append({})
        inputs: list[Value] = []
        self.expect("(")
        while not self.accept(")"):
            start, token = self.start, self.expect_kind("value", "an input like %0")
            label = self.label()
            self.expect(":")
            value = Value(self.read_type(), label)
            self.define(token, start, value)
            inputs.append(value)
            if not self.accept(","):
                self.expect(")")
                break
        self.expect("{")
        guards: list[Guard] = []
        while self.accept("guard"):
            guards.append(self.guard())
        nodes: list[Node] = []
        while not self.accept("return"):
            nodes.append(self.node(depth))
        outputs: list[Value] = []
        while not self.accept("}"):
            outputs.append(self.read())
            if not self.accept(","):
                self.expect("}")
                break
        self.scopes.pop()
        return Graph(name, inputs, nodes, outputs, guards)

    def guard(self) -> Guard:
        where = self.provenance().where
        start, relation = self.start, self.expect_kind("name", "equal, broadcasts or index")
        if relation not in ("equal", "broadcasts", "index"):
            self.fail(f"expected equal, broadcasts or index, found {relation!r}", start)
        start, pair = self.start, self.dim_list()
        if len(pair) != 2:
            self.fail("a guard compares two dims", start)
        message = self.string("the guard's message in quotes")
        shown = self.dim_list() if self.accept("of") else None
        return Guard(
            *pair, message, where, relation == "broadcasts", shown, relation == "index"
        )

    def node(self, depth: int) -> Node:
        results: list[tuple[str, int, str | None]] = []
        while True:
            start, token = self.start, self.expect_kind("value", "a node or 'return'")
            results.append((token, start, self.label()))
            if not self.accept(","):
                break
        self.expect("=")
        place, provenance = self.start, self.provenance()
        op = self.op()
        inputs: list[Value] = []
        self.expect("(")
        while not self.accept(")"):
            inputs.append(self.read())
            if not self.accept(","):
                self.expect(")")
                break
        attrs = self.attrs()
        self.expect(":")
        types_start = self.start
        types = [self.read_type()]
        while self.accept(","):
            types.append(self.read_type())
        regions = self.regions(depth)
        self.check(op, inputs, attrs, regions, types, place, types_start)
        if len(results) != len(types):
            self.fail(f"{len(results)} results, but {len(types)} types", results[0][1])
        values: list[Value] = []
        for (token, start, label), type in zip(results, types, strict=True):
            value = Value(type, label)
            self.define(token, start, value)
            values.append(value)
        return Node(op, tuple(inputs), attrs, tuple(values), tuple(regions), provenance)

    def provenance(self) -> Provenance:
        """The line of the next token; has to be asked for in the order of the text."""
        if self.filename is None:
            return Provenance(None, "parsed")
        self.line += self.text.count("\n", self.line_offset, self.start)
        self.line_offset = self.start
        return Provenance(Location(self.filename, self.line), "parsed")

    def op(self) -> OpDef:
        start, name = self.start, self.word("an operation")
        try:
            return lookup(name)
        except UnsupportedError as error:
            self.fail(error.message, start)

    def attrs(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        if not self.accept("{"):
            return result
        while not self.accept("}"):
            start, name = self.start, self.word("an attribute's name")
            if name in result:
                self.fail(f"attribute {name!r} is given twice", start)
            self.expect("=")
            result[name] = self.attribute(0)
            if not self.accept(","):
                self.expect("}")
                break
        return result

    def regions(self, depth: int) -> list[Graph]:
        result: list[Graph] = []
        if not self.accept("{"):
            return result
        while True:
            self.expect("region")
            result.append(self.body(self.string("the region's name in quotes"), depth + 1))
            if self.accept("}"):
                return result

    def check(
        self,
        op: OpDef,
        inputs: list[Value],
        attrs: dict[str, Any],
        regions: list[Graph],
        types: list[TensorType],
        place: int,
        types_start: int,
    ) -> None:
        try:
            expected = infer_types(op, inputs, attrs, regions)
        except GraphcError as error:
            self.fail(error.message, place)
        if list(expected) != types:
            stated = ", ".join(map(str, types))
            rule = ", ".join(map(str, expected))
            self.fail(f"{op.name} gives {rule}, the text says {stated}", types_start)


def parse_graph(
    text: str, constants: Mapping[str, Array] | None = None, *, filename: str | None = None
) -> Graph:
    """The graph a text describes.

    Args:
        text: what ``print_graph`` gives, or the like written by hand.
        constants: the arrays of large constants by digest, see ``printer.payloads``.
        filename: where the text comes from; nodes and guards get located there, at their lines.

    Raises:
        ParseError: with line, column and an excerpt, for anything that is not a valid graph.
    """
    return _Parser(text, constants or {}, filename).whole()
