"""The tables of known array libraries, and functions that find one by device or by array."""

import re
import threading
from collections.abc import Sequence
from contextlib import ExitStack, contextmanager
from importlib import import_module
from numbers import Complex, Integral, Number, Real
from operator import index
from typing import SupportsIndex

from .dtypes import on_bfloat16

SCALARS = frozenset({bool, int, float, complex})
_NUMBERS = ((bool, bool), (Integral, int), (Real, float), (Complex, complex))

Shape = SupportsIndex | Sequence[SupportsIndex]

namespace_of: dict = {}  # array type -> the namespace ops run on
backend_of: dict = {}  # array type, and the scalar types its 0-d results decay to -> Backend

_registering = threading.RLock()  # one thread registers a library; others that need it wait
_registered: dict = {}  # library that owns devices -> its backend, once registered

backends: list = []
on_change: list = []  # called without arguments when known arrays need other implementations of ops


def register(backend):
    """Enter a `Backend` into the tables."""
    backends.append(backend)
    if backend.sweep_context is not None:
        _sweep_contexts.append(backend.sweep_context)
    # The types come last: once they are in the tables, other threads may pass such arrays to ops.
    for kind in backend.array_types:
        backend_of[kind] = backend
        namespace_of[kind] = backend.xp
    for kind in backend.scalar_types:
        backend_of[kind] = backend


def device_library(name):
    """The backend of NumPy or CuPy, whose module is imported on first use."""
    if name not in _registered:
        with _registering:
            if name not in _registered:
                backend = import_module(f".{name}", __package__).backend
                register(backend)
                _registered[name] = backend
    return _registered[name]


@on_bfloat16.append
def _register_bfloat16(scalar_type):
    host = device_library("numpy")
    host.scalar_types = (*host.scalar_types, scalar_type)
    backend_of[scalar_type] = host
    for changed in on_change:
        changed()


_sweep_contexts: list = []


def sweep_context():
    """The context in which a sweep runs rules; see `Backend.sweep_context`."""
    return _sweep_contexts[0]() if len(_sweep_contexts) == 1 else _all_sweep_contexts()


@contextmanager
def _all_sweep_contexts():
    with ExitStack() as stack:
        for context in _sweep_contexts:
            stack.enter_context(context())
        yield


def adopt(x):
    """Convert a foreign value to a raw array of a known type or a Python scalar; else TypeError.

    NumPy scalars become Python scalars, which are weak and so do not promote. The first array of
    an unknown library registers the library. Objects with ``__dlpack__`` or
    ``__cuda_array_interface__`` share their memory; NumPy converts others with ``__array__``.
    """
    if type(x) in namespace_of:
        return x
    if type(x) in backend_of:
        x = x.item()
    if type(x) in SCALARS:
        return x
    for abstract, kind in _NUMBERS:
        if isinstance(x, abstract):
            return kind(x)
    for kind in list(namespace_of):
        if isinstance(x, kind):  # a subclass of an array type
            return backend_of[kind].asarray(x)
    library = type(x).__module__.split(".")[0]
    if library == "cupy":
        device_library("cupy")
    elif hasattr(x, "__array_namespace__") or library in _ARRAY_LIBRARIES:
        module = import_module(_ARRAY_LIBRARIES.get(library, ".generic"), __package__)
        with _registering:
            if type(x) not in namespace_of:
                register(module.backend_for(x))
    elif hasattr(x, "__dlpack__"):
        return from_dlpack(x)
    elif hasattr(x, "__cuda_array_interface__"):
        return backend_for_device("cuda").from_interface(x)
    elif hasattr(x, "__array__"):
        return device_library("numpy").asarray(x)
    if type(x) in namespace_of:
        return x
    raise TypeError(f"cannot take a {type(x).__name__}; give a Tensor, an array or a number")


def from_dlpack(x):
    """A NumPy array, or CuPy array on a CUDA device, that shares a DLPack object's memory."""
    on_cuda = x.__dlpack_device__()[0] in (2, 13)  # kDLCUDA, kDLCUDAManaged in DLPack's header
    return backend_for_device("cuda" if on_cuda else "cpu").xp.from_dlpack(x)


# Packages whose arrays have a backend of their own, in a module that is imported with the first
# array; for those of other libraries that conform to the standard there is `generic`.
_ARRAY_LIBRARIES = {"torch": ".torch"}
# Packages whose objects `adopt` accepts or rejects.
_ADOPTED = {"builtins", "cupy", *_ARRAY_LIBRARIES}


