"""Who this process is among the others, and collectives of trees of tensors."""

from importlib.util import find_spec
from typing import Any, Literal

from .._arguments import between, is_floating, one_of, require, whole
from .._dtypes import is_half, isdtype
from .._foreign_names import explains_arguments
from .._processes import Group, current, install, processes_launched
from .._processes.communicating import Started, communicate, finish
from .._tensor import is_recorded
from ..autograd.call import wrap
from ..backends import backend_of
from ..transforms.trees import as_tensor, flatten, map_tensors, names, unflatten

_initialized = False


@explains_arguments
def init(timeout: float = 60.0, *, check: bool = False) -> None:
    """Join the processes that a launcher started together; called first, once, by each of them.

    The launcher is MPI's ``mpiexec``, or Slurm's ``srun`` if it knows the MPI that mpi4py uses.
    Without a launcher, or if it started one process, nothing happens and mpi4py is not imported.

    Afterwards an error that a process does not handle is shown with its rank and ends all
    processes, and so does a process that ends while others need it.

    timeout: for how many seconds to wait for the others, here and in each collective. Then an error
        says what each rank waits for, and which ranks do not answer. Give more time if one rank may
        work alone for longer than that.
    check: whether to compare, before each collective, what the ranks are about to do. If the order,
        shapes or dtypes differ, an error names the ranks. Each collective then takes longer.
        Without the check, such processes may get wrong values.

    Raises ImportError if mpi4py or an MPI is missing, and RuntimeError if the processes do not find
    each other by MPI, such as those of ``torchrun``.
    """
    global _initialized
    timeout = between("distributed.init: timeout, in seconds,", timeout, 0)
    if _initialized:
        return
    launched, launcher = processes_launched()
    install(Group() if launched == 1 else _mpi_group(launched, launcher, timeout, check))
    _initialized = True


def _mpi_group(launched, launcher, timeout, check):
    begun = f"distributed.init: {launcher} started {launched} processes"
    remedy = "pip install mpi4py mpich, unless the system has an MPI"
    missing = f"{begun}, which need mpi4py and an MPI: {remedy}"
    if find_spec("mpi4py") is None:
        raise ImportError(missing)
    remedy = f"start them by mpiexec -n {launched} python program.py"
    if launcher == "torchrun":
        raise RuntimeError(
            f"distributed.init: torchrun, or what set WORLD_SIZE, started {launched} processes, "
            f"which MPI does not know; {remedy}"
        )
    try:
        from .._processes.mpi import MPI, MPIGroup
    except (ImportError, RuntimeError) as error:  # a RuntimeError if there is no MPI
        raise ImportError(f"{missing} ({error})") from error
    size = MPI.COMM_WORLD.size
    if size != launched:
        library = " ".join(MPI.Get_library_version().split("\n")[0].split(",")[0].split())
        raise RuntimeError(
            f"{begun}, but mpi4py, which uses {library}, finds {size}; {remedy}, the mpiexec of "
            f"that MPI"
        )
    return MPIGroup(timeout, bool(check))


def rank() -> int:
    """The number of this process, from 0 to ``size() - 1``.

    This and all other functions raise RuntimeError if a launcher started several processes and
    `init` has not been called.
    """
    return current().rank


def size() -> int:
    """The number of processes."""
    return current().size


def local_rank() -> int:
    """The number of this process among those on the same machine, from 0 on.

    It usually is the number of the process's GPU: ``device=f"cuda:{local_rank()}"``.
    """
    return current().local_rank


@explains_arguments
def barrier() -> None:
    """Wait until all processes are here."""
    communicate(current().barrier)


