"""Nested containers of arrays: dicts, lists, tuples, named tuples and dataclasses.

The library optree flattens them; a single array does not need it.
"""

import re
import threading
import warnings
from dataclasses import fields, is_dataclass
from types import NoneType
from typing import Any

from .._batched import check_open, levels_of
from .._creation import asarray
from .._tensor import Tensor
from ..backends import SCALARS, namespace_of

_ROOM = "gpugrad"  # the namespace for dataclasses, so that optree's other users do not see them
_registering = threading.Lock()
_registered: set[type] = set()


class _Leaf:
    """The structure of a single leaf."""

    num_leaves = 1

    def __repr__(self):
        return "*"

    def __reduce__(self):  # a copy is the same object
        return "LEAF"


LEAF = _Leaf()


def is_leaf(x):
    return isinstance(x, Tensor) or type(x) in SCALARS or type(x) in namespace_of


def _is_remade(x):
    kind = type(x)
    is_other_tuple = isinstance(x, tuple) and kind is not tuple
    return is_other_tuple and kind not in _registered and _has_own_new(kind)


def flatten(tree, none_is_leaf=False, stops=_is_remade):
    """The leaves of a tree and its structure.

    stops: None to save time if `unflatten` will not be called.
    """
    if is_leaf(tree) or (tree is None and none_is_leaf):
        return [tree], LEAF
    if not isinstance(tree, (dict, list, tuple, NoneType)) and not _is_record(type(tree)):
        return [tree], LEAF
    optree = _optree()
    options = {"none_is_leaf": none_is_leaf, "namespace": _ROOM}
    while True:
        leaves, structure = optree.tree_flatten(tree, stops, **options)
        kinds = {type(x) for x in leaves}
        unknown = [kind for kind in kinds if _is_record(kind) or _has_own_new(kind)]
        if not unknown:
            return leaves, structure
        for kind in unknown:
            _register(optree, kind)


def flatten_each(trees, none_is_leaf=False, stops=_is_remade):
    """The leaves of all trees, one tree after another, and a list of the structures."""
    pairs = [flatten(tree, none_is_leaf, stops) for tree in trees]
    return [x for leaves, _ in pairs for x in leaves], [structure for _, structure in pairs]


def unflatten(structure, leaves):
    """The tree with this structure and these leaves."""
    if structure is LEAF:
        (leaf,) = leaves
        return leaf
    return _optree().tree_unflatten(structure, leaves)


def grouped(structures, leaves):
    """The trees with these structures and leaves: the inverse of `flatten_each`."""
    trees, start = [], 0
    for structure in structures:
        stop = start + structure.num_leaves
        trees.append(unflatten(structure, leaves[start:stop]))
        start = stop
    return trees


def names(structure, root):
    """The name of each leaf in errors, written as in code: ``params['w'][0]``."""
    if structure is LEAF:
        return [root]
    return [accessor.codify(root) for accessor in structure.accessors()]


def shown(structure):
    """A structure as errors show it, with ``*`` for each leaf: ``{'w': *, 'b': [*, *]}``."""
    return re.sub(r"^PyTreeSpec\((.*?)(, NoneIsLeaf)?(, namespace=.*)?\)$", r"\1", str(structure))


def spread(prefix, tree, names):
    """The leaves of ``prefix``, each repeated for every leaf of ``tree`` below it, in order.

    None counts as a leaf in both. Raises ValueError, with the ``names`` of both, if ``prefix``
    is not a prefix of ``tree``.
    """
    leaves, structure = flatten(tree, none_is_leaf=True)
    if not isinstance(prefix, (dict, list, tuple)) and not _is_record(type(prefix)):
        return [prefix] * len(leaves)
    if structure is not LEAF:
        try:
            return _optree().broadcast_prefix(prefix, tree, none_is_leaf=True, namespace=_ROOM)
        except ValueError:
            pass
    one, other = names
    raise ValueError(
        f"{one} {prefix!r} does not fit {other}, of structure {shown(structure)}; it must be "
        f"nested in the same way, or stop above several leaves"
    )


def as_tensor(x, what):
    """A leaf as a Tensor; raises TypeError if it is not an array or a number."""
    if isinstance(x, Tensor):
        check_open(what, *levels_of(x))
        return x
    try:
        # In an op a NumPy scalar adapts to the array beside it; alone it keeps its own dtype.
        return asarray(x, dtype=getattr(x, "dtype", None))
    except (TypeError, ValueError) as error:
        given = type(x).__name__
        if hasattr(x, "named_parameters"):
            given += "; take its parameters for the argument, and call it by nn.functional_call"
        elif hasattr(x, "dtype"):
            given += f" of dtype {x.dtype}"
        raise TypeError(f"{what} must be an array or a number, not {given}") from error


def map_tensors(function, tree):
    """The tree with ``function`` applied to each Tensor; other leaves stay as they are."""
    leaves, structure = flatten(tree, none_is_leaf=True)
    return unflatten(structure, [function(x) if isinstance(x, Tensor) else x for x in leaves])


def _is_record(kind):
    return is_dataclass(kind) and not issubclass(kind, Tensor)


def _has_own_new(kind):
    """Whether a class of named tuples has a ``__new__`` of its own, not to be called again."""
    if not (issubclass(kind, tuple) and hasattr(kind, "_fields")):
        return False
    return "_fields" not in vars(next(base for base in kind.__mro__ if "__new__" in vars(base)))


def _register(optree, kind):
    """Register a dataclass with optree, except its fields with ``metadata={"static": True}``.

    Or register a class of named tuples.
    """
    if issubclass(kind, tuple):
        parts = lambda x: (x, None), lambda _, children: tuple.__new__(kind, children)
        entry = optree.NamedTupleEntry
    else:
        parts, entry = _parts_of_record(kind), optree.DataclassEntry
    with _registering, warnings.catch_warnings(action="ignore"):  # of what optree would do
        if kind not in _registered:
            optree.register_pytree_node(kind, *parts, path_entry_type=entry, namespace=_ROOM)
            _registered.add(kind)


def _parts_of_record(kind):
    """How to take instances of a dataclass apart, and how to put them together."""
    names = [f.name for f in fields(kind)]
    static = [f.name for f in fields(kind) if f.metadata.get("static")]
    inner = [name for name in names if name not in static]

    def take_apart(x):
        children = [getattr(x, name) for name in inner]
        return children, tuple([getattr(x, name) for name in static]), inner

    def put_together(values, children):
        x = object.__new__(kind)
        found = dict(zip((*static, *inner), (*values, *children), strict=True))
        for name in names:  # in their order, which `vars` shows
            object.__setattr__(x, name, found[name])  # works for frozen dataclasses
        return x

    return take_apart, put_together


def _optree() -> Any:
    try:
        import optree
    except ImportError:
        raise ImportError(
            "nested arguments and results are handled by optree, which is not installed: "
            "pip install optree; single tensors need nothing"
        ) from None
    return optree
