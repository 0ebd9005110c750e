"""Twins of the ops in gpugrad/ops/normalization.py for arrays in C order: one pass over memory.

They have the bits of the definitions, which run where the library of kernels is not there yet.
"""

from functools import partial
from math import prod

import numpy as np

from ...backends.dtypes import float32, float64
from ...backends.native.base import is_expected, rows
from ...ops import normalization as ops
from .common import by_rows, or_definition, results_of

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


def _by_rows(into, name, items, length, *arrays, **options):
    """`by_rows` for a kernel whose first three arrays are inputs."""
    written = [k for k in range(3, len(arrays)) if arrays[k] is not None]
    return by_rows(into, written, name, arrays[0].dtype, items, length, *arrays, **options)


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
        n, out = (
            prod(x.shape[x.ndim - ndim :]),
            np.empty(x.shape, x.dtype) if into is None else into,
        )
        options = {"n": centered, "s": ops._rms_eps(xp, x, eps)}
        found = _by_rows(into, "layer_norm", x.size // n, n, x, weight, bias, out, **options)
        return results_of(found, out)

    @or_definition(call, "joint")
    def joint(xp, g, x, weight, wanted, ndim, eps, into=None):
        is_covered = _covers(x, ndim, weight) and _covers(g, ndim)
        if not is_covered or (g.shape, g.dtype) != (x.shape, x.dtype):
            return NotImplemented
        last = x.shape[x.ndim - ndim :]
        n = prod(last)
        number = x.size // n
        blocks = -(-number // ops.BLOCK)
        to_x, *others = into or (np.empty(x.shape, x.dtype) if wanted[0] else None,)
        # The definition adds up a block's rows first only where there are several.
        sums = np.empty((blocks, 2, n), x.dtype) if any(wanted[1:]) else None
        options = {"cost": ops.BLOCK * n, "n": centered, "m": number, "s": ops._rms_eps(xp, x, eps)}
        found = _by_rows(into, "layer_norm_vjp", blocks, n, g, x, weight, to_x, sums, **options)
        if not found:
            return None
        if sums is None:
            return results_of(found, (to_x, *[None] * (len(wanted) - 1)))
        if into:
            totals = np.empty((2, n), x.dtype)
            found.append(partial(np.add.reduce, sums, 0, None, totals, False))
            return found + _copies(totals, others)
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
    out = np.empty(x.shape, x.dtype) if into is None else into
    return results_of(_by_group(into, "group_norm", x, groups, eps, x, weight, bias, out), out)


@or_definition(ops.group_norm, "joint")
def _group_norm_vjp(xp, g, x, weight, wanted, groups, eps, into=None):
    if not _covers_channels(x, g, weight):
        return NotImplemented
    to_x, *others = into or (np.empty(x.shape, x.dtype) if wanted[0] else None,)
    sums = np.empty((2, *x.shape[:2]), x.dtype)
    found = _by_group(into, "group_norm_vjp", x, groups, eps, g, x, weight, to_x, sums)
    if into:
        pairs = [(y, out) for y, out in zip(sums, others, strict=True) if out is not None]
        return found + [partial(np.add.reduce, y, 0, None, out, False) for y, out in pairs]
    if not found:
        return None
    return to_x, *[xp.sum(y, axis=0) if w else None for y, w in zip(sums, wanted[1:], strict=True)]


def _by_group(into, name, x, groups, eps, *arrays):
    number = len(x) * groups
    options = {"n": 1, "m": groups, "s": eps, "t": prod(x.shape[2:])}
    return _by_rows(into, name, number, x.size // number, *arrays, **options)


@or_definition(ops.batch_norm)
def _batch_norm(xp, x, weight=None, bias=None, /, *, eps=1e-5, into=None):
    ops._check_channels(x.shape, weight, bias)
    if x.shape[1] < 2 or not _covers_channels(x, None, weight, bias):
        return NotImplemented
    out, *others = into or (np.empty(x.shape, x.dtype),)
    statistics = np.empty((2, x.shape[1]), x.dtype)
    found = _by_channel(into, "batch_norm", "", x, eps, x, weight, bias, out, statistics)
    return found + _copies(statistics, others) if into else results_of(found, (out, *statistics))


@or_definition(ops.batch_norm, "joint")
def _batch_norm_vjp(xp, g, x, weight, wanted, eps, into=None):
    g, g_mean, g_var = g
    is_known = g is not None and g_mean is g_var is None and x.shape[1] > 1
    if not is_known or not _covers_channels(x, g, weight):
        return NotImplemented
    to_x, *others = into or (np.empty(x.shape, x.dtype) if wanted[0] else None,)
    sums = np.empty((2, x.shape[1]), x.dtype)
    found = _by_channel(into, "batch_norm", "_vjp", x, eps, g, x, weight, to_x, sums)
    return found + _copies(sums, others) if into else results_of(found, (to_x, *sums))


def _by_channel(into, name, of, x, eps, *arrays):
    n, channels, *rest = x.shape
    length, number, options = prod(rest), channels, {"n": n, "m": channels, "s": eps}
    if length == 1:
        name, number, length = f"{name}_columns", -(-channels // _STRIP), _STRIP
    return _by_rows(into, name + of, number, length, *arrays, cost=n * length, **options)


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
    if not _by_channel(None, "sums_of_channels", "", x, eps, g, x, mean, sums):
        return NotImplemented
    return ops._by_sums(xp, g, var, weight, wanted, eps, *sums)


# A program's kernels do more at once.
_by_statistics.is_eager = True  # type: ignore[attr-defined]
_by_statistics_vjp.is_eager = True  # type: ignore[attr-defined]
ops._by_statistics.twin("numpy", _by_statistics, joint=_by_statistics_vjp)
