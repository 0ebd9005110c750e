"""Each library on a device: whether it can be used, its versions, precision and clock.

Everything except `state` is called in the library's own process.
"""

import ctypes
import importlib
import math
import os
import shutil
import subprocess
from functools import cached_property

import numpy as np

# Name here -> module, in the order of the turns.
LIBRARIES = {
    "gpugrad": "gpugrad",
    "gpugrad compiled": "gpugrad",
    "torch": "torch",
    "torch compile": "torch",
    "torch graph": "torch",
    "jax jit": "jax",
}

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}

# How many float32 numbers are copied to keep a GPU busy, and to measure its bandwidth.
COPY_SIZE = 100_000_000
COPY_SIZE_SHORT = 10_000

# JAX would take three quarters of the GPU's memory, and leave too little for the others.
ENVIRONMENT = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}


class LeftOut(Exception):
    """Raised for what a library cannot do, at all or on this device."""


def start(library, device):
    """Return a description of the library on the device, or raise `LeftOut` with the reason."""
    os.environ.update(ENVIRONMENT)
    if device == "cpu":
        os.environ["JAX_PLATFORMS"] = device
    try:
        module = importlib.import_module(LIBRARIES[library])
    except ImportError as error:
        raise LeftOut(f"it is not installed: {error}") from None
    about = {"version": module.__version__}
    if device == "cpu" and library == "torch graph":
        raise LeftOut("a CPU has no CUDA graphs")
    if device == "cpu":
        return about
    return about | globals()[f"_{LIBRARIES[library]}_on_cuda"]()


def _gpugrad_on_cuda():
    import gpugrad

    if problem := gpugrad.cuda.why_not():
        raise LeftOut(problem)
    import cupy
    from cupy.cuda import runtime

    properties = runtime.getDeviceProperties(0)
    return {
        "device": properties["name"].decode(),
        "compute_capability": f"{properties['major']}.{properties['minor']}",
        "memory_gib": round(properties["totalGlobalMem"] / 2**30, 1),
        "cupy": cupy.__version__,
        "cuda_runtime": _cuda_version(runtime.runtimeGetVersion()),
        "cuda_of_driver": _cuda_version(runtime.driverGetVersion()),
    }


def _cuda_version(number):
    return f"{number // 1000}.{number % 1000 // 10}"


def _torch_on_cuda():
    import torch

    if torch.version.cuda is None:
        raise LeftOut(f"PyTorch {torch.__version__} is built without CUDA")
    if not torch.cuda.is_available():
        raise LeftOut(f"PyTorch {torch.__version__} finds no CUDA device")
    return {"device": torch.cuda.get_device_name(0), "cuda": torch.version.cuda}


def _jax_on_cuda():
    import jax

    try:
        return {"device": jax.devices("cuda")[0].device_kind}
    except RuntimeError as error:
        raise LeftOut(f"JAX {jax.__version__} finds no CUDA device: {error}") from None


def use(library, precision, device):
    """Set the precision of products from now on; return the library's dtype for it."""
    if precision == "tf32" and device == "cpu":
        raise LeftOut("a CPU has no TF32")
    name = DTYPES[precision]
    if LIBRARIES[library] == "gpugrad":
        import gpugrad

        if device == "cuda":
            gpugrad.cuda.allow_tf32(precision == "tf32")
        try:
            return getattr(gpugrad, name)
        except ImportError as error:  # bfloat16 needs another package
            raise LeftOut(str(error)) from None
    if library == "jax jit":
        import jax

        # By default JAX uses TF32 for float32.
        setting = {"fp32": "float32", "tf32": "tensorfloat32"}.get(precision)
        jax.config.update("jax_default_matmul_precision", setting)
        return jax.numpy.dtype(name)
    import torch

    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    torch.backends.cudnn.allow_tf32 = precision == "tf32"  # which is on by default
    torch.backends.cudnn.benchmark = True  # the fastest of cuDNN's algorithms
    return getattr(torch, name)


def training_step(library, loss_of, model, optimizer):
    """Return a function that does one step of gpugrad or PyTorch and returns the loss.

    loss_of: returns the loss; None for a step that only updates parameters, without a model.
    """
    if library == "torch compile":
        import torch

        torch.compiler.reset()
        if loss_of is None:  # the optimizer's own loops are what there is to compile
            optimizer.step = torch.compile(optimizer.step)
        else:
            loss_of = torch.compile(loss_of, mode="reduce-overhead")

    def step():
        if loss_of is None:
            optimizer.step()
            return None
        if library == "torch compile":  # the result of the last step may be overwritten
            torch.compiler.cudagraph_mark_step_begin()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        return loss.detach()

    if library == "torch graph":
        return torch_graph(step, model, optimizer)
    if library == "gpugrad compiled":
        import gpugrad

        return gpugrad.compile(step)
    return step


