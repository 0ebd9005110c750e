"""Functions that make derivatives, batches and cheaper graphs of functions."""

from .forward import jvp, linearize
from .jacobians import hessian, jacobian
from .mapping import vmap
from .reverse import grad, hvp, stop_gradient, value_and_grad, vjp

__all__ = [
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "linearize",
    "stop_gradient",
    "value_and_grad",
    "vjp",
    "vmap",
]
