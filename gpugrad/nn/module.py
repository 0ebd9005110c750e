"""`Module` and `Parameter`, the building blocks of models."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self, TypeVar, Union

from .._arguments import check_type, device_and_dtype, is_complex, moved, require
from .._creation import asarray, tensor, zeros_like
from .._dtypes import isdtype
from .._foreign_names import Explained, explains_arguments, missing
from .._tensor import Tensor
from .._typing import P
from ..autograd.call import wrap
from ..autograd.graph import Leaf, writes
from ..autograd.hooks import Handle
from ..backends import backend_of
from ..backends.placement import placed_like
from . import hooks


class Parameter(Tensor):
    """A leaf that belongs to a `Module` when it is one of the module's attributes.

    data: a tensor, an array or nested sequences; shares the memory of a tensor or an array.
    Raises TypeError if ``requires_grad`` is True and the dtype is not floating.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        self.array = asarray(data).array
        self.node = None
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


_R = TypeVar("_R", bound=Union[Tensor, Any], covariant=True)  # noqa: UP007  jedi reads this


class _HasForward(Protocol[P, _R]):
    """A module; calling it takes and returns the same as its ``forward``."""

    def forward(self, *args: P.args, **kwargs: P.kwargs) -> _R: ...


class IncompatibleKeys(NamedTuple):
    """The names that `Module.load_state_dict` skipped with ``strict=False``."""

    missing_keys: list[str]
    unexpected_keys: list[str]


