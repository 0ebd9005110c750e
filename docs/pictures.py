"""Draws the pictures of the README, of the first page and of ARCHITECTURE.md.

Each is drawn for light and dark pages, and for wide pages and for phones, 420 pixels wide.

Run ``python docs/pictures.py`` when the results in benchmarks/results change, from which `speed`
reads its figures, or when a room imports another one, which `rooms` shows. An argument names
another folder to draw into.
"""

import functools
import itertools
import json
import math
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent / x) for x in (".", "tests", "tests/project", "benchmarks")]
from renew import kernels  # noqa: E402
from test_imports import FLOOR_OF, FLOORS, graph, room  # noqa: E402

RESULTS = DOCS.parent / "benchmarks" / "results"
OUT = Path(sys.argv[1]) if sys.argv[1:] else DOCS / "_static"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"

# For light pages and for dark ones.
COLORS = {
    "text": ("#1f2328", "#e6edf3"),
    "quiet": ("#59636e", "#9198a1"),
    "line": ("#d1d9e0", "#3d444d"),
    "fill": ("#f6f8fa", "#161b22"),
    "blue": ("#dbeafe", "#17324f"),
    "green": ("#dcfce7", "#14361f"),
    "violet": ("#ede9fe", "#2e2350"),
    "faster": ("#2f81c1", "#58a6e0"),
    "slower": ("#d9822b", "#e3a15d"),
    "range": ("#59636e", "#c9d1d9"),
}
THEMES = "light", "dark"


class Picture:
    """An SVG picture with a transparent background."""

    def __init__(self, width, height, theme, title):
        self.colors = {name: pair[THEMES.index(theme)] for name, pair in COLORS.items()}
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
            f'width="{width}" height="{height}" role="img" font-family="{FONT}">',
            f"<title>{title}</title>",
        ]

    def text(self, x, y, text, *, size=14, color="text", anchor="start", bold=False):
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{self.colors[color]}" '
            f'text-anchor="{anchor}"{weight}>{text}</text>'
        )

    def box(self, x, y, width, height, *, fill="fill", radius=6):
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius}" '
            f'fill="{self.colors[fill]}" stroke="{self.colors["line"]}"/>'
        )

    def bar(self, x, y, width, height, fill):
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:g}" width="{max(width, 1):.1f}" height="{height:g}" '
            f'fill="{self.colors[fill]}"/>'
        )

    def line(self, x1, y1, x2, y2, color="line", width=1):
        self.parts.append(
            f'<path d="M{x1:.1f} {y1:g}L{x2:.1f} {y2:g}" stroke="{self.colors[color]}" '
            f'stroke-width="{width}"/>'
        )

    def arrow(self, points):
        """A curve through points ``(x, top, bottom)``, with a head at the last."""
        (x, _, y), *others = points
        path = f"M{x:.1f} {y:g}"
        for point in others:
            middle, next_x = (y + point[1]) / 2, point[0]
            path += f"C{x:.1f} {middle:g} {next_x:.1f} {middle:g} {next_x:.1f} {point[1]:g}"
            path += f"V{point[2]:g}" if point is not others[-1] else ""
            x, _, y = point
        path += "m-3 -6l3 6l3 -6"
        color = self.colors["quiet"]
        self.parts.append(f'<path d="{path}" fill="none" stroke="{color}" stroke-opacity="0.7"/>')

    def save(self, path):
        path.write_text("\n".join([*self.parts, "</svg>", ""]), "utf-8")


