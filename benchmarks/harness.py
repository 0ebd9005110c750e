"""Code that the benchmarks share: timing libraries in turns, environment, table, JSON, plot."""

import argparse
import functools
import importlib.metadata
import importlib.util
import json
import os
import platform
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from statistics import median

# Name of a library here -> (module, distribution), in the order of the turns.
LIBRARIES = {
    "gpugrad": ("gpugrad", "gpugrad"),
    "gpugrad_compiled": ("gpugrad", "gpugrad"),
    "torch": ("torch", "torch"),
    "torch_compiled": ("torch", "torch"),
    "products": ("numpy", "numpy"),
    "numpy": ("numpy", "numpy"),
    "autograd": ("autograd", "autograd"),
    "mygrad": ("mygrad", "mygrad"),
    "jax": ("jax", "jax"),
}
BASELINE = "torch"
ROOT = Path(__file__).resolve().parents[1]


def require_gpugrad():
    """Exit unless gpugrad can be imported, which is what all benchmarks are about."""
    if importlib.util.find_spec("gpugrad") is None:
        raise SystemExit(
            f"gpugrad cannot be imported; install it, as with pip install {ROOT}, or set "
            f"PYTHONPATH={ROOT}"
        )


def arguments(description, libraries, **parts):
    """Parse the command line that the benchmarks share.

    parts: options with a list of choices; each may be given any of them, by default all.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--short", action="store_true", help="seconds instead of minutes, for CI")
    parser.add_argument(
        "--libraries", nargs="+", choices=libraries, default=libraries, metavar="NAME",
        help=f"of {', '.join(libraries)}; by default all that are installed",
    )  # fmt: skip
    for name, known in parts.items():
        parser.add_argument(
            f"--{name}", nargs="+", choices=known, default=known, type=type(known[0]),
            metavar=name[:-1].upper(),
        )  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the results as JSON")
    parser.add_argument("--plot", type=Path, metavar="PATH", help="draw the results as a PNG")
    options = parser.parse_args()
    require_gpugrad()
    missing = [n for n in options.libraries if importlib.util.find_spec(LIBRARIES[n][0]) is None]
    options.libraries = [n for n in LIBRARIES if n in options.libraries and n not in missing]
    if missing:
        print(f"not installed, left out: {', '.join(missing)}")
    return options


def effort(options, seconds):
    """Return how many rounds and seconds `race` is to spend."""
    if options.short:
        return {"rounds": 2, "seconds": seconds / 10, "patience": 0}
    return {"rounds": 9, "seconds": seconds, "patience": 300}


def in_fresh_process(function, *args):
    """Return ``function(*args)``, computed in a fresh process."""
    with fresh_process() as process:
        return process.submit(function, *args).result()


def fresh_process():
    """Return an executor with one fresh process."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def check_same_losses(prepare, libraries, cases):
    """Exit unless all libraries do the same work: the losses of three steps must be equal.

    prepare: as for `race`; what ``run`` returns is the loss, as the library's own scalar.
    """
    losses = {name: in_fresh_process(_first_losses, prepare, name, cases) for name in libraries}
    expected = losses.get(BASELINE, next(iter(losses.values())))
    for name, found in losses.items():
        pairs = zip(found, expected, strict=True)
        if not all(abs(x - y) <= 1e-8 + 1e-4 * abs(y) for x, y in pairs):
            raise SystemExit(f"{name} has losses {found}, expected {expected}")


def _first_losses(prepare, name, cases):
    steps = [prepare(name, case) for case in cases]
    return [step().item() for step in steps for _ in range(3)]


def race(prepare, libraries, cases, *, rounds, seconds, patience):
    """Measure seconds per run, ``{case: {library: [a median per round]}}``.

    prepare: ``(library, case) -> run``, called in the library's process.
    patience: how many seconds to spend in total on repeating turns that other
        processes disturbed.

    Each library has one process for all cases. In each round, each library has one
    turn of ``seconds`` while the others sleep.
    """
    results = {}
    with ExitStack() as stack:
        processes = {name: stack.enter_context(fresh_process()) for name in libraries}
        for case in _progress(cases):
            turns = results[case] = {name: [] for name in libraries}
            for turn in range(rounds + 1):
                for name, process in processes.items():
                    tries = []
                    while True:
                        start, busy = time.perf_counter(), _busy()
                        work = process.submit(_turn, prepare, name, case, seconds)
                        result, used = work.result()
                        elapsed = time.perf_counter() - start
                        tries.append(((_busy() - busy - used) / elapsed / cpus(), result))
                        if not turn or tries[-1][0] < QUIET or patience <= 0:
                            break
                        time.sleep(1)
                        patience -= elapsed + 1
                    if turn:  # the first one warms up
                        turns[name].append(min(tries)[1])
    return results


