"""Twins of the ops in gpugrad/ops/normalization.py for arrays in C order: one pass over memory.

They have the bits of the definitions, which run where the library of kernels is not there yet.
"""

from math import prod

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected, rows
from ...ops.normalization import BLOCK, _rms_eps, layer_norm, rms_norm
from .common import or_definition

_FEW = 1024  # elements: for fewer the definitions, whose calls a program can divide


def _covers(x, ndim, *parameters):
    """Whether the kernels support the inputs, whose last axes are a row."""
    if not (is_expected() and x.size >= _FEW and 1 <= ndim <= x.ndim):
        return False
    shape = x.shape[x.ndim - ndim :]
    return all(
        type(p) is np.ndarray and p.dtype == x.dtype and p.shape == s and p.flags.c_contiguous
        for p, s in ((x, x.shape), *[(p, shape) for p in parameters if p is not None])
    ) and x.dtype in (float32, float64)


def _normalized(xp, x, weight, bias, ndim, eps, centered):
    if not _covers(x, ndim, weight, bias):
        return NotImplemented
    n, eps = prod(x.shape[x.ndim - ndim :]), _rms_eps(xp, x, eps)
    out = np.empty(x.shape, x.dtype)
    done = rows("layer_norm", x.dtype, x.size // n, n, x, weight, bias, out, n=centered, s=eps)
    return out if done else None


def _cotangents(xp, g, x, weight, wanted, ndim, eps, centered):
    if not (_covers(x, ndim, weight) and _covers(g, ndim)):
        return NotImplemented
    if (g.shape, g.dtype) != (x.shape, x.dtype):
        return NotImplemented
    last = x.shape[x.ndim - ndim :]
    n = prod(last)
    number = x.size // n
    blocks = -(-number // BLOCK)
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    # The definition adds up a block's rows first only where there are several.
    sums = np.empty((blocks, 2, n), x.dtype) if any(wanted[1:]) else None
    options = {"cost": BLOCK * n, "n": centered, "m": number, "s": _rms_eps(xp, x, eps)}
    if not rows("layer_norm_vjp", x.dtype, blocks, n, g, x, weight, to_x, sums, **options):
        return None
    if sums is None:
        return to_x, *[None] * (len(wanted) - 1)
    totals = xp.sum(sums, axis=0).reshape(2, *last)
    return to_x, *[y if w else None for y, w in zip(totals, wanted[1:], strict=False)]


def _define_twins(call, centered):
    @or_definition(call)
    def forward(xp, x, weight=None, bias=None, /, *, ndim=1, eps=call.op.static_defaults["eps"]):
        return _normalized(xp, x, weight, bias, ndim, eps, centered)

    @or_definition(call, "joint")
    def joint(xp, g, x, weight, wanted, ndim, eps):
        return _cotangents(xp, g, x, weight, wanted, ndim, eps, centered)

    call.twin("numpy", forward, joint=joint)


_define_twins(layer_norm, True)
_define_twins(rms_norm, False)
