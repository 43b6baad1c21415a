"""Reductions: the core ops of one axis, those of any axes, and statistics made of them."""
