"""Discrete Fourier transforms as NumPy's: along an axis, along several, and what goes with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from graphc.base.errors import DTypeError, ShapeError
from graphc.base.source import caller
from graphc.base.words import shown
from graphc.ir.builder import apply
from graphc.ir.dims.expressions import Dim, dim_max
from graphc.ir.dtypes import DTypeLike, float32, float64
from graphc.ir.dtypes import dtype as as_dtype
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.arguments import one_or_more
from graphc.ops.complex.parts import conj, view_as_real_op, viewed_as_complex
from graphc.ops.convert import as_value, axes_of, axis_of, converted, dim_of, size_beside
from graphc.ops.creation import arange
from graphc.ops.declare import float_operand
from graphc.ops.fft.core import transform_pairs
from graphc.ops.fft.real import half_of, pairs_to_real, real_to_pairs
from graphc.ops.guards import Guards, unproved
from graphc.ops.move.shape import with_shape

Axes: TypeAlias = int | Sequence[int] | None
Sizes: TypeAlias = Any

_FORWARD = {"backward": "none", "ortho": "root", "forward": "length"}
_INVERSE = {"backward": "length", "ortho": "root", "forward": "none"}
_OTHER = {"backward": "forward", "ortho": "ortho", "forward": "backward"}

# --- arguments -----------------------------------------------------------------------------------


def _norm(norm: Any, name: str) -> str:
    """The norm by its name; None is "backward"."""
    if norm is None:
        return "backward"
    if not isinstance(norm, str) or norm not in _OTHER:
        raise ShapeError(
            f"{name}: norm is {shown(norm)}",
            where=caller(),
            hint='"backward", "ortho" or "forward"',
        )
    return norm


def _length(n: Any, size: Dim, name: str) -> Dim:
    """How many elements are transformed, of an axis of a size."""
    length = size if n is None else dim_of(n)
    _some(length, name)
    return length


def _some(length: Dim, name: str) -> Guards:
    """What is left to check of a length: it is 1 or more.

    Raises:
        ShapeError: where it is known not to be.
    """
    message = f"{name}: a transform of {{}} numbers"
    return unproved([(dim_max(length, 1), length)], message, length, hint="it needs one at least")


def _resized(value: Value, axis: int, length: Dim) -> Value:
    """The axis truncated, or padded with zeros."""
    size = value.shape[axis]
    if size == length:
        return value
    widths = [(0, 0)] * value.ndim
    widths[axis] = (0, length - size)
    result: Value = surface_function("pad")(value, widths)
    return result


def _moved(value: Value, source: int, target: int) -> Value:
    if source == target:
        return value
    result: Value = surface_function("moveaxis")(value, source, target)
    return result


def _pairs(value: Value) -> Value:
    """Elements of any dtype as pairs along a new last axis."""
    if value.dtype.is_complex:
        return apply(view_as_real_op, value)
    zeros = surface_function("zeros_like")(value)
    result: Value = surface_function("stack")([value, zeros], -1)
    return result


def _numbers(operand: Any) -> Value:
    """A complex operand as it is, any other as floats."""
    value = as_value(operand)
    return value if value.dtype.is_complex else float_operand(value)


def _real(operand: Any, name: str) -> Value:
    value = as_value(operand)
    if value.dtype.is_complex:
        raise DTypeError(
            f"{name} takes real numbers, not {value.dtype}",
            where=caller(),
            hint=f"take {name.replace('rfft', 'fft').replace('ihfft', 'ifft')}, or gx.real",
        )
    return float_operand(value)


# --- along an axis -------------------------------------------------------------------------------


def _along(value: Value, n: Any, axis: int, inverse: bool, norm: str, name: str) -> Value:
    place = axis_of(axis, value.ndim)
    length = _length(n, value.shape[place], name)
    pairs = _moved(_resized(_pairs(value), place, length), place, value.ndim - 1)
    scale = (_INVERSE if inverse else _FORWARD)[norm]
    made = transform_pairs(pairs, inverse, scale, name)
    return viewed_as_complex(_moved(made, value.ndim - 1, place))


def _half(value: Value, n: Any, axis: int, norm: str, name: str) -> Value:
    place, last = axis_of(axis, value.ndim), value.ndim - 1
    length = _length(n, value.shape[place], name)
    rows = _moved(_resized(value, place, length), place, last)
    made = real_to_pairs(rows, _FORWARD[norm], name)
    return viewed_as_complex(_moved(made, last, place))


def _back(value: Value, n: Any, axis: int, norm: str, name: str) -> Value:
    place, last = axis_of(axis, value.ndim), value.ndim - 1
    length = _length(n, 2 * (value.shape[place] - 1), name)
    pairs = _moved(_resized(_pairs(value), place, half_of(length)), place, last)
    return _moved(pairs_to_real(pairs, length, _INVERSE[norm], name), last, place)


def fft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The discrete Fourier transform along an axis: sums of a[j] exp(-2 pi i j k / n) over j.

    Args:
        a: of any dtype; the result is complex128 for float64, complex128 and integers of 32 bits
            and more, else complex64.
        n: the length of the transform, an int or a dim: the axis is truncated to it, or padded with
            zeros. The size of the axis unless given.
        axis: along which; another than the last is moved there and back.
        norm: what is divided by n: the inverse ("backward", which None means), this transform
            ("forward"), or both by its square root ("ortho").

    Any length is fast: one with a large prime factor is a convolution of two to three times the
    length (Bluestein's algorithm). The gradient is a transform too.

    Raises:
        ShapeError: for an axis that there isn't, and for a length below 1: here, or when the graph
            runs.
    """
    return _along(_numbers(a), n, axis, False, _norm(norm, "fft"), "fft")


