"""Activations: functions of `gpugrad.nn.functional`, and the layers that apply them."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from .._arguments import whole
from .._creation import full
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from ..ops.elementwise import where
from ..ops.manipulation import reshape
from .module import Module, Parameter

if TYPE_CHECKING:
    from .._ops import (
        elu,
        gelu,
        hardswish,
        hardtanh,
        leaky_relu,
        mish,
        relu,
        sigmoid,
        silu,
        softplus,
        softsign,
        tanh,
    )
    from .._ops import log_softmax as _log_softmax
    from .._ops import softmax as _softmax
else:
    from ..ops.activations import (
        elu,
        gelu,
        hardswish,
        hardtanh,
        leaky_relu,
        mish,
        silu,
        softplus,
        softsign,
    )
    from ..ops.neural import log_softmax as _log_softmax
    from ..ops.neural import relu, sigmoid
    from ..ops.neural import softmax as _softmax
    from ..ops.transcendental import tanh


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)`` elementwise; the slope at 0 and at 6 is 0. ``inplace`` is ignored."""
    return hardtanh(input, 0.0, 6.0)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where it is positive, else ``weight * x``, which is also the slope at 0.

    input: ``(n, channels, ...)``, or any shape if there is only one weight.
    weight: ``(channels,)``, ``(1,)`` or ``()``.

    Raises ValueError if the shapes do not fit.
    """
    if weight.size != 1 or weight.ndim > 1:
        channels = input.shape[1] if input.ndim > 1 else 1
        if weight.shape != (channels,):
            raise ValueError(
                f"prelu: weight must have one element, or shape ({channels},) as the input of "
                f"shape {input.shape} has {channels} channels, not {weight.shape}"
            )
        weight = reshape(weight, (channels,) + (1,) * (input.ndim - 2))
    elif weight.ndim:
        weight = reshape(weight, ())
    return where(input > 0, input, weight * input)


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``1.0507 * x`` where ``x`` is positive, else ``1.0507 * 1.6733 * (exp(x) - 1)``.

    With these constants, from Klambauer et al. (2017), means of 0 and variances of 1 persist from
    layer to layer. The slope at 0 is that of the second piece. ``inplace`` is ignored.
    """
    return elu(input, _SELU_ALPHA, scale=_SELU_SCALE)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; the slope at 0 is 1.

    From Barron (2017). ``inplace`` is ignored. Raises ValueError if ``alpha`` is 0.
    """
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0")
    return elu(input, alpha, input_scale=1 / alpha)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6``; the slope at -3 and at 3 is 0. ``inplace`` is ignored."""
    return hardtanh(input, -3.0, 3.0) * (1 / 6) + 0.5


def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(x))`` elementwise, without overflow."""
    return -softplus(-input, threshold=math.inf)


def tanhshrink(input: Tensor) -> Tensor:
    """``x - tanh(x)`` elementwise."""
    return input - tanh(input)


@explains_arguments
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along the axis ``dim``, without overflow.

    PyTorch guesses an axis if ``dim`` is not given, which it advises against; here it is required.

    dtype: that to which the input is cast first, and of the result; by default the input's.
    """
    return _softmax(input if dtype is None else input.astype(dtype), dim)


@explains_arguments
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along the axis ``dim``, without overflow; see `softmax`."""
    return _log_softmax(input if dtype is None else input.astype(dtype), dim)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)``, where ``a`` and ``b`` are the halves of the input along axis ``dim``.

    From Dauphin et al. (2017). Raises ValueError if there is no such axis, or its length is odd.
    """
    ndim = input.ndim
    if not -ndim <= dim < ndim:
        raise ValueError(f"glu: dim {dim} is not an axis of an input of shape {input.shape}")
    half, odd = divmod(input.shape[dim], 2)
    if odd:
        raise ValueError(
            f"glu: the input's axis {dim} is halved, and must have an even length, but its shape "
            f"is {input.shape}"
        )
    before = (slice(None),) * (dim % ndim)
    a = input[(*before, slice(None, half), ...)]
    b = input[(*before, slice(half, None), ...)]
    return a * sigmoid(b)


class _Activation(Module):
    """A function of a tensor, ``function``, as a layer."""

    function: ClassVar[Callable[..., Tensor]]

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input)


class _WithOptions(_Activation):
    """A function that also takes the values of the attributes named by ``options``."""

    options: ClassVar[tuple[str, ...]]

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, *[getattr(self, name) for name in self.options])

    def extra_repr(self) -> str:
        return ", ".join([self._as_shown(f"{name}=") for name in self.options])


class _InPlace(_Activation):
    """An activation that PyTorch computes in place on request.

    inplace: ignored, since ops never write to their inputs.
    """

    def __init__(self, inplace: bool = False) -> None:
        pass


class _WithAlpha(_WithOptions):
    """An activation with a slope or a limit ``alpha``; ``inplace`` is ignored."""

    options = ("alpha",)

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        self.alpha = alpha


class _AlongAxis(_WithOptions):
    """A function along the axis ``dim``."""

    options = ("dim",)

    def __init__(self, dim: int) -> None:
        self.dim = dim


