"""The cost of an op beyond its arithmetic, compared to PyTorch eager and other libraries.

    python benchmarks/op_overhead.py [--short] [--libraries gpugrad torch ...]
        [--sections ...] [--json PATH] [--plot PATH]

Three sections:

elementwise: forward and backward of a chain of 200 elementwise ops, in µs per op.
import: `import gpugrad` against `import numpy`, in fresh interpreters.
depth: a chain of 1,000,000 ops is built, swept and destroyed without the garbage
    collector; its memory is freed, and an op costs as much as in a chain of 1,000.
"""

import gc
import os
import resource
import subprocess
import sys
import tempfile
import time

import harness
import numpy as np

LENGTH = 200
TARGETS = {(4,): 0.5, (64, 64): 0.7, (256, 256): 1.2}
IMPORT_TARGET = 1.6
DEPTH_TARGET = 1.2


def chain(y, c, d, tanh, length):
    """Apply multiply, add, tanh and subtract in turn, by the library's operators.

    With c near 1 and d near -1 this is ``y = 1 + tanh(y - 1)``: values and derivatives
    stay near 1, however long the chain, and nothing becomes denormal.
    """
    for _ in range(length // 4):
        y = y * c
        y = y + d
        y = tanh(y)
        y = y - d
    return y


def data(shape):
    """Return the leaf x and the constants c and d, all float32."""
    rng = np.random.default_rng(0)
    x = rng.uniform(0.5, 1.5, shape)
    c = rng.uniform(0.999, 1.001, shape)
    return [a.astype(np.float32) for a in (x, c, -c)]


def prepare(library, shape):
    """Return a function that runs the chain forward and backward and returns x's gradient."""
    return globals()[f"_{library}"](shape)


def _gpugrad(shape):
    import gpugrad

    return _eager(gpugrad, shape)


def _torch(shape):
    import torch

    return _eager(torch, shape)


def _eager(library, shape):
    x, c, d = map(library.tensor, data(shape))
    x.requires_grad_()

    def run():
        x.grad = None
        chain(x, c, d, library.tanh, LENGTH).sum().backward()
        return x.grad

    return run


def _numpy(shape):
    """Forward and backward by hand: the lowest cost possible with NumPy."""
    x, c, d = data(shape)

    def run():
        outs = []
        y = x
        for _ in range(LENGTH // 4):
            y = y * c
            y = y + d
            y = np.tanh(y)
            outs.append(y)
            y = y - d
        y.sum()
        g = np.ones_like(y)
        while outs:
            out = outs.pop()
            g = g * (1 - out * out)
            g = g * c
        return g

    return run


def _autograd(shape):
    import autograd
    import autograd.numpy as anp

    x, c, d = data(shape)
    gradient = autograd.grad(lambda x: anp.sum(chain(x, c, d, anp.tanh, LENGTH)))
    return lambda: gradient(x)


def _mygrad(shape):
    import mygrad

    x, c, d = data(shape)
    x = mygrad.tensor(x)
    c, d = mygrad.tensor(c, constant=True), mygrad.tensor(d, constant=True)

    def run():
        x.null_grad()
        chain(x, c, d, mygrad.tanh, LENGTH).sum().backward()
        return x.grad

    return run


def _jax(shape):
    import jax

    x, c, d = map(jax.numpy.asarray, data(shape))
    gradient = jax.jit(jax.grad(lambda x, c, d: chain(x, c, d, jax.numpy.tanh, LENGTH).sum()))
    return lambda: gradient(x, c, d).block_until_ready()


def elementwise(options):
    effort = harness.effort(options, seconds=0.3)
    results = harness.race(prepare, options.libraries, TARGETS, **effort)
    rows = harness.rows_of(
        "elementwise", results, name_case=lambda shape: "x".join(map(str, shape)),
        unit="µs per op", scale=1e6 / LENGTH, targets=TARGETS,
    )  # fmt: skip
    harness.table(f"elementwise chain of {LENGTH}, forward + backward", rows)
    return rows


def imports(options):
    """Measure import times, without the start of the interpreter."""
    program = (
        "import time, sys; start = time.perf_counter(); import {0}; "
        "print(time.perf_counter() - start, *sys.modules)"
    )
    times = {"gpugrad": [], "numpy": []}
    with tempfile.TemporaryDirectory() as bytecode:
        # Installed packages have bytecode; here the first turn writes it for all of them.
        variables = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        variables.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(6 if options.short else 16):
            for name in times:
                command = [sys.executable, "-c", program.format(name)]
                output = subprocess.check_output(command, text=True, env=variables)
                seconds, *modules = output.split()
                if unwanted := {"cupy", "torch"}.intersection(modules):
                    sys.exit(f"import {name} imports {' and '.join(unwanted)}")
                if turn:
                    times[name].append(float(seconds))
    rows = [
        harness.row(
            "import", "import", name, values, times["numpy"],
            unit="ms", scale=1e3, target=IMPORT_TARGET if name == "gpugrad" else None,
        )
        for name, values in times.items()
    ]  # fmt: skip
    harness.table("import in a fresh interpreter", rows, against="numpy")
    return rows


def depth(options):
    """Measure time and memory of the long chain, in a process of its own."""
    length = 50_000 if options.short else 1_000_000
    result = harness.in_fresh_process(_depth, length, 2 if options.short else 5)
    long, short = result["long"], result["short"]
    rows = [
        harness.row(
            "depth", f"{length:,} ops", "gpugrad", long, short,
            unit="µs per op", scale=1e6, target=DEPTH_TARGET,
        ),
        harness.row("depth", "1,000 ops", "gpugrad", short, short, unit="µs per op", scale=1e6),
    ]  # fmt: skip
    rows[0]["memory"] = memory = result["memory"]
    harness.table("depth, gc disabled: built, swept, destroyed", rows, against="a chain of 1,000")
    print(
        f"blocks allocated: {memory['blocks_before']:,} before, {memory['blocks_built']:,} built, "
        f"{memory['blocks_after']:,} after\n"
        f"resident: {memory['rss_before']:.0f} MB before, {memory['rss_built']:.0f} built, "
        f"{memory['rss_after']:.0f} after the first chain, {memory['rss_end']:.0f} after the last"
    )
    return rows


def _depth(length, rounds):
    import gpugrad

    gc.disable()
    x, c, d = map(gpugrad.tensor, data((4,)))
    x.requires_grad_()
    memory = {}

    def run(length, times):
        """Return the seconds per op over ``times`` chains of ``length`` ops."""
        start = time.perf_counter()
        for _ in range(times):
            x.grad = None
            y = chain(x, c, d, gpugrad.tanh, length)
            y.sum().backward()
            del y
        return (time.perf_counter() - start) / length / times

    run(1000, 20)
    memory["blocks_before"], memory["rss_before"] = sys.getallocatedblocks(), _resident()
    y = chain(x, c, d, gpugrad.tanh, length)
    memory["blocks_built"], memory["rss_built"] = sys.getallocatedblocks(), _resident()
    x.grad = None
    y.sum().backward()
    del y
    memory["blocks_after"], memory["rss_after"] = sys.getallocatedblocks(), _resident()
    times = {"long": [], "short": []}
    for _ in range(rounds):
        times["short"].append(run(1000, length // 1000))
        times["long"].append(run(length, 1))
    memory["rss_end"] = _resident()
    return {**times, "memory": memory}


def _resident():
    """Return resident memory in MB; where the system does not say, the peak so far."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


SECTIONS = {"elementwise": elementwise, "import": imports, "depth": depth}


def main():
    options = harness.arguments(__doc__.splitlines()[0], list(_LIBRARIES), sections=list(SECTIONS))
    rows = [r for name in options.sections for r in SECTIONS[name](options)]
    shown = [r for r in rows if r["section"] == "elementwise"]
    panels = [("by shape of the float32 tensors", shown)]
    title = f"Forward + backward of {LENGTH} elementwise ops, time per op against torch eager"
    harness.write("op_overhead", options, rows, lambda *place: harness.plot(*place, title, panels))


_LIBRARIES = ("gpugrad", "torch", "numpy", "autograd", "mygrad", "jax")

if __name__ == "__main__":
    main()
