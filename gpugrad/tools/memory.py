"""`memory_report`: the bytes that graphs keep for backward, by op and line."""

import gc
import threading
from collections import Counter, deque
from typing import Any, NamedTuple
from weakref import ref

from .._tensor import Tensor
from ..autograd.graph import Leaf
from ..backends import backend_of, describe
from .observing import Line, Tool, arrays_in
from .tables import table


class Row(NamedTuple):
    """The memory that the calls of an op from one line keep.

    op: its name.
    line: the line of the program; None if it is not known.
    nbytes: the bytes of the buffers, each of which is counted in one row only.
    of_leaves: how many of these bytes belong to leaves.
    buffers: the number of buffers.
    largest: the array with the largest buffer, as text.
    """

    op: str
    line: Line | None
    nbytes: int
    of_leaves: int
    buffers: int
    largest: str


class _Buffer(NamedTuple):
    identity: Any
    nbytes: int
    text: str


class memory_report(Tool):
    """Report the memory that graphs keep for backward, by op and line of the program.

    ``with memory_report() as report:`` notes which arrays the calls in the block keep, in all
    threads. In the block and after it, ``print(report)`` shows those that are still kept, and

    - ``report.rows`` are the table's rows, the largest first,
    - ``report.total`` is their number of bytes,
    - ``report.of_leaves`` is how many of these bytes belong to leaves: parameters, and
      inputs that require grad, which exist without the graph too,
    - ``report.peak`` is the largest number of bytes that were kept at once within the block.

    A buffer that several calls keep, or keep views of, counts once, as a whole, for the call that
    kept it first. The report itself keeps nothing alive: backward frees what it used, so nothing
    is left after it unless ``retain_graph`` is set. The report does not see graphs that were
    recorded before the block, gradients, or results that no derivative needs.
    """

    def __init__(self) -> None:
        self.peak = self._total = 0
        self._lock = threading.Lock()
        self._kept: dict[ref, tuple[str, Line | None, list[_Buffer]]] = {}  # by the calls' records
        self._uses: Counter[Any] = Counter()  # how many records keep each buffer
        # References to records that were freed and are still in _kept. A record can be freed at
        # any time, even while the lock is held.
        self._dead: deque[ref] = deque()

    def recorded(self, record, saved):
        buffers = {}
        for array in arrays_in(saved):
            identity, size = _buffer_id(array), backend_of[type(array)].buffer_size(array)
            buffers.setdefault(identity, _Buffer(identity, size, describe(array)))
        if not buffers:
            return
        with self._lock:
            self._remove_dead()
            reference = ref(record, self._dead.append)
            self._kept[reference] = record.op.name, record.line, list(buffers.values())
            for buffer in buffers.values():
                self._uses[buffer.identity] += 1
                if self._uses[buffer.identity] == 1:
                    self._total += buffer.nbytes
            self.peak = max(self.peak, self._total)

    def _remove_dead(self):
        while self._dead:
            _, _, buffers = self._kept.pop(self._dead.popleft())
            for buffer in buffers:
                self._uses[buffer.identity] -= 1
                if not self._uses[buffer.identity]:
                    del self._uses[buffer.identity]
                    self._total -= buffer.nbytes

    @property
    def total(self) -> int:
        with self._lock:
            self._remove_dead()
            return self._total

    @property
    def of_leaves(self) -> int:
        return sum(row.of_leaves for row in self.rows)

    @property
    def rows(self) -> list[Row]:
        with self._lock:
            self._remove_dead()
            kept = list(self._kept.values())
        leaves = _buffers_of_leaves()
        counted = set()
        groups: dict[Any, list[_Buffer]] = {}
        for op, line, buffers in kept:
            group = groups.setdefault((op, line), [])
            group += [b for b in buffers if b.identity not in counted]
            counted.update([b.identity for b in buffers])
        rows = [
            Row(
                op, line, nbytes=sum(b.nbytes for b in group), buffers=len(group),
                of_leaves=sum(b.nbytes for b in group if b.identity in leaves),
                largest=max(group, key=lambda b: b.nbytes).text,
            )
            for (op, line), group in groups.items() if group
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.nbytes)

    def __repr__(self) -> str:
        rows = self.rows
        total, of_leaves = sum(row.nbytes for row in rows), sum(row.of_leaves for row in rows)
        said = f"kept for backward: {_mb(total)}, of which leaves' {_mb(of_leaves)}"
        said += f"; at most {_mb(self.peak)}"
        if not rows:
            return said
        columns: dict[str, str | None] = {"MB": ",.3f", "leaves' MB": ",.3f", "buffers": ",d"}
        columns |= dict.fromkeys(("op", "largest", "line"))
        cells = [
            (nbytes / 1e6, of_leaves / 1e6, buffers, op, largest, line.text if line else "?")
            for op, line, nbytes, of_leaves, buffers, largest in rows
        ]
        return f"{said}\n\n{table(columns, cells)}"


def _buffer_id(array):
    """Identifies the buffer of an array or, if the library hides it, the array itself."""
    backend = backend_of[type(array)]
    buffer = backend.buffer(array)
    return (backend.name, buffer) if buffer is not None else (backend.name, "array", id(array))


def _mb(size):
    return f"{size / 1e6:,.3f} MB"


def _buffers_of_leaves():
    """Identities of the buffers of all living leaves."""
    found = set()
    for x in gc.get_objects():
        if issubclass(type(x), Tensor) and type(getattr(x, "node", None)) is Leaf:
            found.update(map(_buffer_id, arrays_in(x)))
    return found