class Module(Explained):
    """Base class of layers and models: subclass it and define ``forward``.

    Attributes that are a `Parameter` or a `Module` belong to the model under the attribute's
    name, and so do tensors given to `register_buffer`. The methods find them by looking at the
    instance, so ``super().__init__()`` need not be called. A list or dict hides its modules or
    parameters, so that methods such as `parameters` raise TypeError: use `ModuleList`, `ModuleDict`
    or `ParameterList`. A tuple keeps modules out on purpose.

    Calling a module calls the ``forward`` that its class was defined with, or the class's own
    ``__call__``. Such a ``__call__`` calls ``self.forward``: ``super().__call__`` would be the
    ``forward`` of the class above. A ``forward`` set on an instance afterwards is not called.

    training: whether layers such as `Dropout` behave as in training; see `train`.
    """

    training = True
    _buffer_names: Mapping[str, bool] = {}  # name: whether it is persistent
    # The repr shows these attributes, with their names if they end in "=". It shows the second ones
    # only if they, or members of a tuple, differ from a value. Of a bias it shows whether there is
    # one.
    _shown: tuple[str, ...] = ()
    _shown_unless: ClassVar[Mapping[str, Any]] = {}

    def _no_forward(self, *inputs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} defines no forward")

    forward: Callable[..., Tensor | Any] = _no_forward

    if TYPE_CHECKING:

        def __call__(self: _HasForward[P, _R], *args: P.args, **kwargs: P.kwargs) -> _R: ...
    else:
        # Subclasses use forward itself: passing on *args and **kwargs would double a call's cost.
        __call__ = _no_forward

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        # A __call__ that the user defined stays.
        if cls.__call__ in [vars(base).get("forward") for base in cls.__mro__]:
            cls.__call__ = cls.forward  # type: ignore[assignment, method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        # Forward would still use another value, but optimizers and state_dict would not see it.
        if isinstance(vars(self).get(name), Parameter) and not isinstance(value, Parameter | None):
            raise TypeError(
                f"{type(self).__name__}.{name} is a Parameter, and can be replaced by another or "
                f"by None, not by a {type(value).__name__}; wrap it in nn.Parameter, or write to "
                f"it: with no_grad(): module.{name}[...] = values"
            )
        if name in self._buffer_names and not isinstance(value, Tensor | None):
            buffer, given = f"{type(self).__name__}.{name}", type(value).__name__
            raise TypeError(f"{buffer} is a buffer, and must be a Tensor or None, not {given}")
        if type(value) is Tensor and value.requires_grad and value.is_leaf:
            warnings.warn(
                f"{type(self).__name__}.{name} is a tensor that requires grad, but no parameter of "
                f"the module: optimizers and state_dict do not see it; wrap it in nn.Parameter",
                stacklevel=2,
            )
        if type(value) is bool and name == "requires_grad":  # would freeze nothing
            raise missing(type(self).__name__, name, "Module")
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        super().__delattr__(name)
        if name in self._buffer_names:
            self._buffer_names = {k: x for k, x in self._buffer_names.items() if k != name}

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Make ``tensor`` an attribute that moves with the model but is not trained.

        The attribute may be set to another tensor or to None, and is no buffer while it is None.

        persistent: whether it is part of the `state_dict`.

        A type checker knows the attribute if the class declares it: ``mean: Tensor``.
        """
        if not isinstance(tensor, Tensor | None) or isinstance(tensor, Parameter):
            raise TypeError(
                f"register_buffer: {name} must be a Tensor, not a {type(tensor).__name__}"
            )
        if not name.isidentifier() or (hasattr(self, name) and name not in self._buffer_names):
            raise ValueError(f"register_buffer: {name!r} is taken, or cannot name an attribute")
        self._buffer_names = {**self._buffer_names, name: bool(persistent)}
        setattr(self, name, tensor)

    # Contents. Each parameter, buffer and module is listed once, even if it has several names.

    def _own_parameters(self) -> Iterator[tuple[str, Parameter]]:
        return ((name, x) for name, x in vars(self).items() if isinstance(x, Parameter))

    def _own_buffers(self) -> Iterator[tuple[str, Tensor]]:
        buffers = ((name, getattr(self, name)) for name in self._buffer_names)
        return ((name, x) for name, x in buffers if x is not None)

    def named_children(self) -> Iterator[tuple[str, "Module"]]:
        """The names and modules of the direct children of this module."""
        return ((name, x) for name, x in vars(self).items() if isinstance(x, Module))

    def children(self) -> Iterator["Module"]:
        """The direct children of this module."""
        return (module for _, module in self.named_children())

    @explains_arguments
    def named_modules(self) -> Iterator[tuple[str, "Module"]]:
        """This module, named ``""``, and all modules in it, with dotted names; parents first.

        Raises TypeError at the end if a list or dict hides modules; see `Module`.
        """
        seen: dict[int, Module] = {}
        stack: list[tuple[str, Module]] = [("", self)]
        while stack:
            path, module = stack.pop()
            if id(module) in seen:
                continue
            seen[id(module)] = module
            yield path, module
            children = [(_join(path, name), child) for name, child in module.named_children()]
            stack.extend(reversed(children))
        for module in seen.values():
            _check_nothing_hidden(module, seen)

    def modules(self) -> Iterator["Module"]:
        """This module and all modules in it; parents first."""
        return (module for _, module in self.named_modules())

    @explains_arguments
    def named_parameters(
        self, prefix: str = "", recurse: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters of this module and of all modules in it, with dotted names.

        prefix: put in front of all names, with a dot.
        recurse: whether to go into the modules in it.
        """
        return self._collect(Module._own_parameters, prefix, recurse)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, unless ``recurse`` is False, of all modules in it."""
        return (parameter for _, parameter in self.named_parameters("", recurse))

    @explains_arguments
    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The buffers of this module and of all modules in it, as `named_parameters`."""
        return self._collect(Module._own_buffers, prefix, recurse)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, unless ``recurse`` is False, of all modules in it."""
        return (buffer for _, buffer in self.named_buffers("", recurse))

    def _collect(self, own, prefix, recurse):
        seen = set()
        for path, module in self.named_modules() if recurse else [("", self)]:
            for name, x in own(module):
                if id(x) not in seen:
                    seen.add(id(x))
                    yield _join(prefix, _join(path, name)), x

    # Changes to the whole model

    def apply(self, fn: Callable[["Module"], Any]) -> Self:
        """Call ``fn`` with each module in this one, then with this one; returns the module.

        Children come before their parents. A typical ``fn`` sets initial values::

            def initialize(module):
                if isinstance(module, nn.Linear):
                    nn.init.zeros_(module.bias)

            model.apply(initialize)
        """
        seen = set()

        def visit(module):
            if id(module) in seen:
                return
            seen.add(id(module))
            for child in [*module.children()]:
                visit(child)
            fn(module)

        visit(self)
        return self

    def train(self, mode: bool = True) -> Self:
        """Switch all modules to training mode, or with False to `eval` mode; returns the module."""
        require(mode in (True, False), "train: the mode must be True or False", mode)
        for module in [*self.modules()]:
            module.training = bool(mode)
        return self

    def eval(self) -> Self:
        """Switch all modules to evaluation mode; returns the module."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Train the parameters, or with False freeze them; returns the module."""
        for parameter in [*self.parameters()]:
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set each parameter's ``grad`` to None, or to zeros if ``set_to_none`` is False."""
        for p in [*self.parameters()]:
            p.grad = None if set_to_none or p.grad is None else zeros_like(p.grad.detach())

    def to(
        self, *args: Any, device: str | None = None, dtype: Any = None, non_blocking: bool = False
    ) -> Self:
        """Move parameters, their gradients, and buffers; returns the module.

        Takes the arguments of `Tensor.to`. ``dtype`` must be floating, and is applied to
        floating parameters and buffers; the others keep their dtypes. The `Parameter` objects
        stay the same, so an optimizer made before still has them. A graph recorded before no
        longer reaches parameters that changed: backward through it raises RuntimeError.
        """
        device, dtype = device_and_dtype(args, device, dtype)
        everything = [*self.parameters(), *self.buffers()]
        if not (dtype is None or isdtype(dtype, ("real floating", "complex floating"))):
            raise TypeError(f"Module.to: the dtype must be floating, not {dtype}")
        is_real = dtype is not None and isdtype(dtype, "real floating")
        if is_real and any(map(is_complex, everything)):
            raise TypeError(f"Module.to: complex parameters cannot become {dtype}")
        for x in everything:
            array = moved(x, device, dtype).array
            if array is x.array:
                continue
            x.array = array
            if type(x.node) is Leaf:
                x.node.owner, watch = _moved, x.node.watch
                x.node = Leaf(x)
                x.node.watch = watch
            if x.grad is not None:  # also that of a parameter that was frozen later
                x._grad = moved(x.grad, device, dtype)
        return self

    # State

    def _state(self, path=""):
        """Parameters and persistent buffers under all their names, in PyTorch's order."""
        for name, x in self._own_parameters():
            yield _join(path, name), x
        for name, x in self._own_buffers():
            if self._buffer_names[name]:
                yield _join(path, name), x
        for name, module in self.named_children():
            yield from module._state(_join(path, name))

    @explains_arguments
    def state_dict(self) -> dict[str, Tensor]:
        """Copies of the parameters and persistent buffers, by PyTorch's dotted names."""
        list(self.modules())  # raises an error for modules that are hidden
        return {name: tensor(x) for name, x in self._state()}

    @explains_arguments
    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> IncompatibleKeys:
        """Overwrite parameters and persistent buffers with the values in ``state``.

        Tensors that share a parameter's memory, such as ``p[:]`` and ``p.detach()``, change with
        it. Backward through a graph that saved a parameter's old value raises afterwards.

        state: tensors or arrays by name. Each is moved to the device of its parameter, and cast
            to the parameter's dtype if that is of the same kind.
        strict: whether the names must agree; if False, names that do not are skipped, and
            returned.

        Raises TypeError if ``state`` is not a dict, and ValueError with a list of the names
        that are missing or unexpected and of shapes and kinds of dtype that do not fit. An
        error leaves the module as it was.
        """
        check_type(state, Mapping, "load_state_dict: the state must be a dict of tensors by name")
        list(self.modules())  # raises an error for modules that are hidden
        targets = dict(self._state())
        missing = [name for name in targets if name not in state]
        unexpected = [str(name) for name in state if name not in targets]
        values, misfits = {}, []
        for name, target in targets.items():
            if name in state:
                misfit, values[name] = _fitted(state[name], target)
                if misfit:
                    misfits.append(f"{name}: {misfit}")
        if misfits or (strict and (missing or unexpected)):
            lines = [f"load_state_dict: the state is not one of this {type(self).__name__}"]
            for what, names in ("missing", missing), ("unexpected", unexpected):
                if strict and names:
                    lines.append(f"{what}: {_listed(names, ', ')}")
            if missing and {f"module.{name}" for name in missing} <= {*unexpected}:
                lines.append(
                    "all names begin with 'module.', as those of DistributedDataParallel do: load "
                    "{name.removeprefix('module.'): x for name, x in state.items()}"
                )
            if misfits:
                lines.append(_listed(misfits, "\n  "))
            raise ValueError("\n  ".join([*lines, "nothing was loaded"]))
        for name, value in values.items():
            overwrite(targets[name], value)
        return IncompatibleKeys(missing, unexpected)

    # Hooks

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call ``hook(module, args)`` before every ``forward``; its result replaces ``args``.

        The hook returns None to leave ``args`` unchanged, a tuple, or the only argument.

        prepend: call it before the hooks registered earlier.
        with_kwargs: call ``hook(module, args, kwargs)``, which returns None or ``(args, kwargs)``.

        Returns a handle whose ``remove()`` removes the hook; used as a context manager, the
        handle removes it at the end. ``module.forward(x)`` calls no hooks, and copies of a
        module have none.
        """
        name = "register_forward_pre_hook"
        return hooks.register(self, "before", hook, name, prepend, with_kwargs)

    def register_forward_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> Handle:
        """Call ``hook(module, args, output)`` after every ``forward``.

        The hook's result, unless None, replaces the output. With ``with_kwargs`` it is called
        as ``hook(module, args, kwargs, output)``. For the rest see `register_forward_pre_hook`.
        """
        return hooks.register(self, "after", hook, "register_forward_hook", prepend, with_kwargs)

    def register_full_backward_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> Handle:
        """Call ``hook(module, grad_input, grad_output)`` in every backward pass.

        grad_input: a tuple with the gradient of each positional argument, None for arguments
            that get none. The hook's result, unless None, replaces it.
        grad_output: a tuple with the gradient of each output.

        Backward calls the hook once it knows the gradients of the arguments or, if no argument
        requires grad, those of the outputs. ``forward`` must return a Tensor or a sequence of
        Tensors. Inside `vmap` the gradients may be those of all examples at once, along a
        first axis. For the rest see `register_forward_pre_hook`.

        >>> from gpugrad import nn, ones
        >>> layer = nn.Linear(3, 2)
        >>> sizes = []
        >>> with layer.register_full_backward_hook(lambda m, gx, gy: sizes.append(gy[0].shape)):
        ...     layer(ones((5, 3))).sum().backward()
        >>> sizes
        [(5, 2)]
        """
        return hooks.register(self, "backward", hook, "register_full_backward_hook", prepend)

    def extra_repr(self) -> str:
        """The text that the repr shows between a layer's parentheses."""
        shown = [self._as_shown(name) for name in self._shown]
        for name, usual in self._shown_unless.items():
            value = self._value_shown(name)
            values = value if isinstance(value, tuple) else (value,)
            if any(x != usual for x in values):
                shown.append(f"{name}={value}")
        return ", ".join(shown)

    def _as_shown(self, name):
        value = self._value_shown(name.removesuffix("="))
        return f"{name}{value!r}" if name.endswith("=") else repr(value)

    def _value_shown(self, name):
        value = getattr(self, name)
        return isinstance(value, Tensor) or value is True if name == "bias" else value

    def __repr__(self) -> str:
        children = self.named_children()
        lines = [f"  ({name}): " + repr(x).replace("\n", "\n  ") for name, x in children]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return "\n".join([f"{type(self).__name__}({extra}", *lines, ")"])


