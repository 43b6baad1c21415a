"""What is held of a random program: see ``test_fuzz``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_groups
from bits import same_bits
from random_groups import GROUPED
from random_programs import Program, Recipe
from random_programs import build as build_of
from random_spellings import JOINING, MORE, source
from random_states import STATEFUL, history
from steadiness import in_float64, moved_by_noise
from task_sizes import group_small_work, share_small_work

import graphc as gx
from graphc.base.options import FAST_MATH
from graphc.base.tuning.fusion import FusionTuning, MemoryTuning
from graphc.base.tuning.sharing import SharingTuning
from graphc.checking.interpreter import bind_dims, evaluate, evaluate_node
from graphc.compiling.extraction import extract
from graphc.ir.dims.expressions import compare
from graphc.ir.graph import Graph
from graphc.ops.control import demand_op
from passes.pipeline import PIPELINE

PLAIN = gx.Options(numerics="strict", fuel=0)

OPTIONAL = sorted({step.name for step in PIPELINE if not step.required})


def build(recipe: Recipe) -> Program:
    """A program of single operations and of the spellings that passes look for."""
    return build_of(recipe, MORE)


def run(program: Program, options: gx.Options, fetches: Any = None) -> list[Any]:
    session = gx.Session(program.graph, options=options)
    result: list[Any] = session.run(program.fetches if fetches is None else fetches, program.feeds)
    return result


def check_exact_passes(recipe: Recipe, program: Program | None = None) -> None:
    program = program or build(recipe)
    plain = run(program, PLAIN)
    for options in (gx.Options(numerics="strict", verify=True), gx.Options(
        numerics="strict", shuffle_seed=recipe.seed
    ), gx.Options(
        numerics="strict", off={OPTIONAL[recipe.seed % len(OPTIONAL)]}, fuel=recipe.seed % 50
    )):
        for value, one, other in zip(
            program.fetches, plain, run(program, options), strict=True
        ):
            assert same_bits(one, other), f"{value!r}:\n{one!r}\n{other!r}\n{source(program)}"


def everything_is_shared(patch: pytest.MonkeyPatch) -> None:
    """Threads share whatever they can, however small, and every row is long."""
    share_small_work(patch)
    group_small_work(patch)
    for name, small in (
        ("grouped_terms", 1), ("least_groups", 0), ("group_levels", 1), ("many_groups", 2),
        ("extremes_together", 4),
    ):  # fmt: skip
        patch.setattr(SharingTuning, name, small)


def check_threads(recipe: Recipe, program: Program | None = None) -> None:
    program = program or build(recipe)
    alone = run(program, gx.Options(threads=1))
    with pytest.MonkeyPatch.context() as patch:
        everything_is_shared(patch)
        shared = run(program, gx.Options(threads=3, verify=True))
    for value, one, other in zip(program.fetches, alone, shared, strict=True):
        assert same_bits(one, other), f"{value!r}:\n{one!r}\n{other!r}\n{source(program)}"


def check_levels(recipe: Recipe, program: Program | None = None) -> None:
    program = program or build(recipe)
    flags = FAST_MATH if recipe.seed % 2 else ()
    full, *others = (
        run(program, gx.Options(optimize=level, verify=level < 2, fast_math=flags))
        for level in (2, 1, 0)
    )
    for other in others:
        for value, one, two in zip(program.fetches, full, other, strict=True):
            assert same_bits(one, two), f"{value!r}:\n{one!r}\n{two!r}\n{source(program)}"


def check_states(recipe: Recipe) -> None:
    """Variables are written in place however small they are, but where nothing is optimised."""
    program = build_of(recipe, STATEFUL)
    off = {OPTIONAL[recipe.seed % len(OPTIONAL)]}
    strict = partial(gx.Options, numerics="strict")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTuning, "renewal_bytes", 0)
        exact = [
            strict(verify=True), strict(shuffle_seed=recipe.seed, verify=True),
            strict(off=off, fuel=recipe.seed % 50),
        ]  # fmt: skip
        flags = FAST_MATH if recipe.seed % 2 else ()
        levels = [gx.Options(optimize=level, fast_math=flags) for level in (1, 0)]
        for plain, others in ((PLAIN, exact), (gx.Options(fast_math=flags, threads=1), levels)):
            first = history(program, recipe, plain)
            for options in others:
                assert_same_history(program, first, history(program, recipe, options))
        everything_is_shared(patch)
        shared = history(program, recipe, gx.Options(threads=3, fast_math=flags, verify=True))
        assert_same_history(program, first, shared)


def assert_same_history(program: Program, one: list[Any], other: list[Any]) -> None:
    for number, (left, right) in enumerate(zip(one, other, strict=True)):
        assert same_bits(left, right), f"{number}:\n{left!r}\n{right!r}\n{program.graph}"


def check_states_of_libraries(recipe: Recipe, folder: Path) -> None:
    """The program of a library computes what that of a session does, and leaves the same state."""
    program = build_of(recipe, STATEFUL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MemoryTuning, "renewal_bytes", 0)
        session = gx.Session(program.graph)
        executable = session.compile([*program.fetches, *program.effects], [*program.feeds])
        gx.aot.compile(executable, folder, kind="package", freeze=False)
    loaded = gx.aot.load(folder, threads=1 + recipe.seed % 2)
    names = [info.name for info in loaded.signature.variables if "/" not in info.name]
    feeds = program.feeds.values()
    for _ in range(4):
        one, other = (results_of(run, feeds) for run in (executable, loaded))
        one += session.get(names)
        other += map(loaded.get, names)
        assert_same_history(program, one, other)


def results_of(function: Callable[..., Any], feeds: Iterable[Any]) -> list[Any]:
    """What a run gives, effects aside; nothing if an index is out of range."""
    try:
        return [result for result in function(*feeds) if result is not None]
    except gx.IndexRangeError:
        return []


def check_each_operation(recipe: Recipe) -> None:
    program = build(recipe)
    values = program.values or program.fetches
    extraction = extract(program.graph, values, [], {})
    graph = extraction.graph
    nodes = [
        node for node in graph.nodes
        # what is demanded computes nothing
        if not node.regions and node.op is not demand_op
        and not any(compare("eq", v.type.size, 0) for v in node.outputs)
    ]
    wanted = [value for node in nodes for value in node.outputs]
    everything = graph.with_parts(outputs=wanted)
    found = _compiled(everything, extraction, program)
    for node in nodes:
        operands = [found[value] for value in node.inputs]
        if any(operand is None for operand in operands):
            continue
        types = [value.type for value in graph.inputs]
        sizes = bind_dims(types, [found[value] for value in graph.inputs])
        with np.errstate(all="ignore"):
            expected = evaluate_node(node, operands, sizes)
        for value, reference in zip(node.outputs, expected, strict=True):
            assert_near(node, found[value], reference, operands)


def _compiled(graph: Graph, extraction: Any, program: Program) -> dict[Any, Any]:
    """Every value of the graph, computed by kernels of single operations."""
    from dataclasses import replace

    from graphc.base.target import host
    from graphc.compiling.compiler import compile_graph

    compiled = compile_graph(replace(extraction, graph=graph), PLAIN, host())
    inputs = [np.asarray(program.feeds[value], order="C") for value in extraction.feeds]
    results = compiled.program.run(inputs)
    found: dict[Any, Any] = dict.fromkeys(v for node in graph.nodes for v in node.outputs)
    found.update(zip(graph.outputs, results, strict=True))
    found.update(zip(graph.inputs, inputs, strict=True))
    return found


def assert_near(node: Any, given: Any, reference: Any, operands: list[Any]) -> None:
    """Class E to the bit; R and T within a bound that grows with what was added up."""
    exact = node.op.numerics == "E" or reference.dtype.kind != "f"
    if exact and not any(array.dtype.kind == "f" for array in (*operands, reference)):
        assert np.array_equal(given, reference), f"{node!r}\n{given!r}\n{reference!r}"
        return
    if exact:
        assert same_bits(given, reference), (
            f"{node!r}\n{operands!r}\n{given!r}\n{reference!r}"
        )
        return
    finite = np.isfinite(reference) & np.isfinite(given)
    floats = [array for array in operands if array.dtype.kind == "f"]
    scale = max((float(np.max(np.abs(o), initial=0)) for o in floats), default=1.0)
    eps = float(np.finfo(reference.dtype).eps)
    if not scale <= 1e3:
        return  # cancellation and overflow in between are judged by the op contract test
    terms = max(1, *(o.size for o in operands)) if operands else 1
    bound = 64 * eps * (np.abs(reference) + terms * max(scale, 1.0) ** 2)
    worst = np.abs(np.where(finite, given - reference, 0.0))
    assert np.array_equal(np.isnan(given), np.isnan(reference)), f"{node!r}\n{operands!r}"
    assert (worst <= bound)[finite].all(), f"{node!r}\n{operands!r}\n{given!r}\n{reference!r}"


def check_joins(recipe: Recipe) -> None:
    """Pieces are computed in place however small they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FusionTuning, "slice_bytes", 0)
        check_exact_passes(recipe, build_of(recipe, JOINING))


