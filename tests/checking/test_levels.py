"""One program at every level: source graph, each pass, plan, kernels and machine code agree.

Also: each level's text form gives the program back, and the watch on kernels, under which all tests
run (``kernel_watch``), sees them and catches code that is wrong on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from kernel_watch import KernelWatch, LevelMismatch, same_bits

import graphc as gx
from graphc.base.errors import IndexRangeError, ShapeError
from graphc.base.target import host
from graphc.checking.interpreter import evaluate
from graphc.codegen.kernels import loads_stores, primitives, reduction
from graphc.ir.equal import structural_hash
from graphc.ir.graph import Graph
from graphc.ir.text.parser import parse_graph
from graphc.ir.text.printer import payloads, print_graph
from graphc.kernel.ir import CHUNK
from graphc.kernel.parser import parse_kernel
from graphc.kernel.printer import kernel_key, print_kernel
from graphc.kernel.verify import verify_kernel
from graphc.plan.interp import run_plan
from graphc.plan.ir import Branch, Copy, Jump, Launch, Plan
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.verify import verify_plan
from graphc.runtime.program import Program

pytestmark = pytest.mark.check_mode

Array = np.ndarray[Any, Any]
SIZES = [0, 1, 7, 33]


# --- programs ------------------------------------------------------------------------------------


def maps() -> Any:
    x, y = gx.placeholder(("n", 9), name="x"), gx.placeholder((9,), name="y")
    return gx.where(x > y, gx.exp(-gx.abs(x)) * y, gx.tanh(x) / (1 + x * x)), -x.T


def integers() -> Any:
    a, b = gx.placeholder(("n", 5), "int32", name="a"), gx.placeholder(("n", 5), "int32", name="b")
    return a // b, a % b, (a << 3) ^ b, a.astype("float64") / 7, a > b


def rows() -> Any:
    x = gx.placeholder(("n", 70), name="x")
    return gx.nn.softmax(x), gx.var(x, axis=1), gx.argmax(x, axis=1), gx.logsumexp(x, axis=1)


def columns() -> Any:
    x = gx.placeholder(("n", 13), "float64", name="x")
    return gx.sum(x, axis=0), gx.prod(x, axis=0), gx.any(x > 0, axis=0), gx.sum(x)


def views() -> Any:
    x = gx.placeholder(("n", 6), name="x")
    parts = gx.concatenate([x[:, ::-2], gx.pad(x, ((0, 0), (1, 2)))], axis=1)
    return parts, gx.flip(x, 0), gx.reshape(x, (-1, 3)), gx.stack([x, x + 1])


def branches() -> Any:
    x = gx.placeholder(("n", 4), name="x")
    return gx.cond(gx.sum(x) > 0.5, lambda: x * 2 + gx.sum(x, axis=0), lambda: gx.sqrt(gx.abs(x)))


def swapped() -> Any:
    x, y = gx.placeholder(("n",), name="x"), gx.placeholder(("n",), name="y")
    looped = gx.while_loop(
        lambda i, a, b: i < 5, lambda i, a, b: (i + 1, b, a * 0.5 + b), (0, x, y)
    )
    return looped[1], looped[2], looped[0]


def nested() -> Any:
    x = gx.placeholder(("n",), name="x")

    def outer(i: Any, total: Any) -> Any:
        inner = gx.while_loop(lambda j, t: j < i, lambda j, t: (j + 1, t + x), (0, total))
        return i + 1, gx.cond(i % 2 > 0, lambda: inner[1], lambda: -inner[1])

    return gx.while_loop(lambda i, t: i < 4, outer, (0, x))[1]


def scans() -> Any:
    x = gx.placeholder(("n", 5), name="x")
    return gx.cumsum(x, axis=0), gx.cumprod(x, axis=1)


def gathered() -> Any:
    table = gx.placeholder((7, 3), name="table")
    places = gx.placeholder(("n",), "int64", name="places")
    loss = gx.sum(gx.take(table, places, axis=0) ** 2)
    return gx.take(table, places, axis=0), *gx.gradients(loss, [table])


def products() -> Any:
    x, w = gx.placeholder(("n", 20), name="x"), gx.placeholder((20, 18), name="w")
    return x @ w, x.T @ x, x @ x.T, gx.exp(x @ w) + 1


def batches() -> Any:
    x = gx.placeholder((2, "n", 5), "float64", name="x")
    y = gx.placeholder((5, 3), "float64", name="y")
    return x @ y, x @ gx.swapaxes(x, 1, 2), gx.swapaxes(x, 1, 2) @ x


def whole_products() -> Any:
    x = gx.placeholder(("n", 4), "int32", name="x")
    return x @ x.T, (x > 0) @ (x > 0).T


def affine_gradients() -> Any:
    x, w = gx.placeholder(("n", 6), name="x"), gx.placeholder((6, 4), name="w")
    b = gx.placeholder((4,), name="b")
    loss = gx.sum(gx.nn.gelu(x @ w + b) * gx.nn.layer_norm(x @ w, 1 + b, b))
    return loss, *gx.gradients(loss, [x, w, b])


PROGRAMS = [
    maps, integers, rows, columns, views, branches, swapped, nested, scans, gathered, products,
    batches, whole_products, affine_gradients,
]  # fmt: skip


def fed(exe: gx.Executable, n: int) -> list[Array]:
    """Random arrays for a program's feeds."""
    random = np.random.default_rng(n)
    arrays = []
    for value in exe.feeds:
        shape = tuple(dim if isinstance(dim, int) else n for dim in value.shape)
        if value.dtype.is_float:
            array = random.standard_normal(shape)
        else:
            array = random.integers(-7, 7, shape)
        arrays.append(array.astype(value.dtype.numpy))
    return arrays


