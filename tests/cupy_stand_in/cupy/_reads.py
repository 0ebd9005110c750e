"""A record of everything that made the host wait for the device; CuPy does not have this."""

import sys
from pathlib import Path

from ._capture import refuse

HERE = str(Path(__file__).parent)  # cupyx is beside it

reads: list[str] = []


def note(what):
    """Record a host read, with the place in the program that made it."""
    refuse(what)
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(HERE):
        frame = frame.f_back
    reads.append(f"{what} in {frame.f_code.co_filename}:{frame.f_lineno}")
