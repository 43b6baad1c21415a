"""Kernel IR: what is launched, a fused node or a part of one, as loops over scalars."""
