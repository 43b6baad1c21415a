"""Whatever is passed to a public function: it works, or is an error of graphc at the user's line.

An error names what is wrong and how to mend it. Only what Python itself says of a call, such as an
argument that a function does not have, is Python's error.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gx
from graphc import aot, debug, optim, testing
from graphc.ir.surface import surface_names

HERE = Path(__file__).name

JUNK: tuple[Any, ...] = (
    None, "junk", object(), [], {}, 1.5, -7, ["a"], [None], 1j, 10**30, float("nan"), True, b"x",
)  # fmt: skip


@pytest.fixture
def model() -> Iterator[Any]:
    with gx.Graph() as graph:
        x = gx.placeholder(("batch", 3), name="x")
        w = gx.variable(np.ones((3, 2), "float32"), name="w")
        y = x @ w
        session = gx.Session(graph, options=gx.Options(cache="off"))
        yield type("Model", (), {"x": x, "w": w, "y": y, "loss": gx.sum(y * y), "session": session})


def judged(label: str, call: Callable[[], Any], must_fail: bool = False) -> None:
    """Runs a call that may fail, but only as errors of graphc do."""
    try:
        call()
    except gx.GraphcError as error:
        where = error.where
        assert where is not None and Path(where.filename).name == HERE, f"{label}: {error}"
        assert error.message, label
        if must_fail:
            assert error.hint, f"{label}: {error}"
    except Exception as error:
        raise AssertionError(f"{label}: {type(error).__name__}: {error}") from error
    else:
        assert not must_fail, f"{label} was accepted"


# --- operations ----------------------------------------------------------------------------------


def ways_to_call(name: str, x: Any, module: Any = gx) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Calls of an operation with one wrong argument each."""
    function = getattr(module, name)
    parameters = [*inspect.signature(function).parameters.values()]
    required = {
        "concatenate": [[x, x]], "stack": [[x, x]], "einsum": ["ij->ji", x], "full": [(2,), 1.0],
        "zeros": [(2,)], "ones": [(2,)], "arange": [3], "linspace": [0, 1], "reshape": [x, (-1,)],
        "take": [x, [0]], "broadcast_to": [x, x.shape], "where": [x > 0, x, x],
        "astype": [x, "int32"], "one_hot": [[0], 3], "scatter_add": [x, [0], x], "pad": [x, 1],
        "repeat": [x, 2], "split": [x, 3], "moveaxis": [x, 0, 1], "expand_dims": [x, 0],
        "polygamma": [1, x], "multigammaln": [x, 2], "tril_indices": [3], "triu_indices": [3],
        "diag_indices": [3], "bartlett": [3], "blackman": [3], "hamming": [3], "hanning": [3],
        "kaiser": [3, 2.0],
    }.get(name)  # fmt: skip
    if required is None:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = [x for p in parameters if p.kind in kinds and p.default is p.empty]
    for junk in JUNK:
        for position in range(len(required)):
            given = [*required[:position], junk, *required[position + 1 :]]
            yield f"{name}, argument {position}: {junk!r}", lambda given=given: function(*given)
        for parameter in parameters:
            if parameter.default is not parameter.empty:
                named = {parameter.name: junk}
                yield f"{name}, {named}", lambda named=named: function(*required, **named)


@pytest.mark.parametrize("name", surface_names())
def test_operations(name: str, model: Any) -> None:
    for label, call in ways_to_call(name, model.x):
        judged(label, call)


@pytest.mark.parametrize("name", sorted(set(gx.nn.__all__) - set(dir(gx))))
def test_activations(name: str, model: Any) -> None:
    for label, call in ways_to_call(name, model.y, gx.nn):
        judged(label, call)


@pytest.mark.parametrize("name", gx.special.__all__)
def test_special_functions(name: str, model: Any) -> None:
    for label, call in ways_to_call(name, model.x, gx.special):
        judged(label, call)


@pytest.mark.parametrize("name", gx.fft.__all__)
def test_fourier_transforms(name: str, model: Any) -> None:
    for label, call in ways_to_call(name, model.x, gx.fft):
        judged(label, call)


