"""Seeded random tensors, made directly on their device, and random choices among elements.

`manual_seed` makes a program repeatable. Each device has a generator of its own, and different
devices give different numbers. Dropout is the exception: a key, which is the same on all devices,
decides which elements it drops. Inside `vmap` each example has its own numbers.
"""

from math import inf, prod
from typing import Any, SupportsIndex

from ._arguments import axis_of, require, whole
from ._batched import active_levels, behind
from ._draws import note_draw
from ._dtypes import isdtype
from ._foreign_names import explain_names, explains_arguments
from ._tensor import Tensor
from ._thread_state import thread
from .autograd import call
from .autograd.call import wrap
from .backends import Shape, as_shape, backend_for_device
from .backends.dtypes import float32, float64, int64
from .backends.philox import Keys
from .ops.elementwise import minimum, where
from .ops.indexing import take
from .ops.manipulation import astype, broadcast_to, expand_dims, reshape
from .ops.reductions import count_nonzero, cumulative_sum
from .ops.searching import argmax, searchsorted, topk

__all__ = """
    Generator bernoulli choice default_generator integers manual_seed multinomial normal permutation
    shuffle uniform
""".split()
explain_names(__name__)

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
        self.reseed(seed)

    def reseed(self, seed: SupportsIndex | None) -> None:
        """Begin the stream again, from an int of at least 0, or at random for None."""
        _refuse_in_recordings()
        self._begin(None if seed is None else whole("the seed", seed, 0))

    def _begin(self, seed):
        self.backend = backend_for_device(self.device)
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
        require(-inf < low <= high < inf, "uniform: low must be <= high, both finite", (low, high))
        if high - low > 65504:  # the range, unlike its ends, may be too large for float16
            half = self._floats("uniform", shape, dtype, high / 2 - low / 2, low / 2, False)
            return (half + half).requires_grad_(requires_grad)
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
        require(not std < 0, "normal: std must be at least 0", std)
        return self._floats("normal", shape, dtype, std, mean, requires_grad)

    def integers(self, low: int, high: int, shape: Shape = (), *, dtype: Any = None) -> Tensor:
        """Integers uniform in ``[low, high)``."""
        try:
            values = range(low, high)
        except TypeError as error:
            usage = "write the bounds and the shape, as in integers(0, 10, (2, 3))"
            raise TypeError(f"integers: {error}; {usage}") from None
        require(values, "integers: high must be above low", (low, high))
        dtype = self.backend.dtype(int64 if dtype is None else dtype)
        return _finish(self._draw("integers", shape, dtype, low, high), False)

    def permutation(self, n: SupportsIndex) -> Tensor:
        """The integers from 0 to ``n - 1`` in random order, int64."""
        n = whole("permutation: n", n, 0)
        note_draw(self)
        if not (sizes := [level.size for level in active_levels()]):
            return wrap(self._drawn("permutation", n), None)
        # For all examples at once: the order of random numbers is a random permutation.
        numbers = self._drawn("uniform", (*sizes, n), self.backend.dtype(float64))
        with self.backend.scope(numbers):
            return _finish(self.backend.xp.argsort(numbers, axis=-1), False)

    def shuffle(self, x: Any, axis: int = 0) -> Tensor:
        """The slices of ``x`` along ``axis`` in random order, as a new tensor."""
        x = self._taken(x)
        axis = axis_of("shuffle", axis, x.ndim)
        return take(x, self.permutation(x.shape[axis]), axis=axis)

    def choice(
        self, a: Any, shape: Shape = (), *, replace: bool = True, p: Any = None, axis: int = 0
    ) -> Tensor:
        """Slices of ``a`` along ``axis``, drawn at random; with an int for ``a``, numbers below it.

        replace: whether a slice may be drawn several times.
        p: ``(n,)``, the slices' weights, as for `multinomial`; by default all are equally likely.

        The axis becomes the axes of ``shape``. Raises ValueError if there are too few slices.
        """
        result_shape = as_shape(shape)
        count = prod(result_shape)
        if isinstance(a, SupportsIndex) and not getattr(a, "shape", ()):
            a = n = whole("choice: a", a, 0)
        else:
            a = self._taken(a)
            axis = axis_of("choice", axis, a.ndim)
            n = a.shape[axis]
        if count > n and (n == 0 or not replace):
            raise ValueError(f"choice: cannot draw {count} of {n}" + " once each" * (not replace))
        if p is not None:
            p = self._taken(p)
            require(p.shape == (n,), f"choice: p must have the shape ({n},)", p.shape)
            places = self.multinomial(p, count, replacement=replace)
        else:
            places = self.integers(0, max(n, 1), count) if replace else self.permutation(n)[:count]
        if not isinstance(a, Tensor):
            return reshape(places, result_shape)
        chosen = take(a, places, axis=axis)
        return reshape(chosen, (*a.shape[:axis], *result_shape, *a.shape[axis + 1 :]))

    def bernoulli(self, p: Any, shape: Shape | None = None, *, dtype: Any = None) -> Tensor:
        """1 with probability ``p``, else 0.

        p: a number or a floating tensor; its shape is that of the result, and so is its dtype,
            float32 for a number, unless others are given.

        The result carries no gradient. Elements of a tensor that are not from 0 to 1 count as the
        nearer of these; a number raises ValueError.
        """
        if isinstance(p, (int, float)):
            require(0 <= p <= 1, "bernoulli: p must be from 0 to 1", p)
            shape, dtype = () if shape is None else shape, float32 if dtype is None else dtype
        else:
            p = self._taken(p)
            if not isdtype(p.dtype, "real floating"):
                raise TypeError(f"bernoulli: p must be real floating, not {p.dtype}")
            shape, dtype = p.shape if shape is None else shape, p.dtype if dtype is None else dtype
            p = broadcast_to(p, as_shape(shape))
        return astype(self.uniform(shape, dtype=float64) < p, dtype)

    def multinomial(self, input: Any, num_samples: int, replacement: bool = False) -> Tensor:
        """Indices drawn with the probabilities that ``input`` is proportional to, int64.

        input: weights of at least 0, ``(n,)`` or ``(rows, n)``, of which some are positive. The
            result is ``(num_samples,)`` or ``(rows, num_samples)``.
        replacement: whether an index may be drawn several times in a row.

        Raises ValueError for other shapes, and without replacement for more samples than weights.
        The weights themselves are not checked, as this would wait for the device: without
        replacement, a weight of 0 is drawn after all others.
        """
        weights = astype(self._taken(input).detach(), float64)
        number = whole("multinomial: num_samples", num_samples, 0)
        fits = weights.ndim in (1, 2)
        require(fits, "multinomial: input must be (n,) or (rows, n)", weights.shape)
        n = weights.shape[-1]
        if number > n and (n == 0 or not replacement):
            raise ValueError(f"multinomial: cannot draw {number} of {n} weights")
        if not replacement:
            # Each index gets the time of an event whose rate is its weight; the first events win.
            times = -(1 - self.uniform(weights.shape, dtype=float64)).log()
            times = where(weights > 0, times / where(weights > 0, weights, 1.0), inf)
            return topk(times, number, largest=False).indices
        if not number:
            return self.integers(0, 1, (*weights.shape[:-1], 0))
        sums = cumulative_sum(weights, axis=-1)
        drawn = self.uniform((*weights.shape[:-1], number), dtype=float64) * sums[..., -1:]
        if weights.ndim == 1:
            places = searchsorted(sums, drawn, side="right")
        else:
            places = count_nonzero(expand_dims(sums, -2) <= expand_dims(drawn, -1), axis=-1)
        # Rounding may give the total itself, but never an index after the last positive weight.
        return minimum(places, argmax(sums, axis=-1, keepdims=True))

    def _taken(self, x):
        """``x`` as a tensor; anything that is not one is put on the generator's device."""
        return x if isinstance(x, Tensor) else call.namespace.asarray(x, device=self.device)

    def key(self) -> tuple[int, int]:
        """Two ints of 64 bits that decide what `gpugrad.dropout` drops; new ones at every call.

        They depend on the seed and on the number of keys taken so far. They are the same on every
        device, and no device is needed to make them.
        """
        note_draw(self)
        return self._keys.fresh() if thread.recorder is None else thread.recorder.draw_key(self)

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
        if not thread.repeats:
            _refuse_in_recordings()
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
            shape = (*[level.size for level in active_levels()], *as_shape(shape))
            return self._drawn(name, *bounds, shape, dtype)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{name}: {error}") from error

    def _drawn(self, name, *args):
        """What the source's method draws; while `compile` records, it notes the draw."""
        if thread.recorder is not None:
            return thread.recorder.draw(self, name, args)
        return getattr(self.source, name)(*args)

    def _floats(self, name, shape, dtype, scale, offset, requires_grad):
        """Numbers of the source's distribution ``name`` times ``scale`` plus ``offset``."""
        dtype = self.backend.dtype(float32 if dtype is None else dtype)
        if not self.backend.is_floating(dtype) or self.backend.is_complex(dtype):
            raise TypeError(f"{name}: dtype must be real floating, not {dtype}")
        scale, offset = float(+scale), float(+offset)  # a tensor's gradient would be lost
        array = self._draw(name, shape, dtype)
        if (scale, offset) != (1.0, 0.0):
            with self.backend.scope(array):
                array *= scale
                array += offset
        return _finish(array, requires_grad)


