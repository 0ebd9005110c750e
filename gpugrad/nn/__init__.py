"""Layers, losses and models, with PyTorch's names and shapes."""

from . import functional, init, utils
from .activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    Sigmoid,
    SiLU,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
    Tanhshrink,
)
from .container import MLP, Sequential
from .layers import CrossEntropyLoss, Dropout, Flatten, Linear, MSELoss
from .module import Module, Parameter
from .normalization import BatchNorm1d, LayerNorm
from .stateless import functional_call

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "MLP",
    "SELU",
    "BatchNorm1d",
    "CrossEntropyLoss",
    "Dropout",
    "Flatten",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "Mish",
    "Module",
    "PReLU",
    "Parameter",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softplus",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "functional",
    "functional_call",
    "init",
    "utils",
]
__dir__ = __all__.copy
