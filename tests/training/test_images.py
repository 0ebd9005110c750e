"""Random changes of batches of images, compared with NumPy and SciPy image by image."""

from functools import partial
from itertools import islice

import numpy as np
import pytest
from samples import error_test

import gpugrad as gg
from gpugrad import data
from gpugrad.data import images
from gpugrad.random import Generator
from gpugrad.testing import assert_close

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3, 5, 4))
BYTES = RNG.integers(0, 256, (4, 3, 5, 4), dtype=np.uint8)
LABELS = RNG.integers(0, 7, 40)

MADE = {
    "crop": partial(images.RandomCrop, (4, 3), 1),
    "horizontal": images.RandomHorizontalFlip,
    "vertical": partial(images.RandomVerticalFlip, 0.3),
    "rotation": partial(images.RandomRotation, 30, "bilinear"),
    "mixup": partial(images.MixUp, num_classes=7),
}
every_change = pytest.mark.parametrize("make", MADE.values(), ids=MADE)


def changed(transform, batch=(X, LABELS)):
    return [x.numpy() for x in transform(tuple(map(gg.tensor, batch)))]


def test_a_crop_is_a_window_of_the_padded_image(library):
    out = library.values(images.RandomCrop((4, 6), (2, 1), fill=7.0)(library.tensor(X)))
    padded = np.pad(X, ((0, 0), (0, 0), (1, 1), (2, 2)), constant_values=7.0)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (4, 6), (2, 3))
    assert windows.shape[2:4] == (4, 3)
    found = []
    for own, image in zip(windows, out, strict=True):
        same = np.argwhere((own.transpose(1, 2, 0, 3, 4) == image).all((2, 3, 4)))
        assert len(same) == 1
        found.append(tuple(same[0]))
    assert {*found} == {(i, j) for i in range(4) for j in range(3)}


def test_paddings_of_crops():
    for padding in (1, (1, 2), (0, 1, 2, 3)):
        left, top, right, bottom = ((padding,) * 4 if padding == 1 else padding * 2)[:4]
        out = images.RandomCrop((5 + top + bottom, 4 + left + right), padding)(X).numpy()
        expected = np.pad(X, ((0, 0), (0, 0), (top, bottom), (left, right)))
        np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("kind, axis", [("RandomHorizontalFlip", 3), ("RandomVerticalFlip", 2)])
def test_a_flip_is_numpys(library, kind, axis):
    out = library.values(getattr(images, kind)(0.3)(library.tensor(X)))
    is_flipped = (out == np.flip(X, axis)).all((1, 2, 3))
    assert ((out == X).all((1, 2, 3)) != is_flipped).all()
    assert 3 <= is_flipped.sum() <= 25
    for p, expected in ((0, X), (1, np.flip(X, axis))):
        np.testing.assert_array_equal(getattr(images, kind)(p)(X).numpy(), expected)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_rotation_is_scipys(library, interpolation):
    ndimage = pytest.importorskip("scipy.ndimage")
    angles = Generator(3).uniform(40, low=-70, high=20, dtype=gg.float64).numpy() * (np.pi / 180)
    turn = images.RandomRotation((-70, 20), interpolation, fill=0.5, generator=Generator(3))
    out, centre = library.values(turn(library.tensor(X))), np.array([2, 1.5])
    for angle, image, own in zip(angles, X, out, strict=True):
        c, s = np.cos(angle), np.sin(angle)
        matrix = np.array([[c, s], [-s, c]])
        options = {"order": interpolation == "bilinear", "mode": "grid-constant", "cval": 0.5}
        for before, after in zip(image, own, strict=True):
            expected = ndimage.affine_transform(before, matrix, centre - matrix @ centre, **options)
            assert_close(after, expected, rtol=1e-10, atol=1e-12)


