"""How training steps are raced and reported: their table, bounds and picture.

A case has a name, ``close``, which says how far apart the first losses of the libraries may be, and
``target``, the bound on the time of gpugrad's step, eager, as a multiple of torch's, or None.
Compiled, gpugrad's is compared to torch's as one CUDA graph.
"""

from statistics import median

import report
from timing import Workers

STEPS = 5  # whose losses are compared
AGAINST_GRAPH = 1.0


def run(name, options, prepare, cases):
    """Measure the cases, report them, and return the exit status.

    prepare: as for `Workers.race`; the runs of a case with ``close`` return a loss.
    """
    with Workers(options) as workers:
        results, losses = workers.race(prepare, [c for c in cases if c.close], values=STEPS)
        compare(workers, losses)
        results |= workers.race(prepare, [c for c in cases if not c.close])[0]
    rows = rows_of(name, results)
    bounds = show(rows)
    return report.finish(name, options, workers, rows, bounds, draw(rows))


def compare(workers, losses):
    """Report libraries whose losses differ from PyTorch's, which means they did different work."""
    for case, found in losses.items():
        if not found:
            continue
        expected = found.get(report.BASELINE, next(iter(found.values())))
        for library, values in found.items():
            apart = max(abs(a - b) / abs(b) for a, b in zip(values, expected, strict=True))
            if not apart <= case.close:
                workers.failed = True
                workers.leave_out(library, case, f"its losses {values} are not {expected}")


def rows_of(name, results):
    rows = []
    for case, turns in results.items():
        times = {n: [t["time"] for t in found] for n, found in turns.items()}
        for library, found in turns.items():
            target = case.target if library == "gpugrad" else None
            known = {key: [t[key] for t in found if t[key] is not None] for key in ("cpu", "gpu")}
            rows.append(
                report.row(
                    name, str(case), library, times[library], times.get(report.BASELINE),
                    unit="s", target=target,
                    **{key: median(values) if values else None for key, values in known.items()},
                    gpu_waits=any(t["gpu_waits"] for t in found),
                )
            )  # fmt: skip
    return rows


def against_graph(rows):
    """Return the bounds on gpugrad's compiled steps, by case."""
    rounds = {(r["case"], r["library"]): r["rounds"] for r in rows}
    found = {}
    for (case, library), mine in rounds.items():
        graph = rounds.get((case, "torch graph"))
        if library == "gpugrad compiled" and graph:
            ratio = median(a / b for a, b in zip(mine, graph, strict=True))
            what = f"{case}, compiled, against torch graph"
            found[case] = report.bound(what, ratio, AGAINST_GRAPH)
    return found


def show(rows):
    """Print the table and return the bounds."""
    lines = [["", "library", "step µs", "spread", "CPU µs", "GPU µs", "step / torch", ""]]
    of_compiled = against_graph(rows)
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
    bounds += of_compiled.values()
    bounds.append(report.bound("steps in which gpugrad waits for the GPU", waiting, 0))
    report.table("training step (* with gaps: it waits for results)", lines)
    return bounds


def draw(rows):
    def draw_on(figure):
        figure.set_size_inches(12, 1.8 + 0.9 * len({r["case"] for r in rows}))
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
