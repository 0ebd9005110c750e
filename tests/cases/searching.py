"""Searching, sorting and sets."""

import numpy as np

from .base import A, B, Case, F, S, Z, beyond, inf, kink, nan, values
from .draws import distinct, positive
from .kinds import along, cases, reduction


def _sorting():
    ties = S(Z(3, 8, below=3)), S(Z(9, below=3))
    return [
        *along(distinct),
        *(S(*s.inputs, descending=True, **s.static) for s in along(distinct)),
        *(S(*s.inputs, **order) for s in ties for order in ({}, {"descending": True})),
        S(values([3, 1, 2, 1, 3, 1])),
        S(A(4, 3, draw=distinct), axis=0, descending=True, stable=False),
        *beyond("torch", S(Z(2, 3, below=9, dtype="uint16"), descending=True)),
    ]


def _argsort(x, *, axis=-1, descending=False, stable=True):
    x = x.astype(np.float64)
    return np.argsort(-x if descending else x, axis=axis, kind="stable")


def _sort(x, **order):
    return np.take_along_axis(x, _argsort(x, **order), order.get("axis", -1))


def _torch_sort(torch, x, *, axis=-1, descending=False, stable=True):
    return torch.sort(x, dim=axis, descending=descending, stable=stable).values


def _searchsorted(x1, x2, sorter=None, *, side="left"):
    x1 = x1 if sorter is None else x1[sorter]
    if isinstance(x2, float) and x1.dtype.kind == "f":  # a Python number takes the array's dtype
        x2 = x1.dtype.type(x2)
    below = np.less if side == "left" else np.less_equal
    return np.sum(below(x1, np.asarray(x2)[..., None]), axis=-1)


def ascending(rng, shape):
    return np.sort(rng.standard_normal(shape))


ASCENDING = A(6, draw=ascending)


def _unique(x):
    """Return values, first indices, inverse indices and counts, one element after the other."""
    flat = x.ravel().tolist()
    distinct = sorted(set(flat), key=lambda v: (v != v, v if isinstance(v, float | int) else 0))
    if x.dtype.kind == "c":
        distinct = sorted(set(flat), key=lambda v: (v.real, v.imag))
    return (np.array(distinct, x.dtype), np.array([flat.index(v) for v in distinct], np.int64),
            np.array([distinct.index(v) for v in flat], np.int64).reshape(x.shape),
            np.array([flat.count(v) for v in distinct], np.int64))  # fmt: skip


METHODS = "lower", "higher", "midpoint", "nearest"
OTHER_METHODS = "hazen", "interpolated_inverted_cdf", "median_unbiased", "weibull"


def _topk(x, *, k, axis=-1, largest=True):
    order = _argsort(x, axis=axis, descending=largest).take(range(k), axis)
    return np.take_along_axis(x, order, axis), order


SETS = [
    S(Z(8, below=4)), S(Z(2, 5, below=4)), S(Z(2, 5, below=4, dtype="int8")), S(B(6)), S(A(2, 3)),
    kink([[1.5, 0.0], [-2.0, 1.5], [1.5, 0.0]], gradients=([[1.0, 1.0], [1.0, 0.0], [0.0, 0.0]],)),
    kink([2.0, inf, -inf, inf], gradients=([1.0, 1.0, 1.0, 0.0],)), S(A(draw=positive)), S(A(0)),
]  # fmt: skip


