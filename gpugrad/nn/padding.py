"""Padding of the last axes of a tensor."""

from collections.abc import Sequence
from typing import Any

from .._arguments import one_of
from .._tensor import Tensor
from ..ops.manipulation import broadcast_to, concat, flip, sliced
from ..ops.padding import _pad as pad_by_constant
from .common import per_axis, shape_of
from .function_layer import OfAxes

MODES = "zeros", "reflect", "replicate", "circular"  # of layers; "zeros" is "constant" here


def pad(
    input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Tensor:
    """Extend the last axes at both ends: ``(..., length) -> (..., left + length + right)``.

    pad: how far, beginning with the last axis: ``(left, right, top, bottom, ...)``. Negative
        numbers shorten the axis, in mode ``"circular"`` before it is extended, else afterwards.
    mode: ``"constant"``; ``"reflect"``, as in a mirror on the last element; ``"replicate"``, by
        the last element; or ``"circular"``, by the elements at the other end, if there are enough.
    value: the constant; by default 0.

    Raises ValueError for a ``pad`` that does not fit the input and the mode.
    """
    widths = (pad,) if isinstance(pad, int) else tuple(pad)
    ndim = len(shape_of("pad", input))
    if len(widths) % 2 or len(widths) > 2 * ndim or not all(isinstance(w, int) for w in widths):
        raise ValueError(
            f"pad: pad must have two ints for each of at most {ndim} axes, the last axis first, "
            f"not {widths}"
        )
    if mode != "constant" and value is not None:
        raise ValueError(f"pad: value {value!r} is for mode 'constant', not {mode!r}")
    pairs = [(0, 0)] * (ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    if mode == "constant":
        return _pad_by_constant(input, pairs, 0 if value is None else value)
    one_of("pad: mode", mode, ("constant", *_MAKERS))
    make, most = _MAKERS[mode]
    for axis, (before, after) in enumerate(pairs):
        if not (before or after):
            continue
        if mode == "circular":
            input = _shortened(input, axis, before, after)
        length = input.shape[axis]
        if max(before, after) > max(most(length), 0):
            raise ValueError(
                f"pad: in mode {mode!r} an axis of {length} elements can be extended by 0 to "
                f"{max(most(length), 0)}, not by {before} and {after}"
            )
        parts = [make(input, axis, max(before, 0), True), input]
        parts.append(make(input, axis, max(after, 0), False))
        input = concat([part for part in parts if part.shape[axis]] or [input], axis=axis)
        if mode != "circular":
            input = _shortened(input, axis, before, after)
    return input


def _shortened(x, axis, before, after):
    """``x`` with fewer elements at those ends of an axis whose number is negative."""
    if min(before, after) >= 0:
        return x
    length = x.shape[axis]
    if length + min(before, 0) + min(after, 0) < 0:
        raise ValueError(
            f"pad: an axis of {length} elements cannot be shortened by {-before} and {-after}"
        )
    return sliced(x, axis, max(-before, 0), length - max(-after, 0))


def _pad_by_constant(input, pairs, value):
    for axis, pair in enumerate(pairs):
        input = _shortened(input, axis, *pair)
    if not any(max(pair) > 0 for pair in pairs):
        return input
    widths = tuple([(max(a, 0), max(b, 0)) for a, b in pairs])
    return pad_by_constant(input, widths=widths, value=value)


def _reflect(x, axis, n, before):
    start = 1 if before else x.shape[axis] - 1 - n
    return flip(sliced(x, axis, start, start + n), axis=axis)


def _replicate(x, axis, n, before):
    start = 0 if before else x.shape[axis] - 1
    part = sliced(x, axis, start, start + 1)
    return broadcast_to(part, (*x.shape[:axis], n, *x.shape[axis + 1 :]))


def _circular(x, axis, n, before):
    start = x.shape[axis] - n if before else 0
    return sliced(x, axis, start, start + n)


# By mode: a function that makes the elements beyond an end, and the most that there can be.
_MAKERS = {
    "reflect": (_reflect, lambda length: length - 1),
    "replicate": (_replicate, lambda length: float("inf") if length else 0),
    "circular": (_circular, lambda length: length),
}


class _Pad(OfAxes):
    """Extends the last axes; see `functional.pad`.

    padding: how far at every end, or at both ends of each axis, beginning with the last.

    Raises ValueError for another number of ints.
    """

    mode = "constant"
    _shown: tuple[str, ...] = ("padding",)

    def __init_subclass__(cls, mode: str | None = None, **others: Any) -> None:
        cls.mode = mode or cls.mode
        super().__init_subclass__(**others)

    def __init__(self, padding: int | Sequence[int]) -> None:
        name = f"{type(self).__name__}: padding"
        self.padding = per_axis(name, padding, 2 * self.axes, least=-(2**31))

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, self.mode)


class _ConstantPad(_Pad):
    _shown = "padding=", "value="

    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return pad(input, self.padding, self.mode, self.value)


class ConstantPad1d(_ConstantPad, axes=1):
    """Extends the last axis by a ``value``; see `functional.pad`.

    ``(..., length) -> (..., left + length + right)``, where ``padding`` is ``(left, right)`` or one
    int for both.
    """


class ConstantPad2d(_ConstantPad, axes=2):
    """Extends the last two axes by a ``value``; see `functional.pad`.

    ``(..., height, width) -> (..., top + height + bottom, left + width + right)``, where
    ``padding`` is ``(left, right, top, bottom)`` or one int for all.
    """


class ConstantPad3d(_ConstantPad, axes=3):
    """Extends the last three axes by a ``value``; see `functional.pad`.

    ``(..., d, h, w) -> (..., front + d + back, top + h + bottom, left + w + right)``, where
    ``padding`` is ``(left, right, top, bottom, front, back)`` or one int for all.
    """


class ZeroPad1d(_Pad, axes=1):
    """Extends the last axis by zeros; see `functional.pad`.

    ``(..., length) -> (..., left + length + right)``, where ``padding`` is ``(left, right)`` or one
    int for both.
    """


class ZeroPad2d(_Pad, axes=2):
    """Extends the last two axes by zeros; see `functional.pad`.

    ``(..., height, width) -> (..., top + height + bottom, left + width + right)``, where
    ``padding`` is ``(left, right, top, bottom)`` or one int for all.
    """


class ZeroPad3d(_Pad, axes=3):
    """Extends the last three axes by zeros; see `functional.pad`.

    ``(..., d, h, w) -> (..., front + d + back, top + h + bottom, left + w + right)``, where
    ``padding`` is ``(left, right, top, bottom, front, back)`` or one int for all.
    """


class ReflectionPad1d(_Pad, axes=1, mode="reflect"):
    """Extends the last axis as in a mirror on its ends; see `functional.pad`.

    ``(..., length) -> (..., left + length + right)``, where ``padding`` is ``(left, right)`` or one
    int for both.
    """


class ReflectionPad2d(_Pad, axes=2, mode="reflect"):
    """Extends the last two axes as in a mirror on their ends; see `functional.pad`.

    ``(..., height, width) -> (..., top + height + bottom, left + width + right)``, where
    ``padding`` is ``(left, right, top, bottom)`` or one int for all.
    """


class ReflectionPad3d(_Pad, axes=3, mode="reflect"):
    """Extends the last three axes as in a mirror on their ends; see `functional.pad`.

    ``(..., d, h, w) -> (..., front + d + back, top + h + bottom, left + w + right)``, where
    ``padding`` is ``(left, right, top, bottom, front, back)`` or one int for all.
    """


class ReplicationPad1d(_Pad, axes=1, mode="replicate"):
    """Extends the last axis by its first and last element; see `functional.pad`.

    ``(..., length) -> (..., left + length + right)``, where ``padding`` is ``(left, right)`` or one
    int for both.
    """


class ReplicationPad2d(_Pad, axes=2, mode="replicate"):
    """Extends the last two axes by their first and last elements; see `functional.pad`.

    ``(..., height, width) -> (..., top + height + bottom, left + width + right)``, where
    ``padding`` is ``(left, right, top, bottom)`` or one int for all.
    """


class ReplicationPad3d(_Pad, axes=3, mode="replicate"):
    """Extends the last three axes by their first and last elements; see `functional.pad`.

    ``(..., d, h, w) -> (..., front + d + back, top + h + bottom, left + w + right)``, where
    ``padding`` is ``(left, right, top, bottom, front, back)`` or one int for all.
    """


class CircularPad1d(_Pad, axes=1, mode="circular"):
    """Extends the last axis by the elements at its other end; see `functional.pad`.

    ``(..., length) -> (..., left + length + right)``, where ``padding`` is ``(left, right)`` or one
    int for both.
    """


class CircularPad2d(_Pad, axes=2, mode="circular"):
    """Extends the last two axes by the elements at their other ends; see `functional.pad`.

    ``(..., height, width) -> (..., top + height + bottom, left + width + right)``, where
    ``padding`` is ``(left, right, top, bottom)`` or one int for all.
    """


class CircularPad3d(_Pad, axes=3, mode="circular"):
    """Extends the last three axes by the elements at their other ends; see `functional.pad`.

    ``(..., d, h, w) -> (..., front + d + back, top + h + bottom, left + w + right)``, where
    ``padding`` is ``(left, right, top, bottom, front, back)`` or one int for all.
    """
