"""Names of PyTorch and NumPy that gpugrad lacks, and what to write instead, which errors say."""

import dis
import warnings
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from inspect import signature
from sys import modules
from typing import Any, TypeVar

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

# For each module or kind of object the names that it lacks, with what to write instead. The entries
# of gpugrad also serve all of its modules.
INSTEAD = {
    "gpugrad": {
        **{name: f"gpugrad.{own}" for name, own in OF_NUMPY.items()},
        "FloatTensor": "gpugrad.tensor(data, dtype=gpugrad.float32)",
        "Generator": "gpugrad.random.Generator",
        "LongTensor": "gpugrad.tensor(data, dtype=gpugrad.int64)",
        "Size": "a tuple",
        "Variable": "gpugrad.tensor(data, requires_grad=True)",
        "addcmul": "x + value * y * z",
        "addmm": "x + y @ z",
        "angle": "gpugrad.atan2(x.imag, x.real)",
        "array": "gpugrad.tensor",
        "as_tensor": "gpugrad.asarray",
        "autocast": "gpugrad.amp.autocast",
        "baddbmm": "x + y @ z",
        "bernoulli": "gpugrad.random.bernoulli",
        "bitwise_not": "gpugrad.bitwise_invert",
        "bmm": "gpugrad.matmul",
        "cat": "gpugrad.concat",
        "cdist": "gpugrad.linalg.vector_norm(x[:, None] - y, axis=-1)",
        "clamp": "gpugrad.clip",
        "clone": "gpugrad.asarray(x, copy=True), which keeps the graph",
        "copy": "gpugrad.asarray(x, copy=True)",
        "cov": "gpugrad.numpy.cov",
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
        "get_default_dtype": "gpugrad.float32, which is always the default",
        "get_num_interop_threads": "gpugrad.get_num_threads()",
        "get_rng_state": "gpugrad.random.default_generator().get_state()",
        "grad_and_aux": "gpugrad.grad(f, has_aux=True), which returns the gradient first",
        "gradcheck": "gpugrad.testing.gradcheck",
        "gt": "x > y",
        "half": "gpugrad.float16",
        "hessian_vector_product": "gpugrad.hvp(f)",
        "hstack": "gpugrad.concat",
        "index_select": "gpugrad.take",
        "inference_mode": "gpugrad.no_grad()",
        "inner": "gpugrad.vecdot",
        "int": "gpugrad.int64",
        "inverse": "gpugrad.linalg.inv",
        "is_complex": 'gpugrad.isdtype(x.dtype, "complex floating")',
        "is_floating_point": 'gpugrad.isdtype(x.dtype, "real floating")',
        "is_tensor": "isinstance(x, gpugrad.Tensor)",
        "jacfwd": 'gpugrad.jacobian(f, mode="forward")',
        "jacrev": 'gpugrad.jacobian(f, mode="reverse")',
        "jit": "gpugrad.compile",
        "kthvalue": "gpugrad.sort(x, axis=axis) and its element k - 1",
        "lax": "a loop for scan, gpugrad.where for cond, gpugrad.stop_gradient",
        "le": "x <= y",
        "lerp": "x + weight * (y - x)",
        "logdet": "gpugrad.linalg.slogdet(x)[1]",
        "long": "gpugrad.int64",
        "lstsq": "gpugrad.linalg.pinv(A) @ b",
        "lt": "x < y",
        "make_hvp": "gpugrad.hvp(f)",
        "make_jvp": "gpugrad.jvp(f, (x,), (v,))",
        "make_vjp": "gpugrad.vjp(f, x)",
        "manual_seed_all": "gpugrad.manual_seed",
        "masked_fill": "gpugrad.where",
        "masked_select": "x[mask]",
        "median": "gpugrad.quantile(x, 0.5, axis)",
        "mm": "gpugrad.matmul",
        "mod": "gpugrad.remainder",
        "movedim": "gpugrad.moveaxis",
        "mse_loss": "gpugrad.nn.functional.mse_loss",
        "mul": "gpugrad.multiply",
        "multinomial": "gpugrad.random.multinomial",
        "mv": "gpugrad.matmul",
        "nansum": "gpugrad.sum(gpugrad.where(gpugrad.isnan(x), 0, x))",
        "narrow": "x[start : start + length]",
        "ne": "x != y",
        "neg": "gpugrad.negative",
        "norm": "gpugrad.linalg.vector_norm or gpugrad.linalg.matrix_norm",
        "normal": "gpugrad.random.normal(shape)",
        "numel": "x.size",
        "percentile": "gpugrad.quantile(x, q / 100)",
        "permute": "gpugrad.permute_dims",
        "primitive": "gpugrad.custom_vjp, or gpugrad.op",
        "rad2deg": "x * (180 / gpugrad.pi)",
        "rand": "gpugrad.random.uniform(shape)",
        "rand_like": "gpugrad.random.uniform(x.shape)",
        "randint": "gpugrad.random.integers(low, high, shape)",
        "randn": "gpugrad.random.normal(shape)",
        "randn_like": "gpugrad.random.normal(x.shape)",
        "randperm": "gpugrad.random.permutation(n)",
        "range": "gpugrad.arange",
        "ravel": "x.reshape(-1)",
        "remat": "gpugrad.checkpoint(f, x)",
        "repeat_interleave": "gpugrad.repeat",
        "row_stack": "gpugrad.concat",
        "rsqrt": "1 / gpugrad.sqrt(x)",
        "scatter": "x[key] = value, or gpugrad.scatter_add",
        "seed": "gpugrad.manual_seed",
        "set_default_device": "device= where a tensor is made",
        "set_default_dtype": "dtype= where a tensor is made",
        "set_num_interop_threads": "gpugrad.set_num_threads(n)",
        "set_printoptions": "numpy.set_printoptions, which tensors follow",
        "set_rng_state": "gpugrad.random.default_generator().set_state(state)",
        "std_mean": "gpugrad.std and gpugrad.mean",
        "sub": "gpugrad.subtract",
        "swapaxes": "gpugrad.moveaxis",
        "take_along_dim": "gpugrad.take_along_axis",
        "tensor_split": "gpugrad.split",
        "transpose": "gpugrad.matrix_transpose or gpugrad.permute_dims",
        "tree": "optree.tree_map, of the package optree",
        "tree_map": "optree.tree_map, of the package optree",
        "tree_util": "optree.tree_map, of the package optree",
        "true_divide": "gpugrad.divide",
        "unbind": "gpugrad.unstack",
        "unfold": "gpugrad.nn.functional.unfold, or gpugrad.sliding_windows",
        "unsqueeze": "gpugrad.expand_dims",
        "utils": "gpugrad.data, gpugrad.checkpoint or gpugrad.training.TensorBoardLog",
        "var_mean": "gpugrad.var and gpugrad.mean",
        "view": "x.reshape(shape)",
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
        "dataloader": "gpugrad.data.DataLoader",
        "default_convert": "gpugrad.asarray",
        "distributed": "gpugrad.data.DistributedSampler",
        "get_worker_info": "prefetch=n in gpugrad.data.DataLoader; there are no workers",
        "sampler": "gpugrad.data.RandomSampler and so on",
    },
    "gpugrad.distributed": {
        "DistributedDataParallel": "gpugrad.distributed.DataParallel",
        "DistributedSampler": "gpugrad.data.DistributedSampler",
        "FullyShardedDataParallel": "gpugrad.distributed.DataParallel and ShardedOptimizer, which "
        "divides the optimizer's state only",
        "ReduceOp": 'op="sum", "mean", "max" or "min"',
        "ZeroRedundancyOptimizer": "gpugrad.distributed.ShardedOptimizer",
        "all_gather_into_tensor": "gpugrad.distributed.all_gather",
        "all_gather_object": "mpi4py.MPI.COMM_WORLD.allgather(value), after init()",
        "broadcast_object_list": "mpi4py.MPI.COMM_WORLD.bcast(value), after init()",
        "destroy_process_group": "nothing: there is nothing to close",
        "gather": "gpugrad.distributed.all_gather",
        "get_node_local_rank": "gpugrad.distributed.local_rank()",
        "get_rank": "gpugrad.distributed.rank()",
        "get_world_size": "gpugrad.distributed.size()",
        "init_process_group": "gpugrad.distributed.init()",
        "is_available": "gpugrad.distributed.size() > 1",
        "is_initialized": "gpugrad.distributed.size() > 1",
        "monitored_barrier": "gpugrad.distributed.barrier()",
        "new_group": "nothing: all processes are one group",
        "recv": "mpi4py.MPI.COMM_WORLD.Recv(array), after init()",
        "reduce": "gpugrad.distributed.all_reduce",
        "reduce_scatter_tensor": "gpugrad.distributed.reduce_scatter",
        "scatter": "gpugrad.distributed.broadcast(x)[gpugrad.distributed.rank()]",
        "send": "mpi4py.MPI.COMM_WORLD.Send(x.array, rank), after init()",
        "world_size": "gpugrad.distributed.size()",
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
        "ChannelShuffle": "x.reshape and gpugrad.permute_dims",
        "CosineSimilarity": "gpugrad.vecdot(x, y) divided by their gpugrad.linalg.vector_norm",
        "DataParallel": "gpugrad.distributed.DataParallel",
        "EmbeddingBag": "gpugrad.nn.Embedding and the mean over its axis -2",
        "GaussianNLLLoss": "((gpugrad.log(var) + (x - target) ** 2 / var) / 2).mean()",
        "Hardshrink": "gpugrad.where(gpugrad.abs(x) > lambd, x, 0) in forward",
        "MarginRankingLoss": "gpugrad.nn.functional.relu(margin - target * (x1 - x2)).mean()",
        "MultiLabelSoftMarginLoss": "gpugrad.nn.BCEWithLogitsLoss, which is the same",
        "PairwiseDistance": "gpugrad.linalg.vector_norm(x - y, axis=-1)",
        "ParameterDict": "attributes, or setattr(self, name, gpugrad.nn.Parameter(value))",
        "PixelShuffle": "x.reshape and gpugrad.permute_dims",
        "PixelUnshuffle": "x.reshape and gpugrad.permute_dims",
        "PoissonNLLLoss": "(gpugrad.exp(x) - target * x).mean()",
        "RReLU": "gpugrad.nn.LeakyReLU, whose slope is not random",
        "SoftMarginLoss": "gpugrad.nn.functional.softplus(-target * x).mean()",
        "Softmax2d": "gpugrad.nn.Softmax(-3)",
        "Softmin": "gpugrad.nn.Softmax of -x",
        "Softshrink": "x - x.clip(-lambd, lambd) in forward",
        "Threshold": "gpugrad.where(x > threshold, x, value) in forward",
        "Transformer": "gpugrad.nn.TransformerEncoder and gpugrad.nn.TransformerDecoder",
        "UpsamplingBilinear2d": 'gpugrad.nn.Upsample(mode="bilinear", align_corners=True)',
        "UpsamplingNearest2d": "gpugrad.nn.Upsample",
        "modules": "gpugrad.nn",
        "parallel": "gpugrad.distributed.DataParallel",
        "parameter": "gpugrad.nn.Parameter",
        **{
            f"{kind}Pad{n}d": "gpugrad.nn.functional.pad in forward"
            for kind in ("Circular", "Constant", "Reflection", "Replication", "Zero")
            for n in (1, 2, 3)
        },
        **{
            f"Lazy{layer}": f"gpugrad.nn.{layer} with its number of inputs"
            for layer in "BatchNorm1d BatchNorm2d Conv1d Conv2d InstanceNorm2d Linear".split()
        },
    },
    "gpugrad.nn.functional": {
        "cosine_similarity": "gpugrad.vecdot(x, y) divided by their gpugrad.linalg.vector_norm",
        "gaussian_nll_loss": "((gpugrad.log(var) + (x - target) ** 2 / var) / 2).mean()",
        "gumbel_softmax": "softmax((x - gpugrad.log(-gpugrad.log(u))) / tau, -1), u of "
        "gpugrad.random.uniform(x.shape)",
        "hardshrink": "gpugrad.where(gpugrad.abs(x) > lambd, x, 0)",
        "margin_ranking_loss": "gpugrad.nn.functional.relu(margin - target * (x1 - x2)).mean()",
        "multilabel_soft_margin_loss": "gpugrad.nn.functional.binary_cross_entropy_with_logits",
        "normalize": "x / gpugrad.linalg.vector_norm(x, axis=-1, keepdims=True)",
        "one_hot": "gpugrad.one_hot",
        "pairwise_distance": "gpugrad.linalg.vector_norm(x - y, axis=-1)",
        "pixel_shuffle": "x.reshape and gpugrad.permute_dims",
        "pixel_unshuffle": "x.reshape and gpugrad.permute_dims",
        "poisson_nll_loss": "(gpugrad.exp(x) - target * x).mean()",
        "rrelu": "gpugrad.nn.functional.leaky_relu",
        "soft_margin_loss": "gpugrad.nn.functional.softplus(-target * x).mean()",
        "softmin": "gpugrad.nn.functional.softmax(-x, dim)",
        "softshrink": "x - x.clip(-lambd, lambd)",
        "threshold": "gpugrad.where(x > threshold, x, value)",
        "upsample": "gpugrad.nn.functional.interpolate",
    },
    "gpugrad.nn.init": {
        "dirac_": "gpugrad.nn.init.zeros_(weight), and then 1 at weight[i, i, middle] in "
        "`with gpugrad.no_grad()`",
        "eye_": "weight[...] = gpugrad.eye(n) in `with gpugrad.no_grad()`",
        "trunc_normal_": "gpugrad.nn.init.normal_, and weight[...] = weight.clip(a, b) in "
        "`with gpugrad.no_grad()`",
    },
    "gpugrad.nn.utils": {
        "get_total_norm": "gpugrad.nn.utils.clip_grad_norm_(parameters, inf), which returns it",
        "parameters_to_vector": "gpugrad.concat([p.reshape(-1) for p in parameters])",
        "parametrizations": "the formula for the weight in forward",
        "parametrize": "the formula for the weight in forward",
        "spectral_norm": "weight / gpugrad.linalg.matrix_norm(weight, ord=2) in forward",
        "weight_norm": "g * v / gpugrad.linalg.vector_norm(v, axis=1, keepdims=True) in forward",
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
    "numpy": {  # functions that refuse Tensors, besides those above
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
    "gpugrad.optim": {
        "ASGD": "gpugrad.optim.SGD with gpugrad.optim.swa_utils.AveragedModel",
        "Adafactor": "gpugrad.optim.AdamW, or a subclass of gpugrad.optim.Optimizer",
        "Muon": "gpugrad.optim.AdamW, or a subclass of gpugrad.optim.Optimizer",
        "Rprop": "gpugrad.optim.RMSprop, or gpugrad.optim.LBFGS for whole data sets",
        "SparseAdam": "gpugrad.optim.Adam; gradients are always dense",
    },
    "gpugrad.optim.lr_scheduler": {
        "SWALR": "gpugrad.optim.swa_utils.SWALR",
        "_LRScheduler": "gpugrad.optim.lr_scheduler.LRScheduler",
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
        "get_extra_state": "buffers, by model.register_buffer(name, tensor)",
        "get_parameter": "dict(model.named_parameters())[name]",
        "get_submodule": "dict(model.named_modules())[name]",
        "half": "model.to(gpugrad.float16)",
        "register_backward_hook": "model.register_full_backward_hook(hook)",
        "register_full_backward_pre_hook": "output.register_hook(hook), in a forward hook",
        "register_module": "setattr(model, name, module)",
        "register_parameter": "setattr(model, name, gpugrad.nn.Parameter(value)), or None as value",
        "reset_parameters": "gpugrad.nn.init, or make the layer anew",
        "to_empty": "model.to(device)",
        "type": "model.to(dtype)",
    },
    "Optimizer": {
        "register_step_post_hook": "a function that calls optimizer.step() and does the rest",
        "register_step_pre_hook": "a function that calls optimizer.step() and does the rest",
        "state": 'optimizer.state_dict()["state"]',
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
        "cholesky": "gpugrad.linalg.cholesky(x)",
        "clamp": "x.clip(min, max)",
        "clamp_": "x[...] = x.clip(min, max)",
        "clamp_max": "x.clip(max=bound)",
        "clamp_min": "x.clip(min=bound)",
        "clone": "gpugrad.asarray(x, copy=True), which keeps the graph",
        "contiguous": "nothing: layout never matters",
        "copy": "gpugrad.asarray(x, copy=True)",
        "copy_": "x[...] = y",
        "data": "x.detach(), or x.array for the raw array",
        "det": "gpugrad.linalg.det(x)",
        "detach_": "x = x.detach()",
        "diag": "gpugrad.linalg.diagonal(x)",
        "diagonal": "gpugrad.linalg.diagonal(x)",
        "digamma": "gpugrad.special.psi(x)",
        "dim": "x.ndim",
        "div": "x / y",
        "div_": "x /= y",
        "double": "x.to(gpugrad.float64)",
        "element_size": "x.dtype.itemsize",
        "eq": "x == y",
        "erf": "gpugrad.special.erf(x)",
        "expand": "gpugrad.broadcast_to(x, shape)",
        "expand_as": "gpugrad.broadcast_to(x, y.shape)",
        "fill": "x[...] = value",
        "fill_": "x[...] = value",
        "float": "x.to(gpugrad.float32)",
        "gather": "gpugrad.take_along_axis(x, indices, axis=axis)",
        "ge": "x >= y",
        "get_device": "x.device",
        "gt": "x > y",
        "half": "x.to(gpugrad.float16)",
        "index_add_": "x += gpugrad.scatter_add(values, x.shape, key)",
        "index_select": "gpugrad.take(x, indices, axis=axis)",
        "int": "x.astype(gpugrad.int32)",
        "inverse": "gpugrad.linalg.inv(x)",
        "is_contiguous": "nothing: layout never matters",
        "is_cuda": "x.device",
        "is_floating_point": 'gpugrad.isdtype(x.dtype, "real floating")',
        "itemsize": "x.dtype.itemsize",
        "le": "x <= y",
        "lgamma": "gpugrad.special.gammaln(x)",
        "logdet": "gpugrad.linalg.slogdet(x)[1]",
        "long": "x.to(gpugrad.int64)",
        "lt": "x < y",
        "mH": "x.mT.conj()",
        "masked_fill": "gpugrad.where(mask, value, x)",
        "masked_fill_": "x[mask] = value",
        "masked_select": "x[mask]",
        "median": "gpugrad.quantile(x, 0.5, axis)",
        "mm": "x @ y",
        "movedim": "gpugrad.moveaxis(x, source, destination)",
        "mul": "x * y",
        "mul_": "x *= y",
        "mv": "x @ y",
        "nansum": "gpugrad.sum(gpugrad.where(gpugrad.isnan(x), 0, x))",
        "narrow": "x[start : start + length]",
        "ndimension": "x.ndim",
        "ne": "x != y",
        "neg": "-x",
        "nelement": "x.size",
        "new_empty": "gpugrad.empty(shape, dtype=x.dtype, device=x.device)",
        "new_full": "gpugrad.full(shape, value, dtype=x.dtype, device=x.device)",
        "new_ones": "gpugrad.ones(shape, dtype=x.dtype, device=x.device)",
        "new_tensor": "gpugrad.tensor(data, dtype=x.dtype, device=x.device)",
        "new_zeros": "gpugrad.zeros(shape, dtype=x.dtype, device=x.device)",
        "nonzero": "gpugrad.nonzero(x)",
        "norm": "gpugrad.linalg.vector_norm(x)",
        "normal_": "gpugrad.nn.init.normal_(x)",
        "numel": "x.size",
        "permute": "x.permute_dims(axes)",
        "pin_memory": "nothing: gpugrad.data.DataLoader uses pinned memory by itself",
        "pow_": "x **= y",
        "qr": "gpugrad.linalg.qr(x)",
        "repeat": "gpugrad.repeat(x, n), or gpugrad.tile(x, repetitions)",
        "repeat_interleave": "gpugrad.repeat(x, n, axis=axis)",
        "reshape_as": "x.reshape(y.shape)",
        "rsqrt": "1 / gpugrad.sqrt(x)",
        "scatter_": "x[key] = value",
        "scatter_add_": "x += gpugrad.scatter_add(values, x.shape, key)",
        "select": "x[i]",
        "sort": "gpugrad.sort(x, axis=axis)",
        "sub": "x - y",
        "sub_": "x -= y",
        "svd": "gpugrad.linalg.svd(x)",
        "t": "x.T",
        "take": "gpugrad.take(x, indices, axis=axis)",
        "trace": "gpugrad.linalg.trace(x)",
        "true_divide": "x / y",
        "type": "x.to(dtype)",
        "type_as": "x.to(y)",
        "unbind": "gpugrad.unstack(x, axis=axis)",
        "unflatten": "x.reshape(shape)",
        "unfold": "gpugrad.sliding_windows, or gpugrad.nn.functional.unfold",
        "uniform_": "gpugrad.nn.init.uniform_(x)",
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

# Keywords of PyTorch and NumPy that have other names here.
RENAMED = {
    "a_max": "max",
    "a_min": "min",
    "axis": "dim",
    "bucket_cap_mb": "bucket_bytes",
    "ddof": "correction",
    "dim": "axis",
    "keepdim": "keepdims",
    "loc": "mean",
    "newshape": "shape",
    "rcond": "rtol",
    "reps": "repetitions",
    "scale": "std",
    "size": "shape",
    "src": "root",
    "tensor": "tree",
    "unbiased": "correction",
}


_OF_EMBEDDINGS = {
    "scale_grad_by_freq": "divide the rows of weight.grad by the counts, of gpugrad.bincount",
    "sparse": "leave it out; gradients are always dense",
}
_OF_COLLECTIVES = {
    "async_op": "leave it out; the call returns when the result is there",
    "group": "leave it out; all processes are one group",
}

# For each function, class or base class the keywords of PyTorch and NumPy that it does not take,
# with what to do instead.
KEYWORDS = {
    "DataParallel": {
        "broadcast_buffers": "leave it out; buffers come from rank 0 once, at the start",
        "device_ids": "leave it out, and move the module to its device before",
        "find_unused_parameters": "leave it out; unused parameters are found in each pass",
        "gradient_as_bucket_view": "leave it out",
        "output_device": "leave it out, and move the module to its device before",
        "process_group": "leave it out; all processes are one group",
        "static_graph": "leave it out",
    },
    "Optimizer": {
        "capturable": "leave it out; gpugrad.compile can record any step",
        "differentiable": "leave it out; to differentiate through updates, write them as functions "
        "of the parameters, with gpugrad.grad",
        "foreach": "leave it out; on a GPU one kernel updates many parameters anyway",
        "fused": "leave it out; on a GPU one kernel updates many parameters anyway",
    },
    "LRScheduler": {"verbose": "leave it out, and print scheduler.get_last_lr() after each step"},
    "_Loss": {
        "reduce": 'write reduction="none" for False, and leave it out for True',
        "size_average": 'write reduction="sum" for False, and leave it out for True',
    },
    "Embedding": _OF_EMBEDDINGS,
    "ShardedOptimizer": {"optimizer_class": "write ShardedOptimizer(optim.Adam(parameters))"},
    "Trainer": {"epochs": "call trainer.fit(epochs)"},
    "all_gather": _OF_COLLECTIVES,
    "all_reduce": _OF_COLLECTIVES,
    "barrier": _OF_COLLECTIVES,
    "broadcast": _OF_COLLECTIVES,
    "checkpoint": {"use_reentrant": "leave it out; there is one way, which keeps only arguments"},
    "clip_grad_norm_": {
        "error_if_nonfinite": "leave it out, and look at the norm that is returned",
        "foreach": "leave it out; gradients are scaled together anyway",
    },
    "clip_grad_value_": {"foreach": "leave it out; there is one way to clip"},
    "embedding": {
        "max_norm": "limit the norms of the weight's rows after each optimizer step instead",
        **_OF_EMBEDDINGS,
    },
    "functional_call": {"tie_weights": "leave it out; parameters that are shared stay shared"},
    "grad": {
        "is_grads_batched": "use gpugrad.vmap of a function that calls gpugrad.autograd.grad",
        "only_inputs": "leave it out; only the inputs get gradients",
    },
    "init": {
        "backend": "leave it out; CPUs use MPI, and CUDA devices NCCL",
        "device_id": 'write device=f"cuda:{distributed.local_rank()}" where a tensor is made',
        "init_method": "leave it out, and start the processes by a launcher, such as mpiexec",
        "rank": "leave it out; the launcher says it to each process",
        "world_size": "leave it out; the launcher says it to each process",
    },
    "linspace": {"steps": "write num"},
    "load": {
        "map_location": 'write device="cpu"',
        "mmap": "leave it out",
        "weights_only": "leave it out; nothing in a file is ever executed",
    },
    "load_state_dict": {"assign": "leave it out; values are copied into the parameters"},
    "named_buffers": {"remove_duplicate": "leave it out; each is listed once"},
    "named_modules": {"remove_duplicate": "leave it out; each is listed once"},
    "named_parameters": {"remove_duplicate": "leave it out; each is listed once"},
    "reduce_scatter": _OF_COLLECTIVES,
    "state_dict": {
        "destination": "update a dict with the result",
        "keep_vars": "use dict(model.named_parameters())",
        "prefix": "add it to the names in the result",
    },
    "vmap": {
        "chunk_size": "leave it out, and call the result with parts of the examples",
        "in_dims": "write in_axes",
        "out_dims": "write out_axes",
        "randomness": "leave it out; random numbers differ between examples",
    },
}

_F = TypeVar("_F", bound=Callable[..., Any])


def explains_arguments(function: _F) -> _F:
    """Decorate a function or an ``__init__`` so that errors about its arguments say what it takes.

    They name what users see: a function, or the class of the object that is made. Arguments that
    fit cost one more call of a Python function.
    """

    @wraps(function)
    def call(*args, **keywords):
        try:
            return function(*args, **keywords)
        except TypeError:
            problem = _misfit(call.__name__, function, args, keywords)
            if problem:
                raise TypeError(problem) from None
            raise

    return call  # type: ignore[return-value]


def _misfit(name, function, args, keywords):
    """What is wrong with the arguments; None if they fit, and the error was another."""
    taken = signature(function)
    try:
        taken.bind(*args, **keywords)
    except TypeError as error:
        problem = str(error)
    else:
        return None
    names = [name for name in taken.parameters if name != "self"]
    kinds = [name]
    if kinds == ["__init__"]:
        kinds = [base.__name__ for base in type(args[0]).__mro__]
    known = {}
    for kind in kinds:
        known |= KEYWORDS.get(kind, {})
    foreign = [name for name in keywords if name in known and name not in names]
    if foreign:
        problem = "; ".join([f"there is no {name}: {known[name]}" for name in foreign])
        return f"{kinds[0]}: {problem}"
    renamed = [f"{n} is {RENAMED[n]} here" for n in keywords if RENAMED.get(n) in names]
    return "; ".join([f"{kinds[0]}: {problem}", *renamed, f"it takes {', '.join(names)}"])


class MissingName:
    """A class attribute that raises AttributeError, saying what to write; ``hasattr`` is False."""

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
    for other in name.removesuffix("_"), f"{name}_":  # relu_, xavier_normal
        if not remedy and other != name and other in dir(modules.get(owner)):
            remedy = f"{owner}.{other}"
    if not remedy and owner.startswith("gpugrad."):
        remedy = INSTEAD["gpugrad"].get(name)
    if remedy:
        return AttributeError(f"{owner} has no attribute {name!r}; write {remedy}", name=name)
    # Given the object, Python suggests names that are similar.
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
    """The place of a name that NumPy or PyTorch has at the top, and gpugrad in a namespace."""
    if owner != "gpugrad" or name.startswith("_"):
        return None
    for space in "linalg", "special", "fft", "random", "nn.functional":
        if name in dir(import_module(f"gpugrad.{space}")):
            return f"gpugrad.{space}.{name}"
    table = getattr(import_module("gpugrad.numpy._namespace"), "FUNCTIONS", ())
    return f"gpugrad.numpy.{name}" if name in table else None
