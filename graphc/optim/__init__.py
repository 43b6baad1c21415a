"""Optimisers: ``gx.optim``. Steps of gradient descent as ordinary graph.

Role: the formulas and defaults are those of PyTorch's ``torch.optim`` where it has them. In the
formulas p is a parameter, g its gradient (the loss differentiated by it), η the learning rate, λ
the weight decay, t the number of the step, counted from 1; what has an arrow is kept. Slots start
at zero. Invariant: nothing is defined here.
"""

from graphc.frontend.parameters import trainable_variables
from graphc.optim.adaptive import Adam, AdamW, RMSProp
from graphc.optim.clipping import clip_by_global_norm
from graphc.optim.first_order import SGD
from graphc.optim.steps import Optimizer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Optimizer",
    "RMSProp",
    "clip_by_global_norm",
    "trainable_variables",
]