RANDOM = {
    "Generator": "", "next_key": "", "key": "n", "fold_in": "kn", "philox": "kc", "randint": "kshh",
    "categorical": "kx", "dropout": "kx", "gamma": "kx", "beta": "kxx", "dirichlet": "kx",
    "truncated_normal": "kxx", "poisson": "kx", "binomial": "knx", "multinomial": "knx",
    "permutation": "kx", "choice": "kx",
}  # fmt: skip
"""What functions of random numbers need: a key, a number, counters, a shape, bounds, a tensor."""


@pytest.mark.parametrize("name", gx.random.__all__)
def test_random_numbers(name: str, model: Any) -> None:
    function, key = getattr(gx.random, name), gx.random.key(0)
    words = {"k": key, "n": 3, "c": np.ones((2, 4), "uint32"), "s": (2,), "h": 5, "x": model.x}
    required = [words[letter] for letter in RANDOM.get(name, "k")]
    judged(name, lambda: function(*required))
    names = [*inspect.signature(function).parameters]
    for junk in JUNK:
        for position, parameter in enumerate(names):
            label = f"{name}, {parameter}: {junk!r}"
            given = [*required[:position], junk, *required[position + 1 :]]
            if position < len(required):
                judged(label, lambda given=given: function(*given))
            else:
                named = {parameter: junk}
                judged(label, lambda named=named: function(*required, **named))


LINALG = {"solve": 2, "solve_triangular": 2, "tensordot": 2, "vecdot": 2, "outer": 2, "cross": 2,
          "matmul": 2, "lstsq": 2, "matrix_power": 1, "khatri_rao": 2, "cho_solve": 2}  # fmt: skip
"""How many tensors functions of linear algebra need, where it is not one."""


@pytest.mark.parametrize("name", [n for n in gx.linalg.__all__ if n != "LinAlgError"])
def test_linear_algebra(name: str) -> None:
    function, square = getattr(gx.linalg, name), gx.placeholder((3, 3))
    required: list[Any] = [square] * LINALG.get(name, 1)
    if name == "multi_dot":
        required = [[square, square]]
    elif name == "cho_solve":
        required[0] = square, True
    elif name == "matrix_power":
        required += [2]
    judged(name, lambda: function(*required))
    for junk in JUNK:
        for position, parameter in enumerate(inspect.signature(function).parameters):
            label = f"{name}, {parameter}: {junk!r}"
            given = [*required]
            if position < len(given):
                given[position] = junk
                judged(label, lambda given=given: function(*given))
            else:
                named = {parameter: junk}
                judged(label, lambda given=given, named=named: function(*given, **named))


OPTIMISERS = {
    "ReduceOnPlateau": (0.1, "loss"), "SGD": (0.1,), "SignSGD": (0.1,), "LARS": (0.1,),
    "Accumulated": ("adam", 2), "Averaged": ("adam",), "Clipped": ("adam", 1.0),
    "LossScaled": ("adam",), "clip_by_value": ("gradients", 1.0),
    "clip_by_norm": ("gradients", 1.0), "clip_by_global_norm": ("gradients", 1.0),
    "constant_schedule": (0.1,),
    "linear_schedule": (0.1, 0.2, 5), "polynomial_decay": (0.1, 0.2, 5),
    "exponential_decay": (0.1, 5, 0.5), "cosine_decay": (0.1, 5), "inverse_sqrt_decay": (0.1, 5),
    "one_cycle": (0.1, 5), "piecewise_constant": (0.1, {5: 0.1}), "warmup": ("schedule", 5),
    "warmup_cosine_decay": (0.0, 0.1, 5, 10), "join_schedules": (["schedule"], []),
    "lbfgs": ("function", "start"), "trainable_variables": ("loss",),
}  # fmt: skip
"""What members of ``optim`` need; words stand for what the test makes."""


