"""How much memory checkpointing a network of 64 layers saves, and how much time it costs.

    python benchmarks/checkpoint.py [--short] [--libraries gpugrad torch]
        [--sections ...] [--json PATH] [--plot PATH]

A step is forward, a sum of squares as the loss, and backward. The columns named after the
libraries checkpoint each segment of layers; the columns "... plain" do not.

speed: the time of a step.
memory: the peak resident memory during steps.

Residual blocks, ``x + tanh(x W + b)``, keep two values each, and 8 segments of 8 blocks need at
most a quarter of the memory. `Linear` with ReLU keeps one value. To reach a quarter there, the
segments get shorter towards the end, because the inputs of all earlier segments are still in
memory while a segment is swept.
"""

import sys
from functools import partial
from typing import NamedTuple

import harness
import numpy as np

LAYERS = 64
TARGETS = {"speed": 1.5, "memory": 0.25}
_LIBRARIES = ("gpugrad", "torch")


class Net(NamedTuple):
    kind: str
    segments: tuple[int, ...]
    width: int
    batch: int

    def __str__(self):
        first, *_, last = self.segments
        return f"{self.kind}, {len(self.segments)} segments of {first} to {last}"


def nets(short):
    batch = 512 if short else 8192
    return [
        Net("residual", (8,) * 8, 64, batch),
        Net("relu", (11, 10, 9, 8, 7, 6, 5, 4, 3, 1), 64, batch),
    ]


def data(net):
    """Return the input (batch, width), and for each layer a weight (out, in)."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((net.batch, net.width), dtype=np.float32)
    weights = rng.standard_normal((LAYERS, net.width, net.width), dtype=np.float32)
    return x, weights * np.float32(net.width**-0.5)


def prepare(name, net):
    """Return a function that does one step and returns the gradient of the first weight."""
    library, _, plain = name.partition(" ")
    return globals()[f"_{library}"](net, bool(plain))


def _gpugrad(net, plain):
    import gpugrad
    from gpugrad import nn

    return _step(net, gpugrad, nn, gpugrad.asarray, None if plain else gpugrad.checkpoint)


def _torch(net, plain):
    import torch
    from torch import nn
    from torch.utils.checkpoint import checkpoint

    checkpoint = partial(checkpoint, use_reentrant=False)
    return _step(net, torch, nn, torch.from_numpy, None if plain else checkpoint)


def _step(net, library, nn, array, checkpoint):
    """Return the step of a library, which makes tensors by ``array``.

    checkpoint: its function for that, or None for a step without.
    """

    class Residual(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(net.width, net.width)

        def forward(self, x):
            return x + library.tanh(self.linear(x))

    x, weights = data(net)
    x = array(x)
    segments = _segments(nn, net, Residual)
    parameters = [p for segment in segments for p in segment.parameters()]
    with library.no_grad():
        for weight, bias, value in zip(parameters[::2], parameters[1::2], weights, strict=True):
            weight[...] = array(value)
            bias[...] = 0

    def forward(x):
        for segment in segments:
            x = segment(x) if checkpoint is None else checkpoint(segment, x)
        return x

    def step():
        for p in parameters:
            p.grad = None
        library.square(forward(x)).sum().backward()
        return parameters[0].grad.numpy()

    return step


def _segments(nn, net, residual):
    """Return a `Sequential` of layers for each segment."""
    segments = []
    for n in net.segments:
        if net.kind == "residual":
            layers = [residual() for _ in range(n)]
        else:
            layers = [f() for _ in range(n) for f in (lambda: nn.Linear(*[net.width] * 2), nn.ReLU)]
        segments.append(nn.Sequential(*layers))
    return segments


def names(options):
    return [name for library in options.libraries for name in (f"{library} plain", library)]


def rows_of(section, results, *, unit, scale):
    return [
        harness.row(
            section, str(net), name, values, turns[f"{name.split()[0]} plain"],
            unit=unit, scale=scale, target=TARGETS[section] if name == "gpugrad" else None,
        )
        for net, turns in results.items()
        for name, values in turns.items()
    ]  # fmt: skip


def speed(options):
    check_same_gradients(options)
    effort = harness.effort(options, seconds=2)
    results = harness.race(prepare, names(options), nets(options.short), **effort)
    rows = rows_of("speed", results, unit="ms per step", scale=1e3)
    harness.table("step", rows, against="plain")
    return rows


def check_same_gradients(options):
    """Exit unless all compute the same gradients."""
    for net in nets(True):
        found = {name: harness.in_fresh_process(_gradient, name, net) for name in names(options)}
        expected = next(iter(found.values()))
        for name, gradient in found.items():
            if not np.allclose(gradient, expected, rtol=1e-3, atol=1e-3 * abs(expected).max()):
                sys.exit(f"{net}: {name} has another gradient than {next(iter(found))}")


def _gradient(name, net):
    return prepare(name, net)()


def memory(options):
    """Measure the peak of two steps in a fresh process, less the library's own memory."""
    if not harness.knows_memory():
        return []
    results = {net: {name: [] for name in names(options)} for net in nets(options.short)}
    for _ in range(1 if options.short else 3):
        for net, turns in results.items():
            for name, found in turns.items():
                found.append(harness.in_fresh_process(_peak, name, net))
    rows = rows_of("memory", results, unit="MB", scale=2**-20)
    harness.table("peak memory of steps above the library's own", rows, against="plain")
    return rows


def _peak(name, net):
    prepare(name, net._replace(batch=1))()  # imports, threads
    step = prepare(name, net)
    before = harness.process_memory("VmRSS")
    harness.reset_peak_memory()
    for _ in range(2):
        step()
    return harness.process_memory("VmHWM") - before


SECTIONS = {"speed": speed, "memory": memory}


def main():
    options = harness.arguments(__doc__.splitlines()[0], _LIBRARIES, sections=list(SECTIONS))
    rows = [r for name in options.sections for r in SECTIONS[name](options)]
    shown = [r for r in rows if "plain" not in r["library"]]
    titles = {"speed": "time of a step", "memory": "peak memory of steps"}
    panels = [(titles[s], [r for r in shown if r["section"] == s]) for s in options.sections]
    title = "64 checkpointed layers against the same without"
    harness.write("checkpoint", options, rows, lambda *place: harness.plot(*place, title, panels))


if __name__ == "__main__":
    main()
