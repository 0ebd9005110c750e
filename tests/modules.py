"""Every public layer in a small size, every public optimizer, and every kind of transform."""

import inspect

import gpugrad as gg
from gpugrad import nn, optim

_PADS = "Circular Reflection Replication Zero".split()

# Arguments for classes that need more than sizes.
_GIVEN = {
    **{f"{name}{n}d": (3, 2, 3) for name in ("Conv", "ConvTranspose") for n in (1, 2, 3)},
    **{f"ConstantPad{n}d": (1, 0.5) for n in (1, 2, 3)},
    **{f"{name}Pad{n}d": (1,) for name in _PADS for n in (1, 2, 3)}, "Fold": ((3, 4), (3, 1)),
    "GLU": (0,), "LogSoftmax": (1,), **{f"LPPool{n}d": (2, 3) for n in (1, 2, 3)},
    "MLP": (3, [4, 2]), "PixelShuffle": (1,), "PixelUnshuffle": (2,), "Sequential": (nn.Tanh(),),
    "Softmax": (1,), "Softmin": (1,), "Threshold": (0.1, 0.5),
    "TransformerEncoder": (nn.TransformerEncoderLayer(3, 1, 4), 2), "Unflatten": (1, (3, 1)),
    "Upsample": (5,),
}  # fmt: skip

# Layers of inputs with three channels and so many axes of length 4. The others take inputs (n, 3).
_AXES = {name: int(name[-2]) for name in nn.__all__ if name.endswith(("1d", "2d", "3d"))}
_AXES |= {"BatchNorm1d": 0, "Fold": 1, "Unfold": 2, "Upsample": 2}
_AXES |= {"ChannelShuffle": 1, "LocalResponseNorm": 1, "PixelShuffle": 2, "PixelUnshuffle": 2}


class First(nn.Module):
    """A layer's first output."""

    def __init__(self, layer):
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


# Layers that return their states beside the output.
_OF_SEVERAL = "RNN LSTM GRU LSTMCell".split()


def layer(kind):
    """Return a module with this layer for inputs ``(n, 3)``; the sizes it requires are 3."""
    parameters = inspect.signature(kind).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    module = kind(*_GIVEN.get(kind.__name__, [3] * len(needed)))
    axes = _AXES.get(kind.__name__, 0)
    if not axes:
        return First(module) if kind.__name__ in _OF_SEVERAL else module
    return nn.Sequential(nn.Unflatten(1, (3, *[1] * axes)), nn.Upsample(4), module)


def _public(module, base):
    kinds = [getattr(module, name) for name in module.__all__]
    return [k for k in kinds if isinstance(k, type) and issubclass(k, base) and k is not base]


# Classes that are not called with one floating tensor (n, 3), or draw on a device of their own.
_OTHERS = """
    Bilinear CosineSimilarity Embedding EmbeddingBag InstanceNorm1d InstanceNorm2d InstanceNorm3d
    ModuleDict ModuleList MultiheadAttention PairwiseDistance ParameterList RReLU Transformer
    TransformerDecoder TransformerDecoderLayer
""".split()

LAYERS = [
    kind
    for kind in _public(nn, nn.Module)
    if not kind.__name__.endswith("Loss") and kind.__name__ not in _OTHERS
]
LOSSES = [kind for kind in _public(nn, nn.Module) if kind.__name__.endswith("Loss")]

# What losses are called with, unless it is the inputs x and y.
_TARGETS = {
    "BCELoss": lambda x, y, labels: (gg.sigmoid(x), gg.sigmoid(y)),
    "CTCLoss": lambda x, y, labels: (gg.log_softmax(x), labels[1:3], x.shape[0], 2),
    "CosineEmbeddingLoss": lambda x, y, labels: (x, y, 2 * (labels % 2) - 1),
    "CrossEntropyLoss": lambda x, y, labels: (x, labels),
    "GaussianNLLLoss": lambda x, y, labels: (x, y, gg.sigmoid(x * y)),
    "HingeEmbeddingLoss": lambda x, y, labels: (x, gg.sign(y)),
    "KLDivLoss": lambda x, y, labels: (x, gg.sigmoid(y)),
    "MarginRankingLoss": lambda x, y, labels: (x, y, gg.sign(x * y)),
    "MultiLabelMarginLoss": lambda x, y, labels: (x, gg.stack([labels, labels, labels], axis=1)),
    "MultiMarginLoss": lambda x, y, labels: (x, labels),
    "NLLLoss": lambda x, y, labels: (x, labels),
    "TripletMarginLoss": lambda x, y, labels: (x, y, x * y),
}


def given_to(kind, x, y, labels):
    """The arguments of a loss, for inputs ``(n, 3)`` and n labels below 3."""
    return _TARGETS.get(kind.__name__, lambda x, y, labels: (x, y))(x, y, labels)


# L-BFGS needs a closure and has no weight_decay, as Rprop; Muon takes matrices alone. They have
# tests of their own in `tests/optim`.
_OWN = optim.LBFGS, optim.Rprop, optim.Muon
OPTIMIZERS = [kind for kind in _public(optim, optim.Optimizer) if kind not in _OWN]

# Each takes a function from vectors to numbers, and a vector.
TRANSFORMS = {
    "grad": lambda f, x: gg.grad(f)(x),
    "jvp": lambda f, x: gg.jvp(f, (x,), (gg.ones_like(x),))[1],
    "jacobian": lambda f, x: gg.jacobian(gg.grad(f))(x),
    "hessian": lambda f, x: gg.hessian(f)(x),
    "hvp": lambda f, x: gg.hvp(f)(x, gg.ones_like(x)),
    "vmap": lambda f, x: gg.vmap(gg.grad(f))(gg.stack([x, 2 * x])),
    "checkpoint": lambda f, x: gg.grad(lambda x: gg.checkpoint(f, x))(x),
}
