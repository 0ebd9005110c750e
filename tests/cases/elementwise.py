"""Elementwise ops except the transcendental ones."""

import numpy as np

from .base import A, B, C, Case, F, S, Z, beyond, inf, kink, nan, unlike_torch, values
from .draws import away_from_even, bools, integers, nonzero, normal, plus_or_minus_two, positive
from .kinds import arithmetic, binary, cases, integer_inputs, scalars, torch_of_tensors, unary


def _division_samples():
    return [
        *binary(away_from_even, plus_or_minus_two), S(A(2, 3, draw=away_from_even), 2.0),
        S(-3.0, A(2, 3, draw=plus_or_minus_two)), S(Z(2, 3, low=-5), Z(3, low=1, below=4)),
        S(F(2, 3, draw=away_from_even), Z(3, low=2, below=3)),
    ]  # fmt: skip


def comparison():
    ties = integers(0, 3)
    return [
        *binary(), *scalars(), S(A(3, 4, draw=ties), A(4, draw=ties)),
        S(values([inf, -inf, nan, 0.0]), values([inf, inf, nan, -0.0])),
    ]  # fmt: skip


def complex_scalars(draw=normal):
    """Samples with a complex Python scalar on either side of complex and real arrays."""
    real = A(2, 3, draw=draw, dtype="float64")
    return [
        S(C(2, 3, draw=draw), 1.5 - 0.5j), S(1.5 - 0.5j, C(2, 3, draw=draw)),
        S(A(2, 3, draw=draw, dtype="complex64"), 2j), S(real, 1.5 - 0.5j), S(-1.5j, real),
        S(real, C(3, draw=draw)),
    ]  # fmt: skip


def _between_integers(rng, shape):
    return rng.integers(-3, 3, shape) + rng.uniform(0.1, 0.4, shape)


def _rounding_samples():
    return [
        *unary(_between_integers), S(Z(3, low=-5)), S(Z(3, dtype="uint8")),
        kink([1.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, inf], gradients=([0.0] * 8,)),
    ]  # fmt: skip


