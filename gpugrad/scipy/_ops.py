"""All ops by their public names: ``ops.exp(x)``."""

from typing import Any

from ..autograd.operation import exports

globals().update(exports())


def __getattr__(name: str) -> Any:  # for type checkers, which do not see the names
    raise AttributeError(f"there is no op {name}")
