"""Elementwise ops: arithmetic, rounding, complex numbers, choices, comparisons, logic and bits.

Operands broadcast against each other. Python scalars are weakly typed: they take the dtype of
the array they meet. Integer arrays take the dtype of a floating one they meet. All ops accept
real and complex numbers, except those that order or round them.
"""

import math

from .._batched import aligned, equally
from ..autograd.operation import elementwise
from .by_name import library_function, standard_function


def zero_vjp(xp, g):
    """VJP for an input in which the result is piecewise constant."""
    return xp.zeros_like(g)


# Arithmetic


@standard_function(x1=lambda xp, g: g, x2=lambda xp, g: g)
def add(x1, x2):
    """Elementwise sum ``x1 + x2``."""


@standard_function(x1=lambda xp, g: g, x2=lambda xp, g: -g)
def subtract(x1, x2):
    """Elementwise difference ``x1 - x2``."""


@standard_function(x1=lambda xp, g, x2: g * x2, x2=lambda xp, g, x1: g * x1)
def multiply(x1, x2):
    """Elementwise product ``x1 * x2``."""


@standard_function(x1=lambda xp, g, x2: g / x2, x2=lambda xp, g, x2, out: -g * out / x2)
def divide(x1, x2):
    """Elementwise quotient ``x1 / x2``; dividing by zero gives inf or nan."""


@standard_function(x1=zero_vjp, x2=zero_vjp)
def floor_divide(x1, x2):
    """Elementwise quotient rounded down, ``x1 // x2``. Its gradients are 0 everywhere."""


@standard_function(x1=lambda xp, g: g, x2=lambda xp, g, x1, x2: -g * xp.floor_divide(x1, x2))
def remainder(x1, x2):
    """Elementwise ``x1 % x2``: the remainder of `floor_divide`, with the sign of ``x2``."""


@elementwise
def pow(xp, x1, x2):
    """Elementwise power ``x1 ** x2``.

    As in PyTorch, the gradient to the base is 0 where the exponent is 0. The gradient to the
    exponent is 0 where the base is 0 and the exponent's real part is at least 0; for real
    numbers it is nan where the base is negative.
    """
    if type(x2) is int and x2 == 2:  # the most common power, and the function is the fastest
        return xp.square(x1)
    return xp.pow(x1, x2)


def _pow_base(xp, g, x1, x2):
    if isinstance(x2, (int, float, complex)):  # a branch on a constant, not on array values
        if x2 == 0:
            return xp.zeros_like(g)
        return g * (x2 * x1) if x2 == 2 else g * (x2 * xp.pow(x1, x2 - 1))
    # 0 ** -1 is infinite, and its product with an exponent of 0 would be nan.
    return g * x2 * xp.where((x1 == 0) & (x2 == 0), 1.0, x1) ** (x2 - 1)


def _pow_exponent(xp, g, x1, x2, out):
    is_complex = xp.isdtype(out.dtype, "complex floating")
    flat_at_0 = (xp.real(x2) if xp.isdtype(x2.dtype, "complex floating") else x2) >= 0
    if not isinstance(x1, (int, float, complex)):
        flat = (x1 == 0) & flat_at_0
        base = xp.astype(x1, out.dtype) if is_complex else x1
        return g * xp.where(flat, 0.0, out * xp.log(xp.where(flat, 1.0, base)))
    if x1 == 0:
        return g * xp.where(flat_at_0, 0.0, xp.full_like(out, -math.inf))
    if is_complex:
        import cmath

        return g * out * cmath.log(x1)
    return g * out * (math.log(x1) if x1 > 0 else math.nan)


pow.vjp(x1=_pow_base, x2=_pow_exponent)


@standard_function(x=lambda xp, g, x: g * (2 * x))
def square(x):
    """Elementwise square ``x * x``."""


@standard_function(x=lambda xp, g, out: g / (2 * out))
def sqrt(x):
    """Elementwise square root; its gradient at 0 is infinite."""


@elementwise
def reciprocal(xp, x):
    """Elementwise ``1 / x``; infinite at 0, as is its gradient."""
    return 1 / x  # the library's function would return integers for integers


reciprocal.vjp(x=lambda xp, g, out: -g * (out * out))


