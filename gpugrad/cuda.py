"""CUDA devices, through CuPy."""

from .backends import cuda_problem


def is_available():
    """Whether a CUDA device can be used: CuPy is installed and finds a driver and a GPU."""
    return cuda_problem() is None


def why_not():
    """None if a CUDA device can be used, else one sentence that says what is missing."""
    return cuda_problem()
