"""CUDA devices, through CuPy."""

from .backends import cuda_device_count, cuda_problem


def is_available() -> bool:
    """Whether a CUDA device can be used: CuPy is installed, finds a GPU and computes on it."""
    return cuda_problem() is None


def why_not() -> str | None:
    """None if a CUDA device can be used, else one sentence that says what is missing."""
    return cuda_problem()


def device_count() -> int:
    """How many CUDA devices can be used; 0 where none can."""
    return cuda_device_count()
