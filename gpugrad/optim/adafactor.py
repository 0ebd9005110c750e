"""Adafactor."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from .._arguments import is_complex
from .._limits import finfo
from ..backends import backend_of
from .optimizer import Optimizer, decayed, move


def _eps(value):
    first, second = value
    return None if first is None else float(first), float(second)


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

    kinds: ClassVar = {"eps": ("a number or None, and a number", _eps)}
    ranges: ClassVar = {
        **Optimizer.ranges,
        "eps": ("finite and at least 0", lambda x: all(0 <= (e or 0) < math.inf for e in x)),
        "beta2_decay": ("at most 0", lambda x: x <= 0),
        "d": ("at least 1", lambda x: x >= 1),
    }
    keeps_step = True
    is_elementwise = False

    def _check_parameter(self, i, p):
        super()._check_parameter(i, p)
        if is_complex(p):
            raise TypeError(f"Adafactor: parameter {i} must be real, not {p.dtype}")

    def init_single(self, array: Any, group: Mapping[str, Any]) -> dict[str, Any]:
        shape, backend = array.shape, backend_of[type(array)]
        shapes = {"variance": shape}
        if len(shape) > 1:
            shapes = {"row_var": (*shape[:-1], 1), "col_var": (*shape[:-2], 1, shape[-1])}
        return {name: backend.zeros(x, array.dtype, array) for name, x in shapes.items()}

    def apply_single(
        self, array, grad, state, step,
        lr=1e-2, beta2_decay=-0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d=1.0, weight_decay=0.0,
    ):  # fmt: skip
        if 0 in array.shape:
            return  # there are no means
        xp = backend_of[type(array)].xp
        least = finfo(array.dtype).eps if eps[0] is None else eps[0]
        rate = xp.maximum(_rms(xp, array), eps[1]) * min(lr, 1 / step**0.5)
        decayed(array, grad, lr, weight_decay, decoupled=True)
        decay = 1 - step**beta2_decay
        square = grad * grad
        if array.ndim > 1:
            rows, columns = state
            move(rows, xp.mean(square, axis=-1, keepdims=True), decay)
            move(columns, xp.mean(square, axis=-2, keepdims=True), decay)
            means = xp.maximum(xp.mean(rows, axis=-2, keepdims=True), least)
            estimate = rows * columns / means
        else:
            (estimate,) = state
            move(estimate, square, decay)
        change = grad / xp.sqrt(xp.maximum(estimate, least * least))
        change *= rate / xp.maximum(_rms(xp, change) / d, 1.0)
        array -= change


def _rms(xp, array):
    return xp.sqrt(xp.mean(array * array))
