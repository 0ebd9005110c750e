"""Reference counting frees graphs of any depth, and a sweep frees values as it uses them."""

import gc
import weakref

import pytest
from samples import peak_of
from test_interrupts import leaf

import gpugrad as gg
from gpugrad._batched import BatchedTensor, Level
from gpugrad.autograd import grad
from gpugrad.autograd.graph import Leaf, Node

pytestmark = pytest.mark.usefixtures("no_collector")


def alive():
    return sum(type(x) in (Node, Leaf, gg.Tensor, BatchedTensor, Level) for x in gc.get_objects())


def some_of_everything(x):
    y = gg.exp(x) * x + x / 2
    first, *_ = gg.unstack(y)
    z = gg.concat([y, gg.stack([first, first])])
    z[0] = z[1] * 3
    z *= 2
    return (gg.softmax(z) * z).sum() + gg.max(z)


class TestNoCycles:
    @pytest.mark.parametrize("sweep", [None, {}, {"create_graph": True}], ids=str)
    def test_backward(self, sweep):
        before, x = alive(), leaf(1.0, 2.0, 3.0)
        y = some_of_everything(x)
        y.retain_grad()
        hooks = [lambda g: None]
        y.register_hook(hooks[0])
        hook = weakref.ref(hooks.pop())
        if sweep is not None:
            y.backward(**sweep)
            assert x.grad.requires_grad is bool(sweep)
        del x, y
        assert (alive(), hook()) == (before, None)

    def test_after_errors(self):
        x, counts = leaf(1.0, 2.0), []
        for _ in range(2):
            y = (x * x).sum()
            y.backward()
            with pytest.raises(RuntimeError):
                y.backward()
            with pytest.raises(ValueError, match="add"):
                x + gg.ones(3)
            del y
            gc.collect()  # tracebacks contain cycles themselves
            counts.append(alive())
            x.grad = None
        assert counts[0] == counts[1]


class TestFreed:
    def test_saved_values_are_freed_as_they_are_used(self):
        seen, references = [], []

        probe = gg.op(lambda xp, x: x * 1)
        probe.vjp(x=lambda xp, g: seen.append([r() is None for r in references]) or g)
        x = leaf(1.0, 2.0)
        a = gg.exp(probe(x))  # exp saves its output
        b = gg.exp(a)
        references += [weakref.ref(y.array) for y in (a, b)]
        c = b * 3
        unsaved, c = weakref.ref(c.array), (c + 1).sum()
        del a, b
        assert [r() is None for r in (*references, unsaved)] == [False, False, True]
        c.backward()
        assert seen == [[True, True]]

    def test_peak_of_a_sweep(self):
        """A sweep frees cotangents as it uses them: in a chain it needs a few, not all."""
        n = 100_000
        y = x = gg.zeros(n, dtype=gg.float64, requires_grad=True)
        for _ in range(50):
            y = y + 1.0
        assert peak_of(y.sum().backward) < 5 * 8 * n
        assert x.grad is not None


@pytest.mark.parametrize("create_graph", [False, True])
def test_deep_chain_of_shared_nodes(create_graph):
    before = alive()
    y = x = leaf(1.0)
    for _ in range(10_000):
        y = (y + y) * 0.5
    (g,) = grad(y.sum(), x, create_graph=create_graph)
    assert g.tolist() == [1]
    del x, y, g
    assert alive() == before
