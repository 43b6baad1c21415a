"""Derivatives of operations whose operands are the parts of one complex value.

Rules are written for complex values, as JAX has them: a tangent is dz, a cotangent of z = x + iy is
dL/dx - i dL/dy. Those of the parts, which the operation has, are taken together and apart here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from graphc.ir.attributes import Attributes
from graphc.ir.op import Custom
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves, joined

Some: TypeAlias = "Value | None"
Mode: TypeAlias = Callable[
    [Sequence[Some], Sequence[Value], Sequence[Value], Attributes], Sequence[Some]
]


def _together(re: Some, im: Some, side: int) -> Some:
    """One of two parts, of which there may be one or none."""
    if re is None and im is None:
        return None
    zeros = surface_function("zeros_like")
    re, im = zeros(im) if re is None else re, zeros(re) if im is None else im
    assert re is not None and im is not None
    return joined(re, im if side > 0 else -im)


def _apart(value: Some, side: int) -> tuple[Some, Some]:
    if value is None:
        return None, None
    re, im = halves(value)
    return re, im if side > 0 else -im


def _grouped(values: Sequence[Some], pairs: Sequence[bool], side: int) -> Iterator[Some]:
    """Values with those that are two parts as one."""
    left = iter(values)
    for is_pair in pairs:
        yield _together(next(left), next(left), side) if is_pair else next(left)


def of_pairs(jvp: Mode, vjp: Mode, pairs: Sequence[bool]) -> Custom:
    """The derivative of an operation on two parts, from rules for the complex value.

    ``pairs`` says of each result of the rules whether it is two parts.
    """

    def both(inputs: Sequence[Value], outputs: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        results = [value for value in _grouped(outputs, pairs, 1) if value is not None]
        return [joined(*inputs)], results

    def forward(
        tangents: Sequence[Some],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Attributes,
    ) -> Sequence[Some]:
        tangent = _together(tangents[0], tangents[1], 1)
        found = jvp([tangent], *both(inputs, outputs), attrs)
        results: list[Some] = []
        for is_pair, value in zip(pairs, found, strict=True):
            results += _apart(value, 1) if is_pair else [value]
        return results

    def backward(
        cotangents: Sequence[Some],
        inputs: Sequence[Value],
        outputs: Sequence[Value],
        attrs: Attributes,
    ) -> Sequence[Some]:
        given = list(_grouped(cotangents, pairs, -1))
        (found,) = vjp(given, *both(inputs, outputs), attrs)
        return _apart(found, -1)

    return Custom(forward, backward)


__all__ = ["of_pairs"]