class ReLU(_InPlace):
    """``max(x, 0)`` elementwise; the gradient at 0 is 0."""

    function = staticmethod(relu)
    activation = "relu"  # its name in `gpugrad.dense`


class Tanh(_Activation):
    """Hyperbolic tangent, elementwise."""

    function = staticmethod(tanh)
    activation = "tanh"


class Sigmoid(_Activation):
    """``1 / (1 + exp(-x))`` elementwise."""

    function = staticmethod(sigmoid)
    activation = "sigmoid"


class ReLU6(_InPlace):
    """``min(max(x, 0), 6)``, elementwise; see `functional.relu6`."""

    function = staticmethod(relu6)


class LeakyReLU(_WithOptions):
    """``x`` where it is positive, else ``negative_slope * x``; see `gpugrad.leaky_relu`.

    inplace: ignored, since ops never write to their inputs.
    """

    function = staticmethod(leaky_relu)
    options = ("negative_slope",)

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        self.negative_slope = negative_slope


class PReLU(Module):
    """``x`` where it is positive, else ``weight * x``, with a weight that is trained.

    num_parameters: 1, or the number of channels: the length of the input's second axis.
    init: the initial value of the weight, which has shape ``(num_parameters,)``.
    dtype, device: of the weight; by default float32 on the CPU.
    """

    _shown = ("num_parameters=",)

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        *,
        dtype: Any = None,
        device: str | None = None,
    ) -> None:
        self.num_parameters = whole("PReLU: num_parameters", num_parameters, 1)
        self.init = init
        self.weight = Parameter(full(self.num_parameters, float(init), dtype=dtype, device=device))

    def forward(self, input: Tensor) -> Tensor:
        return prelu(input, self.weight)


class ELU(_WithAlpha):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``; see `gpugrad.elu`."""

    function = staticmethod(elu)


class SELU(_InPlace):
    """Scaled exponential linear unit; see `functional.selu`."""

    function = staticmethod(selu)


class CELU(_WithAlpha):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; see `functional.celu`."""

    function = staticmethod(celu)


class GELU(_WithOptions):
    """Gaussian error linear unit; see `gpugrad.gelu`.

    approximate: ``"none"``, or ``"tanh"`` for a formula with the hyperbolic tangent.
    """

    function = staticmethod(gelu)
    options = ("approximate",)

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ValueError(f"GELU: approximate must be 'none' or 'tanh', not {approximate!r}")
        self.approximate = approximate


class SiLU(_InPlace):
    """``x * sigmoid(x)`` elementwise."""

    function = staticmethod(silu)


class Mish(_InPlace):
    """``x * tanh(log(1 + exp(x)))`` elementwise."""

    function = staticmethod(mish)


class Softplus(_WithOptions):
    """``log(1 + exp(beta * x)) / beta``; see `gpugrad.softplus`.

    Where ``beta * x`` is above ``threshold`` the result is ``x``.
    """

    function = staticmethod(softplus)
    options = "beta", "threshold"

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta = beta
        self.threshold = threshold


class Softsign(_Activation):
    """``x / (1 + abs(x))`` elementwise."""

    function = staticmethod(softsign)


class Hardtanh(_WithOptions):
    """``x`` limited to ``[min_val, max_val]``; the slope at the bounds is 0.

    inplace: ignored, since ops never write to their inputs.

    Raises ValueError unless ``min_val`` is less than ``max_val``.
    """

    function = staticmethod(hardtanh)
    options = "min_val", "max_val"

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        if not min_val < max_val:
            raise ValueError(
                f"Hardtanh: min_val must be less than max_val, but they are {min_val} and {max_val}"
            )
        self.min_val = min_val
        self.max_val = max_val


class Hardswish(_InPlace):
    """``x * min(max(x + 3, 0), 6) / 6``, elementwise; the slope is 0 at -3 and 1 at 3."""

    function = staticmethod(hardswish)


class Hardsigmoid(_InPlace):
    """``min(max(x + 3, 0), 6) / 6``, elementwise; see `functional.hardsigmoid`."""

    function = staticmethod(hardsigmoid)


class LogSigmoid(_Activation):
    """``log(sigmoid(x))`` elementwise, without overflow."""

    function = staticmethod(logsigmoid)


class Tanhshrink(_Activation):
    """``x - tanh(x)`` elementwise."""

    function = staticmethod(tanhshrink)


class Softmax(_AlongAxis):
    """``exp(x) / sum(exp(x))`` along the axis ``dim``; see `functional.softmax`."""

    function = staticmethod(softmax)


class LogSoftmax(_AlongAxis):
    """``log(softmax(x))`` along the axis ``dim``; see `functional.log_softmax`."""

    function = staticmethod(log_softmax)


class GLU(_AlongAxis):
    """Gated linear unit, which halves the axis ``dim``; see `functional.glu`."""

    function = staticmethod(glu)

    def __init__(self, dim: int = -1) -> None:
        super().__init__(dim)
