"""Losses that are negative logarithms of likelihoods: functions and modules."""

import math
from typing import Any

from .._creation import asarray
from .._tensor import Tensor
from ..autograd.casting import in_float32
from ..ops.elementwise import where
from ..ops.transcendental import exp, log
from .losses import _check_shapes, _Loss, _reduced


@in_float32
def poisson_nll_loss(
    input: Tensor,
    target: Any,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Of counts from Poisson distributions, ``exp(input) - target * input``.

    input, target: ``(...)``, of the same shape.
    log_input: whether the input holds logarithms of the means; otherwise the loss is
        ``input - target * log(input + eps)``.
    full: whether to add Stirling's approximation of ``log(target!)`` to targets above 1.
    reduction: ``"mean"`` or ``"sum"`` over all elements, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(...)``.

    Raises ValueError if the shapes differ.
    """
    _check_shapes("poisson_nll_loss", input, target=target)
    target = asarray(target).astype(input.dtype, copy=False)
    losses = exp(input) - target * input if log_input else input - target * log(input + eps)
    if full:
        t = where(target > 1, target, 1.0)
        stirling = t * log(t) - t + 0.5 * log(2 * math.pi * t)
        losses = losses + where(target > 1, stirling, 0.0)
    return _reduced("poisson_nll_loss", losses, reduction)


@in_float32
def gaussian_nll_loss(
    input: Tensor,
    target: Any,
    var: Any,
    full: bool = False,
    eps: float = 1e-6,
    *,
    reduction: str = "mean",
) -> Tensor:
    """Of values from normal distributions, ``(log(var) + (input - target) ** 2 / var) / 2``.

    input, target: the means and the values, ``(..., d)``, of the same shape.
    var: the variances, ``(..., d)``, ``(..., 1)``, ``(...)`` or a number. Smaller ones than ``eps``
        count as ``eps``, but the gradient is that of ``var``.
    full: whether to add the constant ``log(2 * pi) / 2``.
    reduction: ``"mean"`` or ``"sum"`` over all elements, of shape ``()``, or ``"none"`` for the
        losses themselves, ``(..., d)``.

    Raises ValueError if the shapes do not fit.
    """
    name = "gaussian_nll_loss"
    _check_shapes(name, input, target=target)
    var = asarray(var)
    if var.ndim and var.shape == input.shape[:-1] and input.ndim:
        var = var[..., None]
    if var.ndim and var.shape not in (input.shape, (*input.shape[:-1], 1)):
        raise ValueError(
            f"{name}: var must have the shape of the input {input.shape}, in which the last axis "
            f"may be 1 or left out, not {var.shape}"
        )
    var = where(var < eps, eps + (var - var.detach()), var)
    losses = 0.5 * (log(var) + (input - target) ** 2 / var)
    return _reduced(name, losses + 0.5 * math.log(2 * math.pi) if full else losses, reduction)


class PoissonNLLLoss(_Loss, function=poisson_nll_loss):
    """Of counts from Poisson distributions; see `functional.poisson_nll_loss`.

    The losses are ``exp(input) - target * input``, or without ``log_input``
    ``input - target * log(input + eps)``.

    ``input (...), target (...) -> ()``: the mean of the losses, or with ``reduction="sum"`` their
    sum. With ``"none"`` the result is ``(...)``.
    """


class GaussianNLLLoss(_Loss, function=gaussian_nll_loss, options="full eps reduction"):
    """Of values from normal distributions; see `functional.gaussian_nll_loss`.

    The losses are ``(log(var) + (input - target) ** 2 / var) / 2``.

    ``input (..., d), target (..., d), var (..., d) -> ()``: the mean of the losses, or with
    ``reduction="sum"`` their sum. With ``"none"`` the result is ``(..., d)``.
    """

    def forward(self, input: Tensor, target: Any, var: Any) -> Tensor:  # type: ignore[override]
        return self.function(input, target, var, **self._kwargs())
