"""Containers of modules, as a sequence, a list or a dict; and a list of parameters."""

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, Self, overload

from .._arguments import check_type
from .._tensor import Tensor
from ..autograd.implementation import has_twin
from ..ops.neural import dense
from .activations import ReLU
from .layers import Linear
from .module import Module, Parameter


def _check_free(module, name, hidden=()):
    """Raise ValueError for a name under which ``module`` cannot hold a child.

    hidden: names of methods that a child may hide.
    """
    is_free = not hasattr(module, name) or isinstance(vars(module).get(name), Module)
    if not name or "." in name or not (is_free or name in hidden):
        raise ValueError(
            f"{type(module).__name__}: {name!r} cannot name a module: names are not empty, have no "
            f"dots, and are not those of attributes and methods"
        )


class _List(Module):
    """Modules or parameters in an order. Each is an attribute, whose name is its position."""

    def _item(self, item, index):
        """``item`` as a module or parameter to hold; TypeError if it is none."""
        check_type(item, Module, f"{type(self).__name__}: item {index} must be a module")
        return item

    def _named(self):
        return [(name, x) for name, x in vars(self).items() if isinstance(x, Module)]

    def _items(self):
        return [x for _, x in self._named()]

    def _arrange(self, named):
        """Hold these items and no others. Names that are positions are counted anew."""
        named = [
            (str(i) if name.isdecimal() else name, self._item(x, i))
            for i, (name, x) in enumerate(named)
        ]
        for name, _ in self._named():
            delattr(self, name)
        for name, x in named:
            setattr(self, name, x)

    def _name_at(self, index):
        named = self._named()
        try:
            return named[index][0]
        except IndexError:
            raise IndexError(
                f"{type(self).__name__}: index {index} is out of range for {len(named)} items"
            ) from None

    def __len__(self) -> int:
        return len(self._items())

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __contains__(self, item: object) -> bool:
        return any(x is item for x in self._items())  # == of tensors is elementwise

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> Any:
        """The item at ``index``, or for a slice a container of those items."""
        if not isinstance(index, slice):
            return getattr(self, self._name_at(index))
        # Not of the class itself, whose constructor may take other arguments.
        part = next(base for base in type(self).__mro__ if _List in base.__bases__)()
        part._arrange(self._named()[index])
        return part

    def __setitem__(self, index: int, item: Any) -> None:
        setattr(self, self._name_at(index), self._item(item, index))

    def __delitem__(self, index: int | slice) -> None:
        named = self._named()
        if not isinstance(index, slice):
            self._name_at(index)
        del named[index]
        self._arrange(named)

    def append(self, item: Any) -> Self:
        """Add an item at the end; returns this."""
        return self.extend([item])

    def extend(self, items: Iterable[Any]) -> Self:
        """Add items at the end; returns this."""
        added = {str(i): self._item(item, i) for i, item in enumerate(items, len(self))}
        if old := added.keys() & vars(self).keys():
            raise ValueError(f"{type(self).__name__}: an item named {min(old)!r} is there already")
        for name, item in added.items():
            setattr(self, name, item)
        return self

    def insert(self, index: int, item: Any) -> Self:
        """Add an item before that at ``index``, as a list does; returns this."""
        named = self._named()
        named.insert(index, ("0", item))
        self._arrange(named)
        return self

    def pop(self, index: int = -1) -> Any:
        """Remove the item at ``index``, by default the last one, and return it."""
        item = self[index]
        del self[index]
        return item

    def __iadd__(self, items: Iterable[Any]) -> Self:
        return self.extend(items)


class Sequential(_List):
    """Layers, each applied to the result of the one before.

    On a GPU a `Linear` and the activation after it run as one operation, `gpugrad.dense`, which
    needs fewer kernels.

    layers: modules, or functions of a tensor; or only one dict of them by name. In `state_dict`
        and the repr a layer's name is its position, unless it was given one.

    A layer is an attribute under its name, as in ``model.head``.
    """

    def __init__(self, *layers: Module | Callable[[Tensor], Tensor] | Mapping[str, Any]) -> None:
        if len(layers) == 1 and isinstance(layers[0], Mapping):
            for i, (name, layer) in enumerate(layers[0].items()):
                _check_free(self, name)
                setattr(self, name, self._item(layer, i))
        else:
            self.extend(layers)

    def _item(self, item, index):
        if isinstance(item, Module):
            return item
        if callable(item) and not isinstance(item, type):
            return _Function(item)
        remedy = "; write Sequential(*layers)" if isinstance(item, (list, tuple)) else ""
        remedy = f"; write {item.__name__}(), which makes one" if isinstance(item, type) else remedy
        raise TypeError(
            f"Sequential: layer {index} must be a module or a function, not {item!r}{remedy}"
        )

    def forward(self, input: Tensor) -> Tensor:
        layers = self._items()
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


class ModuleList(_List):
    """A list of modules, whose parameters are those of the model that has it as an attribute.

    It has no ``forward``: the model's calls the modules.

    modules: an iterable of modules.
    """

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        self.extend(modules)


class ParameterList(_List):
    """A list of parameters, which are those of the model that has it as an attribute.

    values: an iterable of parameters; other tensors and arrays become parameters.
    """

    def __init__(self, values: Iterable[Any] = ()) -> None:
        self.extend(values)

    def _named(self):  # by their names, since in `functional_call` they are not Parameters
        return [(name, x) for name, x in vars(self).items() if name.isdecimal()]

    def _item(self, item, index):
        return item if isinstance(item, Parameter) else Parameter(item)

    def __repr__(self) -> str:
        lines = [
            f"  ({name}): Parameter of shape {p.shape}, {p.dtype} on {p.device}"
            for name, p in self._named()
        ]
        return "\n".join(["ParameterList(", *lines, ")"]) if lines else "ParameterList()"


class ModuleDict(Module, MutableMapping[str, Any]):
    """A dict of modules, whose parameters are those of the model that has it as an attribute.

    It has no ``forward``: the model's calls the modules.

    modules: a dict of modules, or pairs of a name and a module. A name is a str without dots, and
        not that of a method, such as ``"keys"``; others raise ValueError.
    """

    def __init__(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]] = ()) -> None:
        self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return dict(self.named_children())[key]

    def __setitem__(self, key: str, module: Module) -> None:
        check_type(key, str, "ModuleDict: a key must be a str")
        check_type(module, Module, f"ModuleDict: {key!r} must be a Module")
        _check_free(self, key, ("get", "setdefault", "popitem"))  # as in PyTorch, which lacks them
        setattr(self, key, module)

    def __delitem__(self, key: str) -> None:
        self[key]  # which raises a KeyError
        delattr(self, key)

    def __len__(self) -> int:
        return len(dict(self.named_children()))

    def __iter__(self) -> Iterator[str]:
        return iter(dict(self.named_children()))

    # As of any other module.
    __eq__ = Module.__eq__
    __hash__ = Module.__hash__


class MLP(Sequential):
    """Multilayer perceptron: `Linear` layers with an activation between each two of them.

    ``(..., in_features) -> (..., layer_sizes[-1])``.

    in_features: size of the input's last axis.
    layer_sizes: ``out_features`` of each `Linear`; the last has no activation after it.
    activation: a module class, which is called anew for each place, or a function of a tensor.
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
        place: Any = {"dtype": dtype, "device": device, "generator": generator}
        for size in layer_sizes:
            if layers:
                layers.append(activation() if isinstance(activation, type) else activation)
            layers.append(Linear(in_features, size, **place))
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
