"""Modified Bessel functions of the first kind, of orders 0 and 1, plain and scaled.

Up to 8 it is the power series, whose terms are all positive (DLMF 10.25.2), cut by a minimax fit;
beyond, e^x / sqrt(x) times a polynomial in 1/x. Both fits are this project's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphc.ir.attributes import Attributes
from graphc.ir.builder import apply
from graphc.ir.surface import surface
from graphc.ir.value import Value
from graphc.ops.declare import float_operand, like
from graphc.ops.lanes import Lane, polynomial
from graphc.ops.pointwise.logic import equal, where
from graphc.ops.pointwise.rounding import sign
from graphc.ops.special.declared import by_formula

# I0(x) in x²/4 up to 16, and I1(x) / (x/2)
_NEAR = (
    (3.5075552084642115e-27, 5.110072176952374e-25, 1.3415507117760794e-22,
     2.572997010370252e-20, 4.3593459708573206e-18, 6.275969988875797e-16, 7.594067939329789e-14,
     7.594057830139965e-12, 6.151187354306547e-10, 3.9367598882266325e-08, 1.929012345700394e-06,
     6.944444444441054e-05, 0.0017361111111111455, 0.02777777777777776, 0.25, 1.0, 1.0),
    (5.651014215283733e-26, 7.62499663733431e-24, 1.8800021969546394e-21,
     3.3444086818412474e-19, 5.2312988902995145e-17, 6.90355729821957e-15, 7.5940687031843e-13,
     6.834652006851835e-11, 4.920949884772393e-09, 2.755731921737292e-07, 1.1574074074201035e-05,
     0.00034722222222206573, 0.0069444444444445586, 0.08333333333333329, 0.5, 1.0),
)  # fmt: skip
# sqrt(x)·e^-x·I(x) in 16/x - 1, from 8 on
_FAR = (
    (-7.06893851181878e-11, -1.9216763724933513e-11, 5.181936971288284e-10,
     1.4672236659214398e-10, -1.7789375042917173e-09, -5.562201990080394e-10,
     3.881151253996067e-09, 1.497880830187091e-09, -6.188265090497361e-09,
     -3.4857887470034955e-09, 7.58022133915272e-09, 7.540601378890834e-09, -5.4685974495866e-09,
     -1.3404241991980871e-08, -6.729724111923548e-09, 7.553516470355896e-09,
     2.1545177650836005e-08, 3.932602459703109e-08, 8.87225351128584e-08, 2.973598432479169e-07,
     1.4838475473607391e-06, 1.1143033791556743e-05, 0.00013621607439232746,
     0.003360551983667854, 0.4021765094450081),
    (7.347992441734663e-11, 1.7502497778701306e-11, -5.388285995923524e-10,
     -1.342266320082222e-10, 1.8513716745511988e-09, 5.146498826087142e-10,
     -4.047785403711858e-09, -1.4171698018664596e-09, 6.4870195719816896e-09,
     3.406636130196794e-09, -8.044231276166508e-09, -7.630751970065577e-09,
     6.040877342160988e-09, 1.4029693589852716e-08, 6.715795128085017e-09,
     -8.426622829598154e-09, -2.337059627111857e-08, -4.312935369971356e-08,
     -1.0001323461066435e-07, -3.483855609009937e-07, -1.8349101134666435e-06,
     -1.5038547201176271e-05, -0.00021923576383430274, -0.009749577193235728,
     0.38939845902587233),
)  # fmt: skip


def _parts(x: Lane, order: int) -> tuple[Lane, Lane, Lane]:
    """Where |x| is up to 8, the function there, and the scaled one beyond."""
    size = x.of("abs")
    quarter = size * size * 0.25
    near = polynomial(quarter, _NEAR[order])
    far = polynomial(16.0 / size - 1.0, _FAR[order]) / size.of("sqrt")
    if order:
        near, far = near * (x * 0.5), far.of("copysign", x)
    return size.of("less_equal", 8.0), near, far


def _plain(order: int) -> Any:
    def formula(x: Lane) -> Lane:
        is_near, near, far = _parts(x, order)
        # e^x may be infinite where the function is not
        root = (x.of("abs") * 0.5).of("exp")
        result = is_near.where(near, far * root * root)
        return x.of("isinf").where(root if not order else root.of("copysign", x), result)

    return formula


def _scaled(order: int) -> Any:
    def formula(x: Lane) -> Lane:
        is_near, near, far = _parts(x, order)
        return is_near.where(near * (-x.of("abs")).of("exp"), far)

    return formula


def _first_by_x(x: Value, first: Value) -> Value:
    """I1(x) / x, which is 1/2 at 0."""
    at_zero = equal(x, 0)
    quotient_: Value = first / where(at_zero, like(1, x), x)
    return where(at_zero, like(0.5, x), quotient_)


def _i1e_partials(
    inputs: Sequence[Value], output: Value, attrs: Attributes
) -> Sequence[Value | None]:
    (x,) = inputs
    return (i0e(x) - _first_by_x(x, output) - sign(x) * output,)


i0_op = by_formula(
    "i0", "The modified Bessel function of the first kind of order 0.", _plain(0),
    partials=lambda inputs, output, attrs: (i1(inputs[0]),), high=20.0,
    differentiable=(0.2, 4.0), max_ulp=5.0,
)  # fmt: skip
i0e_op = by_formula(
    "i0e", "exp(-|x|) times i0(x).", _scaled(0),
    partials=lambda inputs, output, attrs: (i1e(inputs[0]) - sign(inputs[0]) * output,),
    high=20.0, differentiable=(0.2, 20.0), max_ulp=4.5,
)  # fmt: skip
i1_op = by_formula(
    "i1", "The modified Bessel function of the first kind of order 1.", _plain(1),
    partials=lambda inputs, output, attrs: (
        i0(inputs[0]) - _first_by_x(inputs[0], output),
    ),
    high=20.0, differentiable=(0.2, 4.0), max_ulp=5.0,
)  # fmt: skip
i1e_op = by_formula(
    "i1e", "exp(-|x|) times i1(x).", _scaled(1), partials=_i1e_partials, high=20.0,
    differentiable=(0.2, 20.0), max_ulp=4.5,
)  # fmt: skip


@surface
def i0(x: Any) -> Value:
    """The modified Bessel function of the first kind of order 0; integers give floats."""
    return apply(i0_op, float_operand(x))


def i0e(x: Any) -> Value:
    """exp(-|x|) times ``i0(x)``, which does not overflow; integers give floats."""
    return apply(i0e_op, float_operand(x))


def i1(x: Any) -> Value:
    """The modified Bessel function of the first kind of order 1; integers give floats."""
    return apply(i1_op, float_operand(x))


def i1e(x: Any) -> Value:
    """exp(-|x|) times ``i1(x)``, which does not overflow; integers give floats."""
    return apply(i1e_op, float_operand(x))
