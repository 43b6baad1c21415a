"""What NumPy, JAX and SciPy call otherwise, where ``graphc.base.elsewhere`` doesn't say.

Data for generate_coverage.py, by library. Names of another meaning in graphc stand here too.
"""

from __future__ import annotations

OTHERWISE: dict[str, dict[str, str]] = {
    "numpy": {},
    "jax.numpy": {},
    "jax.nn": {
        "identity": "gx.positive",
        "dot_product_attention": "gx.nn.attention, which has heads before rows",
    },
    "jax.lax": {
        "approx_max_k": "gx.top_k, which is exact",
        "approx_min_k": "gx.top_k of -x, which is exact",
        "batch_matmul": "gx.matmul",
        "bessel_i0e": "gx.special.i0e",
        "bessel_i1e": "gx.special.i1e",
        "broadcast": "gx.broadcast_to(x, (*sizes, *x.shape))",
        "broadcast_in_dim": "gx.expand_dims, then gx.broadcast_to",
        "broadcast_like": "gx.broadcast_to(x, y.shape)",
        "broadcast_to_rank": "gx.expand_dims",
        "broadcasted_iota": "gx.broadcast_to(gx.arange(n), shape)",
        "clamp": "gx.clip(x, low, high)",
        "collapse": "gx.reshape",
        "convert_element_type": "gx.astype",
        "cumlogsumexp": "gx.logcumsumexp",
        "digamma": "gx.special.digamma",
        "div": "gx.divide, of integers gx.trunc of that or gx.floor_divide",
        "dot_general": "gx.einsum",
        "empty": "gx.zeros",
        "eq": "gx.equal",
        "erf_inv": "gx.special.erfinv",
        "gather": "gx.take, gx.take_along_axis, or indexing with arrays",
        "ge": "gx.greater_equal",
        "gt": "gx.greater",
        "index_in_dim": "gx.take, or x[index]",
        "index_take": "gx.take, or indexing with arrays",
        "integer_pow": "gx.power, or x ** n",
        "iota": "gx.arange",
        "is_finite": "gx.isfinite",
        "le": "gx.less_equal",
        "lgamma": "gx.special.gammaln",
        "logistic": "gx.sigmoid",
        "lt": "gx.less",
        "max": "gx.maximum",
        "min": "gx.minimum",
        "mul": "gx.multiply",
        "ne": "gx.not_equal",
        "neg": "gx.negative",
        "pad": "gx.pad; gaps are gx.zeros(shape).at[::n].set(x)",
        "polygamma": "gx.special.polygamma",
        "reduce_max": "gx.max",
        "reduce_min": "gx.min",
        "reduce_prod": "gx.prod",
        "reduce_sum": "gx.sum",
        "rem": "gx.fmod",
        "rev": "gx.flip",
        "rng_bit_generator": "gx.random.bits",
        "rng_uniform": "gx.random.uniform",
        "round": "gx.round, whose halves go to even",
        "scatter": "x.at[key].set(y)",
        "scatter_apply": "x.at[key].apply(f, unique_indices=True)",
        "scatter_max": "x.at[key].max(y)",
        "scatter_min": "x.at[key].min(y)",
        "scatter_mul": "x.at[key].multiply(y)",
        "scatter_sub": "x.at[key].subtract(y)",
        "select": "gx.where",
        "select_n": "gx.choose, of two gx.where",
        "shift_left": "gx.left_shift",
        "shift_right_arithmetic": "gx.right_shift of signed integers",
        "shift_right_logical": "gx.right_shift of unsigned integers, by gx.astype",
        "slice": "x[a:b:c]",
        "slice_in_dim": "x[a:b:c]",
        "sort_key_val": "gx.take_along_axis(values, gx.argsort(keys))",
        "sub": "gx.subtract",
        "zeta": "gx.special.zeta",
        "igamma": "gx.special.gammainc",
        "igammac": "gx.special.gammaincc",
        "betainc": "gx.special.betainc",
        "scaled_dot": "gx.nn.scaled_matmul",
        "igamma_grad_a": "gx.gradients of gx.special.gammainc(a, x) by a",
        "random_gamma_grad": "-p / q of gx.gradients of gx.special.gammainc(a, x) by a and x",
        "reduce": "gx.sum, gx.prod, gx.max, gx.min, gx.all, gx.any",
        "dtype": "x.dtype",
        "shape_as_value": "gx.dim of each of x.shape",
        "optimization_barrier": "nothing, since passes keep bits",
    },
    "scipy.special": {
        "binom": "gx.special.comb, of whole numbers",
        "exp10": "gx.power(10.0, x)",
        "powm1": "gx.expm1(y * gx.log(x))",
        "radian": "gx.radians",
        "sindg": "gx.sin(gx.radians(x))",
        "cosdg": "gx.cos(gx.radians(x))",
        "tandg": "gx.tan(gx.radians(x))",
        "cotdg": "1 / gx.tan(gx.radians(x))",
        "rgamma": "1 / gx.special.gamma(x)",
        "loggamma": "gx.special.gammaln, of positive numbers",
        "poch": "gx.special.gamma(a + m) / gx.special.gamma(a)",
        "perm": "gx.special.comb(n, k) * gx.special.factorial(k)",
        "zetac": "gx.special.zeta(x) - 1",
        "round": "gx.round",
    },
    "scipy.linalg": {
        "lu_factor": "gx.linalg.lu",
        "lu_solve": "gx.linalg.solve",
        "ishermitian": "gx.allclose(a, gx.conj(gx.matrix_transpose(a)))",
        "issymmetric": "gx.allclose(a, gx.matrix_transpose(a))",
    },
}
"""How a function is written; those with empty texts have no other spelling."""

