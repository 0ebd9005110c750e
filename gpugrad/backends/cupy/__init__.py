"""CuPy arrays, on CUDA devices. Imported when a program first uses such a device."""

try:
    import cupy
except ModuleNotFoundError as error:
    raise RuntimeError(
        "CUDA needs CuPy, which is not installed; "
        "pip install cupy-cuda13x for CUDA 13 or cupy-cuda12x for CUDA 12"
    ) from error
except ImportError as error:
    raise RuntimeError(f"CuPy is installed but does not load: {error}") from error

if int(cupy.__version__.split(".")[0]) < 14:  # kernels would get wrong arguments, see `CPointer`
    raise RuntimeError(
        f"CUDA needs CuPy 14 or newer, not {cupy.__version__}; "
        f"pip install --upgrade cupy-cuda13x for CUDA 13 or cupy-cuda12x for CUDA 12"
    )

from .backend import backend
from .namespace import xp

__all__ = ["backend", "xp"]