@contextmanager
def in_mode(model: Module, training: bool) -> Iterator[None]:
    """Have the modules of a model in one mode for a while, whichever each was in before."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.train() if training else model.eval()
        yield
    finally:
        for module, mode in modes:
            module.training = mode


def overwrite(tensor, values):
    """Give ``tensor``, which must not be the result of an op, the values of an array or a number.

    If it requires grad this happens in place, and backward through a graph that saved the old
    values then raises an error.
    """
    array = tensor.array
    backend = backend_of[type(array)]
    if tensor.node is None:  # only parameters have to stay where they are
        tensor.array = array = backend.asarray(array, copy=True)
    places = [writes.place(array)]
    writes.note(places)
    try:
        with backend.scope(array):
            array[...] = values
    finally:
        writes.note(places)


def is_unshared(tensor):
    """Whether nothing but ``tensor`` can see its memory, not even a graph."""
    backend = backend_of[type(tensor.array)]
    return _references(tensor) == _ALONE and backend.is_unshared(tensor.array)


def _references(tensor):
    return sys.getrefcount(tensor.array)


_ALONE = _references(wrap(object(), None))  # the count where only the tensor has the array


def _check_nothing_hidden(module, known):
    """Raise TypeError if a list or dict of ``module`` holds modules that are not among ``known``.

    The keys of ``known`` are ids. Only the first item decides whether a list is one of modules, so
    that long lists of other things take no time.
    """
    for name, value in vars(module).items():
        first = next(_items(value), None) if type(value) in (list, dict) else None
        if not isinstance(first, Module | Parameter):
            continue
        kind, container, proper = "Module", "nn.ModuleList", known
        if isinstance(first, Parameter):
            kind, container = "Parameter", "nn.ParameterList"
            proper = {id(p): p for owner in known.values() for _, p in owner._own_parameters()}
        if all(id(x) in proper for x in _items(value)):
            continue
        if type(value) is dict:
            container = "nn.ModuleDict" if kind == "Module" else "attributes"
        raise TypeError(
            f"{type(module).__name__}.{name} is a {type(value).__name__} that hides {kind}s: they "
            f"would be neither trained nor saved; make it {container}, or a tuple to keep them out"
        )


def _items(value):
    """Yield the items of lists and dicts, however deep these are nested."""
    if type(value) in (list, dict):
        for item in value.values() if type(value) is dict else value:
            yield from _items(item)
    else:
        yield value


def _join(path, name):
    return f"{path}.{name}" if path else name


def _moved():
    """Replaces a leaf's ``owner`` once its tensor was moved to another device or dtype."""
    raise RuntimeError(
        "backward: a parameter was moved to another device or dtype after the forward pass; "
        "compute the forward pass again"
    )


def _fitted(value, target):
    """Why ``value`` cannot replace that of ``target``, or None; and ``value`` as a raw array."""
    if not hasattr(value, "shape") or not hasattr(value, "dtype"):
        return f"is a {type(value).__name__}, not a tensor", None
    if not target.is_leaf:
        return f"cannot be overwritten: it is a result of {target.grad_fn.name}, not a leaf", None
    if not getattr(getattr(target.array, "flags", None), "writeable", True):
        return "cannot be overwritten: its array is read-only", None
    value = asarray(value).detach()
    if value.shape != target.shape:
        return f"has shape {value.shape}, not {target.shape}", None
    if _kind(value) != _kind(target):
        return f"is {value.dtype}, not {target.dtype}", None
    return None, placed_like(value.array, target.array)


def _kind(x):
    """The kind of a tensor's dtype; values may be cast only to another width of the same kind."""
    isdtype = backend_of[type(x.array)].xp.isdtype
    kinds = ("bool", "integral", "real floating", "complex floating")
    return next((kind for kind in kinds if isdtype(x.dtype, kind)), str(x.dtype))


def _listed(names, separator):
    rest = [f"and {len(names) - 10} more"] if len(names) > 10 else []
    return separator.join([*names[:10], *rest])