UNCOUNTED: dict[str, tuple[tuple[str, str], ...]] = {
    "jax.lax": (
        ("communication between devices, of which there is one",
         "all_gather all_to_all axis_index axis_size pbroadcast pcast pmax pmean pmin ppermute "
         "precv psend pshuffle psum psum_scatter pswapaxes ragged_all_to_all "
         "with_sharding_constraint"),
        ("JAX's tokens and staging", "after_all composite create_token dce_sink "
         "platform_dependent stage"),
        ("questions about shapes of convolutions",
         "conv_dimension_numbers conv_general_permutations conv_general_shape_tuple "
         "conv_shape_tuple conv_transpose_shape_tuple padtype_to_pads reduce_window_shape_tuple"),
    ),
}  # fmt: skip
"""What else computes no numbers from numbers on one machine, and why it is not counted."""

REFUSED: dict[str, tuple[tuple[str, str], ...]] = {
    "jax.lax": (
        ("gx.implicit takes linear systems too", "custom_linear_solve"),
        ("there is gx.ragged_dot, of groups of rows; its other forms are its derivatives, which "
         "gx.gradients gives",
         "ragged_dot_general"),
        ("there is none yet: gx.sliding_window_view has all windows",
         "conv_general_dilated_patches"),
    ),
    "jax.nn": (
        ("it chooses among formats of accelerators: gx.nn.scaled_matmul takes any",
         "get_scaled_dot_general_config scaled_dot_general"),
    ),
}  # fmt: skip
"""Why there is no such function, and which ones."""

GENERAL = {
    "scipy.special": "there is none: fetch what it needs, or feed what SciPy gives",
    "scipy.linalg": "there is none: use scipy.linalg on fetched arrays",
    "jax.lax": "there is none yet",
    "jax.nn": "there is none yet",
    "jax.numpy": "there is none yet",
    "numpy": "there is none yet",
}
"""What is said of names that nothing else is known of."""

NOT_COUNTED = (
    "use NumPy's: it does not depend on the graph",
    "there are only numbers and bools",
    "session.save(path)",
)
"""How answers begin of functions that don't compute numbers from numbers."""

TEXT_FILES = "fromfile fromregex fromstring genfromtxt load loadtxt nested_iters save"
"""Functions that read files or walk arrays; not counted either."""
