"""Trainings as libraries: from C and in ``aot.load`` they have the bits of a session, step by step.

What programs that learn are made of: loops and their gradients, random numbers whose state is
kept, optimisers with what they keep, figures that are added up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from libraries import compiled
from slow_parameters import slow_unless

import graphc as gx
from graphc.aot.library import DTYPES
from graphc.ir.dtypes import dtype

STEPS = 7

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "train.h"

static const int widths[] = {WIDTHS};

static int64_t size_of(train_context *context, const int64_t *dims, int kind, int n) {
  const graphc_signature *signature = train_signature();
  const graphc_tensor *one =
      (kind == 0 ? signature->input : kind == 1 ? signature->output : signature->variable) + n;
  int64_t shape[8], size = widths[one->dtype];
  if (train_shape(context, dims, kind, n, shape) != GRAPHC_OK) exit(3);
  for (int axis = 0; axis < one->rank; axis++) size *= shape[axis];
  return size;
}

/* Reads the inputs of each step, and writes all outputs, then the variables. */
int main(int count, char **arguments) {
  const graphc_signature *signature = train_signature();
  int64_t dims[8], bytes, sizes[2][16];
  void *inputs[16], *outputs[16], *workspace;
  train_context *context = NULL;
  if (train_create(&context, NULL, 2) != GRAPHC_OK) return 2;
  for (int n = 2; n < count; n++) dims[n - 2] = atoll(arguments[n]);
  for (int n = 0; n < signature->inputs; n++)
    inputs[n] = malloc((size_t)(sizes[0][n] = size_of(context, dims, 0, n)) + 1);
  for (int n = 0; n < signature->outputs; n++)
    outputs[n] = malloc((size_t)(sizes[1][n] = size_of(context, dims, 1, n)) + 1);
  if (train_workspace(context, dims, &bytes) != GRAPHC_OK) return 4;
  workspace = malloc((size_t)bytes + 1);
  for (int step = atoi(arguments[1]); step > 0; step--) {
    for (int n = 0; n < signature->inputs; n++)
      if (fread(inputs[n], 1, (size_t)sizes[0][n], stdin) != (size_t)sizes[0][n]) return 5;
    if (train_run(context, dims, (const void *const *)inputs, outputs, workspace, bytes)) {
      fprintf(stderr, "%s\\n", train_error(context));
      return 6;
    }
    for (int n = 0; n < signature->outputs; n++)
      fwrite(outputs[n], 1, (size_t)sizes[1][n], stdout);
  }
  for (int n = 0; n < signature->variables; n++) {
    int64_t size = size_of(context, dims, 2, n);
    void *value = malloc((size_t)size + 1);
    if (train_get(context, n, value, size) != GRAPHC_OK) return 7;
    fwrite(value, 1, (size_t)size, stdout);
    free(value);
  }
  train_destroy(context);
  return 0;
}
""".replace("WIDTHS", ", ".join(str(dtype(name).numpy.itemsize) for name in DTYPES))


class Training(NamedTuple):
    """A training step.

    Attributes:
        graph: of it.
        fetches: figures, then effects.
        feeds: stacked, by placeholder, in the order of arguments.
        dims: sizes of the symbolic dims, in the order of the signature.
    """

    graph: Any
    fetches: list[Any]
    feeds: dict[Any, Any]
    dims: tuple[int, ...] = ()