def compiled(build: Callable[[], Any]) -> gx.Executable:
    with gx.Graph() as graph:
        fetches = build()
    return gx.Session(graph).compile(fetches)


def as_list(results: Any) -> list[Array]:
    return [*results] if isinstance(results, (tuple, list)) else [results]


def assert_near(left: Array, right: Array) -> None:
    """Equal but for class R: within what differently ordered sums of these sizes may differ by."""
    assert left.dtype == right.dtype and left.shape == right.shape
    if left.dtype.kind != "f":
        assert np.array_equal(left, right)
        return
    room = 400 * float(np.finfo(left.dtype).eps)
    scale = float(np.max(np.abs(right), initial=1.0, where=np.isfinite(right)))
    np.testing.assert_allclose(left, right, rtol=room, atol=room * scale)


@pytest.mark.parametrize("build", PROGRAMS)
def test_levels_agree(build: Callable[[], Any]) -> None:
    exe = compiled(build)
    program = exe.compiled.program
    for n in SIZES:
        arrays = fed(exe, n)
        native = as_list(exe(*arrays))
        graphs = [exe.source, *(record.graph for record in exe.passes)]
        plan = run_plan(exe.compiled.plan, arrays, program.bind(arrays))
        for level in [*(list(evaluate(graph, arrays)) for graph in graphs), plan]:
            for got, wanted in zip(level, native, strict=True):
                assert_near(got, wanted)


# --- text forms ----------------------------------------------------------------------------------


def assert_text_gives_back(graph: Graph) -> None:
    again = parse_graph(print_graph(graph), payloads(graph))
    assert structural_hash(again) == structural_hash(graph)
    assert print_graph(again) == print_graph(graph)


def assert_texts_give_back(exe: gx.Executable) -> None:
    """Every level of a program, printed and parsed, is itself."""
    for graph in [exe.source, *(record.graph for record in exe.passes), exe.graph]:
        assert_text_gives_back(graph)
    for kernel in exe.kernels:
        again = parse_kernel(print_kernel(kernel))
        verify_kernel(again)
        assert kernel_key(again) == kernel_key(kernel)
    plan = exe.compiled.plan
    verify_plan(plan)
    text = print_plan(plan)
    parsed = parse_plan(text, constants_of(plan))
    verify_plan(parsed)
    assert print_plan(parsed) == text


