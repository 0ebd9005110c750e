"""Linear algebra on matrices and stacks of them, ``(..., m, n)``."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .autograd.operation import exports as _exports
from .foreign_names import answer as _answer
from .ops import linalg as _ops
from .ops.products import matmul as matmul
from .ops.products import matrix_transpose as matrix_transpose
from .ops.products import tensordot as tensordot
from .ops.products import vecdot as vecdot

if _TYPE_CHECKING:
    from .ops.linalg import *
else:
    globals().update(_exports("linalg"))
    __getattr__ = _answer(__name__)
