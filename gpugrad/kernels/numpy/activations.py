"""The twins of activations: kernels with the bits of the definitions, some made of these.

That of `gelu` for float32 has bits of its own: SciPy's erfc, which is not vectorised, takes 4 times
as long. Where the library of kernels is not there yet, NumPy computes the same on pieces.
"""

import math

import numpy as np

from ...backends.declarations import declare
from ...backends.dtypes import float32, float64
from ...backends.native.base import each, is_expected, step_of_each
from ...backends.numpy.large import Kernels
from ...backends.numpy.namespace import xp
from ...backends.numpy.threads import divided
from ...backends.registry import backend_of
from ...ops import activations as ops
from ...ops.activations import _GELU_CUBIC as CUBIC
from ...ops.activations import _GELU_LINEAR as LINEAR
from ...ops.activations import elu, gelu, hardswish, leaky_relu, mish, silu, softplus
from ...ops.neural import largest_exponent, relu, sigmoid
from .common import are_alike, in_c_order

_FEW = 2048  # elements: for fewer, the definitions take no longer
_MANY = 1 << 15  # those for which a kernel that is made of a definition takes less time
_LARGEST = {dtype: largest_exponent(np, dtype) for dtype in (float32, float64)}

# The standard normal distribution function of -x is t * P(t) * exp(-x**2 / 2) for x >= 0, with
# t = 1 / (1 + 0.35 * x). The relative error of P, from the highest power down, is below 4e-8.
_SLOPE = 0.35
_COEFFICIENTS = (
    -0.029157875876596847, 0.1440308794801599, -0.25583893662558677, 0.15931963483676412,
    -0.023212321875316064, 0.10555249259496122, 0.11982128932630617, 0.13986351531099614,
    0.139621306844063,
)  # fmt: skip
_DENSITY_AT_0 = 1 / math.sqrt(2 * math.pi)
# What kernels take besides `largest_exponent`.
_NUMBERS: dict[str, tuple] = {"gelu": (), "gelu_vjp": (_DENSITY_AT_0,)}
_NUMBERS |= dict.fromkeys(("gelu_tanh", "gelu_tanh_vjp"), (LINEAR, CUBIC))
_LIMIT = 14.5  # where the distribution function of -x is 0 in float32


def _result(name, x, g=None, guarded=False, *numbers):
    """Have a kernel compute a function of x, or of the cotangent g and the value x of the rule.

    numbers: the static parameters of the op. Kernels take `largest_exponent` after them.
    """
    if not is_expected() or x.size < _FEW:
        return NotImplemented
    if x.strides[-1] == x.itemsize and x.shape[-1] > 1:
        x = np.ascontiguousarray(x)  # rows, such as half of the columns of a matrix
    if type(g) is np.ndarray:
        g = np.ascontiguousarray(g)  # such as the cotangent of a sum's operand
    if not are_alike(x, x if g is None else g):
        return NotImplemented
    numbers = dict(zip("stu", (*numbers, _LARGEST[x.dtype]), strict=False))
    out = each(name, x, g, guarded=guarded, **numbers)
    return NotImplemented if out is None else out


class _Rule:
    """A twin of an op's rule that calls a kernel; it has the parameters of the definition's."""

    is_eager = True  # a recorded call has the definition's, whose parts a program divides

    def __init__(self, op):
        self.__name__ = f"{op.name.removeprefix('special.')}_vjp"
        self.__code__, self.__kwdefaults__ = op.rules["x"].__code__, {"guarded": False}

    def __call__(self, xp, g, x, *static, guarded=False):
        return _result(self.__name__, x, g, guarded, *static)


def _forward(name, op):
    """A twin of an op's forward that calls a kernel."""

    def forward(xp, x, **static):
        return _result(name, x, None, False, *[static[k] for k in op.static_names])

    forward.is_eager = True
    return forward


for _call in (sigmoid, relu, silu, leaky_relu, elu, softplus, mish, hardswish):
    _call.twin("numpy", x=_Rule(_call.op))
