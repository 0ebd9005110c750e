"""The parts of the table of ops: inputs, samples and cases.

Nothing here needs PyTorch to be installed: `Case.torch` gets the module as an argument.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, wraps
from itertools import cycle
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.special

import gpugrad
from gpugrad.testing import _tolerance, assert_close

from .draws import bools, integers, normal


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


def Z(*shape, low=0, below=5, dtype="int64"):
    """Integers, from ``low`` on and below the other."""
    return A(*shape, draw=integers(low, below, dtype))


# Bools, and numbers in two dtypes.
B, F, C = partial(A, draw=bools), partial(A, dtype="float32"), partial(A, dtype="complex128")


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

    def map(self, function):
        """Return the sample with other arrays as inputs, the function's results of its own."""
        inputs = [function(x) if isinstance(x, Array) else x for x in self.inputs]
        return replace(self, inputs=tuple(inputs))

    @property
    def shapes(self):
        return tuple(x.shape if isinstance(x, Array) else x for x in self.inputs)

    @property
    def specs(self):
        """The inputs that are arrays."""
        return [x for x in self.inputs if isinstance(x, Array)]

    @property
    def has_matrix(self):
        return any(len(x.shape) > 1 and np.prod(x.shape) > 1 for x in self.specs)

    @property
    def mixed(self):
        """Whether the sample has floating dtypes of its own."""
        return any(x.dtype for x in self.specs)

    @property
    def double(self):
        """Whether its own dtypes all have double precision, so that differences can check it."""
        dtypes = [*(x.dtype for x in self.specs), self.static.get("dtype")]
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


LAYOUTS = "transposed", "strided", "reversed"


def in_layouts(sample):
    """Return three samples, in which each array comes in every layout that is not contiguous."""

    starts = [cycle(LAYOUTS[k:] + LAYOUTS[:k]) for k in range(len(LAYOUTS))]
    return [sample.map(lambda x, o=order: replace(x, layout=next(o))) for order in starts]


def of_shapes(*calls, **static):
    """Return a sample for each list of the inputs' shapes."""
    return [S(*(A(*shape) for shape in shapes), **static) for shapes in calls]


def each(names, of, draw=normal, **static):
    """Return a sample for each value of a static parameter.

    names: its name, or several names for values that are tuples.
    of: the values for each shape of the input.
    """
    names = names.split()
    return [
        S(A(*shape, draw=draw), **dict(zip(names, v if names[1:] else [v], strict=True)), **static)
        for shape, values in of.items() for v in values
    ]  # fmt: skip


def beyond(libraries, *samples):
    """Return the samples, for all libraries except these."""
    return [replace(s, beyond=s.beyond | frozenset(libraries.split())) for s in samples]


def kink(*inputs, gradients, unlike_torch=None, **static):
    """Return a sample at given values, with the gradients expected there."""
    inputs = tuple(values(x) if isinstance(x, list) else x for x in inputs)
    return Sample(inputs, static, gradients=gradients, unlike_torch=unlike_torch)


def unlike_torch(why, *samples):
    """Return the samples, which give other results than PyTorch's."""
    return [replace(s, unlike_torch=why) for s in samples]


def in_float32(function):
    """Wrap a function of NumPy's that has no float16, to compute it in float32."""

    @wraps(function)
    def call(*inputs, **static):
        kinds = [getattr(x, "dtype", None) for x in inputs]
        wide = [x.astype("f4") if k == "float16" else x for x, k in zip(inputs, kinds, strict=True)]
        return function(*wide, **static)

    return call


def numpy_function(name):
    """Return NumPy's function, or SciPy's if it is one of ``special``."""
    if name.startswith("special."):
        return attrgetter(name)(scipy)
    function = attrgetter(name)(np)
    return in_float32(function) if name.startswith("linalg.") else function


def torch_function(name):
    """Return a function of the module ``torch`` and the arguments of its function."""
    return lambda torch, *inputs, **static: attrgetter(name)(torch)(*inputs, **static)


def call_directly(xp, function, *inputs, **static):
    return function(*inputs, **static)


@dataclass(frozen=True)
class Case:
    """An op and what tests need to know about it.

    op: its name in `gpugrad`, such as ``"add"`` or ``"linalg.cholesky"``.
    samples: calls of the op. Unless some of them have layouts, one is repeated in each layout.
    reference: the forward in NumPy, a function of the op's arguments or a name in NumPy; by
        default NumPy's or SciPy's function of the same name.
    torch: PyTorch's equivalent, a function of the module ``torch`` and the op's arguments, or a
        name in PyTorch; True for the same name, None if there is no equivalent.
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
    reference: Callable | str = ""
    torch: Callable | str | bool | None = None
    differentiable: bool = True
    complex: bool = False
    through: Callable = call_directly
    relative_to: str = "element"
    sized: Callable[[int], Sample] | None = None

    def __post_init__(self):
        def put(name, value):
            object.__setattr__(self, name, value)

        if isinstance(self.reference, str):
            put("reference", numpy_function(self.reference or self.op))
        if isinstance(self.torch, str | bool):
            put("torch", torch_function(self.op if self.torch is True else self.torch))
        if not any(x.layout != "contiguous" for s in self.samples for x in s.specs):
            put("samples", [*self.samples, *in_layouts(self._example)])

    @property
    def _example(self):
        """The first sample with a matrix of elements, or the first of all."""
        smooth = (s for s in self.samples if s.gradients is None)
        return next((s for s in smooth if s.has_matrix), self.samples[0])

    @property
    def function(self):
        """The op as users call it."""
        return attrgetter(self.op)(gpugrad)

    def at_size(self, n):
        """Return a sample whose largest array has about ``n`` elements."""
        if self.sized:
            return self.sized(n)
        largest = max((x.shape for x in self.samples[0].specs), key=np.prod)
        factor = (n / np.prod(largest)) ** (1 / len(largest))

        def lengthen(x):
            return replace(x, shape=tuple(m if m == 1 else round(m * factor) for m in x.shape))

        return self.samples[0].map(lengthen)

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
        rtol, atol = (default if near is None else near for near in (rtol, atol))
        for i in np.ndindex(expected.shape[:-2] if self.relative_to == "matrix" else ()):
            a, e = actual[(*i, ...)], expected[(*i, ...)]
            largest = np.max(np.abs(e), where=np.isfinite(e), initial=0)
            try:
                assert_close(a, e, rtol=0, atol=atol + rtol * float(largest))
            except AssertionError as error:
                error.add_note(f"matrix {i}: atol is relative to its largest element, {largest:g}")
                raise


inf, nan = float("inf"), float("nan")
