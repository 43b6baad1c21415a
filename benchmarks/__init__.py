"""Comparison of graphc with NumPy, JAX and ONNX Runtime: ``python -m benchmarks``.

Role: a workload is defined once (``workloads.py``), written for each peer the way the peer's users
would write it (``peers/``), run by one process a peer (``worker.py``) in rounds that take turns
(``conductor.py``), and printed (``report.py``). Invariant: nothing is timed before its result
agreed with a reference in float64.
"""
