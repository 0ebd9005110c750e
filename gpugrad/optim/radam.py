"""RAdam."""

from .optimizer import Optimizer, decayed, move, move_to_square, over_root, square_root


class RAdam(Optimizer):
    """Rectified Adam (Liu et al. 2020, "On the variance of the adaptive learning rate and beyond").

    As PyTorch has it. Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and
    with the averages ``m`` and ``v``, which start at 0::

        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        n = 2 / (1 - beta2) - 1
        r = n - 2 * t * beta2**t / (1 - beta2**t)
        if r > 5:
            c = sqrt((r - 4) * (r - 2) * n / ((n - 4) * (n - 2) * r))
            p = p - lr * c * m / (1 - beta1**t) * sqrt(1 - beta2**t) / (sqrt(v) + eps)
        else:
            p = p - lr * m / (1 - beta1**t)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of the averages of gradients and of their squares, from 0 to below 1.
    decoupled_weight_decay: replace the first line by ``p = (1 - lr * weight_decay) * p``, as
        `AdamW` does.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """

    keeps = "exp_avg", "exp_avg_sq"
    keeps_step = True

    def apply_single(
        self, array, grad, state, step,
        lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False,
    ):  # fmt: skip
        grad = decayed(array, grad, lr, weight_decay, decoupled_weight_decay)
        average, square = state
        beta1, beta2 = betas
        move(average, grad, beta1)
        move_to_square(square, grad, beta2)
        rate = lr / (1 - beta1**step)
        correction = 1 - beta2**step
        most = 2 / (1 - beta2) - 1  # degrees of freedom of the estimate of the variance
        freedom = most - 2 * step * beta2**step / correction
        if freedom > 5:
            rate *= square_root(
                (freedom - 4) * (freedom - 2) * most / ((most - 4) * (most - 2) * freedom)
            )
            change = over_root(average, square, eps)
            change *= rate * square_root(correction)
        else:
            change = rate * average
        array -= change
