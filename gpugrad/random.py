"""Seeded random tensors, made directly on their device.

`manual_seed` makes a program repeatable. Each device has a generator of its own, and different
devices give different numbers. Dropout is the exception: a key decides which elements it
drops, and the key is the same on all devices. Inside `vmap` each example has its own numbers.
"""

from operator import index
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._arguments import takes_one_shape
from ._batched import active_levels, behind
from ._draws import note_draw
from ._foreign_names import answer
from ._tensor import Tensor
from .autograd.call import wrap
from .backends import Shape, as_shape, backend_for_device, parse_device
from .backends.dtypes import float32, float64, int64
from .backends.philox import Keys

__all__ = [
    "Generator",
    "default_generator",
    "integers",
    "manual_seed",
    "normal",
    "permutation",
    "uniform",
]
__dir__ = __all__.copy

_seed: int | None = None
_generators: dict[str, "Generator"] = {}


class Generator:
    """A stream of random numbers on one device.

    Its methods take ``shape``, an int or a tuple, and draw from the same distributions as the
    functions of the same names in this module.

    seed: an int of at least 0, or None for a seed from the operating system.
    """

    def __init__(self, seed: SupportsIndex | None = None, device: str = "cpu"):
        self.device = device
        self.backend = backend_for_device(device)
        self.reseed(None if seed is None else _checked(seed))

    def reseed(self, seed: int | None) -> None:
        self.source = self.backend.generator(seed, self.device)
        self._keys = Keys(seed, 1)

    def uniform(
        self,
        shape: Shape = (),
        *,
        low: float = 0.0,
        high: float = 1.0,
        dtype: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Uniform in ``[low, high)``."""
        if low > high:
            raise ValueError(f"uniform: low {low} is above high {high}; swap them")
        return self._floats("uniform", shape, dtype, high - low, low, requires_grad)

    def normal(
        self,
        shape: Shape = (),
        *,
        mean: float = 0.0,
        std: float = 1.0,
        dtype: Any = None,
        requires_grad: bool = False,
    ) -> Tensor:
        """Normal with mean ``mean`` and standard deviation ``std``."""
        if std < 0:
            raise ValueError(f"normal: std must be at least 0, not {std}")
        return self._floats("normal", shape, dtype, std, mean, requires_grad)

    def integers(self, low: int, high: int, shape: Shape = (), *, dtype: Any = None) -> Tensor:
        """Integers uniform in ``[low, high)``."""
        if low >= high:
            raise ValueError(f"integers: there is none in [{low}, {high}); high must be above low")
        dtype = self.backend.dtype(int64 if dtype is None else dtype)
        return _finish(self._draw("integers", shape, dtype, low, high), False)

    def permutation(self, n: SupportsIndex) -> Tensor:
        """The integers from 0 to ``n - 1`` in random order, int64."""
        try:
            n = index(n)
        except TypeError:
            raise TypeError(f"permutation: n must be an int, not {n!r}") from None
        if n < 0:
            raise ValueError(f"permutation: n must be at least 0, not {n}")
        note_draw(self)
        sizes = [level.size for level in active_levels()]
        if not sizes:
            return wrap(self.source.permutation(n), None)
        # For all examples at once: the order of random numbers is a random permutation.
        numbers = self.source.uniform((*sizes, n), self.backend.dtype(float64))
        with self.backend.scope(numbers):
            return _finish(self.backend.xp.argsort(numbers, axis=-1), False)

    def key(self) -> tuple[int, int]:
        """Two ints of 64 bits that decide what `gpugrad.dropout` drops; new ones at every call.

        They depend on the seed and on the number of keys taken so far. They are the same on every
        device, and no device is needed to make them.
        """
        note_draw(self)
        return self._keys.fresh()

    def get_state(self) -> tuple[Any, tuple[int, int]]:
        """The generator's position in its streams, for `set_state`; `gpugrad.save` can store it.

        A tuple ``(source, key)``. ``key`` is what `key` will return next, two ints from 0 to
        2**64 - 1. ``source`` is the position of all other draws. On a CUDA device it is two such
        ints. On the CPU and with other array libraries it is the state of NumPy's PCG64, a dict
        of a str and ints: ``{"bit_generator": "PCG64", "state": {"state": ..., "inc": ...},
        "has_uint32": ..., "uinteger": ...}``.
        """
        return self.source.get_state(), self._keys.state

    def set_state(self, state: tuple[Any, tuple[int, int]]) -> None:
        """Continue from a position that `get_state` returned for a generator like this one.

        The generator then draws the same numbers as after `get_state`. Raises ValueError, and
        changes nothing, if ``state`` is not the state of a generator on this kind of device.
        """
        before = self._keys.state
        try:
            source, key = state
            self._keys.restore(key)
            self.source.set_state(source)
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            self._keys.state = before
            raise ValueError(
                f"set_state: the state is not one of a generator on {self.device} "
                f"({type(error).__name__}: {error}); nothing has changed"
            ) from None

    def _draw(self, name, shape, dtype, *bounds):
        note_draw(self)
        try:
            shape = as_shape(shape)
            if levels := active_levels():
                shape = (*[level.size for level in levels], *shape)
            return getattr(self.source, name)(*bounds, shape, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from error

    def _floats(self, name, shape, dtype, scale, offset, requires_grad):
        """Numbers of the source's distribution ``name`` times ``scale`` plus ``offset``."""
        dtype = self.backend.dtype(float32 if dtype is None else dtype)
        if not self.backend.is_floating(dtype) or self.backend.is_complex(dtype):
            raise TypeError(f"{name}: dtype must be real floating, not {dtype}")
        array = self._draw(name, shape, dtype)
        if (scale, offset) != (1.0, 0.0):
            with self.backend.scope(array):
                array *= scale
                array += offset
        return _finish(array, requires_grad)


def _finish(array, requires_grad):
    result = behind(wrap(array, None), active_levels())
    return result.requires_grad_() if requires_grad else result


def _checked(seed):
    if isinstance(seed, bool) or not hasattr(seed, "__index__") or index(seed) < 0:
        raise ValueError(f"the seed must be an int of at least 0, not {seed!r}")
    return index(seed)


def manual_seed(seed: SupportsIndex) -> None:
    """Seed every device's default generator; an int of at least 0."""
    global _seed
    _seed = _checked(seed)
    for generator in list(_generators.values()):
        generator.reseed(_seed)


def default_generator(device: str | None = None) -> Generator:
    """The generator from which the functions of this module draw on ``device``."""
    known = _generators.get("cpu" if device is None else device)
    if known is not None:
        return known
    kind, number = parse_device("cpu" if device is None else device)
    name = "cpu" if kind == "cpu" else f"cuda:{number or 0}"
    # Two threads that arrive at once get the same generator, so that no key is given twice.
    return _generators.get(name) or _generators.setdefault(name, Generator(_seed, name))


@takes_one_shape
def uniform(
    shape: Shape = (),
    *,
    low: float = 0.0,
    high: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in ``[low, high)``, although rounding may give ``high``; float32 by default."""
    generator = default_generator(device)
    return generator.uniform(shape, low=low, high=high, dtype=dtype, requires_grad=requires_grad)


@takes_one_shape
def normal(
    shape: Shape = (),
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with mean ``mean`` and standard deviation ``std``; float32 by default."""
    generator = default_generator(device)
    return generator.normal(shape, mean=mean, std=std, dtype=dtype, requires_grad=requires_grad)


def integers(
    low: int, high: int, shape: Shape = (), *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Integers uniform in ``[low, high)``; int64 by default."""
    return default_generator(device).integers(low, high, shape, dtype=dtype)


def permutation(n: SupportsIndex, *, device: str | None = None) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order, int64."""
    return default_generator(device).permutation(n)


if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
