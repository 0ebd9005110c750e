"""A table of layers and losses, each compared with PyTorch's of the same name.

A new layer or loss without state of its own needs one row here, and no other test. Without
PyTorch, its values and derivatives are those that `write_layer_values.py` stored.
"""

import itertools
import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gpugrad
from gpugrad import nn
from gpugrad.nn import functional as F
from gpugrad.testing import assert_close, gradgradcheck


class Absent:
    """Skips a test that uses PyTorch."""

    def __getattr__(self, name):
        if name in ("autograd", "manual_seed", "nn", "optim", "tensor", "zeros"):
            pytest.skip("PyTorch is not installed")
        raise AttributeError(name)


try:
    import torch
except ImportError:
    torch = Absent()
else:  # the attention that it prefers, on a CPU too, has no second derivative
    torch.backends.cuda.enable_flash_sdp(False)

# Inputs: functions of a generator, which return an array. The first axis counts the examples.


def normal(*shape):
    return lambda rng: rng.standard_normal(shape)


def probabilities(*shape):
    """Along the second axis they add up to 1."""

    def draw(rng):
        x = rng.uniform(0.1, 1, shape)
        return x / x.sum(min(len(shape) - 1, 1), keepdims=True)

    return draw


def log_probabilities(*shape):
    return lambda rng: np.log(probabilities(*shape)(rng))


def labels(classes, *shape):
    return lambda rng: rng.integers(0, classes, shape)


def labels_and_ignored(classes, *shape):
    """Labels, of which every third is -100."""
    is_ignored = np.arange(math.prod(shape)).reshape(shape) % 3 == 1
    return lambda rng: np.where(is_ignored, -100, rng.integers(0, classes, shape))


def counts(*shape):
    """From 1, of the dtype of the input."""
    return lambda rng: rng.integers(1, 6, shape).astype("float64")


def ends(*numbers):
    return lambda rng: np.array(numbers)


def signs(*shape):
    return lambda rng: rng.choice([-1, 1], shape)


def drawn(draws, seed=0):
    rng = np.random.default_rng(seed)
    return [draw(rng) for draw in draws]


@dataclass(frozen=True)
class Row:
    """A layer or loss, and what it is called with.

    kind: its name in ``nn``.
    inputs: draws, one for each input.
    args, options: of the class. Arrays are handed over as tensors, rows as their layers.
    order: up to which PyTorch has derivatives.
    rtol: how close PyTorch's are.
    batched: whether the inputs' first axis counts examples.
    tracks: whether it has running statistics, which all examples inside `vmap` would share.
    shown: whether the repr is PyTorch's, which shows arguments and classes that ours lack: the
        ``inplace`` of dropout, and ``NonDynamicallyQuantizableLinear``.
    """

    kind: str
    inputs: tuple[Callable, ...]
    args: tuple = ()
    options: dict = field(default_factory=dict)
    order: int = 2
    rtol: float = 1e-9
    batched: bool = True
    tracks: bool = False
    shown: bool = True

    def arrays(self, seed=0):
        return drawn(self.inputs, seed)

    def ours(self, dtype="float64"):
        return self.made(nn, gpugrad.tensor).to(getattr(gpugrad, dtype))

    def theirs(self, dtype="float64"):
        return self.made(torch.nn, torch.tensor).to(getattr(torch, dtype))

    def made(self, module, tensor):
        def given(x):
            if isinstance(x, Row):
                return x.made(module, tensor)
            return tensor(x) if isinstance(x, np.ndarray) else x

        options = {name: given(x) for name, x in self.options.items()}
        return getattr(module, self.kind)(*map(given, self.args), **options)

    def __str__(self):
        given = [*map(str, self.args), *(f"{k}={v}" for k, v in self.options.items())]
        shapes = [str(x.shape) for x in self.arrays()]
        return f"{self.kind}({','.join(given)})-{'-'.join(shapes)}".replace(" ", "")


def R(kind, *args, inputs=(), **options):
    """A row. The options may also be fields of `Row`, and the inputs shapes of normal numbers."""
    given = {f.name: options.pop(f.name) for f in fields(Row) if f.name in options}
    inputs = tuple(normal(*x) if isinstance(x, tuple) else x for x in inputs)
    return Row(kind, inputs, args, options, **given)


def a(*args, **options):
    """The arguments of a layer."""
    return args, options


def rows(kinds, *given, **common):
    """A row for each of these layers and arguments, which without any are the defaults."""
    each = itertools.product(kinds.split(), given or [a()])
    return [R(kind, *args, **common, **options) for kind, (args, options) in each]


CLASS_WEIGHTS = np.array([0.5, 2.0, 1.0])

