"""cuBLAS on a stream that is being captured, where CuPy refuses every call of it.

The functions are those of the library that CuPy has loaded, called by `ctypes`.
"""

import ctypes
import sys
from functools import cache

import cupy
from cupy.cuda import runtime

_WORKSPACE = 32 << 20  # bytes, as NVIDIA recommends for its largest GPUs

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_MATRIX = _POINTER, _INT, _INT  # its address, dtype and leading dimension
_STACK = *_MATRIX, _LONG  # and the distance between matrices
_FIRST = _POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER  # the handle, flags, sizes and alpha
_SIGNATURES = {
    "cublasCreate_v2": (_POINTER,),
    "cublasDestroy_v2": (_POINTER,),
    "cublasSetStream_v2": (_POINTER, _POINTER),
    "cublasSetWorkspace_v2": (_POINTER, _POINTER, ctypes.c_size_t),
    "cublasSetMathMode": (_POINTER, _INT),
    "cublasGemmEx": (*_FIRST, *_MATRIX, *_MATRIX, _POINTER, *_MATRIX, _INT, _INT),
    "cublasGemmStridedBatchedEx": (
        *_FIRST, *_STACK, *_STACK, _POINTER, *_STACK, _INT, _INT, _INT,
    ),
}  # fmt: skip


@cache
def _library():
    from cupy.cuda import cublas  # noqa: F401  loads the library

    major = runtime.runtimeGetVersion() // 1000
    name = f"cublas64_{major}.dll" if sys.platform == "win32" else f"libcublas.so.{major}"
    library = ctypes.CDLL(name)
    for function, parameters in _SIGNATURES.items():
        getattr(library, function).argtypes = parameters
    return library


def _check(status):
    if status:
        raise RuntimeError(f"cuBLAS returned status {status}")


class CapturedBlas:
    """A handle of the current device for one stream, with a workspace of its own.

    Has the functions of `cupy.cuda.cublas` that `products` calls, which take ``handle`` first.
    """

    handle = None

    def __init__(self, stream, math_mode):
        self._library = _library()
        self._workspace = cupy.empty(_WORKSPACE, "u1")  # else captured calls would allocate one
        handle = ctypes.c_void_p()
        _check(self._library.cublasCreate_v2(ctypes.byref(handle)))
        self.handle = handle.value
        _check(self._library.cublasSetStream_v2(self.handle, stream.ptr))
        address = self._workspace.data.ptr
        _check(self._library.cublasSetWorkspace_v2(self.handle, address, _WORKSPACE))
        _check(self._library.cublasSetMathMode(self.handle, math_mode))

    def __del__(self):
        if self.handle is not None and not sys.is_finalizing():
            self._library.cublasDestroy_v2(self.handle)

    def gemmEx(self, *args):
        _check(self._library.cublasGemmEx(*args))

    def gemmStridedBatchedEx(self, *args):
        _check(self._library.cublasGemmStridedBatchedEx(*args))
