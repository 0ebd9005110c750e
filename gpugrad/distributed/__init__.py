"""Training by several processes: collectives, data parallelism and sharded optimizers.

A launcher starts the processes, each of which calls `init` and then runs the same program::

    mpiexec -n 4 python train.py

Arrays on the CPU go through MPI, by mpi4py, and arrays on CUDA devices through NCCL. Without a
launcher there is one process, and everything here works with it; mpi4py is not needed then.
"""

from typing import TYPE_CHECKING

from .._foreign_names import answer
from .collectives import (
    all_gather,
    all_reduce,
    barrier,
    broadcast,
    init,
    local_rank,
    rank,
    reduce_scatter,
    size,
)
from .data_parallel import DataParallel
from .sharded_optimizer import ShardedOptimizer

__all__ = [
    "DataParallel",
    "ShardedOptimizer",
    "all_gather",
    "all_reduce",
    "barrier",
    "broadcast",
    "init",
    "local_rank",
    "rank",
    "reduce_scatter",
    "size",
]
__dir__ = __all__.copy

if not TYPE_CHECKING:
    __getattr__ = answer(__name__)
