"""Layers that are a function and its options, and functions for one, two or three axes."""

from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import Signature, signature
from typing import Any, ClassVar

from .._foreign_names import explains_arguments
from .._tensor import Tensor
from .common import LENGTHS
from .module import Module

_SELF = Argument("self", Argument.POSITIONAL_OR_KEYWORD)
_INPLACE = Argument("inplace", Argument.POSITIONAL_OR_KEYWORD, default=False, annotation=bool)


class FunctionLayer(Module):
    """A layer that calls a function with tensors, and with options that are its attributes.

    A subclass names the ``function`` where it is defined, and inherits or defines ``forward``. The
    constructor takes the parameters that the function has after those of ``forward``.

    options: the names of the options, if they are not all, or in another order.
    inplace: whether the constructor takes ``inplace``, which PyTorch has and ops, which never write
        to their inputs, ignore.
    """

    function: ClassVar[Callable[..., Any]]
    _options: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(
        cls,
        function: Callable[..., Any] | None = None,
        options: str | None = None,
        inplace: bool = False,
        **others: Any,
    ) -> None:
        if function is not None:
            cls.function = staticmethod(function)
            taken = list(signature(function).parameters.values())[cls._inputs() :]
            if options is not None:
                by_name = {p.name: p for p in taken}
                taken = [by_name[name] for name in options.split()]
            cls._options = tuple([p.name for p in taken])
            cls._shown = cls._shown or tuple([f"{name}=" for name in cls._options])
            if "__init__" not in vars(cls):
                _define_init(cls, [*taken, _INPLACE] if inplace else taken)
        super().__init_subclass__(**others)

    @classmethod
    def _inputs(cls):
        """How many of the function's parameters are no options."""
        return len(signature(cls.forward).parameters) - 1

    def _keep(self, **options):
        """Make the options attributes."""
        for name, value in options.items():
            setattr(self, name, value)

    def _kept(self):
        return {name: getattr(self, name) for name in self._options}

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, **self._kept())


def _define_init(cls, parameters):
    taken = Signature([_SELF, *parameters])

    def __init__(self, *args, **keywords):
        bound = taken.bind(self, *args, **keywords)
        bound.apply_defaults()
        given = bound.arguments
        self._keep(**{name: x for name, x in given.items() if name not in ("self", "inplace")})

    __init__.__signature__ = taken
    __init__.__qualname__ = f"{cls.__qualname__}.__init__"
    cls.__init__ = __init__


class OfAxes(Module):
    """A layer whose windows or channels have ``axes`` axes, which its class is defined with."""

    axes: int

    def __init_subclass__(cls, axes: int | None = None, **others: Any) -> None:
        if axes is not None:
            cls.axes = axes
        super().__init_subclass__(**others)


class LayerOfAxes(OfAxes, FunctionLayer):
    """A layer whose function first takes a name, for errors, and the number of axes."""

    @classmethod
    def _inputs(cls):
        return super()._inputs() + 2

    def forward(self, input: Tensor) -> Any:
        return self.function(type(self).__name__, self.axes, input, **self._kept())


def for_axes(compute: Callable[..., Any], name: str) -> Any:
    """Functions over one, two and three axes, given one of their name and the number of axes.

    Its docstring is that of the function over two axes.
    """
    given = signature(compute)
    taken = given.replace(parameters=list(given.parameters.values())[2:])

    def made(n):
        own = f"{name}{n}d"

        def function(*args, **keywords):
            return compute(own, n, *args, **keywords)

        function.__name__ = function.__qualname__ = own
        function.__module__ = compute.__module__
        others = f"`{name}2d` over the last axes of ``(n, channels, {LENGTHS[n]})``."
        function.__doc__ = compute.__doc__ if n == 2 else others
        function.__signature__ = taken
        return explains_arguments(function)

    return [made(n) for n in (1, 2, 3)]
