"""From training to a program in C: the digits network as a library of some kilobytes.

Trains the classifier of ``examples/digits.py``, writes it as a shared library, builds ``classify.c``
against it with the system's C compiler, and classifies the held-out digits with that program, in which
there is no Python. Then it shows size, time to load and time a call, beside those of the session and,
if it is installed, of ONNX Runtime for the same network.

    python examples/deploy/deploy.py [--epochs N] [--keep DIRECTORY]

The last line tells how many predictions of the program agree with the session's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gx

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from digits import SIZES, Digits, build, load_digits, train  # noqa: E402

CALLS = 2000
WARNINGS = ("-std=c99", "-O2", "-Wall", "-Wextra", "-Werror")


def build_program(folder: Path) -> Path:
    """``classify.c``, compiled and linked with the library in a folder."""
    program = folder / "classify"
    compiler = os.environ.get("CC", "cc")
    search = ("-I", str(folder), "-L", str(folder), f"-Wl,-rpath,{folder}")
    command = [compiler, *WARNINGS, str(HERE / "classify.c"), *search, "-ldigits"]
    subprocess.run([*command, "-o", str(program)], check=True)
    return program


def run_program(program: Path, pixels: np.ndarray[Any, Any]) -> tuple[Any, float, float]:
    """The digits that the program finds; microseconds to make a context, and for a call."""
    given = program.parent / "pixels.bin"
    given.write_bytes(pixels.astype(np.float32).tobytes())
    command = [str(program), str(given), str(len(pixels))]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    _, context, _, call = done.stderr.split()
    return np.array(done.stdout.split(), np.int64), float(context), float(call)


def microseconds(function: Callable[[], Any]) -> float:
    """The median time of a call."""
    for _ in range(10):
        function()
    samples = []
    for _ in range(CALLS):
        started = time.perf_counter()
        function()
        samples.append(time.perf_counter() - started)
    return statistics.median(samples) * 1e6


def onnx_runtime(weights: list[tuple[Any, Any]], pixels: Any) -> tuple[float, float, int] | None:
    """Milliseconds to load the network, microseconds for a call and bytes of the run time."""
    try:
        import onnx
        import onnxruntime
    except ImportError:
        return None
    helper, tensor = onnx.helper, onnx.numpy_helper.from_array
    nodes, constants, last = [], [], "x"
    for number, (weight, bias) in enumerate(weights):
        constants += [tensor(weight, f"w{number}"), tensor(bias, f"b{number}")]
        nodes.append(helper.make_node("Gemm", [last, f"w{number}", f"b{number}"], [f"g{number}"]))
        last = f"g{number}"
        if number < len(weights) - 1:
            nodes.append(helper.make_node("Relu", [last], [f"r{number}"]))
            last = f"r{number}"
    nodes.append(helper.make_node("ArgMax", [last], ["digit"], axis=1, keepdims=0))
    float_, int_ = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("x", float_, ["batch", SIZES[0]])],
        [helper.make_tensor_value_info("digit", int_, ["batch"])],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    started = time.perf_counter()
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    loaded = time.perf_counter()
    one = pixels[:1]
    call = microseconds(lambda: session.run(None, {"x": one}))
    folder = Path(onnxruntime.__file__).parent
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return (loaded - started) * 1e3, call, size


def show(rows: list[tuple[str, ...]]) -> None:
    """A table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *rest = (cell for cell in row)
        cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("  " + "  ".join((first.ljust(widths[0]), *cells)))


def compare(
    classifier: gx.Executable, folder: Path, times: tuple[float, float], digits: Digits, w: Any
) -> None:
    """Size, time to load and time a call of one digit: the program, the session, ONNX Runtime."""
    pixels = digits.held_out_pixels
    one = pixels[:1].copy()
    library = folder / "libdigits.so"
    started = time.perf_counter()
    loaded = gx.aot.load(folder, threads=1)
    ready = time.perf_counter()
    rows = [
        ("", "bytes", "load, ms", "call, µs"),
        ("C program with the library", f"{library.stat().st_size:,}", f"{times[0] / 1e3:.2f}",
         f"{times[1]:.2f}"),
        ("graphc.aot.load, from Python", f"{library.stat().st_size:,}",
         f"{(ready - started) * 1e3:.1f}", f"{microseconds(lambda: loaded(one)):.2f}"),
        ("session, from Python", "-", "-", f"{microseconds(lambda: classifier(one)):.2f}"),
    ]  # fmt: skip
    other = onnx_runtime(w, pixels)
    if other is not None:
        rows.append(
            ("ONNX Runtime, from Python", f"{other[2]:,}", f"{other[0]:.1f}", f"{other[1]:.2f}")
        )
    show(rows)


def main() -> None:
    """Trains, writes the library, builds and runs the program, and compares."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training digits")
    parser.add_argument("--keep", type=Path, help="where to leave the library and the program")
    arguments = parser.parse_args()
    digits, network = load_digits(), build()
    with gx.Session(network.graph, threads=1) as session:
        train(network, session, digits, arguments.epochs)
        classifier = session.compile(network.digit, [network.pixels])
        expected = classifier(digits.held_out_pixels)
        named = {value.name: session.get(value) for value in network.graph.variables}
        weights = [(named[f"w{n}"], named[f"b{n}"]) for n in range(1, len(SIZES))]
        with tempfile.TemporaryDirectory() as directory:
            folder = arguments.keep or Path(directory, "digits")
            gx.aot.compile(classifier, folder, name="digits")
            print(f"\nwrote {', '.join(sorted(path.name for path in folder.iterdir()))}")
            program = build_program(folder)
            found, *times = run_program(program, digits.held_out_pixels)
            print(f"built {program.name} with {' '.join(WARNINGS)}\n")
            compare(classifier, folder, (times[0], times[1]), digits, weights)
    agree = int((found == expected).sum())
    right = 100 * float((found == digits.held_out_classes).mean())
    print(f"\n{right:.1f} % of the held-out digits are right")
    print(f"{agree} of {len(expected)} predictions agree with the session's")
    if agree != len(expected):
        raise SystemExit("the program does not agree with the session")


if __name__ == "__main__":
    main()
