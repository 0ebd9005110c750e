"""Reference counting frees graphs of any depth, and a sweep frees values as it uses them."""

import gc
import time
import weakref

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.autograd import grad
from gpugrad.autograd.graph import Leaf, Node


@pytest.fixture(autouse=True)
def no_collector():
    """Switch the garbage collector off, so that reference cycles would stay alive."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive():
    return sum(type(x) in (Node, Leaf, gg.Tensor) for x in gc.get_objects())


def leaf(*values):
    return gg.tensor(values, dtype=gg.float64, requires_grad=True)


def some_of_everything(x):
    y = gg.exp(x) * x + x / 2
    first, *_ = gg.unstack(y)
    z = gg.concat([y, gg.stack([first, first])])
    z[0] = z[1] * 3
    z *= 2
    return (gg.softmax(z) * z).sum() + gg.max(z)


class TestNoCycles:
    def test_forward_only(self):
        before = alive()
        x = leaf(1.0, 2.0, 3.0)
        y = some_of_everything(x)
        del x, y
        assert alive() == before

    @pytest.mark.parametrize("create_graph", [False, True])
    def test_backward(self, create_graph):
        before = alive()
        x = leaf(1.0, 2.0, 3.0)
        y = some_of_everything(x)
        y.retain_grad()
        y.backward(create_graph=create_graph)
        assert x.grad.requires_grad is create_graph
        del x, y
        assert alive() == before

    def test_gradients_of_gradients(self):
        before = alive()
        x = leaf(1.0, 2.0, 3.0)
        y = some_of_everything(x)
        for _ in range(2):
            (g,) = grad(y, x, create_graph=True)
            y = (g * g).sum()
        y.backward(create_graph=True)
        x.grad.sum().backward()
        del x, y, g
        assert alive() == before

    def test_training_loop_holds_nothing(self):
        w = leaf(1.0, 2.0)
        counts = []
        for _ in range(5):
            w.grad = None
            loss = (w * w).sum()
            loss.backward()
            with gg.no_grad():
                w -= 0.1 * w.grad
            counts.append(alive())
        assert counts[1] == counts[-1]

    def test_after_errors(self):
        x = leaf(1.0, 2.0)

        def attempt():
            y = (x * x).sum()
            y.backward()
            with pytest.raises(RuntimeError):
                y.backward()
            with pytest.raises(ValueError, match="add"):
                x + gg.ones(3)

        attempt()
        gc.collect()
        before = alive()
        x.grad = None
        attempt()
        gc.collect()  # tracebacks contain cycles themselves
        assert alive() == before


class TestFreed:
    def test_intermediate_results_are_not_kept(self):
        x = leaf(1.0, 2.0)
        y = x * 3
        array = weakref.ref(y.array)
        z = y + 1  # saves nothing
        del y
        assert array() is None
        z.sum().backward()

    def test_saved_values_are_freed_as_they_are_used(self):
        seen, references = [], []

        @gg.op
        def probe(xp, x):
            return x * 1

        probe.vjp(x=lambda xp, g: seen.append([r() is None for r in references]) or g)
        x = leaf(1.0, 2.0)
        a = gg.exp(probe(x))  # exp saves its output
        b = gg.exp(a)
        references += [weakref.ref(a.array), weakref.ref(b.array)]
        c = b.sum()
        del a, b
        assert [r() is None for r in references] == [False, False]
        c.backward()
        assert seen == [[True, True]]

    def test_saved_values_stay_under_retain_graph(self):
        x = leaf(1.0, 2.0)
        y = gg.exp(x)
        array = weakref.ref(y.array)
        z = y.sum()
        del y
        z.backward(retain_graph=True)
        assert array() is not None
        z.backward()
        assert array() is None

    def test_graph_of_a_retained_gradient(self):
        x = leaf(1.0, 2.0)
        (x * x).sum().backward()
        assert x.grad.node is None

    def test_peak_of_a_sweep(self):
        """A sweep frees cotangents as it uses them: in a chain it needs a few, not all."""
        import tracemalloc

        n, depth = 100_000, 50
        y = x = gg.zeros(n, dtype=gg.float64, requires_grad=True)
        for _ in range(depth):
            y = y + 1.0
        y = y.sum()
        tracemalloc.start()
        y.backward()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert x.grad is not None
        assert peak < 5 * 8 * n


@pytest.mark.slow
@pytest.mark.parametrize("depth", [200_000, 1_000_000])
def test_deep_chain(depth):
    start = time.process_time()
    before = alive()
    x = leaf(1.0)
    y = x
    for _ in range(depth):
        y = y * 1.0
    y.backward(gg.ones(1, dtype=gg.float64))
    assert x.grad.item() == 1
    del y
    assert alive() == before + 3  # x, its leaf and its gradient
    assert time.process_time() - start < 60


def test_deep_chain_of_shared_nodes():
    x = leaf(1.0)
    y = x
    for _ in range(50_000):
        y = (y + y) * 0.5
    y.sum().backward()
    assert x.grad.item() == 1


def test_deep_chain_is_destroyed_without_a_sweep():
    before = alive()
    y = leaf(1.0)
    for _ in range(200_000):
        y = y * 1.0
    del y
    assert alive() == before


def test_deep_chain_under_create_graph():
    before = alive()
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y * 1.0
    (g,) = grad(y.sum(), x, create_graph=True)
    assert np.all(g.detach().numpy() == 1)
    del x, y, g
    assert alive() == before
