"""cuBLAS's matrix products, carried out by NumPy on the memory at the given pointers.

As in cuBLAS, matrices are stored by columns: a wrong flag, leading dimension or step gives wrong
numbers, and arguments that cuBLAS rejects are errors.
"""

import ctypes
import inspect
import threading
from typing import ClassVar

import numpy as np

from .._capture import current, do, refuse
from .._traffic import launched
from .device import current_device, get_cublas_handle
from .graph import Driver
from .stream import get_current_stream

__all__ = ["gemmEx", "gemmStridedBatchedEx", "setMathMode"]

_calls: list[str] = []  # the stand-in's own record

# cudaDataType, and the values of cublasComputeType_t for each: 32F, its TF32 variant, and 64F.
_DTYPES = {0: "float32", 1: "float64", 2: "float16", 14: "bfloat16"}
_TF32 = 77
_COMPUTE = {0: (68, _TF32), 1: (70,), 2: (68,), 14: (68,)}


_SUMS_IN_COMPUTE_TYPE = 16  # cublasMath_t, "disallow reduced precision reduction"
_modes = threading.local()  # of this thread's handles


class CUBLASError(RuntimeError):
    """What cuBLAS refuses."""


def setMathMode(handle, mode):
    vars(_modes)[str(handle)] = mode


def gemmEx(
    handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc,
    computeType, algo,
):  # fmt: skip
    _by_cupy("gemmEx", **locals())


def gemmStridedBatchedEx(
    handle, transa, transb, m, n, k, alpha, A, Atype, lda, strideA, B, Btype, ldb, strideB, beta,
    C, Ctype, ldc, strideC, batchCount, computeType, algo,
):  # fmt: skip
    _by_cupy("gemmStridedBatchedEx", **locals())


def _by_cupy(name, **given):
    refuse("a call of cuBLAS through CuPy")
    _calls.append(name)
    if given["handle"] != get_cublas_handle():
        raise CUBLASError("CUBLAS_STATUS_INVALID_VALUE")
    _multiply(**given)


def _multiply(
    handle, transa, transb, m, n, k, alpha, A, Atype, lda, B, Btype, ldb, beta, C, Ctype, ldc,
    computeType, algo, strideA=0, strideB=0, strideC=0, batchCount=1,
):  # fmt: skip
    given = [x for x in locals().values() if type(x) is not int and type(x) is not bool]
    if given:
        raise TypeError(f"an integer is required, not {given}")
    a_shape, b_shape = (k, m) if transa else (m, k), (n, k) if transb else (k, n)
    fits = lda >= a_shape[0] > 0 and ldb >= b_shape[0] > 0 and ldc >= m > 0 and batchCount > 0
    if not fits or strideA < 0 or strideB < 0:
        raise CUBLASError("CUBLAS_STATUS_INVALID_VALUE")
    is_half = Atype in (2, 14)
    into = (Atype, 0) if is_half else (Atype,)  # 16-bit products may be float32
    if Atype != Btype or Ctype not in into or computeType not in _COMPUTE[Atype]:
        raise CUBLASError("CUBLAS_STATUS_NOT_SUPPORTED")
    if batchCount > 1 and strideC < ldc * n:
        raise CUBLASError("products overlap")
    computed = np.float64 if Atype == 1 else np.float32
    one, zero = (np.ctypeslib.as_array((ctypes.c_byte * 8).from_address(p)) for p in (alpha, beta))
    one, zero = (x.view(computed)[0] for x in (one, zero))
    sums_are_exact = vars(_modes).get(str(handle), 0) & _SUMS_IN_COMPUTE_TYPE
    a = _at(A, Atype, (batchCount, *a_shape), (strideA, 1, lda))
    b = _at(B, Atype, (batchCount, *b_shape), (strideB, 1, ldb))
    c = _at(C, Ctype, (batchCount, m, n), (strideC, 1, ldc))

    def work():
        x, y = (_rounded(v.astype(computed), computeType) for v in (a, b))
        x, y = x.swapaxes(1, 2) if transa else x, y.swapaxes(1, 2) if transb else y
        out = one * np.matmul(x, y)
        if is_half and not sums_are_exact:
            half = k // 2  # of two sums each is rounded
            parts = np.matmul(x[..., :half], y[:, :half]), np.matmul(x[..., half:], y[:, half:])
            out = one * sum(part.astype(_DTYPES[Atype]).astype(computed) for part in parts)
        if zero:  # else the memory, which may hold nan, is not read
            out += zero * c
        c[...] = out.astype(c.dtype)

    do(work)
    launched("gemm", [a, b, c] if zero else [a, b], [c])


def _at(pointer, kind, shape, steps):
    """Return the array at an address; ``steps`` are distances in elements."""
    dtype = np.dtype(_DTYPES[kind])
    last = sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    memory = (ctypes.c_byte * ((last + 1) * dtype.itemsize)).from_address(pointer)
    return np.ndarray(shape, dtype, memory, strides=[step * dtype.itemsize for step in steps])


def _rounded(x, compute):
    """Cut off the last 13 bits of a float32 if the compute type is TF32."""
    if compute != _TF32:
        return x
    return (np.ascontiguousarray(x).view(np.uint32) & 0xFFFFE000).view(np.float32)


class Library:
    """cuBLAS as `ctypes` finds it: functions that return a status, on handles of their own.

    A handle computes on the stream that it was given, which has to be the current one here. While
    that is captured, it has to have a workspace, since cuBLAS would allocate one.
    """

    _handles: ClassVar[dict] = {}

    def __getattr__(self, name):
        function = globals()[f"_{name}"]

        def call(*args):
            try:
                function(*args)
            except CUBLASError:
                return 7
            return 0

        setattr(self, name, call)
        return call


def _cublasCreate_v2(pointer):
    refuse("cublasCreate")
    pointer._obj.value = handle = 2000 + len(Library._handles)
    Library._handles[handle] = {"device": current_device().id}


def _cublasSetStream_v2(handle, stream):
    Library._handles[handle].update(stream=stream, workspace=None)


def _cublasSetWorkspace_v2(handle, address, size):
    Library._handles[handle]["workspace"] = address


def _cublasSetMathMode(handle, mode):
    setMathMode(handle, mode)


def _by_library(function):
    names = inspect.signature(function).parameters

    def call(*args):
        _check_handle(args[0])
        _multiply(**dict(zip(names, args, strict=True)))

    return call


_cublasGemmEx, _cublasGemmStridedBatchedEx = map(_by_library, (gemmEx, gemmStridedBatchedEx))


def _check_handle(handle):
    known = Library._handles.get(handle, {})
    if known.get("device") != current_device().id:
        raise CUBLASError("CUBLAS_STATUS_INVALID_VALUE")
    if known["stream"] != get_current_stream().ptr:
        raise CUBLASError("a stream that is not the current one")
    if not known["workspace"]:
        refuse("cuBLAS without a workspace")
    elif (capture := current()) is not None:
        capture.memory.append(known["workspace"])


class _CDLL(ctypes.CDLL):
    def __new__(cls, name=None, *args, **options):
        if isinstance(name, str) and name.startswith("libcublas"):
            return Library()
        if name == "libcuda.so.1":
            return Driver()
        return super().__new__(cls)


ctypes.CDLL = _CDLL  # type: ignore[misc]
