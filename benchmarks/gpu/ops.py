"""The cost of ops beyond their arithmetic, and how much of the memory bandwidth they reach.

    python benchmarks/gpu/ops.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--sections S ...] [--ops NAME ...] [--json PATH] [--plot PATH] [--save]

overhead: forward and backward of ops from the tests' table on about 10 float32 elements, in µs
    of CPU time to enqueue them. A selection of ops; with --full all that PyTorch has too.
bandwidth: forward and backward of ops on 100,000,000 float32 elements, each by the GPU's time.
    The bytes counted are those that must be moved at least, each input once and each result
    once, however often an op goes through memory. 1 is the bandwidth of a copy within the
    GPU's memory.
"""

import sys
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import report
from op_table import BY_NAME, call_of
from peers import COPY_SIZE, COPY_SIZE_SHORT, LeftOut, clock
from timing import Workers

SHARE = 0.9  # of the copy's bandwidth, which elementwise ops must reach
SMALL = 10
COLUMNS = 1024  # of each large array
SECTIONS = ("overhead", "bandwidth")

USUAL = (
    "add subtract multiply divide pow maximum where negative exp log sqrt tanh sigmoid relu "
    "sum mean max var softmax log_softmax cross_entropy mse linear dense matmul einsum "
    "layer_norm reshape permute_dims broadcast_to concat stack getitem take astype"
).split()
FEW = "add softmax cross_entropy getitem".split()


class Wide(NamedTuple):
    """An op on large arrays.

    op: a name in the tests' table, or another that `_Gpugrad` and `_Torch` know.
    inputs: the kind of each: ``"normal"``, ``"positive"``, ``"labels"``, or ``"features"``,
        which has one number for each column.
    forward, backward: how many bytes each pass moves at least, in units of one large float32
        array; ``backward`` is None if it is not worth measuring.
    share: of the copy's bandwidth, which it must reach, if any.
    axis: the argument ``axis``, unless None.
    """

    op: str
    inputs: tuple
    forward: int
    backward: int | None
    share: float | None = None
    axis: int | None = None


class Pass(NamedTuple):
    wide: Wide
    direction: str
    size: int

    def __str__(self):
        return self.direction if self.direction == "copy" else f"{self.wide.op} {self.direction}"


X, P = "normal", "positive"
WIDE = [
    Wide("add", (X, X), 3, None, share=SHARE),
    Wide("multiply", (X, X), 3, 5, share=SHARE),
    Wide("divide", (X, P), 3, 5, share=SHARE),
    Wide("maximum", (X, X), 3, 5, share=SHARE),
    Wide("negative", (X,), 2, 2, share=SHARE),
    Wide("exp", (X,), 2, 3, share=SHARE),
    Wide("log", (P,), 2, 3, share=SHARE),
    Wide("sqrt", (P,), 2, 3, share=SHARE),
    Wide("tanh", (X,), 2, 3, share=SHARE),
    Wide("sigmoid", (X,), 2, 3, share=SHARE),
    Wide("relu", (X,), 2, 3, share=SHARE),
    Wide("sum", (X,), 1, 1),
    Wide("mean", (X,), 1, 1, axis=0),
    Wide("max", (X,), 1, 2, axis=1),
    Wide("softmax", (X,), 2, 3, axis=-1, share=0.85),
    Wide("log_softmax", (X,), 2, 3, axis=-1),
    Wide("cross_entropy", (X, "labels"), 1, 2, share=0.85),
    Wide("layer_norm", (X, "features", "features"), 2, 3),
    Wide("dropout", (X,), 2, 2),
    Wide("SGD", (X,), 5, None),
    Wide("Adam", (X,), 7, None),
]
OPTIMIZERS = {"SGD": {"lr": 1e-3, "momentum": 0.9}, "Adam": {"lr": 1e-3}}


def main():
    ops = sorted({*BY_NAME, *(wide.op for wide in WIDE)})
    options = report.arguments(
        __doc__.splitlines()[0], ["gpugrad", "torch"], sections=list(SECTIONS), ops=ops
    )
    bounds = []
    with Workers("ops", options) as workers:
        for section in options.sections or SECTIONS:
            bounds += globals()[section](options, workers)
    sys.exit(report.finish(workers, bounds, draw(workers.rows)))


# Overhead


