"""A model of text, letter by letter: a recurrent network by ``gx.scan``, and what it then writes.

A small grammar makes a text of plain sentences. A network with gated units (Cho and others,
"Learning Phrase Representations using RNN Encoder-Decoder", 2014) reads it and says which letter
comes next; ``gx.scan`` goes over the letters, its gradient goes back over them, and
``session.run_many`` makes all steps of Adam in one call. Then the network writes: a scan in which
each letter is drawn and read again. The NumPy program goes back through time by hand.

    python examples/characters.py [--quick]

The last line says how many of the words that it writes are words of the text.
"""

from __future__ import annotations

import argparse
import textwrap
import time
from itertools import pairwise
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

UNITS, BATCH, LENGTH, RATE = 64, 16, 32, 0.01
WRITTEN = 400
LETTERS = " .abcdefghijklmnopqrstuvwxyz"
GRAMMAR = (
    ("the", "a", "my", "every"),
    ("old", "small", "quiet", "green", "clever"),
    ("cat", "river", "teacher", "garden", "train"),
    ("sees", "likes", "follows", "remembers"),
)


def text(sentences: int) -> str:
    """Sentences of someone who does something to someone."""
    random = np.random.default_rng(0)
    order = (*GRAMMAR, *GRAMMAR[:3])
    return "".join(
        " ".join(words[random.integers(len(words))] for words in order) + ". "
        for _ in range(sentences)
    )


def windows(steps: int) -> Array:
    """For each step a batch of pieces of the text, as numbers of letters: [step, place, piece]."""
    letters = np.array([LETTERS.index(letter) for letter in text(400)])
    starts = np.random.default_rng(1).integers(len(letters) - LENGTH, size=(steps, 1, BATCH))
    return letters[starts + np.arange(LENGTH + 1)[:, None]]


def first_model() -> dict[str, Array]:
    """Weights before training: of the letters, of the state, biases, of what is said."""
    random = np.random.default_rng(2)
    return {
        "letters": 0.3 * random.normal(size=(len(LETTERS), 3 * UNITS)),
        "state": random.normal(size=(UNITS, 3 * UNITS)) / np.sqrt(UNITS),
        "bias": np.zeros(3 * UNITS),
        "said": random.normal(size=(UNITS, len(LETTERS))) / np.sqrt(UNITS),
    }


# --- in graphc -----------------------------------------------------------------------------------


def read(model: dict[str, Any], state: gx.Value, letters: gx.Value) -> gx.Value:
    """The state after a letter."""
    given = gx.take(model["letters"], letters, axis=0) + model["bias"]
    own = state @ model["state"]
    keep, reset = gx.split(gx.sigmoid(given[:, : 2 * UNITS] + own[:, : 2 * UNITS]), 2, axis=1)
    new = gx.tanh(given[:, 2 * UNITS :] + reset * own[:, 2 * UNITS :])
    return keep * state + (1 - keep) * new


def build() -> tuple[gx.Graph, gx.Value, Any, gx.Value]:
    """The graph, the letters that are fed, what training fetches, and what the network writes."""
    with gx.Graph("characters") as graph:
        letters = gx.placeholder((LENGTH + 1, BATCH), "int64", name="letters")
        model = {name: gx.variable(array, name=name) for name, array in first_model().items()}

        def follow(state: gx.Value, row: gx.Value) -> Any:
            state = read(model, state, row)
            return state, state

        _, states = gx.scan(follow, gx.zeros((BATCH, UNITS), "float64"), letters[:-1])
        loss = gx.nn.softmax_cross_entropy(states @ model["said"], letters[1:]).mean()
        step = gx.optim.Adam(RATE).minimize(loss)

        def write(carry: Any, number: gx.Value) -> Any:
            state, letter = carry
            state = read(model, state, letter)
            key = gx.random.fold_in(gx.random.key(3), number)
            letter = gx.random.categorical(key, state @ model["said"])
            return (state, letter), letter[0]

        begin = gx.zeros((1, UNITS), "float64"), gx.zeros((1,), "int64")
        _, written = gx.scan(write, begin, gx.arange(WRITTEN))
    return graph, letters, (loss, step), written


