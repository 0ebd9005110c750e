"""Linear algebra on matrices and stacks of them, ``(..., m, n)``."""

from ._foreign_names import explain_names as _explain_names
from .autograd.operation import exports as _exports
from .ops import linalg as _ops
from .ops.products import matmul as matmul
from .ops.products import matrix_transpose as matrix_transpose
from .ops.products import tensordot as tensordot
from .ops.products import vecdot as vecdot

globals().update(_exports("linalg"))
__all__ = sorted(name for name in globals() if name[0] != "_")
_explain_names(__name__)
