"""`nn.functional_call`: call a module with other parameters, without changing it."""

import threading

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad.nn import functional_call

X, Y = np.random.default_rng(0).standard_normal((2, 5, 3))


def mlp(seed=0):
    gg.manual_seed(seed)
    return nn.MLP(3, [4, 4, 3], activation=nn.Tanh, dtype=gg.float64)


def detached(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def loss(net, p, x, y):
    return ((functional_call(net, p, (x,)) - y) ** 2).mean()


def close(x, expected):
    np.testing.assert_allclose(x.detach().numpy(), np.asarray(expected), rtol=1e-10, atol=1e-12)


class Tied(nn.Module):
    """An encoder and a decoder that share a weight, and a module that is in two places."""

    def __init__(self):
        self.encoder = nn.Linear(3, 3, bias=False, dtype=gg.float64)
        self.decoder = nn.Linear(3, 3, dtype=gg.float64)
        self.decoder.weight = self.encoder.weight
        self.blocks = nn.Sequential(self.encoder, nn.Tanh(), self.encoder)
        self.register_buffer("shift", gg.ones(3, dtype=gg.float64), persistent=False)
        self.calls = 0

    def forward(self, x, *, scale=1.0):
        self.calls += 1
        assert self.blocks[0] is self.blocks[2] is self.encoder
        return self.decoder(self.blocks(x)) * scale + self.shift


class TestValues:
    def test_other_parameters(self):
        net, other = mlp(0), mlp(1)
        before = {name: p.detach().numpy().copy() for name, p in net.named_parameters()}
        x = gg.asarray(X)
        close(functional_call(net, detached(other), (x,)), other(x).detach().numpy())
        close(functional_call(net, detached(other), x), other(x).detach().numpy())
        for name, p in net.named_parameters():
            assert isinstance(p, nn.Parameter)
            close(p, before[name])

    def test_the_modules_own_parameters_where_none_are_given(self):
        net, x = mlp(), gg.asarray(X)
        close(functional_call(net, {}, x), net(x).detach().numpy())
        weight = gg.zeros((3, 4), dtype=gg.float64)
        out = functional_call(net, {"4.weight": weight}, x)
        close(out, np.broadcast_to(net[4].bias.detach().numpy(), (5, 3)))
        out.sum().backward()  # the module's own parameters get gradients
        assert net[4].bias.grad.tolist() == [5, 5, 5]

    @pytest.mark.parametrize("name", ["encoder.weight", "decoder.weight", "blocks.0.weight"])
    def test_tied(self, name):
        net, x = Tied(), gg.asarray(X)
        eye = gg.eye(3, dtype=gg.float64)
        values = {name: eye, "decoder.bias": gg.zeros(3, dtype=gg.float64)}
        close(functional_call(net, values, x), np.tanh(X) + 1)
        assert net.calls == 0

    def test_buffers_keywords_and_several_dicts(self):
        net, x = Tied(), gg.asarray(X)
        buffers = {"shift": gg.full(3, 2.0, dtype=gg.float64)}
        found = functional_call(net, (detached(net), buffers), (x,), {"scale": 3.0})
        close(found, 3 * (net(x).detach().numpy() - 1) + 2)

    def test_a_module_that_refers_to_its_parent(self):
        net = Tied()
        net.encoder.whole = net
        close(functional_call(net, {}, gg.asarray(X)), net(gg.asarray(X)).detach().numpy())

    def test_hooks_are_called(self):
        net, seen = mlp(), []
        net.register_forward_hook(lambda module, args, out: seen.append(out.shape))
        functional_call(net, detached(net), gg.asarray(X))
        assert seen == [(5, 3)]

    def test_dropout_stays_in_its_mode(self):
        net = nn.Sequential(nn.Dropout(0.9)).eval()
        assert functional_call(net, {}, gg.ones(3)).tolist() == [1, 1, 1]

    def test_after_an_error(self):
        net = mlp()
        with pytest.raises(ValueError, match="linear"):
            functional_call(net, {"0.weight": gg.zeros((2, 2), dtype=gg.float64)}, gg.asarray(X))
        assert net[0].weight.shape == (4, 3)

    def test_threads(self):
        net, x, found = mlp(), gg.asarray(X), {}

        def work(i):
            p = detached(mlp_of[i])
            for _ in range(20):
                found[i] = functional_call(net, p, x)

        mlp_of = [mlp(i) for i in range(8)]
        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for i, other in enumerate(mlp_of):
            close(found[i], other(x).detach().numpy())


class TestTransforms:
    def test_gradients_equal_backward(self):
        net, x, y = mlp(), gg.asarray(X), gg.asarray(Y)
        found = gg.grad(lambda p: loss(net, p, x, y))(detached(net))
        ((net(x) - y) ** 2).mean().backward()
        assert found.keys() == dict(net.named_parameters()).keys()
        for name, p in net.named_parameters():
            close(found[name], p.grad.numpy())

    def test_gradients_of_examples(self):
        torch = pytest.importorskip("torch")
        net = mlp()
        other = torch.nn.Sequential(
            torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 4), torch.nn.Tanh(),
            torch.nn.Linear(4, 3),
        )  # fmt: skip
        p = detached(net)
        of_torch = {name: torch.tensor(x.numpy()) for name, x in p.items()}

        def of_one(p, x, y):
            return ((torch.func.functional_call(other, p, (x,)) - y) ** 2).mean()

        axes = (None, 0, 0)
        gradient = gg.vmap(gg.grad(lambda p, x, y: loss(net, p, x, y)), axes)
        found = gradient(p, gg.asarray(X), gg.asarray(Y))
        expected = torch.func.vmap(torch.func.grad(of_one), axes)(
            of_torch, torch.tensor(X), torch.tensor(Y)
        )
        for name, g in found.items():
            close(g, expected[name].numpy())

        hessian = gg.hessian(lambda p: loss(net, p, gg.asarray(X), gg.asarray(Y)))(p)
        expected = torch.func.hessian(lambda p: of_one(p, torch.tensor(X), torch.tensor(Y)))(
            of_torch
        )
        close(hessian["0.weight"]["2.bias"], expected["0.weight"]["2.bias"].numpy())

    def test_an_ensemble(self):
        nets = [mlp(i) for i in range(3)]
        stacked = {
            name: gg.stack([detached(net)[name] for net in nets]) for name in detached(nets[0])
        }
        x = gg.asarray(X)
        out = gg.vmap(lambda p: functional_call(nets[0], p, x))(stacked)
        for i, net in enumerate(nets):
            close(out[i], net(x).detach().numpy())


class TestErrors:
    @pytest.mark.parametrize(
        "given, error, message",
        [
            ({"weight": gg.ones(3)}, ValueError, "MLP has no parameter or buffer 'weight'; it has"),
            ({"0.weight": [1.0]}, TypeError, "0.weight must be a Tensor, not"),
            ([gg.ones(3)], TypeError, "params_and_buffers must be a dict"),
            (({"0.bias": gg.ones(4)},) * 2, ValueError, "'0.bias' is in two of the dicts"),
        ],
    )
    def test_parameters(self, given, error, message):
        with pytest.raises(error, match=f"functional_call: {message}"):
            functional_call(mlp(), given, gg.asarray(X))

    def test_several_values_for_one_parameter(self):
        given = {"encoder.weight": gg.ones((3, 3)), "decoder.weight": gg.zeros((3, 3))}
        with pytest.raises(ValueError, match=r"encoder\.weight, decoder\.weight.*one tensor"):
            functional_call(Tied(), given, gg.asarray(X))

    def test_not_a_module(self):
        with pytest.raises(TypeError, match="must be a Module"):
            functional_call(gg.sin, {}, gg.asarray(X))
