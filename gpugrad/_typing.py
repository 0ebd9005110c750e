"""Types that annotations have in common."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")  # a function's parameters
R = TypeVar("R")  # its result
A = TypeVar("A")  # an auxiliary result
F = TypeVar("F", bound=Callable[..., Any])  # a function with its parameters and result

Argnums = int | str | tuple[int | str, ...]  # which arguments to differentiate by
Trees = Sequence[Any]  # an array or a nested container of arrays for each argument

if TYPE_CHECKING:  # making this class takes time at import

    class Array(Protocol):
        """What an op takes as an input: a Tensor, or an array of NumPy, CuPy or another library."""

        @property
        def shape(self) -> Any: ...

        @property
        def dtype(self) -> Any: ...
