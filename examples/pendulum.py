"""A pendulum measured with noise: its length and friction found by a gradient through the motion.

The motion has no closed form. A ``gx.scan`` integrates it by the classical Runge-Kutta method, one
step for each measurement, and the loss compares angles with what was measured. The gradient goes
backwards through all steps; the whole descent is in native code, the scan and its gradient within
``session.run``.

    python examples/pendulum.py [--quick]

The last line says what was found.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import graphc as gx

GRAVITY = 9.81
STEP = 0.02
LENGTH, FRICTION = 1.7, 0.25


def motion(length: Any, friction: Any, state: gx.Value, count: Any) -> gx.Value:
    """The angles of a pendulum at so many steps, from an angle and its speed."""

    def change(state: gx.Value) -> gx.Value:
        angle, speed = state[0], state[1]
        return gx.stack([speed, -GRAVITY / length * gx.sin(angle) - friction * speed])

    def step(state: gx.Value, _: None) -> tuple[gx.Value, gx.Value]:
        first = change(state)
        second = change(state + STEP / 2 * first)
        third = change(state + STEP / 2 * second)
        fourth = change(state + STEP * third)
        following = state + STEP / 6 * (first + 2 * second + 2 * third + fourth)
        return following, following[0]

    return gx.scan(step, state, length=count)[1]


def main() -> None:
    """Measures a pendulum, then fits one to what was measured."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps of the descent")
    rounds = 150 if parser.parse_args().quick else 400
    with gx.Graph("pendulum") as graph:
        measured = gx.placeholder(("steps",), "float64", name="measured")
        start = gx.constant([2.0, 0.0], "float64")
        count = measured.shape[0]
        true = motion(gx.constant(LENGTH, "float64"), FRICTION, start, count)
        # positive, whatever the descent does
        logs = gx.variable(np.log([1.0, 0.5]), name="logs")
        length, friction = gx.exp(logs[0]), gx.exp(logs[1])
        loss = ((motion(length, friction, start, count) - measured) ** 2).mean()
        step = gx.optim.Adam(0.02).minimize(loss)
    session = gx.Session(graph)
    noise = 0.05 * np.random.default_rng(1).normal(size=200)
    angles = session.run(true, {measured: noise}) + noise
    for number in range(rounds + 1):
        error, _ = session.run([loss, step], {measured: angles})
        if number % (rounds // 5) == 0:
            found = session.run([length, friction])
            print(f"{number:4}  loss {error:.5f}  length {found[0]:.3f}  friction {found[1]:.3f}")
    off = max(abs(found[0] / LENGTH - 1), abs(found[1] / FRICTION - 1))
    print(f"found to {off:.1%}: length {LENGTH} m, friction {FRICTION} per second")


if __name__ == "__main__":
    main()
