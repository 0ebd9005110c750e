"""Convolution, pooling, padding and resampling: what the tables of ops and layers do not show."""

import numpy as np
import pytest
from test_layers import assert_is_pytorchs

import gpugrad as gg
from gpugrad import nn, ones
from gpugrad.autograd import grad
from gpugrad.backends import backend_of
from gpugrad.nn import functional as F
from gpugrad.testing import assert_close

IMAGES, LINES = ones((2, 3, 4, 5)), ones((2, 3, 5))


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("most", [1, 40, 200, 500])
def test_blocks_of_columns_give_the_same(most, monkeypatch):
    options = {"padding": (2, 1), "dilation": (2, 1), "groups": 2}
    given = normal(3, 4, 6, 5), normal(6, 2, 2, 3), normal(6)

    def results(stride):
        tensors = [gg.tensor(x, requires_grad=True) for x in given]
        out = gg.convolution(*tensors, stride=stride, **options)
        g = gg.tensor(normal(*out.shape, seed=1))
        return [y.numpy() for y in (out.detach(), *grad(out, tensors, g))]

    for stride in (1, 2), 1:
        expected = results(stride)
        with monkeypatch.context() as patched:
            patched.setattr(type(backend_of[np.ndarray]), "column_block", most)
            for y, e in zip(results(stride), expected, strict=True):
                assert_close(y, e, rtol=1e-12, atol=1e-12)


def test_the_graph_of_a_convolution_keeps_no_columns():
    x, layer = ones((64, 8, 16, 16), requires_grad=True), nn.Conv2d(8, 8, 3, padding=1)
    with gg.memory_report() as report:
        out = layer(x)  # the columns would be 9 times as large as x
    assert report.total <= 4 * (x.size + out.size + 2 * layer.weight.size)


def test_padding_beyond_the_input_contributes_nothing():
    x = gg.tensor([[[np.inf, 1.0, 2.0]]])
    assert gg.convolution(x, ones((1, 1, 2)), padding=((0, 1),)).tolist() == [[[np.inf, 3.0, 2.0]]]
    assert F.avg_pool1d(x, 2, 1).tolist() == [[[np.inf, 1.5]]]


IMAGE, VOLUME = (3, 6, 7), (2, 3, 5, 4, 6)
MAXIMA = [
    *(("max_pool2d", IMAGE, args) for args in ((2,), (3, 2, 1, 1, True), ((2, 3), 1, (1, 0), 2))),
    *(("adaptive_max_pool2d", IMAGE, (size,)) for size in (1, 3, (2, 5), (None, 9))),
    ("max_pool2d", (2, *IMAGE), (2,)), ("adaptive_max_pool2d", (2, *IMAGE), ((2, 5),)),
    ("max_pool3d", VOLUME, ((2, 3, 1),)), ("adaptive_max_pool3d", VOLUME, ((2, 3, 4),)),
]  # fmt: skip


@pytest.mark.parametrize("name, shape, args", MAXIMA)
def test_indices_of_maxima_are_pytorchs(name, shape, args):
    x = np.random.default_rng(0).integers(0, 3, shape).astype(float)  # with ties
    assert_is_pytorchs(lambda F, x: getattr(F, name)(x, *args, return_indices=True), x)


@pytest.mark.parametrize("layer", [nn.MaxPool1d, nn.AdaptiveMaxPool1d])
def test_layers_return_indices(layer):
    out, indices = layer(2, return_indices=True)(LINES)
    assert out.shape == indices.shape == (2, 3, 2)


def test_indices_of_nan_and_infinity_are_in_the_image():
    x = np.full((1, 1, 4), -np.inf)
    x[..., 2] = np.nan
    _, indices = F.max_pool1d(gg.tensor(x), 3, 1, 1, return_indices=True)
    assert indices.tolist() == [[[0, 2, 2, 2]]]


