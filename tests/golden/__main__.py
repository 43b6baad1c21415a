"""Records hashes, and shows how texts differ from those that were recorded.

    python -m golden write [NAME…]        # or make golden
    python -m golden diff NAME [COMMIT]   # or make golden-diff PROGRAM=NAME BASE=COMMIT
    python -m golden texts NAME FOLDER    # every text of the program as a file

``diff`` compares with the texts of another commit, which its own code writes; if none is given it
is the last one that recorded hashes of the program. Run from the top of the repository with
``PYTHONPATH=.:tests``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
from io import BytesIO
from pathlib import Path

from golden.catalogue import SOURCES
from golden.hashes import FOLDER, path_of, record

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "golden"


def write(names: list[str]) -> None:
    """Records the hashes of some programs, or of all; files of programs that are gone go too."""
    changed = [name for name in names or SOURCES if record(name)]
    if not names:
        known = {path_of(name) for name in SOURCES}
        for path in set(FOLDER.iterdir()) - known:
            path.unlink()
    print(f"{len(changed)} of {len(names or SOURCES)} have changed: {', '.join(changed) or '–'}")


def write_texts(name: str, folder: Path) -> None:
    """Writes each text of a program to a file of its own, by column."""
    source = SOURCES[name]
    for column in source.columns:
        inside = folder / column
        inside.mkdir(parents=True, exist_ok=True)
        for label, text in source.texts(column).items():
            file = re.sub(r"[^A-Za-z0-9_.]+", "_", label)
            (inside / f"{file}.txt").write_text(text, "utf-8")


def show_differences(name: str, commit: str | None) -> None:
    """Prints how the texts of a program differ from those of a commit."""
    if commit is None:
        commit = _git("log", "-1", "--format=%H", "--", str(path_of(name))).decode().strip()
        if not commit:
            sys.exit(f"no commit has recorded {name}; give one: BASE=…")
    old, new, checkout = (BUILD / part for part in ("old", "new", "checkout"))
    shutil.rmtree(BUILD, ignore_errors=True)
    parts = _git("archive", commit, "graphc", "passes", "tests/golden")
    with tarfile.open(fileobj=BytesIO(parts)) as archive:
        archive.extractall(checkout, filter="data")
    environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'tests'}"}
    command = [sys.executable, "-m", "golden", "texts", name, str(old)]
    subprocess.run(command, cwd=checkout, env=environment, check=True)
    write_texts(name, new)
    compared = ["git", "diff", "--no-index", f"{old.relative_to(ROOT)}", f"{new.relative_to(ROOT)}"]
    if subprocess.run(compared, cwd=ROOT, check=False).returncode == 0:
        print(f"{name} has the texts of {commit[:12]}")


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="golden", description="Records and shows texts.")
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("write", help="record hashes")
    command.add_argument("names", nargs="*", metavar="NAME")
    command.set_defaults(run=lambda given: write(given.names))
    command = commands.add_parser("diff", help="compare texts with those of a commit")
    command.add_argument("name", choices=SOURCES, metavar="NAME")
    command.add_argument("commit", nargs="?", metavar="COMMIT")
    command.set_defaults(run=lambda given: show_differences(given.name, given.commit))
    command = commands.add_parser("texts", help="write texts to a folder")
    command.add_argument("name", choices=SOURCES, metavar="NAME")
    command.add_argument("folder", type=Path, metavar="FOLDER")
    command.set_defaults(run=lambda given: write_texts(given.name, given.folder))
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
