"""Rules as the graph calls them: which values a rule keeps, and how it gets them back."""

from operator import itemgetter


def kept_names(rule):
    """Names of the values that a rule keeps: its parameters after ``xp`` and ``g``."""
    code = rule.__code__
    return code.co_varnames[2 : code.co_argcount]


def bind(rule, names):
    """``rule`` as a function of ``(xp, g, saved)``; ``saved`` holds the values of ``names``."""
    at = [names.index(name) for name in kept_names(rule)]
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