# Running statistics cannot be updated by `vmap` and a batch of no examples.
TRACKS = {"batched": False, "tracks": True}
MATRIX, LINES, IMAGES, VOLUMES = [(4, 6)], [(2, 3, 4)], [(2, 3, 3, 4)], [(2, 1, 2, 3, 4)]
KINKS = ends(-3.0, -1.0, 0.0, 1.0, 3.0, 6.0)
# Of attention: queries, keys and values. Of transformers: width, heads, the width between linear
# layers, and the probability of dropout.
ATTENDED = [(2, 3, 4), (2, 5, 4), (2, 5, 4)]
SIZES = 4, 2, 3, 0.0
CODING = a(*SIZES, batch_first=True), a(*SIZES, "gelu", 0.1, True, True, False)
ENCODING, DECODING = rows("TransformerEncoderLayer TransformerDecoderLayer", CODING[0])
LAYERS = [
    *rows("""
        ReLU Tanh Sigmoid ReLU6 LeakyReLU PReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign
        Hardtanh Hardswish LogSigmoid Tanhshrink Hardshrink Softshrink GLU
    """, inputs=MATRIX),
    *rows("LeakyReLU Hardshrink Softshrink", a(0.2), inputs=MATRIX),
    *rows("ELU CELU", a(0.5), inputs=MATRIX),
    *rows("Softmax Softmin LogSoftmax", a(1), inputs=MATRIX),
    R("PReLU", 6, init=0.1, inputs=MATRIX), R("PReLU", 3, inputs=[(4, 3, 2)]),
    R("PReLU", inputs=[(4,)]), R("GELU", approximate="tanh", inputs=MATRIX),
    R("Softplus", 2, threshold=1, inputs=MATRIX), R("Hardtanh", -0.3, 0.6, inputs=MATRIX),
    *rows("ReLU ReLU6 LeakyReLU PReLU ELU SELU CELU Hardtanh Hardswish Softsign",
          inputs=[KINKS], order=1),
    # Their 1 / 6 is in float32.
    *(R("Hardsigmoid", inputs=[x], order=1, rtol=1e-7) for x in (*MATRIX, KINKS)),
    R("Softmax", dim=-2, inputs=[(4, 3, 2)]), R("Threshold", 0.1, -2.0, inputs=MATRIX),
    R("RReLU", 0.3, 0.3, inputs=MATRIX), R("GLU", 1, inputs=[(3, 4, 2)]),
    *rows("ZeroPad1d CircularPad1d", a(2), inputs=LINES),
    *rows("ConstantPad1d", a((2, -1), 0.5), inputs=LINES),
    *rows("ReflectionPad1d", a((1, 2)), inputs=LINES),
    *rows("ReplicationPad1d", a(5), inputs=LINES),
    *rows("ZeroPad2d", a((1, 2, 0, -1)), inputs=IMAGES),
    *rows("ConstantPad2d", a(1, -1.0), inputs=IMAGES),
    *rows("ReflectionPad2d", a(1), inputs=IMAGES),
    *rows("ReplicationPad2d CircularPad2d", a((1, 2, 0, 3)), inputs=IMAGES),
    *rows("ZeroPad3d ReflectionPad3d ReplicationPad3d CircularPad3d", a(1), inputs=VOLUMES),
    *rows("ConstantPad3d", a((1, 0, 0, 2, 1, 1), 2.0), inputs=VOLUMES),
    # PyTorch's fail for an empty batch.
    R("PixelShuffle", 2, inputs=[(2, 8, 3, 2)], batched=False),
    R("PixelShuffle", 3, inputs=[(9, 1, 2)], batched=False),
    R("PixelUnshuffle", 2, inputs=[(2, 2, 4, 6)], batched=False),
    R("ChannelShuffle", 3, inputs=[(2, 6, 2, 3)]), R("LocalResponseNorm", 3, inputs=[(2, 5, 3)]),
    R("LocalResponseNorm", 4, 0.3, 0.5, 2.0, inputs=[(2, 3, 2, 2)]),
    R("CosineSimilarity", 2, 0.1, inputs=[(4, 3, 2), (4, 3, 2)]),
    *rows("CosineSimilarity PairwiseDistance", inputs=[(4, 3), (4, 3)]),
    R("PairwiseDistance", 1.5, 0.1, True, inputs=[(4, 3), (4, 3)]),
    *rows("Identity", a(), a(5, unused=True), inputs=[(4, 3)]), R("Linear", 3, 2, inputs=[(4, 3)]),
    R("Linear", 3, 2, bias=False, inputs=[(2, 4, 3)]),
    R("Bilinear", 3, 2, 5, inputs=[(4, 3), (4, 2)]),
    R("Bilinear", 3, 2, 5, bias=False, inputs=[(2, 4, 3), (2, 4, 2)]),
    R("Bilinear", 3, 2, 5, inputs=[(3,), (2,)], batched=False),
    *rows("Flatten", a(), a(0, 1), inputs=[(4, 3, 2)]),
    *rows("Unflatten", a(1, (2, 3)), a(-1, (2, -1, 1)), inputs=MATRIX),
    R("Embedding", 5, 3, inputs=[labels(5, 4)]),
    *rows("Embedding", a(5, 3, padding_idx=1), a(5, 3, -1), inputs=[labels(5, 4, 2)]),
    *(R("EmbeddingBag", 5, 3, mode=m, inputs=[labels(5, 4, 2)]) for m in ("sum", "mean", "max")),
    R("EmbeddingBag", 5, 3, padding_idx=-4, inputs=[labels(5, 4, 3)]),
    R("EmbeddingBag", 5, 3, inputs=[labels(5, 6), ends(0, 2, 2)], batched=False),
    R("EmbeddingBag", 5, 3, mode="sum", include_last_offset=True, padding_idx=1,
      inputs=[labels(5, 6), ends(0, 2, 2, 6)], batched=False),
    R("EmbeddingBag", 5, 3, mode="sum", inputs=[labels(5, 6), ends(0, 3, 6), (6,)],
      order=1, batched=False),
    *rows("Conv1d", a(2, 3, 3), a(2, 4, 2, 2, "valid", 2, 2, False),
          a(2, 3, 4, padding="same", padding_mode="circular"), inputs=[(2, 2, 7)]),
    *rows("Conv2d", a(2, 3, 3, padding=1), a(2, 3, 1), a(2, 4, 3, 2, groups=2),
          a(2, 2, (2, 3), padding="same", dilation=2), inputs=[(3, 2, 4, 5)]),
    *(R("Conv2d", 2, 2, 3, padding=(1, 2), padding_mode=mode, inputs=[(2, 2, 4, 3)])
      for mode in ("reflect", "replicate", "circular")),
    R("Conv2d", 4, 2, (3, 2), (2, 1), (1, 0), (1, 2), 2, False, inputs=[(2, 4, 5, 4)]),
    *rows("Conv3d", a(2, 3, (2, 1, 3), 1, (1, 0, 1)), a(2, 4, 2, 2, 1, (1, 1, 2), 2, False),
          a(2, 2, 3, padding=1, padding_mode="circular"), inputs=[(2, 2, 3, 2, 3)]),
    R("ConvTranspose1d", 2, 3, 3, 2, 1, 1, inputs=[(2, 2, 3)]),
    *rows("ConvTranspose2d", a(2, 3, 3), a(2, 4, (3, 2), 2, 1, 1, 2, False),
          a(2, 1, 2, 1, 0, (0, 1), dilation=(1, 2)), inputs=[(2, 2, 3, 2)]),
    *rows("ConvTranspose3d", a(2, 3, 2), a(2, 2, (1, 2, 3), 2, (0, 1, 1), 1, 2),
          inputs=[(2, 2, 2, 2, 3)]),
    R("Conv1d", 2, 3, 3, inputs=[(2, 5)], batched=False),
    *rows("Conv2d ConvTranspose2d", a(2, 3, 3, stride=2), inputs=[(2, 4, 5)], batched=False),
    R("Conv3d", 2, 3, (3, 1, 1), padding="same", inputs=[(2, 3, 2, 2)], batched=False),
    R("Unfold", (2, 3), 1, 1, 2, inputs=[(2, 2, 4, 5)]),
    R("Fold", (4, 5), (2, 3), 1, 1, 2, inputs=[(2, 12, 9)]),
    R("Fold", 4, 2, inputs=[(8, 9)], batched=False),
    *rows("MaxPool1d", a(2), a(3, 1, 1, 2, ceil_mode=True), inputs=[(2, 3, 5)]),
    *rows("MaxPool2d", a(2), a(3, 2, 1, ceil_mode=True), a((2, 3), (1, 2), (0, 1), (2, 1)),
          inputs=[(2, 2, 5, 6)]),
    R("MaxPool2d", 2, ceil_mode=True, inputs=[(2, 2, 3, 1)]),
    *rows("MaxPool3d", a(2), a((2, 3, 2), 2, (1, 0, 1), (1, 1, 2), ceil_mode=True),
          inputs=[(2, 1, 5, 4, 4)]),
    R("MaxPool2d", 2, inputs=[(3, 4, 4)], batched=False),
    R("MaxPool3d", 2, 1, inputs=[(2, 3, 2, 3)], batched=False),
    *rows("AvgPool1d", a(4), a(3, 2, 1, True, False), inputs=[(2, 3, 6)]),
    R("AvgPool1d", 4, 3, 1, ceil_mode=True, inputs=[(2, 3, 1)]),
    *rows("AvgPool2d", a(2), a(3, 2, 1, ceil_mode=True), a(2, divisor_override=3),
          a((2, 3), 1, (0, 1), count_include_pad=False), inputs=[(2, 2, 6, 5)]),
    *rows("AvgPool3d", a(2), a(3, 2, 1, True, False), a((1, 2, 2), divisor_override=3),
          inputs=[(2, 2, 4, 5, 3)]),
    R("LPPool1d", 2, 2, inputs=[(2, 3, 5)]),
    R("LPPool1d", 3.0, 3, 2, True, inputs=[probabilities(2, 3, 6)]),
    R("LPPool2d", 2, (2, 3), inputs=[(2, 3, 4, 5)]),
    R("LPPool2d", 1.5, 3, stride=(1, 2), inputs=[probabilities(2, 3, 4, 5)]),
    R("LPPool3d", 2, 2, 1, inputs=[(2, 2, 3, 2, 3)]),
    *rows("AdaptiveAvgPool1d AdaptiveMaxPool1d", a(3), inputs=[(2, 3, 5)]),
    *rows("AdaptiveAvgPool2d", a(1), a((2, None)), a((3, 7)), inputs=[(2, 3, 4, 5)]),
    *rows("AdaptiveAvgPool3d", a((3, None, 2)), a(1), inputs=[(2, 2, 4, 2, 3)]),
    R("AdaptiveMaxPool2d", (3, 2), inputs=[(2, 3, 7, 4)]),
    R("AdaptiveMaxPool3d", (3, 2, 2), inputs=[(2, 2, 4, 2, 3)]),
    *rows("Upsample", a(5), a(scale_factor=2.5, mode="linear"), inputs=LINES),
    *rows("Upsample", a(scale_factor=2), a(scale_factor=(1.7, 0.6)), a((2, 7), mode="area"),
          a((5, 7), mode="nearest-exact"), a((5, 2), mode="bilinear"), a((5, 2), mode="bicubic"),
          a((5, 1), mode="bilinear", align_corners=True),
          a((7, 1), mode="bicubic", align_corners=True), a(scale_factor=(1.7, 2.5), mode="bicubic"),
          a(scale_factor=1.7, mode="bilinear", recompute_scale_factor=True), inputs=IMAGES),
    *rows("Upsample", a(scale_factor=2), a((3, 5, 2), mode="trilinear"),
          a((3, 5, 2), mode="nearest-exact"), a((3, 2, 2), mode="area"), inputs=VOLUMES),
    R("BatchNorm1d", 3, inputs=[(4, 3)], **TRACKS),
    R("BatchNorm1d", 3, 0.1, None, bias=False, inputs=[(4, 3, 2)], **TRACKS),
    *rows("BatchNorm2d", a(3, momentum=0.3), a(3, affine=False), inputs=[(2, 3, 2, 4)], **TRACKS),
    R("BatchNorm3d", 3, inputs=[(2, 3, 2, 2, 3)], **TRACKS),
    R("BatchNorm2d", 3, track_running_stats=False, inputs=[(2, 3, 2, 4)], batched=False),
    R("LayerNorm", (3, 2), inputs=[(4, 3, 2)]), R("GroupNorm", 2, 4, inputs=[(3, 4, 2)]),
    R("GroupNorm", 2, 4, 0.1, bias=False, inputs=[(3, 4)]),
    R("GroupNorm", 1, 4, affine=False, inputs=[(2, 4, 2, 2)]),
    R("InstanceNorm1d", 2, inputs=[(3, 2, 4)]),
    R("InstanceNorm1d", 2, 0.1, 0.3, True, True, inputs=[(3, 2, 4)], **TRACKS),
    R("InstanceNorm1d", 2, affine=True, bias=False, inputs=[(2, 4)], batched=False),
    # PyTorch's fails for an empty batch if there are parameters.
    R("InstanceNorm2d", 2, affine=True, inputs=[(3, 2, 3, 2)], batched=False),
    R("InstanceNorm3d", 2, inputs=[(3, 2, 2, 3, 2)]),
    R("InstanceNorm3d", 2, affine=True, inputs=[(2, 2, 3, 2)], batched=False),
    R("RMSNorm", (2, 4), 0.1, inputs=[(3, 2, 4)]),
    *rows("RMSNorm", a(4), a(4, elementwise_affine=False), inputs=[(2, 3, 4)]),
    *rows("RNN LSTM", a(3, 2), inputs=[(4, 2, 3)], batched=False),
    R("RNN", 3, 2, 2, "relu", inputs=[(4, 2, 3), (2, 2, 2)], batched=False),
    R("LSTM", 3, 2, bidirectional=True, inputs=[(4, 3)], batched=False),
    R("LSTM", 3, 2, 2, inputs=[(4, 2, 3), *[(2, 2, 2)] * 2], batched=False),
    *rows("LSTM", a(3, 2, bias=False), a(3, 4, proj_size=3), batch_first=True, inputs=[(4, 2, 3)]),
    R("LSTM", 3, 4, 2, bidirectional=True, proj_size=2, inputs=[(4, 2, 3)], batched=False),
    R("LSTM", 3, 4, 2, False, bidirectional=True, proj_size=2,
      inputs=[(4, 2, 3), (4, 2, 2), (4, 2, 4)], batched=False),
    R("GRU", 3, 2, inputs=[(4, 3), (1, 2)], batched=False),
    R("GRU", 3, 2, 2, False, True, bidirectional=True,
      inputs=[(2, 4, 3), (4, 2, 2)], batched=False),
    *rows("RNNCell GRUCell", a(3, 2), inputs=[(4, 3), (4, 2)]),
    R("RNNCell", 3, 2, nonlinearity="relu", inputs=[(3,)], batched=False),
    *rows("LSTMCell GRUCell", a(3, 2, bias=False), inputs=[(4, 3)]),
    R("LSTMCell", 3, 2, inputs=[(4, 3), (4, 2), (4, 2)]),
    # `tests/ops/test_attention.py` has those with masks.
    *rows("MultiheadAttention", a(4, 2), a(4, 1, bias=False, add_bias_kv=True, add_zero_attn=True),
          batch_first=True, inputs=ATTENDED, shown=False),
    R("MultiheadAttention", 4, 2, batched=False, shown=False,
      inputs=[(n, 2, 4) for n in (3, 5, 5)]),
    R("MultiheadAttention", 4, 2, kdim=3, vdim=5, batch_first=True,
      inputs=[(2, 3, 4), (2, 2, 3), (2, 2, 5)], shown=False),
    *rows("TransformerEncoderLayer", *CODING, inputs=ATTENDED[:1], shown=False),
    *rows("TransformerDecoderLayer", *CODING, inputs=ATTENDED[:2], shown=False),
    R("TransformerEncoder", ENCODING, 2, R("LayerNorm", 4), enable_nested_tensor=False,
      inputs=ATTENDED[:1], shown=False),
    R("TransformerDecoder", DECODING, 2, inputs=ATTENDED[:2], shown=False),
    R("Transformer", 4, 2, 1, 2, 3, 0.0, batch_first=True, inputs=ATTENDED[1::-1], shown=False),
    R("Sequential", R("Sequential", R("Linear", 3, 2), R("Tanh")), R("Flatten"), inputs=[(4, 3)]),
    # With these arguments chance has no say.
    *(row for kind, sizes in (
        ("Dropout", ()), ("Dropout1d", (4,)), ("Dropout2d", (3, 2)), ("Dropout3d", (3, 1, 2)),
    ) for row in rows(kind, a(0.0), a(1.0), inputs=[(3, 2, *sizes)], shown=False)),
]  # fmt: skip
PAIR, LOGITS = [(4, 3), (4, 3)], [(4, 3), probabilities(4, 3)]
OF_LABELS, SOME_IGNORED = [(4, 3), labels(3, 4)], [(4, 3), labels_and_ignored(3, 4)]
WEIGHTED, SMOOTHED = a(CLASS_WEIGHTS), a(CLASS_WEIGHTS, ignore_index=1, label_smoothing=0.2)
OF_LOGS = [log_probabilities(4, 3), probabilities(4, 3)]
LOG_P = [log_probabilities(4, 3), labels(3, 4)]
THREE, FOUR = ("mean", "sum", "none"), ("mean", "sum", "none", "batchmean")


