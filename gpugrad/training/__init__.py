"""A training loop for those who want one: `Trainer`, its callbacks, and pictures of its history.

It makes only calls that a program could make itself, so your own loop can replace it.
"""

from .callbacks import Callback, CSVLog, Progress, TensorBoardLog
from .curves import curves
from .trainer import Trainer

__all__ = ["CSVLog", "Callback", "Progress", "TensorBoardLog", "Trainer", "curves"]
__dir__ = __all__.copy
