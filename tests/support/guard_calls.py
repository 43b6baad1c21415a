"""A call, over operands of unknown sizes, of each public function: what the guard sweep runs.

``guard_call`` says how they are written; some families have files of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import guard_calls_fourier  # noqa: F401
import guard_calls_lax  # noqa: F401
import guard_calls_linalg  # noqa: F401
import guard_calls_names  # noqa: F401
import guard_calls_options  # noqa: F401
import guard_calls_special  # noqa: F401
import numpy as np
from guard_call import CALLS, Call, call, named

import graphc as gx

# --- element by element --------------------------------------------------------------------------

named(
    "abs arccos arcsin arcsinh arctan arctanh cbrt ceil conj cos cosh degrees entr erf erfc exp "
    "exp2 expm1 fabs floor gelu imag isfinite isinf isnan isneginf isposinf leaky_relu log log10 "
    "log1p log2 logical_not logit nan_to_num negative positive radians ravel real relu "
    "rint round rsqrt sigmoid sign signbit silu sin sinc sinh softplus sqrt square stop_gradient "
    "tan tanh trunc",
    "ab",
)
named("angle iscomplex isreal", "ab")
# NumPy's of integers is an integer
call("reciprocal", "ab", gx.reciprocal, lambda x: 1 / x)
call("complex", "ab ab|a ab", gx.complex)
call("view_as_real", "ab", lambda x: gx.view_as_real(gx.complex(x, x)))
call("view_as_complex", "a2", gx.view_as_complex)
call("arccosh", "ab", lambda x: gx.arccosh(x * x + 1), lambda x: np.arccosh(x * x + 1))
call("frexp", "ab", gx.frexp, np.frexp)
call("modf", "ab", gx.modf, np.modf)
call("spacing", "ab", lambda x: gx.spacing(gx.stop_gradient(x)))
named("bitwise_not bitwise_count", "i:ab")
named(
    "add arctan2 copysign divide divmod equal float_power floor_divide fmax fmin fmod greater "
    "greater_equal guarded_multiply hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum mod multiply not_equal power subtract",
    "a a|ab b|a1 ab|ab ab|abc bc|. a",
)
call("nextafter", "a a|ab b|. a", lambda *v: gx.nextafter(*map(gx.stop_gradient, v)), np.nextafter)
named("heaviside isclose logaddexp2 xlogy xlog1py", "a a|ab b|. a")
named("allclose", "a a|ab b")
# NumPy says False where shapes don't broadcast
call("array_equiv", "a a|ab b", gx.array_equiv)
call("array_equal", "ab ab|a b|ab a|1a ba", gx.array_equal, np.array_equal)
call("ldexp", "ab i:b|a i:.", gx.ldexp, np.ldexp)
named("gcd lcm", "i:a i:a|i:ab i:b")
named("bitwise_and bitwise_or bitwise_xor left_shift right_shift", "i:a i:a|i:ab i:b")
call("clip", "a a a|ab b .|ab a1 b", lambda x, y, z: gx.clip(x, y, z), np.clip)
call("clip", "ab b", lambda x, y: gx.clip(x, y), lambda x, y: np.clip(x, y, None))
call("where", "b:a a a|b:ab b ab|b:a1 1b .", lambda c, x, y: gx.where(c, x, y), np.where)
call("astype", "ab", lambda x: gx.astype(x, "int32"))
call("astype", "i:ab", lambda x: gx.astype(x, "float32"))

call("select", "a a|ab b", lambda x, y: gx.select([x > 1, y > 0], [x, y]), lambda x, y: np.select([x > 1, y > 0], [x, y]))  # noqa: E501
call("piecewise", "ab", lambda x: gx.piecewise(x, [x > 0], [gx.sin, 2.0]))

# --- creation ------------------------------------------------------------------------------------

call("arange", "a a", lambda x, y: gx.arange(x.shape[0]) * y)
call("constant", "3b b", lambda x, y: x + gx.constant(np.ones((3, 1))) * y)
call("dim", "ab ab", lambda x, y: x * gx.dim(y.shape[1]) + y)
call("full", "ab b", lambda x, y: gx.full(x.shape, 2.0) * y)
call("full_like", "ab b", lambda x, y: gx.full_like(x, 2.0) * y)
call("ones", "ab ab", lambda x, y: gx.ones((x.shape[1], y.shape[0])) @ y)
call("ones_like", "ab a1", lambda x, y: gx.ones_like(x) * y)
call("zeros", "ab b", lambda x, y: gx.zeros(x.shape) + y)
call("zeros_like", "ab b", lambda x, y: gx.zeros_like(x) + y)
call("one_hot", "i>4:ab", lambda i: gx.one_hot(i, 4))
call("one_hot", "i>a:b a", lambda i, x: gx.one_hot(i, x.shape[0], x.dtype) * x)

# --- reductions ----------------------------------------------------------------------------------

def _along(function: Callable[..., Any] | None, axis: int) -> Callable[..., Any] | None:
    return None if function is None else lambda x: function(x, axis=axis)


def reductions(names: str) -> None:
    """Adds calls of functions that reduce one axis, or all."""
    for name in names.split():
        function, of_numpy = getattr(gx, name), getattr(np, name, None)
        call(name, "ab", function, of_numpy)
        call(name, "ab", lambda x, f=function: f(x, axis=0), _along(of_numpy, 0))
        call(name, "abc", lambda x, f=function: f(x, axis=1), _along(of_numpy, 1))
        call(name, "ab ab", lambda x, y, f=function: y - f(x, axis=-1, keepdims=True).astype(y.dtype))  # noqa: E501


reductions("all any argmax argmin max mean min prod std sum var logsumexp")
reductions("average count_nonzero nanargmax nanargmin nanmax nanmean nanmin nanprod nanstd nansum")
reductions("nanvar ptp")
call("average", "ab b", lambda x, y: gx.average(x, 1, y * y + 1), lambda x, y: np.average(x, 1, y * y + 1))  # noqa: E501
call("average", "ab ab", lambda x, y: gx.average(x, weights=y * y + 1))
call("cov", "ab", gx.cov)
# of one variable there is a scalar, where that is known
call("cov", "ab cb", lambda x, y: gx.ravel(gx.cov(x, y))[:1])
call("corrcoef", "ab", lambda x: gx.corrcoef(gx.stop_gradient(x)))
call("diff", "ab", gx.diff, np.diff)
call("diff", "ab cb", lambda x, y: gx.diff(x, 2, 0, append=y), lambda x, y: np.diff(x, 2, 0, append=y))  # noqa: E501
call("ediff1d", "ab", gx.ediff1d, np.ediff1d)
call("trapezoid", "ab b", gx.trapezoid, np.trapezoid)
call("gradient", "ab", gx.gradient, np.gradient)
call("gradient", "ab b", lambda x, y: gx.gradient(x, gx.cumsum(y * y + 1), axis=1))
call("unwrap", "ab", gx.unwrap, np.unwrap)


def _accumulate(extreme: np.ufunc) -> Callable[..., Any]:
    """Of all elements where the axis is None, as cumsum has it."""
    return lambda x, axis=None: extreme.accumulate(x.ravel() if axis is None else x, axis or 0)


for _name, _numpy in {
    "cumsum": np.cumsum,
    "cumprod": np.cumprod,
    "logcumsumexp": _accumulate(np.logaddexp),
    "nancumsum": np.nancumsum,
    "nancumprod": np.nancumprod,
    "cummax": _accumulate(np.maximum),
    "cummin": _accumulate(np.minimum),
}.items():
    _function = getattr(gx, _name)
    call(_name, "ab", _function, _numpy)
    call(_name, "ab", lambda x, f=_function: f(x, axis=0), lambda x, f=_numpy: f(x, axis=0))
    call(_name, "ab b", lambda x, y, f=_function: f(x, axis=-1) + y)

call("cumulative_sum", "ab b", lambda x, y: gx.cumulative_sum(x, 1, include_initial=True)[:, 1:] * y)  # noqa: E501
call("cumulative_prod", "a|ab", lambda x: gx.cumulative_prod(x, 0, include_initial=True))

# --- shapes --------------------------------------------------------------------------------------

call("broadcast_to", "b ab|ab ab|a1 ab|. a", lambda x, y: gx.broadcast_to(x, y.shape), lambda x, y: np.broadcast_to(x, y.shape))  # noqa: E501
call("sum_to", "ab b|a a|ab a1|ab .", lambda x, y: gx.sum_to(x, y.shape))
call("expand_dims", "ab a", lambda x, y: x * gx.expand_dims(y, 1))
call("moveaxis", "abc a", lambda x, y: gx.moveaxis(x, 0, -1) + y)
call("swapaxes", "abc a", lambda x, y: gx.swapaxes(x, 0, 2) + y)
call("transpose", "ab a", lambda x, y: gx.transpose(x) + y, lambda x, y: np.transpose(x) + y)
call("transpose", "abc b", lambda x, y: gx.transpose(x, (2, 0, 1)) + y)
call("ravel", "ab ba", lambda x, y: gx.ravel(x) + gx.ravel(y), lambda x, y: x.ravel() + y.ravel())
call("repeat", "ab", lambda x: gx.repeat(x, 3, axis=0), lambda x: np.repeat(x, 3, axis=0))
call("repeat", "ab", lambda x: gx.repeat(x, 2))
call("repeat", "3b", lambda x: gx.repeat(x, [2, 0, 1], 0), lambda x: np.repeat(x, [2, 0, 1], 0))
call("resize", "ab", lambda x: gx.resize(x, (3, 2)), lambda x: np.resize(x, (3, 2)))
call("tile", "ab", lambda x: gx.tile(x, (2, 3)), lambda x: np.tile(x, (2, 3)))
call("flip", "ab b", lambda x, y: gx.flip(x, 1) * y, lambda x, y: np.flip(x, 1) * y)
call("squeeze", "1a", lambda x: gx.squeeze(x, 0), lambda x: np.squeeze(x, 0))
call("squeeze", "a1 a", lambda x, y: gx.squeeze(x, axis=-1) - y)
call("reshape", "ab ba|abc cab", lambda x, y: gx.reshape(x, y.shape), lambda x, y: x.reshape(y.shape))  # noqa: E501
call("reshape", "ab a", lambda x, y: gx.reshape(x, (y.shape[0], -1)))
call("reshape", "32", lambda x: gx.reshape(x, (2, 3)), lambda x: np.reshape(x, (2, 3)))
call("reshape", "4a", lambda x: gx.reshape(x, (-1, 2)), lambda x: np.reshape(x, (-1, 2)))
call("reshape", "ab", lambda x: gx.reshape(x, (-1,)))

# --- NumPy's further moves -----------------------------------------------------------------------

named("atleast_1d atleast_2d atleast_3d diag diagflat fliplr flipud matrix_transpose", "ab")
named("tril triu", "ab|abc")
call("roll", "ab b", lambda x, y: gx.roll(x, 2, axis=0) * y, lambda x, y: np.roll(x, 2, axis=0) * y)
call("roll", "ab", lambda x: gx.roll(x, (-1, 4), axis=(0, 1)))
call("roll", "ab ab", lambda x, y: gx.roll(x, -3) - y, lambda x, y: np.roll(x, -3) - y)
call("rot90", "ab ba", lambda x, y: gx.rot90(x) + y, lambda x, y: np.rot90(x) + y)
call("rollaxis", "abc", lambda x: gx.rollaxis(x, 2, 1), lambda x: np.rollaxis(x, 2, 1))
for _name in ("hstack", "vstack", "dstack", "column_stack"):
    _function, _numpy = getattr(gx, _name), getattr(np, _name)
    call(_name, "ab ab|a a|ab cb", lambda *v, f=_function: f(v), lambda *v, f=_numpy: f(v))
call("append", "ab cb", lambda x, y: gx.append(x, y, 0), lambda x, y: np.append(x, y, 0))
call("append", "ab cd", gx.append, np.append)
call("block", "ab ab", lambda x, y: gx.block([[x, y], [y, x]]), lambda x, y: np.block([[x, y], [y, x]]))  # noqa: E501
call("block", "ab b", lambda x, y: gx.block([[x], [y]]))
call("array_split", "ab", lambda x: gx.array_split(x, 3), lambda x: np.array_split(x, 3))
call("hsplit", "a4", lambda x: gx.hsplit(x, 2), lambda x: np.hsplit(x, 2))
call("vsplit", "ab", lambda x: gx.vsplit(x, [2]), lambda x: np.vsplit(x, [2]))
call("dsplit", "ab3", lambda x: gx.dsplit(x, 3), lambda x: np.dsplit(x, 3))
call("broadcast_arrays", "ab b|a1 1b|ab ab", gx.broadcast_arrays, np.broadcast_arrays)
call("meshgrid", "a b", gx.meshgrid, np.meshgrid)
call("meshgrid", "a b a", lambda *v: gx.meshgrid(*v, indexing="ij"))
call("diagonal", "ab", gx.diagonal, np.diagonal)
call("diagonal", "abc", lambda x: gx.diagonal(x, -1, 2, 0), lambda x: np.diagonal(x, -1, 2, 0))
call("diag", "a a", lambda x, y: gx.diag(x, 1)[1:] * y[0])
call("trace", "ab", gx.trace, np.trace)
call("vander", "a", lambda x: gx.vander(x, 3), lambda x: np.vander(x, 3))
call("eye", "ab b", lambda x, y: gx.eye(x.shape[0], x.shape[1], 1) * y)
call("identity", "ab", lambda x: gx.identity(x.shape[0]) @ x)
call("tri", "ab", lambda x: gx.tri(x.shape[1], k=-1) @ gx.transpose(x))
call("indices", "ab ab", lambda x, y: gx.indices(x.shape)[1] * y)
call("linspace", "a a", lambda x, y: gx.linspace(0.0, 1.0, x.shape[0]) * y)
call("linspace", "a a", lambda x, y: gx.linspace(x, y, 3, endpoint=False))
call("logspace", "a a", lambda x, y: gx.logspace(0.0, 2.0, x.shape[0]) * y)
call("geomspace", "a a", lambda x, y: gx.geomspace(x * x + 1, y * y + 2, 3))

# --- parts and margins ---------------------------------------------------------------------------

call("pad", "ab", lambda x: gx.pad(x, ((1, 2), (0, 3))))
call("pad", "ab", lambda x: gx.pad(x, ((-1, 2), (1, -2))))
call("pad", "ab", lambda x: gx.pad(x, 1, mode="edge"), lambda x: np.pad(x, 1, mode="edge"))
call("pad", "5b", lambda x: gx.pad(x, ((2, 1), (0, 0)), mode="reflect"))
call("split", "4b", lambda x: gx.split(x, 2), lambda x: np.split(x, 2))
call("split", "6", lambda x: gx.split(x, 3), lambda x: np.split(x, 3))
call("split", "5b", lambda x: gx.split(x, [1, 3]), lambda x: np.split(x, [1, 3]))
call("concatenate", "ab cb", lambda x, y: gx.concatenate([x, y]), lambda *v: np.concatenate(v))
call("concatenate", "ab ac ab", lambda x, y, z: gx.concatenate([x, y * 2, z], axis=1))
call("concatenate", "ab cd", lambda x, y: gx.concatenate([x, y], axis=None))
call("stack", "ab ab", lambda x, y: gx.stack([x, y]), lambda *v: np.stack(v))
call("stack", "a a a", lambda x, y, z: gx.stack([x, y, z], axis=1), lambda *v: np.stack(v, 1))
call("getitem", "3b", lambda x: x[2], lambda x: x[2])
call("getitem", "ab", lambda x: x[-1], lambda x: x[-1])
call("getitem", "a3", lambda x: x[:, -3], lambda x: x[:, -3])
call("getitem", "ab", lambda x: x[1:, ::-2], lambda x: x[1:, ::-2])
call("getitem", "ab", lambda x: x[-3:2], lambda x: x[-3:2])
call("getitem", "4b b", lambda x, y: x[1:3] * x[0:2] + y, lambda x, y: x[1:3] * x[0:2] + y)
call("getitem", "ab a", lambda x, y: x[1:, 0] * y[:-1], lambda x, y: x[1:, 0] * y[:-1])
call("getitem", "ab i>a:c", lambda x, i: x[i], lambda x, i: x[i])
call("getitem", "ab i>a:c i>b:c", lambda x, i, j: x[i, j], lambda x, i, j: x[i, j])
call("getitem", "ab i>a:c1 i>b:d", lambda x, i, j: x[i, j], lambda x, i, j: x[i, j])
call("getitem", "3b", lambda x: x[[0, 2]], lambda x: x[[0, 2]])
call("getitem", "3b", lambda x: x[np.array([True, False, True])])
call("getitem", "a b", lambda x, y: x[:, None] * y)

call("interp", "ab c c|a b b", lambda x, y, z: gx.interp(x, gx.cumsum(y * y + 1), z))
call("interp", "ab c c", lambda x, y, z: gx.interp(x, y, z, period=3.0))

# --- picking and scattering ----------------------------------------------------------------------

call("take", "ab i>a:c", lambda x, i: gx.take(x, i, axis=0), lambda x, i: np.take(x, i, axis=0))
call("take", "ab i>b:cd", lambda x, i: gx.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1))
call("take", "ab i>ab:c", lambda x, i: gx.take(x, i), np.take)
call("take", "3b", lambda x: gx.take(x, [2, 0], axis=0), lambda x: np.take(x, [2, 0], axis=0))
call("take", "3", lambda x: gx.take(x, [-3]), lambda x: np.take(x, [-3]))
call("take", "ab i>a:c c", lambda x, i, y: gx.take(x, i, axis=0)[:, 0] * y)
call("take_along_axis", "ab i>b:ac", lambda x, i: gx.take_along_axis(x, i, axis=1))
call("take_along_axis", "ab i>a:cb", lambda x, i: gx.take_along_axis(x, i, axis=0))
call("take_along_axis", "ab i>ab:c", lambda x, i: gx.take_along_axis(x, i, axis=None))
call("embedding", "ab i>a:cd", gx.nn.embedding, lambda x, i: x[i])
call("scatter_add", "ab i>a:c cb", lambda x, i, y: gx.scatter_add(x, i, y))
call("scatter_add", "ab i>b:c ac", lambda x, i, y: gx.scatter_add(x, i, y, axis=1))
call("scatter_add", "ab i>a:c b", lambda x, i, y: gx.scatter_add(x, i, y))
call("scatter_add", "a i>a:cd .", lambda x, i, y: gx.scatter_add(x, i, y))
call("take", "ab i:c", lambda x, i: gx.take(x, i, axis=1, mode="fill"))
call("take", "1b i:c", lambda x, i: gx.take(x, i, axis=0, mode="clip"))
call("take_along_axis", "ab i:ac", lambda x, i: gx.take_along_axis(x, i, 1, "fill", 1.0))
call("put_along_axis", "ab i>b:ac ac", lambda x, i, y: gx.put_along_axis(x, i, y, axis=1))
call("put_along_axis", "ab i:1c .", lambda x, i, y: gx.put_along_axis(x, i, y, 1, "drop"))
call("at", "ab i>a:c cb", lambda x, i, y: x.at[i].set(y))
call("at", "ab i>a:c cb", lambda x, i, y: gx.at(x)[i].add(y, mode="drop"))
call("at", "ab i>a:c i>b:c c", lambda x, i, j, y: x.at[i, j].multiply(y))
call("at", "ab i>b:c ac", lambda x, j, y: x.at[:, j].max(y))
call("at", "ab i>b:c a1", lambda x, j, y: x.at[:, j].min(y))
call("at", "3b b", lambda x, y: x.at[1].divide(gx.exp(y)))
call("at", "ab", lambda x: x.at[1:, ::-2].set(x[1:, ::-2] * 2))
call("at", "ab b:a b", lambda x, m, y: x.at[m].set(y))
call("dynamic_slice", "ab i:2", lambda x, i: gx.dynamic_slice(x, i, (1, x.shape[1])))
call("dynamic_slice_in_dim", "3b i:.", lambda x, i: gx.dynamic_slice_in_dim(x, i, 2))
call("dynamic_index_in_dim", "3b i:. b", lambda x, i, y: gx.dynamic_index_in_dim(x, i) * y)
call("dynamic_update_slice", "ab 1b i:2", lambda x, y, i: gx.dynamic_update_slice(x, y, i))
call("dynamic_update_slice_in_dim", "3b 1b i:.", lambda x, y, i: gx.dynamic_update_slice_in_dim(x, y, i, 0))  # noqa: E501
call("dynamic_update_index_in_dim", "3b b i:.", lambda x, y, i: gx.dynamic_update_index_in_dim(x, y, i, 0))  # noqa: E501
call("nonzero", "b:ab", lambda m: gx.nonzero(m, size=3))
call("flatnonzero", "ab", lambda x: gx.flatnonzero(x, size=3, fill_value=-1))
call("argwhere", "ab", lambda x: gx.argwhere(x, size=x.shape[0]))
call("compress", "b:a ab", lambda m, x: gx.compress(m, x, axis=0, size=2))
call("segment_sum", "ab i:a", lambda x, i: gx.segment_sum(x, i, 3))
call("segment_prod", "ab i:a", lambda x, i: gx.segment_prod(x, i, x.shape[1]))
call("segment_max", "ab i:a", lambda x, i: gx.segment_max(x, i, 3))
call("segment_min", "a i:a", lambda x, i: gx.segment_min(x, i, 3))
call("unravel_index", "i>ab:c ab", lambda i, x: gx.unravel_index(i, x.shape))
call("ravel_multi_index", "i>a:c i>b:c ab", lambda i, j, x: gx.ravel_multi_index((i, j), x.shape, "clip"))  # noqa: E501
call("choose", "i:ab ab b", lambda i, x, y: gx.choose(i, [x, y], mode="wrap"))
call("at", "ab i:c", lambda x, i: x.at[i].get(mode="fill", fill_value=0.0))

# --- sorting --------------------------------------------------------------------------------------

call("sort", "ab b", lambda x, y: gx.sort(x) + y, lambda x, y: np.sort(x) + y)
call("sort", "ab ba", lambda x, y: gx.sort(x, axis=None) * gx.sort(y, axis=None))
call("sort", "ab b", lambda x, y: gx.sort(x, axis=0, descending=True) + y)
call("argsort", "ab ab", lambda x, y: gx.argsort(x, axis=0) * y)
call("top_k", "4 a", lambda x, y: gx.top_k(x, 3)[0] * gx.top_k(y, 3)[1])

call("partition", "ab b", lambda x, y: gx.partition(gx.pad(x, 1), 0, axis=0)[1:-1, 1:-1] + y)
call("argpartition", "ab ab", lambda x, y: gx.argpartition(gx.pad(x, 1), 0)[1:-1, 1:-1] * y)
call("lexsort", "i:ab i:ab", lambda x, y: gx.lexsort([x, y]), lambda x, y: np.lexsort([x, y]))
call("searchsorted", "a b", lambda x, y: gx.searchsorted(gx.sort(x), y), lambda x, y: np.searchsorted(np.sort(x), y))  # noqa: E501
call("digitize", "ab ab", lambda x, y: gx.digitize(x, [0.0, 1.0]) * y)
call("isin", "ab a", lambda x, y: gx.isin(x, y), lambda x, y: np.isin(x, y))
call("bincount", "i:a a", lambda i, x: gx.bincount(abs(i), x, length=5))
call("bincount", "i:a i:a", lambda i, j: gx.bincount(abs(i * j), length=5))
call("histogram", "ab ab", lambda x, y: gx.histogram(x, 4, (-1, 1), weights=y)[0])
call("histogram", "a b", lambda x, y: gx.histogram(x, 4, (-1, 1))[0] * gx.sum(y))
call("histogram_bin_edges", "ab 5", lambda x, y: gx.histogram_bin_edges(gx.sum(x), 4) * y)
for _name in ("median", "nanmedian"):
    _function, _numpy = getattr(gx, _name), getattr(np, _name)
    call(_name, "ab b", lambda x, y, f=_function: f(x, 0) + y, lambda x, y, f=_numpy: f(x, 0) + y)
for _name in ("quantile", "nanquantile", "percentile", "nanpercentile"):
    _function = getattr(gx, _name)
    call(_name, "ab a", lambda x, y, f=_function: f(x, 0.3, axis=1) + y)
call("unique", "a a", lambda x, y: list(gx.unique(x * y, True, True, True, size=3)))
for _name in ("unique_all", "unique_counts", "unique_inverse", "unique_values"):
    _function = getattr(gx, _name)
    call(_name, "a a", lambda x, y, f=_function: f(x * y, size=3))
for _name in ("intersect1d", "setdiff1d", "union1d"):
    _function = getattr(gx, _name)
    call(_name, "a b 3", lambda x, y, z, f=_function: f(x, y, size=3) + z)

# --- products ------------------------------------------------------------------------------------

named("matmul", "a a|ab b|b bc|ab bc|dab bc|dab dbc|ab dbc|dab 1bc|edab dbc")
named("dot", "a a|ab b|ab bc|abc dce")
named("outer", "a b|ab c")
named("inner", "a a|ab b|ab cb")
# by NumPy's BLAS zero times NaN is zero
call("dot", ". ab", gx.dot, np.multiply)
call("inner", ". a", gx.inner, np.multiply)
named("kron", "a b|ab cd|b ab")
named("vdot", "ab ab|a a")
named("vecdot", "ab b|ab ab|a1b cb")
# NumPy 2.1 has neither of these
call("matvec", "ab b|cab cb", gx.matvec, lambda x, y: np.einsum("...ab,...b->...a", x, y))
call("vecmat", "a ab|ca cab", gx.vecmat, lambda x, y: np.einsum("...a,...ab->...b", x, y))
call("tensordot", "ab bc|ba ba", lambda x, y: gx.tensordot(x, y, 1), lambda x, y: np.tensordot(x, y, 1))  # noqa: E501
call("tensordot", "abc cbd", lambda x, y: gx.tensordot(x, y, ((1, 2), (1, 0))))
call("cross", "a3 a3|ab a3|a3 b", gx.cross)
call("convolve", "a 2", lambda x, y: gx.convolve(x, y, "same"))
call("convolve", "a b", gx.convolve, np.convolve)
call("correlate", "a b", gx.correlate, np.correlate)
call("polyval", "ab", lambda x: gx.polyval([1.0, 0.5, 2.0], x))
named("polyadd polysub", "a a|a b")
call("polymul", "a b", gx.polymul)
call("polyder", "a", lambda x: gx.polyder(x, 2), lambda x: np.polyder(x, 2))
call("polyint", "a", lambda x: gx.polyint(x), lambda x: np.polyint(x))
call("einsum", "ab bc", lambda *v: gx.einsum("ab,bc->ac", *v), lambda *v: np.einsum("ab,bc->ac", *v))  # noqa: E501
call("einsum", "ab ab", lambda *v: gx.einsum("ab,ab->", *v), lambda *v: np.einsum("ab,ab->", *v))
call("einsum", "ab b", lambda *v: gx.einsum("ab,b->ba", *v), lambda *v: np.einsum("ab,b->ba", *v))
call("einsum", "aa", lambda *v: gx.einsum("aa->a", *v), lambda *v: np.einsum("aa->a", *v))
call("einsum", "a a a", lambda *v: gx.einsum("a,a,a->", *v), lambda *v: np.einsum("a,a,a->", *v))
call("einsum", "ab bc cd", lambda *v: gx.einsum("ab,bc,cd->ad", *v))
call("einsum", "abc acd", lambda *v: gx.einsum("abc,acd->abd", *v))

# --- networks ------------------------------------------------------------------------------------

call("softmax", "ab", gx.nn.softmax)
call("softmax", "ab a1", lambda x, y: gx.nn.softmax(x * y, axis=0))
call("log_softmax", "ab", gx.nn.log_softmax)
call("log_softmax", "ab b", lambda x, y: gx.nn.log_softmax(x + y))
call("softmax_cross_entropy", "ab i>b:a", gx.nn.softmax_cross_entropy)
call("softmax_cross_entropy", "ab ab", gx.nn.softmax_cross_entropy)
call("softmax_cross_entropy", "abc i>c:ab", gx.nn.softmax_cross_entropy)
call("mse", "ab ab|a a", gx.nn.mse)
call("logcosh", "ab", gx.nn.logcosh)
call("layer_norm", "ab b b", lambda x, y, z: gx.nn.layer_norm(x, y, z))
call("layer_norm", "ab", lambda x: gx.nn.layer_norm(x))
call("layer_norm", "ab ab", lambda x, y: gx.nn.layer_norm(x, bias=y, axis=(0, 1)))
call("rms_norm", "ab b", lambda x, y: gx.nn.rms_norm(x, y))
call("rms_norm", "ab a1", lambda x, y: gx.nn.rms_norm(x, y, axis=0))
call("attention", "ac bc bd|eac ebc ebd", lambda q, k, v: gx.nn.attention(q, k, v))
call("attention", "ac bc bd", lambda q, k, v: gx.nn.attention(q, k, v, causal=True))
call("attention", "ac bc bd b:ab", lambda q, k, v, m: gx.nn.attention(q, k, v, mask=m))
call("attention", "ac bc bd b", lambda q, k, v, m: gx.nn.attention(q, k, v, mask=m))
call("clip_by_global_norm", "ab c", lambda x, y: gx.optim.clip_by_global_norm([x, y], 1.0)[0])

# --- random numbers ------------------------------------------------------------------------------

for _law in ("bits", "cauchy", "exponential", "gumbel", "laplace", "logistic", "normal", "rademacher"):  # noqa: E501
    call(_law, "ab ab", lambda x, y, law=_law: getattr(gx.random, law)(gx.random.key(1), x.shape) * y)  # noqa: E501
call("uniform", "ab b .", lambda x, y, z: gx.random.uniform(gx.random.key(1), x.shape, "float64", y, z))  # noqa: E501
call("randint", "ab i:b i:ab", lambda x, y, z: gx.random.randint(gx.random.key(1), x.shape, y, z))
call("bits", "i:a", lambda x: gx.random.bits(x.astype("uint32"), (7,)))
call("bernoulli", "ab ab", lambda x, y: gx.where(gx.random.bernoulli(gx.random.key(1), x), x, y))
call("bernoulli", "ab b", lambda x, y: gx.random.bernoulli(gx.random.key(1), y, x.shape))
call("categorical", "ab a", lambda x, y: gx.random.categorical(gx.random.key(1), x) + y)
call("categorical", "ab c", lambda x, y: gx.random.categorical(gx.random.key(1), x, 0, (y.shape[0], x.shape[1])))  # noqa: E501
call("dropout", "ab . b", lambda x, y, z: gx.random.dropout(gx.random.key(1), x, y) + z)
call("key", "i:. ab", lambda n, x: gx.random.uniform(gx.random.key(n), x.shape))
call("split", "ab", lambda x: gx.random.split(gx.random.key(1), x.shape[0]))
call("fold_in", "i:. a", lambda n, x: gx.random.normal(gx.random.fold_in(gx.random.key(1), n), x.shape))  # noqa: E501
call("gamma", "ab b", lambda x, y: gx.stop_gradient(gx.random.gamma(gx.random.key(1), y, x.shape)))
call("beta", "ab b", lambda x, y: gx.stop_gradient(gx.random.beta(gx.random.key(1), x, y)))
call("dirichlet", "a bc", lambda x, y: gx.stop_gradient(gx.random.dirichlet(gx.random.key(1), x, y.shape[:1])))  # noqa: E501
call("truncated_normal", "a ab", lambda x, y: gx.stop_gradient(gx.random.truncated_normal(gx.random.key(1), x, y[0], y.shape[1:])))  # noqa: E501
call("poisson", "ab b", lambda x, y: gx.random.poisson(gx.random.key(1), y, x.shape))
call("binomial", "i:ab b", lambda n, p: gx.random.binomial(gx.random.key(1), n, p))
call("multinomial", "i:a b", lambda n, p: gx.random.multinomial(gx.random.key(1), n, gx.abs(p)))
call("permutation", "ab ab", lambda x, y: gx.random.permutation(gx.random.key(1), x, 1) + y)
call("permutation", "ab ab", lambda x, y: gx.random.permutation(gx.random.key(1), x, 0, True) + y)
call("permutation", "a b", lambda x, y: gx.random.permutation(gx.random.key(1), y.shape[0])[:x.shape[0]])  # noqa: E501
call("choice", "ab c", lambda x, y: gx.random.choice(gx.random.key(1), x, y.shape, axis=1))
call("choice", "ab a", lambda x, p: gx.random.choice(gx.random.key(1), x, (3,), p=gx.abs(p)))
call("choice", "a a b", lambda x, p, y: gx.random.choice(gx.random.key(1), x, y.shape, False, gx.abs(p)))  # noqa: E501
call("next_key", "ab ab", lambda x, y: gx.random.normal(gx.random.next_key(), x.shape) * 0 + y)
call("philox", "i:ab", lambda x: gx.random.philox(gx.random.key(1), x.astype("uint32")))
call("philox", "i:ab", lambda x: gx.random.philox(gx.random.key(1), gx.stack([x, x, x, x], -1).astype("uint32")))  # noqa: E501

# --- derivatives and control flow, as calls ------------------------------------------------------

call("gradients", "ab b", lambda x, y: gx.gradients(gx.sin(x), x, grad_ys=y))
call("gradients", "ab ab", lambda x, y: gx.gradients(gx.sum(x * y), [x, y]))
call("vjp", "ab b", lambda x, y: gx.vjp(gx.sin(x), x, y))
call("value_and_gradients", "ab ab", lambda x, y: gx.value_and_gradients(gx.sum(x * y), [x, y]))
call("hvp", "a a", lambda x, y: gx.hvp(gx.sum(gx.sin(x) * y), x, y))
call("jacobian", "ab b", lambda x, y: gx.jacobian(x @ y, y))
call("hessian", "a a", lambda x, y: gx.hessian(gx.sum(gx.sin(x) * y), x))
call(
    "custom_gradient",
    "ab b",
    lambda x, y: gx.custom_gradient(lambda v: (v * y, lambda cotangent: cotangent * y))(x),
)
call("custom_jvp", "ab b", lambda x, y: gx.custom_jvp(lambda v: (v * y, lambda tangent: tangent * y))(x))  # noqa: E501
call("implicit", "a a", lambda x, y: gx.implicit(lambda v, x: 2 * v - x * gx.stop_gradient(y), lambda x: x * y / 2, x))  # noqa: E501
call("checkpoint", "ab b", lambda x, y: gx.checkpoint(lambda v: gx.sin(v) * y)(x))
call("jvp", "a a", lambda x, y: gx.jvp(gx.sin(x), x, y))
call("jvp", "ab b ab", lambda x, y, z: gx.jvp(gx.hypot(x, y), [x, y], [z, y]))
call("cond", "ab b", lambda x, y: gx.cond(gx.sum(y) > -1.0, lambda: gx.sum(x * y), lambda: gx.sum(y)))  # noqa: E501
call("while_loop", "ab b", lambda x, y: gx.while_loop(lambda n, v: n < 2, lambda n, v: (n + 1, v + gx.sum(x * y)), (gx.constant(0), gx.sum(y)))[1])  # noqa: E501

# --- several together ----------------------------------------------------------------------------

call("sum of products", "a a", lambda x, y: gx.sum(x * y), lambda x, y: np.sum(x * y))
call("multiply and add", "ab b ab", lambda x, y, z: x * y + z, lambda x, y, z: x * y + z)
call("two hypots", "a a a", lambda x, y, z: gx.hypot(gx.hypot(x, y), z))
call("logaddexp and where", "a b:a a", lambda x, c, y: gx.where(c, gx.logaddexp(x, y), x))
call("layer", "ab bc c", lambda x, w, y: gx.nn.relu(x @ w + y), lambda x, w, y: np.maximum(x @ w + y, 0))  # noqa: E501
call("two layers", "ab bc cd", lambda x, w, y: gx.tanh(gx.tanh(x @ w) @ y))
call("loss of a layer", "ab b a", lambda x, w, t: gx.nn.mse(x @ w, t))
call("weighted losses", "a ab b", lambda w, x, y: gx.sum(w * (x @ y) ** 2))
call("cross entropies", "ab bc i>c:a", lambda x, w, t: gx.nn.softmax_cross_entropy(x @ w, t).mean())
call("weighted cross entropies", "a ab i>b:a", lambda w, x, t: gx.mean(w * gx.nn.softmax_cross_entropy(x, t)))  # noqa: E501
call("softmax of a layer", "ab bc", lambda x, w: gx.nn.softmax(x @ w))
call("centred", "ab a", lambda x, y: (x - gx.mean(x, axis=1, keepdims=True)) * y[:, None])
call("joined sums", "ab ab b", lambda x, y, z: gx.concatenate([x + y, x * z]))
call("reshaped", "ab ba ab", lambda x, y, z: x.reshape(y.shape) * 2 + gx.transpose(z))
call("rows of a sum", "ab ab", lambda x, y: (x + y)[1])
call("last of a product", "ab bc", lambda x, y: (x @ y)[-1])
call("norm of a layer", "ab bc c", lambda x, w, g: gx.nn.layer_norm(x @ w, g))
call("difference that cancels", "a a", lambda x, y: (x + y) - y)
call("times zero", "i:a i:a", lambda x, y: (x + y) * 0)
call("itself compared", "i:a i:a", lambda x, y: gx.equal(x - y, x - y))
call("unused piece", "ab cb", lambda x, y: gx.concatenate([x, y])[:1] * 1)
call("unused sum", "ab b", lambda x, y: gx.ones_like(x + y))
call("stopped", "a a a", lambda x, y, z: gx.stop_gradient(x * y) * z)


# --- Python in a run -----------------------------------------------------------------------------

call("host_call", "ab|a", lambda x: gx.host_call(lambda a: (-a).astype(a.dtype), x, result_types=x, derivative=lambda xs, ys, cs: [-cs[0]]), lambda a: (-a).astype(a.dtype))  # noqa: E501
call("check", "ab b", lambda x, y: gx.check(x * y > -1, "x * y is {}", x * y, passing=x + y), lambda x, y: x + y)  # noqa: E501


NO_OPERANDS = frozenset({"delete", "insert", "placeholder", "unstack"})
"""Public functions that take no value whose size might not fit."""

OTHER_THINGS = frozenset({
    "control_dependencies", "default_graph", "group", "load", "print", "reset_default_graph",
    "save", "summary", "variable",
})  # fmt: skip
"""Public functions of graphs and sessions; the contexts of the sweep use what of it has sizes."""

IN_NO_LIBRARY = frozenset({
    "check", "complex eigh", "complex qr", "complex svd", "cond of matrices", "eigh", "eigvalsh",
    "host_call", "lstsq", "matrix_rank", "pinv", "polyfit", "qr", "svd", "svdvals",
})  # fmt: skip
"""What calls LAPACK or Python, which libraries don't hold."""

__all__ = ["CALLS", "IN_NO_LIBRARY", "NO_OPERANDS", "OTHER_THINGS", "Call"]

MADE_BY_PASSES = frozenset({
    "check_rows", "class_index", "contract_panels", "cos_approx", "erf_approx", "erfc_approx",
    "fma", "fused",
    "join_slices", "log_approx", "place_slice", "reduce_all", "reduce_any", "reduce_argmax",
    "reduce_argmin", "reduce_deviations", "reduce_max", "reduce_min", "reduce_prod", "reduce_sum",
    "sigmoid_approx", "sin_approx", "tanh_approx",
})  # fmt: skip
"""Operations that only extraction and passes make, out of those that users build."""
