"""Calls of loops, windows and bits by JAX's names, and of what NumPy writes into arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from guard_call import call

import graphc as gx


def _still(function: Any) -> Any:
    """A function whose loops have no derivative."""
    return lambda *values: function(*map(gx.stop_gradient, values))


call("fori_loop", "ab ab|ab b", _still(lambda x, y: gx.fori_loop(0, 3, lambda i, t: t + y, x + y)))
call("scan", "ab b|ab .", _still(lambda x, y: gx.scan(lambda c, r: (c + r, c * r), 0 * (x[0] + y), x)[1]))  # noqa: E501
call("map", "ab b|ab .", lambda x, y: _still(lambda x, y: gx.map(lambda row: row * y, x))(x, y) + gx.sum(x[0] + y))  # noqa: E501
call("switch", "i:. ab b", _still(lambda n, x, y: gx.switch(n, [lambda x, y: x + y, lambda x, y: x * y], x, y)))  # noqa: E501
call("case", "ab b", _still(lambda x, y: gx.case([gx.sum(x) > 0, gx.sum(y) > 0], [gx.add, gx.multiply], x, y, default=lambda x, y: x - y)))  # noqa: E501
call("associative_scan", "4a 4a", lambda x, y: gx.associative_scan(lambda p, q: (p[0] * q[0] - p[1] * q[1], p[0] * q[1] + p[1] * q[0]), (x[:4].reshape((4, -1)), y[:4].reshape((4, -1)))))  # noqa: E501
call("sliding_window_view", "ab", lambda x: gx.sliding_window_view(x, (2, 3)), lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 3)))  # noqa: E501
call("reduce_window", "ab", lambda x: gx.reduce_window(x, 0, gx.add, (2, 2), (1, 2)))
call("bitcast_convert_type", "ab|a2", lambda x: gx.bitcast_convert_type(gx.bitcast_convert_type(x, "int32"), "float64"))  # noqa: E501
call("bitcast_convert_type", "ab", lambda x: gx.bitcast_convert_type(x.astype("float32"), "float64"))  # noqa: E501
call("reduce_precision", "ab", lambda x: gx.reduce_precision(x, 8, 7))
for _name in ("reduce_and", "reduce_or", "reduce_xor"):
    call(_name, "i:ab", lambda x, name=_name: getattr(gx, name)(x, 1))
call("population_count", "i:ab", gx.population_count)
call("mulhi", "i:ab i:ab|i:ab i:b", gx.mulhi)
call("put", "ab i:c a", lambda x, i, y: gx.put(x, i, y, "drop"))
call("place", "ab b:ab c|ab b:b c", gx.place)
call("putmask", "ab b:ab c|ab b:b c", gx.putmask)
call("copyto", "ab ab b:ab|ab b b:b", lambda x, y, m: gx.copyto(x, y, m))
call("poly", "3", lambda x: gx.poly(x.reshape((3,))))
call("polydiv", "5 2", lambda x, y: gx.polydiv(x.reshape((5,)), y.reshape((2,)))[0])
call("polyfit", "a a|a ab", lambda x, y: gx.polyfit(gx.stop_gradient(x), y, 1))
call("histogram2d", "a a", lambda x, y: gx.histogram2d(*map(gx.stop_gradient, (x, y)), 3, [(-1, 1)] * 2)[0])  # noqa: E501
call("histogramdd", "a3", lambda x: gx.histogramdd(gx.stop_gradient(x).reshape((-1, 3)), 2, [(-1, 1)] * 3)[0])  # noqa: E501
call("ragged_dot", "ab cbd i:c", gx.ragged_dot)
call("scaled_matmul", "ab4 ac4 ab2 ac1", lambda x, y, p, q: gx.nn.scaled_matmul(*(v.reshape((*v.shape[:2], n)) for v, n in zip((x, y, p, q), (4, 4, 2, 1), strict=True)), "float64"))  # noqa: E501
