"""Interrupts a process at random moments; no interrupt is lost, and the session goes on.

``interrupt_stress.py count seed`` sends so many signals, by an alarm, by another thread and by the
program itself, to what builds, compiles, runs, drops and collects. Each must arrive as a
KeyboardInterrupt, the variables must be those of a whole number of runs, and new programs must
compile. Prints how many interrupts were lost.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import graphc as gx

PATIENCE = 100
"""Seconds after which something hangs."""

UNRAISABLE: list[Any] = []


def noted(unraisable: Any) -> None:
    UNRAISABLE.append((unraisable.object, unraisable.exc_value))


class Trained:
    """A session whose two variables are always equal, and count its runs."""

    def __init__(self, threads: int, trips: int) -> None:
        with gx.Graph() as graph:
            self.x = gx.placeholder((512, 512), "float32", name="x")
            self.a = gx.variable(np.zeros((512, 512), np.float32), name="a")
            self.b = gx.variable(np.zeros((512, 512), np.float32), name="b")
            add = self.x
            if trips:
                _, add = gx.while_loop(
                    lambda n, total: n < trips,
                    lambda n, total: (n + 1, gx.maximum(total, self.x)),
                    (gx.constant(0), self.x),
                )
            self.steps = [self.a.assign(self.a + add), self.b.assign(self.b + add)]
        self.session = gx.Session(graph, threads=threads)
        self.fed = np.ones((512, 512), np.float32)

    def run(self) -> None:
        self.session.run(self.steps, {self.x: self.fed})

    def is_whole(self) -> bool:
        a, b = self.session.get([self.a, self.b])
        return bool(np.all(a == a[0, 0]) and np.array_equal(a, b))


def new_program(number: int) -> None:
    """Builds, compiles, runs and drops a program; large ones are compiled in the background."""
    with gx.Graph() as graph:
        x = gx.placeholder((None, 3), "float64", name="x")
        y = gx.concatenate([x[1:], x[:1]]) * (number + 0.5)
        for n in range(100 if number % 8 == 0 else 3):
            y = gx.tanh(y * 0.5 + n)
    session = gx.Session(graph)
    result = session.run([y, gx.sum(y)], {x: np.ones((5, 3))})
    assert result[0].shape == (5, 3)


def large_results(known: Any) -> None:
    """Results that have blocks of the store, and die."""
    session, x, y = known
    for _ in range(5):
        result = session.run(y, {x: np.ones(1 << 19, np.float32)})
        assert result[-1] == 2
        gc.collect(0)


def doubled() -> Any:
    with gx.Graph() as graph:
        x = gx.placeholder((1 << 19,), "float32", name="x")
        y = x + x
    return gx.Session(graph), x, y


def senders(seed: int) -> Iterator[Callable[[float], None]]:
    """Ways to interrupt this process in so many seconds."""

    def by_alarm(delay: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, delay)

    def by_thread(delay: float) -> None:
        def send() -> None:
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=send).start()

    while True:
        yield by_alarm
        yield by_thread


def raised(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main(count: int, seed: int) -> None:
    random.seed(seed)
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    sys.unraisablehook = noted
    signal.signal(signal.SIGALRM, raised)
    trained = [Trained(1, 0), Trained(2, 0), Trained(1, 40)]
    known = doubled()
    works: list[Callable[[int], None]] = [
        lambda n: new_program(n),
        lambda n: trained[0].run(),
        lambda n: trained[1].run(),
        lambda n: trained[2].run(),
        lambda n: large_results(known),
    ]
    number = seed * 1_000_000
    for work in works:
        work(number)  # modules that are imported then are not imported under interrupts
    new_program(number + 8)
    lost = 0
    sender = senders(seed)
    for n in range(count):
        work = works[n % len(works)]
        arrived = False
        try:
            next(sender)(random.random() * (0.08 if n % len(works) == 0 else 0.01))
            end = time.monotonic() + PATIENCE
            while time.monotonic() < end:
                number += 1
                work(number)
        except KeyboardInterrupt:
            arrived = True
        lost += not arrived
        if n % 20 == 0:
            assert all(one.is_whole() for one in trained)
            assert gc.isenabled()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert all(one.is_whole() for one in trained)
    for one in trained:
        before = one.session.get(one.a)[0, 0]
        one.run()
        assert one.is_whole() and one.session.get(one.a)[0, 0] == before + 1
    for _ in range(3):
        number += 8
        new_program(number)
    print(lost, "lost", UNRAISABLE)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
