"""Muon."""

import math
from functools import partial
from operator import index
from typing import Any, ClassVar

from .._arguments import is_complex
from ..backends import backend_of
from .optimizer import Optimizer, decayed, floats, move

_ADJUSTMENTS = "original", "match_rms_adamw", None


class Muon(Optimizer):
    """Momentum whose matrix is made orthogonal (Jordan et al. 2024), as PyTorch has it.

    For the matrices of hidden layers: give embeddings, biases and the last layer to another
    optimizer, such as `AdamW`. An update of a matrix ``p`` with gradient ``g`` and the average
    ``b``, which starts at 0::

        b = momentum * b + (1 - momentum) * g
        u = momentum * b + (1 - momentum) * g if nesterov else b
        x = u / max(norm(u), eps)
        repeat ns_steps times, with the ns_coefficients k0, k1 and k2:
            a = x @ x.T
            x = k0 * x + (k1 * a + k2 * a @ a) @ x
        p = (1 - lr * weight_decay) * p - lr * factor * x

    The iteration brings the singular values of ``x`` near 1. Its products are in the parameter's
    dtype, or float32 for 16 bits; PyTorch's are in bfloat16.

    params: matrices that require grad, or dicts of these and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    adjust_lr_fn: ``"original"``, also if None, for the factor ``sqrt(max(1, rows / columns))``, or
        ``"match_rms_adamw"`` for ``0.2 * sqrt(max(rows, columns))``, with which rates and decays
        that are good for `AdamW` are good here (Liu et al. 2025).
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that are no real matrices and for invalid
    hyper-parameters; ``lr``, ``eps``, ``weight_decay`` and ``momentum`` must be finite and at
    least 0.
    """

    kinds: ClassVar = {
        "ns_coefficients": ("three numbers", partial(floats, 3)),
        "ns_steps": ("an int", index),
        "adjust_lr_fn": ("a name", lambda x: x),
    }
    ranges: ClassVar = {
        **Optimizer.ranges,
        "ns_steps": ("from 0 to 99", lambda x: 0 <= x < 100),
        "adjust_lr_fn": ("'original', 'match_rms_adamw' or None", _ADJUSTMENTS.__contains__),
    }
    keeps = ("momentum_buffer",)
    is_elementwise = False

    def _check_parameter(self, i, p):
        super()._check_parameter(i, p)
        if p.ndim != 2 or is_complex(p):
            raise ValueError(
                f"Muon: parameter {i} must be a real matrix, not of shape {p.shape} and "
                f"{p.dtype}; give all others to another optimizer, such as AdamW"
            )

    def apply_single(
        self, array, grad, state, step,
        lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps=1e-7, ns_steps: int = 5, adjust_lr_fn: str | None = None,
    ):  # fmt: skip
        (average,) = state
        move(average, grad, momentum)
        update = momentum * average + (1 - momentum) * grad if nesterov else average
        rows, columns = array.shape
        update = _orthogonal(update, ns_coefficients, eps, ns_steps)
        factor = math.sqrt(max(1, rows / max(columns, 1)))
        if adjust_lr_fn == "match_rms_adamw":
            factor = 0.2 * math.sqrt(max(rows, columns))
        decayed(array, grad, lr, weight_decay, decoupled=True)
        array -= lr * factor * update


def _orthogonal(x: Any, coefficients: tuple, eps: float, steps: int) -> Any:
    """A Newton-Schulz iteration from the matrix ``x`` to one with its singular vectors."""
    xp = backend_of[type(x)].xp
    a, b, c = coefficients
    x = x / xp.maximum(xp.sqrt(xp.sum(x * x)), eps)
    is_tall = x.shape[0] > x.shape[1]
    x = x.T if is_tall else x
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if is_tall else x
