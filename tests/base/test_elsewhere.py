"""Names of other libraries, Python's functions on values, and feeds that are no numbers (fault 21).

Whoever comes from NumPy, JAX, PyTorch or TensorFlow is told what to do, never led astray by a name
that merely looks alike.
"""

from __future__ import annotations

import math
import operator
import re
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc.base import elsewhere as data
from graphc.base.elsewhere import elsewhere
from graphc.base.words import close_names

NAMES = [name for _, names in data._ANSWERS for name in names.split()]
TEXTS = [answer for answer, _ in data._ANSWERS]


def message(call: Any, kind: type[Exception] = AttributeError) -> str:
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


# --- the table -----------------------------------------------------------------------------------


def test_fault_21_what_is_advised_exists() -> None:
    advised = sorted({name for text in TEXTS for name in re.findall(r"\bgx(?:\.\w+)+", text)})
    assert len(advised) > 60
    for name in advised:
        operator.attrgetter(name.removeprefix("gx."))(gx)


def test_fault_21_what_exists_is_not_answered_for() -> None:
    assert len(NAMES) == len(set(NAMES))
    elsewhere_in_numpy = {"cond", "fft"}  # np.linalg.cond and np.fft.fft are others than gx's
    assert not sorted((set(NAMES) & set(dir(gx))) - elsewhere_in_numpy)
    at_gx = {"beta"}  # gx.random.beta is another one
    for module in (gx.nn, gx.special):
        space = module.__name__.replace("graphc", "gx")
        for name in (set(NAMES) & set(module.__all__)) - at_gx - {"kl_div"}:
            assert f"{space}.{name}" in (elsewhere(name) or ""), name


def test_fault_21_every_name_of_numpy_has_an_answer() -> None:
    known = {*dir(gx)}
    names = [name for name in dir(np) if not name.startswith("_")]
    assert not [name for name in names if name not in known and elsewhere(name) is None]
    for module in (np.linalg, np.fft):
        public = [name for name in module.__all__ if name != "LinAlgError"]
        assert not [name for name in public if name not in known and elsewhere(name) is None]


COMMON = [
    "jit", "grad", "value_and_grad", "vmap", "pmap", "jacfwd", "jacrev", "vhp",
    "checkpoint", "custom_vjp", "device_put", "eye", "linspace", "vstack",
    "hstack", "tril", "triu", "tensor", "from_numpy", "no_grad",
    "manual_seed", "randn", "rand", "cat", "unsqueeze", "permute", "gather", "scatter",
    "masked_fill", "bmm", "mm", "addmm", "chunk", "narrow", "clamp", "view",
    "compile", "cuda", "load_state_dict", "conv1d", "conv2d", "conv3d", "linear",
    "cross_entropy", "nll_loss", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "dropout", "batch_norm", "group_norm",
    "instance_norm", "normalize", "max_pool2d", "avg_pool2d", "adaptive_avg_pool2d",
    "interpolate", "scaled_dot_product_attention", "elu", "selu", "prelu", "hardtanh",
    "hardswish", "relu6", "mish", "glu", "softmin", "softsign", "logsigmoid", "gumbel_softmax",
    "unfold", "pixel_shuffle", "cosine_similarity", "ctc_loss", "Module", "Linear", "Conv2d",
    "Sequential", "Parameter", "LSTM", "GRU", "BatchNorm2d", "Dropout", "MultiheadAttention",
    "GradientTape", "function", "reduce_sum", "reduce_mean", "cast",
    "global_variables_initializer", "get_variable", "keras", "Rprop", "GradScaler", "lr_scheduler",
    "randint", "fft", "linalg", "csingle", "half",
]  # fmt: skip


@pytest.mark.parametrize("name", sorted(set(COMMON) - set(dir(gx))))
def test_fault_21_names_in_common_use_have_an_answer(name: str) -> None:
    text = message(lambda: getattr(gx, name))
    assert text.startswith(f"module 'graphc' has no attribute {name!r}: ")
    assert "did you mean" not in text and len(text) < 250


