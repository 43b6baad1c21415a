"""Schedules of kernels: one pass a file chooses one kind, in the order of ``pipeline.STEPS``.

A pass is asked of one statement and answers with a schedule, or with the reason for none. It looks
at one kernel and its target and knows nothing of the other passes; ``pipeline.scheduled`` asks it,
spends fuel, and leaves alone what has a schedule.
"""