def _only_of_floats(function):
    """Return the function, but leave integers unchanged, as NumPy does from 2.1 on."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


def _bitwise_samples():
    some = integers(-9, 9)
    return [
        *binary(some), S(A(2, 3, draw=some), 3), S(-3, A(2, 3, draw=some)),
        S(Z(3, below=200, dtype="uint8"), Z(2, 3, below=200, dtype="uint8")),
        S(Z(3, low=-9, below=9, dtype="int8"), 5), S(B(2, 3), B(3)), S(B(2, 3), True),
    ]  # fmt: skip


def _shift_samples():
    some, shifts = integers(-9, 9), integers(0, 5)
    return [
        *binary(some, shifts), S(A(2, 3, draw=some), 3), S(3, A(2, 3, draw=shifts)),
        S(Z(3, below=200, dtype="uint8"), Z(3, dtype="uint8")),
    ]  # fmt: skip


def _pow_samples():
    exponents = [0, 1, 2, 3, -1, -2, 0.5, 2.0, -1.5]
    return [
        *arithmetic(positive, normal), *(S(A(2, 3, draw=positive), p) for p in exponents),
        *(S(A(2, 3, draw=nonzero), p) for p in (0, 1, 2, 3, -1, 2.0, -3)),
        S(A(4, draw=nonzero), values([0, 1, 2, -1])), S(2, A(3)), S(0.5, A(3)),
        *unlike_torch("PyTorch's second gradient is nan", S(0, A(3, draw=positive))), S(1, A(3)),
        S(Z(2, 3, low=1, below=4), 2), *complex_scalars(nonzero), S(2.0, C(3)), S(-2.0, C(3)),
        S(C(3, draw=nonzero), 2), S(C(3, draw=nonzero), A(3, dtype="float64")),
        kink([0.0, 0.0, 0.0], 1, gradients=([1.0, 1.0, 1.0],)),
        kink([0.0, -2.0], 2, gradients=([0.0, -4.0],)),
        kink([0.0, -2.0, inf], 0, gradients=([0.0, 0.0, 0.0],)),
        kink([0.0], 0.5, gradients=([inf],)), kink([0.0], -1, gradients=([-inf],)),
        kink([-2.0], 0.5, gradients=([nan],)),
        kink([0.0, 0.0, 0.0, 0.0, -2.0, -2.0, 2.0], [0.0, 1.0, 2.0, 0.5, 2.0, 0.0, 0.0],
             gradients=([0.0, 1.0, 0.0, inf, -4.0, 0.0, 0.0],
                        [0.0, 0.0, 0.0, 0.0, nan, nan, np.log(2.0)])),
        kink([0.0], [-1.0], gradients=([-inf], [-inf])),
        kink(0.0, [0.0, 1.0, 2.0, -1.0], gradients=([0.0, 0.0, 0.0, -inf],)),
        kink(-2.0, [0.0, 2.0], gradients=([nan, nan],)),
    ]  # fmt: skip


def _clip_samples():
    def negative(rng, shape):
        return rng.uniform(-1, -0.1, shape)

    x, low, high = A(2, 3), A(3, draw=negative), A(2, 1, draw=positive)
    return [
        S(x, -0.5, 0.5), S(x), S(x, None, None), S(x, -0.5), S(x, None, 0.5), S(x, low),
        S(x, None, high), S(x, low, high), S(x, low, 0.5), S(x, -0.5, high), S(A(), -0.1, 0.1),
        S(A(0, 3), low, 0.5), S(F(40, 40), -0.5, 0.5), S(F(40, 40), F(40, 1, draw=negative), 0.5),
        S(Z(2, 3, low=-5), -2, 2), S(F(2, 3), Z(3, below=2), 2),
        kink([-1.0, 0.0, 0.5, 1.0, 2.0, nan], 0, 1, gradients=([0.0, 1.0, 1.0, 1.0, 0.0, 0.0],)),
        kink([-inf, inf], -1, 1, gradients=([0.0, 0.0],)),
        # An x below, at, between and above its bounds.
        kink([-1.0, 0.0, 1.0, 2.0, 3.0], [0.0] * 5, [2.0] * 5,
             gradients=([0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1])),
        # Bounds that are equal or crossed: the upper one wins.
        kink([0.0, 1.0, 2.0, 0.0, 1.0, 1.5, 2.0, 3.0], [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0],
             [1.0] * 8,
             gradients=([0, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0],
                        [0, 0, 1, 1, 1, 1, 1, 1])),
    ]  # fmt: skip


def _large_where_samples():
    """Samples large enough that NumPy's backend works on bits; float32 avoids slow differences."""
    x, y = F(70, 70), A(70, 70, dtype="float32", layout="reversed")
    pairs = (x, y), (x, 0.0), (0.0, y), (x, 1.5), (2, y), (x, -0.0), (x, A(70))
    return [S(B(70, 70), *pair) for pair in pairs]


def _clip(x, min=None, max=None):
    x = x if min is None else np.where(x < min, min, x)
    return x if max is None else np.where(x > max, max, x)


def _torch_clip(torch, x, min=None, max=None):
    if min is None and max is None:
        return x.clone()
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        kept = type(None), torch.Tensor
        min, max = (b if isinstance(b, kept) else torch.full_like(x, b) for b in (min, max))
    return torch.clip(x, min, max)


