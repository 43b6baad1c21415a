"""What a scalar of a kernel is while code is emitted for some lanes, and how it lies in memory."""

from __future__ import annotations

from dataclasses import dataclass

from graphc.codegen.llvm.instructions import Reg, is_literal


@dataclass(frozen=True, slots=True)
class Linear:
    """An int64 that grows by ``stride`` from lane to lane; ``base`` is lane 0."""

    base: Reg
    stride: Reg


Binding = Reg | Linear


@dataclass(frozen=True, slots=True)
class Held:
    """What some lanes have just left in scratch. A load of some lanes would wait until the store of
    some lanes has reached the cache."""

    base: Reg
    place: Linear
    mask: Reg
    value: Reg

    def is_at(self, base: Reg, place: Binding, mask: Reg | None) -> bool:
        """Whether a load of those lanes from that place of a buffer finds it."""
        return (
            isinstance(place, Linear)
            and base.text == self.base.text
            and place.base.text == self.place.base.text
            and is_literal(place.stride, 1)
            and mask is not None
            and mask.text == self.mask.text
        )
