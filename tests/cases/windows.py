"""Windows that slide over the last axes."""

from itertools import product

import numpy as np

from .base import A, Case, S, nan, values
from .draws import distinct, integers, normal
from .kinds import kink


def per_axis(value, n):
    return value if isinstance(value, tuple) else (value,) * n


def windows(x, size, *, stride=1, padding=0, dilation=1, fill=0.0):
    """Yield the index of each window and its elements ``(..., *size)``, of a padded copy of ``x``.

    The copy shares memory with the elements, so that a window can be written to, and comes first.
    """
    n = len(size)
    pairs = [p if isinstance(p, tuple) else (p, p) for p in per_axis(padding, n)]
    x = np.pad(x, [(0, 0)] * (x.ndim - n) + pairs, constant_values=fill)
    yield x
    steps, gaps = per_axis(stride, n), per_axis(dilation, n)
    spans = [(k - 1) * d + 1 for k, d in zip(size, gaps, strict=True)]
    lengths = x.shape[x.ndim - n :]
    counts = [(m - span) // s + 1 for m, span, s in zip(lengths, spans, steps, strict=True)]
    for window in product(*map(range, counts)):
        starts = [i * s for i, s in zip(window, steps, strict=True)]
        key = [slice(a, a + m, d) for a, m, d in zip(starts, spans, gaps, strict=True)]
        yield window, x[(..., *key)]


def counts_of(x_shape, size, **options):
    *_, (last, _) = windows(np.zeros(x_shape[len(x_shape) - len(size) :]), size, **options)
    return tuple(i + 1 for i in last)


def over_windows(function, x, size, fill=0.0, **options):
    """The results of ``function`` of each window ``(..., taps)``, as ``(..., *counts)``."""
    _, *found = windows(x, size, fill=fill, **options)
    n = len(size)
    shape = *x.shape[: x.ndim - n], int(np.prod(size))
    results = [function(w.reshape(shape)) for _, w in found]
    counts = tuple(i + 1 for i in found[-1][0])
    return np.stack(results, -1).reshape(*results[0].shape, *counts)


def _sliding_windows(x, *, size, **options):
    out = over_windows(lambda w: w, x, size, **options)
    lead = x.shape[: x.ndim - len(size)]
    return out.reshape(*lead, *size, *out.shape[len(lead) + 1 :])


def _add_windows(values, *, shape, **options):
    n = len(shape)
    ndim = values.ndim
    size = values.shape[ndim - 2 * n : ndim - n]
    out, *found = windows(
        np.zeros((*values.shape[: ndim - 2 * n], *shape), values.dtype), size, **options
    )
    for i, w in found:
        w += values[(..., *i)]
    return cropped(out, shape, options.get("padding", 0))


def cropped(x, shape, padding):
    n = len(shape)
    before = [p[0] if isinstance(p, tuple) else p for p in per_axis(padding, n)]
    return x[(..., *[slice(b, b + m) for b, m in zip(before, shape, strict=True)])]


def _sum_windows(x, *, size, scale=1.0, **options):
    return over_windows(lambda w: w.sum(-1), x, size, **options) * x.dtype.type(scale)


def _max_pool(x, *, size, **options):
    return over_windows(lambda w: w.max(-1), x, size, -np.inf, **options)


def _torch_max_pool(torch, x, *, size, stride=1, padding=0, dilation=1):
    n = len(size)
    lead = x.shape[: x.ndim - n]
    flat = x.reshape(int(np.prod(lead)), 1, *x.shape[x.ndim - n :])
    flat = torch_padded(torch, flat, padding, n, -np.inf)
    out = getattr(torch.nn.functional, f"max_pool{n}d")(flat, size, stride, 0, dilation)
    return out.reshape(*lead, *out.shape[2:])


def torch_padded(torch, x, padding, n, value=0.0):
    """``x`` with padding by pairs, which PyTorch's functions of windows do not take."""
    pairs = [p if isinstance(p, tuple) else (p, p) for p in per_axis(padding, n)]
    pad = [p for pair in reversed(pairs) for p in pair]
    return torch.nn.functional.pad(x, pad, value=value)


def _find_in_windows(x, values, *, size, **options):
    elements = over_windows(lambda w: w, x, size, fill=np.nan, **options)
    at = x.ndim - len(size)
    found = elements == np.expand_dims(values, at)
    return found.argmax(at).astype("int8")


def _take_from_windows(x, taps, *, size, **options):
    elements = over_windows(lambda w: w, x, size, **options)
    at = x.ndim - len(size)
    return np.take_along_axis(elements, np.expand_dims(taps, at), at).squeeze(at)


def _put_in_windows(values, taps, *, shape, size, **options):
    n = len(shape)
    lead = values.shape[: values.ndim - n]
    out, *found = windows(np.zeros((*lead, *shape), values.dtype), size, **options)
    for i, w in found:
        for place in np.ndindex(*lead):
            tap = np.unravel_index(taps[(*place, *i)], size)
            w[(*place, *tap)] += values[(*place, *i)]
    return cropped(out, shape, options.get("padding", 0))


# Small, since second derivatives are checked by differences for each element.
OPTIONS = [
    ((1, 3, 2), {"size": (2, 2), "padding": (1, 0)}),
    ((2, 5), {"size": (2,), "stride": 2}),
    ((5,), {"size": (2,), "stride": (3,), "dilation": 2, "padding": ((0, 1),)}),
    ((0, 3), {"size": (2,)}),
    ((1,), {"size": (1,), "padding": 1}),
]


def over(draw, options=OPTIONS):
    return [*(S(A(*shape, draw=draw), **given) for shape, given in options)]


def counted(shape, options):
    """The shape of a result with one element for each window."""
    n = len(options["size"])
    lead = shape[: len(shape) - n]
    return *lead, *counts_of((1, *shape[len(shape) - n :]), **options)


def of_taps(shape, options):
    number = int(np.prod(options["size"]))
    return A(*counted(shape, options), draw=integers(0, number, "int8"))


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
        kink([[2.0, 2.0], [2.0, 2.0]], size=(2, 2), gradients=([[1.0, 0.0], [0.0, 0.0]],)),
    ], _max_pool, _torch_max_pool),
    Case("find_in_windows", [
        S(values([1.0, 3.0, 3.0, 2.0]), values([3.0, 3.0, 3.0]), size=(2,)),
        S(values([1.0, 3.0]), values([1.0, 9.0, 3.0]), size=(2,), padding=1),
        S(values([[1.0, 2.0], [4.0, 4.0]]), values([[4.0]]), size=(2, 2)),
        S(A(0, 3), A(0, 2), size=(2,)), S(values([nan, 3.0]), values([nan]), size=(2,)),
    ], _find_in_windows, differentiable=False,
         sized=lambda n: S(A(2 * n), A(n), size=(2,), stride=2)),
    Case("take_from_windows", [
        S(A(*shape), of_taps(shape, options), **options) for shape, options in OPTIONS
    ], _take_from_windows, complex=True,
         sized=lambda n: S(A(2 * n), A(n, draw=integers(0, 2, "int8")), size=(2,), stride=2)),
    Case("put_in_windows", [
        S(A(*counted(shape, options)), of_taps(shape, options),
          shape=shape[len(shape) - len(options["size"]) :], **options)
        for shape, options in OPTIONS
    ], _put_in_windows, complex=True,
         sized=lambda n: S(A(n), A(n, draw=integers(0, 2, "int8")), shape=(2 * n,), size=(2,),
                           stride=2)),
]  # fmt: skip
