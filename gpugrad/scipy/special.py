"""The functions of `gpugrad.special`, and SciPy's other names for them.

Here they also take lists, and numbers alone. For these, which are constants, the result is SciPy's.
"""

from functools import wraps as _wraps
from numbers import Number as _Number

from .. import special as _special
from .._foreign_names import answer as _answer
from ._tensors import floating as _floating


def _of_lists_too(function):
    @_wraps(function)
    def call(*args, **keywords):
        try:
            return function(*args, **keywords)
        except TypeError:
            if all(isinstance(x, (_Number, list, tuple)) for x in args):
                from scipy import special

                return getattr(special, function.__name__)(*args, **keywords)
            lists = [isinstance(x, (list, tuple)) for x in args]
            if not any(lists):
                raise
            like = next(x for x in args if not isinstance(x, (_Number, list, tuple)))
            args = tuple(
                [
                    _floating(x, like)[0] if found else x
                    for x, found in zip(args, lists, strict=True)
                ]
            )
            return function(*args, **keywords)

    return call


globals().update({name: _of_lists_too(getattr(_special, name)) for name in dir(_special)})
jn = globals()["jv"]

__all__ = sorted(name for name in globals() if name[0] != "_")
__dir__ = __all__.copy
__getattr__ = _answer(__name__)
