"""The parts of the table of ops: inputs, samples, cases, and samples for kinds of ops.

Nothing here needs PyTorch to be installed: `Case.torch` gets the module as an argument.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np

import gpugrad
from gpugrad.testing import _tolerance, assert_close

# Distributions of samples. They keep away from kinks, ties and poles, which finite differences
# would cross. Those have samples of their own, with the gradients expected there.


def normal(rng, shape):
    return rng.standard_normal(shape)


def positive(rng, shape):
    return rng.uniform(0.5, 2.0, shape)


def nonzero(rng, shape):
    """Values of both signs, at least 0.3 away from 0."""
    return rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(rng, shape):
    """Values at least 0.25 apart."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) / 4 + rng.uniform(0, 0.05)


def away_from_even(rng, shape):
    """Values at least 0.5 away from multiples of 2, where the rounded quotient by 2 or -2 jumps."""
    return 2 * rng.integers(-3, 3, shape) + rng.uniform(0.5, 1.5, shape)


def plus_or_minus_two(rng, shape):
    return rng.choice([-2.0, 2.0], shape)


def bools(rng, shape):
    return rng.random(shape) < 0.5


def near_one(rng, shape):
    """Values so close to 1 that the product of a million neither overflows nor underflows."""
    return np.exp(rng.normal(0, 0.01, shape))


def integers(low, high, dtype="int64"):
    def draw(rng, shape):
        return rng.integers(low, high, shape).astype(dtype)

    return draw


@dataclass(frozen=True)
class Array:
    """An input array of a sample.

    draw: a function of a generator and the shape.
    dtype: a floating or complex dtype that is part of the sample; None for the dtype under test.
    layout: ``"contiguous"``, ``"transposed"``, ``"strided"`` or ``"reversed"``.
    """

    shape: tuple
    draw: Callable = normal
    dtype: str | None = None
    layout: str = "contiguous"

    def values(self, rng, dtype):
        """Return the values; floating ones have ``dtype``, unless the sample has its own.

        In a complex dtype, real draws get an imaginary part drawn in the same way.
        """
        values = np.asarray(self.draw(rng, self.shape))
        dtype = np.dtype(self.dtype or dtype)
        if dtype.kind == "c" and values.dtype.kind == "f":
            values = np.asarray(values + 1j * self.draw(rng, self.shape))
        return values.astype(dtype) if values.dtype.kind in "fc" else values


def A(*shape, draw=normal, dtype=None, layout="contiguous"):
    return Array(shape, draw, dtype, layout)