def check_flags(recipe: Recipe) -> None:
    """Ordinary numbers; where a discontinuity may tip over, nothing can be said.

    Nor where a value on the way is not finite, since some flags promise that none is.
    """
    program = build(recipe)
    plain = run(program, PLAIN)
    moved, is_near = [0.0] * len(plain), tame(program)
    if is_near:
        moved, is_near = steadiness(program, recipe)
    chosen = [gx.Options(), *(gx.Options(fast_math={flag}) for flag in FAST_MATH)]
    for options in chosen:
        for value, one, other, by in zip(
            program.fetches, plain, run(program, options), moved, strict=True
        ):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), options
            if is_near:
                assert_close(other, one, by, f"{options} {value!r}\n{source(program)}")


def check_stability(recipe: Recipe) -> None:
    """By default a result may get better: what is finite stays so, and near."""
    program = build(recipe)
    plain, default = run(program, PLAIN), run(program, gx.Options())
    steps = STEPPING if recipe.special else DISCONTINUOUS
    if not tame(program, steps):
        return
    moved, _ = steadiness(program, recipe)
    for value, one, other, by in zip(program.fetches, plain, default, moved, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if one.dtype.kind != "f":
            assert np.array_equal(one, other), f"{value!r}\n{source(program)}"
            continue
        finite = np.isfinite(one)
        assert np.isfinite(other[finite]).all(), (
            f"{value!r}:\n{one!r}\n{other!r}\n{source(program)}"
        )
        if not recipe.special:
            assert_close(other[finite], one[finite], by, f"{value!r}\n{source(program)}")


def check_groups(recipe: Recipe) -> None:
    """Whatever fusion makes of a program compiles, has the same bits at each level, and is near
    what NumPy makes of it in float64."""
    program = build_of(recipe, GROUPED, random_groups.SHAPES, chains=True)
    full, *others = (
        run(program, gx.Options(optimize=level, verify=level == 3, threads=1 + level % 2))
        for level in (3, 2, 1, 0)
    )
    for other in others:
        for value, one, two in zip(program.fetches, full, other, strict=True):
            assert same_bits(one, two), f"{value!r}:\n{one!r}\n{two!r}\n{source(program)}"
    moved, is_finite = steadiness(program, recipe)
    if not is_finite:
        return
    extraction = extract(program.graph, program.fetches, [], {})
    arrays = [program.feeds[value] for value in extraction.feeds]
    expected = in_float64(extraction.graph, arrays)
    plain = evaluate(extraction.graph, arrays)
    for value, one, reference, by, rounded in zip(
        program.fetches, full, expected, moved, plain, strict=True
    ):
        if one.dtype.kind != "f":
            assert same_bits(one, reference), f"{value!r}\n{source(program)}"
            continue
        error = np.max(np.abs(one - reference), initial=0.0)
        largest = np.max(np.abs(reference), initial=0.0)
        # what the dtype is too coarse for, or has no number for
        known = np.finfo(one.dtype)
        # what cancels to nothing in float64 leaves the rounding of what it was made of
        by = max(by, np.max(np.abs(rounded - reference), initial=0.0))
        assert error <= 8 * by + 64 * known.eps * largest + known.tiny, (
            f"{value!r}:\n{one!r}\n{reference!r}\noff by {error}, of which noise explains {by}\n"
            f"{source(program)}"
        )


def steadiness(program: Program, recipe: Recipe) -> tuple[list[float], bool]:
    """How far rounding moves each result, and whether all values on the way are finite."""
    extraction = extract(program.graph, program.fetches, [], {})
    inputs = [program.feeds[value] for value in extraction.feeds]
    return moved_by_noise(extraction.graph, inputs, recipe.seed)


def assert_close(given: Any, expected: Any, moved: float, message: str) -> None:
    """Near as a few roundings more or less leave it, of which noise moved it by so much."""
    np.testing.assert_allclose(
        given.astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=2e-3 + 8 * moved,
        err_msg=message,
    )  # fmt: skip


DISCONTINUOUS = {
    "floor", "ceil", "round", "trunc", "sign", "floor_divide", "mod", "fmod", "greater", "less",
    "greater_equal", "less_equal", "equal", "not_equal", "astype", "argmax", "argmin", "any", "all",
    "cond", "while", "divide", "log", "log1p", "power", "prod", "exp", "expm1", "sqrt",
}  # fmt: skip

STEPPING = DISCONTINUOUS - {"divide", "log", "log1p", "power", "prod", "exp", "expm1", "sqrt"} | {
    "isnan", "isinf", "isfinite",
}  # fmt: skip


def tame(program: Program, steps: set[str] = DISCONTINUOUS) -> bool:
    """Whether small differences stay small: no op of ``steps`` reads a float."""
    graph = extract(program.graph, program.fetches, [], {}).graph
    return not any(
        node.op.name in steps and any(v.dtype.is_float for v in node.inputs)
        for node in graph.walk()
    )