@pytest.mark.parametrize("build", PROGRAMS)
def test_texts_give_the_program_back(build: Callable[[], Any]) -> None:
    assert_texts_give_back(compiled(build))


def training() -> tuple[gx.Graph, Any, list[gx.Value]]:
    """A network like that for the digits: 64-128-64-10, a symbolic batch, Adam."""
    random = np.random.default_rng(0)
    widths = (64, 128, 64, 10)
    with gx.Graph("training") as graph:
        pixels = gx.placeholder(("batch", 64), name="pixels")
        labels = gx.placeholder(("batch",), "int64", name="labels")
        hidden: Any = pixels
        for number, (ins, outs) in enumerate(pairwise(widths)):
            start = random.normal(0, (2 / ins) ** 0.5, (ins, outs)).astype("float32")
            weight = gx.variable(start, name=f"w{number}")
            bias = gx.variable(np.zeros(outs, "float32"), name=f"b{number}")
            if number:
                hidden = gx.nn.relu(hidden)
            hidden = hidden @ weight + bias
        loss = gx.nn.softmax_cross_entropy(hidden, labels).mean()
        train = gx.optim.Adam(2e-3).minimize(loss)
    return graph, [train, loss], [pixels, labels]


def test_training_of_digits_at_every_level(kernel_watch: KernelWatch) -> None:
    graph, fetches, feeds = training()
    session = gx.Session(graph)
    exe = session.compile(fetches, feeds)
    assert len(exe.passes) > 3
    assert_texts_give_back(exe)
    random = np.random.default_rng(1)
    pixels = random.random((32, 64), np.float32)
    labels = random.integers(0, 10, 32)
    losses = [float(exe(pixels, labels)[1]) for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]
    keys = {(kernel_key(kernel), exe.compiled.target) for kernel in exe.kernels}
    assert keys <= kernel_watch.compared


# --- the interpreter of plans --------------------------------------------------------------------


def test_plan_interpreter_observes_launches() -> None:
    exe = compiled(nested)
    seen: list[tuple[Launch, list[Array], list[Array]]] = []

    def observe(step: Launch, _: Any, before: Sequence[Array], after: Sequence[Array]) -> None:
        seen.append((step, list(before), [array.copy() for array in after]))

    arrays = fed(exe, 3)
    plan = exe.compiled.plan
    run_plan(plan, arrays, {"n": 3}, observe=observe)
    assert {type(step) for step in plan.steps} >= {Launch, Branch, Jump}
    assert len(seen) > len([step for step in plan.steps if isinstance(step, Launch)])
    for step, before, after in seen:
        written = {slot for slot, writes in plan.accesses(step) if writes}
        for slot, old, new in zip(step.arguments, before, after, strict=True):
            assert slot in written or same_bits(old, new).all()


def test_plan_interpreter_copies() -> None:
    with gx.Graph() as graph:
        fetches = swapped()
    # a loop in a kernel copies nothing
    exe = gx.Session(graph, options=gx.Options(off={"fuse_loops"})).compile(fetches)
    assert any(isinstance(step, Copy) for step in exe.compiled.plan.steps)


def test_plan_interpreter_refuses_what_does_not_fit() -> None:
    exe = compiled(gathered)
    plan: Plan = exe.compiled.plan
    table, places = fed(exe, 4)
    with pytest.raises(ShapeError, match="table"):
        run_plan(plan, [table[:3], places], {"n": 4})
    with pytest.raises(IndexRangeError, match="index 7 is out of range for axis 0 of size 7"):
        run_plan(plan, [table, places * 0 + 7], {"n": 4})
    with pytest.raises(IndexRangeError, match="index 7 is out of range for axis 0 of size 7"):
        exe(table, places * 0 + 7)


