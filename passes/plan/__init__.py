"""Passes over plans, and their table: copies, concurrent steps, memory that is shared."""
