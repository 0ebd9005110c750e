"""The settings of ``cupyx.errstate``, and CUDA's errors."""

import threading


class CUDARuntimeError(RuntimeError):
    pass


class _State(threading.local):
    linalg = "ignore"


state = _State()
