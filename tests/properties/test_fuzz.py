"""Random programs: no pass changes a meaning, and compiled code computes what the reference does.

Six questions. Are the bits the same with and without all exact passes (class E and R keep them)?
And at each level of ``optimize``, with everything that may change them switched on? And those of
variables after each of several runs, written in place or not?
Does each operation, compiled alone, give what its reference gives on the very operands it had? And
does each option that opens inexact rewriting stay near the plain result on ordinary numbers?
Shrunk programs that once failed are kept below. ``make fuzz`` runs many more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import random_groups
from hypothesis import HealthCheck, Phase, given, settings
from random_groups import GROUPED
from random_programs import CROSSING, STEPS, Program, Recipe, recipes
from random_programs import build as build_of
from random_spellings import JOINING, MORE, source
from random_states import STATEFUL, history
from steadiness import in_float64, moved_by_noise
from task_sizes import group_small_work, share_small_work

import graphc as gx
from graphc.base.options import FAST_MATH
from graphc.base.tuning.fusion import Fusion, Memory
from graphc.checking.compare import difference
from graphc.extract import extract
from graphc.interp import bind_dims, evaluate, evaluate_node
from graphc.ir.dims.expressions import compare
from graphc.ir.graph import Graph
from graphc.lower import grouped_reductions
from graphc.ops.control import demand_op
from passes.pipeline import PIPELINE

FEW = settings(
    max_examples=70,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
)
MANY = settings(FEW, max_examples=2000, derandomize=False)
PLAIN = gx.Options(numerics="strict", fuel=0)


OPTIONAL = sorted({step.name for step in PIPELINE if not step.required})


def build(recipe: Recipe) -> Program:
    """A program of single operations and of the spellings that passes look for."""
    return build_of(recipe, MORE)


def same_bits(one: Any, other: Any) -> bool:
    """Equal dtypes, shapes and bits; any NaN equals any other."""
    return difference(one, other) is None


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
        ("MIN_TERMS", 1), ("MIN_GROUPS", 0), ("_SHORTEST", 1), ("MANY_GROUPS", 2),
        ("FOUND_TOGETHER", 4),
    ):  # fmt: skip
        patch.setattr(grouped_reductions, name, small)


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
        patch.setattr(Memory, "renewal_bytes", 0)
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
        patch.setattr(Memory, "renewal_bytes", 0)
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
        patch.setattr(Fusion, "slice_bytes", 0)
        check_exact_passes(recipe, build_of(recipe, JOINING))


def check_flags(recipe: Recipe) -> None:
    """Ordinary numbers; where a discontinuity may tip over, nothing can be said.

    Nor where a value on the way is not finite, since some flags promise that none is.
    """
    program = build(recipe)
    plain = run(program, PLAIN)
    moved, is_finite = steadiness(program, recipe)
    chosen = [gx.Options(), *(gx.Options(fast_math={flag}) for flag in FAST_MATH)]
    for options in chosen:
        for value, one, other, by in zip(
            program.fetches, plain, run(program, options), moved, strict=True
        ):
            assert (one.dtype, one.shape) == (other.dtype, other.shape), options
            if is_finite and tame(program):
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


KEPT: tuple[Recipe, ...] = (
    Recipe(((3, 0),), tuple((n, 0, 0, 0) for n in range(0, len(STEPS), 5)), False, True, 3, 0),
    Recipe(((3, 0),), tuple((n, 1, 1, 1) for n in range(1, len(STEPS), 5)), True, True, 3, 1),
)
"""Programs that once failed, shrunk, after two that hold many operations."""


@pytest.mark.parametrize("number", range(len(KEPT)))
@pytest.mark.parametrize(
    "check", [check_exact_passes, check_levels, check_threads, check_each_operation]
)
def test_kept_programs(check: Any, number: int) -> None:
    check(KEPT[number])


@FEW
@given(recipes(steps=MORE))
def test_random_programs_keep_their_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe)


@FEW
@given(recipes(steps=MORE))
def test_random_programs_have_the_same_bits_at_each_level(recipe: Recipe) -> None:
    check_levels(recipe)


@FEW
@given(recipes(steps=JOINING))
def test_random_programs_have_the_same_bits_on_threads(recipe: Recipe) -> None:
    check_threads(recipe, build_of(recipe, JOINING))


@FEW
@given(recipes(steps=JOINING))
def test_random_joins_keep_their_bits(recipe: Recipe) -> None:
    check_joins(recipe)


@FEW
@given(recipes(steps=CROSSING))
def test_random_tables_keep_their_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe, build_of(recipe, CROSSING))


@settings(FEW, max_examples=20)
@given(recipes(steps=STATEFUL, variables=4))
def test_random_states_keep_their_bits(recipe: Recipe) -> None:
    check_states(recipe)


@settings(FEW, max_examples=6)
@given(recipes(steps=STATEFUL, variables=4))
def test_random_states_of_libraries(tmp_path: Path, recipe: Recipe) -> None:
    check_states_of_libraries(recipe, tmp_path / "library")


@FEW
@given(recipes(steps=MORE))
def test_each_random_operation_is_its_reference(recipe: Recipe) -> None:
    check_each_operation(recipe)


@FEW
@given(recipes(steps=MORE, special=False))
def test_random_programs_under_each_flag(recipe: Recipe) -> None:
    check_flags(recipe)


@FEW
@given(recipes(steps=MORE))
def test_random_programs_stay_finite_and_near(recipe: Recipe) -> None:
    check_stability(recipe)


@settings(FEW, max_examples=150)
@given(recipes(steps=GROUPED, special=False, most=9))
def test_random_groups_are_what_lowering_takes(recipe: Recipe) -> None:
    """Fault 6."""
    check_groups(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_bits(recipe: Recipe) -> None:
    check_exact_passes(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=JOINING, most=30))
def test_fuzz_threads(recipe: Recipe) -> None:
    check_threads(recipe, build_of(recipe, JOINING))


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_levels(recipe: Recipe) -> None:
    check_levels(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=JOINING, most=30))
def test_fuzz_joins(recipe: Recipe) -> None:
    check_joins(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=STATEFUL, most=30, variables=5))
def test_fuzz_states(recipe: Recipe) -> None:
    check_states(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=STATEFUL, most=30, variables=5))
def test_fuzz_states_of_libraries(tmp_path: Path, recipe: Recipe) -> None:
    check_states_of_libraries(recipe, tmp_path / "library")


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_operations(recipe: Recipe) -> None:
    check_each_operation(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, special=False, most=30))
def test_fuzz_flags(recipe: Recipe) -> None:
    check_flags(recipe)


@pytest.mark.slow
@MANY
@given(recipes(steps=MORE, most=30))
def test_fuzz_stability(recipe: Recipe) -> None:
    check_stability(recipe)


@pytest.mark.slow
@settings(MANY, max_examples=3000)
@given(recipes(steps=GROUPED, special=False, most=16))
def test_fuzz_groups(recipe: Recipe) -> None:
    check_groups(recipe)
