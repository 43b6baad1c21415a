"""Schedules of kernels: one pass a file chooses one kind, in the order of ``pipeline.steps``.

A pass gets one statement and answers with a schedule, or with the reason for none. It looks at one
kernel and its target and knows nothing of the other passes. ``pipeline.scheduled`` calls it, spends
fuel, and skips loops that have a schedule.
"""
