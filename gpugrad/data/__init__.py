"""Data sets and batches: `DataLoader`, the embedded `digits`, and MNIST's file format."""

from typing import TYPE_CHECKING

from .._foreign_names import answer as _answer
from .dataset import DataLoader, TensorDataset
from .digits import digits
from .idx import idx_dataset, read_idx

__all__ = ["DataLoader", "TensorDataset", "digits", "idx_dataset", "read_idx"]
__dir__ = __all__.copy
if not TYPE_CHECKING:
    __getattr__ = _answer(__name__)
