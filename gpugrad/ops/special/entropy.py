"""Entropies and robust losses."""

from .common import at_least_float32, special_function


@special_function(x=lambda xp, g, x: -g * (1 + xp.log(x)))
def entr(x):
    """Entropy ``-x * log(x)``: 0 at 0, where its slope is infinite, and -inf below.

    Elementwise, ``(...) -> (...)``, with the gradient ``-1 - log(x)``. The sum over the
    probabilities of a distribution is its entropy.
    """


def _xlogy_y(xp, g, x, y):
    x, y = at_least_float32(xp, x, y)
    return xp.zero_discarded_nans(g * x / xp.where(x == 0, 1.0, y), g)


@special_function(
    discards=True,
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= 0), 0.0, xp.special.xlogy(g, y)),
    y=_xlogy_y,
)
def xlogy(x, y):
    """``x * log(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    The inputs broadcast. The gradients are ``log(y)`` to ``x`` and ``x / y`` to ``y``. Where ``x``
    is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is positive.
    """


@special_function(
    discards=True,
    x=lambda xp, g, x, y: xp.where((x == 0) & (y <= -1), 0.0, xp.special.xlog1py(g, y)),
    y=lambda xp, g, x, y: _xlogy_y(xp, g, x, 1 + y),
)
def xlog1py(x, y):
    """``x * log1p(y)``, but 0 where ``x`` is 0, unless ``y`` is nan.

    The inputs broadcast. The gradients are ``log1p(y)`` to ``x`` and ``x / (1 + y)`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 0, and that to ``x`` is 0 unless ``y`` is above -1.
    """


def _log_ratio(xp, x, y):
    x, y = at_least_float32(xp, x, y)
    return xp.log(xp.where((x == 0) & (y == 0), 1.0, x / y))


@special_function(
    discards=True,
    x=lambda xp, g, x, y: xp.zero_discarded_nans(g * (1 + _log_ratio(xp, x, y)), g),
    y=lambda xp, g, x, y: -_xlogy_y(xp, g, x, y),
)
def rel_entr(x, y):
    """Relative entropy ``x * log(x / y)``: 0 where ``x`` is 0, inf where either is negative.

    The inputs broadcast. The gradients are ``1 + log(x / y)`` to ``x`` and ``-x / y`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 0; where both are 0, the gradient to ``x`` is 1.
    """


@special_function(
    discards=True,
    x=lambda xp, g, x, y: xp.zero_discarded_nans(g * _log_ratio(xp, x, y), g),
    y=lambda xp, g, x, y: g - _xlogy_y(xp, g, x, y),
)
def kl_div(x, y):
    """Terms of the Kullback-Leibler divergence, ``rel_entr(x, y) - x + y``.

    The inputs broadcast. The gradients are ``log(x / y)`` to ``x`` and ``1 - x / y`` to ``y``.
    Where ``x`` is 0, the gradient to ``y`` is 1; where both are 0, the gradient to ``x`` is 0.
    """


def _huber_delta(xp, g, delta, r):
    delta, r = at_least_float32(xp, delta, r)
    size = xp.abs(r)
    return xp.where(size < delta, 0.0, g * (size - delta))


def _huber_r(xp, g, delta, r):
    delta, r = at_least_float32(xp, delta, r)
    return g * xp.where(xp.abs(r) < delta, r, delta * xp.sign(r))


@special_function(delta=_huber_delta, r=_huber_r)
def huber(delta, r):
    """Huber's loss: ``r**2 / 2`` up to ``abs(r) = delta``, and linear beyond.

    The inputs broadcast. The gradient to ``r`` is ``r``, limited to ``[-delta, delta]``, and that
    to ``delta`` is ``max(abs(r) - delta, 0)``. The loss is inf where ``delta`` is negative. Where
    the two pieces meet, second derivatives are those of the linear piece.
    """


def _pseudo_huber_delta(xp, g, delta, r):
    u = (r / delta) ** 2
    root = xp.sqrt(1 + u)
    return g * delta * (u / (1 + root)) ** 2 / root


@special_function(
    delta=_pseudo_huber_delta, r=lambda xp, g, delta, r: g * r / xp.sqrt(1 + (r / delta) ** 2)
)
def pseudo_huber(delta, r):
    """Smooth form of Huber's loss, ``delta**2 * (sqrt(1 + (r / delta)**2) - 1)``.

    The inputs broadcast. It is about ``r**2 / 2`` where ``r`` is small, and grows with the slope
    ``delta`` where it is large. The gradient to ``r`` is ``r / sqrt(1 + (r / delta)**2)``, and
    ``delta`` has one, too.
    """
