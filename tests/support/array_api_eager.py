"""Arrays that graphc computes at once: what the array API's own test suite is run on.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests
    pip install ndindex hypothesis pytest-json-report
    cd array-api-tests
    PYTHONPATH=GRAPHC:GRAPHC/tests/support ARRAY_API_TESTS_MODULE=array_api_eager \\
        ARRAY_API_TESTS_VERSION=2024.12 \\
        python -m pytest --disable-deadline --max-examples 3 \\
        --xfails-file=GRAPHC/tests/support/array_api_exceptions.txt

Each call of a function of ``graphc.array_api`` builds a graph over placeholders, runs it in a
session and wraps what comes out. Role: the suite wants numbers at once, which graphc, being
define-then-run, has not. Everything but that is the product's: names, signatures, promotion,
errors. Nothing is computed by NumPy, but for what is no computation: printing and Python's numbers.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, wraps
from typing import Any

import numpy as np

import graphc as gx
from graphc import array_api
from graphc.ir.dtypes import DType, dtype

__array_api_version__ = array_api.__array_api_version__
__version__ = gx.__version__

OPTIONS = gx.Options(cache="off")


class Array:
    """Numbers, and the operators of the standard on them."""

    __slots__ = ("array",)
    __array_priority__ = 2000

    def __init__(self, array: Any) -> None:
        self.array = np.asarray(array)

    # --- attributes ------------------------------------------------------------------------------

    @property
    def dtype(self) -> DType:
        return dtype(self.array.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.array.shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def size(self) -> int:
        return self.array.size

    @property
    def device(self) -> str:
        return "cpu"

    @property
    def T(self) -> Array:
        if self.ndim != 2:
            raise ValueError("T is of matrices")
        return computed(lambda x: x.T, self)

    @property
    def mT(self) -> Array:
        return computed(lambda x: x.mT, self)

    # --- Python's numbers ------------------------------------------------------------------------

    def __bool__(self) -> bool:
        return bool(self._number())

    def __int__(self) -> int:
        return int(self._number())

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __index__(self) -> int:
        if not self.dtype.is_integer:
            raise TypeError(f"an array of {self.dtype} is no index")
        return int(self._number())

    def _number(self) -> Any:
        if self.ndim:
            raise TypeError(f"an array of shape {self.shape} is no number")
        return self.array.item()

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Any:
        return iter([self[place] for place in range(len(self))])

    def __repr__(self) -> str:
        return f"Array({self.array!r})"

    __hash__ = None  # type: ignore[assignment]

    # --- the standard's methods ------------------------------------------------------------------

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import array_api_eager

        array_api.asarray(0).__array_namespace__(api_version=api_version)
        return array_api_eager

    def to_device(self, device: str, /, *, stream: Any = None) -> Array:
        if device != "cpu" or stream is not None:
            raise ValueError("there is the CPU, without streams")
        return self

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: Any = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        return self.array.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __getitem__(self, key: Any) -> Array:
        keys = tuple(map(_known, key if isinstance(key, tuple) else (key,)))
        arrays = [part for part in keys if isinstance(part, Array)]

        def pick(x: Any, *values: Any) -> Any:
            left = iter(values)
            places = tuple(next(left) if isinstance(part, Array) else part for part in keys)
            return x[places if isinstance(key, tuple) else places[0]]

        spelled = repr([part if not isinstance(part, Array) else "value" for part in keys])
        spelled += str(isinstance(key, tuple))
        has_mask = any(isinstance(part, np.ndarray) for part in keys)
        called = "" if has_mask else f"getitem {spelled}"
        return computed(pick, self, *arrays, _called=called)

    def __setitem__(self, key: Any, new: Any) -> None:
        keys = tuple(map(_known, key if isinstance(key, tuple) else (key,)))
        plain = tuple(part.array if isinstance(part, Array) else part for part in keys)
        place = plain if isinstance(key, tuple) else plain[0]
        value = new if isinstance(new, Array) else asarray(new, dtype=self.dtype)
        self.array = computed(lambda x, y: x.at[place].set(y), self, value).array


def _known(key: Any) -> Any:
    """A key in which what decides the shape is known: masks, and bounds of slices."""
    if isinstance(key, Array) and key.array.dtype == np.bool_:
        return key.array
    if not isinstance(key, slice):
        return key
    parts = (key.start, key.stop, key.step)
    return slice(*(None if part is None else operator.index(part) for part in parts))


def _operator(name: str) -> Callable[..., Any]:
    def method(self: Array, *others: Any) -> Any:
        if any(not isinstance(other, (Array, bool, int, float, complex)) for other in others):
            return NotImplemented
        return computed(lambda x, *rest: getattr(x, name)(*rest), self, *others, _called=name)

    method.__name__ = name
    return method


_BINARY = (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor",
    "lshift", "rshift",
)  # fmt: skip
for _name in _BINARY:
    for _form in ("", "r"):
        setattr(Array, f"__{_form}{_name}__", _operator(f"__{_form}{_name}__"))
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    setattr(Array, f"__{_name}__", _operator(f"__{_name}__"))


def _in_place(name: str) -> Callable[..., Any]:
    def method(self: Array, other: Any) -> Array:
        result = getattr(self, f"__{name}__")(other)
        if result is NotImplemented:
            return result
        if result.shape != self.shape or result.dtype is not self.dtype:
            raise ValueError(f"{self.dtype}{self.shape} can't hold {result.dtype}{result.shape}")
        self.array = result.array
        return self

    return method


for _name in _BINARY:
    setattr(Array, f"__i{_name}__", _in_place(_name))


# --- running -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Program:
    """A function that was built and compiled for operands of some dtypes and shapes.

    Attributes:
        session: has the program.
        operands: what arrays are fed for, in order.
        made: what the function gave.
    """

    session: gx.Session
    operands: tuple[gx.Value, ...]
    made: Any

    def run(self, arrays: list[Array]) -> Any:
        """What it gives for arrays, in the form that the function gave it in."""
        made = self.made
        if not isinstance(made, (gx.Value, list, tuple)):
            return made
        fetches = [made] if isinstance(made, gx.Value) else list(made)
        feeds = {v: a.array for v, a in zip(self.operands, arrays, strict=True)}
        results = list(map(Array, self.session.run(fetches, feeds)))
        if isinstance(made, gx.Value):
            return results[0]
        return type(made)(*results) if hasattr(made, "_fields") else type(made)(results)


_PROGRAMS: dict[str, Program] = {}
_MOST_PROGRAMS = 256
"""More are seldom asked for again, and Python's collector would walk through all of them."""


