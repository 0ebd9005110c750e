"""Twins of the ops in gpugrad/ops/normalization.py for arrays in C order: one pass over memory.

They have the bits of the definitions, which run where the library of kernels is not there yet.
"""

from functools import partial
from math import prod

import numpy as np

from ...backends.declarations import declare
from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected, rows, step_of_rows
from ...backends.numpy.namespace import xp
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


def _row_of(x, ndim):
    return prod(x.shape[x.ndim - ndim :])


def _normalized(x, weight, bias, ndim, eps, centered, out):
    """The arguments of `rows`."""
    n, options = _row_of(x, ndim), {"n": centered, "s": ops._rms_eps(xp, x, eps)}
    return ("layer_norm", x.dtype, x.size // n, n, x, weight, bias, out), options


def _cotangents(g, x, weight, ndim, eps, centered, to_x, has_sums):
    """The arguments of `rows`, of which the last array is None or the sums of blocks of rows."""
    n = _row_of(x, ndim)
    number = x.size // n
    blocks = -(-number // ops.BLOCK)
    sums = np.empty((blocks, 2, n), x.dtype) if has_sums else None
    options = {"cost": ops.BLOCK * n, "n": centered, "m": number, "s": ops._rms_eps(xp, x, eps)}
    return ("layer_norm_vjp", x.dtype, blocks, n, g, x, weight, to_x, sums), options


def _define_twins(call, centered):
    default = call.op.static_defaults["eps"]

    @or_definition(call)
    def forward(xp, x, weight=None, bias=None, /, *, ndim=1, eps=default):
        if not _covers(x, ndim, weight, bias):
            return NotImplemented
        out = np.empty(x.shape, x.dtype)
        args, options = _normalized(x, weight, bias, ndim, eps, centered, out)
        return out if rows(*args, **options) else None

    @or_definition(call, "joint")
    def joint(xp, g, x, weight, wanted, ndim, eps):
        is_covered = _covers(x, ndim, weight) and _covers(g, ndim)
        if not is_covered or (g.shape, g.dtype) != (x.shape, x.dtype):
            return NotImplemented
        to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
        # The definition adds up a block's rows first only where there are several.
        has_sums = any(wanted[1:])
        args, options = _cotangents(g, x, weight, ndim, eps, centered, to_x, has_sums)
        if not rows(*args, **options):
            return None
        if not has_sums:
            return to_x, *[None] * (len(wanted) - 1)
        totals = xp.sum(args[-1], axis=0).reshape(2, *x.shape[x.ndim - ndim :])
        return to_x, *[y if w else None for y, w in zip(totals, wanted[1:], strict=False)]

    def steps(x, weight=None, bias=None, *, ndim=1, eps=default, out):
        if not _covers(x, ndim, weight, bias):
            return None
        args, options = _normalized(x, weight, bias, ndim, eps, centered, out)
        return [step_of_rows([3], *args, **options)]

    def steps_of_joint(g, x, weight, wanted, ndim, eps, *, out):
        if not (_covers(x, ndim, weight) and _covers(g, ndim)) or g.dtype != x.dtype:
            return None
        to_x, *totals = out
        args, options = _cotangents(g, x, weight, ndim, eps, centered, to_x, any(wanted[1:]))
        written = [k for k in (3, 4) if args[4 + k] is not None]
        found, sums = [step_of_rows(written, *args, **options)], args[-1]
        if sums is not None:
            total = np.empty(sums.shape[1:], x.dtype)
            found.append(partial(np.add.reduce, sums, 0, None, total, False))
            pairs = [(y, row) for y, row in zip(totals, total, strict=False) if y is not None]
            found += [partial(np.copyto, y, row.reshape(y.shape)) for y, row in pairs]
        return found

    declare(forward, steps=steps)
    declare(joint, steps=steps_of_joint)
    call.twin("numpy", forward, joint=joint)


_define_twins(ops.layer_norm, True)
_define_twins(ops.rms_norm, False)


# Channels


def _covers_channels(x, g, *parameters):
    """Whether the kernels support the inputs, of which only ``x`` must be there."""
    return _are_covered(x, (g, x.shape), *[(p, x.shape[1:2]) for p in parameters])


@or_definition(ops.group_norm)
def _group_norm(xp, x, weight=None, bias=None, /, *, groups, eps=1e-5):
    ops._check_channels(x.shape, weight, bias, groups)
    if not _covers_channels(x, None, weight, bias):
        return NotImplemented
    out = np.empty(x.shape, x.dtype)
    return out if _by_group("group_norm", x, groups, eps, x, weight, bias, out) else None


@or_definition(ops.group_norm, "joint")
def _group_norm_vjp(xp, g, x, weight, wanted, groups, eps):
    if not _covers_channels(x, g, weight):
        return NotImplemented
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    sums = np.empty((2, *x.shape[:2]), x.dtype)
    if not _by_group("group_norm_vjp", x, groups, eps, g, x, weight, to_x, sums):
        return None
    return to_x, *[xp.sum(y, axis=0) if w else None for y, w in zip(sums, wanted[1:], strict=True)]


def _by_group(name, x, groups, eps, *arrays):
    number = len(x) * groups
    options = {"n": 1, "m": groups, "s": eps, "t": prod(x.shape[2:])}
    return rows(name, x.dtype, number, x.size // number, *arrays, **options)


@or_definition(ops.batch_norm)
def _batch_norm(xp, x, weight=None, bias=None, /, *, eps=1e-5):
    ops._check_channels(x.shape, weight, bias)
    if x.shape[1] < 2 or not _covers_channels(x, None, weight, bias):
        return NotImplemented
    out, statistics = np.empty(x.shape, x.dtype), np.empty((2, x.shape[1]), x.dtype)
    done = _by_channel("batch_norm", "", x, eps, x, weight, bias, out, statistics)
    return (out, *statistics) if done else None


@or_definition(ops.batch_norm, "joint")
def _batch_norm_vjp(xp, g, x, weight, wanted, eps):
    g, g_mean, g_var = g
    is_known = g is not None and g_mean is g_var is None and x.shape[1] > 1
    if not is_known or not _covers_channels(x, g, weight):
        return NotImplemented
    to_x = np.empty(x.shape, x.dtype) if wanted[0] else None
    sums = np.empty((2, x.shape[1]), x.dtype)
    done = _by_channel("batch_norm", "_vjp", x, eps, g, x, weight, to_x, sums)
    return (to_x, *sums) if done else None


def _by_channel(name, of, x, eps, *arrays):
    n, channels, *rest = x.shape
    length, number, options = prod(rest), channels, {"n": n, "m": channels, "s": eps}
    if length == 1:
        name, number, length = f"{name}_columns", -(-channels // _STRIP), _STRIP
    return rows(name + of, x.dtype, number, length, *arrays, cost=n * length, **options)


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
    if not _by_channel("sums_of_channels", "", x, eps, g, x, mean, sums):
        return NotImplemented
    return ops._by_sums(xp, g, var, weight, wanted, eps, *sums)


# A program's kernels do more at once.
_by_statistics.is_eager = True  # type: ignore[attr-defined]
_by_statistics_vjp.is_eager = True  # type: ignore[attr-defined]
ops._by_statistics.twin("numpy", _by_statistics, joint=_by_statistics_vjp)
