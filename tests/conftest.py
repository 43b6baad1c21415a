"""All tests run under a watch that compares compiled kernels with their interpretation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from kernel_watch import KernelWatch


@pytest.fixture(scope="session", autouse=True)
def kernel_watch() -> Iterator[KernelWatch]:
    """The watch of this process; see ``kernel_watch`` for what it does."""
    watch = KernelWatch()
    with pytest.MonkeyPatch.context() as patch:
        watch.install(patch)
        yield watch
    assert not watch.failures, "\n".join(watch.failures)
