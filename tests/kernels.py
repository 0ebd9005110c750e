"""Kernels of bound calls, made at once, and compared with the calls."""

import re
from types import SimpleNamespace
from unittest import mock

import numpy as np

from gpugrad.backends.native import base, compiler, kernel
from gpugrad.backends.native.kernel import Kernel, Root, operations, owner

# Whether kernels can be made here. The libraries that they call are there then.
has_kernels = kernel.is_available() and base.wait() is not None


class Calls:
    """Bound calls, and the memory that is there before and after them.

    private: the ids of arrays that own memory, of which nobody needs what the calls leave there.
    """

    def __init__(self, steps, private=()):
        self.steps = steps
        self.operations = [x for step in steps for x in operations(step)]
        arrays = [a for step in steps for a in step.args if isinstance(a, np.ndarray)]
        owners = {id(owner(a)): owner(a) for a in arrays}
        self.private = [a for key, a in owners.items() if key in private]
        self.arrays = [a for key, a in owners.items() if key not in private]

    def kernel(self):
        return Kernel(self.operations, [Root(a, "fixed") for a in self.arrays], "test")


def build_all(texts):
    """Compile the texts of kernels together; returns the function of each."""
    parts = []
    for number, text in enumerate(texts):
        text = text.partition(kernel._PRELUDE)[2]
        names = re.findall(r"^(?:static \w+|typedef struct .*}|int) (\w+)[(;]", text, re.MULTILINE)
        parts.append(re.sub(rf"\b({'|'.join(names)})\b", rf"\1_{number}", text))
    text = f"#define NOTES_ERRORS\n{kernel._PRELUDE}" + "\n".join(parts)
    whole = compiler.build(text, "tests")
    library = whole.wait()
    assert library is not None, whole.error
    return [library[f"gg_kernel_{number}"] for number in range(len(texts))]


def kernels_of(all_calls):
    """Functions that run the kernels of several `Calls`, compiled together."""
    texts = []

    def build(text, name):
        texts.append(text)
        return SimpleNamespace()

    with mock.patch.object(kernel, "compiler", SimpleNamespace(build=build)):
        made = [calls.kernel() for calls in all_calls]
    for calls, calls.made, function in zip(all_calls, made, build_all(texts), strict=True):
        calls.made.build.library = SimpleNamespace(gg_kernel=function)
    return [part.step([None], []) for part in made]


def differences(calls, step):
    """Run the calls, and then their kernel on the same values; return the arrays that differ."""
    before = [a.copy() for a in calls.arrays]
    with np.errstate(all="ignore"):
        for call in calls.steps:
            call()
    expected = [bits(a) for a in calls.arrays]
    for a, values in zip(calls.arrays, before, strict=True):
        a[...] = values
    for a in calls.private:
        a[...] = np.nan if a.dtype.kind == "f" else 1
    step()
    return [a for a, b in zip(calls.arrays, expected, strict=True) if bits(a) != b]


def bits(array):
    if array.dtype.kind == "f":  # NumPy leaves the sign of a nan to the processor
        array = np.where(np.isnan(array), np.array(np.nan, array.dtype), array)
    return array.tobytes()


def check(all_calls, together=40):
    """Compare kernels with the calls themselves, many kernels being compiled together."""
    wrong = []
    for i in range(0, len(all_calls), together):
        part = all_calls[i : i + together]
        for calls, step in zip(part, kernels_of(part), strict=True):
            wrong += [described(calls, array) for array in differences(calls, step)]
    assert not wrong, "\n" + "\n".join(wrong)


def described(calls, array):
    """The calls that use an array, as text."""
    return "\n".join([
        f"{getattr(step.func, '__name__', step.func)}({', '.join(map(_operand, step.args))})"
        for step in calls.steps
        if any(np.shares_memory(x, array) for x in step.args if isinstance(x, np.ndarray))
    ])  # fmt: skip


def _operand(x):
    if not isinstance(x, np.ndarray):
        return repr(x)
    return f"{x.dtype.char} {x.shape} {x.strides} at {x.__array_interface__['data'][0]:x}"