def prepare_small(library, device, op):
    """Return a function that runs the op forward and, if it is differentiable, backward."""
    forward, leaves, outputs_of, grad = call_of(library, op, SMALL, device)
    outputs, cotangents = outputs_of(forward())
    if not outputs:
        return forward

    def run():
        results = forward()
        if not isinstance(results, (tuple, list)):
            return grad([results], leaves, cotangents)
        return grad([y for y in results if y.requires_grad], leaves, cotangents)

    return run


def overhead(options, workers):
    chosen = options.ops or (BY_NAME if options.full else FEW if options.short else USUAL)
    workers.race(prepare_small, [op for op in chosen if op in BY_NAME], _overhead_rows)
    rows = [r for r in workers.rows if r["section"] == "overhead"]
    lines = [["", "gpugrad µs", "torch µs", "ratio", "spread"]]
    for op in dict.fromkeys(r["case"] for r in rows):
        of = {r["library"]: r for r in rows if r["case"] == op}
        own, torch = of.get("gpugrad"), of.get("torch")
        lines.append([
            op,
            report.number(own and own["value"]),
            report.number(torch and torch["value"]),
            report.ratio(own and own["ratio"]),
            report.spread(own["rounds"]) if own else "",
        ])  # fmt: skip
    ratios = [r["ratio"] for r in rows if r["library"] == "gpugrad" and r["ratio"]]
    report.table(f"CPU time of an op on {SMALL} elements, forward and backward", lines)
    if ratios:
        print(f"median ratio {median(ratios):.2f} of {len(ratios)}")
    return []


def _overhead_rows(result):
    times = result.seconds("cpu")  # on a CPU, only the time of a run is known
    return [
        report.row(
            "overhead", result.case, library, [1e6 * x for x in found],
            [1e6 * x for x in times[report.BASELINE]] if report.BASELINE in times else None,
            unit="µs", time=1e6 * median(result.seconds()[library]),
        )
        for library, found in times.items()
    ]  # fmt: skip


# Bandwidth


def prepare_wide(library, device, work):
    """Return a function that does one pass over large arrays."""
    wide, direction, size = work
    if direction == "copy":
        return clock(library, device, size).copy
    make = (_Gpugrad if library == "gpugrad" else _Torch)(device, size)
    if wide.op in OPTIMIZERS:
        return make.optimizer(wide.op)
    function = make.function(wide.op)
    inputs = [getattr(make, kind)() for kind in wide.inputs]
    leaves = [x for x, kind in zip(inputs, wide.inputs, strict=True) if kind != "labels"]
    static = {} if wide.axis is None else {"axis": wide.axis}
    for x in leaves:
        x.requires_grad_()
    if direction == "forward":
        return lambda: function(*inputs, **static)
    out = function(*inputs, **static)
    cotangent = make.normal(tuple(out.shape))
    return lambda: make.grad([out], leaves, [cotangent], retain_graph=True)


class _Gpugrad:
    """The large arrays and the functions of gpugrad."""

    def __init__(self, device, size):
        import gpugrad
        from gpugrad import optim

        self._gg, self._optim = gpugrad, optim
        self._device = device
        self._shape = size // COLUMNS, COLUMNS
        self.grad = gpugrad.autograd.grad

    def normal(self, shape=None):
        shape = self._shape if shape is None else shape
        return self._gg.random.normal(shape, device=self._device)

    def positive(self):
        return self._gg.random.uniform(self._shape, low=0.5, high=2.0, device=self._device)

    def features(self):
        return self.normal(self._shape[1:])

    def labels(self):
        return self._gg.random.integers(0, COLUMNS, self._shape[:1], device=self._device)

    def function(self, op):
        if op == "dropout":
            return self._gg.nn.functional.dropout
        if op not in BY_NAME:
            raise LeftOut("it has none")
        return BY_NAME[op].function

    def optimizer(self, name):
        if not hasattr(self._optim, name):
            raise LeftOut("it has none")
        parameter = self.normal().requires_grad_()
        parameter.grad = self.normal()
        return getattr(self._optim, name)([parameter], **OPTIMIZERS[name]).step


class _Torch:
    """The same for PyTorch."""

    def __init__(self, device, size):
        import torch

        self._torch = torch
        self._device = device
        self._shape = size // COLUMNS, COLUMNS
        self.grad = torch.autograd.grad

    def normal(self, shape=None):
        shape = self._shape if shape is None else shape
        return self._torch.randn(shape, device=self._device)

    def positive(self):
        return self._torch.rand(self._shape, device=self._device) * 1.5 + 0.5

    def features(self):
        return self.normal(self._shape[1:])

    def labels(self):
        return self._torch.randint(COLUMNS, self._shape[:1], device=self._device)

    def function(self, op):
        if op == "dropout":
            return self._torch.nn.functional.dropout
        if op not in BY_NAME:
            raise LeftOut("gpugrad has none")
        return partial(BY_NAME[op].torch, self._torch)

    def optimizer(self, name):
        parameter = self.normal().requires_grad_()
        parameter.grad = self.normal()
        return getattr(self._torch.optim, name)([parameter], **OPTIMIZERS[name]).step


