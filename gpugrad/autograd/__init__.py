"""The graph and what runs on it: `op`, grad mode, and the backward sweep."""

from .._foreign_names import explain_names
from .mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .operation import op
from .sweep import grad

__all__ = ["enable_grad", "grad", "is_grad_enabled", "no_grad", "op", "set_grad_enabled"]
explain_names(__name__)
