"""Resampling of images and other arrays to another size."""

from collections.abc import Sequence
from typing import Any

from .._arguments import one_of, require
from .._creation import create
from .._tensor import Tensor
from ..ops.elementwise import clip, floor, where
from ..ops.indexing import take
from ..ops.manipulation import repeat
from .common import LENGTHS, floating, per_axis, shape_of, spread
from .function_layer import FunctionLayer
from .pooling import _adaptive_avg_pool, _along_axis
from .sampling import _cubic_weights

# By mode: the numbers of axes that are resampled.
_MODES: dict[str, tuple[int, ...]] = dict.fromkeys(("nearest", "nearest-exact"), (1, 2, 3))
_MODES |= {"linear": (1,), "bilinear": (2,), "trilinear": (3,), "bicubic": (2,), "area": (1, 2, 3)}


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resample all axes but the first two: ``(n, channels, *lengths) -> (n, channels, *size)``.

    size: the new lengths.
    scale_factor: the factors of the lengths, which are rounded down, if ``size`` is not given.
    mode: ``"nearest"``; ``"nearest-exact"``, which has no bias towards the start; ``"linear"``
        for one axis, ``"bilinear"`` for two and ``"trilinear"`` for three; ``"bicubic"`` for two;
        or ``"area"``, the means of windows.
    align_corners: for linear modes and the cubic one, whether the centres of the first and the last
        elements keep their places; by default the outer edges of these elements do.
    recompute_scale_factor: whether the places at which to take values follow from the quotient of
        the lengths, rather than from ``scale_factor``. Without it a factor counts even if it leaves
        a length as it is, where PyTorch copies the elements.
    antialias: must be False; for smaller images, use ``"area"``.

    In the linear modes and the cubic one, an element that is inf or nan makes all of its row and
    column nan, since these are products with matrices of weights.

    Raises ValueError for other modes, and parameters that do not fit; and TypeError for integers
    in all modes but the nearest ones.
    """
    one_of("interpolate: mode", mode, _MODES)
    n = len(shape_of("interpolate", input)) - 2
    if n not in _MODES[mode]:
        layouts = " or ".join([f"(n, channels, {LENGTHS[k]})" for k in _MODES[mode]])
        raise ValueError(
            f"interpolate: for mode {mode!r} the input must be {layouts}, not of shape "
            f"{input.shape}"
        )
    if antialias:
        raise ValueError("interpolate: antialias is not supported; mode 'area' takes means")
    is_smooth = "linear" in mode or mode == "bicubic"
    fits = is_smooth or align_corners is None
    require(fits, "interpolate: align_corners is for linear modes and the cubic one", mode)
    lengths = input.shape[2:]
    require(0 not in lengths, "interpolate: the input must have elements", input.shape)
    sizes, ratios = _sizes(lengths, size, scale_factor, recompute_scale_factor)
    if mode == "area":
        return _adaptive_avg_pool("interpolate", n, input, sizes)
    for axis, (m, length, ratio) in enumerate(zip(sizes, lengths, ratios, strict=True)):
        if is_smooth:
            input = _smooth(input, axis - n, m, length, ratio, align_corners, mode)
        elif mode == "nearest" and m % length == 0 and ratio == length / m:
            input = repeat(input, m // length, axis=axis + 2)
        else:
            half = mode == "nearest-exact"
            if ratio == length / m:  # an integer may be the exact place
                places = [(2 * i + half) * length // (2 * m) for i in range(m)]
            else:
                places = [min(int((i + half / 2) * ratio), length - 1) for i in range(m)]
            input = take(input, create("asarray", places, dtype="int64", like=input), axis=axis + 2)
    return input


def _sizes(lengths, size, scale_factor, recompute):
    """The new lengths, and by axis how many old elements there are for a new one."""
    n = len(lengths)
    is_one = (size is None) != (scale_factor is None)
    require(is_one, "interpolate: give either size or scale_factor", (size, scale_factor))
    if size is not None:
        if recompute:
            raise ValueError("interpolate: recompute_scale_factor is for scale_factor, not size")
        sizes = per_axis("interpolate: size", size, n)
    else:
        factors = spread(scale_factor, n)
        fits = len(factors) == n and all(isinstance(f, (int, float)) and f > 0 for f in factors)
        what = f"interpolate: scale_factor must be one or {n} positive numbers"
        require(fits, what, scale_factor)
        sizes = tuple([int(m * f) for m, f in zip(lengths, factors, strict=True)])
        if min(sizes) < 1:
            raise ValueError(
                f"interpolate: lengths {lengths} times scale_factor {scale_factor} leave nothing"
            )
        if not recompute:
            return sizes, [1 / f for f in factors]
    return sizes, [length / m for m, length in zip(sizes, lengths, strict=True)]


def _smooth(x, axis, m, length, ratio, align_corners, mode):
    """Interpolate along an axis, by a product with the matrix of weights (m, length)."""
    if m == length and (align_corners or ratio == 1):
        return x
    x = floating(f"interpolate in mode {mode!r}", x)
    wide: Any = "float64" if str(x.dtype).endswith("float64") else "float32"
    places = create("arange", m, dtype=wide, like=x)
    ends = (length - 1) / max(m - 1, 1)
    places = places * ends if align_corners else (places + 0.5) * ratio - 0.5
    places = places.reshape((m, 1))
    old = create("arange", length, dtype=wide, like=x)
    if mode == "bicubic":
        first = floor(places)
        taps = enumerate(_cubic_weights(places - first), -1)
        weights = sum([where(clip(first + i, 0, length - 1) == old, w, 0.0) for i, w in taps])
    else:
        weights = clip(1 - abs(clip(places, 0, length - 1) - old), 0, None)
    return _along_axis(weights.to(x.dtype), x, axis)


_OPTIONS = "size scale_factor mode align_corners recompute_scale_factor"


class Upsample(FunctionLayer, function=interpolate, options=_OPTIONS):
    """Resample images to another size; see `functional.interpolate`, also for the parameters.

    ``(n, channels, *lengths) -> (n, channels, *size)``, where the default of ``size`` is
    ``lengths * scale_factor``, rounded down.
    """

    def _set_options(self, scale_factor, **options):
        if isinstance(scale_factor, Sequence):
            scale_factor = tuple([float(f) for f in scale_factor])
        elif scale_factor is not None:
            scale_factor = float(scale_factor)
        super()._set_options(scale_factor=scale_factor, **options)

    def extra_repr(self) -> str:
        kept = self._kwargs()
        name = "size" if kept["scale_factor"] is None else "scale_factor"
        return f"{name}={kept[name]}, mode={kept['mode']!r}"