def losses(kinds, *given, by=THREE, **common):
    """Rows for each reduction of losses."""
    return [row for x in by for row in rows(kinds, *given, reduction=x, **common)]


def first_order(kind, *given, inputs):
    """Rows of losses whose second derivatives, and mean and sum of no examples, PyTorch lacks.

    For a sum of no examples it returns memory that it has not set.
    """
    found = losses(kind, *given, inputs=inputs, order=1)
    return [replace(x, batched=x.options["reduction"] == "none") for x in found]


# The first axis of the inputs is time, and PyTorch has one derivative.
ALIGNED = {"order": 1, "batched": False}
SIGNED = [(4, 3), signs(4, 3)]
ENDED = [(4, 3), lambda rng: np.array([[0, -1, 2], [2, 1, 0], [-1, 0, 1], [1, 0, -1]])]
LOSSES = [
    # Too long for its input is the target of the second example, in which equal labels follow
    # another.
    *losses("CTCLoss", a(0, zero_infinity=True), **ALIGNED, inputs=[
        (6, 4, 3), ends([1, 2, 1, 0], [2, 2, 2, 0], [2, 0, 0, 0], [1, 1, 0, 0]),
        ends(6, 4, 5, 0), ends(3, 3, 1, 0),
    ]),
    *losses("CTCLoss", a(blank=0), **ALIGNED,
            inputs=[(6, 3, 4), ends(1, 3, 2, 1), ends(6, 5, 6), ends(2, 0, 2)]),
    *losses("CTCLoss", a(2), **ALIGNED, inputs=[(5, 3), ends(1, 0, 0), ends(5), ends(3)]),
    *losses("SoftMarginLoss", inputs=SIGNED),
    *losses("HingeEmbeddingLoss", a(), a(0.3), inputs=SIGNED),
    *losses("MarginRankingLoss", a(), a(0.5), inputs=[*PAIR, signs(4, 3)]),
    *first_order("MultiMarginLoss", a(), a(2, 0.7, CLASS_WEIGHTS), inputs=OF_LABELS),
    *first_order("MultiLabelMarginLoss", inputs=ENDED),
    *losses("MultiLabelSoftMarginLoss", a(), WEIGHTED, inputs=LOGITS),
    *losses("PoissonNLLLoss", inputs=[(4, 3), labels(5, 4, 3)]),
    # Of integers, PyTorch computes the factorials in float32.
    *losses("PoissonNLLLoss", a(False, True), inputs=[probabilities(4, 3), counts(4, 3)]),
    *losses("GaussianNLLLoss", inputs=[*PAIR, probabilities(4, 3)]),
    *losses("GaussianNLLLoss", a(full=True, eps=0.3), inputs=[*PAIR, probabilities(4, 1)]),
    *losses("MSELoss L1Loss SmoothL1Loss HuberLoss", inputs=PAIR),
    *losses("SmoothL1Loss", a(beta=0.3), a(beta=0), inputs=PAIR),
    *losses("HuberLoss", a(delta=0.3), inputs=PAIR),
    *losses("CrossEntropyLoss", a(), WEIGHTED, a(ignore_index=1), a(label_smoothing=0.2), SMOOTHED,
            inputs=OF_LABELS),
    *losses("CrossEntropyLoss", a(), WEIGHTED, SMOOTHED, inputs=[(4, 3, 2, 2), labels(3, 4, 2, 2)]),
    *losses("CrossEntropyLoss", inputs=SOME_IGNORED),
    *losses("CrossEntropyLoss", a(), a(CLASS_WEIGHTS, label_smoothing=0.2), inputs=LOGITS),
    *losses("CrossEntropyLoss", inputs=[(4, 3, 2), probabilities(4, 3, 2)]),
    R("CrossEntropyLoss", CLASS_WEIGHTS, inputs=SOME_IGNORED, label_smoothing=0.2),
    R("CrossEntropyLoss", inputs=[(4, 3, 2, 2), labels_and_ignored(3, 4, 2, 2)]),
    *rows("CrossEntropyLoss", a(), WEIGHTED, inputs=[(3,), labels(3)], batched=False),
    R("CrossEntropyLoss", inputs=[(3,), probabilities(3)], batched=False),
    *losses("NLLLoss", a(), a(CLASS_WEIGHTS, ignore_index=1), inputs=LOG_P),
    *losses("NLLLoss", inputs=[log_probabilities(4, 3, 2), labels(3, 4, 2)]),
    *losses("NLLLoss", inputs=[log_probabilities(4, 3), labels_and_ignored(3, 4)]),
    R("NLLLoss", CLASS_WEIGHTS, inputs=[log_probabilities(3), labels(3)], batched=False),
    *losses("BCELoss", a(), WEIGHTED, inputs=[probabilities(4, 3)] * 2),
    *losses("BCEWithLogitsLoss", a(), WEIGHTED, a(pos_weight=CLASS_WEIGHTS),
            a(CLASS_WEIGHTS, pos_weight=CLASS_WEIGHTS + 1), inputs=LOGITS),
    *losses("KLDivLoss", inputs=OF_LOGS, by=FOUR),
    *losses("KLDivLoss", a(log_target=True), inputs=OF_LOGS[:1] * 2, by=FOUR),
    *losses("CosineEmbeddingLoss", a(), a(0.2), inputs=[*PAIR, signs(4)]),
    R("CosineEmbeddingLoss", inputs=[(3,), (3,), signs()], batched=False),
    *losses("TripletMarginLoss", a(), a(2.5, 1, 1e-3, True), inputs=[(4, 3)] * 3),
    R("TripletMarginLoss", p=3.0, inputs=[(3,)] * 3, batched=False),
]  # fmt: skip
ROWS = LAYERS + LOSSES
every_row = pytest.mark.parametrize("row", ROWS, ids=str)


