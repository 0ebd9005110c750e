"""Shape, dtype and device."""

import numpy as np

import gpugrad

from .base import A, Case, S, beyond, bools, integers, nonzero

CASES = [
    # Shape, dtype and device
    Case(
        "reshape",
        [
            S(A(2, 3), shape=(3, 2)),
            S(A(2, 3), shape=(-1,)),
            S(A(2, 3), shape=6),
            S(A(2, 3), shape=[1, -1, 2]),
            S(A(2, 3, layout="transposed"), shape=(6,)),
            S(A(2, 3, layout="reversed"), shape=(3, 2)),
            S(A(2, 3), shape=(6,), copy=True),
            S(A(), shape=(1, 1)),
            S(A(1, 1), shape=()),
            S(A(0, 3), shape=(3, 0, 2)),
        ],
        lambda x, *, shape, copy=None: np.reshape(x, shape),
        lambda torch, x, *, shape, copy=None: x.reshape(shape),
    ),
    Case(
        "permute_dims",
        [
            S(A(2, 3), axes=(1, 0)),
            S(A(2, 3, 4), axes=(2, 0, 1)),
            S(A(2, 3, 4), axes=(-1, 0, -2)),
            S(A(2, 3, 4, layout="transposed"), axes=[1, 2, 0]),
            S(A(), axes=()),
            S(A(0, 3), axes=(1, 0)),
        ],
        lambda x, *, axes: np.transpose(x, axes),
        lambda torch, x, *, axes: torch.permute(x, axes),
    ),
    Case(
        "broadcast_to",
        [
            S(A(3), shape=(2, 3)),
            S(A(2, 1), shape=(2, 3)),
            S(A(1, 1), shape=(2, 2, 3)),
            S(A(2, 3), shape=(2, 3)),
            S(A(), shape=(2, 3)),
            S(A(1), shape=4),
            S(A(), shape=()),
            S(A(1, 3), shape=(0, 3)),
            S(A(3, layout="reversed"), shape=(2, 3)),
        ],
        lambda x, *, shape: np.broadcast_to(x, shape),
        lambda torch, x, *, shape: (
            torch.broadcast_to(x, np.atleast_1d(shape).tolist()) if shape != () else x.clone()
        ),
    ),
    Case(
        "squeeze",
        [
            S(A(1, 3), axis=0),
            S(A(2, 1, 3, 1), axis=-1),
            S(A(2, 1, 3, 1), axis=(1, 3)),
            S(A(1, 1), axis=(0, -1)),
            S(A(1, 0), axis=0),
            S(A(3, 1, layout="transposed"), axis=1),
        ],
        lambda x, *, axis: np.squeeze(x, axis),
        lambda torch, x, *, axis: torch.squeeze(x, axis),
    ),
    Case(
        "expand_dims",
        [
            S(A(2, 3)),
            S(A(2, 3), axis=1),
            S(A(2, 3), axis=-1),
            S(A(), axis=0),
            S(A(0), axis=-2),
            S(A(2, 3, layout="transposed"), axis=2),
        ],
        lambda x, *, axis=0: np.expand_dims(x, axis),
        lambda torch, x, *, axis=0: torch.unsqueeze(x, axis),
    ),
    Case(
        "concat",
        [
            S(A(2, 3), A(1, 3)),
            S(A(2, 3), A(2, 1), A(2, 2), axis=1),
            S(A(2, 3), A(2, 1), axis=-1),
            S(A(2, 3), A(4), A(), A(1, 1), axis=None),
            S(A(2, 3)),
            S(A(0, 3), A(2, 3)),
            S(A(0), A(0)),
            S(A(2, 3, layout="transposed"), A(2, 3, layout="reversed")),
            S(A(2, dtype="float32"), A(3, draw=integers(0, 5))),
            S(A(2, dtype="float32"), A(3, dtype="float64")),
            S(A(2, draw=integers(0, 5)), A(3, draw=integers(0, 5))),
        ],
        lambda *arrays, axis=0: np.concatenate(arrays, axis),
        lambda torch, *arrays, axis=0: (
            torch.concat(arrays, axis)
            if axis is not None
            else torch.concat([a.reshape(-1) for a in arrays])
        ),
    ),
    Case(
        "stack",
        [
            S(A(2, 3), A(2, 3)),
            S(A(2, 3), A(2, 3), A(2, 3), axis=1),
            S(A(2, 3), A(2, 3), axis=-1),
            S(A(2, 3), A(2, 3), axis=-3),
            S(A(3)),
            S(A(), A()),
            S(A(0), A(0), axis=1),
            S(A(2, 3, layout="transposed"), A(2, 3, layout="reversed")),
            S(A(2, dtype="float32"), A(2, draw=integers(0, 5))),
        ],
        lambda *arrays, axis=0: np.stack(arrays, axis),
        lambda torch, *arrays, axis=0: torch.stack(arrays, axis),
    ),
    Case(
        "unstack",
        [
            S(A(2, 3)),
            S(A(2, 3), axis=1),
            S(A(2, 3, 2), axis=-2),
            S(A(3)),
            S(A(1, 0)),
            S(A(2, 3, layout="transposed")),
            S(A(3, draw=integers(0, 5))),
        ],
        lambda x, *, axis=0: tuple(np.moveaxis(x, axis, 0)),
        lambda torch, x, *, axis=0: torch.unbind(x, axis),
    ),
    Case(
        "astype",
        [
            *(S(A(2, 3), dtype=gpugrad.float64, copy=copy) for copy in (True, False)),
            S(A(2, 3, dtype="float64"), dtype=gpugrad.float32),
            S(A(2, 3, dtype="float32"), dtype=gpugrad.float64),
            S(A(2, 3, draw=nonzero), dtype=gpugrad.int64),
            S(A(2, 3), dtype=gpugrad.bool),
            S(A(2, 3, draw=integers(0, 5)), dtype=gpugrad.float32),
            S(A(2, 3, draw=bools), dtype=gpugrad.float32),
            S(A(dtype="float32"), dtype=gpugrad.float64),
            S(A(0), dtype=gpugrad.float64),
            *beyond("array_api_strict", S(A(3, dtype="float32"), dtype=gpugrad.float16)),
        ],
        lambda x, *, dtype, copy=True: x.astype(dtype),
        lambda torch, x, *, dtype, copy=True: x.to(dtype),
    ),
]
