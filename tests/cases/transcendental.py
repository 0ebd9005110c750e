"""Exponentials, logarithms, trigonometric and hyperbolic functions."""

import numpy as np

from .base import C, Case, F, S, Z, beyond, inf, kink, values
from .draws import between, nonzero, positive
from .kinds import arithmetic, integer_inputs, torch_of_tensors, unary

tiny, huge = 3e-200, 3e200  # their squares underflow and overflow


def _case(name, draw, *more):
    samples = [
        *unary(draw),
        *integer_inputs() * (draw is not _within_1),
        S(C(8, draw=nonzero)),  # in every quadrant
        *more,
    ]
    return Case(name, samples, torch=True, complex=True)


def _branch_cut(*sides):
    """Return a kink on both sides of branch cuts, which are told apart by the signs of zeros.

    sides: pairs of a point and the gradient expected there.
    """
    points, gradients = zip(*sides, strict=True)
    # PyTorch loses these signs when it subtracts a number.
    return beyond("torch", kink(list(points), gradients=(list(gradients),)))


_any, _within_1 = between(-1.2, 1.2), between(-0.9, 0.9)
_above_1, _third = between(1.2, 3.0), 1j / np.sqrt(3)

CASES = [
    # Exponentials and logarithms
    _case("exp", _any, kink([-inf, inf, 0.0], gradients=([0.0, inf, 1.0],))),
    _case("expm1", _any, kink([-inf, inf, 0.0], gradients=([0.0, inf, 1.0],))),
    _case("log", positive, kink([0.0, inf], gradients=([inf, 0.0],))),
    _case("log1p", _within_1, kink([-1.0, inf], gradients=([inf, 0.0],))),
    _case("log2", positive, kink([0.0, inf], gradients=([inf, 0.0],))),
    _case("log10", positive, kink([0.0, inf], gradients=([inf, 0.0],))),
    Case("logaddexp", [
        *arithmetic(), *integer_inputs(Z(3, low=1)), S(F(20, 20), F(20)),
        S(values(np.resize([inf, -inf, np.nan, 1.0], 400), "float32"), 1.0),
        S(values(np.resize([inf, -inf], 400), "float32"), inf),
        S(values(np.resize([inf, -inf], 400), "float32"), -inf),
        kink([0.0, -800.0, 800.0], [0.0, 0.0, 0.0], gradients=([0.5, 0, 1], [0.5, 1, 0])),
        kink([inf, inf, -inf, -inf], [inf, 0.0, -inf, 0.0],
             gradients=([1.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]),
             unlike_torch="PyTorch's gradient of equal infinities is nan"),
    ], torch=torch_of_tensors("logaddexp")),
    # Trigonometric functions
    _case("sin", _any), _case("cos", _any), _case("tan", _any),
    _case("asin", _within_1, kink([-1.0, 1.0, 1.5], gradients=([inf, inf, np.nan],)),
          *_branch_cut((complex(2, 0.0), -_third), (complex(2, -0.0), _third),
                       (complex(-2, 0.0), _third), (complex(-2, -0.0), -_third))),
    _case("acos", _within_1, kink([-1.0, 1.0, 1.5], gradients=([-inf, -inf, np.nan],)),
          *_branch_cut((complex(2, 0.0), _third), (complex(2, -0.0), -_third),
                       (complex(-2, 0.0), -_third), (complex(-2, -0.0), _third))),
    _case("atan", _any, kink([-inf, inf], gradients=([0.0, 0.0],))),
    Case("atan2", [
        *arithmetic(nonzero), *integer_inputs(Z(3, low=1)),
        kink([0.0, -0.0, 0.0, 1.0], [0.0, -0.0, -2.0, 0.0],
             gradients=([0.0, 0.0, -0.5, 0.0], [0.0, 0.0, 0.0, -1.0])),
        kink(values([tiny, huge], "float64"), values([tiny, huge], "float64"),
             gradients=([0.5 / tiny, 0.5 / huge], [-0.5 / tiny, -0.5 / huge]),
             unlike_torch="PyTorch squares"),
    ], torch=torch_of_tensors("atan2")),
    # Hyperbolic functions
    _case("sinh", _any), _case("cosh", _any),
    _case("tanh", _any, kink([-inf, inf, 0.0], gradients=([0.0, 0.0, 1.0],))),
    _case("asinh", _any, kink([-inf, inf], gradients=([0.0, 0.0],)),
          *_branch_cut((complex(0.0, 2), _third), (complex(-0.0, 2), -_third),
                       (complex(0.0, -2), -_third), (complex(-0.0, -2), _third))),
    _case("acosh", _above_1, kink([1.0, 0.5, inf], gradients=([inf, np.nan, 0.0],)),
          *_branch_cut((complex(-2, 0.0), -1 / np.sqrt(3)), (complex(-2, -0.0), -1 / np.sqrt(3)),
                       (complex(0.5, 0.0), 2 * _third), (complex(0.5, -0.0), -2 * _third))),
    _case("atanh", _within_1, kink([-1.0, 1.0], gradients=([inf, inf],))),
]  # fmt: skip
