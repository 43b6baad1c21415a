"""Stands before ``ml_dtypes`` on the path of processes that do without it."""

raise ImportError("this process does without ml_dtypes")
