"""Ops for neural networks. Operations that are always used together are fused into one op."""

import math
from operator import index

from .._arguments import one_of
from .._batched import aligned, equally, shapes_of_examples
from ..autograd import call as calls
from ..autograd.operation import elementwise, op
from .elementwise import add
from .manipulation import reshape, vmap_over_axis, vmap_unchanged
from .products import matmul, matmul_vmap, matrix_transpose
from .transcendental import tanh


@elementwise(discards=True)
def relu(xp, x):
    """``max(x, 0)`` elementwise; the gradient at 0 is 0."""
    return xp.maximum(x, 0)


relu.vjp(x=lambda xp, g, out: xp.where(out > 0, g, 0.0))


@elementwise
def sigmoid(xp, x):
    """``1 / (1 + exp(-x))`` elementwise, ``(...) -> (...)``, without overflow."""
    return logistic(xp, x)


def logistic(xp, x):
    if xp.isdtype(x.dtype, "complex floating"):  # `minimum` below is meant for real numbers
        return 1 / (1 + xp.exp(-x))
    if xp is calls.namespace:
        # No exponent is positive, so nothing overflows; a small result keeps all its digits, and
        # so do small derivatives.
        return xp.exp(xp.minimum(x, 0)) / (1 + xp.exp(-xp.abs(x)))
    # This gives the same values with one exponential.
    e = xp.exp(xp.minimum(x, largest_exponent(xp, x.dtype)))
    e /= 1 + e
    return e


def largest_exponent(xp, dtype):
    """A whole number whose exponential does not overflow, and hardly changes if 1 is added."""
    if not xp.isdtype(dtype, "real floating"):
        return 40.0
    return float(math.floor(math.log(xp.finfo(dtype).max)))


sigmoid.vjp(x=lambda xp, g, out: g * out * (1 - out))


def _vmap_along_axis(call, batched, x, axis):
    if len(x.shape) == 1:  # each example is a number, which counts as an array of one element
        return reshape(call(reshape(x, (*x.shape, 1)), axis=-1), x.shape)
    return vmap_over_axis(call, batched, x, axis=axis)


@op(vmap=_vmap_along_axis)
def softmax(xp, x, /, axis=-1):
    """``exp(x) / sum(exp(x))`` along ``axis``, without overflow."""
    if 0 in x.shape:
        return xp.exp(x - xp.sum(x, axis=axis, keepdims=True))  # which fails for a wrong axis
    e = xp.exp(x - xp.max(x, axis=axis, keepdims=True))
    e /= xp.sum(e, axis=axis, keepdims=True)
    return e


def _softmax_vjp(xp, g, out, axis):
    ndim = len(out.shape)
    if ndim and isinstance(axis, int):
        axis = axis % ndim - ndim  # the standard's vecdot counts from the end
        total = xp.expand_dims(xp.vecdot(xp.conj(g), out, axis=axis), axis=axis)
    else:
        total = xp.sum(g * out, axis=axis, keepdims=True)
    return (g - total) * out


softmax.vjp(x=_softmax_vjp).jvp(x=_softmax_vjp)  # the Jacobian is symmetric


@op(vmap=_vmap_along_axis)
def log_softmax(xp, x, /, axis=-1):
    """``log(softmax(x))`` along ``axis``, without overflow."""
    if 0 in x.shape:
        return xp.exp(x - xp.sum(x, axis=axis, keepdims=True))
    shifted = x - xp.max(x, axis=axis, keepdims=True)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))


log_softmax.vjp(x=lambda xp, g, out, axis: g - xp.exp(out) * xp.sum(g, axis=axis, keepdims=True))
log_softmax.jvp(x=lambda xp, t, out, axis: t - xp.sum(xp.exp(out) * t, axis=axis, keepdims=True))


@op
def linear(xp, x, weight, bias=None):
    """Affine map ``x @ weight.T + bias``: ``(..., in), (out, in), (out,) -> (..., out)``."""
    if len(weight.shape) != 2 or len(x.shape) == 0 or x.shape[-1] != weight.shape[1]:
        raise ValueError(_shape_error(x.shape, weight.shape))
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"bias must have shape {tuple(weight.shape[:1])}, not {tuple(bias.shape)}")
    out = xp.matmul(x, weight.T)
    if bias is None:
        return out
    if bias.dtype is out.dtype:  # an unpickled array has a dtype object of its own
        out += bias
        return out
    return out + bias


def _shape_error(x_shape, weight_shape):
    return (
        f"the last axis of x {tuple(x_shape)} must be the in_features of "
        f"weight (out, in) = {tuple(weight_shape)}"
    )


