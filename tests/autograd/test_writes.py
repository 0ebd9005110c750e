"""Optimizers and `load_state_dict` overwrite values that a graph may have kept.

Backward through such a graph gives the derivative at the old values or raises an error; it never
uses the new ones silently.
"""

import gc
import threading
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from libraries import each_library
from test_custom_vjp import with_rule
from test_interrupts import leaf

import gpugrad as gg
from gpugrad import nn, optim
from gpugrad.autograd.graph import writes

OVERWRITTEN = "overwritten in place"
overwritten = partial(pytest.raises, RuntimeError, match=OVERWRITTEN)


def step(*parameters):
    for p in parameters:
        p.grad = gg.ones_like(p.detach())
    optim.SGD(parameters, lr=1.0).step()


def in_a_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_a_vjp_that_steps_while_the_sweep_is_under_way():
    x, p = leaf(1, 2), leaf(3, 4)
    f = with_rule(lambda x: x + 0, lambda x: (x + 0, None), lambda _, g: step(p) or (g,))
    with overwritten():
        f(x * p).sum().backward()
    assert x.grad is None
    x = x.detach()
    with overwritten():
        gg.jvp(lambda x: f(x) * p.detach(), (x,), (x,))


class TestTheRecordOfAWrite:
    """It lasts as long as the memory, whatever happens to the parameter."""

    @pytest.mark.parametrize("read", [lambda p: p, lambda p: p * 2, lambda p: p[:] + 0])
    @pytest.mark.parametrize("gone", [False, True])
    def test_in_a_checkpoint(self, read, gone):
        x, p = leaf(1, 2), leaf(3, 4)
        constant = p.detach()
        y = gg.checkpoint(lambda x: gg.exp(x + read(constant)), x).sum()
        step(p)
        p.requires_grad_(False)
        if gone:
            del p
            gc.collect()
        with overwritten():
            y.backward()
        assert x.grad is None

    @pytest.mark.parametrize("library", each_library())
    def test_in_a_checkpoint_whose_results_lie_where_others_were(self, library):
        def parameter():
            return library.tensor(np.arange(500.0), requires_grad=True)

        x = parameter()
        y = gg.checkpoint(lambda x: (x * 2 * x.detach()).sum(), x)
        for _ in range(5):
            parameters = [parameter() for _ in range(5)]
            for p in parameters:
                step(p)
            del parameters, p
        y.backward()
        assert x.grad.tolist() == [*range(0, 1000, 2)]

    @pytest.mark.parametrize("library", ["numpy", "torch", "array_api_strict"])
    def test_is_forgotten_with_the_memory(self, library):
        xp = pytest.importorskip(library)
        parameters = [gg.asarray(xp.asarray([float(i)])).requires_grad_() for i in range(10)]
        for p in parameters:
            step(p)
        places = {writes.place(p.array)[0] for p in parameters}
        views = [p[:] for p in parameters]
        del parameters, p
        assert len(places & writes._last_writes.keys() & writes._owners.keys()) == 10
        del views
        assert places.isdisjoint([*writes._last_writes, *writes._owners])


class TestCustomVJP:
    """What ``fwd`` returns for ``bwd`` is checked like what ops keep."""

    @pytest.mark.parametrize("raw", [False, True])
    def test_residuals(self, raw):
        x, p = leaf(1, 2), leaf(3, 4)
        residuals = {"scale": [p.array if raw else p.detach()]}

        def f(x):
            return x * 3

        f = with_rule(f, lambda x: (x * 3, residuals), lambda r, g: (g * r["scale"][0],))
        y = f(x).sum()
        step(p)
        with pytest.raises(RuntimeError, match=f"^f: .*{OVERWRITTEN}"):
            y.backward()

    def test_a_second_run(self):
        x, p = leaf(1, 2), leaf(3, 4)
        k = p.detach()
        f = with_rule(lambda x: k * x**2, lambda x: (k * x**2, (k + k) * x), lambda r, g: (g * r,))
        y = f(x).sum()
        step(p)
        with overwritten():
            gg.autograd.grad(y, x, create_graph=True)

    def test_an_optimizer_inside(self):
        def solution():
            inner = leaf(0, 0)
            step(inner)
            return inner.detach()

        f = with_rule(lambda x: x * 3, lambda x: (x * 3, {"scale": [solution()]}),
                      lambda r, g: (g * r["scale"][0],))  # fmt: skip
        for y in f, lambda x: gg.checkpoint(lambda x: x * solution(), x):
            x = leaf(1, 2)
            y(x).sum().backward()
            assert x.grad.tolist() == [-1, -1]

    def test_what_bwd_reads_by_a_closure(self):
        x, p, other = leaf(1, 2), leaf(3, 4), leaf(5, 6)
        constant = p.detach()
        f = with_rule(lambda x: x * constant, lambda x: (x * constant, None),
                      lambda r, g: (g * constant,))  # fmt: skip
        y = f(x).sum()
        step(other)
        y.backward(retain_graph=True)
        assert x.grad.tolist() == [3, 4]
        step(p)
        with pytest.raises(RuntimeError, match=f"^f?.*<lambda>: .*{OVERWRITTEN}"):
            y.backward()

    def test_residuals_that_the_program_assigns_to(self):
        f = with_rule(lambda x, scale: x * scale, lambda x, scale: (x * scale, [scale]),
                      lambda scale, r, g: (g * scale * r[0],), nondiff_argnums=1)  # fmt: skip
        x, scale = leaf(1, 2), gg.tensor([3.0, 4.0], dtype="float64")
        y = f(x, scale).sum()
        scale += 10
        y.backward()
        assert x.grad.tolist() == [9, 16]

    def test_residuals_that_the_vjp_assigns_to(self):
        def backward(r, g):
            r *= g
            return (r,)

        f = with_rule(lambda x: x * 3, lambda x: (x * 3, gg.full_like(x, 3.0)), backward)
        x = leaf(1, 2)
        y = (f(x) * 2).sum()
        for _ in range(2):
            (g,) = gg.autograd.grad(y, x, retain_graph=True)
            assert g.tolist() == [6, 6]


