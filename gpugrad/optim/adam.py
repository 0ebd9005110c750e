"""Adam and AdamW."""

from collections.abc import Iterable
from typing import Any, ClassVar

from ..backends import backend_of
from .optimizer import Optimizer, decayed, move_to_square, over_root, square_root


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015, "Adam: A method for stochastic optimization"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and with the averages
    ``m`` and ``v``, which start at 0::

        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        p = p - lr * m / (1 - beta1**t) / (sqrt(v / (1 - beta2**t)) + eps)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of the averages of gradients and of their squares, from 0 to below 1.
    amsgrad: divide by the greatest ``v`` so far (Reddi, Kale & Kumar 2018).
    maximize: go up: use ``-g`` in place of ``g``.
    decoupled_weight_decay: replace the first line by ``p = (1 - lr * weight_decay) * p``, as
        `AdamW` does.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """

    keeps = "exp_avg", "exp_avg_sq"
    keeps_if: ClassVar = {"max_exp_avg_sq": "amsgrad"}
    keeps_step = True
    keyword_only = ("decoupled_weight_decay",)

    def apply_single(
        self, array, grad, state, step,
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False,
        decoupled_weight_decay=False,
    ):  # fmt: skip
        grad = decayed(array, grad, lr, weight_decay, decoupled_weight_decay)
        average, square, *greatest = state
        beta1, beta2 = betas
        average *= beta1 / (1 - beta1)  # in this order no line allocates a temporary array
        average += grad
        average *= 1 - beta1
        move_to_square(square, grad, beta2)
        if amsgrad:
            (most,) = greatest
            most[...] = backend_of[type(array)].xp.maximum(most, square)
            square = most
        correction = square_root(1 - beta2**step)
        change = over_root(average, square, eps * correction)
        change *= lr * correction / (1 - beta1**step)
        array -= change

    @staticmethod
    def fused_kernel(step, lr, betas, eps, weight_decay, amsgrad, decoupled):
        beta1, beta2 = betas
        correction = square_root(1 - beta2**step)
        rate = lr * correction / (1 - beta1**step)
        decays = (0.0, 1 - lr * weight_decay) if decoupled else (weight_decay, 1.0)
        shares = beta1 / (1 - beta1), 1 - beta1, beta2, 1 - beta2
        # In the order of the kernel's `AdamNumbers`.
        return "amsgrad" if amsgrad else "adam", (*decays, *shares, rate, eps * correction)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019), as PyTorch has it.

    `Adam` with ``decoupled_weight_decay`` and a ``weight_decay`` of 0.01 by default.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False,
        *, maximize: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
            maximize=maximize, decoupled_weight_decay=True,
        )  # fmt: skip