def computed(
    function: Callable[..., Any], *arguments: Any, _called: str = "", **options: Any
) -> Any:
    """What a function of values gives for arrays, anywhere in its arguments.

    What is called so is built once for arguments that are alike.
    """
    arrays: list[Array] = []

    def shape(item: Any) -> Any:
        if isinstance(item, Array):
            arrays.append(item)
            return f"{item.dtype}{item.shape}"
        if isinstance(item, (list, tuple)):
            return [type(item), *map(shape, item)]
        return f"{type(item)}{item!r}"

    key = repr((_called, shape(arguments), {name: shape(item) for name, item in options.items()}))
    program = _PROGRAMS.get(key)
    if program is None:
        program = _built(function, arguments, options)
        if _called:
            if len(_PROGRAMS) >= _MOST_PROGRAMS:
                del _PROGRAMS[next(iter(_PROGRAMS))]
            _PROGRAMS[key] = program
    return program.run(arrays)


def _built(
    function: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]
) -> Program:
    operands: list[gx.Value] = []

    def value(item: Any) -> Any:
        if isinstance(item, Array):
            operands.append(gx.placeholder(item.shape, item.dtype))
            return operands[-1]
        if isinstance(item, (list, tuple)):
            return type(item)(map(value, item))
        return item

    with gx.Graph() as graph:
        positional = list(map(value, arguments))
        made = function(*positional, **{name: value(item) for name, item in options.items()})
    return Program(gx.Session(graph, options=OPTIONS), tuple(operands), made)


def _eager(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        return computed(function, *arguments, _called=function.__name__, **options)

    call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    return call


def asarray(
    obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None
) -> Array:
    """An array of numbers, of nested lists of them, or of another array."""
    if isinstance(obj, Array):
        if copy is not True and dtype in (None, obj.dtype):
            return obj
        if copy is False:
            raise ValueError(f"{obj.dtype} as {dtype} without a copy")
        return Array(computed(array_api.asarray, obj, dtype=dtype, device=device).array.copy())
    given = np.asarray(_plain(obj))
    if not isinstance(obj, np.ndarray) and dtype is None:
        narrow = {"float64": np.float32, "complex128": np.complex64}
        given = given.astype(narrow.get(given.dtype.name, given.dtype))
    if dtype is not None:
        given = given.astype(gx.array_api.as_dtype(dtype).numpy)
    return Array(given)


def _plain(obj: Any) -> Any:
    if isinstance(obj, Array):
        return obj.array
    return [_plain(item) for item in obj] if isinstance(obj, (list, tuple)) else obj


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array that shares or copies what another library has."""
    return Array(np.from_dlpack(x.array if isinstance(x, Array) else x, copy=copy))


def _of_dtypes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of dtypes, to which arrays are those of their elements."""

    @wraps(function)
    def call(*arguments: Any, **options: Any) -> Any:
        plain = (item.dtype if isinstance(item, Array) else item for item in arguments)
        return function(*plain, **options)

    return call


_OF_DTYPES = ("finfo", "iinfo", "isdtype", "can_cast", "result_type")


def repeat(x: Array, repeats: Any, /, *, axis: int | None = None) -> Array:
    """The shape of the result depends on how often, so that numbers are given as such."""
    times = repeats.array if isinstance(repeats, Array) else repeats
    return computed(lambda value: array_api.repeat(value, times, axis), x)


def _of_known(name: str) -> Callable[..., Any]:
    """A function the shape of whose result depends on elements, which are given as known."""

    def call(x: Array, /) -> Any:
        return computed(lambda: getattr(array_api, name)(x.array))

    return call


nonzero, unique_all, unique_counts, unique_inverse, unique_values = map(
    _of_known, ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values")
)


class _Extension:
    """An extension, eager too."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return _eager(getattr(self._functions, name))


linalg, fft = _Extension(array_api.linalg), _Extension(array_api.fft)


@cache
def __getattr__(name: str) -> Any:
    found = getattr(array_api, name)
    if name in _OF_DTYPES:
        return _of_dtypes(found)
    if isinstance(found, DType) or not callable(found) or isinstance(found, type):
        return found
    return found if name == "__array_namespace_info__" else _eager(found)


def __dir__() -> list[str]:
    return [*dir(array_api), "Array"]
