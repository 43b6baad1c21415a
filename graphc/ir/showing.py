"""Methods by which graphs of both kinds, recorded and frozen, are printed, drawn and handed on.

Role: the hook between graphs and what shows them. Modules above, which know graphs, enter their
functions under the name of a form; the module of a form is loaded when it is first asked for.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import networkx

_Shower = TypeVar("_Shower", bound=Callable[..., Any])

_MODULES = {
    "text": "graphc.ir.text.printer",
    "networkx": "graphc.ir.draw.export",
    "dot": "graphc.ir.draw.export",
    "svg": "graphc.ir.draw.svg",
    "html": "graphc.ir.draw.html",
}
_SHOWERS: dict[str, Callable[..., Any]] = {}


def shows(form: str) -> Callable[[_Shower], _Shower]:
    """Decorator: enters the function that gives a graph in this form."""

    def enter(function: _Shower) -> _Shower:
        _SHOWERS[form] = function
        return function

    return enter


def _shown(graph: object, form: str) -> Any:
    if form not in _SHOWERS:
        importlib.import_module(_MODULES[form])
    return _SHOWERS[form](graph)


def to_text(graph: object) -> str:
    """The graph as text, which ``graphc.ir.text.parser`` reads."""
    text: str = _shown(graph, "text")
    return text


def to_networkx(graph: object) -> networkx.MultiDiGraph[int]:
    """The graph for networkx: nodes numbered in topological order, an edge for each operand.

    Attributes of nodes: ``op``, ``kind`` ("input", "parameter", "constant", "operation",
    "fused" or "control"), ``name``, ``type``, ``where``, ``outputs``, ``results``; of edges:
    ``operand``, ``value``, ``type``.
    """
    made: networkx.MultiDiGraph[int] = _shown(graph, "networkx")
    return made


def to_dot(graph: object) -> str:
    """The graph in Graphviz's language."""
    text: str = _shown(graph, "dot")
    return text


def to_svg(graph: object) -> str:
    """The graph drawn, as the text of an SVG file."""
    text: str = _shown(graph, "svg")
    return text


def to_html(graph: object) -> str:
    """The graph drawn, as HTML for notebooks."""
    text: str = _shown(graph, "html")
    return text
