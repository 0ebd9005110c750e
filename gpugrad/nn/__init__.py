"""Layers, losses and models, with PyTorch's names and shapes."""

from . import functional, init, utils
from .container import MLP, Sequential
from .layers import CrossEntropyLoss, Dropout, Flatten, Linear, MSELoss, ReLU, Sigmoid, Tanh
from .module import Module, Parameter
from .normalization import BatchNorm1d, LayerNorm
from .stateless import functional_call

__all__ = [
    "MLP",
    "BatchNorm1d",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "LayerNorm",
    "Linear",
    "MSELoss",
    "Module",
    "Parameter",
    "ReLU",
    "Sequential",
    "Sigmoid",
    "Tanh",
    "functional",
    "functional_call",
    "init",
    "utils",
]
__dir__ = __all__.copy
