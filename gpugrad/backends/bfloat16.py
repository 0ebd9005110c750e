"""bfloat16: float32's range in half the memory, with 8 bits of precision.

The dtype is that of the package ``ml_dtypes``, which teaches it to NumPy and CuPy, but not all
that a dtype needs: beside a Python float it becomes float32, sums on the CPU stop at 256, and
``where``, ``isdtype`` and products of batches do not know it. From when it is first asked for, ops

- on NumPy compute in float32 and round their results once, as PyTorch does;
- on CuPy compute as CuPy's functions do, elementwise in float32, and in bfloat16 only what one
  function gives to the next; sorting, linear algebra, Fourier transforms and special functions
  as on NumPy.

A result of bfloat16 alone, and of integers and numbers beside it, is bfloat16; beside other
floating arrays theirs, float32 beside float16. Programs that never ask for it pay nothing.
"""

from functools import wraps
from types import SimpleNamespace

import numpy as np

from .dtypes import bfloat16, has_bfloat16, is_bfloat16

_SINGLE = np.dtype("float32")
# Topics of ops that CuPy has not in bfloat16, and single ops, or not exactly enough.
_TOPICS = {"linalg", "fft", "special", "searching"}
_OPS = set("cumulative_prod cumulative_sum floor_divide prod remainder std var".split())

_NARROW = SimpleNamespace(char="E")  # of several cotangents, which are looked at one by one


def isdtype(own):
    """A namespace's ``isdtype`` that knows bfloat16, as real floating."""

    @wraps(own)
    def isdtype(dtype, kind):
        if isinstance(kind, tuple):
            return any(isdtype(dtype, k) for k in kind)
        if is_bfloat16(dtype):
            return kind in ("real floating", "numeric") or (
                not isinstance(kind, str) and is_bfloat16(kind)
            )
        return not is_bfloat16(kind) and own(dtype, kind)

    return isdtype


def finfo(own):
    """A namespace's ``finfo`` that knows bfloat16."""

    @wraps(own)
    def finfo(type, /):
        dtype = getattr(type, "dtype", type)
        if not is_bfloat16(dtype):
            return own(type)
        from ml_dtypes import finfo

        return finfo(dtype)

    return finfo


def result_type(own):
    """A namespace's ``result_type`` that knows bfloat16."""

    @wraps(own)
    def result_type(*arrays_and_dtypes):
        dtypes = [getattr(x, "dtype", x) for x in arrays_and_dtypes]
        if not any(map(_is_narrow, dtypes)):
            return own(*arrays_and_dtypes)
        others = [d for d in dtypes if getattr(d, "kind", "") in ("f", "c")]
        if others:
            return own(_SINGLE, *others)
        return own(_SINGLE, 1j) if complex in map(type, dtypes) else bfloat16()

    return result_type


def _is_narrow(dtype):
    return getattr(dtype, "char", None) == "E"


def rounding(backend):
    """The `Rounding` of an array library's ops; None if there is none, or not yet."""
    return Rounding(backend) if has_bfloat16() and backend.in_single is not None else None


class Rounding:
    """What is put around an op's forward and rules on the arrays of one library."""

    def __init__(self, backend):
        self.backend = backend

    def _widens(self, op):
        topics = _TOPICS.intersection(op.forward.__module__.split("."))
        return self.backend.in_single or topics or op.name in _OPS

    def forward(self, op, run):
        """``run(xp, *inputs, **static)`` whose result is rounded."""
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
                    static["dtype"] = _SINGLE
            if widens:
                inputs = map(_widened, inputs)
            out = run(xp, *inputs, **static)
            return self._narrowed(out) if narrows else out

        return rounded

    def rule(self, op, run):
        """``run(xp, g, saved)`` of what is not rounded; the sweep rounds its result."""
        if not self._widens(op):
            return run

        def rule(xp, g, saved):
            # Cotangents of another dtype come of other floating inputs: NumPy casts to theirs.
            if getattr(g, "dtype", _NARROW).char != "E":
                return run(xp, g, saved)
            return run(xp, _widened(g), _widened(saved))

        return rule

    def _narrowed(self, out):
        if isinstance(out, tuple):
            parts = map(self._narrowed, out)
            return type(out)._make(parts) if hasattr(out, "_make") else tuple(parts)
        if out.dtype.kind != "f":
            return out
        # NumPy's 0-d results are scalars.
        return self.backend.asarray(out).astype(bfloat16())


def _widened(x):
    if type(x) is tuple or type(x) is list:
        return type(x)(map(_widened, x))
    return x.astype(_SINGLE) if _is_narrow(getattr(x, "dtype", None)) else x
