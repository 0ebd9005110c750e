"""The stage: it replaces all state by traced arrays and numbers while a function is recorded.

`Stage.enter` puts them into tensors and optimizers, and `Stage.leave` puts real ones back. Whatever
the function has changed meanwhile stays changed, and `leave` notes these changes for the tape.
"""

from weakref import ref

from .._tensor import Tensor
from ..autograd.call import wrap
from ..autograd.graph import Leaf, Node, watched
from ..optim.optimizer import Optimizer, ParameterState
from ..tools.observing import in_line
from .cells import ABSENT, READ_ONLY, SIMPLE, Cell, can_vary, hold, same
from .code import facts_of
from .numbers import Number
from .reach import OF_SCHEDULES, Reach, first_change
from .tape import Input
from .tracing import Outcome, Traced, real_of


class Stage:
    """All state that a function reaches, and what it was before the recording.

    tensors: by id, the Tensors of the state and of the arguments.
    arguments: by the id of each Tensor that is an argument but not state, its first position.
    originals: by the id of each Tensor a tuple of it, its array, the traced array for that, its
        node, and a weak reference to its gradient, or None.
    same_counts: lists of the `ParameterState`s that have the same step counts.
    stepped: the keys of a dict are the optimizers that have made a step.
    rebound, gradients, changed, skips: see `Tape`; `leave` makes them.
    counts: by the id of a place, the pair that the `Tape` gets; `count` makes it.
    replaced: for each place that has new tensors, or a new tuple of tensors, a tuple of the place,
        the tensors before, of which there may be none, and those now. To a program, the former are
        arguments, and the latter are results. `leave` makes it.
    """

    def __init__(self, recorder, reach, leaves):
        """leaves: those of the arguments."""
        self.recorder = recorder
        self.reach = reach
        self.tensors, self.arguments = {**reach.tensors}, {}
        for i, x in enumerate(leaves):
            if isinstance(x, Tensor) and id(x) not in self.tensors:
                self.tensors[id(x)], self.arguments[id(x)] = x, i
        self.originals = {}
        self.grads = {}  # by the id of a Tensor, a weak reference to the traced array of its grad
        self.same_counts, self.stepped = [], {}
        # Each row has what `leave` needs to undo one change that `enter` has made.
        self.states, self.groups = [], []
        self.nodes = []  # pairs of a node of a Tensor, and whether it had a watch
        self.stand_ins = {}  # by a `ParameterState` with traced arrays, the real one and its counts
        self.recorder.is_scheduling = self.has_left = False

    def problem(self, is_first):
        """Why the call cannot be recorded: None, or a text and whether to record a later call.

        is_first: see `record`.
        """
        kinds = self.recorder.backend.array_types
        grads = {id(x.grad) for x in self.tensors.values() if x.grad is not None}
        if not grads.isdisjoint(self.tensors):
            return "a gradient is also a tensor of the program", False
        for key, x in self.tensors.items():
            arrays = [y.array for y in (x, x.grad) if y is not None]
            if any(type(array) not in kinds for array in arrays):
                return "it uses arrays of several libraries or devices", False
            if x.grad is not None and x.grad.node is not None:
                return "a gradient has a graph", False
            if key in self.arguments and type(x.node) is Leaf and x.node.watch is not None:
                return "an argument has hooks", True
        for optimizer in self.reach.optimizers:
            optimizer._settle()
            is_plain = type(optimizer).step is Optimizer.step
            if is_first and is_plain and not optimizer._has_stepped:
                return "its optimizer has not stepped yet", True
            if not take_hyper(optimizer):
                return "its optimizer converts a hyper-parameter", True
            for group in optimizer.param_groups:
                for p in group["params"]:
                    state = optimizer._states.get(p)
                    if state is not None and state.array is not p.array:
                        try:
                            optimizer._new_state(p, state, group)
                        except ValueError:
                            return "its optimizer cannot follow a parameter with a new array", True
            for state in optimizer._states.values():
                if any(type(array) not in kinds for array in state.arrays.values()):
                    return "it uses arrays of several libraries or devices", False
        return None

    def enter(self):
        recorder = self.recorder
        for key, x in self.tensors.items():
            x._grad = grad = x.grad  # sets the slot, which programs read directly
            kind = "argument" if key in self.arguments else "tensor"
            array, node = x.array, x.node
            traced = recorder.input(array, Input(kind, self.arguments.get(key, x)))
            self.originals[key] = x, array, traced, node, None if grad is None else ref(grad)
            if node is not None:
                self.nodes.append((node, node.watch is not None))
        for key, (x, array, traced, node, grad) in self.originals.items():
            is_put = _swap(x, array, traced)
            if grad is not None:
                is_put = self._enter_gradient(key, x, grad()) and is_put
            if not is_put:
                recorder.stop("a tensor is changed while the recording begins", True)
            if type(node) is Node:
                self._guard_boundary(node)
        for optimizer in self.reach.optimizers:
            self._enter_optimizer(optimizer)
        recorder.schedule = self.schedule

    def _enter_gradient(self, key, x, grad):
        """Put a traced array into a gradient.

        Only the gradient keeps it alive, so that its memory is free once the function drops it.
        """
        array = grad.array
        traced = self.recorder.input(array, Input("grad", x), is_kept=False)
        self.grads[key] = ref(traced)
        return _swap(grad, array, traced)

    def _guard_boundary(self, node):
        """Give a node that existed before the call a hook, which makes cotangents real arrays.

        All arrays in the graph below that node are real.
        """

        def real(g):
            self.recorder.stop("it calls backward through a graph from outside")
            if isinstance(g, list):
                return [*map(real, g)]
            is_traced = g is not None and isinstance(g.array, Traced)
            return wrap(g.array.value, g.node) if is_traced else g

        watched(node).hooks[id(self)] = real

    def _enter_optimizer(self, optimizer):
        """Give the step of an optimizer `Number`s and traced arrays.

        Its ``param_groups`` keep plain numbers, since the function's own code may read them.
        """
        recorder, states = self.recorder, optimizer._states
        for i, group in enumerate(optimizer.param_groups):
            real = optimizer._hyper[i]
            named = [*enumerate(zip(optimizer.defaults, real.values, strict=True))]
            mine = real._replace(arguments=[
                self._hyper(optimizer, i, (k,), x) for k, (name, x) in named if name != "maximize"
            ])  # fmt: skip
            self.groups.append((optimizer, i, dict(group), real, mine))
            optimizer._hyper[i] = mine
        optimizer._states, known = {**states}, {}
        self.states.append((optimizer, states, optimizer._states))
        for p, state in states.items():
            if id(p) not in self.originals:
                continue
            if state.counts not in known:
                known[state.counts] = self._counts(state), []
                self.same_counts.append(known[state.counts][1])
            counts, alike = known[state.counts]
            alike.append(state)
            arrays = {
                name: recorder.input(array, Input("held", Cell("item", state.arrays, name)))
                for name, array in state.arrays.items()
            }
            stand_in = ParameterState(p.array, arrays, counts, state.is_split)
            optimizer._states[p] = stand_in
            self.stand_ins[stand_in] = state, counts

    def _counts(self, state):
        """`Number`s for the counts of a `ParameterState`."""
        place = Cell("attr", state, "counts")
        counts = tuple([
            self.recorder.number(Input("number", ("item", place, k)), value)
            for k, value in enumerate(state.counts)
        ])  # fmt: skip
        counts[0].is_unique = True  # a step groups parameters by it
        return counts

    def _hyper(self, optimizer, i, path, value):
        """What a step gets for a hyper-parameter, or for a member of one that is a tuple."""
        if isinstance(value, tuple):
            return tuple([self._hyper(optimizer, i, (*path, k), v) for k, v in enumerate(value)])
        if not can_vary(value):
            return value
        return self.recorder.number(Input("number", ("hyper", optimizer, i, path)), value)

    def schedule(self, name, method, *args, **kwargs):
        """Call a method of a scheduler, and note a step, which a program makes after all else."""
        if self.recorder.is_scheduling:  # it is called by the step of another scheduler
            return method(*args, **kwargs)
        recorder, is_step = self.recorder, name == "step"
        if not is_step:
            recorder.stop(f"it calls {name} of a scheduler, which steps change")
        elif not any(x is method.__self__ for x in self.reach.schedulers):
            recorder.stop("it steps a scheduler that compile cannot see")
        elif not all(isinstance(x, SIMPLE) for x in (*args, *kwargs.values())):
            what = "a scheduler reads a value that the function computes"
            recorder.stop(f"{what}; return it, and step the scheduler outside, with its item()")
        recorder.is_scheduling, recorder.has_scheduled = True, recorder.has_scheduled or is_step
        try:
            return method(*args, **kwargs)
        finally:
            recorder.is_scheduling = False
            recorder.afterwards += [(method, args, kwargs)] if is_step else []

    def check_schedules(self, guards):
        """Stop if it might matter that a program makes the steps of schedulers last.

        guards: those of what the function may read.
        """
        if not self.recorder.has_scheduled:
            return
        stop, found = self.recorder.stop, Reach(self.reach.schedulers)
        groups = {id(group) for optimizer in found.optimizers for group in optimizer.param_groups}
        for place, value, how in guards:
            if how == "same" and id(place.container) in groups and can_vary(value):
                stop("it names a hyper-parameter, and a scheduler changes it; read it outside")
        places = [place for place, *_ in (*self.changed, *self.replaced.values())]
        changed = {(id(place.container), place.key) for place in places}
        if any(w == "same" and (id(x.container), x.key) in changed for x, _, w in found.guards):
            stop("it changes what a scheduler reads")
        if any(facts_of(code).writes for code in found.codes if code.co_name != "__init__"):
            stop("a scheduler calls a function that changes something")

    def _leave_groups(self):
        for optimizer, i, before, real, mine in self.groups:
            if optimizer._hyper[i] is mine:
                optimizer._hyper[i] = real
            if not self.recorder.has_scheduled:
                self._check_group(optimizer.param_groups[i], before)

    def _check_group(self, group, before):
        stop = self.recorder.stop
        for k in group | before:
            if not same(group.get(k, self), before.get(k, self)):
                stop(f"it changes {k!r} of an optimizer; change it outside, or by a scheduler")

    def groups_guards(self):
        """Guards of what groups and schedulers have, since the function's code may read it."""
        found = []
        for values in map(vars, self.reach.schedulers):
            names = values.keys() & OF_SCHEDULES
            found += [(Cell("item", values, k), values[k], "same") for k in names]
        for optimizer, i, before, _, _ in self.groups:
            group = optimizer.param_groups[i]
            self._check_group(group, before)
            found.append((group, [*before], "names"))
            found += [(Cell("item", group, name), x, "same") for name, x in before.items()]
        return found

    def leave(self):
        """Put everything real back, and note what has changed. A second call does nothing."""
        if self.has_left:
            return
        stop = self.recorder.stop
        self.rebound, self.gradients, self.changed, self.skips = [], [], [], []
        self.replaced, self.befores, self.counts = {}, [], {}
        for node, had_watch in self.nodes:
            if node.watch is not None:
                node.watch.hooks.pop(id(self), None)
            if not had_watch and _is_watched(node.watch):
                stop("it adds hooks or a label to a tensor", "once")
            elif not had_watch:
                node.watch = None
        self._leave_groups()
        self._leave_states()
        for key, original in self.originals.items():
            self._leave_tensor(key, *original)
        self._leave_cells()
        self.has_left = True

    def forget(self):
        """Drop all references, after everything else."""
        vars(self).clear()

    def _leave_tensor(self, key, x, array, traced, node, grad):
        stop = self.recorder.stop
        if type(x.node) is type(node) is Leaf and x.node.watch is node.watch is None:
            x.node = node  # it is another one if the tensor did not require grad for a while
        if x.node is not node:
            stop("a tensor from outside gets a graph, or requires grad from now on")
        if not _swap(x, traced, array):
            self.rebound.append((x, "array", self._var(_take_out(x), "a tensor")))
        new, old = x.grad, grad and grad()
        of_old = grad and self.grads[key]()
        is_put = of_old is None or old is None or _swap(old, of_old, of_old.value)
        if new is old and (grad is None or old is not None):
            if not is_put or (grad is not None and of_old is None):
                self.rebound.append((x, "grad", self._var(_take_out(new), "a gradient")))
            return
        if new is None:
            self.gradients.append((x, None))
        else:
            if new.node is not None:
                stop("a gradient has a graph")
            self.gradients.append((x, self._var(_take_out(new), "a gradient")))

    def _var(self, array, what):
        """The value of a traced array that ``what`` has now; stops if it has another one."""
        if type(array) is not self.recorder.kind:
            self.recorder.stop(f"{what} gets an array from elsewhere")
            return None
        return array.var

    def _leave_states(self):
        stop = self.recorder.stop
        for optimizer, real, mine in self.states:
            now = optimizer._states
            states = real if now is mine else now
            for p, state in now.items():
                known, counts = self.stand_ins.get(state, (state, None))
                if counts is None:
                    states[p] = state
                    if isinstance(state.array, Traced):
                        stop("its optimizer makes its state", True)
                        made = real_of((state.array, state.arrays, state.counts))
                        ParameterState.__init__(state, *made, state.is_split)
                elif state.counts is not counts:
                    self.stepped[optimizer] = None
                    if not all(type(x) is Number for x in state.counts):
                        stop("an optimizer counts its steps in another way")
                    self.changed.append((Cell("attr", known, "counts"), _var_of(state.counts)))
                    known.counts = real_of(state.counts)
            outcome, before = optimizer._unread_skip or (None, ())
            if isinstance(outcome, Outcome):
                before = [(self.stand_ins.get(s, (s,))[0], counts) for s, counts in before]
                noted = [(s, _var_of(counts)) for s, counts in before]
                self.skips.append((optimizer, outcome.var, noted))
                optimizer._unread_skip = outcome.real, real_of(before)
            optimizer._states = states  # last, in case Ctrl-C comes before

    def _leave_cells(self):
        """Note which places have new values; stops if a program could not change them so."""
        stop = self.recorder.stop
        if first_change(self.reach.guards) is None:
            return
        for place, value, how in self.reach.guards:
            if how != "same":
                if not hold([(place, value, how)]):
                    where = self.reach.name_of(place) + in_line(self.recorder.lines.get(id(place)))
                    what = "writes into" if how == "array" else "adds to or takes from"
                    stop(f"it {what} {where}; return the value, and put it there outside", "once")
                continue
            try:
                now = place.get()
            except ABSENT:
                stop("it takes something out of an object", "once")
                continue
            if isinstance(place.container, READ_ONLY):
                if not same(now, value):
                    stop(f"it changes {place}, which a program cannot set")
                continue
            if isinstance(now, Traced):
                stop(f"it puts a new array into {place}")
            elif type(now) is Number or (isinstance(now, SIMPLE) and not same(now, value)):
                self.changed.append((place, _var_of(now)))
            elif not same(now, value) and not self._is_replaced(place, value, now):
                stop(f"it puts a new object into {place}", "once")
            if isinstance(now, Traced) or type(now) is Number:
                place.set(now.value)

    def _is_replaced(self, place, before, now):
        """Whether a place has new tensors instead of others, or of None or a number."""
        old, new = tensors_in(before), tensors_in(now)
        known = self.originals.keys() - self.arguments.keys()
        if not new or not known.isdisjoint(map(id, new)):
            return False
        if old:
            if len(old) != len(new) or not known.issuperset(map(id, old)):
                return False
            self.befores.append(before)
        elif not isinstance(before, SIMPLE):
            return False
        self.replaced[place.id] = place, old, new
        return True

    def take(self, leaves, read, guards):
        """Make arguments of some tensors of the state: of leaves that the code which ran does not
        read as state, and of those that it has replaced, which come after all leaves.

        read: the ids of what that code may read.
        Returns the guards of other places.
        """
        old = [x for _, found, _ in self.replaced.values() for x in found]
        if old:
            read_later = {place.id for place, found, _ in self.replaced.values() if found}
            guards = [x for x in guards if x[2] != "same" or x[0].id not in read_later]
            elsewhere = [x for _, value, how in guards if how == "same" for x in tensors_in(value)]
            changed = [x for x, *_ in (*self.rebound, *self.gradients)]
            ids = {*map(id, old)}
            is_own = len(ids) == len(old) and ids.isdisjoint(map(id, (*elsewhere, *changed)))
            if not (is_own and self.reach.has_cells(self.befores)):
                what = "it replaces a tensor that it changes, or one of two places"
                self.recorder.stop(what, True)
        unread = {id(x): i for i, x in reversed([*enumerate(leaves)]) if id(x) not in read}
        places = unread | {id(x): i for i, x in enumerate(old, len(leaves))}
        for key in places.keys() & self.reach.tensors.keys():
            x, array, traced, *_ = self.originals[key]
            if traced.var.source.holder is not x or id(array) in self.recorder.in_several:
                self.recorder.stop("an argument has the array of another tensor", True)
            self.arguments[key], traced.var.source = places[key], Input("argument", places[key])
        return guards

    def count(self, counted, guards):
        """Have a program add to ints what the function has added to them, whatever they are then.

        counted: the ids of the places whose ints the code that ran only reads to add to them.
        Returns the guards of other places.
        """
        values = {x.id: value for x, value, how in self.reach.guards if how == "same"}
        for place, now in self.changed:
            before = values.get(place.id)
            if place.id in counted and type(now) is type(before) is int:
                self.counts[place.id] = place, now - before
        self.changed = [row for row in self.changed if row[0].id not in self.counts]
        guards = [x for x in guards if x[2] != "same" or x[0].id not in self.counts]
        return guards + [(place, True, "int") for place, _ in self.counts.values()]


