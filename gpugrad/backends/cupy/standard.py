"""Functions of the array API standard that CuPy has, but with other results for some values."""

import cupy


def floor_divide(x1, x2, /):
    """CuPy's of floating numbers is ``floor(x1 / x2)``: a quotient that is rounded up to a whole
    number is one too many, and -1 over inf gives 0."""
    if not _is_floating(x1, x2):
        return cupy.floor_divide(x1, x2)
    rest, is_below = _rest(x1, x2)
    quotient = cupy.rint((x1 - rest) / x2)
    quotient = cupy.where(is_below, quotient - 1, quotient)
    if isinstance(x2, cupy.ndarray):
        return cupy.where(x2 == 0, x1 / x2, quotient)
    return quotient if x2 else x1 / x2


def remainder(x1, x2, /):
    """CuPy's of floating numbers is ``x1 - floor(x1 / x2) * x2``, which is nan for an ``x2`` of
    inf, and has no digit right for a quotient that is large."""
    if not _is_floating(x1, x2):
        return cupy.remainder(x1, x2)
    rest, is_below = _rest(x1, x2)
    return cupy.copysign(cupy.where(is_below, rest + x2, rest), x2)


def _is_floating(x1, x2):
    return "f" in [x.dtype.kind for x in (x1, x2) if isinstance(x, cupy.ndarray)]


def _rest(x1, x2):
    """What is left of the division that rounds to 0, and where the one that rounds down has one
    more."""
    rest = cupy.fmod(x1, x2)
    return rest, (rest != 0) & ((rest < 0) != (x2 < 0))


def arange(start, /, stop=None, step=1, *, dtype=None):
    """CuPy refuses to count down in an unsigned dtype."""
    if step < 0 and cupy.dtype(dtype).kind == "u":
        return cupy.arange(start, stop, step, dtype=cupy.int64).astype(dtype)
    return cupy.arange(start, stop, step, dtype=dtype)


def linspace(start, stop, /, num, *, dtype=None, endpoint=True):
    """CuPy has none of complex numbers."""
    if not any(isinstance(end, complex) for end in (start, stop)):
        return cupy.linspace(start, stop, num, dtype=dtype, endpoint=endpoint)
    out = cupy.empty(num, dtype)
    for part in ("real", "imag"):
        values = cupy.linspace(getattr(start, part), getattr(stop, part), num, endpoint=endpoint)
        setattr(out, part, values)
    return out