@standard_function(
    x1=lambda xp, g, x1, out: g * xp.where(out != 0, x1 / out, 0.0),
    x2=lambda xp, g, x2, out: g * xp.where(out != 0, x2 / out, 0.0),
)
def hypot(x1, x2):
    """Elementwise ``sqrt(x1**2 + x2**2)`` for real numbers, without overflow.

    Where both inputs are 0 the gradient is 0, like that of `abs`.
    """


@standard_function(x=lambda xp, g: -g)
def negative(x):
    """Elementwise ``-x``."""


@standard_function(x=lambda xp, g: g)
def positive(x):
    """Elementwise ``+x``: a copy."""


@standard_function(x=lambda xp, g, x: g * xp.conj(xp.sign(x)))
def abs(x):
    """Elementwise absolute value, which is real for complex numbers too; the gradient at 0 is 0."""


def _sign_vjp(xp, g, x, out):
    if not xp.isdtype(out.dtype, "complex floating"):
        return xp.zeros_like(g)
    # Only a change perpendicular to x changes its sign.
    size = xp.abs(x)
    perpendicular = g - xp.conj(out) * xp.real(g * out)
    return xp.where(size != 0, perpendicular / size, 0.0)


@standard_function(x=_sign_vjp)
def sign(x):
    """Elementwise sign: -1, 0 or 1 for real numbers, and ``x / abs(x)`` for complex numbers.

    The gradient is 0 for real numbers and at a complex 0.
    """


sign.jvp(x=lambda xp, t, x, out: _sign_vjp(xp, t, x, xp.conj(out)))


@standard_function(x1=lambda xp, g, x1, out: g * (xp.sign(x1) * xp.sign(out)), x2=zero_vjp)
def copysign(x1, x2):
    """Elementwise ``abs(x1)`` with the sign of ``x2``, which may be -0.0; for real numbers.

    The gradient to ``x1`` is 0 where ``x1`` is 0; the gradient to ``x2`` is 0 everywhere.
    """


@standard_function(x1=lambda xp, g: g, x2=zero_vjp)
def nextafter(x1, x2):
    """Elementwise next representable number after ``x1`` towards ``x2``; for real numbers.

    The gradient is that of ``x1``, from which the result differs only by a rounding error.
    """


# Rounding: integers are returned unchanged; the gradient is 0 everywhere


@standard_function(x=zero_vjp)
def ceil(x):
    """Elementwise smallest integer that is at least ``x``, in the dtype of ``x``."""


@standard_function(x=zero_vjp)
def floor(x):
    """Elementwise largest integer that is at most ``x``, in the dtype of ``x``."""


@standard_function(x=zero_vjp)
def trunc(x):
    """Elementwise ``x`` rounded towards 0, in the dtype of ``x``."""


@standard_function(x=zero_vjp)
def round(x):
    """Elementwise nearest integer, in the dtype of ``x``; a tie goes to the even one.

    For complex numbers, the real and the imaginary part are each rounded.
    """


# Complex numbers


@standard_function(x=lambda xp, g: xp.conj(g))
def conj(x):
    """Elementwise complex conjugate; a real array is returned unchanged."""


@standard_function(x=lambda xp, g: g)  # the sweep casts g to the dtype of x
def real(x):
    """Elementwise real part; a real array is returned unchanged."""


@standard_function(x=lambda xp, g, x_dtype: xp.astype(g, x_dtype) * -1j)
def imag(x):
    """Elementwise imaginary part; zeros for a real array, if the array library supports it."""


@library_function(discards=True)
def zero_discarded_nans(c, g):
    """``c``, but 0 where ``c`` is nan and ``g`` is 0.

    Guarded rules apply this to a cotangent ``c`` computed from a cotangent ``g``, so that
    0 times an infinite derivative gives 0.
    """


def _zero_discarded_nans_vmap(call, batched, c, g):
    # The result may be c itself, so c must have the axis of the examples.
    return call(*aligned((True, True), equally(batched, (c, g))))


zero_discarded_nans.vjp(
    c=lambda xp, cotangent, c, g: xp.where(xp.isnan(c) & (g == 0), 0.0, cotangent),
    g=lambda xp, cotangent: None,
).vmap(_zero_discarded_nans_vmap)


# Choices


def _share(xp, g, tie, lost):
    return xp.where(tie, g / 2, xp.where(lost, 0.0, g))


@standard_function(
    discards=True,
    x1=lambda xp, g, x1, x2: _share(xp, g, x1 == x2, x1 < x2),
    x2=lambda xp, g, x1, x2: _share(xp, g, x1 == x2, x2 < x1),
)
def maximum(x1, x2):
    """Elementwise maximum; a tie shares its gradient evenly."""


