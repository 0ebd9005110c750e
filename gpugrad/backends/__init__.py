"""One namespace ``xp`` per array library, found by an array's type in one dict lookup.

`namespace_of` and `backend_of` map array types to the namespace that ops run
on and to the `Backend` that knows the library's devices and transfers. NumPy is
there from the start; CuPy is imported when a CUDA device is asked for; any other
library that speaks the array API standard is admitted when its first array comes.
"""

from .einsum import diagonal_step, unused_letters
from .einsum import parse as parse_einsum
from .registry import (
    SCALARS,
    Shape,
    add_note,
    adopt,
    as_shape,
    backend_for_device,
    backend_of,
    cuda_device,
    cuda_device_count,
    cuda_problem,
    describe,
    explain,
    from_dlpack,
    is_foreign,
    is_on,
    match_dtypes,
    namespace_of,
    parse_device,
    transfer,
)

__all__ = [
    "SCALARS",
    "Shape",
    "add_note",
    "adopt",
    "as_shape",
    "backend_for_device",
    "backend_of",
    "cuda_device",
    "cuda_device_count",
    "cuda_problem",
    "describe",
    "diagonal_step",
    "explain",
    "from_dlpack",
    "is_foreign",
    "is_on",
    "match_dtypes",
    "namespace_of",
    "parse_device",
    "parse_einsum",
    "transfer",
    "unused_letters",
]

backend_for_device("cpu")  # NumPy is there from the start
