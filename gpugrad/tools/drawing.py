"""`draw`: a picture of the computation graph of a tensor."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import ref

from .._arguments import one_of, whole
from .._batched import physical
from .._tensor import Tensor, labelled
from ..autograd.graph import Leaf
from ..backends import backend_of, namespace_of

DIRECTIONS = ("TB", "BT", "LR", "RL")


def draw(
    outputs: Any,
    *,
    names: Any = None,
    direction: str = "TB",
    max_nodes: int = 100,
    max_values: int = 6,
) -> "Drawing":
    """A picture of the graph from leaves to ``outputs``: a Tensor, or a sequence of them.

    Each box is the result of an op, or a leaf (with round corners). It shows the name, the op's
    parameters if the graph keeps them for backward, the shape, the dtype unless it is float32, and
    the values and gradient of a small tensor if they still exist. They exist for leaves, the
    outputs, tensors with a label or `Tensor.retain_grad`, and tensors that the graph keeps for
    backward. Tensors that no gradient reaches are not in the graph.

    names: a dict of tensors by name, or a module, which names its parameters. Other tensors are
        named by their labels, `Tensor.label`.
    direction: where arrows from inputs to outputs point: "TB" (top to bottom), "BT", "LR" or
        "RL".
    max_nodes: the largest number of boxes to draw, nearest to the outputs first; if there are
        more, a further box says how many are left out.
    max_values: the largest number of elements of a tensor whose values are shown.

    Returns a `Drawing`. Its text is ``.mermaid`` for GitHub and ``.dot`` for Graphviz; a notebook
    displays the drawing itself, and ``save("graph.svg")`` writes it to a file.

    Raises ValueError for a tensor without a graph.

    >>> import gpugrad
    >>> x = gpugrad.tensor(3.0, requires_grad=True)
    >>> x.label = "x"
    >>> print(gpugrad.draw(x * x + 1).mermaid)
    flowchart TB
        n0["add<br>()<br>10"]:::output
        n1["multiply<br>()"]
        n2("x<br>()<br>3"):::leaf
        n1 --> n0
        n2 -->|"x1"| n1
        n2 -->|"x2"| n1
        classDef default fill:#f5f5f5,stroke:#888888,color:#111111
        classDef leaf fill:#e3f2e6,stroke:#4c9a5f,color:#111111
        classDef output fill:#e2ecf9,stroke:#4a7ebb,color:#111111
    """
    one_of("draw: direction", direction, DIRECTIONS)
    whole("draw: max_nodes", max_nodes, 1)
    outputs = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
    roots = []
    for i, x in enumerate(outputs):
        x = physical(x)
        if not isinstance(x, Tensor) or x.node is None:
            what = f"is a {type(x).__name__}" if not isinstance(x, Tensor) else "has no graph"
            raise ValueError(
                f"draw: output {i} {what}; it takes tensors computed from what requires grad"
            )
        roots.append(x)
    if not roots:
        raise ValueError("draw: no tensor given")

    nodes, total = _nearest([x.node for x in roots], max_nodes)
    details = _Details(nodes, roots, whole("draw: max_values", max_values, 0))
    names = _names(names, details)
    number = {node: i for i, node in enumerate(nodes)}
    boxes, arrows = [], []
    starts = {x.node for x in roots}
    for node, i in number.items():
        kind = "leaf" if not node.parents else "output" if node in starts else "op"
        boxes.append((kind, _box_lines(node, names.get(node), details)))
        for parent, name in zip(node.parents, _input_names(node), strict=True):
            # All inputs that are not drawn are in one last box.
            arrows.append((number[parent], i, name) if parent in number else (len(nodes), i, ""))
    if total > len(nodes):
        boxes.append(("more", [f"... {total - len(nodes)} more"]))
    return Drawing(boxes, list(dict.fromkeys(arrows)), direction)


def _nearest(roots, most):
    """The ``most`` nodes nearest to the roots, and the number of all nodes."""
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for node in found:  # the loop makes it longer
        new = [parent for parent in dict.fromkeys(node.parents) if parent not in seen]
        seen.update(new)
        found += new
    return found[:most], len(found)


class _Details:
    """The values, gradients and labels of nodes that some object still holds."""

    def __init__(self, nodes, roots, most):
        self.most = most
        self.values = {}  # node -> raw array
        self.grads, self.labels = {}, {}
        drawn = set(nodes)
        for node in nodes:
            for value, kind, which in _saved(node):
                if kind == "out":
                    self.values[node] = value
                elif kind == "input":
                    plan = node.plan
                    for i, x in enumerate(value) if plan.op.variadic else [(which, value)]:
                        if plan.wanted[i]:
                            self.values[node.parents[plan.position[i]]] = x
            watch = node.watch
            holder = node if type(node) is Leaf else watch.leaf if watch is not None else None
            if holder is not None and isinstance(holder.owner, ref):
                self.tensor(node, holder.owner())
            if watch is not None and watch.label is not None:
                self.labels[node] = watch.label
        for x, label in labelled():
            node = physical(x).node
            if node in drawn:
                self.labels[node] = label
                self.tensor(node, physical(x))
        for x in roots:
            self.tensor(x.node, x)

    def tensor(self, node, x):
        if x is not None:
            self.values[node] = x.array
            if x.grad is not None:
                self.grads[node] = x.grad.array

    def shown(self, array):
        """The values of a small array as lines of text; no lines for anything else."""
        if type(array) not in namespace_of or not 0 < math.prod(array.shape) <= self.most:
            return []
        values = backend_of[type(array)].to_numpy(array).tolist()
        if len(array.shape) < 2:
            return [_short(values)]
        return f"[{',|'.join(map(_short, values))}]".split("|")


def _saved(node):
    """The values that a node keeps for backward, as ``(value, kind, which)``.

    ``kind`` and ``which`` come from the sources of its plan.
    """
    if type(node) is Leaf or not node.saved:
        return []
    return [(value, *source) for value, source in zip(node.saved, node.plan.sources, strict=True)]


def _short(values):
    """A Python number, or nested lists of numbers, as text."""
    if isinstance(values, list):
        return f"[{', '.join(map(_short, values))}]"
    return f"{values:.4g}" if isinstance(values, float | complex) else str(values)


def _names(names, details):
    """A dict from each node that has a name to that name."""
    found = dict(details.labels)
    if names is None:
        return found
    wanted = "draw: names must be a module or a dict of tensors by name"
    if hasattr(names, "named_parameters"):
        named = names.named_parameters()
    elif isinstance(names, Mapping):
        named = names.items()
    else:
        raise TypeError(f"{wanted}, not a {type(names).__name__}")
    for name, x in named:
        if not isinstance(x, Tensor):
            raise TypeError(f"{wanted}, but {name!r} is a {type(x).__name__}")
        if x.node is not None:
            found[x.node] = str(name)
    return found


def _input_names(node):
    """A name for each arrow into a node; "" if there is only one arrow."""
    if len(node.parents) < 2:
        return [""] * len(node.parents)
    op, wanted = node.plan.op, node.plan.wanted
    chosen = [i for i, want in enumerate(wanted) if want]
    return [str(i) if op.variadic else op.inputs[i] for i in chosen]


def _box_lines(node, name, details):
    """The lines in a node's box."""
    if type(node) is Leaf:
        lines = [name or "leaf"]
    else:
        plan = node.plan
        what = plan.op.name if plan.output is None else f"{plan.op.name}[{plan.output}]"
        lines = [f"{name} = {what}" if name else what]
        lines += _constants(node, details)
    is_tuple = isinstance(node.dtype, tuple)
    pairs = zip(node.shape, node.dtype, strict=True) if is_tuple else [(node.shape, node.dtype)]
    for shape, dtype in pairs:
        dtype = str(dtype).split(".")[-1]
        lines.append(f"{tuple(shape)}" + (f" {dtype}" if dtype != "float32" else ""))
    lines += details.shown(details.values.get(node))
    grad = details.shown(details.grads.get(node))
    return [*lines, *(("grad " + grad[0], *grad[1:]) if grad else ())]


