"""Every layer and optimizer that is public, made small; and every kind of transform."""

import inspect

import gpugrad as gg
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
# L-BFGS needs a closure and has no weight_decay; `test_lbfgs` has its tests.
OPTIMIZERS = [kind for kind in _public(optim, optim.Optimizer) if kind is not optim.LBFGS]

# Of a function of a vector to a number, at a vector.
TRANSFORMS = {
    "grad": lambda f, x: gg.grad(f)(x),
    "jvp": lambda f, x: gg.jvp(f, (x,), (gg.ones_like(x),))[1],
    "jacobian": lambda f, x: gg.jacobian(gg.grad(f))(x),
    "hessian": lambda f, x: gg.hessian(f)(x),
    "hvp": lambda f, x: gg.hvp(f)(x, gg.ones_like(x)),
    "vmap": lambda f, x: gg.vmap(gg.grad(f))(gg.stack([x, 2 * x])),
    "checkpoint": lambda f, x: gg.grad(lambda x: gg.checkpoint(f, x))(x),
}
