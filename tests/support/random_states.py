"""Operations of random programs that read and write variables, and how such programs are run.

Variables stand among the values like placeholders, so any operation may read an old value. The
steps here write: assignments of what was computed, of the variable itself in another order, inside
of branches and loops, optimisers. Operations are bent until they fit, as in ``random_programs``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from random_operations import Maker, Step
from random_programs import Program, Recipe, sample
from random_spellings import MORE

import graphc as gx
from graphc.checking.compare import difference

Made = tuple[Any, tuple[int, ...]]


def _variable(m: Maker, number: int) -> Any:
    return m.variables[number % len(m.variables)]


def _fitted(value: Any, shape: tuple[int, ...], variable: Any) -> Any:
    """A value that a variable can be given: itself, repeated, or the sum of its elements."""
    value = value.astype(variable.dtype)
    if shape == variable.shape:
        return gx.reshape(value, shape)
    is_static = all(isinstance(dim, int) for dim in value.shape)
    if is_static and len(shape) <= len(variable.shape):
        pairs = zip(reversed(shape), reversed(variable.shape), strict=False)
        if all(one in (1, two) for one, two in pairs):
            return value
    if variable.dtype.kind == "bool":
        return gx.any(value)
    return gx.sum(value).astype(variable.dtype)


def _wrote(m: Maker, variable: Any, new: Any) -> Made:
    m.written.append(new)
    return new, variable.shape


def _assign(m: Maker, a: int, b: int, c: int) -> Made:
    variable = _variable(m, b)
    return _wrote(m, variable, variable.assign(_fitted(*m.pick(a), variable)))


def _add(m: Maker, a: int, b: int, c: int) -> Made:
    variable = _variable(m, b)
    value = _fitted(*m.pick(a), variable)
    if variable.dtype.kind == "bool":
        return _wrote(m, variable, variable.assign(variable.read() ^ value))
    change = variable.assign_add if c % 2 else variable.assign_sub
    return _wrote(m, variable, change(value))


def _decay(m: Maker, a: int, b: int, c: int) -> Made:
    """What a step of training does: the old value, or the latest, and something small.

    Like the next one it is run for itself: what is fetched lies in the memory of the caller.
    """
    variable = _variable(m, b)
    before = variable.read() if c % 2 else variable
    value = _fitted(*m.pick(a), variable)
    if variable.dtype.is_float:
        new = variable.assign(before * 0.75 - value * 0.125)
    else:
        new = variable.assign(gx.where(value > before, value, before))
    m.effects.append(gx.group(new))
    return m.pick(a)


def _turned(m: Maker, a: int, b: int, c: int) -> Made:
    """A variable in another order, which can't be written where it is read."""
    variable = _variable(m, b)
    shape = variable.shape
    if not shape:
        new = variable.read()
    elif c % 4 == 0:
        new = variable[::-1]
    elif c % 4 == 1 and len(shape) == 2:
        new = gx.reshape(gx.transpose(variable), shape)
    elif c % 4 == 2 and variable.dtype.is_float and all(shape):
        new = gx.softmax(variable, axis=-1 - c % len(shape))
    elif variable.dtype.kind == "bool":
        new = ~variable[..., ::-1]
    else:
        new = gx.cumsum(variable, axis=b % len(shape))
    if new.dtype.kind != "bool" and b % 2:
        new = new - variable
    m.effects.append(gx.group(variable.assign(new)))
    return m.pick(a)


def _swap(m: Maker, a: int, b: int, c: int) -> Made:
    """Two variables get each other's old values, or the one that of the other."""
    one = _variable(m, a)
    other = next((v for v in m.variables if v.type == one.type and v is not one), one)
    m.effects.append(gx.group(one.assign(other), *[other.assign(one)] * (c % 2)))
    return one.read(), one.shape


def _read(m: Maker, a: int, b: int, c: int) -> Made:
    """Before and after what has been assigned up to here."""
    variable = _variable(m, a)
    after = variable.read()
    if b % 3 == 0:
        return after, variable.shape
    if variable.dtype.kind == "bool":
        return variable ^ after, variable.shape
    return (variable - after if c % 2 else after * variable), variable.shape


def _controlled(m: Maker, a: int, b: int, c: int) -> Made:
    """Something that brings about assignments on which it doesn't depend."""
    value, shape = m.floats(a)
    effects = [*m.written[-1 - b % 3 :], *m.effects[-1 - c % 2 :]]
    with gx.control_dependencies(effects):
        value = value * 2.0
        if c % 3 == 0:
            variable = _variable(m, b)
            m.effects.append(gx.group(variable.assign(_fitted(value, shape, variable))))
    return value, shape


def _group(m: Maker, a: int, b: int, c: int) -> Made:
    if m.written:
        m.effects.append(gx.group(m.written[-1 - b % 3 :], *m.effects[-1 - c % 2 :]))
    return m.pick(a)


