"""Data sets and batches: `DataLoader`, the embedded `digits`, and MNIST's file format."""

from typing import TYPE_CHECKING

from .._foreign_names import answer
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
    "random_split",
    "read_idx",
]
__dir__ = __all__.copy

if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
