"""Graphs of captured work."""

from .stream import get_current_stream


class Graph:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("a graph must be created via stream capture")

    @classmethod
    def _of(cls, work):
        self = cls.__new__(cls)
        self._work = work
        return self

    def launch(self, stream=None):
        (stream or get_current_stream())._enqueue(self._run)

    def upload(self, stream=None):
        pass

    def _run(self):
        for work in self._work:
            work()
