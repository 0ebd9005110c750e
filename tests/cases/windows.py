"""Windows that slide over the last axes."""

import numpy as np

from .base import A, Case, S, Z, inf, kink, nan, values
from .draws import distinct, integers, normal


def per_axis(value, n):
    return value if isinstance(value, tuple) else (value,) * n


def pairs(padding, n):
    return [p if isinstance(p, tuple) else (p, p) for p in per_axis(padding, n)]


def windows(x, size, *, stride=1, padding=0, dilation=1, fill=0.0):
    """Return a padded copy of ``x``, and a view ``(..., *counts, *size)`` of its windows."""
    n = len(size)
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + pairs(padding, n), constant_values=fill)
    steps, gaps = per_axis(stride, n), per_axis(dilation, n)
    spans = [(k - 1) * d + 1 for k, d in zip(size, gaps, strict=True)]
    view = np.lib.stride_tricks.sliding_window_view(x, spans, range(-n, 0), writeable=True)
    return x, view[(..., *[slice(None, None, k) for k in (*steps, *gaps)])]


def elements(x, size, **options):
    """Return the elements of each window, in one axis behind those of the windows."""
    _, view = windows(x, size, **options)
    return view.reshape(*view.shape[: x.ndim], int(np.prod(size)))


def add_at_windows(values, shape, *, padding=0, **options):
    """Return the sums of values ``(..., *counts, *size)`` at the places of windows."""
    n = len(shape)
    zeros = np.zeros((*values.shape[: values.ndim - 2 * n], *shape), values.dtype)
    out, view = windows(zeros, values.shape[values.ndim - n :], padding=padding, **options)
    np.add.at(view, ..., values)
    inside = [slice(b, b + m) for (b, _), m in zip(pairs(padding, n), shape, strict=True)]
    return out[(..., *inside)]


def _sliding_windows(x, *, size, **options):
    n = len(size)
    return np.moveaxis(windows(x, size, **options)[1], range(-n, 0), range(-2 * n, -n))


def _add_windows(values, *, shape, **options):
    n = len(shape)
    values = np.moveaxis(values, range(-2 * n, -n), range(-n, 0))
    return add_at_windows(values, shape, **options)


def _sum_windows(x, *, size, scale=1.0, **options):
    return elements(x, size, **options).sum(-1) * x.dtype.type(scale)


def _max_pool(x, *, size, **options):
    return elements(x, size, fill=-np.inf, **options).max(-1)


def _torch_max_pool(torch, x, *, size, stride=1, padding=0, dilation=1):
    n = len(size)
    lead = x.shape[: x.ndim - n]
    flat = x.reshape(int(np.prod(lead)), 1, *x.shape[x.ndim - n :])
    flat = torch_padded(torch, flat, padding, n, -np.inf)
    out = getattr(torch.nn.functional, f"max_pool{n}d")(flat, size, stride, 0, dilation)
    return out.reshape(*lead, *out.shape[2:])


def torch_padded(torch, x, padding, n, value=0.0):
    """``x`` with padding by pairs, which PyTorch's functions of windows do not take."""
    pad = [p for pair in reversed(pairs(padding, n)) for p in pair]
    return torch.nn.functional.pad(x, pad, value=value)


def _find_in_windows(x, values, *, size, **options):
    x = np.where(np.isnan(x), np.inf, x)  # the samples have no inf
    values = np.where(np.isnan(values), np.inf, values)
    found = elements(x, size, fill=np.nan, **options) == values[..., None]
    return found.argmax(-1).astype("int8")


def _take_from_windows(x, taps, *, size, **options):
    return np.take_along_axis(elements(x, size, **options), taps[..., None], -1)[..., 0]


def _put_in_windows(values, taps, *, shape, size, **options):
    one_of_each = taps[..., None] == np.arange(np.prod(size))
    placed = np.where(one_of_each, values[..., None], values.dtype.type(0))
    return add_at_windows(placed.reshape(*values.shape, *size), shape, **options)


# Small, since second derivatives are checked by differences for each element.
OPTIONS = [
    ((1, 3, 2), {"size": (2, 2), "padding": (1, 0)}), ((2, 5), {"size": (2,), "stride": 2}),
    ((5,), {"size": (2,), "stride": (3,), "dilation": 2, "padding": ((0, 1),)}),
    ((0, 3), {"size": (2,)}), ((1,), {"size": (1,), "padding": 1}),
]  # fmt: skip


def over(draw, options=OPTIONS):
    return [S(A(*shape, draw=draw), **given) for shape, given in options]


def counted(shape, options, draw=normal):
    """An array with one element for each window."""
    return A(*windows(np.zeros(shape), **options)[1].shape[: len(shape)], draw=draw)


def of_taps(shape, options):
    return counted(shape, options, integers(0, int(np.prod(options["size"])), "int8"))


CASES = [
    Case("sliding_windows", over(normal), _sliding_windows, complex=True),
    Case("add_windows", [
        S(A(1, 2, 2, 2, 3), shape=(2, 3), padding=((0, 1), (1, 0))),
        S(A(2, 2), shape=(5,), stride=2), S(A(2, 2), shape=(5,), stride=(2,), dilation=(2,)),
        S(A(0, 2, 3), shape=(4,)),
    ], _add_windows, complex=True,
         sized=lambda n: S(A(2, max(n // 2, 1)), shape=(2 * max(n // 2, 1),), stride=2)),
    Case("sum_windows", [*over(normal), S(A(3), size=(2,), scale=0.5)], _sum_windows, complex=True,
         relative_to="array"),
    Case("max_pool", [
        *over(distinct, OPTIONS[:-1]), S(A(3, 3, draw=distinct), size=(3, 3), stride=2, padding=1),
        kink([1.0, 1.0, 0.0, 1.0], size=(2,), gradients=([1.0, 1.0, 0.0, 1.0],)),
        kink([1.0, nan, nan, inf], size=(3,), gradients=([0.0, 2.0, 0.0, 0.0],),
             unlike_torch="PyTorch's gradient is that of the last nan"),
        kink([[2.0, 2.0], [2.0, 2.0]], size=(2, 2), gradients=([[1.0, 0.0], [0.0, 0.0]],)),
    ], _max_pool, _torch_max_pool),
    Case("find_in_windows", [
        S(values([1.0, 3.0, 3.0, 2.0]), values([3.0, 3.0, 3.0]), size=(2,)),
        S(values([1.0, 3.0]), values([1.0, 9.0, 3.0]), size=(2,), padding=1),
        S(values([[1.0, 2.0], [4.0, 4.0]]), values([[4.0]]), size=(2, 2)),
        S(A(0, 3), A(0, 2), size=(2,)), S(values([3.0, nan, nan]), values([nan, 9.0]), size=(2,)),
    ], _find_in_windows, differentiable=False,
         sized=lambda n: S(A(2 * n), A(n), size=(2,), stride=2)),
    Case("take_from_windows", [
        S(A(*shape), of_taps(shape, options), **options) for shape, options in OPTIONS
    ], _take_from_windows, complex=True,
         sized=lambda n: S(A(2 * n), Z(n, below=2, dtype="int8"), size=(2,), stride=2)),
    Case("put_in_windows", [
        S(counted(shape, options), of_taps(shape, options),
          shape=shape[len(shape) - len(options["size"]) :], **options)
        for shape, options in OPTIONS
    ], _put_in_windows, complex=True,
         sized=lambda n: S(A(n), Z(n, below=2, dtype="int8"), shape=(2 * n,), size=(2,), stride=2)),
]  # fmt: skip
