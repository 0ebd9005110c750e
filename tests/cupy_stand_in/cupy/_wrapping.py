"""Functions with CuPy's signatures that run NumPy's functions of the same name."""

import functools
import inspect

import numpy as np

from ._array import arrays_in, from_interface, ndarray, on_current, unwrapped, wrap
from ._reads import note
from ._traffic import launched


def through(numpy, reads=lambda arguments: False, view=False):
    """Return a decorator that runs the function of the same name in the module ``numpy``.

    reads: a function of the arguments by name that says whether the call waits for the device.
    view: whether no kernel runs, so that the current device does not matter.
    """

    def decorate(function):
        name = function.__name__
        target = getattr(numpy, name)
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **options):
            bound = signature.bind(*args, **options)
            arrays = [*arrays_in(args), *arrays_in(tuple(options.values()))]
            if not view:
                on_current(arrays)
            if reads(bound.arguments):
                note(name)
            out = options.get("out")
            given = {k: unwrapped(v) for k, v in options.items()}
            values = target(*map(unwrapped, args), **given)
            out = wrap(values, arrays) if out is None else out
            made = [x for x in arrays_in(out) if x.base is None and not _is_in(x, arrays)]
            if made and not view:
                launched(name, [x._values for x in arrays], [x._values for x in made])
            return out

        return call

    return decorate


def _is_in(x, arrays):
    return any(x is other for other in arrays)


def _is_floating(args):
    return any(isinstance(x, ndarray) and x.dtype.kind == "f" for x in args)


def _floor_divide(x1, x2, **options):
    return np.floor(x1 / x2, **options)


def _remainder(x1, x2, **options):
    return np.subtract(x1, np.floor(x1 / x2) * x2, **options)


_ROUNDED = {"floor_divide": _floor_divide, "remainder": _remainder}  # for floats, like CuPy


class ufunc:
    """An elementwise function with the features of CuPy's."""

    def __init__(self, name):
        self._ufunc = getattr(np, name)
        self.__name__ = self.name = self._ufunc.__name__
        self.nin, self.nout = self._ufunc.nin, self._ufunc.nout

    def __call__(self, *args, out=None, dtype=None, casting="same_kind"):
        if len(args) > self.nin:
            *args, out = args
        args = [from_interface(x) for x in args]
        arrays = [x for x in (*args, out) if isinstance(x, ndarray)]
        for x in args:
            if not isinstance(x, (ndarray, np.generic, bool, int, float, complex)):
                raise TypeError(f"Unsupported type {type(x)}")
        if self.name.startswith("logical") and any(a.dtype.kind == "c" for a in arrays):
            raise TypeError(f"Wrong type of arguments for {self.name}")
        on_current(arrays)
        options = {} if out is None else {"out": out._values}
        function = _ROUNDED.get(self.name) if _is_floating(args) else None
        options |= {"dtype": dtype, "casting": casting}
        values = (function or self._ufunc)(*map(unwrapped, args), **options)
        read = [x._values for x in args if isinstance(x, ndarray)]
        out = wrap(values, []) if out is None else out
        launched(self.name, read, [x._values for x in arrays_in(out)])
        return out

    def at(self, a, indices, b=None):
        supported = {"add": "fdeilLqQI", "maximum": "fdIiQLql"}.get(self.name)
        if supported is None or a.dtype.char not in supported:
            raise TypeError(f"`{self.name}.at` does not support {a.dtype}")
        on_current([a, *arrays_in(indices), b])
        key = a._key(indices)
        self._ufunc.at(a._values, key, unwrapped(b))
        read = [x._values for x in (a, *arrays_in(indices), b) if isinstance(x, ndarray)]
        launched(f"{self.name}.at", read, [a._values])
