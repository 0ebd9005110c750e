"""The computations of the layers, as functions of tensors.

All functions of the modules named below are public, except those with a leading underscore, and so
are some ops.
"""

from types import FunctionType as _FunctionType

from .._foreign_names import explain_names as _explain_names
from ..autograd.operation import exports as _exports
from .common import public as _public

_modules = """
    activations computations convolution likelihoods losses margin_losses padding pooling sampling
    sequence_losses shuffling upsampling vectors
"""
_functions = _public(_FunctionType, __package__, _modules)
globals().update(_functions)
_ops = """
    gelu hardshrink linear logsigmoid sigmoid softplus softshrink softsign tanh tanhshrink
""".split()
globals().update({name: _exports()[name] for name in _ops})
__all__ = sorted([*_functions, *_ops])
_explain_names(__name__)
