"""Calls with arguments that the plain ones leave out, and of all that several results are."""

from __future__ import annotations

from typing import Any

import numpy as np
from guard_call import call

import graphc as gx


def _still(function: Any) -> Any:
    """A function through which no derivative goes."""
    return lambda *values: function(*map(gx.stop_gradient, values))


# --- several results -----------------------------------------------------------------------------

call("histogram", "ab ab", _still(lambda x, y: gx.histogram(x, 4, (-1, 1), weights=y)), lambda x, y: np.histogram(x, 4, (-1, 1), weights=y))  # noqa: E501
call("histogram", "ab ab 5", _still(lambda x, y, e: gx.histogram(x, gx.cumsum(e * e), weights=y, density=True)))  # noqa: E501
call("histogram2d", "a a a", _still(lambda x, y, w: list(gx.histogram2d(x, y, (2, 3), [(-1, 1)] * 2, weights=w))))  # noqa: E501
call("histogram2d", "a a", _still(lambda x, y: list(gx.histogram2d(x, y, 3))))
call("histogramdd", "a a a", _still(lambda x, y, w: list(gx.histogramdd([x, y], 2, [(-1, 1)] * 2, True, w))))  # noqa: E501
call("gradient", "ab a b", lambda x, y, z: gx.gradient(x, gx.cumsum(y * y + 1), gx.cumsum(z * z + 1)))  # noqa: E501
call("gradient", "ab b", lambda x, y: gx.gradient(x, 2.0, gx.cumsum(y * y + 1), edge_order=2))
call("average", "ab b", lambda x, y: gx.average(x, 1, y * y + 1, returned=True))
call("average", "ab ab", lambda x, y: gx.average(x, weights=y * y + 1, returned=True))
call("meshgrid", "a b", lambda x, y: gx.meshgrid(x, y, sparse=True))
call("linspace", "a b1", lambda x, y: list(gx.linspace(x, y, 3, retstep=True)))
call("top_k", "a4", lambda x: gx.top_k(x, 2))
call("polydiv", "5 2", lambda x, y: list(gx.polydiv(x.reshape((5,)), y.reshape((2,)))))
call("polyfit", "a a a", lambda x, y, w: gx.polyfit(*map(gx.stop_gradient, (x, y)), 1, w=gx.stop_gradient(w)))  # noqa: E501
call("nonzero", "b:ab", lambda m: list(gx.nonzero(m, size=m.shape[0])))
call("scan", "ab ac", _still(lambda x, y: list(gx.scan(lambda c, r: (c + gx.sum(r[0]) + gx.sum(r[1]), r[0] * c), gx.sum(x) * 0, (x, y)))))  # noqa: E501
call("scan", "ab b", _still(lambda x, y: list(gx.scan(lambda c, r: (c + y, c * r), 0 * (x[0] + y), x, reverse=True))))  # noqa: E501
call("map", "ab ac", _still(lambda x, y: gx.map(lambda r: gx.sum(r[0]) + gx.sum(r[1]), (x, y))))
call("clip_by_global_norm", "ab c", lambda x, y: gx.optim.clip_by_global_norm([x, y], 1.0))
call("while_loop", "ab b", _still(lambda x, y: list(gx.while_loop(lambda n, v, w: n < 2, lambda n, v, w: (n + 1, v + y, w * 2), (gx.constant(0), x + y, y)))))  # noqa: E501
call("cond", "ab ab", lambda x, y: list(gx.cond(gx.sum(y) > 0, lambda: (x + y, x), lambda: (x + 2 * y, 3 * x))))  # noqa: E501
call("divmod", "ab a1", lambda x, y: list(gx.divmod(x, y)), np.divmod)

# --- statistics ----------------------------------------------------------------------------------

