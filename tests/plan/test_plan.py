"""Plans as text, and the verifier of plans."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from effort import assert_linear

import graphc as gx
from graphc.base.source import Location
from graphc.ir.dtypes import bool_, float32, int64
from graphc.ir.types import TensorType
from graphc.kernel.parser import parse_kernel
from graphc.plan.cost import is_brief
from graphc.plan.ir import Branch, ConcurrentGroup, Copy, Jump, Launch, Layout, Plan, Slot
from graphc.plan.memory import MemorySolution
from graphc.plan.printer import constants_of, parse_plan, print_plan
from graphc.plan.serialize import plan_of as stored_plan_of
from graphc.plan.serialize import plan_text
from graphc.plan.verify import verify_plan

NAMES = ["", "a b", 'q"uo\\te', "ü ∑ 🙂", "line\nbreak", "a/b/../c", "x" * 5000]


def dense() -> Any:
    x = gx.placeholder((None, 8), name="x")
    w = gx.constant(np.linspace(-1, 1, 32).reshape(8, 4).astype("float32"))
    return gx.nn.softmax(x @ w + 1.0)


def broadcasting() -> Any:
    x, y = gx.placeholder(("n", 3)), gx.placeholder(("m", 3))
    return x + y, x * 2


def control() -> Any:
    x = gx.placeholder(("n", 4), name="x")
    v = gx.variable(np.ones(4, "float32"), name="v")

    def outer(i: Any, total: Any) -> Any:
        inner = gx.while_loop(lambda j, t: j < 3, lambda j, t: (j + 1, t * v), (0, total))
        return i + 1, gx.cond(i > 1, lambda: inner[1], lambda: total + 1.0)

    looped = gx.while_loop(lambda i, t: i < 4, outer, (0, x))
    return looped[1], v.assign_add(gx.sum(x, axis=0))


def named() -> Any:
    return [gx.placeholder((2,), name=name) + 1 for name in NAMES]


def indexed() -> Any:
    table, places = gx.placeholder((5, 3)), gx.placeholder((4,), "int64")
    return gx.take(table, places, axis=0)


def nothing() -> Any:
    return gx.constant(np.float64(-0.0)), gx.placeholder((0, 3))


GRAPHS: list[Callable[[], Any]] = [dense, broadcasting, control, named, indexed, nothing]


def plan_of(build: Callable[[], Any]) -> Plan:
    with gx.Graph("a graph"), gx.Session() as session:
        return session.compile(build()).compiled.plan


@pytest.mark.parametrize("build", GRAPHS)
def test_plans_verify_and_their_text_is_a_fixpoint(build: Callable[[], Any]) -> None:
    plan = plan_of(build)
    verify_plan(plan)
    text = print_plan(plan)
    back = parse_plan(text, constants_of(plan))
    verify_plan(back)
    assert print_plan(back) == text
    assert (back.slots, back.steps, back.feeds, back.outputs) == (
        plan.slots, plan.steps, plan.feeds, plan.outputs,
    )  # fmt: skip
    assert (back.guards, back.layout, back.loops) == (plan.guards, plan.layout, plan.loops)
    assert back.renewed == plan.renewed


def test_constants_are_found_by_slot_number_too_and_must_be_the_right_ones() -> None:
    plan = plan_of(dense)
    text = print_plan(plan)
    assert parse_plan(text, plan.constants).constants.keys() == plan.constants.keys()
    with pytest.raises(gx.ParseError, match="not among those given"):
        parse_plan(text, {})
    wrong = {slot: array + 1 for slot, array in plan.constants.items()}
    with pytest.raises(gx.ParseError, match="another one"):
        parse_plan(text, wrong)
    with pytest.raises(gx.ParseError, match="the array is"):
        parse_plan(text, {slot: array.reshape(-1) for slot, array in plan.constants.items()})


def test_an_error_in_a_kernel_names_its_line_in_the_whole_text() -> None:
    text = print_plan(plan_of(dense))
    line = text.count("\n", 0, text.index("= load")) + 1
    with pytest.raises(gx.ParseError, match=f"at line {line},"):
        parse_plan(text.replace("= load", "= lood", 1), constants_of(plan_of(dense)))


def test_damaged_text_raises_parse_error_only() -> None:
    plan = plan_of(control)
    text, constants = print_plan(plan), constants_of(plan)
    chance = random.Random(5)
    refused = 0
    for _ in range(400):
        damaged = list(text)
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(damaged))
            action = chance.randrange(4)
            if action == 0:
                del damaged[place : place + chance.randint(1, 20)]
            elif action == 1:
                damaged[place] = chance.choice('%#"{}[](),:=0123456789anx\n\\ -é\x00')
            elif action == 2:
                damaged[place:place] = chance.choices(text, k=chance.randint(1, 5))
            else:
                damaged = damaged[:place]
            damaged = damaged or [" "]
        try:
            verify_plan(parse_plan("".join(damaged), constants))
        except (gx.ParseError, gx.VerifyError):
            refused += 1
    assert refused > 200


# --- the verifier --------------------------------------------------------------------------------

F3 = TensorType(float32, (3,))
NEGATE = parse_kernel(
    'kernel "negative" (in %x: float32[3], out %y: float32[3]) {\n'
    "  vector %0 < 3 {\n    %1 = load %x[%0]\n    %2 = negative %1\n    store %y[%0], %2\n  }\n}\n"
)
REVERSED = parse_kernel(
    'kernel "reversed" (in %x: float32[3], out %y: float32[3]) {\n  %0 = const int64 2\n'
    "  vector %1 < 3 {\n    %2 = subtract %0, %1\n    %3 = load %x[%2]\n"
    "    store %y[%1], %3\n  }\n}\n"
)
WHERE = Location("model.py", 3, 4, 9)


def solution(count: int) -> MemorySolution:
    """Every buffer of 12 bytes at an offset of its own."""
    return MemorySolution(
        offsets=tuple(64 * n for n in range(count)),
        peak=64 * (count - 1) + 12,
        lower_bound=12 * count,
        roots=tuple(range(count)),
        alignments=(64,) * count,
        order=tuple(range(count)),
        predecessors=tuple((n - 1,) if n else () for n in range(count)),
    )


def sample() -> Plan:
    """One negation, twice: feed to temporary to output."""
    slots = (
        Slot("feed", F3, "x"),
        Slot("output", F3, "y"),
        Slot("temporary", F3, "t", WHERE),
        Slot("constant", F3, "c"),
        Slot("feed", TensorType(bool_, ()), "p"),
        Slot("state", F3, "s"),
    )
    steps = (Launch(0, (0, 2), WHERE), Launch(0, (2, 1)))
    return Plan(
        "sample", slots, steps, (NEGATE,), (0, 4, 5), (1,), {3: np.ones(3, "float32")},
        layout=Layout((2,), solution(1), (12,)),
    )  # fmt: skip


def with_steps(*steps: Any) -> Callable[[Plan], Plan]:
    return lambda plan: replace(plan, steps=steps)


def with_slot(number: int, slot: Slot) -> Callable[[Plan], Plan]:
    return lambda plan: replace(
        plan, slots=(*plan.slots[:number], slot, *plan.slots[number + 1 :])
    )


def with_solution(**changes: Any) -> Callable[[Plan], Plan]:
    def change(plan: Plan) -> Plan:
        assert plan.layout is not None
        layout = replace(plan.layout, solution=replace(plan.layout.solution, **changes))
        return replace(plan, layout=layout)

    return change


FAULTS: list[tuple[str, Callable[[Plan], Plan]]] = [
    ("feeds name slot %9", lambda p: replace(p, feeds=(0, 4, 9))),
    ("feeds name the output", lambda p: replace(p, feeds=(0, 4, 1))),
    ("feeds lack the state", lambda p: replace(p, feeds=(0, 4))),
    ("a feed comes after state", lambda p: replace(p, feeds=(0, 5, 4))),
    ("feeds name a slot twice", lambda p: replace(p, feeds=(0, 0, 4, 5))),
    ("outputs name a slot twice", lambda p: replace(p, outputs=(1, 1))),
    ("without an array", lambda p: replace(p, constants={})),
    ("holds an array int64", lambda p: replace(p, constants={3: np.ones(3, "int64")})),
    ("names slot %77", with_steps(Launch(0, (0, 77)))),
    ("names slot %-1", with_steps(Copy(-1, 1))),
    ("launches kernel 4", with_steps(Launch(4, (0, 1)))),
    ("gives 3 arguments", with_steps(Launch(0, (0, 2, 1)))),
    ("slot %4 is bool", with_steps(Launch(0, (4, 1)))),
    ("writes the feed", with_steps(Launch(0, (5, 0)))),
    ("writes the state", with_steps(Launch(0, (0, 5)))),
    ("writes the constant", with_steps(Copy(0, 3))),
    ("has written over it", lambda p: replace(
        with_steps(Copy(0, 1), Launch(0, (1, 1)))(p), kernels=(REVERSED,))),
    ("copies a slot to itself", with_steps(Copy(1, 1))),
    ("copies bool", with_steps(Copy(4, 1))),
    ("branches on a float32", with_steps(Branch(0, 1))),
    ("goes to step 7", with_steps(Jump(7))),
    ("goes to step -1", with_steps(Branch(4, -1))),
    ("before it is written", with_steps(Launch(0, (2, 1)))),
    ("before it is written", with_steps(Branch(4, 2), Copy(0, 2), Copy(2, 1))),
    ("not written on every path", with_steps(Branch(4, 2), Copy(0, 1))),
    ("not written on every path", with_steps()),
    ("where no loop starts", with_steps(Copy(0, 1), Branch(4, 0))),
    ("never comes to its end", lambda p: replace(with_steps(Jump(0))(p), loops=((0, 1),))),
    ("is not a range", lambda p: replace(p, loops=((1, 5),))),
    ("overlaps another", lambda p: replace(
        with_steps(*[Copy(0, 1)] * 4)(p), loops=((0, 3), (1, 4)))),
    ("sizes 4 and 3 differ", with_slot(0, Slot("feed", TensorType(float32, (4,)), "x"))),
    ("no feed tells", with_slot(2, Slot("temporary", TensorType(
        float32, (gx.placeholder(("stranger",)).shape[0],))))),
    ("no place for the temporary", lambda p: replace(p, layout=Layout((), solution(0), ()))),
    ("which is no temporary", lambda p: replace(p, layout=Layout((1,), solution(1), (12,)))),
    ("gives 11 bytes", lambda p: replace(p, layout=Layout((2,), solution(1), (11,)))),
    ("tables are not of", with_solution(offsets=())),
    ("does not place", with_solution(order=(4,))),
    ("every root once", with_solution(order=())),
    ("not a power of two", with_solution(alignments=(24,))),
    ("predecessors first", with_solution(predecessors=((0,),))),
    ("not those that its order gives", with_solution(peak=99)),
]  # fmt: skip


def test_the_sample_is_right() -> None:
    verify_plan(sample())
    # reads each element before it writes that place
    verify_plan(with_steps(Copy(0, 1), Launch(0, (1, 1)))(sample()))
    assert parse_plan(print_plan(sample()), constants_of(sample())).steps == sample().steps


@pytest.mark.parametrize(("message", "change"), FAULTS, ids=[text for text, _ in FAULTS])
def test_faults_are_found(message: str, change: Callable[[Plan], Plan]) -> None:
    broken = change(sample())
    with pytest.raises(gx.VerifyError) as caught:
        verify_plan(broken)
    assert message in caught.value.message


TWICE = parse_kernel(
    'kernel "twice" (in %x: float32[3], out %y: float32[3], out %z: float32[3]) {\n'
    "  vector %0 < 3 {\n    %1 = load %x[%0]\n    store %y[%0], %1\n  }\n"
    "  vector %2 < 3 {\n    %3 = load %x[%2]\n    store %z[%2], %3\n  }\n}\n"
)


def renewing() -> Plan:
    """Two readers of a variable, and a variable that nothing reads; both are written in place."""
    slots = (
        Slot("feed", F3, "x"),
        Slot("state", F3, "weights"),
        Slot("output", F3, "y"),
        Slot("output", F3, "z"),
        Slot("output", F3, "new"),
        Slot("output", F3, "seen"),
    )
    steps = (
        Launch(0, (1, 2), WHERE), Launch(0, (1, 3), WHERE), Launch(0, (1, 4), WHERE),
        Launch(0, (0, 5), WHERE),
    )  # fmt: skip
    return Plan(
        "renewing", slots, steps, (NEGATE, TWICE), (0, 1), (2, 3, 4, 5), {},
        commit=2, renewed=((1, 4), (None, 5)),
    )  # fmt: skip


def in_one_place(plan: Plan) -> Plan:
    """A kernel that reads all of a temporary again after it has written to its place."""
    slots = (
        Slot("feed", F3, "x"), Slot("output", F3, "y"), Slot("output", F3, "z"),
        Slot("temporary", F3, "t"), Slot("temporary", F3, "u"),
    )  # fmt: skip
    roots = replace(
        solution(2), offsets=(0, 0), roots=(0, 0), order=(0,), predecessors=((), ()), peak=12
    )
    return Plan(
        "in one place", slots, (Launch(0, (0, 3)), Launch(1, (3, 4, 1)), Launch(0, (4, 2))),
        plan.kernels, (0,), (1, 2), {}, layout=Layout((3, 4), roots, (12, 12)),
    )  # fmt: skip


def reordered(*order: int, commit: int | None = 2, **changes: Any) -> Callable[[Plan], Plan]:
    return lambda plan: replace(
        plan, steps=tuple(plan.steps[n] for n in order), commit=commit, **changes
    )


MISUSES: list[tuple[str, Callable[[Plan], Plan]]] = [
    ("step 2: reads the state slot %1 'weights', where step 1 has written the new value",
     reordered(0, 2, 1, 3, commit=1)),
    ("step 3: touches the output slot %4 'new', in the memory of the state slot %1 'weights', "
     "beside another task",
     reordered(0, 3, 1, 2, commit=1, groups=(ConcurrentGroup((1, 2, 3, 4), (1, 1, 1)),))),
    ("step 1: writes the new value of the state slot %1 'weights' before the commit at step 3",
     reordered(0, 2, 1, 3, commit=3)),
    ("writes the new value of the output slot %5 'seen' before the commit", reordered(3, 0, 1, 2)),
    ("commits at step 2, but renews no variable", lambda p: replace(p, renewed=())),
    ("reads the state slot %1 'weights' where kernel 'twice' has written over it",
     lambda p: replace(p, steps=(p.steps[0], Launch(1, (1, 4, 3)), p.steps[3]), commit=1)),
    ("copies the temporary slot %3 't' to where it lies",
     lambda p: replace(in_one_place(p), steps=(
         Launch(0, (0, 3)), Copy(3, 4), Launch(1, (4, 1, 2))))),
    ("reads the temporary slot %3 't' where kernel 'twice' has written over it", in_one_place),
    ("writes the temporary slot %3 't' and the temporary slot %4 'u' to one memory",
     lambda p: replace(in_one_place(p), steps=(Launch(1, (0, 3, 4)), Launch(1, (4, 1, 2))))),
    ("renewed names slot %9", lambda p: replace(p, renewed=((9, 4),))),
    ("renewed names the feed", lambda p: replace(p, renewed=((0, 4),))),
    ("renewed names the state", lambda p: replace(p, renewed=((None, 1),))),
    ("renewed names a slot twice", lambda p: replace(p, renewed=((1, 4), (None, 4)))),
    ("renewed names a slot twice", lambda p: replace(p, renewed=((1, 4), (1, 5)))),
    ("renews the state slot %6 'other' of type float32[4] with float32[3]",
     lambda p: replace(
         p, slots=(*p.slots, Slot("state", TensorType(float32, (4,)), "other")), feeds=(0, 1, 6),
         renewed=((1, 4), (6, 5)))),
]  # fmt: skip


@pytest.mark.parametrize(("message", "change"), MISUSES, ids=[text[:60] for text, _ in MISUSES])
def test_misuses_of_one_memory_are_found(
    message: str, change: Callable[[Plan], Plan]
) -> None:
    verify_plan(renewing())
    # a variable that is copied to its new value, which is the same memory, stays as it is
    copied = (*renewing().steps[:2], Copy(1, 4), renewing().steps[3])
    verify_plan(replace(renewing(), steps=copied))
    broken = change(renewing())
    with pytest.raises(gx.VerifyError) as caught:
        verify_plan(broken)
    assert message in str(caught.value)
    assert print_plan(broken)


def test_new_values_of_their_own_memory_may_be_written_in_any_order() -> None:
    for order in ((0, 2, 1, 3), (3, 2, 1, 0)):
        verify_plan(reordered(*order, commit=None)(renewing()))
    beside = (ConcurrentGroup((0, 1, 2, 3, 4), (1, 1, 1, 1)),)
    verify_plan(reordered(0, 1, 2, 3, commit=None, groups=beside)(renewing()))


def test_renewed_variables_are_in_every_form_of_a_plan() -> None:
    plan = renewing()
    text = print_plan(plan)
    assert "\nrenewed %4 from %1, %5\ncommit 2\n" in text
    assert parse_plan(text, {}).renewed == plan.renewed
    assert stored_plan_of(plan_text(plan, lambda _: 0), {}, [WHERE]).renewed == plan.renewed


def test_broken_plans_print() -> None:
    for _, change in FAULTS:
        assert print_plan(change(sample()))


def test_a_scratch_buffer_wants_a_scratch_slot() -> None:
    kernel = parse_kernel('kernel "k" (out %y: float32[3], scratch %r: float32[3]) {\n}\n')
    plan = replace(sample(), kernels=(kernel,), steps=(Launch(0, (1, 2)),))
    with pytest.raises(gx.VerifyError, match="is scratch, given the temporary"):
        verify_plan(plan)


def long_plan(count: int) -> Plan:
    slots = [Slot("feed", F3, "x"), Slot("output", F3, "y")]
    slots += [Slot("temporary", F3) for _ in range(count)]
    steps = [Launch(0, (0 if n == 0 else n + 1, n + 2)) for n in range(count)]
    return Plan(
        "long", tuple(slots), (*steps, Copy(count + 1, 1)), (NEGATE,), (0,), (1,), {},
        layout=Layout(tuple(range(2, count + 2)), solution(count), (12,) * count),
    )  # fmt: skip


def check_long_plan(plan: Plan) -> None:
    verify_plan(plan)
    text = print_plan(plan)
    assert print_plan(parse_plan(text, {})) == text


def test_long_plans_are_linear() -> None:
    check_long_plan(long_plan(20_000))
    assert_linear(lambda count: partial(check_long_plan, long_plan(count)), 250)


def test_int64_scalars_and_names_survive() -> None:
    slots = tuple(Slot("feed", TensorType(int64, ()), name) for name in NAMES)
    plan = Plan("", slots, (), (), tuple(range(len(NAMES))), (), {})
    assert parse_plan(print_plan(plan), {}).slots == slots


@pytest.mark.parametrize("shape", [(8, 16), ("a", "b")], ids=["known", "symbolic"])
def test_a_plan_is_brief_by_what_its_kernels_do(shape: tuple[Any, ...]) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(shape)
        softmax, long = gx.softmax(x) @ gx.transpose(x), x
        for _ in range(20):
            long = gx.sin(gx.softmax(long))
    session = gx.Session(graph)
    plan = session.compile(softmax, [x]).compiled.plan
    assert is_brief(plan, {"a": 8, "b": 16})
    assert is_brief(plan, {"a": 2000, "b": 300}) is isinstance(shape[0], int)
    assert not is_brief(session.compile(long, [x]).compiled.plan, {"a": 8, "b": 16})
