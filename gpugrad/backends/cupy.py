"""CuPy: CUDA devices. Imported when one is asked for.

What CuPy or array-api-compat's namespace for it lack or get wrong is mended here.
"""

from types import ModuleType

from .base import Backend
from .registry import parse_device

try:
    import cupy
except ImportError as error:
    raise RuntimeError(
        "CUDA needs CuPy, which is not installed; "
        "install gpugrad[cuda13x] for CUDA 13 or gpugrad[cuda12x] for CUDA 12"
    ) from error

from array_api_compat import cupy as standard

xp = ModuleType("gpugrad.backends.cupy.xp", "CuPy's namespace as ops use it.")
vars(xp).update({n: getattr(standard, n) for n in dir(standard) if not n.startswith("__")})


class CuPy(Backend):
    name = "cupy"
    xp = xp
    array_types = (cupy.ndarray,)

    def check_device(self, device):
        """RuntimeError with CUDA's own words unless ``device`` is there."""
        _, index = parse_device(device)
        try:
            count = cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError as error:
            raise RuntimeError(f"CuPy is installed but finds no CUDA device: {error}") from error
        if (index or 0) >= count:
            raise RuntimeError(f"device cuda:{index} is not there: CUDA finds {count}")

    def device(self, array):
        return f"cuda:{array.device.id}"

    def _scope(self, device):
        _, index = parse_device(device or "cuda")
        return cupy.cuda.Device(index)

    def asarray(self, data, *, dtype=None, device=None, copy=None):
        if isinstance(data, cupy.ndarray) and device is None:
            device = self.device(data)
        with self._scope(device):
            if copy is False:
                return standard.asarray(data, dtype=dtype, copy=False)
            return cupy.array(data, dtype=dtype, copy=bool(copy))

    def to_device(self, array, device):
        return self.asarray(array, device=device)

    def to_numpy(self, array):
        return cupy.asnumpy(array)

    def is_floating(self, dtype):
        return dtype.kind in "fc"

    def create(self, name, *args, dtype, device=None, like=None, **keywords):
        with self._scope(device) if like is None else like.device:
            return getattr(xp, name)(*args, dtype=dtype, **keywords)

    def buffer(self, array):
        return array.data.mem.ptr

    def is_unshared(self, array):
        return array.base is None

    def generator(self, seed, device):
        return Random(seed, self._scope(device))


class Random:
    """Seeded random arrays made on the GPU."""

    def __init__(self, seed, scope):
        self.scope = scope
        with scope:
            self.rng = cupy.random.default_rng(seed)

    def uniform(self, shape, dtype):
        with self.scope:
            return self._floating(self.rng.random, shape, dtype)

    def normal(self, shape, dtype):
        with self.scope:
            return self._floating(self.rng.standard_normal, shape, dtype)

    def _floating(self, draw, shape, dtype):
        if dtype in (cupy.float32, cupy.float64):
            return draw(shape, dtype=dtype)
        return draw(shape, dtype=cupy.float32).astype(dtype)

    def integers(self, low, high, shape, dtype):
        with self.scope:
            return self.rng.integers(low, high, shape, dtype=dtype)

    def permutation(self, n):
        # The generator has none; equal keys, which would bias it, are all but impossible.
        with self.scope:
            return cupy.argsort(self.rng.random(n, dtype=cupy.float64))


def _scatter_add(values, /, shape, key):
    with values.device:
        out = cupy.zeros(shape, values.dtype)
        keys = key if type(key) is tuple else (key,)
        if any(isinstance(k, cupy.ndarray) for k in keys):
            cupy.add.at(out, key, values)
        else:
            out[key] = values
        return out


def _one_hot(labels, /, n):
    with labels.device:
        return labels[..., None] == cupy.arange(n, dtype=labels.dtype)


def _last_written(x, /, key):
    """As the others; of repeated indices the largest position wins, which cupy.maximum.at decides."""
    with x.device:
        count = x[key].size
        numbers = cupy.arange(count).reshape(x[key].shape)
        places = cupy.full(x.shape, -1, dtype=cupy.int64)
        cupy.maximum.at(places, key, numbers)
        return places[key] == numbers


def _unstack(x, /, *, axis=0):
    return tuple(cupy.moveaxis(x, axis, 0))


backend = CuPy()
for _function in (_scatter_add, _one_hot, _last_written, _unstack):
    setattr(xp, _function.__name__[1:], _function)
xp.setitem = backend.setitem  # type: ignore[attr-defined]
