"""Layers, losses and models, with PyTorch's names and shapes."""

from .._foreign_names import explain_names as _explain_names
from . import functional, init, utils
from .common import public as _public
from .module import Module, Parameter
from .stateless import functional_call
from .summaries import summary

# All classes of these modules are public, except those with a leading underscore.
_modules = """
    activations attention container convolution layers likelihoods losses margin_losses
    normalization padding pooling recurrent sequence_losses shuffling synchronized transformer
    upsampling vectors
"""
_layers = _public(type, __name__, _modules)
globals().update(_layers)
_others = "Module Parameter functional functional_call init summary utils".split()
__all__ = sorted([*_layers, *_others])
_explain_names(__name__, functional)
