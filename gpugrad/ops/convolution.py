"""Convolution and its gradients, which are three ops that differentiate to each other.

``sum(g * convolution(x, weight))`` is linear in ``g``, in ``x`` and in ``weight``, and each op is
its gradient by one of the three. The gradient by ``x`` is the transposed convolution.
"""

from .._batched import aligned, equally, shapes_of_examples
from ..backends import check_convolution
from .by_name import library_function
from .elementwise import add
from .manipulation import broadcast_to, moveaxis, reshape
from .reductions import sum as _sum


@library_function()
def convolution(x, weight, bias=None, /, *, stride=1, padding=0, dilation=1, groups=1):
    """The sum of products of each window of ``x`` with each filter, plus ``bias``.

    x: ``(n, channels, *lengths)``, with any number of axes for windows to slide over.
    weight: the filters, ``(out, channels / groups, *size)``.
    bias: ``(out,)``; by default 0.
    stride, padding, dilation: see `sliding_windows`.
    groups: into how many parts the channels are divided; a filter sees the channels of its part.

    The result is ``(n, out, *counts)``. As usual in neural networks, filters are not reversed.
    Raises ValueError if the shapes do not fit, or a filter is longer than the padded input.
    """


def _options(stride, padding, dilation, groups):
    return {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}


def _by_input(xp, g, weight, x_shape, stride, padding, dilation, groups):
    options = _options(stride, padding, dilation, groups)
    return xp.convolution_input(g, weight, shape=tuple(x_shape[2:]), **options)


def _by_weight(xp, g, x, weight_shape, stride, padding, dilation, groups):
    options = _options(stride, padding, dilation, groups)
    return xp.convolution_weight(g, x, shape=tuple(weight_shape[2:]), **options)


def _convolution_vjp(
    xp, g, x, weight, x_shape, weight_shape, stride, padding, dilation, groups, wanted
):
    static = stride, padding, dilation, groups
    return (
        _by_input(xp, g, weight, x_shape, *static) if wanted[0] else None,
        _by_weight(xp, g, x, weight_shape, *static) if wanted[1] else None,
        xp.sum(g, axis=(0, *range(2, len(x_shape)))) if any(wanted[2:]) else None,
    )


def _linear_in_x(xp, t, weight, stride, padding, dilation, groups):
    return xp.convolution(t, weight, **_options(stride, padding, dilation, groups))


def _linear_in_weight(xp, t, x, stride, padding, dilation, groups):
    return xp.convolution(x, t, **_options(stride, padding, dilation, groups))


def _merged(x, axis=0):
    """``x`` with the axes ``axis`` and ``axis + 1`` merged into one."""
    return reshape(x, (*x.shape[:axis], x.shape[axis] * x.shape[axis + 1], *x.shape[axis + 2 :]))


def _with_examples_as_groups(call, batched, operands, axes, axis, groups, static):
    """Call an op once for all examples, with the channels of each as groups of their own.

    axes: for each operand, which axis of an example has the channels; ``axis`` is that of the
        result.
    """
    operands = equally(batched, operands)
    size = operands[0].shape[0]
    if not size:  # no groups either; a call on zeros has the right shape
        out = call(*[_sum(x, axis=0) for x in operands], groups=groups, **static)
        return broadcast_to(out, (0, *out.shape))
    merged = [_merged(moveaxis(x, 0, a), a) for x, a in zip(operands, axes, strict=True)]
    out = call(*merged, groups=groups * size, **static)
    shape = out.shape
    out = reshape(out, (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))
    return moveaxis(out, axis, 0)


def _convolution_vmap(call, batched, x, weight, bias, *, groups, **static):
    shapes = shapes_of_examples(batched, (x, weight, bias))
    check_convolution(*shapes, groups)
    own = bias if bias is not None and not batched[2] else None
    if batched[1]:
        out = _with_examples_as_groups(call, batched[:2], (x, weight), (1, 0), 1, groups, static)
    elif batched[0]:
        out = call(_merged(x), weight, own, groups=groups, **static)
        out = reshape(out, (*x.shape[:2], *out.shape[1:]))
    else:
        out = call(x, weight, groups=groups, **static)
    if bias is None or (own is not None and not batched[1]):
        return out
    bias = reshape(bias, (*bias.shape, *[1] * (len(shapes[0]) - 2)))
    return add(*aligned((batched[0] or batched[1], batched[2]), (out, bias)))


convolution.vjp(joint=_convolution_vjp, keep_for={"x": "weight", "weight": "x"}).jvp(
    "x", "weight", bias=lambda xp, t, x_shape: xp.reshape(t, (-1,) + (1,) * (len(x_shape) - 2))
).vmap(_convolution_vmap)


@library_function()
def convolution_input(cotangent, weight, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `convolution` by its input, also known as the transposed convolution.

    cotangent: ``(n, out, *counts)``. weight: ``(out, channels / groups, *size)``.
    shape: the lengths of the input without its first two axes, over which ``counts`` windows slide.

    The result is ``(n, channels, *shape)``. Raises ValueError if the shapes do not fit.
    """


def _convolution_input_vmap(call, batched, cotangent, weight, *, groups, **static):
    if not batched[1]:
        out = call(_merged(cotangent), weight, groups=groups, **static)
        return reshape(out, (*cotangent.shape[:2], *out.shape[1:]))
    return _with_examples_as_groups(call, batched, (cotangent, weight), (1, 0), 1, groups, static)


convolution_input.vjp(
    cotangent=_linear_in_x,
    weight=lambda xp, g, cotangent, weight_shape, stride, padding, dilation, groups: _by_weight(
        xp, cotangent, g, weight_shape, stride, padding, dilation, groups
    ),
).vmap(_convolution_input_vmap)


@library_function()
def convolution_weight(cotangent, x, /, *, shape, stride=1, padding=0, dilation=1, groups=1):
    """The gradient of `convolution` by its weight.

    cotangent: ``(n, out, *counts)``. x: ``(n, channels, *lengths)``.
    shape: the lengths ``size`` of a filter without its first two axes.

    The result is ``(out, channels / groups, *size)``. Raises ValueError if the shapes do not fit.
    """


def _convolution_weight_vmap(call, batched, cotangent, x, *, groups, **static):
    return _with_examples_as_groups(call, batched, (cotangent, x), (1, 1), 0, groups, static)


convolution_weight.vjp(
    cotangent=_linear_in_weight,
    x=lambda xp, g, cotangent, x_shape, stride, padding, dilation, groups: _by_input(
        xp, cotangent, g, x_shape, stride, padding, dilation, groups
    ),
).vmap(_convolution_weight_vmap)
