"""Concatenations of concatenations along other axes: pieces are computed in their places."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from slow_parameters import slow_unless
from test_concat_in_place import joined

import graphc as gx
from graphc.base.errors import VerifyError
from graphc.base.options import Options
from graphc.base.tuning.fusion import FusionTuning
from graphc.checking.compare import same_bits
from graphc.ir.text.parser import parse_graph
from graphc.ops.move.placing import wholes

pytestmark = pytest.mark.check_mode

OFF = Options(off={"concat_in_place"})


@pytest.fixture(autouse=True)
def _always(monkeypatch: pytest.MonkeyPatch) -> None:
    """However few bytes are saved."""
    monkeypatch.setattr(FusionTuning, "slice_bytes", 0)


class Pieces:
    """Draws nested concatenations of a shape, and what they are made of."""

    def __init__(self, seed: int, known: bool) -> None:
        self.random = np.random.default_rng(seed)
        self.known = known
        self.fed: dict[gx.Value, Any] = {}

    def operand(self, shape: tuple[int, ...]) -> gx.Value:
        """Numbers that are fed; of unknown sizes, if these are not known."""
        value = gx.placeholder(shape if self.known else (None,) * len(shape))
        self.fed[value] = self.random.standard_normal(shape).astype("float32")
        return value

    def piece(self, shape: tuple[int, ...]) -> gx.Value:
        """Something that one kernel or several make."""
        x = self.operand(shape)
        match self.random.integers(8):
            case 0:
                return x
            case 1:
                return gx.tanh(x) * x
            case 2:
                return gx.nn.softmax(x)
            case 3:
                return gx.cumsum(x, axis=0)
            case 4:
                return gx.exp(x)[..., ::-1]
            case 5:
                return x @ self.operand((*shape[:-2], shape[-1], shape[-1]))
            case 6:
                return gx.flip(x, 0) + gx.sum(x, -1, keepdims=True)
            case _:
                return gx.concatenate([x[..., :1], x[..., 1:] * 2], -1)

    def whole(self, shape: tuple[int, ...], depth: int) -> gx.Value:
        """Pieces side by side along an axis, some of which are made of pieces themselves."""
        if depth == 0 or max(shape) < 2:
            return self.piece(shape)
        axis = int(self.random.integers(len(shape)))
        if shape[axis] < 2:
            axis = int(np.argmax(shape))
        count = int(self.random.integers(2, min(4, shape[axis]) + 1))
        cuts = sorted(self.random.choice(np.arange(1, shape[axis]), count - 1, replace=False))
        sizes = np.diff([0, *map(int, cuts), shape[axis]]).tolist()
        parts = [
            self.whole((*shape[:axis], size, *shape[axis + 1 :]), int(self.random.integers(depth)))
            for size in sizes
        ]
        return gx.concatenate(parts, axis)


@slow_unless(lambda seed, known: seed < 12)
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("seed", range(150))
def test_bits_stay(seed: int, known: bool) -> None:
    pieces = Pieces(seed, known)
    shape = tuple(pieces.random.integers(2, 8, pieces.random.integers(2, 4)).tolist())
    with gx.Graph() as graph:
        whole = pieces.whole(shape, 4)
        fetched = [whole, gx.sum(gx.sin(whole), 0)] if seed % 2 else [whole]
    numerics: Any = {"numerics": "strict", "verify": True}
    plain = gx.Session(graph, options=OFF).run(fetched, pieces.fed)
    found = gx.Session(graph, options=Options(**numerics)).run(fetched, pieces.fed)
    strict = gx.Session(graph, options=Options(numerics="strict", off={"concat_in_place"}))
    for one, other in zip(strict.run(fetched, pieces.fed), found, strict=True):
        assert same_bits(one, other).all()
    for one, other in zip(plain, found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 40, None])
@pytest.mark.parametrize("off", [set(), {"loop_kernels"}, {"fuse_loops"}])
def test_what_is_inside_a_border_is_computed_in_place(rows: int | None, off: set[str]) -> None:
    size = rows or 17
    with gx.Graph() as graph:
        plate = gx.placeholder((rows, 24), "float64")

        def step(i: gx.Value, plate: gx.Value) -> Any:
            around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
            inner = 0.25 * around
            middle = gx.concatenate([plate[1:-1, :1], inner, plate[1:-1, -1:]], 1)
            return gx.concatenate([plate[:1], middle, plate[-1:]], 0).reshape(plate.shape)

        last = gx.fori_loop(0, 5, step, plate)
    session = gx.Session(graph, options=Options(off=off, verify=True))
    executable = session.compile([last], [plate])
    values = np.random.default_rng(0).random((size, 24))
    expected = values.copy()
    for _ in range(5):
        old = expected.copy()
        around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
        expected[1:-1, 1:-1] = 0.25 * around
    np.testing.assert_array_equal(executable(values)[0], expected)
    if "loop_kernels" in off:
        # two wholes take turns, each of five pieces
        assert set(Counter(joined(executable.compiled.plan)).values()) == {5}


NESTED = """
graph "graph" (%0: float32[2, 3], %1: float32[2, 1], %2: float32[{last}, 4]) {{
  %3 = fused(%0) : float32[4, 4] {{
    region "body" (%0: float32[2, 3]) {{
      %1 = place_slice(%0) {{shape = (4, 4), starts = (0, 0)}} : float32[4, 4]
      return %1
    }}
  }}
  %4 = fused(%1) : float32[4, 4] {{
    region "body" (%0: float32[2, 1]) {{
      %1 = place_slice(%0) {{shape = (4, 4), starts = ({row}, 3)}} : float32[4, 4]
      return %1
    }}
  }}
  %5 = fused(%2) : float32[4, 4] {{
    region "body" (%0: float32[{last}, 4]) {{
      %1 = place_slice(%0) {{shape = (4, 4), starts = (2, 0)}} : float32[4, 4]
      return %1
    }}
  }}
  %6 = join_slices(%3, %4) {{axis = 1, starts = (0, 3)}} : float32[4, 4]
  %7 = join_slices(%6, %5) {{axis = 0, starts = (0, 2)}} : float32[4, 4]
  return {returned}
}}
"""


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, None),
        ({"row": 1}, "its slices differ along other axes"),
        ({"last": 1}, "no kernel puts"),
        ({"returned": "%6"}, "no kernel puts|leave a gap along another axis|is an output"),
    ],
)
def test_slices_of_slices_make_a_whole(given: dict[str, Any], problem: str | None) -> None:
    graph = parse_graph(NESTED.format(**{"row": 0, "last": 2, "returned": "%7", **given}))
    if problem is None:
        assert len(wholes(graph)) == 4
    else:
        with pytest.raises(VerifyError, match=problem):
            wholes(graph)
