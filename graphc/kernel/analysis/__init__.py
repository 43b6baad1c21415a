"""Analyses of kernels: bounds, index ranges, cost, aliasing, scopes of scratch, task sizes."""
