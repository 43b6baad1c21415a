"""Neural network functions: ``gx.nn``.

Role: the user-facing names of ``nn``, ``attention`` and ``losses`` in ``graphc.ops``. Invariant:
nothing is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from graphc.ops.nn.activations import (
    celu,
    elu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_tanh,
    log1mexp,
    log_sigmoid,
    logmeanexp,
    mish,
    relu6,
    selu,
    soft_sign,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    standardize,
)
from graphc.ops.nn.activations import hard_silu as hard_swish
from graphc.ops.nn.attention import attention
from graphc.ops.nn.layers import (
    embedding,
    gelu,
    layer_norm,
    leaky_relu,
    log_softmax,
    logcosh,
    relu,
    rms_norm,
    silu,
    softmax,
    softplus,
)
from graphc.ops.nn.layers import silu as swish
from graphc.ops.nn.losses import mse, softmax_cross_entropy
from graphc.ops.nn.scaled import scaled_matmul
from graphc.ops.pointwise.math import sigmoid, tanh
from graphc.ops.reduce.statistics import logsumexp

__all__ = [
    "attention",
    "celu",
    "elu",
    "embedding",
    "gelu",
    "glu",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "layer_norm",
    "leaky_relu",
    "log1mexp",
    "log_sigmoid",
    "log_softmax",
    "logcosh",
    "logmeanexp",
    "logsumexp",
    "mish",
    "mse",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_matmul",
    "selu",
    "sigmoid",
    "silu",
    "soft_sign",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "sparse_plus",
    "sparse_sigmoid",
    "squareplus",
    "standardize",
    "swish",
    "tanh",
]


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.nn.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.nn' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
