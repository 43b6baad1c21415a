"""A wave behind two slits: the wave equation in two dimensions, and a picture of it.

Water in a basin is at rest but for its left side, which swings up and down. A wall with two slits
lets circles of waves through, which add up or cancel. Each step is a stencil, the classical one of
second order in time and place, and the whole run is one ``gx.fori_loop`` in native code. A sponge
along the borders takes up what arrives. The same steps in NumPy must give the same bits.

    python examples/wave.py [--quick] [--picture wave.png]

The last line says that they do.
"""

from __future__ import annotations

import argparse
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

SPEED = 0.5
"""Of a wave, in points a step; below 1/√2, so that steps are stable."""
PERIOD = 22.0


def basin(rows: int, columns: int) -> tuple[Array, Array]:
    """Where the water moves, and what a step leaves of the motion there."""
    water = np.ones((rows, columns))
    wall = columns // 4
    water[:, wall : wall + 3] = 0.0
    for middle in (rows // 2 - rows // 10, rows // 2 + rows // 10):
        water[middle - 4 : middle + 5, wall : wall + 3] = 1.0
    depth = min(rows, columns) // 8
    down, across = np.arange(rows), np.arange(columns)
    to_border = np.minimum.outer(
        np.minimum(down, rows - 1 - down), np.minimum(across + depth, columns - 1 - across)
    )
    kept = 1 - 0.15 * np.clip(1 - to_border / depth, 0, 1) ** 2
    return water, kept


# --- in graphc -----------------------------------------------------------------------------------


def waves(water: Array, kept: Array, swing: Array) -> tuple[gx.Graph, gx.Value]:
    """The graph, and the heights after as many steps as the left side has swung."""

    def step(number: gx.Value, heights: tuple[gx.Value, gx.Value]) -> tuple[gx.Value, gx.Value]:
        before, now = heights
        now = now.at[:, 0].set(gx.take(swing, number))
        inner = now[1:-1, 1:-1]
        bend = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * inner
        moved = kept[1:-1, 1:-1] * (inner - before[1:-1, 1:-1]) + SPEED**2 * bend
        return now, now.at[1:-1, 1:-1].set(water[1:-1, 1:-1] * (inner + moved))

    with gx.Graph("wave") as graph:
        rest = gx.zeros(water.shape, "float64")
        _, heights = gx.fori_loop(0, len(swing), step, (rest, rest))
    return graph, heights


# --- in NumPy ------------------------------------------------------------------------------------


def waves_by_numpy(water: Array, kept: Array, swing: Array) -> Array:
    """The same steps."""
    before, now = np.zeros((2, *water.shape))
    for height in swing:
        now[:, 0] = height
        inner = now[1:-1, 1:-1]
        bend = now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:] - 4.0 * inner
        moved = kept[1:-1, 1:-1] * (inner - before[1:-1, 1:-1]) + SPEED**2 * bend
        after = now.copy()
        after[1:-1, 1:-1] = water[1:-1, 1:-1] * (inner + moved)
        before, now = now, after
    return now


# --- pictures ------------------------------------------------------------------------------------


def save_picture(path: Path, heights: Array, water: Array) -> None:
    """Heights as a PNG: blue below the level at rest, red above, the wall black."""
    # few colours, so that the file is small
    level = np.round(np.clip(heights / 0.7, -1, 1) * 12) / 12
    paper, ink = np.array([255.0, 255.0, 255.0]), np.array([[178.0, 24.0, 43.0], [33, 102, 172]])
    share = np.abs(level)[..., None]
    pixels = (1 - share) * paper + share * np.where(level[..., None] > 0, ink[0], ink[1])
    pixels[water == 0] = 0
    rows, columns = heights.shape
    lines = np.zeros((rows, 1 + 3 * columns), np.uint8)
    lines[:, 1:] = pixels.round().reshape(rows, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        named = name + data
        return struct.pack(">I", len(data)) + named + struct.pack(">I", zlib.crc32(named))

    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body + chunk(b"IEND", b""))


def sketch(heights: Array, water: Array, lines: int = 20, width: int = 72) -> str:
    """Heights as shades of ink, the wall as bars."""
    rows = np.linspace(0, heights.shape[0] - 1, lines).round().astype(int)
    columns = np.linspace(0, heights.shape[1] - 1, width).round().astype(int)
    shades = " .:-=+*#%@"
    levels = np.clip((heights + 0.6) / 1.2 * len(shades), 0, len(shades) - 1).astype(int)
    return "\n".join(
        "".join(shades[levels[r, c]] if water[r, c] else "|" for c in columns) for r in rows
    )


def main() -> None:
    """Lets the waves run, compares with NumPy, and draws them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a smaller basin")
    parser.add_argument("--picture", type=Path, help="where to write a PNG")
    arguments = parser.parse_args()
    rows, columns, steps = (90, 120, 150) if arguments.quick else (240, 320, 560)
    water, kept = basin(rows, columns)
    swing = np.sin(2 * np.pi / PERIOD * np.arange(steps))
    started = time.perf_counter()
    graph, heights = waves(water, kept, swing)
    run = gx.Session(graph).compile(heights)
    begun = time.perf_counter()
    found = run()
    compiled = time.perf_counter()
    expected = waves_by_numpy(water, kept, swing)
    finished = time.perf_counter()
    print(sketch(found, water))
    if arguments.picture:
        save_picture(arguments.picture, found, water)
        print(f"picture in {arguments.picture}")
    if not np.array_equal(found, expected):
        off = np.abs(found - expected).max()
        raise SystemExit(f"graphc and NumPy differ by {off}")
    print(
        f"built in {begun - started:.2f} s, run in {compiled - begun:.2f} s, "
        f"in NumPy {finished - compiled:.2f} s"
    )
    print(f"{steps} steps of {rows} × {columns} points, the same bits as NumPy")


if __name__ == "__main__":
    main()
