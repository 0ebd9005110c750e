"""Random changes of batches of images, named as in torchvision's ``transforms.v2``.

Each is a function of images ``(n, channels, height, width)``, or of a tuple or list that begins
with them, such as ``(images, labels)``, and changes each image in another way. It runs on the
device of the images. A `DataLoader` that prefetches calls it in its thread::

    from gpugrad.data import images

    augment = images.Compose([images.RandomCrop(28, padding=2), images.RandomHorizontalFlip()])
    loader = data.DataLoader(train, 64, shuffle=True, transform=augment, prefetch=2)

In a `DataLoader`, the random numbers for a batch depend on the loader's seed, the epoch and the
number of the batch. If the change was made with a ``generator``, they also depend on the state that
this had then. So a loop that continues in its middle, or in another process, gets the same batches.
Outside a loader, the change draws from that generator; without one it makes its own, with a seed
from the default generator. The same seed draws the same numbers on all devices.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Self

from .. import special
from .._arguments import check_floating, is_floating, one_of, require
from .._creation import asarray, create
from .._dtypes import isdtype
from .._foreign_names import Explained, explain_names
from .._limits import finfo, iinfo
from .._tensor import Tensor
from ..backends.dtypes import float32, float64
from ..nn import functional
from ..nn.common import Ints, per_axis
from ..ops.elementwise import where
from ..ops.indexing import take
from ..ops.manipulation import astype, flip, reshape, roll, stack
from ..random import Generator
from .samplers import seed_from

__all__ = """
    Compose MixUp Normalize RandomCrop RandomHorizontalFlip RandomRotation RandomVerticalFlip
""".split()
explain_names(__name__)


class Compose(Explained):
    """Calls one function after the other, each with the result of the one before it.

    transforms: of this module, or any other functions of a batch.
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = list(transforms)

    def __call__(self, batch: Any) -> Any:
        for transform in self.transforms:
            batch = transform(batch)
        return batch

    def for_batch(self, epoch: int, number: int, seed: int) -> "Compose":
        """The functions for a batch of a `DataLoader`, each with its own random numbers."""
        transforms = [
            x.for_batch(epoch, number, (seed << 16) + i) if hasattr(x, "for_batch") else x
            for i, x in enumerate(self.transforms, 1)
        ]
        return Compose(transforms)


class _Change(Explained):
    """Base class of the functions of images, or of a tuple or list that begins with images."""

    def __call__(self, batch: Any) -> Any:
        if isinstance(batch, dict):
            raise TypeError(
                f"{type(self).__name__}: takes images, or a tuple or list that begins with them, "
                f"not a dict; call it on the dict's images in a function of your own"
            )
        if not isinstance(batch, (tuple, list)):
            return self._change_images(self._check_images(batch))
        kept = getattr(type(batch), "_make", type(batch))
        return kept(self._change_batch(self._check_images(batch[0]), *batch[1:]))

    def _check_images(self, images):
        images = asarray(images)
        layout = f"{type(self).__name__}: the images must be (n, channels, height, width)"
        require(images.ndim == 4, layout, images.shape)
        return images

    def _check_floating(self, images):
        check_floating(images, f"{type(self).__name__}: the images", "; divide them by 255")

    def _change_batch(self, images, *others):
        return self._change_images(images), *others

    def _change_images(self, images: Tensor) -> Tensor:
        raise NotImplementedError


class _RandomChange(_Change):
    fill: float
    _seed = 0

    def __init__(self, generator: Generator | None) -> None:
        name = type(self).__name__
        if not isinstance(generator, Generator | None):
            raise TypeError(
                f"{name}: generator must be a gpugrad.random.Generator, not {generator!r}"
            )
        if generator is not None:
            state = generator.get_state()
            self._seed = seed_from(name, generator, None)
            generator.set_state(state)
        self.generator = generator or Generator(seed_from(name, None, None))

    def for_batch(self, epoch: int, number: int, seed: int) -> Self:
        """The function for a batch of a `DataLoader`, with its own random numbers."""
        made = copy(self)
        seed += self._seed << 128
        # With + 1 this is never the seed of an order of the same loader, see `SeededSampler`.
        made.generator = Generator(((2 * seed + 1) << 64) + (epoch << 32) + number)
        return made

    def _check_fill(self, dtype):
        if isdtype(dtype, "integral"):
            fits = iinfo(dtype).min <= self.fill <= iinfo(dtype).max
            require(fits, f"{type(self).__name__}: fill must fit {dtype}", self.fill)

    def _draw_uniform(self, images, low=0.0, high=1.0):
        """A random number for each image, in its library and on its device."""
        drawn = self.generator.uniform(images.shape[0], low=low, high=high, dtype=float64)
        if drawn.device == images.device and type(drawn._like) is type(images._like):
            return drawn
        return create("asarray", drawn.tolist(), dtype="float64", like=images)


