"""A lowering kind that graphc doesn't have: its traits and its lowering are all that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pytest

import graphc as gx
from graphc.compiling.extraction import extract
from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.graph import Graph
from graphc.ir.lowering import Lowering
from graphc.ir.op import NotDifferentiable, OpDef
from graphc.ir.types import TensorType
from graphc.lower import fused_node
from graphc.lower.launch_fission import Series, series_of
from graphc.lower.region import Slices, open_loops, open_region
from passes.fusion.fusion import fusion
from passes.infra.base import PassContext


@dataclass(frozen=True, slots=True)
class _Rotation(Lowering):
    """Each element is the next one in row-major order, the last one the first."""

    reads = "memory"
    kernel = "single"
    placed = "unshared"


def _types(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    return [inputs[0]]


ROTATE = OpDef(
    name="test.rotate",
    doc="The next element of each.",
    infer=_types,
    reference=lambda x: np.roll(x.reshape(-1), -1).reshape(x.shape),
    derivative=NotDifferentiable("a test asks for none"),
    lowering=_Rotation(),
)


def _lower(region: Graph, slices: Slices, ahead: bool) -> Series:
    b, evaluator, (out,) = open_region(region, slices)
    source = evaluator.buffers[region.nodes[0].inputs[0]]
    shape = out.value.shape
    with ExitStack() as loops:
        index = open_loops(b, evaluator, loops, shape)
        place = out.place(b, index)
        following = b.apply("add", place, b.dim(1))
        size = b.dim(out.value.type.size)
        b.store(out.buffer, place, b.load(source, b.apply("mod", following, size)))
    return series_of(b.finish())


@pytest.fixture
def rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {**fused_node._SINGLES, _Rotation: _lower}
    monkeypatch.setattr(fused_node, "_SINGLES", table)


def _program() -> tuple[gx.Graph, gx.Value, gx.Value]:
    with gx.Graph() as graph:
        x = gx.placeholder((3, 5), name="x")
        y = gx.tanh(apply(ROTATE, x * 2)) + 1
    return graph, x, y


@pytest.mark.parametrize("optimize", [0, 1])
def test_a_kind_of_traits_and_lowering_compiles(rotation: None, optimize: int) -> None:
    graph, x, y = _program()
    array = np.arange(15, dtype=np.float32).reshape(3, 5) / 15
    session = gx.Session(graph, options=gx.Options(optimize=optimize))
    result = session.compile(y, [x])(array)
    expected = np.tanh(np.roll(array.reshape(-1) * 2, -1).reshape(3, 5)) + 1
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_nothing_joins_a_kind_whose_kernel_is_its_own() -> None:
    graph, _, y = _program()
    fused = fusion(extract(graph, [y]).graph, PassContext())
    groups = [{inner.op.name for inner in node.regions[0].nodes} for node in fused.nodes]
    assert {"test.rotate"} in groups
    assert len(groups) == 3
