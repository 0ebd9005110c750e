"""What ``gpugrad.__array_namespace_info__()`` returns: inspection as in the array API standard."""

from typing import Any

from ._dtypes import isdtype
from .backends import cuda_device_count, parse_device
from .backends.dtypes import complex64, float32, int64, number_dtype

_DTYPES = """
    bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128
""".split()


def capabilities() -> dict[str, Any]:
    """What is supported: boolean indexing, shapes that depend on data, how many axes."""
    return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}


def default_device() -> str:
    """Where arrays are created: ``"cpu"``."""
    return "cpu"


def devices() -> tuple[str, ...]:
    """``"cpu"`` and the CUDA devices that can be used."""
    return ("cpu", *(f"cuda:{i}" for i in range(cuda_device_count())))


def default_dtypes(*, device: str | None = None) -> dict[str, Any]:
    """The default dtype of each kind of number, and of indices; the same on all devices."""
    parse_device(device or "cpu")
    kinds = "real floating", "complex floating", "integral", "indexing"
    return dict(zip(kinds, (float32, complex64, int64, int64), strict=True))


def dtypes(
    *, device: str | None = None, kind: str | tuple[str, ...] | None = None
) -> dict[str, Any]:
    """The standard's dtypes of a kind (see `gpugrad.isdtype`), or all, by name."""
    parse_device(device or "cpu")
    return {d.name: d for d in map(number_dtype, _DTYPES) if kind is None or isdtype(d, kind)}
