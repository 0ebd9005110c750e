"""The precision of matrix products."""

from . import _routines_linalg

_types = {}


def get_compute_type(dtype):
    return _types.get(str(dtype), _routines_linalg.COMPUTE_TYPE_DEFAULT)


def set_compute_type(dtype, compute_type):
    _types[str(dtype)] = compute_type
