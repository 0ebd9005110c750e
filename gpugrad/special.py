"""Special functions, under SciPy's names."""

from typing import TYPE_CHECKING

from .autograd.operation import exports as _exports
from .ops import special as _ops

if TYPE_CHECKING:
    from .ops.special import *
else:
    globals().update(_exports("special"))
