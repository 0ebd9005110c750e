"""How a special function is defined, and what the derivatives of several families need."""

from typing import Any

from ...autograd.operation import elementwise


def special_function(*, integer=(), discards=False, differences=(), **rules) -> Any:
    """Define an elementwise op whose forward is the function of its name in ``xp.special``.

    The decorated function has no body: it gives the op's name, inputs and docstring.
    ``rules`` are the VJPs by input. For them, ``integer`` and ``discards`` see `op`.

    differences: names of inputs whose VJPs are `parameter_slope`.
    """

    def define(function):
        # `op` reads the names of parameters, so functions of ``*inputs`` would not do.
        name, inputs = function.__name__, function.__code__.co_varnames
        listed = ", ".join(inputs)
        scope = {"__name__": function.__module__, "slope": parameter_slope}
        exec(f"def {name}(xp, {listed}): return xp.special.{name}({listed})", scope)
        scope[name].__doc__ = function.__doc__
        for target in differences:
            at = inputs.index(target)
            rule = f"lambda xp, g, {listed}, out: g * slope(xp, '{name}', {at}, ({listed}), out)"
            rules[target] = eval(rule, scope)
        return elementwise(scope[name], integer=integer, discards=discards).vjp(**rules)

    return define


def as_arrays(xp, *values):
    """The values, at least one of them an array, with each number made an array like that one."""
    like = next(v for v in values if hasattr(v, "dtype"))
    return [v if hasattr(v, "dtype") else xp.full_like(like, v) for v in values]


def at_least_float32(xp, *values):
    """The values as arrays, in float32 if they are float16: for formulas that lose digits."""
    arrays = as_arrays(xp, *values)
    if xp.finfo(arrays[0].dtype).bits > 16:
        return arrays
    return [xp.astype(a, xp.float32) for a in arrays]


def polynomial(coefficients, x):
    """The polynomial of two or more coefficients, the constant one first, at ``x``."""
    *lower, total = coefficients
    for c in reversed(lower):
        total = total * x + c
    return total


def near_zero(xp, x, radius, series, formula):
    """``formula(x)``, but ``series(x)`` near 0, where the formula or its derivatives cancel.

    Where the result of one of them is not used, it is computed for a harmless number, 1 or 0.
    """
    near = xp.abs(x) < radius
    return xp.where(near, series(xp.where(near, x, 0.0)), formula(xp.where(near, 1.0, x)))


# How concentrated a distribution is, given its function's arguments; zeta is steep at its pole.
CONCENTRATION = {
    **dict.fromkeys(("gammainc", "gammaincc"), lambda a, x: a),
    **dict.fromkeys(("gdtr", "gdtrc"), lambda a, b, x: b),
    **dict.fromkeys(("chdtr", "chdtrc"), lambda v, x: v / 2),
    **dict.fromkeys(("betainc", "betaincc"), lambda a, b, x: a * b / (a + b)),
    **dict.fromkeys(("fdtr", "fdtrc"), lambda dfn, dfd, x: dfn * dfd / (dfn + dfd) / 2),
    **dict.fromkeys(("zeta", "zetac"), lambda x, q=None: (4 / (x - 1)) ** 2),
}


def parameter_slope(xp, name, at, arguments, out):
    """The derivative of ``out = xp.special.name(*arguments)`` with respect to ``arguments[at]``.

    Both must be positive. Differences give the derivative of the function's logarithm with
    respect to the argument's logarithm, which is smooth even where the function is tiny. It
    varies on a width of 1, or of ``concentration ** -0.5``; the step is 0.05 of that width.
    """
    arguments = at_least_float32(xp, *arguments)
    function, parameter = getattr(xp.special, name), arguments[at]
    tiny = float(xp.finfo(parameter.dtype).smallest_normal)

    def logarithm(factor):
        arguments[at] = parameter * factor
        return xp.log(xp.maximum(function(*arguments), tiny))

    step = xp.ones_like(parameter)
    if name in CONCENTRATION:
        # Rounded to a power of 2, so that a further derivative takes it for a constant.
        step = 2.0 ** -xp.ceil(0.5 * xp.log2(1 + CONCENTRATION[name](*arguments)))
    step = 0.05 * step
    total = 0.0
    for k, weight in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), 1):
        total = total + weight * (logarithm(xp.exp(k * step)) - logarithm(xp.exp(-k * step)))
    return out * total / (step * parameter)
