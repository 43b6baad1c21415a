"""From a fused node to its kernel: regions of whole tensors become loops over scalars."""

from graphc.lower.fused_node import lower_group

__all__ = ["lower_group"]
