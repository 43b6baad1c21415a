"""Sizes as text: printed forms, parsing, and mistakes that are placed."""

from __future__ import annotations

import subprocess
import sys

import pytest
from dim_trees import (
    run,
)

from graphc.ir.dims.expressions import (
    Dim,
    dim_max,
    dim_min,
    evaluate,
    parse_dim,
    select,
    symbol,
)

n, m = symbol("n"), symbol("m", 1)


def test_text_and_hash_do_not_depend_on_the_process() -> None:
    code = (
        "from graphc.ir.dims.expressions import *\n"
        "a, b = symbol('a'), symbol('b', 1)\n"
        "d = dim_min(a//2, b % 3) * (a % b) + dim_max(b//5, a//7) + (a//9)*(b//11)\n"
        "print(d, hash(d))"
    )
    results = set()
    for seed in ("1", "2"):
        path = ":".join(entry for entry in sys.path if entry)
        environment = {"PYTHONPATH": path, "PYTHONHASHSEED": seed}
        results.add(subprocess.check_output([sys.executable, "-c", code], env=environment))
    assert len(results) == 1


def test_printed_forms() -> None:
    k = symbol("k")
    assert str(2 * n * m + n // 2 - 1) == "2*m*n + n//2 - 1"
    assert str(select("eq", n, 1, m, n)) == "select(n == 1, m, n)"
    assert str(dim_min(4, n)) == "min(n, 4)"
    assert str(m * (n // 2)) in ("m*(n//2)", "(n//2)*m")
    assert str(-(n // 2)) == "-(n//2)"
    assert str(k - n // 2) in ("k - n//2", "-(n//2) + k")
    assert str((n + m) // (k + 1)) == "(m + n)//(k + 1)"
    assert str(n * n * n - n) == "n**3 - n"
    assert str((n % 3) * (n % 3)) == "(n % 3)**2"
    assert repr(symbol('a "b"\n')) == '"a \\"b\\"\\n"'
    assert str(symbol("min") + 1) == '"min" + 1'


def test_names_survive_text() -> None:
    for name in ("é", "a b", 'q"', "\\", "select", "1", "x.y:0", "\ud800", "if"):
        assert parse_dim(str(symbol(name) * 2 - 1)) is symbol(name) * 2 - 1


def test_parsing_like_python() -> None:
    names = {"n": 7, "m": 3}
    texts = (
        "-n//2; -(n//2); 2*n%4; n-m-1; n//m//2; -n**2; 2*n**2; n - -m; (n+m)*2;  n  % m*2 ;"
        "- - n; ((n)); -7%m; min(n, m, 2); max(n,m)+min(1,n); (n+1)**2"
    )
    for text in texts.split(";"):
        assert evaluate(parse_dim(text), names) == eval(text.strip(), {}, names)
    assert evaluate(parse_dim("select(n <= m, 1, select(n != 7, 2, 3))"), names) == 3
    assert parse_dim("n", {"n": m}) is m


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected a value"),
        ("n +", 3, "expected a value"),
        ("n $ 2", 2, "unexpected character '\\$'"),
        ("n m", 2, "unexpected 'm'"),
        ("(n", 0, "unclosed"),
        ("n)", 1, "unexpected '\\)'"),
        ("n == 1", 2, "comparison outside"),
        ("select(n, 1, 2)", 8, "comparison first"),
        ("select(n == 1, 2)", 16, "select takes"),
        ("min(n)", 5, "two or more"),
        ("min n", 0, "expected '\\('"),
        ("n // 0", 2, "division by zero"),
        ("n % (m - m)", 2, "division by zero"),
        ("n ** m", 5, "integer exponent"),
        ("n**2**3", 4, "chained"),
        ("(n + 1)**1000", 7, "power too large"),
        ('"abc', 0, "unexpected character"),
        ('"\\q"', 0, "bad quoted name"),
        ('""', 0, "empty symbol name"),
        ("9" * 5000, 0, "number too long"),
    ],
)
def test_mistakes_are_placed(text: str, position: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.* at position {position} of"):
        parse_dim(text)


def test_fault_9_texts_define_what_they_repeat() -> None:
    """A size that is mentioned often is printed once: the text grows by steps, not by doubling."""
    dim: Dim = n
    lengths = []
    for _ in range(60):
        dim = dim * dim_max(dim // 3, m) + (dim + 1) // 2 - dim % m
        dim = (dim + 7) // 5
        lengths.append(len(str(dim)))
        if len(lengths) > 40:
            break
    assert lengths[40] < 3 * lengths[20]
    assert str(dim).startswith("let(t0 = ")
    assert parse_dim(str(dim), {"m": m}) is dim
    first = evaluate(dim, {"n": 5, "m": 3})
    assert run([dim], {"n": 5, "m": 3}) == [first]


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("let(a = 1)", 9, "let ends with a value"),
        ("let(a, 2)", 5, "let needs a name"),
        ("let(a = n, a + b = 2)", 17, "unexpected '='"),
    ],
)
def test_mistakes_in_definitions_are_placed(text: str, position: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"{message}.* at position {position} of"):
        parse_dim(text)
