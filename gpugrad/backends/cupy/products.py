"""Matrix products on CUDA devices: `gemm` computes each with one call of cuBLAS.

CuPy's own functions copy every batched operand that is not C-contiguous, even transposed views,
compute batches of float16 on float32 copies, and do not support batches of bfloat16. Here shapes
and strides alone determine a plan, which copies, once, only operands that BLAS cannot express:

- a matrix in which neither axis has stride 1, or whose rows overlap or repeat (steps along both
  axes, a reversed axis or a broadcast one);
- batch axes that do not combine to one step in memory, as after a permutation of two of them, or
  if only some of several are broadcast.

float16 and bfloat16 are multiplied as they are and summed in float32. float32 is computed in
float32, or in TF32 if `gpugrad.cuda.allow_tf32` allows it. CuPy multiplies integers and complex
numbers.
"""

import threading
from contextlib import contextmanager
from functools import cache, lru_cache
from math import prod
from typing import NamedTuple

import cupy
import numpy as np
from cupy.cuda import runtime
from cupy.cuda.device import get_cublas_handle

from ..dtypes import float32, float64
from .cublas import SUMS_IN_FLOAT32, CapturedBlas
from .devices import tf32
from .kernels.loader import accumulator, contiguous, covers

# Constants from CUDA's headers: cublasComputeType_t, cublasGemmAlgo_t and, below, cudaDataType.
_IN_32F, _IN_TF32, _IN_64F = 68, 77, 70
_ALGORITHM = -1  # cuBLAS's choice
_MOST = 2**31 - 1  # cuBLAS's sizes and leading dimensions are ints

# By the names of dtypes, since bfloat16 may be imported later.
_DATA = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}

# cuBLAS's alpha and beta, the factors of the product and of the old result, on the host.
_SCALARS = {dtype: np.array([1, 0], dtype) for dtype in (float32, float64)}


class _Kind(NamedTuple):
    """cuBLAS's constants for a dtype and its compute type, and addresses of 1 and 0 in it."""

    data: int
    compute: int
    one: int
    zero: int


@cache
def _kind_of(dtype):
    """The `_Kind` of a dtype; None if cuBLAS is not called for it."""
    if dtype.name not in _DATA:
        return None
    scalars = _SCALARS[accumulator(dtype)]
    one, compute = scalars.ctypes.data, _IN_64F if dtype == float64 else _IN_32F
    return _Kind(_DATA[dtype.name], compute, one, one + scalars.itemsize)


@cache
def _cublas():
    from cupy.cuda import cublas  # loads the library, which a machine without a GPU may lack

    return cublas


class _Handles(threading.local):
    """This thread's cuBLAS handles, by the number of their device.

    captured: the `CapturedBlas` to use instead, while work is being captured.
    """

    def __init__(self):
        self.known = {}
        self.captured = None

    def current(self):
        """The handle of the current device."""
        device = runtime.getDevice()
        if (handle := self.known.get(device)) is None:
            handle = get_cublas_handle()
            _cublas().setMathMode(handle, SUMS_IN_FLOAT32)
            self.known[device] = handle
        return handle


_handles = _Handles()


@contextmanager
def captured_on(stream):
    """Compute the products inside the block, of this thread, on a stream that may be captured.

    The first one must not be captured.
    """
    _handles.captured = blas = CapturedBlas(stream)
    try:
        yield blas
    finally:
        _handles.captured = None


def gemm(kind, plan, a, b, out, leading, into, beta):
    """Compute ``out = a @ b + beta * out`` from pointers to the arrays and their plan.

    leading: how far the rows of ``out`` are apart. into: the constant for its dtype. beta: the
    address of a factor, whose 0 means that ``out`` is not read.

    cuBLAS is column-major, so it computes the transposed product.
    """
    data = kind.data
    compute = _IN_TF32 if data == 0 and tf32() else kind.compute
    m, n, k, count = plan.m, plan.n, plan.k, plan.products
    t1, ld1, step1 = plan.first
    t2, ld2, step2 = plan.second
    blas = _handles.captured
    handle = _handles.current() if blas is None else blas.handle
    blas = blas or _cublas()
    # fmt: off
    if count == 1:
        blas.gemmEx(
            handle, t2, t1, n, m, k, kind.one, b, data, ld2, a, data, ld1,
            beta, out, into, leading, compute, _ALGORITHM,
        )
    else:
        blas.gemmStridedBatchedEx(
            handle, t2, t1, n, m, k, kind.one, b, data, ld2, step2, a, data, ld1, step1,
            beta, out, into, leading, m * leading, count, compute, _ALGORITHM,
        )
    # fmt: on


