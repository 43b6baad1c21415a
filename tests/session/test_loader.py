"""``gx.training.Loader``: batches that a thread makes ahead."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
import traceback
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tools import in_child

import graphc as gx

Loader = gx.training.Loader

ROWS = np.arange(10)
DATA = {"x": ROWS[:, None] * np.ones(3, np.float32), "t": ROWS}


def threads() -> list[threading.Thread]:
    """Those of loaders."""
    return [thread for thread in threading.enumerate() if thread.name == "graphc"]


def end(seconds: float = 20.0) -> None:
    """Waits until no loader has a thread."""
    limit = time.monotonic() + seconds
    while threads():
        assert time.monotonic() < limit, "a thread goes on"
        time.sleep(0.01)


def labels(loader: Any) -> list[list[int]]:
    return [batch["t"].tolist() for batch in loader]


@pytest.mark.parametrize("drop_last", [False, True])
def test_batches_are_rows_in_order(drop_last: bool) -> None:
    loader = Loader(DATA, 4, drop_last=drop_last, epochs=2)
    epoch = [[0, 1, 2, 3], [4, 5, 6, 7]] + ([] if drop_last else [[8, 9]])
    assert labels(loader) == epoch * 2 and len(loader) == 2 * len(epoch)
    for batch in loader:
        np.testing.assert_array_equal(batch["x"][:, 0], batch["t"])
    end()


def test_shuffled_epochs_have_all_rows_and_come_again() -> None:
    """An order depends on the seed and the epoch, and on nothing else."""
    loader = Loader(DATA, 4, seed=3)
    first, second = labels(loader), labels(loader)
    assert all(sorted(chain(*epoch)) == ROWS.tolist() for epoch in (first, second))
    assert first != second and loader.epoch == 2
    both = Loader(DATA, 4, seed=3, epochs=2, ahead=5)
    assert labels(both) == first + second
    again = Loader(DATA, 4, seed=3)
    again.epoch = 1
    assert labels(again) == second
    assert labels(Loader(DATA, 4, seed=4)) != first


def test_files_are_read_by_the_thread(tmp_path: Path) -> None:
    """Rows of a mapped file are copied, converted to what they are fed to, and right."""
    path = tmp_path / "rows.npy"
    np.save(path, np.arange(40, dtype=np.uint8).reshape(10, 4))
    mapped = np.load(path, mmap_mode="r")
    with gx.Graph() as graph:
        x = gx.placeholder((None, 4), name="x")
        total = gx.training.total(x)
    for seed in (None, 1):
        found = list(Loader({x: mapped}, 3, seed=seed))
        assert all(type(batch[x]) is np.ndarray and batch[x].dtype == np.float32 for batch in found)
        assert all(not np.shares_memory(batch[x], mapped) for batch in found)
        rows = np.concatenate([batch[x] for batch in found])
        np.testing.assert_array_equal(rows[np.argsort(rows[:, 0])], mapped.astype(np.float32))
    session = gx.Session(graph)
    sums = session.run_many(total.update, Loader({x: mapped}, 3, seed=0, epochs=None), steps=8)
    assert sums.shape == (8,) and sums[-1] == 2 * mapped.sum()
    gc.collect()
    end()


def failing(after: int) -> Iterator[dict[str, Any]]:
    for n in range(after):
        yield {"t": np.array([n])}
    raise OSError("the disk is gone")


def test_errors_arrive_with_their_line() -> None:
    """What an iterator raises comes behind the batches before it, and names its line."""
    found = []
    with pytest.raises(OSError, match="the disk is gone") as caught:
        for batch in Loader(failing(3), ahead=1):
            found.append(batch)
    assert len(found) == 3
    lines = [frame.line for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert 'raise OSError("the disk is gone")' in lines
    with gx.Graph():
        x = gx.placeholder((None,), "int32", name="x")
    with pytest.raises(gx.FeedError, match=r"expected int32.* given dtype float64"):
        next(iter(Loader({x: np.ones(3)}, 2)))
    end()


@pytest.mark.parametrize("leave", ["close", "drop", "break"])
def test_a_loop_that_is_left_ends_the_thread(leave: str) -> None:
    """Nobody makes batches that nobody wants; at most ``ahead`` are made before they are asked."""
    made = []

    def endless() -> Iterator[dict[str, Any]]:
        while True:
            made.append(len(made))
            yield {"t": made[-1]}

    batches = iter(Loader(endless(), ahead=3))
    assert next(batches)["t"] == 0
    limit = time.monotonic() + 20
    while len(made) < 4:
        assert time.monotonic() < limit
        time.sleep(0.001)
    time.sleep(0.02)
    assert len(made) == 4
    if leave == "close":
        batches.close()
        assert next(batches, None) is None
    elif leave == "break":
        for _ in batches:
            break
    del batches
    end()


def test_an_interrupt_while_waiting() -> None:
    """Ctrl-C comes through though the next batch does not, and the thread ends."""
    entered = threading.Event()
    go_on = threading.Event()

    def stuck() -> Iterator[dict[str, Any]]:
        yield {"t": 0}
        entered.set()
        go_on.wait(60)
        yield {"t": 1}

    def loop() -> None:
        for _ in Loader(stuck()):
            pass

    def interrupt() -> None:
        entered.wait(60)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        loop()
    sender.join()
    go_on.set()
    end()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_goes_on_where_its_parent_is() -> None:
    """Arrays give the same batches in both; an iterator can't be gone on with."""
    batches = iter(Loader(DATA, 2, seed=1))
    wanted = labels(Loader(DATA, 2, seed=1))
    assert next(batches)["t"].tolist() == wanted[0]

    def same() -> None:
        assert labels(batches) == wanted[1:]

    assert in_child(same) == 0
    same()
    items = iter(Loader({"t": n} for n in range(9)))
    assert next(items)["t"] == 0

    def refused() -> None:
        with pytest.raises(gx.GraphError, match="a child can't go on with an iterator"):
            next(items)

    assert in_child(refused) == 0
    assert [item["t"] for item in items] == [*range(1, 9)]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((3,), {}, "a loader is given 3"),
        ((np.ones(3), 2), {}, "a loader is given"),
        (({}, 2), {}, "numbers of rows: none at all"),
        (({"x": np.ones(3), "t": np.ones(2)}, 2), {}, "x has 3, t has 2"),
        (({"x": 1.0}, 2), {}, "x is given 1.0, which has no rows"),
        (({"x": np.ones(3)}, 4), {"drop_last": True}, "3 rows make no batch of 4"),
        (({"x": np.ones((0, 2))}, 4), {}, "0 rows make no batch"),
        (({"x": np.ones(3)},), {}, "batch_size is None"),
        (({"x": np.ones(3)}, 0), {}, "batch_size is 0"),
        (({"x": np.ones(3)}, 1), {"seed": -1}, "seed is -1"),
        (({"x": np.ones(3)}, 1), {"epochs": 0}, "epochs is 0"),
        (({"x": np.ones(3)}, 1), {"ahead": 0}, "ahead is 0"),
        ((iter(()), 4), {}, "are for arrays"),
    ],
)
def test_what_a_loader_refuses(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises(gx.GraphcError, match=message):
        Loader(*arguments, **options)


def test_lengths() -> None:
    assert len(Loader(DATA, 3)) == 4
    for loader in (Loader(DATA, 3, epochs=None), Loader(iter(()))):
        with pytest.raises(TypeError, match="no known number of batches"):
            len(loader)
    assert list(Loader(iter(()))) == []
