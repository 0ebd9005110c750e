"""The decorator that defines special functions, and helpers for their derivatives."""

from typing import Any

from ...autograd.operation import elementwise
from ..by_name import forward_by_name


def special_function(
    *, integer=(), discards=False, differences=(), density=None, falls=False, inverse_of=None,
    **rules,
) -> Any:  # fmt: skip
    """Define an elementwise op whose forward is the function of the same name in ``xp.special``.

    integer, discards, rules: as for `op` and its method ``vjp``.
    differences: names of inputs whose VJPs use `parameter_slope`.
    density: of a distribution function, ``density(xp, *inputs)``, its slope in the last input.
    falls: whether that slope is minus the density.
    inverse_of: the name of the distribution function, if the op is its inverse. Then the other
        inputs get gradients by implicit differentiation.
    """

    def define(function):
        *parameters, last = inputs = function.__code__.co_varnames
        arguments = ", ".join([*parameters, "out"] if inverse_of else inputs)
        names = {"slope": parameter_slope, "density": density}
        sign, opposite = ("-", "") if falls else ("", "-")

        def rule(formula, *kept):
            return eval(f"lambda xp, g, {', '.join(kept)}: {formula}", names)

        if inverse_of:
            of_last = f"density(xp, {arguments})"
            for at, target in enumerate(parameters):
                slope = f"slope(xp, '{inverse_of}', {at}, ({arguments}), {last})"
                rules[target] = rule(f"{opposite}g * {slope} / {of_last}", *inputs, "out")
            rules[last] = rule(f"{sign}g / {of_last}", *parameters, "out")
        elif density:
            rules[last] = rule(f"{sign}g * density(xp, {arguments})", *inputs)
        for target in differences:
            slope = f"slope(xp, '{function.__name__}', {inputs.index(target)}, ({arguments}), out)"
            rules[target] = rule(f"g * {slope}", *inputs, "out")
        forward = forward_by_name("xp.special", function)
        return elementwise(forward, integer=integer, discards=discards).vjp(**rules)

    return define


def as_arrays(xp, *values):
    """The values as arrays: at least one is an array, and numbers become arrays like it."""
    like = next(v for v in values if hasattr(v, "dtype"))
    return [v if hasattr(v, "dtype") else xp.full_like(like, v) for v in values]


def at_least_float32(xp, *values):
    """The values as arrays, with float16 cast to float32, for formulas that lose digits."""
    arrays = as_arrays(xp, *values)
    if xp.finfo(arrays[0].dtype).bits > 16:
        return arrays
    return [xp.astype(a, xp.float32) for a in arrays]


def polynomial(coefficients, x):
    """The value at ``x`` of a polynomial with two or more coefficients, the constant term first."""
    *lower, total = coefficients
    for c in reversed(lower):
        total = total * x + c
    return total


def near_zero(xp, x, radius, series, formula):
    """``formula(x)``; within ``radius`` of 0, where it or its derivatives cancel, ``series(x)``.

    Each of them is given a harmless number, 0 or 1, where its result is not used.
    """
    near = xp.abs(x) < radius
    return xp.where(near, series(xp.where(near, x, 0.0)), formula(xp.where(near, 1.0, x)))


# How concentrated each distribution is, as a function of the arguments. Zeta is steep at its pole.
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
    varies on a scale of 1, or of ``concentration ** -0.5``; the step is 0.05 of that scale.
    """
    arguments = at_least_float32(xp, *arguments)
    function, parameter = getattr(xp.special, name), arguments[at]
    tiny = float(xp.finfo(parameter.dtype).smallest_normal)

    def logarithm(factor):
        arguments[at] = parameter * factor
        return xp.log(xp.maximum(function(*arguments), tiny))

    step = xp.ones_like(parameter)
    if name in CONCENTRATION:
        # Rounded to a power of 2, so that further derivatives treat it as a constant.
        step = 2.0 ** -xp.ceil(0.5 * xp.log2(1 + CONCENTRATION[name](*arguments)))
    step = 0.05 * step
    total = 0.0
    for k, weight in enumerate((4 / 5, -1 / 5, 4 / 105, -1 / 280), 1):
        total = total + weight * (logarithm(xp.exp(k * step)) - logarithm(xp.exp(-k * step)))
    return out * total / (step * parameter)
