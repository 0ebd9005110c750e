"""The array libraries that tests run on, and conversions from NumPy to their arrays."""

import importlib
from importlib.util import find_spec

import numpy as np
import pytest

import gpugrad
from gpugrad.backends import backend_of, namespace_of


class Library:
    """An array library under test.

    name: its name in the table of ops (`cases.Sample.beyond`).
    standard: the namespace that creates its arrays.
    """

    def __init__(self, name, module):
        self.name = name
        self.standard = importlib.import_module(module)

    def __repr__(self):
        return self.name

    def has(self, dtype):
        return hasattr(self.standard, np.dtype(dtype).name)

    def array(self, values, layout="contiguous"):
        """Return a raw array of these values with the given memory layout."""
        values = np.asarray(values)
        if values.ndim == 0 or layout == "contiguous":
            return self._array(values)
        if layout == "transposed":
            out = self._array(np.ascontiguousarray(values.T))
            return self._namespace(out).permute_dims(out, tuple(range(values.ndim))[::-1])
        if layout == "strided":
            spread = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), values.dtype)
            spread[..., ::2] = values
            return self._array(spread)[..., ::2]
        if layout == "reversed":
            out = self._array(np.flip(values).copy())
            return self._namespace(out).flip(out)
        raise ValueError(layout)

    def _array(self, values):
        return self.standard.asarray(values.copy())

    def _namespace(self, array):
        gpugrad.asarray(array)
        return namespace_of[type(array)]

    def tensor(self, values, layout="contiguous", *, requires_grad=False):
        tensor = gpugrad.asarray(self.array(values, layout))
        return tensor.requires_grad_() if requires_grad else tensor

    def raw(self, value):
        """Return a static parameter, its NumPy arrays converted to raw arrays of this library."""
        if isinstance(value, str) and value == "cpu":
            return self.tensor(0.0).device
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, tuple):
            return tuple(map(self.raw, value))
        return value

    def values(self, tensor):
        """Return a tensor's values as a NumPy array of the same dtype."""
        array = tensor.detach().array
        return np.array(backend_of[type(array)].to_numpy(array))

    def dtype(self, dtype):
        """Return the name of a dtype of this library."""
        return str(dtype).split(".")[-1]


def libraries():
    """Return NumPy and every other library that is installed and works on this machine."""
    found = [Library("numpy", "numpy"), Library("array_api_strict", "array_api_strict")]
    if find_spec("torch"):
        found.append(Library("torch", "torch"))
    if gpugrad.cuda.is_available():
        found.append(Library("cupy", "cupy"))
    return found


def each_library(chosen=lambda library: True):
    """Return the chosen libraries as parameters; all but NumPy are slow, and CuPy needs a GPU."""
    return [pytest.param(x, marks=_marks(x), id=repr(x)) for x in libraries() if chosen(x)]


def _marks(library):
    marks = {"numpy": [], "cupy": [pytest.mark.gpu, pytest.mark.slow]}
    return marks.get(library.name, [pytest.mark.slow])