@contextmanager
def busy_neighbour():
    """A context in which another process keeps one processor busy, as any program might."""
    process = get_context("spawn").Process(target=_spin, daemon=True)
    process.start()
    try:
        time.sleep(0.5)
        yield
    finally:
        process.kill()
        process.join()


def _spin():
    while True:
        pass


def _progress(cases):
    if importlib.util.find_spec("tqdm") is None:
        return cases
    from tqdm import tqdm

    return tqdm(cases, unit="case", leave=False, disable=None)


# A turn counts as undisturbed if other processes use less than this share of the processors.
# They delay threads that wait for each other, such as those of a matrix product.
QUIET = 0.03


def _busy():
    """Return how many seconds all processors have been in use; 0 if the system does not say."""
    try:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(
            int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
        )
    except OSError:
        return 0.0
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


@functools.lru_cache(maxsize=1)
def _prepared(prepare, library, case):
    return prepare(library, case)


def _turn(prepare, library, case, seconds):
    used = time.process_time()
    run = _prepared(prepare, library, case)
    # The caches hold another library's data now.
    warm = time.perf_counter() + seconds / 5
    run()
    while time.perf_counter() < warm:
        run()
    times = []
    end = time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return median(times), time.process_time() - used


def row(section, case, library, values, baseline, *, unit, scale=1.0, target=None):
    """Return one result: the median of the rounds, and the median of their ratios to torch.

    values, baseline: one number per round; ``baseline`` is None without torch.
    scale: the factor from the unit of ``values`` to ``unit``.
    target: the ratio to reach, for gpugrad.
    """
    ratio = median(v / b for v, b in zip(values, baseline, strict=True)) if baseline else None
    return {
        "section": section,
        "case": case,
        "library": library,
        "value": median(values) * scale,
        "unit": unit,
        "ratio": ratio,
        "target": target,
        "rounds": [v * scale for v in values],
    }


def rows_of(section, results, *, name_case, unit, scale, targets):
    """Return the `row`s of a `race`. ``targets``: case -> ratio."""
    return [
        row(
            section, name_case(case), library, values, turns.get(BASELINE),
            unit=unit, scale=scale, target=targets.get(case) if library == "gpugrad" else None,
        )
        for case, turns in results.items()
        for library, values in turns.items()
    ]  # fmt: skip


def table(title, rows, against=BASELINE):
    """Print rows of one unit, with a line per case and a column per library: ``value (ratio)``."""
    libraries = list(dict.fromkeys(r["library"] for r in rows))
    lines = [["", *libraries, "target"]]
    for case in dict.fromkeys(r["case"] for r in rows):
        line = [case]
        by_library = {r["library"]: r for r in rows if r["case"] == case}
        for library in libraries:
            r = by_library.get(library)
            line.append("" if r is None else _number(r["value"]) + _ratio(r["ratio"]))
        line.append(_verdict(by_library.get("gpugrad")))
        lines.append(line)
    print(f"\n{title}: {rows[0]['unit']} (ratio to {against})")
    print_columns(lines)


def print_columns(lines):
    """Print a table: the first column flush left, the others flush right."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for first, *rest in lines:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
        print("  ".join(cells).rstrip())


def _number(value):
    return f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def _ratio(ratio):
    return "" if ratio is None else f" ({ratio:.2f})"


def _verdict(r):
    if r is None or r["target"] is None:
        return ""
    if r["ratio"] is None:
        return f"<= {r['target']:g}"
    return f"<= {r['target']:g} {'met' if r['ratio'] <= r['target'] else 'missed'}"


def environment(libraries):
    """Return what a reader needs to compare with another run: versions, threads, processor."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cpus": cpus(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "thread_settings": {k: v for k, v in os.environ.items() if k.endswith("_NUM_THREADS")},
        "libraries": {name: in_fresh_process(_describe, name) for name in libraries},
    }


def processor():
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def cpus():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def _describe(library):
    """Return a library's version and, if known, its number of threads."""
    module_name, distribution = LIBRARIES[library]
    module = importlib.import_module(module_name)
    known = {"version": getattr(module, "__version__", None)}
    if known["version"] is None:
        known["version"] = importlib.metadata.version(distribution)
    if library.startswith("torch"):
        known["threads"] = module.get_num_threads()
    elif library != "jax" and importlib.util.find_spec("threadpoolctl"):
        from threadpoolctl import threadpool_info

        pools = threadpool_info()
        known["threads"] = max((pool["num_threads"] for pool in pools), default=None)
        known["kernels"] = ", ".join(p["architecture"] for p in pools if p.get("architecture"))
    return known