@pytest.fixture(autouse=True)
def _quiet():
    """NumPy warns of nan, where PyTorch's result is nan too; PyTorch, of the mean in KLDivLoss."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        warnings.filterwarnings("ignore", "reduction: 'mean' divides")
        yield


def is_floating(array):
    return array.dtype.kind == "f"


def made_of(library):
    """A function that makes a tensor of a library, which requires grad where it is floating."""

    def make(array, dtype):
        if not is_floating(array):
            return library.tensor(array)
        return library.tensor(array.astype(dtype), requires_grad=True)

    return make


of_ours, of_theirs = made_of(gpugrad), made_of(torch)


def numbers(x):
    return np.asarray(x.detach().numpy())


def outputs(module, *inputs, **options):
    """All outputs of a module, as a tuple. The states of an LSTM are a tuple, in and out."""
    if type(module).__name__.startswith("LSTM") and inputs[1:]:
        inputs = inputs[0], inputs[1:]
    name = str(module)
    if "CTCLoss" in name or "ctc_loss" in name:
        # PyTorch's gradient is right for logarithms of probabilities only, so make the input these.
        x = inputs[0]
        inputs = x - x.exp().sum(-1, keepdims=True).log(), *inputs[1:]
    return flattened(module(*inputs, **options))


def flattened(out):
    return sum(map(flattened, out), ()) if isinstance(out, tuple) else (out,) * (out is not None)


def derivatives(library, make, module, inputs, dtype, order):
    """The outputs of a module or function, their gradients, and those of a weighted sum of them."""
    tensors, rng = [make(x, dtype) for x in inputs], np.random.default_rng(1)
    results = [*outputs(module, *tensors)]
    leaves = [*tensors, *getattr(module, "parameters", list)()]
    leaves = [x for x in leaves if x.requires_grad]

    def weights(y):
        return make(rng.standard_normal(tuple(y.shape)), dtype)

    for n in range(1, order + 1):
        scalars = [(y * weights(y)).sum() for y in results if y.requires_grad]
        if not scalars:
            break
        options = {"create_graph": n < order, "materialize_grads": True}
        results += library.autograd.grad(sum(scalars[1:], scalars[0]), leaves, **options)
    return results


def compare(ours, theirs, inputs, dtype="float64", order=2, **tolerance):
    a = derivatives(gpugrad, of_ours, ours, inputs, dtype, order)
    b = derivatives(torch, of_theirs, theirs, inputs, dtype, order)
    assert len(a) == len(b)
    for number, (x, y) in enumerate(zip(a, b, strict=True)):
        assert str(x.dtype) == str(y.dtype).removeprefix("torch.")
        try:
            assert_close(numbers(x), numbers(y), **tolerance)
        except AssertionError as error:
            error.add_note(f"result {number}: first come the outputs, then derivatives")
            raise


def assert_is_pytorchs(function, *arrays, rtol=1e-10, atol=1e-12):
    """Compare a function of `nn.functional` and tensors, and its gradients, with PyTorch's."""
    ours, theirs = (partial(function, library.nn.functional) for library in (gpugrad, torch))
    compare(ours, theirs, arrays, order=1, rtol=rtol, atol=atol)


def with_the_same_state(row, dtype="float64"):
    torch.manual_seed(0)  # so that what its layers draw does not depend on the tests before
    ours, theirs = row.ours(dtype), row.theirs(dtype)
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


STORED = Path(__file__).with_name("layer_values.json")


NAMED = {}  # the rows by name; of several with the same one, the second ends in #, and so on
for row in ROWS:
    name = str(row)
    while name in NAMED:
        name += "#"
    NAMED[name] = row


def digest(library, make, row, module):
    """Sums with random weights of a layer's outputs, their derivatives, and its buffers."""
    rng, named = np.random.default_rng(2), module.named_parameters()
    state = {name: library.tensor(rng.standard_normal(tuple(p.shape))) for name, p in named}
    module.load_state_dict(state, strict=False)
    found = derivatives(library, make, module, row.arrays(), "float64", row.order)
    arrays = map(numbers, [*found, *module.buffers()])
    return [float((x * rng.standard_normal(x.shape)).sum()) for x in arrays]


@pytest.mark.parametrize("name, row", NAMED.items(), ids=NAMED)
def test_values_and_derivatives_are_those_stored(name, row):
    stored = json.loads(STORED.read_text("utf-8"))
    assert name in stored, "a new row: run tests/nn/write_layer_values.py"
    found = np.array(digest(gpugrad, of_ours, row, row.ours()))
    assert_close(found, np.array(stored[name]), rtol=row.rtol, atol=1e-7)


# PyTorch imports 800 modules for its first second derivative of an activation.
@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@every_row
def test_values_and_derivatives(row, training):
    ours, theirs = with_the_same_state(row)
    ours.train(training)
    theirs.train(training)
    for seed in range(2):  # running statistics depend on all inputs so far
        compare(ours, theirs, row.arrays(seed), order=row.order, rtol=row.rtol, atol=1e-9)
        for (name, x), (_, y) in zip(ours.named_buffers(), theirs.named_buffers(), strict=True):
            np.testing.assert_allclose(numbers(x), numbers(y), rtol=1e-7, err_msg=name)


@every_row
def test_values_and_derivatives_in_float32(row):
    ours, theirs = with_the_same_state(row, "float32")
    compare(ours, theirs, row.arrays(), "float32", 1, rtol=1e-5, atol=1e-5)


@every_row
def test_the_repr_is_pytorchs_and_the_state_goes_both_ways(row):
    ours, theirs = row.ours(), row.theirs()
    assert not row.shown or repr(ours) == repr(theirs)
    state = ours.state_dict()
    assert [(k, v.shape) for k, v in state.items()] == [
        (k, tuple(v.shape)) for k, v in theirs.state_dict().items()
    ]
    theirs.load_state_dict({name: torch.tensor(x.numpy()) for name, x in state.items()})
    compare(ours, theirs, row.arrays(), order=0)


@every_row
def test_float16_is_kept(row):
    ours, reference = with_the_same_state(row)[0].to(gpugrad.float16), row.ours("float64")
    reference.load_state_dict(ours.state_dict())
    inputs = [x.astype("float16") if is_floating(x) else x for x in row.arrays()]
    low = derivatives(gpugrad, of_ours, ours, inputs, "float16", 1)
    high = derivatives(gpugrad, of_ours, reference, inputs, "float64", 1)
    for x, y in zip(low, high, strict=True):
        assert x.dtype == gpugrad.float16
        assert_close(numbers(x).astype("float64"), numbers(y), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("row", [row for row in ROWS if row.batched], ids=str)
def test_an_empty_batch(row):
    ours, theirs = with_the_same_state(row)
    compare(ours, theirs, [x[:0] for x in row.arrays()], order=1)


@pytest.mark.parametrize("row", [
    row for row in LOSSES if row.kind.startswith("Multi") and row.options["reduction"] == "sum"
], ids=str)  # fmt: skip
def test_the_sum_of_no_examples_is_zero(row):
    inputs = [of_ours(x[:0], "float64") for x in row.arrays()]
    loss = row.ours()(*inputs)
    assert (loss.shape, loss.item()) == ((), 0)
    assert gpugrad.autograd.grad(loss, inputs[:1])[0].shape == inputs[0].shape


@pytest.mark.parametrize("row", [row for row in ROWS if not row.tracks], ids=str)
def test_vmap_is_the_loop(row):
    module = with_the_same_state(row)[0]
    each = [[of_ours(x, "float64") for x in row.arrays(seed)] for seed in range(3)]
    stacked = [gpugrad.stack(list(xs)) for xs in zip(*each, strict=True)]
    mapped = gpugrad.vmap(lambda *xs: outputs(module, *xs))(*stacked)
    for ours, *loop in zip(mapped, *[outputs(module, *xs) for xs in each], strict=True):
        assert_close(numbers(ours), np.stack([*map(numbers, loop)]), rtol=1e-12, atol=1e-12)


# Classes that no row calls. Most have no forward; their tests are in test_nn.py and
# test_containers.py. PyTorch lacks MLP: test_nn.py shows of which layers it consists. PyTorch's
# SyncBatchNorm trains on GPUs only: below ours is compared with its BatchNorm.
WITHOUT_A_ROW = {*"Module ModuleDict ModuleList ParameterList Parameter MLP SyncBatchNorm".split()}


def test_every_class_of_nn_is_in_the_table():
    kinds = {name for name in nn.__all__ if isinstance(getattr(nn, name), type)}
    in_the_table = {row.kind for row in ROWS}
    assert kinds == in_the_table | WITHOUT_A_ROW
    assert not in_the_table & WITHOUT_A_ROW


@pytest.mark.parametrize("axes", range(4))
@pytest.mark.parametrize("options", [{}, {"affine": False}, {"momentum": None, "eps": 0.1}])
def test_synchronized_normalization_is_pytorchs_of_the_batch(options, axes):
    """In the one process that there is; `test_distributed.py` has it with several."""
    row = R("SyncBatchNorm", 3, inputs=[normal(*(4, 3, 2, 3, 2)[: 2 + axes])], **options)
    theirs, ours = replace(row, kind=f"BatchNorm{max(axes, 1)}d").theirs(), row.ours()
    ours.load_state_dict(theirs.state_dict())
    for training in (True, True, False):
        inputs = row.arrays(seed=training)
        compare(ours.train(training), theirs.train(training), inputs, rtol=1e-9, atol=1e-9)
    for x, y in zip(ours.buffers(), theirs.buffers(), strict=True):
        np.testing.assert_allclose(numbers(x), numbers(y), rtol=1e-12)


def test_a_synchronized_layer_keeps_its_hooks():
    model, seen = nn.Sequential(nn.BatchNorm1d(3)), []
    model[0].register_forward_hook(lambda *args: seen.append(args))
    nn.SyncBatchNorm.convert_sync_batchnorm(model)(X)
    assert len(seen) == 1


# Activations


SMOOTH = "elu selu celu gelu silu mish softplus softsign hardswish logsigmoid tanhshrink".split()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("name", SMOOTH)
def test_large_inputs_give_finite_values_and_derivatives(name, dtype):
    size = {"float16": 6e4, "float32": 1e30, "float64": 1e200}[dtype]
    x = np.array([-size, -1e3, 1e3, size])
    for y in derivatives(gpugrad, of_ours, getattr(F, name), [x], dtype, 2):
        assert np.isfinite(numbers(y)).all()


def test_gelu_of_many_float32_is_that_of_float64():
    ends = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e30]
    x = np.concatenate([np.linspace(-12.5, 9, 20001), ends]).astype("float32")
    found = derivatives(gpugrad, of_ours, nn.GELU(), [x], "float32", 1)
    expected = derivatives(gpugrad, of_ours, nn.GELU(), [x], "float64", 1)
    for a, b, atol in zip(found, expected, [1e-35, 5e-7], strict=True):
        assert_close(numbers(a).astype("float64"), numbers(b), rtol=1e-5, atol=atol)
    grid = gpugrad.tensor(x[:20000].reshape(100, 200))
    for layout in (grid, grid.T, grid[:, ::2]):
        wide = gpugrad.gelu(layout.to(gpugrad.float64)).to(gpugrad.float32)
        assert_close(gpugrad.gelu(layout), wide, rtol=1e-5, atol=1e-35)


