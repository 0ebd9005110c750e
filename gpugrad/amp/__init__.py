"""Mixed precision: `autocast`, and `GradScaler` for gradients in float16. Names are PyTorch's."""

from .._foreign_names import explain_names
from .autocasting import autocast, is_autocast_enabled
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "is_autocast_enabled"]
explain_names(__name__)