for _call in (sigmoid, silu, leaky_relu, elu, softplus, mish, hardswish):
    _call.twin("numpy", _forward(_call.op.name, _call.op))


class _Generated:
    """A twin that is a kernel made of the definition; large arrays have one without a twin, too.

    function: the forward or the rule.
    """

    is_eager = True

    def __init__(self, function, is_rule):
        def run(xp, *args, guarded=False, **static):
            found = function(xp, *args, **static)
            return xp.zero_discarded_nans(found, args[0]) if guarded else found

        self.__name__, self.__code__ = function.__name__, function.__code__
        self.__kwdefaults__ = {"guarded": False} if is_rule else None
        self._kernels = Kernels(run, backend_of[np.ndarray].native)

    def __call__(self, xp, x, *args, **static):
        if x.size < _MANY or not is_expected():
            return NotImplemented
        found = self._kernels.result(xp, (x, *args), static)
        return NotImplemented if found is None else found


for _call in (
    ops.logsigmoid, ops.tanhshrink, ops.softsign, ops.hardsigmoid, ops.hardshrink, ops.softshrink,
    ops.threshold,
):  # fmt: skip
    _call.twin("numpy", _Generated(_call.op.forward, False))
    _call.twin("numpy", x=_Generated(_call.op.rules["x"], True))
# NumPy's own function is its forward.
ops.hardtanh.twin("numpy", x=_Generated(ops.hardtanh.op.rules["x"], True))


# Gaussian error linear units


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


@divided
def _gelu_by_numpy(x):
    size, _, tail = _tail(x.clip(-_LIMIT, _LIMIT))
    return x.clip(0, math.inf) - tail * size


@divided
def _gelu_vjp_by_numpy(g, x):
    bounded = x.clip(-_LIMIT, _LIMIT)
    _, power, tail = _tail(bounded)
    distribution = xp.where(np.signbit(x), tail, 1 - tail)
    return (distribution + power * bounded * _DENSITY_AT_0) * g


def _covers(x, approximate):
    return approximate == "none" and x.dtype == float32 and x.size >= 1024 and are_alike(x)


def _steps(x, approximate="none", *, out, g=None):
    """The calls of a kernel in the place of the twin."""
    is_tanh, (g, calls) = approximate == "tanh", in_c_order(g)
    arrays = x, out, *([] if g is None else [g])
    if not (_covers(x, "none") or (is_tanh and x.size >= _FEW)) or not are_alike(*arrays):
        return None
    name = f"gelu{'_tanh' * is_tanh}{'_vjp' * (g is not None)}"
    numbers = (*_NUMBERS[name], _LARGEST[x.dtype])
    return [*calls, step_of_each(name, x, g, out, **dict(zip("stu", numbers, strict=False)))]


def _gelu(xp, x, approximate="none"):
    if approximate == "tanh":
        return _result("gelu_tanh", x, None, False, *_NUMBERS["gelu_tanh"])
    if not _covers(x, approximate):
        return NotImplemented
    found = _result("gelu", x)
    return _gelu_by_numpy(x) if found is NotImplemented else found


def _gelu_vjp(xp, g, x, approximate):
    if approximate == "tanh":
        return _result("gelu_tanh_vjp", x, g, False, *_NUMBERS["gelu_tanh_vjp"])
    if not (_covers(x, approximate) and g.dtype == float32 and g.shape == x.shape):
        return NotImplemented
    found = _result("gelu_vjp", x, g, False, *_NUMBERS["gelu_vjp"])
    return _gelu_vjp_by_numpy(np.ascontiguousarray(g), x) if found is NotImplemented else found


declare(_gelu, steps=_steps)
declare(_gelu_vjp, steps=lambda g, x, approximate, *, out: _steps(x, approximate, out=out, g=g))
gelu.twin("numpy", _gelu, x=_gelu_vjp)