def _linear_weight(xp, g, x):
    if len(x.shape) == 2:
        return xp.matmul(g.T, x)
    rows = math.prod(x.shape[:-1])
    return xp.matmul(xp.reshape(g, (rows, g.shape[-1])).T, xp.reshape(x, (rows, x.shape[-1])))


def _linear_vmap(call, batched, x, weight, bias):
    x_shape, weight_shape, bias_shape = shapes_of_examples(batched, (x, weight, bias))
    if len(weight_shape) != 2 or not x_shape or x_shape[-1] != weight_shape[1]:
        raise ValueError(_shape_error(x_shape, weight_shape))
    if bias is not None and bias_shape != weight_shape[:1]:
        raise ValueError(f"bias must have shape {weight_shape[:1]}, not {bias_shape}")
    if batched[1] and len(x_shape) == 1:
        out = matmul_vmap(matmul, (True, batched[0]), weight, x)
    elif batched[1]:
        out = matmul_vmap(matmul, (batched[0], True), x, matrix_transpose(weight))
    else:  # a single product with the rows of all examples
        rows = reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
        out = call(rows, weight, None if batched[2] else bias)
        out = reshape(out, (*x.shape[:-1], weight.shape[0]))
        if bias is None or not batched[2]:
            return out
    if bias is None:
        return out
    return add(*aligned((batched[0] or batched[1], batched[2]), (out, bias)))


linear.vjp(
    x=lambda xp, g, weight: xp.matmul(g, weight),
    weight=_linear_weight,
    bias=lambda xp, g: g,  # the sweep sums g over the rows
).jvp("x", "weight", bias=lambda xp, t: t).vmap(_linear_vmap)


# The activations of `dense`, whose rules keep only their results.
_ACTIVATIONS = {call.op.name: call.op for call in (relu, sigmoid, tanh)}


@op(discards=True)
def dense(xp, x, weight, bias=None, /, *, activation):
    """A fused layer, ``activation(linear(x, weight, bias))``.

    The graph keeps its result, but not that of `linear`.

    x, weight, bias: as for `linear`.
    activation: ``"relu"``, ``"sigmoid"`` or ``"tanh"``.
    """
    one_of("activation", activation, _ACTIVATIONS)
    return _ACTIVATIONS[activation].forward(xp, linear.op.forward(xp, x, weight, bias))


def _through_activation(xp, g, out, activation):
    """``g`` times the derivative of the activation, for cotangents as for tangents."""
    return _ACTIVATIONS[activation].rules["x"](xp, g, out)


def _dense_vjp(xp, g, x, weight, out, activation, wanted):
    g = _through_activation(xp, g, out, activation)
    return (
        xp.matmul(g, weight) if wanted[0] else None,
        _linear_weight(xp, g, x) if wanted[1] else None,
        g,  # for the bias; the sweep sums g over the rows
    )


def _dense_vmap(call, batched, x, weight, bias, *, activation):
    return _ACTIVATIONS[activation].call(_linear_vmap(linear, batched, x, weight, bias))


dense.vjp(joint=_dense_vjp, keep_for={"x": "weight", "weight": "x"}).jvp(
    x=lambda xp, t, weight, out, activation: _through_activation(
        xp, xp.matmul(t, weight.T), out, activation
    ),
    weight=lambda xp, t, x, out, activation: _through_activation(
        xp, xp.matmul(x, t.T), out, activation
    ),
    bias=_through_activation,
).vmap(_dense_vmap)


def _reduce(xp, losses, reduction, axis=None):
    if reduction == "mean":
        return xp.mean(losses, axis=axis)
    if reduction == "sum":
        return xp.sum(losses, axis=axis)
    one_of("reduction", reduction, ("mean", "sum", "none"))
    return losses


def _reduce_each_example(losses, reduction):
    """`_reduce` for each example in `vmap`."""
    axes = tuple(range(1, len(losses.shape)))
    if reduction in ("mean", "sum") and not axes:
        return losses
    return _reduce(calls.namespace, losses, reduction, axes)