# --- the watch -----------------------------------------------------------------------------------


@pytest.mark.without_check_mode("it runs kernels that the watch would count")
def test_watch_sees_kernels(kernel_watch: KernelWatch) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((5,), name="x")
        y = gx.sin(x * 123.0625) - 17.5
    session = gx.Session(graph)
    exe = session.compile(y, [x])
    (kernel,) = exe.kernels
    known = (kernel_key(kernel), exe.compiled.target)
    assert known[0] in kernel_watch.printed
    programs = kernel_watch.programs
    exe(np.ones(5))
    assert known in kernel_watch.compared
    assert kernel_watch.programs == programs + 1
    exe(np.ones(5))
    assert kernel_watch.programs == programs + 1


def test_watch_compares_what_is_not_reached(kernel_watch: KernelWatch) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((5,), name="x")
        y = gx.cond(x[0] > 0, lambda: x * 71.25, lambda: x - 71.25)
    exe = gx.Session(graph).compile(y, [x])
    exe(np.ones(5))
    assert {(kernel_key(k), exe.compiled.target) for k in exe.kernels} <= kernel_watch.compared


def _wrong(name: str) -> Callable[[pytest.MonkeyPatch], None]:
    right = primitives._EMITTERS[name]

    def plant(patch: pytest.MonkeyPatch) -> None:
        def emit(e: Any, operands: Any, dtype: Any) -> Any:
            result = right(e, operands, dtype)
            return result * (1 + 2.0**-16)

        patch.setitem(primitives._EMITTERS, name, emit)

    return plant


def _wrong_order(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reduction, "CHUNK", CHUNK // 2)


def _wrong_reversal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(loads_stores, "_reversed", lambda e, raw: raw)


def _wrong_layout(patch: pytest.MonkeyPatch) -> None:
    right = Program.run

    def run(program: Program, arrays: Sequence[Array], *rest: Any) -> list[Array]:
        results = right(program, arrays, *rest)
        results[0].reshape(-1)[-1] += 1
        return results

    patch.setattr(Program, "run", run)


@pytest.mark.parametrize(
    ("plant", "message"),
    [
        (_wrong("subtract"), "elements differ"),
        (_wrong("exp"), "exp.* ulp, not up to"),
        (_wrong_order, "elements differ"),
        (_wrong_reversal, "elements differ"),
        (_wrong_layout, "depends on its layout"),
    ],
)
def test_watch_catches_wrong_code(
    kernel_watch: KernelWatch, plant: Callable[[pytest.MonkeyPatch], None], message: str
) -> None:
    random = np.random.default_rng(3)
    with gx.Graph() as graph:
        x = gx.placeholder((2, 6000), name="x")
        y = [gx.exp(x - 0.25), gx.sum(x, axis=1), x[:, ::-1] * 2]
    array = random.standard_normal((2, 6000)).astype("float32")
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        plant(patch)
        watch = KernelWatch()
        watch.install(patch)
        with pytest.raises(LevelMismatch, match=message):
            gx.Session(graph).run(y, {x: array})


@pytest.mark.without_check_mode("it finds the planted fault first")
def test_watch_catches_wrong_products(kernel_watch: KernelWatch) -> None:
    if not host().has_fma:
        pytest.skip("products are the same with and without fused multiply-add here")
    with gx.Graph() as graph:
        x = gx.placeholder((20, 40), name="x")
        y = x @ x.T
    array = np.random.default_rng(3).standard_normal((20, 40)).astype("float32")
    with kernel_watch.pause(), pytest.MonkeyPatch.context() as patch:
        watch = KernelWatch()
        watch.install(patch)
        session = gx.Session(graph)
        exe = session.compile(y, [x])
        program = exe.compiled.program
        watch._target_of[program] = exe.compiled.target.without_fma()
        with pytest.raises(LevelMismatch, match="elements differ"):
            exe(array)
