"""Windows that slide over the last axes of an array: their elements, sums and maxima.

In all ops ``size`` is a tuple with the length of a window along each axis that windows slide over.
``stride`` is the distance between neighbouring windows, ``dilation`` that between neighbouring
taps, the places in a window, and ``padding`` says how far windows reach beyond the array. Each is
an int, or a tuple with one for each axis; ``padding`` may also have pairs, of which the second is
for the end of the axis. The axes before these, of any number, count images, channels and so on.
"""

from ..backends.windows import stages
from .by_name import library_function
from .manipulation import vmap_unchanged


@library_function(discards=True, vmap=vmap_unchanged)
def sliding_windows(x, /, *, size, stride=1, padding=0, dilation=1):
    """The elements of all windows: ``(..., *lengths) -> (..., *size, *counts)``.

    size: the lengths of a window, a tuple. ``counts`` are the numbers of windows,
        ``(length + padding - dilation * (size - 1) - 1) // stride + 1`` with both sides' padding.
    stride, dilation: the distance between windows, and between the elements of a window.
    padding: how many zeros there are beyond both ends of an axis; ints, or pairs of ints.

    Raises ValueError if a window is longer than the padded array.
    """


def _lengths(x_shape, size):
    return tuple(x_shape[len(x_shape) - len(size) :])


def _sliding_windows_vjp(xp, g, x_shape, size, stride, padding, dilation):
    shape = _lengths(x_shape, size)
    return xp.add_windows(g, shape=shape, stride=stride, padding=padding, dilation=dilation)


sliding_windows.vjp(x=_sliding_windows_vjp).jvp("x")


@library_function(vmap=vmap_unchanged)
def add_windows(values, /, *, shape, stride=1, padding=0, dilation=1):
    """Zeros of ``(..., *shape)``, to which windows are added: the transpose of `sliding_windows`.

    values: ``(..., *size, *counts)``, as `sliding_windows` returns them for ``(..., *shape)``.

    Raises ValueError if there are not as many windows as slide over ``shape``.
    """


def _add_windows_vjp(xp, g, values_shape, shape, stride, padding, dilation):
    size = tuple(values_shape[len(values_shape) - 2 * len(shape) : -len(shape)])
    return xp.sliding_windows(g, size=size, stride=stride, padding=padding, dilation=dilation)


add_windows.vjp(values=_add_windows_vjp).jvp("values")


@library_function(discards=True, vmap=vmap_unchanged)
def sum_windows(x, /, *, size, stride=1, padding=0, dilation=1, scale=1.0):
    """The sum of each window, times ``scale``: ``(..., *lengths) -> (..., *counts)``.

    The other parameters are those of `sliding_windows`. float16 is summed in float32.
    """


def _sum_windows_vjp(xp, g, x_shape, size, stride, padding, dilation, scale):
    n = len(size)
    if scale != 1:
        g = g * scale
    found = stages(_lengths(x_shape, size), size, stride, padding, dilation)
    for lengths, own, options in reversed(found):
        lead, counts = g.shape[: len(g.shape) - n], g.shape[len(g.shape) - n :]
        values = xp.reshape(g, (*lead, *[1] * n, *counts))
        values = xp.broadcast_to(values, (*lead, *own, *counts))
        g = xp.add_windows(values, shape=lengths, **options)
    return g


sum_windows.vjp(x=_sum_windows_vjp).jvp("x")


@library_function(discards=True, vmap=vmap_unchanged)
def max_pool(x, /, *, size, stride=1, padding=0, dilation=1):
    """The largest element of each window: ``(..., *lengths) -> (..., *counts)``.

    The parameters are those of `sliding_windows`, but padding counts as minus infinity. Of equal
    elements the first, in row-major order, gets the gradient. A window with a nan gives nan, and
    the first nan gets the gradient.
    """


def _max_pool_vjp(xp, g, x, out, size, stride, padding, dilation):
    options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
    taps = xp.find_in_windows(x, out, **options)
    return xp.put_in_windows(g, taps, shape=_lengths(x.shape, size), **options)


def _max_pool_jvp(xp, t, x, out, size, stride, padding, dilation):
    options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
    return xp.take_from_windows(t, xp.find_in_windows(x, out, **options), **options)


max_pool.vjp(x=_max_pool_vjp).jvp(x=_max_pool_jvp)


@library_function(differentiable=False, vmap=vmap_unchanged)
def find_in_windows(x, values, /, *, size, stride=1, padding=0, dilation=1):
    """The tap of each window at which its element equals ``values``, as a number; else 0.

    Taps are numbered from 0 in row-major order; of several the first counts. A nan is found where
    ``values`` is nan.

    x: ``(..., *lengths)``. values: ``(..., *counts)``, for example from `max_pool` with the same
        parameters. The result is ``(..., *counts)``, int8, or int32 for 128 taps or more.
    """


@library_function(integer=("taps",), discards=True, vmap=vmap_unchanged)
def take_from_windows(x, taps, /, *, size, stride=1, padding=0, dilation=1):
    """The element of each window at one of its taps: ``(..., *lengths) -> (..., *counts)``.

    taps: ``(..., *counts)``, numbers of taps as `find_in_windows` returns them. At a tap in the
        padding, and for a number that no tap has, the result is 0.

    The other parameters are those of `sliding_windows`.
    """


def _put_back(xp, g, x_shape, taps, size, stride, padding, dilation):
    options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
    return xp.put_in_windows(g, taps, shape=_lengths(x_shape, size), **options)


def _take(xp, t, taps, size, stride, padding, dilation):
    options = {"size": size, "stride": stride, "padding": padding, "dilation": dilation}
    return xp.take_from_windows(t, taps, **options)


take_from_windows.vjp(x=_put_back).jvp("x")


@library_function(integer=("taps",), vmap=vmap_unchanged)
def put_in_windows(values, taps, /, *, shape, size, stride=1, padding=0, dilation=1):
    """Zeros of ``(..., *shape)``, to which each value is added at one tap of its window.

    values, taps: ``(..., *counts)``; the transpose of `take_from_windows`.
    """


put_in_windows.vjp(values=_take)
