"""Names that PyTorch and NumPy have and gpugrad has not, and what to write here: for errors."""

OF_TENSORS = {
    "add_": "x += y",
    "clamp": "x.clip(min, max)",
    "clone": "gpugrad.tensor(x) for a copy, or +x, which keeps the graph",
    "contiguous": "nothing: layout never matters",
    "copy": "gpugrad.asarray(x, copy=True)",
    "cumprod": "gpugrad.cumulative_prod(x, axis=axis)",
    "cumsum": "gpugrad.cumulative_sum(x, axis=axis)",
    "data": "x.detach(), or x.array for the raw array",
    "diagonal": "gpugrad.linalg.diagonal(x)",
    "dim": "x.ndim",
    "dot": "x @ y",
    "double": "x.to(gpugrad.float64)",
    "expand": "gpugrad.broadcast_to(x, shape)",
    "fill": "x[...] = value",
    "flatten": "x.reshape(-1), or nn.functional.flatten(x)",
    "float": "x.to(gpugrad.float32)",
    "gather": "gpugrad.take_along_axis(x, indices, axis=axis)",
    "half": "x.to(gpugrad.float16)",
    "index_select": "gpugrad.take(x, indices, axis=axis)",
    "int": "x.to(gpugrad.int32)",
    "long": "x.to(gpugrad.int64)",
    "masked_fill": "gpugrad.where(mask, value, x)",
    "mm": "x @ y",
    "mul_": "x *= y",
    "nonzero": "gpugrad.nonzero(x)",
    "norm": "gpugrad.linalg.vector_norm(x)",
    "numel": "x.size",
    "permute": "x.permute_dims(axes)",
    "ravel": "x.reshape(-1)",
    "repeat": "gpugrad.repeat(x, n), or gpugrad.tile(x, repetitions)",
    "sort": "gpugrad.sort(x, axis=axis)",
    "sub_": "x -= y",
    "swapaxes": "gpugrad.moveaxis(x, (a, b), (b, a))",
    "t": "x.T",
    "take": "gpugrad.take(x, indices, axis=axis)",
    "trace": "gpugrad.linalg.trace(x)",
    "transpose": "x.mT for the last two axes, or x.permute_dims(axes)",
    "type": "x.to(dtype)",
    "unbind": "gpugrad.unstack(x, axis=axis)",
    "unsqueeze": "gpugrad.expand_dims(x, axis)",
    "view": "x.reshape(shape)",
    "zero_": "x[...] = 0",
}

OF_THE_PACKAGE = {
    "Generator": "gpugrad.random.Generator",
    "array": "gpugrad.tensor",
    "as_tensor": "gpugrad.asarray",
    "bmm": "gpugrad.matmul",
    "cat": "gpugrad.concat",
    "clamp": "gpugrad.clip",
    "concatenate": "gpugrad.concat",
    "device": 'a string: "cpu", "cuda" or "cuda:1"',
    "div": "gpugrad.divide",
    "double": "gpugrad.float64",
    "eq": "x == y",
    "float": "gpugrad.float32",
    "from_numpy": "gpugrad.asarray",
    "gather": "gpugrad.take_along_axis",
    "half": "gpugrad.float16",
    "hstack": "gpugrad.concat",
    "index_select": "gpugrad.take",
    "long": "gpugrad.int64",
    "manual_seed_all": "gpugrad.manual_seed",
    "masked_fill": "gpugrad.where",
    "mm": "gpugrad.matmul",
    "mul": "gpugrad.multiply",
    "permute": "gpugrad.permute_dims",
    "rand": "gpugrad.random.uniform(shape)",
    "randint": "gpugrad.random.integers(low, high, shape)",
    "randn": "gpugrad.random.normal(shape)",
    "randperm": "gpugrad.random.permutation(n)",
    "ravel": "x.reshape(-1)",
    "repeat_interleave": "gpugrad.repeat",
    "sub": "gpugrad.subtract",
    "swapaxes": "gpugrad.moveaxis",
    "transpose": "gpugrad.matrix_transpose or gpugrad.permute_dims",
    "unbind": "gpugrad.unstack",
    "unsqueeze": "gpugrad.expand_dims",
    "vstack": "gpugrad.concat",
}


class Elsewhere:
    """A class attribute that is not there, as far as ``hasattr`` can tell, and says what is."""

    def __init__(self, name):
        self.name = name

    def __get__(self, instance, owner):
        raise missing(owner.__name__, self.name, OF_TENSORS)


def missing(owner, name, table):
    """The AttributeError for a name that ``owner`` has not."""
    instead = f"; write {table[name]}" if name in table else ""
    return AttributeError(f"{owner} has no attribute {name!r}{instead}", name=name)
