"""Data sets and batches: `DataLoader`, the embedded `digits`, and MNIST's file format.

Random changes of batches of images, as for augmentation, are in `gpugrad.data.images`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .._foreign_names import missing
from .collate import default_collate
from .dataset import ConcatDataset, Dataset, Subset, TensorDataset, random_split
from .digits import digits
from .idx import idx_dataset, read_idx
from .loader import DataLoader
from .samplers import (
    BatchSampler,
    DistributedBatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedBatchSampler",
    "DistributedSampler",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "WeightedRandomSampler",
    "default_collate",
    "digits",
    "idx_dataset",
    "images",
    "random_split",
    "read_idx",
]
__dir__ = __all__.copy

if TYPE_CHECKING:
    from . import images as images
else:

    def __getattr__(name):
        if name == "images":  # it needs `gpugrad.nn`, which other programs need not wait for
            return import_module(".images", __name__)
        raise missing(__name__, name)
