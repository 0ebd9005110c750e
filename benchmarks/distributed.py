"""The cost of data-parallel training steps in two processes, and a model of it for many GPUs.

    python benchmarks/distributed.py [--short] [--libraries gpugrad torch] [--sections ...]
        [--json PATH]

The libraries are gpugrad, gpugrad_compiled (the same step under `gpugrad.compile`) and torch.

Three sections:

speed: a step of `distributed.DataParallel` over MPI, against PyTorch's DistributedDataParallel with
    gloo. Each library has two processes with one thread each. ``alone`` is the step without the
    reduction, in two processes at the same time.
overlap: of the reductions of a 20 MB model, how much is hidden behind backward, from a trace. The
    time of the reductions is that from the start of the first to the end of the last. Hidden is the
    share of it in which the program computes gradients, and neither waits nor is in MPI.
model: a model of the cost of steps. Its latency and bandwidth are fitted to reductions measured
    here, and its prediction for the steps above is printed beside what was measured. With figures
    that NVIDIA publishes it says what 8, 64 and 1024 GPUs would give for three models.
"""

import atexit
import json
import math
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import harness
import numpy as np
import train_step
from train_step import MLP, Net

LARGE = Net((1024,) * 6, 64)  # five layers, 20 MB of float32
CASES = (Net(MLP, 32), Net(MLP, 128), LARGE)
TARGET = 1.0
HIDDEN_TARGET = 0.8
PROCESSES = 2
LIBRARIES = ("gpugrad", "gpugrad_compiled", "torch")
SIZES = [1 << k for k in range(8, 26, 2)]  # bytes, of the reductions that the model is fitted to


# What each process runs


def worker(library, seconds, sections):
    """Measure in each process of a library; process 0 prints the results as JSON."""
    processes = globals()[f"_{library}_processes"]()
    results = {}
    for net in CASES:
        for kind in ("step", "alone"):
            step = processes.step(net, kind == "step")
            results[f"{net}, {kind}"] = timed(step, processes, seconds)
    if library == "gpugrad" and sections != ["speed"]:
        results |= {"trace": processes.trace(), "reductions": processes.reductions()}
    if processes.rank == 0:
        print("results: " + json.dumps(results))


