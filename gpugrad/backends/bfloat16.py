"""bfloat16: float32's range in half the memory, with 8 bits of precision.

The package ``ml_dtypes`` adds the dtype to NumPy and CuPy, but incompletely: together with a
Python float it promotes to float32, sums on the CPU stop at 256, and ``where``, ``isdtype`` and
batched products do not support it. Once a program has used it, ops

- on NumPy compute in float32 and round their results once, as PyTorch does;
- on CuPy compute as CuPy's functions do, elementwise in float32, passing bfloat16 from one
  function to the next; sorting, linear algebra, Fourier transforms and special functions compute
  as on NumPy.

bfloat16 with itself, integers or Python numbers gives bfloat16; with float16 it gives float32, and
with any other floating dtype that dtype. Programs that never use it pay nothing.
"""

from functools import wraps

from .dtypes import bfloat16, float32, has_bfloat16, is_bfloat16

# Modules of ops, and single ops, that CuPy lacks in bfloat16 or computes inaccurately.
_MODULES = {"linalg", "fft", "special", "searching"}
_OPS = set("cumulative_prod cumulative_sum floor_divide prod remainder std tanhshrink var".split())


def isdtype(own):
    """Extend a namespace's ``isdtype`` to bfloat16, which is real floating."""

    @wraps(own)
    def isdtype(dtype, kind):
        if isinstance(kind, tuple):
            return any(isdtype(dtype, k) for k in kind)
        if is_bfloat16(dtype):
            return kind in ("real floating", "numeric") or is_bfloat16(kind)
        return not is_bfloat16(kind) and own(dtype, kind)

    return isdtype


def finfo(own):
    """Extend a namespace's ``finfo`` to bfloat16."""

    @wraps(own)
    def finfo(type, /):
        dtype = getattr(type, "dtype", type)
        if not is_bfloat16(dtype):
            return own(type)
        from ml_dtypes import finfo

        return finfo(dtype)

    return finfo


def result_type(own):
    """Extend a namespace's ``result_type`` to bfloat16."""

    @wraps(own)
    def result_type(*arrays_and_dtypes):
        dtypes = [getattr(x, "dtype", x) for x in arrays_and_dtypes]
        if not any(getattr(d, "char", None) == "E" for d in dtypes):
            return own(*arrays_and_dtypes)
        if others := [d for d in dtypes if getattr(d, "kind", "") in ("f", "c")]:
            return own(float32, *others)
        return own(float32, 1j) if complex in map(type, dtypes) else bfloat16()

    return result_type


def in_float32(function):
    """Make a function compute 16-bit floats in float32, where libraries round after each step."""

    @wraps(function)
    def call(x, /, **options):
        if x.dtype.char not in "eE" or options.get("dtype") not in (None, x.dtype):
            return function(x, **options)
        options.pop("dtype", None)
        return function(x.astype(float32), **options).astype(x.dtype)

    return call


def rounding(backend):
    """The `Rounding` of an array library's ops; None if the library or program needs none."""
    return Rounding(backend) if has_bfloat16() and backend.in_single is not None else None


class Rounding:
    """Wraps an op's forward and rules to compute in float32 and round to bfloat16."""

    def __init__(self, backend):
        self.backend = backend

    def _widens(self, op):
        modules = _MODULES.intersection((op.forward.__module__ or "").split("."))
        return self.backend.in_single or modules or op.name in _OPS

    def forward(self, op, run):
        """Wrap ``run(xp, *inputs, **static)`` to round its result."""
        widens = self._widens(op)
        (kind,) = self.backend.array_types

        @wraps(run)
        def rounded(xp, *inputs, **static):
            for x in inputs:
                if type(x) is kind and x.dtype.char == "E":
                    break
            else:
                return run(xp, *inputs, **static)
            dtype = static.get("dtype")
            narrows = not any(type(x) is kind and x.dtype.kind in "fc" for x in inputs)
            if dtype is not None:
                narrows = is_bfloat16(dtype)
                if narrows:
                    static["dtype"] = float32
            if widens:
                inputs = map(_widen, inputs)
            out = run(xp, *inputs, **static)
            return self._narrow(out) if narrows else out

        return rounded

    def rule(self, op, run):
        """Wrap ``run(xp, g, saved)`` to compute in float32; the sweep rounds its result."""
        if not self._widens(op):
            return run

        def rule(xp, g, saved):
            # A cotangent has another dtype if other inputs are floating: NumPy promotes to theirs.
            # Several cotangents have none.
            if hasattr(g, "dtype") and g.dtype.char != "E":
                return run(xp, g, saved)
            return run(xp, _widen(g), _widen(saved))

        return rule

    def _narrow(self, out):
        if isinstance(out, tuple):
            parts = map(self._narrow, out)
            return type(out)._make(parts) if hasattr(out, "_make") else tuple(parts)
        if out.dtype.kind != "f":
            return out
        if type(out) in self.backend.scalar_types:  # NumPy's 0-d results
            out = self.backend.asarray(out)
        return out.astype(bfloat16())


def _widen(x):
    if type(x) is tuple or type(x) is list:
        return type(x)(map(_widen, x))
    return x.astype(float32) if getattr(getattr(x, "dtype", None), "char", None) == "E" else x
