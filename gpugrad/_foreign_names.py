"""Names that PyTorch and NumPy have and gpugrad has not, and what to write here: for errors."""

import dis
import warnings
from importlib import import_module
from sys import modules

# NumPy's names for functions that are called otherwise here.
OF_NUMPY = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "around": "round",
    "concatenate": "concat",
    "conjugate": "conj",
    "cumprod": "cumulative_prod",
    "cumsum": "cumulative_sum",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "power": "pow",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
}

# By module, or kind of object, that has no such name. Those of gpugrad hold in all its modules.
INSTEAD = {
    "gpugrad": {
        **{name: f"gpugrad.{own}" for name, own in OF_NUMPY.items()},
        "FloatTensor": "gpugrad.tensor(data, dtype=gpugrad.float32)",
        "Generator": "gpugrad.random.Generator",
        "LongTensor": "gpugrad.tensor(data, dtype=gpugrad.int64)",
        "Variable": "gpugrad.tensor(data, requires_grad=True)",
        "angle": "gpugrad.atan2(x.imag, x.real)",
        "array": "gpugrad.tensor",
        "as_tensor": "gpugrad.asarray",
        "autocast": "gpugrad.amp.autocast",
        "bernoulli": "gpugrad.random.bernoulli",
        "bmm": "gpugrad.matmul",
        "cat": "gpugrad.concat",
        "clamp": "gpugrad.clip",
        "clone": "gpugrad.asarray(x, copy=True), which keeps the graph",
        "copy": "gpugrad.asarray(x, copy=True)",
        "custom_jvp": "gpugrad.custom_vjp, from which forward mode follows",
        "deg2rad": "x * (gpugrad.pi / 180)",
        "device": 'a string: "cpu", "cuda" or "cuda:1"',
        "diag": "gpugrad.linalg.diagonal(A), or x * gpugrad.eye(n) to make one",
        "distributions": "gpugrad.scipy.stats, and gpugrad.random for samples",
        "div": "gpugrad.divide",
        "dot": "x @ y, or gpugrad.vecdot",
        "double": "gpugrad.float64",
        "elementwise_grad": "gpugrad.grad(lambda x: f(x).sum())",
        "eq": "x == y",
        "flatten": "x.reshape(-1), or gpugrad.nn.functional.flatten",
        "float": "gpugrad.float32",
        "float_power": "gpugrad.pow",
        "fmod": "gpugrad.remainder, whose sign is the divisor's",
        "from_numpy": "gpugrad.asarray",
        "func": "gpugrad.grad, gpugrad.vmap and so on, without func",
        "functional_call": "gpugrad.nn.functional_call",
        "gather": "gpugrad.take_along_axis",
        "ge": "x >= y",
        "ger": "gpugrad.linalg.outer",
        "grad_and_aux": "gpugrad.grad(f, has_aux=True), which returns the gradient first",
        "gradcheck": "gpugrad.testing.gradcheck",
        "gt": "x > y",
        "half": "gpugrad.float16",
        "hessian_vector_product": "gpugrad.hvp(f)",
        "hstack": "gpugrad.concat",
        "index_select": "gpugrad.take",
        "inner": "gpugrad.vecdot",
        "int": "gpugrad.int64",
        "inverse": "gpugrad.linalg.inv",
        "jacfwd": 'gpugrad.jacobian(f, mode="forward")',
        "jacrev": 'gpugrad.jacobian(f, mode="reverse")',
        "jit": "gpugrad.compile",
        "kthvalue": "gpugrad.sort(x, axis=axis) and its element k - 1",
        "lax": "a loop for scan, gpugrad.where for cond, gpugrad.stop_gradient",
        "le": "x <= y",
        "long": "gpugrad.int64",
        "lt": "x < y",
        "make_hvp": "gpugrad.hvp(f)",
        "make_jvp": "gpugrad.jvp(f, (x,), (v,))",
        "make_vjp": "gpugrad.vjp(f, x)",
        "manual_seed_all": "gpugrad.manual_seed",
        "masked_fill": "gpugrad.where",
        "median": "gpugrad.quantile(x, 0.5, axis)",
        "mm": "gpugrad.matmul",
        "mod": "gpugrad.remainder",
        "mse_loss": "gpugrad.nn.functional.mse_loss",
        "mul": "gpugrad.multiply",
        "multinomial": "gpugrad.random.multinomial",
        "mv": "gpugrad.matmul",
        "nansum": "gpugrad.sum(gpugrad.where(gpugrad.isnan(x), 0, x))",
        "ne": "x != y",
        "neg": "gpugrad.negative",
        "norm": "gpugrad.linalg.vector_norm or gpugrad.linalg.matrix_norm",
        "numel": "x.size",
        "percentile": "gpugrad.quantile(x, q / 100)",
        "permute": "gpugrad.permute_dims",
        "primitive": "gpugrad.custom_vjp, or gpugrad.op",
        "rad2deg": "x * (180 / gpugrad.pi)",
        "rand": "gpugrad.random.uniform(shape)",
        "randint": "gpugrad.random.integers(low, high, shape)",
        "randn": "gpugrad.random.normal(shape)",
        "randperm": "gpugrad.random.permutation(n)",
        "ravel": "x.reshape(-1)",
        "remat": "gpugrad.checkpoint(f, x)",
        "repeat_interleave": "gpugrad.repeat",
        "row_stack": "gpugrad.concat",
        "rsqrt": "1 / gpugrad.sqrt(x)",
        "seed": "gpugrad.manual_seed",
        "set_default_dtype": "dtype= where a tensor is made",
        "sub": "gpugrad.subtract",
        "swapaxes": "gpugrad.moveaxis",
        "transpose": "gpugrad.matrix_transpose or gpugrad.permute_dims",
        "tensor_split": "gpugrad.split",
        "tree": "optree.tree_map, of the package optree",
        "tree_map": "optree.tree_map, of the package optree",
        "tree_util": "optree.tree_map, of the package optree",
        "true_divide": "gpugrad.divide",
        "unbind": "gpugrad.unstack",
        "unfold": "gpugrad.nn.functional.unfold, or gpugrad.sliding_windows",
        "unsqueeze": "gpugrad.expand_dims",
        "view": "x.reshape(shape)",
        "utils": "gpugrad.data, gpugrad.checkpoint or gpugrad.training.TensorBoardLog",
        "vstack": "gpugrad.concat",
    },
    "gpugrad.amp": {
        "custom_bwd": "`with gpugrad.amp.autocast(...)` in the function",
        "custom_fwd": "`with gpugrad.amp.autocast(...)` in the function",
    },
    "gpugrad.autograd": {
        "Function": "gpugrad.custom_vjp, or gpugrad.op for an operation",
        "backward": "y.backward()",
        "detect_anomaly": "gpugrad.detect_anomaly",
        "forward_ad": "gpugrad.jvp",
        "functional": "gpugrad.jacobian, gpugrad.hessian and so on",
        "profiler": "gpugrad.profile",
    },
    "gpugrad.cuda": {
        "amp": "gpugrad.amp",
        "current_device": 'x.device of a tensor made with device="cuda"',
        "default_stream": "gpugrad.cuda.current_stream(), outside every `with stream:`",
        "device": 'device="cuda:1" where a tensor is made; its ops run there by themselves',
        "get_device_name": "gpugrad.cuda.device_name",
        "get_device_properties": "gpugrad.cuda.device_name and gpugrad.cuda.memory_stats",
        "manual_seed": "gpugrad.manual_seed",
        "max_memory_allocated": "gpugrad.cuda.memory_stats().reserved, which is at least that",
        "mem_get_info": "gpugrad.cuda.memory_stats(), of which free and total",
        "memory_allocated": "gpugrad.cuda.memory_stats().used",
        "memory_reserved": "gpugrad.cuda.memory_stats().reserved",
        "memory_summary": "gpugrad.cuda.memory_stats()",
        "set_device": 'device="cuda:1" where a tensor is made',
        "set_stream": "`with stream:` of a gpugrad.cuda.Stream",
        "stream": "`with stream:` of a gpugrad.cuda.Stream",
    },
    "gpugrad.data": {
        "ChainDataset": "gpugrad.data.ConcatDataset",
        "IterableDataset": "gpugrad.data.Dataset, whose samples have an index",
        "StackDataset": "gpugrad.data.Dataset with a __getitem__ that returns a tuple or dict",
        "SubsetRandomSampler": "DataLoader(gpugrad.data.Subset(dataset, indices), shuffle=True)",
        "default_convert": "gpugrad.asarray",
        "get_worker_info": "prefetch=n in gpugrad.data.DataLoader; there are no workers",
    },
    "gpugrad.distributed": {
        "DistributedDataParallel": "gpugrad.distributed.DataParallel",
        "DistributedSampler": "gpugrad.data.DistributedSampler",
        "ZeroRedundancyOptimizer": "gpugrad.distributed.ShardedOptimizer",
        "all_gather_into_tensor": "gpugrad.distributed.all_gather",
        "destroy_process_group": "nothing: there is nothing to close",
        "get_rank": "gpugrad.distributed.rank()",
        "get_world_size": "gpugrad.distributed.size()",
        "init_process_group": "gpugrad.distributed.init()",
        "reduce_scatter_tensor": "gpugrad.distributed.reduce_scatter",
    },
    "gpugrad.fft": {
        "fft2": "gpugrad.fft.fftn(x, axes=(-2, -1))",
        "ifft2": "gpugrad.fft.ifftn(x, axes=(-2, -1))",
        "irfft2": "gpugrad.fft.irfftn(x, axes=(-2, -1))",
        "rfft2": "gpugrad.fft.rfftn(x, axes=(-2, -1))",
    },
    "gpugrad.linalg": {
        "lstsq": "gpugrad.linalg.pinv(A) @ b",
        "multi_dot": "x @ y @ z",
    },
    "gpugrad.nn": {
        "Buffer": "self.register_buffer(name, tensor)",
        "CosineSimilarity": "gpugrad.vecdot(x, y) divided by their gpugrad.linalg.vector_norm",
        "DataParallel": "gpugrad.distributed.DataParallel",
        "EmbeddingBag": "gpugrad.nn.Embedding and the mean over its axis -2",
        "ParameterDict": "attributes, or setattr(self, name, gpugrad.nn.Parameter(value))",
        "PixelShuffle": "x.reshape and gpugrad.permute_dims",
        "Softmax2d": "gpugrad.nn.Softmax(-3)",
        "Softmin": "gpugrad.nn.Softmax of -x",
        "Transformer": "gpugrad.nn.TransformerEncoder and gpugrad.nn.TransformerDecoder",
        "UpsamplingBilinear2d": 'gpugrad.nn.Upsample(mode="bilinear", align_corners=True)',
        "UpsamplingNearest2d": "gpugrad.nn.Upsample",
        "parallel": "gpugrad.distributed.DataParallel",
        **{
            f"{kind}Pad{n}d": "gpugrad.nn.functional.pad in forward"
            for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
            for n in (1, 2)
        },
    },
    "gpugrad.nn.functional": {
        "cosine_similarity": "gpugrad.vecdot(x, y) divided by their gpugrad.linalg.vector_norm",
        "normalize": "x / gpugrad.linalg.vector_norm(x, axis=-1, keepdims=True)",
        "one_hot": "gpugrad.one_hot",
        "pixel_shuffle": "x.reshape and gpugrad.permute_dims",
        "softmin": "gpugrad.nn.functional.softmax(-x, dim)",
        "upsample": "gpugrad.nn.functional.interpolate",
    },
    "gpugrad.nn.utils": {
        "rnn": "nothing: there are no packed sequences; give sequences padded to one length",
    },
    "gpugrad.random": {
        "default_rng": "gpugrad.random.Generator(seed)",
        "random": "gpugrad.random.uniform(shape)",
        "standard_normal": "gpugrad.random.normal(shape)",
    },
    "gpugrad.scipy.linalg": {
        name: f"gpugrad.linalg.{name}" for name in "eig eigh eigvals eigvalsh qr solve svd".split()
    },
    "numpy": {  # functions that Tensors refuse, beside those above
        "copyto": "x[...] = value",
        "fill_diagonal": "gpugrad.where(gpugrad.eye(n, dtype=gpugrad.bool), value, x)",
        "nanmedian": "gpugrad.quantile(x[~gpugrad.isnan(x)], 0.5)",
        "nanpercentile": "gpugrad.quantile(x[~gpugrad.isnan(x)], q / 100)",
        "nanquantile": "gpugrad.quantile(x[~gpugrad.isnan(x)], q)",
        "place": "gpugrad.where(mask, value, x)",
        "put": "x[key] = value",
        "put_along_axis": "x[key] = value",
        "putmask": "x[mask] = value",
        "roots": "gpugrad.linalg.eigvals of the companion matrix",
    },
    "gpugrad.optim.swa_utils": {
        "get_ema_multi_avg_fn": "avg_fn=gpugrad.optim.swa_utils.get_ema_avg_fn(decay)",
        "get_swa_multi_avg_fn": "avg_fn=gpugrad.optim.swa_utils.get_swa_avg_fn()",
    },
    "Module": {
        "add_module": "setattr(model, name, module)",
        "bfloat16": "model.to(gpugrad.bfloat16)",
        "compile": "gpugrad.compile(model)",
        "cpu": 'model.to("cpu")',
        "cuda": 'model.to("cuda")',
        "double": "model.to(gpugrad.float64)",
        "flatten_parameters": "nothing: the layout of weights never matters",
        "float": "model.to(gpugrad.float32)",
        "get_buffer": "dict(model.named_buffers())[name]",
        "get_parameter": "dict(model.named_parameters())[name]",
        "get_submodule": "dict(model.named_modules())[name]",
        "half": "model.to(gpugrad.float16)",
        "register_backward_hook": "model.register_full_backward_hook(hook)",
        "register_module": "setattr(model, name, module)",
        "register_parameter": "setattr(model, name, gpugrad.nn.Parameter(value)), or None as value",
        "reset_parameters": "gpugrad.nn.init, or make the layer anew",
        "type": "model.to(dtype)",
    },
    "Tensor": {
        "H": "x.mT.conj()",
        "add_": "x += y",
        "amax": "x.max(axis=axis)",
        "amin": "x.min(axis=axis)",
        "angle": "gpugrad.atan2(x.imag, x.real)",
        "bfloat16": "x.to(gpugrad.bfloat16)",
        "bmm": "x @ y",
        "bool": "x.astype(gpugrad.bool)",
        "byte": "x.astype(gpugrad.uint8)",
        "clamp": "x.clip(min, max)",
        "clamp_": "x[...] = x.clip(min, max)",
        "clone": "gpugrad.asarray(x, copy=True), which keeps the graph",
        "contiguous": "nothing: layout never matters",
        "copy": "gpugrad.asarray(x, copy=True)",
        "copy_": "x[...] = y",
        "data": "x.detach(), or x.array for the raw array",
        "diag": "gpugrad.linalg.diagonal(x)",
        "diagonal": "gpugrad.linalg.diagonal(x)",
        "dim": "x.ndim",
        "div_": "x /= y",
        "double": "x.to(gpugrad.float64)",
        "expand": "gpugrad.broadcast_to(x, shape)",
        "expand_as": "gpugrad.broadcast_to(x, y.shape)",
        "fill": "x[...] = value",
        "fill_": "x[...] = value",
        "float": "x.to(gpugrad.float32)",
        "gather": "gpugrad.take_along_axis(x, indices, axis=axis)",
        "half": "x.to(gpugrad.float16)",
        "index_select": "gpugrad.take(x, indices, axis=axis)",
        "int": "x.astype(gpugrad.int32)",
        "is_cuda": "x.device",
        "itemsize": "x.dtype.itemsize",
        "long": "x.to(gpugrad.int64)",
        "mH": "x.mT.conj()",
        "masked_fill": "gpugrad.where(mask, value, x)",
        "mm": "x @ y",
        "mul_": "x *= y",
        "nelement": "x.size",
        "nonzero": "gpugrad.nonzero(x)",
        "norm": "gpugrad.linalg.vector_norm(x)",
        "numel": "x.size",
        "permute": "x.permute_dims(axes)",
        "pow_": "x **= y",
        "repeat": "gpugrad.repeat(x, n), or gpugrad.tile(x, repetitions)",
        "reshape_as": "x.reshape(y.shape)",
        "sort": "gpugrad.sort(x, axis=axis)",
        "sub_": "x -= y",
        "t": "x.T",
        "take": "gpugrad.take(x, indices, axis=axis)",
        "trace": "gpugrad.linalg.trace(x)",
        "type": "x.to(dtype)",
        "type_as": "x.to(y)",
        "unbind": "gpugrad.unstack(x, axis=axis)",
        "unfold": "gpugrad.sliding_windows, or gpugrad.nn.functional.unfold",
        "unsqueeze": "gpugrad.expand_dims(x, axis)",
        "view": "x.reshape(shape)",
        "view_as": "x.reshape(y.shape)",
        "zero_": "x[...] = 0",
    },
}

