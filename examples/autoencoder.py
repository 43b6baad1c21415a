"""A variational autoencoder: pictures of a spot, told by two numbers each.

The encoder gives a normal distribution of two latent numbers for a picture, the decoder a picture
for two numbers drawn from it, and both are trained to make the evidence lower bound large (Kingma
and Welling, "Auto-Encoding Variational Bayes", 2014). The numbers are drawn in the graph, by
``gx.random.normal`` of a key that is new in each run, and the gradient goes through the draw. The
NumPy program is given the same numbers, and has its gradients by hand.

    python examples/autoencoder.py [--quick]

The last line says how much of the spots' places the two numbers tell.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np

import graphc as gx

Array = np.ndarray[Any, Any]

SIDE, HIDDEN, LATENT, BATCH, RATE = 12, 64, 2, 64, 5e-3
SHADES = " .:-=+*#%@"


def pictures(count: int) -> tuple[Array, Array]:
    """Pictures [count, side²] of a bright spot, and its places [count, 2]."""
    places = np.random.default_rng(0).uniform(2, SIDE - 3, size=(count, 2))
    grid = np.arange(SIDE)
    down, across = (np.exp(-((grid - places[:, [axis]]) ** 2) / 4) for axis in (0, 1))
    spots = np.round(down[:, :, None] * across[:, None], 2)
    return spots.reshape(count, -1).astype(np.float32), places


def first_model() -> dict[str, Array]:
    """Weights and biases before training."""
    random = np.random.default_rng(1)
    sizes = {
        "read": (SIDE**2, HIDDEN), "tell": (HIDDEN, 2 * LATENT),
        "hear": (LATENT, HIDDEN), "draw": (HIDDEN, SIDE**2),
    }  # fmt: skip
    model = {}
    for name, (rows, columns) in sizes.items():
        model[name] = (random.normal(size=(rows, columns)) / np.sqrt(rows)).astype(np.float32)
        model[f"{name} bias"] = np.zeros(columns, np.float32)
    return model


# --- in graphc -----------------------------------------------------------------------------------


def layer(model: dict[str, Any], name: str, x: gx.Value) -> gx.Value:
    return x @ model[name] + model[f"{name} bias"]


def build() -> tuple[gx.Graph, dict[str, Any]]:
    """The graph, and by name what is fed and fetched."""
    with gx.Graph("autoencoder") as graph:
        given = gx.placeholder(("pictures", SIDE**2), name="given")
        model = {name: gx.variable(array, name=name) for name, array in first_model().items()}
        told = layer(model, "tell", gx.tanh(layer(model, "read", given)))
        mean, log_spread = told[:, :LATENT], told[:, LATENT:]
        noise = gx.random.normal(gx.random.next_key(), mean.shape)
        latent = mean + gx.exp(log_spread) * noise

        def scores(latent: gx.Value) -> gx.Value:
            return layer(model, "draw", gx.tanh(layer(model, "hear", latent)))

        drawn = scores(latent)
        # the cross entropy of sigmoid(drawn), right for scores of any size
        entropy = (gx.nn.softplus(drawn) - given * drawn).sum(1)
        apart = (0.5 * (mean**2 + gx.exp(2 * log_spread) - 1) - log_spread).sum(1)
        loss = (entropy + apart).mean()
        step = gx.optim.Adam(RATE).minimize(loss)
        places = gx.placeholder(("places", LATENT), name="places")
        shown = gx.sigmoid(scores(places))
    training = {"loss": loss, "noise": noise, "step": step}
    return graph, {"given": given, "training": training, "mean": mean} | {
        "places": places, "shown": shown,
    }  # fmt: skip


# --- in NumPy ------------------------------------------------------------------------------------


def gradient_by_numpy(
    model: dict[str, Array], given: Array, noise: Array
) -> tuple[float, dict[str, Array]]:
    """The loss and its gradient."""
    count = len(given)
    read = np.tanh(given @ model["read"] + model["read bias"])
    told = read @ model["tell"] + model["tell bias"]
    mean, log_spread = told[:, :LATENT], told[:, LATENT:]
    spread = np.exp(log_spread)
    latent = mean + spread * noise
    heard = np.tanh(latent @ model["hear"] + model["hear bias"])
    drawn = heard @ model["draw"] + model["draw bias"]
    entropy = (np.logaddexp(0, drawn) - given * drawn).sum()
    apart = (0.5 * (mean**2 + spread**2 - 1) - log_spread).sum()
    found = {}

    def back(name: str, x: Array, weight: Array) -> Array:
        found[name], found[f"{name} bias"] = x.T @ weight, weight.sum(0)
        return weight @ model[name].T

    of_drawn = (1 / (1 + np.exp(-drawn)) - given) / count
    of_latent = back("hear", latent, back("draw", heard, of_drawn) * (1 - heard**2))
    of_mean = of_latent + mean / count
    of_spread = of_latent * spread * noise + (spread**2 - 1) / count
    of_told = np.concatenate([of_mean, of_spread], axis=1)
    back("read", given, back("tell", read, of_told) * (1 - read**2))
    return float(entropy + apart) / count, found


def trained_by_numpy(batches: Array, noises: Array) -> list[float]:
    """The losses of a training by Adam."""
    model, losses = first_model(), []
    means = {name: np.zeros_like(array) for name, array in model.items()}
    squares = {name: np.zeros_like(array) for name, array in model.items()}
    for number, (given, noise) in enumerate(zip(batches, noises, strict=True), start=1):
        loss, gradient = gradient_by_numpy(model, given, noise)
        losses.append(loss)
        for name, slope in gradient.items():
            means[name] += np.float32(0.1) * (slope - means[name])
            squares[name] += np.float32(0.001) * (slope**2 - squares[name])
            scale = np.sqrt(squares[name] / (1 - 0.999**number)) + 1e-8
            model[name] -= (RATE * means[name] / (1 - 0.9**number) / scale).astype(np.float32)
    return losses


# --- what is shown -------------------------------------------------------------------------------


def sketch(grid: Array) -> str:
    """Rows of pictures [rows, columns, side²] as shades of ink."""
    rows, columns, _ = grid.shape
    inks = np.clip(grid * len(SHADES), 0, len(SHADES) - 1).astype(int)
    lines = inks.reshape(rows, columns, SIDE, SIDE)[:, :, ::2].swapaxes(1, 2)
    return "\n".join(
        "|".join("".join(SHADES[ink] for ink in picture) for picture in line)
        for row in lines
        for line in row
    )


def main() -> None:
    """Trains on spots, compares with NumPy, and draws what two numbers stand for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps of training")
    rounds = 300 if parser.parse_args().quick else 800
    spots, places = pictures(1_000)
    batches = spots[np.random.default_rng(2).integers(len(spots), size=(rounds, BATCH))]
    started = time.perf_counter()
    graph, named = build()
    session = gx.Session(graph, seed=0)
    session.compile(named["training"], [named["given"]])
    begun = time.perf_counter()
    trained = session.run_many(named["training"], {named["given"]: batches})
    ended = time.perf_counter()
    losses_by_numpy = trained_by_numpy(batches, trained["noise"])
    finished = time.perf_counter()
    steps = np.array([-1.2, -0.4, 0.4, 1.2], np.float32)
    grid = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1)
    shown = session.run(named["shown"], {named["places"]: grid.reshape(-1, LATENT)})
    print(sketch(shown.reshape(len(steps), len(steps), -1)))
    for number in (0, rounds // 4, rounds - 1):
        print(
            f"step {number:4}  loss {trained['loss'][number]:8.4f}, "
            f"in NumPy {losses_by_numpy[number]:8.4f}"
        )
    print(
        f"built in {begun - started:.2f} s, run in {ended - begun:.2f} s, "
        f"in NumPy {finished - ended:.2f} s"
    )
    if not np.allclose(trained["loss"], losses_by_numpy, rtol=1e-2):
        raise SystemExit("graphc and NumPy disagree")
    told = session.run(named["mean"], {named["given"]: spots})
    # polynomials of the two numbers, since the places may be bent
    x, y = told.T.astype(float)
    powers = np.stack([x**i * y**j for i in range(4) for j in range(4 - i)], axis=1)
    fit = powers @ np.linalg.lstsq(powers, places, rcond=None)[0]
    share = 1 - ((fit - places) ** 2).sum() / ((places - places.mean(0)) ** 2).sum()
    print(f"two numbers tell {share:.1%} of the variance of the spots' places")


if __name__ == "__main__":
    main()
