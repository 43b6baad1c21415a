"""What trainings are made of beside steps: ``gx.training``.

Role: the names that users have. Invariant: nothing is defined here.
"""

from graphc.frontend.metrics import Metric, accuracy, mean, total
from graphc.session.loader import Batches, Loader
from graphc.session.training_log import Log

__all__ = ["Batches", "Loader", "Log", "Metric", "accuracy", "mean", "total"]
