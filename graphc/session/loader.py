"""Minibatches, made ahead of the run by a thread: ``gx.training.Loader``.

The thread holds what was asked of it and not the iteration itself, so that it sees when nobody
iterates any more. Invariant: it makes at most so many batches ahead, and whatever ends it reaches
who iterates.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import count, islice
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeAlias
from weakref import ref

import numpy as np

from graphc.base.errors import FeedError, GraphError
from graphc.base.forks import ends_now, tell
from graphc.base.source import caller
from graphc.base.words import plural, shown
from graphc.ir.attributes import Array
from graphc.ir.value import Value
from graphc.ops.arguments import is_whole, switch
from graphc.session.feeds import converted_feed

_LOOK_AGAIN = 0.2
"""Seconds after which a thread that waits looks whether anybody iterates."""

Feeds: TypeAlias = Mapping[Any, Any]
"""Of one step, by value or name."""


class Loader:
    """Feeds of one step after the other, which a thread makes ahead of the run.

    ``for feeds in loader: session.run(step, feeds)``, or ``session.run_many(step, loader)``. The
    thread cuts, copies and converts while native code runs. What is raised in it, as by an iterator
    of yours, is raised where its batch would have come. A loop that is left ends the thread.
    After a fork the child begins a thread of its own and goes on where the parent is; with an
    iterator it can't (``GraphError``).

    Args:
        source: arrays by value or name, all with as many rows; those of ``np.load(path,
            mmap_mode="r")`` are read as they are needed. Or an iterable of feeds.
        batch_size: how many rows a batch has; for arrays alone.
        seed: an int of 0 or more shuffles rows, in another order in each epoch; without it they
            come as they lie.
        drop_last: leaves out the last rows of an epoch that fill no batch.
        epochs: how often an iteration goes through the rows; None is without end.
        ahead: how many batches are made in advance.

    Attributes:
        epoch: the number of the epoch that the next iteration begins with. To go on where another
            process ended set it to the epochs that are done.

    Raises:
        FeedError: for arrays without rows or of different numbers of rows, for what is neither
            arrays nor iterable, and for arguments that an iterable doesn't take.
        GraphError: for numbers that can't be.
    """

    def __init__(
        self,
        source: Any,
        batch_size: int | None = None,
        *,
        seed: int | None = None,
        drop_last: bool = False,
        epochs: int | None = 1,
        ahead: int = 2,
    ) -> None:
        self.epoch = 0
        self._ahead = _number(ahead, "ahead", 1)
        self._rows: _Rows | None = None
        self._source = source
        if isinstance(source, Mapping):
            if seed is not None:
                _number(seed, "seed", 0)
            self._epochs = None if epochs is None else _number(epochs, "epochs", 1)
            size = _number(batch_size, "batch_size", 1)
            self._rows = _Rows(source, size, seed, switch(drop_last, "drop_last"))
            return
        if not isinstance(source, Iterable) or isinstance(source, (str, bytes, Value, np.ndarray)):
            raise FeedError(
                f"a loader is given {shown(source)}",
                where=caller(),
                hint="give a dict of arrays by value or name, or an iterable of feeds",
            )
        if batch_size is not None or seed is not None or drop_last or epochs != 1:
            raise FeedError(
                "batch_size, seed, drop_last and epochs are for arrays",
                where=caller(),
                hint="an iterable gives the feeds of one step after the other",
            )

    def __len__(self) -> int:
        """How many batches an iteration has.

        Raises:
            TypeError: for an iterable, and without end.
        """
        if self._rows is None or self._epochs is None:
            raise TypeError("this loader has no known number of batches")
        return self._rows.batches * self._epochs

    def __iter__(self) -> Batches:
        rows = self._rows
        if rows is None:
            source: Iterable[Feeds] = self._source
            return Batches(lambda start: _again(source, start), self._ahead)
        first = self.epoch * rows.batches
        total = None if self._epochs is None else rows.batches * self._epochs
        self.epoch += self._epochs or 0

        def batches(start: int) -> Iterator[Feeds]:
            numbers = count(first + start)
            return rows.numbered(numbers if total is None else islice(numbers, total - start))

        return Batches(batches, self._ahead)


def _number(given: Any, what: str, least: int) -> int:
    if is_whole(given) and given >= least:
        return int(given)
    raise GraphError(
        f"{what} is {shown(given)}", where=caller(), hint=f"it is an int from {least} on"
    )


def _again(source: Iterable[Feeds], start: int) -> Iterator[Feeds]:
    """The items of an iterable, of which none may have been taken before."""
    if start:
        raise GraphError(
            "a child can't go on with an iterator that its parent is in the midst of",
            where=caller(),
            hint="iterate over the loader anew, with an iterator that the child has made",
        )
    return iter(source)


class _Rows:
    """Rows of arrays in batches.

    Attributes:
        batches: how many an epoch has.
    """

    def __init__(
        self, arrays: Mapping[Any, Any], size: int, seed: int | None, drop_last: bool
    ) -> None:
        self._arrays = {key: _with_rows(key, array) for key, array in arrays.items()}
        counts = {len(array) for array in self._arrays.values()}
        if len(counts) != 1:
            told = [f"{_label(key)} has {len(array)}" for key, array in self._arrays.items()]
            raise FeedError(
                f"arrays of different numbers of rows: {', '.join(told) or 'none at all'}",
                where=caller(),
                hint="give arrays whose first axis has one size: that of the examples",
            )
        (self._count,) = counts
        self._size, self._seed = size, seed
        self.batches = self._count // size if drop_last else -(-self._count // size)
        if not self.batches:
            raise FeedError(
                f"{plural(self._count, 'row')} make no batch of {size}",
                where=caller(),
                hint="give more rows, or a smaller batch_size",
            )

    def numbered(self, numbers: Iterable[int]) -> Iterator[Feeds]:
        """The batches of these numbers, which are counted through all epochs."""
        order: Array | None = None
        known = -1
        for number in numbers:
            epoch, batch = divmod(number, self.batches)
            if self._seed is not None and epoch != known:
                order = np.random.default_rng((self._seed, epoch)).permutation(self._count)
                known = epoch
            rows = slice(batch * self._size, min((batch + 1) * self._size, self._count))
            yield {
                key: _taken(key, array, rows if order is None else order[rows])
                for key, array in self._arrays.items()
            }


def _with_rows(key: Any, given: Any) -> Array:
    array = given if isinstance(given, np.ndarray) else np.asarray(given)
    if array.ndim:
        return array
    raise FeedError(
        f"{_label(key)} is given {shown(given)}, which has no rows",
        where=caller(),
        hint="give an array whose first axis is that of the examples",
    )


def _label(key: Any) -> str:
    return (key.name if isinstance(key, Value) else str(key)) or "an unnamed value"


def _taken(key: Any, array: Array, rows: slice | Array) -> Array:
    """Some rows as they are fed; a file is read now and not in the run."""
    if not isinstance(rows, slice):
        found = array.take(rows, axis=0)
    elif isinstance(array, np.memmap):
        found = np.array(array[rows])
    else:
        found = array[rows]
    # a file's rows are a kind of array of their own
    found = np.asarray(found)
    return converted_feed(key, found) if isinstance(key, Value) else found


class _Made(NamedTuple):
    """A batch, or what comes in its place.

    Attributes:
        feeds: the batch.
        error: what was raised.
        is_last: there is no batch any more.
    """

    feeds: Any = None
    error: BaseException | None = None
    is_last: bool = False


class _Line:
    """Between the thread and who iterates.

    Attributes:
        ready: batches, and the end.
        room: an item for each batch that may be made.
        closed: nobody wants more.
    """

    __slots__ = ("closed", "ready", "room")

    def __init__(self, ahead: int) -> None:
        self.ready: SimpleQueue[_Made] = SimpleQueue()
        self.room: SimpleQueue[None] = SimpleQueue()
        self.closed = False
        for _ in range(ahead):
            self.room.put(None)


class Batches(Iterator[Feeds]):
    """One iteration over a loader; ``close`` ends it early."""

    def __init__(self, make: Callable[[int], Iterator[Feeds]], ahead: int) -> None:
        self._make, self._ahead = make, ahead
        self._given = 0
        self._line: _Line | None = None
        self._ended = False
        tell(self)

    def forked(self) -> None:
        """This process lacks the thread."""
        self._line = None

    def close(self) -> None:
        """Ends the thread, and the iteration."""
        self._ended = True
        if self._line is not None:
            self._line.closed = True
            self._line.room.put(None)

    def __next__(self) -> Feeds:
        if self._ended:
            raise StopIteration
        if self._line is None:
            line = _Line(self._ahead)
            arguments = line, self._make, self._given, ref(self)
            threading.Thread(target=_thread, args=arguments, name="graphc", daemon=True).start()
            self._line = line
        made = self._line.ready.get()
        if made.error is None and not made.is_last:
            self._given += 1
            self._line.room.put(None)
            feeds: Feeds = made.feeds
            return feeds
        self._ended = True
        raise StopIteration if made.error is None else made.error


def _thread(*arguments: Any) -> None:
    _fill(*arguments)
    ends_now()


def _fill(
    line: _Line, make: Callable[[int], Iterator[Any]], start: int, owner: ref[Batches]
) -> None:
    """Makes batches as long as somebody wants them."""
    try:
        batches = make(start)
        while _has_room(line, owner):
            for feeds in batches:
                line.ready.put(_Made(feeds))
                break
            else:
                line.ready.put(_Made(is_last=True))
                return
    except BaseException as error:
        line.ready.put(_Made(error=error))


def _has_room(line: _Line, owner: ref[Batches]) -> bool:
    """Waits until a batch may be made; False where nobody wants one any more."""
    while not line.closed and owner() is not None:
        try:
            line.room.get(timeout=_LOOK_AGAIN)
        except Empty:
            continue
        return not line.closed
    return False
