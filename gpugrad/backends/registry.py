"""The tables of known array libraries, and what is asked of them by device or by array."""

import re
import sys

SCALARS = frozenset({bool, int, float, complex})

namespace_of: dict = {}  # array type -> the namespace ops run on
backend_of: dict = {}  # array type, and the scalar types its 0-d results decay to -> Backend


def register(backend):
    """Admit a `Backend`."""
    for kind in backend.array_types:
        namespace_of[kind] = backend.xp
        backend_of[kind] = backend
    for kind in backend.scalar_types:
        backend_of[kind] = backend


def adopt(x):
    """A foreign value as a raw array of a known type, or a Python scalar; TypeError if neither.

    NumPy scalars become Python scalars, so that they do not promote: like
    Python's own they are weak.
    """
    backend = backend_of.get(type(x))
    if backend is not None:
        return x if type(x) in namespace_of else x.item()
    for kind, backend in list(backend_of.items()):
        if isinstance(x, kind):  # a subclass of an array or scalar type
            return backend.asarray(x) if kind in namespace_of else x.item()
    if isinstance(x, (bool, int, float, complex)):
        return x
    if type(x).__module__.split(".")[0] == "cupy":
        _cupy()
    elif hasattr(x, "__array_namespace__") or type(x).__module__.split(".")[0] == "torch":
        from .generic import GenericBackend

        register(GenericBackend.of(x))
    if type(x) in namespace_of:
        return x
    raise TypeError(f"cannot take {type(x).__name__}; make it a tensor with gpugrad.asarray")


def describe(x):
    """A value as errors show it: ``float32 (2, 3) on cpu``."""
    x = getattr(x, "array", x)
    backend = backend_of.get(type(x))
    if backend is None:
        return repr(x) if type(x) in SCALARS else type(x).__name__
    return f"{str(x.dtype).split('.')[-1]} {tuple(x.shape)} on {backend.device(x)}"


def match_dtypes(kind, operands):
    """The arrays of ``(array, may_cast)`` pairs, integers cast to the floating dtype beside them.

    The standard leaves mixing kinds open; NumPy would make float64 of float32 and int64.
    """
    is_floating = backend_of[kind].is_floating
    arrays = [a for a, _ in operands]
    floating = [a.dtype for a in arrays if type(a) is kind and is_floating(a.dtype)]
    if not floating:
        return arrays
    xp = namespace_of[kind]
    dtype = floating[0] if len(floating) == 1 else xp.result_type(*floating)
    return [
        xp.astype(a, dtype)
        if may_cast and type(a) is kind and xp.isdtype(a.dtype, "integral")
        else a
        for a, may_cast in operands
    ]


def parse_device(device):
    """``"cpu"``, ``"cuda"`` or ``"cuda:N"`` in full form: ``("cpu", 0)`` or ``("cuda", N)``."""
    match = re.fullmatch(r"(cpu)|cuda(?::(\d+))?", device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"device {device!r} is not known; use 'cpu', 'cuda' or 'cuda:N'")
    if match[1]:
        return "cpu", 0
    return "cuda", None if match[2] is None else int(match[2])


def backend_for_device(device):
    """The backend that creates arrays on ``device`` (None is the CPU)."""
    if device is None or parse_device(device)[0] == "cpu":
        from .numpy import backend

        return backend
    backend = _cupy()
    backend.check_device(device)
    return backend


def _cupy():
    if "gpugrad.backends.cupy" not in sys.modules:
        from .cupy import backend

        register(backend)
    return sys.modules["gpugrad.backends.cupy"].backend


def cuda_problem():
    """None if a CUDA device can be used, else what is in the way, in one sentence."""
    try:
        _cupy().check_device("cuda")
    except RuntimeError as error:
        return str(error)
    return None