# --- where names are asked for -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, answer",
    [
        ("jacrev", ": use gx.jacobian(y, x)"),
        ("conv2d", ": there is no convolution yet"),
        ("Conv2D", ": there is no convolution yet"),
        ("trim_zeros", ": there is none, since the size"),
        ("randn", ": use gx.random.normal(key, shape)"),
        ("LayerNorm", "; did you mean gx.layer_norm?"),
        ("softmaxx", "; did you mean gx.softmax?"),
        ("Placeholder", "; did you mean gx.placeholder?"),
        ("adam", "; did you mean gx.optim.Adam"),
        ("AdamW", "; did you mean gx.optim.AdamW"),
        ("jacobin", "; did you mean gx.jacobian"),
        ("qqqqqq", ""), ("nme", ""), ("xy", ""), ("cnd2", ""),
    ],
)  # fmt: skip
def test_fault_21_missing_names_of_the_module(name: str, answer: str) -> None:
    text = message(lambda: getattr(gx, name))
    start = f"module 'graphc' has no attribute {name!r}{answer}"
    assert text.startswith(start) and (answer or text == start)


def test_fault_21_missing_names_of_nn_and_of_values() -> None:
    assert "no convolution yet" in message(lambda: gx.nn.conv2d)
    assert "gx.random.dropout" in message(lambda: gx.nn.dropout)
    assert message(lambda: gx.nn.softmx).endswith("did you mean gx.nn.softmax?")
    assert message(lambda: gx.nn.nothing) == "module 'graphc.nn' has no attribute 'nothing'"
    with gx.Graph():
        x = gx.placeholder((3,), name="x")
        for name, answer in (
            ("permute", ": use gx.transpose"), ("exp", ": use gx.exp"), ("sun", "'sun'"),
            ("item", "session.run"), ("trim_zeros", "there is none"), ("cfloat", "complex"),
            ("foo", "'foo'"), ("__foo__", "'__foo__'"),
        ):  # fmt: skip
            assert answer in message(lambda name=name: getattr(x, name))
        assert not hasattr(x, "__array_interface__")


def test_fault_21_only_slips_of_the_hand_are_taken_for_another_name() -> None:
    names = ["cond", "sqrt", "softmax", "layer_norm", "mse", "sin"]
    for wanted, found in {
        "conv2d": [], "sort": ["sqrt"], "sotfmax": ["softmax"], "softmx": ["softmax"],
        "LayerNorm": ["layer_norm"], "mes": ["mse"], "is": [], "sn": [], "jacrev": [],
        "son": ["sin"], "condd": ["cond"], "": [], "sigmoid": [],
    }.items():  # fmt: skip
        assert close_names(wanted, names) == found, wanted


# --- NumPy's functions and Python's on values ----------------------------------------------------


@pytest.mark.parametrize(
    "name, hint",
    [
        ("trim_zeros", "depend on numbers"),
        ("linalg.tensorinv", "within gx.host_call"), ("roots", "Horner"),
        ("fill_diagonal", "gx.where"),
    ],
)  # fmt: skip
def test_fault_21_numpy_functions_that_are_missing_say_what_to_do(name: str, hint: str) -> None:
    function = operator.attrgetter(name)(np)
    with gx.Graph():
        x = gx.placeholder((3, 3), name="x")
        arguments: Any = ([x, x],) if name.endswith("stack") else (x,)
        if name == "fill_diagonal":
            arguments = (x, x)
        with pytest.raises(gx.UnsupportedError) as caught:
            function(*arguments)
    assert caught.value.message == f"np.{name} of a symbolic value"
    assert caught.value.hint is not None and hint in caught.value.hint


def test_fault_21_python_rounds_and_divides_values() -> None:
    given = np.array([2.5, -3.75, 0.5, 7.0])
    with gx.Graph() as graph:
        x = gx.placeholder((4,), "float64", name="x")
        i = gx.placeholder((4,), "int64", name="i")
        values = [
            round(x), round(x, 1), math.floor(x), math.ceil(x), math.trunc(x),
            *divmod(x, 2), *divmod(20.0, x), *divmod(i, 3), *np.divmod(x, 2.0), *np.divmod(7, i),
        ]  # fmt: skip
    whole = np.array([5, -5, 3, 8])
    got = gx.Session(graph).run(values, {x: given, i: whole})
    expected = [
        np.round(given), np.round(given, 1), np.floor(given), np.ceil(given), np.trunc(given),
        *np.divmod(given, 2), *np.divmod(20.0, given), *np.divmod(whole, 3), *np.divmod(given, 2.0),
        *np.divmod(7, whole),
    ]  # fmt: skip
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-15)


CONCRETE: dict[str, Any] = {
    "float": float, "int": int, "complex": complex, "bool": bool, "index": operator.index,
    "bytes": bytes, "sin": math.sin, "sqrt": math.sqrt, "isnan": math.isnan,
    "in": lambda v: 1.0 in v, "range": range, "list index": lambda v: [1, 2][v],
    "format": lambda v: f"{v:.2f}", "percent": lambda v: "%f" % v,  # noqa: UP031
    "asarray": np.asarray, "array": np.array, "not": lambda v: not v, "and": lambda v: v and 1,
    "sorted": lambda v: sorted([v, v]), "max": lambda v: max(v, 1), "chain": lambda v: 0 < v < 1,
}  # fmt: skip