# of one variable there is a scalar, where that is known
call("cov", "ab i:b b", lambda x, f, w: gx.ravel(gx.cov(x, fweights=f, aweights=w * w + 1))[:1])
call("corrcoef", "ab cb", lambda x, y: gx.ravel(gx.corrcoef(*map(gx.stop_gradient, (x, y))))[:1])
call("trapezoid", "ab ab", lambda x, y: gx.trapezoid(x, y), lambda x, y: np.trapezoid(x, y))
call("trapezoid", "ab a", lambda x, y: gx.trapezoid(x, y, axis=0), lambda x, y: np.trapezoid(x, y, axis=0))  # noqa: E501
call("diff", "ab ac", lambda x, y: gx.diff(x, prepend=y, append=0.0), lambda x, y: np.diff(x, prepend=y, append=0.0))  # noqa: E501
call("ediff1d", "ab c d", lambda x, y, z: gx.ediff1d(x, y, z), lambda x, y, z: np.ediff1d(x, y, z))
call("quantile", "ab 3", lambda x, q: gx.quantile(x, gx.abs(gx.sin(q)), axis=0))
call("quantile", "ab c", lambda x, q: gx.quantile(x, gx.abs(gx.sin(q))), lambda x, q: np.quantile(x, np.abs(np.sin(q))))  # noqa: E501
call("percentile", "ab b", lambda x, y: gx.percentile(x, [10, 50], axis=0, keepdims=True) + y)
call("median", "ab", gx.median)
call("bincount", "i:a a", lambda i, x: gx.bincount(abs(i), x, length=i.shape[0]))
call("interp", "ab c c", lambda x, y, z: gx.interp(x, gx.cumsum(y * y + 1), z, left=0.0, right=1.0))
call("digitize", "ab c", lambda x, y: gx.digitize(x, gx.cumsum(y * y)))
call("searchsorted", "a b i>a:a", lambda x, y, i: gx.searchsorted(x, y, "right", sorter=gx.argsort(x) + 0 * i))  # noqa: E501

# --- places --------------------------------------------------------------------------------------

call("partition", "ab", lambda x: gx.partition(x, 2), lambda x: np.sort(np.partition(x, 2)))
call("partition", "ab", lambda x: gx.partition(x, (-2, 0), axis=0))
call("partition", "ab", lambda x: gx.partition(x, 3, axis=None))
call("argpartition", "ab", lambda x: gx.argpartition(x, -2, axis=0))
call("compress", "b:a ab", lambda m, x: gx.compress(m, x, axis=1, size=2))
call("compress", "b:c ab", lambda m, x: gx.compress(m, x, size=3))
call("extract", "b:ab b", lambda m, x: gx.extract(m, x, size=5))
call("put", "ab i>ab:c c", lambda x, i, y: gx.put(x, i, y))
call("put_along_axis", "ab i>a:cb b", lambda x, i, y: gx.put_along_axis(x, i, y, axis=0))
call("copyto", "ab b b:ab", lambda x, y, m: gx.copyto(x, y, m))
call("choose", "i:a ab b a1", lambda i, x, y, z: gx.choose(i[:, None] % 3, [x, y, z]))
call("piecewise", "ab b:ab", lambda x, m: gx.piecewise(x, [m, ~m], [gx.sin, gx.cos]))
call("select", "b:ab b:b ab b", lambda m, n, x, y: gx.select([m, n], [x, y], 2.0))
call("ravel_multi_index", "i>a:cd i>b:d ab", lambda i, j, x: gx.ravel_multi_index((i, j), x.shape))
call("unravel_index", "i>ab:c ab", lambda i, x: list(gx.unravel_index(i, x.shape, "F")))
call("one_hot", "i:ab b", lambda i, x: gx.one_hot(i, x.shape[0], "float64") @ x)
call("segment_sum", "ab i>c:a c", lambda x, i, y: gx.segment_sum(x, i, y.shape[0]) * y[:, None])
call("scatter_add", "abc i>b:d adc", lambda x, i, y: gx.scatter_add(x, i, y, 1))
call("at", "abc i>a:d i>c:d db", lambda x, i, j, y: x.at[i, :, j].set(y))
call("at", "abc i>b:d", lambda x, i: x.at[:, i].add(1.0))
call("at", "ab b:ab ab", lambda x, m, y: x.at[m].multiply(2.0) + y)
call("at", "ab b", lambda x, y: x.at[1:3].add(y))
call("at", "ab 2b", lambda x, y: x.at[-2:].set(y))
call("at", "ab a", lambda x, y: x.at[:, 0].set(y))
call("getitem", "abc i>a:d i>c:d", lambda x, i, j: x[i, :, j], lambda x, i, j: x[i, :, j])
call("getitem", "abc i>b:d", lambda x, i: x[:, i, 0], lambda x, i: x[:, i, 0])
call("getitem", "abc", lambda x: x[..., 1, ::2], lambda x: x[..., 1, ::2])
call("getitem", "ab b:ab", lambda x, m: gx.where(m, x, 0)[::-1, 1:])
call("getitem", "ab i:.", lambda x, n: gx.stop_gradient(x[n:n + 2]))
call("dynamic_slice", "ab i:2 cb", lambda x, i, y: gx.dynamic_slice(x, i, y.shape) + y)
call("dynamic_update_slice", "ab cb i:2", lambda x, y, i: gx.dynamic_update_slice(x, y, i))
call("dynamic_index_in_dim", "ab i:. a", lambda x, i, y: gx.dynamic_index_in_dim(x, i, 1, False) * y)  # noqa: E501

