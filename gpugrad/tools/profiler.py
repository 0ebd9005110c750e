"""`profile`: the time that each op takes, as a table and as a trace."""

import json
import os
import threading
import time
from typing import Any, NamedTuple

from ..backends import backend_of
from .observing import Tool, arrays_in, like, like_text, user_line
from .tables import table


class Row(NamedTuple):
    """The cost of all runs of an op's forward, or of its derivatives.

    op: its name.
    phase: "forward", "backward", or "tangent" in forward mode.
    calls: how many runs; backward of an op runs a rule for each input that wants a gradient.
    total: seconds, with the ops called within.
    own: seconds without these.
    nbytes: the bytes of the results.
    """

    op: str
    phase: str
    calls: int
    total: float
    own: float
    nbytes: int


class _Run(NamedTuple):
    """A run of a forward or rule; times in nanoseconds."""

    op: str
    phase: str
    start: int
    duration: int
    own: int
    outermost: bool
    nbytes: int
    thread: tuple[int, str]
    inputs: list
    results: list
    line: Any


class profile(Tool):
    """Time each op, forward and backward, in all threads.

    ``with profile() as report:`` times the ops in the block. In the block and after it,
    ``print(report)`` shows a table, the longest times first, and

    - ``report.rows`` are the table's rows,
    - ``report.total`` is the time in ops in seconds, and ``report.elapsed`` the time of the whole
      block. The rest is the program's own, and gpugrad's for calls, the graph and sums of
      gradients,
    - ``report.save("trace.json")`` writes a trace that https://ui.perfetto.dev and
      ``chrome://tracing`` show: each run is on its thread's line, with nested runs below it, and
      has the shapes of its inputs and results and the line of the program.

    If ops call ops, as derivatives do under ``create_graph``, the ``total`` time includes the
    nested runs and the ``own`` time does not.

    sync: wait for the GPU before and after each run. Without it, a GPU's times are those to
        launch work, not to do it; with it, nothing overlaps.

    Profiling adds some 20 µs to each run. They count in ``elapsed`` and in the times of the
    enclosing runs, but not in the run's own time. The report keeps about a kilobyte for each run.
    """

    rank = 2  # so that the profiler does not time the work of other tools

    def __init__(self, sync: bool = False) -> None:
        self.sync = sync
        self._runs: list[_Run] = []
        self._entered: int | None = None
        self._elapsed = 0

    def __enter__(self) -> "profile":
        super().__enter__()
        self._entered = time.perf_counter_ns()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._elapsed = self._so_far()
        self._entered = None
        super().__exit__(*exc_info)

    def _so_far(self):
        running = 0 if self._entered is None else time.perf_counter_ns() - self._entered
        return self._elapsed + running

    def before(self, event):
        if self.sync:
            _synchronize(event.inputs)
        # How long the runs within this one took, and when it began.
        event.notes[self] = [0, time.perf_counter_ns()]

    def after(self, event):
        if self.sync:
            _synchronize(event.inputs if event.out is None else event.out)
        within, start = event.notes[self]
        duration = time.perf_counter_ns() - start
        if event.parent and self in event.parent.notes:
            event.parent.notes[self][0] += duration
        results = list(arrays_in(event.out))
        thread = threading.current_thread()
        line = event.record.line if event.record is not None else user_line()
        self._runs.append(_Run(
            event.op.name, event.phase, start, duration, own=duration - within,
            outermost=not _is_within_itself(event),
            nbytes=sum(backend_of[type(x)].nbytes(x) for x in results),
            thread=(thread.native_id, thread.name),
            inputs=list(map(like, event.inputs)), results=list(map(like, results)), line=line,
        ))  # fmt: skip

    @property
    def elapsed(self) -> float:
        return self._so_far() / 1e9

    @property
    def total(self) -> float:
        return sum(run.own for run in self._runs) / 1e9

    @property
    def rows(self) -> list[Row]:
        groups: dict[tuple[str, str], list[_Run]] = {}
        for run in list(self._runs):
            groups.setdefault((run.op, run.phase), []).append(run)
        rows = [
            Row(
                *key, len(runs), total=sum(run.duration for run in runs if run.outermost) / 1e9,
                own=sum(run.own for run in runs) / 1e9, nbytes=sum(run.nbytes for run in runs),
            )
            for key, runs in groups.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: -row.own)

    def __repr__(self) -> str:
        total = self.total
        said = f"in ops {total * 1e3:,.3f} ms of {self.elapsed * 1e3:,.3f} ms"
        rows = self.rows
        if not rows:
            return said
        columns = {"op": None, "phase": None, "calls": ",d", "total ms": ",.3f"}
        columns |= {"own ms": ",.3f", "own": ".1%", "MB made": ",.3f"}
        share = 1 / total if total else 0.0
        cells = [
            (op, phase, calls, whole * 1e3, own * 1e3, own * share, nbytes / 1e6)
            for op, phase, calls, whole, own, nbytes in rows
        ]
        return f"{said}\n\n{table(columns, cells)}"

    def save(self, path: str | os.PathLike) -> None:
        """Write a trace in the Trace Event Format, which Chrome and Perfetto display.

        There is an event for each run, named by the op and the phase. The phase is also its
        category. Times are in microseconds. The folder of the file must exist.
        """
        pid = os.getpid()
        runs = sorted(self._runs, key=lambda run: (run.start, -run.duration))
        threads = dict.fromkeys([run.thread for run in runs])
        named = [("process_name", 0, "gpugrad"), *[("thread_name", *x) for x in threads]]
        head: dict[str, Any] = {"ph": "M", "pid": pid}
        events = [head | {"name": k, "tid": tid, "args": {"name": x}} for k, tid, x in named]
        first = runs[0].start if runs else 0
        for run in runs:
            args = {
                "inputs": list(map(like_text, run.inputs)),
                "results": list(map(like_text, run.results)),
                "bytes": run.nbytes,
                "own µs": run.own / 1e3,
            }
            if run.line is not None:
                args |= {"line": str(run.line), "source": run.line.source}
            events.append({
                "name": run.op if run.phase == "forward" else f"{run.op} {run.phase}",
                "cat": run.phase, "ph": "X", "pid": pid, "tid": run.thread[0],
                "ts": (run.start - first) / 1e3, "dur": run.duration / 1e3, "args": args,
            })  # fmt: skip
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ms"}, file)


def _is_within_itself(event):
    """Whether the run is part of another of the same op and phase, which includes its time."""
    parent = event.parent
    while parent is not None:
        if parent.op is event.op and parent.phase == event.phase:
            return True
        parent = parent.parent
    return False


def _synchronize(values):
    for array in arrays_in(values):
        backend_of[type(array)].synchronize(array)
