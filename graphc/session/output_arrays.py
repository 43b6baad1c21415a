"""Arrays of results: in the structure of the fetches, or given by the caller to be written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

import numpy as np

from graphc.base.errors import FeedError
from graphc.base.source import caller
from graphc.frontend.structure import rebuild
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.runtime.address import address_of


def arranged(fetches: Any, results: Sequence[Array]) -> Any:
    """Results in the structure of the fetches; what is no value gives None."""
    remaining = iter(results)
    return rebuild(fetches, lambda leaf: next(remaining) if isinstance(leaf, Value) else None)


def arranging(fetches: Any) -> Callable[[Sequence[Array]], Any]:
    """``arranged`` for these fetches, with nothing left to look at where they are a flat list."""
    kind = type(fetches)
    if kind not in (list, tuple) or len(fetches) < 2 or any(map(_is_nested, fetches)):
        return lambda results: arranged(fetches, results)
    values = iter(range(len(fetches)))
    # None stands behind the results
    pick = itemgetter(*(next(values) if isinstance(leaf, Value) else -1 for leaf in fetches))
    return lambda results: kind(pick((*results, None)))


def _is_nested(item: Any) -> bool:
    return isinstance(item, (list, tuple, dict))


def targets_of(fetches: Any, out: Any, read: Sequence[Array]) -> dict[int, Array]:
    """The array for each result, by its position among the values that are fetched.

    Args:
        fetches: nested lists, tuples and dicts of values and effects; None is an effect as well.
        out: arrays in the same structure; None leaves a part of it to fresh arrays.
        read: the arrays that the run reads, none of which may be written.

    Raises:
        FeedError: where the structures differ, or an array can't take its result. The sizes
            of symbolic dims are known, and looked at, only when the program runs.
    """
    found: dict[int, Array] = {}
    position = 0
    for leaf, target in _pairs(fetches, out):
        if isinstance(leaf, Value):
            if target is not None:
                _check(leaf, target)
                found[position] = target
            position += 1
        elif target is not None:
            effect = "an effect" if leaf is None else repr(leaf)
            raise _wrong(f"out has {_kind(target)} for {effect}, which has no result")
    _check_overlaps(list(found.values()), read)
    return found


def _pairs(fetches: Any, out: Any) -> Iterator[tuple[Any, Any]]:
    """The leaves of the fetches, left to right, each with what is given for it."""
    stack = [(fetches, out)]
    while stack:
        item, given = stack.pop()
        if isinstance(item, dict):
            if given is not None and (not isinstance(given, dict) or given.keys() != item.keys()):
                raise _wrong(f"out has {_kind(given)} where the fetches have {_kind(item)}")
            pairs = [(part, None if given is None else given[key]) for key, part in item.items()]
        elif isinstance(item, (list, tuple)):
            if given is not None and (
                not isinstance(given, (list, tuple)) or len(given) != len(item)
            ):
                raise _wrong(f"out has {_kind(given)} where the fetches have {_kind(item)}")
            rest = [None] * len(item) if given is None else given
            pairs = list(zip(item, rest, strict=True))
        else:
            yield item, given
            continue
        stack.extend(reversed(pairs))


def _check(value: Value, target: Any) -> None:
    dtype = value.dtype.numpy
    if isinstance(target, np.ndarray) and target.dtype == dtype and target.dtype.isnative:
        flags = target.flags
        if flags.c_contiguous and flags.aligned and flags.writeable and _fits(value, target.shape):
            return
    raise _wrong(f"out has {_fault(value, target)} for {value.name or value.type}")


def _fault(value: Value, target: Any) -> str:
    """What is wrong with an array that can't take a result."""
    if not isinstance(target, np.ndarray):
        return f"{_kind(target)}, not an array,"
    if target.dtype != value.dtype.numpy or not target.dtype.isnative:
        return f"an array of {target.dtype}"
    if not _fits(value, target.shape):
        return f"an array of shape {target.shape}"
    if not target.flags.writeable:
        return "an array that can't be written to"
    return "an array that is not contiguous and aligned"


def _fits(value: Value, shape: tuple[int, ...]) -> bool:
    return len(shape) == value.ndim and all(
        dim == size for dim, size in zip(value.shape, shape, strict=True) if isinstance(dim, int)
    )


def _check_overlaps(targets: Sequence[Array], read: Sequence[Array]) -> None:
    """Refuses to write where something is read: kernels may read on after they began to write.

    All are contiguous, so comparing where they begin and end is exact.
    """
    written = [(address_of(array), array.nbytes) for array in targets]
    fed = [(address_of(array), array.nbytes) for array in read]
    for position, one in enumerate(written):
        if any(_overlap(one, other) for other in written[:position]):
            raise _wrong("two arrays of out share memory", "give each result memory of its own")
        if any(_overlap(one, other) for other in fed):
            raise _wrong(
                "an array of out shares memory with an argument", "give a copy of the argument"
            )


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether two pieces of memory, given by address and size, have a byte in common."""
    (start, size), (other_start, other_size) = one, other
    if not size or not other_size:
        return False
    return start < other_start + other_size and other_start < start + size


def _kind(item: Any) -> str:
    if isinstance(item, (list, tuple)):
        return f"a {type(item).__name__} of {len(item)}"
    if isinstance(item, dict):
        return f"a dict of {', '.join(map(repr, item)) or 'nothing'}"
    return "an array" if isinstance(item, np.ndarray) else f"a {type(item).__name__}"


_LIKE_RESULTS = "give arrays like those a call without out returns, in the same structure"


def _wrong(text: str, hint: str = _LIKE_RESULTS) -> FeedError:
    return FeedError(text, where=caller(), hint=hint)
