"""What NumPy, JAX, PyTorch and TensorFlow call otherwise, or have and graphc has not.

Data: names of those libraries, and what to do here instead. Each name that begins with ``gx.`` in
an answer exists, and no name that is answered for does; tests say so. Names are looked up as they
stand, then without regard to case and underscores.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from graphc.base.words import close_names, plain

_ANSWERS: tuple[tuple[str, str], ...] = (
    # --- other names -----------------------------------------------------------------------------
    ("use gx.max", "reduce_max"),
    ("use gx.min", "reduce_min"),
    ("use gx.sum", "reduce_sum"),
    ("use gx.mean", "reduce_mean"),
    ("use gx.prod", "reduce_prod"),
    ("use gx.all", "reduce_all alltrue"),
    ("use gx.any", "reduce_any sometrue"),
    ("use gx.logsumexp", "reduce_logsumexp"),
    ("use gx.logcumsumexp", "cumlogsumexp"),
    ("use gx.std", "reduce_std"),
    ("use gx.var", "reduce_variance"),
    ("use gx.arange", "range iota"),
    ("use gx.astype, or value.astype(dtype)", "cast convert_element_type to_dtype"),
    ("use gx.clip", "clamp clamp_min clamp_max"),
    ("use gx.concatenate", "cat"),
    ("use gx.trapezoid", "trapz"),
    ("use gx.divide", "truediv realdiv"),
    ("use gx.multiply", "mul"),
    ("use gx.subtract", "sub"),
    ("use gx.negative", "neg"),
    ("use gx.matmul, or the operator @", "mm bmm mv batch_matmul"),
    ("write b + x @ y", "addmm addmv baddbmm addbmm linear dense"),
    ("use gx.einsum, which finds the order of its products", "einsum_path multi_dot"),
    ("use gx.transpose", "permute"),
    ("use gx.matrix_transpose", "mT"),
    ("use gx.moveaxis", "movedim"),
    ("use gx.flip with an axis", "reverse"),
    ("use gx.reshape", "view view_as flatten"),
    ("use gx.expand_dims, or indexing with None", "unsqueeze newaxis"),
    ("use gx.unstack", "unbind"),
    ("use gx.array_split", "chunk tensor_split"),
    ("use gx.broadcast_to", "broadcast expand expand_as"),
    ("use gx.take_along_axis", "gather gather_nd take_along_dim"),
    ("use gx.take", "index_select"),
    ("use gx.scatter_add, from a base of zeros",
     "index_add"),
    ("values are not changed in place: x.at[key].set(y) gives a new one",
     "index_update masked_fill masked_scatter tensor_scatter_nd_update"),
    ("use gx.where, or gx.split and gx.concatenate of the parts", "fill_diagonal"),
    ("use x.at[key].set(y) or .add(y)", "scatter scatter_nd index_put"),
    ("use gx.segment_sum", "unsorted_segment_sum"),
    ("index with slices, as in x[a:b], or use gx.dynamic_slice", "narrow slice strided_slice"),
    ("use gx.compress with size=; gx.where with three arguments keeps the shape",
     "masked_select boolean_mask select_and_gather"),
    ("use gx.zeros, which costs nothing until it is used", "empty new_empty"),
    ("use gx.zeros_like", "empty_like new_zeros"),
    ("use gx.full", "fill new_full"),
    ("use gx.constant for arrays; operations take arrays as they are, too",
     "array asarray asanyarray ascontiguousarray asfortranarray asarray_chkfinite tensor Tensor "
     "as_tensor from_numpy convert_to_tensor from_dlpack frombuffer fromfunction fromiter copy "
     "clone asmatrix matrix mat bmat"),
    ("x.shape has the dims; gx.dim(x.shape[0]) is a size as a number in the graph",
     "shape size ndim rank broadcast_shapes numel"),
    ("use gx.stop_gradient", "detach no_gradient lax_stop_gradient"),
    ("complex numbers are gx.complex64 and gx.complex128; gx.complex(x, y) makes them of parts",
     "complex256 csingle cdouble clongdouble complexfloating cfloat polar"),
    ("use gx.real, gx.imag and gx.isreal; the dtype of a value is x.dtype",
     "real_if_close isrealobj iscomplexobj sort_complex is_complex"),
    ("there are bool, integers of 8 to 64 bits, gx.float16, gx.bfloat16, gx.float32, gx.float64, "
     "gx.complex64 and gx.complex128; floats of 8 bits and integers of 2 and 4 for storage",
     "float128 longdouble quantize_per_tensor float4_e2m1fn float6_e2m3fn float6_e3m2fn "
     "float8_e8m0fnu int1 uint1"),
    ("name a dtype of its size, as gx.float16, gx.float32, gx.float64, gx.int64 or gx.bool_",
     "bool float half double single int int_ intc intp uint uintc uintp byte ubyte short ushort "
     "long ulong longlong ulonglong dtype dtypes FloatTensor LongTensor"),
    # --- graphs, variables, running --------------------------------------------------------------
    ("use gx.gradients(loss, variables); gx.optim trains",
     "grad GradientTape backward autograd linear_transpose gradient_tape"),
    ("use gx.jacobian(y, x), which chooses by the sizes", "jacfwd jacrev"),
    ("use gx.hvp(y, x, v): a Hessian is symmetric", "vhp"),
    ("use gx.value_and_gradients", "value_and_grad"),
    ("use gx.jvp", "forward_ad linearize"),
    ("everything is compiled: build in a gx.Graph and run it with gx.Session",
     "jit compile function tf_function pmap xla script make_jaxpr eval_shape export"),
    ("write operations for a whole batch; a dim may be symbolic, as in gx.placeholder(('n', 4))",
     "vmap vectorize apply_along_axis apply_over_axes frompyfunc map_fn vectorized_map"),
    ("use gx.scan, or gx.while_loop", "foldl foldr"),
    ("use gx.switch, gx.case or gx.cond", "switch_case"),
    ("use gx.variable and functions that build layers, as in the tutorial",
     "Parameter Module Linear Dense Sequential keras layers get_variable Layer ModuleList "
     "Bilinear Identity Flatten Embedding EmbeddingBag"),
    ("variables have their initial values from the start; there is nothing to initialise",
     "global_variables_initializer initialize_all_variables init initializers"),
    ("graph.variables lists them", "trainable_variables global_variables all_variables parameters"),
    ("use variable.assign, assign_add or assign_sub", "assign assign_add assign_sub"),
    ("session.save(path) and session.restore(path) keep values of variables; gx.save keeps graphs",
     "Saver saved_model load_state_dict state_dict restore train savez "
     "savez_compressed savetxt"),
    ("names may hold slashes: name='layer/w'", "name_scope variable_scope"),
    ("gradients go by the graph: use gx.stop_gradient for what gets none",
     "no_grad enable_grad inference_mode set_grad_enabled requires_grad"),
    ("use gx.custom_gradient, or gx.custom_jvp for both modes", "custom_vjp"),
    ("use gx.implicit, which takes a residual and a solver of any kind",
     "custom_root custom_fixed_point implicit_diff"),
    ("graphc runs on the CPU: gx.Session(threads=...) says on how many of its cores",
     "device cuda devices device_put to mps set_num_threads local_devices gpu tpu ConfigProto"),
    ("fetch the value: session.run(value)", "eval item numpy tolist device_get"),
    ("use gx.debug, and Options(check_numerics=True) for NaN",
     "check_numerics debug_nans add_check_numerics_ops"),
    ("use gx.print, which prints when the graph runs", "Print"),
    ("use gx.check", "Assert assert_equal checkify chex"),
    ("use gx.host_call", "py_func py_function numpy_function pure_callback io_callback callback"),
    ("use one that there is, as gx.optim.SGD with momentum, or gx.optim.Adam",
     "Rprop ASGD SparseAdam Ftrl Yogi Novograd Sophia Muon Shampoo "
     "GradientDescentOptimizer AdamOptimizer MomentumOptimizer"),
    ("give the optimiser gx.optim.cosine_decay(...) or another of its schedules as the rate",
     "lr_scheduler LRScheduler StepLR MultiStepLR CosineAnnealingLR OneCycleLR LambdaLR "
     "cosine_decay_schedule"),
    ("give the optimiser gx.optim.ReduceOnPlateau(rate, loss) as the rate", "ReduceLROnPlateau"),
    ("use gx.optim.clip_by_global_norm, or gx.optim.Clipped around an optimiser",
     "clip_grad_norm_ clip_grad_norm"),
    ("use gx.optim.clip_by_value, or gx.optim.Clipped around an optimiser",
     "clip_grad_value_ clip_grad_value"),
    ("use gx.optim.Averaged around an optimiser",
     "ExponentialMovingAverage AveragedModel SWALR"),
    ("use gx.optim.Accumulated around an optimiser", "MultiSteps"),
    ("use gx.optim.LossScaled around an optimiser",
     "GradScaler LossScaleOptimizer DynamicLossScale"),
    ("give minimize commit='finite'", "apply_if_finite"),
    ("use gx.optim.lbfgs", "fmin_l_bfgs_b"),
    # --- networks --------------------------------------------------------------------------------
    ("use gx.nn.mse", "mse_loss MSELoss mean_squared_error squared_difference"),
    ("write gx.mean(gx.abs(prediction - target))", "l1_loss L1Loss mean_absolute_error"),
    ("write it with gx.where: d = gx.abs(a - b); gx.mean(gx.where(d < 1, 0.5 * d * d, d - 0.5))",
     "smooth_l1_loss SmoothL1Loss huber_loss HuberLoss"),
    ("use gx.nn.softmax_cross_entropy, which takes class numbers or probabilities",
     "cross_entropy CrossEntropyLoss sparse_softmax_cross_entropy_with_logits "
     "softmax_cross_entropy_with_logits categorical_crossentropy nll_loss NLLLoss"),
    ("write gx.mean(gx.nn.softplus(z) - z * target) of the logits z",
     "binary_cross_entropy binary_cross_entropy_with_logits BCELoss BCEWithLogitsLoss "
     "sigmoid_cross_entropy_with_logits"),
    ("write gx.sum(p * (gx.log(p) - gx.log(q)))", "kl_div KLDivLoss"),
    ("build it from gx.where, gx.exp, gx.log and gx.maximum; it is fused into one kernel",
     "ctc_loss poisson_nll_loss gaussian_nll_loss hinge_embedding_loss margin_ranking_loss "
     "triplet_margin_loss multi_margin_loss cosine_embedding_loss soft_margin_loss cdist "
     "pairwise_distance"),
    ("use gx.nn.attention", "scaled_dot_product_attention MultiheadAttention "
     "multi_head_attention_forward dot_product_attention"),
    ("use gx.nn.hard_swish", "hardswish"),
    ("use gx.nn.leaky_relu", "prelu PReLU rrelu"),
    ("use gx.nn.log_sigmoid", "logsigmoid log_sigmoid"),
    ("use gx.nn.elu", "elu ELU"),
    ("use gx.nn.celu", "celu CELU"),
    ("use gx.nn.selu", "selu SELU"),
    ("use gx.nn.mish", "mish Mish"),
    ("use gx.nn.glu", "glu GLU"),
    ("use gx.nn.hard_sigmoid", "hardsigmoid hard_sigmoid"),
    ("use gx.nn.hard_tanh", "hardtanh hard_tanh"),
    ("use gx.nn.relu6", "relu6 ReLU6"),
    ("use gx.nn.soft_sign", "softsign soft_sign"),
    ("use gx.nn.standardize", "standardize"),
    ("use gx.nn.softmax(-x)", "softmin"),
    ("write it with gx.where", "threshold hardshrink softshrink tanhshrink"),
    ("write x / gx.sqrt(gx.sum(x * x, axis=-1, keepdims=True))",
     "normalize l2_normalize cosine_similarity"),
    ("there is none yet: use gx.nn.layer_norm or gx.nn.rms_norm",
     "batch_norm BatchNorm1d BatchNorm2d batch_normalization group_norm GroupNorm instance_norm "
     "InstanceNorm2d local_response_norm LocalResponseNorm"),
    ("there is no convolution yet: add slices, x[:, :, i:i + n, j:j + m] times weights, or use "
     "gx.matmul of gathered patches",
     "conv1d conv2d conv3d Conv1d Conv2d Conv3d conv conv_general_dilated conv_transpose1d "
     "conv_transpose2d conv_transpose3d depthwise_conv2d separable_conv2d unfold fold im2col"),
    ("use gx.reduce_window",
     "max_pool1d max_pool2d max_pool3d max_pool avg_pool1d avg_pool2d avg_pool3d avg_pool "
     "adaptive_avg_pool2d adaptive_max_pool2d MaxPool2d AvgPool2d lp_pool2d"),
    ("there is none yet: gather rows and columns with gx.take and weigh them",
     "interpolate upsample grid_sample affine_grid"),
    ("use gx.reshape and gx.transpose", "pixel_shuffle pixel_unshuffle depth_to_space "
     "space_to_depth channel_shuffle"),
    ("unroll it, or carry the state through gx.while_loop",
     "LSTM GRU RNN LSTMCell GRUCell RNNCell lstm gru rnn Transformer TransformerEncoderLayer"),
    ("use gx.random.key(seed), and draw with gx.random.uniform(key, shape) and others",
     "PRNGKey key manual_seed set_seed default_rng"),
    ("use gx.random.split(key), or gx.random.fold_in(key, number)", "fold_in"),
    ("use gx.random.bits(key, shape)", "bits"),
    ("use gx.random.uniform(key, shape)",
     "uniform rand rand_like random_uniform random_sample ranf"),
    ("use gx.random.normal(key, shape)",
     "normal randn randn_like random_normal standard_normal"),
    ("use gx.random.randint(key, shape, minval, maxval)",
     "randint randint_like random_integers integers"),
    ("use gx.random.bernoulli(key, p)", "bernoulli"),
    ("use gx.random.categorical(key, logits)", "categorical"),
    ("use gx.random.gumbel(key, shape)", "gumbel"),
    ("use gx.softmax((x + gx.random.gumbel(key, x.shape)) / temperature)", "gumbel_softmax"),
    ("use gx.random.laplace(key, shape)", "laplace"),
    ("use gx.random.logistic(key, shape)", "logistic"),
    ("use gx.random.cauchy(key, shape)", "cauchy standard_cauchy"),
    ("use gx.random.exponential(key, shape)", "exponential standard_exponential"),
    ("use gx.random.rademacher(key, shape)", "rademacher"),
    ("use gx.random.dropout(key, x, rate)", "dropout Dropout alpha_dropout"),
    ("use gx.random.truncated_normal(key, lower, upper)", "truncated_normal"),
    ("use gx.random.gamma(key, a)", "standard_gamma"),
    ("use gx.random.beta(key, a, b)", "beta"),
    ("use gx.random.dirichlet(key, alpha)", "dirichlet"),
    ("use gx.random.poisson(key, lam)", "poisson"),
    ("use gx.random.binomial(key, n, p)", "binomial"),
    ("use gx.random.multinomial(key, n, p)", "multinomial"),
    ("use gx.random.permutation(key, x)", "permutation randperm shuffle"),
    ("use gx.random.choice(key, a, shape)", "choice"),
    # --- what there is not -----------------------------------------------------------------------
    ("use gx.sort, which takes the axis", "msort kthvalue"),
    ("use gx.digitize or gx.searchsorted", "bucketize"),
    ("there is none: count with gx.bincount, and take gx.argmax of that", "mode"),
    ("there is none, since the size of the result would depend on numbers: use NumPy on the "
     "fetched array",
     "trim_zeros unique_consecutive where_v2"),
    ("use gx.isin", "in1d"),
    ("use gx.linalg.slogdet(a).logabsdet", "logdet"),
    ("linear algebra is in gx.linalg, by NumPy's names",
     "solve inv cholesky qr svd svdvals eig eigvals eigh eigvalsh slogdet det lstsq pinv norm "
     "matrix_norm vector_norm matrix_power matrix_rank cond lu solve_triangular expm"),
    ("Fourier transforms are in gx.fft, by NumPy's names",
     "fft ifft rfft irfft fft2 ifft2 fftn ifftn rfft2 irfft2 rfftn irfftn hfft ihfft fftshift "
     "ifftshift fftfreq rfftfreq"),
    ("use gx.fft.rfft of windows of the signal", "stft istft"),
    ("there is none: use gx.fft.rfft of the signal beside its mirror image", "dct idct dst idst"),
    ("there is none: use numpy.linalg on fetched arrays, or within gx.host_call",
     "tensorinv tensorsolve"),
    ("use Horner's rule: a few products and sums, fused into one kernel",
     "poly1d polynomial roots"),
    ("there is none: feed what NumPy's or SciPy's gives, call that by gx.host_call, or build it "
     "from gx.exp, gx.log and such",
     "ediff"),
    ("use gx.special.gammainc", "gammainc igamma"),
    ("use gx.special.gammaincc", "gammaincc igammac"),
    ("use gx.special.betainc", "betainc regularized_incomplete_beta"),
    ("use gx.special.gammaln", "lgamma gammaln"),
    ("use gx.special.gamma", "gamma"),
    ("use gx.special.digamma", "digamma"),
    ("use gx.special.polygamma", "polygamma"),
    ("use gx.special.zeta", "zeta"),
    ("use gx.special.erfinv", "erfinv erf_inv"),
    ("use gx.special.erfcinv", "erfcinv"),
    ("use gx.special.erfcx", "erfcx"),
    ("use gx.special.ndtr", "ndtr"),
    ("use gx.special.ndtri", "ndtri"),
    ("use gx.special.log_ndtr", "log_ndtr"),
    ("use gx.special.multigammaln", "multigammaln mvlgamma"),
    ("use gx.special.betaln", "betaln lbeta"),
    ("use gx.special.factorial", "factorial"),
    ("use gx.special.comb", "comb"),
    ("use gx.i0", "bessel_i0"),
    ("use gx.special.i0e", "i0e bessel_i0e"),
    ("use gx.special.i1", "i1 bessel_i1"),
    ("use gx.special.i1e", "i1e bessel_i1e"),
    ("use gx.special.k0e", "bessel_k0e"),
    ("use gx.special.k1e", "bessel_k1e"),
    ("use gx.special.dawsn", "dawsn"),
    ("use gx.special.exp1", "exp1"),
    ("use gx.special.expi", "expi"),
    ("use gx.special.spence", "spence"),
    ("use gx.special.rel_entr, or gx.special.kl_div which adds y - x", "rel_entr"),
    ("use gx.special.log_expit", "log_expit"),
    ("make it with NumPy and feed it, or use it as a constant: operations take arrays",
     "mgrid ogrid r_ c_ s_ index_exp mask_indices "
     "genfromtxt loadtxt fromfile fromregex fromstring memmap ma "
     "rec recarray nditer ndenumerate ndindex flatiter nested_iters"),
    ("use NumPy's: it does not depend on the graph, as np.pi or np.inf",
     "pi e inf nan euler_gamma finfo iinfo issubdtype isdtype promote_types result_type can_cast "
     "common_type min_scalar_type mintypecode isscalar iterable errstate seterr geterr seterrcall "
     "geterrcall ndarray generic number integer inexact floating flexible signedinteger "
     "unsignedinteger character ufunc info little_endian printoptions set_printoptions "
     "get_printoptions array_repr array_str array2string may_share_memory shares_memory "
     "isfortran require typename typecodes ScalarType sctypeDict False_ True_ base_repr "
     "binary_repr format_float_positional format_float_scientific get_include show_config "
     "show_runtime getbufsize setbufsize version core lib char strings emath exceptions typing "
     "test f2py ctypeslib"),
    ("there are only numbers and bools: no text, dates, objects or records",
     "str_ bytes_ object_ void record datetime64 timedelta64 busday_count busday_offset is_busday "
     "busdaycalendar datetime_as_string datetime_data isnat strings_type string String"),
)  # fmt: skip


def elsewhere(name: str) -> str | None:
    """What to do instead of a name of another library; None for names that this does not know."""
    known = _known()
    return known.get(name) or known.get(plain(name))


def instead_of(name: str, spellings: Mapping[str, str]) -> str:
    """What an error about a name that does not exist goes on with; nothing if nothing is known.

    Args:
        name: what was asked for.
        spellings: the names there are, and how each is written.
    """
    close = close_names(name, spellings)
    same = [known for known in close if plain(known) == plain(name)]
    answer = None if same else elsewhere(name)
    if answer is not None:
        return f": {answer}"
    written = [spellings[known] for known in same or close]
    return f"; did you mean {' or '.join(written)}?" if written else ""


def names_elsewhere() -> frozenset[str]:
    """The names that this knows, as they stand."""
    return frozenset(name for _, names in _ANSWERS for name in names.split())


@cache
def _known() -> dict[str, str]:
    exact = {name: answer for answer, names in _ANSWERS for name in names.split()}
    return {plain(name): answer for name, answer in exact.items()} | exact


__all__ = ["elsewhere", "instead_of", "names_elsewhere"]
