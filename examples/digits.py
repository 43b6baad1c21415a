"""Handwritten digits from pixels to a program of their own.

A network of 64-128-64-10 units is trained on the 1,797 digits of scikit-learn (8 × 8 pixels, a
fifth held out), through placeholders with a symbolic batch, variables, Adam and ``session.run``.
Then the script shows what the compiler made of the training step, exports the classifier ahead of
time, and classifies the held-out digits with the exported program in a fresh Python process.

    python examples/digits.py [--epochs N] [--export DIRECTORY]

The last line is the accuracy on the held-out digits.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import textwrap
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gx

SEED = 0
SIZES = (64, 128, 64, 10)
BATCH = 32
NOISE = np.float32(0.1)
LEARNING_RATE = 2e-3


@dataclass(frozen=True)
class Digits:
    """Pixels in [0, 1] and classes, for training and held out."""

    pixels: np.ndarray[Any, Any]
    classes: np.ndarray[Any, Any]
    held_out_pixels: np.ndarray[Any, Any]
    held_out_classes: np.ndarray[Any, Any]


def load_digits() -> Digits:
    """The real digits of scikit-learn, a stratified fifth of them held out."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    pixels, classes = load(return_X_y=True)
    pixels = (pixels / 16).astype(np.float32)
    parts = train_test_split(
        pixels, classes.astype(np.int64), test_size=0.2, stratify=classes, random_state=SEED
    )
    return Digits(parts[0], parts[2], parts[1], parts[3])


# --- the network ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Network:
    """The symbolic program: what is fed, what is fetched."""

    graph: gx.Graph
    pixels: gx.Value
    labels: gx.Value
    rate: gx.Value
    digit: gx.Value
    loss: gx.Value
    train: gx.Effect


def build() -> Network:
    """Defines the network, its loss and a step of Adam; nothing is computed yet."""
    random = np.random.default_rng(SEED)
    with gx.Graph("digits") as graph:
        pixels = gx.placeholder(("batch", SIZES[0]), "float32", name="pixels")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        rate = gx.placeholder((), "float64", name="rate")
        layer = pixels
        for number, (rows, columns) in enumerate(pairwise(SIZES), start=1):
            start = random.normal(0, np.sqrt(2 / rows), (rows, columns)).astype(np.float32)
            weight = gx.variable(start, name=f"w{number}")
            bias = gx.variable(np.zeros(columns, np.float32), name=f"b{number}")
            layer = layer @ weight + bias
            if number < len(SIZES) - 1:
                layer = gx.nn.relu(layer)
        loss = gx.nn.softmax_cross_entropy(layer, labels).mean()
        train = gx.optim.Adam(rate).minimize(loss)
        digit = gx.argmax(layer, axis=1)
    return Network(graph, pixels, labels, rate, digit, loss, train)


def train(network: Network, session: gx.Session, digits: Digits, epochs: int) -> None:
    """Shuffled minibatches, with a little noise on the pixels so that the network generalises.

    The learning rate falls by the same amount after each epoch, down to nothing. The last batch of
    an epoch is smaller and runs through the same code.
    """
    random = np.random.default_rng(SEED)
    count = len(digits.pixels)
    started = time.perf_counter()
    for epoch in range(1, epochs + 1):
        order = random.permutation(count)
        total = 0.0
        for first in range(0, count, BATCH):
            chosen = order[first : first + BATCH]
            noise = NOISE * random.standard_normal((len(chosen), SIZES[0]), np.float32)
            feeds = {
                network.pixels: digits.pixels[chosen] + noise,
                network.labels: digits.classes[chosen],
                network.rate: LEARNING_RATE * (1 - (epoch - 1) / epochs),
            }
            _, loss = session.run([network.train, network.loss], feeds)
            total += float(loss) * len(chosen)
        show_progress(
            f"epoch {epoch:3}/{epochs}  mean loss {total / count:.4f}  "
            f"{time.perf_counter() - started:5.2f} s",
            last=epoch == epochs,
        )


def show_progress(line: str, last: bool) -> None:
    """One line that is updated on a terminal, plain lines elsewhere."""
    if sys.stdout.isatty():
        print(f"\r\x1b[K{line}", end="\n" if last else "", flush=True)
    else:
        print(line, flush=True)


# --- what the compiler did -----------------------------------------------------------------------


