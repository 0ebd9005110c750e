"""NumPy's namespace, differentiable: ``import gpugrad.numpy as np`` in place of ``import numpy``.

Names, parameters, defaults and values are NumPy's. A call in which there is a Tensor is made of
gpugrad's ops: its result is a Tensor that keeps the graph, on the device of its operands. All
other calls are NumPy's own: **a constant is an ordinary NumPy array**, with NumPy's dtypes,
views and methods, as in HIPS autograd.

>>> import gpugrad
>>> import gpugrad.numpy as np
>>> def f(x):
...     return np.sum(np.outer(x, np.arange(3.0)) ** 2)
>>> gpugrad.grad(f)(np.array([1.0, 2.0]))
tensor([10., 20.], dtype=float64)

- NumPy's functions themselves do the same with Tensors: ``numpy.pad(x, 2)`` is
  ``gpugrad.numpy.pad(x, 2)``. Only the functions of the next point differ.
- ``array``, ``asarray`` and ``full`` of Tensors, in nested lists with numbers too, are Tensors with
  the graph of all.
- To make a Tensor of constants, give a device, ``np.zeros(3, device="cuda")`` or
  ``np.zeros(3, device="cpu")``, or take `gpugrad.asarray`. ``np.zeros_like(x)`` is on the device of
  ``x``. Values that need a gradient can be written into a Tensor, and not into a NumPy array.
- A Tensor is a value: writing to ``x[1:]`` does not change ``x``. Write ``x[1:] += 1``.
- Results without a derivative (indices, counts, bools, histograms) are Tensors that require none.
- Where a function has no derivative, the gradient is a convention. Equal extrema share it evenly,
  in ``max``, ``ptp`` and ``maximum`` too; ``sort``, ``median`` and ``percentile`` give it to the
  elements that they take. It is 0 for ``abs``, ``hypot``, ``std`` and ``linalg.norm`` at 0, but inf
  for ``sqrt`` and ``cbrt``, and 0 for ``sign``, ``floor`` and ``round`` everywhere. ``clip`` has
  the slope 1 at its bounds, and ``interp``, at a point between two pieces, that of the piece after
  it.
- ``linalg.cholesky`` and ``linalg.eigh`` read one triangle, as in NumPy, but their gradients are
  those for symmetric matrices, and symmetric themselves.
- Beside Tensors, integer tensors count as `gpugrad.result_type` says: a quotient of two is float32,
  where NumPy has float64. Keep integers in NumPy arrays, or call ``x.astype(float)``.
- Functions that gpugrad has no counterpart for take tensors on the CPU that require no gradient as
  arrays, and refuse others with an error that says what to write. So do parameters such as ``out``.

`gpugrad.numpy.random` is NumPy's: its numbers are constants, and a seed gives the same
numbers as in NumPy. `gpugrad.random` draws on a GPU.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from . import _protocols as _protocols  # makes NumPy's own functions take Tensors
from ._namespace import member as _member
from ._namespace import numpy as _numpy

_MODULES = "fft", "linalg", "random"
_LACKS = {"f2py", "test", "testing", "typing", "core", "lib"}
__all__ = sorted({*_numpy.__all__, *_MODULES} - _LACKS)
__dir__ = __all__.copy


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f".{name}", __name__)
    value = globals()[name] = _member("", name)
    return value
