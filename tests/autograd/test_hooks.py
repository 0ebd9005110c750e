"""Hooks on gradients, on leaves and on modules."""

import copy
import gc
import pickle
import weakref
from collections import namedtuple
from functools import partial

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn


def leaf(*values, **keywords):
    return gg.tensor(list(values), requires_grad=True, **keywords)


class TestGradientHooks:
    def test_removal(self):
        x, layer, seen = leaf(1.0), nn.ReLU(), []
        first = x.register_hook(lambda g: seen.append(1))

        def once(g):
            seen.append(3)
            itself.remove()

        def once_forward(module, args, out):
            seen.append(0)
            forward.remove()

        with x.register_hook(lambda g: seen.append(2)) as second:
            itself = x.register_hook(once)
            forward = layer.register_forward_hook(once_forward)
            layer(x).sum().backward()
        layer(x).sum().backward()
        first.remove()
        first.remove()
        second.remove()
        layer(x).sum().backward()
        assert seen == [0, 1, 2, 3, 1]

    def test_stays_with_a_value_that_is_changed_in_place(self):
        x = leaf(2.0)
        y = x * 1.0
        seen = []
        y.register_hook(lambda g: seen.append(("before", g.item())))
        y.retain_grad()
        y *= 10
        y.register_hook(lambda g: seen.append(("after", g.item())))
        y[0] = y[0] * 3
        (y * 5).sum().backward()
        assert seen == [("after", 15.0), ("before", 150.0)]
        assert y.grad.tolist() == [5.0]
        assert x.grad.tolist() == [150.0]

    def test_invalid_results_of_hooks(self):
        for hook, message in (
            (lambda g: g.sum(), r"shape and device.* \(float32 \(2,\) on cpu\), not float32"),
            (lambda g: 2.0, "not 2.0"),
            (lambda g: g * 1j, "real if the gradient is"),
        ):
            x = leaf(1.0, 2.0)
            x.register_hook(hook)
            with pytest.raises(ValueError, match=message):
                (x * x).sum().backward()

    def test_in_another_width(self):
        x = leaf(1.0, dtype=gg.float16)
        x.register_hook(lambda g: g.to(gg.float64) / 3)
        (x * 3).sum().backward()
        assert x.grad.dtype == gg.float16
        assert x.grad.tolist() == [1.0]

    def test_on_tensors_without_gradient(self):
        for x in (gg.ones(2), leaf(1.0).detach(), gg.arange(3)):
            with pytest.raises(ValueError, match=r"register_hook: .*does not require grad"):
                x.register_hook(print)
        with pytest.raises(TypeError, match="must be a function, not a int"):
            leaf(1.0).register_hook(3)

    def test_hooks_are_freed_with_the_graph(self):
        def hook(g):
            return None

        gc.disable()
        try:
            alive = weakref.ref(hook)
            y = leaf(1.0) * 2
            y.register_hook(hook)
            del hook, y
            assert alive() is None
        finally:
            gc.enable()

    def test_as_in_pytorch(self):
        torch = pytest.importorskip("torch")
        results = []
        for library in (gg, torch):
            x = library.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True)
            log = []

            def note(g, log=log):
                log.append(g.tolist())

            values, vectors = library.linalg.eigh(x)
            if library is gg:  # PyTorch calls it with None
                vectors.register_hook(note)
            y = values * values
            y.register_hook(note)
            y.register_hook(lambda g: g * 2)
            y.retain_grad()
            z = y.exp().sum() * 1e-3 + y.sum()
            x.register_hook(note)
            x.register_hook(lambda g: g / 2)
            x.register_hook(note)
            x.register_post_accumulate_grad_hook(lambda x, note=note: note(x.grad))
            z.backward()
            results.append([*log, y.grad.tolist(), x.grad.tolist()])
        assert len(results[0]) == len(results[1])
        for ours, theirs in zip(*results, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4)


class TestLeafHooks:
    def test_after_accumulation(self):
        x, w = leaf(1.0), leaf(2.0)
        seen = []
        handle = x.register_post_accumulate_grad_hook(
            lambda x: seen.append((x.grad.item(), w.grad.item()))
        )
        (x * w).sum().backward()
        (x * w).sum().backward()
        gg.autograd.grad(x * w, [x])
        handle.remove()
        v = leaf(3.0)  # is reached first
        for p in (x, v):
            p.register_post_accumulate_grad_hook(lambda p: seen.append(p is v))
        (x * w * v).sum().backward()
        assert seen == [(2.0, 1.0), (4.0, 2.0), True, False]

    def test_on_results(self):
        where = "register_post_accumulate_grad_hook"
        with pytest.raises(ValueError, match=f"{where}: this tensor is a result of multiply"):
            (leaf(1.0) * 2).register_post_accumulate_grad_hook(print)
        with pytest.raises(ValueError, match=f"{where}: this tensor does not require grad"):
            gg.ones(2).register_post_accumulate_grad_hook(print)

    def test_move_with_the_parameter(self):
        model = nn.Linear(2, 1)
        seen = []
        model.weight.register_hook(lambda g: seen.append(str(g.dtype)))
        model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(str(p.grad.dtype)))
        model.to(gg.float64)
        model(gg.ones((1, 2), dtype=gg.float64)).sum().backward()
        assert seen == ["float64", "float64"]


