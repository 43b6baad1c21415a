"""Schedules of kernels as data, the loops they are about, and which are right for a statement."""
