"""The members of `gpugrad.numpy` and its modules, which have NumPy's names."""

from .._creation import holds_tensor
from .._foreign_names import missing
from ..backends.numpy import library as numpy
from . import _elementwise, _linalg, _numerics, _reductions, _shapes  # noqa: F401
from ._creation import MAKERS, ON_DEVICES, maker_of
from ._table import FUNCTIONS, lookup, name_of, public
from ._tensors import gg, tensors


class Joining:
    """``r_`` and ``c_``: NumPy's, and for Tensors the same join.

    Slices, such as ``r_[x, 0:3]``, and numbers may stand beside Tensors; strings may not.
    """

    def __init__(self, name):
        self._name = name

    def __getitem__(self, key):
        items = key if isinstance(key, tuple) else (key,)
        if not any(map(holds_tensor, items)):
            return getattr(numpy, self._name)[key]
        if any(isinstance(x, str) for x in items):
            raise TypeError(
                f"{self._name}: takes no strings with Tensors; use concatenate or stack"
            )
        arrays = tensors(*[numpy.r_[x].tolist() if isinstance(x, slice) else x for x in items])
        if self._name == "c_":
            return gg.concat([x if x.ndim > 1 else x.reshape(-1, 1) for x in arrays], axis=-1)
        return gg.concat([x if x.ndim else x.reshape(1) for x in arrays])


def member(room, name):
    """The object of this name in `gpugrad.numpy`, if ``room`` is "", or in its module ``room``."""
    key = f"{room}.{name}" if room else name
    if key in MAKERS or key in ON_DEVICES:
        return maker_of(key)
    if key in ("r_", "c_"):
        return Joining(key)
    theirs = lookup(key)
    if theirs is None and name != "newaxis":
        raise missing(f"gpugrad.numpy.{room}" if room else "gpugrad.numpy", name)
    canonical = name_of(theirs)
    return public(canonical) if canonical in FUNCTIONS else theirs


def module(room, values):
    """``__all__``, ``__dir__`` and ``__getattr__`` of a module with the names of NumPy's."""
    names = list(getattr(numpy, room).__all__)

    def find(name):
        value = values[name] = member(room, name)
        return value

    return names, names.copy, find
