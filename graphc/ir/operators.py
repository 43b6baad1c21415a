"""What users write on values: operators, indexing, NumPy's methods and NumPy's own functions.

The mixin knows no op: it reaches the user-level functions through the registry, by name.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn

from graphc.base.elsewhere import elsewhere, instead_of
from graphc.base.errors import ConcreteValueError, UnsupportedError
from graphc.base.source import caller
from graphc.ir import surface

if TYPE_CHECKING:
    from graphc.ir.value import Value


functions: Mapping[str, Callable[..., Value]] = surface.functions

_RENAMED = {
    "absolute": "abs", "amax": "max", "amin": "min", "true_divide": "divide",
    "remainder": "mod", "invert": "bitwise_not", "rint": "round",
}  # fmt: skip
"""What NumPy calls otherwise."""


def _refuse(what: str, hint: str) -> NoReturn:
    raise ConcreteValueError(
        f"a symbolic value has no {what}: it is computed only by session.run",
        where=caller(),
        hint=hint,
    )


class Operators:
    """Arithmetic, comparisons, indexing, methods and the NumPy protocol of ``Value``."""

    __slots__ = ()
    __array_priority__ = 1000

    def __add__(self, other: Any) -> Value:
        return functions["add"](self, other)

    def __radd__(self, other: Any) -> Value:
        return functions["add"](other, self)

    def __sub__(self, other: Any) -> Value:
        return functions["subtract"](self, other)

    def __rsub__(self, other: Any) -> Value:
        return functions["subtract"](other, self)

    def __mul__(self, other: Any) -> Value:
        return functions["multiply"](self, other)

    def __rmul__(self, other: Any) -> Value:
        return functions["multiply"](other, self)

    def __truediv__(self, other: Any) -> Value:
        return functions["divide"](self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return functions["divide"](other, self)

    def __floordiv__(self, other: Any) -> Value:
        return functions["floor_divide"](self, other)

    def __rfloordiv__(self, other: Any) -> Value:
        return functions["floor_divide"](other, self)

    def __mod__(self, other: Any) -> Value:
        return functions["mod"](self, other)

    def __rmod__(self, other: Any) -> Value:
        return functions["mod"](other, self)

    def __pow__(self, other: Any, modulus: Any = None) -> Value:
        if modulus is not None:
            raise UnsupportedError(
                "pow of a symbolic value takes no modulus", where=caller(), hint="write x**y % z"
            )
        return functions["power"](self, other)

    def __rpow__(self, other: Any) -> Value:
        return functions["power"](other, self)

    def __divmod__(self, other: Any) -> tuple[Value, Value]:
        return functions["floor_divide"](self, other), functions["mod"](self, other)

    def __rdivmod__(self, other: Any) -> tuple[Value, Value]:
        return functions["floor_divide"](other, self), functions["mod"](other, self)

    def __matmul__(self, other: Any) -> Value:
        return functions["matmul"](self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return functions["matmul"](other, self)

    def __and__(self, other: Any) -> Value:
        return functions["bitwise_and"](self, other)

    def __rand__(self, other: Any) -> Value:
        return functions["bitwise_and"](other, self)

    def __or__(self, other: Any) -> Value:
        return functions["bitwise_or"](self, other)

    def __ror__(self, other: Any) -> Value:
        return functions["bitwise_or"](other, self)

    def __xor__(self, other: Any) -> Value:
        return functions["bitwise_xor"](self, other)

    def __rxor__(self, other: Any) -> Value:
        return functions["bitwise_xor"](other, self)

    def __lshift__(self, other: Any) -> Value:
        return functions["left_shift"](self, other)

    def __rlshift__(self, other: Any) -> Value:
        return functions["left_shift"](other, self)

    def __rshift__(self, other: Any) -> Value:
        return functions["right_shift"](self, other)

    def __rrshift__(self, other: Any) -> Value:
        return functions["right_shift"](other, self)

    def __neg__(self) -> Value:
        return functions["negative"](self)

    def __pos__(self) -> Value:
        return self  # type: ignore[return-value]

    def __abs__(self) -> Value:
        return functions["abs"](self)

    def __round__(self, digits: int | None = None) -> Value:
        return functions["round"](self, 0 if digits is None else digits)

    def __trunc__(self) -> Value:
        return functions["trunc"](self)

    def __floor__(self) -> Value:
        return functions["floor"](self)

    def __ceil__(self) -> Value:
        return functions["ceil"](self)

    def __invert__(self) -> Value:
        return functions["bitwise_not"](self)

    def __eq__(self, other: object) -> Value:  # type: ignore[override]
        return functions["equal"](self, other)

    def __ne__(self, other: object) -> Value:  # type: ignore[override]
        return functions["not_equal"](self, other)

    def __lt__(self, other: Any) -> Value:
        return functions["less"](self, other)

    def __le__(self, other: Any) -> Value:
        return functions["less_equal"](self, other)

    def __gt__(self, other: Any) -> Value:
        return functions["greater"](self, other)

    def __ge__(self, other: Any) -> Value:
        return functions["greater_equal"](self, other)

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Value:
        return functions["getitem"](self, key)

    def __setitem__(self, key: Any, new: Any) -> NoReturn:
        raise UnsupportedError(
            "a symbolic value cannot be assigned to: values are immutable",
            where=caller(),
            hint="build a new one: with gx.where of a mask, as gx.arange(n) == i, with "
            "gx.scatter_add, or with gx.concatenate of the parts",
        )

    # --- what Python would want a number for -----------------------------------------------------

    def __bool__(self) -> NoReturn:
        _refuse("truth value", "use gx.cond or gx.where to decide inside the graph")

    def __int__(self) -> NoReturn:
        _refuse("int()", "fetch it with session.run; in the graph .astype converts")

    def __float__(self) -> NoReturn:
        _refuse(
            "float()",
            "fetch it with session.run; in the graph .astype converts, and gx.sin is math.sin",
        )

    def __complex__(self) -> NoReturn:
        _refuse("complex()", "there are no complex numbers: fetch it with session.run")

    def __bytes__(self) -> NoReturn:
        _refuse("bytes", "fetch it with session.run, and take .tobytes() of the array")

    def __index__(self) -> NoReturn:
        _refuse("index", "fetch it with session.run, or use gx.take in the graph")

    def __contains__(self, item: object) -> NoReturn:
        _refuse("membership", "use gx.any(x == item)")

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        _refuse("array", "fetch it with session.run")

    def __format__(self, specification: str) -> str:
        if specification:
            what = f"number to format as {specification!r}"
            _refuse(what, "fetch it with session.run and format the result")
        return str(self)

    def __len__(self) -> int:
        first = self._first_dim("len()")
        return first

    def __iter__(self) -> Iterator[Value]:
        first = self._first_dim("iteration")
        return iter([self[position] for position in range(first)])

    def _first_dim(self, what: str) -> int:
        shape: tuple[Any, ...] = self.shape  # type: ignore[attr-defined]
        if not shape:
            _refuse(what, "the value is a scalar")
        if not isinstance(shape[0], int):
            _refuse(f"known length for {what}", f"its first dim is {shape[0]}; use gx.while_loop")
        return shape[0]

    # --- methods ---------------------------------------------------------------------------------

    @property
    def T(self) -> Value:
        """The axes in reverse order."""
        return functions["transpose"](self)

    def astype(self, dtype: Any) -> Value:
        """Converts the elements; see ``gx.astype``."""
        return functions["astype"](self, dtype)

    def reshape(self, *shape: Any) -> Value:
        """The same elements, in row-major order, in another shape; one dim may be -1."""
        return functions["reshape"](self, shape[0] if len(shape) == 1 else shape)

    def transpose(self, *axes: Any) -> Value:
        """Permutes the axes; reverses them where none are given."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes or None
        return functions["transpose"](self, order)

    def flatten(self) -> Value:
        """All elements in row-major order, as a vector."""
        return functions["reshape"](self, (-1,))

    def sum(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.sum``."""
        return functions["sum"](self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.mean``."""
        return functions["mean"](self, axis=axis, keepdims=keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.prod``."""
        return functions["prod"](self, axis=axis, keepdims=keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.max``."""
        return functions["max"](self, axis=axis, keepdims=keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.min``."""
        return functions["min"](self, axis=axis, keepdims=keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.any``."""
        return functions["any"](self, axis=axis, keepdims=keepdims)

    def all(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.all``."""
        return functions["all"](self, axis=axis, keepdims=keepdims)

    def var(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Value:
        """See ``gx.var``."""
        return functions["var"](self, axis=axis, keepdims=keepdims, ddof=ddof)

    def std(self, axis: Any = None, keepdims: bool = False, ddof: int = 0) -> Value:
        """See ``gx.std``."""
        return functions["std"](self, axis=axis, keepdims=keepdims, ddof=ddof)

    def argmax(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.argmax``."""
        return functions["argmax"](self, axis=axis, keepdims=keepdims)

    def argmin(self, axis: Any = None, keepdims: bool = False) -> Value:
        """See ``gx.argmin``."""
        return functions["argmin"](self, axis=axis, keepdims=keepdims)

    def cumprod(self, axis: Any = None) -> Value:
        """See ``gx.cumprod``."""
        return functions["cumprod"](self, axis=axis)

    def swapaxes(self, first: int, second: int) -> Value:
        """See ``gx.swapaxes``."""
        return functions["swapaxes"](self, first, second)

    def squeeze(self, axis: Any = None) -> Value:
        """See ``gx.squeeze``."""
        return functions["squeeze"](self, axis)

    def ravel(self) -> Value:
        """All elements in row-major order, as a vector."""
        return functions["ravel"](self)

    def take(self, indices: Any, axis: Any = None) -> Value:
        """See ``gx.take``."""
        return functions["take"](self, indices, axis)

    def repeat(self, repeats: int, axis: Any = None) -> Value:
        """See ``gx.repeat``."""
        return functions["repeat"](self, repeats, axis)

    def round(self) -> Value:
        """See ``gx.round``."""
        return functions["round"](self)

    def cumsum(self, axis: Any = None) -> Value:
        """See ``gx.cumsum``."""
        return functions["cumsum"](self, axis=axis)

    def clip(self, low: Any = None, high: Any = None) -> Value:
        """See ``gx.clip``."""
        return functions["clip"](self, low, high)

    def _missing(self, name: str) -> NoReturn:
        """Says what to do instead of what values don't have."""
        problem = f"a symbolic value has no attribute {name!r}"
        if not name.startswith("_"):
            if name in surface.surface_names():
                problem += f": use gx.{name}"
            else:
                known = [each for each in dir(type(self)) if not each.startswith("_")]
                problem += instead_of(name, {each: f".{each}" for each in known})
        raise AttributeError(problem, name=name, obj=self)

    if not TYPE_CHECKING:
        __getattr__ = _missing

    # --- NumPy's own functions -------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if options.pop("out", None) is not None:
            raise _no_out(f"np.{ufunc.__name__}")
        if method != "__call__" or options:
            raise UnsupportedError(
                f"np.{ufunc.__name__}.{method} with {sorted(options)} of a symbolic value",
                where=caller(),
                hint="build it from graphc's own functions",
            )
        if ufunc.__name__ == "divmod":
            return tuple(functions[name](*inputs) for name in ("floor_divide", "mod"))
        return _numpy_function(ufunc.__name__)(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name in ("shape", "ndim", "size"):
            return _measure(name, *args, **kwargs)
        full = f"{function.__module__}.{name}".replace("numpy", "np", 1)
        if kwargs.get("out") is not None:
            raise _no_out(full)
        kwargs = {key: given for key, given in kwargs.items() if key != "out"}
        chosen = _numpy_function(name, full)
        try:
            inspect.signature(chosen).bind(*args, **kwargs)
        except TypeError as error:
            raise UnsupportedError(
                f"{full} of a symbolic value: {error}",
                where=caller(),
                hint=f"gx.{chosen.__name__.rstrip('_')}{inspect.signature(chosen)} is what there "
                "is; convert with astype before or after",
            ) from None
        return chosen(*args, **kwargs)


def _measure(name: str, a: Value, axis: int | None = None) -> Any:
    """np.shape, np.ndim and np.size: dims, which need no run."""
    if name == "size" and axis is not None:
        return a.shape[axis]
    return getattr(a, name)


def _no_out(function: str) -> UnsupportedError:
    return UnsupportedError(
        f"{function} of a symbolic value with out=: there is no array to write to yet",
        where=caller(),
        hint="leave out= away; session.run gives the result as an array",
    )


def _numpy_function(name: str, full: str | None = None) -> Any:
    try:
        return functions[_RENAMED.get(name, name)]
    except KeyError:
        raise UnsupportedError(
            f"{full or 'np.' + name} of a symbolic value",
            where=caller(),
            hint=elsewhere(name)
            or "graphc has no op of that name: fetch the value, and call it on the array",
        ) from None
