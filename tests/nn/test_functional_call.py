"""`nn.functional_call`: call a module with other parameters, without changing it."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import nn
from gpugrad.nn import functional_call

VALUES = np.random.default_rng(0).standard_normal((5, 3))
X = gg.asarray(VALUES)


def mlp(seed=0):
    gg.manual_seed(seed)
    return nn.MLP(3, [4, 4, 3], activation=nn.Tanh, dtype=gg.float64)


def detached(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def close(x, expected):
    expected = expected.detach().numpy() if hasattr(expected, "detach") else expected
    np.testing.assert_allclose(x.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


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


def test_other_parameters():
    net, other, seen = mlp(0), mlp(1), []
    net.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    for args in (X,), X:
        close(functional_call(net, detached(other), args), other(X))
    assert seen == [(5, 3)] * 2
    for p, before in zip(net.parameters(), mlp(0).parameters(), strict=True):
        assert isinstance(p, nn.Parameter)
        close(p, before)


@pytest.mark.parametrize("name", ["encoder.weight", "decoder.weight", "blocks.0.weight"])
def test_tied_parameters(name):
    net = Tied()
    values = {name: gg.eye(3, dtype=gg.float64), "decoder.bias": gg.zeros(3, dtype=gg.float64)}
    close(functional_call(net, values, X), np.tanh(VALUES) + 1)
    assert net.calls == 0


def test_buffers_keywords_several_dicts_and_a_reference_to_the_parent():
    net, buffers = Tied(), {"shift": gg.full(3, 2.0, dtype=gg.float64)}
    found = functional_call(net, (detached(net), buffers), (X,), {"scale": 3.0})
    close(found, 3 * (net(X) - 1) + 2)
    net.encoder.whole = net
    close(functional_call(net, {}, X), net(X))


def test_the_module_stays_as_it_is_in_eval_mode_and_after_an_error():
    drop = nn.Sequential(nn.Dropout(0.9)).eval()
    assert functional_call(drop, {}, gg.ones(3)).tolist() == [1, 1, 1]
    net = mlp()
    with pytest.raises(ValueError, match="linear"):
        functional_call(net, {"0.weight": gg.zeros((2, 2), dtype=gg.float64)}, X)
    assert net[0].weight.shape == (4, 3)


def test_threads():
    net, others = mlp(), [mlp(i) for i in range(8)]

    def work(other):
        return [functional_call(net, detached(other), X) for _ in range(20)][-1]

    with ThreadPoolExecutor(8) as pool:
        for out, other in zip(pool.map(work, others), others, strict=True):
            close(out, other(X))


TWO_VALUES = {"encoder.weight": gg.ones((3, 3)), "decoder.weight": gg.zeros((3, 3))}
ERRORS = [
    (mlp(), {"weight": gg.ones(3)}, ValueError, "MLP has no parameter or buffer 'weight'; it has"),
    (mlp(), {"0.weight": [1.0]}, TypeError, "0.weight must be a Tensor, not"),
    (mlp(), [gg.ones(3)], TypeError, "params_and_buffers must be a dict"),
    (mlp(), ({"0.bias": gg.ones(4)},) * 2, ValueError, "'0.bias' is in two of the dicts"),
    (Tied(), TWO_VALUES, ValueError, r".*encoder\.weight, decoder\.weight.*one tensor"),
    (gg.sin, {}, TypeError, ".*must be a Module"),
]


@pytest.mark.parametrize("module, given, error, message", ERRORS)
def test_errors(module, given, error, message):
    with pytest.raises(error, match=f"functional_call: {message}"):
        functional_call(module, given, X)
