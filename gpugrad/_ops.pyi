# Written by tests/write_stubs.py.

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ._typing import Array
from .backends import Shape
from .tensor import Tensor as Tensor

def abs(x: Array, /) -> Tensor:
    """Elementwise absolute value, real also of complex numbers; the gradient at 0 is 0."""

def acos(x: Array, /) -> Tensor:
    """Elementwise arccosine; the gradient at -1 and 1 is infinite, and nan beyond."""

def acosh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic cosine; the gradient at 1 is infinite, and nan below."""

def add(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise sum ``x1 + x2``."""

def add_along_axis(values: Array, indices: Array, /, shape: Shape, axis: int) -> Tensor:
    """Zeros of ``shape`` with ``values`` added at ``indices`` along an axis; repeated ones add up.

    ``indices`` and, but for that axis, ``shape`` broadcast to the shape of ``values``.
    """

def all(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether all elements are true."""

def any(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Whether any element is true."""

def argmax(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first maximum, into the flattened array where ``axis`` is None."""

def argmin(x: Array, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """Index of the first minimum, into the flattened array where ``axis`` is None."""

def argsort(
    x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True
) -> Tensor:
    """Indices that put ``x`` in order along ``axis``.

    If ``stable``, equal elements stay in the order they are in, ``descending`` or not.
    """

def asin(x: Array, /) -> Tensor:
    """Elementwise arcsine; the gradient at -1 and 1 is infinite, and nan beyond."""

def asinh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic sine."""

def astype(x: Array, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Tensor:
    """The values in another dtype, and on another device if one is named.

    The gradient is cast back; to integers there is none. Of complex numbers only ``real``,
    ``imag`` or ``abs`` make real ones: casting them raises TypeError, except to bool.

    copy: False to get ``x`` itself where it is of that dtype and there already.
    """

def atan(x: Array, /) -> Tensor:
    """Elementwise arctangent."""

def atan2(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise angle of the point with ordinate ``x1`` and abscissa ``x2``; real numbers.

    In [-pi, pi]. The gradients where both are 0 are 0.
    """

def atanh(x: Array, /) -> Tensor:
    """Elementwise inverse hyperbolic tangent; infinite at -1 and 1, as is its gradient."""

def batch_norm(
    x: Array, weight: Array | None = None, bias: Array | None = None, /, *, eps: float = 1e-05
) -> tuple[Tensor, Tensor, Tensor]:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, mean and variance of each channel.

    x: ``(n, channels, ...)``, real.
    weight, bias: ``(channels,)``; by default 1 and 0.

    Returns ``(out, mean, var)``: the statistics, ``(channels,)``, are of all axes but the second,
    and the variance is divided by the number of elements; of none they are 0. All three are
    differentiable. In float16 what is between input and results is computed in float32.
    (Ioffe and Szegedy 2015, "Batch normalization: accelerating deep network training by
    reducing internal covariate shift")
    """

def bitwise_and(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 & x2`` of integers or bools."""

def bitwise_invert(x: Array, /) -> Tensor:
    """Elementwise ``~x`` of integers or bools."""

def bitwise_left_shift(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 << x2`` of integers; ``x2`` is at least 0."""

def bitwise_or(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 | x2`` of integers or bools."""

def bitwise_right_shift(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 >> x2`` of integers, which keeps the sign; ``x2`` is at least 0."""

def bitwise_xor(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 ^ x2`` of integers or bools."""

def broadcast_arrays(*arrays: Array) -> tuple[Tensor, ...]:
    """The arrays, each broadcast to the shape of all of them together."""

def broadcast_to(x: Array, /, shape: Shape) -> Tensor:
    """``x`` repeated along new leading axes and along axes of length 1."""

def ceil(x: Array, /) -> Tensor:
    """Elementwise the least integer that is at least ``x``, in the dtype of ``x``."""

def clip(
    x: Array | complex, min: Array | complex | None = None, max: Array | complex | None = None
) -> Tensor:
    """Elementwise ``x`` kept within ``[min, max]``; either bound may be None.

    Where the lower bound is above the upper one the result is the upper one. At a
    bound the gradient goes to ``x``; outside it goes to the bound, if that is a
    Tensor that wants one, but below two equal bounds to neither (all as in PyTorch).
    """

def concat(arrays: Iterable[Array | complex], /, *, axis: int = 0) -> Tensor:
    """The arrays of a sequence joined along an existing axis; flattened first if it is None."""

def conj(x: Array, /) -> Tensor:
    """Elementwise complex conjugate; a real array as it is."""

def copysign(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``abs(x1)`` with the sign of ``x2``, that of a zero included; real numbers.

    The gradient to ``x1`` where it is 0 is 0; that to ``x2`` is 0 everywhere.
    """

def cos(x: Array, /) -> Tensor:
    """Elementwise cosine."""

def cosh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic cosine."""

def count_nonzero(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """How many elements are not 0."""

def cross_entropy(logits: Array, target: Array, /, *, reduction: str = "mean") -> Tensor:
    """Negative log-likelihood of class labels under ``softmax(logits)``.

    logits: ``(n, classes)`` or ``(classes,)``, floating.
    target: ``(n,)`` or ``()``, integer labels in ``[0, classes)``.
    reduction: ``"mean"`` or ``"sum"`` over the n losses, or ``"none"``.
    """

def cumulative_prod(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Products of the elements up to each one along ``axis``, which only one axis may leave out.

    dtype: the accumulator's and result's; of small integers by default int64 or uint64.
    include_initial: begin with 1, so that the axis is longer by 1.

    The gradient is right to every order where elements are 0: nothing is divided.
    """

def cumulative_sum(
    x: Array, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """Sums of the elements up to each one along ``axis``, which only one axis may leave out.

    dtype: the accumulator's and result's; of small integers by default int64 or uint64.
    include_initial: begin with 0, so that the axis is longer by 1.
    """

def dense(x: Array, weight: Array, bias: Array | None = None, /, *, activation: str) -> Tensor:
    """A layer ``activation(linear(x, weight, bias))``, of which only the result is kept.

    x, weight, bias: as of `linear`.
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
    """Differences of neighbours along ``axis``: ``x[1:] - x[:-1]``, ``n`` times over.

    prepend, append: arrays to join to ``x`` along ``axis`` first.
    """

def divide(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise quotient ``x1 / x2``; division by zero gives inf or nan."""

def dropout(x: Array, /, *, p: float, key: tuple[int, int]) -> Tensor:
    """``x / (1 - p)``, or 0 where ``dropout_mask(x, shape=x.shape, p=p, key=key)`` is False.

    `gpugrad.nn.functional.dropout` takes a new key each time.
    """

def dropout_mask(x: Array, /, *, shape: Shape, p: float, key: tuple[int, int]) -> Tensor:
    """Bools of ``shape``, each False with probability ``p``, on the device of the array ``x``.

    key: two ints of 64 bits, such as `gpugrad.random.Generator.key` gives. The same key gives
        the same bools on every device, and inside `vmap` to each example.

    They are made of random bits of Philox4x64-10 (Salmon et al. 2011). Raises ValueError unless
    ``p`` is from 0 to 1.
    """

def einsum(subscripts: str, /, *operands: Array) -> Tensor:
    """Sums of products of the operands' elements, as `numpy.einsum` takes them.

    Each operand has a term of a letter per axis, such as in ``"ij,jk->ik"``, the matrix
    product. A letter twice in a term takes the diagonal. What is not in the result's term is
    summed; without ``->`` the result has the letters that occur once, in alphabetical
    order. ``...`` stands for any axes, which broadcast, as those of length 1 do.

    More than two operands are multiplied in pairs, in an order that `opt_einsum` finds if it
    is installed. Nothing is conjugated.

    >>> import gpugrad
    >>> a = gpugrad.asarray([[1.0, 2.0], [3.0, 4.0]])
    >>> gpugrad.einsum("ij,kj->ik", a, a).tolist()
    [[5.0, 11.0], [11.0, 25.0]]
    """

def equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 == x2``."""

def exp(x: Array, /) -> Tensor:
    """Elementwise exponential."""

def expand_dims(x: Array, /, axis: int | tuple[int, ...]) -> Tensor:
    """With an axis of length 1 at position ``axis`` of the result, or at each one of a tuple."""

def expm1(x: Array, /) -> Tensor:
    """Elementwise ``exp(x) - 1``, precise near 0."""

def flip(x: Array, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """In reverse order along an axis, several (a tuple), or all (None)."""

def floor(x: Array, /) -> Tensor:
    """Elementwise the greatest integer that is at most ``x``, in the dtype of ``x``."""

def floor_divide(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise quotient rounded down, ``x1 // x2``. Its gradients are 0 everywhere."""

def getitem(x: Array, /, key: Any) -> Tensor:
    """``x[key]``. Where an index is repeated its gradients add up."""

def greater(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 > x2``."""

def greater_equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 >= x2``."""

def hypot(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``sqrt(x1**2 + x2**2)`` of real numbers, without overflow.

    The gradient where both are 0 is 0, as that of `abs` is.
    """

def imag(x: Array, /) -> Tensor:
    """Elementwise imaginary part; zeros of a real array, if its library has those."""

def isfinite(x: Array, /) -> Tensor:
    """Elementwise test for neither infinite nor nan."""

def isin(x1: Array | complex, x2: Array | complex, *, invert: bool = False) -> Tensor:
    """Whether each element of ``x1`` is equal to one of ``x2``, or to none if ``invert``."""

def isinf(x: Array, /) -> Tensor:
    """Elementwise test for infinity of either sign, of complex numbers in either part."""

def isnan(x: Array, /) -> Tensor:
    """Elementwise test for nan, of complex numbers in either part."""

def last_written(x: Array, /, key: Any) -> Tensor:
    """Of the shape of ``x[key]``: whether that place's value stays when ``x[key]`` is assigned."""

def layer_norm(
    x: Array,
    weight: Array | None = None,
    bias: Array | None = None,
    /,
    *,
    ndim: int = 1,
    eps: float = 1e-05,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, mean and variance of the last axes.

    x: ``(..., *shape)``, real.
    weight, bias: ``shape``, the last ``ndim`` axes of ``x``; by default 1 and 0.

    The variance is that of all elements, divided by their number. In float16 what is
    between input and result is computed in float32.
    (Ba, Kiros and Hinton 2016, "Layer normalization")
    """

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

    Where an input is infinite it gets, as in `logsumexp`, the whole gradient if it
    is inf and none if it is -inf.
    """

def logical_and(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise and of bools."""

def logical_not(x: Array, /) -> Tensor:
    """Elementwise not of bools."""

def logical_or(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise or of bools."""

def logical_xor(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise exclusive or of bools."""

def logsumexp(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """``log(sum(exp(x)))`` without overflow. Of no elements it raises.

    The gradient is ``softmax(x)``. Where the result is infinite, an element equal
    to it gets the whole gradient if it is inf, and none if it is -inf.
    """

def matmul(x1: Array, x2: Array, /) -> Tensor:
    """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

    Leading axes broadcast. A 1-D first operand is a row, a 1-D second one a
    column, and that axis is missing from the result.
    """

def matrix_transpose(x: Array, /) -> Tensor:
    """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""

def max(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Maximum of the elements; a tie shares its gradient evenly. Of none it raises."""

def maximum(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise maximum; a tie shares its gradient evenly."""

def mean(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Mean of the elements, floating; of none it is nan."""

def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Tensor, ...]:
    """Coordinates of a grid from those along its axes: for each array one of the grid's shape.

    indexing: with ``"ij"`` array i runs along axis i, with ``"xy"`` the first two are swapped.
    """

def min(
    x: Array, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
) -> Tensor:
    """Minimum of the elements; a tie shares its gradient evenly. Of none it raises."""

def minimum(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise minimum; a tie shares its gradient evenly."""

def moveaxis(
    x: Array, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]
) -> Tensor:
    """The axes at ``source``, an int or a tuple, moved to ``destination``; the others in order."""

def mse(x: Array, target: Array, /, *, reduction: str = "mean") -> Tensor:
    """Squared error ``(x - target) ** 2`` of two arrays of one shape; nothing is broadcast.

    reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.
    """

def multiply(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise product ``x1 * x2``."""

def negative(x: Array, /) -> Tensor:
    """Elementwise ``-x``."""

def nextafter(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise the next number of the dtype after ``x1`` towards ``x2``; real numbers.

    The gradient is that of ``x1``, from which the result differs by a rounding.
    """

def nonzero(x: Array, /) -> tuple[Tensor, ...]:
    """Indices of the elements that are not 0, in row-major order: an array for each axis.

    Raises ValueError for a 0-d array, which has no axis.
    """

def not_equal(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 != x2``."""

def one_hot(labels: Array, /, n: int) -> Tensor:
    """Bools ``(..., n)``: whether the last axis's position is the label of ``(...)``.

    Raises TypeError for labels that are not integers, and IndexError for one outside
    ``[0, n)``, except on a GPU, where looking would wait for it; there it gives no True.
    """

def permute_dims(x: Array, /, axes: Sequence[int]) -> Tensor:
    """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""

def positive(x: Array, /) -> Tensor:
    """Elementwise ``+x``: a copy."""

def pow(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise power ``x1 ** x2``.

    As in PyTorch, the gradient to the base is 0 where the exponent is 0, that to
    the exponent is 0 where the base is 0 and the exponent's real part at least 0, and
    nan where a real result has a negative base.
    """

def prod(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    dtype: Any = None,
    keepdims: bool = False,
) -> Tensor:
    """Product of the elements; of none it is 1. ``dtype`` is the accumulator's and result's.

    The gradient is right to every order where elements are 0: nothing is divided.
    """

def real(x: Array, /) -> Tensor:
    """Elementwise real part; a real array as it is."""

def reciprocal(x: Array, /) -> Tensor:
    """Elementwise ``1 / x``; infinite at 0, as is its gradient."""

def relu(x: Array, /) -> Tensor:
    """``max(x, 0)`` elementwise; the gradient at 0 is 0."""

def remainder(x1: Array | complex, x2: Array | complex, /) -> Tensor:
    """Elementwise ``x1 % x2``: what `floor_divide` leaves, of the sign of ``x2``."""

def repeat(x: Array, repeats: Array | int, /, axis: int | None = None) -> Tensor:
    """Each element ``repeats`` times in a row along an axis; without one, of the flattened array.

    repeats: an int, or an array of integers (n,), one for each place along the axis.
    """

def reshape(x: Array, /, shape: Shape, *, copy: bool | None = None) -> Tensor:
    """The elements in row-major order in another ``shape``; one -1 in it is inferred."""

def roll(
    x: Array, /, shift: int | tuple[int, ...], axis: int | tuple[int, ...] | None = None
) -> Tensor:
    """Shifted by ``shift`` places towards larger indices, the last elements coming first.

    With a tuple of axes ``shift`` is an int for all or a tuple; without axes the elements are
    shifted in row-major order.
    """

def round(x: Array, /) -> Tensor:
    """Elementwise the nearest integer, in the dtype of ``x``; of two the even one.

    Of complex numbers the real and the imaginary part are rounded.
    """

def scatter_add(values: Array, /, shape: Shape, key: Any) -> Tensor:
    """Zeros of ``shape`` with ``values`` added at ``key``; repeated indices add up."""

def searchsorted(
    x1: Array | complex,
    x2: Array | complex,
    sorter: Array | complex | None = None,
    *,
    side: str = "left",
) -> Tensor:
    """Where in ``x1``, ascending, the elements of ``x2`` would keep it so.

    x1: an array (n,), ascending.
    x2: an array (...), or a number.
    side: ``"left"`` for the first such place, before equal elements; ``"right"`` for the last.
    sorter: integers (n,) that put ``x1`` in ascending order, if it is not.

    Returns integers of the shape of ``x2``, from 0 to n.
    """

def setitem(x: Array, value: Array | complex, /, key: Any) -> Tensor:
    """A copy of ``x``, of its dtype, with ``value`` at ``key``.

    Of a repeated index the last value stays, and alone gets a gradient. Complex values
    do not fit into real arrays.
    """

def sigmoid(x: Array, /) -> Tensor:
    """``1 / (1 + exp(-x))`` elementwise, without overflow."""

def sign(x: Array, /) -> Tensor:
    """Elementwise sign: -1, 0 or 1, of which the gradient is 0; ``x / abs(x)`` of complex numbers.

    The gradient at a complex 0 is 0.
    """

def signbit(x: Array, /) -> Tensor:
    """Elementwise test for the sign bit, which -0.0 has too; real numbers."""

def sin(x: Array, /) -> Tensor:
    """Elementwise sine."""

def sinh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic sine."""

def softmax(x: Array, /, axis: int | tuple[int, ...] = -1) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""

def sort(x: Array, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """``x`` in order along ``axis``.

    Each element of the result hands its gradient to the one of ``x`` that it was; of equal
    ones, if ``stable``, the first of them is the first in the result.
    """

def sqrt(x: Array, /) -> Tensor:
    """Elementwise square root; its gradient at 0 is infinite."""

def square(x: Array, /) -> Tensor:
    """Elementwise square ``x * x``."""

def squeeze(x: Array, /, axis: int | tuple[int, ...]) -> Tensor:
    """Without the axes named, which must have length 1."""

def stack(arrays: Iterable[Array | complex], /, *, axis: int = 0) -> Tensor:
    """The arrays of a sequence, of one shape, joined along a new axis."""

def std(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Standard deviation of the elements: the root of `var`.

    At 0, where all elements are equal, the gradient is 0, as in PyTorch.
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
    """Sum of the elements; of none it is 0. ``dtype`` is the accumulator's and result's."""

def take(x: Array, indices: Array, /, *, axis: int | None = None) -> Tensor:
    """The slices at ``indices`` (n,) along an axis, which a 1-d ``x`` need not name.

    Where an index is repeated its gradients add up.
    """

def take_along_axis(x: Array, indices: Array, /, *, axis: int = -1) -> Tensor:
    """The elements at ``indices`` along an axis; along the others ``x`` and ``indices`` broadcast.

    Where an index is repeated its gradients add up.
    """

def tan(x: Array, /) -> Tensor:
    """Elementwise tangent."""

def tanh(x: Array, /) -> Tensor:
    """Elementwise hyperbolic tangent."""

def tensordot(
    x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2
) -> Tensor:
    """The products of all elements summed over ``axes``; the axes left are x1's, then x2's.

    axes: how many, x1's last with x2's first ones; or a pair of sequences, the axes of x1
        and those of x2 that they go with.
    """

def tile(x: Array, /, repetitions: int | Sequence[int]) -> Tensor:
    """The whole array ``repetitions[i]`` times along axis i; the shorter of shape and
    repetitions has ones in front.
    """

def to_device(x: Array, /, device: str) -> Tensor:
    """The values on another device, ``"cpu"``, ``"cuda"`` or ``"cuda:N"``."""

def tril(x: Array, /, *, k: int = 0) -> Tensor:
    """Matrices (..., m, n) with zeros above diagonal ``k``, counted upwards from the main one."""

def triu(x: Array, /, *, k: int = 0) -> Tensor:
    """Matrices (..., m, n) with zeros below diagonal ``k``, counted upwards from the main one."""

def trunc(x: Array, /) -> Tensor:
    """Elementwise the integer next to ``x`` on the side of 0, in the dtype of ``x``."""

class _UniqueAllResult(NamedTuple):
    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor

def unique_all(x: Array, /) -> _UniqueAllResult:
    """The distinct elements, ascending, with all that is known of them.

    Returns a named tuple: ``values`` (n,); ``indices`` (n,) of their first occurrences in the
    flattened ``x``, which get their gradients; ``inverse_indices`` of the shape of ``x``, such
    that ``values[inverse_indices]`` is ``x``; ``counts`` (n,). Every nan is distinct.
    """

class _UniqueCountsResult(NamedTuple):
    values: Tensor
    counts: Tensor

def unique_counts(x: Array, /) -> _UniqueCountsResult:
    """The distinct elements and how often they occur, a named tuple ``(values, counts)``.

    See `unique_all`.
    """

class _UniqueInverseResult(NamedTuple):
    values: Tensor
    inverse_indices: Tensor

def unique_inverse(x: Array, /) -> _UniqueInverseResult:
    """The distinct elements and where they are, a named tuple ``(values, inverse_indices)``.

    See `unique_all`.
    """

def unique_values(x: Array, /) -> Tensor:
    """The distinct elements, (n,), ascending; every nan is one. See `unique_all`."""

def unstack(x: Array, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices along an axis as a tuple of arrays."""

def var(
    x: Array,
    /,
    axis: int | tuple[int, ...] | None = None,
    *,
    correction: float = 0.0,
    keepdims: bool = False,
) -> Tensor:
    """Variance of the elements: squared deviations over ``count - correction``.

    Where that is not positive they are divided by 0, as in PyTorch: one element with
    ``correction=1`` gives nan.
    """

def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Tensor:
    """Inner products of vectors along ``axis``: the sum of ``conj(x1) * x2``.

    Other axes broadcast; ``axis`` counts from the end.
    """

def where(condition: Array | complex, x1: Array | complex, x2: Array | complex) -> Tensor:
    """Elementwise ``x1`` where ``condition`` holds, else ``x2``.

    Raises TypeError unless ``condition`` is bool. Two Python scalars give a
    result of their kind's default dtype.
    """

def zero_discarded_nans(c: Array | complex, g: Array | complex, /) -> Tensor:
    """``c``, but 0 where it is nan and ``g`` is 0.

    What guarded rules do to a cotangent ``c`` that they computed of a cotangent ``g``:
    a zero times an infinite slope is 0.
    """