@standard_function(
    discards=True,
    x1=lambda xp, g, x1, x2: _share(xp, g, x1 == x2, x1 > x2),
    x2=lambda xp, g, x1, x2: _share(xp, g, x1 == x2, x2 > x1),
)
def minimum(x1, x2):
    """Elementwise minimum; a tie shares its gradient evenly."""


@elementwise(discards=True)
def clip(xp, x, min=None, max=None):
    """Elementwise ``x`` limited to ``[min, max]``; either bound may be None.

    Where the lower bound is above the upper one, the result is the upper one. At a bound the
    gradient goes to ``x``. Outside, it goes to the bound if that is a Tensor that requires
    grad; below two equal bounds, neither gets a gradient. All this is as in PyTorch.
    """
    return xp.clip(x, min, max)


def _clip_x(xp, g, x, min, max):
    inside = True if min is None else x >= min
    if max is not None:
        inside = (x <= max) & inside
    return g if inside is True else xp.where(inside, g, 0.0)


def _clip_min(xp, g, x, min, max):
    return xp.where(x < min if max is None else (x < min) & (min < max), g, 0.0)


def _clip_max(xp, g, x, min, max):
    return xp.where(x > max if min is None else (x > max) | (min > max), g, 0.0)


clip.vjp(x=_clip_x, min=_clip_min, max=_clip_max)


@elementwise(integer=("condition",), discards=True)
def where(xp, condition, x1, x2):
    """Elementwise ``x1`` where ``condition`` holds, else ``x2``.

    Raises TypeError unless ``condition`` is bool, and ValueError for an int beside integers whose
    dtype cannot hold it. If both are Python scalars, the result has the default dtype for their
    kind.
    """
    if condition.dtype != xp.bool:
        raise TypeError("condition must be bool; use a comparison, as in x != 0")
    if isinstance(x1, (int, float, complex)) and isinstance(x2, (int, float, complex)):
        widest = next(k for k in (complex, float, int, bool) if k in (type(x1), type(x2)))
        dtype = {complex: xp.complex64, float: xp.float32, int: xp.int64, bool: xp.bool}[widest]
        x1 = xp.full_like(condition, x1, dtype=dtype)
    if int in (type(x1), type(x2)):  # NumPy's `where` would wrap it around; other functions raise
        x, other = (x1, x2) if type(x1) is int else (x2, x1)
        if not 0 <= x < 128 and xp.isdtype(other.dtype, "integral"):  # these fit every dtype
            limits = xp.iinfo(other.dtype)
            if not limits.min <= x <= limits.max:
                raise ValueError(f"Python integer {x} out of bounds for {other.dtype}")
    return xp.where(condition, x1, x2)


where.vjp(
    x1=lambda xp, g, condition: xp.where(condition, g, 0.0),
    x2=lambda xp, g, condition: xp.where(condition, 0.0, g),
)


# Comparisons: the results are bools, which carry no gradient


@standard_function(differentiable=False)
def equal(x1, x2):
    """Elementwise ``x1 == x2``."""


@standard_function(differentiable=False)
def not_equal(x1, x2):
    """Elementwise ``x1 != x2``."""


@standard_function(differentiable=False)
def less(x1, x2):
    """Elementwise ``x1 < x2``."""


@standard_function(differentiable=False)
def less_equal(x1, x2):
    """Elementwise ``x1 <= x2``."""


@standard_function(differentiable=False)
def greater(x1, x2):
    """Elementwise ``x1 > x2``."""


@standard_function(differentiable=False)
def greater_equal(x1, x2):
    """Elementwise ``x1 >= x2``."""


@standard_function(differentiable=False)
def isnan(x):
    """Elementwise test for nan; for complex numbers, in either part."""


@standard_function(differentiable=False)
def isinf(x):
    """Elementwise test for infinity of either sign; for complex numbers, in either part."""


@standard_function(differentiable=False)
def isfinite(x):
    """Elementwise test for being neither infinite nor nan."""


