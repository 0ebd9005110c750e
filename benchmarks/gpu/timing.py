"""How a run is timed, and how libraries take turns, each in a process of its own.

The time of a run has three figures, all in seconds:

time: from one run to the next, in a long sequence of runs; this is what a program takes.
cpu: until the calls of a run have returned, with the GPU's queue empty beforehand; this is what
    Python and the library need to enqueue the work.
gpu: how long the GPU works on a run, between two events. Copies before the first event keep the
    GPU busy until all runs are enqueued, so that it does not wait for the CPU in between.

On a CPU only the first is known; for JAX on a GPU, the first two.
"""

import gc
import sys
import time
from statistics import median
from typing import Any, NamedTuple

import harness
import peers
import report

# Runs are timed in batches of about this many seconds.
BATCH = 0.02
# Runs are enqueued without waiting for about this many seconds; a GPU's queue has room for them.
ENQUEUED = 0.002


def effort(options):
    """Return the number of rounds, and the seconds of a turn."""
    if options.short:
        return 1, 0.01
    return (9, 0.3) if options.full else (5, 0.08)


def measure(run, clock, seconds):
    """Return the medians ``{"time", "cpu", "gpu"}`` of a run, None where not known.

    Its ``gpu_waits`` says whether the GPU waited for the CPU nevertheless, as it does if
    a run reads a result; ``gpu`` is then too long.
    """
    start = time.perf_counter()
    clock.wait(run())
    once = time.perf_counter() - start
    count = max(1, int(min(BATCH, seconds) / once))
    found = {"time": median(_repeat(lambda: _wall_time(run, clock, count), seconds))}
    found |= {"cpu": None, "gpu": None, "gpu_waits": False}
    if clock.asynchronous:
        few = min(50, max(1, int(ENQUEUED / found["time"])))
        found["cpu"] = median(_repeat(lambda: _time_on_cpu(run, clock, few), seconds / 3))
        if clock.has_events:
            pairs = _repeat(lambda: _time_on_gpu(run, clock, few, found["cpu"]), seconds / 2)
            found["gpu"] = median(gpu for gpu, _ in pairs)
            found["gpu_waits"] = all(waits for _, waits in pairs)
    return found


def _repeat(function, seconds):
    results = []
    end = time.perf_counter() + seconds
    while len(results) < 3 or time.perf_counter() < end:
        results.append(function())
    return results


def _wall_time(run, clock, count):
    start = time.perf_counter()
    for _ in range(count):
        result = run()
    clock.wait(result)
    return (time.perf_counter() - start) / count


def _time_on_cpu(run, clock, count):
    start = time.perf_counter()
    for _ in range(count):
        result = run()
    elapsed = time.perf_counter() - start
    clock.wait(result)
    return elapsed / count


def _time_on_gpu(run, clock, count, cpu):
    """Return seconds per run between events, and whether the copies in front ended too early.

    They did if the GPU finished them before all runs were enqueued.
    """
    hold = 2 * cpu * count + 1e-3
    for _ in range(3):
        clock.hold(hold)
        start = clock.mark()
        for _ in range(count):
            run()
        end = clock.mark()
        waits = clock.is_done(start)
        clock.wait()
        if not waits:
            break
        hold *= 3
    return clock.seconds(start, end) / count, waits


class Result(NamedTuple):
    """What was found of a case, by the names of the libraries.

    turns: a `measure` for each round.
    firsts: the first results, which must be numbers.
    made: seconds until the run was prepared and done three times, in which programs are compiled
        and graphs captured (``ready``); bytes of the device that the library took for it
        (``memory``); and nodes of its CUDA graph (``nodes``); None where not known.
    """

    case: Any
    turns: dict
    firsts: dict
    made: dict

    def seconds(self, key="time"):
        """The rounds' figures of each library; their times where the figure is not known."""
        return {n: [t[key] or t["time"] for t in found] for n, found in self.turns.items()}


