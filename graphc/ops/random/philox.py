"""Philox 4x32-10: the generator, and the operations that apply it.

Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11; the
words are those of the authors' Random123. A block of four 32-bit words is a function of a counter
of four words and a key of two, so any element of a result is computed from its index alone. That is
why numbers depend on no thread, order, fusion or target.

The words of a key's stream follow each other as the bytes of a little-endian array: element i of 32
bits is word i mod 4 of the block i div 4, and elements of other widths are these bytes seen
otherwise. The third word of the counter is 0 and the fourth says what the stream is for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.base.errors import DTypeError, ShapeError
from graphc.ir.attributes import Attributes
from graphc.ir.dims.expressions import equal
from graphc.ir.dtypes import DType, float32, float64, uint8, uint16, uint32, uint64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.lowering import Element, ElementBuilder, Scalar
from graphc.ir.op import Domain, Flat, OpDef, register
from graphc.ir.types import TensorType
from graphc.ops.guards import show
from graphc.ops.lanes import Lane, array_of, lanes
from graphc.ops.random.elements import cos_sin, log_of, minus_log

_LOW = 0xFFFFFFFF
_FACTORS = (0xD2511F53, 0xCD9E8D57)
_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10

DRAWS, KEYS, FOLDS = range(3)
"""What streams are for, which the fourth word of their counters says."""


def philox(counter: Sequence[Lane], key: Sequence[Lane]) -> list[Lane]:
    """The four words of a block, each in the low half of a uint64; the high halves are open.

    Counter and key are words in uint64 as well. A product of two masked words is one instruction on
    vectors, which takes no notice of the high halves, so only its operands are masked.
    """
    a, b, c, d = counter
    k, m = key
    for number in range(ROUNDS):
        if number:
            k, m = k + _STEPS[0], m + _STEPS[1]
        p, q = (a & _LOW) * _FACTORS[0], (c & _LOW) * _FACTORS[1]
        a, b, c, d = (q >> 32) ^ b ^ k, q, (p >> 32) ^ d ^ m, p
    return [a, b, c, d]


def _block(number: Lane, key: Sequence[Lane], purpose: int) -> list[Lane]:
    """The words of a numbered block of a stream."""
    wide = number.to(uint64)
    return philox([wide, wide >> 32, wide.like(0), wide.like(purpose)], key)


def _is_even(index: Lane, bit: int = 1) -> Lane:
    return (index & bit).of("equal", 0)


def _pair(index: Lane, key: Sequence[Lane], purpose: int, bits: int) -> tuple[Lane, Lane]:
    """The elements of so many bits at an even index and behind it, for an index halved."""
    if bits == 64:
        a, b, c, d = _block(index, key, purpose)
        return (a & _LOW) | (b << 32), (c & _LOW) | (d << 32)
    a, b, c, d = (word.to(uint32) for word in _block(index >> 1, key, purpose))
    first = _is_even(index)
    return first.where(a, c), first.where(b, d)


def _bits(index: Lane, key: Sequence[Lane], purpose: int, bits: int) -> Lane:
    """The element of so many bits at an index of the stream."""
    if bits < 32:
        times = 32 // bits
        word = _bits(index >> (times.bit_length() - 1), key, purpose, 32)
        shift = (index & (times - 1)).to(uint32) * bits
        return (word >> shift).to(uint8 if bits == 8 else uint16)
    even, odd = _pair(index >> 1, key, purpose, bits)
    return _is_even(index).where(even, odd)


# --- laws ----------------------------------------------------------------------------------------

Law = Callable[[Lane, Sequence[Lane], int, DType], Lane]


@dataclass(frozen=True, slots=True)
class _OfWord:
    """A law by which an element is a function of as many bits as it has."""

    function: Callable[[Lane, DType], Lane]

    def __call__(self, index: Lane, key: Sequence[Lane], purpose: int, dtype: DType) -> Lane:
        return self.function(_bits(index, key, purpose, dtype.bits), dtype)


def _normal(index: Lane, key: Sequence[Lane], purpose: int, dtype: DType) -> Lane:
    """Box and Muller's: two elements from two words."""
    one, other = _pair(index >> 1, key, purpose, dtype.bits)
    radius = (minus_log(one, dtype) * 2.0).of("sqrt")
    x, y = cos_sin(other, dtype)
    return radius * _is_even(index).where(x, y)


def _cauchy(word: Lane, dtype: DType) -> Lane:
    """The tangent of an angle that is uniform in a turn."""
    x, y = cos_sin(word, dtype)
    return y / x


def _laplace(word: Lane, dtype: DType) -> Lane:
    """An exponential of all bits but the first, which is the sign."""
    size = minus_log(word << 1, dtype)
    return word.of("less", 1 << (word.dtype.bits - 1)).where(size, -size)


def _uniform(word: Lane, dtype: DType) -> Lane:
    """The leading bits of a word, as many as a float has, as a fraction: k / 2**24 or k / 2**53."""
    kept = dtype.format.significand
    signed = as_dtype(f"int{word.dtype.bits}")
    return (word >> (word.dtype.bits - kept)).to(signed).to(dtype) * 2.0**-kept


LAWS: dict[str, Law] = {
    "bits": _OfWord(lambda word, dtype: word),
    "cauchy": _OfWord(_cauchy),
    "exponential": _OfWord(minus_log),
    "gumbel": _OfWord(lambda word, dtype: -log_of(minus_log(word, dtype))),
    "laplace": _OfWord(_laplace),
    "logistic": _OfWord(lambda word, dtype: minus_log(~word, dtype) - minus_log(word, dtype)),
    "normal": _normal,
    "uniform": _OfWord(_uniform),
}
"""What an element of a draw is, by its index in the stream."""

