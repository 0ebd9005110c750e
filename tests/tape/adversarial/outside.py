"""Backward through the results of compiled functions, in all the ways in which it may go on."""

from functools import partial

import numpy as np

import gpugrad as gg
from gpugrad import nn, optim

from .harness import SHAPE, error_of, scenario


def steps(w, x):
    w.grad = gg.ones(w.shape)
    optim.SGD([w], lr=0.1).step()
    w.grad = None


def loads(w, x):
    """Into another parameter, which has the same memory."""
    holder = nn.ParameterList([nn.Parameter(w.detach())])
    holder.load_state_dict({"0": np.full(w.shape, 0.5, np.float32)})


WRITES = (
    lambda w, x: None, steps, loads, lambda w, x: w.detach().__imul__(2),
    lambda w, x: x.__imul__(2), lambda w, x: w.array.fill(2), lambda w, x: x.array.fill(2),
)  # fmt: skip


def writes_between(w, f, x, write):
    y = f(x)
    write(w, x)
    return error_of(y.backward)


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_is_saved(w):
    return lambda x: (w * w * x).sum(), partial(writes_between, w)


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_nothing_needs(w):
    return lambda x: (w + x).sum() + w.mean(), partial(writes_between, w)


@scenario(SHAPE, choices=WRITES)
def writes_before_backward_to_what_was_copied(w):
    def f(x):
        return (w * gg.asarray(x, copy=True) + gg.asarray(w.detach(), copy=True) * w).sum()

    return f, partial(writes_between, w)


@scenario(SHAPE, choices=(False, True))
def second_derivatives(w):
    def play(f, x, retain):
        x = x.requires_grad_()
        y = f(x)
        first = gg.autograd.grad([y], [w, x], create_graph=True)
        second = gg.autograd.grad([sum([(g * g).sum() for g in first])], [w, x], create_graph=True)
        sum([g.sum() for g in second]).backward(retain_graph=retain)
        return x.grad, error_of(y.backward), [g.detach() for g in (*first, *second)]

    return lambda x: (gg.tanh(w @ x) * x).sum(), play


@scenario(SHAPE, SHAPE, choices=range(5))
def gradients_with_respect_to_some_inputs(w, v):
    def play(f, x, k):
        y, inputs = f(x.requires_grad_()), [[w], [v], [x, v], [w, x], [w, v, x]][k]
        first = gg.autograd.grad([y], inputs)
        rest = [t for t in (w, v, x) if not any(t is i for i in inputs)] or [w]
        return first, error_of(gg.autograd.grad, [y], rest), error_of(y.backward)

    return lambda x: (gg.exp(w) * x + gg.sin(v)).sum(), play


@scenario(SHAPE)
def gradients_with_respect_to_results(w):
    def f(x):
        h = gg.exp(w * x)
        y = h * h
        return y.sum(), h, y

    def play(f, x, _):
        loss, h, y = f(x)
        found = gg.autograd.grad([loss], [y, h, w], retain_graph=True)
        return found, gg.autograd.grad([y], [h], [x], retain_graph=True), error_of(loss.backward)

    return f, play


@scenario(SHAPE, choices=range(4))
def the_same_tensor_twice(w):
    def f(x):
        y = gg.exp(w) * x
        return y, y, [y, (y,)]

    def play(f, x, k):
        a, b, (c, (d,)) = f(x)
        seen = []
        (a, b, c, d)[k].register_hook(lambda g: seen.append(g * 1))
        (a.sum() + (b * b).sum()).backward(retain_graph=True)
        c.sum().backward()
        return [y is a for y in (b, c, d)], seen, error_of(d.sum().backward)

    return f, play


@scenario(SHAPE, choices=(False, True))
def results_that_are_inputs(w):
    def play(f, x, requires_grad):
        x = x.requires_grad_(requires_grad)
        y, given, own = f(x)
        (y + (given * own).sum()).backward()
        return given is x, own is w, x.grad

    return lambda x: ((w * x).sum(), x, w), play


@scenario(SHAPE, choices=range(4))
def hooks_on_results_of_which_others_are_made(w):
    def f(x):
        h = gg.exp(w * x)
        return h, (h * h).sum(), gg.sin(h).sum()

    def play(f, x, k):
        h, a, b = f(x)
        seen = []
        if k != 3:
            (h, a, b)[k].register_hook(lambda g: seen.append(g * 1) or g * 3)
        (a + b + h.sum()).backward(retain_graph=k % 2)
        return seen, error_of(a.backward)

    return f, play


@scenario(SHAPE, SHAPE)
def a_function_that_goes_backward_itself(w, v):
    def f(x):
        first = (gg.exp(w) * x).sum()
        first.backward()
        h = gg.sin(v) * w
        return first, (h * x).sum() + w.sum(), h, w.sum() + first

    def play(f, x, _):
        first, second, h, mixed = f(x)
        found = error_of(first.backward), error_of(mixed.backward)
        second.backward()
        return found, error_of(h.sum().backward), error_of(gg.autograd.grad, [mixed], [v])

    return f, play


@scenario(SHAPE)
def a_result_that_retains_its_gradient(w):
    def f(x):
        y = w * x
        y.retain_grad()
        return y

    def play(f, x, _):
        y = f(x)
        (y * y).sum().backward()
        return y.grad

    return f, play
