import gpugrad.numpy as np


def leaves_of(x):
    if isinstance(x, (tuple, list)):
        return [leaf for element in x for leaf in leaves_of(element)]
    return [leaf for key in sorted(x) for leaf in leaves_of(x[key])] if isinstance(x, dict) else [x]


def map_leaves(function, x):
    if isinstance(x, (tuple, list)):
        elements = [map_leaves(function, element) for element in x]
        return type(x)(*elements) if hasattr(x, "_fields") else type(x)(elements)
    if isinstance(x, dict):
        return {key: map_leaves(function, x[key]) for key in sorted(x)}
    return function(x)


def flatten(x):
    shapes = [np.shape(leaf) for leaf in leaves_of(x)]

    def unflatten(flat):
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
        pieces = map(np.reshape, np.split(flat, ends[:-1]), shapes)
        return map_leaves(lambda _: next(pieces), x)

    return np.concatenate([np.ravel(leaf) for leaf in leaves_of(x)]), unflatten


def flatten_func(f, example):
    flat, unflatten = flatten(example)
    return (lambda x: flatten(f(unflatten(x)))[0]), unflatten, flat
