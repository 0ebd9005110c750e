"""Reading arguments that mean the same in several places."""

from collections.abc import Mapping
from inspect import Parameter, Signature
from math import inf
from operator import index

from ._foreign_names import explains_arguments
from ._tensor import Tensor
from .backends import backend_of


def whole(name, value, least):
    """``value``, an integer of any type, as an int of at least ``least``; else ValueError."""
    try:
        number = None if isinstance(value, bool) else index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{name} must be an int of at least {least}, not {value!r}")
    return number


def one_of(name, value, known):
    """``value``; ValueError if it is not one of the strings ``known``."""
    if value not in known:
        *most, last = map(repr, known)
        choice = f"{', '.join(most)} or {last}" if most else last
        raise ValueError(f"{name} must be {choice}, not {value!r}")
    return value


def between(name, value, low, high=inf):
    """``value``, a number above ``low`` and below ``high``, as a float; else ValueError."""
    try:
        fits = low < value < high
    except TypeError:
        fits = False
    if not fits:
        bound = "finite" if high == inf else f"below {high}"
        raise ValueError(f"{name} must be a number above {low} and {bound}, not {value!r}")
    return float(value)


def axis_of(name, axis, ndim):
    """``axis`` as an int of at least 0; IndexError if an array with ``ndim`` axes lacks it."""
    axis = index(axis)
    if not -ndim <= axis < ndim:
        raise IndexError(f"{name}: axis {axis} is out of range for {ndim} axes")
    return axis % ndim


def require(fits, what, value):
    """Raise ValueError unless a value fits; ``what`` says what it must be."""
    if not fits:
        raise ValueError(f"{what}, not {value!r}")


def check_type(value, kind, what, remedy=""):
    """Raise TypeError unless a value is an instance of ``kind``; ``what`` says what it must be."""
    if not isinstance(value, kind):
        # A class in place of its instance is a common mistake: its type says nothing.
        is_class = isinstance(value, type)
        given = f"the class {value.__name__}" if is_class else f"a {type(value).__name__}"
        raise TypeError(f"{what}, not {given}{remedy}")


def leaves_in(x):
    """What nested lists, tuples and dicts hold, in order; ``x`` itself if it is none of these."""
    if isinstance(x, (list, tuple, dict)):
        for part in x.values() if isinstance(x, dict) else x:
            yield from leaves_in(part)
    else:
        yield x


def mapped(function, x):
    """``x`` with ``function`` applied to all that its nested lists, tuples and dicts hold."""
    if isinstance(x, Mapping):
        return {key: mapped(function, value) for key, value in x.items()}
    if isinstance(x, (list, tuple)):
        parts = [mapped(function, value) for value in x]
        return getattr(type(x), "_make", type(x))(parts)
    return function(x)


def map_tensors(function, x):
    """``x`` with ``function`` applied to each Tensor in its nested lists, tuples and dicts."""
    return mapped(lambda value: function(value) if isinstance(value, Tensor) else value, x)


def annotated(options):
    """The parameters; those without an annotation get one that fits their defaults."""
    types = {bool: bool, tuple: tuple[float, float]}
    return [
        p.replace(annotation=types.get(type(p.default), float)) if p.annotation is p.empty else p
        for p in options
    ]


def constructor(parameters, init):
    """An ``__init__`` that takes self and these parameters, and passes all by name to ``init``."""
    own = Parameter("self", Parameter.POSITIONAL_OR_KEYWORD)
    taken = Signature([own, *parameters], return_annotation=None)

    def __init__(*args, **keywords):
        given = taken.bind(*args, **keywords)
        given.apply_defaults()
        init(**given.arguments)

    __init__.__signature__ = taken
    made = explains_arguments(__init__)
    made.is_made = True
    return made


def is_made(cls, base):
    """Whether a class inherits the ``__init__`` of ``base``, or one by `constructor`."""
    return cls.__init__ is base.__init__ or hasattr(cls.__init__, "is_made")


def is_floating(x):
    """Whether a tensor can have a gradient."""
    return backend_of[type(x._like)].is_floating(x.dtype)


def check_floating(x, what, remedy=""):
    """Raise TypeError unless a tensor is floating; ``what`` says which one it is."""
    if not is_floating(x):
        raise TypeError(f"{what} must be floating, not {x.dtype}{remedy}")


def is_complex(x):
    """Whether a tensor is complex."""
    return backend_of[type(x._like)].is_complex(x.dtype)


# By name, as NumPy takes them.
_DTYPES = "bool bfloat16 float16 float32 float64 complex64 complex128".split()
_DTYPES += [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]


def device_and_dtype(args, device, dtype):
    """The device and the dtype in the arguments of ``to``, or of a tensor among them."""
    for arg in args:
        if isinstance(arg, str) and arg not in _DTYPES:
            device = arg
        elif isinstance(arg, Tensor):
            device, dtype = arg.device, arg.dtype
        else:
            dtype = arg
    return device, dtype


def moved(x, device, dtype):
    """A tensor on ``device``, cut from its graph; in ``dtype`` if it is floating."""
    return x.detach().to(device=device, dtype=dtype if is_floating(x) else None)
