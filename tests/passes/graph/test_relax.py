"""What ``approx`` and ``contract`` choose: on the graph, recorded, switchable, within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base.options import Options
from graphc.base.target import Target, host, named
from graphc.checking.interpreter import evaluate
from graphc.compiling.extraction import extract
from graphc.ir.builder import apply
from graphc.ir.graph import Graph
from graphc.ir.op import lookup
from graphc.ops.pointwise.fast import APPROXIMATE
from graphc.session.executable import Executable
from passes.graph.relax import relax
from passes.infra.base import PassContext

BOTH = frozenset({"approx", "contract"})
WITH_FMA = named("x86-64-v3")


def relaxed(build: Any, flags: Any, dtype: str = "float32", target: Target = WITH_FMA,
            **options: Any) -> tuple[Graph, list[str]]:  # fmt: skip
    """The graph of a function of three vectors after the pass, and what was decided."""
    with gx.Graph() as recorder:
        results = build(*(gx.placeholder((5,), dtype, name=name) for name in "xyz"))
    graph = extract(recorder, results if isinstance(results, list) else [results]).graph
    context = PassContext(Options(fast_math=flags, **options), target)
    result = relax(graph, context)
    if "fuel" not in options:
        assert relax(result, PassContext(context.options, target)) is result
    return result, [decision.rule for decision in context.decisions]


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def everything(x: Any, y: Any, z: Any) -> Any:
    functions = (gx.log, gx.tanh, gx.sigmoid, gx.erf, gx.erfc, gx.sin, gx.cos)
    return [function(x) for function in functions]


def test_functions_take_their_faster_twins() -> None:
    graph, decisions = relaxed(everything, {"approx"})
    assert names(graph) == [twin.name for twin in APPROXIMATE.values()]
    assert decisions == [f"approximate-{accurate.name}" for accurate in APPROXIMATE]


def test_what_gains_nothing_keeps_its_one_class() -> None:
    graph, _ = relaxed(everything, {"approx"}, "float64")
    kept = [name for name in names(graph) if not name.endswith("_approx")]
    assert kept == ["sigmoid", "erf", "erfc"]


def test_nothing_happens_without_flags_or_under_strict_numerics() -> None:
    def build(x: Any, y: Any, z: Any) -> Any:
        return [*everything(x, y, z), x * y + z]

    plain, decisions = relaxed(build, ())
    assert not decisions and not any("approx" in name or name == "fma" for name in names(plain))
    assert relaxed(build, BOTH, numerics="strict")[1] == []
    assert relaxed(build, {"contract"})[1] == ["fuse-multiply-add"]


@pytest.mark.parametrize(
    ("build", "rules"),
    [
        (lambda x, y, z: x * y + z, ["add"]),
        (lambda x, y, z: z + x * y, ["add"]),
        (lambda x, y, z: x * y - z, ["sub"]),
        (lambda x, y, z: z - x * y, ["sub-multiply"]),
        (lambda x, y, z: x * x + 1.0, ["add"]),
        (lambda x, y, z: ((x * y + z) * y + z) * y + z, ["add"] * 3),
        (lambda x, y, z: x * y + y * z, ["add"]),
    ],
)
def test_multiplications_are_fused(build: Any, rules: list[str]) -> None:
    graph, decisions = relaxed(build, {"contract"})
    assert sorted(decisions) == sorted(
        f"fuse-{rule}" if rule == "sub-multiply" else f"fuse-multiply-{rule}" for rule in rules
    )
    assert names(graph).count("fma") == len(rules)
    assert not {"add", "subtract"} & set(names(graph))


def test_a_product_that_is_needed_itself_stays_and_bits_do_not_depend_on_it() -> None:
    alone, _ = relaxed(lambda x, y, z: x * y + z, {"contract"})
    both, _ = relaxed(lambda x, y, z: [x * y + z, x * y], {"contract"})
    assert sorted(names(both)) == ["fma", "multiply"]
    arrays = [np.random.default_rng(seed).normal(size=5).astype("float32") for seed in range(3)]
    assert np.array_equal(evaluate(alone, arrays)[0], evaluate(both, arrays)[0])


def test_integers_are_left_alone() -> None:
    assert relaxed(lambda x, y, z: x * y + z, BOTH, "int32")[1] == []


def test_targets_without_the_instruction_do_not_fuse() -> None:
    def build(x: Any, y: Any, z: Any) -> Any:
        return gx.erf(x) * y + z

    for target in (named("x86-64-v2"), host().without_fma(), None):
        assert relaxed(build, BOTH, target=target)[1] == ["approximate-erf"]  # type: ignore[arg-type]


def test_rules_can_be_switched_off_and_counted() -> None:
    def build(x: Any, y: Any, z: Any) -> Any:
        return gx.erf(x) * gx.sin(y) + z

    every = ["approximate-erf", "approximate-sin", "fuse-multiply-add"]
    assert sorted(relaxed(build, BOTH)[1]) == every
    assert sorted(relaxed(build, BOTH, off={"approximate-sin"})[1]) == [every[0], every[2]]
    assert len(relaxed(build, BOTH, fuel=2)[1]) == 2


def compiled(build: Any, flags: Any, *arrays: Any) -> tuple[Executable, Any]:
    with gx.Graph() as recorder:
        values = [gx.placeholder(array.shape, array.dtype) for array in arrays]
        result = build(*values)
    session = gx.Session(recorder, options=gx.Options(fast_math=flags))
    executable = session.compile(result, values)
    return executable, executable(*arrays)


def test_kernels_compute_what_was_chosen() -> None:
    rng = np.random.default_rng(1)
    x, y = (rng.normal(size=(40, 70)).astype("float32") for _ in range(2))

    def build(x: Any, y: Any) -> Any:
        return gx.tanh(x) * gx.sin(y) + gx.sigmoid(-x * x)

    executable, got = compiled(build, BOTH, x, y)
    text = executable.kernel_ir()
    assert "tanh_approx" in text and "sin_approx" in text and "sigmoid_approx" in text
    assert ("= fma " in text) is host().has_fma
    wide = [array.astype("float64") for array in (x, y)]
    exact = np.tanh(wide[0]) * np.sin(wide[1]) + 1 / (1 + np.exp(wide[0] * wide[0]))
    np.testing.assert_allclose(got, exact, rtol=0, atol=20 * 2.0**-24)


@pytest.mark.skipif(not host().has_fma, reason="needs fused multiply-add")
def test_fused_products_are_rounded_once() -> None:
    x = np.float32([1 + 2.0**-12, 1 - 2.0**-13])
    _, apart = compiled(lambda x: x * x - x * x, (), x)
    _, fused = compiled(lambda x, y: x * x - y, {"contract"}, x, x * x)
    assert (apart == 0).all()
    exact = x.astype("float64") ** 2 - (x * x)
    assert np.array_equal(fused, exact.astype("float32")) and (fused != 0).all()


def test_gradients_are_written_before_the_choice() -> None:
    with gx.Graph() as recorder:
        x = gx.placeholder((4,), "float32")
        slope = gx.gradients(gx.tanh(x), x)
    graph = extract(recorder, [slope]).graph
    result = relax(graph, PassContext(Options(fast_math=BOTH), WITH_FMA))
    assert "tanh_approx" in names(result)
    with pytest.raises(gx.GraphcError, match="after differentiation"), gx.Graph():
        y = gx.placeholder((4,), "float32")
        gx.gradients(apply(lookup("fma"), y, y, y), y)
