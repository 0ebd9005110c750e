"""What ``cupyx.errstate`` sets."""

import threading


class _State(threading.local):
    linalg = "ignore"


state = _State()
