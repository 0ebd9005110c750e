"""Twins of the ops in gpugrad/ops/normalization.py for arrays in C order: one pass over memory.

They have the bits of the definitions, which run where the library of kernels is not there yet.
"""

from functools import partial
from math import prod

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected, rows, step_of_rows
from ...ops import normalization as ops
from .common import or_definition

_FEW = 1024  # elements: for fewer the definitions, whose calls a program can divide
_STRIP = 64  # columns of a matrix that are one piece


def _are_covered(x, *others):
    """Whether the kernels support ``x`` and other arrays.

    others: pairs of an array, or None, and the shape that it must have.
    """
    if x.size < _FEW or x.dtype not in (float32, float64):
        return False
    given = [(p, shape) for p, shape in ((x, x.shape), *others) if p is not None]
    kinds = {(type(p), p.dtype, p.shape == s, p.flags.c_contiguous) for p, s in given}
    return kinds == {(np.ndarray, x.dtype, True, True)}


def _covers(x, ndim, *parameters):
    """Whether the kernels support the inputs, whose last axes are a row."""
    shape = x.shape[x.ndim - ndim :]
    return 1 <= ndim <= x.ndim and _are_covered(x, *[(p, shape) for p in parameters])


def _step(*args, **options):
    """A list of the call of a kernel of rows, whose first three arrays are inputs."""
    written = [k for k in range(3, len(args) - 4) if args[k + 4] is not None]
    return [step_of_rows(written, *args, **options)]


def _copies(arrays, outs):
    """The calls that copy arrays into those of the results that are not None."""
    pairs = zip(arrays, outs, strict=False)
    return [partial(np.copyto, y, x.reshape(y.shape)) for x, y in pairs if y is not None]


