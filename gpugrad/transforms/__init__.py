"""Function transforms: derivatives, vectorization, custom gradients and checkpointing."""

from .custom import custom_vjp
from .forward import jvp, linearize
from .jacobians import hessian, jacobian
from .mapping import vmap
from .recomputing import checkpoint
from .reverse import grad, hvp, stop_gradient, value_and_grad, vjp

__all__ = [
    "checkpoint", "custom_vjp", "grad", "hessian", "hvp", "jacobian", "jvp", "linearize",
    "stop_gradient", "value_and_grad", "vjp", "vmap",
]  # fmt: skip
__dir__ = __all__.copy