def test_gelu_keeps_its_digits_far_below_0():
    x = -7.0
    z = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    expected = {"none": x * math.erfc(-x / math.sqrt(2)) / 2, "tanh": x / (1 + math.exp(-2 * z))}
    for approximate, value in expected.items():
        got = gpugrad.gelu(gpugrad.tensor(x, dtype=gpugrad.float64), approximate)
        assert got.item() == pytest.approx(value, rel=1e-12, abs=0)


def test_logsigmoid_keeps_its_curvature_far_below_0():
    x = gpugrad.tensor(-25.0, dtype=gpugrad.float64)
    curvature = gpugrad.grad(gpugrad.grad(F.logsigmoid))(x).item()
    assert curvature == pytest.approx(-math.exp(-25), rel=1e-5, abs=0)


# Losses


def test_plain_cross_entropy_is_one_operation():
    x = gpugrad.zeros((2, 3), requires_grad=True)
    for loss in nn.CrossEntropyLoss(), nn.CrossEntropyLoss(None, label_smoothing=0):
        node = loss(x, gpugrad.tensor([0, 2])).grad_fn
        assert [n.name for n in (node, *node.next_functions)] == ["cross_entropy", "leaf"]


def test_the_mean_over_ignored_labels_alone_is_nan():
    x, target = gpugrad.zeros((2, 3)), np.array([1, 1])
    assert math.isnan(F.cross_entropy(x, target, ignore_index=1).item())
    assert F.cross_entropy(x, target, ignore_index=1, reduction="sum").item() == 0


def test_only_the_ignored_label_may_be_no_class():
    x, target = gpugrad.zeros((3, 2)), np.array([0, -100, 1])
    for loss in F.cross_entropy, F.nll_loss:
        with pytest.raises(IndexError, match="labels must be from 0 to 1, but go from -100"):
            loss(x, target, ignore_index=1)
        with pytest.raises(TypeError, match="None"):
            loss(x, target, ignore_index=None)
    with pytest.raises(IndexError, match="go from 0 to 18446744073709551516"):
        F.cross_entropy(x[:2], np.asarray([0, 2**64 - 100], np.uint64))


def test_a_compiled_loss_ignores_labels_of_later_batches():
    logits = gpugrad.tensor(*drawn([normal(4, 3)]))
    step = gpugrad.value_and_grad(F.cross_entropy)
    compiled = gpugrad.compile(step)
    for labels in [0, 1, 2, 0], [0, -100, 2, 1], [-100] * 4, [2, 1, 0, 0]:
        target = gpugrad.tensor(labels)
        for ours, expected in zip(compiled(logits, target), step(logits, target), strict=True):
            assert_close(numbers(ours), numbers(expected), rtol=0, atol=0)


def test_a_weighted_mean_of_many_labels_in_float16():
    x, weight = gpugrad.zeros((100_000, 2), dtype="float16"), np.array([3, 1], "float16")
    loss = F.cross_entropy(x, np.arange(100_000) % 2, weight, ignore_index=5)
    assert loss.item() == pytest.approx(np.log(2), rel=1e-2)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_binary_losses_at_the_ends_are_finite(dtype):
    target = gpugrad.tensor([0.0, 1.0, 1.0, 0.0], dtype=getattr(gpugrad, dtype))
    for loss, x, most in (
        (nn.BCELoss(reduction="none"), [0.0, 1.0, 0.0, 1.0], 100),
        (nn.BCEWithLogitsLoss(reduction="none"), [-5e4, 5e4, -5e4, 5e4], 5e4),
        (nn.BCEWithLogitsLoss(reduction="none", pos_weight=target * 0 + 1), [-5e4, 5e4] * 2, 5e4),
    ):
        x = of_ours(np.array(x), dtype)
        losses = loss(x, target)
        assert_close(numbers(losses), np.array([0, 0, most, most]).astype(dtype))
        losses.sum().backward()
        assert np.isfinite(numbers(x.grad)).all()
        assert (numbers(x.grad) == 0).tolist() == [True, True, False, False]


def test_logits_of_sure_predictions_keep_their_digits():
    x = gpugrad.tensor([20.0, -20.0])
    losses = nn.BCEWithLogitsLoss(reduction="none")(x, gpugrad.tensor([1.0, 0.0]))
    assert_close(numbers(losses), np.full(2, np.exp(-20), "float32"), rtol=1e-6, atol=0)


@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_the_curvature_of_a_loss_at_0_and_at_the_kinks(loss):
    def slopes(x):
        return gpugrad.grad(lambda x: loss(x, np.zeros(3), reduction="sum"))(x)

    x = gpugrad.tensor([0.0, 1.0, -1.0])
    assert slopes(x).tolist() == x.tolist()
    assert gpugrad.grad(lambda x: slopes(x).sum())(x)[0].item() == 1.0


def test_probabilities_of_0_and_variances_that_are_too_small_or_infinite():
    losses = F.kl_div(gpugrad.tensor(np.log([0.5, 0.5])), np.array([0.0, 1.0]), reduction="none")
    assert_close(numbers(losses), np.array([0.0, np.log(2)]))
    var = gpugrad.tensor([-1.0, -1e4, 0.0, np.inf], requires_grad=True)
    losses = F.gaussian_nll_loss(gpugrad.zeros(4), np.ones(4, "float32"), var, reduction="none")
    least = math.log(1e-6) / 2 + 1 / 2e-6
    assert_close(numbers(losses), np.array([least] * 3 + [np.inf], "float32"), rtol=1e-6)
    losses[:3].sum().backward()
    assert np.isfinite(numbers(var.grad)).all()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss"])
def test_weights_of_losses_are_pytorchs(name, reduction):
    def loss(library, x, y, weight):
        return getattr(library, name)(x, y, reduction=reduction, weight=weight)

    assert_is_pytorchs(loss, *drawn([normal(4, 3), normal(4, 3), probabilities(4, 3)]))


# Other layers


STARTS = [
    ("Linear", 100, 200), ("Bilinear", 5, 6, 400), ("Embedding", 200, 50, 198),
    ("Conv1d", 8, 400, 3), ("Conv2d", 8, 400, 3), ("ConvTranspose1d", 8, 400, 3),
    ("ConvTranspose2d", 8, 400, 3), ("LSTM", 3, 100), ("GRUCell", 30, 200),
    ("MultiheadAttention", 256, 4, 0.0, True, True), ("TransformerEncoderLayer", 256, 4, 256),
]  # fmt: skip


