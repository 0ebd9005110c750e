"""Optimizers, named as PyTorch's; they update parameters in place."""

from .optimizer import Optimizer
from .sgd import SGD

__all__ = ["SGD", "Optimizer"]
