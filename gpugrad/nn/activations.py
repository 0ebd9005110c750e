"""Activations: functions of `gpugrad.nn.functional`, and the layers that apply them."""

from typing import Any

from .._arguments import one_of, require, whole
from .._creation import full
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from ..autograd.casting import as_input
from ..ops import activations as ops
from ..ops import neural, transcendental
from ..ops.elementwise import negative, where
from ..ops.manipulation import astype, reshape, split
from ..random import Generator
from .common import generator_for, shape_of
from .function_layer import FunctionLayer
from .module import Module, Parameter


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x, 0), 6)`` elementwise, ``(...) -> (...)``; the slope at 0 and at 6 is 0.

    ``inplace`` is ignored.
    """
    return ops.hardtanh(input, 0.0, 6.0)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """``x`` where it is positive, else ``weight * x``, which is also the slope at 0.

    input: ``(n, channels, ...)``, or any shape if there is only one weight.
    weight: ``(channels,)``, ``(1,)`` or ``()``.

    The result has the shape of the input.

    Raises ValueError if the shapes do not fit.
    """
    shape, slopes = shape_of("prelu", input), shape_of("prelu", weight, "weight")
    if slopes not in ((), (1,)):
        channels = shape[1] if len(shape) > 1 else 1
        if slopes != (channels,):
            raise ValueError(
                f"prelu: weight must have one element, or shape ({channels},) as the input of "
                f"shape {shape} has {channels} channels, not {slopes}"
            )
        weight = reshape(weight, (channels,) + (1,) * (len(shape) - 2))
    elif slopes:
        weight = reshape(weight, ())
    return where(input > 0, input, as_input(input, weight) * input)


_SELU_ALPHA = 1.6732632423543772
_SELU_SCALE = 1.0507009873554805


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """``1.0507 * x`` where ``x`` is positive, else ``1.0507 * 1.6733 * (exp(x) - 1)``.

    Elementwise, ``(...) -> (...)``. With these constants, from Klambauer et al. (2017), means of 0
    and variances of 1 persist from layer to layer. The slope at 0 is that of the second piece.
    ``inplace`` is ignored.
    """
    return ops.elu(input, _SELU_ALPHA, scale=_SELU_SCALE)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; the slope at 0 is 1.

    Elementwise, ``(...) -> (...)``. From Barron (2017). ``inplace`` is ignored. Raises ValueError
    if ``alpha`` is 0.
    """
    if alpha == 0:
        raise ValueError("celu: alpha must not be 0")
    return ops.elu(input, alpha, input_scale=1 / alpha)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """``min(max(x + 3, 0), 6) / 6`` elementwise, ``(...) -> (...)``; the slope at -3 and 3 is 0.

    ``inplace`` is ignored.
    """
    return ops.hardsigmoid(input)


@explains_arguments
def softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along the axis ``dim``, ``(...) -> (...)``, without overflow.

    PyTorch guesses an axis if ``dim`` is not given, which it advises against; here it is required.

    dtype: of the result; the input is cast to it first. By default the input's dtype.
    """
    return neural.softmax(input if dtype is None else astype(input, dtype), dim)


@explains_arguments
def log_softmax(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """``log(softmax(x))`` along the axis ``dim``, ``(...) -> (...)``, without overflow.

    For ``dtype`` see `softmax`.
    """
    return neural.log_softmax(input if dtype is None else astype(input, dtype), dim)


@explains_arguments
def softmin(input: Tensor, dim: int, *, dtype: Any = None) -> Tensor:
    """The `softmax` of ``-x``: ``exp(-x) / sum(exp(-x))`` along the axis ``dim``.

    ``(...) -> (...)``. For ``dtype`` see `softmax`.
    """
    return softmax(negative(input), dim, dtype=dtype)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """``x`` where it is above ``threshold``, else ``value``; elementwise, ``(...) -> (...)``.

    The slope at the threshold is 0. ``inplace`` is ignored.
    """
    return ops.threshold(input, threshold, value)


def rrelu(
    input: Tensor,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Tensor:
    """``x`` where it is positive, else ``a * x``, with a random slope ``a`` for each element.

    Elementwise, ``(...) -> (...)``. The slope at 0 is 1 in training, and else ``a``.

    training: whether to draw the slopes, from ``lower`` to ``upper``; else ``a`` is their mean.
    generator: draws the slopes; by default the generator of the input's device.

    From Xu et al. (2015). ``inplace`` is ignored. Raises ValueError if ``lower`` is above
    ``upper``.
    """
    require(lower <= upper, "rrelu: lower must be at most upper", (lower, upper))
    if not training:
        return ops.leaky_relu(input, (lower + upper) / 2)
    shape, generator = shape_of("rrelu", input), generator_for(input, generator)
    slopes = generator.uniform(shape, low=lower, high=upper, dtype=input.dtype)
    return where(input >= 0, input, slopes * input)


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)``, where ``a`` and ``b`` are the halves of the input along axis ``dim``.

    ``(..., 2 * d) -> (..., d)`` for the last axis. From Dauphin et al. (2017). Raises ValueError if
    there is no such axis, or its length is odd.
    """
    shape = shape_of("glu", input)
    if not -len(shape) <= dim < len(shape):
        raise ValueError(f"glu: dim {dim} is not an axis of an input of shape {shape}")
    if shape[dim] % 2:
        raise ValueError(
            f"glu: the input's axis {dim} is halved, and must have an even length, but its shape "
            f"is {shape}"
        )
    a, b = split(input, 2, axis=dim)
    return a * neural.sigmoid(b)


