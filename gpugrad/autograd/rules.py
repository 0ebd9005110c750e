"""Rules as the graph calls them: which values a rule keeps, and how it gets them back."""

from functools import partial
from operator import itemgetter


def kept_names(rule):
    """Names of the values that a rule keeps: its parameters after ``xp`` and ``g``."""
    code = rule.__code__
    return code.co_varnames[2 : code.co_argcount]


def guards_itself(rule):
    """Whether a twin's rule has the parameter ``guarded``, see `op`."""
    return "guarded" in (rule.__kwdefaults__ or ())


def guard(rule):
    """The function ``rule(xp, g, saved)``, made to return 0 instead of nan where ``g`` is 0."""
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
