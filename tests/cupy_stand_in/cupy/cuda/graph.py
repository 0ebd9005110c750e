"""Graphs of captured work."""

from .memory import freed
from .stream import get_current_stream


class Graph:
    def __init__(self, *args, **kwargs):
        raise NotImplementedError("a graph must be created via stream capture")

    @classmethod
    def _of(cls, work, memory):
        self = cls.__new__(cls)
        self._work = work
        self._memory = memory
        return self

    def launch(self, stream=None):
        (stream or get_current_stream())._enqueue(self._run)

    def upload(self, stream=None):
        pass

    def _run(self):
        if not freed.isdisjoint(self._memory):
            raise RuntimeError("memory that the graph uses was freed")
        for work in self._work:
            work()