# --- in NumPy ------------------------------------------------------------------------------------


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def gradient_by_numpy(model: dict[str, Array], letters: Array) -> tuple[float, dict[str, Array]]:
    """The loss of a batch and its gradient: forward and back through time."""
    state, kept, loss = np.zeros((BATCH, UNITS)), [], 0.0
    rows, count = np.arange(BATCH), LENGTH * BATCH
    for now, following in pairwise(letters):
        given, own = model["letters"][now] + model["bias"], state @ model["state"]
        gates = sigmoid(given[:, : 2 * UNITS] + own[:, : 2 * UNITS])
        keep, reset = gates[:, :UNITS], gates[:, UNITS:]
        new = np.tanh(given[:, 2 * UNITS :] + reset * own[:, 2 * UNITS :])
        after = keep * state + (1 - keep) * new
        scores = after @ model["said"]
        scores -= scores.max(1, keepdims=True)
        shares = np.exp(scores)
        sums = shares.sum(1, keepdims=True)
        loss += float((np.log(sums[:, 0]) - scores[rows, following]).sum()) / count
        off = shares / sums
        off[rows, following] -= 1
        kept.append((now, state, own, gates, new, after, off / count))
        state = after
    found = {name: np.zeros_like(array) for name, array in model.items()}
    weight = np.zeros((BATCH, UNITS))
    for now, state, own, gates, new, after, off in reversed(kept):
        keep, reset = gates[:, :UNITS], gates[:, UNITS:]
        found["said"] += after.T @ off
        weight = weight + off @ model["said"].T
        of_new = weight * (1 - keep) * (1 - new**2)
        of_keep = weight * (state - new) * keep * (1 - keep)
        of_reset = of_new * own[:, 2 * UNITS :] * reset * (1 - reset)
        of_given = np.concatenate([of_keep, of_reset, of_new], axis=1)
        of_own = np.concatenate([of_keep, of_reset, of_new * reset], axis=1)
        np.add.at(found["letters"], now, of_given)
        found["bias"] += of_given.sum(0)
        found["state"] += state.T @ of_own
        weight = weight * keep + of_own @ model["state"].T
    return loss, found


def trained_by_numpy(batches: Array) -> list[float]:
    """The losses of a training by Adam."""
    model, losses = first_model(), []
    means = {name: np.zeros_like(array) for name, array in model.items()}
    squares = {name: np.zeros_like(array) for name, array in model.items()}
    for number, letters in enumerate(batches, start=1):
        loss, gradient = gradient_by_numpy(model, letters)
        losses.append(loss)
        for name, slope in gradient.items():
            means[name] += 0.1 * (slope - means[name])
            squares[name] += 0.001 * (slope**2 - squares[name])
            scale = np.sqrt(squares[name] / (1 - 0.999**number)) + 1e-8
            model[name] -= RATE * means[name] / (1 - 0.9**number) / scale
    return losses


def main() -> None:
    """Trains the network, compares with NumPy, and lets it write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps of training")
    batches = windows(60 if parser.parse_args().quick else 200)
    started = time.perf_counter()
    graph, letters, fetches, written = build()
    session = gx.Session(graph)
    session.compile(fetches, [letters])
    begun = time.perf_counter()
    losses, _ = session.run_many(fetches, {letters: batches})
    trained = time.perf_counter()
    losses_by_numpy = trained_by_numpy(batches)
    finished = time.perf_counter()
    for number in (0, len(batches) // 4, len(batches) - 1):
        print(f"step {number:4}  loss {losses[number]:.5f}, in NumPy {losses_by_numpy[number]:.5f}")
    print(
        f"built in {begun - started:.2f} s, run in {trained - begun:.2f} s, "
        f"in NumPy {finished - trained:.2f} s"
    )
    if not np.allclose(losses, losses_by_numpy, rtol=1e-4):
        raise SystemExit("graphc and NumPy disagree")
    story = "".join(LETTERS[letter] for letter in session.run(written))
    print(textwrap.fill(story[: story.rindex(" ")], 80))
    words = story.replace(".", " ").split()[:-1]
    known = sum(any(word in group for group in GRAMMAR) for word in words)
    print(f"{known} of {len(words)} words that it wrote are words of the text")


if __name__ == "__main__":
    main()
