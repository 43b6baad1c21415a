"""Comparison of graphc with its peers: ``python -m benchmarks``.

Role: a workload is defined once (``workloads/``), written for each peer the way the peer's users
would write it (``peers/``), run by one process a peer (``worker.py``) in rounds that take turns
(``conductor.py``), set against what the machine can do (``limits.py``), and reported
(``figures.py``, ``report.py``, ``chart.py``). Invariant: nothing is timed before its result agreed
with a reference in float64.
"""
