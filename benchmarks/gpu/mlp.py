"""The time of a training step of an MLP, compared to PyTorch eager, torch.compile and JAX.

    python benchmarks/gpu/mlp.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--precisions P ...] [--json PATH] [--plot PATH] [--save]

A step is zero_grad, forward, cross-entropy, backward and SGD with momentum. The networks, with
ReLU, are 784-256-128-10 in float32 at batch 128, 1024 and 8192, and 784-4096-4096-10 at batch 8192
in float32, TF32, float16 and bfloat16, parameters included. All libraries start from the same
weights and see the same data, which is on the device; their first losses are compared.

torch compile: forward and loss by torch.compile(mode="reduce-overhead"), with CUDA graphs.
jax jit: the whole step as one program, which may overwrite the parameters it is given.
"""

import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import report
from peers import use
from timing import Workers
from train_step import MLP, Net, data

LR = 0.01
MOMENTUM = 0.9
WIDE = (784, 4096, 4096, 10)
BOUNDS = {"small": 1.5, "wide": 1.05}
# How far apart the first losses may be.
CLOSE = {"fp32": 1e-4, "tf32": 3e-3, "fp16": 1e-2, "bf16": 5e-2}
STEPS = 5


class Training(NamedTuple):
    net: Net
    precision: str
    kind: str | None  # which of BOUNDS it must meet, if any

    def __str__(self):
        sizes = "-".join(map(str, self.net.sizes))
        return f"{sizes}, batch {self.net.batch}, {self.precision}"


def trainings(options):
    batches = (16,) if options.short else (128, 1024, 8192)
    if options.full:
        batches = (1, 32, *batches)
    wide = Net((784, 64, 64, 10), 32) if options.short else Net(WIDE, 8192)
    precisions = report.precisions(options)
    small = [
        Training(Net(MLP, batch), "fp32", "small" if batch in (16, 128) else None)
        for batch in batches
    ]
    if "fp32" not in precisions:
        small = []
    return [*small, *(Training(wide, p, "wide") for p in precisions)]


def prepare(library, device, training):
    """Return a function that does one step and returns the loss, as the library's own scalar."""
    dtype = use(library, training.precision, device)
    if library == "gpugrad":
        return _gpugrad(training.net, dtype, device)
    if library == "jax jit":
        return _jax(training.net, dtype)
    return _torch(training.net, dtype, device, compiled=library == "torch compile")


def _gpugrad(net, dtype, device):
    import gpugrad
    from gpugrad import nn, optim

    x, y, values = data(net)
    x, y = gpugrad.asarray(x, device=device).astype(dtype), gpugrad.asarray(y, device=device)
    model = nn.MLP(net.sizes[0], net.sizes[1:], activation=nn.ReLU, device=device)
    with gpugrad.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter[...] = gpugrad.asarray(value, device=device)
    model.to(dtype=dtype)
    loss_of = nn.CrossEntropyLoss()
    optimizer = optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _torch(net, dtype, device, *, compiled):
    import torch
    from torch import nn

    x, y, values = data(net)
    x = torch.from_numpy(x).to(device=device, dtype=dtype)
    y = torch.from_numpy(y).to(device)
    layers = []
    for n_in, n_out in zip(net.sizes, net.sizes[1:], strict=False):
        layers += [nn.Linear(n_in, n_out), nn.ReLU()]
    model = nn.Sequential(*layers[:-1])
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), values, strict=True):
            parameter.copy_(torch.from_numpy(value))
    model.to(device=device, dtype=dtype)
    entropy = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=LR, momentum=MOMENTUM)

    def loss_of(x, y):
        return entropy(model(x), y)

    if compiled:
        torch.compiler.reset()
        loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step():
        if compiled:  # the result of the last step may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def _jax(net, dtype):
    import jax

    np = jax.numpy
    x, y, values = data(net)
    x, y = jax.device_put((x.astype(dtype), y))
    parameters = [np.asarray(value, dtype) for value in values]
    momenta = [np.zeros_like(p) for p in parameters]

    def loss_of(parameters, x, y):
        for w, b in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
            x = jax.nn.relu(x @ w.T + b)
        scores = jax.nn.log_softmax(x @ parameters[-2].T + parameters[-1])
        return -np.take_along_axis(scores, y[:, None], axis=1).mean()

    def update(parameters, momenta, x, y):
        loss, grads = jax.value_and_grad(loss_of)(parameters, x, y)
        momenta = [MOMENTUM * m + g for m, g in zip(momenta, grads, strict=True)]
        parameters = [p - LR * m for p, m in zip(parameters, momenta, strict=True)]
        return parameters, momenta, loss

    update = jax.jit(update, donate_argnums=(0, 1))

    def step():
        nonlocal parameters, momenta
        parameters, momenta, loss = update(parameters, momenta, x, y)
        return loss

    return step


