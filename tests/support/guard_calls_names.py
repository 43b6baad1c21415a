"""Calls of activations by JAX's names, of windows that taper, and of arrays of indices."""

from __future__ import annotations

import numpy as np
from guard_call import call

import graphc as gx

_OF_ONE = (
    "celu elu hard_sigmoid hard_silu hard_swish hard_tanh log1mexp log_sigmoid logmeanexp mish "
    "relu6 selu soft_sign sparse_plus sparse_sigmoid squareplus standardize swish"
)
for _name in _OF_ONE.split():
    call(_name, "ab", getattr(gx.nn, _name))
call("glu", "ab ab", lambda x, y: gx.nn.glu(gx.stack([x, y]), axis=0))
for _name in ("bartlett", "blackman", "hamming", "hanning"):
    call(_name, "ab b", lambda x, y, name=_name: getattr(gx, name)(x.shape[1]) * y)
call("kaiser", "a ab", lambda x, y: gx.kaiser(y.shape[1], 5.0) + x[:, None])
call("ix", "i>a:c i>b:d ab", lambda i, j, x: x[gx.ix(i, j)], lambda i, j, x: x[np.ix_(i, j)])
call("tril_indices", "44", lambda x: x[gx.tril_indices(4)], lambda x: x[np.tril_indices(4)])
call("triu_indices", "44", lambda x: x[gx.triu_indices(4, 1)], lambda x: x[np.triu_indices(4, 1)])
call("diag_indices", "44", lambda x: x[gx.diag_indices(4)], lambda x: x[np.diag_indices(4)])
for _name in ("tril_indices_from", "triu_indices_from", "diag_indices_from"):
    call(_name, "44", lambda x, name=_name: x[getattr(gx, name)(np.ones((4, 4)))])
call("packbits", "i:ab i:b", lambda x, y: gx.packbits(x, axis=1) * gx.packbits(y), lambda x, y: np.packbits(x, axis=1) * np.packbits(y))  # noqa: E501
call("unpackbits", "i:ab i:b", lambda x, y: gx.unpackbits((x + y).astype("uint8"), axis=0))
call("clz", "i:ab i:b", lambda x, y: gx.clz(x) + y)
call("setxor1d", "ab b", lambda x, y: gx.setxor1d(gx.stop_gradient(x), gx.stop_gradient(y), size=5))
call("extract", "b:ab ab", lambda m, x: gx.extract(m, x, size=5))
