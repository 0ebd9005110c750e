"""Every layer and optimizer that is public, made small."""

import inspect

from gpugrad import nn, optim

# What is given to classes that need more than sizes.
_GIVEN = {"MLP": (3, [4, 2]), "Sequential": (nn.Tanh(),)}


def layer(kind):
    """A module of this class for ``(n, 3)``; sizes that it needs are 3."""
    parameters = inspect.signature(kind).parameters.values()
    needed = [p for p in parameters if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
    return kind(*_GIVEN.get(kind.__name__, [3] * len(needed)))


def _public(module, base):
    kinds = [getattr(module, name) for name in module.__all__]
    return [k for k in kinds if isinstance(k, type) and issubclass(k, base) and k is not base]


LAYERS = [kind for kind in _public(nn, nn.Module) if not kind.__name__.endswith("Loss")]
LOSSES = [kind for kind in _public(nn, nn.Module) if kind.__name__.endswith("Loss")]
OPTIMIZERS = _public(optim, optim.Optimizer)
