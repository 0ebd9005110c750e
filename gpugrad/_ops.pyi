# Written by tests/write_stubs.py.

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._tensor import Tensor as Tensor
from ._typing import Array
from .backends.registry import Shape

def abs(x: Array, /) -> Tensor:
    """Elementwise absolute value, which is real for complex numbers too; the gradient at 0 is 0."""

def acos(x: Array, /) -> Tensor:
    """Elementwise arccosine; the gradient is infinite at -1 and 1, and nan beyond.

    The second derivative is nan at -1 and 1.
    """

def acosh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic cosine; the gradient is infinite at 1, and nan below."""

def add(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise sum ``x1 + x2``."""

def add_windows(
    values: Array,
    /,
    *,
    shape: Shape,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """Zeros of ``(..., *shape)``, to which windows are added: the transpose of `sliding_windows`.

    values: ``(..., *size, *counts)``, as `sliding_windows` returns them for ``(..., *shape)``.

    Raises ValueError if there are not as many windows as slide over ``shape``.
    """

def all(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether all elements are true."""

def allclose(
    x1: Array | complex,
    x2: Array | complex,
    /,
    *,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Whether all elements are close; see `isclose`. The result is a 0-d bool tensor.

    `gpugrad.testing.assert_close` says which elements are not.
    """

def any(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether any element is true."""

def argmax(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first maximum along ``axis``; None means an index into the flattened array."""

def argmin(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first minimum along ``axis``; None means an index into the flattened array."""

def argsort(
    x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Indices that sort ``x`` along ``axis``.

    If ``stable``, equal elements keep their order, even if ``descending``.
    """

def argwhere(x: Array, /) -> Tensor:
    """Indices of the elements that are not 0, in row-major order: ``(n, ndim)``.

    See `nonzero`, whose result can be used as an index. Raises ValueError for a 0-d array.
    """

def asin(x: Array, /) -> Tensor:
    """Elementwise arcsine; the gradient is infinite at -1 and 1, and nan beyond.

    The second derivative is nan at -1 and 1.
    """

def asinh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic sine."""

def astype(x: Array, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The values in another dtype, and on another device if one is given.

    The gradient is cast back; an integer result carries none. Casting complex numbers to real
    ones raises TypeError, except to bool: use ``real``, ``imag`` or ``abs``.

    copy: False to return ``x`` itself if it already has that dtype and device.
    """

def atan(x: Array, /) -> Tensor:
    """Elementwise arctangent."""

def atan2(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise angle, in [-pi, pi], of the point (``x2``, ``x1``); for real numbers.

    Where both inputs are 0 the gradients are 0.
    """

def atanh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, as is its gradient."""

def attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    /,
    *,
    is_causal: bool = False,
    scale: float | None = None,
    dropout_p: float = 0.0,
    dropout_key: tuple[int, int] = (0, 0),
) -> Tensor:
    """``softmax(query @ key.T * scale + mask) @ value``, without keeping the weights.

    query: ``(..., n, d)``, real. key: ``(..., m, d)``. value: ``(..., m, e)``.
    mask: broadcasts to ``(..., n, m)``. Bools, False where a query must not use a key, or numbers
        to add; it may add leading axes, but ``n`` and ``m`` are those of query and key.
    is_causal: whether query i may use only the keys up to i.
    scale: by default ``1 / sqrt(d)``.
    dropout_p, dropout_key: the probability to zero a weight, and the key that decides which ones,
        as in `dropout_mask` for weights whose rows are padded to a multiple of 16.

    The leading axes broadcast. The result, ``(..., n, e)``, is 0 for a query without any key. The
    weights are computed block by block, and again for backward, so that memory grows linearly
    with n and m. For float16, intermediate values are computed in float32.
    (Vaswani et al. 2017, "Attention is all you need")
    """

def batch_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, /, *, eps: float = 1e-05
) -> tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, with mean and variance of each channel.

    x: ``(n, channels, ...)``, real.
    weight, bias: ``(channels,)``; by default 1 and 0.

    Returns ``(out, mean, var)``. The statistics, ``(channels,)``, are over all axes but the
    second, and 0 if these have no elements; the variance is the sum of squared deviations divided
    by the number of elements. All three results are differentiable. For float16, intermediate
    values are computed in float32.
    (Ioffe and Szegedy 2015, "Batch normalization: accelerating deep network training by
    reducing internal covariate shift")
    """

def binary_cross_entropy(x: Array | complex, target: Array | complex, /) -> Tensor:
    """``-(target * log(x) + (1 - target) * log(1 - x))`` for probabilities ``x``.

    As in PyTorch, logarithms are at least -100 and the slope in ``x`` is at most 1e12 (in float16,
    16384), so that they are finite for a probability of 0 or 1. Outside ``[0, 1]`` they are nan.
    """

def binary_cross_entropy_with_logits(x: Array | complex, target: Array | complex, /) -> Tensor:
    """`binary_cross_entropy` of ``sigmoid(x)`` and ``target``, without overflow."""

def bincount(x: Array, weights: Array | None = None, /, *, minlength: int = 0) -> Tensor:
    """How often each integer from 0 to the greatest in ``x`` occurs, or the sum of its weights.

    x: ``(n,)``, integers of at least 0.
    weights: ``(n,)``, for which the result is differentiable; integers and bools add up as int64.
    minlength: the least length of the result.

    The length of the result depends on the elements: on a GPU this waits for the device. Raises
    ValueError for integers below 0.
    """

def bitwise_and(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 & x2`` of integers or bools."""

def bitwise_invert(x: Array, /) -> Tensor:
    """Elementwise ``~x`` of integers or bools."""

def bitwise_left_shift(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 << x2`` of integers; ``x2`` must be at least 0."""

def bitwise_or(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 | x2`` of integers or bools."""

def bitwise_right_shift(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 >> x2`` of integers, which keeps the sign; ``x2`` must be at least 0."""

def bitwise_xor(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 ^ x2`` of integers or bools."""

def broadcast_arrays(*arrays: Array) -> tuple[Tensor, ...]:
    """The arrays, all broadcast to their common shape."""

def broadcast_to(x: Array, /, shape: Shape) -> Tensor:
    """``x`` repeated along new leading axes and along axes of length 1."""

def ceil(x: Array, /) -> Tensor:
    """Elementwise smallest integer that is at least ``x``, in the dtype of ``x``."""

def chunk(x: Array, /, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most ``chunks`` pieces of ``x`` along ``axis``, as a tuple; the last one may be shorter.

    As in PyTorch, all others have the length of the axis over ``chunks``, rounded up, so that
    there may be fewer. `split` gives pieces of the same length, or between positions.
    """

def clip(
    x: Array | complex, min: Array | complex | None = None, max: Array | complex | None = None
) -> Tensor:
    """Elementwise ``x`` limited to ``[min, max]``; either bound may be None.

    Where the lower bound is above the upper one, the result is the upper one. At a bound the
    gradient goes to ``x``. Outside, it goes to the bound if that is a Tensor that requires
    grad; below two equal bounds, neither gets a gradient. All this is as in PyTorch.
    """

def concat(arrays: Iterable[Array | complex], /, *, axis: int = 0) -> Tensor:
    """The arrays of a sequence joined along an existing axis; None flattens the arrays first."""

def conj(x: Array, /) -> Tensor:
    """Elementwise complex conjugate; a real array is returned unchanged."""

def convolution(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    /,
    *,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """The sum of products of each window of ``x`` with each filter, plus ``bias``.

    x: ``(n, channels, *lengths)``, with any number of axes for windows to slide over.
    weight: the filters, ``(out, channels / groups, *size)``.
    bias: ``(out,)``; by default 0.
    stride, padding, dilation: see `sliding_windows`.
    groups: into how many parts the channels are divided; a filter sees the channels of its part.

    The result is ``(n, out, *counts)``. As usual in neural networks, filters are not reversed.
    Raises ValueError if the shapes do not fit, or a filter is longer than the padded input.
    """

def convolution_input(
    cotangent: Array,
    weight: Array,
    /,
    *,
    shape: Shape,
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of `convolution` by its input, also known as the transposed convolution.

    cotangent: ``(n, out, *counts)``. weight: ``(out, channels / groups, *size)``.
    shape: the lengths of the input without its first two axes, over which ``counts`` windows slide.

    The result is ``(n, channels, *shape)``. Raises ValueError if the shapes do not fit.
    """

def copysign(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``abs(x1)`` with the sign of ``x2``, which may be -0.0; for real numbers.

    The gradient to ``x1`` is 0 where ``x1`` is 0; the gradient to ``x2`` is 0 everywhere.
    """

def cos(x: Array, /) -> Tensor:
    """Elementwise cosine."""

def cosh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic cosine."""

def count_nonzero(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """The number of elements that are not 0."""

def cross_entropy(
    logits: Array, target: Array, /, *, reduction: str = "mean", ignore_index: int = -100
) -> Tensor:
    """Negative log-likelihood of class labels under ``softmax(logits)``.

    logits: ``(n, classes)`` or ``(classes,)``, floating.
    target: ``(n,)`` or ``()``, integer labels in ``[0, classes)``, or ``ignore_index``.
    reduction: ``"mean"`` or ``"sum"`` of the losses, or ``"none"``.
    ignore_index: a label whose loss is 0 and does not count in the mean, which is nan if no other
        label is there.
    """

def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of the elements up to and including each one along ``axis``.

    axis: may be None for arrays with a single axis.
    dtype: of the accumulator and the result; by default int64 or uint64 for smaller integers.
    include_initial: start with 1, so that the result is longer by 1.

    Derivatives of every order are right even where elements are 0, since no rule divides.
    """

def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of the elements up to and including each one along ``axis``.

    axis: may be None for arrays with a single axis.
    dtype: of the accumulator and the result; by default int64 or uint64 for smaller integers.
    include_initial: start with 0, so that the result is longer by 1.
    """

def dense(x: Array, weight: Array, bias: Array | None = None, /, *, activation: str) -> Tensor:
    """A fused layer, ``activation(linear(x, weight, bias))``.

    The graph keeps its result, but not that of `linear`.

    x, weight, bias: as for `linear`.
    activation: ``"relu"``, ``"sigmoid"`` or ``"tanh"``.
    """

def diff(
    x: Array | complex,
    prepend: Array | complex | None = None,
    append: Array | complex | None = None,
    *,
    axis: int = -1,
    n: int = 1,
) -> Tensor:
    """Differences of adjacent elements along ``axis``, ``x[1:] - x[:-1]``, taken ``n`` times.

    prepend, append: arrays joined to ``x`` along ``axis`` first.
    """

def divide(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise quotient ``x1 / x2``; dividing by zero gives inf or nan."""

def dropout(x: Array, /, *, p: float, key: tuple[int, int]) -> Tensor:
    """``x / (1 - p)``, or 0 where ``dropout_mask(x, shape=x.shape, p=p, key=key)`` is False.

    `gpugrad.nn.functional.dropout` draws a new key each time.
    """

def einsum(subscripts: str, /, *operands: Array) -> Tensor:
    """Sums of products of the operands' elements, with the subscripts of `numpy.einsum`.

    Each operand has a term with a letter for each axis: ``"ij,jk->ik"`` is the matrix product. A
    letter that is repeated in a term takes the diagonal. Letters that are not in the result's
    term are summed over; without ``->``, the result has the letters that occur once, in
    alphabetical order. ``...`` stands for any number of axes. These broadcast, and so does every
    axis of length 1.

    More than two operands are multiplied in pairs, in an order that `opt_einsum` chooses if it
    is installed. Nothing is conjugated.

    >>> import gpugrad
    >>> a = gpugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> gpugrad.einsum("ij,kj->ik", a, a).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """

def elu(x: Array, /, alpha: float = 1.0, *, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    """``scale * x`` where ``x`` is positive, else ``scale * alpha * (exp(input_scale * x) - 1)``.

    At 0 the slope is that of the second piece. With the defaults of ``scale`` and
    ``input_scale`` this is the exponential linear unit of Clevert et al. (2016); the functions
    `selu` and `celu` in `gpugrad.nn.functional` choose others.
    """

def equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 == x2``."""

def exp(x: Array, /) -> Tensor:
    """Elementwise exponential."""

def expand_dims(x: Array, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` with a new axis of length 1 at position ``axis`` of the result, an int or a tuple."""

def expm1(x: Array, /) -> Tensor:
    """Elementwise ``exp(x) - 1``, precise near 0."""

def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along one axis, several (a tuple) or all (None)."""

def floor(x: Array, /) -> Tensor:
    """Elementwise largest integer that is at most ``x``, in the dtype of ``x``."""

def floor_divide(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise quotient rounded down, ``x1 // x2``. Its gradients are 0 everywhere."""

def gelu(x: Array, /, approximate: str = "none") -> Tensor:
    """Gaussian error linear unit: ``x`` times the standard normal distribution function of ``x``.

    approximate: ``"none"``, or ``"tanh"`` for
        ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x**3)))``.

    Elementwise, ``(...) -> (...)``. From Hendrycks and Gimpel (2016). Far from 0 no digits are
    lost. Raises ValueError for another ``approximate``.
    """

def greater(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 > x2``."""

def greater_equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 >= x2``."""

def group_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    /,
    *,
    groups: int,
    eps: float = 1e-05,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, normalized over groups of channels.

    x: ``(n, channels, ...)``, real; each example's channels are split into ``groups`` of equal
        size, and each group is normalized by itself, over all of its elements.
    weight, bias: ``(channels,)``; by default 1 and 0.

    The variance is the sum of squared deviations divided by the number of elements. For
    float16, intermediate values are computed in float32.
    (Wu and He 2018, "Group normalization")
    """

def gru(
    x: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    h0: Array | None = None,
    /,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """A layer of gated recurrent units in one direction.

    At each time, with the weights' and biases' rows for r, z and n one below the other::

        r = sigmoid(W_ir x + b_ir + W_hr h + b_hr)
        z = sigmoid(W_iz x + b_iz + W_hz h + b_hz)
        n = tanh(W_in x + b_in + r * (W_hn h + b_hn))
        h = (1 - z) * n + z * h

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(3 * h, in)`` and ``(3 * h, h)``.
    bias_ih, bias_hh: ``(3 * h,)``; by default 0.
    h0: ``(batch, h)``, the state before the first step; by default 0.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n)``: the states after all steps, ``(length, batch, h)``, and that after the
    last step, ``(batch, h)``. For float16, intermediate values are computed in float32.
    (Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder for statistical
    machine translation"; r is applied after the product, as in PyTorch)
    """

def hardshrink(x: Array, /, lambd: float = 0.5) -> Tensor:
    """``x`` where its magnitude is above ``lambd``, else 0; the slope at ``lambd`` is 0."""

def hardsigmoid(x: Array, /) -> Tensor:
    """``clip(x + 3, 0, 6) / 6``; the slope at -3 and at 3 is 0."""

def hardswish(x: Array, /) -> Tensor:
    """``x * clip(x + 3, 0, 6) / 6``; the slope is 0 at -3 and 1 at 3."""

def hardtanh(x: Array, /, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """``x`` limited to ``[min_val, max_val]``; unlike that of `clip`, the slope at a bound is 0."""

def huber(x: Array, target: Array, /, delta: float = 1.0, *, divisor: float = 1.0) -> Tensor:
    """``(x - target) ** 2 / 2`` where the error is at most ``delta``, and linear beyond.

    The linear pieces are ``delta * (abs(x - target) - delta / 2)``. All is divided by ``divisor``.
    From Huber (1964).
    """

def hypot(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``sqrt(x1**2 + x2**2)`` for real numbers, without overflow.

    Where both inputs are 0 the gradient is 0, like that of `abs`.
    """

def imag(x: Array, /) -> Tensor:
    """Elementwise imaginary part; zeros for a real array, if the array library supports it."""

def isclose(
    x1: Array | complex,
    x2: Array | complex,
    *,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Tensor:
    """Whether ``abs(x1 - x2) <= atol + rtol * abs(x2)`` elementwise.

    An infinity is close to itself only, and nan to nothing, or with ``equal_nan`` to nan.
    """

def isfinite(x: Array, /) -> Tensor:
    """Elementwise test for being neither infinite nor nan."""

def isin(x1: Array | complex, x2: Array | complex, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` equals an element of ``x2``, or none of them if ``invert``."""

def isinf(x: Array, /) -> Tensor:
    """Elementwise test for infinity of either sign; for complex numbers, in either part."""

def isnan(x: Array, /) -> Tensor:
    """Elementwise test for nan; for complex numbers, in either part."""

def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    /,
    *,
    ndim: int = 1,
    eps: float = 1e-05,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, normalized over the last ``ndim`` axes.

    x: ``(..., *shape)``, real, where ``shape`` has ``ndim`` axes.
    weight, bias: ``shape``; by default 1 and 0.

    The variance is the sum of squared deviations divided by the number of elements. For
    float16, intermediate values are computed in float32.
    (Ba, Kiros and Hinton 2016, "Layer normalization")
    """

def leaky_relu(x: Array, /, negative_slope: float = 0.01) -> Tensor:
    """``x`` where it is positive, else ``negative_slope * x``, which is also the slope at 0."""

def less(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 < x2``."""

def less_equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 <= x2``."""

def linear(
    x: Array | complex, weight: Array | complex, bias: Array | complex | None = None
) -> Tensor:
    """Affine map ``x @ weight.T + bias``: ``(..., in), (out, in), (out,) -> (..., out)``."""

def log(x: Array, /) -> Tensor:
    """Elementwise natural logarithm; -inf at 0, nan below."""

def log10(x: Array, /) -> Tensor:
    """Elementwise logarithm to the base 10; -inf at 0, nan below."""

def log1p(x: Array, /) -> Tensor:
    """Elementwise ``log(1 + x)``, precise near 0; -inf at -1, nan below."""

def log2(x: Array, /) -> Tensor:
    """Elementwise logarithm to the base 2; -inf at 0, nan below."""

def log_softmax(x: Array, /, axis: int | tuple[int, ...] = -1) -> Tensor:
    """``log(softmax(x))`` along ``axis``, without overflow."""

def logaddexp(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``log(exp(x1) + exp(x2))`` of real numbers, without overflow.

    As in `logsumexp`, an infinite input gets the whole gradient if it is inf, and none if it is
    -inf.
    """

def logical_and(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise logical AND of bools."""

def logical_not(x: Array, /) -> Tensor:
    """Elementwise logical NOT of bools."""

def logical_or(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise logical OR of bools."""

def logical_xor(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise logical XOR of bools."""

def logsigmoid(x: Array, /) -> Tensor:
    """``log(sigmoid(x))`` elementwise, ``(...) -> (...)``, without overflow."""

def logsumexp(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """``log(sum(exp(x)))`` without overflow. Raises if there are no elements.

    The gradient is ``softmax(x)``. Where the result is inf, each element that is inf gets the
    whole gradient; where it is -inf, no element gets any.
    """

def lstm(
    x: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    h0: Array | None = None,
    c0: Array | None = None,
    /,
    *,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """A layer of long short-term memory in one direction.

    At each time, with the rows of ``W_ih x + b_ih + W_hh h + b_hh`` for i, f, g and o one below
    the other: ``c = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h = sigmoid(o) * tanh(c)``.

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(4 * h, in)`` and ``(4 * h, h)``.
    bias_ih, bias_hh: ``(4 * h,)``; by default 0.
    h0, c0: ``(batch, h)``, the state and the cells before the first step; by default 0.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n, c_n)``: the states after all steps, ``(length, batch, h)``, and the state
    and the cells after the last step, ``(batch, h)``. For float16, intermediate values are
    computed in float32.
    (Hochreiter and Schmidhuber 1997, "Long short-term memory", with the forget gate of Gers,
    Schmidhuber and Cummins 2000)
    """

def matmul(x1: Array, x2: Array, /) -> Tensor:
    """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

    Leading axes broadcast. A 1-D ``x1`` counts as a row and a 1-D ``x2`` as a column, and the
    added axis is dropped from the result.
    """

def matrix_transpose(x: Array, /) -> Tensor:
    """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""

def max(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Maximum of the elements; a tie shares its gradient evenly. Raises if there are none.

    Where it is nan, so is the gradient.
    """

def max_pool(
    x: Array,
    /,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """The largest element of each window: ``(..., *lengths) -> (..., *counts)``.

    The parameters are those of `sliding_windows`, but padding counts as minus infinity. Of equal
    elements the first, in row-major order, gets the gradient. A window with a nan gives nan, and
    the first nan gets the gradient.
    """

def maximum(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise maximum; a tie shares its gradient evenly."""

def mean(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Mean of the elements, in a floating dtype; nan if there are none."""

def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of the points of a grid, given those along each axis: one array per input.

    indexing: with ``"ij"``, array i runs along axis i; with ``"xy"``, the first two are swapped.
    """

def min(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Minimum of the elements; a tie shares its gradient evenly. Raises if there are none.

    Where it is nan, so is the gradient.
    """

def minimum(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise minimum; a tie shares its gradient evenly."""

def mish(x: Array, /) -> Tensor:
    """``x * tanh(log(1 + exp(x)))``, from Misra (2019)."""

def moveaxis(
    x: Array, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> Tensor:
    """The axes at ``source``, an int or a tuple, moved to ``destination``; others stay in order."""

def mse(x: Array, target: Array, /, *, reduction: str = "mean") -> Tensor:
    """Squared error ``(x - target) ** 2`` of two arrays of the same shape; nothing is broadcast.

    reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.
    """

def multiply(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise product ``x1 * x2``."""

def nan_to_num(
    x: Array, /, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """The elements, with numbers in place of nan, inf and -inf; these elements get no gradient.

    posinf, neginf: by default the largest and the smallest finite number of the dtype.

    Integers stay as they are. Raises TypeError for complex numbers.
    """

def negative(x: Array, /) -> Tensor:
    """Elementwise ``-x``."""

def nextafter(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise next representable number after ``x1`` towards ``x2``; for real numbers.

    The gradient is that of ``x1``, from which the result differs only by a rounding error.
    """

def nll(x: Array, target: Array, /) -> Tensor:
    """``-x`` at the label: of log-probabilities, the negative log-likelihood of each label.

    x: ``(..., classes)``. target: ``(...)``, integer labels in ``[0, classes)``.

    Raises IndexError for a label that is not a class. On a GPU, where this check would have to wait
    for the device, such a label gives 0 instead.
    """

def nonzero(x: Array, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not 0, in row-major order: an array for each axis.

    Raises ValueError for a 0-d array.
    """

def not_equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 != x2``."""

def one_hot(labels: Array, /, n: int) -> Tensor:
    """Bools ``(..., n)`` for labels ``(...)``, True at the label's position along the last axis.

    Raises TypeError for labels that are not integers, and IndexError for a label outside
    ``[0, n)``. On a GPU, where this check would have to wait for the device, such a label gives
    a row without True instead.
    """

def pad(
    x: Array,
    /,
    pad_width: int | Sequence[int] | Sequence[Sequence[int]],
    mode: str = "constant",
    *,
    constant_values: float = 0.0,
) -> Tensor:
    """``x`` with elements added at the ends of its axes.

    pad_width: the number of elements at each end, an int; ``(before, after)`` for all axes; or a
        pair for each axis.
    mode: ``"constant"`` for the number ``constant_values``; ``"edge"`` to repeat the last element;
        ``"reflect"`` or ``"symmetric"`` to go back, without or with repeating the last
        element; ``"wrap"`` to begin again at the other end.

    This is NumPy's function; that of PyTorch is ``nn.functional.pad``. Raises ValueError for
    another mode, for widths that do not fit, and for an axis without elements to repeat.
    """

def permute_dims(x: Array, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""

def positive(x: Array, /) -> Tensor:
    """Elementwise ``+x``: a copy."""

def pow(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise power ``x1 ** x2``.

    As in PyTorch, the gradient to the base is 0 where the exponent is 0. The gradient to the
    exponent is 0 where the base is 0 and the exponent's real part is at least 0; for real
    numbers it is nan where the base is negative.
    """

def prod(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """Product of the elements, accumulated and returned in ``dtype`` if given; 1 if there are none.

    Derivatives of every order are right even where elements are 0, since no rule divides.
    """

def quantile(
    x: Array,
    q: Array | float | Sequence[float],
    /,
    axis: int | None = None,
    *,
    keepdims: bool = False,
    method: str = "linear",
) -> Tensor:
    """Quantiles of the elements along ``axis``, by default of all; that of 0.5 is the median.

    q: a number from 0 to 1, or several: a sequence of numbers, or an array ``(n,)``, along the
        first axis of the result.
    method: what to do between two elements. ``"linear"`` interpolates, as do ``"hazen"``,
        ``"interpolated_inverted_cdf"``, ``"median_unbiased"``, ``"normal_unbiased"`` and
        ``"weibull"``, which place the elements differently, as in NumPy; ``"lower"``, ``"higher"``,
        ``"nearest"`` and ``"midpoint"`` choose one of the two, or the middle.

    The gradient goes to the elements that the result is made of, and to ``q`` if it interpolates.
    Where there is a nan, the result is nan. Integers become float32. Raises ValueError for numbers
    that are not from 0 to 1, for which the result of an array ``q`` is nan, and where there are no
    elements.
    """

def real(x: Array, /) -> Tensor:
    """Elementwise real part; a real array is returned unchanged."""

def reciprocal(x: Array, /) -> Tensor:
    """Elementwise ``1 / x``; infinite at 0, as is its gradient."""

def relu(x: Array, /) -> Tensor:
    """``max(x, 0)`` elementwise; the gradient at 0 is 0."""

def remainder(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 % x2``: the remainder of `floor_divide`, with the sign of ``x2``."""

def repeat(x: Array, repeats: Array | int, /, axis: int | None = None) -> Tensor:
    """Each element ``repeats`` times in a row along ``axis``; None flattens the array first.

    repeats: an int, or an array of integers (n,), one for each position along the axis.
    """

def reshape(x: Array, /, shape: Shape, *, copy: bool | None = None) -> Tensor:
    """The elements, in row-major order, with another ``shape``; one length of -1 is inferred."""

def rms_norm(
    x: Array, weight: Array | None = None, /, *, ndim: int = 1, eps: float | None = None
) -> Tensor:
    """``x / sqrt(mean(x**2) + eps) * weight``, with the mean over the last ``ndim`` axes.

    x: ``(..., *shape)``, real, where ``shape`` has ``ndim`` axes.
    weight: ``shape``; by default 1.
    eps: by default the distance from 1 to the next number of x's dtype.

    For float16, intermediate values are computed in float32.
    (Zhang and Sennrich 2019, "Root mean square layer normalization")
    """

def rnn(
    x: Array,
    weight_ih: Array,
    weight_hh: Array,
    bias_ih: Array | None = None,
    bias_hh: Array | None = None,
    h0: Array | None = None,
    /,
    *,
    nonlinearity: str = "tanh",
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """A recurrent layer in one direction: ``h = tanh(W_ih x + b_ih + W_hh h + b_hh)`` at each time.

    x: ``(length, batch, in)``, with a length of at least 1.
    weight_ih, weight_hh: ``(h, in)`` and ``(h, h)``.
    bias_ih, bias_hh: ``(h,)``; by default 0.
    h0: ``(batch, h)``, the state before the first step; by default 0.
    nonlinearity: ``"tanh"`` or ``"relu"``.
    reverse: whether to go from the last time to the first.

    Returns ``(out, h_n)``: the states after all steps, ``(length, batch, h)``, and that after the
    last step, ``(batch, h)``. For float16, intermediate values are computed in float32.
    (Elman 1990, "Finding structure in time")
    """

def roll(
    x: Array, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """The elements shifted by ``shift`` places towards larger indices; the last ones wrap around.

    For a tuple of axes, ``shift`` is a tuple, or an int that applies to all of them. Without
    axes, the elements are shifted in row-major order. Several shifts along one axis add up.
    """

def round(x: Array, /) -> Tensor:
    """Elementwise nearest integer, in the dtype of ``x``; a tie goes to the even one.

    For complex numbers, the real and the imaginary part are each rounded.
    """

def scatter_add(values: Array, /, shape: Shape, key: Any) -> Tensor:
    """Zeros of ``shape`` with ``values`` added at ``key``; values at a repeated index add up.

    key: an index as in ``x[key]``, whose arrays may be tensors.
    """

def searchsorted(
    x1: Array | complex,
    x2: Array | complex,
    sorter: Array | complex | None = None,
    *,
    side: str = "left",
) -> Tensor:
    """Positions at which inserting the elements of ``x2`` into ``x1`` would keep it sorted.

    x1: an array (n,), ascending.
    x2: an array (...), or a number.
    sorter: integers (n,) that put ``x1`` in ascending order, if it is not sorted.
    side: ``"left"`` for the position before equal elements, ``"right"`` for that after them.

    Returns integers from 0 to n, with the shape of ``x2``.
    """

def sigmoid(x: Array, /) -> Tensor:
    """``1 / (1 + exp(-x))`` elementwise, ``(...) -> (...)``, without overflow."""

def sign(x: Array, /) -> Tensor:
    """Elementwise sign: -1, 0 or 1 for real numbers, and ``x / abs(x)`` for complex numbers.

    The gradient is 0 for real numbers and at a complex 0.
    """

def signbit(x: Array, /) -> Tensor:
    """Elementwise test for the sign bit, which is also set in -0.0; for real numbers."""

def silu(x: Array, /) -> Tensor:
    """``x * sigmoid(x)``, also called swish."""

def sin(x: Array, /) -> Tensor:
    """Elementwise sine."""

def sinh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic sine."""

def sliding_windows(
    x: Array,
    /,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
) -> Tensor:
    """The elements of all windows: ``(..., *lengths) -> (..., *size, *counts)``.

    size: the lengths of a window, a tuple. ``counts`` are the numbers of windows,
        ``(length + padding - dilation * (size - 1) - 1) // stride + 1`` with both sides' padding.
    stride, dilation: the distance between windows, and between the elements of a window.
    padding: how many zeros there are beyond both ends of an axis; ints, or pairs of ints.

    Raises ValueError if a window is longer than the padded array.
    """

def softmax(x: Array, /, axis: int | tuple[int, ...] = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""

def softplus(x: Array, /, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta * x)) / beta`` elementwise, ``(...) -> (...)``, without overflow.

    Where ``beta * x`` is above ``threshold`` the result is ``x``, and the slope 1.
    """

def softshrink(x: Array, /, lambd: float = 0.5) -> Tensor:
    """``x`` moved towards 0 by ``lambd``, or 0 where its magnitude is less; slope 0 at ``lambd``.

    Raises ValueError if ``lambd`` is negative.
    """

def softsign(x: Array, /) -> Tensor:
    """``x / (1 + abs(x))`` elementwise, ``(...) -> (...)``."""

def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """``x`` sorted along ``axis``.

    Each element of the result passes its gradient to the element of ``x`` that it came from. If
    ``stable``, equal elements keep their order, even if ``descending``. PyTorch's also returns
    the indices, as `argsort` does. NumPy's method sorts in place, but ``x.sort()`` here does not.
    """

def split(
    x: Array, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> tuple[Tensor, ...]:
    """Pieces of ``x`` along ``axis``, as a tuple.

    indices_or_sections: the number of pieces, all of the same length; or the ascending positions
        at which to split, so that ``(2, 5)`` gives ``x[:2]``, ``x[2:5]`` and ``x[5:]``.

    This is NumPy's function. PyTorch's of this name takes lengths: its ``split(x, 3)``, pieces of
    length 3, is ``split(x, range(3, n, 3))``. See also `chunk`. Raises ValueError if the pieces
    would not have the same length, or overlap.
    """

def sqrt(x: Array, /) -> Tensor:
    """Elementwise square root; its gradient at 0 is infinite."""

def square(x: Array, /) -> Tensor:
    """Elementwise square ``x * x``."""

def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Tensor:
    """``x`` without the given axis or axes, which must have length 1."""

def stack(arrays: Iterable[Array | complex], /, *, axis: int = 0) -> Tensor:
    """The arrays of a sequence, all of the same shape, joined along a new axis."""

def std(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Standard deviation of the elements: the square root of `var`.

    At 0 the gradient is 0, as in PyTorch. Of equal elements whose mean is rounded the result is not
    quite 0, and the gradient is a quotient of rounding errors.
    """

def subtract(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise difference ``x1 - x2``."""

def sum(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """Sum of the elements, accumulated and returned in ``dtype`` if given; 0 if there are none."""

def sum_windows(
    x: Array,
    /,
    *,
    size: tuple[int, ...],
    stride: int | tuple[int, ...] = 1,
    padding: int | tuple[int, ...] | tuple[tuple[int, int], ...] = 0,
    dilation: int | tuple[int, ...] = 1,
    scale: float = 1.0,
) -> Tensor:
    """The sum of each window, times ``scale``: ``(..., *lengths) -> (..., *counts)``.

    The other parameters are those of `sliding_windows`. float16 is summed in float32.
    """

def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Tensor:
    """The slices at ``indices`` (n,) along ``axis``, which may be omitted for a 1-d ``x``.

    Gradients of a slice that is selected repeatedly add up.
    """

def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Tensor:
    """The elements at ``indices`` along ``axis``; the other axes of both inputs broadcast.

    Gradients of an element that is selected repeatedly add up.
    """

def tan(x: Array, /) -> Tensor:
    """Elementwise tangent."""

def tanh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic tangent."""

def tanhshrink(x: Array, /) -> Tensor:
    """``x - tanh(x)`` elementwise, ``(...) -> (...)``."""

def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """Sums of products over ``axes``; the result has the other axes of x1, then those of x2.

    axes: an int, to pair that many last axes of x1 with as many first axes of x2; or a pair of
        sequences, axes of x1 and the matching axes of x2.
    """

def threshold(x: Array, /, threshold: float, value: float) -> Tensor:
    """``x`` where it is above ``threshold``, else ``value``; the slope at the threshold is 0."""

def tile(x: Array, /, repetitions: int | Sequence[int]) -> Tensor:
    """The whole array repeated ``repetitions[i]`` times along axis i; the shorter of ``x.shape``
    and ``repetitions`` is extended by ones in front.
    """

def to_device(x: Array, /, device: str) -> Tensor:
    """The values on another device, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""

class _TopkResult(NamedTuple):
    values: Tensor
    indices: Tensor

def topk(x: Array, /, k: int, *, axis: int = -1, largest: bool = True) -> _TopkResult:
    """The ``k`` largest elements along ``axis``, in descending order, and where they are.

    largest: if False, the smallest elements, in ascending order.

    Returns a named tuple ``(values, indices)``. Equal elements keep their order. Raises ValueError
    if there are fewer elements.
    """

def tril(x: Array, /, *, k: int = 0) -> Tensor:
    """Matrices (..., m, n) with zeros above the diagonal ``k`` places above the main diagonal."""

def triu(x: Array, /, *, k: int = 0) -> Tensor:
    """Matrices (..., m, n) with zeros below the diagonal ``k`` places above the main diagonal."""

def trunc(x: Array, /) -> Tensor:
    """Elementwise ``x`` rounded towards 0, in the dtype of ``x``."""

class _UniqueAllResult(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor

def unique_all(x: Array, /) -> _UniqueAllResult:
    """The distinct elements, ascending, with their positions and counts.

    Returns a named tuple: ``values`` (n,); ``indices`` (n,) of their first occurrences in the
    flattened ``x``, which receive the gradients; ``inverse_indices``, of the shape of ``x``,
    such that ``values[inverse_indices]`` is ``x``; and ``counts`` (n,). Every nan is distinct.
    """

class _UniqueCountsResult(NamedTuple):
    values: Tensor
    counts: Tensor

def unique_counts(x: Array, /) -> _UniqueCountsResult:
    """The distinct elements and how often each occurs: a named tuple ``(values, counts)``.

    See `unique_all`.
    """

class _UniqueInverseResult(NamedTuple):
    values: Tensor
    inverse_indices: Tensor

def unique_inverse(x: Array, /) -> _UniqueInverseResult:
    """The distinct elements and where they are: a named tuple ``(values, inverse_indices)``.

    See `unique_all`.
    """

def unique_values(x: Array, /) -> Tensor:
    """The distinct elements, (n,), ascending; every nan is distinct. See `unique_all`."""

def unstack(x: Array, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis, as a tuple of arrays."""

def var(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Variance of the elements: the sum of squared deviations over ``count - correction``.

    If this divisor is not positive it counts as 0, as in PyTorch: a single element with
    ``correction=1`` gives nan.
    """

def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Tensor:
    """Inner products of vectors along ``axis``: the sum of ``conj(x1) * x2``.

    The other axes broadcast. ``axis`` must be negative if the numbers of axes differ.
    """

def where(condition: Array | complex, x1: Array | complex, x2: Array | complex) -> Tensor:
    """Elementwise ``x1`` where ``condition`` holds, else ``x2``.

    Raises TypeError unless ``condition`` is bool, and ValueError for an int beside integers whose
    dtype cannot hold it. If both are Python scalars, the result has the default dtype for their
    kind.
    """