def model():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


def pickled(module, protocol):
    return pickle.loads(pickle.dumps(module, protocol))


class TestForwardHooks:
    def test_see_and_replace_inputs_and_outputs(self):
        layer, seen = nn.ReLU(), []
        x = gg.tensor([-1.0, 2.0])
        layer.register_forward_pre_hook(lambda m, args: seen.append((m, args[0].tolist())))
        layer.register_forward_pre_hook(lambda m, args: -args[0])
        layer.register_forward_pre_hook(lambda m, args: (args[0] * 3,))
        layer.register_forward_hook(
            lambda m, args, out: seen.append((args[0].tolist(), out.tolist()))
        )
        layer.register_forward_hook(lambda m, args, out: out + 1)
        layer.register_forward_hook(lambda m, args, out: out * 2)
        assert layer(x).tolist() == [8.0, 2.0]
        assert seen == [(layer, [-1.0, 2.0]), ([3.0, -6.0], [3.0, 0.0])]
        layer.forward(x)  # calls no hooks
        assert len(seen) == 2

    def test_keywords_and_order(self):
        class Scale(nn.Module):
            def forward(self, x, *, by=1.0):
                return x * by

        layer = Scale()
        seen = []
        layer.register_forward_pre_hook(lambda m, args: seen.append("second"))
        layer.register_forward_pre_hook(
            lambda m, args, kwargs: seen.append("first") or (args, {"by": 2 * kwargs["by"]}),
            prepend=True,
            with_kwargs=True,
        )
        layer.register_forward_hook(
            lambda m, args, kwargs, out: out + kwargs["by"], with_kwargs=True
        )
        assert layer(gg.ones(1), by=5.0).tolist() == [20.0]
        assert seen == ["first", "second"]
        layer.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
        with pytest.raises(TypeError, match=r"must return None or \(args, kwargs\)"):
            layer(gg.ones(1), by=5.0)

    def test_a_module_with_hooks_looks_the_same(self):
        net, x = model(), gg.ones((2, 3))
        text, state, expected = repr(net), net.state_dict(), net(x).tolist()
        with net.register_forward_hook(lambda *_: None), net[0].register_forward_hook(print):
            assert isinstance(net, nn.Sequential)
            assert repr(net) == text
            assert net.state_dict().keys() == state.keys()
            net.load_state_dict(state)
            assert [name for name, _ in net.named_modules()] == ["", "0", "1", "2"]
            net.eval()
            assert (type(net).__name__, type(net).__module__) == (
                "Sequential",
                nn.Sequential.__module__,
            )
        assert type(net) is nn.Sequential
        assert type(net[0]) is nn.Linear
        assert "_hooks" not in vars(net)
        assert net(x).tolist() == expected

    def test_the_class_changes_once(self):
        a, b = nn.ReLU(), nn.ReLU()
        first, second = a.register_forward_hook(print), b.register_forward_hook(print)
        assert type(a) is type(b)
        assert type(a) is not nn.ReLU
        other = a.register_forward_pre_hook(lambda m, args: None)
        first.remove()
        assert type(a) is type(b)
        other.remove()
        assert type(a) is nn.ReLU
        third = type(b)().register_forward_hook(print)  # made from the class with hooks
        third.remove()
        second.remove()
        assert type(b) is nn.ReLU

    @pytest.mark.parametrize(
        "copied", [copy.copy, copy.deepcopy, *[partial(pickled, protocol=p) for p in range(2, 6)]]
    )
    def test_copies_have_none(self, copied):
        layer = nn.Linear(2, 2)
        seen = []
        layer.register_forward_hook(lambda m, args, out: seen.append(m))
        layer.weight.register_hook(lambda g: seen.append(g))
        other = copied(layer)
        assert type(other) is nn.Linear
        assert vars(other).keys() == vars(layer).keys() - {"_hooks"}
        assert other.weight.tolist() == layer.weight.tolist()
        other(gg.ones((1, 2)))
        assert not seen
        layer(gg.ones((1, 2)))
        assert seen == [layer]


