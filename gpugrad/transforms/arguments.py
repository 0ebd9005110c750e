"""Reading the arguments of transforms: a function, and which of its arguments are meant."""

from inspect import Parameter, signature

from ..backends import describe


def arguments(transform, f, argnums):
    """A function that picks the arguments that ``argnums`` chooses, and whether it is only one.

    The function takes positional and keyword arguments. It returns the chosen values, their labels,
    and a function that returns all arguments with other values in place of the chosen ones.
    """
    single = not isinstance(argnums, (tuple, list))
    chosen = (argnums,) if single else tuple(argnums)
    if not chosen or not all(type(a) in (int, str) for a in chosen):
        raise TypeError(
            f"{transform}: argnums must be an int or a parameter's name, or a tuple of these, "
            f"not {misplaced(transform, argnums)}"
        )
    label, place_of = parameters(f)

    def choose(args, kwargs):
        given = {**dict(enumerate(args)), **kwargs}
        labels = {}  # by the places of the chosen arguments in ``given``
        for a in chosen:
            if type(a) is str:
                place = a if a in kwargs else place_of.get(a)
                if place not in given:
                    listed = ", ".join([*map(label, range(len(args))), *kwargs]) or "none"
                    raise TypeError(
                        f"{transform}: argnums names {a!r}, but the arguments given are: {listed}"
                    )
            else:
                place = a + len(args) if a < 0 else a
                if place not in given:
                    raise TypeError(
                        f"{transform}: argnums is {a}, but the call has "
                        f"{counted(len(args), 'positional argument')}; arguments passed by name "
                        f"are chosen by name"
                    )
            if place in labels:
                raise ValueError(f"{transform}: argnums {argnums!r} chooses an argument twice")
            labels[place] = a if type(a) is str else label(place)

        def put(values):
            changed = {**given, **dict(zip(labels, values, strict=True))}
            return [changed.pop(i) for i in range(len(args))], changed

        return [given[place] for place in labels], [*labels.values()], put

    return choose, single


def parameters(f):
    """A function from the positions of ``f``'s arguments to names, and a dict from names to
    positions."""
    try:
        known = signature(f).parameters.values()
    except (TypeError, ValueError):  # a builtin may have no signature
        known = ()
    kinds = Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD
    positional = [p.name for p in known if p.kind in kinds]
    rest = next((p.name for p in known if p.kind is Parameter.VAR_POSITIONAL), "args")

    def label(i):
        n = len(positional)
        return positional[i] if i < n else f"{rest}[{i - n}]"

    return label, {name: i for i, name in enumerate(positional)}


def counted(n, noun):
    return f"{n} {noun}{'' if n == 1 else 's'}"


def kind_of(x):
    """What errors call a result: its type, and how many elements a tuple or list has."""
    length = f" of {len(x)}" if isinstance(x, (tuple, list)) else ""
    return f"a {type(x).__name__}{length}"


def pair(result, what):
    """``result``; TypeError, which begins with ``what``, unless it is a tuple of two."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"{what}, not {kind_of(result)}")
    return result


def misplaced(transform, option):
    """Describe the value given for an option, with a hint if it looks like an argument of ``f``."""
    if hasattr(option, "shape"):
        return f"{describe(option)}; the arguments of f go to what is returned: {transform}(f)(x)"
    return repr(option)


def callable_or_error(transform, f, name="f"):
    if not callable(f):
        raise TypeError(
            f"{transform}: {name} must be a function, not {describe(f)}; pass {name} itself, "
            f"not {name}(x)"
        )
