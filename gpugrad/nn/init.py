"""Initial values of parameters, written in place; each function returns its tensor.

The ``xavier`` functions (Glorot and Bengio 2010) and the ``kaiming`` functions (He et al. 2015)
choose bounds and standard deviations for which variances stay about the same from layer to layer.
Weights are ``(out, in, ...)``. Random numbers come from ``generator``, by default the default
generator of the tensor's device.

All raise TypeError for a tensor that is not floating, and ValueError for the result of an op.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

from .._arguments import check_floating, check_type, one_of, require
from .._batched import behind, levels_of, physical
from .._dtypes import is_half
from .._foreign_names import explain_names
from .._tensor import Tensor
from ..autograd.call import wrap
from ..backends.dtypes import float32, float64
from ..backends.placement import placed_like
from ..ops.linalg import diagonal, qr
from ..random import Generator, default_generator
from .common import generator_for
from .module import Parameter, overwrite

__all__ = """
    calculate_gain constant_ kaiming_normal_ kaiming_uniform_ normal_ ones_ orthogonal_ uniform_
    xavier_normal_ xavier_uniform_ zeros_
""".split()
explain_names(__name__)

_GAINS = dict.fromkeys(("linear", "identity", "sigmoid"), 1.0)
_GAINS |= {"tanh": 5 / 3, "relu": math.sqrt(2), "selu": 3 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which to scale the standard deviation before ``nonlinearity``.

    It is 1 for ``"linear"``, ``"identity"`` and ``"sigmoid"``, 5/3 for ``"tanh"``, ``sqrt(2)`` for
    ``"relu"``, 3/4 for ``"selu"`` and ``sqrt(2 / (1 + param**2))`` for ``"leaky_relu"``.

    param: the negative slope of ``"leaky_relu"``, by default 0.01.
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2 / (1 + (0.01 if param is None else param) ** 2))
    one_of("calculate_gain: nonlinearity", nonlinearity, (*_GAINS, "leaky_relu"))
    return _GAINS[nonlinearity]


def _initialiser(function):
    """Make ``function`` raise an error, in its own name, for tensors it cannot overwrite."""

    @functools.wraps(function)
    def checked(tensor, *args, **keywords):
        name = function.__name__
        check_type(tensor, Tensor, f"{name}: needs a Tensor")
        check_floating(tensor, f"{name}: the tensor")
        if not tensor.is_leaf:
            raise ValueError(
                f"{name}: a tensor of shape {tensor.shape} cannot be overwritten: it is a result "
                f"of {tensor.grad_fn.name}, not a leaf"
            )
        return function(tensor, *args, **keywords)

    return checked


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with ``val``."""
    overwrite(tensor, val)
    return tensor


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def uniform_(
    tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers from the uniform distribution over ``[a, b)``."""
    overwrite(tensor, draw(tensor, generator, "uniform", low=a, high=b).array)
    return tensor


def normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Fill with numbers from a normal distribution."""
    overwrite(tensor, draw(tensor, generator, "normal", mean=mean, std=std).array)
    return tensor


def xavier_uniform_(
    tensor: Tensor, gain: float = 1.0, generator: Generator | None = None
) -> Tensor:
    """Uniform within ``gain * sqrt(6 / (fan_in + fan_out))`` of 0.

    tensor: ``(out, in, ...)``. An output depends on ``fan_in`` inputs, the product of the lengths
        but the first; an input affects ``fan_out`` outputs, the product of all but the second.
    """
    fan_in, fan_out = _fans("xavier_uniform_", tensor)
    bound = gain * math.sqrt(6 / (fan_in + fan_out))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal with standard deviation ``gain * sqrt(2 / (fan_in + fan_out))``.

    tensor: ``(out, in, ...)``; for ``fan_in`` and ``fan_out`` see `xavier_uniform_`.
    """
    fan_in, fan_out = _fans("xavier_normal_", tensor)
    return normal_(tensor, 0.0, gain * math.sqrt(2 / (fan_in + fan_out)), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform within ``gain * sqrt(3 / fan)`` of 0.

    tensor: ``(out, in, ...)``; for the fans see `xavier_uniform_`, and for the gain
        `calculate_gain`.
    a: the negative slope of ``"leaky_relu"``.
    mode: ``"fan_in"`` preserves the variance in the forward pass, ``"fan_out"`` in backward.
    """
    bound = math.sqrt(3) * _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0.0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal with standard deviation ``gain / sqrt(fan)``; see `kaiming_uniform_`.

    tensor: ``(out, in, ...)``.
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)


def orthogonal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """``gain`` times a random matrix ``(out, in * ...)`` with orthonormal rows.

    tensor: ``(out, in, ...)``, whose axes but the first are those of the columns.

    If there are more rows than columns, the columns are orthonormal instead. From Saxe, McClelland
    and Ganguli (2014).
    """
    _fans("orthogonal_", tensor)
    matrix = draw(tensor, generator, "normal")
    matrix = matrix.reshape((matrix.shape[0], -1))
    if is_half(matrix.dtype):
        matrix = matrix.to(float32)
    is_wide = matrix.shape[0] < matrix.shape[1]
    q, r = qr(matrix.mT if is_wide else matrix)
    q = q * diagonal(r).sign()  # makes all orthogonal matrices equally probable
    q = q.mT if is_wide else q
    overwrite(tensor, (gain * q.reshape(tensor.shape)).array)
    return tensor


for _name in __all__:
    if _name.endswith("_"):  # all but `calculate_gain`
        globals()[_name] = _initialiser(globals()[_name])


def _kaiming_std(name, tensor, a, mode, nonlinearity):
    one_of(f"{name}: mode", mode, ("fan_in", "fan_out"))
    return calculate_gain(nonlinearity, a) / math.sqrt(_fans(name, tensor)[mode == "fan_out"])


def _fans(name, tensor):
    """How many inputs each output has, and how many outputs each input has."""
    fits = tensor.ndim > 1 and 0 not in tensor.shape
    require(fits, f"{name}: needs a weight (out, in, ...) with elements", tensor.shape)
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def draw(like: Tensor, generator: Generator | None, kind: str, **keywords: Any) -> Tensor:
    """Random numbers with the shape, dtype and device of ``like``."""
    generator = generator_for(like, generator)
    dtype = float64 if str(like.dtype).endswith("float64") else float32
    numbers = getattr(generator, kind)(like.shape, dtype=dtype, **keywords)
    array = placed_like(physical(numbers).array, like._like)
    return behind(wrap(array, None), levels_of(numbers))


def uniform_parameters(
    bound: float, dtype: Any, device: str | None, generator: Generator | None
) -> Callable[..., Parameter]:
    """Make parameters of a shape, with elements from the uniform distribution within ``bound``."""
    rng = generator or default_generator(device)

    def parameter(*shape: int) -> Parameter:
        return Parameter(rng.uniform(shape, low=-bound, high=bound, dtype=dtype).to(device=device))

    return parameter