# --- operations ----------------------------------------------------------------------------------


def check_key(name: str, key: TensorType) -> None:
    """Refuses what is no key.

    Raises:
        DTypeError: for another dtype than uint32.
        ShapeError: for another shape than [2].
    """
    hint = "a key is what gx.random.key(seed) gives, and split and fold_in make of it"
    if key.dtype is not uint32:
        raise DTypeError(f"{name} takes a key, a uint32[2], not {key.dtype}", hint=hint)
    if key.rank != 1 or equal(key.shape[0], 2) is False:
        raise ShapeError(f"{name} takes a key of shape [2], not {show(key.shape)}", hint=hint)


def _draw_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    check_key(attrs["law"], inputs[0])
    return [TensorType(attrs["dtype"], attrs["shape"])]


def _flat(b: ElementBuilder, result: TensorType, index: Sequence[Scalar]) -> Scalar:
    """The place of an element in row-major order."""
    flat: Scalar | None = None
    for place, size in zip(index, result.shape, strict=True):
        flat = place if flat is None else b.apply(
            "add", b.apply("multiply", flat, b.dim(size)), place
        )  # fmt: skip
    return b.dim(0) if flat is None else flat


def _draw_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    key = [Lane(b, b.load(0, [b.dim(place)])).to(uint64) for place in range(2)]
    place = Lane(b, _flat(b, result, index))
    found: Scalar = LAWS[attrs["law"]](place, key, attrs["purpose"], attrs["dtype"]).scalar
    return found


def _draw_reference(
    key: Any, *, law: str, shape: Sequence[int], dtype: DType, purpose: int
) -> Any:
    words = lanes(*np.asarray(key, np.uint64))
    (index,) = lanes(np.arange(int(np.prod(shape, dtype=np.int64)), dtype=np.int64))
    # an array of one element and a number are not told apart by primitives
    index = Lane(words[0].b, index.scalar)
    drawn = LAWS[law](index, words, purpose, dtype)
    return array_of(drawn, (index.scalar.array.size,)).reshape(tuple(shape))


def _draw_example(random: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    laws = [law for law in LAWS if element.is_float or law == "bits"]
    law = laws[int(random.integers(len(laws)))] if element.is_float else "bits"
    if law == "bits" and element.is_float:
        law = "normal"
    key = random.integers(0, 1 << 32, 2, dtype=np.uint32)
    return [key], {"law": law, "shape": (3, 7), "dtype": element, "purpose": DRAWS}


draw_op = register(
    OpDef(
        name="random",
        doc=(
            "Numbers of a law, of a shape and dtype, from the stream of a key: a function of the "
            "key and the index of each element, the same wherever it runs. `bits` are of unsigned "
            "integers, other laws of floats."
        ),
        infer=_draw_type,
        reference=_draw_reference,
        derivative=Flat(),
        lowering=Element(_draw_rule),
        domain=Domain(
            (uint8, uint16, uint32, uint64, float32, float64), example=_draw_example
        ),
    )
)


def _philox_type(inputs: Sequence[TensorType], attrs: Attributes) -> list[TensorType]:
    key, counter = inputs
    check_key("philox", key)
    if counter.dtype is not uint32:
        raise DTypeError(f"philox takes counters of uint32, not {counter.dtype}")
    if counter.rank == 0 or equal(counter.shape[-1], 4) is False:
        raise ShapeError(f"philox takes counters of shape [..., 4], not {show(counter.shape)}")
    return [counter]


def _philox_rule(
    b: ElementBuilder,
    inputs: Sequence[TensorType],
    result: TensorType,
    attrs: Attributes,
    index: Sequence[Scalar],
) -> Scalar:
    key = [Lane(b, b.load(0, [b.dim(place)])).to(uint64) for place in range(2)]
    counter = [Lane(b, b.load(1, [*index[:-1], b.dim(k)])).to(uint64) for k in range(4)]
    found: Scalar = _word_at(Lane(b, index[-1]), philox(counter, key)).scalar
    return found


def _word_at(number: Lane, words: Sequence[Lane]) -> Lane:
    """The word of a number."""
    a, b, c, d = (word.to(uint32) for word in words)
    first = _is_even(number)
    return _is_even(number, 2).where(first.where(a, b), first.where(c, d))


def _philox_reference(key: Any, counter: Any) -> Any:
    words = [np.asarray(counter[..., k], np.uint64) for k in range(4)]
    every = lanes(*words, *np.asarray(key, np.uint64))
    drawn = philox(every[:4], every[4:])
    shape = counter.shape[:-1]
    return np.stack([array_of(word.to(uint32), shape) for word in drawn], axis=-1)


def _philox_example(random: Any, element: DType) -> tuple[Sequence[Any], dict[str, Any]]:
    words = random.integers(0, 1 << 32, 14, dtype=np.uint32)
    return [words[:2], words[2:].reshape(3, 4)], {}


philox_op = register(
    OpDef(
        name="philox",
        doc="The block of four words that Philox 4x32-10 makes of a key and each counter.",
        infer=_philox_type,
        reference=_philox_reference,
        derivative=Flat(),
        lowering=Element(_philox_rule),
        domain=Domain((uint32,), example=_philox_example),
    )
)