def normal(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype("float32") / 2


def recurrent() -> Training:
    """A scan over any number of times, its gradient, and Adam with a schedule and clipping."""
    with gx.Graph() as graph:
        x = gx.placeholder(("times", 4, 3), name="x")
        t = gx.placeholder((4, 2), name="t")
        w, u, v = (gx.variable(normal(*shape)) for shape in ((3, 5), (5, 5), (5, 2)))

        def cell(state: Any, given: Any) -> Any:
            state = gx.tanh(given @ w + state @ u)
            return state, gx.sum(state)

        state, sums = gx.scan(cell, gx.zeros((4, 5), "float32"), x)
        loss = gx.nn.mse(state @ v, t)
        rate = gx.optim.warmup(gx.optim.cosine_decay(0.1, 20), 3)
        step = gx.optim.Clipped(gx.optim.Adam(rate), 0.5).minimize(loss)
    feeds = {x: normal(STEPS, 6, 4, 3), t: normal(STEPS, 4, 2)}
    return Training(graph, [loss, sums, step], feeds, (6,))


def noisy() -> Training:
    """Dropout, laws that reject in loops, permutations: keys come from a variable."""
    with gx.Graph() as graph:
        x = gx.placeholder((8, 6), name="x")
        w = gx.variable(normal(6, 4), name="w")
        key = gx.random.next_key
        order = gx.random.permutation(key(), 8)
        hidden = gx.random.dropout(key(), gx.tanh(x[order] @ w), 0.5)
        noise = gx.random.normal(key(), (8, 4), dtype="float32")
        drawn = [
            gx.random.gamma(key(), 2.5, (5,), dtype="float32"),
            gx.random.randint(key(), (5,), 0, 100),
        ]
        loss = gx.mean((hidden + 0.1 * noise) ** 2)
        step = gx.optim.AdamW(0.05, weight_decay=0.1).minimize(loss)
    return Training(graph, [loss, order, *drawn, step], {x: normal(STEPS, 8, 6)})


def optimisers() -> Training:
    """Steps that look at norms, keep factors, wait for runs, average and may be left out."""
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", 6), name="x")
        given = [gx.variable(normal(6, 4), name=f"w{n}") for n in range(6)]
        losses = [gx.mean((x @ w) ** 2) for w in given]
        optim = gx.optim
        makers = [
            optim.LAMB(0.1),
            optim.Adafactor(0.1),
            optim.Accumulated(optim.SGD(0.1, momentum=0.9), 3),
            optim.Averaged(optim.RMSProp(0.01), 0.9),
            optim.LossScaled(optim.NAdam(0.01), initial=1024.0),
            optim.SGD(optim.ReduceOnPlateau(0.1, losses[5], patience=1)),
        ]
        steps = [
            maker.minimize(loss, [w]) for maker, loss, w in zip(makers, losses, given, strict=True)
        ]
        figure = gx.training.mean(losses[0])
    feeds = {x: normal(STEPS, 5, 6)}
    return Training(graph, [*losses, figure.update, *steps], feeds, (5,))


def inner() -> Training:
    """A minimum that is looked for within the run, branches, and a loop of a number of trips."""
    with gx.Graph() as graph:
        x = gx.placeholder((7, 3), "float64", name="x")
        trips = gx.placeholder((), "int64", name="trips")
        w = gx.variable(np.zeros(3), name="w")
        count = gx.variable(0, name="count")
        found = gx.optim.lbfgs(lambda v: gx.mean((x @ v - 1) ** 2) + gx.sum(v * v), w)
        wave = gx.sum(gx.sin(x))
        total = gx.fori_loop(0, trips, lambda n, s: s * 0.5 + wave * n, gx.zeros((), "float64"))
        chosen = gx.cond(trips > 2, lambda: total, lambda: -total)
        step = gx.group(w.assign((w + found.x) / 2), count.assign_add(trips))
    feeds = {x: normal(STEPS, 7, 3).astype(float), trips: np.arange(STEPS)}
    return Training(graph, [found.value, chosen, step], feeds)


@pytest.mark.parametrize("make", [recurrent, noisy, optimisers, inner])
@slow_unless(lambda make: make in (recurrent, noisy))
def test_trainings_have_the_bits_of_a_session(make: Callable[[], Training], tmp_path: Path) -> None:
    """Results of each step, and in the end all variables."""
    training = make()
    session = gx.Session(training.graph, threads=1)
    step = session.compile(training.fetches, list(training.feeds))
    folder = tmp_path / "train"
    gx.aot.compile(step, folder)
    main = compiled(folder, MAIN, "-L", str(folder), "-ltrain", f"-Wl,-rpath,{folder}")
    loaded = gx.aot.load(folder)

    batches = list(zip(*training.feeds.values(), strict=True))
    found = [[item for item in step(*batch) if item is not None] for batch in batches]
    for batch, wanted in zip(batches, found, strict=True):
        given = [item for item in loaded(*batch) if item is not None]
        assert [item.tobytes() for item in given] == [item.tobytes() for item in wanted]
    names = [variable.name for variable in loaded.signature.variables]
    for name in names:
        assert loaded.get(name).tobytes() == session.get(name).tobytes(), name

    sent = b"".join(np.asarray(item).tobytes() for batch in batches for item in batch)
    done = subprocess.run(
        [main, str(STEPS), *map(str, training.dims)], input=sent, capture_output=True, check=False
    )
    assert done.returncode == 0, (done.returncode, done.stderr)
    expected = [item.tobytes() for wanted in found for item in wanted]
    expected += [session.get(name).tobytes() for name in names]
    assert done.stdout == b"".join(expected)
    assert len(names) >= 2