class Layout(NamedTuple):
    """How a stack of matrices lies in memory; distances are numbers of elements.

    transposed: 0 if the elements of a row are adjacent, 1 if those of a column are.
    leading: the distance between rows or, if transposed, between columns.
    step: the distance between matrices.
    """

    transposed: int
    leading: int
    step: int


class Plan(NamedTuple):
    """How to compute ``(products, m, k) @ (products, k, n)``.

    shape: the result's shape.
    products: the number of products; 0 if the result is empty or all zeros.
    first, second: the operands' layouts.
    copies: for each operand the shape to which to broadcast and copy it first, or None.
    """

    shape: tuple
    m: int = 0
    n: int = 0
    k: int = 0
    products: int = 0
    first: Layout | None = None
    second: Layout | None = None
    copies: tuple | None = None


def matmul(x1, x2, /, *, out=None, add=False):
    """The standard's, for arrays on one device.

    out: an array for the result, of its shape, and of its dtype or for 16-bit floats of float32. It
        is contiguous, or such a one without the ends of its last axis.
    add: whether to add the product to ``out``, which must be of floats then.
    """
    if x1.dtype is not x2.dtype:
        dtype = cupy.result_type(x1, x2)
        x1, x2 = x1.astype(dtype, copy=False), x2.astype(dtype, copy=False)
    dtype = x1.dtype
    if (kind := _kind_of(dtype)) is None:
        return cupy.matmul(x1, x2, out=out)
    if x1.ndim == x2.ndim == 1:
        return vecdot(x1, x2)
    a, b = x1.data, x2.data
    if a.device_id != b.device_id:
        raise ValueError(f"arrays are on devices {a.device_id} and {b.device_id}")
    plan = plan_for(x1.shape, x1.strides, x2.shape, x2.strides, dtype.itemsize)
    if plan.copies is not None:
        pairs = zip((x1, x2), plan.copies, strict=True)
        both = [x if n is None else contiguous(cupy.broadcast_to(x, n)) for x, n in pairs]
        return matmul(*both, out=out, add=add)
    if not plan.products:
        if out is None:
            return cupy.zeros(plan.shape, dtype)
        if not add:
            out[...] = 0
        return out
    leading, into, beta = plan.n, kind.data, kind.one if add else kind.zero
    if out is None:
        out = cupy.ndarray(plan.shape, dtype)
    else:
        into = _kind_of(out.dtype).data
        if x1.ndim > 1 and x2.ndim > 1:
            leading = out.strides[-2] // out.itemsize
    gemm(kind, plan, a.ptr, b.ptr, out.data.ptr, leading, into, beta)
    return out