def values(data, dtype=None):
    """Return an input with exactly these values; complex values stay complex."""
    array = np.asarray(data)
    dtype = "complex128" if array.dtype.kind == "c" else dtype
    return Array(array.shape, lambda rng, shape: array, dtype)


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    inputs: `Array`s, Python scalars, or None for an optional input that is left out.
    static: static parameters, with NumPy arrays for the arrays in an index, and ``"cpu"``
        for the library's own device.
    beyond: names of the libraries that cannot do this, since they support less than NumPy.
    gradients: the expected gradients for cotangents of 1, at a kink or pole, where finite
        differences are useless; None elsewhere.
    unlike_torch: if values or gradients differ from PyTorch's, the reason.
    """

    inputs: tuple
    static: dict = field(default_factory=dict)
    beyond: frozenset = frozenset()
    gradients: tuple | None = None
    unlike_torch: str | None = None

    def arrays(self, dtype="float64", example=0):
        """Return NumPy arrays and scalars, the same in each call with the same ``example``."""
        seed = zlib.crc32(repr((self.shapes, self.static)).encode())
        rng = np.random.default_rng((seed, example) if example else seed)
        return [x.values(rng, dtype) if isinstance(x, Array) else x for x in self.inputs]

    @property
    def shapes(self):
        return tuple(x.shape if isinstance(x, Array) else x for x in self.inputs)

    @property
    def mixed(self):
        """Whether the sample has floating dtypes of its own."""
        return any(isinstance(x, Array) and x.dtype for x in self.inputs)

    @property
    def double(self):
        """Whether its own dtypes all have double precision, so that differences can check it."""
        dtypes = [x.dtype for x in self.inputs if isinstance(x, Array)]
        dtypes.append(self.static.get("dtype"))
        return all(dtype in (None, "float64", "complex128") for dtype in dtypes)

    def __str__(self):
        words = [*map(_text, self.inputs), *(f"{k}={_text(v)}" for k, v in self.static.items())]
        return ",".join(words).replace(" ", "")


def _text(x):
    if isinstance(x, Array):
        layout = "" if x.layout == "contiguous" else x.layout[:3]
        return f"{x.dtype or ''}{x.shape}{layout}"
    if isinstance(x, np.ndarray):
        return f"{x.dtype}{x.tolist()}"
    if isinstance(x, tuple):
        return f"({','.join(map(_text, x))})"
    return str(x).replace("Ellipsis", "...").replace("slice", "")


def S(*inputs, **static):
    return Sample(inputs, static)


def square(n, draw=normal):
    """Return a square array of about ``n`` elements."""
    side = round(n**0.5)
    return A(side, side, draw=draw)


def beyond(libraries, *samples):
    """Return the samples, for all libraries except these."""
    names = frozenset(libraries.split())
    return [replace(s, beyond=s.beyond | names) for s in samples]


def kink(*inputs, gradients, unlike_torch=None, **static):
    """Return a sample at given values, with the gradients expected there."""
    inputs = tuple(values(x) if isinstance(x, list) else x for x in inputs)
    return Sample(inputs, static, gradients=gradients, unlike_torch=unlike_torch)


def call_directly(xp, function, *inputs, **static):
    return function(*inputs, **static)


@dataclass(frozen=True)
class Case:
    """An op and what tests need to know about it.

    op: its name in `gpugrad`, such as ``"add"`` or ``"linalg.cholesky"``.
    samples: calls of the op.
    reference: the forward in NumPy, a function of the op's arguments.
    torch: PyTorch's equivalent, a function of the module ``torch`` and the op's arguments; or None.
    differentiable: whether floating results carry gradients.
    complex: whether it takes complex numbers; its samples are then tried with them too.
    through: how tests call the op if its results are not unique or its inputs are not
        independent. This is a function of a namespace (gpugrad's, NumPy's or PyTorch's), the
        function there and its arguments. It returns something unique.
    relative_to: what errors in results and gradients are relative to: ``"element"``, each
        expected element; ``"matrix"``, the largest element of each matrix (the last two axes);
        or ``"array"``, the largest element of all. Elementwise ops use the first, linear algebra
        and Fourier transforms one of the others: where large terms cancel, their rounding errors
        remain, and these differ between processors.
    sized: for benchmarks, a function that returns a sample whose largest array, inputs or result,
        has about that many elements; by default the first sample with longer axes.
    """

    op: str
    samples: list
    reference: Callable
    torch: Callable | None = None
    differentiable: bool = True
    complex: bool = False
    through: Callable = call_directly
    relative_to: str = "element"
    sized: Callable[[int], Sample] | None = None

    @property
    def function(self):
        """The op as users call it."""
        return attrgetter(self.op)(gpugrad)

    def at_size(self, n):
        """Return a sample whose largest array has about ``n`` elements."""
        if self.sized:
            return self.sized(n)
        arrays = [x for x in self.samples[0].inputs if isinstance(x, Array)]
        largest = max((x.shape for x in arrays), key=np.prod)
        factor = (n / np.prod(largest)) ** (1 / len(largest))

        def lengthen(x):
            if not isinstance(x, Array):
                return x
            return replace(x, shape=tuple(m if m == 1 else round(m * factor) for m in x.shape))

        return replace(self.samples[0], inputs=tuple(map(lengthen, self.samples[0].inputs)))

    def __call__(self, inputs, static) -> Any:
        """Call the op; several outputs are returned as a tuple."""
        call = self.function
        if hasattr(call, "op") and call.op.variadic:
            return call(inputs, **static)
        return self.through(gpugrad, call, *inputs, **static)

    def assert_close(self, actual, expected, *, rtol=None, atol=None):
        """Compare NumPy arrays with `gpugrad.testing.assert_close`, by `relative_to`."""
        if self.relative_to == "element" or actual.shape != expected.shape:
            assert_close(actual, expected, rtol=rtol, atol=atol)
            return
        default = max(_tolerance(actual), _tolerance(expected))
        rtol = default if rtol is None else rtol
        atol = default if atol is None else atol
        stack = expected.shape[:-2] if self.relative_to == "matrix" else ()
        for i in np.ndindex(stack):
            a, e = actual[(*i, ...)], expected[(*i, ...)]
            largest = np.max(np.abs(e), where=np.isfinite(e), initial=0)
            try:
                assert_close(a, e, rtol=0, atol=atol + rtol * float(largest))
            except AssertionError as error:
                error.add_note(f"matrix {i}: atol is relative to its largest element, {largest:g}")
                raise


inf, nan = float("inf"), float("nan")
LAYOUTS = "transposed", "strided", "reversed"


def unary(draw=normal):
    return [
        S(A(2, 3, draw=draw)),
        S(A(draw=draw)),
        S(A(0, draw=draw)),
        S(A(2, 0, 3, draw=draw)),
        *(S(A(2, 3, draw=draw, layout=layout)) for layout in LAYOUTS),
    ]


def binary(draw1=normal, draw2=None):
    draw2 = draw2 or draw1
    shapes = [
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((3,), (2, 3)),
        ((2, 1), (1, 3)),
        ((2, 1, 3), (4, 1)),
        ((), (2, 3)),
        ((2, 3), ()),
        ((), ()),
        ((0, 3), (1, 3)),
        ((1,), (0,)),
        ((1, 1), ()),
    ]
    return [
        *(S(A(*s1, draw=draw1), A(*s2, draw=draw2)) for s1, s2 in shapes),
        *(
            S(A(2, 3, draw=draw1, layout=layout), A(3, draw=draw2, layout="reversed"))
            for layout in LAYOUTS
        ),
    ]


def scalars(draw=normal):
    """Samples with a Python scalar on either side."""
    return [
        S(A(2, 3, draw=draw), 1.5),
        S(1.5, A(2, 3, draw=draw)),
        S(A(draw=draw), 2),
        S(2, A(draw=draw)),
        S(A(0, draw=draw), 2),
    ]


def mixed(draw=normal):
    """Samples of different dtypes: integers take the floating dtype, and the wider one wins."""
    return [
        S(A(2, 3, draw=draw, dtype="float32"), A(3, draw=integers(1, 5))),
        S(A(3, draw=integers(1, 5, "int32")), A(2, 3, draw=draw, dtype="float32")),
        S(A(2, 3, draw=draw, dtype="float32"), A(3, draw=draw, dtype="float64")),
        *beyond(
            "array_api_strict",  # has no float16
            S(A(2, 3, draw=draw, dtype="float16"), A(3, draw=draw, dtype="float32")),
            S(A(2, 3, draw=draw, dtype="float16"), A(3, draw=integers(1, 5))),
        ),
    ]


def arithmetic(draw1=normal, draw2=None):
    return binary(draw1, draw2) + scalars(draw1) + mixed(draw1)


def logical():
    return [s for s in binary(bools) if all(isinstance(x, Array) for x in s.inputs)]


def integer_inputs(*more, **static):
    """Samples of integers, which become the default floating dtype if the library allows that."""
    return beyond("array_api_strict torch", S(A(2, 3, draw=integers(1, 5)), *more, **static))


AXES = [None, 0, 1, -1, (0,), (0, 2), (-1, 0), (0, 1, 2)]


def reduction(draw=normal, axes=AXES, **static):
    shape = 2, 3, 2
    return [
        *(S(A(*shape, draw=draw), axis=axis, **static) for axis in axes),
        *(S(A(*shape, draw=draw), axis=axis, keepdims=True, **static) for axis in axes),
        *(S(A(*shape, draw=draw, layout=layout), axis=1, **static) for layout in LAYOUTS),
        S(A(5, draw=draw), **static),
        S(A(1, 4, draw=draw), axis=0, **static),
        S(A(draw=draw), **static),
        S(A(draw=draw), keepdims=True, **static),
        S(A(0, 3, draw=draw), axis=1, **static),
    ]


def over_no_elements(**static):
    """Reductions over no elements, for ops that define a value for them."""
    return [
        S(A(0), **static),
        S(A(0, 3), axis=0, **static),
        S(A(2, 0, 3), axis=(0, 1), keepdims=True, **static),
    ]


def over_no_axes():
    return beyond("torch", S(A(2, 3, draw=distinct), axis=()))


def along(draw=normal):
    """Samples for ops that keep the shape and work along one axis."""
    return [
        S(A(2, 3, draw=draw)),
        S(A(2, 3, draw=draw), axis=0),
        S(A(2, 3, 2, draw=draw), axis=1),
        S(A(2, 3, 2, draw=draw), axis=-2),
        S(A(3, draw=draw)),
        S(A(1, draw=draw)),
        S(A(0, 3, draw=draw)),
        *(S(A(2, 3, draw=draw, layout=layout)) for layout in LAYOUTS),
    ]


def torch_axes(function):
    """Return a PyTorch reduction whose ``axis`` may be None, an int or a tuple."""

    def call(torch, x, *, axis=None, **static):
        return function(torch, x, tuple(range(x.ndim)) if axis is None else axis, **static)

    return call