def is_foreign(kind, method):
    """Whether a class that ops do not know has ``method``, such as a reflected operator.

    For a subclass of a known array type, returns whether it overrides NumPy's functions, as arrays
    with units do.
    """
    if kind in backend_of or issubclass(kind, Number):
        return False
    for known in namespace_of:
        if issubclass(kind, known):
            return _overrides(kind, known, "__array_ufunc__")
    if kind.__module__.split(".")[0] in _ADOPTED or hasattr(kind, "__array_namespace__"):
        return False
    return _overrides(kind, object, method)


def _overrides(kind, base, method):
    return getattr(kind, method, None) is not getattr(base, method, None)


def describe(x):
    """Describe a value for an error message: ``float32 (2, 3) on cpu``."""
    array = getattr(x, "_like", x)
    if (backend := backend_of.get(type(array))) is None:
        return repr(x) if type(x) in SCALARS else type(x).__name__
    return f"{str(x.dtype).split('.')[-1]} {tuple(x.shape)} on {backend.device(array)}"


def explain(error, *places):
    """Explain an error of an array library; the error's own text if that is clear.

    places: names of the devices where it may have happened, or arrays on them.
    """
    devices = [x for x in places if isinstance(x, str)]
    devices += [backend_of[type(x)].device(x) for x in places if type(x) in namespace_of]
    text = str(error).strip()  # NumPy's error about shapes that do not broadcast ends in a space
    return next(filter(None, [backend.explain(error, devices) for backend in backends]), text)


def add_note(error, where):
    """Add to an error a note that says where it came up and, if it is not clear, what it means."""
    error.add_note(where)
    meaning = explain(error)
    if meaning != str(error).strip():
        error.add_note(meaning)


def as_shape(shape):
    """A `Shape`, in any library's integers, as a tuple of ints; TypeError for anything else."""
    try:
        return tuple(map(index, shape))
    except TypeError:
        pass
    try:
        return (index(shape),)
    except TypeError:
        raise TypeError(f"shape must be an int or a tuple of ints, not {shape!r}") from None


def match_dtypes(kind, operands):
    """The arrays of ``(array, may_cast)`` pairs, with integers cast to the others' floating dtype.

    The standard does not define how kinds mix; NumPy promotes float32 and int64 to float64.
    """
    is_floating = backend_of[kind].is_floating
    arrays = [a for a, _ in operands]
    floating = [a.dtype for a in arrays if type(a) is kind and is_floating(a.dtype)]
    if not floating:
        return arrays
    xp = namespace_of[kind]
    dtype = floating[0] if len(set(floating)) == 1 else xp.result_type(*floating)
    for i, (a, may_cast) in enumerate(operands):
        if may_cast and type(a) is kind and xp.isdtype(a.dtype, "integral"):
            arrays[i] = xp.astype(a, dtype)
    return arrays


def parse_device(device):
    """The kind and index of ``"cpu"``, ``"cuda"`` or ``"cuda:N"``; the index is None if absent."""
    match = re.fullmatch(r"(cpu)|(cuda)(?::(\d+))?", device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"device {device!r} is not known; use 'cpu', 'cuda' or 'cuda:N'")
    return match[1] or match[2], None if match[3] is None else int(match[3])


def is_on(array, device):
    """Whether the array is on ``device``; ``"cuda"`` matches any CUDA device."""
    name = backend_of[type(array)].device(array)
    return name == device or name.split(":")[0] == device


def transfer(array, device):
    """The array on ``device``; its own library's if that has the device, else the device's."""
    source = backend_of[type(array)]
    if source.has_device(device):
        return source.to_device(array, device)
    return backend_for_device(device).asarray(source.to_numpy(array), device=device)


def backend_for_device(device):
    """The backend that creates arrays on ``device``; None is the CPU.

    Raises RuntimeError if the device does not exist.
    """
    if device is None or parse_device(device)[0] == "cpu":
        return device_library("numpy")
    backend = device_library("cupy")
    backend.check_device(device)
    return backend


def cuda_problem():
    """None if a CUDA device can be used, else one sentence that says why not."""
    try:
        device_library("cupy").check_works()
    except RuntimeError as error:
        return str(error)
    return None


def cuda_device_count():
    """How many CUDA devices can be used."""
    return 0 if cuda_problem() else device_library("cupy").device_count()


def cuda_device(device):
    """The module `cupy.devices` and the number of ``device``, by default the current device.

    Raises RuntimeError that says why if this device, or CUDA as a whole, cannot be used, and
    ValueError if the name is not a CUDA device's.
    """
    backend = device_library("cupy")
    backend.check_works()
    device = "cuda" if device is None else device
    name = device if isinstance(device, str) else f"cuda:{index(device)}"
    kind, number = parse_device(name)
    if kind != "cuda":
        raise ValueError(
            f"device {name!r} is not a CUDA device; use 'cuda', 'cuda:N' or its number"
        )
    backend.check_device(name)
    devices = backend.devices
    return devices, devices.current_number() if number is None else number
