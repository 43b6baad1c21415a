"""Files of variables that nobody should trust (fault 16)."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

import numpy as np
import pytest
from variable_bytes import header, same

import graphc as gx

# --- files that nobody should trust --------------------------------------------------------------

ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}

ZEROS = b"\0" * 4

BAD = {
    "nothing": b"",
    "seven bytes": b"\0" * 7,
    "a length alone": struct.pack("<Q", 2),
    "a huge length": struct.pack("<Q", 1 << 62) + b"{}",
    "a length with a sign": b"\xff" * 8 + b"{}",
    "no object": header(b"[]"),
    "not UTF-8": header(b'{"\xff": 1}'),
    "half a header": header({"w": ENTRY}, ZEROS)[:30],
    "half the data": header({"w": ENTRY}, ZEROS[:2]),
    "more data": header({"w": ENTRY}, ZEROS * 2),
    "a hole": header({"w": {**ENTRY, "data_offsets": [4, 8]}}, ZEROS * 2),
    "an overlap": header({"w": ENTRY, "v": ENTRY}, ZEROS),
    "ends before it begins": header({"w": {**ENTRY, "data_offsets": [4, 0]}}, ZEROS),
    "a shape that overflows": header({"w": {**ENTRY, "shape": [1 << 62, 1 << 62]}}, ZEROS),
    "a negative shape": header({"w": {**ENTRY, "shape": [-1]}}, ZEROS),
    "a shape of floats": header({"w": {**ENTRY, "shape": [1.0]}}, ZEROS),
    "an unknown dtype": header({"w": {**ENTRY, "dtype": "F33"}}, ZEROS),
    "a shape of another size": header({"w": {**ENTRY, "shape": [2]}}, ZEROS),
    "one name twice": header(
        f'{{"w": {json.dumps(ENTRY)}, "w": {json.dumps(ENTRY)}}}'.encode(), ZEROS
    ),
    "metadata of numbers": header({"__metadata__": {"a": 1}, "w": ENTRY}, ZEROS),
    "deep nesting": header(b'{"w": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "an archive": b"PK\3\4" + b"\0" * 60,
}


@pytest.mark.parametrize("kind", BAD)
def test_fault_16_damaged_files_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(BAD[kind])
    with gx.Graph() as graph:
        gx.variable(np.ones(1, np.float32), name="w")
    session = gx.Session(graph)
    for partial in (False, True):
        with pytest.raises(gx.ArtifactError, match="damaged or no file of safetensors"):
            session.restore(path, partial=partial)
    np.testing.assert_array_equal(session.get("w"), [1])


def test_fault_16_bools_are_0_or_1(tmp_path: Path) -> None:
    path = tmp_path / "a"
    entries = {
        "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
        "b": {"dtype": "BOOL", "shape": [2], "data_offsets": [4, 6]},
    }
    path.write_bytes(header(entries, b"\0\0\0\0\1\2"))
    with gx.Graph() as graph:
        gx.variable(np.ones(1, np.float32), name="a")
        gx.variable(np.zeros(2, bool), name="b")
    session = gx.Session(graph)
    with pytest.raises(gx.ArtifactError, match="neither 0 nor 1"):
        session.restore(path)
    np.testing.assert_array_equal(session.get("a"), [1])


def test_fault_16_fuzz_of_mutated_files_gives_values_or_one_kind_of_error(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with gx.Graph() as graph:
        gx.variable(np.full((3, 4), np.nan, np.float32), name="w")
        gx.variable(np.int64(7), name="n")
        gx.variable(np.zeros((0, 3), bool), name="e")
        gx.variable(np.array([True, False]), name="f")
    gx.Session(graph).save(path)
    whole = path.read_bytes()
    rng = random.Random(0)
    seen = {"loaded": 0, "refused": 0}
    for _ in range(1000):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 3)):
            match rng.randrange(4):
                case 0:
                    data[rng.randrange(len(data))] = rng.randrange(256)
                case 1:
                    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                case 2:
                    data = data[: rng.randrange(1, len(data) + 1)]
                case 3:
                    place = rng.randrange(len(data))
                    data[place:place] = rng.choice((b'"', b"0", b",", bytes([rng.randrange(256)])))
        path.write_bytes(data)
        session = gx.Session(graph)
        before = session.get(list(graph.variables))
        try:
            report = session.restore(path, partial=bool(rng.randrange(2)))
        except gx.ArtifactError:
            seen["refused"] += 1
            same(session.get(list(graph.variables)), before)
        else:
            seen["loaded"] += 1
            assert set(report.loaded) <= {"w", "n", "e", "f"}
    assert min(seen.values()) > 10
