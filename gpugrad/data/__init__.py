"""Data sets and batches: `DataLoader`, the embedded `digits`, and MNIST's file format.

Random changes of batches of images, as for augmentation, are in `gpugrad.data.images`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from .._foreign_names import missing as _missing
from .collate import default_collate as default_collate
from .dataset import ConcatDataset as ConcatDataset
from .dataset import Dataset as Dataset
from .dataset import Subset as Subset
from .dataset import TensorDataset as TensorDataset
from .dataset import random_split as random_split
from .digits import digits as digits
from .idx import idx_dataset as idx_dataset
from .idx import read_idx as read_idx
from .loader import DataLoader as DataLoader
from .samplers import BatchSampler as BatchSampler
from .samplers import DistributedBatchSampler as DistributedBatchSampler
from .samplers import DistributedSampler as DistributedSampler
from .samplers import RandomSampler as RandomSampler
from .samplers import Sampler as Sampler
from .samplers import SequentialSampler as SequentialSampler
from .samplers import WeightedRandomSampler as WeightedRandomSampler

_names = [name for name, x in globals().items() if callable(x) and name[0] != "_"]
__all__ = sorted([*_names, "images"])
__dir__ = __all__.copy

if TYPE_CHECKING:
    from . import images as images
else:

    def __getattr__(name):
        if name == "images":  # it needs `gpugrad.nn`, which other programs need not wait for
            return _import_module(".images", __name__)
        raise _missing(__name__, name)
