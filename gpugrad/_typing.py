"""Types that annotations have in common."""

from collections.abc import Callable
from typing import Any, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A")
F = TypeVar("F", bound=Callable[..., Any])


class Array(Protocol):
    """What an op takes as an input: a Tensor, or an array of NumPy, CuPy or another library."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...
