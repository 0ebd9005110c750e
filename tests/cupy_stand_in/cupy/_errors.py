"""The settings of ``cupyx.errstate``, and CUDA's errors."""

import threading
from typing import ClassVar


class CUDARuntimeError(RuntimeError):
    """An error of CUDA's, made of its name; CuPy makes it of its number, ``status``."""

    _NUMBERS: ClassVar = {
        "cudaErrorMemoryAllocation": 2,
        "cudaErrorStreamCaptureUnsupported": 900,
        "cudaErrorStreamCaptureInvalidated": 901,
    }

    @property
    def status(self):
        return self._NUMBERS[str(self).partition(":")[0]]


class _State(threading.local):
    linalg = "ignore"


state = _State()
