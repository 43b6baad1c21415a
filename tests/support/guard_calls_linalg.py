"""Calls of linear algebra."""

from __future__ import annotations

from typing import Any

from guard_call import call

import graphc as gx


def _well(x: Any) -> Any:
    """Matrices near the identity, which are neither singular nor indefinite."""
    return x * 0.01 + gx.eye(x.shape[-2], x.shape[-1], dtype=x.dtype)


for _name in ("cholesky", "inv", "det"):
    _function = getattr(gx.linalg, _name)
    call(_name, "aa|daa", lambda x, f=_function: f(_well(x)))
call("slogdet", "aa|daa", lambda x: list(gx.linalg.slogdet(_well(x))))
call("lu", "ab ab|dab b", lambda x, y: [part * 1.0 for part in gx.linalg.lu(_well(x) + y)])
call("qr", "ab|dab", lambda x: [gx.stop_gradient(part) for part in gx.linalg.qr(_well(x))])
call("eigh", "aa|daa", lambda x: list(gx.linalg.eigh(x)))
call("eig", "aa|daa", lambda x: [gx.stop_gradient(gx.real(part)) for part in gx.linalg.eig(x)])
call("eigvals", "aa|daa", lambda x: gx.real(gx.linalg.eigvals(_well(x))))
call("svd", "ab|dab", lambda x: list(gx.linalg.svd(_well(x), False)))
for _name in ("eigvalsh", "matrix_rank", "pinv", "expm"):
    _function = getattr(gx.linalg, _name)
    call(_name, "aa|daa", lambda x, f=_function: f(_well(x)))
call("complex lu", "ab|dab",
     lambda x: [gx.real(p) * 1.0 for p in gx.linalg.lu(gx.complex(_well(x), x))])
call("complex qr", "ab|dab",
     lambda x: [gx.stop_gradient(gx.real(p)) for p in gx.linalg.qr(gx.complex(_well(x), x))])
call("complex eigh", "aa|daa", lambda x: gx.linalg.eigh(gx.complex(_well(x), x)).eigenvalues)
call("complex svd", "ab|dab", lambda x: gx.linalg.svd(gx.complex(_well(x), x), False)[1])
call("cond of matrices", "aa|daa", lambda x: gx.linalg.cond(_well(x)))
for _name in ("toeplitz", "hankel"):
    _function = getattr(gx.linalg, _name)
    call(_name, "a b|ca cb", lambda x, y, f=_function: f(x, y))
call("circulant", "a|ba", gx.linalg.circulant)
call("companion", "a|ba", lambda x: gx.linalg.companion(gx.concatenate([x * 0 + 2, x], -1)))
call("block_diag", "ab cd|a cd", gx.linalg.block_diag)
call("khatri_rao", "ab cb", gx.linalg.khatri_rao)
call("cho_factor", "aa|daa", lambda x: gx.linalg.cho_factor(_well(x)).c)
call("cho_solve", "aa a|daa dab", lambda x, y: gx.linalg.cho_solve((_well(x), True), y))
call("polar", "ab|dab", lambda x: [gx.stop_gradient(part) for part in gx.linalg.polar(x)])
call("svdvals", "ab ab", lambda x, y: gx.linalg.svdvals(x + y))
call("matrix_power", "aa|daa", lambda x: gx.linalg.matrix_power(x, 3))
call("multi_dot", "ab bc cd|a ab b", lambda x, y, z: gx.linalg.multi_dot([x, y, z]))
call("lstsq", "ab a|ab ac", lambda x, y: list(gx.linalg.lstsq(_well(x), y)))
call("norm", "ab ab", lambda x, y: gx.linalg.norm(x + y, 1))
call("matrix_norm", "ab b", lambda x, y: gx.linalg.matrix_norm(x + y))
call("vector_norm", "ab b", lambda x, y: gx.linalg.vector_norm(x + y, axis=1, ord=1))
for _name in ("solve", "solve_triangular"):
    _function = getattr(gx.linalg, _name)
    call(_name, "aa a|aa ab|daa ab|daa dab", lambda x, y, f=_function: f(_well(x), y))