def _define_twins(call, centered):
    default = call.op.static_defaults["eps"]

    @or_definition(call)
    def forward(xp, x, weight=None, bias=None, /, *, ndim=1, eps=default, into=None):
        if not _covers(x, ndim, weight, bias):
            return NotImplemented
        n, eps = prod(x.shape[x.ndim - ndim :]), ops._rms_eps(xp, x, eps)
        out, call = (np.empty(x.shape, x.dtype), rows) if into is None else (into, _step)
        found = call("layer_norm", x.dtype, x.size // n, n, x, weight, bias, out, n=centered, s=eps)
        return found if call is _step else out if found else None

    @or_definition(call, "joint")
    def joint(xp, g, x, weight, wanted, ndim, eps, into=None):
        is_covered = _covers(x, ndim, weight) and _covers(g, ndim)
        if not is_covered or (g.shape, g.dtype) != (x.shape, x.dtype):
            return NotImplemented
        last = x.shape[x.ndim - ndim :]
        n = prod(last)
        number = x.size // n
        blocks = -(-number // ops.BLOCK)
        # The definition adds up a block's rows first only where there are several.
        sums = np.empty((blocks, 2, n), x.dtype) if any(wanted[1:]) else None
        options = {"cost": ops.BLOCK * n, "n": centered, "m": number, "s": ops._rms_eps(xp, x, eps)}
        args = "layer_norm_vjp", x.dtype, blocks, n, g, x, weight
        if into is not None:
            to_x, *others = into
            found = _step(*args, to_x, sums, **options)
            if sums is not None:
                totals = np.empty((2, n), x.dtype)
                found.append(partial(np.add.reduce, sums, 0, None, totals, False))
                found += _copies(totals, others)
            return found
        to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
        if not rows(*args, to_x, sums, **options):
            return None
        if sums is None:
            return to_x, *[None] * (len(wanted) - 1)
        totals = xp.sum(sums, axis=0).reshape(2, *last)
        return to_x, *[y if w else None for y, w in zip(totals, wanted[1:], strict=False)]

    call.twin("numpy", forward, joint=joint)


_define_twins(ops.layer_norm, True)
_define_twins(ops.rms_norm, False)


# Channels


def _covers_channels(x, g, *parameters):
    """Whether the kernels support the inputs, of which only ``x`` must be there."""
    return _are_covered(x, (g, x.shape), *[(p, x.shape[1:2]) for p in parameters])


@or_definition(ops.group_norm)
def _group_norm(xp, x, weight=None, bias=None, /, *, groups, eps=1e-5, into=None):
    ops._check_channels(x.shape, weight, bias, groups)
    if not _covers_channels(x, None, weight, bias):
        return NotImplemented
    out, call = (np.empty(x.shape, x.dtype), rows) if into is None else (into, _step)
    found = _by_group(call, "group_norm", x, groups, eps, x, weight, bias, out)
    return found if call is _step else out if found else None


@or_definition(ops.group_norm, "joint")
def _group_norm_vjp(xp, g, x, weight, wanted, groups, eps, into=None):
    if not _covers_channels(x, g, weight):
        return NotImplemented
    sums = np.empty((2, *x.shape[:2]), x.dtype)
    args = "group_norm_vjp", x, groups, eps, g, x, weight
    if into is not None:
        to_x, *others = into
        pairs = [(y, out) for y, out in zip(sums, others, strict=True) if out is not None]
        more = [partial(np.add.reduce, y, 0, None, out, False) for y, out in pairs]
        return _by_group(_step, *args, to_x, sums) + more
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    if not _by_group(rows, *args, to_x, sums):
        return None
    return to_x, *[xp.sum(y, axis=0) if w else None for y, w in zip(sums, wanted[1:], strict=True)]


def _by_group(call, name, x, groups, eps, *arrays):
    number = len(x) * groups
    options = {"n": 1, "m": groups, "s": eps, "t": prod(x.shape[2:])}
    return call(name, x.dtype, number, x.size // number, *arrays, **options)


@or_definition(ops.batch_norm)
def _batch_norm(xp, x, weight=None, bias=None, /, *, eps=1e-5, into=None):
    ops._check_channels(x.shape, weight, bias)
    if x.shape[1] < 2 or not _covers_channels(x, None, weight, bias):
        return NotImplemented
    statistics = np.empty((2, x.shape[1]), x.dtype)
    args = "batch_norm", "", x, eps, x, weight, bias
    if into is not None:
        return _by_channel(_step, *args, into[0], statistics) + _copies(statistics, into[1:])
    out = np.empty(x.shape, x.dtype)
    return (out, *statistics) if _by_channel(rows, *args, out, statistics) else None


@or_definition(ops.batch_norm, "joint")
def _batch_norm_vjp(xp, g, x, weight, wanted, eps, into=None):
    g, g_mean, g_var = g
    is_known = g is not None and g_mean is g_var is None and x.shape[1] > 1
    if not is_known or not _covers_channels(x, g, weight):
        return NotImplemented
    sums = np.empty((2, x.shape[1]), x.dtype)
    args = "batch_norm", "_vjp", x, eps, g, x, weight
    if into is not None:
        return _by_channel(_step, *args, into[0], sums) + _copies(sums, into[1:])
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    return (to_x, *sums) if _by_channel(rows, *args, to_x, sums) else None


def _by_channel(call, name, of, x, eps, *arrays):
    n, channels, *rest = x.shape
    length, number, options = prod(rest), channels, {"n": n, "m": channels, "s": eps}
    if length == 1:
        name, number, length = f"{name}_columns", -(-channels // _STRIP), _STRIP
    return call(name + of, x.dtype, number, length, *arrays, cost=n * length, **options)


ops.group_norm.twin("numpy", _group_norm, joint=_group_norm_vjp)
ops.batch_norm.twin("numpy", _batch_norm, joint=_batch_norm_vjp)


def _by_statistics(xp, x, mean, var, weight=None, bias=None, /, *, eps):
    if not is_expected() or x.ndim < 3 or not _covers_channels(x, None, mean, var, weight, bias):
        return NotImplemented
    scale, shift = ops._scale_and_shift(xp, mean, var, weight, bias, eps)
    out, number = np.empty(x.shape, x.dtype), x.shape[0] * x.shape[1]
    arrays = x, scale, shift, out
    done = rows("scale_channels", x.dtype, number, x.size // number, *arrays, m=x.shape[1])
    return out if done else NotImplemented


def _by_statistics_vjp(xp, g, x, mean, var, weight, wanted, eps):
    is_known = any(wanted[1:]) and x.shape[1] > 1 and prod(x.shape[2:]) > 1
    if not (is_expected() and is_known and _covers_channels(x, g, mean, var, weight)):
        return NotImplemented
    sums = np.empty((2, x.shape[1]), x.dtype)
    if not _by_channel(rows, "sums_of_channels", "", x, eps, g, x, mean, sums):
        return NotImplemented
    return ops._by_sums(xp, g, var, weight, wanted, eps, *sums)


# A program's kernels do more at once.
_by_statistics.is_eager = True  # type: ignore[attr-defined]
_by_statistics_vjp.is_eager = True  # type: ignore[attr-defined]
ops._by_statistics.twin("numpy", _by_statistics, joint=_by_statistics_vjp)
