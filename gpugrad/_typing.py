"""Types of arguments, for type checkers."""

from typing import Any, Protocol


class Array(Protocol):
    """What an op takes as an input: a Tensor, or an array of NumPy, CuPy or another library."""

    @property
    def shape(self) -> Any: ...

    @property
    def dtype(self) -> Any: ...
