"""Linear algebra: ``gx.linalg``, by the names of ``np.linalg`` and ``scipy.linalg``.

Role: the user-facing names of the family ``graphc.ops.linalg``. Invariant: nothing is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from graphc.base.errors import LinAlgError
from graphc.ops.linalg.factoring import cholesky, det, lu, slogdet
from graphc.ops.linalg.general_spectra import eig, eigvals
from graphc.ops.linalg.least_squares import lstsq, pinv
from graphc.ops.linalg.matmul import matmul, outer
from graphc.ops.linalg.norms import (
    cond,
    diagonal,
    matrix_norm,
    matrix_rank,
    norm,
    trace,
    vector_norm,
)
from graphc.ops.linalg.powers import expm, matrix_power, multi_dot
from graphc.ops.linalg.products import cross, tensordot, vecdot
from graphc.ops.linalg.qr import qr
from graphc.ops.linalg.singular_values import svd, svdvals
from graphc.ops.linalg.spectra import eigh, eigvalsh
from graphc.ops.linalg.structured import (
    block_diag,
    cho_factor,
    cho_solve,
    circulant,
    companion,
    hankel,
    khatri_rao,
    polar,
    toeplitz,
)
from graphc.ops.linalg.systems import inv, solve, solve_triangular
from graphc.ops.move.rolling import matrix_transpose

__all__ = [
    "LinAlgError",
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "companion",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "hankel",
    "inv",
    "khatri_rao",
    "lstsq",
    "lu",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "polar",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensordot",
    "toeplitz",
    "trace",
    "vecdot",
    "vector_norm",
]


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.linalg.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.linalg' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
