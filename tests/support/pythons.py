"""The Pythons of this machine that graphc runs on, and the oldest releases that it needs.

Prints a version and a path, as in ``3.12=/usr/bin/python3.12``, for each Python that is found, and
for ``oldest``; with the argument ``releases`` the oldest releases of what graphc depends on, as pip
takes them. ``make test-all`` asks for both. It needs the standard library only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

# Environments are made by these modules; Debian's interpreter has them only with a package more.
PROBE = """
import sys, sysconfig, ensurepip, venv
if sys.implementation.name == "cpython" and not sysconfig.get_config_var("Py_GIL_DISABLED"):
    print(*sys.version_info[:3])
"""


def project() -> dict[str, Any]:
    """What pyproject.toml says of the project."""
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"])


def minimum(requirement: str) -> str:
    """The version behind ``>=``."""
    found = re.search(r">=\s*([\d.]+)", requirement)
    assert found is not None, f"{requirement!r} has no lower bound"
    return found[1]


def releases() -> list[str]:
    """The oldest release of each dependency."""
    oldest = []
    for requirement in project()["dependencies"]:
        name = re.match(r"[\w.-]+", requirement)
        assert name is not None
        oldest.append(f"{name[0]}=={minimum(requirement)}")
    return oldest


def candidates() -> Iterator[str]:
    """Paths that may be interpreters: this one, those of the search path, those of pyenv."""
    yield sys.executable
    named = re.compile(r"python3\.\d\d+|3\.\d\d+\.\d+")
    for directory in os.get_exec_path():
        if os.path.isdir(directory):
            for name in sorted(os.listdir(directory)):
                if named.fullmatch(name):
                    yield os.path.join(directory, name)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    for path in sorted(Path(pyenv).glob("versions/*")):
        if named.fullmatch(path.name):
            yield str(path / "bin" / "python3")


def version_of(path: str) -> tuple[int, ...] | None:
    """The version of an interpreter; None if it does not run, or graphc not on it natively."""
    try:
        found = subprocess.run([path, "-c", PROBE], capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return tuple(map(int, found.stdout.split())) or None if found.returncode == 0 else None


@cache
def pythons() -> dict[str, str]:
    """The path of the newest interpreter of each version, oldest version first."""
    least = tuple(map(int, minimum(project()["requires-python"]).split(".")))
    newest: dict[tuple[int, ...], tuple[tuple[int, ...], str]] = {}
    for path in dict.fromkeys(candidates()):
        version = version_of(path)
        if version is not None and version >= least:
            known = newest.get(version[:2])
            if known is None or version > known[0]:
                newest[version[:2]] = version, path
    return {".".join(map(str, key)): newest[key][1] for key in sorted(newest)}


def main(asked: list[str]) -> str:
    """The answer."""
    if asked == ["releases"]:
        return " ".join(releases())
    found = pythons()
    oldest = next(iter(found.values()))
    return " ".join(f"{version}={path}" for version, path in (*found.items(), ("oldest", oldest)))


if __name__ == "__main__":
    print(main(sys.argv[1:]))
