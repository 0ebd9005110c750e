"""Kernels have the bits of the bound calls in whose place they are.

Every operation by itself is compared here, and random programs of calls. More random programs are
made with ``GPUGRAD_PROGRAMS=5000 pytest tests/test_native_kernels.py -m fuzz``.
"""

import math
import os
from itertools import product

import kernels
import numpy as np
import pytest
from kernels import Calls, check

import gpugrad  # noqa: F401  the namespaces declare what they are
from gpugrad.backends.native.calls import TYPES, operations
from gpugrad.backends.numpy import noting

pytestmark = pytest.mark.skipif(not kernels.has_kernels, reason="there is no compiler")
UFUNCS = {
    f.__name__: f for f in (*vars(np).values(), noting.clip)
    if type(f) is np.ufunc and f.nout == 1 and f.signature is None
}  # fmt: skip
MIXED = ["bf", "ld", "fd", "df", "?f", "?l", "Bb", "iI", "lL", "Lb", "hd", "qL", "?d", "IL"]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, -0.5, -2.5, 88.0, np.inf, -np.inf, np.nan]
# Functions whose loops kernels call where elements lie side by side only.
CALLED = {
    "arctan2", "cos", "exp", "expm1", "fmod", "hypot", "log", "log1p", "power", "sin", "tanh",
}  # fmt: skip
EXACT = {
    "absolute", "add", "ceil", "clip", "copysign", "divide", "equal", "floor", "greater", "isfinite",
    "isinf", "isnan", "less", "logical_and", "logical_not", "maximum", "minimum", "multiply",
    "negative", "reciprocal", "rint", "sign", "sqrt", "square", "subtract", "trunc",
}  # fmt: skip


def values(dtype, n, rng):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(n) < 0.5
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        special = [limits.min, limits.min + 1, 0, 1, 2, limits.max - 1, limits.max]
        found = rng.integers(-9 if dtype.kind == "i" else 0, 9, n).astype(dtype)
    else:
        limits = np.finfo(dtype)
        tiny = [limits.smallest_subnormal, limits.smallest_normal / 2, limits.smallest_normal]
        special = [*SPECIAL, *tiny, *np.negative(tiny), limits.max, limits.min]
        found = (rng.normal(size=n) * 3).astype(dtype)
    special = np.array(special, dtype)
    return np.where(rng.random(n) < 0.5, special[rng.integers(0, special.size, n)], found)


def operand(dtype, shape, layout, rng):
    """An array with other elements around it."""
    if layout == "transposed":
        shape = shape[::-1]
    if not shape:
        return np.array(values(dtype, 1, rng)[0])
    if layout == "second":
        shape = (*shape[:-1], 2 * shape[-1])
    array = values(dtype, (*shape[:-1], shape[-1] + 1), rng)
    if layout in ("second", "gaps"):
        array = array[..., : shape[-1]]
    else:
        array = array.reshape(-1)[: math.prod(shape)].reshape(shape)
    if layout == "transposed":
        return array.T
    return array[..., ::-1] if layout == "reversed" else array[..., ::2] if layout == "second" else array


# Shapes and layouts of inputs, and those of the result.
PLACES = {
    "line": ([((301,), "C")] * 3, ((301,), "C")),
    "long": ([((2500,), "C")] * 3, ((2500,), "C")),
    "table": ([((7, 43), "C")] * 3, ((7, 43), "C")),
    "transposed": ([((7, 43), "transposed"), ((7, 43), "C"), ((7, 43), "C")], ((7, 43), "C")),
    "all transposed": ([((7, 43), "transposed")] * 3, ((7, 43), "transposed")),
    "second": ([((7, 43), "second"), ((7, 43), "C"), ((7, 43), "gaps")], ((7, 43), "second")),
    "reversed": ([((301,), "reversed"), ((301,), "C"), ((301,), "C")], ((301,), "C")),
    "into reversed": ([((301,), "C"), ((301,), "reversed"), ((301,), "C")], ((301,), "reversed")),
    "row": ([((7, 43), "C"), ((43,), "C"), ((1, 43), "C")], ((7, 43), "C")),
    "column": ([((7, 1), "C"), ((7, 43), "C"), ((7, 43), "C")], ((7, 43), "C")),
    "outer": ([((7, 1), "C"), ((1, 43), "C"), ((43,), "C")], ((7, 43), "C")),
    "middle": ([((5, 1, 9), "C"), ((5, 7, 1), "C"), ((), "C")], ((5, 7, 9), "C")),
    "number": ([((7, 43), "C"), ((), "C"), ((), "C")], ((7, 43), "gaps")),
    "one": ([((1, 1), "C"), ((301,), "C"), ((1,), "C")], ((1, 301), "C")),
    "numbers": ([((), "C")] * 3, ((), "C")),
    "one element": ([((1,), "C"), ((1, 1), "C"), ((), "C")], ((1, 1), "C")),
    "repeated": ([((1,), "C")] * 3, ((5, 9), "C")),
}


def bound(ufunc, dtypes, place, rng):
    """A bound call of a ufunc, or None if there is none or no kernel can make it."""
    try:
        char = ufunc.resolve_dtypes((*map(np.dtype, dtypes), None))[-1].char
    except TypeError:
        return None
    if char not in TYPES:
        return None
    inputs, out = PLACES[place]
    if ufunc.nin == 1 and place not in ("repeated", "number"):
        inputs = [(out[0], inputs[0][1])]
    inputs = [operand(c, *x, rng) for c, x in zip(dtypes, inputs, strict=False)]
    out = operand(char, *out, rng)
    if place in ("line", "table", "second") and rng.random() < 0.5 and inputs[0].dtype == out.dtype:
        out = inputs[0]
    return made(ufunc, inputs, out)


def made(ufunc, inputs, out):
    try:
        step = noting.bound_ufunc(ufunc, inputs, out)
    except noting.CannotNote:
        return None
    return step if operations(step) is not None else None


def in_groups(steps, size=8):
    return [Calls(steps[i : i + size]) for i in range(0, len(steps), size)]


@pytest.mark.parametrize("place", PLACES)
def test_ufuncs(place):
    rng = np.random.default_rng(0)
    steps, known = [], {}
    for name, ufunc in UFUNCS.items():
        for dtypes in [c * ufunc.nin for c in TYPES] + (MIXED if ufunc.nin == 2 else []):
            # Layouts matter to the text for all dtypes of a size alike.
            if len(set(dtypes)) == 1 and place != "line" and dtypes[0] not in "?fdlB":
                continue
            if len(set(dtypes)) > 1 and place not in ("line", "row", "numbers"):
                continue
            step = bound(ufunc, dtypes, place, rng)
            if step is not None:
                steps.append(step)
                known.setdefault(name, set()).add(dtypes)
    check(in_groups(steps), together=200)
    floats = EXACT | CALLED if place in ("line", "long", "table", "numbers") else EXACT
    lacking = [name for name in floats if not known.get(name, set()) >= {"f" * UFUNCS[name].nin}]
    assert not lacking, place
