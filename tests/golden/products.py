"""Matrix products by every path, and what is fused behind them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import graphc as gx
from golden.registry import causal, hidden, p, program, weights

FLOATS = ("float32", "float64")
SIZES = (
    (1, 40, 70), (3, 33, 65), (5, 300, 40), (29, 77, 131), (50, 1, 90), (1, 1, 9), (20, 3000, 300),
    (70, 300, 700), (500, 400, 300),
)  # fmt: skip


@program()
def products_of_every_size() -> Any:
    """Few rows, one row, one column, dots, streams and blocks; each as a transpose, too."""
    fetched = []
    for dtype in FLOATS:
        for m, n, k in SIZES:
            fetched.append(p(m, k, dtype=dtype) @ p(k, n, dtype=dtype))
            fetched.append(p(m, k, dtype=dtype) @ p(n, k, dtype=dtype).T)
            fetched.append(p(k, m, dtype=dtype).T @ p(k, n, dtype=dtype))
    return [*fetched, p(4, 0) @ p(0, 5), p(4, 3) @ p(3, 0), p(7) @ p(7), p(7, 9) @ p(9)]


@program()
def products_of_integers() -> Any:
    """Products that wrap, and of bools, in the plain loop."""
    dtypes = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool")
    return [p(20, 33, dtype=dtype) @ p(33, 17, dtype=dtype) for dtype in dtypes]


@program()
def batched_products() -> Any:
    """Batches, alike and broadcast, with transposes, and contractions of more axes."""
    a, b = p(4, 3, 20, 30), p(4, 3, 30, 25)
    return [
        a @ b, a @ p(30, 25), gx.swapaxes(a, -1, -2) @ p(4, 3, 20, 9), a @ gx.swapaxes(a, -1, -2),
        gx.einsum("bhik,bhkj->bij", a, b), gx.einsum("bhik,kj->bhij", a, p(30, 8)),
        p(6, 40) @ p(5, 40, 9),
        gx.einsum("ij,ij->", p(20, 30), p(20, 30)), gx.outer(p(20), p(30)), gx.dot(p(40), p(40)),
        gx.einsum("ii->i", p(9, 9)), p(12, 1, 64) @ p(12, 64, 128),
    ]  # fmt: skip


@program()
def products_of_constants() -> Any:
    """Constant right operands in panels: one row, two, few and many, with a tail of columns."""
    fetched = []
    for dtype in FLOATS:
        for rows in (1, 2, 3, 33, 200):
            fetched.append(p(rows, 65, dtype=dtype) @ weights(65, 48, dtype=dtype))
        fetched.append(gx.sigmoid(p(33, 300, dtype=dtype) @ weights(300, 70, dtype=dtype)))
    return [*fetched, gx.softmax(p(33, 65) @ weights(65, 48)), p(5, 700) @ weights(700, 300)]


@program()
def work_behind_products() -> Any:
    """Biases, activations and residuals on blocks: of few rows, of many, with the product kept."""
    x, w = p(128, 200), p(200, 300)
    product = x @ w
    deep = p(784, 128).T @ p(784, 512)
    return [
        gx.relu(product + p(300)), [product, gx.tanh(product)], gx.gelu(p(4, 200) @ w) + p(4, 300),
        (p(1, 200) @ w) * 2.0, gx.relu(p(33, 65) @ p(31, 65).T + p(31)),
        p(2, 40, 20) @ p(2, 20, 30) + p(30),
        deep * 0.5 + p(128, 512) * p(128, 512) - p(128, 512),
        (x @ w).reshape((4, 32, 300)) + p(4, 1, 1),
        gx.exp(p(20, 900) @ p(900, 2000)), gx.sigmoid(p(600, 60) @ p(60, 600)),
        gx.floor(p(64, 9) @ p(9, 1)),
        (p(9, 8, dtype="int32") @ p(8, 7, dtype="int32")) * 3 + 1,
        gx.square(p(40, 30) @ p(30, 300)) > 1.0,
    ]  # fmt: skip


@program()
def rows_behind_products() -> Any:
    """Reductions of a product's rows, with the product wanted and not."""
    x = p(200, 64)
    scores = x @ p(64, 300)
    return [
        gx.softmax(x @ p(64, 90)), gx.layer_norm(x @ p(64, 128), (128,)),
        [scores, gx.softmax(scores)],
        gx.argmax(x @ p(50, 64).T, axis=1), gx.sum(gx.square(x @ p(64, 40)), axis=1),
        gx.logsumexp(x @ p(64, 5000), axis=1), gx.softmax(p(3, 20, 16) @ p(3, 16, 700)),
        gx.softmax(p(40, 8, dtype="float64") @ p(8, 90, dtype="float64")),
    ]  # fmt: skip


@program()
def attentions() -> Any:
    """Attention as one kernel: of several heads, of one, in other spellings, of doubles."""
    fetched = []
    for dtype in FLOATS:
        q, k, v = (p(2, 45, 16, dtype=dtype) for _ in range(3))
        fetched.append(gx.attention(q, k, v))
    q, k, v = p(4, 300, 64), p(4, 500, 64), p(4, 500, 64)
    scores = q @ gx.swapaxes(k, -1, -2) / 8.0
    raised = gx.exp(scores - scores.max(axis=-1, keepdims=True))
    one, lone = ([p(*shape) for _ in range(3)] for shape in ((2000, 64), (600, 8)))
    wanted = lone[0] @ lone[1].T
    return [
        *fetched, gx.softmax(scores) @ v, (raised / raised.sum(axis=-1, keepdims=True)) @ v,
        gx.softmax(one[0] @ one[1].T) @ one[2], [wanted, gx.softmax(wanted) @ lone[2]],
        gx.attention(p(3, 1, 40), p(3, 70, 40), p(3, 70, 40)),
        gx.attention(*(p(12, 512, 64) for _ in range(3))),
    ]  # fmt: skip


def _masked(mask: Callable[[Any], Any], rows: int = 130, columns: int = 310, *batch: int) -> Any:
    """Attention over scores that a function masks."""
    q, k, v = p(*batch, rows, 16), p(*batch, columns, 16), p(*batch, columns, 24)
    return gx.softmax(mask(q @ gx.swapaxes(k, -1, -2) * 0.5)) @ v


@program()
def masked_attentions() -> Any:
    """Attention under masks: columns that are hidden from whole blocks are left out."""
    fetched = []
    for dtype in FLOATS:
        q, k, v = (p(2, 200, 16, dtype=dtype) for _ in range(3))
        fetched.append(gx.softmax(causal(q @ gx.swapaxes(k, -1, -2))) @ v)
    for shape in ((310,), (130, 310), (2, 130, 310), (2, 1, 310)):
        mask = p(*shape, dtype="bool")
        fetched.append(_masked(partial(hidden, mask=mask), 130, 310, 2))
        fetched.append(_masked(lambda s, m=mask: gx.where(m, -float("inf"), s), 130, 310, 2))
    first, second = p(130, 310, dtype="bool"), p(2, 130, 310, dtype="bool")
    fetched.append(_masked(lambda s: hidden(hidden(s, second), first), 130, 310, 2))
    q, k, v = p(2, 130, 16), p(2, 310, 16), p(2, 310, 24)
    raised = gx.exp(hidden(q @ gx.swapaxes(k, -1, -2), second))
    fetched.append(raised / raised.sum(axis=-1, keepdims=True) @ v)
    fetched += [_masked(causal, length, length) for length in (90, 700, 3000)]
    return [*fetched, gx.attention(*(p(2, 40, 9, 8) for _ in range(3)))]
