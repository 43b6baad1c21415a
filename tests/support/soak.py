"""Long mixed work on one session, whose numbers are all checked.

``soak.py threads runs`` has 8 threads make so many runs each on one session, of mixed shapes, with
and without assignments, while the process forks; children go on with the session. Prints by how
many KB the resident set has grown since a tenth of the runs was made, and how many children failed.

``soak.py saves path`` trains and saves without end, until it is killed. ``soak.py interrupts count
seed`` interrupts trainings at so many random moments, and prints how many were whole.
"""

from __future__ import annotations

import gc
import os
import random
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

import graphc as gx

THREADS = 8
KINDS = 7
SIZES = (1, 3, 64, 100, 1000, 4096, 20_000)
LARGE = 40_000
"""So many float32 are written where they lie."""

PATIENCE = 120
"""Seconds after which a child hangs."""


def resident() -> int:
    """The resident set, in KB."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


class Shared:
    """One session with variables that runs add to, which are equal or some multiple of each other.

    Attributes:
        added: the numbers that runs gave for the count, by thread.
    """

    def __init__(self) -> None:
        with gx.Graph() as graph:
            self.x = gx.placeholder((None,), name="x")
            self.large = gx.variable(np.zeros(LARGE, np.float32), name="large")
            self.small = gx.variable(np.zeros(3, np.float32), name="small")
            self.count = gx.variable(0, name="count")
            self.read = [gx.sum(self.x), self.x * 2 + 1]
            self.both = [gx.max(self.large), gx.min(self.large), self.small]
            self.step = [
                self.count.assign_add(1),
                gx.group(self.large.assign_add(1.0), self.small.assign_add(2.0)),
            ]
            self.mixed = [gx.sum(self.x), *self.step]
        self.session = gx.Session(graph, threads=2)
        self.exe = self.session.compile(self.read, [self.x])
        self.fed = {n: np.arange(n, dtype=np.float32) % 64 for n in SIZES}
        self.sums = {n: fed.sum(dtype=float) for n, fed in self.fed.items()}
        self.added: list[list[int]] = [[] for _ in range(THREADS)]

    def run(self, thread: int, draw: random.Random, kind: int | None = None) -> None:
        """One run of some kind."""
        kind = draw.randrange(KINDS) if kind is None else kind
        size = draw.choice(SIZES)
        fed = self.fed[size]
        if kind == 0:
            total, doubled = self.session.run(self.read, {self.x: fed})
            assert total == self.sums[size] and np.array_equal(doubled, fed * 2 + 1)
        elif kind == 1:
            out = [np.empty((), np.float32), np.empty(size, np.float32)]
            self.exe(fed, out=out)
            assert out[0] == self.sums[size] and np.array_equal(out[1], fed * 2 + 1)
        elif kind == 2:
            most, least, small = self.session.run(self.both)
            assert most == least and np.all(small == 2 * most), (most, least, small)
        elif kind == 3:
            self.added[thread].append(int(self.session.run(self.step)[0]))
        elif kind == 4:
            total, count, _ = self.session.run(self.mixed, {self.x: fed})
            assert total == self.sums[size]
            self.added[thread].append(int(count))
        elif kind == 5:
            self.check(self.session.get([self.large, self.small, self.count]))
        else:
            self.added[thread] += map(int, self.session.run_many(self.step, steps=3)[0])

    def check(self, values: Any) -> None:
        """Variables are those of one moment."""
        large, small, count = values
        assert np.all(large == count) and np.all(small == 2 * count), (large[:3], small, count)


def forked(job: Callable[[], None]) -> bool:
    """Whether a child that does a job ends well; a signal ends one that hangs."""
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    status = 1
    try:
        signal.alarm(PATIENCE)
        job()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def threads(runs: int) -> None:
    shared = Shared()
    failed: list[BaseException] = []
    made = [0] * THREADS

    def work(thread: int) -> None:
        draw = random.Random(thread)
        try:
            for _ in range(runs):
                shared.run(thread, draw)
                made[thread] += 1
        except BaseException as error:
            failed.append(error)

    def in_child() -> None:
        shared.check(shared.session.get([shared.large, shared.small, shared.count]))
        draw = random.Random(os.getpid())
        shared.added = [[] for _ in range(THREADS)]
        before = int(shared.session.get(shared.count))
        for _ in range(30):
            shared.run(0, draw)
        assert shared.added[0] == [*range(before + 1, before + 1 + len(shared.added[0]))]

    for kind in range(KINDS):
        # the third call is the first one of native code
        for _ in range(4):
            shared.run(0, random.Random(0), kind)
    workers = [threading.Thread(target=work, args=(n,)) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    begun, lost = 0, 0
    while any(worker.is_alive() for worker in workers):
        lost += not forked(in_child)
        if not begun and sum(made) >= THREADS * runs // 10:
            gc.collect()
            begun = resident()
        time.sleep(0.02)
    for worker in workers:
        worker.join()
    if failed:
        raise failed[0]
    numbers = sorted(number for added in shared.added for number in added)
    assert numbers == [*range(1, len(numbers) + 1)], "a run was lost, or counted twice"
    shared.check(shared.session.get([shared.large, shared.small, shared.count]))
    gc.collect()
    print(resident() - begun, lost)


def saved() -> tuple[Any, Any]:
    """A session whose variables all count, and the run that has them count."""
    with gx.Graph() as graph:
        values = [gx.variable(np.zeros(200_000, np.float32), name=f"v{n}") for n in range(8)]
        step = gx.group(*(value.assign_add(1.0) for value in values))
    return gx.Session(graph), step


def saves(path: str) -> None:
    """Goes on from the file, if there is one; prints a line when it begins to save."""
    session, step = saved()
    if os.path.exists(path):
        session.restore(path)
    session.run(step)
    print("begun", flush=True)
    while True:
        session.save(path)
        session.run(step)


class Training:
    """Adam and a running mean, of which each run counts one."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        with gx.Graph() as graph:
            self.x = gx.placeholder((8, 100), name="x")
            w = gx.variable(rng.normal(size=(100, 200)).astype("float32"), name="w")
            loss = gx.mean((self.x @ w) ** 2)
            self.step = [gx.optim.Adam(0.01).minimize(loss), gx.training.mean(loss).update]
            count = gx.variable(np.zeros(LARGE, np.float32), name="count")
            self.step.append(gx.group(count.assign_add(1.0)))
        self.graph = graph
        self.fed = rng.normal(size=(20, 8, 100)).astype("float32")
        self.names = [value.name for value in graph.variables]

    def states(self, most: int) -> list[dict[str, Any]]:
        """All variables after each number of steps, one at a time."""
        session, found = gx.Session(self.graph), []
        for n in range(most + 1):
            found.append(dict(zip(self.names, session.get(self.names), strict=True)))
            session.run(self.step, {self.x: self.fed[n % 20]})
        return found