@elementwise(differentiable=False)
def isclose(xp, x1, x2, *, rtol=1e-5, atol=1e-8, equal_nan=False):
    """Whether ``abs(x1 - x2) <= atol + rtol * abs(x2)`` elementwise.

    An infinity is close to itself only, and nan to nothing, or with ``equal_nan`` to nan.
    """
    x1, x2 = (x if hasattr(x, "dtype") else xp.zeros_like(y) + x for x, y in ((x1, x2), (x2, x1)))
    if xp.isdtype(x1.dtype, "bool") and xp.isdtype(x2.dtype, "bool"):
        return x1 == x2
    if xp.isdtype(x1.dtype, "integral") and xp.isdtype(x2.dtype, ("integral", "bool")):
        y1, y2 = (xp.astype(x, xp.int64, copy=False) for x in (x1, x2))
        apart = xp.astype(xp.where(x1 > x2, y1 - y2, y2 - y1), xp.float32)
        apart = xp.where(apart < 0, apart + 2.0**64, apart)  # the difference has wrapped around
        return apart <= atol + rtol * xp.abs(xp.astype(x2, xp.float32))
    finite = xp.isfinite(x1) & xp.isfinite(x2)
    near1, near2 = xp.where(finite, x1, 0.0), xp.where(finite, x2, 0.0)
    close = xp.where(finite, xp.abs(near1 - near2) <= atol + rtol * xp.abs(near2), x1 == x2)
    return close | (xp.isnan(x1) & xp.isnan(x2)) if equal_nan else close


@elementwise(discards=True)
def nan_to_num(xp, x, /, *, nan=0.0, posinf=None, neginf=None):
    """The elements, with numbers in place of nan, inf and -inf; these elements get no gradient.

    posinf, neginf: by default the largest and the smallest finite number of the dtype.

    Integers stay as they are. Raises TypeError for complex numbers.
    """
    if xp.isdtype(x.dtype, "complex floating"):
        raise TypeError("x must be real; replace in real(x) and imag(x)")
    if not xp.isdtype(x.dtype, "real floating"):
        return xp.asarray(x, copy=True)
    most = float(xp.finfo(x.dtype).max)
    finite = xp.clip(x, -most, most)  # or nan
    if posinf is not None:
        finite = xp.where(x == math.inf, posinf, finite)
    if neginf is not None:
        finite = xp.where(x == -math.inf, neginf, finite)
    return xp.where(xp.isnan(x), nan, finite)


nan_to_num.vjp(x=lambda xp, g, x: xp.where(xp.isfinite(x), g, 0.0))


@standard_function(differentiable=False)
def signbit(x):
    """Elementwise test for the sign bit, which is also set in -0.0; for real numbers."""


# Logic and bits


def _bools(xp, *operands):
    """Return the operands; raise TypeError unless all are bools."""
    # The array API standard leaves open which other numbers count as true.
    if not all(x.dtype == xp.bool if hasattr(x, "dtype") else x is bool(x) for x in operands):
        raise TypeError("the operands must be bools; use a comparison, as in x != 0")
    return operands


@elementwise(differentiable=False)
def logical_and(xp, x1, x2):
    """Elementwise logical AND of bools."""
    return xp.logical_and(*_bools(xp, x1, x2))


@elementwise(differentiable=False)
def logical_or(xp, x1, x2):
    """Elementwise logical OR of bools."""
    return xp.logical_or(*_bools(xp, x1, x2))


@elementwise(differentiable=False)
def logical_xor(xp, x1, x2):
    """Elementwise logical XOR of bools."""
    return xp.logical_xor(*_bools(xp, x1, x2))


@elementwise(differentiable=False)
def logical_not(xp, x):
    """Elementwise logical NOT of bools."""
    return xp.logical_not(*_bools(xp, x))


@standard_function(differentiable=False)
def bitwise_and(x1, x2):
    """Elementwise ``x1 & x2`` of integers or bools."""


@standard_function(differentiable=False)
def bitwise_or(x1, x2):
    """Elementwise ``x1 | x2`` of integers or bools."""


@standard_function(differentiable=False)
def bitwise_xor(x1, x2):
    """Elementwise ``x1 ^ x2`` of integers or bools."""


@standard_function(differentiable=False)
def bitwise_invert(x):
    """Elementwise ``~x`` of integers or bools."""


@standard_function(differentiable=False)
def bitwise_left_shift(x1, x2):
    """Elementwise ``x1 << x2`` of integers; ``x2`` must be at least 0."""


@standard_function(differentiable=False)
def bitwise_right_shift(x1, x2):
    """Elementwise ``x1 >> x2`` of integers, which keeps the sign; ``x2`` must be at least 0."""
