"""Special functions, under SciPy's names; see `gpugrad.ops.special`."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from .autograd.operation import exports as _exports
from .habits import answer as _answer
from .ops.special.gamma import digamma as digamma

if _TYPE_CHECKING:
    from .ops.special.bessel import *
    from .ops.special.distributions import *
    from .ops.special.elementary import *
    from .ops.special.entropy import *
    from .ops.special.error_function import *
    from .ops.special.gamma import *
    from .ops.special.integrals import *
    from .ops.special.logistic import *
else:
    globals().update(_exports("special"))
    __getattr__ = _answer(__name__, {})
