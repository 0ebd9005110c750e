"""Hooks on gradients, on leaves and on modules."""

import copy
import pickle
from collections import namedtuple

import numpy as np
import pytest
from samples import error_test

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
            itself, forward = x.register_hook(once), layer.register_forward_hook(once_forward)
            layer(x).sum().backward()
        layer(x).sum().backward()
        first.remove()
        first.remove()
        second.remove()
        layer(x).sum().backward()
        assert seen == [0, 1, 2, 3, 1]

    def test_stays_with_a_value_that_is_changed_in_place(self):
        x, seen = leaf(2.0), []
        y = x * 1.0
        y.register_hook(lambda g: seen.append(("before", g.item())))
        y.retain_grad()
        y *= 10
        y.register_hook(lambda g: seen.append(("after", g.item())))
        y[0] = y[0] * 3
        (y * 5).sum().backward()
        assert seen == [("after", 15.0), ("before", 150.0)]
        assert (y.grad.item(), x.grad.item()) == (5, 150)

    def test_in_another_width(self):
        x = leaf(1.0, dtype=gg.float16)
        x.register_hook(lambda g: g.to(gg.float64) / 3)
        (x * 3).sum().backward()
        assert (x.grad.dtype, x.grad.tolist()) == (gg.float16, [1.0])

    def test_as_in_pytorch(self):
        results = []
        for library in (gg, pytest.importorskip("torch")):
            x, log = library.tensor([[2.0, 1.0], [1.0, 3.0]], requires_grad=True), []

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
            for hook in note, lambda g: g / 2, note:
                x.register_hook(hook)
            x.register_post_accumulate_grad_hook(lambda x, note=note: note(x.grad))
            z.backward()
            results.append([*log, y.grad.tolist(), x.grad.tolist()])
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


class TestLeafHooks:
    def test_after_accumulation(self):
        x, w, v, seen = leaf(1.0), leaf(2.0), leaf(3.0), []
        handle = x.register_post_accumulate_grad_hook(
            lambda x: seen.append((x.grad.item(), w.grad.item()))
        )
        (x * w).sum().backward()
        (x * w).sum().backward()
        gg.autograd.grad(x * w, [x])
        handle.remove()
        for p in (x, v):  # v is reached first
            p.register_post_accumulate_grad_hook(lambda p: seen.append(p is v))
        (x * w * v).sum().backward()
        assert seen == [(2.0, 1.0), (4.0, 2.0), True, False]

    def test_move_with_the_parameter(self):
        model, seen = nn.Linear(2, 1), []
        model.weight.register_hook(lambda g: seen.append(str(g.dtype)))
        model.weight.register_post_accumulate_grad_hook(lambda p: seen.append(str(p.grad.dtype)))
        model.to(gg.float64)
        model(gg.ones((1, 2), dtype=gg.float64)).sum().backward()
        assert seen == ["float64", "float64"]