def jax_step(loss_of, update, parameters, *data):
    """Return a function that does one step of JAX, as one program, and returns the loss.

    loss_of: the loss of ``(parameters, *data)``; None if ``parameters`` are only updated.
    update: ``(parameters, gradients, state) -> parameters, state``, from a state of None.
    """
    import jax

    def zeros():
        return jax.tree.map(jax.numpy.zeros_like, parameters)

    def of_all(parameters, state, *data):
        loss, grads = None, parameters
        if loss_of is not None:
            loss, grads = jax.value_and_grad(loss_of)(parameters, *data)
        parameters, state = update(parameters, grads, state)
        return parameters, state, loss

    state = {"first": zeros(), "second": zeros(), "count": jax.numpy.zeros((), "int32")}
    program = jax.jit(of_all, donate_argnums=(0, 1)).lower(parameters, state, *data).compile()
    used = program.memory_analysis()

    def step():
        nonlocal parameters, state
        parameters, state, loss = program(parameters, state, *data)
        return parameters if loss is None else loss

    kinds = "argument", "output", "temp"
    step.memory = sum(getattr(used, f"{kind}_size_in_bytes") for kind in kinds)
    step.memory -= used.alias_size_in_bytes
    return step


def jax_entropy(scores, labels):
    import jax

    scores = jax.nn.log_softmax(scores)
    return -jax.numpy.take_along_axis(scores, labels[:, None], axis=1).mean()


def jax_sgd(parameters, grads, state, lr, momentum):
    import jax

    moved = jax.tree.map(lambda m, g: momentum * m + g, state["first"], grads)
    return jax.tree.map(lambda p, m: p - lr * m, parameters, moved), state | {"first": moved}


def jax_adam(parameters, grads, state, lr=1e-3):
    import jax

    count = state["count"] + 1
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["first"], grads)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, state["second"], grads)
    a, b = 1 - 0.9**count, 1 - 0.999**count

    def updated(p, m, v):
        return (p - lr * (m / a) / (jax.numpy.sqrt(v / b) + 1e-8)).astype(p.dtype)

    return jax.tree.map(updated, parameters, first, second), {
        "first": first, "second": second, "count": count,
    }  # fmt: skip


def torch_graph(step, model, optimizer):
    """Return a training step of PyTorch as one CUDA graph, from the weights that there are now.

    model: None if ``step`` only updates parameters. The step runs three times before it is
    captured. Each launch overwrites the results of the one before.
    """
    import torch

    weights = {} if model is None else {k: x.clone() for k, x in model.state_dict().items()}
    for group in optimizer.param_groups:
        if "capturable" in group:
            group["capturable"] = True
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph(keep_graph=True)
    with torch.cuda.graph(graph):
        result = step()
    graph.instantiate()
    with torch.no_grad():
        if model is not None:
            model.load_state_dict(weights)
        for state in optimizer.state.values():
            for x in filter(torch.is_tensor, state.values()):
                x.zero_()

    def replay():
        graph.replay()
        return result

    replay.graph = graph
    return replay


def nodes(library, run):
    """How many nodes the CUDA graph of a run has; None if it is none."""
    programs = getattr(run, "_programs", None) if library == "gpugrad compiled" else None
    captured = getattr(programs[-1], "_captured", None) if programs else None
    if library == "torch graph":
        graph = run.graph.raw_cuda_graph()
    elif captured is not None:
        graph = captured.graph._graph.graph
    else:
        return None
    count = ctypes.c_size_t()
    try:
        driver = ctypes.CDLL("nvcuda.dll" if os.name == "nt" else "libcuda.so.1")
    except OSError:
        return None
    status = driver.cuGraphGetNodes(ctypes.c_void_p(graph), None, ctypes.byref(count))
    return None if status else count.value


STATE = (
    "name,driver_version,clocks.sm,clocks.mem,clocks.max.sm,clocks_event_reasons.active,"
    "temperature.gpu,power.draw,power.limit,utilization.gpu,memory.used"
)


