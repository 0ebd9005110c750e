"""Images at the places of a grid: `grid_sample` and `affine_grid` of `gpugrad.nn.functional`."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

from .._arguments import one_of, require
from .._creation import create
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..backends.dtypes import int64
from ..ops.elementwise import clip, floor, remainder, where
from ..ops.elementwise import round as _round
from ..ops.indexing import take
from ..ops.manipulation import broadcast_to, concat, moveaxis, stack
from .common import floating, shape_of


@in_float32
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The values of images at the places of a grid, between elements interpolated.

    input: ``(n, channels, height, width)`` or ``(n, channels, depth, height, width)``.
    grid: ``(n, *lengths, 2)`` or ``(n, *lengths, 3)``: for each element of the result, ``(n,
        channels, *lengths)``, a place in the input, first along the last axis. -1 and 1 are the
        ends of an axis.
    mode: ``"bilinear"``, also for three axes; ``"nearest"``; or for two ``"bicubic"``.
    padding_mode: the values beyond the ends: ``"zeros"``; ``"border"``, the last element; or
        ``"reflection"``, as in a mirror at the ends.
    align_corners: whether the ends are the centres of the first and the last elements, rather than
        the outer edges of these elements.

    Raises ValueError for other modes, and for shapes that do not fit.
    """
    name = "grid_sample"
    one_of(f"{name}: mode", mode, ("bilinear", "nearest", "bicubic"))
    one_of(f"{name}: padding_mode", padding_mode, ("zeros", "border", "reflection"))
    shape, places = shape_of(name, input), shape_of(name, grid, "the grid")
    d = len(shape) - 2
    fits = d in (2, 3) and len(places) == d + 2 and places[0] == shape[0]
    if not fits or places[-1] != d or (mode == "bicubic" and d == 3):
        also = ", or both with one axis and 3 more" * (mode != "bicubic")
        raise ValueError(
            f"{name}: for mode {mode!r} the input must be (n, channels, height, width) and the "
            f"grid (n, rows, columns, 2){also}, but the shapes are {shape} and {places}"
        )
    n, channels, *lengths = shape
    require(0 not in lengths, f"{name}: the input must have elements", shape)
    taps, size = [], n * math.prod(lengths)
    for axis, length in enumerate(lengths):
        x = (grid[..., d - 1 - axis] + 1) / 2
        x = x * (length - 1) if align_corners else x * length - 0.5
        taps.append(_taps(x, length, mode, padding_mode, bool(align_corners), -2.0 * size))
    # Of all pixels of all examples, and zeros for what lies beyond the ends.
    rows = moveaxis(input, 1, -1).reshape((size, channels))
    rows = concat([rows, create("zeros", (1, channels), like=rows)])
    example = create("arange", n, dtype="int64", like=rows).reshape((n, *[1] * d))
    out: Any = 0.0
    for corner in product(*taps):
        at: Any = example
        weight: Any = 1.0
        for (index, share), length in zip(corner, lengths, strict=True):
            at, weight = at * length + index, weight * share
        at = where(at < 0, size, at)
        values = take(rows, at.reshape((-1,)), axis=0).reshape((*at.shape, channels))
        out = out + values * weight[..., None]
    return moveaxis(out, -1, 1)


def _taps(x, length, mode, padding_mode, align_corners, beyond):
    """Pairs of indices along an axis and their weights, for the coordinates ``x``.

    beyond: the index of what lies beyond the ends.
    """

    def inside(x):
        if padding_mode == "reflection":
            x = _reflected(x, length, align_corners)
        if padding_mode == "zeros":
            return x
        # As in PyTorch, the coordinate of a place at the end gets no gradient.
        return where((x > 0) & (x < length - 1), x, clip(x, 0, length - 1).detach())

    if mode == "bicubic":
        first = floor(x)
        weights, first = _cubic_weights(x - first), first - 1
    else:
        x = inside(x)
        if padding_mode != "zeros":
            x = where(x == x, x, 0.0)  # as PyTorch has it
        first = _round(x) if mode == "nearest" else floor(x)
        share = x - first
        weights = [first * 0 + 1] if mode == "nearest" else [1 - share, share]
    pairs = []
    for i, weight in enumerate(weights):
        place = first.detach() + i
        if mode == "bicubic":
            place = inside(place)
        is_nan = place != place
        index = where(is_nan, 0.0, clip(place, 0, length - 1))
        is_inside = index == place
        if mode != "nearest":
            is_inside = is_inside | is_nan  # the weight is nan, too
        index = where(is_inside, index, beyond).astype(int64)
        pairs.append((index, where(is_inside, weight, 0.0)))
    return pairs


def _reflected(x, length, align_corners):
    """Coordinates in a mirror at both ends."""
    low = 0.0 if align_corners else -0.5
    span = length - 1 - 2 * low
    return low + span - abs(remainder(x - low, 2 * span) - span) if span else x * 0


def _cubic_weights(share):
    """The weights of four neighbours of a place, ``share`` beyond the second of them.

    Those of Keys (1981) with ``a = -0.75``, as PyTorch has them.
    """
    a = -0.75

    def near(x):  # up to 1
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):  # from 1 to 2
        return ((x - 5) * x + 8) * x * a - 4 * a

    return [far(share + 1), near(share), near(1 - share), far(2 - share)]


def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The grid for `grid_sample` that maps each place ``x`` of the result to ``theta @ (x, 1)``.

    theta: ``(n, 2, 3)``, or ``(n, 3, 4)`` for three axes.
    size: the shape of the result of `grid_sample`, ``(n, channels, *lengths)``.

    The grid is ``(n, *lengths, 2)`` or ``(n, *lengths, 3)``. For ``align_corners`` see
    `grid_sample`. Raises ValueError for shapes that do not fit, and TypeError for integers.
    """
    size = tuple(size) if isinstance(size, Sequence) else ()
    d = len(size) - 2
    theta = floating("affine_grid", theta, "theta")
    if d not in (2, 3) or min(size) < 1 or theta.shape != (size[0], d, d + 1):
        raise ValueError(
            f"affine_grid: theta must be (n, 2, 3) for a size (n, channels, height, width), or "
            f"(n, 3, 4) for one axis more, without 0, but they are {theta.shape} and {size}"
        )
    lengths = size[2:]
    axes = []
    for axis, length in enumerate(lengths):
        x = create("arange", length, like=theta)
        if align_corners:
            x = (2 * x - (length - 1)) / max(length - 1, 1)
        else:
            x = (2 * x + 1) / length - 1
        axes.append(broadcast_to(x.reshape((-1, *[1] * (d - 1 - axis))), lengths))
    ones = create("ones", lengths, like=theta)
    places = stack([*axes[::-1], ones], axis=-1).reshape((math.prod(lengths), d + 1))
    return (places @ theta.mT).reshape((size[0], *lengths, d))