def report(exe: gx.Executable) -> None:
    """What each pass did, the fused kernels, and the memory of the training step."""
    print("\nthe training step, pass by pass")
    print(textwrap.indent(exe.pass_table(), "  "))
    fused = [node for node in exe.graph.nodes if node.regions and node.op.name == "fused"]
    print(f"\n{len(fused)} fused groups, {len(exe.kernels)} distinct kernels:")
    for node in fused:
        (region,) = node.regions
        ops = Counter(inner.op.name for inner in region.nodes if inner.op.name != "constant")
        names = ", ".join(name if n == 1 else f"{name} ×{n}" for name, n in ops.items())
        results = ", ".join(str(value.type) for value in node.outputs[:2])
        more = f" and {len(node.outputs) - 2} more" if len(node.outputs) > 2 else ""
        print(f"  {results}{more}: {names}")
    memory = exe.memory_at(batch=BATCH)
    print(
        f"\nmemory of temporaries at batch {BATCH}: {memory.peak_bytes:,} bytes planned, "
        f"{memory.unplanned_bytes:,} bytes if each had its own"
    )


# --- the exported classifier ---------------------------------------------------------------------


def classify_in_fresh_process(library: Path, pixels: np.ndarray[Any, Any]) -> Any:
    """The classes that the exported program finds in a Python process of its own."""
    with tempfile.TemporaryDirectory() as directory:
        given, found = Path(directory, "pixels.npy"), Path(directory, "digits.npy")
        np.save(given, pixels)
        command = [sys.executable, __file__, "--classify", *map(str, (library, given, found))]
        subprocess.run(command, check=True)
        return np.load(found)


def classify(library: str, given: str, found: str) -> None:
    """The other process: it loads the exported program and never sees the network."""
    started = time.perf_counter()
    program = gx.aot.load(library)
    loaded = time.perf_counter()
    pixels = np.load(given)
    classes = program(pixels)
    finished = time.perf_counter()
    np.save(found, classes)
    compiler = "with" if "passes" in sys.modules else "without"
    print(
        f"  fresh process: loaded {compiler} the compiler in {(loaded - started) * 1e3:.0f} ms, "
        f"classified {len(pixels)} digits in {(finished - loaded) * 1e3:.2f} ms"
    )


def export(classifier: gx.Executable, library: Path, digits: Digits, expected: Any) -> None:
    """Exports the classifier and checks the exported program against the session.

    Raises:
        SystemExit: if a prediction differs.
    """
    gx.aot.compile(classifier, library, kind="package")
    size = sum(path.stat().st_size for path in library.rglob("*") if path.is_file())
    print(f"\nexported the classifier to {library} ({size:,} bytes)", flush=True)
    found = classify_in_fresh_process(library, digits.held_out_pixels)
    agree = int((found == expected).sum())
    print(f"  {agree} of {len(expected)} predictions agree with the session's")
    if agree != len(expected):
        raise SystemExit("the exported program does not agree with the session")


def main() -> None:
    """Trains, reports, exports, and prints the accuracy on the held-out digits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--epochs", type=int, default=40, help="passes over the training digits")
    parser.add_argument("--export", type=Path, help="where to leave the exported classifier")
    parser.add_argument("--classify", nargs=3, metavar=("LIBRARY", "PIXELS", "DIGITS"),
                        help="only classify: .npy files in and out")  # fmt: skip
    arguments = parser.parse_args()
    if arguments.classify:
        classify(*arguments.classify)
        return

    digits = load_digits()
    network = build()
    shape = "-".join(map(str, SIZES))
    print(
        f"training {shape} on {len(digits.pixels)} digits, {len(digits.held_out_pixels)} held out",
        flush=True,
    )
    with gx.Session(network.graph) as session:
        train(network, session, digits, arguments.epochs)
        print(f"{session.compile_count} program compiled, for batches of every size")
        fed = [network.pixels, network.labels, network.rate]
        report(session.compile([network.train, network.loss], fed))
        classifier = session.compile(network.digit, [network.pixels])
        predicted = classifier(digits.held_out_pixels)
        with tempfile.TemporaryDirectory() as directory:
            library = arguments.export or Path(directory, "digits")
            export(classifier, library, digits, predicted)
    accuracy = 100 * float((predicted == digits.held_out_classes).mean())
    print(f"\nheld-out accuracy: {accuracy:.1f} %")


if __name__ == "__main__":
    main()