@op(integer=("target",))
def cross_entropy(xp, logits, target, /, *, reduction="mean", ignore_index=-100):
    """Negative log-likelihood of class labels under ``softmax(logits)``.

    logits: ``(n, classes)`` or ``(classes,)``, floating.
    target: ``(n,)`` or ``()``, integer labels in ``[0, classes)``, or ``ignore_index``.
    reduction: ``"mean"`` or ``"sum"`` of the losses, or ``"none"``.
    ignore_index: a label whose loss is 0 and does not count in the mean, which is nan if no other
        label is there.
    """
    if len(logits.shape) not in (1, 2) or target.shape != logits.shape[:-1]:
        remedy = ": a column of labels needs reshape(-1), and one-hot labels need argmax(axis=1)"
        raise ValueError(
            f"logits must have shape (n, classes) and target, the labels, shape (n,), not "
            f"{logits.shape} and {target.shape}{remedy * (len(target.shape) > 1)}"
        )
    if not xp.isdtype(target.dtype, "integral"):
        raise TypeError("target must be integer labels")
    counted, target = _counted(xp, target, ignore_index)
    shifted = logits - xp.max(logits, axis=-1, keepdims=True)
    losses = xp.log(xp.sum(xp.exp(shifted), axis=-1)) - xp.pick(shifted, target)
    losses = xp.where(counted, losses, 0.0)
    if reduction == "mean":  # a quotient of means, because in float16 the sums could overflow
        return xp.mean(losses) / xp.mean(xp.astype(counted, losses.dtype))
    return _reduce(xp, losses, reduction)


def _counted(xp, target, ignore_index):
    """Which labels count, and the labels with 0 in place of the others."""
    target = xp.astype(target, xp.int64, copy=False)  # an unsigned dtype has no -100
    counted = target != index(ignore_index)
    return counted, xp.where(counted, target, 0)


def _cross_entropy_vjp(xp, g, logits, target, reduction, ignore_index):
    weights, slopes = _cross_entropy_slopes(xp, logits, target, reduction, ignore_index)
    return xp.expand_dims(weights * g, axis=-1) * slopes


def _cross_entropy_jvp(xp, t, logits, target, reduction, ignore_index):
    weights, slopes = _cross_entropy_slopes(xp, logits, target, reduction, ignore_index)
    t = weights * xp.sum(slopes * t, axis=-1)
    return t if reduction == "none" else xp.sum(t)


def _cross_entropy_slopes(xp, logits, target, reduction, ignore_index):
    """Each loss's weight in the result, and the losses' slopes: softmax minus 1 at the target."""
    counted, target = _counted(xp, target, ignore_index)
    weights = xp.astype(counted, logits.dtype)
    if reduction == "mean":
        weights = weights / xp.maximum(xp.sum(weights), 1.0)
    p = xp.exp(logits - xp.max(logits, axis=-1, keepdims=True))
    p = p / xp.sum(p, axis=-1, keepdims=True)
    return weights, p - xp.astype(xp.one_hot(target, logits.shape[-1]), p.dtype)


def _cross_entropy_vmap(call, batched, logits, target, *, reduction, ignore_index):
    logits, target = equally(batched, (logits, target))
    if len(logits.shape) not in (2, 3) or target.shape != logits.shape[:-1]:
        raise ValueError("the shapes do not fit")
    rows = math.prod(target.shape)
    flat = reshape(logits, (rows, logits.shape[-1])), reshape(target, (rows,))
    losses = reshape(call(*flat, reduction="none", ignore_index=ignore_index), target.shape)
    if reduction != "mean":
        return _reduce_each_example(losses, reduction)
    xp = calls.namespace
    counted = xp.astype(xp.astype(target, xp.int64) != ignore_index, losses.dtype)
    return _reduce_each_example(losses, reduction) / _reduce_each_example(counted, reduction)


cross_entropy.vjp(logits=_cross_entropy_vjp).vmap(_cross_entropy_vmap)
cross_entropy.jvp(logits=_cross_entropy_jvp)


@op(integer=("target",), discards=True, vmap=vmap_unchanged)
def nll(xp, x, target, /):
    """``-x`` at the label: of log-probabilities, the negative log-likelihood of each label.

    x: ``(..., classes)``. target: ``(...)``, integer labels in ``[0, classes)``.

    Raises IndexError for a label that is not a class. On a GPU, where this check would have to wait
    for the device, such a label gives 0 instead.
    """
    if not x.shape or target.shape != x.shape[:-1]:
        raise ValueError("target, the labels, must have the shape of x without its last axis")
    if not xp.isdtype(target.dtype, "integral"):
        raise TypeError("target must be integer labels")
    return -xp.pick(x, target)


def _nll_vjp(xp, g, target, x_shape):
    return xp.where(xp.one_hot(target, x_shape[-1]), xp.expand_dims(-g, axis=-1), 0.0)


def _nll_jvp(xp, t, target, x_shape):
    return -xp.sum(xp.where(xp.one_hot(target, x_shape[-1]), t, 0.0), axis=-1)


nll.vjp(x=_nll_vjp).jvp(x=_nll_jvp)