# --- moves ---------------------------------------------------------------------------------------

call("broadcast_to", "ab", lambda x: gx.broadcast_to(x, (3, x.shape[0], 4)))
call("broadcast_arrays", "ab b a1", gx.broadcast_arrays, np.broadcast_arrays)
call("concatenate", "ab cb db", lambda *v: gx.concatenate(v), lambda *v: np.concatenate(v))
call("stack", "ab ab ab", lambda *v: gx.stack(v, -1), lambda *v: np.stack(v, -1))
call("split", "ab", lambda x: gx.split(x, x.shape[0] // 2 * 0 + 2, 1), lambda x: np.split(x, 2, 1))
call("split", "ab", lambda x: gx.split(x, [1, -1], 1), lambda x: np.split(x, [1, -1], 1))
call("array_split", "ab", lambda x: gx.array_split(x, 4, 1), lambda x: np.array_split(x, 4, 1))
call("hsplit", "ab", lambda x: gx.hsplit(x, [1, 2]), lambda x: np.hsplit(x, [1, 2]))
call("pad", "ab", lambda x: gx.pad(x, ((2, 3), (0, 0)), "reflect"), lambda x: np.pad(x, ((2, 3), (0, 0)), "reflect"))  # noqa: E501
call("pad", "ab c", lambda x, y: gx.pad(x, ((y.shape[0], 0), (0, 1)), constant_values=2.0))
call("pad", "ab", lambda x: gx.pad(x, ((-2, -1), (0, 0))))
call("repeat", "ab b", lambda x, y: gx.repeat(x, 2, axis=0)[::2] + y)
call("squeeze", "1a1", gx.squeeze)
call("diagonal", "abab", lambda x: gx.diagonal(x, 0, 0, 2))
call("trace", "abc", lambda x: gx.trace(x, 1, 2, 1), lambda x: np.trace(x, 1, 2, 1))
call("rot90", "abc bac", lambda x, y: gx.rot90(x, 3) + y, lambda x, y: np.rot90(x, 3) + y)
call("sliding_window_view", "ab", lambda x: gx.sliding_window_view(x, 3, 0))
call("reduce_window", "ab", lambda x: gx.reduce_window(x, -np.inf, gx.maximum, (3, 1), (2, 1), "SAME"))  # noqa: E501
call("reduce_window", "ab", lambda x: gx.reduce_window(x, 0, gx.add, (2, 2), padding=((0, 1), (1, 0)), window_dilation=(2, 1)))  # noqa: E501
call("reshape", "abc ab", lambda x, y: gx.reshape(x, (-1, y.shape[1])))
call("reshape", "ab c", lambda x, y: gx.reshape(x, y.shape))
call("ravel", "ab c", lambda x, y: gx.ravel(x) * y, lambda x, y: np.ravel(x) * y)
call("resize", "ab cd", lambda x, y: gx.resize(x, y.shape), lambda x, y: np.resize(x, y.shape))
call("sum_to", "abc 1bc", lambda x, y: gx.sum_to(x, y.shape))
call("packbits", "i:ab", lambda x: gx.packbits(x, 0, "little"))
call("unpackbits", "i:ab", lambda x: gx.unpackbits(x.astype("uint8"), 1, 5))
call("insert", "a3 a", lambda x, y: gx.insert(x.reshape((-1, 3)), 1, y, axis=1))
call("unstack", "3a", lambda x: list(gx.unstack(x.reshape((3, -1)))))
call("lexsort", "i:ab i:ab", lambda x, y: gx.lexsort([x, y], 0), lambda x, y: np.lexsort([x, y], 0))
call("take", "abc i>b:d", lambda x, i: gx.take(x, i, 1, mode="wrap"))
call("take_along_axis", "abc i>b:adc", lambda x, i: gx.take_along_axis(x, i, 1))

# --- products ------------------------------------------------------------------------------------

call("tensordot", "abc ad", lambda x, y: gx.tensordot(x, y, ((0,), (0,))), lambda x, y: np.tensordot(x, y, ((0,), (0,))))  # noqa: E501
call("tensordot", "abc bcd", lambda x, y: gx.tensordot(x, y), lambda x, y: np.tensordot(x, y))
call("tensordot", "a b", lambda x, y: gx.tensordot(x, y, 0), lambda x, y: np.tensordot(x, y, 0))
call("einsum", "dab dbc", lambda *v: gx.einsum("...ab,...bc->...ac", *v))
call("einsum", "abc b", lambda *v: gx.einsum("abc,b->ca", *v))
call("einsum", "aba", lambda x: gx.einsum("aba->b", x), lambda x: np.einsum("aba->b", x))
call("einsum", "ab bc ca", lambda *v: gx.einsum("ab,bc,ca->", *v))
call("vecdot", "ab ab", lambda x, y: gx.vecdot(x, y, axis=0))
call("cross", "3a 3a", lambda x, y: gx.cross(x, y, axis=0))
call("cross", "ab ab", gx.cross)
call("convolve", "a b|a 2", lambda x, y: gx.convolve(x, y, "valid"), lambda x, y: np.convolve(x, y, "valid"))  # noqa: E501
call("convolve", "a b", lambda x, y: gx.convolve(x, y, "same"), lambda x, y: np.convolve(x, y, "same"))  # noqa: E501
call("correlate", "a b|a 2", lambda x, y: gx.correlate(x, y, "same"), lambda x, y: np.correlate(x, y, "same"))  # noqa: E501
call("polyint", "a b", lambda x, y: gx.polyint(x, 2, y), lambda x, y: np.polyint(x, 2, y))
call("matvec", "dab db", gx.matvec)
call("attention", "eac ebc ebd b:eab", lambda q, k, v, m: gx.nn.attention(q, k, v, mask=m, scale=2.0))  # noqa: E501
call("attention", "fac fbc fbd ab", lambda q, k, v, m: gx.nn.attention(q, k, v, mask=m, causal=True))  # noqa: E501
call("layer_norm", "abc bc bc", lambda x, y, z: gx.nn.layer_norm(x, y, z, axis=(1, 2)))
call("rms_norm", "abc bc", lambda x, y: gx.nn.rms_norm(x, y, axis=(-2, -1)))
call("standardize", "ab b", lambda x, y: gx.nn.standardize(x, axis=0) * y)
call("glu", "a4 b", lambda x, y: gx.nn.glu(x) * gx.sum(y))
call("glu", "4b b", lambda x, y: gx.nn.glu(x, 0) + y)
call("logmeanexp", "ab b", lambda x, y: gx.nn.logmeanexp(x, axis=0) + y)
call("softmax_cross_entropy", "abc abc", gx.nn.softmax_cross_entropy)
call("embedding", "ab i>a:c cb", lambda x, i, y: gx.nn.embedding(x, i) * y)

# --- transforms and linear algebra ---------------------------------------------------------------

for _name in ("fft", "rfft", "ihfft"):
    _function = getattr(gx.fft, _name)
    call(_name, "ab c", lambda x, y, f=_function: gx.view_as_real(f(x, y.shape[0])))
for _name in ("irfft", "hfft"):
    _function = getattr(gx.fft, _name)
    call(_name, "ab c", lambda x, y, f=_function: f(x, y.shape[0]) * y)
call("fftn", "ab cd", lambda x, y: gx.view_as_real(gx.fft.fftn(x, y.shape)))
call("irfftn", "ab cd", lambda x, y: gx.fft.irfftn(x, y.shape) * y)
call("irfft2", "ab", lambda x: gx.fft.irfft2(x, norm="ortho"))
call("rfft2", "abc", lambda x: gx.view_as_real(gx.fft.rfft2(x, axes=(0, 1))))
call("fftfreq", "a b", lambda x, y: gx.fft.fftfreq(x.shape[0], 0.5, dtype=x.dtype) * y)
call("fftshift", "ab ab", lambda x, y: gx.fft.fftshift(x) * y)


def _well(x: Any) -> Any:
    """Matrices near the identity, which are neither singular nor indefinite."""
    return x * 0.01 + gx.eye(x.shape[-2], x.shape[-1], dtype=x.dtype)


call("cholesky", "aa a", lambda x, y: gx.linalg.cholesky(_well(x), upper=True) * y)
call("cho_factor", "aa a", lambda x, y: gx.linalg.cho_solve(gx.linalg.cho_factor(_well(x)), y))
call("lu", "ab", lambda x: [p * 1.0 for p in gx.linalg.lu(_well(x), permute_l=True)])
call("lu", "dab", lambda x: [p * 1.0 for p in gx.linalg.lu(_well(x), p_indices=True)])
call("qr", "ab", lambda x: gx.stop_gradient(gx.linalg.qr(_well(x), "r")))
call("qr", "ab", lambda x: [gx.stop_gradient(p) for p in gx.linalg.qr(_well(x), "complete")])
call("svd", "ab", lambda x: [gx.stop_gradient(p) for p in gx.linalg.svd(_well(x))])
call("eigh", "aa ab", lambda x, y: gx.linalg.eigh(x, "U").eigenvectors @ y)
call("pinv", "ab ab", lambda x, y: gx.stop_gradient(gx.linalg.pinv(x)) @ y)
call("matrix_rank", "dab", lambda x: gx.linalg.matrix_rank(_well(x)))
call("solve_triangular", "aa a", lambda x, y: gx.linalg.solve_triangular(_well(x), y, 1, True, True))  # noqa: E501
call("solve", "daa b", lambda x, y: gx.linalg.solve(_well(x), y))
call("solve", "daa eab", lambda x, y: gx.linalg.solve(_well(x), y))
call("norm", "ab b", lambda x, y: gx.linalg.norm(x, np.inf, 0) + y)
call("norm", "abc", lambda x: gx.linalg.norm(x, "fro", (0, 2), True))
call("norm", "ab", lambda x: gx.linalg.norm(x, 2), None)
call("vector_norm", "ab", lambda x: gx.linalg.vector_norm(x, ord=np.inf))
call("matrix_norm", "dab", lambda x: gx.linalg.matrix_norm(x, keepdims=True, ord=1))
call("toeplitz", "a", gx.linalg.toeplitz)
call("multi_dot", "ab bc cd de", lambda *v: gx.linalg.multi_dot(v))
call("polar", "ab", lambda x: [gx.stop_gradient(p) for p in gx.linalg.polar(x, "left")])

# --- random numbers, derivatives, optimisers -----------------------------------------------------

call("categorical", "ab", lambda x: gx.random.categorical(gx.random.key(1), x, 0))
call("categorical", "abc a", lambda x, y: gx.random.categorical(gx.random.key(1), x, 1, (y.shape[0], x.shape[2])))  # noqa: E501
call("choice", "ab", lambda x: gx.random.choice(gx.random.key(1), x, (2,), False))
call("choice", "ab b", lambda x, p: gx.random.choice(gx.random.key(1), x, (2,), False, gx.abs(p), 1))  # noqa: E501
call("multinomial", "i:a ab", lambda n, p: gx.random.multinomial(gx.random.key(1), n, gx.abs(p)))
call("multinomial", "i:. b a", lambda n, p, y: gx.random.multinomial(gx.random.key(1), n, gx.abs(p), shape=y.shape))  # noqa: E501
call("binomial", "i:b b ab", lambda n, p, y: gx.random.binomial(gx.random.key(1), n, p, y.shape))
call("split", "a b", lambda x, y: gx.random.normal(gx.random.split(gx.random.key(1), x.shape[0])[0], y.shape))  # noqa: E501
call("truncated_normal", "ab b", lambda x, y: gx.stop_gradient(gx.random.truncated_normal(gx.random.key(1), x, y + 2)))  # noqa: E501
call("dirichlet", "ab cab", lambda x, y: gx.stop_gradient(gx.random.dirichlet(gx.random.key(1), x, y.shape[:2])))  # noqa: E501
call("gradients", "ab b", lambda x, y: gx.gradients([gx.sum(x * y), gx.sum(x)], [x, y]))
call("jacobian", "ab b", lambda x, y: gx.jacobian(x @ y, [x, y], mode="forward"))
call("hessian", "a b", lambda x, y: gx.hessian(gx.sum(gx.outer(gx.sin(x), y)), [x]))
call("hvp", "ab b ab", lambda x, y, z: gx.hvp(gx.sum(gx.sin(x * y)), x, z))
call("custom_gradient", "ab b", lambda x, y: gx.custom_gradient(lambda v: (gx.sum(v, 0) * y, lambda c: gx.ones_like(x) * c * y))(x))  # noqa: E501
call("custom_jvp", "ab b", lambda x, y: gx.custom_jvp(lambda v: (v + y, lambda t: t + y * 0))(x))
call("implicit", "a ab", lambda x, y: gx.implicit(lambda v, x: 2 * v - x, lambda x: x / 2, x) + y)
call("checkpoint", "ab b", lambda x, y: list(gx.checkpoint(lambda v, w: (v * w, v + w))(x, y)))
call("switch", "i:. ab b ab", lambda n, x, y, z: gx.switch(n, [lambda x, y, z: x + y + z, lambda x, y, z: x + y - z], x, y, z))  # noqa: E501
call("fori_loop", "ab b", _still(lambda x, y: list(gx.fori_loop(0, x.shape[0], lambda i, t: (t[0] + x[i], t[1] * y), (y + 0 * x[0], y)))))  # noqa: E501
