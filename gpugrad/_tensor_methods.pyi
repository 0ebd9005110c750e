# Written by tests/write_stubs.py.

from collections.abc import Iterator, Sequence
from typing import Any, Self, SupportsIndex

from ._typing import Array
from .tensor import Tensor as Tensor

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
        """Elementwise absolute value, real also of complex numbers; the gradient at 0 is 0."""
    def __invert__(self, /) -> Tensor:
        """Elementwise ``~x`` of integers or bools."""
    def abs(self, /) -> Tensor:
        """Elementwise absolute value, real also of complex numbers; the gradient at 0 is 0."""
    def all(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Whether all elements are true."""
    def any(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Whether any element is true."""
    def argmax(self, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first maximum, into the flattened array where ``axis`` is None."""
    def argmin(self, /, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
        """Index of the first minimum, into the flattened array where ``axis`` is None."""
    def argsort(
        self, /, *, axis: int = -1, descending: bool = False, stable: bool = True
    ) -> Tensor:
        """Indices that put ``x`` in order along ``axis``.

        If ``stable``, equal elements stay in the order they are in, ``descending`` or not.
        """
    def astype(self, /, dtype: Any, *, copy: bool = True, device: str | None = None) -> Tensor:
        """The values in another dtype, and on another device if one is named.

        The gradient is cast back; to integers there is none. Of complex numbers only ``real``,
        ``imag`` or ``abs`` make real ones: casting them raises TypeError, except to bool.

        copy: False to get ``x`` itself where it is of that dtype and there already.
        """
    def clip(
        self, /, min: Array | complex | None = None, max: Array | complex | None = None
    ) -> Tensor:
        """Elementwise ``x`` kept within ``[min, max]``; either bound may be None.

        Where the lower bound is above the upper one the result is the upper one. At a
        bound the gradient goes to ``x``; outside it goes to the bound, if that is a
        Tensor that wants one, but below two equal bounds to neither (all as in PyTorch).
        """
    def conj(self, /) -> Tensor:
        """Elementwise complex conjugate; a real array as it is."""
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
        """``log(sum(exp(x)))`` without overflow. Of no elements it raises.

        The gradient is ``softmax(x)``. Where the result is infinite, an element equal
        to it gets the whole gradient if it is inf, and none if it is -inf.
        """
    def matmul(self, x2: Array, /) -> Tensor:
        """Matrix product: ``(..., m, k) @ (..., k, n) -> (..., m, n)``.

        Leading axes broadcast. A 1-D first operand is a row, a 1-D second one a
        column, and that axis is missing from the result.
        """
    def max(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Maximum of the elements; a tie shares its gradient evenly. Of none it raises."""
    def mean(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Mean of the elements, floating; of none it is nan."""
    def min(
        self, /, axis: int | tuple[int, ...] | None = None, *, keepdims: bool = False
    ) -> Tensor:
        """Minimum of the elements; a tie shares its gradient evenly. Of none it raises."""
    def permute_dims(self, /, axes: Sequence[int]) -> Tensor:
        """The axes in another order: axis i of the result is axis ``axes[i]`` of ``x``."""
    def pow(self, x2: Array | complex, /) -> Tensor:
        """Elementwise power ``x1 ** x2``.

        As in PyTorch, the gradient to the base is 0 where the exponent is 0, that to
        the exponent is 0 where the base is 0 and the exponent's real part at least 0, and
        nan where a real result has a negative base.
        """
    def prod(
        self,
        /,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Product of the elements; of none it is 1. ``dtype`` is the accumulator's and result's.

        The gradient is right to every order where elements are 0: nothing is divided.
        """
    def relu(self, /) -> Tensor:
        """``max(x, 0)`` elementwise; the gradient at 0 is 0."""
    def round(self, /) -> Tensor:
        """Elementwise the nearest integer, in the dtype of ``x``; of two the even one.

        Of complex numbers the real and the imaginary part are rounded.
        """
    def sigmoid(self, /) -> Tensor:
        """``1 / (1 + exp(-x))`` elementwise, without overflow."""
    def sign(self, /) -> Tensor:
        """Elementwise sign: -1, 0 or 1, of which the gradient is 0; ``x / abs(x)`` of complex numbers.

        The gradient at a complex 0 is 0.
        """
    def sin(self, /) -> Tensor:
        """Elementwise sine."""
    def softmax(self, /, axis: int | tuple[int, ...] = -1) -> Tensor:
        """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""
    def sqrt(self, /) -> Tensor:
        """Elementwise square root; its gradient at 0 is infinite."""
    def square(self, /) -> Tensor:
        """Elementwise square ``x * x``."""
    def squeeze(self, /, axis: int | tuple[int, ...]) -> Tensor:
        """Without the axes named, which must have length 1."""
    def std(
        self,
        /,
        axis: int | tuple[int, ...] | None = None,
        *,
        correction: float = 0.0,
        keepdims: bool = False,
    ) -> Tensor:
        """Standard deviation of the elements: the root of `var`.

        At 0, where all elements are equal, the gradient is 0, as in PyTorch.
        """
    def sum(
        self,
        /,
        axis: int | tuple[int, ...] | None = None,
        *,
        dtype: Any = None,
        keepdims: bool = False,
    ) -> Tensor:
        """Sum of the elements; of none it is 0. ``dtype`` is the accumulator's and result's."""
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
        """Variance of the elements: squared deviations over ``count - correction``.

        Where that is not positive they are divided by 0, as in PyTorch: one element with
        ``correction=1`` gives nan.
        """
    def __getitem__(self, key: Any, /) -> Tensor: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
        """The elements in another shape: ``x.reshape(2, 3)`` or ``x.reshape((2, 3))``."""
    def to(self, *args: Any, device: str | None = None, dtype: Any = None) -> Tensor:
        """On another device, in another dtype, or both: ``x.to("cuda")``, ``x.to(gpugrad.float64)``,
        or as another tensor: ``x.to(y)``.

        Differentiable; the tensor itself if there is nothing to change.
        """
    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """On another device, as the array API standard asks for it; `to` takes a dtype too."""
    def cpu(self) -> Tensor:
        """On the CPU."""
    def cuda(self, index: int | None = None) -> Tensor:
        """On a CUDA device, by default the current one."""
    @property
    def T(self) -> Tensor:
        """The two axes of a matrix swapped."""
    @property
    def mT(self) -> Tensor:
        """The last two axes swapped: ``(..., m, n) -> (..., n, m)``."""
    @property
    def real(self) -> Tensor:
        """Elementwise real part; a real array as it is."""
    @property
    def imag(self) -> Tensor:
        """Elementwise imaginary part; zeros of a real array, if its library has those."""
