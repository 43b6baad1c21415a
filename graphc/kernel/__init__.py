"""Kernel IR: a fused node, or a part of one that is launched by itself, as loops over scalars."""
