"""Differentiation as graph -> graph: ``reverse`` (cotangents) and ``forward`` (tangents).

Both modes read the derivative that each op declares once; neither knows an op by name.
"""
