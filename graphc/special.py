"""Special functions by SciPy's names: ``gx.special``.

Role: the user-facing names of ``graphc.ops.special``, and of what ``scipy.special`` has besides and
graphc has in ``gx`` too. Invariant: nothing is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from graphc.ops.nn.layers import log_softmax, softmax, softplus
from graphc.ops.pointwise.angles import sinc
from graphc.ops.pointwise.inverses import cbrt
from graphc.ops.pointwise.logarithms import entr, logit, xlog1py, xlogy
from graphc.ops.pointwise.math import erf, erfc, exp2, expm1, log1p
from graphc.ops.pointwise.math import sigmoid as expit
from graphc.ops.reduce.statistics import logsumexp
from graphc.ops.special.bessel import i0, i0e, i1, i1e
from graphc.ops.special.bessel_k import k0, k0e, k1, k1e
from graphc.ops.special.betas import beta, betaln, comb, factorial, multigammaln
from graphc.ops.special.dawson import dawsn, erfi
from graphc.ops.special.distributions import (
    bdtr,
    bdtrc,
    chdtr,
    chdtrc,
    fdtr,
    fdtrc,
    gdtr,
    gdtrc,
    nbdtr,
    nbdtrc,
    pdtr,
    pdtrc,
    stdtr,
)
from graphc.ops.special.gammas import digamma, gamma, gammaln, gammasgn, polygamma
from graphc.ops.special.gammas import digamma as psi
from graphc.ops.special.incomplete_beta import betainc, betaincc
from graphc.ops.special.incomplete_gamma import gammainc, gammaincc
from graphc.ops.special.integrals import exp1, expi, spence
from graphc.ops.special.normal import erfcinv, erfcx, erfinv, log_ndtr, ndtr, ndtri
from graphc.ops.special.relative import kl_div, log_expit, rel_entr
from graphc.ops.special.transforms import (
    boxcox,
    boxcox1p,
    cosm1,
    exprel,
    huber,
    inv_boxcox,
    inv_boxcox1p,
    pseudo_huber,
)
from graphc.ops.special.zetas import zeta

__all__ = [
    "bdtr",
    "bdtrc",
    "beta",
    "betainc",
    "betaincc",
    "betaln",
    "boxcox",
    "boxcox1p",
    "cbrt",
    "chdtr",
    "chdtrc",
    "comb",
    "cosm1",
    "dawsn",
    "digamma",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "exp1",
    "exp2",
    "expi",
    "expit",
    "expm1",
    "exprel",
    "factorial",
    "fdtr",
    "fdtrc",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammaln",
    "gammasgn",
    "gdtr",
    "gdtrc",
    "huber",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "inv_boxcox",
    "inv_boxcox1p",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kl_div",
    "log1p",
    "log_expit",
    "log_ndtr",
    "log_softmax",
    "logit",
    "logsumexp",
    "multigammaln",
    "nbdtr",
    "nbdtrc",
    "ndtr",
    "ndtri",
    "pdtr",
    "pdtrc",
    "polygamma",
    "pseudo_huber",
    "psi",
    "rel_entr",
    "sinc",
    "softmax",
    "softplus",
    "spence",
    "stdtr",
    "xlog1py",
    "xlogy",
    "zeta",
]


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.special.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.special' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
