"""The settings of ``cupyx.errstate``."""

import threading


class _State(threading.local):
    linalg = "ignore"


state = _State()
