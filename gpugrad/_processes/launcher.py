"""What the environment says about the program that started this process."""

import os
import re
from typing import NamedTuple

# The variable in which each launcher gives the number of processes. Slurm sets the one used here
# only for what `srun` starts, and not for the batch script around it.
_SIZES = {
    "OMPI_COMM_WORLD_SIZE": "Open MPI's mpiexec",
    "PMI_SIZE": "mpiexec",
    "SLURM_STEP_NUM_TASKS": "srun",
    "WORLD_SIZE": "torchrun",
}


class MeetingPoint(NamedTuple):
    """Where processes meet that no launcher of MPI has started.

    rank: the number of this process.
    address: that of rank 0's machine.
    port: rank 0 listens on one of the ports after this one.
    job: a word that distinguishes these processes from those of other jobs.
    """

    rank: int
    address: str
    port: int
    job: str


def processes_launched() -> tuple[int, str]:
    """The number of processes that were started together, and what started them."""
    variable = _size_variable()
    if variable is None:
        return 1, "no launcher"
    return max(int(os.environ[variable]), 1), _SIZES[variable]


def meeting_point() -> MeetingPoint | None:
    """Where several processes meet; None if a launcher of MPI brings them together.

    Raises RuntimeError if environment variables are missing, or are not what they should be.
    """
    variable = _size_variable()
    if variable in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE"):
        return None
    if "PMIX_RANK" in os.environ and not _by_torchrun():
        return None  # set by srun --mpi=pmix
    if variable == "WORLD_SIZE":
        rank, address, port = (_get(name) for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"))
        words = [port, _get("WORLD_SIZE")]
        words += [os.environ.get(f"TORCHELASTIC_{x}", "") for x in ("RUN_ID", "RESTART_COUNT")]
    else:
        rank = _get("SLURM_PROCID")
        # The first name of a list such as "gpu[07-09,12],cpu1": rank 0 is there.
        nodes = re.match(r"([^,\[]*)(?:\[(\d+)[^\]]*\]([^,]*))?", _get("SLURM_STEP_NODELIST"))
        address = "".join(part or "" for part in nodes.groups()) if nodes else ""
        words = [_get("SLURM_JOB_ID"), _get("SLURM_STEP_ID")]
        # Concurrent steps on a machine get ranges of ports that do not overlap.
        port = str(20000 + 8 * sum(int(x) for x in words if x.isdecimal()) % 20000)
    size = int(os.environ[variable or ""])
    if not (rank.isdecimal() and int(rank) < size and port.isdecimal() and int(port) < 1 << 16):
        raise RuntimeError(
            f"distributed.init: the environment gives this process the rank {rank} of {size} and "
            f"the port {port}; ranks are numbers below {size}, and ports below {1 << 16}"
        )
    return MeetingPoint(int(rank), address, int(port), re.sub(r"\W", "_", "-".join(words)))


def _size_variable():
    """The name of the variable that gives the number of processes, or None."""
    given = [name for name in _SIZES if os.environ.get(name, "").isdecimal()]
    # MPI's launcher or Slurm's may have started torchrun, once on each machine, and a batch script
    # may have set WORLD_SIZE for all that it starts.
    is_torch_style = _by_torchrun() or (
        "RANK" in os.environ and given[:1] == ["SLURM_STEP_NUM_TASKS"]
    )
    if is_torch_style and "WORLD_SIZE" in given:
        return "WORLD_SIZE"
    return given[0] if given else None


def _by_torchrun():
    return "TORCHELASTIC_RUN_ID" in os.environ


def _get(name):
    value = os.environ.get(name)
    if not value:
        raise RuntimeError(
            f"distributed.init: the environment says that there are several processes, but {name} "
            f"is not set; torchrun sets WORLD_SIZE, RANK, MASTER_ADDR and MASTER_PORT"
        )
    return value
