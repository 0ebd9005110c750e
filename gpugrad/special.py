"""Special functions, under SciPy's names; see `gpugrad.ops.special`."""

from ._foreign_names import explain_names as _explain_names
from .autograd.operation import exports as _exports
from .ops.special.gamma import digamma as digamma

globals().update(_exports("special"))
__all__ = sorted(name for name in globals() if name[0] != "_")
_explain_names(__name__)