@pytest.mark.parametrize("name", sorted({*optim.__all__} - {"Optimizer", "Minimum"}))
def test_optimisers(name: str, model: Any) -> None:
    made = {
        "loss": model.loss, "adam": optim.Adam(), "gradients": [model.x], "start": model.w,
        "schedule": optim.constant_schedule(0.1), "function": lambda w: gx.sum(w * w),
    }  # fmt: skip

    def given(word: Any) -> Any:
        if isinstance(word, list):
            return [given(item) for item in word]
        return made.get(word, word) if isinstance(word, str) else word

    def tried(*arguments: Any, **named: Any) -> None:
        result = getattr(optim, name)(*arguments, **named)
        if isinstance(result, optim.Optimizer):
            result.minimize(model.loss)
        elif isinstance(result, optim.ReduceOnPlateau):
            optim.SGD(result).minimize(model.loss)
        elif callable(result):
            result(3)

    required = [given(word) for word in OPTIMISERS.get(name, ())]
    judged(name, lambda: tried(*required))
    for junk in JUNK:
        for position, parameter in enumerate(inspect.signature(getattr(optim, name)).parameters):
            label = f"{name}, {parameter}: {junk!r}"
            if position < len(required):
                changed = [*required[:position], junk, *required[position + 1 :]]
                judged(label, lambda changed=changed: tried(*changed))
            else:
                named = {parameter: junk}
                judged(label, lambda named=named: tried(*required, **named))


@pytest.mark.parametrize("axis", [1.0, 1.5, True, "0", [0.0], np.float64(1), None, (0, "1")])
def test_an_axis_is_an_int(axis: Any, model: Any) -> None:
    judged("argmax", lambda: gx.swapaxes(model.x, axis, 1), must_fail=True)
    if axis is not None:
        judged("sum", lambda: gx.sum(model.x, axis=axis), must_fail=True)
    assert gx.sum(model.x, axis=np.int8(1)).shape == model.x.shape[:1]


