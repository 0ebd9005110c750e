"""Graphs of captured work."""

import weakref

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
        self.graph = id(self)
        _graphs[self.graph] = self
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


_graphs: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


class Driver:
    """CUDA's driver as `ctypes` finds it."""

    def cuGraphGetNodes(self, graph, nodes, count):
        count._obj.value = len(_graphs[graph.value]._work)
        return 0
