"""What a scalar of a kernel is while code is emitted for some lanes, and how it lies in memory."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from graphc.codegen.llvm.instructions import Reg, is_literal


@dataclass(frozen=True, slots=True)
class LinearLanes:
    """An int64 that grows by ``stride`` from lane to lane; ``base`` is lane 0.

    Of a loop's index, ``base`` is known to be a multiple of ``aligned``, a power of two.
    """

    base: Reg
    stride: Reg
    aligned: int = 1


@dataclass(frozen=True, slots=True)
class Repeated:
    """A value on which ``times`` neighbouring lanes agree; ``groups`` has a lane for each group."""

    groups: Reg | LinearLanes
    times: int


@dataclass(frozen=True, slots=True)
class KnownLanes:
    """Numbers of lanes that are known while code is emitted."""

    lanes: tuple[bool | int | float, ...]


Binding = Reg | LinearLanes | Repeated | KnownLanes


@dataclass(frozen=True, slots=True)
class Held:
    """What some lanes have just left in scratch. A load of some lanes would wait until the store of
    some lanes has reached the cache."""

    base: Reg
    place: LinearLanes
    mask: Reg
    value: Reg

    def is_at(self, base: Reg, place: Binding, mask: Reg | None) -> bool:
        """Whether a load of those lanes from that place of a buffer finds it."""
        return (
            isinstance(place, LinearLanes)
            and base.text == self.base.text
            and place.base.text == self.place.base.text
            and is_literal(place.stride, 1)
            and mask is not None
            and mask.text == self.mask.text
        )


@dataclass(frozen=True, slots=True)
class Vectors:
    """The vectors that loads of one period share (``graphc.kernel.analysis.periods``).

    Attributes:
        context: in which iterations, and lanes.
        vectors: the elements of the period, in order.
        starts: where in the period each vector starts.
    """

    context: Hashable
    vectors: Sequence[Reg]
    starts: Sequence[int]
