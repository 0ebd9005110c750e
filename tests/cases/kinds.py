"""Samples for kinds of ops, and PyTorch's functions for them."""

from operator import attrgetter

from .base import A, Case, F, S, Z, beyond, in_layouts
from .draws import distinct, normal


def square(n, draw=normal):
    """Return a square array of about ``n`` elements."""
    side = round(n**0.5)
    return A(side, side, draw=draw)


def torch_of_tensors(name):
    """Return PyTorch's function that takes no numbers, which are therefore made to tensors."""

    def call(torch, *inputs):
        like = max([x for x in inputs if isinstance(x, torch.Tensor)], key=torch.is_floating_point)
        inputs = [x if isinstance(x, torch.Tensor) else torch.full_like(like, x) for x in inputs]
        return attrgetter(name)(torch)(*inputs)

    return call


def cases(names, samples, **options):
    """Return a case with the same samples for each name."""
    return [Case(name, samples, **options) for name in names.split()]


def unary(draw=normal):
    return [S(A(2, 3, draw=draw)), S(A(draw=draw)), S(A(0, draw=draw)), S(A(2, 0, 3, draw=draw))]


def binary(draw1=normal, draw2=None):
    draw2 = draw2 or draw1
    shapes = [
        ((2, 3), (2, 3)), ((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((2, 1, 3), (4, 1)),
        ((), (2, 3)), ((2, 3), ()), ((), ()), ((0, 3), (1, 3)), ((1,), (0,)), ((1, 1), ()),
    ]  # fmt: skip
    return [
        *(S(A(*s1, draw=draw1), A(*s2, draw=draw2)) for s1, s2 in shapes),
        *in_layouts(S(A(2, 3, draw=draw1), A(3, draw=draw2))),
    ]


def scalars(draw=normal):
    """Samples with a Python scalar on either side."""
    return [
        S(A(2, 3, draw=draw), 1.5), S(1.5, A(2, 3, draw=draw)), S(A(draw=draw), 2),
        S(2, A(draw=draw)), S(A(0, draw=draw), 2),
    ]  # fmt: skip


def mixed(draw=normal):
    """Samples of different dtypes: integers take the floating dtype, and the wider one wins."""
    return [
        S(F(2, 3, draw=draw), Z(3, low=1)), S(Z(3, low=1, dtype="int32"), F(2, 3, draw=draw)),
        S(F(2, 3, draw=draw), A(3, draw=draw, dtype="float64")),
        # array_api_strict has no float16.
        *beyond("array_api_strict", S(A(2, 3, draw=draw, dtype="float16"), F(3, draw=draw)),
                S(A(2, 3, draw=draw, dtype="float16"), Z(3, low=1))),
    ]  # fmt: skip


def arithmetic(draw1=normal, draw2=None):
    return binary(draw1, draw2) + scalars(draw1) + mixed(draw1)


def integer_inputs(*more, **static):
    """Samples of integers, which become the default floating dtype if the library allows that."""
    return beyond("array_api_strict torch", S(Z(2, 3, low=1), *more, **static))


AXES = [None, 0, 1, -1, (0,), (0, 2), (-1, 0), (0, 1, 2)]


def reduction(draw=normal, axes=AXES, **static):
    shape = 2, 3, 2
    return [
        *(S(A(*shape, draw=draw), axis=axis, **static) for axis in axes),
        *(S(A(*shape, draw=draw), axis=axis, keepdims=True, **static) for axis in axes),
        *in_layouts(S(A(*shape, draw=draw), axis=1, **static)), S(A(5, draw=draw), **static),
        S(A(1, 4, draw=draw), axis=0, **static), S(A(draw=draw), **static),
        S(A(draw=draw), keepdims=True, **static), S(A(0, 3, draw=draw), axis=1, **static),
    ]  # fmt: skip


def over_nothing():
    """Reductions over no elements, for ops that define a value for them, and over no axes."""
    over = S(A(0)), S(A(0, 3), axis=0), S(A(2, 0, 3), axis=(0, 1), keepdims=True)
    return [*over, *over_no_axes()]


def over_no_axes():
    return beyond("torch", S(A(2, 3, draw=distinct), axis=()))


def along(draw=normal):
    """Samples for ops that keep the shape and work along one axis."""
    return [
        S(A(2, 3, draw=draw)), S(A(2, 3, draw=draw), axis=0), S(A(2, 3, 2, draw=draw), axis=1),
        S(A(2, 3, 2, draw=draw), axis=-2), S(A(3, draw=draw)), S(A(1, draw=draw)),
        S(A(0, 3, draw=draw)),
    ]  # fmt: skip


def torch_axes(name, **defaults):
    """Return a PyTorch reduction whose ``axis`` may be None, an int or a tuple."""

    def call(torch, x, *, axis=None, **static):
        axes = tuple(range(x.ndim)) if axis is None else axis
        return getattr(torch, name)(x, axes, **(defaults | static))

    return call
