# Written by tests/write_stubs.py.

from collections.abc import Iterator, Sequence
from typing import Any, Self, SupportsIndex

from ._tensor import Tensor as Tensor
from ._typing import Array

class TensorMethods:
    def __add__(self, other: Array | complex, /) -> Tensor: ...
    def __radd__(self, other: Array | complex, /) -> Tensor: ...
    def __iadd__(self, other: Array | complex, /) -> Self: ...
    def __sub__(self, other: Array | complex, /) -> Tensor: ...
    def __rsub__(self, other: Array | complex, /) -> Tensor: ...
    def __isub__(self, other: Array | complex, /) -> Self: ...
    def __mul__(self, other: Array | complex, /) -> Tensor: ...
    def __rmul__(self, other: Array | complex, /) -> Tensor: ...
    def __imul__(self, other: Array | complex, /) -> Self: ...
    def __truediv__(self, other: Array | complex, /) -> Tensor: ...
    def __rtruediv__(self, other: Array | complex, /) -> Tensor: ...
    def __itruediv__(self, other: Array | complex, /) -> Self: ...
    def __floordiv__(self, other: Array | complex, /) -> Tensor: ...
    def __rfloordiv__(self, other: Array | complex, /) -> Tensor: ...
    def __ifloordiv__(self, other: Array | complex, /) -> Self: ...
    def __mod__(self, other: Array | complex, /) -> Tensor: ...
    def __rmod__(self, other: Array | complex, /) -> Tensor: ...
    def __imod__(self, other: Array | complex, /) -> Self: ...
    def __pow__(self, other: Array | complex, /) -> Tensor: ...
    def __rpow__(self, other: Array | complex, /) -> Tensor: ...
    def __ipow__(self, other: Array | complex, /) -> Self: ...
    def __matmul__(self, other: Array | complex, /) -> Tensor: ...
    def __rmatmul__(self, other: Array | complex, /) -> Tensor: ...
    def __imatmul__(self, other: Array | complex, /) -> Self: ...
    def __and__(self, other: Array | complex, /) -> Tensor: ...
    def __rand__(self, other: Array | complex, /) -> Tensor: ...
    def __iand__(self, other: Array | complex, /) -> Self: ...
    def __or__(self, other: Array | complex, /) -> Tensor: ...
    def __ror__(self, other: Array | complex, /) -> Tensor: ...
    def __ior__(self, other: Array | complex, /) -> Self: ...
    def __xor__(self, other: Array | complex, /) -> Tensor: ...
    def __rxor__(self, other: Array | complex, /) -> Tensor: ...
    def __ixor__(self, other: Array | complex, /) -> Self: ...
    def __lshift__(self, other: Array | complex, /) -> Tensor: ...
    def __rlshift__(self, other: Array | complex, /) -> Tensor: ...
    def __ilshift__(self, other: Array | complex, /) -> Self: ...
    def __rshift__(self, other: Array | complex, /) -> Tensor: ...
    def __rrshift__(self, other: Array | complex, /) -> Tensor: ...
    def __irshift__(self, other: Array | complex, /) -> Self: ...
    def __lt__(self, other: Array | complex, /) -> Tensor: ...
    def __le__(self, other: Array | complex, /) -> Tensor: ...
    def __gt__(self, other: Array | complex, /) -> Tensor: ...
    def __ge__(self, other: Array | complex, /) -> Tensor: ...
    def __eq__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: object, /) -> Tensor: ...  # type: ignore[override]
    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kw: Any) -> Any: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kw: Any) -> Any: ...
    def __neg__(self, /) -> Tensor:
        """Elementwise ``-x``."""
    def __pos__(self, /) -> Tensor:
        """Elementwise ``+x``: a copy."""
    def __abs__(self, /) -> Tensor:
        """Elementwise absolute value, which is real for complex numbers too; the gradient at 0 is 0."""
    def __invert__(self, /) -> Tensor:
        """Elementwise ``~x`` of integers or bools."""
    def abs(self, /) -> Tensor:
        """Elementwise absolute value, which is real for complex numbers too; the gradient at 0 is 0."""
    def all(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Whether all elements are true."""
    def any(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Whether any element is true."""
    def argmax(self, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first maximum along ``axis``; None means an index into the flattened array."""
    def argmin(self, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first minimum along ``axis``; None means an index into the flattened array."""
    def argsort(
        self, /, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Tensor:
        """Indices that sort ``x`` along ``axis``.

        If ``stable``, equal elements keep their order, even if ``descending``.
        """
    def astype(self, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Tensor:
        """The values in another dtype, and on another device if one is given.

        The gradient is cast back; an integer result carries none. Casting complex numbers to real
        ones raises TypeError, except to bool: use ``real``, ``imag`` or ``abs``.

        copy: False to return ``x`` itself if it already has that dtype and device.
        """
    def clip(
        self, /, min: Array | complex | None = None, max: Array | complex | None = None
    ) -> Tensor:
        """Elementwise ``x`` limited to ``[min, max]``; either bound may be None.

        Where the lower bound is above the upper one, the result is the upper one. At a bound the
        gradient goes to ``x``. Outside, it goes to the bound if that is a Tensor that requires
        grad; below two equal bounds, neither gets a gradient. All this is as in PyTorch.
        """
    def conj(self, /) -> Tensor:
        """Elementwise complex conjugate; a real array is returned unchanged."""
    def cos(self, /) -> Tensor:
        """Elementwise cosine."""
    def exp(self, /) -> Tensor:
        """Elementwise exponential."""
    def log(self, /) -> Tensor:
        """Elementwise natural logarithm; -inf at 0, nan below."""
    def log_softmax(self, /, axis: int | tuple[int, ...] = -1) -> Tensor:
        """``log(softmax(x))`` along ``axis``, without overflow."""
    def logsumexp(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """``log(sum(exp(x)))`` without overflow. Raises if there are no elements.

        The gradient is ``softmax(x)``. Where the result is inf, each element that is inf gets the
        whole gradient; where it is -inf, no element gets any.
        """
    def matmul(self, x2: Array, /) -> Tensor:
        """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

        Leading axes broadcast. A 1-D ``x1`` counts as a row and a 1-D ``x2`` as a column, and the
        added axis is dropped from the result.
        """
    def max(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Maximum of the elements; a tie shares its gradient evenly. Raises if there are none.

        Where it is nan, so is the gradient.
        """
    def mean(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Mean of the elements, in a floating dtype; nan if there are none."""
    def min(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Minimum of the elements; a tie shares its gradient evenly. Raises if there are none.

        Where it is nan, so is the gradient.
        """
    def permute_dims(self, /, axes: Sequence[int]) -> Tensor:
        """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    def pow(self, x2: Array | complex, /) -> Tensor:
        """Elementwise power ``x1 ** x2``.

        As in PyTorch, the gradient to the base is 0 where the exponent is 0. The gradient to the
        exponent is 0 where the base is 0 and the exponent's real part is at least 0; for real
        numbers it is nan where the base is negative.
        """
    def prod(
        self,
        /,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Product of the elements, accumulated and returned in ``dtype`` if given; 1 if there are none.

        Derivatives of every order are right even where elements are 0, since no rule divides.
        """
    def relu(self, /) -> Tensor:
        """``max(x, 0)`` elementwise; the gradient at 0 is 0."""
    def round(self, /) -> Tensor:
        """Elementwise nearest integer, in the dtype of ``x``; a tie goes to the even one.

        For complex numbers, the real and the imaginary part are each rounded.
        """
    def sigmoid(self, /) -> Tensor:
        """``1 / (1 + exp(-x))`` elementwise, ``(...) -> (...)``, without overflow."""
    def sign(self, /) -> Tensor:
        """Elementwise sign: -1, 0 or 1 for real numbers, and ``x / abs(x)`` for complex numbers.

        The gradient is 0 for real numbers and at a complex 0.
        """
    def sin(self, /) -> Tensor:
        """Elementwise sine."""
    def softmax(self, /, axis: int | tuple[int, ...] = -1) -> Tensor:
        """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""
    def sort(self, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
        """``x`` sorted along ``axis``.

        Each element of the result passes its gradient to the element of ``x`` that it came from. If
        ``stable``, equal elements keep their order, even if ``descending``. PyTorch's also returns
        the indices, as `argsort` does. NumPy's method sorts in place, but ``x.sort()`` here does not.
        """
    def sqrt(self, /) -> Tensor:
        """Elementwise square root; its gradient at 0 is infinite."""
    def square(self, /) -> Tensor:
        """Elementwise square ``x * x``."""
    def std(
        self,
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
    def sum(
        self,
        /,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Sum of the elements, accumulated and returned in ``dtype`` if given; 0 if there are none."""
    def tanh(self, /) -> Tensor:
        """Elementwise hyperbolic tangent."""
    def var(
        self,
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
    def __getitem__(self, key: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __round__(self, ndigits: int | None = None) -> Tensor:
        """Round each element to the nearest integer, halves to even."""
    def copy(self) -> Tensor:
        """The same values in new memory; differentiable."""
    def cpu(self) -> Tensor:
        """The tensor on the CPU."""
    def cuda(self, index: int | None = None, non_blocking: bool = False) -> Tensor:
        """The tensor on a CUDA device, by default the current one; `to` explains ``non_blocking``."""
    def cumprod(self, axis: int | None = None) -> Tensor:
        """The products of the elements up to each one along ``axis``; None flattens the array first."""
    def cumsum(self, axis: int | None = None) -> Tensor:
        """The sums of the elements up to each one along ``axis``; None flattens the array first."""
    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The elements whose indices along two axes differ by ``offset``, along a new last axis."""
    def dot(self, other: Any) -> Tensor:
        """The product of vectors or matrices, ``x @ other``."""
    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Tensor:
        """The axes from ``start_dim`` to ``end_dim``, both included, merged into one; by default all.

        Raises ValueError unless they are axes in this order.
        """
    def nonzero(self) -> tuple[Tensor, ...]:
        """Indices of the elements that are not 0, a tensor for each axis; PyTorch's is `argwhere`."""
    def ravel(self) -> Tensor:
        """The elements in row-major order, along one axis."""
    def repeat(self, repeats: Any, *, axis: int | None = None) -> Tensor:
        """Each element ``repeats`` times in a row along ``axis``; None flattens the array first.

        repeats: an int, or an array of integers (n,). PyTorch's method is `tile`.
        """
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    def squeeze(self, axis: int | tuple[int, ...] | None = None) -> Tensor:
        """The tensor without these axes, which must have length 1; by default without all such."""
    def swapaxes(self, axis1: int, axis2: int) -> Tensor:
        """The tensor with two axes swapped."""
    def take(self, indices: Any, axis: int | None = None) -> Tensor:
        """The slices at ``indices`` of any shape along ``axis``; None flattens the array first."""
    def to(
        self, *args: Any, device: str | None = None, dtype: Any = None, non_blocking: bool = False
    ) -> Tensor:
        """The tensor on another device, in another dtype, or both: ``x.to("cuda")``,
        ``x.to(gpugrad.float64)``; or with the device and the dtype of another tensor, ``x.to(y)``.

        non_blocking: accepted as PyTorch does, and ignored.

        It is differentiable, and returns the tensor itself if there is nothing to change.
        """
    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The tensor on another device, as the array API standard has it; `to` takes a dtype too."""
    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
        """The sums of the `diagonal`."""
    def transpose(self, *axes: int | tuple[int, ...]) -> Tensor:
        """The tensor with its axes in reverse order, or in the order ``axes``, as in NumPy.

        PyTorch's method, which swaps two axes, is `swapaxes`; ``x.mT`` transposes matrices.
        Raises ValueError for ``x.transpose(0, 1)`` of a matrix, where NumPy and PyTorch differ.
        """
    @property
    def T(self) -> Tensor:
        """The two axes of a matrix swapped."""
    @property
    def mT(self) -> Tensor:
        """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""
    @property
    def real(self) -> Tensor:
        """Elementwise real part; a real array is returned unchanged."""
    @property
    def imag(self) -> Tensor:
        """Elementwise imaginary part; zeros for a real array, if the array library supports it."""