def state(device):
    """Return what nvidia-smi reports about the first GPU's clocks and throttling, or None."""
    program = shutil.which("nvidia-smi")
    if device == "cpu" or program is None:
        return None
    command = [program, "-i", "0", f"--query-gpu={STATE}", "--format=csv,noheader"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"problem": str(error)}
    values = done.stdout.strip().split(", ")
    if done.returncode or len(values) != STATE.count(",") + 1:
        return {"problem": (done.stdout + done.stderr).strip()}
    return dict(zip(STATE.split(","), values, strict=True))


# Clocks. `asynchronous`: whether work continues after the call that started it has returned.
# `has_events`: whether the device can record when it reaches a point in its queue. `wait`: wait
# for a result. `release`: give back memory that no array uses. `memory`: how many bytes the library
# has taken for a run since then, at most; None if it does not say.


class HostClock:
    """For a CPU, where work is done when a call returns; JAX passes its own ``wait``."""

    asynchronous = has_events = False

    def __init__(self, size, wait=None):
        self._size = size
        self.copied_bytes = 4 * size
        self.wait = wait or (lambda result: None)

    @cached_property
    def _arrays(self):
        return np.ones(self._size, np.float32), np.zeros(self._size, np.float32)

    def release(self):
        pass

    def memory(self, run):
        return getattr(run, "memory", None)

    def copy(self):
        source, target = self._arrays
        target[...] = source


class JaxClock:
    """For JAX on a GPU, which has no events to record."""

    asynchronous, has_events = True, False

    def __init__(self):
        from jax import block_until_ready

        self.wait = block_until_ready

    def release(self):
        pass

    def memory(self, run):
        return getattr(run, "memory", None)


class _EventClock:
    """For a GPU that records events; ``copy`` copies an array within its memory."""

    asynchronous = has_events = True

    def hold(self, seconds):
        """Keep the GPU busy for about this long, by copies that are enqueued without waiting.

        There are at most 400, since a GPU's queue is full after about 1000 commands.
        """
        for _ in range(min(400, math.ceil(seconds / self._seconds_of_copy))):
            self.copy()

    def _calibrate(self, copies):
        self.copy()
        start = self.mark()
        for _ in range(copies):
            self.copy()
        end = self.mark()
        self.wait()
        self._seconds_of_copy = max(self.seconds(start, end) / copies, 1e-6)


class CuPyClock(_EventClock):
    def __init__(self, size):
        import cupy

        self._cuda = cupy.cuda
        self._pool = cupy.get_default_memory_pool()
        self.release = self._pool.free_all_blocks
        self._source = cupy.ones(size, cupy.float32)
        self._target = cupy.zeros_like(self._source)
        self.copied_bytes = self._source.nbytes
        self._calibrate(10)

    def memory(self, run):
        from gpugrad.backends.cupy import cublas, graphs

        taken = sum(pool.total_bytes() for pool in (self._pool, *graphs._pools))
        taken += cublas.shared.cache_info().currsize * cublas._WORKSPACE
        return taken - 2 * self.copied_bytes

    def mark(self):
        event = self._cuda.Event()
        event.record()
        return event

    def is_done(self, event):
        return event.done

    def seconds(self, start, end):
        return self._cuda.get_elapsed_time(start, end) / 1e3

    def wait(self, result=None):
        self._cuda.Device().synchronize()

    def copy(self):
        runtime = self._cuda.runtime
        runtime.memcpyAsync(
            self._target.data.ptr,
            self._source.data.ptr,
            self.copied_bytes,
            runtime.memcpyDeviceToDevice,
            self._cuda.get_current_stream().ptr,
        )


class TorchClock(_EventClock):
    def __init__(self, size):
        import torch

        self._torch = torch
        self._source = torch.ones(size, device="cuda")
        self._target = torch.zeros_like(self._source)
        self.copied_bytes = self._source.nbytes
        self._calibrate(10)

    def release(self):
        self._torch.cuda.empty_cache()
        self._torch.cuda.reset_peak_memory_stats()

    def memory(self, run):
        return self._torch.cuda.max_memory_reserved() - 2 * self.copied_bytes

    def mark(self):
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def is_done(self, event):
        return event.query()

    def seconds(self, start, end):
        return start.elapsed_time(end) / 1e3

    def wait(self, result=None):
        self._torch.cuda.synchronize()

    def copy(self):
        self._target.copy_(self._source)


def clock(library, device, size=COPY_SIZE):
    """Return the library's clock on the device; it copies arrays of ``size`` numbers."""
    if device == "cpu":
        return HostClock(size, JaxClock().wait if library == "jax jit" else None)
    if library == "jax jit":
        return JaxClock()
    return CuPyClock(size) if LIBRARIES[library] == "gpugrad" else TorchClock(size)