def ifft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The inverse of ``fft``: sums of a[j] exp(2 pi i j k / n) over j, by default divided by n.

    Arguments and errors are those of ``fft``.
    """
    return _along(_numbers(a), n, axis, True, _norm(norm, "ifft"), "ifft")


def rfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The first n // 2 + 1 elements of the transform of a real axis; the others are their
    conjugates.

    It takes half the time of ``fft``, whose arguments and errors it has.

    Raises:
        DTypeError: for complex operands.
    """
    return _half(_real(a, "rfft"), n, axis, _norm(norm, "rfft"), "rfft")


def irfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The inverse of ``rfft``: n real elements from the first half of their transform.

    ``n`` is 2 (m - 1) for an axis of m elements unless given; an odd one must be. The imaginary
    part of the first element, and of the last for an even n, is ignored. Other arguments are those
    of ``fft``.
    """
    return _back(_numbers(a), n, axis, _norm(norm, "irfft"), "irfft")


def hfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The transform, which is real, of a Hermitian-symmetric axis.

    The first half of it is given, as ``irfft`` takes it; ``n`` is how many results there are.
    """
    other = _OTHER[_norm(norm, "hfft")]
    return _back(_conjugate(_numbers(a)), n, axis, other, "hfft")


def ihfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Value:
    """The inverse of ``hfft``: the first half of the inverse transform of a real axis."""
    other = _OTHER[_norm(norm, "ihfft")]
    return _conjugate(_half(_real(a, "ihfft"), n, axis, other, "ihfft"))


def _conjugate(value: Value) -> Value:
    return conj(value) if value.dtype.is_complex else value


# --- along several axes --------------------------------------------------------------------------


def _axes(value: Value, s: Sizes, axes: Axes, name: str) -> tuple[list[Any], list[int]]:
    """The lengths, None where they are the axes' own, and the axes."""
    rank = value.ndim
    sizes = None if s is None else list(one_or_more(s, "s"))
    if axes is None:
        count = rank if sizes is None else len(sizes)
        if count > rank:
            raise ShapeError(f"{name}: {count} sizes of {rank} axes", where=caller())
        places = list(range(rank - count, rank))
    else:
        places = [axis_of(axis, rank) for axis in one_or_more(axes, "axes")]
    if sizes is None:
        sizes = [None] * len(places)
    if len(sizes) != len(places):
        raise ShapeError(f"{name}: {len(sizes)} sizes for {len(places)} axes", where=caller())
    return [None if _is_own(size) else size for size in sizes], places


def _is_own(size: Any) -> bool:
    return size is None or (isinstance(size, int) and size == -1)


def _over_axes(a: Any, s: Sizes, axes: Axes, norm: Any, inverse: bool, name: str) -> Value:
    value, norm = _numbers(a), _norm(norm, name)
    sizes, places = _axes(value, s, axes, name)
    for size, place in reversed(list(zip(sizes, places, strict=True))):
        value = _along(value, size, place, inverse, norm, name)
    return value if value.dtype.is_complex else viewed_as_complex(_pairs(value))


def fftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None) -> Value:
    """The transforms along several axes, or all.

    Args:
        a: of any dtype.
        s: the length along each axis, as ``n`` of ``fft``; -1 or None for the size of the axis.
            Without axes they are of the last ones.
        axes: along which; one that is named twice is transformed twice.
        norm: as for ``fft``.

    Raises:
        ShapeError: if ``s`` and ``axes`` differ in length, and as for ``fft``.
    """
    return _over_axes(a, s, axes, norm, False, "fftn")


def ifftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None) -> Value:
    """The inverse of ``fftn``."""
    return _over_axes(a, s, axes, norm, True, "ifftn")


def fft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None) -> Value:
    """``fftn`` along the last two axes, or two others."""
    return _over_axes(a, s, axes, norm, False, "fft2")


def ifft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None) -> Value:
    """The inverse of ``fft2``."""
    return _over_axes(a, s, axes, norm, True, "ifft2")


def _last_of(places: Sequence[int], name: str) -> int:
    if not places:
        raise ShapeError(f"{name} along no axis", where=caller())
    return places[-1]


def _half_over(a: Any, s: Sizes, axes: Axes, norm: Any, name: str) -> Value:
    value, norm = _real(a, name), _norm(norm, name)
    sizes, places = _axes(value, s, axes, name)
    value = _half(value, sizes[-1] if sizes else None, _last_of(places, name), norm, name)
    for size, place in reversed(list(zip(sizes[:-1], places[:-1], strict=True))):
        value = _along(value, size, place, False, norm, name)
    return value


def _back_over(a: Any, s: Sizes, axes: Axes, norm: Any, name: str) -> Value:
    value, norm = _numbers(a), _norm(norm, name)
    sizes, places = _axes(value, s, axes, name)
    last = _last_of(places, name)
    for size, place in zip(sizes[:-1], places[:-1], strict=True):
        value = _along(value, size, place, True, norm, name)
    return _back(value, sizes[-1], last, norm, name)


def rfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None) -> Value:
    """``fftn`` of a real operand; the last of the axes has the first half, as in ``rfft``."""
    return _half_over(a, s, axes, norm, "rfftn")


def irfftn(a: Any, s: Any = None, axes: Axes = None, norm: str | None = None) -> Value:
    """The inverse of ``rfftn``; the size of the last axis is that of ``irfft``."""
    return _back_over(a, s, axes, norm, "irfftn")


def rfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None) -> Value:
    """``rfftn`` along the last two axes, or two others."""
    return _half_over(a, s, axes, norm, "rfft2")


def irfft2(a: Any, s: Any = None, axes: Axes = (-2, -1), norm: str | None = None) -> Value:
    """The inverse of ``rfft2``."""
    return _back_over(a, s, axes, norm, "irfft2")


# --- frequencies and order -----------------------------------------------------------------------


def _frequencies(places: Value, n: Dim, d: Any, dtype: DTypeLike | None, name: str) -> Value:
    element = float32 if dtype is None else as_dtype(dtype)
    if not element.is_float:
        raise DTypeError(f"frequencies are floats, not {element}", where=caller())
    places = with_shape(places, places.shape, _some(n, name))
    step = 1.0 / (size_beside(n, float64, places) * d)
    return converted(converted(places, float64) * step, element)


def fftfreq(n: Any, d: Any = 1.0, *, dtype: DTypeLike | None = None) -> Value:
    """The frequencies of the results of ``fft``: 0, 1, …, and then the negative ones, / (n d).

    Args:
        n: the length of the transform, an int or a dim.
        d: the distance of samples, a number or a scalar value.
        dtype: float32 unless given; it is computed in float64.
    """
    length = _length(n, 0, "fftfreq")
    places = arange(length)
    return _frequencies(
        surface_function("where")(
            surface_function("less")(places * 2, length), places, places - length
        ),
        length, d, dtype, "fftfreq",
    )  # fmt: skip


def rfftfreq(n: Any, d: Any = 1.0, *, dtype: DTypeLike | None = None) -> Value:
    """The frequencies of the results of ``rfft``, which are not negative; as ``fftfreq``."""
    length = _length(n, 0, "rfftfreq")
    return _frequencies(arange(half_of(length)), length, d, dtype, "rfftfreq")


def _rolled(x: Any, axes: Axes, shift: Callable[[Dim], Dim]) -> Value:
    value = as_value(x)
    places = axes_of(axes, value.ndim)
    if not places:
        return value
    shifts = tuple(shift(value.shape[place]) for place in places)
    result: Value = surface_function("roll")(value, shifts, places)
    return result


def fftshift(x: Any, axes: Axes = None) -> Value:
    """The frequency 0 moved to the middle of axes, of all unless given."""
    return _rolled(x, axes, lambda size: size // 2)


def ifftshift(x: Any, axes: Axes = None) -> Value:
    """The inverse of ``fftshift``; the same for even sizes."""
    return _rolled(x, axes, lambda size: -(size // 2))
