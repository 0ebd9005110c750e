"""Helpers of several layers: checks of arguments, and tensors made like others."""

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from .._arguments import check_floating, check_type, require
from .._batched import levels_of
from .._creation import asarray
from .._tensor import Tensor
from .._thread_state import thread
from ..random import Generator, default_generator

Ints = int | Sequence[int]
LENGTHS = "", "length", "height, width", "depth, height, width"  # by the number of axes


def spread(value: Any, n: int) -> tuple[Any, ...]:
    """The items of ``value``, a tuple, a list or a single item; if there is one, ``n`` times."""
    values = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    return values * n if len(values) == 1 else values


def per_axis(name: str, value: Any, n: int, least: int = 1) -> tuple[int, ...]:
    """``value``, an int or a sequence of one or ``n`` ints, as ``n`` ints of at least ``least``."""
    values = spread(value, n)
    if len(values) != n or not all(isinstance(v, int) and v >= least for v in values):
        raise ValueError(f"{name} must be one or {n} ints of at least {least}, not {value!r}")
    return values


def shape_of(name: str, x: Any, which: str = "the input") -> tuple[int, ...]:
    """The shape of a tensor or an array; TypeError, which says ``which``, for anything else."""
    shape: Any = getattr(x, "shape", None)
    if shape is None:
        check_type(x, Tensor, f"{name}: {which} must be a Tensor or an array")
    return tuple(shape)


def floating(name: str, x: Any, which: str = "the input") -> Tensor:
    """A tensor or an array as a Tensor; TypeError, which says ``which``, unless it is floating."""
    try:
        check_floating(x, f"{name}: {which}", "; use astype")
    except AttributeError:  # not a Tensor
        shape_of(name, x, which)
        return floating(name, asarray(x), which)
    return x


def check_axes(name: str, input: Tensor, n: int, channels: Any = "channels") -> None:
    """Raise ValueError unless an input has channels and ``n`` more axes, or a batch of these.

    channels: the required number of channels; or, if any number will do, a name for the error.
    """
    shape = shape_of(name, input)
    fits = len(shape) in (n + 1, n + 2)
    if not fits or (type(channels) is int and shape[-n - 1] != channels):
        axes = f"{channels}, {LENGTHS[n]}"
        raise ValueError(f"{name}: the input must be (n, {axes}) or ({axes}), not of shape {shape}")


def with_examples(name, input, n, channels="channels"):
    """``input`` with an axis of examples, and whether this axis is new; see `check_axes`."""
    check_axes(name, input, n, channels)
    is_single = input.ndim == n + 1
    return input.reshape((1, *input.shape)) if is_single else input, is_single


def check_shape(x: Any, shape: tuple[int, ...], message: str, *parts: Any) -> None:
    """Raise ValueError unless ``x`` is None or has this shape.

    message: the beginning of the error, a format for the parts.
    """
    found = getattr(x, "shape", type(x).__name__)
    if x is not None and found != shape:
        raise ValueError(f"{message.format(*parts)} must have shape {shape}, not {found}")


def padding_row(name: str, padding_idx: int | None, rows: int) -> int | None:
    """``padding_idx``, counted from the start; ValueError if it is not one of the rows."""
    if padding_idx is None:
        return None
    if not -rows <= padding_idx < rows:
        raise ValueError(f"{name}: padding_idx {padding_idx} is not one of {rows} rows")
    return padding_idx % rows


def can_be_read(x: Tensor) -> bool:
    """Whether the host may read values of ``x``: not in `vmap`, and not in a recorded function."""
    return not levels_of(x) and thread.recorder is None


def largest(x: Tensor, bound: int) -> int:
    """The largest of the integers ``x``; the bound if ``x`` is empty or cannot be read."""
    return int(x.max()) if x.size and can_be_read(x) else bound


def check_probability(name, p):
    require(0 <= p <= 1, f"{name}: the probability p must be from 0 to 1", p)


def generator_for(x: Tensor, generator: Generator | None) -> Generator:
    """``generator``; or the default one of the device of ``x``, or of the CPU if that has none."""
    return generator or default_generator(x.device if x.device.startswith("cuda") else "cpu")


def public(kind: type, package: str, modules: str) -> dict[str, Any]:
    """The objects of a type that modules define, except those with a leading underscore."""
    found = {}
    for module in [import_module(f"{package}.{name}") for name in modules.split()]:
        for name, x in vars(module).items():
            if isinstance(x, kind) and x.__module__ == module.__name__ and name[0] != "_":
                found[name] = x
    return found
