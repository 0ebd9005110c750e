"""Training by several processes: collectives, data parallelism and sharded optimizers.

A launcher starts the processes, each of which calls `init` and then runs the same program::

    mpiexec -n 4 python train.py

Arrays on the CPU go through MPI, by mpi4py, and arrays on CUDA devices through NCCL. Without a
launcher there is one process, and everything here works with it; mpi4py is not needed then.
"""

from .._foreign_names import explain_names as _explain_names
from .collectives import all_gather as all_gather
from .collectives import all_reduce as all_reduce
from .collectives import barrier as barrier
from .collectives import broadcast as broadcast
from .collectives import init as init
from .collectives import local_rank as local_rank
from .collectives import rank as rank
from .collectives import reduce_scatter as reduce_scatter
from .collectives import size as size
from .data_parallel import DataParallel as DataParallel
from .sharded_optimizer import ShardedOptimizer as ShardedOptimizer

__all__ = sorted([name for name, x in globals().items() if callable(x) and name[0] != "_"])
_explain_names(__name__)
