"""RMSprop."""

from typing import ClassVar

from .optimizer import Optimizer, decayed, move, move_to_square, over_root


class RMSprop(Optimizer):
    """RMSprop (Tieleman & Hinton 2012, lecture 6.5 of "Neural networks for machine learning").

    As PyTorch has it. An update of a parameter ``p`` with gradient ``g``, where the averages
    ``v`` and ``m`` and the momentum buffer ``b`` start at 0::

        g = g + weight_decay * p
        v = alpha * v + (1 - alpha) * g**2
        m = alpha * m + (1 - alpha) * g
        b = momentum * b + g / (sqrt(v - m**2 if centered else v) + eps)
        p = p - lr * b

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    alpha: the decay of the averages, from 0 to 1.
    centered: divide by an estimate of the gradient's standard deviation (Graves 2013).
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps``, ``weight_decay`` and ``momentum`` must be finite and at
    least 0.
    """

    keeps = ("square_avg",)
    keeps_if: ClassVar = {"momentum_buffer": "momentum", "grad_avg": "centered"}
    keeps_step = True

    def apply_single(
        self, array, grad, state, step,
        lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False,
    ):  # fmt: skip
        grad = decayed(array, grad, lr, weight_decay)
        square, *others = state
        move_to_square(square, grad, alpha)
        variance = square
        if centered:
            average = others[-1]
            move(average, grad, alpha)
            variance = square - average * average
        change = over_root(grad, variance, eps)
        if momentum:
            buffer = others[0]
            buffer *= momentum
            buffer += change
            change = lr * buffer
        else:
            change *= lr
        array -= change