def overview(theme, narrow=False):
    """What gpugrad is made of, from the user's programs down to the array libraries."""
    size = (400, 760) if narrow else (760, 396)
    picture = Picture(*size, theme, "What gpugrad is made of")
    rows = [
        ("Use it for", "violet", [
            ("Training", "nn, optim, data", "training, io, amp"),
            ("Derivatives", "grad, jvp, hessian", "vmap, custom_vjp"),
            ("NumPy and SciPy", "gpugrad.numpy", "gpugrad.scipy"),
            ("Your operations", "a forward and its", "VJPs, a kernel"),
        ]),
        ("See and speed up", "green", [
            ("compile", "records a step once", "and repeats it"),
            ("profile", "time of each op,", "forward, backward"),
            ("memory_report", "what a graph keeps,", "line by line"),
            ("detect_anomaly", "the line of the", "first nan"),
        ]),
        ("Inside", "blue", [
            ("Tensor", "an array and its", "place in the graph"),
            ("Operations", "the array API,", "layers, special"),
            ("The graph", "gradients of any", "order, no recursion"),
            ("Kernels", "fused, for CUDA", "and for the CPU"),
        ]),
        ("Runs on", "fill", [
            ("NumPy", "CPU"), ("CuPy", "CUDA GPUs"), ("PyTorch", "its arrays"),
            ("Other libraries", "of the array API"),
        ]),
    ]  # fmt: skip
    y = 8
    for caption, fill, boxes in rows:
        height = 92 if len(boxes[0]) == 3 else 70
        if narrow:
            height -= 14
            picture.text(4, y + 12, caption, size=14, color="quiet")
            places = [(4 + i % 2 * 200, y + 20 + i // 2 * (height + 6), 192) for i in range(4)]
            y += 2 * height + 36
        else:
            picture.text(0, y + height / 2 + 5, caption, size=13, color="quiet")
            places = [(124 + i * 158, y, 150) for i in range(4)]
            y += height + 10
        for (x, top, width), (title, *lines) in zip(places, boxes, strict=True):
            picture.box(x, top, width, height, fill=fill)
            middle, first = x + width / 2, top + (20 if narrow else 28)
            picture.text(middle, first, title, size=14, anchor="middle", bold=True)
            for j, line in enumerate(lines, 1):
                baseline = first + 4 + 20 * j
                picture.text(middle, baseline, line, size=13, color="quiet", anchor="middle")
    picture.save(OUT / f"overview-{theme}{'-narrow' * narrow}.svg")


def ratios(library):
    """The ratios to PyTorch's times in the committed results, by what was measured."""

    def of(name, section, label):
        rows = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["rows"]
        return {
            label.format(row["case"]): row["ratio"]
            for row in rows
            if row["library"] == library and row["section"] == section
        }

    return {
        **of("op_overhead", "elementwise", "one op on {} numbers"),
        **of("train_step", "speed", "MLP {}"),
        **of("model_step", "speed", "{}"),
    }


def speed(theme, narrow=False):
    """Times of gpugrad as ratios to PyTorch's, on a logarithmic axis around 1."""
    measured, compiled = ratios("gpugrad"), ratios("gpugrad_compiled")
    low, high = 1 / 16, 4
    width, left, right, step = (400, 8, 392, 40) if narrow else (760, 280, 735, 26)
    top, notes = (80 if narrow else 44), 84 if narrow else 66
    height = top + step * len(measured) + notes

    def at(ratio):
        share = math.log(ratio / low) / math.log(high / low)
        return left + (right - left) * min(max(share, 0), 1)

    picture = Picture(width, height, theme, "Time of gpugrad as a share of PyTorch's")
    picture.text(
        left if narrow else 8, 20, "Time as a share of eager PyTorch's", size=15, bold=True
    )
    picture.text(at(0.97), top - 24, "gpugrad is faster", color="faster", anchor="end")
    picture.text(at(1.03), top - 24, "PyTorch is faster", color="slower")
    bottom = height - notes + 8
    for power in range(-4, 3):
        tick, label = 2.0**power, f"1/{2**-power}" if power < 0 else f"{2**power}"
        picture.line(at(tick), top - 12, at(tick), bottom, width=2 if tick == 1 else 1)
        anchor = {low: "start", high: "end"}.get(tick, "middle") if narrow else "middle"
        picture.text(at(tick), bottom + 18, label, size=13, color="quiet", anchor=anchor)
    for i, (name, ratio) in enumerate(measured.items()):
        y = top + step * i
        if narrow:
            picture.text(left, y + 6, name, size=13)
            y += 18
        else:
            picture.text(left - 14, y + 9, name, size=13, anchor="end")
        first, last = sorted((at(1), at(ratio)))
        picture.bar(first, y - 4, last - first, 16, "faster" if ratio < 1 else "slower")
        shown = [ratio]
        if name in compiled:
            shown.append(compiled[name])
            picture.bar(at(compiled[name]) - 3, y - 4, 6, 16, "range")
        text = ", ".join([f"{x:.2f}" for x in shown])
        picture.text(at(max(ratio, 1)) + 8, y + 9, text, size=13, color="quiet")
    legend = (
        ("faster", f"Two cores of an AMD EPYC, OpenBLAS's kernels for {kernels()}."),
        ("range", "The same step, compiled: the second number."),
        (None, "PyTorch 2.13, float32. A bar ends at the first number."),
    )
    for i, (fill, text) in enumerate(legend[: 3 if narrow else 2]):
        y = bottom + 36 + 18 * i
        if fill:
            picture.bar(8, y - 9, 16, 10 if fill == "faster" else 8, fill)
        text += " PyTorch 2.13, float32." if i == 1 and not narrow else ""
        picture.text(32, y, text, size=12, color="quiet")
    picture.save(OUT / f"speed-{theme}{'-narrow' * narrow}.svg")


@functools.cache
def imports():
    """For each room the rooms that it imports, but for those that others of these import.

    Imports for type checkers do not count.
    """
    stubs = {"_ops", "_tensor_methods"}
    found = {room: set() for room in sorted(FLOOR_OF.keys() - stubs)}
    for name, targets in graph().items():
        found[room(name)] |= {room(target) for target in targets} - {room(name)}

    def below(name):
        return {name}.union(*map(below, found[name]))

    return {
        name: sorted(t for t in targets if not any(t in below(o) for o in targets - {t}))
        for name, targets in found.items()
    }


def places(chains, width_of, width):
    """An order and places in each floor such that arrows are short and cross seldom.

    chains: the neighbours of each box on the floors above and below.
    """
    floors = {}
    for box in sorted(chains, key=str):
        floors.setdefault(box[0], []).append(box)
    x = {box: (i + 0.5) * width / len(row) for row in floors.values() for i, box in enumerate(row)}
    for step in range(60):
        for floor in sorted(floors, reverse=step % 2):
            row = floors[floor]
            wanted = {b: sum(x[n] for n in chains[b]) / len(chains[b]) for b in row if chains[b]}
            row.sort(key=lambda b, wanted=wanted: (wanted.get(b, x[b]), str(b)))
            gap = (width - sum(map(width_of, row))) / (len(row) + 1)
            start, least = 0.0, min(gap, 14)
            for box in row:  # as far to the left as there is room, or where it wants to be
                half = width_of(box) / 2
                x[box] = max(start + least + half, wanted.get(box, x[box]))
                start = x[box] + half
            end = width
            for box in reversed(row):
                half = width_of(box) / 2
                x[box] = min(end - least - half, x[box])
                end = x[box] - half
    return x


def rooms(theme):
    """The rooms of the package by floor, and which import which, read from the code."""
    width, height, between, left = 736, 26, 30, 24
    edges, floor_of = imports(), FLOOR_OF
    chains = {(floor_of[name], name): [] for name in edges}
    arrows = []
    for name, targets in edges.items():
        for target in targets:  # an arrow goes by way of a point on each floor that it passes
            passed = range(floor_of[name] - 1, floor_of[target], -1)
            ways = [(floor, f"{name} {target}") for floor in passed]
            arrow = [(floor_of[name], name), *ways, (floor_of[target], target)]
            arrows.append(arrow)
            for box, next_box in itertools.pairwise(arrow):
                chains.setdefault(box, []).append(next_box)
                chains.setdefault(next_box, []).append(box)

    def width_of(box):
        return 6 if " " in box[1] else 20 + 7.6 * len(box[1] or "gpugrad")

    def top(box):
        return 8 + (len(FLOORS) - 1 - box[0]) * (height + between)

    x = {box: left + place for box, place in places(chains, width_of, width).items()}
    picture = Picture(left + width, top((0,)) + height + 8, theme, "The rooms of gpugrad")
    for floor in range(len(FLOORS)):
        picture.text(0, top((floor,)) + 18, floor, size=12, color="quiet")
    for arrow in arrows:
        picture.arrow([(x[box], top(box), top(box) + height) for box in arrow])
    for name in edges:
        box = floor_of[name], name
        fill, wide = "fill" if name.startswith("_") else "blue", width_of(box)
        picture.box(x[box] - wide / 2, top(box), wide, height, fill=fill)
        picture.text(x[box], top(box) + 18, name or "gpugrad", size=13, anchor="middle")
    picture.save(OUT / f"rooms-{theme}.svg")


if __name__ == "__main__":
    for theme in THEMES:
        for narrow in (False, True):
            overview(theme, narrow)
            speed(theme, narrow)
        rooms(theme)
