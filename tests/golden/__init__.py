"""Texts of every level of some programs, by their hashes: the proof that a change moves nothing.

``README.md`` in this folder says how to use it and what no program reaches.
"""
