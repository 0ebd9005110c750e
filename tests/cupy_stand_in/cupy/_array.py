"""CuPy's array class on top of NumPy: its devices, errors and memory."""

import copy
import ctypes
from operator import attrgetter
from types import SimpleNamespace

import numpy as np

import cupy

from ._capture import current, do, refuse, silent, spoil
from ._reads import note
from ._traffic import launched
from .cuda.device import Device, current_device, owners
from .cuda.memory import Block, UnownedMemory, current_pool, pool
from .cuda.stream import get_current_stream


class MemoryPointer:
    def __init__(self, array):
        root = array if array.base is None else array.base
        kind = pool._kind if type(root._held) is Block else UnownedMemory
        self.ptr = array._values.__array_interface__["data"][0]
        self.device_id = array.device.id
        self.mem = kind(_owner(array._values))
        self._array = array

    def __add__(self, offset):
        out = copy.copy(self)
        out.ptr += offset
        return out


crossings: list = []  # a record of copies between devices: the source and the stream


def _part(name):
    """The property that is the real or the imaginary part."""

    def set_part(self, value):
        on_current([self, value])
        own, values = self._values, unwrapped(value)
        do(lambda: setattr(own, name, values))
        launched("setitem", [x._values for x in arrays_in([value])], [getattr(own, name)])

    return property(lambda self: wrap(getattr(self._values, name), [self]), set_part)


