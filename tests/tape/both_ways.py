"""What tests of compiled functions share: inputs, comparison to the bit, and calls both ways."""

import contextlib
import functools
import inspect
import sys

import numpy as np

import gpugrad as gg
from gpugrad import nn


def normal(*shape, seed=0, dtype=np.float32):
    """A tensor of normal numbers that depend on the shape and the seed only."""
    return gg.asarray(np.random.default_rng([seed, *shape]).standard_normal(shape).astype(dtype))


def bits(x):
    x = x.detach() if isinstance(x, gg.Tensor) else x
    x = np.asarray(getattr(x, "array", x))
    return x.dtype, x.shape, x.tobytes()


def with_one_nan(array):
    """The array with the same bits for each nan, whose sign is not specified."""
    if array.dtype.kind == "c":
        return np.stack([with_one_nan(array.real), with_one_nan(array.imag)])
    if array.dtype.kind == "f":
        return np.where(np.isnan(array), array.dtype.type(np.nan), array)
    return array


def same(x, y):
    if isinstance(x, (tuple, list)):
        for one, other in zip(x, y, strict=True):
            same(one, other)
    elif isinstance(x, gg.Tensor) or hasattr(x, "dtype"):
        assert bits(x) == bits(y), (x, y)
    else:
        assert x == y


def is_replayed(compiled):
    return bool(compiled._programs) and not compiled._given_up


def both_ways(test):
    """A test that returns the same whether functions are compiled, and have programs then, or not.

    Its first argument is `compile`, or leaves functions as they are.
    """

    @functools.wraps(test)
    def compared(**given):
        compiled = []

        def compile(f):
            compiled.append(gg.compile(f))
            return compiled[-1]

        same(test(compile, **given), test(lambda f: f, **given))
        assert all(map(is_replayed, compiled))

    signature = inspect.signature(test)
    compared.__signature__ = signature.replace(parameters=[*signature.parameters.values()][1:])
    return compared


@contextlib.contextmanager
def switching_often():
    """Let Python go on with another thread after each hundredth of a millisecond."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        yield
    finally:
        sys.setswitchinterval(interval)


def replays(f, *inputs):
    """Compare a compiled function with ``f`` for each tuple of inputs, and the last once more.

    The first two calls are recorded, and the others must run a program.
    """
    compiled = gg.compile(f)
    for given in (*inputs, inputs[-1]):
        is_recorded = not is_replayed(compiled)
        same(compiled(*given), f(*given))
    assert not is_recorded
    assert not compiled._given_up


def training(optimizer, loss_of, clip=lambda: None, *given):
    """A step of training that reduces and returns ``loss_of(...)``; it calls ``clip(*given)``."""

    def step(*args):
        optimizer.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        clip(*given)
        optimizer.step()
        return loss.detach()

    return step


class Recurrent(nn.Module):
    def __init__(self, kind, **options):
        self.layer = kind(3, 4, batch_first=True, **options)
        self.out = nn.Linear(8 if self.layer.bidirectional else 4, 1)

    def forward(self, x):
        states, _ = self.layer(x)
        return self.out(states)


# A model, and the shape of its inputs.
MODELS = {
    "gelu": (lambda: nn.Sequential(nn.Linear(3, 64), nn.GELU(), nn.Linear(64, 1)), (32, 3)),
    "rnn": (lambda: Recurrent(nn.RNN), (2, 5, 3)),
    # CuPy joins more than 8 arrays in another way.
    "lstm": (lambda: Recurrent(nn.LSTM, num_layers=2, bidirectional=True, dropout=0.1), (2, 9, 3)),
    "gru": (lambda: Recurrent(nn.GRU, bidirectional=True), (2, 5, 3)),
    "transformer": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
    "convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
            nn.GroupNorm(2, 4), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 1),
        ),
        (3, 2, 6, 6),
    ),
}  # fmt: skip
