"""Random loops ``while i < bound and any(goes)``, by a grammar.

In most of them a lane that doesn't go on keeps its variables, so ``fuse_loops`` makes kernels in
which each vector of lanes ends by itself. Others break that in one place: a variable moves on, a
limit changes, lanes are done before they begin. No result may differ for that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import graphc as gx
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ops.fused import fused_op
from graphc.ops.lane_loops import lane_body, runs_loops

FLOATS = ("float64", "float32", "float16", "bfloat16")
OTHERS = ("int32", "int8", "bool")
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0, 5e-324, 1e-40, 1e30, 3.0)
FRAMES = ("plain", "plain", "plain", "cond", "loop", "gradient", "two", "two alike")

Random = np.random.Generator
Lanes = list[Any]


class Program(NamedTuple):
    """What to fetch, arrays for its placeholders, what was broken on purpose, what stands
    around the loop."""

    fetches: list[gx.Value]
    feeds: dict[gx.Value, Any]
    fault: str
    frame: str


FAULTS = (
    "moves", "other test", "float zero", "no start", "counter in goes", "scalar in goes",
    "other variable", "old test", "exchange", "grows", "bound alone", "all",
)  # fmt: skip


@dataclass
class _Maker:
    """One loop while it is made; ``fault`` is what is wrong in it, if anything is."""

    random: Random
    shape: tuple[Any, ...]
    dtypes: list[str]
    carried: bool
    captured: dict[str, gx.Value]
    fault: str
    twisted: int = 0
    scalars: int = 0
    stack: bool = False
    seeds: dict[str, int] = field(default_factory=dict)

    def chance(self, how: float) -> bool:
        """True with this probability."""
        return bool(self.random.random() < how)

    def pick(self, items: Any) -> Any:
        """One of some."""
        return items[int(self.random.integers(len(items)))]

    # --- whether lanes go on ---------------------------------------------------------------------

    def test(self, lanes: Lanes, s: Any, i: Any, name: str = "test") -> Any:
        """Whether lanes go on; the same for the same name, but for the order of operands."""
        # all choices that matter are made once, so that a name stands for one value
        fixed = np.random.default_rng(self.seeds.setdefault(name, int(self.random.integers(9999))))
        number = int(fixed.integers(len(lanes)))
        found = self._against(lanes[number], float(fixed.choice([0.5, 2.0, 9.0])))
        if fixed.random() < 0.4:
            second = self._against(lanes[int(fixed.integers(len(lanes)))], 30.0)
            swap, both = self.chance(0.5), (gx.logical_and, gx.logical_or)[int(fixed.integers(2))]
            found = both(second, found) if swap else both(found, second)
        if fixed.random() < 0.25:
            found = gx.logical_and(found, self.captured["mask"])
        if fixed.random() < 0.1:
            found = gx.logical_not(gx.logical_not(found))
        if self.fault == "counter in goes":
            found = gx.logical_and(found, i < 5)
        if self.fault == "scalar in goes":
            found = gx.logical_and(found, s < 4.0)
        return found

    def _against(self, lane: Any, limit: float) -> Any:
        if lane.dtype == "bool":
            return lane
        if lane.dtype in ("int32", "int8"):
            return lane < int(limit * 4)
        if limit == 9.0:
            w = self.captured["w"].astype(lane.dtype)
            return gx.abs(lane) < gx.abs(w) + 2
        return lane * lane < limit

    # --- variables -------------------------------------------------------------------------------

    def moved(self, lanes: Lanes, number: int, s: Any, i: Any) -> Any:
        """What a lane comes to that goes on."""
        x = lanes[number]
        others = [lane for lane in lanes if lane.dtype == x.dtype]
        y = self.pick(others)
        if x.dtype == "bool":
            return self.pick([
                lambda: gx.logical_not(x), lambda: gx.logical_and(x, self.captured["mask"]),
                lambda: gx.logical_or(x, y), lambda: y,
            ])()  # fmt: skip
        if x.dtype in ("int32", "int8"):
            return self.pick([
                lambda: x + 1, lambda: x - y, lambda: y + 3, lambda: gx.maximum(x, y) + 1,
                lambda: x + i.astype(x.dtype),
            ])()  # fmt: skip
        w = self.captured["w"].astype(x.dtype)
        return self.pick([
            lambda: x * x + w, lambda: x * 1.5, lambda: x + 0.25, lambda: y, lambda: x - y + w,
            lambda: gx.minimum(x * 2.0, y), lambda: gx.maximum(y, w) + 0.5, lambda: -x,
            lambda: x + s.astype(x.dtype), lambda: gx.where(x < y, x + 1.0, y * 2.0),
        ])()  # fmt: skip

    def kept(self, going: Any, new: Any, old: Any) -> Any:
        """The new value where a lane goes on, else the old one, in one of its spellings."""
        mask, further = self.captured["mask"], self.captured["more"]
        ways = [
            lambda: gx.where(going, new, old),
            lambda: gx.where(gx.logical_not(going), old, new),
            lambda: gx.where(going, gx.where(mask, new, old), old),
            lambda: gx.where(mask, gx.where(going, new, old), old),
            lambda: gx.where(gx.logical_and(mask, going), new, old),
            lambda: gx.where(gx.logical_and(going, further), new, old),
            lambda: gx.where(gx.logical_or(gx.logical_not(going), mask), old, new),
            lambda: gx.where(gx.logical_or(mask, gx.logical_not(going)), old, new),
        ]
        if old.dtype in ("int32", "int8"):
            one = going.astype(old.dtype)
            ways += [
                lambda: old + one, lambda: one + old, lambda: old - one,
                lambda: old + gx.where(going, new, 0), lambda: gx.where(going, new, 0) + old,
                lambda: old - gx.where(going, new, 0),
                lambda: old + gx.logical_and(mask, going).astype(old.dtype),
            ]  # fmt: skip
        if old.dtype == "bool":
            ways += [
                lambda: gx.logical_or(old, gx.logical_and(going, new)),
                lambda: gx.logical_and(old, gx.logical_or(gx.logical_not(going), new)),
            ]
        return self.pick(ways)()

    def step(self, lanes: Lanes, going: Any, s: Any, i: Any) -> Lanes:
        """The variables after a trip."""
        found = []
        for number, old in enumerate(lanes):
            new = self.moved(lanes, number, s, i)
            if self.fault and number == self.twisted:
                found.append(self._broken(going, new, old, lanes, s, i))
            elif self.chance(0.1):
                found.append(old)
            else:
                found.append(self.kept(going, new, old))
        return found

    def _broken(self, going: Any, new: Any, old: Any, lanes: Lanes, s: Any, i: Any) -> Any:
        others = [x for x in lanes if x.dtype == old.dtype and x is not old] or [new]
        other = self.pick(others)
        if self.fault == "moves":
            return new
        if self.fault == "other test":
            return gx.where(self.test(lanes, s, i, "other"), new, old)
        if self.fault == "other variable":
            return gx.where(going, new, other)
        if self.fault == "exchange":
            return other
        if self.fault == "float zero" and old.dtype in FLOATS:
            return old + gx.where(going, new, gx.zeros_like(new))
        if self.fault == "grows" and old.dtype != "bool":
            return gx.maximum(old, gx.where(going, new, new + new))
        return self.kept(going, new, old)

    # --- the loop --------------------------------------------------------------------------------

    def loop(self, start: Lanes, limit: Any) -> list[Any]:
        """The results: lanes, and whatever else is read."""
        goes = [self._first_goes(start)] if self.carried else []
        more = [gx.constant(np.float64(0.5))] * self.scalars
        stack = [gx.zeros((40, *self.shape), "float64")] if self.stack else []
        count = len(start)
        whole = "all" if self.fault == "all" else "any"

        def parts(values: Any) -> tuple[Lanes, Any, Lanes]:
            lanes, left = list(values[:count]), list(values[count:])
            return lanes, left[0] if self.carried else None, left[len(goes) :]

        def condition(i: Any, *values: Any) -> Any:
            lanes, going, left = parts(values)
            s = left[0] if self.scalars else gx.constant(np.float64(1.0))
            told = going if self.carried else self.test(lanes, s, i)
            return gx.logical_and(i < limit, getattr(gx, whole)(told))

        def body(i: Any, *values: Any) -> Any:
            lanes, going, left = parts(values)
            s = left[0] if self.scalars else gx.constant(np.float64(1.0))
            name = "other" if self.fault == "old test" and not self.carried else "test"
            going = going if self.carried else self.test(lanes, s, i, name)
            found = self.step(lanes, going, s, i)
            following = []
            if self.carried:
                known = lanes if self.fault == "old test" else found
                told = self.test(known, s, i)
                following = [gx.logical_and(going, told) if self.fault == "bound alone" else told]
            scalars = [each * 1.5 for each in left[: self.scalars]]
            rows = [each.at[i].set(lanes[0].astype("float64")) for each in left[self.scalars :]]
            return i + 1, *found, *following, *scalars, *rows

        found = list(gx.while_loop(condition, body, (0, *start, *goes, *more, *stack)))
        wanted = [value for value in found[1 : count + 1 + len(goes)] if not self.chance(0.15)]
        read = found[count + 1 + len(goes) :] if self.chance(0.1) or self.stack else []
        return [*(wanted or found[1:2]), *read]

    def _first_goes(self, start: Lanes) -> Any:
        if self.fault == "no start":
            return self.pick([
                lambda: self.captured["mask"],
                lambda: gx.zeros(self.shape, "bool"),
                lambda: self.test(start, gx.constant(np.float64(1.0)), gx.constant(np.int64(0))),
            ])()  # fmt: skip
        ways: list[Callable[[], Any]] = [lambda: gx.ones(self.shape, "bool")]
        if all(isinstance(size, int) for size in self.shape):
            ways.append(lambda: gx.constant(np.ones(self.shape, "bool")))
            column = (*self.shape[:-1], 1)
            ways.append(lambda: gx.broadcast_to(gx.constant(np.ones(column, "bool")), self.shape))
        return self.pick(ways)()


def _array(random: Random, shape: tuple[int, ...], dtype: str) -> Any:
    if dtype == "bool":
        return random.random(shape) < 0.6
    if dtype in ("int32", "int8"):
        return random.integers(-9, 9, shape).astype(dtype)
    values = random.uniform(-2, 2, shape)
    flat = values.reshape(-1)
    places = random.permutation(flat.size)[: min(len(SPECIAL), flat.size // 2)]
    flat[places] = random.permutation(np.array(SPECIAL))[: len(places)]
    with np.errstate(all="ignore"):
        return values.astype(as_dtype(dtype).numpy)


def own_trip_loop(random: Random, shape: tuple[int, ...]) -> Program:
    """A random loop over lanes of this shape, in a graph of its own."""

    def chance(how: float) -> bool:
        return bool(random.random() < how)

    main = str(random.choice(FLOATS))
    dtypes = [main] + [
        str(random.choice([main, main, *FLOATS, *OTHERS])) for _ in range(int(random.integers(4)))
    ]
    if chance(0.15):
        dtypes[0] = str(random.choice(OTHERS))
    frame = str(random.choice(FRAMES))
    if frame == "gradient":
        dtypes = ["float64", *(each for each in dtypes if each not in FLOATS)]
    named: tuple[Any, ...] = shape
    if chance(0.3):
        named = tuple(f"n{axis}" if chance(0.7) else size for axis, size in enumerate(shape))
    trips = int(random.choice([0, 1, 2, 9, 33]))
    feeds: dict[gx.Value, Any] = {}
    with gx.Graph():
        def feed(array: Any, dims: Any, dtype: str) -> gx.Value:
            value = gx.placeholder(dims, dtype)
            feeds[value] = array
            return value

        captured = {
            "mask": feed(_array(random, shape, "bool"), named, "bool"),
            "more": feed(_array(random, shape, "bool"), named, "bool"),
            "w": feed(_array(random, shape, "float64"), named, "float64"),
        }
        # sizes that a run tells are those of a value
        sizes = captured["mask"].shape
        start: Lanes = []
        for dtype in dtypes:
            if start and chance(0.15) and start[-1].dtype == dtype:
                start.append(start[-1])
            elif chance(0.2):
                start.append(gx.zeros(sizes, dtype))
            else:
                start.append(feed(_array(random, shape, dtype), named, dtype))
        limit: Any = trips
        if chance(0.1):
            limit = feed(np.int64(trips), (), "int64")
        elif chance(0.1):
            rows = feed(np.zeros(trips), ("rows",), "float64")
            limit = gx.dim(rows.shape[0])
        fault = str(random.choice(FAULTS)) if chance(0.35) else ""

        def made(given: Lanes) -> list[Any]:
            maker = _Maker(
                random, sizes, dtypes, chance(0.6), captured, fault,
                twisted=int(random.integers(len(dtypes))),
                scalars=int(chance(0.25) or fault == "scalar in goes"), stack=chance(0.08),
            )  # fmt: skip
            return maker.loop(given, limit)

        fetches = _framed(frame, made, start, feed, random)
    return Program(fetches, feeds, fault, frame)


def _framed(
    frame: str, made: Callable[[Lanes], list[Any]], start: Lanes, feed: Any, random: Random
) -> list[Any]:
    """The results of a loop in what stands around it."""
    if frame == "cond":
        which = feed(np.bool_(random.random() < 0.8), (), "bool")
        return list(gx.cond(which, lambda: _by_type(made(start), start), lambda: start))
    if frame == "loop":
        def again(i: Any, values: Any) -> Any:
            return tuple(_by_type(made(list(values)), list(values)))

        return list(gx.fori_loop(0, 3, again, tuple(start)))
    if frame == "gradient":
        found = made(start)
        lanes = [value for value in found if value.dtype == "float64" and value.shape]
        if not lanes:
            return found
        total = sum((gx.sum(value) for value in lanes[1:]), start=gx.sum(lanes[0]))
        return found + list(gx.gradients(total, [start[0]], unconnected="zeros"))
    if frame.startswith("two"):
        first = made(start)
        second = made(_by_type(first, start))
        return [*first[:1], *second] if frame == "two" else second
    return made(start)


def _by_type(found: list[Any], start: Lanes) -> Lanes:
    """Results of the types of the first values; these where there is none."""
    left, chosen = list(found), []
    for value in start:
        same = [each for each in left if each.dtype == value.dtype and each.shape == value.shape]
        chosen.append(same[0] if same else value)
        if same:
            left = [each for each in left if each is not same[0]]
    return chosen


def own_trips(executable: gx.Executable) -> int:
    """How many loops there are in kernels of which lanes run trips of their own."""
    bodies = [node.regions[0] for node in executable.graph.walk() if node.op is fused_op]
    forms = [form for body in bodies if runs_loops(body) for form in lane_body(body).forms.values()]
    return sum(form.goes_on is not None for form in forms)


__all__ = ["Program", "own_trip_loop", "own_trips"]