@elementwise
def binary_cross_entropy(xp, x, target):
    """``-(target * log(x) + (1 - target) * log(1 - x))`` for probabilities ``x``.

    As in PyTorch, logarithms are at least -100 and the slope in ``x`` is at most 1e12 (in float16,
    16384), so that they are finite for a probability of 0 or 1. Outside ``[0, 1]`` they are nan.
    """
    of_0, of_1 = _log_probabilities(xp, x)
    return (target - 1) * of_0 - target * of_1


def _log_probabilities(xp, x):
    return xp.maximum(xp.log1p(-x), -100.0), xp.maximum(xp.log(x), -100.0)


def _binary_cross_entropy_x(xp, g, x, target):
    least = max(1e-12, float(xp.finfo(x.dtype).smallest_normal))
    return g * (x - target) / xp.maximum(x * (1 - x), least)


def _binary_cross_entropy_target(xp, g, x):
    of_0, of_1 = _log_probabilities(xp, x)
    return g * (of_0 - of_1)


binary_cross_entropy.vjp(x=_binary_cross_entropy_x, target=_binary_cross_entropy_target)


@elementwise
def binary_cross_entropy_with_logits(xp, x, target):
    """`binary_cross_entropy` of ``sigmoid(x)`` and ``target``, without overflow."""
    return xp.maximum(x, 0.0) - x * target + xp.log1p(xp.exp(-xp.abs(x)))


binary_cross_entropy_with_logits.vjp(
    x=lambda xp, g, x, target: g * (logistic(xp, x) - target), target=lambda xp, g, x: -g * x
)


@op
def mse(xp, x, target, /, *, reduction="mean"):
    """Squared error ``(x - target) ** 2`` of two arrays of the same shape; nothing is broadcast.

    reduction: ``"mean"`` or ``"sum"`` over all elements, or ``"none"``.
    """
    if x.shape != target.shape:
        shape = tuple(x.shape)
        same_size = math.prod(shape) == math.prod(target.shape)
        remedy = f"; target.reshape({shape}) would fit" if same_size else ""
        raise ValueError(
            f"input and target must have the same shape, but have {shape} and "
            f"{tuple(target.shape)}; nothing is broadcast{remedy}"
        )
    difference = x - target
    difference *= difference
    return _reduce(xp, difference, reduction)


def _mse_x(xp, g, x, target, reduction):
    count = math.prod(x.shape)
    scale = 2 / count if reduction == "mean" and count else 2
    return (x - target) * (g * scale)


def _mse_x_jvp(xp, t, x, target, reduction):
    slopes = 2 * (x - target) * t
    empty = reduction == "mean" and 0 in slopes.shape  # the mean of no tangents is 0
    return _reduce(xp, slopes, "sum" if empty else reduction)


mse.vjp(x=_mse_x, target=lambda xp, g, x, target, reduction: -_mse_x(xp, g, x, target, reduction))


def _mse_vmap(call, batched, x, target, *, reduction):
    return _reduce_each_example(call(*equally(batched, (x, target)), reduction="none"), reduction)


mse.jvp(
    x=_mse_x_jvp, target=lambda xp, t, x, target, reduction: _mse_x_jvp(xp, t, target, x, reduction)
).vmap(_mse_vmap)


@elementwise
def huber(xp, x, target, /, delta=1.0, *, divisor=1.0):
    """``(x - target) ** 2 / 2`` where the error is at most ``delta``, and linear beyond.

    The linear pieces are ``delta * (abs(x - target) - delta / 2)``. All is divided by ``divisor``.
    From Huber (1964).
    """
    error = x - target
    limited = xp.clip(error, -delta, delta)
    error = error - 0.5 * limited
    return (limited if divisor == 1 else limited / divisor) * error


def _huber_x(xp, g, x, target, delta, divisor):
    slope = xp.clip(x - target, -delta, delta)
    return g * (slope if divisor == 1 else slope / divisor)


def _huber_target(xp, g, x, target, delta, divisor):
    return -_huber_x(xp, g, x, target, delta, divisor)


huber.vjp(x=_huber_x, target=_huber_target)


@op(differentiable=False, vmap=vmap_unchanged)
def one_hot(xp, labels, /, n):
    """Bools ``(..., n)`` for labels ``(...)``, True at the label's position along the last axis.

    Raises TypeError for labels that are not integers, and IndexError for a label outside
    ``[0, n)``. On a GPU, where this check would have to wait for the device, such a label gives
    a row without True instead.
    """
    if not xp.isdtype(labels.dtype, "integral"):
        raise TypeError("labels must be integers")
    return xp.one_hot(labels, n)
