"""Draws the pictures of the README and the first page: `python docs/pictures.py`.

The figures of `speed` are read from benchmarks/results; run this again when they change.
"""

import json
import math
from pathlib import Path

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
OUT = DOCS / "_static"
FONT = "system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif"

THEMES = {
    "light": {
        "text": "#1f2328",
        "quiet": "#59636e",
        "line": "#d1d9e0",
        "fill": "#f6f8fa",
        "blue": "#dbeafe",
        "green": "#dcfce7",
        "violet": "#ede9fe",
        "faster": "#2f81c1",
        "slower": "#d9822b",
        "range": "#59636e",
    },
    "dark": {
        "text": "#e6edf3",
        "quiet": "#9198a1",
        "line": "#3d444d",
        "fill": "#161b22",
        "blue": "#17324f",
        "green": "#14361f",
        "violet": "#2e2350",
        "faster": "#58a6e0",
        "slower": "#e3a15d",
        "range": "#c9d1d9",
    },
}

# The same benchmarks on two cores of an Intel Xeon, of which no run is in benchmarks/results:
# the lowest and the highest ratio.
XEON = {
    "one op on 256x256 numbers": (1.5, 1.5),
    "MLP 784-256-128-10, batch 32": (1.04, 1.16),
    "MLP 784-256-128-10, batch 128": (1.04, 1.16),
    "MLP 784-256-128-10, batch 1024": (1.04, 1.16),
}


class Picture:
    """An SVG picture with a transparent background."""

    def __init__(self, width, height, theme, title):
        self.colors = THEMES[theme]
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

    def save(self, path):
        path.write_text("\n".join([*self.parts, "</svg>", ""]), "utf-8")


def overview(theme):
    """What gpugrad is made of, from the user's programs down to the array libraries."""
    picture = Picture(760, 396, theme, "What gpugrad is made of")
    rows = [
        (
            "Use it for",
            [
                ("Training", ["nn, optim, data", "training, io, amp"], "violet"),
                ("Derivatives", ["grad, jvp, hessian", "vmap, custom_vjp"], "violet"),
                ("NumPy and SciPy", ["gpugrad.numpy", "gpugrad.scipy"], "violet"),
                ("Your operations", ["a forward and its", "VJPs, a kernel"], "violet"),
            ],
        ),
        (
            "See and speed up",
            [
                ("compile", ["records a step once", "and repeats it"], "green"),
                ("profile", ["time of each op,", "forward, backward"], "green"),
                ("memory_report", ["what a graph keeps,", "line by line"], "green"),
                ("detect_anomaly", ["the line of the", "first nan"], "green"),
            ],
        ),
        (
            "Inside",
            [
                ("Tensor", ["an array and its", "place in the graph"], "blue"),
                ("Operations", ["the array API,", "layers, special"], "blue"),
                ("The graph", ["gradients of any", "order, no recursion"], "blue"),
                ("Kernels", ["fused, for CUDA", "and for the CPU"], "blue"),
            ],
        ),
        (
            "Runs on",
            [
                ("NumPy", ["CPU"], "fill"),
                ("CuPy", ["CUDA GPUs"], "fill"),
                ("PyTorch", ["its arrays"], "fill"),
                ("Other libraries", ["of the array API"], "fill"),
            ],
        ),
    ]
    y = 8
    for caption, boxes in rows:
        height = 92 if len(boxes[0][1]) == 2 else 70
        picture.text(0, y + height / 2 + 5, caption, size=13, color="quiet")
        for i, (title, lines, fill) in enumerate(boxes):
            x = 124 + i * 158
            picture.box(x, y, 150, height, fill=fill)
            picture.text(x + 75, y + 28, title, size=14, anchor="middle", bold=True)
            for j, line in enumerate(lines):
                picture.text(x + 75, y + 52 + 20 * j, line, size=13, color="quiet", anchor="middle")
        y += height + 10
    picture.save(OUT / f"overview-{theme}.svg")


def ratios():
    """The ratios to PyTorch's times in the committed results, by what was measured."""

    def of(name, section, label):
        rows = json.loads((RESULTS / f"{name}.json").read_text("utf-8"))["rows"]
        return {
            label.format(row["case"]): row["ratio"]
            for row in rows
            if row["library"] == "gpugrad" and row["section"] == section
        }

    return {
        **of("op_overhead", "elementwise", "one op on {} numbers"),
        **of("train_step", "speed", "MLP {}"),
        **of("model_step", "speed", "{}"),
    }


def speed(theme):
    """Times of gpugrad as ratios to PyTorch's, on a logarithmic axis around 1."""
    measured = ratios()
    low, high, left, right, top = 0.25, 4, 280, 735, 44
    height = top + 26 * len(measured) + 56

    def at(ratio):
        share = math.log(ratio / low) / math.log(high / low)
        return left + (right - left) * min(max(share, 0), 1)

    picture = Picture(760, height, theme, "Time of gpugrad as a share of PyTorch's")
    picture.text(8, 20, "Time as a share of eager PyTorch's", size=15, bold=True)
    picture.text(at(0.97), 20, "gpugrad is faster", color="faster", anchor="end")
    picture.text(at(1.03), 20, "PyTorch is faster", color="slower")
    bottom = height - 48
    for tick in (0.25, 0.5, 1, 2, 4):
        picture.line(at(tick), top - 12, at(tick), bottom, width=2 if tick == 1 else 1)
        picture.text(at(tick), bottom + 18, f"{tick:g}", size=12, color="quiet", anchor="middle")
    for i, (name, ratio) in enumerate(measured.items()):
        y = top + 26 * i
        picture.text(left - 14, y + 9, name, size=13, anchor="end")
        first, last = sorted((at(1), at(ratio)))
        picture.bar(first, y - 4, last - first, 16, "faster" if ratio < 1 else "slower")
        if name in XEON:
            first, last = map(at, XEON[name])
            picture.bar(first - 2, y, last - first + 4, 8, "range")
        beyond = max(at(ratio), *(map(at, XEON[name]) if name in XEON else (0,)))
        x, anchor = (at(ratio) - 6, "end") if ratio < 1 else (beyond + 8, "start")
        picture.text(x, y + 9, f"{ratio:.2f}", size=12, color="quiet", anchor=anchor)
    x, y = 8, height - 10
    picture.text(x, y, "Bars: two cores of an AMD EPYC.", size=12, color="quiet")
    picture.bar(x + 216, y - 8, 16, 8, "range")
    picture.text(
        x + 240,
        y,
        "Two cores of an Intel Xeon, where it was measured. PyTorch 2.13, float32.",
        size=12,
        color="quiet",
    )
    picture.save(OUT / f"speed-{theme}.svg")


if __name__ == "__main__":
    for theme in THEMES:
        overview(theme)
        speed(theme)
