"""Threads with separate graphs, shared leaves, and a grad mode for each thread."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest

import gpugrad as gg

THREADS = 8


def in_threads(function):
    """Call ``function(i)`` in several threads that start together; return the results."""
    barrier = threading.Barrier(THREADS)
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda i: (barrier.wait(), function(i))[1], range(THREADS)))


def loss_of(w, i):
    y = gg.relu(gg.tensor(np.random.default_rng(i).normal(size=(16, 4))) @ w)
    for _ in range(10):
        y = y + gg.tanh(y) * 0.1
    return (y * y).mean()


def weights():
    return gg.tensor(np.random.default_rng(0).normal(size=(4, 3)), requires_grad=True)


@pytest.mark.parametrize("create_graph", [False, True])
def test_shared_leaves_and_graphs(create_graph):
    w, again = weights(), weights()

    def accumulate(i):
        for _ in range(20):
            # Integers, whose sum does not depend on the order.
            (w * float(i + 1)).sum().backward(create_graph=create_graph)

    in_threads(accumulate)
    assert w.grad.tolist() == [[20.0 * sum(range(1, THREADS + 1))] * 3] * 4
    for i in range(THREADS):
        (loss_of(again, i) + loss_of(again, 0)).backward()
    w.grad = None
    shared = loss_of(w, 0)
    in_threads(lambda i: loss_of(w, i).backward())
    in_threads(lambda i: shared.backward(retain_graph=True))
    np.testing.assert_allclose(w.grad.numpy(), again.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("make, state", [
    (gg.no_grad, gg.is_grad_enabled),
    (lambda: gg.amp.autocast(dtype="float16"), gg.amp.is_autocast_enabled),
])  # fmt: skip
def test_threads_share_a_block(make, state):
    block, inside = make(), threading.Barrier(THREADS)

    def is_as_before(i):
        with make() if i % 2 else nullcontext():
            before = state()
            with block:
                inside.wait()
            return state() == before

    assert all(in_threads(is_as_before))


def test_each_thread_has_its_own_grad_mode():
    def modes(i):
        seen = [gg.is_grad_enabled()]
        for _ in range(200):
            with gg.set_grad_enabled(i % 2 == 0):
                seen.append((weights() * 2).requires_grad)
        return [*seen, gg.is_grad_enabled()]

    with gg.no_grad():  # in this thread only
        results = in_threads(modes)
        assert not gg.is_grad_enabled()
    for i, seen in enumerate(results):
        assert seen == [True, *[i % 2 == 0] * 200, True]


def test_grad_mode_of_threads_that_have_ended():
    in_threads(lambda i: gg.set_grad_enabled(False))
    assert gg.is_grad_enabled()
    assert (weights() * 2).requires_grad
    with gg.no_grad():
        assert not (weights() * 2).requires_grad


def test_one_shared_pullback():
    """Each sweep through a graph that was recorded inside vmap enters its level again."""
    rows = gg.tensor(np.random.default_rng(0).normal(size=(4, 3)))

    def f(x):
        return gg.vmap(lambda row: gg.checkpoint(lambda t: gg.sin(t) * row, x))(rows)

    _, pullback = gg.vjp(f, rows[0])
    _, push = gg.linearize(f, rows[0])

    def several(_):
        return [(pullback(rows)[0].tolist(), push(rows[1]).tolist()) for _ in range(20)]

    assert in_threads(several) == [several(0)] * THREADS
