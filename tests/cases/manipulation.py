"""Shape, dtype and device."""

import numpy as np

import gpugrad

from .base import A, B, C, Case, F, S, Z, beyond, each, in_layouts, of_shapes, values
from .draws import nonzero
from .kinds import square


def _chunks(x, *, chunks, axis=0):
    length = -(-x.shape[axis] // chunks)
    return tuple(np.split(x, range(length, x.shape[axis], length), axis))


def _torch_concat(torch, *arrays, axis=0):
    return torch.concat([a.reshape(-1) for a in arrays] if axis is None else arrays, axis or 0)


CASES = [
    # Shape, dtype and device
    Case("reshape", [
        *each("shape", {(2, 3): [(3, 2), (-1,), 6, [1, -1, 2]], (): [(1, 1)], (1, 1): [()]}),
        S(A(2, 3), shape=(6,), copy=True), S(A(0, 3), shape=(3, 0, 2)),
    ], lambda x, *, shape, copy=None: np.reshape(x, shape),
         lambda torch, x, *, shape, copy=None: x.reshape(shape), complex=True,
         sized=lambda n: S(square(n), shape=(-1,))),
    Case("permute_dims",
         each("axes", {
             (2, 3): [(1, 0)], (2, 3, 4): [(2, 0, 1), (-1, 0, -2), [1, 2, 0]], (): [()],
             (0, 3): [(1, 0)],
         }), torch=lambda torch, x, *, axes: torch.permute(x, axes), complex=True),
    Case("moveaxis",
         each("source destination", {
             (2, 3): [(0, 1), ((), ())], (2, 3, 4): [(0, -1), (-1, 0)],
             (2, 3, 4, 1): [((0, -1), (2, 0)), ((3, 1, 0), (0, -1, 1))], (0, 3): [(0, 1)],
         }), torch=True, complex=True),
    Case("flip",
         each("axis", {(2, 3): [None, 0], (2, 3, 4): [-2, (0, -1)], (): [None], (0, 3): [1]}),
         torch=lambda torch, x, *, axis=None: torch.flip(
             x, [*range(x.ndim)] if axis is None else np.atleast_1d(axis).tolist()), complex=True),
    Case("roll", [
        *each("shift", {(2, 3): [1, -8], (): [2]}),
        *each("shift axis", {
            (2, 3): [(2, 1), (3, 1), ((1, 3), 1), ((1, 1), None)],
            (2, 3, 4): [(-1, -2), (1, (0, 2)), ((1, -6), (-1, 0))],
            (3,): [((1, 1), (0, 0))], (0, 3): [(1, 0)],
        }),
    ], torch=lambda torch, x, *, shift, axis=None: torch.roll(
        x, np.broadcast_to(shift if isinstance(axis, tuple) else np.sum(shift),
                           np.shape(axis)).tolist(), axis), complex=True),
    Case("broadcast_arrays", [
        *of_shapes([(2, 1), (3,)], [(2, 3), (), (2, 1, 1)], [(2, 3)], [(), ()], [(0, 1), (3,)]),
        S(F(2), Z(3, 1)),
    ], torch="broadcast_tensors", complex=True,
         sized=lambda n: S(A(round(n**0.5), 1), A(round(n**0.5)))),
    Case("meshgrid", [
        *of_shapes([(2,), (3,)], [(2,), (3,), (4,)], [(3,)], [(), (2,)], [(0,), (2,)]),
        *of_shapes([(2,), (3,)], [(2,), (3,), (4,)], indexing="ij"),
    ], lambda *arrays, indexing="xy": tuple(np.meshgrid(*arrays, indexing=indexing)),
         lambda torch, *arrays, indexing="xy": torch.meshgrid(*arrays, indexing=indexing),
         complex=True, sized=lambda n: S(A(round(n**0.5)), A(round(n**0.5)))),
    Case("broadcast_to",
         each("shape", {
             (2, 1): [(2, 3)], (3,): [(2, 3)], (1, 1): [(2, 2, 3)], (2, 3): [(2, 3)],
             (): [(2, 3), ()], (1,): [4], (1, 3): [(0, 3)], (0, 1): [(0, 3)],
         }),
         torch=lambda torch, x, *, shape: (
             torch.broadcast_to(x, np.atleast_1d(shape).tolist()) if shape != () else x.clone()
         ), complex=True, sized=lambda n: S(A(round(n**0.5)), shape=square(n).shape)),
    Case("squeeze",
         each("axis", {(1, 3): [0], (2, 1, 3, 1): [-1, (1, 3)], (1, 1): [(0, -1)], (1, 0): [0]}),
         torch=True, complex=True, sized=lambda n: S(A(1, n), axis=0)),
    Case("expand_dims",
         each("axis", {(2, 3): [0, 1, -1, (0, -1), (3, 1), ()], (): [0, (0, 1)], (0,): [-2]}),
         torch=lambda torch, x, *, axis: x.reshape(np.expand_dims(np.empty(x.shape), axis).shape),
         complex=True),
    Case("concat", [
        *of_shapes([(2, 3), (1, 3)], [(2, 3)], [(0, 3), (2, 3)], [(0,), (0,)]),
        S(A(2, 3), A(2, 1), A(2, 2), axis=1), S(A(2, 3), A(2, 1), axis=-1),
        S(A(2, 3), A(4), A(), A(1, 1), axis=None), S(F(2), Z(3)), S(F(2), A(3, dtype="float64")),
        S(Z(2), Z(3)),
    ], lambda *arrays, axis=0: np.concatenate(arrays, axis), _torch_concat, complex=True,
         sized=lambda n: S(A(n // 2), A(n // 2))),
    Case("stack", [
        *of_shapes([(2, 3), (2, 3)], [(3,)], [(), ()]), S(A(2, 3), A(2, 3), A(2, 3), axis=1),
        *(S(A(2, 3), A(2, 3), axis=axis) for axis in (-1, -3)), S(A(0), A(0), axis=1),
        S(F(2), Z(2)),
    ], lambda *arrays, axis=0: np.stack(arrays, axis),
         lambda torch, *arrays, axis=0: torch.stack(arrays, axis), complex=True,
         sized=lambda n: S(A(n // 2), A(n // 2))),
    Case("split", [
        *each("indices_or_sections", {(4, 3): [2], (5, 2): [(1, 4, 9)], (5,): [[-2]], (0, 2): [2]}),
        S(A(2, 6), indices_or_sections=3, axis=-1),
    ], lambda x, *, indices_or_sections, axis=0: tuple(np.split(x, indices_or_sections, axis)),
         lambda torch, x, *, indices_or_sections, axis=0: torch.tensor_split(
             x, indices_or_sections, axis),
         complex=True, sized=lambda n: S(A(4, n // 4), indices_or_sections=2)),
    Case("chunk", [S(A(5, 3), chunks=2), S(A(2, 6), chunks=4, axis=-1), S(A(2), chunks=3)], _chunks,
         torch=True, complex=True),
    Case("unstack", [
        *each("axis", {(2, 3): [0, 1], (2, 3, 2): [-2], (3,): [0], (1, 0): [0]}), S(Z(3)),
    ], lambda x, *, axis=0: tuple(np.moveaxis(x, axis, 0)), torch="unbind", complex=True,
         sized=lambda n: S(A(4, n // 4))),
    Case("repeat", [
        *(S(A(2, 3), n, axis=axis) for n, axis in ((2, None), (2, 0), (1, -1), (0, 1))),
        S(A(2, 3, 2), values([1, 0, 2]), axis=1), S(A(2, 3), values([2, 1]), axis=-2),
        S(A(2, 3), values([0, 1, 2, 0, 3, 1])), S(A(2, 3), values([3]), axis=0),
        S(A(1, 3), values([2]), axis=0), S(A(3), values([0, 0, 0])),
        *(S(A(0, 3), 2, axis=axis) for axis in (0, 1)), S(A(), 3),
        *in_layouts(S(A(2, 3), 2, axis=1)), S(Z(3), 2),
    ], torch="repeat_interleave", complex=True, sized=lambda n: S(square(n / 2), 2, axis=0)),
    Case("tile",
         each("repetitions", {
             (2, 3): [(2, 3), (2,), (), (1, 0)], (3,): [(2, 1, 2)], (): [(2, 2)], (0, 3): [(2, 2)],
         }), lambda x, *, repetitions: np.tile(x, repetitions),
         lambda torch, x, *, repetitions: torch.tile(x, repetitions), complex=True,
         sized=lambda n: S(square(n / 4), repetitions=(2, 2))),
    *(
        Case(name, [
            *each("k", {(3, 3): [0, 5, -5], (2, 4): [1], (4, 2): [-1], (2, 3, 3): [0]}),
            *each("k", {(2, 1, 2, 3): [-1], (1, 1): [0], (0, 3): [0], (2, 3, 0): [1]}),
            *in_layouts(S(A(3, 4), k=1)), S(Z(3, 3, low=1)), S(B(3, 3)),
        ], lambda x, *, k=0, name=name: getattr(np, name)(x, k),
             lambda torch, x, *, k=0, name=name: getattr(torch, name)(x, k), complex=True)
        for name in ("tril", "triu")
    ),
    Case("astype", [
        *(S(A(2, 3), dtype=gpugrad.float64, copy=copy) for copy in (True, False)),
        S(A(2, 3, dtype="float64"), dtype=gpugrad.float32), S(F(2, 3), dtype=gpugrad.float64),
        S(A(2, 3, draw=nonzero), dtype=gpugrad.int64), S(A(2, 3), dtype=gpugrad.bool),
        S(Z(2, 3), dtype=gpugrad.float32), S(B(2, 3), dtype=gpugrad.float32),
        S(F(), dtype=gpugrad.float64), S(A(0), dtype=gpugrad.float64),
        *beyond("array_api_strict", S(F(3), dtype=gpugrad.float16)),
        S(A(2, 3), dtype=gpugrad.complex128), S(F(2, 3), dtype=gpugrad.complex64),
        S(C(2, 3), dtype=gpugrad.complex64), S(C(2, 3), dtype=gpugrad.complex128, copy=False),
        S(Z(2, 3), dtype=gpugrad.complex64),
        *beyond("array_api_strict", S(C(2, 3), dtype=gpugrad.bool)),
    ], lambda x, *, dtype, copy=True: x.astype(dtype),
         lambda torch, x, *, dtype, copy=True: x.to(dtype)),
]  # fmt: skip