class TestBackwardHooks:
    def test_replaces_gradients_of_inputs(self):
        layer = nn.Linear(2, 1)
        x = gg.ones((3, 2), requires_grad=True)
        layer.register_full_backward_hook(lambda m, gx, gy: gg.zeros((3, 2)))
        layer.register_full_backward_hook(lambda m, gx, gy: (gx[0] + 7,))
        layer(x).sum().backward()
        assert x.grad.tolist() == [[7.0, 7.0]] * 3
        assert layer.weight.grad.tolist() == [[3.0, 3.0]]
        layer.register_full_backward_hook(lambda m, gx, gy: (gx[0], None))
        with pytest.raises(ValueError, match=r"must return None or 1 gradients.* not 2"):
            layer(x).sum().backward()

    def test_inputs_without_gradient(self):
        layer = nn.Linear(2, 1)
        seen = []
        layer.register_full_backward_hook(lambda m, gx, gy: seen.append((gx, gy[0].tolist())))
        layer(gg.ones((1, 2))).sum().backward()
        assert seen == [((None,), [[1.0]])]
        with gg.no_grad():
            layer(gg.ones((1, 2), requires_grad=True))

    def test_several_inputs_and_outputs(self):
        Pair = namedtuple("Pair", "total difference")

        class Both(nn.Module):
            def forward(self, x, y, n):
                return Pair(x + y, (x - y).detach())

        both, seen = Both(), []
        both.register_full_backward_hook(lambda m, gx, gy: seen.append((gx, gy)))
        x, y = leaf(1.0), leaf(2.0, dtype=gg.float64)
        out = both(x, y, 3)
        assert isinstance(out, Pair)
        out.total.sum().backward()
        (((gx, gy, gn), (gt, gd)),) = seen
        assert (gx.tolist(), gy.tolist(), gn) == ([1.0], [1.0], None)
        assert (gx.dtype, gy.dtype) == (gg.float32, gg.float64)
        assert (gt.tolist(), gd) == ([1.0], None)

    def test_unsupported_outputs_are_rejected(self):
        class Named(nn.Module):
            def forward(self, x):
                return {"x": x}

        layer = Named()
        layer.register_full_backward_hook(print)
        with pytest.raises(TypeError, match=r"Named\.forward must return a Tensor or a sequence"):
            layer(leaf(1.0))

    def test_inside_transforms(self):
        layer, seen = nn.ReLU(), []
        layer.register_full_backward_hook(lambda m, gx, gy: seen.append(gx[0].shape))
        layer.register_forward_hook(lambda m, args, out: seen.append(out.shape))
        x = gg.tensor([[1.0, -2.0], [3.0, 4.0]])

        def f(x):
            return (layer(x) * x).sum()

        assert gg.jvp(f, (x,), (gg.ones((2, 2)),))[1].tolist() == 16.0
        assert seen == [(2, 2)]  # forward mode calls no hooks of gradients
        seen.clear()
        assert gg.vmap(gg.grad(f))(x).tolist() == [[2.0, 0.0], [6.0, 8.0]]
        assert seen == [(2,), (2, 2)]  # the gradient of all examples at once
        assert gg.hessian(f)(x[1]).tolist() == [[2.0, 0.0], [0.0, 2.0]]
        w = leaf(1.0, 2.0)  # shared by all examples
        gg.vmap(lambda y: layer(w * y[0]) + y)(x).sum().backward()
        assert w.grad.tolist() == [4.0, 4.0]

    def test_as_in_pytorch(self):
        torch = pytest.importorskip("torch")
        ours, theirs = model(), torch.nn.Sequential()
        for i, layer in enumerate(ours):
            twin = torch.nn.ReLU()
            if i != 1:
                twin = torch.nn.Linear(layer.in_features, layer.out_features)
                state = {k: torch.tensor(v.tolist()) for k, v in layer.state_dict().items()}
                twin.load_state_dict(state)
            theirs.append(twin)
        results = []
        for library, net in ((gg, ours), (torch, theirs)):
            log = []

            def halve(m, gx, gy, log=log):
                log.extend([None if g is None else g.tolist() for g in (*gx, *gy)])
                return tuple([None if g is None else g / 2 for g in gx])

            for layer in net:
                layer.register_full_backward_hook(halve)
            x = library.tensor([[1.0, -2.0, 0.5]], requires_grad=True)
            net(x).sum().backward()
            log.append(x.grad.tolist())
            log += [p.grad.tolist() for p in net.parameters()]
            results.append(log)
        assert len(results[0]) == len(results[1])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