@explains_arguments
def all_reduce(tree: Any, op: Literal["sum", "mean", "max", "min"] = "sum") -> Any:
    """The elementwise sum, mean, maximum or minimum of the tensors of all processes.

    tree: a tensor, or nested containers of tensors, with the same structure, shapes and dtypes in
        all processes.

    Returns new tensors, the same in all processes and the same bits from run to run. 16-bit
    numbers are summed in float32 on the CPU, and as they are on CUDA devices; for a mean they are
    divided before. Nothing is recorded: this and the other collectives raise ValueError for tensors
    that require grad, and TypeError for bools, and for the mean of integers.
    """
    one_of("all_reduce: op", op, ("sum", "mean", "max", "min"))

    def checked(x):
        if op == "mean" and not is_floating(x):
            raise TypeError(f"all_reduce: the mean of {x.dtype} needs a floating dtype; convert it")
        return x / size() if op == "mean" and is_half(x.dtype) else x  # their sum may be infinite

    def reduced(x):
        if is_extreme:
            return getattr(x, op)(axis=0)
        return x / size() if op == "mean" and not is_half(x.dtype) else x

    is_extreme = op in ("max", "min")  # MPI's own differs among the processes if there is a nan
    by = "all_gather" if is_extreme else "all_reduce"
    return map_tensors(reduced, _run("all_reduce", tree, checked=checked, by=by))


@explains_arguments
def broadcast(tree: Any, root: int = 0) -> Any:
    """The tensors of process ``root``, in all processes.

    tree: in each process a tensor, or nested containers of tensors, of the shapes and dtypes of
        those of ``root``. See `all_reduce`.
    """
    below = whole("broadcast: root", root, 0) < size()
    require(below, f"broadcast: root must be a rank, below {size()}", root)
    return _run("broadcast", tree, root)


@explains_arguments
def all_gather(tree: Any) -> Any:
    """The tensors of all processes: ``(...) -> (size, ...)``, in the order of the ranks.

    tree: a tensor, or nested containers of tensors. See `all_reduce`.
    """
    return _run("all_gather", tree)


@explains_arguments
def reduce_scatter(tree: Any) -> Any:
    """The sum of this process's part of the tensors of all processes: ``(size, ...) -> (...)``.

    This is ``all_reduce(tree)[rank()]``, for less than half of the traffic.

    tree: a tensor, or nested containers of tensors, whose first axis has the length ``size()``.
        See `all_reduce`.
    """

    def checked(x):
        what = f"reduce_scatter: the shape must begin with {size()}, the number of processes"
        require(x.shape[:1] == (size(),), what, x.shape)
        return x

    return _run("reduce_scatter", tree, checked=checked)


def _run(name, tree, *args, checked=lambda x: x, by=None):
    """Start a collective of `Group` for each tensor of a tree; wait, and return the results' tree.

    args: the collective's arguments after the array.
    checked: ``checked(x)`` is what the collective takes of a tensor, or raises an error.
    by: the collective; by default that with this name.
    """
    leaves, structure = flatten(tree)
    arrays, collective = [], by or name
    for x, what in zip(leaves, names(structure, "tree"), strict=True):
        x = as_tensor(x, f"{name}: {what}")
        if is_recorded(x):
            raise ValueError(
                f"{name}: a tensor of shape {x.shape} requires grad, and its gradient would be "
                f"lost; call detach() first"
            )
        if "reduce" in name and isdtype(x.dtype, "bool"):
            raise TypeError(f"{name}: bools cannot be reduced; convert them to integers")
        arrays.append(checked(x).array)

    def start(array):
        backend = backend_of[type(array)]
        with backend.scope(array):
            copy = backend.xp.reshape(backend.asarray(array, copy=True), (-1,))  # contiguous
            out, given = (copy := backend.xp.reshape(copy, array.shape)), args
            shapes = {"all_gather": (size(), *array.shape), "reduce_scatter": array.shape[1:]}
            if collective in shapes:  # the others overwrite the array
                out = backend.create("empty", shapes[collective], dtype=array.dtype, like=array)
                given = (out,)
            return Started(out, getattr(current(), collective), copy, *given)

    start.__name__ = f"start_{name}"
    started = [communicate(start, x) for x in arrays]
    arrays = [communicate(finish, one, results=True)[0] for one in started]
    return unflatten(structure, [wrap(array, None) for array in arrays])
