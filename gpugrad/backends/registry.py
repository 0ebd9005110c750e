"""The tables of known array libraries, and what is asked of them by device or by array."""

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


# By library the module that is loaded when it is first needed: for a device's it has a
# ``backend``, for others a function ``backend_for`` that makes one from the first array.
_OF_DEVICES = {"numpy": ".numpy", "cupy": ".cupy"}
_OF_ARRAYS = {"torch": ".torch"}
_OF_OTHER_ARRAYS = ".generic"
_admitting = threading.RLock()  # of threads that need a library first all but one wait
_admitted: dict = {}  # library -> its backend, once all is done

backends: list = []
on_change: list = []  # called, without arguments, when what ops run on known arrays has changed


def register(backend):
    """Admit a `Backend`."""
    backends.append(backend)
    if backend.sweep_context is not None:
        _sweep_contexts.append(backend.sweep_context)
    # Last, as from then on other threads may give ops such arrays.
    for kind in backend.array_types:
        backend_of[kind] = backend
        namespace_of[kind] = backend.xp
    for kind in backend.scalar_types:
        backend_of[kind] = backend


def _library(name):
    """The backend of NumPy or CuPy."""
    if name not in _admitted:
        with _admitting:
            if name not in _admitted:
                backend = import_module(_OF_DEVICES[name], __package__).backend
                register(backend)
                _admitted[name] = backend
    return _admitted[name]


@on_bfloat16.append
def _meet_bfloat16(scalar_type):
    host = _library("numpy")
    host.scalar_types = (*host.scalar_types, scalar_type)
    backend_of[scalar_type] = host
    for changed in on_change:
        changed()


_sweep_contexts: list = []


def sweep_context():
    """The context in which a sweep runs rules; see `Backend.sweep_context`."""
    if len(_sweep_contexts) == 1:
        return _sweep_contexts[0]()
    return _all_sweep_contexts()


@contextmanager
def _all_sweep_contexts():
    with ExitStack() as stack:
        for context in _sweep_contexts:
            stack.enter_context(context())
        yield


def adopt(x):
    """A foreign value as a raw array of a known type, or a Python scalar; TypeError if neither.

    NumPy scalars become Python scalars, so that they do not promote: like
    Python's own they are weak. Arrays of a library not met before bring its
    namespace with them; objects that speak DLPack or ``__cuda_array_interface__`` are shared,
    other ones that have ``__array__`` read as NumPy does.
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
        _library("cupy")
    elif hasattr(x, "__array_namespace__") or library in _OF_ARRAYS:
        module = import_module(_OF_ARRAYS.get(library, _OF_OTHER_ARRAYS), __package__)
        with _admitting:
            if type(x) not in namespace_of:
                register(module.backend_for(x))
    elif hasattr(x, "__dlpack__"):
        return from_dlpack(x)
    elif hasattr(x, "__cuda_array_interface__"):
        return backend_for_device("cuda").from_interface(x)
    elif hasattr(x, "__array__"):
        return _library("numpy").asarray(x)
    if type(x) in namespace_of:
        return x
    raise TypeError(f"cannot take a {type(x).__name__}; give a Tensor, an array or a number")


def from_dlpack(x):
    """The memory of an object that speaks DLPack as a NumPy or, on a CUDA device, CuPy array."""
    on_cuda = x.__dlpack_device__()[0] in (2, 13)  # kDLCUDA, kDLCUDAManaged in DLPack's header
    return backend_for_device("cuda" if on_cuda else "cpu").xp.from_dlpack(x)


_ADOPTED = {"builtins", "cupy", "torch"}  # their operands are for `adopt` to take or refuse


def is_foreign(kind, method):
    """Whether a class that ops do not know has ``method``, such as a reflected operator.

    Of a subclass of a known one: whether it has its own way with NumPy's functions,
    as arrays with units do.
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
    """A value as errors show it: ``float32 (2, 3) on cpu``."""
    array = getattr(x, "_like", x)
    backend = backend_of.get(type(array))
    if backend is None:
        return repr(x) if type(x) in SCALARS else type(x).__name__
    return f"{str(x.dtype).split('.')[-1]} {tuple(x.shape)} on {backend.device(array)}"


def explain(error, *places):
    """What an error of an array library means, where its own text does not say; else its text.

    places: names of devices, and arrays, of where it may have happened.
    """
    devices = [x for x in places if isinstance(x, str)]
    devices += [backend_of[type(x)].device(x) for x in places if type(x) in namespace_of]
    return next(filter(None, [backend.explain(error, devices) for backend in backends]), str(error))


def add_note(error, where):
    """Note on an error where it came up and, if its own text does not say, what it means."""
    error.add_note(where)
    meaning = explain(error)
    if meaning != str(error):
        error.add_note(meaning)


def as_shape(shape):
    """A `Shape`, of any library's integers, as a tuple of ints; TypeError if it is none."""
    try:
        return tuple(map(index, shape))
    except TypeError:
        pass
    try:
        return (index(shape),)
    except TypeError:
        raise TypeError(f"shape must be an int or a tuple of ints, not {shape!r}") from None


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
    dtype = floating[0] if len(set(floating)) == 1 else xp.result_type(*floating)
    return [
        xp.astype(a, dtype)
        if may_cast and type(a) is kind and xp.isdtype(a.dtype, "integral")
        else a
        for a, may_cast in operands
    ]


def parse_device(device):
    """``"cpu"``, ``"cuda"`` or ``"cuda:N"`` as its kind and its index, None if not given."""
    match = re.fullmatch(r"(cpu)|(cuda)(?::(\d+))?", device) if isinstance(device, str) else None
    if match is None:
        raise ValueError(f"device {device!r} is not known; use 'cpu', 'cuda' or 'cuda:N'")
    return match[1] or match[2], None if match[3] is None else int(match[3])


def is_on(array, device):
    """Whether the array is on ``device``; for ``"cuda"`` any CUDA device will do."""
    name = backend_of[type(array)].device(array)
    return name == device or name.split(":")[0] == device


def transfer(array, device):
    """The array on ``device``: one of its library's own, or else of the backend for the device."""
    source = backend_of[type(array)]
    if source.has_device(device):
        return source.to_device(array, device)
    target = backend_for_device(device)
    return target.asarray(source.to_numpy(array), device=device)


def backend_for_device(device):
    """What creates arrays on ``device``; None is the CPU. RuntimeError if it is not there."""
    if device is None or parse_device(device)[0] == "cpu":
        return _library("numpy")
    backend = _library("cupy")
    backend.check_device(device)
    return backend


def cuda_problem():
    """None if a CUDA device can be used, else what is in the way, in one sentence."""
    try:
        _library("cupy").check_works()
    except RuntimeError as error:
        return str(error)
    return None


def cuda_device_count():
    """How many CUDA devices can be used."""
    return 0 if cuda_problem() else _library("cupy").device_count()


def cuda_device(device):
    """The module `cupy.devices`, and the number of a device, which by default is the current one.

    RuntimeError with what is in the way if no CUDA device, or not this one, can be used;
    ValueError if the name is not one of a CUDA device.
    """
    backend = _library("cupy")
    backend.check_works()
    devices = backend.devices
    if device is None:
        return devices, devices.current_number()
    name = device if isinstance(device, str) else f"cuda:{index(device)}"
    kind, number = parse_device(name)
    if kind != "cuda":
        raise ValueError(f"device {device!r} is no CUDA device; use 'cuda', 'cuda:N' or its number")
    backend.check_device(name)
    return devices, devices.current_number() if number is None else number
