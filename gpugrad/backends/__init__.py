"""One namespace ``xp`` per array library, found by an array's type in one dict lookup.

`namespace_of` and `backend_of` map array types to the namespace that ops run on and to the
`Backend` that knows the library's devices and transfers. NumPy is registered at import, CuPy when
a program first uses a CUDA device, and any other library that implements the array API standard
when its first array arrives.
"""

# Imported here, where few imports are in progress: the more there are, the longer it takes.
import numpy as _

from .einsum import diagonal_step, unused_letters
from .einsum import parse as parse_einsum
from .numpy.threads import get_num_threads, set_num_threads, share_processors, usable_processors
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
from .windows import check_convolution, check_convolution_input, counts_of_windows

backend_for_device("cpu")  # registers NumPy
