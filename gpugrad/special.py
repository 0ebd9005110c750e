"""Special functions, under SciPy's names; see `gpugrad.ops.special`."""

from ._foreign_names import answer as _answer
from .autograd.operation import exports as _exports
from .ops.special.gamma import digamma as digamma

globals().update(_exports("special"))
__all__ = sorted(name for name in globals() if name[0] != "_")
__dir__ = __all__.copy
__getattr__ = _answer(__name__)