def test_choices_are_bools(model: Any) -> None:
    for wrong in ("tanh", None, 2, [], 1.0):
        judged("gelu", lambda wrong=wrong: gx.nn.gelu(model.x, approximate=wrong), must_fail=True)
        judged("sum", lambda wrong=wrong: gx.sum(model.x, keepdims=wrong), must_fail=True)
    assert gx.sum(model.x, 0, keepdims=1).shape == gx.sum(model.x, 0, keepdims=np.True_).shape


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: type(junk).__name__)
def test_building(junk: Any, model: Any) -> None:
    x, w, loss = model.x, model.w, model.loss
    calls: dict[str, Callable[[], Any]] = {
        "placeholder": lambda: gx.placeholder(junk),
        "placeholder dtype": lambda: gx.placeholder((2,), junk),
        "placeholder name": lambda: gx.placeholder((2,), name=junk),
        "constant": lambda: gx.constant(junk),
        "variable": lambda: gx.variable(junk),
        "trainable": lambda: gx.variable(1.0, trainable=junk),
        "assign": lambda: w.assign(junk),
        "add": lambda: x + junk,
        "matmul": lambda: x @ junk,
        "index": lambda: x[junk],
        "group": lambda: gx.group(junk),
        "control_dependencies": lambda: gx.control_dependencies(junk),
        "cond": lambda: gx.cond(junk, lambda: x, lambda: x * 2),
        "then": lambda: gx.cond(True, junk, lambda: 1),
        "branch": lambda: gx.cond(loss > 0, lambda: junk, lambda: junk),
        "while condition": lambda: gx.while_loop(junk, lambda i: i + 1, [0]),
        "while test": lambda: gx.while_loop(lambda i: junk, lambda i: i + 1, [0]),
        "while body": lambda: gx.while_loop(lambda i: i < 3, lambda i: junk, [0]),
        "while init": lambda: gx.while_loop(lambda i: i < 3, lambda i: i + 1, [junk]),
        "gradients": lambda: gx.gradients(junk, w),
        "gradients of": lambda: gx.gradients(loss, junk),
        "unconnected": lambda: gx.gradients(loss, w, unconnected=junk),
        "jvp": lambda: gx.jvp(loss, [w], junk),
        "custom_gradient": lambda: gx.custom_gradient(junk)(w),
        "custom_gradient of": lambda: gx.custom_gradient(lambda v: junk)(w),
        "custom_gradient rule": lambda: gx.custom_gradient(lambda v: (v, lambda c: [junk]))(w),
        "custom_jvp": lambda: gx.custom_jvp(junk)(w),
        "custom_jvp of": lambda: gx.custom_jvp(lambda v: junk)(w),
        "custom_jvp rule": lambda: gx.custom_jvp(lambda v: (v, lambda t: [junk]))(w),
        "implicit": lambda: gx.implicit(junk, gx.sin, w),
        "implicit solver": lambda: gx.implicit(lambda v, w: v - w, junk, w),
        "implicit parameter": lambda: gx.implicit(lambda v, w: v - w, gx.sin, junk),
        "implicit linear solver": lambda: gx.implicit(
            lambda v, w: v - w, gx.sin, w, linear_solver=junk
        ),
        "implicit sparsity": lambda: gx.implicit(lambda v, w: v - w, gx.sin, w, sparsity=junk),
        "case": lambda: gx.case(junk, [lambda: x], default=lambda: x),
        "case of": lambda: gx.case([junk], [lambda: x], default=lambda: x),
        "case branches": lambda: gx.case([True], junk, default=lambda: x),
        "case default": lambda: gx.case([True], [lambda: x], default=junk),
        "vjp": lambda: gx.vjp(loss, [w], junk),
        "hvp": lambda: gx.hvp(loss, w, junk),
        "jacobian": lambda: gx.jacobian(junk, w),
        "jacobian by": lambda: gx.jacobian(loss, junk),
        "jacobian sparsity": lambda: gx.jacobian(loss, w, sparsity=junk),
        "jacobian mode": lambda: gx.jacobian(loss, w, junk),
        "hessian": lambda: gx.hessian(junk, w),
        "hessian by": lambda: gx.hessian(loss, junk),
        "value_and_gradients": lambda: gx.value_and_gradients(loss, junk),
        "minimize": lambda: optim.SGD(0.1).minimize(junk),
        "minimize variables": lambda: optim.SGD(0.1).minimize(loss, junk),
        "commit": lambda: optim.SGD(0.1).minimize(loss, commit=junk),
        "apply_gradients": lambda: optim.SGD(0.1).apply_gradients(junk),
        "gradient": lambda: optim.SGD(0.1).apply_gradients([(junk, w)]),
        "parameter": lambda: optim.SGD(0.1).apply_gradients([(w, junk)]),
        "pair": lambda: optim.SGD(0.1).apply_gradients([junk]),
        "clip": lambda: optim.clip_by_global_norm(junk, 1.0),
        "clip at": lambda: optim.clip_by_global_norm([x], junk),
        "trainable_variables": lambda: optim.trainable_variables(junk),
        "SGD": lambda: optim.SGD(junk),
        "momentum": lambda: optim.SGD(0.1, momentum=junk),
        "betas": lambda: optim.Adam(0.1, betas=junk),
        "decay": lambda: optim.AdamW(0.1, weight_decay=junk),
        "alpha": lambda: optim.RMSProp(0.1, alpha=junk),
        "graph": lambda: gx.Graph(junk),
        "find": lambda: x.graph.find(junk),
    }
    for label, call in calls.items():
        judged(f"{label}: {junk!r}", call)


# --- running -------------------------------------------------------------------------------------


@pytest.mark.parametrize("junk", JUNK, ids=lambda junk: type(junk).__name__)
def test_running(junk: Any, model: Any, tmp_path: Path) -> None:
    session, x, y = model.session, model.x, model.y
    data = np.ones((2, 3), "float32")
    exe = session.compile(y, [x])
    calls: dict[str, Callable[[], Any]] = {
        "session": lambda: gx.Session(junk),
        "threads": lambda: gx.Session(x.graph, threads=junk),
        "options": lambda: gx.Session(x.graph, options=junk),
        "target": lambda: gx.Session(x.graph, target=junk),
        "run": lambda: session.run(junk, {x: data}),
        "run nested": lambda: session.run([y, {"a": junk}], {x: data}),
        "feeds": lambda: session.run(y, junk),
        "feed": lambda: session.run(y, {x: junk}),
        "compile": lambda: session.compile(junk),
        "compile feeds": lambda: session.compile(y, junk),
        "get": lambda: session.get(junk),
        "set": lambda: session.set(junk),
        "set value": lambda: session.set({model.w: junk}),
        "call": lambda: exe(junk),
        "call by name": lambda: exe(x=junk),
        "out": lambda: exe(data, out=junk),
        "memory_at": lambda: exe.memory_at(batch=junk),
        "audit": lambda: exe.audit(data, precision=junk),
        "explain": lambda: exe.explain(junk),
        "why_not_fused": lambda: exe.why_not_fused(y, junk),
        "runs": lambda: exe.profile(data, runs=junk),
        "expect": lambda: testing.expect(junk),
        "kernels": lambda: testing.expect(exe, kernels=junk),
        "peak_bytes": lambda: testing.expect(exe, peak_bytes=junk),
        "fired": lambda: testing.expect(exe, not_fired=junk),
        "fused": lambda: testing.expect(exe, fused=junk),
        "dims": lambda: testing.expect(exe, peak_bytes=10**9, dims=junk),
        "bisect": lambda: debug.bisect(junk),
    }
    if junk != 10**30:  # so many times it would run
        for label, call in calls.items():
            judged(f"{label}: {junk!r}", call)
    for name in gx.Options.__dataclass_fields__:
        judged(f"Options {name}: {junk!r}", lambda name=name: gx.Options(**{name: junk}))


