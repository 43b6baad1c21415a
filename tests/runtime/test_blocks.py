"""Memory of large results: it is used again when an array and all its views are gone."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from at_once import at_once

import graphc as gx
from graphc.runtime.blocks import (
    MAX_IDLE_BLOCKS,
    BlockStore,
    copies_of,
    maker_of_results,
    store,
)

LARGE = 1 << 18
"""Elements of float32 that make a result large."""


@pytest.fixture
def blocks_of_this_test() -> Iterator[BlockStore]:
    store().clear()
    yield store()
    store().clear()


def doubled() -> gx.Executable:
    with gx.Graph() as graph:
        x = gx.placeholder((LARGE,))
        y = x + x
    return gx.Session(graph).compile(y, [x])


def test_memory_of_dead_results_is_used_again(blocks_of_this_test: BlockStore) -> None:
    executable = doubled()
    array = np.ones(LARGE, np.float32)
    for _ in range(3):
        executable(array)
    first = executable(array)
    address = first.ctypes.data
    assert address % 64 == 0 and first.flags.writeable
    second = executable(array)
    assert second.ctypes.data != address
    view = memoryview(first.reshape(2, -1)[1:].view(np.int32))
    del first
    third = executable(array * 2)
    assert third.ctypes.data != address, "a view is still alive"
    assert np.frombuffer(view, np.float32)[0] == 2
    del view, third
    again = {executable(array).ctypes.data for _ in range(4)}
    assert address in again or len(again) == 1
    np.testing.assert_array_equal(second, array + array)


def test_the_store_is_bounded() -> None:
    limited = BlockStore(limit=1 << 20)
    leases = [limited.lease(size) for size in (300_000, 300_000, 500_000, 800_000)]
    assert all(len(lease.base) % (64 << 10) == 0 for lease in leases)
    last = leases[-1].ctypes.data
    while leases:
        leases.pop(0)
        assert limited.known_bytes <= 1 << 20
    assert limited.lease(800_000).ctypes.data == last
    limited.lease(2 << 20)
    assert limited.known_bytes <= 1 << 20
    limited.clear()
    assert limited.idle_bytes == 0


def test_old_results_that_live_on_do_not_keep_new_ones_from_being_used_again() -> None:
    limited = BlockStore(limit=1 << 20)
    old = [limited.lease(300_000) for _ in range(10)]
    new = limited.lease(500_000)
    address = new.ctypes.data
    del new
    again = limited.lease(500_000)
    assert again.ctypes.data == address and old


def test_fault_15_no_code_runs_where_a_result_dies() -> None:
    """A KeyboardInterrupt that comes there could only be printed."""
    lease = BlockStore().lease(1 << 20)
    ran: list[str] = []
    sys.setprofile(lambda frame, event, argument: ran.append(event + frame.f_code.co_name))
    del lease
    sys.setprofile(None)
    assert not [what for what in ran if what.startswith("call")], ran


def test_threads_share_the_store(blocks_of_this_test: BlockStore) -> None:
    make = maker_of_results((LARGE,), np.dtype(np.float32))
    assert make is not None

    def work(number: int) -> None:
        for _ in range(300):
            array = make()
            array[::1024] = number
            other = make()
            other[::1024] = -1
            assert np.all(array[::1024] == number), number

    at_once(*(partial(work, number) for number in range(4)))
    assert blocks_of_this_test.idle_bytes <= MAX_IDLE_BLOCKS


def test_small_results_have_memory_of_their_own() -> None:
    assert maker_of_results((100,), np.dtype(np.float32)) is None
    assert maker_of_results((0, 1 << 30), np.dtype(np.float32)) is None


def test_large_results_can_be_pickled_and_copied() -> None:
    result = doubled()(np.ones(LARGE, np.float32))
    assert np.array_equal(pickle.loads(pickle.dumps(result)), result)
    assert result.copy().flags.owndata
    with pytest.raises(ValueError, match="own"):
        result.resize(3)


def test_a_result_that_no_memory_holds() -> None:
    """It is a MemoryError by every way of calling, as of NumPy; the program works on."""
    with gx.Graph() as graph:
        x = gx.placeholder(("n",))
        wide = gx.broadcast_to(x[:, None], (x.shape[0], 1 << 30))
    session = gx.Session(graph)
    total = session.compile(gx.sum(wide[:, :8]), [x])
    run = session.compile(wide, [x])
    empty = np.empty(0, "float32")
    for _ in range(3):
        assert run(empty).shape == (0, 1 << 30)
        for call in (run, lambda given: session.run(wide, {x: given})):
            with pytest.raises(MemoryError):
                call(np.ones(1 << 20, "float32"))
    assert total(np.ones(2, "float32")) == 16


def test_copies_are_of_their_own() -> None:
    arrays = [np.arange(LARGE, dtype=np.float32).reshape(4, -1), np.arange(3), np.zeros((0, 2))]
    for copy, array in zip(copies_of(arrays), arrays, strict=True):
        assert copy.dtype == array.dtype and not np.shares_memory(copy, array)
        np.testing.assert_array_equal(copy, array)
