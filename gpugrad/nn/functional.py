"""The computations of the layers, as functions of tensors.

The functions of the modules named below are exported, but for those with a leading underscore, and
some ops.
"""

from types import FunctionType as _FunctionType

from .._foreign_names import answer as _answer
from ..ops.activations import gelu, softplus, softsign
from ..ops.neural import linear, sigmoid
from ..ops.transcendental import tanh
from .common import public as _public

_functions = _public(
    _FunctionType,
    __package__,
    """
    activations computations convolution likelihoods losses margin_losses padding pooling sampling
    sequence_losses shuffling upsampling vectors
    """,
)
globals().update(_functions)
_ops = "gelu linear sigmoid softplus softsign tanh".split()
__all__ = sorted([*_functions, *_ops])
__dir__ = __all__.copy
__getattr__ = _answer(__name__)