@pytest.mark.parametrize(
    "path", [None, 3, b"x", "", "a\0b", "MISSING/file", "FOLDER"], ids=lambda path: repr(path)
)
def test_files(path: Any, model: Any, tmp_path: Path) -> None:
    """No path is taken that can't be one, none that is a folder or in none is written to."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("")
    if isinstance(path, str):
        path = path.replace("MISSING", str(tmp_path / "no")).replace("FOLDER", f"{tmp_path}/full")
    exe = model.session.compile(model.y, [model.x])
    data = np.ones((2, 3), "float32")
    calls: dict[str, Callable[[], Any]] = {
        "report": lambda: exe.report(path),
        "capture": lambda: exe.capture(path, data),
        "save": lambda: gx.save(path, model.y),
        "load": lambda: gx.load(path),
        "load_capsule": lambda: debug.load_capsule(path),
        "aot.compile": lambda: aot.compile(exe, path),
        "aot.load": lambda: aot.load(path),
    }
    for label, call in calls.items():
        judged(f"{label}({path!r})", call, must_fail=True)
    if path is not None:
        for name in ("html", "decisions"):
            judged(
                f"{name}={path!r}",
                lambda name=name: gx.Session(model.x.graph, options=gx.Options(**{name: path})),
                must_fail=True,
            )


def test_files_that_are_something_else(model: Any, tmp_path: Path) -> None:
    for name, content in (("text", b"no graph"), ("binary", b"\xff\x00"), ("empty", b"")):
        path = tmp_path / name
        path.write_bytes(content)
        for load in (debug.load_capsule, aot.load):
            judged(f"{load.__name__} {name}", lambda load=load, path=path: load(path), True)
    judged("binary", lambda: gx.load(tmp_path / "binary"), must_fail=True)
    with pytest.raises(gx.FileError) as caught:
        gx.load(tmp_path / "none")
    assert isinstance(caught.value, OSError) and caught.value.errno == 2


# --- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["off", "dump"])
def test_switches_are_checked_when_the_session_is_made(option: str, model: Any) -> None:
    graph = model.x.graph
    with pytest.raises(gx.GraphError, match="'simplfy'") as caught:
        gx.Session(graph, options=gx.Options(**{option: {"simplfy"}}))
    where = caught.value.where
    assert where is not None and Path(where.filename).name == HERE
    assert "simplify" in str(caught.value.hint)
    gx.Session(graph, options=gx.Options(**{option: {"cse"}}))
    with pytest.raises(gx.GraphError, match="required"):
        gx.Session(graph, options=gx.Options(off={"decompose"}))


def test_structures_without_end(model: Any) -> None:
    endless: list[Any] = [model.y]
    endless.append(endless)
    for call in (
        lambda: model.session.run(endless),
        lambda: model.session.get(endless),
        lambda: gx.group(endless),
        lambda: gx.save("never", endless),
    ):
        judged("endless", call, must_fail=True)


def test_leaving_what_was_not_entered() -> None:
    for scope in (gx.Graph(), gx.Session(gx.Graph())):
        judged("exit", lambda scope=scope: scope.__exit__(*sys.exc_info()), must_fail=True)