def _in_branch(m: Maker, a: int, b: int, c: int) -> Made:
    """One branch assigns, or both do."""
    (x, shape), variable = m.floats(a), _variable(m, b)
    value = _fitted(x, shape, variable)
    test = (x.astype("float32").sum() > 1.0) if c % 3 else gx.constant(bool(c % 2))

    def assigns() -> Any:
        variable.assign(value)
        return variable.read()

    def reads() -> Any:
        if c % 4 == 0:
            variable.assign(variable)
        return variable.read() if c % 2 else variable

    return gx.cond(test, assigns, reads), variable.shape


def _in_loop(m: Maker, a: int, b: int, c: int) -> Made:
    variable = _variable(m, b)
    value = _fitted(*m.pick(a), variable)
    trips = c % 4

    def body(count: Any, seen: Any) -> Any:
        if variable.dtype.kind == "bool":
            variable.assign(variable.read() ^ value)
        elif c % 3:
            variable.assign_add(value)
        else:
            variable.assign(gx.maximum(variable.read(), value) + seen)
        return count + 1, variable.read()

    start = gx.constant(0), variable.read() if b % 2 else gx.broadcast_to(value, variable.shape)
    result = gx.while_loop(lambda count, seen: count < trips, body, start)
    return result[1], variable.shape


def _fallible(m: Maker, a: int, b: int, c: int) -> Made:
    """A row whose number depends on data, and may be too large: then the run fails."""
    (x, shape), (y, _) = m.pick(a), m.pick(b)
    if not shape or not shape[0]:
        return x, shape
    index = gx.sum(y.astype("int64")) % (shape[0] + shape[0] // 2 + 1)
    return gx.take(x, index, axis=0), shape[1:]


_OPTIMIZERS: tuple[Callable[[], Any], ...] = (
    lambda: gx.optim.SGD(0.1), lambda: gx.optim.SGD(0.1, momentum=0.9),
    lambda: gx.optim.Adam(1e-2), lambda: gx.optim.AdamW(1e-2),
)  # fmt: skip


def _train(m: Maker, a: int, b: int, c: int) -> Made:
    """A step of an optimiser, where there is a derivative."""
    value, shape = m.floats(a)
    if b % 2:
        found = [v for v in m.variables if v.dtype is value.dtype and v.shape == shape]
        value = value * found[c % len(found)] if found else value
    loss = gx.mean(gx.tanh(value)) if np.prod(shape) else gx.sum(value)
    try:
        m.effects.append(_OPTIMIZERS[c % len(_OPTIMIZERS)]().minimize(loss))
    except (gx.GradientError, gx.UnsupportedError):
        pass
    except gx.GraphError as error:
        assert "train" in str(error)
    return loss, ()


WRITING: tuple[Step, ...] = (
    _assign, _assign, _add, _add, _decay, _decay, _decay, _turned, _turned, _turned, _swap, _read,
    _read, _controlled, _controlled, _group, _group, _in_branch, _in_loop, _train, _train,
    _fallible, _fallible,
)  # fmt: skip

STATEFUL: tuple[Step, ...] = (*MORE, *WRITING * (len(MORE) // len(WRITING)))
"""As many that write as others."""


def history(program: Program, recipe: Recipe, options: gx.Options) -> list[Any]:
    """All results of four runs after each other, and all variables after each.

    The third one fetches less and is fed a variable, so that other updates take place. Before the
    last one a variable is set. A run that fails gives nothing and leaves variables as they were.
    """
    session = gx.Session(program.graph, options=options)
    state = [
        value for node in program.graph.nodes for value in node.outputs
        if isinstance(value, gx.Variable)
    ]  # fmt: skip
    everything = [*program.fetches, *program.effects]
    less = [*program.effects[recipe.seed % 2 :: 2], *program.fetches[-1:], state[0]]
    rng = np.random.default_rng(recipe.seed)

    def another(value: Any, shape: tuple[int, ...]) -> Any:
        return sample(shape, value.dtype.numpy, rng, recipe.special)

    seen: list[Any] = []
    before = session.get(state)
    for number, fetches in enumerate((everything, everything, less, everything)):
        feeds = {value: another(value, array.shape) for value, array in program.feeds.items()}
        if number == 2:
            feeds[state[-1]] = another(state[-1], state[-1].shape)
        if number == 3:
            session.set({state[0]: another(state[0], state[0].shape)})
            before = session.get(state)
        try:
            results = session.run(fetches, feeds)
        except gx.IndexRangeError:
            after = session.get(state)
            assert all(difference(*pair) is None for pair in zip(before, after, strict=True))
            continue
        seen += [result for result in results if result is not None]
        before = session.get(state)
        seen += before
    return seen
