"""Rules as the graph calls them: which values a rule has the graph keep, and how it gets them."""

from functools import partial
from operator import itemgetter


def kept_names(rule):
    """Names of the values that a rule keeps: its parameters after ``xp`` and ``g``."""
    if hasattr(rule, "kept_names"):
        return rule.kept_names
    code = rule.__code__
    if code.co_varnames[: min(code.co_argcount, 1)] != ("xp",):
        names = ", ".join(code.co_varnames[: code.co_argcount])
        raise TypeError(
            f"the parameters of a rule are xp, the cotangent, and the names of values to keep, "
            f"not ({names}), in {code.co_filename}:{code.co_firstlineno}"
        )
    return code.co_varnames[2 : code.co_argcount]


def linear_rule(op, target, kept):
    """The rule for tangents of an input in which the op is linear: its forward, at the tangent.

    kept: the names that the VJP keeps. Other parameters, such as a bias, have their defaults.
    """
    kept = tuple([n for n in kept if n != target and n in (*op.inputs, *op.static_names)])
    needed = *op.inputs[: op.required], *op.static_names
    if missing := [n for n in needed if n not in (target, *kept, *op.static_defaults)]:
        raise TypeError(
            f"{op.name}.jvp: the op can be called for the tangent of {target} only if its VJP "
            f"keeps {', '.join(missing)}; give the rule, {target}=..."
        )

    def rule(xp, t, *values):
        given = {target: t, **dict(zip(kept, values, strict=True))}
        inputs = [given.pop(name, None) for name in op.inputs]
        return op.forward(xp, *inputs, **given)

    rule.kept_names = kept
    return rule


def guards_itself(rule):
    """Whether a twin's rule has the parameter ``guarded``; see `op`."""
    return "guarded" in (rule.__kwdefaults__ or ())


def guard(rule):
    """A function ``rule(xp, g, saved)`` that returns 0 in place of nan where ``g`` is 0."""
    return lambda xp, g, saved: xp.zero_discarded_nans(rule(xp, g, saved), g)


def bind(rule, names, **options):
    """``rule`` as a function of ``(xp, g, saved)``; ``saved`` holds the values of ``names``."""
    at = [names.index(name) for name in kept_names(rule)]
    if options:
        rule = partial(rule, **options)
    if not at:
        return lambda xp, g, saved: rule(xp, g)
    if len(at) == 1:
        (i,) = at
        return lambda xp, g, saved: rule(xp, g, saved[i])
    if len(at) == 2:
        i, j = at
        return lambda xp, g, saved: rule(xp, g, saved[i], saved[j])
    get = itemgetter(*at)
    return lambda xp, g, saved: rule(xp, g, *get(saved))
