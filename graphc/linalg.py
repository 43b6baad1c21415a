"""Linear algebra: ``gx.linalg``, by the names of ``np.linalg`` and ``scipy.linalg``.

Role: the user-facing names of the family ``graphc.ops.linalg``. Invariant: nothing is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from graphc.base.errors import LinAlgError
from graphc.ops.linalg.factoring import cholesky, det, lu, slogdet
from graphc.ops.linalg.matmul import matmul, outer
from graphc.ops.linalg.products import cross, tensordot, vecdot
from graphc.ops.linalg.systems import inv, solve, solve_triangular
from graphc.ops.move.triangles import diagonal, trace

__all__ = [
    "LinAlgError",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "inv",
    "lu",
    "matmul",
    "outer",
    "slogdet",
    "solve",
    "solve_triangular",
    "tensordot",
    "trace",
    "vecdot",
]


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.linalg.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.linalg' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
