"""The time of attention, convolution and batch norm, compared to PyTorch's SDPA and cuDNN.

    python benchmarks/gpu/layers.py [--device cpu] [--short | --full] [--libraries NAME ...]
        [--layers L ...] [--precisions P ...] [--minutes N] [--json PATH] [--plot PATH] [--save]

Each is measured forward, and forward and backward with the gradients of all inputs. Attention is
``(batch, heads, tokens, features)``; "grouped" has a key and a value for four heads. PyTorch
chooses which of its kernels computes it, FlashAttention or a faster one in 16 bits without a mask.
In TF32 only convolutions are measured.
"""

import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

sys.path.extend(map(str, Path(__file__).resolve().parents[1:3]))
import races
import report
from peers import use

# For each layer its cases: shapes of the input and, of convolutions, of the weight; and options.
HEADS = (8, 12, 1024, 64)
LAYERS = {
    "attention": [(HEADS, how) for how in ("", "causal", "mask", "dropout")]
    + [((1, 16, 8192, 64), "causal"), ((2, 32, 4096, 128), "causal grouped")],
    "convolution": [
        ((64, 64, 56, 56), "64 of 3x3"), ((64, 256, 14, 14), "256 of 3x3"),
        ((64, 256, 56, 56), "64 of 1x1"), ((64, 1, 28, 28), "32 of 3x3"),
    ],
    "batch norm": [((64, 64, 56, 56), ""), ((64, 512, 7, 7), "")],
}  # fmt: skip
# Bounds on the time of attention: of masked float16 as a multiple of that of PyTorch's without a
# mask, which is FlashAttention's, and of float32 as a multiple of PyTorch's for the same.
MASKED, WIDE = 3, 1.2
SHORT = {
    "attention": [((1, 4, 32, 16), "causal grouped")],
    "convolution": [((2, 3, 8, 8), "4 of 3x3")],
    "batch norm": [((2, 3, 8, 8), "")],
}


class Layer(NamedTuple):
    name: str
    shape: tuple
    how: str
    precision: str
    is_backward: bool

    target = close = None

    def __str__(self):
        shape = "x".join(map(str, self.shape))
        how = f", {self.how}" if self.how else ""
        both = ", backward too" if self.is_backward else ""
        return f"{self.precision} {self.name} {shape}{how}{both}"


def layers(options):
    known = SHORT if options.short else LAYERS
    return [
        Layer(name, *case, precision, is_backward)
        for precision in report.precisions(options)
        for name in options.layers or known
        if precision != "tf32" or name == "convolution"
        for case in known[name]
        for is_backward in (False, True)
    ]


def prepare(library, device, layer):
    """Return a function that computes the layer once."""
    dtype = use(library, layer.precision, device)
    if library == "gpugrad":
        import gpugrad as module

        tensor, grad = module.asarray, module.autograd.grad
    else:
        import torch as module

        tensor, grad = module.from_numpy, module.autograd.grad
    rng = np.random.default_rng(0)

    def leaf(*shape, scale=1.0):
        x = tensor(scale * rng.standard_normal(shape, dtype=np.float32)).to(device)
        return module.asarray(x, dtype=dtype).requires_grad_(layer.is_backward)

    functional, (n, c, *rest) = module.nn.functional, layer.shape
    if layer.name == "attention":
        heads = c // 4 if "grouped" in layer.how else c
        inputs = [leaf(n, c, *rest), leaf(n, heads, *rest), leaf(n, heads, *rest)]
        options = {"is_causal": "causal" in layer.how, "enable_gqa": heads != c}
        options["dropout_p"] = 0.1 * ("dropout" in layer.how)
        if "mask" in layer.how:
            options["attn_mask"] = tensor(rng.random((rest[0], rest[0])) < 0.8).to(device)
        function = functional.scaled_dot_product_attention
    elif layer.name == "convolution":
        out, size = int(layer.how.split()[0]), int(layer.how[-1])
        weight = leaf(out, c, size, size, scale=(c * size * size) ** -0.5)
        inputs, options = [leaf(*layer.shape), weight, leaf(out)], {"padding": size // 2}
        function = functional.conv2d
    else:
        norm = module.nn.BatchNorm2d(c).to(device).to(dtype=dtype)
        inputs, options, function = [leaf(*layer.shape)], {}, norm
    if not layer.is_backward:
        return lambda: function(*inputs, **options)
    g = module.ones_like(function(*inputs, **options))
    leaves = [*inputs, *(norm.parameters() if layer.name == "batch norm" else ())]
    return lambda: grad([function(*inputs, **options)], leaves, [g])


def main():
    options = report.arguments(
        __doc__.splitlines()[0], ["gpugrad", "torch"], layers=list(LAYERS),
        precisions=list(report.PRECISIONS),
    )  # fmt: skip
    sys.exit(races.run("layers", options, prepare, layers(options), draw, bounds_of))


def bounds_of(rows):
    """The bounds on attention."""
    rounds = {(r["case"], r["library"]): r["rounds"] for r in rows}

    def ratio(layer, other):
        pair = rounds.get((str(layer), "gpugrad")), rounds.get((str(other), "torch"))
        return median(a / b for a, b in zip(*pair, strict=True)) if all(pair) else None

    bounds = []
    for is_backward in (False, True):
        masked = Layer("attention", HEADS, "mask", "fp16", is_backward)
        figure = ratio(masked, masked._replace(how=""))
        bounds.append(report.bound(f"{masked}, against torch without a mask", figure, MASKED))
        wide = [Layer("attention", *case, "fp32", is_backward) for case in LAYERS["attention"]]
        for layer in wide:
            bounds.append(report.bound(f"{layer}, against torch", ratio(layer, layer), WIDE))
    return bounds


def draw(rows):
    """A panel for each precision, of the ratios to PyTorch."""
    panels = {}
    for r in rows:
        precision, case = r["case"].split(" ", 1)
        if r["library"] == "gpugrad":
            panels.setdefault(precision, []).append({**r, "case": case})

    def draw_on(figure):
        figure.set_size_inches(1 + 4.5 * len(panels), 1.6 + 0.22 * max(map(len, panels.values())))
        for ax, (precision, found) in zip(
            figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
        ):
            report.bars(
                ax, found, key="ratio", title=f"time against torch's, {precision}",
                label="ratio (lower is better)", mark=(1, "torch"),
            )  # fmt: skip

    return draw_on


if __name__ == "__main__":
    main()
