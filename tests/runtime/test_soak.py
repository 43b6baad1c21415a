"""Long mixed work: right numbers, no memory that stays, nothing lost by kills and interrupts.

The long ones are ``make slow``; a short one of each is in the suite.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import soak
from slow_parameters import slow_unless
from tools import FORKING, ROOT, SUPPORT, child_environment, lean_environment, script_output

RESIDENT = 20_000
"""KB by which the resident set may grow."""


@pytest.mark.parametrize("runs", [100, 10_000])
@slow_unless(lambda runs: runs == 100)
def test_threads_on_one_session(runs: int) -> None:
    """8 threads run, assign, read and fork; each number is right, and each child goes on."""
    command = [*FORKING, str(SUPPORT / "soak.py"), "threads", str(runs)]
    environment = lean_environment(child_environment())
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    grown, failed = map(int, done.stdout.split())
    assert failed == 0 and grown <= RESIDENT, done.stdout


@pytest.mark.parametrize("kills", [2, 200])
@slow_unless(lambda kills: kills == 2)
def test_a_kill_while_saving_loses_nothing(kills: int, tmp_path: Path) -> None:
    """The file is the old one or the new one, whole, wherever a process dies."""
    path = tmp_path / "values.safetensors"
    draw = random.Random(kills)
    session, _ = soak.saved()
    session.save(path)
    before = 0.0
    for _ in range(kills):
        command = [sys.executable, str(SUPPORT / "soak.py"), "saves", str(path)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env=lean_environment(child_environment()),
        ) as process:
            assert process.stdout is not None and process.stdout.readline() == "begun\n"
            time.sleep(0.05 + draw.random() * 0.1)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
        session.restore(path)
        values = session.get([*session.graph.variables])
        number = float(values[0][0])
        assert number >= before and all(np.all(value == number) for value in values)
        before = number
    assert before > kills // 2, "files were written"


@pytest.mark.parametrize("count", [9, 500])
@slow_unless(lambda count: count == 9)
def test_interrupts_of_trainings_leave_variables_whole(count: int) -> None:
    """Variables have the bits of as many steps as they count, and the next step goes on."""
    whole, arrived = map(int, script_output("soak.py", "interrupts", count, 1).split())
    assert whole == count and arrived > count // 2