def _finish(array, requires_grad):
    result = behind(wrap(array, None), active_levels())
    return result.requires_grad_() if requires_grad else result


def _refuse_in_recordings():
    """Refuse to seed a generator while `compile` records: it can repeat draws, but no seeding."""
    if thread.recorder is not None:
        thread.recorder.refuse_seed()


def manual_seed(seed: SupportsIndex) -> None:
    """Seed every device's default generator; an int of at least 0."""
    global _seed
    _refuse_in_recordings()
    _seed = whole("the seed", seed, 0)
    for generator in list(_generators.values()):
        generator.reseed(_seed)


def default_generator(device: str | None = None) -> Generator:
    """The generator from which the functions of this module draw on ``device``."""
    name = "cpu" if device is None else "cuda:0" if device == "cuda" else device
    if name not in _generators:
        generator = object.__new__(Generator)
        generator.device = name
        generator._begin(_seed)
        # Two threads that arrive at once get the same generator, so that no key is given twice.
        _generators.setdefault(name, generator)
    return _generators[name]


@explains_arguments
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


@explains_arguments
def normal(
    shape: Shape = (),
    *,
    mean: float = 0.0,
    std: float = 1.0,
    dtype: Any = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with mean ``mean`` and standard deviation ``std``; float32 by default.

    The two are numbers; for tensors that require grad write ``mean + std * normal(shape)``.
    """
    generator = default_generator(device)
    return generator.normal(shape, mean=mean, std=std, dtype=dtype, requires_grad=requires_grad)


@explains_arguments
def integers(
    low: int, high: int, shape: Shape = (), *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """Integers uniform in ``[low, high)``; int64 by default."""
    return default_generator(device).integers(low, high, shape, dtype=dtype)


def permutation(n: SupportsIndex, *, device: str | None = None) -> Tensor:
    """The integers from 0 to ``n - 1`` in random order, int64."""
    return default_generator(device).permutation(n)


def shuffle(x: Any, axis: int = 0) -> Tensor:
    """The slices of ``x`` along ``axis`` in random order.

    The result is a new tensor, through which gradients flow: tensors are values, so that, unlike
    NumPy's function, this one leaves ``x`` as it is.
    """
    return _generator_for(x).shuffle(x, axis)


def choice(
    a: Any,
    shape: Shape = (),
    *,
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    device: str | None = None,
) -> Tensor:
    """Slices of ``a`` along ``axis``, drawn at random; with an int for ``a``, numbers below it.

    replace: whether a slice may be drawn several times.
    p: ``(n,)``, the slices' weights, as for `multinomial`; by default all are equally likely.
    device: where to draw numbers below an int; by default the CPU.

    The axis becomes the axes of ``shape``. Raises ValueError if there are too few slices.
    """
    return _generator_for(a, device).choice(a, shape, replace=replace, p=p, axis=axis)


def bernoulli(
    p: Any, shape: Shape | None = None, *, dtype: Any = None, device: str | None = None
) -> Tensor:
    """1 with probability ``p``, else 0; without gradient.

    p: a number or a floating tensor; its shape is that of the result, and so is its dtype,
        float32 for a number, unless others are given.

    Raises ValueError if a tensor's shape does not broadcast to ``shape``.
    """
    return _generator_for(p, device).bernoulli(p, shape, dtype=dtype)


def multinomial(input: Any, num_samples: int, replacement: bool = False) -> Tensor:
    """Indices drawn with the probabilities that ``input`` is proportional to, int64.

    input: weights of at least 0, ``(n,)`` or ``(rows, n)``, of which some are positive. The result
        is ``(num_samples,)`` or ``(rows, num_samples)``.
    replacement: whether an index may be drawn several times in a row.

    Raises ValueError for other shapes, and without replacement for more samples than weights.
    """
    return _generator_for(input).multinomial(input, num_samples, replacement)


def _generator_for(x, device=None):
    """The default generator of a device, by default that of a tensor or array."""
    if device is None and hasattr(x, "shape"):
        device = call.namespace.asarray(x).device
    return default_generator(device)