@pytest.mark.parametrize("row", STARTS, ids=lambda row: row[0])
def test_layers_start_as_pytorchs(row):
    def spreads(library):
        library.manual_seed(0)
        state = getattr(library.nn, row[0])(*row[1:]).state_dict()
        return {k: x.numpy().std() for k, x in state.items()} | {
            f"{k} at most": abs(x.numpy()).max() for k, x in state.items()
        }

    assert spreads(gpugrad) == pytest.approx(spreads(torch), rel=0.15, abs=1e-9)


@pytest.mark.parametrize("kind, n", [
    (nn.Bilinear, 3), (nn.Embedding, 2), (nn.Linear, 2), (nn.Conv2d, 3), (nn.ConvTranspose1d, 3)
])  # fmt: skip
def test_layers_start_from_their_generator_in_their_dtype(kind, n):
    args, generators = (2, 3, 4)[:n], map(gpugrad.random.Generator, (1, 1, 2))
    x, same, other = (kind(*args, generator=g).weight.tolist() for g in generators)
    assert x == same != other
    assert kind(*args, dtype=gpugrad.float64).weight.dtype == gpugrad.float64


def test_an_embedding_of_given_rows():
    rows, state = np.arange(6.0).reshape(3, 2), gpugrad.random.default_generator().get_state()
    layer = nn.Embedding.from_pretrained(rows, padding_idx=-1)
    assert str(gpugrad.random.default_generator().get_state()) == str(state)
    theirs = torch.nn.Embedding.from_pretrained(torch.tensor(rows), padding_idx=2)
    assert repr(layer) == repr(theirs)
    assert layer([2, 0]).tolist() == theirs(torch.tensor([2, 0])).tolist()
    assert (layer.weight.requires_grad, layer.weight.dtype) == (False, gpugrad.float64)
    assert nn.Embedding.from_pretrained(rows, freeze=False).weight.requires_grad
    assert nn.Embedding.from_pretrained(rows, dtype="float32").weight.dtype == gpugrad.float32
    with pytest.raises(ValueError, match=r"from_pretrained: embeddings must have .*, not \(3,\)"):
        nn.Embedding.from_pretrained(np.ones(3))


MARGIN, CE = F.multi_margin_loss, F.cross_entropy
X, Y, AT_0 = gpugrad.ones((2, 3)), gpugrad.ones((3, 2)), gpugrad.tensor(1.0)
LABELS = np.zeros(3, int)
THETA, IMAGE = gpugrad.tensor([[[1.0, 0, 0], [0, 1, 0]]]), gpugrad.ones((1, 1, 2, 2), dtype="uint8")
SAME_SHAPE = """
    binary_cross_entropy binary_cross_entropy_with_logits huber_loss kl_div l1_loss smooth_l1_loss
""".split()
NO_TENSORS = [  # names of functions and parameters, and arguments with a list
    *((name, "the input", [[1.0]], *others) for name, *others in (
        *((name, X) for name in (*SAME_SHAPE, "cosine_similarity", "nll_loss", "soft_margin_loss")),
        *((name, X, X) for name in ("gaussian_nll_loss", "triplet_margin_loss", "conv2d")),
        *((name, 2) for name in ("rms_norm", "avg_pool2d", "unfold", "pixel_shuffle", "pad")),
        *((name,) for name in ("glu", "flatten", "dropout2d", "instance_norm", "interpolate")),
        ("multi_margin_loss", LABELS), ("multilabel_margin_loss", X), ("grid_sample", X),
        ("cosine_embedding_loss", X, X), ("rrelu", 0, 1, True), ("channel_shuffle", 2),
        ("local_response_norm", 2), ("batch_norm", None, None), ("prelu", X), ("cross_entropy", X),
    )),
    *((name, "weight", *inputs, [[1.0]]) for name, *inputs in (
        ("conv2d", IMAGE), ("conv_transpose2d", IMAGE), ("embedding", LABELS), ("prelu", X))),
    ("conv1d", "bias", X, X[:, :, None], [1.0]), ("ctc_loss", "log_probs", [1.0], [1], 1, 1),
    ("affine_grid", "theta", [[1.0]], (1, 1, 2, 2)), ("grid_sample", "the grid", X, [1.0]),
    ("bilinear", "each operand", X, X, [1.0]),
]  # fmt: skip
REDUCTIONS = {kind: "'mean', 'sum'" for kind in nn.__all__ if kind.endswith("Loss")}
REDUCTIONS["KLDivLoss"] = "'batchmean', 'mean', 'sum'"


def aligned_with(targets, inputs, lengths):
    return lambda: F.ctc_loss(gpugrad.zeros((5, 1, 4)), np.array(targets), [inputs], [lengths])


ERRORS = {
    IndexError: {
        **{f"^{name}: axis 2 is out of bounds": lambda name=name: getattr(F, name)(X[:0], 2)
           for name in ("softmax", "log_softmax")},
        "margin_loss: the labels must be from 0 to 2, .*-1": lambda: MARGIN(X, [-1, 0]),
        "margin_loss: the labels must be from 0 to 2, .*3": lambda: MARGIN(X, [3, 0]),
        "margin_loss: the labels must be from -1 to 2":
            lambda: F.multilabel_margin_loss(X, [[-5, 1, 0], [0, 0, 0]]),
    },
    TypeError: {
        "^nll_loss: target must be integer labels, not float": lambda: F.nll_loss(X, np.zeros(2)),
        "dim must be an int, not 'c'": lambda: nn.Unflatten("c", (3,)),
        "must be floating": lambda: F.interpolate(IMAGE, (3, 3), mode="bilinear"),
        "cannot be interpreted as an integer": lambda: F.one_hot(LABELS, 2.5),
        **{f"^{name}: the input must be floating, not uint8":
           lambda name=name, kw=kw: getattr(F, name)(IMAGE, 2, **kw)
           for name, kw in (("avg_pool2d", {}), ("adaptive_avg_pool2d", {}),
                            ("interpolate", {"mode": "area"}))},
        "^ctc_loss: targets must be integers, not float64": aligned_with([[1.0, 2.0]], 5, 2),
        "^ctc_loss: lengths must be integers, not float32": aligned_with([[1, 2]], 5.0, 2),
        "theta must be floating": lambda: F.affine_grid(THETA.astype("int64"), (1, 2, 3, 3)),
        **{rf"^{name}: target must be a Tensor or an array, not a list$":
           lambda n=name: getattr(F, n)(X, [1.0]) for name in SAME_SHAPE},
        **{rf"^{name}: {which} must be a Tensor or an array, not a list$":
           lambda n=name, options=options: getattr(F, n)(*options)
           for name, which, *options in NO_TENSORS},
    },
    ValueError: {
        **{f"^{name}: the input must have elements": lambda n=name: getattr(F, n)(X[None, :, :0], 2)
           for name in ("adaptive_avg_pool1d", "interpolate")},
        **{f"^lp_pool1d: norm_type must exceed.* not {p}$": lambda p=p: F.lp_pool1d(X, p, 2)
           for p in (-math.inf, 0)},
        r"^conv1d: windows of size \(0,\) have": lambda: F.conv1d(X[None], X[None, :, :0]),
        "m must be a number, not None": lambda: F.batch_norm(X, X[0], X[0], None, None, True, None),
        "^GELU: approximate must be 'none' or 'tanh', not 'erf'": lambda: nn.GELU("erf"),
        "^gelu: approximate must be 'none' or 'tanh'": lambda: F.gelu(X, "erf"),
        "^Hardtanh: min_val must be less than max_val 1, not 1$": lambda: nn.Hardtanh(1, 1),
        "^celu: alpha must not be 0": lambda: nn.CELU(0)(X),
        "^PReLU: num_parameters must be an int of at least 1, not 0": lambda: nn.PReLU(0),
        r"^prelu: weight must have one element, or shape \(3,\)": lambda: nn.PReLU(2)(X),
        r"^glu: the input's axis -1 is halved.* shape is \(2, 3\)": lambda: nn.GLU()(X),
        r"^glu: dim 2 is not an axis of an input of shape \(2, 3\)": lambda: nn.GLU(2)(X),
        **{rf"^{name}: target must .*\(2, 3\), not \(3, 2\)": lambda n=name: getattr(F, n)(X, Y)
           for name in SAME_SHAPE},
        **{rf"^{name}: reduction must": lambda n=name: getattr(F, n)(X, X, reduction="max")
           for name in (*SAME_SHAPE, "nll_loss", "cross_entropy")},
        **{f"^{kind}: reduction must be {known} or 'none', not 'max'$":
           lambda kind=kind: getattr(nn, kind)(reduction="max")
           for kind, known in REDUCTIONS.items()},
        "huber_loss: delta must be positive, not 0": lambda: F.huber_loss(X, X, delta=0),
        "beta must be at least 0, not -1": lambda: F.smooth_l1_loss(X, X, beta=-1),
        r"^cross_entropy: the input .*\(n, classes, ...\) .* \(2, 3\) and \(3,\)":
            lambda: CE(X, LABELS, label_smoothing=0.1),
        r"^cross_entropy: weight, a factor for each class, must have shape \(3,\), not \(2,\)":
            lambda: CE(X, LABELS[:2], np.ones(2)),
        "ignore_index is for labels, but .* floating": lambda: CE(X, X, ignore_index=1),
        "label_smoothing must be from 0 to 1, not 1.5": lambda: CE(X, X, label_smoothing=1.5),
        r"^nll_loss: the input .* \(2, 3, 4\) and \(2, 3\)":
            lambda: F.nll_loss(gpugrad.ones((2, 3, 4)), np.zeros((2, 3), int)),
        "^nll_loss: the input must": lambda: F.nll_loss(AT_0, np.array(0)),
        r"^binary_cross_entropy: weight must broadcast to .*\(2, 3\), but has shape \(2,\)":
            lambda: nn.BCELoss(np.ones(2))(X, X),
        r"_with_logits: pos_weight must broadcast to .*\(2, 3\), but has shape \(2, 2, 3\)":
            lambda: nn.BCEWithLogitsLoss(pos_weight=np.ones((2, 2, 3)))(X, X),
        "^kl_div: 'batchmean' needs an input with a first axis":
            lambda: F.kl_div(AT_0, np.array(1.0), reduction="batchmean"),
        r"^cosine_embedding_loss: .*\(\(2, 3\), \(2, 3\), \(3,\)\)":
            lambda: nn.CosineEmbeddingLoss()(X, X, np.ones(3)),
        "^TripletMarginLoss: margin must be positive, not 0": lambda: nn.TripletMarginLoss(0),
        r"^triplet_margin_loss: negative must have the shape of the input \(2, 3\), not":
            lambda: F.triplet_margin_loss(X, X, Y),
        r"^multi_margin_loss: weight, a factor for each class, must have shape \(3,\)":
            lambda: MARGIN(X, [0, 1], weight=np.ones(7)),
        "Bilinear: in2_features must be an int of at": lambda: nn.Bilinear(2, 0, 1),
        r"^bilinear: .* \(\(2, 3\), \(3, 2\), \(1, 3, 2\)\)": lambda: nn.Bilinear(3, 2, 1)(X, Y),
        r"^bilinear: bias must have shape \(2,\), not \(3,\)":
            lambda: F.bilinear(X, X, gpugrad.ones((2, 3, 3)), gpugrad.ones(3)),
        "max_norm .* limit the norms after": lambda: nn.Embedding(3, 2, max_norm=1.0),
        "^Embedding: padding_idx 3 is not one of 3 rows": lambda: nn.Embedding(3, 2, 3),
        "^embedding: padding_idx 3 is not one of 3 rows": lambda: F.embedding(LABELS, Y, 3),
        r"\(rows, d\), not \(3,\)": lambda: F.embedding(LABELS, X[0]),
        r"axis 1 of .* \(2, 3\) cannot be split .* \(2, 2\)": lambda: nn.Unflatten(1, (2, 2))(X),
        "dim 2 is not an axis": lambda: nn.Unflatten(2, (3,))(X),
        "^pad: an axis of 3 elements cannot be shortened by 4": lambda: F.pad(X, (-4, 5)),
        r"^instance_norm: .* must hold more than one element .*, not \(2, 3, 1\)$":
            lambda: F.instance_norm(gpugrad.ones((2, 3, 1))),
        r"^rrelu: lower must be at most upper, not \(0\.5, 0\.4\)$": lambda: F.rrelu(X, 0.5, 0.4),
        "input_lengths must be from 0 to 5.*6": aligned_with([[1, 2]], 6, 2),
        "target_lengths must be from 0 to 2.*9": aligned_with([[1, 2]], 5, 9),
        "target_lengths must add up to 2 targets, not 1": aligned_with([1, 2], 5, 1),
        "^ctc_loss: targets must be from 0 to 3$": aligned_with([[-1, 2]], 5, 2),
        " targets must be from 0 to 3$": aligned_with([[1, 4]], 5, 2),
        **{f"^{n}: weight must have the shape of": lambda n=n: getattr(F, n)(X, X, weight=X[0])
           for n in ("l1_loss", "mse_loss", "huber_loss")},
    },
}  # fmt: skip
IMPOSSIBLE = [
    *((kind, *row) for kind, rows in ERRORS.items() for row in rows.items()),
    *((ValueError, "offsets must begin with 0, go up, and end with at most",
       lambda x=x: F.embedding_bag(gpugrad.arange(4), gpugrad.eye(4), gpugrad.tensor(x)))
      for x in ([1, 3], [0, 3, 2], [0, 5], [-1, 2])),
    *((ValueError, "affine_grid: theta must be", lambda x=x: F.affine_grid(THETA, x))
      for x in ((), 5, (1, 2, 3), (1, 2, 0, 3), (2, 2, 3, 3))),
]  # fmt: skip


