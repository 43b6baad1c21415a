"""The documentation is true: its programs run and print what it shows, its links lead somewhere.

``GRAPHC_BLESS=1 pytest tests/users/test_docs.py`` writes the real output into the pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_runner import PAGES, ROOT, agrees, blocks_of
from tools import SUPPORT, child_environment

NAMES = [str(path.relative_to(ROOT)) for path in PAGES]
RUNNABLE = [
    path
    for path in PAGES
    if any(b.language == "python" for b in blocks_of(path.read_text(encoding="utf-8")))
]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_CODE = re.compile(r"`[^`\n]*`")
_PATH = re.compile(
    r"`((?:graphc|passes|tests|docs|examples|benchmarks)/(?:[\w/]*/)?(?:\w+\.\w+)?)`"
)
_MAKE = re.compile(r"(?:^\$ |`)make ([a-z][a-z-]*)", re.MULTILINE)
_TARGET = re.compile(r"^([a-z][a-z-]*):", re.MULTILINE)


def _prose(text: str) -> str:
    """The page without fenced blocks."""
    for block in reversed(list(blocks_of(text))):
        lines = text.splitlines()
        first = block.line - 2
        text = "\n".join([*lines[:first], *lines[first + len(block.lines) + 2 :]])
    return text


def _anchors(text: str) -> set[str]:
    """The anchors that headings get on GitHub."""
    found = set()
    for line in _prose(text).splitlines():
        if line.startswith("#"):
            title = line.lstrip("#").strip().replace("`", "").lower()
            found.add(re.sub(r"[^\w\- ]", "", title).replace(" ", "-"))
    return found


def _python(*arguments: str, directory: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A fresh interpreter: pages may register operations."""
    environment = child_environment()
    environment.pop("GRAPHC", None)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=directory,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("path", RUNNABLE, ids=[path.name for path in RUNNABLE])
def test_programs_run_and_print_what_is_shown(path: Path, tmp_path: Path) -> None:
    runner = SUPPORT / "docs_runner.py"
    finished = _python(str(runner), str(path), directory=tmp_path)
    assert finished.returncode == 0, finished.stdout


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_links_lead_somewhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for link in _LINK.findall(_CODE.sub("", _prose(text))):
        if link.startswith(("http://", "https://")):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists(), f"{path.name} links to {link}, which does not exist"
        if anchor:
            assert anchor in _anchors(target.read_text(encoding="utf-8")), f"no heading for {link}"


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, pending = set[Path](), [ROOT / "README.md"]
    while pending:
        page = pending.pop()
        if page in reached or page not in PAGES:
            continue
        reached.add(page)
        links = _LINK.findall(_CODE.sub("", _prose(page.read_text(encoding="utf-8"))))
        pending += [(page.parent / link.partition("#")[0]).resolve() for link in links]
    assert reached == set(PAGES)


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_make_targets_exist(path: Path) -> None:
    targets = set(_TARGET.findall((ROOT / "Makefile").read_text(encoding="utf-8")))
    mentioned = set(_MAKE.findall(path.read_text(encoding="utf-8")))
    assert mentioned <= targets


@pytest.mark.parametrize("path", PAGES, ids=NAMES)
def test_modules_and_files_named_in_code_marks_exist(path: Path) -> None:
    """Paths such as `passes/graph/cse.py` in the prose are files of the repository."""
    for word in _PATH.findall(path.read_text(encoding="utf-8")):
        assert (ROOT / word).exists(), f"{path.name} names {word}, which does not exist"


def test_nobody_is_sent_to_a_package_index() -> None:
    """On the public index the name belongs to another project."""
    for path in PAGES:
        assert "pip install graphc" not in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "script",
    [
        "docs/generate_ops.py", "docs/generate_rules.py", "docs/generate_coverage.py",
        "docs/generate_examples.py",
    ],
)
def test_generated_references_are_up_to_date(script: str) -> None:
    blessing = os.environ.get("GRAPHC_BLESS") == "1"
    finished = _python(script, *([] if blessing else ["--check"]))
    assert finished.returncode == 0, finished.stdout


def test_outputs_are_compared_with_ellipses() -> None:
    assert agrees("a ... c\n", "a b b c\n\n")
    assert agrees("...\nend", "many\nlines\nend")
    assert not agrees("a c", "a b c")