# The options of torch.compile, none of which gpugrad.compile has.
OPTIONS_OF_COMPILE = {
    "backend": "leave it out; each array library has one way to run a program",
    "disable": "leave it out, and call the function itself where it is not to be compiled",
    "dynamic": "leave it out; there is a program for each shape",
    "fullgraph": "leave it out; a function is recorded whole, or runs uncompiled with a warning",
    "mode": "leave it out; on a CUDA device all calls are one CUDA graph already",
    "options": "leave it out; there is nothing to choose",
}

# Keywords of theirs that are called otherwise here.
RENAMED = {
    "a_max": "max",
    "a_min": "min",
    "ddof": "correction",
    "dim": "axis",
    "keepdim": "keepdims",
    "newshape": "shape",
    "rcond": "rtol",
    "reps": "repetitions",
    "unbiased": "correction",
}


class MissingName:
    """A class attribute that is not there, as far as ``hasattr`` can tell, and says what is."""

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind

    def __get__(self, instance, owner):
        raise missing(owner.__name__, self.name, self.kind)


class HidesMissingNames(type):
    """The class of classes that have a `MissingName`: ``dir`` and ``help`` do not show them.

    `Tensor` has these rather than a ``__getattr__``, with which its attributes would lose the fast
    access that Python 3.11 has.
    """

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


