"""Optimizers, named as PyTorch's; they update parameters in place."""

from .adam import Adam, AdamW
from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
__dir__ = __all__.copy
