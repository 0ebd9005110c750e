"""Reverse mode: the graph of a function swept from its results back to its arguments."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal, overload

from .._arguments import is_complex, is_floating
from .._creation import ones_like, zeros_like
from .._foreign_names import explains_arguments
from .._tensor import Tensor
from .._typing import A, Argnums, P, R
from ..autograd import call
from ..autograd.sweep import conjugate, own, sweep
from .arguments import callable_or_error, parameters
from .cotangents import checked, inward, leaves_like, like, outward
from .recording import Inputs, check_levels, check_real, fresh, of_arguments, record
from .trees import flatten, map_tensors


@explains_arguments
def value_and_grad(
    f: Callable[P, R], argnums: Argnums = 0, has_aux: bool = False
) -> Callable[P, tuple[R, Any]]:
    """A function that returns ``(f(...), grad(f)(...))`` with one evaluation of ``f``.

    Arguments and errors are those of `grad`; with ``has_aux`` it returns
    ``((value, aux), gradient)``.
    """
    return _value_and_grad("value_and_grad", f, argnums, has_aux)


@overload
def grad(
    f: Callable[P, tuple[Any, A]], argnums: Argnums = 0, *, has_aux: Literal[True]
) -> Callable[P, tuple[Any, A]]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: tuple[int | str, ...], has_aux: Literal[False] = False
) -> Callable[P, tuple[Any, ...]]: ...
@overload
def grad(
    f: Callable[P, Any], argnums: int | str = 0, has_aux: bool = False
) -> Callable[P, Any]: ...
@explains_arguments
def grad(f: Callable[P, Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[P, Any]:
    """The gradient of a function with a scalar value, as a function of the same arguments.

    f: a function of arrays and of nested dicts, lists, tuples and dataclasses of arrays, whose
        result is a real floating tensor of shape (). Inside it the chosen arguments are Tensors.
    argnums: the arguments to differentiate by: a position, a parameter's name, or a tuple of
        these; for a tuple the gradient is a tuple too.
    has_aux: ``f`` returns ``(value, aux)``, and the result is ``(gradient, aux)``.

    The gradient has the structure of its argument, and each leaf's shape, dtype and device. For
    complex arguments it is dL/dx + i dL/dy, as in PyTorch. It can be differentiated by anything
    else that ``f`` depends on. No ``.grad`` changes.

    Raises TypeError for an argument that is not floating, naming it, or for a result that is
    not a real scalar. A result that is a number or another library's array, as after ``item()``,
    is a TypeError too, because it has no graph; a tensor that does not depend on an argument has
    the gradient 0.

    >>> import gpugrad as gg
    >>> gg.grad(lambda x: (x**3).sum())(gg.tensor([1.0, 2.0]))
    tensor([ 3., 12.])
    """
    return gradient_of("grad", f, argnums, has_aux)


def gradient_of(name, f, argnums=0, has_aux=False):
    """`grad`, with ``name`` as the name of the transform in errors."""
    both = _value_and_grad(name, f, argnums, has_aux)

    @wraps(f, updated=())
    def gradient(*args, **kwargs):
        value, g = both(*args, **kwargs)
        return (g, value[1]) if has_aux else g

    return gradient


def _value_and_grad(name, f, argnums, has_aux):
    def both(inputs, outputs, by_argument):
        y = outputs.tree(outputs.leaves)
        if not isinstance(y, Tensor) or y.shape or is_complex(y) or not is_floating(y):
            raise TypeError(
                f"{name}: the result of f must be a real floating scalar, of shape (), not "
                f"{_unlike_a_loss(y, name)}"
            )
        gradients = pull(inputs, outputs, [ones_like(y)], retain=False, explicit=False)
        return outputs.with_aux(outputs.result()), by_argument(gradients)

    return of_arguments(name, f, argnums, has_aux, both)


@overload
def vjp(
    f: Callable[..., R], *primals: Any, has_aux: Literal[False] = False
) -> tuple[R, Callable[[Any], tuple[Any, ...]]]: ...
@overload
def vjp(
    f: Callable[..., tuple[R, A]], *primals: Any, has_aux: Literal[True]
) -> tuple[R, Callable[[Any], tuple[Any, ...]], A]: ...
def vjp(f: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """``f(*primals)``, and its pullback from cotangents of the result to those of the primals.

    primals: arrays, or nested containers of arrays, all floating.
    has_aux: ``f`` returns ``(result, aux)``, and ``vjp`` returns ``(result, pullback, aux)``.

    The pullback takes a cotangent with the structure and shapes of the result, which is cast to
    the result's dtypes, and returns a tuple with one cotangent for each primal. None in place
    of a leaf means 0; cotangents of integer results are ignored.
    The pullback can be called any number of times, also inside `vmap`; it keeps the graph and
    all it saved alive. Complex cotangents follow PyTorch's convention: the pullback of f is the
    adjoint of its derivative in the real inner product ``Re(sum(conj(a) * b))``.

    Raises TypeError, naming it, for a primal that is not floating, or for a leaf of the result
    that is not a tensor, such as a Python number, because it has no graph.

    >>> import gpugrad as gg
    >>> y, pullback = gg.vjp(gg.sin, gg.tensor(0.0))
    >>> pullback(gg.tensor(2.0))
    (tensor(2.),)
    """
    callable_or_error("vjp", f)
    inputs = Inputs("vjp", primals)
    outputs = record("vjp", f, inputs, has_aux)
    result = outputs.result()
    places, with_none = flatten(result, none_is_leaf=True)
    is_array = [y is not None for y in places]
    del places
    expected = [like(y) for y in outputs.leaves]
    outputs.leaves = None  # the pullback needs the graph, not the values

    def pullback(cotangent, /):
        check_levels("vjp", inputs)
        leaves = leaves_like("vjp: the cotangent", cotangent, with_none, cotangent is not None)
        leaves = [g for g, chosen in zip(leaves, is_array, strict=True) if chosen]
        cotangents = checked("vjp: the cotangent of", leaves, expected, outputs)
        return tuple(inputs.trees(pull(inputs, outputs, cotangents, retain=True)))

    pullback.__qualname__ = "pullback"
    results = outputs.with_aux(result, pullback)
    inputs.close()
    return results


def pull(inputs, outputs, cotangents, *, retain, explicit=True):
    """The cotangents of the variables, given those of the outputs (None for 0)."""
    levels = inputs.levels
    pairs = zip(outputs.nodes, cotangents, strict=True)
    roots = [(node, inward(g, levels)) for node, g in pairs if node is not None and g is not None]
    options = outputs.options([g for _, g in roots], retain)
    tensors = options["tensors"]
    roots = [(node, conjugate(g if tensors else g.array)) for node, g in roots]
    arrived = sweep(roots, set(inputs.nodes), guard=explicit, **options)
    del roots
    if tensors:
        gradients = inputs.released([conjugate(g) for g in arrived.values()])
        arrived = dict(zip(arrived, gradients, strict=True))
    results = []
    for x in inputs.variables:
        if x.node not in arrived:
            results.append(zeros_like(x.detach()))
        elif tensors:
            # Two gradients may have arrived as one object.
            results.append(outward(fresh(arrived[x.node]), levels))
        else:
            holder = [conjugate(arrived.pop(x.node))]
            results.append(outward(call.wrap(own(holder), None), levels))
    return results


def _unlike_a_loss(y, name):
    """Describe a result that is no loss, and say what to do about it."""
    if y is None:
        return "None; is a return missing?"
    if not isinstance(y, Tensor):
        remedy = "" if name == "hvp" else "; to return more, use has_aux=True"
        return f"a {type(y).__name__}{remedy}"
    if not is_floating(y):
        return f"{y.dtype}, which has no derivatives"
    if y.shape and y.size == 1 and not is_complex(y):
        return f"{y.dtype} of shape {y.shape}; return its one element, y.sum() or y.reshape(())"
    remedy = "its sum or mean, or use jacobian or vjp" if y.shape else "its real part or abs"
    return f"{y.dtype} of shape {y.shape}; take {remedy}"


@explains_arguments
def hvp(f: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """The product of a scalar function's Hessian with a vector, without forming the Hessian.

    Call it as ``hvp(f)(x, v)``. x is an array or nested containers of arrays, all real; v and
    the result have the same structure and shapes as x. It costs a few evaluations of ``f``,
    however many elements x has: the gradient is recorded, then swept backward with cotangent v.
    Errors are those of `grad`.

    >>> import gpugrad as gg
    >>> gg.hvp(lambda x: (x**3).sum())(gg.tensor([1.0, 2.0]), gg.tensor([1.0, 1.0]))
    tensor([ 6., 12.])
    """
    gradient = gradient_of("hvp", f)
    label, _ = parameters(f)

    @wraps(f, updated=())
    def product(x, v):
        inputs = Inputs("hvp", [x], [label(0)])
        check_real("hvp", inputs)
        outputs = record("hvp", gradient, inputs, has_aux=False)
        leaves = leaves_like("hvp: the vector", v, outputs.structure)
        vectors = checked("hvp: the vector at", leaves, inputs.likes, inputs)
        return inputs.trees(pull(inputs, outputs, vectors, retain=False))[0]

    product.__qualname__ = "hvp(f)"  # for errors of calls; the name of f would mislead: it has no v
    return product


def stop_gradient(x: R) -> R:
    """The same values, but derivatives stop here: `Tensor.detach` of each Tensor in x.

    x: a Tensor or nested containers of Tensors; other leaves stay as they are.
    """
    return map_tensors(lambda t: t.detach(), x)
