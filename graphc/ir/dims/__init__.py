"""Symbolic sizes: their algebra, proofs of relations among them, and their text."""