class ndarray:
    """An array on a device, whose values reach NumPy and Python only by explicit calls."""

    __slots__ = ("__weakref__", "_held", "_values", "base", "device")
    __hash__ = None

    def __init__(self, shape, dtype=float, memptr=None, strides=None):
        if memptr is None:
            self._set(np.empty(shape, dtype), current_device(), None)
            return
        values = _values_at(memptr.ptr, shape, np.dtype(dtype), strides)
        self._set(values, memptr._array.device, None, memptr._array)

    def _set(self, values, device, base, owner=None):
        self._values, self.device, self.base = values, device, base
        if base is None and owner is None:
            if current_pool() is pool:
                refuse("an allocation from the pool that everything else uses")
            owner = current_pool()._take(values.nbytes, device.id)
            self._values = owner.hold(values)
        self._held = owner  # keeps alive another library's object, or the memory block

    # Properties

    shape, dtype, ndim, size, nbytes, itemsize, strides = (
        property(attrgetter(f"_values.{name}"))
        for name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides")
    )
    data = property(MemoryPointer)

    @property
    def flags(self):
        own = self._values.flags
        orders = {"c_contiguous": own.c_contiguous, "f_contiguous": own.f_contiguous}
        return SimpleNamespace(**orders, owndata=self.base is None)

    def __len__(self):
        return len(self._values)

    def __iter__(self):
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def set(self, arr, stream=None):
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if self.dtype != arr.dtype:
            raise TypeError(f"{arr.dtype} array cannot be set to {self.dtype} array")
        if self.shape != arr.shape:
            raise ValueError(f"Shape mismatch. Old shape: {self.shape}, new shape: {arr.shape}")
        refuse("a copy from the host")
        (stream or get_current_stream())._enqueue(lambda: np.copyto(self._values, arr))

    # Conversions that leave the device

    def get(self, stream=None, order="C", out=None, blocking=True):
        stream = stream or get_current_stream()
        if out is not None and not blocking:
            refuse("a copy to the host")
            stream._enqueue(lambda: np.copyto(out, self._values))
            return out
        note("get")
        stream._check_device("an array of device", self.device.id)
        return self._values.copy()

    def __array__(self, dtype=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    @property
    def __cuda_array_interface__(self):
        pointer = self.data.ptr if self.size else 0
        owners[pointer] = self.device.id
        kind = {"typestr": self.dtype.str, "descr": self.dtype.descr, "version": 3}
        strides = None if self._values.flags.c_contiguous else self.strides
        place = {"data": (pointer, False), "stream": get_current_stream().ptr or 1}
        return {"shape": self.shape, "strides": strides, **kind, **place}

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if stream is None or dl_device not in (None, self.__dlpack_device__()) or copy:
            raise BufferError("the memory of a pretended device is for no other library")
        if stream == 0 or stream < -1:
            raise ValueError(f"On CUDA, the valid stream is -1, 1, 2, or larger, not {stream}")
        producer = get_current_stream().ptr or 1
        return SimpleNamespace(array=self, stream=stream, producer=producer)  # the capsule

    def __dlpack_device__(self):
        return 2, self.device.id  # kDLCUDA in DLPack's header

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        own = getattr(cupy, ufunc.__name__, None)
        if method != "__call__" or own is None:
            return NotImplemented
        return own(*inputs, **options)

    # Elements

    def __getitem__(self, key):
        values, place = self._values, self._key(key, reading=True)
        return computed("getitem", lambda: values[place()], key, [self], gathers=True)

    def __setitem__(self, key, value):
        if isinstance(value, np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        on_current([self, value])
        if not isinstance(value, ndarray) and any(is_mask(part) for part in _parts(key)):
            note("a number assigned by a mask")  # it is copied from the host
        place, own = self._key(key, reading=isinstance(value, ndarray) and value.ndim), self._values
        values = value._values if isinstance(value, ndarray) else value
        launched("setitem", [x._values for x in arrays_in((value, *_parts(key)))], [own[place()]])
        may_repeat = has_integers(key)
        do(lambda: _assign(own, place(), values, may_repeat))

    def _key(self, key, reading):
        """Return a function that returns the key for NumPy, of the values that arrays then have.

        Indices out of bounds wrap around, as on a GPU.
        """
        parts = key if isinstance(key, tuple) else (key,)
        on_current([part for part in parts if isinstance(part, ndarray)])
        parts = [part._values if isinstance(part, ndarray) else part for part in parts]
        parts = [np.asarray(part) if isinstance(part, list) else part for part in parts]
        if reading and any(is_mask(part) and np.ndim(part) for part in parts):
            note("index by a mask")
        shape, is_tuple = self.shape, isinstance(key, tuple)
        return lambda: _wrapped(parts, shape) if is_tuple else _wrapped(parts, shape)[0]

    # Shapes and copies

    T = property(lambda self: self.transpose())
    mT = property(lambda self: self.swapaxes(-1, -2))

    real, imag = _part("real"), _part("imag")

    def copy(self, order="C"):
        """Copy to the current device; no other method reads another device's memory."""
        flags = self._values.flags
        is_dense = flags.c_contiguous or flags.f_contiguous
        if order == "K" and self.device != current_device() and self.size and not is_dense:
            raise NotImplementedError("CuPy cannot copy non-contiguous array between devices.")
        if self.device != current_device():
            crossings.append((self.device.id, get_current_stream().ptr))
        values = self._values
        return computed("copy", lambda: values.copy(order), [self])

    def astype(self, dtype, order="K", casting=None, subok=None, copy=True):
        return self._astype(dtype, order, copy or None)

    def _astype(self, dtype, order, copy):
        on_current([self])
        if not copy and self.dtype == dtype:
            return self
        if copy is False:
            raise ValueError("Unable to avoid copy while creating an array as requested.")
        values = self._values
        return computed("astype", lambda: values.astype(dtype, order=order), [self])

    def reshape(self, *shape, order="C", copy=None):
        return self._view_or_copy("reshape", lambda x: x.reshape(*shape, order=order))

    def _view_or_copy(self, name, function):
        values = self._values
        return computed(name, lambda: function(values), [self], [self])

    def transpose(self, *axes):
        return wrap(self._values.transpose(*axes), [self])

    def swapaxes(self, axis1, axis2):
        return wrap(self._values.swapaxes(axis1, axis2), [self])

    def squeeze(self, axis=None):
        return wrap(self._values.squeeze(axis), [self])

    def ravel(self, order="C"):
        return self._view_or_copy("ravel", lambda x: x.ravel(order))

    def view(self, dtype=None, type=None):
        return wrap(self._values.view(dtype or self.dtype), [self])

    def sum(self, axis=None, dtype=None, out=None, keepdims=False):
        return cupy.sum(self, axis, dtype, out, keepdims)


def _assign(own, key, values, may_repeat):
    if not may_repeat:
        own[key] = values
        return
    # It is undefined which of several values for one element stays; here it is the first.
    places = np.arange(own.size).reshape(own.shape)[key]
    values = np.broadcast_to(np.asarray(values, own.dtype), places.shape)
    own.flat[places.ravel()[::-1]] = values.ravel()[::-1]


def _wrapped(parts, shape):
    """Return the parts of a key with indices within the bounds of ``shape``."""
    taken = [
        np.ndim(part) if is_mask(part) else int(part is not None and part is not Ellipsis)
        for part in parts
    ]
    wrapped, axis = [], 0
    for i, part in enumerate(parts):
        if part is Ellipsis:
            axis = len(shape) - sum(taken[i:])
        elif not is_mask(part) and isinstance(part, np.ndarray) and part.ndim and axis < len(shape):
            part = part % max(shape[axis], 1) if shape[axis] else part
        wrapped.append(part)
        axis += taken[i]
    return tuple(wrapped)


def _operator(name, ufunc):
    def forward(self, other):
        return getattr(cupy, ufunc)(self, other) if _takes(other) else NotImplemented

    def reflected(self, other):
        return getattr(cupy, ufunc)(other, self) if _takes(other) else NotImplemented

    def in_place(self, other):
        return getattr(cupy, ufunc)(self, other, out=self)

    setattr(ndarray, f"__{name}__", forward)
    setattr(ndarray, f"__r{name}__", reflected)
    setattr(ndarray, f"__i{name}__", in_place)


def _comparison(name, ufunc):
    def compare(self, other):
        if other is None and name in ("eq", "ne"):  # elementwise, like NumPy
            return wrap(np.full(self.shape, name == "ne"), [])
        return getattr(cupy, ufunc)(self, other) if _takes(other) else NotImplemented

    setattr(ndarray, f"__{name}__", compare)


def _unary(name, ufunc):
    setattr(ndarray, f"__{name}__", lambda self: getattr(cupy, ufunc)(self))


def _reading(name, read):
    def call(self):
        note(name.strip("_"))
        return read(self._values)

    setattr(ndarray, name, call)


def _takes(other):
    kinds = (ndarray, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(other, kinds) or has_interface(other)


def has_interface(x):
    return hasattr(x, "__cuda_array_interface__")


def from_interface(x):
    """Return an array over the memory of another library's array, or the array itself."""
    if isinstance(x, ndarray) or not has_interface(x):
        return x
    interface = x.__cuda_array_interface__
    if interface.get("stream") is not None:
        note("the stream of __cuda_array_interface__")
    pointer, _ = interface["data"]
    dtype, shape = np.dtype(interface["typestr"]), interface["shape"]
    values = _values_at(pointer, shape, dtype, interface.get("strides"))
    return lent(values, Device(owners.get(pointer)), x)


def _values_at(pointer, shape, dtype, strides):
    """NumPy's array over memory, the first of whose elements is at an address."""
    ends = [(n - 1) * step for n, step in zip(shape, strides or (), strict=bool(strides))]
    before = -sum([end for end in ends if end < 0])
    size = before + sum([end for end in ends if end > 0]) + dtype.itemsize
    if not strides:
        size = dtype.itemsize * np.prod(shape, dtype=int)
    memory = (ctypes.c_byte * size).from_address(pointer - before) if pointer else bytes(size)
    return np.ndarray(shape, dtype, memory, before, strides)


def lent(values, device, owner):
    """Return an array over memory that another object owns."""
    out = ndarray.__new__(ndarray)
    out._set(values, device, None, owner)
    return out


for _name, _ufunc in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "true_divide", "pow": "power",
    "mod": "remainder", "floordiv": "floor_divide", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "matmul": "matmul",
}.items():  # fmt: skip
    _operator(_name, _ufunc)
del ndarray.__imatmul__  # CuPy has none
for _name, _ufunc in {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}.items():  # fmt: skip
    _comparison(_name, _ufunc)
for _name, _ufunc in (("neg", "negative"), ("pos", "positive"), ("abs", "abs"), ("invert",) * 2):
    _unary(_name, _ufunc)
for _read in (bool, int, float, complex, repr, str):
    _reading(f"__{_read.__name__}__", _read)
_reading("item", np.ndarray.item)
_reading("tolist", np.ndarray.tolist)


def is_mask(part):
    has_bools = isinstance(part, np.ndarray) and part.dtype.kind == "b"
    return has_bools or isinstance(part, (bool, np.bool))


def _parts(key):
    return key if isinstance(key, tuple) else (key,)


def has_integers(key):
    return any(isinstance(p, (ndarray, np.ndarray)) and p.dtype.kind in "iu" for p in _parts(key))


def on_current(operands):
    """Raise CuPy's ValueError if an array is on another device than the current one."""
    current = current_device()
    for x in operands:
        if isinstance(x, ndarray) and x.device != current:
            raise ValueError(
                f"The device where the array resides ({x.device.id}) is different from the current "
                f"device ({current.id}). Peer access is unavailable between these devices."
            )


def unwrapped(x):
    """Return the NumPy array behind an operand; raise TypeError if it is a NumPy array itself."""
    if isinstance(x, ndarray):
        return x._values
    if isinstance(x, (list, tuple)):
        return type(x)(map(unwrapped, x)) if type(x) in (list, tuple) else x
    if isinstance(x, np.ndarray):
        raise TypeError(f"Unsupported type {type(x)}")
    return x


def wrap(values, operands):
    """Return NumPy's result as arrays; one that shares an operand's memory becomes its view."""
    if isinstance(values, tuple):
        parts = [wrap(part, operands) for part in values]
        return type(values)(*parts) if hasattr(values, "_fields") else tuple(parts)
    if isinstance(values, list):
        return [wrap(part, operands) for part in values]
    if not isinstance(values, (np.ndarray, np.generic)):
        return values
    values = np.asarray(values)
    for x in operands:
        if x._values is values:
            return x
    out = ndarray.__new__(ndarray)
    root = next((x for x in operands if np.may_share_memory(x._values, values)), None)
    if root is None:
        out._set(values, operands[0].device if operands else current_device(), None)
    else:
        out._set(values, root.device, root if root.base is None else root.base)
    return out


def made(compute, operands=()):
    """What ``compute`` makes of NumPy's arrays; new arrays are computed now or when launched.

    operands: arrays whose memory the result may have, or one of which it may be.
    """
    out, capture = wrap(silent(compute), operands), current()
    if capture is None or not isinstance(out, (ndarray, tuple, list)):
        return out
    several = isinstance(out, (tuple, list))
    # Memory, whose arrays may be gone when it is launched.
    arrays = out if several else [out]
    targets = [x._values if is_new(x, operands) else None for x in arrays]

    def again():
        values = silent(compute)
        for target, value in zip(targets, values if several else [values], strict=True):
            if target is not None:
                np.copyto(target, value)

    new = [target for target in targets if target is not None]
    if new:
        capture.note(again)
    for target in new:
        spoil(target)
    return out


def is_new(x, operands):
    return x.base is None and not any(x is y for y in operands)


def computed(name, compute, read=(), operands=(), gathers=False):
    """`made`, of one array, which a kernel of this name computes if it is new.

    read: the arrays that are read. gathers: whether also as much is read as is written.
    """
    out = made(compute, operands)
    if is_new(out, operands):
        arrays = [x._values for x in arrays_in(read)]
        launched(name, [out._values, *arrays] if gathers else arrays, [out._values])
    return out


def arrays_in(x):
    if isinstance(x, ndarray):
        yield x
    elif isinstance(x, (list, tuple)):
        for part in x:
            yield from arrays_in(part)


def _owner(values):
    while isinstance(values.base, np.ndarray):
        values = values.base
    return values