CASES = [
    # Arithmetic
    Case("add", [*arithmetic(), *complex_scalars()], torch=True, complex=True),
    Case("subtract", [*arithmetic(), *complex_scalars()], torch=True, complex=True),
    Case("multiply", [*arithmetic(), *integer_inputs(1.5), *complex_scalars()], torch=True,
         complex=True),
    Case("divide", [
        *arithmetic(nonzero), *complex_scalars(nonzero),
        S(Z(3, low=1, below=9), A(2, 3, draw=positive)), *integer_inputs(2),
        *integer_inputs(Z(3, low=1)),
        kink([1.0, -1.0], [0.0, 0.0], gradients=([inf, inf], [-inf, inf])),
    ], torch=True, complex=True),
    Case("floor_divide", _division_samples(),
         torch=lambda torch, x1, x2: torch.div(x1, x2, rounding_mode="floor")),
    Case("remainder", _division_samples(), torch=torch_of_tensors("remainder")),
    Case("pow", _pow_samples(), "power", torch=lambda torch, x1, x2: x1**x2, complex=True),
    Case("sqrt", [
        *unary(positive), S(C(6, draw=nonzero)), *integer_inputs(),
        kink([0.0, inf], gradients=([inf, 0.0],)),
        # On either side of the branch cut.
        kink([complex(-4.0, 0.0), complex(-4.0, -0.0)], gradients=([0.25j, -0.25j],)),
    ], torch=True, complex=True),
    Case("reciprocal", [
        *unary(nonzero), *integer_inputs(), kink([0.0, -0.0, inf], gradients=([-inf, -inf, 0.0],)),
    ], lambda x: 1 / x, torch=True, complex=True),
    Case("hypot", [
        *arithmetic(nonzero), *integer_inputs(Z(3, low=1)),
        kink([0.0, 0.0, -3.0], [0.0, -4.0, 4.0], gradients=([0.0, 0.0, -0.6], [0.0, -1.0, 0.8]),
             unlike_torch="PyTorch's gradient at (0, 0) is nan"),
        kink(values([3e200, 3e-200], "float64"), values([4e200, 4e-200], "float64"),
             gradients=([0.6, 0.6], [0.8, 0.8])),
        kink(0.0, [0.0, -4.0], gradients=([0.0, -1.0],), unlike_torch="hypot takes no scalar"),
    ], torch=torch_of_tensors("hypot")),
    *cases("square negative positive", [*unary(), S(Z(3, low=-5))], torch=True, complex=True),
    Case("abs", [
        *unary(nonzero), S(Z(3, low=-5)),
        kink([0.0, -0.0, inf, -inf], gradients=([0.0, 0.0, 1.0, -1.0],)),
        kink([0j, 3 - 4j], gradients=([0.0, 0.6 - 0.8j],)),
    ], torch=True, complex=True),
    Case("sign", [
        *unary(nonzero), S(Z(3, low=-5)), kink([0.0, -0.0, inf], gradients=([0.0, 0.0, 0.0],)),
        kink([0j, 2j], gradients=([0.0, 0.5],)),
    ], torch="sgn", complex=True),
    Case("copysign", [
        *arithmetic(nonzero),
        kink([0.0, -0.0, 1.0, -1.0, 1.0, 1.0], [1.0, -1.0, -1.0, -1.0, -0.0, 0.0],
             gradients=([0.0, 0.0, -1.0, 1.0, -1.0, 1.0], [0.0] * 6)),
    ], torch=torch_of_tensors("copysign")),
    Case("nextafter", [
        *(s for s in arithmetic() if "float16" not in str(s)),
        kink([0.0, 1.0, 1.0], [1.0, inf, 1.0], gradients=([1.0] * 3, [0.0] * 3)),
    ]),
    # Rounding
    *(
        Case(name, _rounding_samples(), _only_of_floats(getattr(np, name)), torch=True)
        for name in ("ceil", "floor", "trunc")
    ),
    Case("round", _rounding_samples(), complex=True, torch=lambda torch, x: (
        torch.complex(x.real.round(), x.imag.round()) if x.is_complex() else x.round())),
    # Complex numbers
    Case("conj", unary(), torch=lambda torch, x: torch.conj(x).resolve_conj(), complex=True),
    Case("real", unary(), torch=True, complex=True),
    Case("imag", [S(C(2, 3)), S(A(dtype="complex64")), S(C(0))], torch=True),
    Case("zero_discarded_nans", [
        # The second input is a cotangent and gets no gradient.
        S(A(2, 3), Z(2, 3, below=2)), S(A(2, 3), Z(3, below=2)),
        kink([nan, nan, 1.0, inf], values([0, 1, 0, 0]), gradients=([0.0, 1.0, 1.0, 1.0],)),
        S(values(np.resize([nan, 1.0, inf], 9000), "float32"),
          values(np.resize([0, 0, 1, 1], 9000))),
    ], lambda c, g: np.where(np.isnan(c) & (g == 0), 0, c), complex=True),
    # Choices
    Case("maximum", [
        *arithmetic(),
        kink([1.0, 2.0, inf], [1.0, 3.0, inf], gradients=([0.5, 0.0, 0.5], [0.5, 1.0, 0.5])),
        kink([0.0, 1.0], 0.0, gradients=([0.5, 1.0],), unlike_torch="maximum takes no scalar"),
        kink([nan, 1.0], [1.0, nan], gradients=([1.0, 1.0], [1.0, 1.0])),
    ], torch=torch_of_tensors("maximum")),
    Case("minimum", [
        *arithmetic(),
        kink([1.0, 2.0, -inf], [1.0, 3.0, -inf], gradients=([0.5, 1.0, 0.5], [0.5, 0.0, 0.5])),
        kink([nan, 1.0], [1.0, nan], gradients=([1.0, 1.0], [1.0, 1.0])),
    ], torch=torch_of_tensors("minimum")),
    Case("clip", _clip_samples(), _clip, _torch_clip),
    Case("where", [
        S(B(2, 3), A(2, 3), A(2, 3)), S(B(2, 3), A(3), A(2, 1)), S(B(3), A(2, 1), A()),
        S(B(), A(2, 3), A(2, 3)), S(B(), A(), A()), S(B(0, 3), A(3), A(1, 3)), S(B(3), A(3), 0.0),
        S(B(3), 1, A(3)), *_large_where_samples(),
        S(A(3, 2, draw=bools, layout="transposed"), A(3, 2, layout="strided"), A(2)),
        S(B(3), F(3), A(3, dtype="float64")), S(B(3), F(3), Z(3)), S(B(3), Z(3), Z(3)),
        S(B(3), C(3), 1.5), S(B(3), C(3), A(2, 1, dtype="float64")),
        kink([True, False], [1.0, inf], [nan, 2.0], gradients=([1.0, 0.0], [0.0, 1.0])),
    ], torch=True, complex=True),
    # Comparisons
    *cases("equal not_equal", [*comparison(), *complex_scalars()], differentiable=False),
    *cases("less less_equal greater greater_equal", comparison(), differentiable=False),
    *cases("isnan isinf isfinite", [
        *unary(), S(values([nan, inf, -inf, 0.0, -0.0], "float64")),
        S(values([complex(nan, 0), complex(0, nan), complex(inf, nan), complex(0, -inf)])), S(Z(3)),
    ], differentiable=False, complex=True),
    Case("isclose", [
        S(A(2, 3), A(2, 3)), S(A(2, 3), A(3), rtol=0.1, atol=1.0), S(A(2, 3), 0.5, atol=0.5),
        S(0.5, A(2, 3), atol=0.5), S(A(0), A(0)), S(B(4), B(4)),
        S(Z(8, below=3, dtype="uint8"), Z(8, below=3, dtype="uint8"), atol=1.0),
        *(S(values(np.array(x1, dtype)), values(np.array(x2, dtype)))
          for dtype, x1, x2 in (("int8", [100, -128, 3], [-100, 127, 3]),
                                ("int64", [2**63 - 1, 2**62, 7], [-(2**63), -(2**62) - 9, 7]))),
        *beyond("array_api_strict", S(Z(2, 3), inf)),
        S(values([inf, inf, nan, 1.0, -inf]), values([inf, -inf, nan, inf, 1.0])),
        S(values([nan, nan, 0.0]), values([nan, 0.0, 0.0]), equal_nan=True),
    ], lambda x1, x2, **static: np.isclose(*(np.asarray(x, "float64") for x in (x1, x2)), **static),
         differentiable=False),
    Case("nan_to_num", [
        *unary(), S(Z(3)),
        kink([nan, inf, -inf, 1.0], posinf=2.0, neginf=-2.0, gradients=([0.0, 0.0, 0.0, 1.0],)),
        kink([nan, inf, -inf], nan=3.0, gradients=([0.0, 0.0, 0.0],)),
    ], torch=True),
    Case("signbit", [*unary(), S(values([inf, -inf, 0.0, -0.0]))], differentiable=False),
    # Logic and bits
    *cases("logical_and logical_or logical_xor", [*binary(bools), S(B(3), True)],
           differentiable=False),
    Case("logical_not", unary(bools), differentiable=False),
    *cases("bitwise_and bitwise_or bitwise_xor", _bitwise_samples(), differentiable=False),
    Case("bitwise_invert", [*unary(integers(-9, 9)), S(Z(3, below=9, dtype="uint8")), S(B(3))],
         differentiable=False),
    *cases("bitwise_left_shift bitwise_right_shift", _shift_samples(), differentiable=False),
]  # fmt: skip
