"""The table of ops: every op with samples, a reference in NumPy and PyTorch's equivalent.

Tests and benchmarks iterate `CASES`. A new op needs one `Case` here and no test
of its own. Nothing here needs PyTorch to be installed: it is handed to `Case.torch`.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import gpugrad

# Where samples are drawn from. Kinks, ties and poles are kept away from: differences
# cross them. They have samples of their own, with the gradients expected there.


def normal(rng, shape):
    return rng.standard_normal(shape)


def positive(rng, shape):
    return rng.uniform(0.5, 2.0, shape)


def nonzero(rng, shape):
    """Both signs, at least 0.3 from 0."""
    return rng.uniform(0.3, 2.0, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(rng, shape):
    """Values at least 0.25 from each other."""
    size = int(np.prod(shape))
    return (rng.permutation(size).reshape(shape) - size / 2) / 4 + rng.uniform(0, 0.05)


def odd(rng, shape):
    """At least 0.5 from every multiple of 2, where the quotient by 2 or -2 jumps."""
    return 2 * rng.integers(-3, 3, shape) + rng.uniform(0.5, 1.5, shape)


def twos(rng, shape):
    return rng.choice([-2.0, 2.0], shape)


def bools(rng, shape):
    return rng.random(shape) < 0.5


def integers(low, high, dtype="int64"):
    def draw(rng, shape):
        return rng.integers(low, high, shape).astype(dtype)

    return draw


@dataclass(frozen=True)
class Array:
    """An input array of a sample.

    draw: a function of a generator and the shape.
    dtype: a floating dtype that is part of the sample; None for the one under test.
    layout: ``"contiguous"``, ``"transposed"``, ``"strided"`` or ``"reversed"``.
    """

    shape: tuple
    draw: Callable = normal
    dtype: str | None = None
    layout: str = "contiguous"

    def values(self, rng, dtype):
        """The values; floating ones in ``dtype`` unless the sample has one of its own."""
        values = np.asarray(self.draw(rng, self.shape))
        return values.astype(self.dtype or dtype) if values.dtype.kind == "f" else values


def A(*shape, draw=normal, dtype=None, layout="contiguous"):
    return Array(shape, draw, dtype, layout)


def values(data):
    """Just these values."""
    array = np.asarray(data)
    return Array(array.shape, lambda rng, shape: array)


@dataclass(frozen=True)
class Sample:
    """One call of an op.

    inputs: `Array`s, Python scalars, or None for an optional input left out.
    static: static parameters, with NumPy arrays for the arrays in an index, and ``"cpu"``
        for the library's own device.
    beyond: names of the libraries that cannot do this, being narrower than NumPy.
    gradients: the expected gradients where cotangents are 1, at a kink or pole, where
        differences have nothing to say; None elsewhere.
    unlike_torch: why values or gradients are not PyTorch's, if they are not.
    """

    inputs: tuple
    static: dict = field(default_factory=dict)
    beyond: frozenset = frozenset()
    gradients: tuple | None = None
    unlike_torch: str | None = None

    def arrays(self, dtype="float64"):
        """The inputs as NumPy arrays and scalars, the same at every call."""
        rng = np.random.default_rng(zlib.crc32(repr((self.shapes, self.static)).encode()))
        return [x.values(rng, dtype) if isinstance(x, Array) else x for x in self.inputs]

    @property
    def shapes(self):
        return tuple(x.shape if isinstance(x, Array) else x for x in self.inputs)

    @property
    def mixed(self):
        """Whether floating dtypes are part of the sample."""
        return any(isinstance(x, Array) and x.dtype for x in self.inputs)

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


def beyond(libraries, *samples):
    """The samples, for all libraries but these."""
    names = frozenset(libraries.split())
    return [replace(s, beyond=s.beyond | names) for s in samples]


def kink(*inputs, gradients, unlike_torch=None, **static):
    """A sample at given values with the gradients expected there."""
    inputs = tuple(values(x) if isinstance(x, list) else x for x in inputs)
    return Sample(inputs, static, gradients=gradients, unlike_torch=unlike_torch)


@dataclass(frozen=True)
class Case:
    """An op and what is known of it.

    op: its name in `gpugrad`.
    samples: calls of it.
    reference: the forward in NumPy: a function of what the op takes.
    torch: PyTorch's equivalent, a function of the module ``torch`` and what the op takes; or None.
    differentiable: whether floating results carry gradients.
    """

    op: str
    samples: list
    reference: Callable
    torch: Callable | None = None
    differentiable: bool = True

    def __call__(self, inputs, static) -> Any:
        """Call the op; several outputs come as a tuple."""
        op = getattr(gpugrad, self.op)
        return op(inputs, **static) if op.op.variadic else op(*inputs, **static)


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
    """A Python scalar on either side."""
    return [
        S(A(2, 3, draw=draw), 1.5),
        S(1.5, A(2, 3, draw=draw)),
        S(A(draw=draw), 2),
        S(2, A(draw=draw)),
        S(A(0, draw=draw), 2),
    ]


def mixed(draw=normal):
    """Dtypes that differ: integers take the floating dtype, of two the wider is taken."""
    return [
        S(A(2, 3, draw=draw, dtype="float32"), A(3, draw=integers(1, 5))),
        S(A(3, draw=integers(1, 5, "int32")), A(2, 3, draw=draw, dtype="float32")),
        S(A(2, 3, draw=draw, dtype="float32"), A(3, draw=draw, dtype="float64")),
        *beyond(
            "array_api_strict",  # which has no float16
            S(A(2, 3, draw=draw, dtype="float16"), A(3, draw=draw, dtype="float32")),
            S(A(2, 3, draw=draw, dtype="float16"), A(3, draw=integers(1, 5))),
        ),
    ]


def arithmetic(draw1=normal, draw2=None):
    return binary(draw1, draw2) + scalars(draw1) + mixed(draw1)


def _division_samples():
    return [
        *binary(odd, twos),
        S(A(2, 3, draw=odd), 2.0),
        S(-3.0, A(2, 3, draw=twos)),
        S(A(2, 3, draw=integers(-5, 5)), A(3, draw=integers(1, 4))),
        S(A(2, 3, draw=odd, dtype="float32"), A(3, draw=integers(2, 3))),
    ]


def comparison():
    ties = integers(0, 3)
    return [
        *binary(),
        *scalars(),
        S(A(3, 4, draw=ties), A(4, draw=ties)),
        S(values([inf, -inf, nan, 0.0]), values([inf, inf, nan, -0.0])),
    ]


def logical():
    return [s for s in binary(bools) if all(isinstance(x, Array) for x in s.inputs)]


def of_integers(*more, **static):
    """Integers become the default floating dtype, where a library makes floats of them."""
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


def over_nothing(**static):
    """Reductions of no elements, for ops that have a value for them."""
    return [
        S(A(0), **static),
        S(A(0, 3), axis=0, **static),
        S(A(2, 0, 3), axis=(0, 1), keepdims=True, **static),
    ]


def over_no_axis():
    return beyond("torch", S(A(2, 3, draw=distinct), axis=()))


def along(draw=normal):
    """Ops that keep the shape and work along one axis."""
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


def _torch_axes(function):
    """A PyTorch reduction that takes ``axis`` None, int or tuple through ``dim``."""

    def call(torch, x, *, axis=None, **static):
        return function(torch, x, tuple(range(x.ndim)) if axis is None else axis, **static)

    return call


def _index_samples():
    """Keys that read and write; a function of the shape ``(3, 4)`` and further inputs."""
    i = np.asarray
    standard = [
        (0, ...),
        (-1, ...),
        (1, 2),
        (slice(None), -1),
        (slice(1, None), slice(None, None, 2)),
        (..., 0),
        (None, slice(None), 1),
        (slice(0, 0), ...),
        (...,),
        i([[True, False, True, True], [False] * 4, [True] * 4]),
        np.zeros((3, 4), bool),
        (i([0, 2, 0, 0]), i([1, 3, 1, -1])),
        (i([[0], [2]]), i([1, -1])),
    ]
    wider = [
        (i([2, 0, 2, 2]),),
        (i([2, 0, 2, -1], dtype="int32"),),
        (i([[0, 1], [1, 1]]), slice(None)),
        (slice(None), i([3, 3, 0])),
        (slice(1, None), i([3, 3, 0])),
        (i([0, 0]), None, 1),
        (None, i([0, 0]), ..., None),
        (i([True, False, True]), slice(1, 3)),
        (slice(None), i([True, False, True, True])),
        (i([], dtype="int64"),),
        0,
        -2,
        slice(1, 2),
    ]
    backwards = [(slice(None, None, -1), slice(3, 0, -2)), (..., slice(None, None, -1))]
    return standard, wider, backwards


STANDARD_KEYS, WIDER_KEYS, BACKWARD_KEYS = _index_samples()


def indexing(make):
    """Samples ``make(key)`` for keys into an array of shape ``(3, 4)``."""
    return [
        *(make(key) for key in STANDARD_KEYS),
        *beyond("array_api_strict", *(make(key) for key in WIDER_KEYS)),
        *beyond("torch", *(make(key) for key in BACKWARD_KEYS)),
    ]


def _taken(key):
    """The shape of ``x[key]``."""
    return np.zeros((3, 4))[key].shape


def _setitem_samples():
    i = np.asarray
    whole = indexing(lambda key: S(A(3, 4), A(*_taken(key)), key=key))
    scalar = indexing(lambda key: S(A(3, 4), A(), key=key))
    samples = [
        *whole,
        *scalar,
        S(A(3, 4), 2.0, key=(slice(None), 1)),
        S(A(3, 4), A(4), key=(slice(1, 3), ...)),
        S(A(3, 4), A(2, 1), key=(slice(1, 3), ...)),
        S(A(3, 4), A(1, 4), key=(0, ...)),
        S(A(), A(), key=()),
        S(A(), 1.5, key=...),
        S(A(3, 4, layout="transposed"), A(3, layout="reversed"), key=(slice(None), 0)),
        *beyond(
            "array_api_strict",
            S(A(3, 4), A(4), key=(i([2, 0, 2]),)),
            S(A(3, 4), A(3, 1), key=(i([2, 0, 2]),)),
            S(A(3, 4), A(1, 4), key=i([True, False, True])),
        ),
    ]
    return [
        replace(s, unlike_torch="PyTorch gives a gradient to values that are overwritten")
        if _repeats(s.static["key"])
        else s
        for s in samples
    ]


def _repeats(key):
    """Whether a key into an array of shape (3, 4) names a place twice."""
    places = np.arange(12).reshape(3, 4)[key]
    return np.unique(places).size < places.size


def _setitem(x, value, *, key):
    out = x.copy()
    out[key] = value
    return out


def _torch_setitem(torch, x, value, *, key):
    out = x.clone()
    out[key] = value
    return out


def _scatter_add(values, *, shape, key):
    out = np.zeros(shape, values.dtype)
    np.add.at(out, key, values)
    return out


def _torch_scatter_add(torch, values, *, shape, key):
    number = torch.arange(int(np.prod(shape))).reshape(shape)[key]
    out = torch.zeros(int(np.prod(shape)), dtype=values.dtype)
    values = values.expand(number.shape).reshape(-1)
    return out.index_add(0, number.reshape(-1), values).reshape(shape)


def _last_written(x, *, key):
    winner = {}
    places = np.arange(x.size).reshape(x.shape)[key]
    for number, place in enumerate(places.ravel().tolist()):
        winner[place] = number
    last = [winner[place] == number for number, place in enumerate(places.ravel().tolist())]
    return np.array(last, dtype=bool).reshape(places.shape)


def _matmul_samples():
    shapes = [
        ((2, 3), (3, 4)),
        ((3,), (3, 4)),
        ((2, 3), (3,)),
        ((3,), (3,)),
        ((1, 3), (3, 1)),
        ((2, 1), (1, 3)),
        ((2, 2, 3), (3, 4)),
        ((2, 2, 3), (3,)),
        ((3,), (2, 3, 4)),
        ((2, 3), (2, 3, 2)),
        ((2, 2, 3), (2, 3, 2)),
        ((2, 1, 2, 3), (3, 3, 2)),
        ((1, 2, 3), (2, 3, 2)),
        ((2, 2, 3), (1, 3, 2)),
        ((1, 1), (1, 1)),
        ((0, 3), (3, 2)),
        ((2, 0), (0, 2)),
        ((0, 2, 3), (3, 2)),
        ((2, 2, 3), (3, 0)),
        ((2, 2, 0), (0, 2)),
        ((2, 0, 3), (3, 2)),
        ((0,), (0,)),
        ((0,), (0, 2)),
        ((2, 0), (0,)),
    ]
    return [
        *(S(A(*s1), A(*s2)) for s1, s2 in shapes),
        *(S(A(2, 3, layout=layout), A(3, 2, layout="transposed")) for layout in LAYOUTS),
        S(A(2, 2, 3, layout="transposed"), A(3, 2, layout="reversed")),
        S(A(2, 3, dtype="float32"), A(3, 2, draw=integers(0, 5))),
    ]


def _linear(x, weight, bias=None):
    out = np.einsum("...i,oi->...o", x, weight)
    return out if bias is None else out + bias


def _softmax(x, *, axis=-1):
    return np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)


def _logsumexp(x, *, axis=None, keepdims=False):
    return np.log(np.exp(x).sum(axis=axis, keepdims=keepdims))


def _reduced(losses, reduction):
    return {"mean": np.mean, "sum": np.sum, "none": np.asarray}[reduction](losses)


def _cross_entropy(logits, target, *, reduction="mean"):
    log_p = np.log(_softmax(logits.astype("float64")))
    rows = zip(log_p.reshape(-1, logits.shape[-1]), target.ravel(), strict=True)
    losses = np.array([-row[label] for row, label in rows]).reshape(target.shape)
    return _reduced(losses, reduction)


def _torch_cross_entropy(torch, logits, target, **static):
    return torch.nn.functional.cross_entropy(logits, target.long(), **static)


def _pow_samples():
    exponents = [0, 1, 2, 3, -1, -2, 0.5, 2.0, -1.5]
    return [
        *arithmetic(positive, normal),
        *(S(A(2, 3, draw=positive), p) for p in exponents),
        *(S(A(2, 3, draw=nonzero), p) for p in (0, 1, 2, 3, -1, 2.0, -3)),
        S(A(4, draw=nonzero), values([0, 1, 2, -1])),
        S(2, A(3)),
        S(0.5, A(3)),
        replace(S(0, A(3, draw=positive)), unlike_torch="PyTorch's second gradient is nan"),
        S(1, A(3)),
        S(A(2, 3, draw=integers(1, 4)), 2),
        kink([0.0, 0.0, 0.0], 1, gradients=([1.0, 1.0, 1.0],)),
        kink([0.0, -2.0], 2, gradients=([0.0, -4.0],)),
        kink([0.0, -2.0, inf], 0, gradients=([0.0, 0.0, 0.0],)),
        kink([0.0], 0.5, gradients=([inf],)),
        kink([0.0], -1, gradients=([-inf],)),
        kink([-2.0], 0.5, gradients=([nan],)),
        kink(
            [0.0, 0.0, 0.0, 0.0, -2.0, -2.0, 2.0],
            [0.0, 1.0, 2.0, 0.5, 2.0, 0.0, 0.0],
            gradients=(
                [0.0, 1.0, 0.0, inf, -4.0, 0.0, 0.0],
                [0.0, 0.0, 0.0, 0.0, nan, nan, np.log(2.0)],
            ),
        ),
        kink([0.0], [-1.0], gradients=([-inf], [-inf])),
        kink(0.0, [0.0, 1.0, 2.0, -1.0], gradients=([0.0, 0.0, 0.0, -inf],)),
        kink(-2.0, [0.0, 2.0], gradients=([nan, nan],)),
    ]


def _clip_samples():
    x, low, high = A(2, 3), A(3, draw=lambda r, s: r.uniform(-1, -0.1, s)), A(2, 1, draw=positive)
    return [
        *(S(A(2, 3, layout=layout), -0.5, 0.5) for layout in ("contiguous", *LAYOUTS)),
        S(x),
        S(x, None, None),
        S(x, -0.5),
        S(x, None, 0.5),
        S(x, low),
        S(x, None, high),
        S(x, low, high),
        S(x, low, 0.5),
        S(x, -0.5, high),
        S(A(), -0.1, 0.1),
        S(A(0, 3), low, 0.5),
        S(A(2, 3, draw=integers(-5, 5)), -2, 2),
        S(A(2, 3, dtype="float32"), A(3, draw=integers(0, 2)), 2),
        kink([-1.0, 0.0, 0.5, 1.0, 2.0, nan], 0, 1, gradients=([0.0, 1.0, 1.0, 1.0, 0.0, 0.0],)),
        kink([-inf, inf], -1, 1, gradients=([0.0, 0.0],)),
        kink(  # x below, at, between and above its bounds
            [-1.0, 0.0, 1.0, 2.0, 3.0],
            [0.0] * 5,
            [2.0] * 5,
            gradients=([0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]),
        ),
        kink(  # bounds that are equal, or crossed: the upper wins
            [0.0, 1.0, 2.0, 0.0, 1.0, 1.5, 2.0, 3.0],
            [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 2.0],
            [1.0] * 8,
            gradients=(
                [0, 1, 0, 0, 0, 0, 0, 0],
                [0, 0, 0, 0, 0, 0, 0, 0],
                [0, 0, 1, 1, 1, 1, 1, 1],
            ),
        ),
    ]


def _clip(x, min=None, max=None):
    x = x if min is None else np.where(x < min, min, x)
    return x if max is None else np.where(x > max, max, x)


def _torch_clip(torch, x, min=None, max=None):
    if min is None and max is None:
        return x.clone()
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        min, max = (
            b if b is None or isinstance(b, torch.Tensor) else torch.full_like(x, b)
            for b in (min, max)
        )
    return torch.clip(x, min, max)


UNLIKE_TORCH_LOGSUMEXP = "PyTorch's gradient is nan where the result is infinite"


CASES = [
    # Arithmetic
    Case("add", arithmetic(), np.add, lambda torch, x1, x2: torch.add(x1, x2)),
    Case("subtract", arithmetic(), np.subtract, lambda torch, x1, x2: x1 - x2),
    Case(
        "multiply",
        [*arithmetic(), *of_integers(1.5)],
        np.multiply,
        lambda torch, x1, x2: torch.mul(x1, x2),
    ),
    Case(
        "divide",
        [
            *arithmetic(nonzero),
            S(A(3, draw=integers(1, 9)), A(2, 3, draw=positive)),
            *of_integers(2),
            *of_integers(A(3, draw=integers(1, 5))),
            kink([1.0, -1.0], [0.0, 0.0], gradients=([inf, inf], [-inf, inf])),
        ],
        np.divide,
        lambda torch, x1, x2: x1 / x2,
    ),
    Case("floor_divide", _division_samples(), np.floor_divide),
    Case("remainder", _division_samples(), np.remainder),
    Case("pow", _pow_samples(), np.power, lambda torch, x1, x2: x1**x2),
    Case("negative", [*unary(), S(A(3, draw=integers(-5, 5)))], np.negative, lambda torch, x: -x),
    Case("positive", [*unary(), S(A(3, draw=integers(-5, 5)))], np.array, lambda torch, x: +x),
    Case(
        "abs",
        [*unary(nonzero), kink([0.0, -0.0, inf, -inf], gradients=([0.0, 0.0, 1.0, -1.0],))],
        np.abs,
        lambda torch, x: torch.abs(x),
    ),
    Case(
        "sign",
        [*unary(nonzero), kink([0.0, -0.0, inf], gradients=([0.0, 0.0, 0.0],))],
        np.sign,
        lambda torch, x: torch.sign(x),
    ),
    # Exponentials and trigonometry
    Case(
        "exp",
        [*unary(), *of_integers(), kink([-inf, inf, 0.0], gradients=([0.0, inf, 1.0],))],
        np.exp,
        lambda torch, x: torch.exp(x),
    ),
    Case(
        "log",
        [*unary(positive), kink([0.0, inf], gradients=([inf, 0.0],))],
        np.log,
        lambda torch, x: torch.log(x),
    ),
    Case(
        "sqrt",
        [*unary(positive), kink([0.0, inf], gradients=([inf, 0.0],))],
        np.sqrt,
        lambda torch, x: torch.sqrt(x),
    ),
    Case("sin", unary(), np.sin, lambda torch, x: torch.sin(x)),
    Case("cos", unary(), np.cos, lambda torch, x: torch.cos(x)),
    Case(
        "tanh",
        [*unary(), kink([-inf, inf, 0.0], gradients=([0.0, 0.0, 1.0],))],
        np.tanh,
        lambda torch, x: torch.tanh(x),
    ),
    # Choices
    Case(
        "maximum",
        [
            *arithmetic(),
            kink([1.0, 2.0, inf], [1.0, 3.0, inf], gradients=([0.5, 0.0, 0.5], [0.5, 1.0, 0.5])),
            kink([0.0, 1.0], 0.0, gradients=([0.5, 1.0],), unlike_torch="maximum takes no scalar"),
            kink([nan, 1.0], [1.0, nan], gradients=([1.0, 1.0], [1.0, 1.0])),
        ],
        np.maximum,
        lambda torch, x1, x2: torch.maximum(*_torch_both(torch, x1, x2)),
    ),
    Case(
        "minimum",
        [
            *arithmetic(),
            kink([1.0, 2.0, -inf], [1.0, 3.0, -inf], gradients=([0.5, 1.0, 0.5], [0.5, 0.0, 0.5])),
            kink([nan, 1.0], [1.0, nan], gradients=([1.0, 1.0], [1.0, 1.0])),
        ],
        np.minimum,
        lambda torch, x1, x2: torch.minimum(*_torch_both(torch, x1, x2)),
    ),
    Case("clip", _clip_samples(), _clip, _torch_clip),
    Case(
        "where",
        [
            S(A(2, 3, draw=bools), A(2, 3), A(2, 3)),
            S(A(2, 3, draw=bools), A(3), A(2, 1)),
            S(A(3, draw=bools), A(2, 1), A()),
            S(A(draw=bools), A(2, 3), A(2, 3)),
            S(A(draw=bools), A(), A()),
            S(A(0, 3, draw=bools), A(3), A(1, 3)),
            S(A(3, draw=bools), A(3), 0.0),
            S(A(3, draw=bools), 1, A(3)),
            S(A(20, 20, draw=bools), values(np.linspace(-1, 1, 400).reshape(20, 20)), 0.0),
            S(A(3, 2, draw=bools, layout="transposed"), A(3, 2, layout="strided"), A(2)),
            S(A(3, draw=bools), A(3, dtype="float32"), A(3, dtype="float64")),
            S(A(3, draw=bools), A(3, dtype="float32"), A(3, draw=integers(0, 5))),
            S(A(3, draw=bools), A(3, draw=integers(0, 5)), A(3, draw=integers(0, 5))),
            kink([True, False], [1.0, inf], [nan, 2.0], gradients=([1.0, 0.0], [0.0, 1.0])),
        ],
        np.where,
        lambda torch, condition, x1, x2: torch.where(condition, x1, x2),
    ),
    # Comparisons and logic
    *(
        Case(name, comparison(), getattr(np, name), differentiable=False)
        for name in "equal not_equal less less_equal greater greater_equal".split()
    ),
    *(
        Case(name, logical(), getattr(np, name), differentiable=False)
        for name in ("logical_and", "logical_or")
    ),
    Case("logical_not", unary(bools), np.logical_not, differentiable=False),
    *(
        Case(
            name,
            [*unary(), S(values([nan, inf, -inf, 0.0])), S(A(3, draw=integers(0, 5)))],
            getattr(np, name),
            differentiable=False,
        )
        for name in ("isnan", "isfinite")
    ),
    # Reductions
    Case(
        "sum",
        [
            *reduction(),
            *over_nothing(),
            *over_no_axis(),
            S(A(2, 3, dtype="float32"), dtype=gpugrad.float64),
            S(A(2, 3, draw=integers(0, 5, "int32"))),
            S(A(2, 3, draw=integers(0, 5)), dtype=gpugrad.float32, axis=0),
            S(A(2, 3, dtype="float64"), dtype=gpugrad.float32),
        ],
        np.sum,
        _torch_axes(lambda torch, x, dim, **static: torch.sum(x, dim, **static)),
    ),
    Case(
        "mean",
        [*reduction(), *over_nothing(), *over_no_axis(), *of_integers(axis=1)],
        np.mean,
        _torch_axes(lambda torch, x, dim, **static: torch.mean(x, dim, **static)),
    ),
    Case(
        "var",
        [
            *reduction(),
            *reduction(axes=[None, -1, (0, 2)], correction=1)[:6],
            *over_no_axis(),
            *of_integers(axis=1),
        ],
        lambda x, *, axis=None, correction=0, keepdims=False: np.var(
            x, axis=axis, ddof=correction, keepdims=keepdims
        ),
        _torch_axes(
            lambda torch, x, dim, correction=0, **static: torch.var(
                x, dim, correction=correction, **static
            )
        ),
    ),
    *(
        Case(
            name,
            [
                *reduction(distinct),
                *over_no_axis(),
                S(A(2, 3, draw=integers(0, 3)), axis=1),
                kink([sign * 1.0, sign * 3.0, sign * 3.0], gradients=([0.0, 0.5, 0.5],)),
                kink(
                    [[2.0, 2.0], [2.0, sign * 5.0]],
                    axis=(0, 1),
                    gradients=([[0.0, 0.0], [0.0, 1.0]],),
                ),
                kink(
                    [[2.0, 2.0], [2.0, sign * 5.0]],
                    axis=1,
                    keepdims=True,
                    gradients=([[0.5, 0.5], [0.0, 1.0]],),
                ),
                kink([sign * inf, sign * inf, 0.0], gradients=([0.5, 0.5, 0.0],)),
            ],
            getattr(np, name),
            _torch_axes(
                lambda torch, x, dim, name=f"a{name}", **static: getattr(torch, name)(
                    x, dim, **static
                )
            ),
        )
        for name, sign in (("max", 1), ("min", -1))
    ),
    Case(
        "logsumexp",
        [
            *reduction(),
            kink([-inf, 1.0], gradients=([0.0, 1.0],)),
            kink([-inf, -inf], gradients=([0.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
            kink([inf, 1.0], gradients=([1.0, 0.0],), unlike_torch=UNLIKE_TORCH_LOGSUMEXP),
            kink(
                [[-inf, -inf], [0.0, -inf]],
                axis=1,
                keepdims=True,
                gradients=([[0.0, 0.0], [1.0, 0.0]],),
                unlike_torch=UNLIKE_TORCH_LOGSUMEXP,
            ),
        ],
        _logsumexp,
        _torch_axes(lambda torch, x, dim, **static: torch.logsumexp(x, dim, **static)),
    ),
    *(
        Case(
            name,
            [
                *reduction(distinct, axes=[None, 0, 1, -1]),
                S(values([1, 3, 3, 1, 1, 3])),
            ],
            getattr(np, name),
            differentiable=False,
        )
        for name in ("argmax", "argmin")
    ),
    *(
        Case(
            name,
            [*reduction(bools), S(A(0, draw=bools)), S(A(0, 3, draw=bools), axis=0)],
            getattr(np, name),
            differentiable=False,
        )
        for name in ("all", "any")
    ),
    # Linear algebra
    Case("matmul", _matmul_samples(), np.matmul, lambda torch, x1, x2: torch.matmul(x1, x2)),
    Case(
        "matrix_transpose",
        [S(A(2, 3)), S(A(2, 3, 4)), S(A(0, 3)), S(A(2, 3, layout="transposed"))],
        lambda x: np.swapaxes(x, -1, -2),
        lambda torch, x: x.mT,
    ),
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
    # Indexing
    Case(
        "getitem",
        [
            *indexing(lambda key: S(A(3, 4), key=key)),
            S(A(3, 4, layout="transposed"), key=(slice(1, None), 2)),
            S(A(), key=()),
            S(A(), key=None),
            S(A(), key=...),
            S(A(5), key=np.array([4, 4, -5, 0, 4])),
            S(A(0, 3), key=(slice(None), 1)),
            S(A(3, 4, draw=integers(0, 5)), key=(1, ...)),
        ],
        lambda x, *, key: x[key],
        lambda torch, x, *, key: x[key],
    ),
    Case("setitem", _setitem_samples(), _setitem, _torch_setitem),
    Case(
        "scatter_add",
        [
            *indexing(lambda key: S(A(*_taken(key)), shape=(3, 4), key=key)),
            S(A(), shape=(3,), key=slice(None)),
            S(A(3), shape=(5,), key=np.array([1, 1, -1])),
        ],
        _scatter_add,
        _torch_scatter_add,
    ),
    Case(
        "last_written",
        indexing(lambda key: S(A(3, 4), key=key)),
        _last_written,
        differentiable=False,
    ),
    # Neural networks
    Case(
        "relu",
        [*unary(nonzero), kink([0.0, -0.0, inf, -inf], gradients=([0.0, 0.0, 1.0, 0.0],))],
        lambda x: np.where(x > 0, x, 0),
        lambda torch, x: torch.relu(x),
    ),
    Case(
        "sigmoid",
        [
            *unary(),
            S(values([-100.0, -30.0, -10.0, 10.0, 100.0])),
            kink([-inf, inf], gradients=([0.0, 0.0],)),
        ],
        lambda x: np.exp(-np.logaddexp(0, -x)),
        lambda torch, x: torch.sigmoid(x),
    ),
    Case(
        "softmax",
        [*along(), *of_integers(), kink([-inf, 0.0, 0.0], gradients=([0.0, 0.0, 0.0],))],
        _softmax,
        lambda torch, x, *, axis=-1: torch.softmax(x, axis),
    ),
    Case(
        "log_softmax",
        [*along(), *of_integers()],
        lambda x, *, axis=-1: np.log(_softmax(x, axis=axis)),
        lambda torch, x, *, axis=-1: torch.log_softmax(x, axis),
    ),
    Case(
        "linear",
        [
            S(A(4, 3), A(2, 3), A(2)),
            S(A(4, 3), A(2, 3)),
            S(A(4, 3), A(2, 3), None),
            S(A(3), A(2, 3), A(2)),
            S(A(2, 2, 3), A(2, 3), A(2)),
            S(A(1, 3), A(2, 3), A(2)),
            S(A(4, 1), A(1, 1), A(1)),
            S(A(0, 3), A(2, 3), A(2)),
            S(A(4, 0), A(2, 0), A(2)),
            S(A(4, 3), A(0, 3), A(0)),
            S(A(4, 3, layout="transposed"), A(2, 3, layout="reversed"), A(2, layout="strided")),
            S(A(4, 3, draw=integers(0, 5)), A(2, 3, dtype="float32"), A(2, dtype="float32")),
            *beyond(
                "torch",  # whose matmul wants one dtype
                S(A(4, 3, dtype="float32"), A(2, 3, dtype="float32"), A(2, dtype="float64")),
                S(A(4, 3, dtype="float32"), A(2, 3, dtype="float64"), A(2, dtype="float32")),
            ),
        ],
        _linear,
        lambda torch, x, weight, bias=None: torch.nn.functional.linear(x, weight, bias),
    ),
    Case(
        "cross_entropy",
        [
            *(
                S(A(4, 3), A(4, draw=integers(0, 3)), reduction=reduction)
                for reduction in ("mean", "sum", "none")
            ),
            *(
                S(A(3), A(draw=integers(0, 3)), reduction=reduction)
                for reduction in ("mean", "sum", "none")
            ),
            S(A(4, 3), A(4, draw=integers(0, 3, "int32"))),
            S(A(4, 3), A(4, draw=integers(0, 3, "uint8"))),
            *of_integers(A(2, draw=integers(0, 3))),
            S(A(4, 1), A(4, draw=integers(0, 1))),
            S(A(1, 3), A(1, draw=integers(0, 3))),
            replace(
                S(A(0, 3), A(0, draw=integers(0, 3)), reduction="mean"),
                unlike_torch="PyTorch's second gradient is nan",
            ),
            *(
                S(A(0, 3), A(0, draw=integers(0, 3)), reduction=reduction)
                for reduction in ("sum", "none")
            ),
            S(A(4, 3, layout="transposed"), A(4, draw=integers(0, 3), layout="reversed")),
            kink([0.0, -inf, 0.0], values(0), gradients=([-0.5, 0.0, 0.5],)),
        ],
        _cross_entropy,
        _torch_cross_entropy,
    ),
    Case(
        "mse",
        [
            *(S(A(4, 3), A(4, 3), reduction=reduction) for reduction in ("mean", "sum", "none")),
            S(A(), A()),
            S(A(4, 3, layout="transposed"), A(4, 3, layout="reversed")),
            *(S(A(0, 3), A(0, 3), reduction=reduction) for reduction in ("mean", "sum", "none")),
            S(A(3, dtype="float32"), A(3, draw=integers(0, 5))),
            S(A(3, dtype="float32"), A(3, dtype="float64")),
            kink([1.0, 2.0], [1.0, 1.0], gradients=([0.0, 1.0], [0.0, -1.0])),
        ],
        lambda x, target, *, reduction="mean": _reduced((x - target) ** 2, reduction),
        lambda torch, x, target, **static: torch.nn.functional.mse_loss(x, target, **static),
    ),
    Case(
        "one_hot",
        [
            S(A(4, draw=integers(0, 3)), n=3),
            S(A(2, 2, draw=integers(0, 3, "int32")), n=5),
            S(A(draw=integers(0, 3)), n=3),
            S(A(0, draw=integers(0, 3)), n=3),
        ],
        lambda labels, *, n: np.eye(n, dtype=bool)[labels],
        differentiable=False,
    ),
    Case(
        "to_device",
        [S(A(2, 3), device="cpu"), S(A(), device="cpu"), S(A(0), device="cpu")],
        lambda x, *, device: x,
        lambda torch, x, *, device: x.to(device),
    ),
]


def _torch_both(torch, *operands):
    """Both operands as tensors of one dtype: PyTorch's maximum takes no scalars."""
    like = next(x for x in operands if isinstance(x, torch.Tensor))
    return [x if isinstance(x, torch.Tensor) else torch.full_like(like, x) for x in operands]
