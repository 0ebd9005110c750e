# Written by tests/write_stubs.py.

from collections.abc import Iterable
from typing import Any

from gpugrad.optim.adam import AdamW as AdamW
from gpugrad.optim.optimizer import Optimizer as Optimizer

from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils

class ASGD(Optimizer):
    """Averaged gradient descent (Polyak & Juditsky 1992, "Acceleration of stochastic approximation
    by averaging"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g``::

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g
        ax = ax + mu * (p - ax)
        eta = lr / (1 + lambd * lr * t)**alpha
        mu = 1 / max(1, t - t0)

    At first ``eta`` is ``lr`` and ``mu`` is 1. The average ``ax`` is in the state: use
    ``optimizer.state_dict()["state"][i]["ax"]`` in place of parameter i at the end, after more than
    ``t0`` updates. See `gpugrad.optim.swa_utils` for averages of a whole model.

    The state dict has ``eta`` and ``mu`` in float64, where PyTorch has float32.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    t0: after how many updates the average begins.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters: all must be finite, and all but ``alpha`` and ``t0`` at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        lambd: float = 0.0001,
        alpha: float = 0.75,
        t0: float = 1000000.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

class Adadelta(Optimizer):
    """Adadelta (Zeiler 2012, "ADADELTA: An adaptive learning rate method"), as PyTorch has it.

    An update of a parameter ``p`` with gradient ``g``, where the average ``v`` of the squares of
    gradients and ``u`` of the squares of changes start at 0::

        g = g + weight_decay * p
        v = rho * v + (1 - rho) * g**2
        d = sqrt(u + eps) / sqrt(v + eps) * g
        u = rho * u + (1 - rho) * d**2
        p = p - lr * d

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    rho: the decay of the averages, from 0 to 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-06,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

class Adafactor(Optimizer):
    """Adafactor (Shazeer & Stern 2018), with little state: sums over rows and columns.

    As PyTorch has it. Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g``,
    where RMS is the root of the mean square::

        b = t**beta2_decay
        a = max(eps[1], RMS(p)) * min(lr, 1 / sqrt(t))
        p = (1 - lr * weight_decay) * p
        r = (1 - b) * r + b * mean(g**2, axis=-1)    # row_var
        c = (1 - b) * c + b * mean(g**2, axis=-2)    # col_var
        v = r * c / max(mean(r), eps[0])
        u = g / max(sqrt(v), eps[0])
        p = p - a * u / max(1, RMS(u) / d)

    Of a parameter with fewer than two axes, ``v`` itself, ``variance``, is such an average.

    params: real leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    eps: the first may be None, for the distance from 1 to the next number of the dtype in which
        updates are computed, which is float32 for 16 bits.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters: ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0,
    ``beta2_decay`` at most 0 and ``d`` at least 1.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 0.001),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

class Adagrad(Optimizer):
    """Adagrad (Duchi, Hazan & Singer 2011, "Adaptive subgradient methods"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and with the sum ``s``
    of squares, which starts at ``initial_accumulator_value``::

        g = g + weight_decay * p
        s = s + g**2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters, which must be finite and at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
    ) -> None: ...

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
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        decoupled_weight_decay: bool = False,
        maximize: bool = False,
    ) -> None: ...

class Adamax(Optimizer):
    """Adamax (Kingma & Ba 2015, "Adam: A method for stochastic optimization"), as PyTorch has it.

    Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g``, its average ``m`` and
    its decaying greatest magnitude ``u``, which start at 0::

        g = g + weight_decay * p
        m = beta1 * m + (1 - beta1) * g
        u = max(beta2 * u, abs(g) + eps)
        p = p - lr * m / (1 - beta1**t) / u

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of ``m`` and of ``u``, from 0 to below 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps`` and ``weight_decay`` must be finite and at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

class LBFGS(Optimizer):
    """L-BFGS (Nocedal & Wright 2006, "Numerical optimization", algorithm 7.5), as PyTorch has it.

    For functions without noise, such as losses of all data. An iteration goes from the point
    ``x``, all parameters as one vector with gradient ``g``, to::

        x = x - t * H @ g

    ``H`` approximates the inverse Hessian. It is the matrix that the formula of Broyden,
    Fletcher, Goldfarb and Shanno gives for the last changes ``s`` of ``x`` and ``y`` of ``g``,
    beginning from the identity times ``s @ y / (y @ y)``. The optimizer computes ``H @ g`` from
    these vectors, without the matrix, and leaves out changes with ``s @ y <= 1e-10``. The step
    length ``t`` is ``lr``, in the very first iteration ``lr * min(1, 1 / sum(abs(g)))``. A line
    search starts from this length.

    `step` needs a closure and makes up to ``max_iter`` iterations. In each of them it calls the
    closure at least once, and waits for the device several times to decide whether to go on.

    Parameters that are frozen or without a gradient count as having a gradient of 0. Complex
    parameters are treated as pairs of real numbers.

    params: leaves that require grad, in one group, all of one dtype and on one device.
    max_iter: the most iterations in a step.
    max_eval: the step ends after this many calls of the closure; by default ``max_iter * 5 / 4``.
    tolerance_grad: the step ends where no element of the gradient is larger.
    tolerance_change: the step ends after an iteration that changes the loss, or each parameter, by
        at most this.
    history_size: how many changes to keep. Each takes twice the memory of the parameters.
    line_search_fn: ``"strong_wolfe"`` to search, with cubic interpolation, for a step length that
        fulfills the strong Wolfe conditions (algorithms 3.5 and 3.6 of the book); or None.

    Raises TypeError or ValueError for parameters that cannot be optimized, for more than one group
    and for invalid hyper-parameters.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-07,
        tolerance_change: float = 1e-09,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None: ...

