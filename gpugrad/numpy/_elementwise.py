"""NumPy's ufuncs, and other functions of single elements."""

import math

from .._arguments import is_complex, is_floating
from ..autograd.operation import exports
from ._table import FUNCTIONS, enter, enter_functions, of_numpy
from ._tensors import either, floating, gg, is_true, operands, tensor, tensors

# The ops that take what NumPy's functions do, by NumPy's name; after `=` ours, if it is another.
_NAMES = """
    absolute=abs add arccos=acos arccosh=acosh arcsin=asin arcsinh=asinh arctan2=atan2 arctan=atan
    arctanh=atanh astype bitwise_and bitwise_or bitwise_xor ceil conjugate=conj copysign cos cosh
    cumulative_prod cumulative_sum divide equal exp expm1 fix=trunc floor floor_divide greater
    greater_equal hypot invert=bitwise_invert isfinite isinf isnan left_shift=bitwise_left_shift
    less less_equal linalg.diagonal linalg.matrix_transpose=matrix_transpose linalg.trace log log10
    log1p log2 logaddexp matmul matrix_transpose maximum minimum multiply negative nextafter
    not_equal positive power=pow reciprocal remainder right_shift=bitwise_right_shift rint=round
    sign signbit sin sinh sqrt square subtract tan tanh trunc unique_all unique_counts
    unique_inverse unique_values unstack vecdot
""".split()
_OPS = exports() | {f"linalg.{name}": op for name, op in exports("linalg").items()}
for _name in _NAMES:
    _theirs, _, _own = _name.partition("=")
    FUNCTIONS[_theirs] = _OPS[_own or _theirs]


enter({
    "cbrt": lambda x, /: gg.special.cbrt(floating(x)),
    "deg2rad radians": lambda x, /: floating(x) * (math.pi / 180),
    "fabs": lambda x, /: gg.abs(floating(x)),
    "fmax": lambda x1, x2, /: _unless_nan(gg.maximum, x1, x2),
    "fmin": lambda x1, x2, /: _unless_nan(gg.minimum, x1, x2),
    "i0": lambda x: gg.special.i0(floating(x)),
    "imag": lambda val: gg.imag(val) if is_complex(val) else gg.zeros_like(val),
    "logical_and": lambda x1, x2, /: gg.logical_and(*map(is_true, tensors(x1, x2))),
    "logical_not": lambda x, /: gg.logical_not(is_true(tensor(x))),
    "logical_or": lambda x1, x2, /: gg.logical_or(*map(is_true, tensors(x1, x2))),
    "logical_xor": lambda x1, x2, /: gg.logical_xor(*map(is_true, tensors(x1, x2))),
    "rad2deg degrees": lambda x, /: floating(x) * (180 / math.pi),
    "real": lambda val: gg.real(val),
    "sinc": lambda x: gg.special.sinc(floating(x)),
})  # fmt: skip


def divmod(x1, x2, /):
    x1, x2 = operands(x1, x2)
    return gg.floor_divide(x1, x2), gg.remainder(x1, x2)


def modf(x, /):
    x = floating(x)
    return gg.where(gg.isinf(x), gg.copysign(0.0, x), fmod(x, 1.0)), gg.trunc(x)


def exp2(x, /):
    x = floating(x)
    return gg.pow(2.0, x) if is_complex(x) else gg.special.exp2(x)


def float_power(x1, x2, /):
    x1, x2 = tensors(x1, x2)
    dtype = gg.complex128 if is_complex(x1) or is_complex(x2) else gg.float64
    return gg.pow(gg.astype(x1, dtype), gg.astype(x2, dtype))


def _unless_nan(function, x1, x2):
    """``function(x1, x2)``; where one of the two is nan, the other one."""
    x1, x2 = operands(x1, x2)
    return gg.where(gg.isnan(x2), x1, gg.where(gg.isnan(x1), x2, function(x1, x2)))


def fmod(x1, x2, /):
    x1, x2 = operands(x1, x2)
    # Not 0 at 0, where the derivative is 1; the sign of -0.0 counts.
    sign = 1 - 2 * gg.astype(gg.signbit(floating(x1)), x1.dtype)
    return gg.remainder(x1 * sign, gg.abs(x2)) * sign


def heaviside(x1, x2, /):
    x1, x2 = map(floating, operands(x1, x2))
    return gg.where(gg.isnan(x1), x1, gg.where(x1 == 0, x2, gg.astype(x1 > 0, x1.dtype)))


def logaddexp2(x1, x2, /):
    x1, x2 = operands(x1, x2)
    return gg.logaddexp(x1 * math.log(2), x2 * math.log(2)) / math.log(2)


def ldexp(x1, x2, /):
    x1, x2 = tensors(x1, x2)
    x1 = floating(x1)
    return x1 * gg.pow(2.0, gg.astype(x2, x1.dtype))


def matvec(x1, x2, /):
    x1, x2 = tensors(x1, x2)
    return gg.squeeze(gg.matmul(x1, gg.expand_dims(x2, -1)), -1)


def vecmat(x1, x2, /):
    x1, x2 = tensors(x1, x2)
    x1 = gg.conj(x1) if is_complex(x1) else x1
    return gg.squeeze(gg.matmul(gg.expand_dims(x1, -2), x2), -2)


# Functions that are not ufuncs


@of_numpy("round", "around")
def _round(a, decimals=0):
    if not decimals:
        return gg.round(a)
    if not is_floating(a):
        return gg.astype(_round(gg.astype(a, gg.float64), decimals), a.dtype)
    scale = 10.0 ** abs(decimals)
    return gg.round(a * scale) / scale if decimals > 0 else gg.round(a / scale) * scale


def clip(a, a_min=None, a_max=None, *, min=None, max=None):
    return gg.clip(tensor(a), either(a_min, min), either(a_max, max))


def nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    if not copy:
        raise TypeError("numpy.nan_to_num: with Tensors it does not write in place; leave copy out")
    parts = (gg.real(x), gg.imag(x)) if is_complex(x) else (x,)
    found = [gg.nan_to_num(part, nan=nan, posinf=posinf, neginf=neginf) for part in parts]
    return found[0] + 1j * found[1] if is_complex(x) else found[0]


def angle(z, deg=False):
    z = floating(z)
    turned = gg.atan2(gg.imag(z), gg.real(z)) if is_complex(z) else gg.atan2(gg.zeros_like(z), z)
    return turned * (180 / math.pi) if deg else turned


def real_if_close(a, tol=100):
    if not is_complex(a):
        return a
    tol = tol * gg.finfo(a.dtype).eps if tol > 1 else tol
    return gg.real(a) if bool(gg.all(gg.abs(gg.imag(a)) < tol)) else a


def unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    p = floating(p)
    steps = gg.diff(p, axis=axis)
    half = period / 2
    folded = gg.remainder(steps + half, period) - half
    folded = gg.where((folded == -half) & (steps > 0), half, folded)
    jumps = gg.where(
        gg.abs(steps) < (half if discont is None else max(discont, half)), 0.0, folded - steps
    )
    return p + gg.cumulative_sum(jumps.detach(), axis=axis, include_initial=True)


enter_functions(globals())
