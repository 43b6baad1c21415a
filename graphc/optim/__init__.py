"""Optimisers: ``gx.optim``. Steps of gradient descent as ordinary graph.

Role: the formulas and defaults are those of PyTorch's ``torch.optim`` where it has them. In the
formulas p is a parameter, g its gradient (the loss differentiated by it), η the learning rate, λ
the weight decay, t the number of the step, counted from 1; what has an arrow is kept. Slots start
at zero. Invariant: nothing is defined here.
"""

from graphc.frontend.parameters import trainable_variables
from graphc.optim.adam import Adam, Adamax, AdamW, AMSGrad, NAdam, RAdam
from graphc.optim.adaptive import Adadelta, Adagrad, RMSProp
from graphc.optim.clipping import clip_by_global_norm, clip_by_norm, clip_by_value
from graphc.optim.factored import Adafactor
from graphc.optim.first_order import SGD, Lion, SignSGD
from graphc.optim.layerwise import LAMB, LARS
from graphc.optim.lbfgs import Minimum, lbfgs
from graphc.optim.optimizer import Optimizer
from graphc.optim.schedules import (
    ReduceOnPlateau,
    constant_schedule,
    cosine_decay,
    exponential_decay,
    inverse_sqrt_decay,
    join_schedules,
    linear_schedule,
    one_cycle,
    piecewise_constant,
    polynomial_decay,
    warmup,
    warmup_cosine_decay,
)
from graphc.optim.wrappers import Accumulated, Averaged, Clipped, LossScaled

__all__ = [
    "LAMB",
    "LARS",
    "SGD",
    "AMSGrad",
    "Accumulated",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Averaged",
    "Clipped",
    "Lion",
    "LossScaled",
    "Minimum",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSProp",
    "ReduceOnPlateau",
    "SignSGD",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "constant_schedule",
    "cosine_decay",
    "exponential_decay",
    "inverse_sqrt_decay",
    "join_schedules",
    "lbfgs",
    "linear_schedule",
    "one_cycle",
    "piecewise_constant",
    "polynomial_decay",
    "trainable_variables",
    "warmup",
    "warmup_cosine_decay",
]