class _Plain(FunctionLayer):
    """An activation without options."""

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input)


class ReLU(_Plain, function=neural.relu, inplace=True):
    """``max(x, 0)`` elementwise, ``(...) -> (...)``; the gradient at 0 is 0."""

    activation = "relu"  # its name in `gpugrad.dense`


class Tanh(_Plain, function=transcendental.tanh):
    """Hyperbolic tangent elementwise, ``(...) -> (...)``."""

    activation = "tanh"


class Sigmoid(_Plain, function=neural.sigmoid):
    """``1 / (1 + exp(-x))`` elementwise, ``(...) -> (...)``."""

    activation = "sigmoid"


class ReLU6(_Plain, function=relu6, options="", inplace=True):
    """``min(max(x, 0), 6)`` elementwise, ``(...) -> (...)``; see `functional.relu6`."""


class LeakyReLU(FunctionLayer, function=ops.leaky_relu, inplace=True):
    """``x`` where it is positive, else ``negative_slope * x``; see `gpugrad.leaky_relu`.

    Elementwise, ``(...) -> (...)``.

    inplace: ignored, since ops never write to their inputs.
    """


class PReLU(Module):
    """``x`` where it is positive, else ``weight * x``, with a weight that is trained.

    ``(n, channels, ...) -> (n, channels, ...)``; the slope at 0 is the weight.

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


class ELU(FunctionLayer, function=ops.elu, options="alpha", inplace=True):
    """``x`` where it is positive, else ``alpha * (exp(x) - 1)``; see `gpugrad.elu`.

    Elementwise, ``(...) -> (...)``. The slope at 0 is ``alpha``.
    """


class SELU(_Plain, function=selu, options="", inplace=True):
    """Scaled exponential linear unit; see `functional.selu`.

    ``1.0507 * x`` where ``x`` is positive, else ``1.0507 * 1.6733 * (exp(x) - 1)``; elementwise,
    ``(...) -> (...)``.
    """


class CELU(FunctionLayer, function=celu, options="alpha", inplace=True):
    """``x`` where it is positive, else ``alpha * (exp(x / alpha) - 1)``; see `functional.celu`.

    Elementwise, ``(...) -> (...)``. The slope at 0 is 1.
    """


class GELU(FunctionLayer, function=ops.gelu):
    """Gaussian error linear unit; see `gpugrad.gelu`.

    ``x * (1 + erf(x / sqrt(2))) / 2`` elementwise, ``(...) -> (...)``.

    approximate: ``"none"``, or ``"tanh"`` for a formula with the hyperbolic tangent.
    """

    def _set_options(self, approximate):
        self.approximate = one_of("GELU: approximate", approximate, ("none", "tanh"))


class SiLU(_Plain, function=ops.silu, inplace=True):
    """``x * sigmoid(x)`` elementwise, ``(...) -> (...)``."""


class Mish(_Plain, function=ops.mish, inplace=True):
    """``x * tanh(log(1 + exp(x)))`` elementwise, ``(...) -> (...)``."""


class Softplus(FunctionLayer, function=ops.softplus):
    """``log(1 + exp(beta * x)) / beta``; see `gpugrad.softplus`.

    Where ``beta * x`` is above ``threshold`` the result is ``x``. Elementwise, ``(...) -> (...)``.
    """


class Softsign(_Plain, function=ops.softsign):
    """``x / (1 + abs(x))`` elementwise, ``(...) -> (...)``."""


class Hardtanh(FunctionLayer, function=ops.hardtanh, inplace=True):
    """``x`` limited to ``[min_val, max_val]``; the slope at the bounds is 0.

    Elementwise, ``(...) -> (...)``.

    inplace: ignored, since ops never write to their inputs.

    Raises ValueError unless ``min_val`` is less than ``max_val``.
    """

    def _set_options(self, min_val, max_val):
        what = f"Hardtanh: min_val must be less than max_val {max_val}"
        require(min_val < max_val, what, min_val)
        super()._set_options(min_val=min_val, max_val=max_val)


class Hardswish(_Plain, function=ops.hardswish, inplace=True):
    """``x * min(max(x + 3, 0), 6) / 6``, elementwise; the slope is 0 at -3 and 1 at 3.

    ``(...) -> (...)``.
    """


class Hardsigmoid(_Plain, function=hardsigmoid, options="", inplace=True):
    """``min(max(x + 3, 0), 6) / 6`` elementwise; see `functional.hardsigmoid`.

    ``(...) -> (...)``. The slope at -3 and at 3 is 0.
    """


class LogSigmoid(_Plain, function=ops.logsigmoid):
    """``log(sigmoid(x))`` elementwise, ``(...) -> (...)``, without overflow."""


class Tanhshrink(_Plain, function=ops.tanhshrink):
    """``x - tanh(x)`` elementwise, ``(...) -> (...)``."""


class Softmax(FunctionLayer, function=softmax, options="dim"):
    """``exp(x) / sum(exp(x))`` along the axis ``dim``; see `functional.softmax`.

    ``(...) -> (...)``, of any shape.
    """


class LogSoftmax(FunctionLayer, function=log_softmax, options="dim"):
    """``log(softmax(x))`` along the axis ``dim``; see `functional.log_softmax`.

    ``(...) -> (...)``, of any shape.
    """


class GLU(FunctionLayer, function=glu):
    """Gated linear unit, which halves the axis ``dim``; see `functional.glu`.

    ``a * sigmoid(b)`` of both halves: ``(..., 2 * d) -> (..., d)`` for the last axis.
    """


class Softmin(FunctionLayer, function=softmin, options="dim"):
    """The softmax of ``-x`` along the axis ``dim``; see `functional.softmin`.

    ``(...) -> (...)``, of any shape.
    """


class Hardshrink(FunctionLayer, function=ops.hardshrink):
    """``x`` where its magnitude is above ``lambd``, else 0; see `gpugrad.hardshrink`.

    Elementwise, ``(...) -> (...)``. The slope at ``lambd`` is 0.
    """

    _shown = ("lambd",)


class Softshrink(FunctionLayer, function=ops.softshrink):
    """``x`` moved towards 0 by ``lambd``; see `gpugrad.softshrink`.

    Where the magnitude of ``x`` is at most ``lambd``, the result and the slope are 0. Elementwise,
    ``(...) -> (...)``.
    """

    _shown = ("lambd",)


class Threshold(FunctionLayer, function=threshold, options="threshold value", inplace=True):
    """``x`` where it is above ``threshold``, else ``value``; see `functional.threshold`.

    Elementwise, ``(...) -> (...)``.
    """


class RReLU(FunctionLayer, function=rrelu, options="lower upper", inplace=True):
    """A leaky ReLU with random slopes while it is trained; see `functional.rrelu`.

    Elementwise, ``(...) -> (...)``. It is ``x`` where x is positive, else ``a * x``, where a is
    drawn for each element from ``lower`` to ``upper``, or is their mean in `eval` mode.
    """

    def forward(self, input: Tensor) -> Tensor:
        return rrelu(input, **self._kwargs(), training=self.training)
