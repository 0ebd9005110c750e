"""cuBLAS on a stream that is being captured, where CuPy refuses every call of it.

The functions are those of the library that CuPy has loaded, called by `ctypes`. All graphs of a
device share a handle and its workspace: one for each graph would take more memory than most graphs,
and destroying a handle waits for the whole device. Both are made when first needed and then kept;
`graphs` makes one graph at a time, and ensures that no two streams use them at the same time.
"""

import ctypes
import sys
from functools import cache, cached_property

import cupy
from cupy.cuda import runtime

SUMS_IN_FLOAT32 = 16  # of cublasMath_t: 16-bit products are never rounded before they are added
_WORKSPACE = 32 << 20  # bytes, as NVIDIA recommends for its largest GPUs

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
_MATRIX = _POINTER, _INT, _INT  # its address, dtype and leading dimension
_STACK = *_MATRIX, _LONG  # and the distance between matrices
_FIRST = _POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER  # the handle, flags, sizes and alpha
_SIGNATURES = {
    "cublasCreate_v2": (_POINTER,),
    "cublasSetStream_v2": (_POINTER, _POINTER),
    "cublasSetWorkspace_v2": (_POINTER, _POINTER, ctypes.c_size_t),
    "cublasSetMathMode": (_POINTER, _INT),
    "cublasGemmEx": (*_FIRST, *_MATRIX, *_MATRIX, _POINTER, *_MATRIX, _INT, _INT),
    "cublasGemmStridedBatchedEx": (*_FIRST, *_STACK, *_STACK, _POINTER, *_STACK, _INT, _INT, _INT),
}


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


@cache
def shared(device):
    """The handle of the current device, and its workspace; else captured calls would allocate one.

    The memory is outside of all pools, because the pool of the graph that is captured may be freed.
    """
    try:
        workspace = cupy.cuda.Memory(_WORKSPACE)
    except runtime.CUDARuntimeError:
        cupy.get_default_memory_pool().free_all_blocks()
        workspace = cupy.cuda.Memory(_WORKSPACE)
    handle = ctypes.c_void_p()
    _check(_library().cublasCreate_v2(ctypes.byref(handle)))
    return handle.value, workspace


class CapturedBlas:
    """The handle of the current device, set to one stream when it is first used.

    Has the functions of `cupy.cuda.cublas` that `products` calls, which take ``handle`` first.
    """

    def __init__(self, stream):
        self._stream = stream

    @cached_property
    def handle(self):
        library = self._library = _library()
        handle, workspace = shared(runtime.getDevice())
        _check(library.cublasSetStream_v2(handle, self._stream.ptr))  # forgets the workspace
        _check(library.cublasSetWorkspace_v2(handle, workspace.ptr, workspace.size))
        _check(library.cublasSetMathMode(handle, SUMS_IN_FLOAT32))
        return handle

    @property
    def is_used(self):
        return "handle" in vars(self)

    def gemmEx(self, *args):
        _check(self._library.cublasGemmEx(*args))

    def gemmStridedBatchedEx(self, *args):
        _check(self._library.cublasGemmStridedBatchedEx(*args))
