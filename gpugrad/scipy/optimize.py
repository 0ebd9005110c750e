"""SciPy's minimizers for functions of tensors, with derivatives filled in."""

from collections.abc import Callable
from typing import Any

from .._creation import create
from .._foreign_names import explain_names
from .._tensor import Tensor
from ..transforms import hessian, hvp, jacobian, value_and_grad
from ._tensors import floating, values

__all__ = ["minimize"]
explain_names(__name__)

_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}


def minimize(
    fun: Callable[..., Any], x0: Any, args: Any = (), method: str | None = None, jac: Any = None,
    hess: Any = None, hessp: Any = None, bounds: Any = None, constraints: Any = (),
    tol: float | None = None, callback: Any = None, options: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """The minimum of a function of a tensor by `scipy.optimize.minimize`.

    fun: ``fun(x, *args)``, where x is a tensor with the shape, dtype and device of ``x0``; its
        result is a scalar, a real floating tensor of shape ().
    x0: a floating tensor or array of any shape, or numbers. float64 is best: in float32 most
        methods stop early.
    args: further arguments, a tuple or one.
    jac, hess, hessp: by default the gradient, the Hessian and its products with vectors, by this
        library, for methods that use them. Otherwise they are functions of tensors,
        like ``fun``, or other values that SciPy takes.
    constraints: dicts with functions of tensors, whose Jacobians are filled in too, or SciPy's
        objects, whose functions take NumPy arrays.
    method, bounds, tol, callback, options: as SciPy takes them. Bounds are for flattened x, and
        ``callback`` is given NumPy arrays.

    Returns SciPy's result. Its ``x``, and ``jac`` if there is one, are tensors like ``x0``; all
    else is flat and on the host. The minimum has no gradient with respect to ``args``; `custom_vjp`
    can define it by the implicit function theorem. At each step, one number and the gradient come
    from the device.
    """
    from scipy import optimize

    (start,) = floating(x0)
    start = start.detach()
    args = args if isinstance(args, tuple) else (args,)
    problem = _Problem(start, args)
    name = method.lower() if isinstance(method, str) else None
    objective, scalar = fun, (lambda x, *args: fun(x, *args)[0]) if jac is True else fun
    if jac is None and name not in _WITHOUT_GRADIENT:
        objective, jac = value_and_grad(fun), True
    objective = problem.number(objective, has_gradient=jac is True)
    jac = problem.array(jac) if callable(jac) else jac
    if hess is None and hessp is None and name in _WITH_PRODUCTS:
        product = hvp(lambda x: scalar(x, *args))
        hessp = problem.product(lambda x, v, *args: product(x, v))
    else:
        if hess is None and hessp is None and name in _WITH_HESSIAN:
            hess = hessian(scalar)
        hess = problem.array(hess, square=True) if callable(hess) else hess
        if callable(hessp):
            hessp = problem.product(hessp)
    x0, constraints = problem.flat(start), problem.constraints(constraints)
    done = optimize.minimize(
        objective, x0, (), method, jac, hess, hessp, bounds, constraints, tol, callback, options
    )
    done.x = problem.tensor(done.x)
    gradient = done.get("jac")
    if getattr(gradient, "size", None) == start.size:
        done.jac = problem.tensor(gradient)
    return done


class _Problem:
    """Functions of flat NumPy arrays of float64, made of functions of tensors."""

    def __init__(self, start, args):
        self.start, self.args = start, args

    def tensor(self, x):
        return create("asarray", x, like=self.start).reshape(self.start.shape)

    def flat(self, x):
        x = values(x.detach()) if isinstance(x, Tensor) else x
        return x.reshape(-1).astype(float)

    def number(self, fun, has_gradient):
        def call(x):
            value = fun(self.tensor(x), *self.args)
            return (_number(value[0]), self.flat(value[1])) if has_gradient else _number(value)

        return call

    def array(self, function, square=False):
        shape = (self.start.size,) * 2 if square else (-1,)
        return lambda x: self.flat(function(self.tensor(x), *self.args)).reshape(shape)

    def product(self, hessp):
        return lambda x, v: self.flat(hessp(self.tensor(x), self.tensor(v), *self.args))

    def constraints(self, constraints):
        """Constraints, of which those in dicts get functions of arrays."""
        if isinstance(constraints, (list, tuple)):
            return [self.constraints(c) for c in constraints]
        if not isinstance(constraints, dict):
            return constraints
        function, args = constraints["fun"], tuple(constraints.get("args", ()))
        slope, shape = constraints.get("jac") or jacobian(function), (-1, self.start.size)
        return {
            "type": constraints["type"],
            "fun": lambda x: self.flat(function(self.tensor(x), *args)),
            "jac": lambda x: self.flat(slope(self.tensor(x), *args)).reshape(shape),
        }


def _number(value):
    return value.detach().item() if isinstance(value, Tensor) else value
