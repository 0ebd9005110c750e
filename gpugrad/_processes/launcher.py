"""What the environment says about the program that started this process."""

import os

# The variable in which each launcher gives the number of processes. Slurm sets the one used here
# only for what `srun` starts, and not for the batch script around it.
_SIZES = {
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec",
    "PMI_SIZE": "mpiexec",
    "SLURM_STEP_NUM_TASKS": "srun",
    "WORLD_SIZE": "torchrun",
}


def processes_launched() -> tuple[int, str]:
    """The number of processes that were started together, and what started them."""
    # MPI's launcher or Slurm's may have started torchrun, once on each machine.
    names = ["WORLD_SIZE"] if "TORCHELASTIC_RUN_ID" in os.environ else [*_SIZES]
    for name in names:
        size = os.environ.get(name, "")
        if size.isdecimal():
            return max(int(size), 1), _SIZES[name]
    return 1, "no launcher"
