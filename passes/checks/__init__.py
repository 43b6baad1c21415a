"""Checks of what passes made: check mode, memory plans, plans without copies."""
