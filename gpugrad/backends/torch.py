"""PyTorch: where it deviates from the array API standard, and its own special functions."""

import math
import warnings

import array_api_compat
import numpy as np

from .base import address_range
from .generic import GenericBackend

# PyTorch's gammainc, gammaincc, j0, j1, y0 and y1 are left out because only 7 to 9 of their digits
# are right; so is ndtr, which has no right digit in its lower tail.
_TORCH = "entr erf erfc erfcx erfinv exp2 expit gammaln i0 i0e i1 i1e log_ndtr logit ndtri psi"
_TORCH += " sinc xlog1py xlogy zeta"
_TORCH_NAMES = {name: name for name in _TORCH.split()} | {
    "k0": "modified_bessel_k0", "k0e": "scaled_modified_bessel_k0",
    "k1": "modified_bessel_k1", "k1e": "scaled_modified_bessel_k1",
}  # fmt: skip


class Torch(GenericBackend):
    _replaced = GenericBackend._replaced + " roll std take take_along_axis unique_all"

    def __init__(self, standard, array_type):
        with warnings.catch_warnings():  # PyTorch warns while it lists its devices
            warnings.simplefilter("ignore", UserWarning)
            super().__init__(standard, array_type)

    def to_numpy(self, array):
        # PyTorch conjugates and negates lazily, and keeps a graph; NumPy needs the final values.
        return super().to_numpy(array.detach().resolve_conj().resolve_neg())

    def buffer(self, array):
        return array.untyped_storage().data_ptr()

    def address_range(self, array):
        size = array.element_size()
        strides = [n * size for n in array.stride()]
        return address_range(array.data_ptr(), array.shape, strides, size)

    def memory_owner(self, array):
        storage = array.untyped_storage()
        return storage if storage.resizable() else None  # else other libraries may share it

    def buffer_size(self, array):
        return array.untyped_storage().nbytes()

    def solve_triangular(self, a, b, *, lower, unit_diagonal):
        return self.standard.linalg.solve_triangular(
            a, b, upper=not lower, unitriangular=unit_diagonal
        )

    def special(self, name):
        """PyTorch's function, if accurate, extended to half precision and Python numbers."""
        xp = self.xp
        if name == "ndtr":
            return lambda x: 0.5 * xp.special.erfc(-math.sqrt(0.5) * x)
        if name not in _TORCH_NAMES:
            return super().special(name)
        function = getattr(self.standard.special, _TORCH_NAMES[name])

        def call(*args):
            dtype = xp.result_type(*[a for a in args if type(a) in self.array_types])
            used = xp.float32 if dtype in (xp.float16, xp.bfloat16) else dtype
            device = self._common_device(args)
            out = function(*[xp.asarray(a, dtype=used, device=device) for a in args])
            return out if used is dtype else xp.astype(out, dtype)

        return call

    def _std(self, x, /, **options):
        # For PyTorch, array-api-compat's var accepts a fractional correction; its std does not.
        return self.xp.sqrt(self.xp.var(x, **options))

    # PyTorch accepts neither negative nor short indices, and wants one shift per axis.

    def _take(self, x, indices, /, *, axis):
        return self.standard.take(x, self._places(indices, x.shape[axis]), axis=axis)

    def _take_along_axis(self, x, indices, /, *, axis=-1):
        return self.standard.take_along_axis(x, self._places(indices, x.shape[axis]), axis=axis)

    def _places(self, indices, n):
        indices = self.xp.astype(indices, self.xp.int64, copy=False)
        return self.xp.where(indices < 0, indices + n, indices)

    def _roll(self, x, /, shift, axis=None):
        if isinstance(axis, tuple) and not isinstance(shift, tuple):
            shift = (shift,) * len(axis)
        return self.standard.roll(x, shift, axis=axis)

    def _unique_all(self, x, /):  # PyTorch has none
        found, device = np.unique_all(self.to_numpy(x)), self.device(x)
        return type(found)(*[self.asarray(part, device=device) for part in found])


def backend_for(array):
    """The backend of PyTorch, made from its first array."""
    return Torch(array_api_compat.array_namespace(array), type(array))