class Workers:
    """A process for each library that can be used on the device; the others are reported.

    name: that of the benchmark.
    about: a description of each library.
    rows: all results so far, which are written after each case.
    missing: the reasons why libraries are left out.
    problems: cases that are left out later, ``(library, reason) -> cases``.
    states: what nvidia-smi reports about the GPU, before and four times during each race.
    failed: whether gpugrad failed with an error, as opposed to a case that it does not offer.
    """

    def __init__(self, name, options):
        self.name = name
        self.options = options
        self.rows = []
        self.about = {}
        self.missing = {}
        self.problems = {}
        self.states = [peers.state(options.device)]
        self.failed = False
        self._start = time.perf_counter()
        self._processes = {}

    def __enter__(self):
        for library in self.options.libraries:
            about, error = self._ask(library, peers.start, library, self.options.device)
            if error:
                self.missing[library] = _words(error)
                print(f"{library} is left out: {self.missing[library]}")
            else:
                self.about[library] = about
        if "gpugrad" in self.missing or not self.about:
            sys.exit("there is nothing to measure; --device cpu measures the CPU")
        return self

    def __exit__(self, *error):
        for process in self._processes.values():
            process.shutdown()

    def _ask(self, library, function, *args):
        """Call a function in the library's process; return a result and None, or None and an error.

        An error may leave the GPU or the process unusable, so the next call gets a new process.
        """
        if library not in self._processes:
            self._processes[library] = harness.fresh_process()
        work = self._processes[library].submit(function, *args)
        if (error := work.exception()) is None:
            return work.result(), None
        if not isinstance(error, peers.LeftOut):
            self._processes.pop(library).shutdown()
        return None, error

    def race(self, prepare, cases, rows_of, *, values=lambda case: 0):
        """Measure the cases one after the other, and add the rows of each to ``rows``.

        prepare: ``(library, device, case) -> run``, called in the library's process.
        rows_of: the rows of a `Result`.
        values: how many first results of a case to return, which must be numbers.

        In each round, each library has one turn while the others sleep. A round before them
        prepares and warms up. A library that fails has no times. The results are written after
        each case; no case begins later than ``options.minutes`` after the start.
        """
        for number, case in enumerate(cases, 1):
            if time.perf_counter() - self._start >= 60 * self.options.minutes:
                self.leave_out("all", case, f"no time left after {self.options.minutes:g} minutes")
                continue
            result = self._result(prepare, case, values(case))
            self.rows += rows_of(result)
            report.write_json(self)
            _progress(number, len(cases), case, result.turns)
            if 4 * number % len(cases) < 4:
                self.states.append(peers.state(self.options.device))

    def _result(self, prepare, case, values):
        rounds, seconds = effort(self.options)
        turns, firsts, made = {}, {}, {}
        for library in self.about:
            begun = self._turn(_begin, prepare, library, case, seconds, values)
            if begun is not None:
                firsts[library], made[library], why_no_graph = begun
                turns[library] = []
                if why_no_graph:
                    self.leave_out(library, case, f"measured, but no CUDA graph: {why_no_graph}")
        for _ in range(rounds):
            for library in list(turns):
                found = self._turn(_measure, prepare, library, case, seconds)
                if found is None:
                    del turns[library]
                else:
                    turns[library].append(found)
        return Result(case, turns, firsts, made)

    def _turn(self, function, prepare, library, case, *args):
        task = prepare, library, self.options.device, self.options.short, case
        found, error = self._ask(library, function, task, *args)
        if error is not None:
            is_own = peers.LIBRARIES[library] == "gpugrad"
            self.failed |= is_own and not isinstance(error, peers.LeftOut)
            self.leave_out(library, case, _words(error))
        return found

    def leave_out(self, library, case, why):
        self.problems.setdefault((library, why), []).append(str(case))
        print(f"  {case}, {library}: {why}", file=sys.stderr, flush=True)

    def describe_problems(self):
        """Yield a line for each reason why cases were left out."""
        for (library, why), cases in self.problems.items():
            more = f" and {len(cases) - 2} more" if len(cases) > 3 else ""
            yield f"{library}: {why} ({'; '.join(cases[:2] if more else cases)}{more})"


def _words(error):
    words = " ".join(str(error).split())[:300]
    return words if isinstance(error, peers.LeftOut) else f"{type(error).__name__}: {words}"


def _progress(number, total, case, turns):
    known = {name: median(t["time"] for t in found) for name, found in turns.items()}
    shown = ", ".join(f"{name} {1e6 * seconds:.4g} µs" for name, seconds in known.items())
    print(f"  {number}/{total} {case}: {shown}", file=sys.stderr, flush=True)


_prepared: dict = {}  # the last task -> its run
_clocks: dict = {}


def _clock_of(task):
    _, library, device, short, _ = task
    if library not in _clocks:
        size = peers.COPY_SIZE_SHORT if short else peers.COPY_SIZE
        _clocks[library] = peers.clock(library, device, size)
    return _clocks[library]


def _run_of(task):
    prepare, library, device, _, case = task
    if task not in _prepared:
        _prepared.clear()
        gc.collect()
        _clock_of(task).release()  # before the next one needs the memory
        _prepared[task] = prepare(library, device, case)
    return _prepared[task], _clock_of(task)


def _begin(task, seconds, values):
    """Run for a while to warm up; return the first results, what `Result.made` says of a library,
    and why it is no CUDA graph.

    The latter is None unless gpugrad compiled it for a GPU and makes its calls one by one.
    """
    clock = _clock_of(task)
    start, firsts = time.perf_counter(), []
    run, _ = _run_of(task)
    for k in range(max(values, 3)):
        clock.wait(result := run())
        if k < values:
            firsts.append(float(result))
        if k == 2:
            made = {"ready": time.perf_counter() - start}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        clock.wait(run())
    why = None
    if task[1] == "gpugrad compiled" and task[2] != "cpu":
        try:
            why = run.program().call_by_call
        except ValueError as error:  # it is not compiled
            why = str(error)
    made |= {"memory": clock.memory(run), "nodes": None if why else peers.nodes(task[1], run)}
    return firsts, made, why


def _measure(task, seconds):
    run, clock = _run_of(task)
    warm = time.perf_counter() + seconds / 4
    while time.perf_counter() < warm:
        clock.wait(run())
    return measure(run, clock, seconds)
