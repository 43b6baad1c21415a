"""Forks a process at random moments; every child compiles a new program, and answers.

``fork_stress.py count seed`` makes so many children while a program compiles in the background,
threads run and compile programs, and tasks of kernels are shared. A watch ends what hangs. Prints
how many children failed, and the milliseconds that the longest fork took.
"""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import random
import signal
import sys
import threading
import time
from typing import Any

import numpy as np

import graphc as gx

PATIENCE = 60
"""Seconds after which a child, or a fork, hangs."""


def chain(length: int) -> tuple[gx.Graph, gx.Value, gx.Value]:
    """A program that is compiled twice, the second time in the background."""
    with gx.Graph() as graph:
        x = gx.placeholder(("n", 5), name="x")
        y = x
        for n in range(length // 3):
            y = gx.tanh(y * 0.5 + x * (n % 7))
    return graph, x, y


def new_program(number: int) -> None:
    """Builds, compiles and runs what no process has compiled before."""
    with gx.Graph() as graph:
        x = gx.placeholder((None,), "float64", name="x")
        weight = gx.variable(np.ones(3), name="w")
        step = weight.assign(weight + gx.sum(x * (number + 0.5)))
    session = gx.Session(graph, threads=2)
    for _ in range(3):
        session.run(step, {x: np.ones(4)})
    assert np.all(session.get(weight) == 1 + 12 * (number + 0.5)), session.get(weight)


def shared(rows: int) -> tuple[gx.Session, gx.Value, gx.Value]:
    """A program whose kernel threads of the pool share, and that writes a variable."""
    with gx.Graph() as graph:
        x = gx.placeholder((rows, 256), name="x")
        total = gx.variable(np.zeros((rows, 256), np.float32), name="total")
        step = total.assign(total + gx.sin(x))
    return gx.Session(graph, threads=2), x, step


class Others:
    """Threads of the user's: one runs what the pool shares, one compiles."""

    def __init__(self, seed: int) -> None:
        self.session, self.x, self.step = shared(1024)
        self.is_over = False
        self._seed = seed
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._watched, args=(work,))
                         for work in (self._run, self._compile)]  # fmt: skip
        for thread in self._threads:
            thread.start()

    def _watched(self, work: Any) -> None:
        try:
            while not self.is_over:
                work()
        except BaseException as error:
            self.errors.append(error)

    def _run(self) -> None:
        self.session.run(self.step, {self.x: np.ones((1024, 256), np.float32)})
        time.sleep(random.random() * 0.002)

    def _compile(self) -> None:
        self._seed += 1
        new_program(self._seed)

    def end(self) -> None:
        self.is_over = True
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]


def answers(number: int, known: Any, other: Any) -> None:
    """What a child does."""
    signal.alarm(PATIENCE)
    session, x, y = known
    new_program(number)
    expected = session.run(y, {x: np.ones((2, 5), np.float32)})
    if number % 4 == 0:
        assert session.wait(PATIENCE)
        again = session.run(y, {x: np.ones((2, 5), np.float32)})
        assert np.array_equal(expected, again)
    if other is not None:
        x, step = other.x, other.step
        total = other.session.graph.find("total")
        before = other.session.get(total)
        assert np.all(before == before[0, 0]), "a run is there in part"
        other.session.run(step, {x: np.zeros((1024, 256), np.float32)})
        assert np.array_equal(other.session.get(total), before)


def forked(number: int, known: Any, other: Any) -> int:
    """The status of a child."""
    if number % 5 == 0:
        process = multiprocessing.get_context("fork").Process(
            target=answers, args=(number, known, other)
        )
        process.start()
        process.join()
        return process.exitcode or 0
    child = os.fork()
    if child == 0:
        status = 1
        try:
            answers(number, known, other)
            status = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        os._exit(status)
    return os.waitpid(child, 0)[1]


def into(statuses: list[int], given: Any) -> None:
    """For a thread."""
    statuses.append(forked(*given))


def main(count: int, seed: int) -> None:
    # shows where a process hangs, and ends it
    faulthandler.register(signal.SIGALRM, chain=True)
    random.seed(seed)
    failed = 0
    longest = 0.0
    other = None
    for number in range(count):
        signal.alarm(2 * PATIENCE)
        if number % 4 == 0:
            graph, x, y = chain(random.randrange(300, 700))
            session = gx.Session(graph)
            session.run(y, {x: np.ones((2, 5), np.float32)})
        if number == count // 3:
            other = Others(seed * 1_000_000)
        time.sleep(random.random() * 0.05)
        began = time.perf_counter()
        given = 10_000 * seed + number, (session, x, y), other
        if number % 3 == 1:  # the thread that forks is the child's main thread
            statuses: list[int] = []
            thread = threading.Thread(target=into, args=(statuses, given))
            thread.start()
            thread.join()
            failed += statuses != [0]
        else:
            failed += forked(*given) != 0
        longest = max(longest, time.perf_counter() - began)
    if other is not None:
        other.end()
    print(failed, "failed; the longest fork with its child took", round(longest * 1e3), "ms")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
