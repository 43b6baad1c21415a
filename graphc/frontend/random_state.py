"""Random numbers with a state: keys that follow each other, from a variable of the graph.

The state is a seed and how many keys were taken, uint64[2]. Taking a key writes the variable and
makes the key of what was written: so a run that uses a key advances the state, keys of one run
differ in whatever order they are used, and neither is a key taken twice nor are two merged. Like
all variables it is saved, restored and carried through branches and loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, GraphError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.frontend.state import Variable, variable
from graphc.ir.attributes import Array
from graphc.ir.builder import building
from graphc.ir.recorder import Recorder, current_recorder
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole
from graphc.ops.random.keys import fold_in, key

NAME = "random_state"
"""What the variable of a graph's own generator is called."""


def state_of(seed: Any) -> Array:
    """The state before the first key of a seed.

    Raises:
        DTypeError: for what is no seed.
    """
    if not is_whole(seed) or not -(2**63) <= seed < 2**64:
        raise DTypeError(
            f"a seed is {shown(seed)}", where=caller(), hint="a seed is an int of up to 64 bits"
        )
    return np.array([int(seed) % 2**64, 0], np.uint64)


class Generator:
    """A source of keys whose state is a variable of the graph.

    Attributes:
        state: the variable, uint64[2]: the seed, and how many keys were taken.

    Args:
        seed: an int of up to 64 bits.
        name: the variable's name.
    """

    def __init__(self, seed: int = 0, name: str | None = None) -> None:
        self.state: Variable = variable(state_of(seed), name, trainable=False)

    def next_key(self) -> Value:
        """The next key; a run that uses it advances the state.

        The n-th key since the seed is ``fold_in(key(seed), n)``, counted from 1.
        """
        return _next(self.state)


def next_key() -> Value:
    """The next key of the graph's own generator; a run that uses it advances the generator.

    The generator is a variable called "random_state", made when first asked for. It begins with
    seed 0, or with that of ``Session(seed=...)``. Within one run keys differ in the order of
    building, in a loop from iteration to iteration; what is fetched beside makes no difference.
    The n-th key since the seed is ``fold_in(key(seed), n)``, counted from 1.

    Raises:
        GraphError: if the graph has another variable of that name.
    """
    recorder = current_recorder()
    while recorder.parent is not None:
        recorder = recorder.parent
    state = own_state(recorder)
    if state is None:
        with building(recorder):
            state = variable(state_of(0), NAME, trainable=False)
    return _next(state)


def own_state(recorder: Recorder) -> Variable | None:
    """The variable of a graph's own generator, if it has one.

    Raises:
        GraphError: for a variable of that name which is none.
    """
    for value in recorder.variables:
        if value.name == NAME and isinstance(value, Variable):
            if value.shape != (2,) or value.dtype != "uint64":
                raise GraphError(
                    f"the variable {NAME!r} of {value.type.brief()} is no state of a generator",
                    where=caller(),
                    hint="call it otherwise, or take keys of a gx.random.Generator",
                )
            return value
    return None


def _next(state: Variable) -> Value:
    after = state.assign(state.read() + np.array([0, 1], np.uint64))
    return fold_in(key(after[0]), after[1])


__all__ = ["NAME", "Generator", "next_key", "own_state", "state_of"]
