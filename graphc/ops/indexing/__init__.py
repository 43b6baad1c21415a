"""Indexing: ``x[key]``, and elements that are picked or scattered by index tensors."""
