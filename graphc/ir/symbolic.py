"""What is told a number by a run only: what Python and NumPy want of it, and cannot have yet.

Role: below ``Value``, and shared with sizes (``graphc.ir.dims.numbers``). NumPy's own functions are
led to graphc's, by module and name; what needs the number itself is refused, naming what to do
instead. The mixin knows no operation.
"""

from __future__ import annotations

import inspect
from inspect import getattr_static
from typing import Any, NoReturn

from graphc.base.elsewhere import elsewhere, instead_of, names_elsewhere
from graphc.base.errors import ConcreteValueError, UnsupportedError
from graphc.base.source import caller
from graphc.ir.surface import namesake, surface_names


def refuse(what: str, hint: str) -> NoReturn:
    """Says that there is no such thing of a value before it is computed.

    Raises:
        ConcreteValueError: naming what to do instead.
    """
    raise ConcreteValueError(
        f"a symbolic value has no {what}: it is computed only by session.run",
        where=caller(),
        hint=hint,
    )


class Symbolic:
    """What a tensor that is not computed yet says to Python, and does for NumPy."""

    __slots__ = ()
    __array_priority__ = 1000

    # --- what Python would want a number for -----------------------------------------------------

    def __bool__(self) -> NoReturn:
        refuse("truth value", "use gx.cond or gx.where to decide inside the graph")

    def __int__(self) -> NoReturn:
        refuse("int()", "fetch it with session.run; in the graph .astype converts")

    def __float__(self) -> NoReturn:
        refuse(
            "float()",
            "fetch it with session.run; in the graph .astype converts, and gx.sin is math.sin",
        )

    def __complex__(self) -> NoReturn:
        refuse("complex()", "fetch it with session.run; in the graph gx.complex joins two parts")

    def __bytes__(self) -> NoReturn:
        refuse("bytes", "fetch it with session.run, and take .tobytes() of the array")

    def __index__(self) -> NoReturn:
        refuse("index", "fetch it with session.run, or use gx.take in the graph")

    def __contains__(self, item: object) -> NoReturn:
        refuse("membership", "use gx.any(x == item)")

    def __array__(self, *arguments: object, **options: object) -> NoReturn:
        refuse("array", "fetch it with session.run")

    def __format__(self, specification: str) -> str:
        if specification:
            what = f"number to format as {specification!r}"
            refuse(what, "fetch it with session.run and format the result")
        return str(self)

    def __setitem__(self, key: Any, new: Any) -> NoReturn:
        raise UnsupportedError(
            "a symbolic value cannot be assigned to: values are immutable",
            where=caller(),
            hint="x.at[key].set(new) gives a new one, and so do .add and others; gx.where of a "
            "mask and gx.concatenate of parts build one too",
        )

    def __dir__(self) -> list[str]:
        return _members(type(self))

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
        return _numpy_function("numpy", ufunc.__name__)[0](*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = function.__name__
        if name in ("shape", "ndim", "size"):
            return _measure(name, *args, **kwargs)
        full = f"{function.__module__}.{name}".replace("numpy", "np", 1)
        if kwargs.get("out") is not None:
            raise _no_out(full)
        kwargs = {key: given for key, given in kwargs.items() if key != "out"}
        chosen, spelled = _numpy_function(function.__module__, name)
        try:
            inspect.signature(chosen).bind(*args, **kwargs)
        except TypeError as error:
            raise UnsupportedError(
                f"{full} of a symbolic value: {error}",
                where=caller(),
                hint=f"{spelled}{inspect.signature(chosen)} is what there is; convert with astype "
                "before or after",
            ) from None
        return chosen(*args, **kwargs)


class _Absent:
    """A name that users look for on values, which do not have it: says what to use instead.

    A descriptor for each such name, and no ``__getattr__``: CPython 3.11 does not specialise reads
    of slots of a class with one, so that all of the compiler takes a tenth longer.
    """

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, value: Symbolic | None, owner: type) -> NoReturn:
        name = self._name
        if name in surface_names():
            answer = f": use gx.{name}"
        else:
            known = [each for each in _members(owner) if not each.startswith("_")]
            answer = instead_of(name, {each: f".{each}" for each in known})
        raise AttributeError(
            f"a symbolic value has no attribute {name!r}{answer}", name=name, obj=value
        )


def _members(kind: type) -> list[str]:
    """What a class has: without the names that only say what to use instead."""
    return [name for name in type.__dir__(kind) if type(getattr_static(kind, name)) is not _Absent]


def answer_for_absent_names(kind: type[Symbolic]) -> None:
    """Has values of a class answer for the functions of graphc, and for names of other libraries,
    that are no attributes of theirs."""
    for name in {*surface_names(), *names_elsewhere()} - {*dir(kind)}:
        setattr(kind, name, _Absent(name))


def _measure(name: str, a: Any, axis: int | None = None) -> Any:
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


def _numpy_function(module: str, name: str) -> tuple[Any, str]:
    """What a function of NumPy leads to, and how that is called.

    Raises:
        UnsupportedError: if there is no such function; says what to do instead.
    """
    try:
        return namesake(module, name)
    except KeyError:
        raise UnsupportedError(
            f"{module.replace('numpy', 'np', 1)}.{name} of a symbolic value",
            where=caller(),
            hint=elsewhere(name)
            or "graphc has no op of that name: fetch the value, and call it on the array",
        ) from None
