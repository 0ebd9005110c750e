"""How training steps and layers are raced and reported: their table, bounds and picture.

A case has a name, ``close``, which says how far apart the first losses of the libraries may be,
and ``target``, the bound on the time of gpugrad's step, eager, as a multiple of torch's, or None.
A step also has ``of_graph``, the bound on gpugrad's time, compiled, as a multiple of that of
torch's as one CUDA graph, and ``most``, that on its milliseconds on an H100 or H200, or None.
"""

from statistics import median

import report
from timing import Workers

STEPS = 5  # whose losses are compared


def run(name, options, prepare, cases, draw=None, bounds_of=lambda rows: ()):
    """Measure the cases, report them, and return the exit status.

    prepare: as for `Workers.race`; the runs of a case with ``close`` return a loss.
    draw: as for `report.finish`, of the rows; by default all times and ratios.
    bounds_of: the further bounds of the rows.
    """
    with Workers(name, options) as workers:
        workers.race(
            prepare, cases, lambda result: rows_of(name, workers, result),
            values=lambda case: STEPS if case.close else 0,
        )  # fmt: skip
    bounds = [*show(name, workers.rows), *bounds_of(workers.rows)]
    return report.finish(workers, bounds, (draw or draw_steps)(workers.rows))


def rows_of(name, workers, result):
    """The rows of a result, whose losses must be those of PyTorch: else it did different work."""
    case, rows = result.case, []
    times, losses = result.seconds(), result.firsts
    expected = losses.get(report.BASELINE, next(iter(losses.values()), None))
    for library, values in losses.items() if case.close else ():
        apart = max(abs(a - b) for a, b in zip(values, expected, strict=True)) / max(expected)
        if not apart <= case.close:
            workers.failed = True
            workers.leave_out(library, case, f"its losses {values} are not {expected}")
    for library, found in result.turns.items():
        known = {key: [t[key] for t in found if t[key] is not None] for key in ("cpu", "gpu")}
        rows.append(
            report.row(
                name, str(case), library, times[library], times.get(report.BASELINE),
                unit="s", target=case.target if library == "gpugrad" else None,
                **{key: median(values) if values else None for key, values in known.items()},
                gpu_waits=any(t["gpu_waits"] for t in found),
                of_graph=getattr(case, "of_graph", None), most=getattr(case, "most", None),
                **result.made[library],
            )
        )  # fmt: skip
    return rows


def of_compiled(rows):
    """Return the bounds on gpugrad's compiled steps."""
    rounds = {(r["case"], r["library"]): r["rounds"] for r in rows}
    found = []
    for r in rows:
        if r["library"] != "gpugrad compiled":
            continue
        if graph := rounds.get((r["case"], "torch graph")):
            ratio = median(a / b for a, b in zip(r["rounds"], graph, strict=True))
            what = f"{r['case']}, compiled, against torch graph"
            found.append(report.bound(what, ratio, r["of_graph"]))
        if r["most"]:
            what = f"{r['case']}, compiled, ms on an H100 or H200"
            found.append(report.bound(what, 1e3 * r["value"], r["most"]))
    return found


def show(name, rows):
    """Print the table and return the bounds."""
    lines = [["", "library", "µs", "spread", "CPU µs", "GPU µs", "/ torch", "ready s", "MiB",
              "nodes", ""]]  # fmt: skip
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
            report.number(r["ready"]),
            report.number(r["memory"] and r["memory"] / 2**20),
            report.number(r["nodes"]),
            report.verdict(here) if r["target"] else "",
        ])  # fmt: skip
        last = r["case"]
    own = [r for r in rows if r["library"] == "gpugrad" and r["gpu"]]
    waiting = sum(r["gpu_waits"] for r in own) if own else None
    bounds += of_compiled(rows)
    bounds.append(report.bound("runs in which gpugrad waits for the GPU", waiting, 0))
    report.table(f"{name} (* with gaps: it waits for results)", lines)
    return bounds


def draw_steps(rows):
    def draw_on(figure):
        figure.set_size_inches(12, 1.8 + 0.9 * len({r["case"] for r in rows}))
        left, right = figure.subplots(1, 2)
        places = report.bars(
            left, rows, key="ratio", title="time against torch eager's",
            label="ratio (lower is better)",
        )  # fmt: skip
        for r in rows:
            if r["target"] and r["ratio"]:
                y = places[r["case"], r["library"]]
                left.vlines(r["target"], y - 0.12, y + 0.12, color="black", lw=2, label="bound")
                left.set_xlim(right=max(left.get_xlim()[1], 1.1 * r["target"]))
        shown = [{**r, "µs": 1e6 * r["value"]} for r in rows]
        places = report.bars(right, shown, key="µs", title="time", label="µs", log=True)
        for key, style in (("cpu", "k|"), ("gpu", "kx")):
            known = [r for r in rows if r[key]]
            at = [places[r["case"], r["library"]] for r in known]
            label = f"the {key.upper()}'s part"
            right.plot([1e6 * r[key] for r in known], at, style, ms=6, label=label)

    return draw_on