@pytest.mark.parametrize("kind, message, call", IMPOSSIBLE)
def test_errors(kind, message, call):
    with pytest.raises(kind, match=message):
        call()


def test_functions_take_arrays_of_numpy():
    x = np.ones((1, 2, 4, 4))
    for name, *options in (
        ("dropout", 0.0), ("dropout2d", 0.0), ("flatten",), ("avg_pool2d", 2), ("lp_pool2d", 2, 2),
        ("adaptive_avg_pool2d", 1), ("interpolate", None, 2, "bilinear"),
        ("grid_sample", x[..., :2].swapaxes(0, 1)[:1]),
    ):  # fmt: skip
        ours, function = gpugrad.asarray(x), getattr(F, name)
        found = function(x, *options)
        assert type(found) is gpugrad.Tensor, name
        np.testing.assert_array_equal(found, function(ours, *options), name)
    with pytest.raises(TypeError, match=r"^dropout: the input must be floating, not int64"):
        F.dropout(np.ones(3, "int64"))


def test_random_slopes():
    x = gpugrad.tensor(normal(10000)(np.random.default_rng(0)), requires_grad=True)
    layer = nn.RReLU(0.2, 0.6)
    gpugrad.manual_seed(3)
    y = layer(x)
    gpugrad.manual_seed(3)
    assert (y == F.rrelu(x, 0.2, 0.6, training=True)).all()
    y.sum().backward()
    slopes, is_positive = numbers(x.grad), numbers(x) > 0
    assert_close(numbers(y), slopes * numbers(x))
    assert (slopes[is_positive] == 1).all()
    slopes = slopes[~is_positive]
    assert ((0.2 <= slopes) & (slopes < 0.6)).all()
    assert (slopes.mean(), slopes.std()) == pytest.approx((0.4, 0.4 / np.sqrt(12)), rel=0.03)
    expected = torch.nn.RReLU(0.2, 0.6).eval()(torch.tensor(numbers(x)))
    assert_close(numbers(layer.eval()(x)), expected.numpy())


def places(*shape):
    """Places of a grid, some of which lie beyond the ends."""
    return lambda rng: rng.uniform(-2.6, 2.6, shape)


MODES, EDGES = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")
BAGS = [labels(5, 7), normal(5, 3), ends(0, 0, 2, 2, 6)]
FUNCTIONS = [
    *(
        ("grid_sample", inputs, {"mode": mode, "padding_mode": padding, "align_corners": align})
        for padding, align in itertools.product(EDGES, (False, True))
        for modes, inputs in (
            (MODES, [normal(2, 3, 4, 5), places(2, 3, 6, 2)]),
            (MODES[:2], [normal(2, 1, 2, 3, 4), places(2, 2, 3, 1, 3)]),
        )
        for mode in modes
    ),
    ("grid_sample", [normal(1, 2, 1, 1), places(1, 4, 4, 2)],
     {"padding_mode": "reflection", "align_corners": True}),
    *(
        ("affine_grid", [normal(2, d, d + 1)], {"size": (2, 3, *size), "align_corners": align})
        for d, size in ((2, (3, 4)), (2, (1, 2)), (3, (2, 3, 1)))
        for align in (False, True)
    ),
    *(("embedding_bag", BAGS, {"mode": mode}) for mode in ("sum", "mean", "max")),
    ("embedding_bag", BAGS, {"mode": "max", "include_last_offset": True, "padding_idx": 2}),
    ("ctc_loss", [normal(4, 2, 3), ends(1, 0, 1), ends(4, 3), ends(2, 1)], {"blank": 2}),
    ("ctc_loss", [normal(3, 1, 4), lambda rng: np.zeros((1, 0), int), ends(3), ends(0)], {}),
    ("grid_sample", [normal(2, 0, 4, 5), places(2, 3, 6, 2)], {}),
    ("embedding_bag", [labels(5, 0), normal(5, 3), ends(0, 0)], {"mode": "max"}),
    *(("normalize", [normal(3, 4)], x)
      for x in ({}, {"p": 1}, {"p": 3, "dim": 0}, {"dim": (0, 1), "eps": 10.0})),
    *(("cosine_similarity", [normal(3, n), normal(*other)], {"dim": dim})
      for n, other, dim in ((1, (3, 4), 1), (2, (2,), 0), (2, (2,), 1))),
    ("leaky_relu", [KINKS], {"negative_slope": 0.2}), ("hardtanh", [KINKS], {}),
    *((name, [ends(math.nan, -0.5, 0.5, math.inf)], {}) for name in ("hardshrink", "softshrink")),
    *(("one_hot", [ends([0, 2], [1, 0])], x) for x in ({}, {"num_classes": 5})),
]  # fmt: skip


