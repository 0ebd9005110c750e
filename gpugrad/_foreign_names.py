"""Names of PyTorch, NumPy and JAX that gpugrad lacks; errors say what to write instead.

The names are in ``_foreign_names.ini``: a section for each module or class, one with parentheses
for the keywords of each function, ``[numpy]`` for functions of NumPy that refuse tensors, and
``[keywords]`` for keywords that are only called otherwise.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from opcode import opmap
from os.path import splitext
from sys import _getframe, modules
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar


def _read(text):
    """The tables of a file of sections, by their headers."""
    sections = [section.split("]\n", 1) for section in text.strip("[").split("\n[")]
    return {
        header: dict([line.split(" = ", 1) for line in lines.splitlines() if line])
        for header, lines in sections
    }


# This module reads the file at once, in 0.2 ms, because Tensor has an attribute for each name. The
# entries of gpugrad also serve all of its modules.
with open(splitext(__file__)[0] + ".ini", encoding="utf-8") as _file:
    INSTEAD = _read(_file.read())
RENAMED = INSTEAD["keywords"]
OPTIONS_OF_COMPILE = INSTEAD["compile()"]

_F = TypeVar("_F", bound=Callable[..., Any])


def explains_arguments(function: _F) -> _F:
    """Decorate a function or an ``__init__`` so that errors about its arguments say what it takes.

    They name what users see: a function, or the class of the object that is made. Arguments that
    fit cost one more call of a Python function. ``argnum``, autograd's name, is ``argnums``.
    """

    @wraps(function)
    def call(*args, **keywords):
        try:
            return function(*args, **keywords)
        except TypeError:
            if "argnum" in keywords and "argnums" in signature(function).parameters:
                keywords["argnums"] = keywords.pop("argnum")
                return call(*args, **keywords)
            if problem := _misfit(call.__name__, function, args, keywords):
                raise TypeError(problem) from None
            raise

    return call  # type: ignore[return-value]


def set_constructor(cls: type, made: Callable[..., None]) -> None:
    """Give a class an ``__init__``; an assignment in one of its methods would confuse editors."""
    cls.__init__ = made  # type: ignore[misc]


class Explained:
    """A class of the library whose subclasses in it say in errors what their constructors take.

    Its objects say what to write in place of attributes of other libraries' classes of that name.
    """

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        if "__init__" in vars(cls) and cls.__module__.startswith("gpugrad."):
            set_constructor(cls, explains_arguments(cls.__init__))

    if not TYPE_CHECKING:

        def __getattr__(self, name):  # called only for attributes that do not exist
            for base in type(self).__mro__:
                if name in INSTEAD.get(base.__name__, ()):
                    raise missing(type(self).__name__, name, base.__name__)
            return super().__getattribute__(name)  # raises Python's own error


def _misfit(name, function, args, keywords):
    """What is wrong with the arguments; None if they fit, and the error was another."""
    taken = signature(function)
    try:
        taken.bind(*args, **keywords)
        return None
    except TypeError as error:
        problem = str(error)
    names = [name for name in taken.parameters if name != "self"]
    kinds = [base.__name__ for base in type(args[0]).__mro__] if name == "__init__" else [name]
    known = {k: v for kind in kinds for k, v in INSTEAD.get(f"{kind}()", {}).items()}
    if foreign := [name for name in keywords if name in known and name not in names]:
        problem = "; ".join([f"there is no {name}: {known[name]}" for name in foreign])
        return f"{kinds[0]}: {problem}"
    renamed = [f"{n} is {RENAMED[n]} here" for n in keywords if RENAMED.get(n) in names]
    if problem.startswith("too many") and "too many" in known:
        renamed.append(known["too many"])
    expected = ", ".join(names) or "nothing"
    return "; ".join([f"{kinds[0]}: {problem}", *renamed, f"it takes {expected}"])


class MissingName:
    """A class attribute that raises AttributeError, saying what to write; ``hasattr`` is False."""

    def __init__(self, name, kind):
        self.name, self.kind = name, kind

    def __get__(self, instance, owner):
        raise missing(owner.__name__, self.name, self.kind)

    def __set__(self, instance, value):
        self.__get__(instance, type(instance))


class HidesMissingNames(type):
    """The class of classes that have a `MissingName`: ``dir`` and ``help`` do not show them.

    `Tensor` has these rather than a ``__getattr__``, with which its attributes would lose the fast
    access that Python 3.11 has.
    """

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if hasattr(cls, name)]


def missing(owner, name, kind=None, place=None):
    """The AttributeError for a name that a module or a class lacks; ImportError in an import of it.

    owner: its name, which the error shows.
    kind: the key of its table in `INSTEAD`, by default ``owner``.
    place: where gpugrad has the name, if it does.
    """
    tables = [kind or owner, "gpugrad"] if owner.startswith("gpugrad") else [kind or owner]
    remedies = [INSTEAD[table][name] for table in tables if name in INSTEAD.get(table, ())]
    hint = ""
    if remedies or place:
        hint = f"; write {(remedies or [place])[0]}"
    elif owner in modules and name[0] != "_":
        from difflib import get_close_matches

        names = dir(modules[owner])
        same = [other for other in names if other.lower() == name.lower()]
        for other in same or get_close_matches(name, names, 1, 0.75):
            hint = f"; did you mean {owner}.{other}?"
    # `from gpugrad import cat` would make an ImportError of an AttributeError, without its message.
    caller = _getframe(1).f_back  # None for a caller in C
    op = caller and caller.f_code.co_code[caller.f_lasti]
    if op == opmap["IMPORT_FROM"] and hint and f"{owner}.{name}" not in modules:
        return ImportError(f"cannot import name {name!r} from {owner!r}{hint}", name=owner)
    return AttributeError(f"{owner} has no attribute {name!r}{hint}", name=name)


def explain_names(module: str, *spaces: ModuleType) -> None:
    """Have ``dir`` of a module give its ``__all__``, and errors about other names say what to do.

    spaces: modules in which to look for such a name.

    Type checkers do not see this, so that they do not take every name for one of the module's.
    """

    def __getattr__(name):
        found = [f"{space.__name__}.{name}" for space in spaces if name in dir(space)]
        raise missing(module, name, place=next(iter(found), None))

    names = vars(modules[module])
    names.update(__dir__=names["__all__"].copy, __getattr__=__getattr__)
