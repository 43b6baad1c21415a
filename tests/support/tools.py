"""Programs that tests start: where one is missing a test is skipped, but fails in CI."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

from graphc.aot.link import has_linker
from graphc.base.target import Target

_PACKAGES = {
    "c++": "g++", "cc": "gcc", "ldd": "libc-bin", "nm": "binutils", "node": "nodejs",
    "objdump": "binutils", "qemu-aarch64": "qemu-user", "qemu-x86_64": "qemu-user",
    "readelf": "binutils",
}  # fmt: skip
"""Of Debian, where they are called otherwise than the program."""


SUPPORT = Path(__file__).resolve().parent
"""The folder of what tests share and start."""


ROOT = SUPPORT.parents[1]
"""The folder of the repository."""


FORKING = (sys.executable, "-W", "ignore:This process:DeprecationWarning")
"""A Python that forks beside threads, of which Python 3.12 and newer warn."""


def child_environment(**more: str) -> dict[str, str]:
    """The environment of a Python that imports graphc from here, with some variables more.

    Where ``tests`` is on its path, ``tests/passes`` would hide the package ``passes`` of an
    editable install. A regular package on PYTHONPATH wins over a namespace one.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), **more}


def lean_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """An environment where ``ml_dtypes`` is not installed, for processes that need no such dtype.

    To import it takes 0.8 s of the processor, four times as long as all else of graphc.
    """
    environment = dict(os.environ if given is None else given)
    paths = [str(SUPPORT / "without"), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths)}


def script_output(name: str, *arguments: object) -> str:
    """What a script of this folder prints.

    Raises:
        AssertionError: if it fails, with what it told.
    """
    done = subprocess.run(
        [sys.executable, str(SUPPORT / name), *map(str, arguments)],
        capture_output=True, text=True, cwd=ROOT, check=False,
        env=lean_environment(child_environment()),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def lacking(message: str) -> NoReturn:
    """Skips the test, or fails it where the variable CI is set, since there nothing may lack."""
    if os.environ.get("CI", "").lower() not in ("", "0", "false"):
        pytest.fail(message)
    pytest.skip(message)


def tool(*names: str) -> str:
    """The path of a program, by the first of its names that is on the PATH."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    package = _PACKAGES.get(names[0], names[0])
    lacking(
        f"no {names[0]} on the PATH; on Debian: apt-get install --no-install-recommends {package}"
    )


def zig_cc() -> list[str]:
    """Zig's C compiler, which brings the C libraries of other systems."""
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "cc"]
    found = shutil.which("zig")
    if found is None:
        lacking("ziglang is not installed: pip install -e '.[dev]'")
    return [found, "cc"]


def need_linker(target: Target) -> None:
    """Goes on only where libraries for a target can be linked."""
    if not has_linker(target):
        lacking(f"no linker for {target.triple}: pip install -e '.[dev]' brings ziglang")


def in_child(job: Callable[[], object]) -> int:
    """The status of a child that does a job, which a watch ends."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            signal.alarm(60)
            job()
            status = 0
        finally:
            os._exit(status)
    return os.waitpid(child, 0)[1]