def _constants(node, details):
    """Lines for the parameters and constants of an op's call that the graph keeps."""
    plan = node.plan
    lines = []
    for value, kind, which in _saved(node):
        if kind == "static" and _is_plain(value) and value != plan.op.static_defaults.get(which):
            lines.append(f"{which}={value!r}")
        elif kind == "input" and not plan.op.variadic and not plan.wanted[which]:
            text = [str(value)] if _is_plain(value) else details.shown(value)
            if text and value is not None:
                lines += [f"{plan.op.inputs[which]}={text[0]}", *text[1:]]
    return lines


def _is_plain(value):
    if isinstance(value, tuple):
        return len(value) < 8 and all(map(_is_plain, value))
    return isinstance(value, int | float | complex | str | slice | None)


_COLORS = {  # fill and stroke
    "op": ("#f5f5f5", "#888888"),
    "leaf": ("#e3f2e6", "#4c9a5f"),
    "output": ("#e2ecf9", "#4a7ebb"),
    "more": ("#ffffff", "#888888"),
}


class Drawing:
    """A graph as text and as a picture; see `draw`.

    dot: the graph as text in DOT, Graphviz's language.
    mermaid: the graph as text in Mermaid's language. GitHub renders it in a Markdown file or
        comment, between the lines "```mermaid" and "```", if it has at most 500 arrows and
        50,000 characters.
    """

    def __init__(self, boxes: list, arrows: list, direction: str) -> None:
        self._boxes = boxes  # (kind, lines of text); the kinds are those of _COLORS
        self._arrows = arrows  # (number of the start box, number of the end box, text)
        self._direction = direction

    def __repr__(self) -> str:
        sizes = f"{len(self._boxes)} nodes and {len(self._arrows)} arrows"
        return f"<drawing of {sizes}: .mermaid, .dot, .svg(), .save(path)>"

    @property
    def dot(self) -> str:
        lines = [
            "digraph {",
            f"    rankdir={self._direction}",
            '    node [shape=box, style=filled, fontname="Helvetica", fontsize=11]',
            '    edge [fontname="Helvetica", fontsize=9, color="#888888"]',
        ]
        for i, (kind, text) in enumerate(self._boxes):
            fill, stroke = _COLORS[kind]
            style = {"leaf": ', style="rounded,filled"', "more": ', style="dashed"'}.get(kind, "")
            label = "\\n".join(map(_dot_text, text))
            lines.append(f'    n{i} [label="{label}", fillcolor="{fill}", color="{stroke}"{style}]')
        for start, end, text in self._arrows:
            label = f' [label="{_dot_text(text)}"]' if text else ""
            lines.append(f"    n{start} -> n{end}{label}")
        return "\n".join([*lines, "}"])

    @property
    def mermaid(self) -> str:
        lines = [f"flowchart {self._direction}"]
        for i, (kind, text) in enumerate(self._boxes):
            label = "<br>".join(map(_mermaid_text, text))
            box = f'("{label}")' if kind == "leaf" else f'["{label}"]'
            lines.append(f"    n{i}{box}" + (f":::{kind}" if kind != "op" else ""))
        for start, end, text in self._arrows:
            label = f'|"{_mermaid_text(text)}"|' if text else ""
            lines.append(f"    n{start} -->{label} n{end}")
        kinds = {kind for kind, _ in self._boxes}
        for kind, (fill, stroke) in _COLORS.items():
            if kind in kinds:
                name = "default" if kind == "op" else kind
                lines.append(
                    f"    classDef {name} fill:{fill},stroke:{stroke},color:#111111"
                    + (",stroke-dasharray:4" if kind == "more" else "")
                )
        return "\n".join(lines)

    def svg(self) -> str:
        """The picture as SVG, laid out by Graphviz; RuntimeError without its program ``dot``."""
        return self._rendered("svg").decode()

    def save(self, path: Any) -> None:
        """Write the drawing to a file, in the format that the file's suffix selects.

        .dot and .gv: text for Graphviz; .mmd: text for Mermaid; .md: the same in a Markdown
        code block, which GitHub renders; .svg, .png and .pdf: a picture, see `svg`.
        """
        path = Path(path)
        suffix = path.suffix.lower()
        if suffix in (".dot", ".gv", ".mmd"):
            data = f"{self.mermaid if suffix == '.mmd' else self.dot}\n".encode()
        elif suffix == ".md":
            data = f"```mermaid\n{self.mermaid}\n```\n".encode()
        elif suffix in (".svg", ".png", ".pdf"):
            data = self._rendered(suffix[1:])
        else:
            raise ValueError(
                f"save: the suffix must be .dot, .gv, .mmd, .md, .svg, .png or .pdf, "
                f"not {suffix!r}, of {path.name}"
            )
        path.write_bytes(data)

    def _rendered(self, form):
        import subprocess

        try:
            return subprocess.run(
                ["dot", f"-T{form}"], input=self.dot.encode(), stdout=subprocess.PIPE, check=True
            ).stdout
        except FileNotFoundError:
            raise RuntimeError(
                "draw: a picture needs Graphviz's program dot, which is not on the PATH: install "
                "it with apt, dnf, brew or conda (install graphviz); the text in .mermaid and "
                ".dot does not need it"
            ) from None

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        """What a notebook displays."""
        try:
            return {"image/svg+xml": self.svg(), "text/plain": repr(self)}
        except RuntimeError:
            return {"text/vnd.mermaid": self.mermaid, "text/plain": self.mermaid}


def _dot_text(text):
    text = text.replace("\\", "\\\\").replace('"', '\\"')
    return text.replace("\n", "\\n").replace("\r", "")


# Characters that Mermaid could read as markup, Markdown or a directive are written as numbers.
_MARK = re.compile(r"""[^\w\s,.()\[\]=+/-]|(?<![^\W_])_|_(?![^\W_])|^[-+](?=\s)|(?<=^\d)\.(?=\s)""")


def _mermaid_text(text):
    return "<br>".join([_MARK.sub(_entity, line) for line in text.splitlines()])


def _entity(match):
    # Mermaid decodes the numbers before it looks for \n, $$...$$ and fa:fa-..., so a zero-width
    # space breaks these up.
    character = match[0]
    return f"#{ord(character)};" + ("#8203;" if character in "\\$:" else "")