def tensors_in(x):
    """A tensor, or the members of a tuple of tensors; otherwise nothing."""
    found = x if type(x) is tuple else (x,)
    return found if all(type(y) is Tensor for y in found) else ()


def _swap(x, old, new):
    """Replace a tensor's array ``old`` by ``new``; returns False if it has another array.

    Python runs signal handlers and other threads only at calls and at the end of loops, so nothing
    can come between the comparison and the assignment.
    """
    if x.array is old:
        x.array = new
        return True
    return False


def _take_out(x):
    """Put the real array into a tensor; returns the array that the tensor had."""
    while True:
        now = x.array
        if _swap(x, now, real_of(now)):
            return now


def take_hyper(optimizer):
    """Have an optimizer read its groups, as its step does first.

    Returns False if a step would do more than that: convert a number, make state or raise an error.
    """
    for i, group in enumerate(optimizer.param_groups):
        try:
            values = [*map(group.__getitem__, optimizer.defaults)]
            if values == (known := optimizer._hyper[i].values):
                continue
            new = optimizer._checked(group)
        except (*ABSENT, ArithmeticError):  # also where values are arrays, without a truth value
            return False
        # A hyper-parameter that becomes 0, or no longer is, may need other state.
        has_same_zeros = [*map(bool, known)] == [*map(bool, values)]
        if not has_same_zeros or not all(map(same, values, new.values())):
            return False
        optimizer._set_hyper(i, new)
    return True


def _is_watched(watch):
    return watch is not None and bool(
        watch.hooks or watch.accumulated or watch.listener or watch.label or watch.leaf
    )


def _var_of(x):
    return x.var if type(x) is Number else tuple(map(_var_of, x)) if type(x) is tuple else x
