"""``gx.checkpoint``: the same bits with fewer bytes alive."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from memory_programs import PLAIN, Step, dag, mlp, transformer

import graphc as gx


def repeated(program: Any) -> int:
    """How many kernels run again."""
    nodes = program.graph.walk()
    return sum(node.op.name == "fused" and node.provenance.cause == "recompute" for node in nodes)


def compared(plain: Step, marked: Step, repeats: bool = True) -> tuple[Any, Any]:
    """Both programs, whose bits are equal, of which the second runs kernels again."""
    one, bits = plain.ran()
    other, same = marked.ran()
    assert bits == same
    assert not repeated(one) and bool(repeated(other)) == repeats
    return one, other


@pytest.mark.parametrize("of", [mlp, transformer])
def test_layers(of: Any) -> None:
    one, other = compared(of(), of(wrap=gx.checkpoint))
    assert other.memory.peak_bytes < 0.75 * one.memory.peak_bytes


def test_forward_kernels_store_nothing_for_the_backward_part() -> None:
    _, other = compared(mlp(), mlp(wrap=gx.checkpoint))
    first = [node for node in other.graph.nodes if node.op.name == "fused"][:6]
    assert all(len(node.outputs) == 1 for node in first)


def test_switched_off_it_keeps_everything() -> None:
    step = mlp(wrap=gx.checkpoint)
    program, bits = step.ran(off={"late_pointwise", "recompute"})
    assert not repeated(program)
    other, same = step.ran()
    assert bits == same and repeated(other)
    assert other.memory.peak_bytes < program.memory.peak_bytes
    names = [record.name for record in other.passes]
    assert names.index("recompute#1") < names.index("order_variable_updates#1")


def test_fuel_ends_it() -> None:
    step = mlp(wrap=gx.checkpoint)
    program, bits = step.ran()
    decisions = [d.number for r in program.passes for d in r.decisions if d.rule == "recompute"]
    assert decisions == list(range(decisions[0], decisions[0] + len(decisions)))
    part, same = step.ran(fuel=decisions[1])
    assert 0 < repeated(part) < repeated(program)
    assert bits == same


def test_segments_in_any_order_with_captures() -> None:
    def of(wrap: Any) -> Step:
        random = np.random.default_rng(3)
        with gx.Graph() as graph:
            x = gx.placeholder((32, 48), name="x")
            w = gx.variable((random.standard_normal((48, 48)) * 0.2).astype(np.float32))
            scale = gx.exp(x @ w)

            def first(h: Any) -> Any:
                return {"a": gx.tanh(h @ w) * scale, "b": [gx.exp(-h)]}

            made = wrap(first)(x)
            again = wrap(lambda a, b: gx.sin(a @ w) * gx.cos(b))(made["b"][0], made["a"])
            loss = gx.sum(again * made["a"])
            da, dw = gx.gradients(loss, [made["a"], w])
            fetches = [loss, da, w.assign(w - 0.1 * dw), *gx.gradients(gx.sum(again), [x])]
        return Step(graph, fetches, [x], [_fed(32, 48) * 0.1])

    compared(of(lambda f: f), of(gx.checkpoint))


def test_nested_calls_and_second_derivatives() -> None:
    def of(wrap: Any) -> Step:
        with gx.Graph() as graph:
            x = gx.placeholder((32, 32), name="x")

            def inner(h: Any) -> Any:
                return gx.exp(gx.sin(h @ x))

            def outer(h: Any) -> Any:
                return gx.tanh(wrap(inner)(wrap(inner)(h)) @ h)

            y = gx.sum(gx.square(wrap(outer)(x)))
            (first,) = gx.gradients(y, [x])
            (second,) = gx.gradients(gx.sum(gx.square(first)), [x])
            fetches = [y, first, second]
        return Step(graph, fetches, [x], [np.full((32, 32), 0.05, np.float32)])

    compared(of(lambda f: f), of(gx.checkpoint))


def test_gradients_taken_inside_are_part_of_the_function() -> None:
    def of(wrap: Any) -> Step:
        with gx.Graph() as graph:
            x = gx.placeholder((32, 32), name="x")

            def force(h: Any) -> Any:
                energy = gx.sum(gx.tanh(gx.sin(h @ h)))
                (found,) = gx.gradients(energy, [h])
                return found

            fetches = [*gx.gradients(gx.sum(gx.square(wrap(force)(x))), [x])]
        return Step(graph, fetches, [x], [np.full((32, 32), 0.05, np.float32)])

    # what only the derivative reads runs once, late
    compared(of(lambda f: f), of(gx.checkpoint), repeats=False)
    # without a derivative from outside nothing is late
    with gx.Graph() as graph:
        x = gx.placeholder((32, 32), name="x")
        f = gx.checkpoint(lambda h: gx.gradients(gx.sum(gx.tanh(gx.sin(h @ h))), [h])[0])
        step = Step(graph, [f(x)], [x], [np.ones((32, 32), np.float32)])
    program, _ = step.ran()
    assert not repeated(program)


def test_forward_mode_repeats_nothing() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((32, 32), name="x")
        y = gx.checkpoint(lambda h: gx.tanh(gx.sin(h @ h)))(x)
        step = Step(graph, [y, *gx.jvp([y], [x], [x])], [x], [np.ones((32, 32), np.float32)])
    program, _ = step.ran()
    assert not repeated(program)


@pytest.mark.parametrize("inside", [False, True])
def test_loops(inside: bool) -> None:
    """In the body of a scan, and around one."""

    def of(wrap: Any) -> Step:
        random = np.random.default_rng(4)
        with gx.Graph() as graph:
            x = gx.placeholder((5, 16, 32), name="x")
            w = gx.variable((random.standard_normal((32, 32)) * 0.2).astype(np.float32))

            def cell(h: Any, row: Any) -> Any:
                return gx.tanh(gx.exp(gx.sin(h @ w)) + row)

            def body(h: Any, row: Any) -> Any:
                layer = wrap(cell) if inside else cell
                h = layer(layer(layer(h, row), row), row)
                return h, h

            def whole(rows: Any) -> Any:
                last, _ = gx.scan(body, gx.zeros((16, 32)), gx.exp(gx.sin(rows)))
                return gx.exp(gx.sin(gx.exp(last) @ w)) @ w

            loss = gx.sum((whole if inside else wrap(whole))(x))
            dw, dx = gx.gradients(loss, [w, x])
            fetches = [loss, w.assign(w - 0.01 * dw), dx]
        return Step(graph, fetches, [x], [_fed(5, 16, 32)])

    compared(of(lambda f: f), of(gx.checkpoint))


def test_branches_and_random_numbers() -> None:
    def of(wrap: Any) -> Step:
        with gx.Graph() as graph:
            x = gx.placeholder((32, 32), name="x")
            flag = gx.placeholder((), gx.bool_, name="flag")

            def layer(h: Any) -> Any:
                noise = gx.random.normal(gx.random.key(7), (32, 32))
                h = gx.cond(flag, lambda: gx.exp(gx.sin(h @ h)), lambda: gx.sin(h))
                return gx.tanh(gx.exp(gx.sin(h @ h)) * noise) @ h

            loss = gx.sum(wrap(layer)(wrap(layer)(x)))
            fetches = [loss, *gx.gradients(loss, [x])]
        feeds = [np.full((32, 32), 0.03, np.float32), np.asarray(True)]
        return Step(graph, fetches, [x, flag], feeds)

    compared(of(lambda f: f), of(gx.checkpoint))


@pytest.mark.parametrize("seed", range(2))
def test_symbolic_sizes(seed: int) -> None:
    sizes = {"rows": None, "fed": (1, 50)[seed]}
    compared(mlp(3, **sizes), mlp(3, **sizes, wrap=gx.checkpoint))


def test_programs_of_other_marks_are_other_programs(tmp_path: Any) -> None:
    """They have the same nodes, and equal programs are taken from the cache."""
    options = {**PLAIN, "verify": False, "cache": str(tmp_path)}
    peaks = []
    for step in (mlp(), mlp(wrap=gx.checkpoint), mlp(wrap=gx.checkpoint)):
        program, _ = step.ran(**options)
        peaks.append((program.memory.peak_bytes, program.compiled.from_cache))
    (plain, _), (first, is_known), (second, is_found) = peaks
    assert first < plain and not is_known
    assert second == first and is_found


def test_refusals() -> None:
    with pytest.raises(gx.GraphError, match="function of checkpoint is 3"):
        gx.checkpoint(3)  # type: ignore[arg-type]
    with gx.Graph():
        x = gx.placeholder((3,))
    with gx.Graph(), pytest.raises(gx.GraphError, match="another graph"):
        gx.checkpoint(lambda: gx.exp(x))()


SLOW = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40)]


@pytest.mark.parametrize("seed", [1, *SLOW])
def test_random_graphs_in_nested_parts(seed: int) -> None:
    marked = dag(12 + seed, seed, gx.checkpoint)
    _, bits = dag(12 + seed, seed).ran()
    program, same = marked.ran()
    assert bits == same
    assert repeated(program) or seed != 1
    assert bits == marked.ran(shuffle_seed=seed, threads=2)[1]


def test_check_mode_knows_the_copies() -> None:
    mlp(2, 8, 8, gx.checkpoint, 8).ran(check=True)


def _fed(*shape: int) -> np.ndarray:
    return np.random.default_rng(9).standard_normal(shape).astype(np.float32)
