"""Graphs of the cases about threads: forked children, and how many threads there may be."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import graphc as gx
from cases.registry import CaseRun, case

CHILD_SECONDS = 300.0
"""A child without threads of its own would wait for ever."""

WAYS = """
import os, sys, time
import numpy as np
import graphc as gx

def tasks():
    return len(os.listdir("/proc/self/task"))

# a thread that has compiled ends within microseconds, if it gets a processor
def settled(count):
    for _ in range(500):
        if tasks() == count:
            return True
        time.sleep(0.01)
    return False

# of each other thread, its state and how often it went to sleep
def states():
    found = {}
    for task in {int(t) for t in os.listdir("/proc/self/task")} - {os.getpid()}:
        with open(f"/proc/self/task/{task}/status") as status:
            lines = dict(line.split(":", 1) for line in status)
        found[task] = (lines["State"].split()[0], lines["voluntary_ctxt_switches"].strip())
    return found

def program(threads=None):
    with gx.Graph() as graph:
        x = gx.placeholder(("n",), "float64", name="x")
        y = gx.tanh(gx.sin(x) + gx.cos(x))
    session = gx.Session(graph, threads=threads)
    exe = session.compile(y, [x])
    data = np.arange(1e6)
    return lambda: exe(data)

cpus = sorted(os.sched_getaffinity(0))
"""

AFFINITY = {
    "one cpu, one thread": """
        os.sched_setaffinity(0, cpus[:1])
        before = tasks()
        program()()
        assert settled(before)
    """,
    "one means one": """
        before = tasks()
        program(1)()
        assert settled(before)
    """,
    "one pool for two sessions": """
        before = tasks()
        first, second = program(2), program(2)
        first(), second(), first()
        assert settled(before + 1)
    """,
    "idle threads rest": """
        run = program(2)
        run()
        # all but the caller are asleep and stay so: nothing wakes them between two looks
        looks = [states(), None]
        while looks[0] != looks[1] or any(state != "S" for state, _ in looks[1].values()):
            time.sleep(0.2)
            looks = [looks[1], states()]
    """,
}


@case("ses-affinity")
def threads_follow_affinity(run: CaseRun) -> list[Any]:
    for text in AFFINITY.values():
        lines = [line.removeprefix("        ") for line in text.splitlines()]
        subprocess.run(
            [sys.executable, "-c", WAYS + "\n".join(lines)],
            check=True,
            timeout=600,
            cwd=Path(gx.__file__).parent.parent,
        )
    return []


@case("ses-fork", feeds_only=True)
def children_of_a_threaded_parent(run: CaseRun) -> list[Any]:
    x = run.input("x")
    y = gx.sum(gx.sin(x))

    def computed(session: gx.Session) -> Any:
        return session.run(y, run.feeds)

    with gx.Session(threads=2) as session:
        output = computed(session)
        children = []
        for _ in range(4):
            child = os.fork()
            if not child:
                right = False
                try:
                    with gx.Session(threads=2) as own:
                        right = bool(computed(session) == output == computed(own))
                finally:
                    os._exit(0 if right else 1)
            children.append(child)
        for child in children:
            assert _status(child) == 0
    return [output]


def _status(child: int) -> int:
    """The exit status of a child; one that does not end in time is stopped, with -9."""
    deadline = time.monotonic() + CHILD_SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
