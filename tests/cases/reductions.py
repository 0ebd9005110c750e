"""Reductions."""

import numpy as np

import gpugrad

from .base import A, B, C, Case, F, S, Z, beyond, each, inf, kink, of_shapes, unlike_torch, values
from .draws import bools, distinct, integers, near_one
from .kinds import cases, integer_inputs, over_no_axes, over_nothing, reduction, square, torch_axes


def _logsumexp(x, *, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def _with_correction(function):
    return lambda x, *, axis=None, correction=0, keepdims=False: function(
        x, axis=axis, ddof=correction, keepdims=keepdims
    )


def _mark_single_elements(sample):
    """Mark the sample as unlike PyTorch if it reduces single elements, whose deviation is 0."""
    if sample.shapes[0] not in ((), (1, 4)):
        return sample
    return unlike_torch("PyTorch's second derivative at 0 is nan", sample)[0]


def _torch_prod(torch, x, *, axis=None, keepdims=False, dtype=None):
    axes = range(x.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        x = torch.prod(x, a, keepdim=True, dtype=dtype)
    return x if keepdims else x.squeeze(tuple(axes))


def _cumulative(function, initial):
    def reference(x, *, axis=None, dtype=None, include_initial=False):
        if dtype is None and x.dtype.kind in "fc":
            dtype = x.dtype
        out = function(x, axis=axis, dtype=dtype)
        if not include_initial:
            return out
        width = [(int(i == (axis or 0) % x.ndim), 0) for i in range(x.ndim)]
        return np.pad(out, width, constant_values=initial)

    return reference


def _torch_cumulative(name, initial):
    def call(torch, x, *, axis=None, dtype=None, include_initial=False):
        axis = axis or 0
        out = getattr(torch, name)(x, axis, dtype=dtype)
        if not include_initial:
            return out
        return torch.cat([torch.full_like(out.sum(axis, keepdim=True), initial), out], axis)

    return call


def _concat_pieces(concat, x, prepend, append, axis):
    return concat([piece for piece in (prepend, x, append) if piece is not None], axis)


def _diff(x, prepend=None, append=None, *, axis=-1, n=1):
    return np.diff(_concat_pieces(np.concatenate, x, prepend, append, axis), n=n, axis=axis)


def _torch_diff(torch, x, prepend=None, append=None, *, axis=-1, n=1):
    return torch.diff(_concat_pieces(torch.cat, x, prepend, append, axis), n, axis)


WITH_ZEROS = [0.0], [2.0, 0.0, 3.0], [0.0, 2.0, 0.0, -1.5, 3.0], [0.0, 0.0, 0.0]
ZEROS_IN_ROWS = [[0.0, 2.0, 3.0, 0.5], [1.5, 0.0, 0.0, -2.0], [2.0, 1.0, -3.0, 0.5]]

UNLIKE_TORCH_LOGSUMEXP = "PyTorch's gradient is nan where the result is infinite"


CASES = [
    # Reductions
    Case("sum", [
        *reduction(), *over_nothing(), S(F(2, 3), dtype=gpugrad.float64),
        S(Z(2, 3, dtype="int32")), S(Z(2, 3), dtype=gpugrad.float32, axis=0),
        S(A(2, 3, dtype="float64"), dtype=gpugrad.float32),
    ], torch=torch_axes("sum"), complex=True),
    Case("mean", [*reduction(), *over_nothing(), *integer_inputs(axis=1)],
         torch=torch_axes("mean"), complex=True),
    Case("prod", [
        *reduction(), *over_nothing(), *(S(values(x)) for x in WITH_ZEROS),
        S(values(ZEROS_IN_ROWS), axis=1), S(values(ZEROS_IN_ROWS), axis=0, keepdims=True),
        S(values(ZEROS_IN_ROWS), axis=(-1, 0)), S(A(70), axis=0), S(F(2, 3), dtype=gpugrad.float64),
        S(A(2, 3, dtype="float64"), dtype=gpugrad.float32), S(Z(2, 3, dtype="int32")),
        S(Z(2, 3), dtype=gpugrad.float32, axis=0),
        kink(values([1e200, 1e-200] * 2, "float64"), gradients=([1e-200, 1e200] * 2,)),
    ], torch=_torch_prod, complex=True, sized=lambda n: S(square(n, near_one))),
    *(
        Case(name, [
            *(_mark_single_elements(s) if name == "std" else s for s in reduction()),
            *reduction(axes=[None, -1, (0, 2)], correction=1)[:6], S(A(5), correction=0.5),
            *beyond("array_api_strict", S(C(2, 3), axis=1)), *more, *integer_inputs(axis=1),
        ], _with_correction(getattr(np, name)), torch_axes(name, correction=0))
        for name, more in (("var", over_no_axes()),
                           ("std", [
                               kink([2.0, 2.0, 2.0], gradients=([0.0, 0.0, 0.0],)),
                               kink([[1.0, 1.0], [0.0, 2.0]], axis=1,
                                    gradients=([[0, 0], [-0.5, 0.5]],)),
                               kink([[1.0, 1.0], [1.0, 1.0]], axis=0, correction=1, keepdims=True,
                                    gradients=([[0.0, 0.0], [0.0, 0.0]],)),
                           ]))
    ),
    *(
        Case(name, [
            *reduction(distinct), *over_no_axes(), S(Z(2, 3, below=3), axis=1),
            kink([sign * 1.0, sign * 3.0, sign * 3.0], gradients=([0.0, 0.5, 0.5],)),
            kink([[2.0, 2.0], [2.0, sign * 5.0]], axis=(0, 1),
                 gradients=([[0.0, 0.0], [0.0, 1.0]],)),
            kink([[2.0, 2.0], [2.0, sign * 5.0]], axis=1, keepdims=True,
                 gradients=([[0.5, 0.5], [0.0, 1.0]],)),
            kink([sign * inf, sign * inf, 0.0], gradients=([0.5, 0.5, 0.0],)),
            kink([[np.nan, 1.0], [1.0, 2.0]], axis=1, unlike_torch="JAX's is nan for all elements",
                 gradients=([[np.nan, np.nan], [0.0, 1.0][::sign]],)),
        ], torch=torch_axes(f"a{name}"))
        for name, sign in (("max", 1), ("min", -1))
    ),
    Case("logsumexp", [
        *reduction(), kink([-inf, 1.0], gradients=([0.0, 1.0],)),
        kink([-inf, -inf], gradients=([0.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
        kink([inf, 1.0], gradients=([1.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
        kink([[-inf, -inf], [0.0, -inf]], axis=1, keepdims=True,
             gradients=([[0.0, 0.0], [1.0, 0.0]],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
    ], _logsumexp, torch_axes("logsumexp")),
    *cases("all any", [*reduction(bools), S(B(0)), S(B(0, 3), axis=0)], differentiable=False),
    Case("allclose", [
        S(A(2, 3), A(2, 3)), S(A(2, 3), A(3), atol=9.0),
        S(values([1.0, np.nan]), values([1.0, np.nan]), equal_nan=True), S(A(0), A(0)),
    ], lambda x1, x2, **static: np.asarray(np.allclose(x1, x2, **static)), differentiable=False),
    Case("count_nonzero", [
        *reduction(integers(0, 2)), *reduction(integers(0, 2, "int8"))[:2], S(B(2, 3), axis=0),
        S(values([[0.0, 2.5, -0.0], [0.0, 0.0, np.nan]]), axis=1), S(A(0, 3), axis=0),
    ], differentiable=False, complex=True),
    *(
        Case(name, [
            *each("axis", {(2, 3): [0, -1], (2, 3, 2): [1], (2, 0): [1]}),
            *of_shapes([(5,)], [(1,)], [(0,)]), *of_shapes([(4,)], [(0,)], include_initial=True),
            *each("axis", {(2, 3, 2): [-2], (0, 2): [-1]}, include_initial=True),
            *(S(A(n), axis=0) for n in (2, 3, 6, 7, 8, 9)), *(S(values(x)) for x in WITH_ZEROS),
            S(values(ZEROS_IN_ROWS), axis=1),
            S(values(ZEROS_IN_ROWS), axis=0, include_initial=True),
            S(F(2, 3), axis=0, dtype=gpugrad.float64),
            S(A(2, 3, dtype="float64"), axis=0, dtype=gpugrad.float32),
            S(Z(2, 3, dtype="int8"), axis=0),
            *beyond("torch", S(Z(5, below=9, dtype="uint16"), include_initial=True)),
            S(Z(2, 3), axis=1, dtype=gpugrad.float32), *more,
        ], _cumulative(getattr(np, function), initial), _torch_cumulative(function, initial),
             complex=True, sized=lambda n: S(A(n, draw=near_one)))
        for name, function, initial, more in (
            ("cumulative_sum", "cumsum", 0,
             [kink([1.0, inf, 2.0, -inf], gradients=([4.0, 3.0, 2.0, 1.0],))]),
            ("cumulative_prod", "cumprod", 1, []),
        )
    ),
    Case("diff", [
        *each("n", {(5,): [1, 0, 2], (3,): [3, 5]}),
        *each("axis", {(2, 3): [0], (2, 3, 4): [-3], (0, 3): [-1], (2, 0): [-1]}),
        S(A(2, 3, 4), axis=1, n=2), *of_shapes([(4,), (2,)], [(1,), (1,), (0,)]),
        S(A(4), A(2), A(1), n=3), S(A(4), None, A(3), n=2), S(A(2, 3), A(2, 1), A(2, 2), n=0),
        S(A(2, 3), A(1, 3), None, axis=0), S(A(2, 3), None, A(4, 3), axis=-2, n=2),
        S(F(2, 3), Z(2, 1, below=3)), S(Z(2, 3, below=9)),
    ], _diff, _torch_diff, complex=True),
]  # fmt: skip
