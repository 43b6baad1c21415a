"""The order of complex numbers, which is NumPy's: by real parts, then by imaginary ones.

NaN stands behind everything: numbers whose imaginary part alone is NaN by their real parts, those
whose real part alone is by their imaginary ones, and last those of two.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.attributes import Attributes
from graphc.ir.dtypes import int8
from graphc.ir.op import OpDef
from graphc.ir.surface import surface_function
from graphc.ir.value import Value
from graphc.ops.complex.parts import halves


def complex_places(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The places that put rows in order: by each key in turn, the one that counts most last."""
    argsort, along = surface_function("argsort"), surface_function("take_along_axis")
    isnan, astype = surface_function("isnan"), surface_function("astype")
    re, im = halves(operands[0])
    lacks = astype(isnan(re), int8) * 2 + astype(isnan(im), int8)
    down = attrs["descending"]
    order: Value = argsort(im, -1, down)
    for key in (re, lacks):
        order = along(order, argsort(along(key, order, -1), -1, down), -1)
    return order


def complex_sorted(op: OpDef, operands: Sequence[Value], attrs: Attributes) -> Value:
    """The elements of rows in order."""
    (value,) = operands
    places = complex_places(op, operands, attrs)
    result: Value = surface_function("take_along_axis")(value, places, -1)
    return result


__all__ = ["complex_places", "complex_sorted"]
