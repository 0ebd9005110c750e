"""Every op in the tests' table compared to PyTorch eager: forward, backward, bytes kept.

    python benchmarks/op_table.py [--short] [--ops NAME ...] [--sizes N ...]
        [--json PATH] [--plot PATH]

Inputs are float32 with about 10, 10,000 and 1,000,000 elements. Backward computes the
gradients of all floating inputs from random cotangents. Worst ratios come first.
"""

import sys
from statistics import median

import harness
import numpy as np

harness.require_gpugrad()
sys.path.insert(0, str(harness.ROOT / "tests"))
try:
    from cases import CASES  # it is found now, and imports gpugrad
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}; the samples of ops need it: pip install '.[test]'") from None

SIZES = 10, 10_000, 1_000_000
LIMIT = 2.0
BY_NAME = {case.op: case for case in CASES if case.torch is not None}


def prepare(library, work):
    """Return a function that does the work ``(op, size, pass)`` once."""
    name, size, direction = work
    forward, leaves, outputs_of, grad = call_of(library, name, size)
    if direction == "forward":
        return forward
    outputs, cotangents = outputs_of(forward())
    return lambda: grad(outputs, leaves, cotangents, retain_graph=True)


def call_of(library, name, size, device="cpu"):
    return (_gpugrad if library == "gpugrad" else _torch)(name, size, device)


def _arrays(sample, make):
    inputs = [make(x) if isinstance(x, np.ndarray) else x for x in sample.arrays("float32")]
    return inputs, [x for x in inputs if getattr(x, "requires_grad", False)]


def _gpugrad(name, size, device):
    import gpugrad

    case, sample = BY_NAME[name], BY_NAME[name].at_size(size)

    def array(value):
        return gpugrad.tensor(value, device=device).array

    inputs, leaves = _arrays(
        sample, lambda x: gpugrad.tensor(x, device=device, requires_grad=x.dtype.kind in "fc")
    )
    function, static = case.function, _static(sample, array, device)
    if getattr(getattr(function, "op", None), "variadic", False):
        inputs = [inputs]

    def outputs_of(result):
        outputs = [y for y in _several(result) if y.requires_grad]
        rng = np.random.default_rng(0)
        values = [_random(rng, y.shape, str(y.dtype)) for y in outputs]
        return outputs, [gpugrad.tensor(value, device=device) for value in values]

    return lambda: function(*inputs, **static), leaves, outputs_of, gpugrad.autograd.grad


def _torch(name, size, device):
    import torch

    case, sample = BY_NAME[name], BY_NAME[name].at_size(size)

    def make(x):
        x = torch.tensor(x, device=device)
        return x.requires_grad_(x.is_floating_point() or x.is_complex())

    def array(value):
        return torch.tensor(value, device=device)

    inputs, leaves = _arrays(sample, make)
    function, static = case.torch, _static(sample, array, device)
    for key, value in static.items():
        if isinstance(value, np.dtype):
            static[key] = getattr(torch, value.name)

    def outputs_of(result):
        outputs = [y for y in _several(result) if y.requires_grad]
        rng = np.random.default_rng(0)
        dtypes = [str(y.dtype).removeprefix("torch.") for y in outputs]
        return outputs, [
            torch.tensor(_random(rng, tuple(y.shape), dtype), device=device)
            for y, dtype in zip(outputs, dtypes, strict=True)
        ]

    return lambda: function(torch, *inputs, **static), leaves, outputs_of, torch.autograd.grad


def _static(sample, array, device):
    """Return the static parameters, their arrays converted to the library and the device."""

    def raw(value):
        if isinstance(value, np.ndarray):
            return array(value)
        if isinstance(value, tuple):
            return tuple(map(raw, value))
        return device if isinstance(value, str) and value == "cpu" else value

    return {name: raw(value) for name, value in sample.static.items()}


