"""The functions of `gpugrad.special`, and SciPy's other names for them."""

from .. import special as _special
from .._foreign_names import answer as _answer

globals().update({name: getattr(_special, name) for name in dir(_special)})
jn = _special.jv

__all__ = sorted(name for name in globals() if name[0] != "_")
__dir__ = __all__.copy
__getattr__ = _answer(__name__)