@pytest.mark.parametrize("use", CONCRETE)
@pytest.mark.parametrize("shape", [(), (3,), (None,)])
def test_fault_21_what_wants_a_number_says_that_there_is_none_yet(
    use: str, shape: tuple[Any, ...]
) -> None:
    if use == "bytes" and shape != ():
        pytest.skip("bytes of a sequence are its elements")
    with gx.Graph():
        x = gx.placeholder(shape, name="x")
        with pytest.raises(gx.ConcreteValueError, match=r"computed only by session\.run") as caught:
            CONCRETE[use](x)
    assert caught.value.hint
    assert caught.value.where is not None and caught.value.where.filename == __file__


@pytest.mark.parametrize("use", [len, iter, list, sum, reversed])
def test_fault_21_sizes_that_are_not_known_cannot_be_counted(use: Any) -> None:
    with gx.Graph():
        assert use(gx.placeholder((3,))) is not None
        for shape in ((), (None,)):
            with pytest.raises(gx.ConcreteValueError, match=r"length|len|iteration"):
                use(gx.placeholder(shape))


def test_fault_21_hashing_and_moduli() -> None:
    with gx.Graph():
        x = gx.placeholder(())
        assert {x: 1}[x] == 1 and hash(x) == hash(x)
        with pytest.raises(gx.UnsupportedError, match="no modulus"):
            pow(x, 2, 3)


# --- feeds ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given, what, hint",
    [
        ("abc", "given the str 'abc'", "numbers or bools"),
        (b"abc", "given the bytes b'abc'", "numbers or bools"),
        ({"a": 1}, "given the dict {'a': 1}", "entries of one dict"),
        ({1, 2}, "given the set {1, 2}", "list(...)"),
        ((n for n in range(3)), "given the generator", "list(...)"),
        (None, "given None", "leave the feed out"),
        ([[1, 2], [3]], "given lists of unequal lengths", "equal lengths"),
        (["a", "b"], "given dtype <U1", "numbers or bools"),
        ([1, None], "given dtype object", "numbers or bools"),
        (np.array([1, "a"], object), "given dtype object", "numbers or bools"),
        (np.ma.array([1.0, 2.0], mask=[0, 1]), "given masked entries", ".filled(x)"),
        (np.array(["2020", "2021"], "M8[D]"), "given dtype datetime64[D]", "np.timedelta64"),
        (np.timedelta64(3, "s"), "given dtype timedelta64[s]", "np.timedelta64"),
        (1j, "given the complex 1j", "give .real"),
        (2**70, f"given the int {2**70}", "numbers or bools"),
        (object(), "given the object <object object", "numbers or bools"),
        (float, "given the type <class 'float'>", "numbers or bools"),
    ],
)
@pytest.mark.parametrize("shape", [(), (2,)])
def test_fault_21_feeds_that_are_no_numbers_are_named(
    given: Any, what: str, hint: str, shape: tuple[int, ...]
) -> None:
    with gx.Graph() as graph:
        x = gx.placeholder(shape, name="x")
        y = x + 1.0
        gx.variable(np.zeros(shape, np.float32), name="v")
    session = gx.Session(graph)
    exe = session.compile(y, [x])
    uses: tuple[Any, ...] = (lambda: session.run(y, {x: given}), lambda: exe(given))
    for use in uses if not isinstance(given, dict) else uses[:1]:
        with pytest.raises(gx.FeedError) as caught:
            use()
        start = f"feed for x: expected float32{[*shape]}, "
        assert caught.value.message.startswith(start + what)
        assert caught.value.hint is not None and hint in caught.value.hint
    with pytest.raises(gx.FeedError, match="feed for v: expected"):
        session.set({"v": given})


def test_fault_21_lists_of_values_and_masked_constants() -> None:
    with gx.Graph() as graph:
        x = gx.placeholder((2,), name="x")
        y = x + 1.0
        masked = np.ma.array([1.0, 2.0], mask=[False, True])
        for build in (lambda: gx.constant(masked), lambda: x + masked, lambda: gx.variable(masked)):
            with pytest.raises(gx.GraphcError, match="masked"):
                build()
    with pytest.raises(gx.FeedError, match="given a list with symbolic values"):
        gx.Session(graph).run(y, {x: [y, y]})
