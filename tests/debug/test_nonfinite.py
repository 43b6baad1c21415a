"""``check_numerics`` in loops, branches and gradients: the first trip, and the line behind it."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import graphc as gx


def failure(fetches: Any, feeds: dict[Any, Any], graph: Any) -> tuple[str, str]:
    """What a checked run says, and the source line that it points to."""
    session = gx.Session(graph, options=gx.Options(check_numerics=True))
    with pytest.raises(gx.NumericsError) as caught:
        session.run(fetches, feeds)
    where = caught.value.where
    assert where is not None and where.filename == __file__
    return caught.value.message, inspect.getsource(inspect.getmodule(failure)).splitlines()[  # type: ignore[arg-type]
        where.line - 1
    ].strip()


@pytest.mark.parametrize("trip", [0, 6, 199])
def test_the_first_trip_of_a_scan(trip: int) -> None:
    """The number goes on through later trips, and into what is stacked."""
    with gx.Graph() as graph:
        xs = gx.placeholder((200, 3), name="xs")

        def body(state: Any, x: Any) -> Any:
            root = gx.sqrt(x)
            return state * 0.5 + root, gx.tanh(state)

        last, rows = gx.scan(body, gx.zeros(3, "float32"), xs)
        total = gx.sum(last) + gx.sum(rows)
    fed = np.ones((200, 3))
    fed[trip:, 1] = -4
    for fetched in (last, total):
        message, line = failure(fetched, {xs: fed}, graph)
        assert f"sqrt(-4.0) gave nan at [1], in trip {trip} of the loop at" in message
        assert line == "root = gx.sqrt(x)"


def test_what_a_loop_gets_and_what_another_carried_value_has() -> None:
    """It goes back through one carried value to another, to what is captured, and to feeds."""
    with gx.Graph() as graph:
        x, y, trips = (gx.placeholder((), name=name) for name in ("x", "y", "trips"))
        captured = gx.log(y)
        one = gx.while_loop(
            lambda n, *_: n < trips,
            lambda n, one, other: (n + 1, gx.where(n > 3, other, one), other + captured / (n + 1)),
            (gx.constant(0.0), gx.constant(1.0), x),
        )[1]
    message, line = failure(one, {x: 1, y: 0, trips: 9}, graph)
    assert message == "a result is not finite: log(0.0) gave -inf at []"
    assert line == "captured = gx.log(y)"
    session = gx.Session(graph, options=gx.Options(check_numerics=True))
    with pytest.raises(gx.NumericsError, match=r"'x' was fed inf at \[\]\n"):
        session.run(one, {x: np.inf, y: 1, trips: 9})
    assert np.isfinite(session.run(one, {x: np.inf, y: 1, trips: 3}))


def test_a_branch_in_a_loop_in_a_loop() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")

        def inner(n: Any, state: Any) -> Any:
            return gx.cond(
                n > 1,
                lambda: state + gx.log(x - n.astype("float32")),
                lambda: state,
            )

        total = gx.fori_loop(0, 3, lambda m, state: gx.fori_loop(0, 4, inner, state), gx.zeros(2))
    message, line = failure(total, {x: [9, 3]}, graph)
    assert "log(0.0) gave -inf at [1], in trip 3 of the loop at" in message
    assert message.count("of the loop at") == 2 and ", in trip 0 of the loop at" in message
    assert line == 'lambda: state + gx.log(x - n.astype("float32")),'


def test_gradients_name_the_line_that_they_are_of() -> None:
    """Forward all is finite; a new value of a variable is named, in loops with the trip."""
    with gx.Graph() as graph:
        x = gx.placeholder((3,), name="x")
        w = gx.variable(np.float32(4), name="w")
        root = gx.sqrt(w * x)
        step = gx.optim.SGD(0.1).minimize(gx.sum(root))

        def body(state: Any, item: Any) -> Any:
            state = gx.sqrt(state * w * item)
            return state, state

        last, _ = gx.scan(body, gx.constant(1.0), x)
        slope = gx.gradients(last, w)
    message, line = failure(step, {x: [1, 0, 1]}, graph)
    assert message.startswith("the new value of w is not finite: ")
    assert "gave inf at [1], in the gradient of this line" in message
    assert line == "root = gx.sqrt(w * x)"
    message, line = failure(slope, {x: [1, 1, 0]}, graph)
    assert "in the gradient of this line, in trip 0 of the gradient of the loop at" in message
    assert line == "state = gx.sqrt(state * w * item)"