def write(name, options, rows, draw=None):
    """Write the files that the options ask for.

    draw: a function of a path and the environment that draws the rows.
    """
    if not options.json and not options.plot:
        return
    about = environment(options.libraries)
    if options.json:
        write_json(options.json, name, options, about, rows)
    if options.plot and importlib.util.find_spec("matplotlib") is None:
        print("no plot: matplotlib is not installed")
    elif options.plot and draw is not None:
        draw(options.plot, about)


def write_json(path, name, options, environment, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    form = "short" if options.short else "full"
    result = {"benchmark": name, "form": form, "environment": environment, "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")


def knows_memory():
    """Whether `process_memory` works here; says so if it does not."""
    known = Path("/proc/self/status").exists()
    if not known:
        print("\nthe memory section is left out: it reads /proc, which only Linux has")
    return known


def process_memory(name):
    """Return ``VmRSS``, the process's resident memory, or ``VmHWM``, its peak, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise KeyError(name)


def reset_peak_memory():
    """Let ``VmHWM`` of `process_memory` begin with the present memory."""
    Path("/proc/self/clear_refs").write_text("5")


COLORS = {
    "gpugrad": "#1b7837", "gpugrad_compiled": "#7fbf7b", "torch": "#d6604d",
    "torch_compiled": "#f4a582", "numpy": "#999999", "products": "#cccccc",
    "autograd": "#92c5de", "mygrad": "#4393c3", "jax": "#9970ab", "jax jit": "#c2a5cf",
}  # fmt: skip


def plot(path, environment, title, panels):
    """Draw bars of the ratios to torch, or of the values without torch; mark gpugrad's targets.

    panels: ``(title, rows)`` pairs; those without rows are left out.
    """
    panels = [panel for panel in panels if panel[1]]
    if not panels:
        return
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    sizes = [len({r["case"] for r in rows}) for _, rows in panels]
    figure, axes = pyplot.subplots(
        1, len(panels), figsize=(max(2.2 + 1.9 * sum(sizes), 10.5), 4.6), squeeze=False,
        width_ratios=sizes, layout="constrained",
    )  # fmt: skip
    for ax, (panel_title, rows) in zip(axes[0], panels, strict=True):
        _draw(ax, panel_title, rows)
    handles = {}
    for ax in axes[0]:
        handles |= {h.get_label(): h for h in ax.get_legend_handles_labels()[0]}
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=len(handles), frameon=False
    )
    save_plot(figure, path, environment, f"{title}\n")


def save_plot(figure, path, environment, title=""):
    """Write a figure to a file; its heading names the processor and the libraries."""
    versions = ", ".join(f"{n} {d['version']}" for n, d in environment["libraries"].items())
    kernels = {d.get("kernels") for d in environment["libraries"].values()} - {None, ""}
    if kernels:
        versions += f"; OpenBLAS's kernels: {', '.join(sorted(kernels))}"
    processor = f"{environment['processor']}, {environment['cpus']} CPUs"
    figure.suptitle(f"{title}{processor}; {versions}", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")


def _draw(ax, title, rows):
    cases = list(dict.fromkeys(r["case"] for r in rows))
    libraries = list(dict.fromkeys(r["library"] for r in rows))
    key = "value" if any(r["ratio"] is None for r in rows) else "ratio"
    width = 0.8 / len(libraries)
    for k, library in enumerate(libraries):
        mine = [r for r in rows if r["library"] == library]
        at = [cases.index(r["case"]) + (k - (len(libraries) - 1) / 2) * width for r in mine]
        heights = [r[key] for r in mine]
        bars = ax.bar(at, heights, width * 0.92, label=library, color=COLORS[library])
        ax.bar_label(bars, [f"{h:.2g}" for h in heights], fontsize=6.5, padding=2)
        for x, r in zip(at, mine, strict=True):
            if key == "ratio" and r["target"] is not None:
                edges = x - width / 2, x + width / 2
                ax.hlines(r["target"], *edges, color="black", lw=2, label="the project's aim")
    ax.set_xticks(range(len(cases)), cases, fontsize=8)
    ax.set_yscale("log")
    ax.yaxis.set_minor_formatter("")
    ax.set_title(title, fontsize=9)
    if key == "ratio":
        ax.axhline(1, color=COLORS["torch"], lw=0.8, zorder=0)
    ax.set_ylabel("ratio (lower is better)" if key == "ratio" else rows[0]["unit"], fontsize=8)
    ax.tick_params(axis="y", labelsize=8)
    ax.spines[["top", "right"]].set_visible(False)
