"""Facts about the code of a function, found without running it."""

import dis
import functools
import re
from collections import Counter
from contextlib import suppress
from importlib.util import resolve_name
from typing import NamedTuple

_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")
_CALLS = {"PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "KW_NAMES"}
# With these, code can look up attributes under computed names.
_BY_NAME = {
    "vars", "__dict__", "attrgetter", "methodcaller", "__getattribute__", "locals", "cell_contents",
}  # fmt: skip
# These take arrays of NumPy's own type or Python's own numbers only, as do methods of these types.
_EXACT = {
    "memoryview", "bytes", "bytearray", "frombuffer", "hashlib", "zlib", "struct", "ctypes", "json",
    "statistics", "ldexp", "Decimal",
}  # fmt: skip
_IDENTITY = {"id", "is_", "is_not", "index", "count", "remove"}
_CHANGING = {  # methods of containers, and functions
    "add", "append", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft", "remove",
    "setattr", "setdefault", "update",
}  # fmt: skip
_HAS_METHODS = "LOAD_METHOD" in dis.opmap and "PRECALL" in dis.opmap  # Python 3.11


class Facts(NamedTuple):
    """Facts about the code of one function, without those about functions nested in it.

    names: all names that the code uses, and all its strings, with which it may look up attributes.
    counted: those of them with which it only counts, as in ``self.n += 1``.
    read: the names that it looks up in its globals, or changes there.
    passed: the names of objects with which it does more than call them.
    imports: a triple ``(level, name, parts)`` for each of its import statements.
    asks_types: whether it may ask for the type or the bytes of an array, or the type of a number.
    reads_arrays: whether it may read the attribute ``array`` of anything but a module.
    computes_names: whether it may look up attributes under computed names.
    writes: whether it may change attributes, items or variables that are not its own.
    asks_identity: whether it may ask whether two objects are one, other than None and the like.
    """

    names: frozenset
    counted: frozenset
    read: frozenset
    passed: frozenset
    imports: tuple
    asks_types: bool
    reads_arrays: bool
    computes_names: bool
    writes: bool
    asks_identity: bool


@functools.lru_cache(2000)
def facts_of(code):
    names, texts = {*code.co_names, *code.co_freevars, *code.co_cellvars}, set()
    for x in code.co_consts:
        given = [s for s in (x if type(x) in (tuple, frozenset) else [x]) if type(s) is str]
        texts.update(given, *[re.findall(r"\w+", s) for s in given if "{" in s])  # of a format
    read, passed, imports, begins_call = set(), set(), [], False
    asks_types = not _EXACT.isdisjoint(code.co_names)
    reads_arrays = "array" in code.co_consts
    computes_names = not _BY_NAME.isdisjoint(code.co_names)
    asks_identity = not _IDENTITY.isdisjoint(code.co_names)
    writes = not _CHANGING.isdisjoint(code.co_names)
    found = [i for i in dis.get_instructions(code) if i.opname != "EXTENDED_ARG"]
    uses = Counter(i.argval for i in found if type(i.argval) is str)
    uses.subtract(2 * [i.argval for k, i in enumerate(found) if _is_counted(i, found[k + 1 :][:4])])
    for k, i in enumerate(found):
        is_global = i.opname in _LOADS
        if i.argval == "array" and i.opname != "LOAD_GLOBAL":
            reads_arrays |= found[k - 1].opname not in _LOADS
        if is_global or i.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            read.add(i.argval)
        if i.opname != "LOAD_ATTR":  # what this loads, or an attribute of it, is called
            begins_call = i.opname == "LOAD_GLOBAL" and i.arg & 1
        is_called = begins_call or (i.opname == "LOAD_ATTR" and i.arg & 1 and not _HAS_METHODS)
        after = found[k + 1].opname if k + 1 < len(found) else ""
        is_called = is_called or after == "PUSH_NULL"  # since Python 3.13
        is_base = after in ("LOAD_ATTR", "LOAD_METHOD") and found[k + 1].argval != "__call__"
        if (is_global or i.opname == "LOAD_ATTR") and not (is_called or is_base):
            passed.add(i.argval)
        asks_identity |= i.opname == "CONTAINS_OP"
        asks_identity |= i.opname == "IS_OP" and found[k - 1].opname != "LOAD_CONST"
        if i.opname == "IMPORT_NAME":
            imports.append((found[k - 2].argval, i.argval, found[k - 1].argval or ()))
        if i.opname.startswith(("STORE_", "DELETE_")) and "FAST" not in i.opname:
            writes |= "DEREF" not in i.opname or i.argval in code.co_freevars
        if i.argval == "ndarray":
            asks_types |= found[k + 1].opname in ("LOAD_ATTR", "LOAD_METHOD")
        if i.argval == "getattr" and not is_global:  # an attribute, or something imported
            computes_names |= i.opname != "LOAD_CONST"
        elif is_global and i.argval == "getattr":
            end = next((n for n, x in enumerate(found[k:], k) if x.opname in _CALLS), len(found))
            call = found[end] if end < len(found) else None
            computes_names |= not _gives_name(found[k + 1 : end], call)
    asks_types |= not read.isdisjoint(("type", "pow"))
    counted = {name for name in names - texts if uses[name] == 0}
    sets = map(frozenset, (names | texts, counted, read, passed))
    flags = asks_types, reads_arrays, computes_names, writes, asks_identity
    return Facts(*sets, tuple(imports), *flags)


def _is_counted(load, after):
    """Whether an instruction loads what those after it add a plain int to and store again."""
    after = [i for i in after if i.opname != "SWAP"][:3]
    place = load.opname.removeprefix("LOAD_")
    if place not in ("ATTR", "GLOBAL", "NAME", "DEREF") or len(after) < 3:
        return False
    number, add, store = after
    is_added = number.opname.startswith("LOAD_") and type(number.argval) is int
    is_added = is_added and add.argrepr in ("+=", "-=")
    return is_added and (store.opname, store.argval) == (f"STORE_{place}", load.argval)


def _gives_name(given, call):
    """Whether a call of ``getattr`` has a literal name.

    given: the instructions that load its arguments: an object, perhaps some attributes of it, a
        name, and perhaps a default.
    """
    rest = [i for i in given[1:] if i.opname != "LOAD_ATTR"]
    is_text = rest and rest[0].opname == "LOAD_CONST" and type(rest[0].argval) is str
    is_plain = all(i.opname.startswith("LOAD_") and i.opname != "LOAD_METHOD" for i in given)
    is_counted = call is not None and call.opname in ("PRECALL", "CALL")
    return is_text and is_plain and is_counted and call.arg == 1 + len(rest)


def imported(code, variables):
    """The full names of the modules that a function's own import statements may import.

    variables: those of its module, whose package is found as Python finds it.
    """
    names, package = [], variables.get("__package__")
    if package is None:
        package = getattr(variables.get("__spec__"), "parent", None)
    if package is None:
        package = str(variables.get("__name__"))
        package = package if "__path__" in variables else package.rpartition(".")[0]
    for level, name, parts in facts_of(code).imports:
        with suppress(ImportError):  # the function itself will raise it
            found = resolve_name("." * level + name, package)
            # `import a.b` finds `b` as an attribute of `a`.
            names += [found.partition(".")[0], found, *[f"{found}.{part}" for part in parts]]
    return names
