"""SciPy's functions on tensors, differentiable, where SciPy itself is compiled code for NumPy.

Each module has functions of SciPy's module under their names, with their parameters and defaults,
made of this library's ops. They take tensors, arrays and numbers, broadcast as SciPy's do, run on
the device of their arguments, and have derivatives of every order that their ops have. SciPy
itself is needed only where a docstring says so.

    integrate    odeint, solve_ivp, also with gradients by the adjoint equation
    interpolate  interp1d, CubicSpline
    linalg       triangular and Cholesky solvers, functions of matrices, special matrices, lu
    optimize     minimize, with derivatives filled in
    signal       convolve, fftconvolve, correlate, lfilter
    special      the functions of `gpugrad.special`
    stats        distributions: densities, distribution functions and quantiles

SciPy's functions that are Python for the arrays of any library, such as ``scipy.stats.skew``, need
no counterpart here: they take tensors as they are.
"""

from importlib import import_module as _import_module

from .._foreign_names import missing as _missing

__all__ = ["integrate", "interpolate", "linalg", "optimize", "signal", "special", "stats"]
__dir__ = __all__.copy


def __getattr__(name):
    if name in __all__:
        return _import_module(f".{name}", __name__)
    raise _missing(__name__, name)
