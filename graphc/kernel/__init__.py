"""Kernel IR: one loop nest per fused node."""
