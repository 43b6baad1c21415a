"""What is said of values: their way through the passes, their kernel, their memory."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.session.executable import Executable


def compiled(fetches: Any, feeds: list[Any], **options: Any) -> Executable:
    session = gx.Session(feeds[0].graph, options=gx.Options(**options))
    exe: Executable = session.compile(fetches, feeds)
    return exe


def line_here(offset: int = 0) -> int:
    frame = inspect.currentframe()
    assert frame is not None and frame.f_back is not None
    return frame.f_back.f_lineno + offset


# --- explain -------------------------------------------------------------------------------------


def test_a_rule_that_replaces_a_value() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        y = gx.negative(gx.negative(gx.tanh(x)))
        line = line_here(-1)
        z = gx.exp(y)
    found = compiled(z, [x]).explain(y)
    assert found.where is not None and found.where.line == line
    (change,) = found.changes
    assert (change.kind, change.rule) == ("replaced", "neg-neg")
    assert change.before == "negative(negative(tanh(x)))"
    assert change.after.startswith("tanh(x)")
    assert found.decisions[0][1].rule == "neg-neg"
    assert "tanh_exp" in found.kernel and found.memory.startswith("none: it stays inside")
    assert str(found).startswith(f"float32[3] at {__file__}:{line}\n  built: negative(negative(")


def test_a_value_that_is_rewritten_and_one_that_is_absorbed() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        powers = gx.exp(x)
        result = gx.log(gx.sum(powers))
    exe = compiled(result, [x])
    stable = exe.explain(result)
    assert (stable.changes[0].kind, stable.changes[0].rule) == ("rewritten", "log-sum-exp")
    assert "logsumexp(x" in stable.changes[0].after
    assert stable.memory == "the caller's, as a result of the program"
    gone = exe.explain(powers)
    assert [c.kind for c in gone.changes] == ["removed"]
    assert "logsumexp(x" in gone.changes[0].after and gone.kernel == "none: it is not computed"


def test_folding_and_merging() -> None:
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        two = gx.constant(1.0) + 1.0
        a, b = gx.tanh(x) * two, gx.tanh(x) * two
    exe = compiled([a, b], [x])
    folded = exe.explain(two)
    assert [(c.rule, c.after) for c in folded.changes] == [("fold", "2.0")]
    assert "so cheap" in folded.kernel
    merged = exe.explain(b)
    assert ("cse", "replaced") in {(c.rule, c.kind) for c in merged.changes}
    assert merged.kernel == exe.explain(a).kernel


def test_coarse_ops_and_their_parts() -> None:
    with gx.Graph():
        x = gx.placeholder((4, 8), name="x")
        y = gx.nn.softmax(x)
    found = compiled(y, [x]).explain(y)
    (change,) = found.changes
    assert change.rule == "decompose" and change.after.startswith("divide(exp(")
    fused = [d for name, d in found.decisions if name == "fusion#1"]
    assert len(fused) > 3, "the parts of softmax are told of too"
    lines = [line for line in str(found).splitlines() if "fusion#1 | fuse:" in line]
    assert len(lines) < len(fused), "what differs in its number only is one line"
    assert sum(line.count("#") - 1 for line in lines) == len(fused)
    assert any(" times, #" in line for line in lines)


def test_memory_of_stored_values() -> None:
    with gx.Graph():
        x = gx.placeholder((16, 16), name="x")
        h = gx.tanh(x @ x)
        first = x @ x
        result = gx.tanh(first * 2.0) @ x
    exe = compiled([gx.sum(result + h @ h), first], [x])
    texts = {exe.explain(v).memory for v in (x, h, first)}
    assert "the caller's, as fed" in texts and "the caller's, as a result of the program" in texts
    assert any(text.startswith("1024 bytes at ") for text in texts)
    again = compiled(gx.nn.softmax(x @ x) @ x, [x])
    product = next(v for n in again.source.nodes for v in n.outputs if n.op.name == "contract")
    assert ", in place with float32[16, 16] at " in again.explain(product).memory


def test_constants_variables_and_unchanged_shapes() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((4,), name="x")
        w = gx.variable(np.ones(4, np.float32), name="w")
        table = gx.constant(np.arange(4, dtype=np.float32), name="table")
        shaped = gx.reshape(x, (2, 2))
        y = gx.sum(shaped) + x * w * table
    exe = gx.Session(graph).compile([y, shaped], [x])
    assert "variable" in exe.explain("w").memory
    assert "constant" in exe.explain("table").kernel
    assert "another shape" in exe.explain(shaped).kernel


def test_values_of_loops() -> None:
    inner: list[gx.Value] = []
    with gx.Graph():
        x = gx.placeholder((3,), name="x")

        def body(i: gx.Value, a: gx.Value) -> tuple[gx.Value, gx.Value]:
            inner.append(gx.exp(gx.negative(gx.negative(a)) * 0.5))
            return i + 1, inner[0]

        _, y = gx.while_loop(lambda i, a: i < 2, body, (gx.constant(0), x))
    exe = compiled(y, [x])
    name = next(v for n in exe.source.walk() for v in n.outputs if n.op.name == "exp")
    found = exe.explain(name)
    # the kernel runs the whole loop
    assert "'loop_" in found.kernel
    assert found.kernel == exe.explain(y).kernel
    with gx.Session(y.graph, options=gx.Options(off={"fuse_loops"})) as session:
        exe = session.compile(y, [x])
    found = exe.explain(name)
    assert "multiply_exp" in found.kernel or "exp" in found.kernel
    assert "control flow" in exe.explain(y).kernel
    negated = next(v for n in exe.source.walk() for v in n.outputs if n.op.name == "multiply")
    assert exe.why_not_fused(name, negated)


def test_equal_graphs_share_a_program_and_keep_their_own_lines() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        a = gx.tanh(gx.negative(gx.negative(x)))
        b = gx.tanh(gx.negative(gx.negative(x)))
        line = line_here(-1)
    session = gx.Session(graph)
    session.compile(a, [x])
    exe = session.compile(b, [x])
    assert session.compile_count == 1
    found = exe.explain(b)
    assert found.where is not None and found.where.line == line
    assert "'tanh'" in found.kernel


def test_values_that_are_not_there() -> None:
    with gx.Graph():
        x, y = gx.placeholder((), name="x"), gx.placeholder((), name="y")
        exe = compiled(x * 2.0, [x])
    with pytest.raises(gx.NameLookupError, match="no value of this program") as unknown:
        exe.explain("loss")
    assert unknown.value.where is not None and unknown.value.where.filename == __file__
    assert "'x'" in str(unknown.value)
    with pytest.raises(gx.GraphError, match="its fetches don't need it"):
        exe.explain(y)
    with pytest.raises(gx.GraphError, match="not a value"):
        exe.why_not_fused(x, 3)  # type: ignore[arg-type]


def test_names_that_several_values_bear() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((), name="x")
        values = [gx.variable(1.0, name="w") * x for _ in range(2)]
    exe = gx.Session(graph).compile(values, [x])
    with pytest.raises(gx.NameLookupError, match="2 values are called 'w'"):
        exe.explain("w")


def test_long_chains() -> None:
    with gx.Graph():
        x = gx.placeholder((), name="x")
        y = x
        for _ in range(4000):
            y = gx.sin(gx.negative(gx.negative(y)))
    exe = compiled(y, [x])
    assert len(str(exe.explain(y))) < 2000
    assert "'sin" in exe.explain(y).kernel


# --- why_not_fused -------------------------------------------------------------------------------


def test_one_kernel() -> None:
    with gx.Graph():
        x = gx.placeholder((8, 64), name="x")
        y = gx.exp(x)
        z = gx.sum(y, axis=1)
    answer = compiled(z, [x]).why_not_fused(y, z)
    assert answer and answer.fused and "'exp_reduce_sum' in step 0" in str(answer)


def test_several_kernels_of_one_node() -> None:
    with gx.Graph():
        x = gx.placeholder((1 << 22,), name="x")
        y = gx.exp(x)
        z = gx.sum(y)
    answer = compiled(z, [x]).why_not_fused(y, z)
    told = "'exp_reduce_sum 1' to 'exp_reduce_sum 2' in steps 0 to 1"
    assert answer and answer.fused and told in str(answer)


def test_operands_of_products_are_stored_and_products_stand_between() -> None:
    with gx.Graph():
        x = gx.placeholder((8, 8), name="x")
        a = gx.tanh(x)
        h = a @ x
        b = gx.exp(h)
        line = line_here(-2)
        c = b @ x
    exe = compiled(c, [x])
    assert exe.why_not_fused(h, b)
    answer = exe.why_not_fused(a, h)
    assert not answer and "reads its operands many times" in answer.reason
    between = exe.why_not_fused(c, a).reason
    assert between.startswith(f"between them stands the matrix product at {__file__}:{line}")


def test_other_shapes_axes_and_sizes() -> None:
    with gx.Graph():
        x = gx.placeholder((8, 16), name="x")
        y = gx.exp(x)
        rows, columns = gx.sum(y, axis=1), gx.sum(y, axis=0)
        other = gx.tanh(gx.placeholder((3,), name="z"))
    exe = compiled([rows, columns, other], [x, "z"])
    assert "different axes" in exe.why_not_fused(rows, columns).reason
    assert "neither reads the other" in exe.why_not_fused(rows, other).reason


def test_rows_behind_a_product_of_symbolic_depth_say_what_stops_them() -> None:
    with gx.Graph():
        x = gx.placeholder(("batch", "depth"), name="x")
        scores = x @ gx.placeholder(("depth", 8), name="w") + 1.0
        y = gx.nn.softmax(scores)
    answer = compiled(y, [x, "w"]).why_not_fused(scores, y)
    assert "here these are depth, 8 and batch" in str(answer)


def test_the_cap_and_gathers() -> None:
    with gx.Graph():
        x = gx.placeholder((8,), name="x")
        y = first = gx.sin(x)
        for _ in range(100):
            y = gx.sin(y)
        i = gx.placeholder((8,), "int64", name="i")
        taken = gx.take(gx.exp(y), i)
        source = taken
    exe = compiled(source, [x, i])
    assert "96 operations" in exe.why_not_fused(first, y).reason
    producer = exe.source.producers[taken].inputs[0]
    assert "places of its own" in exe.why_not_fused(producer, taken).reason


def test_switched_off_or_out_of_fuel() -> None:
    with gx.Graph():
        x = gx.placeholder((8,), name="x")
        y = gx.sin(x)
        z = gx.exp(y)
    assert "switched off" in compiled(z, [x], off={"fuse"}).why_not_fused(y, z).reason
    assert "no fuel" in compiled(z, [x], fuel=0).why_not_fused(y, z).reason


def test_values_without_kernels() -> None:
    with gx.Graph():
        x = gx.placeholder((8,), name="x")
        powers = gx.exp(x)
        y = gx.log(gx.sum(powers))
    exe = compiled(y, [x])
    assert "is made by no kernel: it is fed" in exe.why_not_fused(x, y).reason
    assert "is not computed" in exe.why_not_fused(powers, y).reason


def test_weights_in_panels_are_constants_still() -> None:
    with gx.Graph():
        x = gx.placeholder((64, 64), name="x")
        w = gx.constant(np.ones((64, 64), np.float32), name="w")
        h = gx.tanh(x)
        y = h @ w
    exe = compiled([y, h], [x])
    assert exe.why_not_fused(w, y).reason.endswith("is made by no kernel: it is a constant")
    assert exe.why_not_fused(h, y).reason.startswith("the matrix product at ")
    assert "reads its operands many times" in exe.why_not_fused(h, y).reason
