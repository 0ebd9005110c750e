"""The functions of `gpugrad.special`, and SciPy's other names for them.

Without a Tensor among their arguments they are SciPy's own: the results of numbers, lists and NumPy
arrays are constants, as in `gpugrad.numpy`. With one, integer tensors become float32, and arguments
that have no gradient, such as the order of a Bessel function, must not require one.
"""

from functools import wraps as _wraps

from .. import special as _special
from .._creation import holds_tensor as _holds_tensor
from .._foreign_names import explain_names as _explain_names
from ..backends.numpy import library as _numpy
from ._tensors import floating as _floating

_CONSTANTS = list, tuple, bool, int, float, complex, _numpy.ndarray, _numpy.generic


def _of_constants_too(function):
    @_wraps(function)
    def call(*args, **keywords):
        if not any(map(_holds_tensor, (*args, *keywords.values()))):
            if all(isinstance(x, _CONSTANTS) for x in args):
                from scipy import special

                return getattr(special, function.__name__)(*args, **keywords)
            return function(*args, **keywords)
        if any(isinstance(x, (list, tuple)) for x in args):
            like = [x for x in args if not isinstance(x, (list, tuple, bool, int, float, complex))]
            args = [_floating(x, *like)[0] if isinstance(x, (list, tuple)) else x for x in args]
        return function(*args, **keywords)

    return call


globals().update({name: _of_constants_too(getattr(_special, name)) for name in dir(_special)})
jn = globals()["jv"]

__all__ = sorted(name for name in globals() if name[0] != "_")
_explain_names(__name__)
