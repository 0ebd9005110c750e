"""Modules that apply other modules in sequence."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, overload

from .._tensor import Tensor
from ..autograd.implementation import has_twin
from ..ops.neural import dense
from .activations import ReLU
from .layers import Linear
from .module import Module


class Sequential(Module):
    """Layers, each applied to the result of the one before.

    On a GPU a `Linear` and the activation after it run as one operation, `gpugrad.dense`, which
    needs fewer kernels.

    layers: modules, or functions of a tensor. In `state_dict` and the repr a layer's name is
        its position.
    """

    def __init__(self, *layers: Module | Callable[[Tensor], Tensor]) -> None:
        for i, layer in enumerate(layers):
            if not callable(layer) or isinstance(layer, type):
                raise TypeError(
                    f"Sequential: layer {i} must be a module or a function, not {layer!r}"
                )
        self.layers = [x if isinstance(x, Module) else _Function(x) for x in layers]

    def forward(self, input: Tensor) -> Tensor:
        layers = self.layers
        i, n = 0, len(layers)
        # On a CPU one operation is no faster than two, and needs more memory at once in backward.
        fuses = has_twin(dense.op, getattr(input, "_like", input))
        while i < n:
            layer = layers[i]
            i += 1
            if fuses and type(layer) is Linear and i < n:
                # vars() of the class itself, because modules with hooks and users' own classes
                # are subclasses, which must run their own __call__.
                activation = vars(type(layers[i])).get("activation")
                if activation is not None:
                    input = dense(input, layer.weight, layer.bias, activation=activation)
                    i += 1
                    continue
            input = layer(input)
        return input

    def named_children(self) -> Iterator[tuple[str, Module]]:
        return ((str(i), layer) for i, layer in enumerate(self.layers))

    def __len__(self) -> int:
        return len(self.layers)

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequential": ...
    def __getitem__(self, index: int | slice) -> Any:
        """The layer at ``index``, or for a slice a `Sequential` of those layers."""
        if isinstance(index, slice):
            return Sequential(*self.layers[index])
        return self.layers[index]


class MLP(Sequential):
    """Multilayer perceptron: `Linear` layers with an activation between each two of them.

    in_features: size of the input's last axis.
    layer_sizes: ``out_features`` of each `Linear`; the last has no activation after it.
    activation: a module class, of which each place gets a new instance, or a function of a
        tensor.
    dtype, device, generator: as for `Linear`.
    """

    def __init__(
        self,
        in_features: int,
        layer_sizes: Sequence[int],
        activation: Callable[..., Any] = ReLU,
        *,
        dtype: Any = None,
        device: str | None = None,
        generator: Any = None,
    ) -> None:
        if not isinstance(layer_sizes, Iterable):
            raise TypeError(
                f"MLP: layer_sizes must be a sequence, e.g. [{layer_sizes!r}], not {layer_sizes!r}"
            )
        layers: list[Any] = []
        for size in layer_sizes:
            if layers:
                layers.append(activation() if isinstance(activation, type) else activation)
            layers.append(
                Linear(in_features, size, dtype=dtype, device=device, generator=generator)
            )
            in_features = size
        if not layers:
            raise ValueError("MLP: layer_sizes must name at least one layer's size")
        super().__init__(*layers)


class _Function(Module):
    """A function as a layer."""

    def __init__(self, function):
        self.function = function

    def forward(self, input):
        return self.function(input)

    def __repr__(self):
        return getattr(self.function, "__name__", repr(self.function))
