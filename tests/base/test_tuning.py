"""Figures that were tuned have one place, one name and one meaning."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import tuning_constants

import graphc as gx
from graphc.base.caches import USUAL, caches_of
from graphc.base.options import Options
from graphc.base.target import NAMES, host, named
from graphc.base.tuning.fusion import FUSION, MEMORY
from graphc.base.tuning.machine import Tuning
from graphc.base.tuning.products import PRODUCTS
from graphc.base.tuning.sharing import CONCURRENCY, COSTS, SHARING
from graphc.base.tuning.tasks import TASKS
from graphc.compiling.cached.keys import program_realm
from graphc.compiling.compiler import compile_graph
from graphc.compiling.extraction import extract
from graphc.kernel.ir import CHUNK
from graphc.plan.printer import print_plan

RECORDS = (TASKS, COSTS, SHARING, CONCURRENCY, FUSION, MEMORY, PRODUCTS)


def test_modules_have_no_tuned_constants_of_their_own() -> None:
    """Put a figure that was tuned into a record of ``graphc.base.tuning``; tell of another one why
    it is none, in ``tuning_constants.FACTS``."""
    assert tuning_constants.unexplained() == []


def test_what_is_explained_is_there() -> None:
    found = tuning_constants.found()
    for module, names in tuning_constants.FACTS.items():
        assert names.keys() <= found.get(module, set()), module


def test_a_name_has_one_meaning() -> None:
    counts = Counter([*Tuning._fields, *(name for record in RECORDS for name in record._fields)])
    assert [name for name, count in counts.items() if count > 1] == []


def test_named_targets_have_the_same_figures_everywhere() -> None:
    for name in NAMES[1:]:
        tuning = Tuning.of(named(name))
        assert tuning.near_bytes == 512 << 10
        assert tuning.pipeline_bytes == 256 << 10
        assert tuning.row_block_shared_bytes == 24 << 10
        assert tuning.pipeline_stages == (4 if name == "x86-64-v4" else 3)


def test_figures_fit_each_other() -> None:
    for name in NAMES:
        assert CHUNK % Tuning.of(named(name)).column_block_streams == 0
    assert PRODUCTS.half_tile_rows < SHARING.few_rows
    assert TASKS.task_work < TASKS.serial_work < TASKS.wake_work


# --- the caches of the host ----------------------------------------------------------------------


def told(directory: Path, *caches: tuple[str, str, str]) -> Path:
    """A directory like that of Linux: level, type and size of each cache."""
    for number, words in enumerate(caches):
        index = directory / f"index{number}"
        index.mkdir()
        for name, word in zip(("level", "type", "size"), words, strict=True):
            (index / name).write_text(f"{word}\n")
    return directory


def test_caches_are_those_of_the_system(tmp_path: Path) -> None:
    data, code = ("1", "Data", "48K"), ("1", "Instruction", "32K")
    system = told(tmp_path, data, code, ("2", "Unified", "2M"), ("3", "Unified", "105M"))
    assert caches_of(system) == (48 << 10, 2 << 20)


@pytest.mark.parametrize(
    "caches",
    [
        (),
        (("1", "Data", "32K"),),
        (("1", "Data", "32K"), ("2", "Unified", "")),
        (("1", "Data", "32K"), ("2", "Unified", "big")),
        (("1", "Data", "0K"), ("2", "Unified", "512K")),
        (("1", "Data", "32K"), ("2", "Unified", "1G")),
        (("1", "Data", "64K"), ("2", "Unified", "64K")),
        (("one", "Data", "32K"), ("2", "Unified", "512K")),
    ],
    ids=["none", "one", "empty", "words", "nothing", "too large", "alike", "no number"],
)
def test_caches_that_are_not_told_are_usual(
    caches: tuple[tuple[str, str, str], ...], tmp_path: Path
) -> None:
    assert caches_of(told(tmp_path, *caches)) == USUAL
    assert caches_of(tmp_path / "absent") == USUAL


def test_host_has_the_caches_of_the_system() -> None:
    assert (host().l1_bytes, host().l2_bytes) == caches_of()


def test_bits_do_not_depend_on_caches() -> None:
    """Schedules do, and so do the names of programs in the cache."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((96, 3000)).astype(np.float32)
    small = replace(host(), l1_bytes=8 << 10, l2_bytes=16 << 10)
    large = replace(host(), l1_bytes=1 << 20, l2_bytes=64 << 20)
    assert program_realm(small) != program_realm(large)
    plans, results = [], []
    for target in (small, large):
        with gx.Graph() as graph:
            v = gx.placeholder(x.shape)
            wanted = [gx.nn.softmax(v), gx.sum(v, axis=0), gx.var(v, axis=1)]
        extraction = extract(graph, wanted)
        compiled = compile_graph(extraction, Options(), target)
        plans.append(print_plan(compiled.program.plan))
        results.append([result.tobytes() for result in compiled.program.run([x])])
    assert plans[0] != plans[1]
    assert results[0] == results[1]
