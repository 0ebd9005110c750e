"""Special functions, under SciPy's names; see `gpugrad.ops.special`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .autograd.operation import exports as _exports
from .foreign_names import answer as _answer
from .ops.special import digamma as digamma

if _TYPE_CHECKING:
    from .ops.special import *
else:
    globals().update(_exports("special"))
    __getattr__ = _answer(__name__)
