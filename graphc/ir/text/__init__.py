"""Graphs as text and as files: printing, reading, and the arrays that are kept beside."""