@lru_cache(maxsize=4096)
def plan_for(shape1, strides1, shape2, strides2, itemsize):
    """The `Plan` of a product of two arrays, at most one of them 1-d; strides are in bytes."""
    if not (shape1 and shape2):
        raise ValueError("an operand without axes is not a matrix; use multiply")
    is_row, is_column = len(shape1) == 1, len(shape2) == 1
    given1, given2 = shape1, shape2
    if is_row:
        shape1, strides1 = (1, *shape1), (itemsize, *strides1)
    if is_column:
        shape2, strides2 = (*shape2, 1), (*strides2, itemsize)
    *batch1, m, k = shape1
    *batch2, inner, n = shape2
    if k != inner:
        raise ValueError(f"x1 {given1} and x2 {given2} do not align: {k} != {inner}")
    batch = np.broadcast_shapes(tuple(batch1), tuple(batch2))
    shape = (*batch, *(() if is_row else (m,)), *(() if is_column else (n,)))
    if not (prod(batch) and m and n and k):
        return Plan(shape)

    steps1, layout1 = _steps_and_layout(batch, batch1, strides1, m, k, itemsize)
    steps2, layout2 = _steps_and_layout(batch, batch2, strides2, k, n, itemsize)
    rows_apart = strides1[-2] // itemsize
    axes = [axis for axis in zip(batch, steps1, steps2, strict=True) if axis[0] > 1]

    # Along axes where the second matrix repeats, the first matrices' rows form one larger matrix.
    while axes and axes[-1][2] == 0 and layout1 is not None:
        size, step, _ = axes[-1]
        more = _layout(m * size, k, step if m == 1 else rows_apart, strides1[-1] // itemsize)
        if (m > 1 and step != m * rows_apart) or more is None:
            break
        rows_apart = step if m == 1 else rows_apart
        m *= size
        layout1 = more
        axes.pop()

    sizes = [axis[0] for axis in axes]
    step1, fits1 = _one_step(sizes, [axis[1] for axis in axes])
    step2, fits2 = _one_step(sizes, [axis[2] for axis in axes])
    fits1, fits2 = fits1 and layout1 is not None, fits2 and layout2 is not None
    if not (fits1 and fits2):
        whole1 = any(axis[1] for axis in axes)  # else one copy serves the whole batch
        whole2 = any(axis[2] for axis in axes)
        copies = (
            None if fits1 else (*batch, *shape1[-2:]) if whole1 else given1,
            None if fits2 else (*batch, *shape2[-2:]) if whole2 else given2,
        )
        return Plan(shape, copies=copies)
    first, second = Layout(*layout1, step1), Layout(*layout2, step2)
    return Plan(shape, m, n, k, prod(sizes), first, second)


def _steps_and_layout(batch, own, strides, rows, columns, itemsize):
    """The distance between an operand's matrices along each batch axis, 0 where it is broadcast,
    and the `_layout` of its matrices."""
    if any(stride % itemsize for stride in strides):  # a field of larger elements
        return [-1] * len(batch), None
    *steps, down, across = [stride // itemsize for stride in strides]
    steps = [0 if n == 1 else step for n, step in zip(own, steps, strict=True)]
    return [0] * (len(batch) - len(own)) + steps, _layout(rows, columns, down, across)


def _layout(rows, columns, down, across):
    """Whether a matrix is transposed, and its leading dimension; None if BLAS cannot read it."""
    if columns == 1:
        across = 1
        down = 1 if rows == 1 else down
    elif rows == 1:
        down = columns if across == 1 else 1
    if across == 1 and columns <= down <= _MOST:
        return 0, down
    if down == 1 and rows <= across <= _MOST:
        return 1, across
    return None


def _one_step(sizes, steps):
    """The step of the last axis, and whether it runs through the matrices along all axes."""
    if not steps:
        return 0, True
    axes = zip(steps[:-1], steps[1:], sizes[1:], strict=True)
    return steps[-1], steps[-1] >= 0 and all(outer == size * inner for outer, inner, size in axes)


def vecdot(x1, x2, /, *, axis=-1):
    """The standard's; float16 and bfloat16 are summed in float32."""
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"lengths {x1.shape[axis]} and {x2.shape[axis]} along axis {axis}")
    if axis != -1:
        x1, x2 = cupy.moveaxis(x1, axis, -1), cupy.moveaxis(x2, axis, -1)
    dtype = x1.dtype if x1.dtype is x2.dtype else cupy.result_type(x1, x2)
    x1 = cupy.conj(x1) if x1.dtype.kind == "c" else x1
    # Not by cuBLAS, which would use a block of threads for each of many short vectors.
    half = dtype.itemsize == 2 and covers(dtype)
    products = cupy.multiply(x1, x2, dtype=float32 if half else dtype)
    return cupy.sum(products, axis=-1, dtype=products.dtype).astype(dtype, copy=False)


def tensordot(x1, x2, /, *, axes=2):
    """The standard's, as one product of matrices."""
    ndim1, ndim2 = x1.ndim, x2.ndim
    if isinstance(axes, int):
        if not 0 <= axes <= min(ndim1, ndim2):
            raise ValueError(f"axes {axes} is not from 0 to {min(ndim1, ndim2)}")
        axes = range(ndim1 - axes, ndim1), range(axes)
    pairs = [(a % ndim1, b % ndim2) for a, b in zip(*axes, strict=True)]
    # In the order of its own axes, the larger operand most likely needs no copy.
    pairs.sort(key=lambda pair: pair[x2.size > x1.size])
    summed1, summed2 = [a for a, _ in pairs], [b for _, b in pairs]
    shape1, shape2 = x1.shape, x2.shape
    if [shape1[a] for a in summed1] != [shape2[b] for b in summed2]:
        raise ValueError(f"x1 {shape1} and x2 {shape2} do not align along axes {pairs}")
    left1 = [a for a in range(ndim1) if a not in summed1]
    left2 = [b for b in range(ndim2) if b not in summed2]
    inner = prod([shape1[a] for a in summed1])
    rows, columns = [shape1[a] for a in left1], [shape2[b] for b in left2]
    out = matmul(
        x1.transpose(*left1, *summed1).reshape(prod(rows), inner),
        x2.transpose(*summed2, *left2).reshape(inner, prod(columns)),
    )
    return out.reshape(rows + columns)
