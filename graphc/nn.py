"""Neural network functions: ``gx.nn``.

Role: the user-facing names of ``nn``, ``attention`` and ``losses`` in ``graphc.ops``. Invariant:
nothing is defined here.
"""

from __future__ import annotations

from graphc.ops.attention import attention
from graphc.ops.losses import mse, softmax_cross_entropy
from graphc.ops.nn import (
    embedding,
    gelu,
    layer_norm,
    leaky_relu,
    log_softmax,
    relu,
    rms_norm,
    silu,
    softmax,
    softplus,
)
from graphc.ops.pointwise_math import sigmoid, tanh

__all__ = [
    "attention",
    "embedding",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "mse",
    "relu",
    "rms_norm",
    "sigmoid",
    "silu",
    "softmax",
    "softmax_cross_entropy",
    "softplus",
    "tanh",
]
