"""Linear algebra on matrices and stacks of them, ``(..., m, n)``."""

from typing import TYPE_CHECKING

from .autograd.operation import exports as _exports
from .ops import linalg as _ops

if TYPE_CHECKING:
    from .ops.linalg import *
else:
    globals().update(_exports("linalg"))
