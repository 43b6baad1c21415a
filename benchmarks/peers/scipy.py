"""SciPy: Fourier transforms by pocketfft, which has vectors for batches of rows."""

from __future__ import annotations

import numpy as np
import scipy
import scipy.fft

from benchmarks.peers.base import Peer, Prepared, arrays_of
from benchmarks.workloads.base import Arrays


class SciPy(Peer):
    """SciPy from its wheel."""

    def versions(self) -> dict[str, str]:
        return {"scipy": scipy.__version__}

    def warm_up(self) -> None:
        scipy.fft.fft(np.ones(8, np.complex64))


def _fft(peer: Peer, inputs: Arrays, weights: Arrays) -> Prepared:
    x, workers = inputs["x"], peer.threads
    return Prepared(lambda: scipy.fft.fft(x, workers=workers), arrays_of)


SciPy.builders = {"fft": _fft}

PEER = SciPy
