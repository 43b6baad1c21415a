"""Complex numbers: their parts, and what operations on them are of these."""
