"""Passes from a graph to a graph, one a file."""