def test_rotations_of_integers_by_right_angles():
    x = RNG.integers(0, 256, (3, 2, 6, 6)).astype("uint8")
    for mode in ("nearest", "bilinear"):
        out = images.RandomRotation((90, 90), mode)(x).numpy()
        assert out.dtype == "uint8"
        np.testing.assert_array_equal(out, np.rot90(x, axes=(2, 3)))
        large = x.astype("int32") + 2**30
        np.testing.assert_array_equal(images.RandomRotation(0, mode)(large).numpy(), large)
        assert images.RandomRotation(9, mode)(x[:0]).shape == (0, 2, 6, 6)


def test_normalize_is_numpys(library):
    mean, std = [0.1, 0.2, 0.3], [0.5, 1.0, 2.0]
    out = library.values(images.Normalize(mean, std)(library.tensor(X.astype("float32"))))
    expected = (X - np.reshape(mean, (3, 1, 1))) / np.reshape(std, (3, 1, 1))
    assert out.dtype == "float32"
    assert_close(out, expected.astype("float32"), rtol=1e-5, atol=1e-6)
    assert_close(images.Normalize(2, 3)(X).numpy(), (X - 2) / 3)
    assert_close(images.Normalize(0.1, 0.3)(X).numpy(), (X - 0.1) / 0.3, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("alpha", [0.3, 1, 2])
def test_mixed_images_and_labels_have_the_same_share(alpha):
    stats, x = pytest.importorskip("scipy.stats"), RNG.standard_normal((2000, 1, 1, 2))
    labels, mix = np.arange(2000) % 3, images.MixUp(alpha, num_classes=3, generator=Generator(1))
    mixed, shares = changed(mix, (x, labels))
    own = shares[np.arange(2000), labels]  # the image before has another label
    hot = np.eye(3)[labels]
    assert_close(shares, own[:, None] * hot + (1 - own[:, None]) * np.roll(hot, 1, 0))
    own = own[:, None, None, None]
    assert_close(mixed, own * x + (1 - own) * np.roll(x, 1, 0))
    assert stats.kstest(own.ravel(), stats.beta(alpha, alpha).cdf).pvalue > 0.01
    soft = changed(images.MixUp(alpha, generator=Generator(1)), (x, np.eye(3)[labels]))
    np.testing.assert_array_equal(soft[1], shares)


def same(a, b):
    """Compare lists of arrays, or lists of batches."""
    for x, y in zip(a, b, strict=True):
        same(x, y) if isinstance(x, list) else np.testing.assert_array_equal(x, y)


def batches(loader, stop=None):
    return [[x.numpy() for x in batch] for batch in islice(loader, stop)]


@every_change
@pytest.mark.parametrize("is_whole", [True, False], ids=["tensors", "samples"])
def test_a_loader_draws_by_epoch_and_batch_alone(make, is_whole):
    pairs = data.TensorDataset(gg.tensor(X), gg.tensor(LABELS))
    dataset = pairs if is_whole else data.Subset([*zip(X, LABELS, strict=True)], range(40))

    def loader(prefetch):
        gg.manual_seed(4)
        transform = images.Compose([make(), tuple, images.RandomHorizontalFlip()])
        return data.DataLoader(dataset, 16, shuffle=True, transform=transform, prefetch=prefetch)

    plain = loader(0)
    first, second = batches(plain), batches(plain)
    assert not any(np.array_equal(a[0], b[0]) for a, b in zip(first, second, strict=True))
    ahead = loader(3)
    batches(ahead, 1)  # left while further batches were prepared
    same(batches(ahead), second)
    ahead.epoch = 0
    same(batches(ahead), first)
    left = loader(2)
    passed = iter(left)
    next(passed)
    resumed = loader(1)
    resumed.load_state_dict(left.state_dict())
    same(batches(resumed), first[1:])
    same(batches(resumed), second)
    with pytest.raises(ValueError, match="transform_seed must be an int"):
        resumed.load_state_dict(left.state_dict() | {"transform_seed": "x"})
    late = data.DataLoader(dataset, 16)
    late.transform = plain.transform
    assert len(batches(late)) == 3


@every_change
def test_a_generator_of_its_own_decides_in_a_loader_too(make):
    """What was drawn from it before the loop, or in a loop that was left, does not matter."""
    pairs = data.TensorDataset(gg.tensor(X), gg.tensor(LABELS))

    def loader(seed, prefetch=0):
        change = make(generator=Generator(seed))
        return data.DataLoader(pairs, 16, transform=change, seed=0, prefetch=prefetch)

    first, second = batches(loader(5)), loader(5, 2)
    changed(second.transform)
    same(batches(second), first)
    assert any((a[0] != b[0]).any() for a, b in zip(batches(loader(6)), first, strict=True))
    resumed = loader(5)
    resumed.load_state_dict(second.state_dict())
    same(batches(resumed), batches(second))


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_fills_of_rotations(interpolation):
    x = X[..., :3].astype(np.float32)
    for fill in (-1e9, np.inf, np.nan):
        still = images.RandomRotation((0, 0), interpolation, fill=fill)(x)
        assert still.dtype == gg.float32
        np.testing.assert_allclose(still.numpy(), x, atol=1e-5)
        turned = images.RandomRotation((90, 90), interpolation, fill=fill)(x).numpy()
        np.testing.assert_allclose(turned[..., [0, -1], :], fill, rtol=1e-5)
        inner = np.rot90(x[..., 1:4, :], axes=(2, 3))
        np.testing.assert_allclose(turned[..., 1:4, :], inner, atol=1e-5)


def test_other_members_of_a_batch_are_kept():
    x, label, name = images.RandomHorizontalFlip(1.0)([gg.tensor(X), 3, "a"])
    assert (label, name) == (3, "a")
    np.testing.assert_array_equal(x.numpy(), X[..., ::-1])
    assert images.RandomCrop(2)(X[:0]).shape == (0, 3, 2, 2)


FLIP, CROP, MIX = images.RandomHorizontalFlip, images.RandomCrop, images.MixUp


test_errors = error_test([
    (lambda: CROP(6)(X), ValueError, r"^RandomCrop: images must be at least"),
    (lambda: CROP(2, -1), ValueError, "^RandomCrop: padding must be one or 4"),
    (lambda: CROP(2, 1, fill=-1)(BYTES), ValueError, "^RandomCrop: fill must"),
    (lambda: CROP(2, 1, fill=np.nan)(BYTES), ValueError, "fill must fit uint8"),
    (lambda: FLIP(2), ValueError, "^RandomHorizontalFlip: p must be"),
    (lambda: FLIP(generator=3), TypeError, "must be a gpugrad.random.G"),
    (lambda: FLIP()({"x": X}), TypeError, "with them, not a dict"),
    (lambda: images.RandomVerticalFlip()(X[0]), ValueError, r"must be \(n, channels, height,"),
    (lambda: images.RandomRotation(-3), ValueError, "^RandomRotation: degrees must be at"),
    (lambda: images.RandomRotation(3, "cubic"), ValueError, "must be 'nearest' or"),
    (lambda: images.RandomRotation((1, 2, 3)), ValueError, "must be a number or two"),
    (lambda: images.RandomRotation(3, fill=300)(BYTES), ValueError, "fill must fit uint8"),
    (lambda: images.Normalize(0, 1)(X.astype(int)), TypeError, "divide them by 255"),
    (lambda: images.Normalize([0, 0, 0], [1, 1]), ValueError, "as many as channels"),
    (lambda: images.Normalize([0, 0, 0], 1)(X[:, :1]), ValueError, "must have 3 channels"),
    (lambda: MIX()((X, LABELS)), ValueError, "integer labels need num_classes"),
    (lambda: MIX()(X), TypeError, r"needs a batch \(images, labels\)"),
    (lambda: MIX()((X,)), TypeError, r"needs a batch \(images, labels\)"),
    (lambda: MIX(0.0), ValueError, "alpha must be above 0"),
    (lambda: MIX(num_classes=7)((X.astype(int), LABELS)), TypeError, "by 255"),
    (lambda: MIX(num_classes=7)((X, LABELS[:, None])), ValueError, r"must be \(n,\)"),
])  # fmt: skip
