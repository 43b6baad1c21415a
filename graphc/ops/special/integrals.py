"""Integrals of exponentials and logarithms: exp1, expi, and Spence's function.

Sources: power series and reflections as in DLMF 6.6 and 25.12; Spence's function by Bernoulli's
numbers; polynomials and quotients of these are fits of this project.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, like
from graphc.ops.lanes import Lane, polynomial
from graphc.ops.pointwise.logic import equal, where
from graphc.ops.pointwise.math import exp, log
from graphc.ops.special.declared import INFINITY, NAN, by_formula, quotient

# E1(x) + log x up to 1
_E1_NEAR = (
    (6.566917580553255e-05, 0.001319905869526835, 0.024061239852935314, 0.12984077675503095,
     0.7541734994287519, -0.5772156649015329),
    (1.3041134096755404e-05, 0.0004859741605247794, 0.008298540125114193, 0.07976655162547432,
     0.4258832798884341, 1.0),
)  # fmt: skip
# x·e^x·E1(x) in 1/x from 1 on
_E1_FAR = (
    (3.94773600326685, 725.2870065209675, 9264.1142237443, 36097.395473888246, 59696.38937016783,
     48616.285912386425, 21020.819889181384, 4972.361544359876, 635.3093633198467,
     40.54514476394124, 1.0),
    (208.40564849170218, 4654.281240763592, 29076.938363833582, 75461.68322453111,
     96367.62931631196, 66114.58535378944, 25466.507506077905, 5570.125762901217,
     674.854508083868, 41.54514476394102, 1.0),
)  # fmt: skip
# Ei's zero in two parts, and (Ei(x) - log(x / zero)) / (x - zero), a series of positive terms
_EI_ZERO = (0.3725074107813666, 1.3140183414386028e-17)
# x·e^-x·Ei(x) in 1/x, drawn to [-1, 1]: from 6 on to 12, 24, 48 and infinity
_EI_FAR = (
    (-4.316418407072676e-12, 5.483586705229665e-11, -2.0209122558718902e-10,
     2.787713515689599e-10, 5.327040140642781e-10, -4.760742928866699e-09,
     1.6879236328094838e-08, -3.056143241229143e-08, -2.9683200159758566e-08,
     4.2452857730877414e-07, -1.4452234836489171e-06, 1.433339444375473e-06,
     9.196638286644545e-06, -4.5551153575024644e-05, 4.205947134647935e-05,
     0.00037313842220706647, -0.0011258914511446544, -0.0033533886601696708,
     0.010157308753615011, 0.09097863630348535, 1.181847986987208),
    (5.176856796916903e-12, -6.281296519223429e-12, -5.131924572184709e-11,
     1.6709970129233002e-10, 3.353741246874427e-11, -1.590823894477756e-09,
     3.6727012518475484e-09, 7.12111973794414e-09, -4.963281423767706e-08,
     4.033076256278162e-09, 4.922895597735554e-07, -2.2547675561424962e-07,
     -5.1601824248174155e-06, -5.372759754209692e-06, 3.961169113257146e-05,
     0.00026840492461838866, 0.0019403040279314869, 0.02839154997859356, 1.0723449766623854),
    (-7.916858195850922e-15, -7.039069423532207e-14, 7.363356135742135e-14,
     1.033583985359064e-12, 5.087799923384988e-13, -9.730025238072479e-12,
     -2.8969781144365158e-11, 1.2376699623947692e-12, 2.951585752875077e-10,
     1.6474601308814296e-09, 8.966954578818941e-09, 6.788782253505837e-08, 7.58543469503839e-07,
     1.2321136830921323e-05, 0.0002989258991367994, 0.011940163567824175, 1.033413564216241),
    (7.408668594354033e-15, 4.0836777825155574e-14, 2.3217219378561957e-13,
     1.7058530725295266e-12, 1.4387015859881657e-11, 1.4014120260407206e-10,
     1.6051500282935158e-09, 2.2041083998771053e-08, 3.727722659920728e-07,
     8.080245428426862e-06, 0.00023921691801803038, 0.010872249401677992, 1.0106407605200176),
)  # fmt: skip
_EI_BOUNDS = ((6.0, 12.0), (12.0, 24.0), (24.0, 48.0), (48.0, INFINITY))
# Bernoulli's number of 2k by (2k + 1)!, k from 14 down to 1
_SPENCE = (
    -3.0874198024267403e-24, 1.3091507554183213e-22, -5.581785874325009e-21,
    2.395218621026187e-19, -1.0356517612181247e-17, 4.518980029619918e-16,
    -1.9939295860721074e-14, 8.921691020456452e-13, -4.0647616451442256e-11,
    1.8978869988971e-09, -9.185773074661964e-08, 4.72411186696901e-06, -0.0002777777777777778,
    0.027777777777777776,
)  # fmt: skip


def _series(terms: int) -> tuple[float, ...]:
    """(Ei(x) - log(x / zero)) / (x - zero) in powers of x: the sum over k of
    (x^k - zero^k) / (x - zero) / (k·k!), which has positive coefficients."""
    zero = _EI_ZERO[0]
    found = []
    for j in range(terms - 1, -1, -1):
        parts = [zero ** (k - 1 - j) / (k * math.factorial(k)) for k in range(j + 1, j + 40)]
        found.append(math.fsum(parts))
    return tuple(found)


_EI_NEAR = _series(34)
_EI_LOG = math.log(_EI_ZERO[0])


def _exp1_positive(x: Lane) -> Lane:
    is_near = x.of("less_equal", 1.0)
    near = quotient(x, *_E1_NEAR) - x.of("log")
    inverse = 1.0 / x
    far = (-x).of("exp") * (inverse * quotient(inverse, *_E1_FAR))
    return is_near.where(near, far)


def _exp1(x: Lane) -> Lane:
    result = _exp1_positive(x)
    return x.of("less", 0.0).where(NAN, result)


def _expi(x: Lane) -> Lane:
    size = x.of("abs")
    beside = (size - _EI_ZERO[0]) - _EI_ZERO[1]
    # near the zero the logarithm of the quotient would lose what is beyond 1
    is_close = beside.of("abs").of("less", 0.125)
    near_log = (beside * (1 / _EI_ZERO[0])).of("log1p")
    log = is_close.where(near_log, size.of("log") - _EI_LOG)
    near = log + beside * polynomial(size, _EI_NEAR)
    inverse = 1.0 / size
    curve = size
    for (low, high), part in zip(_EI_BOUNDS, _EI_FAR, strict=True):
        first, last = 1 / high, 1 / low
        u = (inverse - (first + last) / 2) * (2 / (last - first))
        curve = size.of("greater", low).where(polynomial(u, part), curve)
    root = (size * 0.5).of("exp")
    far = curve * inverse * root * root
    far = size.of("equal", INFINITY).where(size, far)
    positive = size.of("less_equal", 6.0).where(near, far)
    return x.of("less", 0.0).where(-_exp1_positive(size), positive)


def _spence(x: Lane) -> Lane:
    """A series in u = -log x from 0.3 to 4; beyond by the reflections x -> 1/x and x -> 1 - x."""
    log = x.of("log")
    is_large = x.of("greater", 4.0)
    y = is_large.where(1.0 / x, x)
    is_small = y.of("less", 0.3)
    minus_y = -y
    # log(1 - y) at 1 - y, the argument of the series
    complement = minus_y.of("log1p")
    u = -is_small.where(complement, log)
    square = u * u
    near = (u - square * 0.25) + u * square * polynomial(square, _SPENCE)
    # of 1/x the logarithm would have the rounding of that
    small = math.pi**2 / 6 - is_large.where(-log, log) * complement - near
    small = y.of("equal", 0.0).where(math.pi**2 / 6, small)
    own = is_small.where(small, near)
    result = is_large.where(log * log * -0.5 - own, own)
    return x.of("less", 0.0).where(NAN, result)


def _spence_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    """log x / (1 - x), which is -1 at 1."""
    (x,) = inputs
    at_one = equal(x, 1)
    there = where(at_one, like(2, x), x)
    return (where(at_one, x * 0.5 - 1.5, log(there) / (1 - there)),)


exp1_op = by_formula(
    "exp1",
    "The integral of exp(-t) / t from x on; inf at 0, NaN below.",
    _exp1,
    partials=lambda inputs, output, attrs: (-exp(-inputs[0]) / inputs[0],),
    low=0.0,
    high=20.0,
    differentiable=(0.2, 4.0),
    max_ulp=6.5,
)
expi_op = by_formula(
    "expi",
    "The integral of exp(t) / t from -inf to x, its principal value above 0; -inf at 0.",
    _expi,
    partials=lambda inputs, output, attrs: (exp(inputs[0]) / inputs[0],),
    low=-9.0,
    high=50.0,
    differentiable=(0.2, 4.0),
    max_ulp=6.0,
)
spence_op = by_formula(
    "spence",
    "The integral of log(t) / (1 - t) from 1 to x; NaN below 0.",
    _spence,
    partials=_spence_partials,
    low=0.0,
    high=9.0,
    differentiable=(0.2, 0.9),
    max_ulp=5.0,
)


def exp1(x: Any) -> Value:
    """The integral of exp(-t) / t from x on: inf at 0, NaN below; integers give floats."""
    return apply(exp1_op, float_operand(x))


def expi(x: Any) -> Value:
    """The integral of exp(t) / t up to x, its principal value above 0; integers give floats."""
    return apply(expi_op, float_operand(x))


def spence(x: Any) -> Value:
    """The integral of log(t) / (1 - t) from 1 to x, as in SciPy: NaN below 0."""
    return apply(spence_op, float_operand(x))
