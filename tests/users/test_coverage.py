"""The page of covered functions: its data speaks of names that there are."""

from __future__ import annotations

import re
import sys

import pytest
from tools import ROOT

import graphc as gx

sys.path.insert(0, str(ROOT / "docs"))

import coverage_answers as data
import generate_coverage as page

LATER = {"gammainc", "gammaincc", "betainc"}
"""Functions that answers name and that are not there yet; the page says so of them."""


def public_names(library: str) -> set[str]:
    path = ROOT / "docs" / "public_names" / f"{library}.txt"
    return set(path.read_text(encoding="utf-8").split("\n")[1:])


@pytest.mark.parametrize("library", page.LIBRARIES)
def test_answers_are_about_names_of_the_library(library: str) -> None:
    names = public_names(library)
    lists = (*data.REFUSED.get(library, ()), *data.UNCOUNTED.get(library, ()))
    listed = [name for _, words in lists for name in words.split()]
    assert set(listed) | data.OTHERWISE[library].keys() <= names
    assert len(listed) == len(set(listed)) and not set(listed) & data.OTHERWISE[library].keys()


@pytest.mark.parametrize("library", page.LIBRARIES)
def test_what_answers_spell_exists(library: str) -> None:
    for name, how in data.OTHERWISE[library].items():
        for word in re.findall(r"gx((?:\.\w+)+)", how):
            found: object = gx
            for part in word[1:].split("."):
                if part not in LATER:
                    found = getattr(found, part)
            assert found is not None, name


@pytest.mark.parametrize("library", page.LIBRARIES)
def test_each_name_has_one_place(library: str) -> None:
    found = page.findings(library, page.known_names())
    same = [name.rpartition(".")[2] for name in found.same]
    refused = [name for names in found.refused.values() for name in names]
    everything = [*same, *found.otherwise, *refused, *found.uncounted]
    assert sorted(everything) == sorted(public_names(library) - {""})
    assert found.counted == len(same) + len(found.otherwise) + len(refused)


def test_a_spelling_of_what_is_not_there_does_not_count() -> None:
    known = page.known_names()
    assert page._exists("gx.special.gammaln, of positive numbers", known)
    assert not page._exists("gx.special.no_such_function(x)", known)
    assert not page._exists("1 / gx.no_such_function(x)", known)


def test_most_of_what_people_use_is_there() -> None:
    known = page.known_names()
    least = {"numpy": 0.95, "jax.numpy": 0.95, "jax.lax": 0.8, "jax.nn": 0.9}
    for library, share in least.items():
        assert page.findings(library, known).share >= share, library
