"""The twins of activations: kernels with the bits of the definitions.

That of `gelu` for float32 has bits of its own: SciPy's erfc, which is not vectorised, takes 4 times
as long. Where the library of kernels is not there yet, NumPy computes the same on pieces.
"""

import math

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import each, is_expected
from ...backends.numpy.threads import run
from ...ops.activations import _GELU_CUBIC as CUBIC
from ...ops.activations import _GELU_LINEAR as LINEAR
from ...ops.activations import elu, gelu, hardswish, leaky_relu, mish, silu, softplus
from ...ops.neural import largest_exponent, relu, sigmoid
from ...ops.special.logistic import expit
from ...ops.transcendental import tanh

_FEW = 2048  # elements: for fewer, the definitions take no longer
_PIECE = 1 << 14  # elements that are computed at a time
_PART = 1 << 17  # elements that a thread computes

# The standard normal distribution function of -x is t * P(t) * exp(-x**2 / 2) for x >= 0, with
# t = 1 / (1 + 0.35 * x). The relative error of P, from the highest power down, is below 4e-8.
_SLOPE = 0.35
_COEFFICIENTS = (
    -0.029157875876596847,
    0.1440308794801599,
    -0.25583893662558677,
    0.15931963483676412,
    -0.023212321875316064,
    0.10555249259496122,
    0.11982128932630617,
    0.13986351531099614,
    0.139621306844063,
)
_LIMIT = 14.5  # where the distribution function of -x is 0 in float32


def _result(name, x, g=None, guarded=False, **numbers):
    """What a kernel computes of x, or of the cotangent g and what the rule keeps as x."""
    if not is_expected() or x.size < _FEW or x.dtype not in (float32, float64):
        return NotImplemented
    if type(g) is np.ndarray:
        g = np.ascontiguousarray(g)  # such as the cotangent of a sum's operand
    if not _is_like(x, x) or not (g is None or _is_like(g, x)):
        return NotImplemented
    out = each(name, x, g, guarded=guarded, **numbers)
    return NotImplemented if out is None else out


def _is_like(y, x):
    is_array = type(y) is np.ndarray and y.flags.c_contiguous
    return is_array and y.shape == x.shape and y.dtype == x.dtype


def _largest(x):
    return largest_exponent(np, x.dtype) if x.dtype in (float32, float64) else 0.0


def _eager(call, forward, rule):
    """Define twins that a recorded call of the op does not have, as a program divides its parts."""
    given = {"forward": forward, next(iter(call.op.rules)): rule}
    for twin in given.values():
        if twin is not None:
            twin.is_eager = True
    call.twin("numpy", **given)


_eager(
    sigmoid,
    lambda xp, x: _result("sigmoid", x, s=_largest(x)),
    lambda xp, g, out, *, guarded=False: _result("sigmoid_vjp", out, g, guarded),
)
_eager(
    expit,
    lambda xp, x: _result("sigmoid", x, s=_largest(x)),
    lambda xp, g, out, *, guarded=False: _result("expit_vjp", out, g, guarded),
)
_eager(tanh, None, lambda xp, g, out, *, guarded=False: _result("tanh_vjp", out, g, guarded))
_eager(relu, None, lambda xp, g, out, *, guarded=False: _result("relu_vjp", out, g, guarded))
_eager(
    silu,
    lambda xp, x: _result("silu", x, s=_largest(x)),
    lambda xp, g, x, *, guarded=False: _result("silu_vjp", x, g, guarded, s=_largest(x)),
)
_eager(
    leaky_relu,
    # Of -0 and 0, which other slopes give, processors choose the one or the other.
    lambda xp, x, negative_slope: (
        _result("leaky_relu", x, s=negative_slope) if negative_slope >= 0 else NotImplemented
    ),
    lambda xp, g, x, negative_slope, *, guarded=False: _result(
        "leaky_relu_vjp", x, g, guarded, s=negative_slope
    ),
)
_eager(
    elu,
    lambda xp, x, alpha, scale, input_scale: _result("elu", x, s=alpha, t=scale, u=input_scale),
    lambda xp, g, x, alpha, scale, input_scale, *, guarded=False: _result(
        "elu_vjp", x, g, guarded, s=alpha, t=scale, u=input_scale
    ),
)
_eager(
    softplus,
    lambda xp, x, beta, threshold: _result("softplus", x, s=beta, t=threshold),
    lambda xp, g, x, beta, threshold, *, guarded=False: _result(
        "softplus_vjp", x, g, guarded, s=beta, t=threshold, u=_largest(x)
    ),
)
_eager(
    mish,
    lambda xp, x: _result("mish", x),
    lambda xp, g, x, *, guarded=False: _result("mish_vjp", x, g, guarded, s=_largest(x)),
)
_eager(
    hardswish,
    lambda xp, x: _result("hardswish", x),
    lambda xp, g, x, *, guarded=False: _result("hardswish_vjp", x, g, guarded),
)


