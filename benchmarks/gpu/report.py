"""The command line of the GPU benchmarks, and their output: tables, bounds, JSON, pictures."""

import argparse
import importlib.util
import json
import platform
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from statistics import median

import harness
from peers import LIBRARIES, PRECISIONS

RESULTS = Path(__file__).parents[1] / "results"
BASELINE = "torch"
MET = {None: "not measured", True: "met", False: "missed"}
COLORS = {
    **harness.COLORS,
    "gpugrad compiled": "#7fbf7b",
    "torch compile": "#f4a582",
    "torch graph": "#fddbc7",
    "jax jit": "#c2a5cf",
}


def arguments(description, names, **parts):
    """Parse the options; ``parts`` are options with a list of choices."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    add = parser.add_argument
    add("--device", choices=["cuda", "cpu"], default="cuda", help="default cuda, the first GPU")
    add("--short", action="store_true", help="few and small cases, to see that it runs")
    add("--full", action="store_true", help="more cases and rounds; takes a few times as long")
    add("--libraries", nargs="+", choices=names, default=names, metavar="NAME",
        help=f"of {', '.join(names)}; by default all that are installed")  # fmt: skip
    for name, known in parts.items():
        add(f"--{name}", nargs="+", choices=known, default=None, metavar=name[:-1].upper(),
            help=f"of {', '.join(known)}" if len(known) < 9 else "by default some")  # fmt: skip
    add("--minutes", type=float, default=inf, metavar="N", help="begin no case after these")
    add(
        "--json",
        type=Path,
        metavar="PATH",
        help="write the results, after each case, as JSON and, with the suffix .md, as tables",
    )
    add("--plot", type=Path, metavar="PATH", help="draw the results as a PNG")
    add("--save", action="store_true", help=f"both, in {RESULTS.parent.name}/{RESULTS.name}/")
    options = parser.parse_args()
    if options.save and (options.device == "cpu" or options.short):
        parser.error("--save keeps figures of a GPU in the usual form; use --json and --plot")
    if options.save:
        name = f"gpu_{Path(parser.prog).stem}"
        options.json = options.json or RESULTS / f"{name}.json"
        options.plot = options.plot or RESULTS / f"{name}.png"
    options.libraries = [name for name in LIBRARIES if name in options.libraries]
    return options


def precisions(options):
    """Return the precisions chosen; by default all that this kind of device has."""
    usual = PRECISIONS if options.device == "cuda" else ("fp32", "fp16", "bf16")
    return [p for p in PRECISIONS if p in (options.precisions or usual)]


def machine(options, about):
    """Return what a reader needs to compare with another run: device, driver, versions, date."""
    device = next((known["device"] for known in about.values() if "device" in known), None)
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": device or f"CPU, {harness.processor()}",
        "kind": options.device,
        "processor": harness.processor(),
        "cpus": harness.cpus(),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "libraries": about,
    }


def row(section, case, library, values, baseline, *, unit, target=None, **more):
    """Return a `harness.row` with further entries."""
    return {
        **harness.row(section, case, library, values, baseline, unit=unit, target=target),
        **more,
    }


def table(title, lines):
    """Print rows of words, the first of which is the header."""
    print(f"\n{title}")
    harness.print_columns(lines)


def number(value):
    if value is None:
        return ""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def ratio(value):
    return "" if value is None else f"{value:.2f}"


def spread(values):
    """Format the difference between the extreme rounds as a share of their median."""
    return f"{100 * (max(values) - min(values)) / median(values):.0f}%"


def bound(what, figure, limit, relation="<="):
    """Return a bound and whether ``figure`` meets it; None if it was not measured."""
    met = None
    if figure is not None:
        met = figure <= limit if relation == "<=" else figure >= limit
    return {"what": what, "figure": figure, "relation": relation, "limit": limit, "met": met}


def verdict(bound):
    """Format a bound as a cell of a table."""
    if bound["met"] is None:
        return ""
    return f"{bound['relation']} {bound['limit']:g} {'met' if bound['met'] else 'missed'}"


def show_bounds(options, bounds):
    where = "" if options.device == "cuda" else " on a GPU; the figures are a CPU's"
    lines = [["", "figure", "bound", ""]]
    for b in bounds:
        limit = f"{b['relation']} {b['limit']:g}"
        lines.append([b["what"], ratio(b["figure"]), limit, MET[b["met"]]])
    table(f"must reach{where}", lines)


def write_json(workers, bounds=()):
    """Write the results so far, and their tables, if a file was asked for."""
    options, path = workers.options, workers.options.json
    if not path:
        return
    about = machine(options, workers.about)
    result = {
        "benchmark": f"gpu/{workers.name}",
        "form": "short" if options.short else "full" if options.full else "usual",
        "environment": about,
        "nvidia_smi": workers.states,
        "bounds": bounds,
        "left_out": {**workers.missing, "cases": list(workers.describe_problems())},
        "rows": workers.rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    for text, suffix in ((json.dumps(result, indent=1), path.suffix), (markdown(result), ".md")):
        part = path.with_suffix(".part")
        part.write_text(text + "\n")
        part.replace(path.with_suffix(suffix))  # never half a file


def markdown(result):
    """Tables for documents: of times, with the ratio to PyTorch in parentheses, and what follows.

    That is how long each library took to prepare a run, and its memory and graph; and the bounds.
    """
    about = result["environment"]
    lines = [f"{about['device']}, {about['date'][:10]}; {versions(about)}"]
    sections: dict = {}
    for r in result["rows"]:
        sections.setdefault(r["section"], {}).setdefault(r["case"], {})[r["library"]] = r
    for section, cases in sections.items():
        names = [n for n in LIBRARIES if any(n in found for found in cases.values())]
        lines += ["", f"| {section} | {' | '.join(names)} |", "|---" * (1 + len(names)) + "|"]
        for case, found in cases.items():
            cells = [_cell(found[n]) if n in found else "" for n in names]
            lines.append(f"| {case} | {' | '.join(cells)} |")
    if made := [r for r in result["rows"] if r.get("ready")]:
        names = "", "library", "s until the third run", "MiB", "nodes of the graph"
        lines += ["", f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        for r in made:
            cells = r["ready"], r["memory"] and r["memory"] / 2**20, r["nodes"]
            lines.append(f"| {r['case']} | {r['library']} | {' | '.join(map(number, cells))} |")
    if result["bounds"]:
        lines += ["", "| bound | figure | | |", "|---" * 4 + "|"]
        for b in result["bounds"]:
            limit = f"{b['relation']} {b['limit']:g}"
            lines.append(f"| {b['what']} | {ratio(b['figure'])} | {limit} | {MET[b['met']]} |")
    return "\n".join(lines)


def _cell(r):
    scale = 1e6 if r["unit"] == "s" else 1
    text = f"{number(scale * r['value'])} µs"
    is_own = r["library"] == BASELINE or r["ratio"] is None
    return text if is_own else f"{text} ({ratio(r['ratio'])})"


def finish(workers, bounds, draw):
    """Show the bounds, write the files asked for, and return the exit status."""
    options = workers.options
    show_bounds(options, bounds)
    about = machine(options, workers.about)
    print(f"\n{about['device']}; {versions(about)}")
    write_json(workers, bounds)
    if options.json:
        print(f"wrote {options.json} and {options.json.with_suffix('.md').name}")
    if options.plot and workers.rows:
        _plot(options.plot, about, draw)
    if workers.problems:
        print("\nleft out:", *workers.describe_problems(), sep="\n  ")
    return 1 if workers.failed else 0


def versions(about):
    descriptions = []
    for name, known in about["libraries"].items():
        also = [f"{k} {known[k]}" for k in ("cupy", "cuda", "cuda_of_driver") if k in known]
        more = f" ({', '.join(also)})" if also else ""
        descriptions.append(f"{name} {known['version']}{more}")
    return ", ".join(descriptions)


def _plot(path, about, draw):
    if importlib.util.find_spec("matplotlib") is None:
        print("no plot: matplotlib is not installed")
        return
    from matplotlib.figure import Figure

    figure = Figure(dpi=120, layout="constrained")
    draw(figure)
    handles = {}
    for ax in figure.axes:
        handles |= {h.get_label(): h for h in ax.get_legend_handles_labels()[0]}
    figure.legend(
        handles.values(), handles, loc="outside lower center", ncols=len(handles) or 1,
        frameon=False, fontsize=8,
    )  # fmt: skip
    figure.suptitle(f"{about['device']}; {versions(about)}", fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"wrote {path}")


def bars(ax, rows, *, key, title, label, mark=None, log=False):
    """Draw the entry ``key`` of the rows as horizontal bars, with a group for each case.

    mark: a value to draw a line at, and its label.

    Return the position of each bar, by case and library.
    """
    rows = [r for r in rows if r.get(key) is not None]
    ax.set_title(title, fontsize=9)
    if not rows:
        ax.text(0.5, 0.5, "not measured", ha="center", fontsize=8, transform=ax.transAxes)
        ax.set_axis_off()
        return {}
    cases = list(dict.fromkeys(r["case"] for r in rows))
    names = [n for n in LIBRARIES if any(r["library"] == n for r in rows)]
    width = 0.84 / len(names)
    places = {}
    for k, library in enumerate(names):
        mine = [r for r in rows if r["library"] == library]
        at = [cases.index(r["case"]) + (k - (len(names) - 1) / 2) * width for r in mine]
        places |= {(r["case"], library): y for r, y in zip(mine, at, strict=True)}
        drawn = ax.barh(at, [r[key] for r in mine], width * 0.92, label=library,
                        color=COLORS[library])  # fmt: skip
        ax.bar_label(drawn, [number(r[key]) for r in mine], fontsize=5.5, padding=2)
    if mark:
        ax.axvline(mark[0], color="black", lw=0.8, ls="--", label=mark[1])
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_minor_formatter("")  # the minor labels would overlap
        ax.set_xlim(min(r[key] for r in rows) / 2, max(r[key] for r in rows) * 3)
    else:
        ax.set_xlim(0, 1.1 * max([r[key] for r in rows] + [mark[0] if mark else 0]))
    ax.set_yticks(range(len(cases)), cases, fontsize=6.5)
    ax.set_ylim(len(cases) - 0.5, -0.5)
    ax.set_xlabel(label, fontsize=8)
    ax.tick_params(axis="x", labelsize=7)
    ax.spines[["top", "right"]].set_visible(False)
    return places