class Normalize(_Change):
    """``(images - mean) / std``, for floating images.

    mean, std: numbers, or one for each channel.
    """

    def __init__(self, mean: float | Sequence[float], std: float | Sequence[float]) -> None:
        shapes = asarray(mean).shape, asarray(std).shape
        fits = all(len(s) < 2 for s in shapes) and len({s[0] for s in shapes if s}) < 2
        what = "Normalize: mean and std must be numbers, or as many as channels"
        require(fits, what, (mean, std))
        self.mean, self.std = (asarray(x, dtype=float64).tolist() for x in (mean, std))

    def _change_images(self, images: Tensor) -> Tensor:
        self._check_floating(images)
        pair = [create("asarray", x, like=images) for x in (self.mean, self.std)]
        mean, std = (reshape(x, (-1, 1, 1)) for x in pair)
        channels = max(mean.shape[0], std.shape[0])
        what = f"Normalize: the images must have {channels} channels"
        require(channels in (1, images.shape[1]), what, images.shape)
        return (images - mean) / std


class RandomCrop(_RandomChange):
    """A part of each image, at a random place: ``(n, channels, *size)``.

    size: height and width, or one number for both.
    padding: how many elements of the value ``fill`` to add at the edges first: one number for all
        edges, one for left and right and one for top and bottom, or one each for left, top, right
        and bottom.

    Raises ValueError for images that are smaller than ``size``, and with padding for a ``fill``
    outside the range of their integer dtype.
    """

    def __init__(
        self, size: Ints, padding: Ints = 0, *, fill: float = 0, generator: Generator | None = None
    ) -> None:
        super().__init__(generator)
        self.size = per_axis("RandomCrop: size", size, 2)
        is_pair = isinstance(padding, Sequence) and len(padding) == 2
        four = (*padding, *padding) if is_pair else padding  # type: ignore[misc]
        self.padding = per_axis("RandomCrop: padding", four, 4, 0)
        self.fill = fill

    def _change_images(self, images: Tensor) -> Tensor:
        left, top, right, bottom = self.padding
        if any(self.padding):
            self._check_fill(images.dtype)
        images = functional.pad(images, (left, right, top, bottom), value=self.fill)
        places = []
        for length, size in zip(images.shape[2:], self.size, strict=True):
            what = f"at least {self.size} with their padding, with axes (n, c, h, w)"
            require(length >= size, f"RandomCrop: images must be {what}", images.shape)
            first = astype(self._draw_uniform(images, 0, length - size + 1), "int64")
            first = where(first > length - size, length - size, first)  # by rounding
            places.append(first[:, None] + create("arange", size, dtype="int64", like=images))
        rows, columns = places
        n, channels, height, width = images.shape
        at = create("arange", n * channels, dtype="int64", like=images)
        at = reshape(at, (n, channels, 1, 1)) * height
        at = (at + rows[:, None, :, None]) * width + columns[:, None, None, :]
        return reshape(take(reshape(images, (-1,)), reshape(at, (-1,)), axis=0), at.shape)


class _RandomFlip(_RandomChange):
    axis: int

    def __init__(self, p: float = 0.5, *, generator: Generator | None = None) -> None:
        super().__init__(generator)
        require(0 <= p <= 1, f"{type(self).__name__}: p must be from 0 to 1", p)
        self.p = p

    def _change_images(self, images: Tensor) -> Tensor:
        is_turned = self._draw_uniform(images) < self.p
        return where(reshape(is_turned, (-1, 1, 1, 1)), flip(images, axis=self.axis), images)


class RandomHorizontalFlip(_RandomFlip):
    """Each image, or with probability ``p`` its mirror image, with left and right exchanged."""

    axis = -1


