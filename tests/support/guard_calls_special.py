"""Calls of special functions."""

from __future__ import annotations

from guard_call import call

import graphc as gx

_OF_ONE = (
    "digamma erfcinv erfcx erfinv exp1 expi factorial gamma gammaln gammasgn i0 i0e i1 i1e "
    "k0 k0e k1 k1e dawsn erfi cosm1 exprel log_ndtr log_expit ndtr ndtri psi spence"
)
for _name in _OF_ONE.split():
    call(_name, "ab", getattr(gx.special, _name))
for _name in ("beta", "betaln", "comb", "kl_div", "rel_entr", "zeta", "gammainc", "gammaincc"):
    call(_name, "a a|ab b|. a", getattr(gx.special, _name))
for _name in (
    "chdtr", "chdtrc", "pdtr", "pdtrc", "stdtr", "boxcox", "boxcox1p", "inv_boxcox",
    "inv_boxcox1p", "huber", "pseudo_huber",
):  # fmt: skip
    call(_name, "a a|ab b|. a", getattr(gx.special, _name))
for _name in (
    "gdtr", "gdtrc", "bdtr", "bdtrc", "nbdtr", "nbdtrc", "fdtr", "fdtrc",
):  # fmt: skip
    call(_name, "a a|ab b|. a", lambda x, y, name=_name: getattr(gx.special, name)(x, y, 0.5))
for _name in ("betainc", "betaincc"):
    call(_name, "a a|ab b|. a", lambda x, y, name=_name: getattr(gx.special, name)(x, y, 0.5))
call("multigammaln", "ab", lambda x: gx.special.multigammaln(x, 3))
call("polygamma", "ab", lambda x: gx.special.polygamma(2, x))
