"""Neural network functions: ``gx.nn``.

Role: the user-facing names of ``nn``, ``attention`` and ``losses`` in ``graphc.ops``. Invariant:
nothing is defined here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

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
from graphc.ops.nn.losses import mse, softmax_cross_entropy
from graphc.ops.pointwise.math import sigmoid, tanh

__all__ = [
    "attention",
    "embedding",
    "gelu",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "logcosh",
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


def _missing(name: str) -> NoReturn:
    """Says what to do instead of what there isn't."""
    from graphc.base.elsewhere import instead_of

    spellings = {known: f"gx.nn.{known}" for known in __all__}
    known = "" if name.startswith("_") else instead_of(name, spellings)
    raise AttributeError(f"module 'graphc.nn' has no attribute {name!r}{known}")


if not TYPE_CHECKING:
    __getattr__ = _missing
