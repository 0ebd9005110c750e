"""Function transforms: derivatives, vectorization, custom gradients and checkpointing."""

from .custom import custom_vjp as custom_vjp
from .forward import jvp as jvp
from .forward import linearize as linearize
from .jacobians import hessian as hessian
from .jacobians import jacobian as jacobian
from .mapping import vmap as vmap
from .recomputing import checkpoint as checkpoint
from .reverse import grad as grad
from .reverse import hvp as hvp
from .reverse import stop_gradient as stop_gradient
from .reverse import value_and_grad as value_and_grad
from .reverse import vjp as vjp

__all__ = sorted([name for name, x in globals().items() if callable(x) and name[0] != "_"])
__dir__ = __all__.copy