def timed(step, processes, seconds):
    """The first decile of the times of steps; the time of a step is that of the slower process.

    A median would say more about other programs: a step of two processes is slow as soon as one of
    them is delayed.
    """

    def once():
        start = time.perf_counter()
        step()
        return time.perf_counter() - start

    once()
    processes.barrier()
    (estimate,) = processes.slowest([once()])
    count = min(max(int(seconds / estimate), 20), 500)
    times = processes.slowest([once() for _ in range(count)])
    return sorted(times)[count // 10]


class _gpugrad_processes:
    def __init__(self):
        import gpugrad
        from gpugrad import distributed

        distributed.init()
        self.gpugrad, self.distributed = gpugrad, distributed
        self.rank, self.barrier = distributed.rank(), distributed.barrier

    def slowest(self, times):
        """For each time, that of the slower process."""
        x = self.gpugrad.tensor(times, dtype=self.gpugrad.float64)
        return self.distributed.all_reduce(x, "max").tolist()

    def model(self, net, parallel):
        nn = self.gpugrad.nn
        model = nn.MLP(net.sizes[0], net.sizes[1:], activation=nn.ReLU)
        return self.distributed.DataParallel(model) if parallel else model

    def step(self, net, parallel):
        gpugrad = self.gpugrad
        x, y, _ = train_step.data(net)
        x, y = gpugrad.asarray(x), gpugrad.asarray(y)
        model = self.model(net, parallel)
        loss_of = gpugrad.nn.CrossEntropyLoss()
        optimizer = gpugrad.optim.SGD(model.parameters(), lr=train_step.LR)

        def step():
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

        return step

    def trace(self):
        """Seconds of steps of the large model: medians of the fastest quarter of the steps.

        reductions: from the start of the first reduction to the end of the last.
        polling: the part of that which is spent in MPI before backward has computed all gradients.
            MPI moves and adds numbers only while it is called, as it is for each gradient.
        waiting: the part of that which is left when backward has computed all gradients.
        blocking: the same reductions, one after the other, with nothing else.
        """
        from gpugrad._processes import mpi

        step = self.step(LARGE, True)
        events, sizes = [], []

        def spy(owner, function, kind):
            spied = getattr(owner, function)

            def spying(*args):
                begin = time.perf_counter()
                result = spied(*args)
                events.append((kind, begin, time.perf_counter()))
                if function == "all_reduce":
                    sizes.append(args[1].size)
                return result

            setattr(owner, function, spying)
            return owner, function, spied

        patched = [
            spy(mpi.MPIGroup, "all_reduce", "start"),
            spy(mpi._Request, "progress", "progress"),
            spy(mpi._Request, "wait", "wait"),
        ]
        steps = []
        for _ in range(40):
            events.clear()
            sizes.clear()
            begin = time.perf_counter()
            step()
            elapsed = time.perf_counter() - begin
            total = dict.fromkeys(("start", "progress", "wait"), 0.0)
            for kind, begin, end in events:
                total[kind] += end - begin
            span = max(e[2] for e in events) - min(e[1] for e in events if e[0] == "start")
            steps.append((elapsed, span, total["start"] + total["progress"], total["wait"]))
        for owner, function, spied in patched:
            setattr(owner, function, spied)
        _, *parts = map(median, zip(*sorted(steps)[:10], strict=True))
        arrays = [np.zeros(size, np.float32) for size in sizes]
        group = self.distributed.collectives.current()

        def blocking():
            for array in arrays:
                group.all_reduce(array).wait()

        parts.append(timed(blocking, self, 0.3))
        return dict(zip(("reductions", "polling", "waiting", "blocking"), parts, strict=True))

    def reductions(self):
        """The time of a reduction of each size, in seconds."""
        group = self.distributed.collectives.current()
        arrays = [np.zeros(size // 4, np.float32) for size in SIZES]
        return [timed(lambda x=x: group.all_reduce(x).wait(), self, 0.05) for x in arrays]


class _gpugrad_compiled_processes(_gpugrad_processes):
    def step(self, net, parallel):
        return self.gpugrad.compile(super().step(net, parallel))


class _torch_processes:
    def __init__(self):
        import torch
        import torch.distributed

        torch.set_num_threads(1)
        torch.distributed.init_process_group("gloo")
        atexit.register(torch.distributed.destroy_process_group)
        self.torch = torch
        self.rank, self.barrier = torch.distributed.get_rank(), torch.distributed.barrier

    def slowest(self, times):
        """For each time, that of the slower process."""
        x = self.torch.tensor(times, dtype=self.torch.float64)
        self.torch.distributed.all_reduce(x, op=self.torch.distributed.ReduceOp.MAX)
        return x.tolist()

    def step(self, net, parallel):
        torch = self.torch
        x, y, _ = train_step.data(net)
        x, y = torch.from_numpy(x), torch.from_numpy(y)
        layers = []
        for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
            layers += [torch.nn.Linear(n_in, n_out), torch.nn.ReLU()]
        model = torch.nn.Sequential(*layers[:-1])
        if parallel:
            model = torch.nn.parallel.DistributedDataParallel(model)
        loss_of = torch.nn.CrossEntropyLoss()
        optimizer = torch.optim.SGD(model.parameters(), lr=train_step.LR)

        def step():
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()

        return step


# Taking turns


def launch(library, seconds, sections):
    """Run both processes of a library; return what process 0 measured."""
    arguments = [__file__, "--worker", library, str(seconds), *sections]
    if library.startswith("gpugrad"):
        command = [mpiexec(), "-n", str(PROCESSES), sys.executable, *arguments]
    else:
        command = [
            *(sys.executable, "-m", "torch.distributed.run"),
            *("--standalone", "--nproc-per-node", str(PROCESSES), *arguments),
        ]
    one_thread = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    here = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        command, env={**os.environ, **one_thread, **as_root, **here}, capture_output=True, text=True
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("results: ")]
    if not lines:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return json.loads(lines[0].removeprefix("results: "))


def mpiexec():
    beside = Path(sys.executable).parent
    return shutil.which("mpiexec", path=str(beside)) or shutil.which("mpiexec")


# The model of cost


class Network(NamedTuple):
    """What a reduction costs. Times are in seconds, bandwidths in bytes per second.

    base: of any reduction. step, node_step: of each step of a ring within and between machines.
    hop, node_hop: of each step of a tree. bandwidth, node_bandwidth: NCCL's bus bandwidth, at which
    a ring of one or several machines carries data; a tree has ``of_tree`` of it.
    per_node: processes on a machine.
    """

    base: float
    step: float
    bandwidth: float
    node_step: float = 0.0
    node_bandwidth: float = math.inf
    hop: float = math.inf
    node_hop: float = math.inf
    of_tree: float = 0.8
    per_node: int = 8

    def seconds(self, size, processes):
        """The time of an all-reduce of ``size`` bytes: the faster of a ring and a tree."""
        if processes == 1:
            return 0.0
        nodes = max(processes // self.per_node, 1)
        bandwidth = self.bandwidth if nodes == 1 else min(self.bandwidth, self.node_bandwidth)
        steps, node_steps = 2 * (processes - 1), 2 * (nodes - 1)
        carried = size * steps / processes / bandwidth
        ring = self.base + (steps - node_steps) * self.step + node_steps * self.node_step + carried
        hops = 2 * (processes // nodes - 1), 2 * math.log2(nodes)
        tree = self.base + hops[0] * self.hop + carried / self.of_tree
        if nodes > 1:
            tree += hops[1] * self.node_hop
        return min(ring, tree)


def fitted(times):
    """The network of two processes on this machine: times are ``latency + size / bandwidth``.

    The fit is of relative errors, so that small sizes count as much as large ones.
    """
    sizes, times = np.array(SIZES, float), np.array(times)
    (latency, per_byte), *_ = np.linalg.lstsq(
        np.stack([1 / times, sizes / times], 1), np.ones(len(times)), rcond=None
    )
    latency = max(latency, 1e-7)
    return Network(base=latency, step=0.0, bandwidth=1 / max(per_byte, 1e-15), per_node=PROCESSES)


# Steps of NCCL: the latencies are the constants by which NCCL chooses an algorithm, of its "Simple"
# protocol for rings and "LL128" for trees (src/graph/tuning.cc). The links are those of a DGX H100,
# NVLink of 450 GB/s per direction and 8 x 400 Gb/s of InfiniBand, both at 0.8 of that.
H100 = Network(
    base=8.4e-6, step=3.4e-6, node_step=9.6e-6, hop=1.2e-6, node_hop=8.5e-6,
    bandwidth=0.8 * 450e9, node_bandwidth=0.8 * 400e9,
)  # fmt: skip


class Workload(NamedTuple):
    """A model in training: bytes of gradients, and seconds of a process's computation per step."""

    name: str
    gradients: float
    forward: float
    backward: float
    optimizer: float
    bucket: float = 25 << 20


def step_seconds(work, network, processes, overlap=1.0):
    """The time of a step, and how much of the reductions' time is hidden behind backward.

    Gradients become complete at a constant rate while backward goes on. A bucket's reduction begins
    when it is full and the one before has ended. While reductions run, backward proceeds at
    ``overlap`` of its speed on average, since they share memory and processors.
    """
    if processes == 1:
        return work.forward + work.backward + work.optimizer, 1.0
    count = max(math.ceil(work.gradients / work.bucket), 1)
    each = network.seconds(work.gradients / count, processes)
    backward = work.backward + (1 - overlap) * min((count - 1) * each, work.backward)
    end = 0.0
    for i in range(count):
        end = max(end, backward * (i + 1) / count) + each
    exposed = end - backward + (backward - work.backward)
    return work.forward + end + work.optimizer, 1 - exposed / (count * each)


def on_h100(name, gradients, flops, batch):
    """A workload from floating-point operations per sample: 40% of 990 TFLOP/s, a third forward."""
    compute = batch * flops / (0.4 * 990e12)
    # SGD or Adam passes over about eight times the gradients' memory, at 2.5 TB/s.
    return Workload(name, gradients, compute / 3, 2 * compute / 3, 8 * gradients / 2.5e12)


# Parameters and operations per sample, three times those of the forward pass: ResNet-50 has 25.6
# million and 4.1 GMAC; a GPT of 1.3 billion does 6 per parameter and token, in bfloat16.
WORKLOADS = [
    on_h100("MLP of 20 MB, batch 4096 per GPU", 20e6, 6 * 5.2e6, 4096),
    on_h100("ResNet-50, batch 256 per GPU", 25.6e6 * 4, 3 * 2 * 4.1e9, 256),
    on_h100("GPT 1.3B, 8 x 2048 tokens per GPU", 1.3e9 * 2, 6 * 1.3e9 * 2048, 8),
]


# Sections


def speed(options, runs):
    rows = []
    for kind in ("step", "alone"):
        results = {
            net: {name: [run[f"{net}, {kind}"] for run in runs[name]] for name in runs}
            for net in CASES
        }
        targets = dict.fromkeys(CASES, TARGET) if kind == "step" else {}
        rows += harness.rows_of(
            kind, results, name_case=str, unit="ms per step", scale=1e3, targets=targets
        )
        title = {"step": "data-parallel step", "alone": "the same without the reduction"}[kind]
        harness.table(f"{title}, {PROCESSES} processes", [r for r in rows if r["section"] == kind])
    return rows


def overlap(options, runs):
    traces = [run["trace"] for run in runs["gpugrad"]]
    of = {name: median(t[name] for t in traces) for name in traces[0]}
    hidden = median(1 - (t["polling"] + t["waiting"]) / t["reductions"] for t in traces)
    not_waited_for = median(1 - t["waiting"] / t["reductions"] for t in traces)
    print(f"\nreductions of the {LARGE.sizes[0]}-wide model, in ms:")
    for name, value in of.items():
        print(f"  {name:10} {value * 1e3:6.2f}")
    print(
        f"  hidden: backward computes in {hidden:.2f} of the time that reductions are under way "
        f"(to reach: {HIDDEN_TARGET})\n"
        f"  not waited for: backward computes, or MPI within it, in {not_waited_for:.2f}"
    )
    case = f"{LARGE}"
    paid = median(r[f"{case}, step"] - r[f"{case}, alone"] for r in runs["gpugrad"])
    print(f"  a step takes {paid * 1e3:.2f} ms longer than without them")

    def row(part, unit, value, target=None):
        return {"section": "overlap", "case": case, "library": "gpugrad", "unit": unit,
                "value": value, "ratio": None, "target": target, "part": part}  # fmt: skip

    return [
        *[row(name, "ms", value * 1e3) for name, value in of.items()],
        row("hidden", "share", hidden, HIDDEN_TARGET),
        row("not waited for", "share", not_waited_for),
        row("paid", "ms", paid * 1e3),
    ]


def model(options, runs):
    times = [median(t) for t in zip(*[r["reductions"] for r in runs["gpugrad"]], strict=True)]
    here = fitted(times)
    errors = [here.seconds(s, PROCESSES) / t - 1 for s, t in zip(SIZES, times, strict=True)]
    print(
        f"\nmodel of a reduction on this machine: {here.base * 1e6:.1f} µs + size / "
        f"({here.bandwidth / 1e9:.2f} GB/s); errors from {min(errors):+.0%} to {max(errors):+.0%}"
    )
    rows = []

    def row(case, processes, value, unit):
        rows.append(
            {"section": "model", "case": case, "library": "model", "unit": unit, "value": value,
             "ratio": None, "target": None, "processes": processes}
        )  # fmt: skip

    measured = []
    for net in CASES:
        alone = median(r[f"{net}, alone"] for r in runs["gpugrad"])
        step = median(r[f"{net}, step"] for r in runs["gpugrad"])
        size = 4 * sum((a + 1) * b for a, b in zip(net.sizes, net.sizes[1:], strict=False))
        # A third of the step is forward; one processor each has nothing to spare for reductions.
        work = Workload(str(net), size, alone / 3, alone * 2 / 3, 0.0, 4 << 20)
        predicted = step_seconds(work, here, PROCESSES, overlap=0.0)[0]
        measured.append([str(net), f"{step * 1e3:.2f}", f"{predicted * 1e3:.2f}"])
        row(str(net), PROCESSES, predicted * 1e3, "ms per step")
    print("\nms per step of two processes here:")
    harness.print_columns([["", "measured", "predicted"], *measured])

    lines = [["", "step, 1 GPU", *[f"{n} GPUs" for n in (8, 64, 1024)]]]
    for work in WORKLOADS:
        cells = [work.name]
        single = step_seconds(work, H100, 1)[0]
        cells.append(f"{single * 1e3:.2f} ms")
        for processes in (8, 64, 1024):
            seconds, hidden = step_seconds(work, H100, processes, overlap=0.9)
            cells.append(f"{single / seconds:.0%}, hidden {max(hidden, 0):.0%}")
            row(work.name, processes, single / seconds, "efficiency")
        lines.append(cells)
    print("\npredicted for H100s: efficiency, the step of one GPU over that of so many")
    harness.print_columns(lines)
    return rows


SECTIONS = {"speed": speed, "overlap": overlap, "model": model}


def main():
    if sys.argv[1:2] == ["--worker"]:
        worker(sys.argv[2], float(sys.argv[3]), sys.argv[4:])
        return
    description = __doc__.splitlines()[0]
    options = harness.arguments(description, LIBRARIES, sections=list(SECTIONS))
    if mpiexec() is None:
        raise SystemExit("mpi4py and an MPI are needed: pip install mpi4py mpich")
    rounds, seconds = (1, 0.05) if options.short else (5, 1.5)
    runs = {name: [] for name in options.libraries}
    for _ in range(rounds):
        for name in options.libraries:
            runs[name].append(launch(name, seconds, options.sections))
    rows = [r for name in options.sections for r in SECTIONS[name](options, runs)]
    harness.write("distributed", options, rows)


if __name__ == "__main__":
    main()
