"""Functions with CuPy's signatures that run NumPy's functions of the same name."""

import ctypes
import functools
import inspect
import sys

import numpy as np

from ._array import arrays_in, from_interface, is_new, made, ndarray, on_current, unwrapped
from ._capture import do, refuse
from ._reads import note
from ._traffic import launched

# What CuPy computes by libraries that it does not call while a stream is being captured. (Those who
# need a function that computes products use gpugrad's.)
_REFUSED = {"numpy.linalg", "numpy.tensordot"}


def import_as_compiled_code():
    """Fail where CuPy's compiled code could not import a module when it compiles a kernel.

    Its imports look up ``__import__`` in the globals of the Python function that calls it.
    """
    builtins = sys._getframe(2).f_globals["__builtins__"]
    assert "__import__" in (builtins if isinstance(builtins, dict) else vars(builtins))


def through(numpy, reads=lambda arguments: False, view=False):
    """Return a decorator that runs the function of the same name in the module ``numpy``.

    reads: a function of the arguments by name that says whether the call waits for the device.
    view: whether no kernel runs, so that the current device does not matter.
    """

    def decorate(function):
        name, module = function.__name__, numpy.__name__
        target, signature = getattr(numpy, name), inspect.signature(function)

        @functools.wraps(function)
        def call(*args, **options):
            import_as_compiled_code()
            bound = signature.bind(*args, **options)
            arrays = [*arrays_in(args), *arrays_in(tuple(options.values()))]
            if not view:
                on_current(arrays)
            if reads(bound.arguments):
                note(name)
            out = options.get("out")
            if module in _REFUSED or f"{module}.{name}" in _REFUSED:
                refuse(name)
            given = {k: unwrapped(v) for k, v in options.items()}
            values = [unwrapped(x) for x in args]
            if out is None:
                out = made(lambda: target(*values, **given), arrays)
            else:
                do(lambda: target(*values, **given))
            new = [x for x in arrays_in(out) if is_new(x, arrays)]
            if new and not view and not name.startswith("empty"):
                launched(name, [x._values for x in arrays], [x._values for x in new])
            return out

        return call

    return decorate


def of_class(signatures, wrapper):
    """What ``wrapper`` makes of each function in a class, by name."""
    found = {}
    for name, function in vars(signatures).items():
        if inspect.isfunction(function):
            function.__qualname__ = name
            found[name] = wrapper(function)
    return found


def _is_floating(args):
    return any(isinstance(x, ndarray) and x.dtype.kind == "f" for x in args)


_ROUNDED = {  # for floats, like CuPy
    "floor_divide": lambda x1, x2, **options: np.floor(x1 / x2, **options),
    "remainder": lambda x1, x2, **options: np.subtract(x1, np.floor(x1 / x2) * x2, **options),
}


def _by_the_library(name):
    """The function of floats that computes as kernels do, by the mathematical library of C."""
    usual, name = getattr(np, name), {"power": "pow"}.get(name, name.replace("arc", "a"))
    by_type = {}
    for dtype, ctype, suffix in ((np.float64, "d", ""), (np.float32, "f", "f")):
        function = getattr(ctypes.CDLL("libm.so.6"), name + suffix, None)
        if function is None:
            return usual
        function.restype = {"d": ctypes.c_double, "f": ctypes.c_float}[ctype]
        function.argtypes = [function.restype] * usual.nin
        by_type[dtype] = np.vectorize(function, otypes=[dtype])

    def call(*values, out=None, dtype=None, casting="same_kind"):
        own = np.result_type(*values)
        if dtype is not None or own.kind not in "fV":
            return usual(*values, out=out, dtype=dtype, casting=casting)
        wide = np.float64 if own == np.float64 else np.float32
        result = by_type[wide](*[np.asarray(x, own).astype(wide) for x in values])
        if out is None:
            return result.astype(own)
        np.copyto(out, result.astype(own), casting)
        return out

    return call


_NAMES = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "sinh", "cosh",
    "tanh", "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "power", "arctan2",
)  # fmt: skip
if sys.platform == "linux":
    _ROUNDED |= {name: _by_the_library(name) for name in _NAMES}


class ufunc:
    """An elementwise function with the features of CuPy's."""

    def __init__(self, name):
        self._ufunc = getattr(np, name)
        self.__name__ = self.name = self._ufunc.__name__
        self.nin, self.nout = self._ufunc.nin, self._ufunc.nout

    def __call__(self, *args, out=None, dtype=None, casting="same_kind"):
        import_as_compiled_code()
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
        function, values = function or self._ufunc, [unwrapped(x) for x in args]
        read = [x._values for x in args if isinstance(x, ndarray)]
        if out is None:
            out = made(lambda: function(*values, **options))
        else:
            do(lambda: function(*values, **options))
        launched(self.name, read, [x._values for x in arrays_in(out)])
        return out

    def at(self, a, indices, b=None):
        supported = {"add": "fdeilLqQI", "maximum": "fdIiQLql"}.get(self.name)
        if supported is None or a.dtype.char not in supported:
            raise TypeError(f"`{self.name}.at` does not support {a.dtype}")
        on_current([a, *arrays_in(indices), b])
        place, own, values = a._key(indices, reading=False), a._values, unwrapped(b)
        do(lambda: self._ufunc.at(own, place(), values))
        read = [x._values for x in (a, *arrays_in(indices), b) if isinstance(x, ndarray)]
        launched(f"{self.name}.at", read, [a._values])
