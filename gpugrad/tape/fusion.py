"""Fusion: one generated CUDA kernel for several elementwise calls of a tape.

A value that only calls of the same kernel use never goes through memory.
"""

from collections import Counter
from copy import copy

from ..backends.declarations import ADD, CAST, SELECT, SUM, expression_of
from .memory_plan import Uses, independent
from .tape import Call, Memory, Value

# From this number of elements on, a generated kernel for one call is faster than the library's.
_LARGE = 1 << 20
_MOST_WAITING = 16
_MOST_INPUTS = 16


def fuse(tape, fused):
    """Replace the elementwise calls of a tape by calls of generated kernels.

    fused: the class of functions that run such a kernel, `Fused` of `backends.cupy`.
    """
    calls = joined(_with_new_results(tape), tape.leaving)
    steps = {call: step for call in calls if (step := _step(call, fused.STORED)) is not None}
    sums = {call for call in calls if _is_sum(call)}
    uses = Counter([x for call in calls for x in call.operands()])
    uses.update(tape.leaving)
    tape.calls = []
    while calls:
        if calls[0] not in steps:
            tape.calls.append(calls.pop(0))
            continue
        members, earlier, waiting = _group(calls, steps, sums)
        stop = len(members) + len(earlier) + len(waiting)
        if any(call in steps for call in earlier):  # these may make a group of their own
            calls[:stop] = [*earlier, *members, *waiting]
            continue
        if len(members) == 1 and members[0].outs[0].size < _LARGE:
            tape.calls.append(calls.pop(0))
            continue
        tape.calls += [*earlier, _fused(members, steps, uses, fused)]
        calls[:stop] = waiting


def _with_new_results(tape):
    """The calls of a tape. Those that overwrite an intermediate value make a new one instead.

    The value must not be visible anywhere else. The new one may get the same memory all the same.
    """
    calls, shown, kept = tape.calls, Counter(), {x.memory for x in tape.leaving}
    for i, call in enumerate(calls):
        shown.update([x.memory for x in call.outs])
        if not (call.writes and call.declared.elementwise and type(call.args[0]) is Value):
            continue
        old = call.args[0]
        if old.memory.is_own and shown[old.memory] == 1 and old.memory not in kept:
            new = copy(old)
            new.memory, call.writes = Memory(is_own=True), False
            call.add(new)
            for other in calls[i + 1 :]:
                other.replace({old: new})
            shown[new.memory] = 1
    return calls


def joined(calls, leaving):
    """The calls of a tape, with one call for each result and cotangent that have a `Joint`."""
    for first in [*calls]:
        joint, inputs = first.declared.joint, (*first.args, *first.kwargs.values())
        if joint is None or first not in calls:
            continue
        made = set(first.outs)
        for second in calls[calls.index(first) + 1 :]:
            if second.declared.joint is joint and tuple(second.args[1:]) == inputs:
                is_free = made.isdisjoint(second.operands()) and first.outs[0].kind == "array"
                is_free &= independent(Uses(first), Uses(second))
                if is_free and _may_move(second, first, calls):
                    calls = _with_joint(joint, first, second, calls, leaving)
                break
            made.update(second.outs)
    return calls


def _may_move(call, to, calls, views=()):
    """Whether a call and these views of its result may be made at the position of the call ``to``.

    This compares only which memory the calls in between read and write.
    """
    start, stop = sorted([calls.index(call), calls.index(to)])
    mine, between = Uses(call), [x for x in calls[start + 1 : stop] if x not in views]
    return all(independent(mine, Uses(x)) for x in between)


def _with_joint(joint, first, second, calls, leaving):
    """The calls, with one call of ``joint`` in place of the two.

    If possible, it also replaces the call that adds a bias to their operand, and the one that sums
    the columns of the cotangent.
    """
    x, (out,), (result,) = first.args[0], second.outs, first.outs
    before, sums = _bias_and_views(joint, first, calls, leaving), []
    (given, bias) = before[0].args if before else (x, None)
    if joint.sums(x.shape, x.dtype):
        sums = [
            call
            for call in calls[calls.index(second) :]
            if _is_sum(call) and call.args[0].root() is out
            and call.outs[0].shape == out.shape[-1:] and _may_move(call, second, calls)
        ][:1]  # fmt: skip
    kwargs = first.kwargs | ({"bias": bias} if before else {})
    call = Call(joint.run, (bool(sums), second.args[0], given, *first.args[1:]), kwargs)
    call.several = True
    for x in (result, out, *[x.outs[0] for x in sums]):
        call.add(x)
    return [call if x is first else x for x in calls if x not in (second, *sums, *before)]


def _bias_and_views(joint, call, calls, leaving):
    """The call that adds a bias to the operand of a joint's call, and the calls of views between.

    Nothing but the two calls of the joint may use the sum. The list is empty if there is no such
    call, or if ``joint`` cannot add the bias.
    """
    x, views, most = call.args[0], [], 2
    uses = Counter([y for call in calls for y in call.operands()])
    uses.update(leaving)
    if not joint.adds(x.shape, x.dtype):
        return []
    while x.base is not None and uses[x] == most:
        views.append(x.call)
        x, most = x.base, 1
    add = x.call
    if add not in calls or uses[x] != most or not _is_dense(x) or not _adds_row(add):
        return []
    return [add, *views] if _may_move(add, call, calls, views) else []


def _adds_row(call):
    """Whether a call adds one row to each row of an array of the same dtype."""
    if expression_of(call.function, "f", False) != ADD or call.writes or len(call.args) != 2:
        return False
    (out,), kinds = call.outs, [getattr(x, "kind", None) for x in call.args]
    return kinds == ["array"] * 2 and all(
        x.dtype == out.dtype and x.shape == shape
        for x, shape in zip(call.args, (out.shape, out.shape[-1:]), strict=True)
    )


