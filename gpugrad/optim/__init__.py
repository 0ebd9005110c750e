"""Optimizers, named as PyTorch's; they update parameters in place."""

from .._foreign_names import explain_names as _explain_names
from ..nn.common import public as _public
from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils
from .optimizer import Optimizer as Optimizer

# All classes of these modules are public, except those with a leading underscore.
_modules = """
    adadelta adafactor adagrad adam adamax asgd lbfgs lion muon nadam radam rmsprop rprop sgd
"""
_optimizers = _public(type, __name__, _modules)
globals().update(_optimizers)
__all__ = sorted([*_optimizers, "Optimizer", "lr_scheduler", "swa_utils"])
_explain_names(__name__, lr_scheduler, swa_utils)
