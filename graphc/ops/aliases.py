"""Second names of functions: what NumPy, SciPy or the array API standard calls them besides."""

from __future__ import annotations

from graphc.ir.surface import also_called

for _name, _known in {
    "absolute": "abs",
    "acos": "arccos",
    "acosh": "arccosh",
    "amax": "max",
    "amin": "min",
    "around": "round",
    "asin": "arcsin",
    "asinh": "arcsinh",
    "atan": "arctan",
    "atan2": "arctan2",
    "atanh": "arctanh",
    "bitwise_invert": "bitwise_not",
    "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift",
    "concat": "concatenate",
    "conjugate": "conj",
    "deg2rad": "radians",
    "expit": "sigmoid",
    "fix": "trunc",
    "invert": "bitwise_not",
    "ix_": "ix",
    "permute_dims": "transpose",
    "pow": "power",
    "rad2deg": "degrees",
    "remainder": "mod",
    "row_stack": "vstack",
    "true_divide": "divide",
}.items():
    also_called(_name, _known)
