"""Plans: which values the nodes of an op keep and which rules they run, decided once."""

from operator import itemgetter

from ..backends import backend_of
from .rules import kept_names

# What a rule can keep about an input besides its values.
METADATA = {
    "shape": lambda x: getattr(x, "shape", None),
    "dtype": lambda x: getattr(x, "dtype", None),
    "device": lambda x: backend_of[type(x)].device(x),
}


class Plan:
    """What a node keeps and runs, decided once per implementation and set of wanted inputs.

    implementation: the `Implementation` that the plan belongs to.
    key: see `Implementation.plan`.
    xp: the namespace of the arrays.
    wanted: for each input whether it wants a cotangent.
    rules: one function ``(xp, g, saved)`` per wanted input.
    gathered: for an op that takes a sequence, one function ``(xp, ts, saved)`` of the list of
        all inputs' tangents instead of ``tangents``, or None.
    joint: a function ``(xp, g, saved)`` that runs before the rules, or None. The rules then pick
        from its result.
    guarded: the rules, made safe for cotangents of 0 beside infinite slopes.
    tangents: for each wanted input a function ``(xp, t, saved)`` that returns the result's
        tangent, or None where the forward sweep transposes the rule.
    special: whether there is a joint rule or more than one output, or the op discards elements.
    pick: from a call's ``(*inputs, out, static)`` the tuple to save, or None to save nothing.
    sources: where each saved value comes from; a value from ``"none"`` is None.
    position: for each wanted input its place among the node's parents.
    on_tensors: the plan whose rules run on Tensors under ``create_graph``. It is this plan unless
        its rules are for its own arrays only.
    region: an object that may handle this node and others at once, or None; see `sweep`.
    """

    output = None  # in an `OutputPlan`, the number of the output

    def __init__(self, implementation, key):
        op = implementation.op
        bits, n = key if op.variadic else (key, len(op.inputs))
        self.implementation, self.key, self.region = implementation, key, None
        self.op, self.xp = op, implementation.xp
        self.wanted = wanted = [bool(bits >> i & 1) for i in range(n)]
        chosen = [i for i, want in enumerate(wanted) if want]
        self.position = {i: k for k, i in enumerate(chosen)}
        rule = implementation.rule
        if joint := op.joint or (op.variadic and op.rules.get(op.inputs[0])):
            names = kept_names(joint)
            self.joint = rule("joint" if op.joint else op.inputs[0], joint, names)
            self.rules = tuple([lambda xp, cotangents, saved, i=i: cotangents[i] for i in chosen])
        else:
            missing = [op.inputs[i] for i in chosen if op.variadic or op.inputs[i] not in op.rules]
            if missing:
                raise TypeError(
                    f"{op.name}: it has no VJP for {', '.join(missing)}, which requires grad; "
                    f"detach() it, or give a rule with {op.name}.vjp"
                )
            kept = [name for i in chosen for name in kept_names(op.rules[op.inputs[i]])]
            names, self.joint = tuple(dict.fromkeys(kept)), None
            self.rules = tuple(rule(op.inputs[i], op.rules[op.inputs[i]], names) for i in chosen)

        self.sources = tuple([_source(op, name, wanted) for name in names])
        self.pick = _saved_getter(op, self.sources, len(wanted), wanted)
        self.special = bool(joint) or op.discards
        diagonal = op.elementwise and not joint
        self.guarded = self.rules
        if diagonal and names and not op.discards:
            self.guarded = tuple(
                rule(op.inputs[i], op.rules[op.inputs[i]], names, guarded=True) for i in chosen
            )
        # A diagonal Jacobian is its own transpose.
        transposes = self.guarded if diagonal else [None] * len(chosen)
        together = diagonal and all(wanted) and implementation.together(names, guarded=False)
        if together:
            self.joint, self.special = _Shared, True
            guarded = implementation.together(names, guarded=True)
            self.rules = _sharing(together, self.rules)
            self.guarded = self.rules if op.discards else _sharing(guarded, self.guarded)
        gathered = op.variadic and op.tangents.get(op.inputs[0])
        self.gathered = rule(None, gathered, names) if gathered else None
        given = [None if op.variadic else op.tangents.get(op.inputs[i]) for i in chosen]
        pairs = zip(given, transposes, strict=True)
        self.tangents = tuple([rule(None, t, names) if t else transpose for t, transpose in pairs])
        self.on_tensors = implementation.plan_on_tensors(self)

    def mark_special(self):
        """Note that the op has several outputs, which is known only after its first call."""
        self.special = self.on_tensors.special = True


def kept(op, names, arrays, out, static):
    """The values that a call of the op would save under ``names`` if all its inputs were wanted."""
    wanted = [x is not None for x in arrays]
    sources = tuple([_source(op, name, wanted) for name in names])
    pick = _saved_getter(op, sources, len(arrays), wanted)
    return () if pick is None else pick((*arrays, out, static))


def _source(op, name, wanted):
    target = op.keep_for.get(name)
    if isinstance(target, str) and not wanted[op.inputs.index(target)]:
        return "none", None
    if name in ("out", "wanted"):
        return name, None
    if name in op.inputs:
        return "input", op.inputs.index(name)
    if name in op.static_names:
        return "static", name
    stem, what = name.rsplit("_", 1)
    return what, op.inputs.index(stem)


def _saved_getter(op, sources, n, wanted):
    """A function from ``(*inputs, out, static)`` to the values of ``sources``."""
    if not sources:
        return None
    if not (op.variadic or op.keep_for) and all(kind in ("input", "out") for kind, _ in sources):
        places = [n if kind == "out" else which for kind, which in sources]
        # A slice, so that a single value comes as a tuple too.
        return (
            itemgetter(*places) if len(places) > 1 else itemgetter(slice(places[0], places[0] + 1))
        )

    def getter(kind, which):
        if kind == "out":
            return itemgetter(n)
        if kind == "static":
            return lambda call: call[-1][which]
        if kind == "wanted":
            return lambda call: wanted
        if kind == "none":
            return lambda call: None
        if op.variadic:
            if kind == "input":
                return itemgetter(slice(0, n))
            return lambda call: tuple([METADATA[kind](x) for x in call[:n]])
        if kind == "input":
            is_kept = op.keep_for.get(op.inputs[which])
            if callable(is_kept):
                return lambda call: call[which] if is_kept(wanted, **call[-1]) else None
            return itemgetter(which)
        return lambda call: METADATA[kind](call[which])

    getters = [getter(kind, which) for kind, which in sources]
    return lambda call: tuple([get(call) for get in getters])


class _Shared:
    """The cotangent that all rules of a node take, and the result of ``together`` for it.

    The first rule that runs calls ``together``, which computes the cotangents of all inputs.
    """

    __slots__ = ("cotangents", "g")

    def __init__(self, xp, g, saved):
        self.g, self.cotangents = g, None


def _sharing(together, rules):
    """Rules that share one run of ``together``. Where that declines, ``rules`` run instead."""

    def sharing(i, rule):
        def run(xp, shared, saved):
            if shared.cotangents is None:
                shared.cotangents = together(xp, shared.g, saved)
            if shared.cotangents is NotImplemented:
                return rule(xp, shared.g, saved)
            return shared.cotangents[i]

        return run

    return tuple([sharing(i, rule) for i, rule in enumerate(rules)])


class OutputPlan:
    """The plan of the node that stands for one of an op's several outputs."""

    special = True
    joint = pick = region = None
    rules = guarded = sources = ()

    def __init__(self, plan, output):
        self.op, self.xp, self.output = plan.op, plan.xp, output

    @property
    def on_tensors(self):
        return self