# Some overlap, and one contains others.
RANGES = (10, 5), (12, 8), (100, 300), (110, 1), (350, 100), (600, 0), (700, 1), (703, 1), (990, 10)


class TestSharedMemory:
    """Arrays over the same memory count as one, wherever in it they start."""

    def check(self, kept, written):
        kept = gg.asarray(kept)
        y = (gg.ones_like(kept).requires_grad_() * kept).sum()
        step(gg.asarray(written).requires_grad_())
        gc.collect()
        with overwritten():
            y.backward()

    def test_of_numpy(self):
        memory = bytearray(np.array([1.0, 2.0, 3.0]).tobytes())
        self.check(np.frombuffer(memory), np.frombuffer(memory, offset=8))
        memory = np.arange(6.0)
        for kept in (memory[::-1], memory[::2], memory.reshape(2, 3).T, memory[4:1:-2]):
            self.check(kept, memory[3:5])

    def test_of_pytorch(self):
        torch, memory = pytest.importorskip("torch"), np.array([3.0, 4.0])
        self.check(memory, torch.from_numpy(memory))
        t = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
        for kept, written in [(t.numpy(), t[1:].numpy()), (t, t[1:].numpy()), (t.numpy(), t[1:])]:
            self.check(kept, written)

    def test_many_ranges(self):
        memory = np.arange(1000.0)
        parameters = [gg.asarray(memory[i : i + n]).requires_grad_() for i, n in RANGES]
        graphs = [
            (i, (leaf(1, 1, 1) * gg.asarray(memory[i : i + 3])).sum()) for i in range(0, 997, 2)
        ]
        step(*parameters)
        for i, y in graphs:
            written = any(n and j < i + 3 and i < j + n for j, n in RANGES)
            with overwritten() if written else nullcontext():
                y.backward()


@pytest.mark.parametrize("view", [
    lambda p: p[:], lambda p: p.reshape(2, 1), lambda p: p[...], lambda p: p.detach(), gg.asarray,
    gg.real, lambda p: gg.astype(p, p.dtype, copy=False),
])  # fmt: skip
def test_a_view_shows_what_is_written_and_a_copy_does_not(view):
    p = leaf(3, 4)
    with gg.no_grad():
        seen, kept = view(p), gg.asarray(view(p), copy=True)
    best = nn.ParameterList([nn.Parameter(p)]).state_dict()["0"]  # a copy, too
    step(p)
    assert seen.reshape(2).tolist() == [2, 3]
    assert kept.reshape(2).tolist() == best.tolist() == [3, 4]


class TestAnotherThread:
    """The record is made before the values change, and a node's order before they are read."""

    def test_beside_a_step(self):
        """Another thread records one graph and goes through another while the step is writing."""
        x, p, made = leaf(1, 2), leaf(3, 4), []
        old = (x * p).sum()

        class Halting(optim.SGD):
            def apply_single(self, array, grad, state, step, *hyper):
                in_a_thread(act)
                super().apply_single(array, grad, state, step, *hyper)

        def act():
            made.append((x * p).sum())
            with overwritten():
                old.backward()
            made.append(old)

        p.grad = gg.ones(2, dtype="float64")
        Halting([p], lr=1.0).step()
        assert len(made) == 2  # the other thread came to its end
        with overwritten():
            made[0].backward()

    def test_a_step_beside_a_forward(self):
        p = leaf(3, 4)

        @gg.autograd.op
        def slow(xp, x, w):
            out = x * w
            in_a_thread(lambda: step(p))
            return out

        slow.vjp(x=lambda xp, g, w: g * w, w=lambda xp, g, x: g * x)
        y = slow(leaf(1, 2), p.detach()).sum()
        with overwritten():
            y.backward()
