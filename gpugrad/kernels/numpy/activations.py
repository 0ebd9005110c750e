"""The twins of activations: kernels that are made of the definitions, and so have their bits.

That of `gelu` for float32 has bits of its own: SciPy's erfc, which is not vectorised, takes 4 times
as long. Where its kernel is not there yet, NumPy computes the same on pieces.
"""

import math
from functools import partial

import numpy as np

from ...backends.declarations import declare
from ...backends.dtypes import float32
from ...backends.native.base import is_expected
from ...backends.numpy.large import Kernels
from ...backends.numpy.namespace import xp
from ...backends.numpy.noting import CannotNote, note_result
from ...backends.numpy.threads import divided
from ...backends.registry import backend_of
from ...ops import activations as ops
from ...ops.neural import relu, sigmoid
from .common import are_alike

_FEW = 2048  # elements: for fewer, the definitions take no longer

# The standard normal distribution function of -x is t * P(t) * exp(-x**2 / 2) for x >= 0, with
# t = 1 / (1 + 0.35 * x). The relative error of P, from the highest power down, is below 4e-8.
_SLOPE = 0.35
_COEFFICIENTS = (
    -0.029157875876596847, 0.1440308794801599, -0.25583893662558677, 0.15931963483676412,
    -0.023212321875316064, 0.10555249259496122, 0.11982128932630617, 0.13986351531099614,
    0.139621306844063,
)  # fmt: skip
_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)
_LIMIT = 14.5  # where the distribution function of -x is 0 in float32


class _Generated:
    """A twin that is a kernel made of the definition, the forward or the rule."""

    is_eager = True  # a recorded call has the definition's, whose parts a program divides

    def __init__(self, function, is_rule):
        def run(xp, *args, guarded=False, **static):
            found = function(xp, *args, **static)
            return xp.zero_discarded_nans(found, args[0]) if guarded else found

        self._run, self._is_rule = run, is_rule
        self.__name__, self.__code__ = function.__name__, function.__code__
        self.__kwdefaults__ = {"guarded": False} if is_rule else None
        self._kernels = Kernels(run, backend_of[np.ndarray].native)

    def __call__(self, xp, *args, **static):
        x = args[self._is_rule]
        if x.size < _FEW or not is_expected():
            return NotImplemented
        if not (x.flags.c_contiguous and args[0].flags.c_contiguous):
            args = [_in_c_order(a, k < self._is_rule) for k, a in enumerate(args)]
        found = self._kernels.result(xp, args, static)
        return NotImplemented if found is None else found


def _in_c_order(x, is_cotangent):
    """Any cotangent in C order, and rows, such as half of the columns of a matrix.

    The results of NumPy's functions for such arrays are in C order, too.
    """
    if type(x) is not np.ndarray:
        return x
    steps = [step for step, n in zip(x.strides, x.shape, strict=True) if n > 1]
    is_rows = steps[-1:] == [x.itemsize] and steps == sorted(steps, reverse=True)
    return np.ascontiguousarray(x) if is_cotangent or is_rows else x


_FORWARDS = (
    sigmoid, ops.leaky_relu, ops.elu, ops.silu, ops.mish, ops.softplus, ops.logsigmoid,
    ops.tanhshrink, ops.softsign, ops.hardsigmoid, ops.hardswish, ops.hardshrink, ops.softshrink,
    ops.threshold,
)  # fmt: skip
for _call in _FORWARDS:
    _call.twin("numpy", _Generated(_call.op.forward, False))
for _call in (*_FORWARDS, relu, ops.hardtanh):  # NumPy's own functions are forwards of the last two
    _call.twin("numpy", x=_Generated(_call.op.rules["x"], True))


# Gaussian error linear units


class _Gelu(_Generated):
    """A twin of `gelu`, which a program records as one call; it computes by itself, too."""

    is_eager = False

    def __init__(self, function, is_rule):
        super().__init__(function, is_rule)
        declare(self, steps=self._steps)

    def __call__(self, xp, *args, **static):
        if not self._covers(*args, **static):
            return NotImplemented
        found = super().__call__(xp, *args, **static)
        if found is NotImplemented:
            found = divided(partial(self._run, xp, **static))(*args)
        return found

    def _covers(self, *args, approximate="none", guarded=False):
        (*g, x), given = args[: 1 + self._is_rule], args[1 + self._is_rule :]
        (approximate,) = given or (approximate,)
        if not are_alike(x) or any((y.dtype, y.shape) != (x.dtype, x.shape) for y in g):
            return False
        if approximate == "tanh":
            return x.size >= _FEW and is_expected()
        return x.size >= 1024 and x.dtype == float32

    def _steps(self, *args, out, **static):
        """The calls of NumPy in its place."""
        if not self._covers(*args, **static):
            return None
        try:
            calls, found = note_result(partial(self._run, xp, **static), *args)
        except CannotNote:
            return None
        return [*calls, partial(np.copyto, out, found)]


def _tail(x):
    """``abs(x)``, exp(-x**2 / 2), and the distribution function of ``-abs(x)``."""
    size = np.abs(x)
    t = np.reciprocal(size * _SLOPE + 1)
    first, *rest = _COEFFICIENTS
    tail = t * first
    for coefficient in rest:
        tail += coefficient
        tail *= t
    power = np.exp(size * size * -0.5)
    tail *= power
    return size, power, tail


def _gelu(xp, x, approximate="none"):
    if approximate == "tanh":
        return ops.gelu.op.forward(xp, x, approximate)
    size, _, tail = _tail(x.clip(-_LIMIT, _LIMIT))
    return x.clip(0, math.inf) - tail * size


def _gelu_vjp(xp, g, x, approximate):
    if approximate == "tanh":
        return ops.gelu.op.rules["x"](xp, g, x, approximate)
    bounded = x.clip(-_LIMIT, _LIMIT)
    _, power, tail = _tail(bounded)
    is_below, out = np.copysign(1.0, x) < 0, np.empty_like(tail)
    distribution = xp.where(is_below, tail, 1 - tail, out=out)  # so, a kernel can be made of it
    return (distribution + power * bounded * _DENSITY_AT_0) * g


ops.gelu.twin("numpy", _Gelu(_gelu, False), x=_Gelu(_gelu_vjp, True))
