"""Layers that are a function and its options, and functions for one, two or three axes."""

from collections.abc import Callable
from inspect import Parameter as Argument
from inspect import signature
from typing import Any, ClassVar

from .._arguments import constructor
from .._foreign_names import explains_arguments, set_constructor
from .._tensor import Tensor
from .common import LENGTHS
from .module import Module

_INPLACE = Argument("inplace", Argument.POSITIONAL_OR_KEYWORD, default=False, annotation=bool)
_COUNTS = "", "count", "rows, columns", "planes, rows, columns"  # of windows, by number of axes


class FunctionLayer(Module):
    """A layer that calls a function with tensors, and with options that are its attributes.

    A class statement names the ``function``; the class inherits or defines ``forward``. Its
    constructor takes those parameters of the function that come after the ones of ``forward``.

    options: the names of the options, if the constructor takes only some, or in another order.
    inplace: whether the constructor also takes PyTorch's ``inplace``, which has no effect because
        ops never write to their inputs.
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
            taken = list(signature(function).parameters.values())[cls._input_count() :]
            if options is not None:
                by_name = {p.name: p for p in taken}
                taken = [by_name[name] for name in options.split()]
            cls._options = tuple([p.name for p in taken])
            cls._shown = cls._shown or tuple([f"{name}=" for name in cls._options])
            taken = [*taken, _INPLACE] if inplace else taken
            set_constructor(cls, constructor(taken, FunctionLayer._construct))
        super().__init_subclass__(**others)

    @classmethod
    def _input_count(cls):
        """The number of the function's parameters before the options."""
        return len(signature(cls.forward).parameters) - 1

    def _construct(self, inplace=False, **options):
        self._set_options(**options)

    def _set_options(self, **options):
        """Make attributes of the options."""
        for name, value in options.items():
            setattr(self, name, value)

    def _kwargs(self):
        return {name: getattr(self, name) for name in self._options}

    def forward(self, input: Tensor) -> Tensor:
        return self.function(input, **self._kwargs())


class OfAxes(Module):
    """A layer whose windows or channels have ``axes`` axes; the class statement says how many."""

    axes: int

    def __init_subclass__(cls, axes: int | None = None, **others: Any) -> None:
        if axes is not None:
            cls.axes = axes
        super().__init_subclass__(**others)


class LayerOfAxes(OfAxes, FunctionLayer):
    """A layer whose function takes a name for errors and the number of axes before its input."""

    @classmethod
    def _input_count(cls):
        return super()._input_count() + 2

    def forward(self, input: Tensor) -> Any:
        return self.function(type(self).__name__, self.axes, input, **self._kwargs())


def for_axes(compute: Callable[..., Any], out: str = "channels", keep_lengths: bool = False) -> Any:
    """Make functions over one, two and three axes of one that takes a name and the number of axes.

    The docstring of ``compute`` is that of the function over two axes. Those of the others name the
    result's axes: ``out`` for the channels, and counts or, with ``keep_lengths``, lengths.
    """
    given = signature(compute)
    taken = given.replace(parameters=list(given.parameters.values())[2:])
    name = compute.__name__[1:]

    def made(n):
        own = f"{name}{n}d"

        def function(*args, **keywords):
            return compute(own, n, *args, **keywords)

        function.__name__ = function.__qualname__ = own
        function.__module__ = compute.__module__
        lengths = (LENGTHS if keep_lengths else _COUNTS)[n]
        shapes = f"(n, channels, {LENGTHS[n]}) -> (n, {out}, {lengths})"
        others = f"`{name}2d` over {n} {'axes' if n > 1 else 'axis'}: ``{shapes}``."
        function.__doc__ = compute.__doc__ if n == 2 else others
        function.__signature__ = taken
        return explains_arguments(function)

    return [made(n) for n in (1, 2, 3)]
