"""Seeded random tensors, made on the device they are asked for.

`manual_seed` makes a program repeat. Each device has a generator of its own; the
numbers on one are not those on another.
"""


from .autograd.operation import _tensor
from .backends import backend_for_device, parse_device
from .backends.numpy import float32, int64

_seed: int | None = None
_generators: dict = {}


class Generator:
    """A stream of random numbers on one device, for a library's own use or the user's.

    seed: an int, or None for one drawn from the operating system.
    """

    def __init__(self, seed=None, device="cpu"):
        self.device = device
        self.backend = backend_for_device(device)
        self.source = self.backend.generator(seed, device)

    def _finish(self, array, requires_grad):
        result = _tensor(array, None)
        return result.requires_grad_() if requires_grad else result

    def uniform(self, shape=(), *, low=0.0, high=1.0, dtype=None, requires_grad=False):
        """Uniform in ``[low, high)``."""
        array = self.source.uniform(_shape(shape), float32 if dtype is None else dtype)
        if (low, high) != (0.0, 1.0):
            array *= high - low
            array += low
        return self._finish(array, requires_grad)

    def normal(self, shape=(), *, mean=0.0, std=1.0, dtype=None, requires_grad=False):
        """Normal with the mean and standard deviation given."""
        array = self.source.normal(_shape(shape), float32 if dtype is None else dtype)
        if (mean, std) != (0.0, 1.0):
            array *= std
            array += mean
        return self._finish(array, requires_grad)

    def integers(self, low, high, shape=(), *, dtype=None):
        """Integers uniform in ``[low, high)``."""
        array = self.source.integers(low, high, _shape(shape), int64 if dtype is None else dtype)
        return self._finish(array, False)

    def permutation(self, n):
        """The integers from 0 to ``n - 1`` in random order."""
        return self._finish(self.source.permutation(n), False)


def _shape(shape):
    return (shape,) if isinstance(shape, int) else tuple(shape)


def manual_seed(seed):
    """Seed every device's default generator; an int of at least 0."""
    global _seed
    if not isinstance(seed, int) or seed < 0:
        raise ValueError(f"manual_seed: the seed must be an int of at least 0, not {seed!r}")
    _seed = seed
    _generators.clear()


def default_generator(device=None):
    """The generator that the functions of this module draw from on ``device``."""
    kind, index = parse_device(device or "cpu")
    name = "cpu" if kind == "cpu" else f"cuda:{index or 0}"
    if name not in _generators:
        _generators[name] = Generator(_seed, name)
    return _generators[name]


def uniform(shape=(), *, low=0.0, high=1.0, dtype=None, device=None, requires_grad=False):
    """Uniform in ``[low, high)``, float32 unless told."""
    generator = default_generator(device)
    return generator.uniform(shape, low=low, high=high, dtype=dtype, requires_grad=requires_grad)


def normal(shape=(), *, mean=0.0, std=1.0, dtype=None, device=None, requires_grad=False):
    """Normal with the mean and standard deviation given, float32 unless told."""
    generator = default_generator(device)
    return generator.normal(shape, mean=mean, std=std, dtype=dtype, requires_grad=requires_grad)


def integers(low, high, shape=(), *, dtype=None, device=None):
    """Integers uniform in ``[low, high)``, int64 unless told."""
    return default_generator(device).integers(low, high, shape, dtype=dtype)


def permutation(n, *, device=None):
    """The integers from 0 to ``n - 1`` in random order, int64."""
    return default_generator(device).permutation(n)
