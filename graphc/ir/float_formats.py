"""Binary formats of floating-point numbers, by their parameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Specials = Literal["ieee", "fn", "fnuz"]
"""Which words are no numbers. ``ieee``: those with all bits of the exponent field, of which the
first are the infinities. ``fn``: those with all bits but the sign, which are NaN; there is no
infinity. ``fnuz``: that with the sign alone, which is NaN; there are neither infinities nor −0.
The names are those of the dtypes of ``ml_dtypes``."""


@dataclass(frozen=True, slots=True)
class FloatFormat:
    """A sign, an exponent field, a fraction.

    Attributes:
        exponent: bits of the exponent field.
        significand: bits of the significand, with the leading one, which is not stored.
        specials: which words are no numbers.
        shift: what the bias has beyond half the range of the exponent field.
    """

    exponent: int
    significand: int
    specials: Specials = "ieee"
    shift: int = 0

    @property
    def bits(self) -> int:
        """Bits of a word that holds a number."""
        return self.exponent + self.significand

    @property
    def fraction(self) -> int:
        """Stored bits of the significand."""
        return self.significand - 1

    @property
    def bias(self) -> int:
        """The exponent field of 1."""
        return (1 << (self.exponent - 1)) - 1 + self.shift

    @property
    def sign(self) -> int:
        """The word of the sign bit alone."""
        return 1 << (self.bits - 1)

    @property
    def has_infinity(self) -> bool:
        """Whether numbers beyond the range are infinite, and not NaN."""
        return self.specials == "ieee"

    @property
    def infinity(self) -> int:
        """The word of +inf: all bits of the exponent field."""
        assert self.has_infinity, "numbers beyond the range are NaN"
        return ((1 << self.exponent) - 1) << self.fraction

    @property
    def nan(self) -> int:
        """The word of a NaN that is quiet."""
        if self.specials == "ieee":
            return self.infinity | (1 << (self.fraction - 1))
        return self.sign if self.specials == "fnuz" else self.sign - 1

    @property
    def overflow(self) -> int:
        """The word that positive numbers beyond the range round to."""
        return self.infinity if self.has_infinity else self.nan

    def is_nan(self, word: int) -> bool:
        """Whether a word is a NaN."""
        if self.specials == "ieee":
            return word & (self.sign - 1) > self.infinity
        return word == self.nan if self.specials == "fnuz" else word & self.nan == self.nan

    @property
    def largest(self) -> float:
        """The largest finite number."""
        word = self.overflow - 1
        exponent, fraction = word >> self.fraction, word & ((1 << self.fraction) - 1)
        return float((1.0 + fraction * self.spacing) * 2.0 ** (exponent - self.bias))

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all bits of the significand."""
        return 2.0 ** (1 - self.bias)

    @property
    def spacing(self) -> float:
        """What lies between 1 and the next larger number."""
        return 2.0**-self.fraction

    @property
    def smallest(self) -> float:
        """The smallest positive number, a subnormal one."""
        return self.smallest_normal * self.spacing

    @property
    def largest_whole(self) -> int:
        """Whole numbers up to this magnitude are all numbers of the format."""
        return 1 << self.significand

    def holds(self, other: FloatFormat) -> bool:
        """Whether every number of another format is one of this, infinities and zeros included."""
        return (
            self.significand >= other.significand
            and self.largest >= other.largest
            and self.smallest <= other.smallest
            and (self.has_infinity or not other.has_infinity)
            and (self.specials != "fnuz" or other.specials == "fnuz")
        )


__all__ = ["FloatFormat", "Specials"]
