"""The handwritten digits that come with the package."""

from pathlib import Path

from .dataset import TensorDataset
from .idx import KINDS, labelled_images

_HERE = Path(__file__).parent


def digits() -> tuple[TensorDataset, TensorDataset]:
    """1,797 handwritten digits of 8x8 pixels: 1,437 to train and 360 to test with.

    Returns two `TensorDataset` of ``(n, 64)`` float32 images in [0, 1], row after row,
    and ``(n,)`` int64 labels. Every fifth image, from the first on, is in the test part.

    From "Optical Recognition of Handwritten Digits" by E. Alpaydin and C. Kaynak (1998),
    UCI Machine Learning Repository, https://doi.org/10.24432/C50P49, licensed under CC BY
    4.0; the same images in the same order as scikit-learn's ``load_digits``.
    """
    every = labelled_images(*[_HERE / f"digits-{kind}.gz" for kind in KINDS], white=16, classes=10)
    test = range(0, len(every), 5)
    train = sorted(set(range(len(every))) - set(test))
    return TensorDataset(*every[train]), TensorDataset(*every[list(test)])
