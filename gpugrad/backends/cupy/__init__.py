"""CuPy arrays, on CUDA devices. Imported when a program first uses such a device."""

try:
    import cupy  # noqa: F401
except ModuleNotFoundError as error:
    raise RuntimeError(
        "CUDA needs CuPy, which is not installed; "
        "pip install cupy-cuda13x for CUDA 13 or cupy-cuda12x for CUDA 12"
    ) from error
except ImportError as error:
    raise RuntimeError(f"CuPy is installed but does not load: {error}") from error

from .backend import backend
from .namespace import xp

__all__ = ["backend", "xp"]
