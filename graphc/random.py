"""Random numbers: ``gx.random``.

Role: the user-facing names of the family ``graphc.ops.random``, which are JAX's. Invariant: nothing
is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from graphc.frontend.random_rejection import (
    beta,
    binomial,
    dirichlet,
    gamma,
    multinomial,
    poisson,
    truncated_normal,
)
from graphc.frontend.random_sampling import choice, permutation
from graphc.frontend.random_state import Generator, next_key
from graphc.ops.random.keys import bits, fold_in, key, philox, split
from graphc.ops.random.laws import (
    bernoulli,
    categorical,
    cauchy,
    dropout,
    exponential,
    gumbel,
    laplace,
    logistic,
    normal,
    rademacher,
    randint,
    uniform,
)

__all__ = [
    "Generator",
    "bernoulli",
    "beta",
    "binomial",
    "bits",
    "categorical",
    "cauchy",
    "choice",
    "dirichlet",
    "dropout",
    "exponential",
    "fold_in",
    "gamma",
    "gumbel",
    "key",
    "laplace",
    "logistic",
    "multinomial",
    "next_key",
    "normal",
    "permutation",
    "philox",
    "poisson",
    "rademacher",
    "randint",
    "split",
    "truncated_normal",
    "uniform",
]


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.random.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.random' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
