"""The ops, by topic. Each is one definition: a forward and its VJPs."""

from .elementwise import (
    abs,
    add,
    clip,
    cos,
    divide,
    equal,
    exp,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isnan,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    remainder,
    sign,
    sin,
    sqrt,
    subtract,
    tanh,
    where,
)
from .indexing import getitem, last_written, scatter_add, setitem
from .linalg import matmul, matrix_transpose
from .manipulation import (
    astype,
    broadcast_to,
    concat,
    expand_dims,
    permute_dims,
    reshape,
    squeeze,
    stack,
    to_device,
    unstack,
)
from .neural import cross_entropy, linear, log_softmax, mse, one_hot, relu, sigmoid, softmax
from .reductions import all, any, argmax, argmin, logsumexp, max, mean, min, sum, var
