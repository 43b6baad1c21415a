"""Proofs about sizes under guards, for whoever must not read or write beyond an array."""
