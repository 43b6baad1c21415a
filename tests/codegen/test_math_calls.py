"""Elementary functions that are called from a library have the bits of inlined ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gx
from graphc import aot
from graphc.base.target import Target
from graphc.base.tuning.fusion import FUSION
from graphc.codegen.math.calls import is_glue
from graphc.compiling.compiler import levels_of
from graphc.compiling.extraction import extract
from graphc.kernel.ir import walk
from graphc.kernel.statements.blocks import Reduce
from graphc.kernel.statements.products import Contract
from graphc.kernel.statements.scalars import Apply
from graphc.runtime.jit import compile_object

FUNCTIONS = (
    gx.exp, gx.exp2, gx.expm1, gx.log, gx.log2, gx.log1p, gx.sin, gx.cos, gx.tan, gx.tanh,
    gx.sinh, gx.cosh, gx.arctan, gx.sigmoid,
)  # fmt: skip
STRANGE = (0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, 1e30, -2.5e7, 87.5, -104.0)


def inputs(dtype: str, size: int) -> np.ndarray:
    random = np.random.default_rng(size)
    drawn = random.normal(size=size) * 10.0 ** random.integers(-3, 4, size)
    drawn[: len(STRANGE)] = STRANGE
    with np.errstate(all="ignore"):
        return drawn.astype(dtype)


def bits(array: np.ndarray) -> bytes:
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [96, 77, 13])
@pytest.mark.parametrize("flags", [(), ("approx",)])
def test_called_and_inlined_agree_to_the_bit(
    dtype: str, size: int, flags: tuple[str, ...]
) -> None:
    assert len(FUNCTIONS) > FUSION.inlined_in_kernel
    with gx.Graph(), gx.Session(options=gx.Options(fast_math=flags)) as session:
        x = gx.placeholder((size,), dtype, name="x")
        values = [*(function(x) for function in FUNCTIONS), gx.power(gx.abs(x), x)]
        fed = {x: inputs(dtype, size)}
        together = session.run(values, fed)
        called = session.compilations[-1].compiled
        for value, expected in zip(values, together, strict=True):
            assert bits(session.run(value, fed)) == bits(expected)
    assert "call" in called.llvm_ir and "graphc_sinh_of_" in called.llvm_ir
    assert ("graphc_tanh_approx_of_" in called.llvm_ir) is bool(flags)
    inlined = session.compilations[-1].compiled.llvm_ir
    assert "_of_" not in inlined


def test_many_kernels_of_few_functions_call_too() -> None:
    with gx.Graph(), gx.Session() as session:
        # of different sizes, since kernels that differ in numbers alone are one
        sizes = range(2, FUSION.inlined_in_program + 3)
        feeds = {gx.placeholder((size,)): np.zeros(size, "float32") for size in sizes}
        session.run([gx.tanh(x + 2.0) for x in feeds], feeds)
        assert "call" in session.compilations[-1].compiled.llvm_ir
        kernels = session.compilations[-1].compiled.plan.kernels
        assert len(kernels) > FUSION.inlined_in_program
        assert session.compilations[-1].compiled.llvm_ir.count("graphc_tanh_of_") > len(kernels) - 3


def mixed_program() -> tuple[dict[gx.Value, np.ndarray], list[gx.Value]]:
    """Loops of calls, and reductions and products with calls in them; with something to feed."""
    x, z = gx.placeholder((77,), name="x"), gx.placeholder((48, 96), name="z")
    y = x
    for n in range(FUSION.inlined_in_kernel + 4):
        y = gx.tanh(y * float(n + 2) + x)
    product = gx.tanh(z @ gx.constant(np.eye(96, dtype="float32")))
    data = {x: inputs("float32", 77), z: inputs("float32", 48 * 96).reshape(48, 96)}
    return data, [y, gx.nn.softmax(gx.tanh(z), -1), product]


def test_kernels_of_calls_are_translated_and_others_are_optimised() -> None:
    with gx.Graph(), gx.Session() as session:
        data, values = mixed_program()
        together = session.run(values, data)
        compiled = session.compilations[-1].compiled
        optimised, glue = compiled.levels.text.modules
        assert not optimised.glue and glue.glue
        assert {*optimised.symbols, *glue.symbols} == set(compiled.levels.text.symbols)
        for symbol, kernel in zip(compiled.levels.text.symbols, compiled.plan.kernels, strict=True):
            plain = not any(isinstance(s, (Reduce, Contract)) for s in walk(kernel.body))
            calls = sum(isinstance(s, Apply) and s.primitive == "tanh" for s in walk(kernel.body))
            assert (symbol in glue.symbols) == (plain and calls > 0)
            assert is_glue(kernel) == (symbol in glue.symbols)
        assert compiled.llvm_ir.count("define ") == len(compiled.plan.kernels)
        off = gx.Session(options=gx.Options(off=frozenset({"fuse"})))
        for value, expected in zip(values, together, strict=True):
            assert bits(off.run(value, data)) == bits(expected)


@pytest.mark.parametrize(
    "target",
    [
        Target("x86_64-unknown-linux-gnu", "x86-64", "", False, 128),
        Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", True, 256),
    ],
    ids=lambda target: target.cpu,
)
def test_glue_is_code_for_other_targets(target: Target) -> None:
    with gx.Graph() as graph:
        _, values = mixed_program()
    optimised, glue = levels_of(extract(graph, values), gx.Options(), target).text.modules
    assert b"graphc_tanh_of_v32f32" in compile_object(glue.text, target, True)
    assert compile_object(optimised.text, target)


def test_a_package_joins_functions_that_share_tables(tmp_path: Path) -> None:
    with gx.Graph("exported"), gx.Session() as session:
        x = gx.placeholder((77,), name="x")
        executable = session.compile([function(x) for function in FUNCTIONS], [x])
        aot.compile(executable, tmp_path / "p")
    data = inputs("float32", 77)
    loaded = aot.load(tmp_path / "p")
    for expected, given in zip(executable(data), loaded(data), strict=True):
        assert bits(expected) == bits(given)
