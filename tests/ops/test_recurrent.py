"""What the table of layers does not show of recurrent layers and their ops."""

import re

import numpy as np
import pytest
from test_batching import shapes_of_calls

import gpugrad as gg
from gpugrad import nn, ones
from gpugrad.testing import assert_close


def normal(*shape, seed=0, **options):
    rng = np.random.default_rng(seed)
    return gg.tensor(rng.standard_normal(shape), **{"dtype": gg.float64, **options})


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_examples_that_share_weights_are_one_call(kind):
    from gpugrad.ops import recurrent as ops

    layer = kind(3, 2, dtype=gg.float64)
    xs, h = normal(5, 4, 2, 3), normal(5, 1, 2, 2, seed=1)
    state = (lambda h: (h, h)) if kind is nn.LSTM else (lambda h: h)
    with shapes_of_calls(getattr(ops, f"_{kind.__name__.lower()}").op) as shapes:
        gg.vmap(lambda x, h: layer(x, state(h))[0])(xs, h)
        gg.vmap(lambda h: layer(xs[0], state(h))[0])(h)
    assert [given[0] for given in shapes] == [(4, 10, 3)] * 2


def test_dropout_between_layers():
    with pytest.warns(UserWarning, match=r"^LSTM: dropout=0.5 has no effect with one layer"):
        nn.LSTM(3, 4, dropout=0.5)
    layer = nn.LSTM(3, 4, 2, dropout=0.5, bidirectional=True, dtype=gg.float64)
    assert "dropout=0.5" in repr(layer)
    x, same = normal(5, 2, 3), nn.LSTM(3, 4, 2, bidirectional=True, dtype=gg.float64)
    same.load_state_dict(layer.state_dict())
    dropped, (h, _) = layer(x)
    plain, (expected, _) = same(x)
    assert not np.allclose(dropped.detach().numpy(), plain.detach().numpy())
    assert_close(h[:2].detach(), expected[:2].detach())  # nothing before the first layer
    assert_close(layer.eval()(x)[0].detach(), plain.detach())


X = ones((4, 2, 3))


@pytest.mark.parametrize("call, message", [
    (lambda: nn.GRU(3, 2, batch_first=True)(ones(3)),
     r"^GRU: the input must be \(batch, length, 3\) or \(length, 3\), not \(3,\)$"),
    (lambda: nn.RNN(3, 2)(X, ones((2, 2))),
     r"^RNN: for an input of shape \(4, 2, 3\), h_0 .* shape \(1, 2, 2\), not \(2, 2\)"),
    (lambda: nn.LSTM(3, 2)(X, (ones((1, 2, 2)), ones((1, 1, 2)))),
     r"c_0 \(layers and directions, batch, hidden_size\) must have shape \(1, 2, 2\)"),
    (lambda: nn.LSTM(3, 2)(X, X), r"^LSTM: the initial .* tuple \(h_0, c_0\), not"),
    (lambda: nn.RNN(3, 2)([1.0]), r"^RNN: the input must be a Tensor, not a list"),
    (lambda: nn.RNN(3, 2)(X[:0]), r"^rnn: x has no times"),
    (lambda: nn.GRU(3, 2, proj_size=1), r"^GRU: proj_size 1 must be 0; it is for LS"),
    (lambda: nn.LSTM(3, 2, proj_size=2), r"^LSTM: proj_size 2 must be less than hid"),
    (lambda: nn.LSTM(3, 4, proj_size=2)(X, (ones((1, 2, 4)), ones((1, 2, 4)))),
     r"h_0 \(layers and directions, batch, proj_size\) must have shape \(1, 2, 2\)"),
    (lambda: nn.RNN(3, 0), r"^RNN: hidden_size must be an int of at least 1, not 0"),
    (lambda: nn.GRU(3, 2, 2, dropout=2), r"^GRU: dropout: the probability"),
    (lambda: nn.RNN(3, 2, 1, "gelu"), r"^RNN: nonlinearity must be 'tanh'"),
    (lambda: nn.RNNCell(3, 2)(X), r"^RNNCell: the input must be \(batch, 3\) or"),
    (lambda: nn.GRUCell(3, 2)(X[0], X[0]),
     r"^GRUCell: .* \(2, 3\), a state must have shape \(2, 2\), not \(2, 3\)$"),
    (lambda: gg.gru(X, ones((6, 3)), ones((4, 2))),
     r"^gru: for x of shape \(4, 2, 3\), weight_ih must have the shape \(3 \* h, 3\) and"),
    (lambda: gg.lstm(X, ones((8, 3)), ones((8, 2)), ones(4)),
     r"^lstm: bias_ih must have the shape \(8,\), not \(4,\)"),
    (lambda: gg.rnn(X, ones((2, 3)), ones((2, 2)), nonlinearity="gelu"),
     r"^rnn: nonlinearity must be 'tanh' or 'relu', not 'gelu'"),
])  # fmt: skip
def test_errors(call, message):
    kind = TypeError if re.search("tuple|Tensor", message) else ValueError
    with pytest.raises(kind, match=message):
        call()