CASES = [
    *cases("argmax argmin", [
        *reduction(distinct, axes=[None, 0, 1, -1]), S(values([1, 3, 3, 1, 1, 3])),
    ], differentiable=False),
    Case("nonzero", [
        S(B(3, 4)), S(Z(2, 3, 2, below=2)), S(values([0.0, 1.5, -0.0, nan, -2.0])), S(A(0)),
        S(A(2, 0)),
    ], differentiable=False, complex=True),
    Case("argwhere", [S(B(3, 4)), S(Z(4, below=2)), S(A(2, 0))], differentiable=False),
    Case("topk", [
        S(A(5, draw=distinct), k=3), S(A(2, 4, draw=distinct), k=2, largest=False),
        S(A(4, 2, draw=distinct), k=1, axis=0), S(A(2, 3, draw=distinct), k=0),
        kink([2.0, 1.0, 2.0, inf], k=2, gradients=([1.0, 0.0, 0.0, 1.0],),
             unlike_torch="PyTorch takes any of equal elements"),
    ], _topk, torch=True),
    Case("quantile", [
        S(A(5, draw=distinct), 0.3), S(A(2, 4, draw=distinct), 0.6, axis=1, keepdims=True),
        S(A(4, 2, draw=distinct), values([0.1, 0.5, 0.9]), axis=0),
        S(A(2, 2, draw=distinct), values(0.4)), S(A(4, draw=distinct), 1),
        *(S(A(5, draw=distinct), 0.35, method=method) for method in METHODS),
        # PyTorch's quantile lacks these.
        *beyond("torch", S(Z(2, 3, below=9), 0.5), *(
            S(A(5, draw=distinct), values(0.35), method=method) for method in OTHER_METHODS)),
    ], torch=lambda torch, x, q, *, axis=None, keepdims=False, method="linear": torch.quantile(
        x, q, axis, keepdims, interpolation=method)),
    Case("bincount", [
        S(Z(6, below=3), minlength=5), S(Z(6, below=3, dtype="uint8"), A(6), minlength=3),
        S(Z(0, below=1), minlength=2),
        S(values([0, 0, 1]), values(np.array([100, 100, 1], "int8"))), S(Z(5, below=2), B(5)),
    ], lambda x, weights=None, *, minlength=0: np.bincount(x, weights, minlength).astype(
        "int64" if weights is None or weights.dtype.kind in "bi" else weights.dtype)),
    Case("searchsorted", [
        S(values(np.array([0.1, 0.3], "float32")), 0.1),
        *beyond("array_api_strict torch", S(values([1, 2, 2, 5]), 1.5)),
        *(
            S(*(values(x) if isinstance(x, list) else x for x in inputs), side=side)
            for side in ("left", "right")
            for inputs in (*((ASCENDING, x2) for x2 in (A(4), A(2, 3), A(), A(0, 2), 0.25, 1)),
                           (A(0), A(2)), *(([1, 2, 2, 5], x2) for x2 in ([0, 2, 3, 5, 6], 2, F(3))),
                           ([-inf, 0.0, 0.0, inf], [-inf, 0.0, 1.0, inf]),
                           ([3.0, 1.0, 2.0], [[2.0, 0.0]], [1, 2, 0]),
                           (F(6, draw=ascending), A(3, dtype="float64")),
                           (A(6, draw=ascending, layout="strided"), A(2, 3, layout="transposed")))
        ),
    ], _searchsorted, differentiable=False),
    Case("argsort", _sorting(), _argsort, differentiable=False),
    Case("sort", [*_sorting(), kink([2.0, -inf, inf, 2.0], gradients=([1.0, 1.0, 1.0, 1.0],))],
         _sort, _torch_sort),
    Case("unique_all", SETS, _unique), Case("unique_counts", SETS, lambda x: _unique(x)[::3]),
    Case("unique_inverse", SETS, lambda x: _unique(x)[::2]),
    Case("unique_values", SETS, lambda x: _unique(x)[0]),
    Case("isin", [
        S(Z(2, 3), Z(4)), S(Z(2, 3), Z(2, 2), invert=True), S(Z(2, 3), 3),
        S(3, Z(2, 3), invert=True), S(Z(), Z(5)), S(Z(3), Z(0)), S(Z(0, 2), Z(3), invert=True),
        *beyond("array_api_strict", S(values([1.5, nan, 0.0]), values([nan, 1.5]))),
    ], lambda x1, x2, *, invert=False: np.equal.outer(x1, np.ravel(x2)).any(-1) != invert,
         differentiable=False),
]  # fmt: skip
