"""Pretended devices, and streams of which only copies can be behind."""

from . import runtime  # noqa: F401
from .device import Device  # noqa: F401
from .stream import Event, Stream, get_current_stream  # noqa: F401