def test_output_size_of_a_transposed_convolution():
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1)
    assert layer(IMAGES).shape == (2, 2, 7, 9)
    assert layer(IMAGES, output_size=(8, 9)).shape == (2, 2, 8, 9)
    assert layer(IMAGES, output_size=[2, 2, 7, 10]).shape == (2, 2, 7, 10)
    with pytest.raises(ValueError, match=r"ConvTranspose2d: output_size .* from \[7, 9\] to \[8, "):
        layer(IMAGES, output_size=(9, 9))


@pytest.mark.parametrize("layer, shape, channels", [
    (nn.Dropout1d, (20, 30, 4), (20, 30)), (nn.Dropout1d, (200, 4), (200,)),
    (nn.Dropout2d, (20, 30, 2, 3), (20, 30)), (nn.Dropout3d, (20, 30, 2, 1, 3), (20, 30)),
    (nn.Dropout3d, (600, 2, 1, 3), (600,)),
])  # fmt: skip
def test_channels_are_dropped_as_a_whole(layer, shape, channels):
    x, module = gg.tensor(np.full(shape, 3.0), requires_grad=True), layer(0.25)
    y = module(x)
    y.sum().backward()
    rows = y.detach().numpy().reshape(int(np.prod(channels)), -1)
    assert {*np.unique(rows)} == {0.0, 4.0}
    assert (rows == rows[:, :1]).all()
    assert 0.6 < (rows[:, 0] > 0).mean() < 0.9
    assert_close(x.grad.numpy() * 3, y.detach().numpy())
    assert module.eval()(x) is x
    assert not layer(1.0)(x.detach()).numpy().any()
    each = gg.vmap(lambda i: layer(0.5)(x.detach()) + 0 * i)(ones(3)).numpy()
    assert (each[0] != each[1]).any()


