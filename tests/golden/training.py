"""Whole steps: gradients, optimisers, and models as users write them."""

from __future__ import annotations

from typing import Any

import graphc as gx
from golden.registry import causal, p, program, variable


def _network(optimizer: Any) -> Any:
    """A step of a network with a normalised layer."""
    x, labels = p(24, 40), p(24, dtype="int64")
    first, second, bias = variable(40, 64), variable(64, 10), variable(64)
    hidden = gx.gelu(gx.layer_norm(x @ first + bias, (64,)))
    loss = gx.mean(gx.softmax_cross_entropy(hidden @ second, labels))
    return [loss, optimizer.minimize(loss)]


@program()
def step_of_adam() -> Any:
    """Adam: updates behind products, in place."""
    return _network(gx.optim.Adam(1e-2))


@program()
def step_of_adamw() -> Any:
    """AdamW, with a rate that a schedule gives."""
    return _network(gx.optim.AdamW(p() * 0.1, weight_decay=0.1))


@program()
def step_of_sgd() -> Any:
    """Gradient descent with momentum and decay."""
    return _network(gx.optim.SGD(1e-2, momentum=0.9, nesterov=True, weight_decay=0.01))


@program()
def step_of_rmsprop() -> Any:
    """RMSProp, centred and with momentum."""
    return _network(gx.optim.RMSProp(1e-2, momentum=0.5, centered=True))


@program()
def step_of_lamb() -> Any:
    """LAMB: norms of steps, and a mask of what decays."""
    return _network(gx.optim.LAMB(1e-2, weight_decay=0.1, mask=lambda v: v.ndim > 1))


@program()
def step_of_adafactor() -> Any:
    """Adafactor: rows and columns of second moments, and a schedule."""
    return _network(gx.optim.Adafactor(gx.optim.warmup_cosine_decay(0.0, 1e-2, 10, 100)))


@program()
def step_that_is_taken_back() -> Any:
    """Losses that are scaled, means of gradients, averages; nothing of it unless it is finite."""
    x, w, b = p(24, 40, dtype="float16"), variable(40, 16, dtype="float16"), variable(16)
    loss = gx.mean(gx.square(gx.astype(x @ w, "float32") + b))
    averaged = gx.optim.Averaged(gx.optim.Clipped(gx.optim.Adam(1e-2), 1.0))
    optimizer = gx.optim.Accumulated(gx.optim.LossScaled(averaged), 4)
    return [loss, optimizer.minimize(loss, commit="finite")]


@program()
def search_for_a_minimum() -> Any:
    """L-BFGS: a loop of loops over a ring of steps."""
    x, labels = p(24, 10), p(24)
    start = {"w": variable(10), "b": variable()}
    return gx.optim.lbfgs(lambda m: gx.mse(x @ m["w"] + m["b"], labels), start, 4)


@program()
def step_of_a_large_layer() -> Any:
    """A layer so large that its update is made block by block behind the product."""
    x, y = p("batch", 784), p("batch", 512)
    w = variable(784, 512)
    loss = gx.mse(gx.relu(x @ w), y)
    return [loss, gx.optim.Adam(1e-3).minimize(loss)]


@program()
def step_with_clipped_gradients() -> Any:
    """Gradients scaled by their common norm, an embedding among them."""
    table, w = variable(1000, 32), variable(32, 1000)
    tokens = p(8, 20, dtype="int64")
    scores = gx.embedding(table, tokens[:, :-1]) @ w
    loss = gx.mean(gx.softmax_cross_entropy(scores, tokens[:, 1:]))
    slopes, norm = gx.optim.clip_by_global_norm(gx.gradients(loss, [table, w]), 1.0)
    writes = [v.assign(v - 0.1 * slope) for v, slope in zip((table, w), slopes, strict=True)]
    return [loss, norm, gx.group(writes)]


@program()
def block_of_a_transformer() -> Any:
    """Causal attention of several heads and a feed-forward layer, with the gradient of the loss."""
    x = p(2, 48, 64)
    wq, wk, wv, wo = (variable(64, 64) for _ in range(4))
    up, down = variable(64, 256), variable(256, 64)

    def heads(value: Any) -> Any:
        return gx.transpose(gx.reshape(value, (2, 48, 4, 16)), (0, 2, 1, 3))

    h = gx.layer_norm(x, (64,))
    q, k, v = (heads(h @ w) for w in (wq, wk, wv))
    scores = causal(q @ gx.swapaxes(k, -1, -2) / 4.0)
    mixed = gx.reshape(gx.transpose(gx.softmax(scores) @ v, (0, 2, 1, 3)), (2, 48, 64))
    y = x + mixed @ wo
    y = y + gx.gelu(gx.layer_norm(y, (64,)) @ up) @ down
    loss = gx.mean(gx.square(y))
    return [loss, y, gx.gradients(loss, [wq, wv, wo, up, down])]


@program()
def k_means() -> Any:
    """Distances, the nearest centre and new means: argmin, scatters and divisions."""
    x, centres = p(3000, 16), variable(20, 16)
    distance = gx.sum(gx.square(x), 1, keepdims=True) - 2.0 * (x @ gx.transpose(centres))
    nearest = gx.argmin(distance + gx.sum(gx.square(centres), axis=1), axis=1)
    sums = gx.scatter_add(gx.zeros((20, 16)), nearest, x)
    counts = gx.scatter_add(gx.zeros((20,)), nearest, gx.ones((3000,)))
    means = sums / gx.maximum(gx.expand_dims(counts, 1), 1.0)
    return [nearest, gx.group([centres.assign(means)])]


@program()
def heat_equation() -> Any:
    """A stencil in a loop: shifted slices, margins, and a state that is carried."""
    start = p(66, 66)

    def step(i: Any, u: Any) -> Any:
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return i + 1, gx.pad(inner + 0.1 * (around - 4.0 * inner), ((1, 1), (1, 1)))

    return gx.while_loop(lambda i, u: i < 10, step, (0, start))[1]


@program(numerics="strict")
def strict_numerics() -> Any:
    """No rewriting for stability: functions and sums as they are written."""
    x = p(64, 90)
    return [gx.log(gx.sum(gx.exp(x), axis=1)), gx.sqrt(gx.sum(x * x, axis=1)), gx.softmax(x)]


@program()
def forward_derivatives() -> Any:
    """Products with the Jacobian, forward, of a small network."""
    x, w = p(20, 30), p(30, 40)
    return gx.jvp(gx.softmax(gx.tanh(x @ w)), [x, w], [p(20, 30), p(30, 40)])
