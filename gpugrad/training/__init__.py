"""A training loop for those who want one: `Trainer`, its callbacks, and pictures of its history.

It only calls what a program could call itself, so that a loop of one's own can replace it.
"""

from .callbacks import Callback, CSVLog, Progress, TensorBoardLog
from .curves import curves
from .trainer import Trainer

__all__ = ["CSVLog", "Callback", "Progress", "TensorBoardLog", "Trainer", "curves"]
__dir__ = __all__.copy