class TestForwardHooks:
    def test_see_and_replace_inputs_and_outputs(self):
        layer, x, seen = nn.ReLU(), gg.tensor([-1.0, 2.0]), []
        for before in (
            lambda m, args: seen.append((m, args[0].tolist())), lambda m, args: -args[0],
            lambda m, args: (args[0] * 3,),
        ):  # fmt: skip
            layer.register_forward_pre_hook(before)
        for after in (
            lambda m, args, out: seen.append((args[0].tolist(), out.tolist())),
            lambda m, args, out: out + 1, lambda m, args, out: out * 2,
        ):  # fmt: skip
            layer.register_forward_hook(after)
        assert layer(x).tolist() == [8.0, 2.0]
        layer.forward(x)  # calls no hooks
        assert seen == [(layer, [-1.0, 2.0]), ([3.0, -6.0], [3.0, 0.0])]

    def test_keywords_and_order(self):
        class Scale(nn.Module):
            def forward(self, x, *, by=1.0):
                return x * by

        def first(m, args, kwargs):
            seen.append("first")
            return args, {"by": 2 * kwargs["by"]}

        layer, seen = Scale(), []
        layer.register_forward_pre_hook(lambda m, args: seen.append("second"))
        layer.register_forward_pre_hook(first, prepend=True, with_kwargs=True)
        layer.register_forward_hook(lambda m, args, kw, out: out + kw["by"], with_kwargs=True)
        assert (layer(gg.ones(1), by=5.0).tolist(), seen) == ([20.0], ["first", "second"])
        layer.register_forward_pre_hook(lambda m, args, kwargs: args, with_kwargs=True)
        with pytest.raises(TypeError, match=r"must return None or \(args, kwargs\)"):
            layer(gg.ones(1), by=5.0)

    def test_a_module_with_hooks_looks_the_same(self):
        def looks():
            names = [name for name, _ in net.named_modules()]
            kind = type(net).__name__, type(net).__module__, isinstance(net, nn.Sequential)
            return repr(net), net.state_dict().keys(), names, kind

        net, x = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)), gg.ones((2, 3))
        before, expected = looks(), net(x).tolist()
        with net.register_forward_hook(lambda *_: None), net[0].register_forward_hook(print):
            assert looks() == before
            net.load_state_dict(net.state_dict())
            net.eval()
        assert (type(net), type(net[0])) == (nn.Sequential, nn.Linear)
        assert "_hooks" not in vars(net)
        assert net(x).tolist() == expected

    def test_the_class_changes_once(self):
        a, b = nn.ReLU(), nn.ReLU()
        handles = [m.register_forward_hook(print) for m in (a, b)]
        handles += [a.register_forward_pre_hook(print), type(b)().register_forward_hook(print)]
        handles.pop(0).remove()
        assert type(a) is type(b) is not nn.ReLU
        for handle in handles:
            handle.remove()
        assert type(a) is type(b) is nn.ReLU

    @pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, *(
        lambda module, protocol=p: pickle.loads(pickle.dumps(module, protocol)) for p in range(2, 6)
    )])  # fmt: skip
    def test_copies_have_none(self, copied):
        layer, seen = nn.Linear(2, 2), []
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
        layer, x = nn.Linear(2, 1), gg.ones((3, 2), requires_grad=True)
        layer.register_full_backward_hook(lambda m, gx, gy: gg.zeros((3, 2)))
        layer.register_full_backward_hook(lambda m, gx, gy: (gx[0] + 7,))
        layer(x * 2).sum().backward()
        assert (x.grad.tolist(), layer.weight.grad.tolist()) == ([[14.0] * 2] * 3, [[6.0] * 2])
        layer.register_full_backward_hook(lambda m, gx, gy: (gx[0], None))
        with pytest.raises(ValueError, match=r"must return None or 1 gradients.* not 2"):
            layer(x).sum().backward()

    def test_inputs_without_gradient(self):
        layer, seen = nn.Linear(2, 1), []
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
        out = both(leaf(1.0), leaf(2.0, dtype=gg.float64), 3)
        assert isinstance(out, Pair)
        out.total.sum().backward()
        (((gx, gy, gn), (gt, gd)),) = seen
        assert [g.tolist() for g in (gx, gy, gt)] == [[1.0]] * 3
        assert (gx.dtype, gy.dtype, gn, gd) == (gg.float32, gg.float64, None, None)

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
        assert gg.vmap(gg.grad(f))(x).tolist() == [[2.0, 0.0], [6.0, 8.0]]
        # Forward mode calls no hooks of gradients; vmap calls one for all examples at once.
        assert seen == [(2, 2), (2,), (2, 2)]
        assert gg.hessian(f)(x[1]).tolist() == [[2.0, 0.0], [0.0, 2.0]]
        w = leaf(1.0, 2.0)  # shared by all examples
        gg.vmap(lambda y: layer(w * y[0]) + y)(x).sum().backward()
        assert w.grad.tolist() == [4.0, 4.0]


def sweep_with(hook):
    x = leaf(1.0, 2.0)
    x.register_hook(hook)
    (x * x).sum().backward()


WHERE = "register_post_accumulate_grad_hook: this tensor"


test_errors = error_test([
    (lambda: sweep_with(lambda g: g.sum()), ValueError,
     r"shape and device.* \(float32 \(2,\) on cpu\), not float32"),
    (lambda: sweep_with(lambda g: 2.0), ValueError, "not 2.0"),
    (lambda: sweep_with(lambda g: g * 1j), ValueError, "real if the gradient is"),
    *((lambda x=x: x.register_hook(print), ValueError, "register_hook: .*does not require grad")
      for x in (gg.ones(2), leaf(1.0).detach(), gg.arange(3))),
    (lambda: leaf(1.0).register_hook(3), TypeError, "must be a function, not a int"),
    (lambda: (leaf(1.0) * 2).register_post_accumulate_grad_hook(print), ValueError,
     f"{WHERE} is a result of multiply"),
    (lambda: gg.ones(2).register_post_accumulate_grad_hook(print), ValueError,
     f"{WHERE} does not require grad"),
])  # fmt: skip