@pytest.mark.parametrize("call, message", [
    (lambda: nn.BatchNorm2d(3)(LINES), r"^BatchNorm2d: .*\(n, 3, height, width\), not"),
    (lambda: nn.Conv2d(3, 4, 3)(LINES[0]), r"^Conv2d: the input .* not of shape \(3, 5\)"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), r"^Conv2d: groups must divide .* \(3, 4\), not 2"),
    (lambda: nn.Conv2d(3, 4, 0), "^Conv2d: kernel_size must be one or 2 ints of at least 1"),
    (lambda: nn.Conv2d(3, 0, 1), "^Conv2d: out_channels must be an int of at least 1"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), "^Conv2d: padding 'same' needs"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), "^Conv2d: padding must be .* not 'full'"),
    (lambda: nn.Conv2d(3, 4, 3, padding=-1), "^Conv2d: padding must be one or 2 ints of at l"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="x"), "^Conv2d: padding_mode must be 'zeros', "),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), "^ConvTranspose2d: padding_"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding="same"), "^ConvTranspose2d: padding must be"),
    (lambda: nn.ConvTranspose1d(3, 4, 1, padding=3)(LINES), "^ConvTranspose1d: the output .*"),
    (lambda: nn.ConvTranspose1d(2, 4, 1)(LINES), r"^ConvTranspose1d: weight .* the 3 channels"),
    (lambda: nn.ConvTranspose1d(3, 4, 1, output_padding=1)(LINES),
     r"^ConvTranspose1d: output_padding \(1,\) must be less than stride \(1,\) or dilation"),
    (lambda: F.conv2d(IMAGES, ones((4, 2, 1, 1))),
     r"^conv2d: x \(2, 3, 4, 5\) has 3 channels, but .* is for 2$"),
    (lambda: F.conv2d(IMAGES, ones((4, 1, 1, 1)), groups=3),
     r"^conv2d: groups must be an int that divides the 4 channels .* not 3"),
    (lambda: F.conv2d(IMAGES, ones((4, 3, 1))), "^conv2d: weight must be .out, ch"),
    (lambda: F.conv1d(LINES, ones((4, 3, 1)), ones(3)),
     r"^conv1d: bias must have shape \(4,\), not \(3,\)"),
    (lambda: F.conv1d(IMAGES, ones((4, 3, 1))), r"^conv1d: the input must be"),
    (lambda: gg.vmap(gg.convolution)(ones((5, 2, 3, 4)), ones((5, 1, 2, 2))),
     r"^convolution: x \(2, 3, 4\) has 3 channels"),
    (lambda: F.conv_transpose1d(LINES, ones((3, 1, 1)), groups=2),
     r"^conv_transpose1d: groups must be an int that divides the 3 channels"),
    (lambda: gg.convolution_input(LINES, ones((2, 1, 1)), shape=(5,)),
     r"^convolution_input: cotangent \(2, 3, 5\) must have the 2 channels of weight"),
    (lambda: gg.convolution_weight(LINES, LINES, shape=(2,)),
     r"^convolution_weight: over \(5,\) elements slide \(4,\) windows of size \(2,\), but"),
    (lambda: gg.convolution_weight(LINES, IMAGES, shape=(2,)),
     r"^convolution_weight: cotangent must have shape \(n, out, ...\) and x"),
    (lambda: gg.max_pool(LINES, size=(0,)), "^max_pool: size must be .* at least 1"),
    (lambda: gg.max_pool(LINES, size=(2, 2), stride=(1,)), "^max_pool: stride must be an int"),
    (lambda: gg.sliding_windows(LINES[0, 0], size=(2, 2)), "need at least 2 axes, not shape"),
    (lambda: gg.add_windows(ones((2, 3)), shape=(5,)), r"\(4,\) windows .* of \(3,\) win"),
    (lambda: F.max_pool2d(IMAGES, 2, padding=2), "^max_pool2d: padding .* at most"),
    (lambda: F.max_pool2d(IMAGES, 6), r"^max_pool2d: kernel_size \(6, 6\) .* is"),
    (lambda: nn.MaxPool2d(2)(ones(3)), r"^MaxPool2d: the input must be .* of shape \(3,\)"),
    (lambda: F.avg_pool2d(IMAGES, 2, divisor_override=0), "divisor_override must not"),
    (lambda: nn.AdaptiveAvgPool2d((1, 2, 3))(IMAGES), "^AdaptiveAvgPool2d: output_size must"),
    (lambda: F.fold(ones((1, 5, 4)), 3, 2), "^fold: .* multiple of 4 rows, and 4"),
    (lambda: F.unfold(IMAGES, 6), r"^unfold: windows of size \(6, 6\)"),
    (lambda: F.interpolate(IMAGES), "^interpolate: give either size or scale_factor"),
    (lambda: F.interpolate(IMAGES, 2, mode="cubic"),
     "^interpolate: mode must be 'nearest', .* or 'area', not 'cubic'"),
    (lambda: F.interpolate(LINES, 2, mode="bilinear"), r"must be \(n, channels, "),
    (lambda: F.interpolate(IMAGES, 2, align_corners=True),
     "^interpolate: align_corners is for linear modes .*, not 'nearest'"),
    (lambda: F.interpolate(IMAGES, scale_factor=-1), "must be one or 2 positive num"),
    (lambda: F.pad(LINES, (1,)), r"^pad: pad must have two ints for each"),
    (lambda: F.pad(LINES, (5, 0), "reflect"), "by 0 to 4, not by 5 and 0"),
    (lambda: F.pad(LINES, (-1, 5), "circular"), "an axis of 4 .*, not by -1 and 5"),
    (lambda: F.pad(LINES, (1, 0), "reflect", 1.0), "value 1.0 is for mode 'constant'"),
    (lambda: F.pad(LINES, (1, 0), "wrap"),
     "^pad: mode must be 'constant', .* or 'circular', not 'wrap'"),
    (lambda: F.dropout2d(LINES), "^dropout2d: the input must be"),
    (lambda: nn.Dropout1d(2), "^Dropout1d: the probability p must be from 0 to 1"),
])  # fmt: skip
def test_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