# Gaussian error linear units


def _covers(x, approximate):
    return (
        approximate == "none"
        and x.dtype == float32
        and x.size >= 1024
        and type(x) is np.ndarray
        and x.flags.c_contiguous
    )


def _pieces(start, *arrays):
    """The pieces of the part of the arrays that begins at ``start``."""
    flat = [x.reshape(-1)[start : start + _PART] for x in arrays]
    for i in range(0, flat[0].size, _PIECE):
        yield [x[i : i + _PIECE] for x in flat]


def _tail(size, t, power, tail):
    """Compute exp(-size**2 / 2) in ``power``, and the distribution function of -size in ``tail``.

    ``t`` is overwritten.
    """
    np.multiply(size, _SLOPE, t)
    t += 1
    np.reciprocal(t, t)
    first, *rest = _COEFFICIENTS
    np.multiply(t, first, tail)
    for coefficient in rest:
        tail += coefficient
        tail *= t
    np.multiply(size, size, power)
    power *= -0.5
    np.exp(power, power)
    tail *= power


def _gelu(xp, x, approximate="none"):
    if approximate == "tanh":
        return _result("gelu_tanh", x, s=LINEAR, t=CUBIC, u=_largest(x))
    if not _covers(x, approximate):
        return NotImplemented
    found = _result("gelu", x)
    if found is not NotImplemented:
        return found
    out = np.empty(x.shape, float32)

    def compute(start):
        work = np.empty((4, min(x.size, _PIECE)), float32)
        for part, y in _pieces(start, x, out):
            size, t, power, tail = work[:, : part.size]
            part.clip(-_LIMIT, _LIMIT, size)
            np.abs(size, size)
            _tail(size, t, power, tail)
            tail *= size
            part.clip(0, math.inf, y)
            y -= tail

    run(compute, range(0, x.size, _PART))
    return out


def _gelu_vjp(xp, g, x, approximate):
    if approximate == "tanh":
        return _result("gelu_tanh_vjp", x, g, s=LINEAR, t=CUBIC, u=_largest(x))
    if not (_covers(x, approximate) and g.dtype == float32 and g.shape == x.shape):
        return NotImplemented
    found = _result("gelu_vjp", x, g, s=1 / math.sqrt(2 * math.pi))
    if found is not NotImplemented:
        return found
    out = np.empty(x.shape, float32)
    g = np.ascontiguousarray(g)

    def compute(start):
        work = np.empty((5, min(x.size, _PIECE)), float32)
        for g_part, part, y in _pieces(start, g, x, out):
            bounded, size, t, power, tail = work[:, : part.size]
            part.clip(-_LIMIT, _LIMIT, bounded)
            np.abs(bounded, size)
            _tail(size, t, power, tail)
            np.subtract(1, tail, y)
            # The tail where x is negative, chosen by a mask of its sign bit.
            negative, bits, out_bits = (a.view(np.int32) for a in (size, tail, y))
            np.right_shift(bounded.view(np.int32), 31, negative)
            bits ^= out_bits
            bits &= negative
            out_bits ^= bits
            power *= bounded
            power *= 1 / math.sqrt(2 * math.pi)
            y += power
            y *= g_part

    run(compute, range(0, x.size, _PART))
    return out


gelu.twin("numpy", _gelu, x=_gelu_vjp)