@pytest.mark.parametrize("name, draws, options", FUNCTIONS)
def test_values_and_gradients_of_functions(name, draws, options):
    ours, theirs = (partial(getattr(x.nn.functional, name), **options) for x in (gpugrad, torch))
    compare(ours, theirs, drawn(draws), order=1, rtol=1e-10, atol=1e-12)


TWICE = [x for x in FUNCTIONS if x[0] in ("grid_sample", "ctc_loss")]


@pytest.mark.parametrize("name, draws, options", TWICE)
def test_second_derivatives_of_functions(name, draws, options):
    inputs, n = drawn(draws), 1
    if name == "grid_sample":
        inputs = [x[:1, :1, :3] for x in inputs]
        n = 1 if options.get("mode") == "nearest" else 2  # there the places do not matter
    leaves = [of_ours(x, "float64") for x in inputs[:n]]
    gradgradcheck(lambda *xs: getattr(F, name)(*xs, *inputs[n:], **options), leaves)


@pytest.mark.parametrize("name, draws, options", FUNCTIONS)
def test_functions_on_every_library(library, name, draws, options):
    function, inputs = partial(getattr(F, name), **options), drawn(draws)
    both = of_ours, made_of(library)
    own, other = (derivatives(gpugrad, make, function, inputs, "float64", 1) for make in both)
    for x, y in zip(own, other, strict=True):
        assert type(y.array) is type(library.tensor(0.0).array)
        assert_close(np.asarray(library.values(y)), numbers(x), rtol=1e-10, atol=1e-12)


def test_an_alignment_that_does_not_exist_has_no_gradient():
    x = of_ours(normal(3, 1, 2)(np.random.default_rng(0)), "float64")
    for zero, expected in ((False, math.inf), (True, 0.0)):
        loss = F.ctc_loss(x, [[1, 1]], [2], [2], zero_infinity=zero)
        assert loss.item() == expected
        assert (gpugrad.autograd.grad(loss, [x])[0] == 0).all()
    x = gpugrad.tensor([[-math.inf, 0.0], [0.0, -math.inf]], requires_grad=True)
    loss = F.ctc_loss(x, [1], 2, 1)
    loss.backward()
    assert (loss.item(), x.grad.tolist()) == (0, [[0.0, -1.0], [-1.0, 0.0]])


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_every_pair_of_paddings_is_pytorchs(mode):
    """Or an error, where PyTorch has one, or gives what it finds in memory that nobody has set."""
    x, taken = np.arange(10.0).reshape(1, 2, 5), 0
    for widths in itertools.product((-6, -5, -4, -1, 0, 1, 4, 5, 6), repeat=2):
        if mode in ("constant", "circular"):  # which shorten the axis before they extend it
            left = 5 + sum(min(n, 0) for n in widths)
        else:
            left = 5 + sum(widths)
        if left < 0 or max(widths) > {"circular": left, "reflect": 4}.get(mode, 6):
            with pytest.raises(ValueError, match=r"^pad: .*an axis of \d elements can"):
                F.pad(gpugrad.tensor(x), widths, mode)
        elif sum(widths) + 5:  # PyTorch has an error for a result without elements
            assert_is_pytorchs(lambda library, x, w=widths: library.pad(x, w, mode), x)
            taken += 1
    assert taken > 20


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_ctc_in_16_bits_is_that_of_float32(dtype):
    """Without a warning, although it computes with the logarithm of 0."""
    x = of_ours(normal(20, 4, 6)(np.random.default_rng(0)), "float32").detach()
    x = F.log_softmax(x, -1).astype(dtype).requires_grad_()
    wide = x.detach().astype("float32").requires_grad_()
    args = np.random.default_rng(0).integers(1, 6, (4, 5)), [20] * 4, [5] * 4
    with warnings.catch_warnings(action="error"):
        loss, expected = (F.ctc_loss(a, *args) for a in (x, wide))
        loss.backward()
        expected.backward()
    for narrow, y in (loss, expected), (x.grad, wide.grad):
        assert narrow.dtype == x.dtype
        np.testing.assert_array_equal(numbers(narrow), numbers(y.astype(dtype)))


@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding_mode", EDGES)
@pytest.mark.parametrize("mode", MODES)
def test_places_at_the_ends_and_that_are_nan(mode, padding_mode, align_corners):
    options = {"mode": mode, "padding_mode": padding_mode, "align_corners": align_corners}
    rng = np.random.default_rng(0)
    x = rng.random((1, 2, 3, 4))
    for axis in range(2):
        grid = rng.random((1, 2, 2, 2))
        grid[0, 0, 0, axis] = np.nan
        theirs = torch.nn.functional.grid_sample(*map(torch.asarray, (x, grid)), **options)
        assert_close(F.grid_sample(*map(gpugrad.asarray, (x, grid)), **options), theirs.numpy())

    def function(library, theta, x):
        grid = library.affine_grid(theta, [1, 2, 3, 4], align_corners=True)
        return library.grid_sample(x, grid, **options) ** 2

    if padding_mode != "zeros":
        assert_is_pytorchs(function, np.array([[[1.0, 0, 0], [0, 1, 0]]]), x)
    # Beyond an infinite element at an end, nothing is read.
    x[:, :, 0, 0] = x[:, :, 2, 3] = np.inf
    grid = gpugrad.tensor([[[[-1.0, -1], [0.97, 0.97], [0.3, -0.2]]]], dtype="float64")
    theirs = torch.nn.functional.grid_sample(*map(torch.asarray, (x, grid.numpy())), **options)
    found = F.grid_sample(gpugrad.asarray(x), grid.requires_grad_(), **options)
    assert_close(found.detach(), theirs.numpy())
    if mode == "nearest":
        found.sum().backward()
        assert not grid.grad.numpy().any()


def test_what_is_given_is_kept():
    empty = nn.Sequential()
    assert nn.Transformer(4, 2, 1, 1, 8, custom_encoder=empty).encoder is empty
    assert nn.Identity(3, any=4)(X) is X
    F.ctc_loss(gpugrad.zeros((5, 1, 4)), gpugrad.tensor([[1, 9]]), [5], [1])  # 9 is not used
    small = F.soft_margin_loss(gpugrad.tensor([1.0, 2.0]), np.asarray([1, 1], "uint8"))
    assert small.item() == pytest.approx(0.2201, abs=1e-4)


def test_nan_and_infinities():
    for layer in nn.Hardshrink(), nn.Softshrink(), nn.Threshold(0.1, 0.5):
        assert math.isnan(layer(gpugrad.tensor(math.nan)).item())
    weight = gpugrad.tensor([[1.0, 2.0], [math.inf, math.nan]])
    for mode in ("sum", "mean", "max"):  # a row that does not count may be infinite
        found = F.embedding_bag(gpugrad.tensor([[0, 1]]), weight, mode=mode, padding_idx=1)
        assert found.tolist() == [[1.0, 2.0]]
    x = gpugrad.tensor([[[1.0, -3.0, 2.0, 0.5]]])
    assert F.lp_pool1d(x, math.inf, 2).tolist() == [[[3.0, 2.0]]]
    x = gpugrad.tensor([[[0.0, math.inf, math.nan, 1.0, math.nan]]])
    for pool in partial(F.max_pool1d, kernel_size=5), partial(F.adaptive_max_pool1d, output_size=1):
        assert pool(x, return_indices=True)[1].tolist() == [[[2]]]
    for dtype in "float16", "float32":
        zeros = of_ours(np.zeros((1, 3)), dtype)
        (F.normalize(zeros).sum() + F.cosine_similarity(zeros, zeros).sum()).backward()
        F.cosine_embedding_loss(zeros, zeros * 1, np.array([1])).backward()
        assert np.isfinite(numbers(zeros.grad)).all()
    halves = gpugrad.full((1, 1, 4, 4), 3e4, dtype="float16")
    assert (F.avg_pool2d(halves, 3, 1, 1, count_include_pad=False) == halves).all()


def test_the_row_of_padding_has_no_gradient_under_its_other_number():
    indices, weight = gpugrad.tensor([[2, -1, 0]]), gpugrad.ones((3, 1)).requires_grad_()
    for row, call in itertools.product((2, -1), (F.embedding, F.embedding_bag)):
        (grad,) = gpugrad.autograd.grad(call(indices, weight, padding_idx=row).sum(), [weight])
        assert grad.tolist() == [[1.0], [0.0], [0.0]]


@pytest.mark.parametrize("mode, half", [("nearest", 0), ("nearest-exact", 1)])
def test_nearest_places_are_exact(mode, half):
    for n, m in itertools.product(range(1, 50), repeat=2):
        found = F.interpolate(gpugrad.arange(n)[None, None], size=m, mode=mode)[0, 0].tolist()
        assert found == [math.floor(Fraction(2 * i + half, 2 * m) * n) for i in range(m)]


def test_nearest_places_of_another_byte_order():
    x = gpugrad.asarray(np.ones((1, 1, 1, 2), ">f8"), requires_grad=True)
    F.interpolate(x, scale_factor=2).sum().backward()
    assert x.grad.tolist() == [[[[4.0, 4.0]]]]