class Lion(Optimizer):
    """Lion (Chen et al. 2023, "Symbolic discovery of optimization algorithms").

    An update of a parameter ``p`` with gradient ``g`` and with the average ``m`` of gradients,
    which starts at 0::

        p = (1 - lr * weight_decay) * p
        p = p - lr * sign(beta1 * m + (1 - beta1) * g)
        m = beta2 * m + (1 - beta2) * g

    The sign of 0 is 0. The real and the imaginary parts of complex parameters are treated as
    separate numbers. PyTorch has no Lion; ``exp_avg`` is the name of ``m`` in the state dict, as
    in the authors' implementation.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    lr: about a third to a tenth of a good rate for `AdamW`, with a ``weight_decay`` that is larger
        by the same factor.
    betas: ``beta1`` and ``beta2`` in the formula, from 0 to below 1.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr`` and ``weight_decay`` must be finite and at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.0001,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
    ) -> None: ...

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
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-07,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None: ...

class NAdam(Optimizer):
    """Adam with Nesterov momentum (Dozat 2016, "Incorporating Nesterov momentum into Adam").

    As PyTorch has it. Update ``t``, counted from 1, of a parameter ``p`` with gradient ``g`` and
    with the averages ``m`` and ``v``, which start at 0::

        g = g + weight_decay * p
        mu(t) = beta1 * (1 - 0.96**(t * momentum_decay) / 2)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        c(t) = mu(1) * ... * mu(t)
        n = mu(t + 1) * m / (1 - c(t + 1)) + (1 - mu(t)) * g / (1 - c(t))
        p = p - lr * n / (sqrt(v / (1 - beta2**t)) + eps)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    betas: the decays of the averages of gradients and of their squares, from 0 to below 1.
    decoupled_weight_decay: replace the first line by ``p = (1 - lr * weight_decay) * p``, as
        `AdamW` does.
    maximize: go up: use ``-g`` in place of ``g``.

    The state dict has ``c(t)`` as ``mu_product``, in float64, where PyTorch has float32.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr``, ``eps``, ``weight_decay`` and ``momentum_decay`` must be finite and
    at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.002,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum_decay: float = 0.004,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

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
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

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
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        alpha: float = 0.99,
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...

class Rprop(Optimizer):
    """Rprop (Riedmiller & Braun 1993, "A direct adaptive method for faster backpropagation").

    As PyTorch has it: for whole batches, because only the signs of gradients matter. An update of
    an element ``p`` with gradient ``g``, the one before it ``h``, at first 0, and a step size
    ``s``, at first ``lr``::

        s = s * (etas[1] if g * h > 0 else etas[0] if g * h < 0 else 1), limited to step_sizes
        g = 0 if g * h < 0 else g
        p = p - s * sign(g)

    The real and the imaginary parts of complex parameters are treated as separate numbers.

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    lr: the first step size; later changes of it have no effect.
    etas: the factors that shrink and grow a step size; one is below 1 and one above.
    step_sizes: the smallest and the largest step size.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters; ``lr`` must be finite and at least 0.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.01,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-06, 50.0),
        *,
        maximize: bool = False,
    ) -> None: ...

class SGD(Optimizer):
    """Stochastic gradient descent with momentum, as PyTorch defines it.

    For a parameter ``p`` with gradient ``g`` and momentum buffer ``b``, which the first
    update sets to ``g``::

        g = g + weight_decay * p
        b = momentum * b + (1 - dampening) * g
        p = p - lr * (g + momentum * b if nesterov else b)

    params: leaves that require grad, or dicts of leaves and of the hyper-parameters that
        differ for them: see `Optimizer.add_param_group`.
    maximize: go up: use ``-g`` in place of ``g``.

    Raises TypeError or ValueError for parameters that cannot be optimized and for invalid
    hyper-parameters: all must be finite, and all but ``dampening`` at least 0; ``nesterov``
    needs momentum and no dampening.
    """
    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.001,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
    ) -> None: ...