def _step(call, known):
    """How a kernel makes a call: its expression, the dtype in which it computes, and its operands.

    known: the characters of the dtypes that kernels can handle.

    Returns None if a kernel cannot make the call.
    """
    expression = call.declared.expression
    if expression is None or not call.is_pure or call.writes or call.kwargs.keys() - {"copy"}:
        return None
    out, operands = call.outs[0], call.args[:1] if expression == CAST else call.args
    numbers = operands[1:] if expression == SELECT else operands  # these must have one dtype
    arrays = [x for x in operands if type(x) is Value and x.kind == "array"]
    dtypes = {x.dtype for x in arrays if x in numbers}
    if not all(map(_is_operand, operands)) or len(dtypes) != 1 or 0 in out.shape or out.base:
        return None
    (dtype,) = dtypes
    if not all(x.dtype.char in known for x in (out, *arrays)):
        return None
    kind = "f" if dtype.char in "eE" else dtype.kind
    if not all(type(x) in _FITTING[kind] or x in arrays for x in numbers):
        return None
    if len(numbers) < len(operands) and not (arrays[0] is operands[0] and arrays[0].dtype == bool):
        return None
    is_logical = out.dtype.char == "?"
    text = expression_of(call.function, kind, is_logical, on_cuda=True)
    if text is None or not (is_logical or out.dtype == dtype or expression == CAST):
        return None
    return text, dtype, operands


# By the kind of arrays, the types of numbers that are converted to their dtype.
_FITTING = {"f": (Value, float, int), "i": (int,), "u": (int,), "b": (bool,)}


def _is_operand(x):
    if type(x) is Value:
        return x.kind == "array" or (x.kind == "number" and x.dtype != "key")
    return type(x) in (float, int, bool)


def _is_sum(call):
    """Whether a call sums the leading axes of an array in C order: kernels can end with that."""
    if call.declared.expression != SUM or len(call.args) != 1 or call.args[0].kind != "array":
        return False
    (x,), (out,), axes = call.args, call.outs, call.kwargs.get("axis")
    axes = axes if type(axes) is tuple else (axes,)
    return (
        x.dtype == out.dtype
        and (x.dtype.kind == "f" or x.dtype.char == "E")
        and axes == tuple(range(len(axes)))
        and 0 < len(axes) < len(x.shape)
        and out.size > 1
        and _is_dense(x)
    )


def _is_dense(x):
    """Whether an array is in C order and has no gaps."""
    step, steps = x.dtype.itemsize, zip(x.shape[::-1], (x.strides or ())[::-1], strict=False)
    for n, stride in steps:
        if n > 1 and stride != step:
            return False
        step *= n
    return x.strides is not None


def _group(calls, steps, sums):
    """Choose the calls that one kernel makes together with the first call.

    Returns three lists. The members are made by the kernel; one of them may be a sum. The calls in
    ``earlier``, views and smaller elementwise calls, are made before it, and those in ``waiting``
    after it.
    """
    first, members, earlier, waiting = calls[0].outs[0], [], [], []
    uses, inputs, outs, late, has_sum = [], set(), set(), set(), False
    for call in calls:
        mine, operands = Uses(call), {*call.operands()}
        is_free = operands.isdisjoint(late) and all(independent(mine, x) for x in uses)
        found = inputs | (operands - outs)
        if not is_free or len(found) > _MOST_INPUTS:
            pass
        elif call in steps and call.outs[0].shape == first.shape:
            if not has_sum or _is_dense(call.outs[0]):
                members.append(call)
                outs.update(call.outs)
                inputs = found
                continue
        elif call in sums and not has_sum and call.args[0] in outs and all(map(_is_dense, outs)):
            members.append(call)
            late.update(call.outs)
            has_sum = True
            continue
        elif operands.isdisjoint(outs) and (
            call.is_view() or (call in steps and call.outs[0].size < first.size)
        ):
            earlier.append(call)
            continue
        if len(waiting) == _MOST_WAITING:
            break
        waiting.append(call)
        uses.append(mine)
        late.update(call.outs)
    return members, earlier, waiting


def _fused(members, steps, uses, fused):
    """The call of one kernel that replaces several calls."""
    mine = Counter([x for call in members for x in call.operands()])
    sums = [call for call in members if call not in steps]
    members = [call for call in members if call in steps]
    made = {call.outs[0]: k for k, call in enumerate(members)}
    inputs = {x: k for k, x in enumerate([x for x in mine if x not in made])}
    numbers = inputs | {x: len(inputs) + k for x, k in made.items()}
    dtypes, found = {x: x.dtype for x in inputs}, []
    for call in members:
        text, dtype, operands = steps[call]
        dtypes |= {x: dtype for x in operands if type(x) is Value and x.kind == "number"}
        operands = [numbers[x] if type(x) is Value else (x,) for x in operands]
        found.append((text, dtype, call.outs[0].dtype, operands))
    outs = [x for x in made if uses[x] > mine[x]]
    name = "-".join(dict.fromkeys([call.name for call in (*members, *sums)]))
    results, strides, total = [made[x] for x in outs], [x.strides for x in outs], None
    for call in sums:
        (x,), (out,) = call.args, call.outs
        total = made[x], out.shape, out.size
        outs.append(out)
    shape = members[0].outs[0].shape
    function = fused(name, shape, [*dtypes.values()], found, results, strides, total)
    call = Call(function, (*inputs,), {})
    call.several = len(outs) > 1
    for x in outs:
        call.add(x)
    return call