def main():
    options = report.arguments(
        __doc__.splitlines()[0],
        ["gpugrad", "torch", "torch compile", "jax jit"],
        precisions=list(report.PRECISIONS),
    )
    with Workers(options) as workers:
        results, losses = workers.race(prepare, trainings(options), values=STEPS)
        compare(workers, losses)
    rows = rows_of(results)
    bounds = show(rows)
    sys.exit(report.finish("mlp", options, workers, rows, bounds, draw(rows)))


def compare(workers, losses):
    """Report libraries whose losses differ from PyTorch's, which means they did different work."""
    for training, found in losses.items():
        if not found:
            continue
        expected = found.get(report.BASELINE, next(iter(found.values())))
        for library, values in found.items():
            apart = max(abs(a - b) / abs(b) for a, b in zip(values, expected, strict=True))
            if not apart <= CLOSE[training.precision]:
                workers.failed = True
                workers.leave_out(library, training, f"its losses {values} are not {expected}")


def rows_of(results):
    rows = []
    for training, turns in results.items():
        times = {n: [t["time"] for t in found] for n, found in turns.items()}
        for library, found in turns.items():
            target = BOUNDS.get(training.kind) if library == "gpugrad" else None
            known = {key: [t[key] for t in found if t[key] is not None] for key in ("cpu", "gpu")}
            rows.append(
                report.row(
                    "mlp", str(training), library, times[library], times.get(report.BASELINE),
                    unit="s", target=target, kind=training.kind,
                    **{key: median(values) if values else None for key, values in known.items()},
                    gpu_waits=any(t["gpu_waits"] for t in found),
                )
            )  # fmt: skip
    return rows


def show(rows):
    """Print the table and return the bounds."""
    lines = [["", "library", "step µs", "spread", "CPU µs", "GPU µs", "step / torch", ""]]
    bounds, last = [], None
    for r in rows:
        here = report.bound(f"{r['case']}, against torch eager", r["ratio"], r["target"] or 0)
        if r["target"]:
            bounds.append(here)
        gpu = report.number(r["gpu"] and 1e6 * r["gpu"]) + ("*" if r["gpu_waits"] else "")
        lines.append([
            "" if r["case"] == last else r["case"],
            r["library"],
            report.number(1e6 * r["value"]),
            report.spread(r["rounds"]),
            report.number(r["cpu"] and 1e6 * r["cpu"]),
            gpu,
            report.ratio(r["ratio"]),
            report.verdict(here) if r["target"] else "",
        ])  # fmt: skip
        last = r["case"]
    own = [r for r in rows if r["library"] == "gpugrad" and r["gpu"]]
    waiting = sum(r["gpu_waits"] for r in own) if own else None
    bounds.append(report.bound("steps in which gpugrad waits for the GPU", waiting, 0))
    report.table("training step (* with gaps: it waits for results)", lines)
    return bounds


def draw(rows):
    def draw_on(figure):
        figure.set_size_inches(12, 1.8 + 0.75 * len({r["case"] for r in rows}))
        left, right = figure.subplots(1, 2)
        places = report.bars(
            left, rows, key="ratio", title="time of a step against torch eager's",
            label="ratio (lower is better)",
        )  # fmt: skip
        for r in rows:
            if r["target"] and r["ratio"]:
                y = places[r["case"], r["library"]]
                left.vlines(r["target"], y - 0.12, y + 0.12, color="black", lw=2, label="bound")
                left.set_xlim(right=max(left.get_xlim()[1], 1.1 * r["target"]))
        shown = [{**r, "µs": 1e6 * r["value"]} for r in rows]
        places = report.bars(right, shown, key="µs", title="time of a step", label="µs", log=True)
        for key, style in (("cpu", "k|"), ("gpu", "kx")):
            known = [r for r in rows if r[key]]
            at = [places[r["case"], r["library"]] for r in known]
            label = f"the {key.upper()}'s part"
            right.plot([1e6 * r[key] for r in known], at, style, ms=6, label=label)

    return draw_on


if __name__ == "__main__":
    main()
