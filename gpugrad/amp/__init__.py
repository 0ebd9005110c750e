"""Mixed precision: `autocast`, and `GradScaler` for gradients in float16. Names are PyTorch's."""

from typing import TYPE_CHECKING

from .._foreign_names import answer
from .autocasting import autocast, is_autocast_enabled
from .grad_scaler import GradScaler

__all__ = ["GradScaler", "autocast", "is_autocast_enabled"]
__dir__ = __all__.copy

if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