def _several(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def _random(rng, shape, dtype):
    # Real also for complex outputs: PyTorch rejects cotangents that depend on eigenvectors' phases.
    return np.asarray(rng.standard_normal(shape), dtype)


def saved_bytes(library, ops_and_sizes):
    """Return `_saved_bytes` for each op and size."""
    return {work: _saved_bytes(library, *work) for work in ops_and_sizes}


def _saved_bytes(library, name, size):
    """Return the bytes of the distinct arrays that the op keeps for backward, inputs included."""
    forward, *_ = call_of(library, name, size)
    kept = {}
    if library == "torch":
        import torch

        def note(tensor):
            storage = tensor.untyped_storage()
            kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            forward()
        return sum(kept.values())

    from gpugrad.backends import backend_of

    nodes = [y.grad_fn for y in _several(forward()) if y.requires_grad]
    while nodes:
        node = nodes.pop()
        nodes.extend(p for p in node.next_functions if hasattr(p, "saved"))
        for value in node.saved:
            for array in value if isinstance(value, tuple) else (value,):
                if type(array) in backend_of and array.ndim:
                    kept[backend_of[type(array)].buffer(array)] = array.nbytes
    return sum(kept.values())


def measure(options):
    """Return a dict for each op, pass and size, worst ratio first."""
    works = [
        (name, size, direction)
        for name in options.ops
        for size in options.sizes
        for direction in ("forward", "backward")
        if direction == "forward" or BY_NAME[name].differentiable
    ]
    effort = {"rounds": 1, "seconds": 0.002} if options.short else {"rounds": 3, "seconds": 0.04}
    kept = [(name, size) for name, size, direction in works if direction == "backward"]
    saved = {
        library: harness.in_fresh_process(saved_bytes, library, kept)
        for library in options.libraries
    }
    results = harness.race(prepare, options.libraries, works, patience=0, **effort)
    rows = []
    for (name, size, direction), turns in results.items():
        row = {"op": name, "pass": direction, "size": size}
        row |= {library: round(1e6 * median(times), 2) for library, times in turns.items()}
        if len(turns) == 2:
            pairs = zip(turns["gpugrad"], turns["torch"], strict=True)
            row["ratio"] = round(median(a / b for a, b in pairs), 2)
        if direction == "backward":
            row["saved_bytes"] = {library: saved[library][name, size] for library in turns}
        rows.append(row)
    return sorted(rows, key=lambda row: -row.get("ratio", 0))


def show(rows, limit):
    """Print the rows over the limit, or else the worst ten, and the medians."""
    over = [row for row in rows if row["ratio"] > limit]
    print(f"\n{len(over)} of {len(rows)} over {limit:g}; µs, worst ratios first")
    print(f"{'op':28}{'pass':>9}{'size':>9}{'gpugrad':>11}{'torch':>11}{'ratio':>7}")
    for row in over or rows[:10]:
        print(
            f"{row['op']:28}{row['pass']:>9}{row['size']:>9}{row['gpugrad']:11.1f}"
            f"{row['torch']:11.1f}{row['ratio']:7.2f}"
        )
    for size in sorted({row["size"] for row in rows}):
        ratios = [row["ratio"] for row in rows if row["size"] == size]
        print(f"size {size}: median ratio {median(ratios):.2f} of {len(ratios)}")
    kept = [row["saved_bytes"] for row in rows if "saved_bytes" in row]
    more = sum(saved["gpugrad"] > saved["torch"] for saved in kept)
    print(f"more bytes kept for backward than torch: {more} of {len(kept)}")


def plot(path, about, rows, limit):
    """Draw the ratio of each op and size as a dot, with a panel per pass."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    directions = [d for d in ("forward", "backward") if any(r["pass"] == d for r in rows)]
    worst = {}
    for row in rows:
        worst[row["op"]] = max(worst.get(row["op"], 0), row["ratio"])
    order = sorted(worst, key=worst.get)
    figure, axes = pyplot.subplots(
        1, len(directions), figsize=(11, 2 + 0.14 * len(order)), squeeze=False, sharey=True,
        layout="constrained",
    )  # fmt: skip
    sizes = sorted({row["size"] for row in rows})
    for ax, direction in zip(axes[0], directions, strict=True):
        for size, color in zip(sizes, ("#92c5de", "#4393c3", "#053061", "#000000"), strict=False):
            mine = [r for r in rows if r["size"] == size and r["pass"] == direction]
            ax.plot(
                [r["ratio"] for r in mine], [order.index(r["op"]) for r in mine],
                "o", ms=4, color=color, label=f"{size:,} elements",
            )  # fmt: skip
        ax.axvline(1, color="#d6604d", lw=0.8)
        ax.axvline(limit, color="black", lw=0.8)
        ax.set_xscale("log")
        ax.set_yticks(range(len(order)), order, fontsize=6)
        ax.set_ylim(-1, len(order))
        ax.set_title(f"{direction}, time as a ratio to torch eager (lower is better)", fontsize=9)
        ax.grid(axis="y", lw=0.3)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0][0].legend(frameon=False, fontsize=8, loc="lower right")
    harness.save_plot(figure, path, about)


def main():
    description = __doc__.splitlines()[0]
    options = harness.arguments(
        description, ["gpugrad", "torch"], ops=list(BY_NAME), sizes=list(SIZES)
    )
    rows = measure(options)
    if len(options.libraries) < 2:
        print("without PyTorch there are no ratios")
        return
    show(rows, LIMIT)
    harness.write("op_table", options, rows, lambda *place: plot(*place, rows, LIMIT))


if __name__ == "__main__":
    main()