def missing(owner, name, kind=None):
    """The AttributeError for a name that a module or a class lacks.

    owner: its name, which the error shows.
    kind: the key of its table in `INSTEAD`, by default ``owner``.
    """
    remedy = INSTEAD.get(kind or owner, {}).get(name) or _in_a_namespace(owner, name)
    if not remedy and owner.startswith("gpugrad."):
        remedy = INSTEAD["gpugrad"].get(name)
    if remedy:
        return AttributeError(f"{owner} has no attribute {name!r}; write {remedy}", name=name)
    # Of the object Python tells which names are close.
    return AttributeError(f"{owner} has no attribute {name!r}", name=name, obj=modules.get(owner))


def answer(module):
    """The ``__getattr__`` of a module, given by name."""

    def __getattr__(name):
        raise missing(module, name)

    return __getattr__


# Functions that return values and indices in PyTorch, and what returns the indices here.
_INDICES = {"max": "argmax", "min": "argmin", "sort": "argsort"}


def warn_of_unpacked_values(frame):
    """Warn if a frame is at ``values, indices = x.max(axis=1)``, which unpacks two rows here."""
    code = frame.f_code
    if code.co_code[frame.f_lasti] != _UNPACK_SEQUENCE:
        return
    before = [i for i in dis.get_instructions(code) if i.offset < frame.f_lasti]
    call = before[-1]
    if not call.opname.startswith("CALL"):
        return
    for instruction in before:
        name = instruction.argval
        starts_there = instruction.positions[::2] == call.positions[::2]
        if starts_there and isinstance(name, str) and name in _INDICES:
            warnings.warn(
                f"{name} returns values only, and this unpacks two rows of them; {_INDICES[name]} "
                f"returns their indices; if you want the rows, unpack gpugrad.unstack({name}(...))",
                stacklevel=3,
            )


_UNPACK_SEQUENCE = dis.opmap["UNPACK_SEQUENCE"]


def _in_a_namespace(owner, name):
    """Where a name is that NumPy or PyTorch have at the top and the package deeper."""
    if owner != "gpugrad" or name.startswith("_"):
        return None
    for space in "linalg", "special", "fft":
        if name in vars(import_module(f"gpugrad.{space}")):
            return f"gpugrad.{space}.{name}"
    table = getattr(import_module("gpugrad.numpy._namespace"), "FUNCTIONS", ())
    return f"gpugrad.numpy.{name}" if name in table else None