class RandomVerticalFlip(_RandomFlip):
    """Each image, or with probability ``p`` its mirror image, with top and bottom exchanged."""

    axis = -2


class RandomRotation(_RandomChange):
    """Each image, turned about its centre by a random angle; its size stays.

    degrees: the least and the largest angle, counter-clockwise, or the largest in both directions.
    interpolation: ``"nearest"`` or ``"bilinear"``.
    fill: the value of the places in the result that come from outside the image.

    Raises ValueError for a ``fill`` outside the range of the images' integer dtype.
    """

    def __init__(
        self,
        degrees: float | tuple[float, float],
        interpolation: str = "nearest",
        *,
        fill: float = 0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator)
        pair = degrees if isinstance(degrees, (tuple, list)) else (-degrees, degrees)
        require(len(pair) == 2, "RandomRotation: degrees must be a number or two", degrees)
        low, high = pair
        require(low <= high, "RandomRotation: degrees must be at least 0, or in order", degrees)
        self.degrees = low, high
        known = "nearest", "bilinear"
        self.interpolation = one_of("RandomRotation: interpolation", interpolation, known)
        self.fill = fill

    def _change_images(self, images: Tensor) -> Tensor:
        if 0 in images.shape:
            return images
        angles = self._draw_uniform(images, *self.degrees) * (math.pi / 180)
        height, width = images.shape[2:]
        across, along = angles.sin(), angles.cos()
        zeros = across * 0
        rows = (along, -across * (height / width), zeros), (across * (width / height), along, zeros)
        theta = stack([stack(row, axis=-1) for row in rows], axis=1)
        dtype = images.dtype
        is_wide = isdtype(dtype, "integral") and iinfo(dtype).bits > 16
        x = images if is_floating(images) else astype(images, float64 if is_wide else float32)
        grid = astype(functional.affine_grid(theta, images.shape), x.dtype)
        self._check_fill(dtype)
        sampled = functional.grid_sample(x, grid, self.interpolation)
        if self.fill:
            inside = create("ones", (images.shape[0], 1, height, width), like=x)
            outside = 1 - functional.grid_sample(inside, grid, self.interpolation)
            # A place that is outside by rounding alone gets nothing of a fill, which may be inf.
            is_outside = outside > float(finfo(x.dtype).eps) ** 0.5
            filled = sampled + where(is_outside, outside, 1.0) * self.fill
            sampled = where(is_outside, filled, sampled)
        return sampled if sampled.dtype == dtype else astype(round(sampled), dtype)


class MixUp(_RandomChange):
    """Each image mixed with the one before it in the batch, and their labels too.

    Of a batch ``(images, labels)`` it returns ``share * images + (1 - share) * others``, and the
    same of the labels as probabilities, ``(n, classes)``, which `cross_entropy` takes. The first
    image is mixed with the last (Zhang et al. 2018).

    alpha: each image's share is from the beta distribution with both parameters ``alpha``. A small
        ``alpha`` gives shares close to 0 and 1. Other values than 1 need SciPy.
    num_classes: how many classes there are, if the labels are integers ``(n,)``.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        num_classes: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(generator)
        require(alpha > 0, "MixUp: alpha must be above 0", alpha)
        self.alpha = alpha
        self.num_classes = num_classes

    def _change_images(self, images: Tensor) -> Tensor:
        raise TypeError("MixUp: needs a batch (images, labels), not images alone")

    def _change_batch(self, images, *others):
        if not others:
            self._change_images(images)
        labels, rest = asarray(others[0]), others[1:]
        self._check_floating(images)
        if not is_floating(labels):
            if self.num_classes is None:
                raise ValueError("MixUp: integer labels need num_classes")
            require(labels.ndim == 1, "MixUp: integer labels must be (n,)", labels.shape)
            labels = astype(functional.one_hot(labels, self.num_classes), images.dtype)
        share = self._draw_uniform(images)
        if self.alpha != 1:
            share = special.betaincinv(self.alpha, self.alpha, share)

        def mixed(x):
            own = astype(reshape(share, (-1, *[1] * (x.ndim - 1))), x.dtype)
            return own * x + (1 - own) * roll(x, 1, axis=0)

        return mixed(images), mixed(labels), *rest