def interrupts(count: int, seed: int) -> None:
    draw = random.Random(seed)
    training = Training()
    states = training.states(40)

    def by_run(session: Any) -> None:
        for fed in training.fed:
            session.run(training.step, {training.x: fed})

    def by_many(session: Any) -> None:
        session.run_many(training.step, {training.x: training.fed})

    def by_loader(session: Any) -> None:
        rows = {training.x: training.fed.reshape(160, 100)}
        session.run_many(training.step, gx.training.Loader(rows, 8))

    def raised(number: int, frame: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, raised)
    ways = [by_run, by_many, by_loader]
    whole = arrived = 0
    for n in range(count):
        session = gx.Session(training.graph)
        way = ways[n % len(ways)]
        way(session)
        began = time.perf_counter()
        way(session)
        took = time.perf_counter() - began
        session = gx.Session(training.graph)
        way(session)
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, draw.random() * took))
            way(session)
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            arrived += 1
        found = session.get(training.names)
        steps = int(session.get("count")[0])
        wanted = states[steps]
        whole += all(
            np.array_equal(value, wanted[name])
            for name, value in zip(training.names, found, strict=True)
        )
        session.run(training.step, {training.x: training.fed[steps % 20]})
        assert session.get("count")[0] == steps + 1
    print(whole, arrived)


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    {
        "threads": lambda runs: threads(int(runs)),
        "saves": saves,
        "interrupts": lambda count, seed: interrupts(int(count), int(seed)),
    }[what](*arguments)