def bandwidth(options, workers):
    size = COPY_SIZE_SHORT if options.short else COPY_SIZE
    works = [Pass(Wide("copy", (), 2, None), "copy", size)]
    for wide in WIDE:
        if options.ops and wide.op not in options.ops:
            continue
        works.append(Pass(wide, "step" if wide.op in OPTIMIZERS else "forward", size))
        if wide.backward:
            works.append(Pass(wide, "backward", size))
    workers.race(prepare_wide, works, _bandwidth_rows)
    rows = [r for r in workers.rows if r["section"] == "bandwidth"]
    copy = max((r["gigabytes_per_second"] for r in rows if r["direction"] == "copy"), default=None)
    for r in rows:
        r["fraction"] = r["gigabytes_per_second"] / copy if copy else None
    return _show_bandwidth(rows, size, copy)


def _bandwidth_rows(result):
    wide, direction, size = result.case
    passes = wide.backward if direction == "backward" else wide.forward
    moved = 4 * passes * (size if direction == "copy" else size // COLUMNS * COLUMNS)
    times = result.seconds("gpu")
    return [
        report.row(
            "bandwidth", str(result.case), library, seconds, times.get(report.BASELINE), unit="s",
            direction=direction, share=wide.share, bytes=moved,
            gigabytes_per_second=moved / median(seconds) / 1e9,
        )
        for library, seconds in times.items()
    ]  # fmt: skip


def _show_bandwidth(rows, size, copy):
    lines = [["", "gpugrad GB/s", "of copy", "torch GB/s", "of copy", "time / torch", "spread", ""]]
    for case in dict.fromkeys(r["case"] for r in rows):
        of = {r["library"]: r for r in rows if r["case"] == case}
        own, torch = of.get("gpugrad"), of.get("torch")
        share = own and own["share"]
        lines.append([
            case,
            report.number(own and own["gigabytes_per_second"]),
            report.ratio(own and own["fraction"]),
            report.number(torch and torch["gigabytes_per_second"]),
            report.ratio(torch and torch["fraction"]),
            report.ratio(own and own["ratio"]),
            report.spread(own["rounds"]) if own else "",
            report.verdict(report.bound(case, own["fraction"], share, ">=")) if share else "",
        ])  # fmt: skip
    report.table(f"bandwidth at {size:,} float32 elements, by the minimum of bytes", lines)
    bounds = []
    for direction in ("forward", "backward"):
        mine = [r for r in rows if r["library"] == "gpugrad" and r["direction"] == direction]
        known = [r for r in mine if r["share"] == SHARE and r["fraction"]]
        worst = min(known, key=lambda r: r["fraction"], default={})
        what = f"elementwise {direction}, share of the copy's bandwidth"
        what += f" (worst: {worst['case'].split()[0]})" if worst else ""
        bounds.append(report.bound(what, worst.get("fraction"), SHARE, ">="))
        for r in mine:
            if r["share"] not in (None, SHARE):
                what = f"{r['case']}, share of the copy's bandwidth"
                bounds.append(report.bound(what, r["fraction"], r["share"], ">="))
    return bounds


def draw(rows):
    def draw_on(figure):
        panels = [[r for r in rows if r["section"] == section] for section in SECTIONS]
        panels = [panel for panel in panels if panel]
        most = max(len({r["case"] for r in panel}) for panel in panels)
        figure.set_size_inches(6 * len(panels), 1.5 + 0.22 * most)
        for ax, panel in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True
        ):
            if panel[0]["section"] == "overhead":
                report.bars(
                    ax, panel, key="value", log=True, label="CPU time, µs",
                    title=f"an op on {SMALL} elements, forward and backward",
                )  # fmt: skip
            else:
                report.bars(
                    ax, panel, key="fraction", label="share of the copy's bandwidth",
                    title="large arrays, by the minimum of bytes",
                    mark=(SHARE, "bound of elementwise ops"),
                )  # fmt: skip

    return draw_on


if __name__ == "__main__":
    main()
