"""Twins of elementwise ops: of their VJPs, and of their forwards for many elements.

A VJP is one kernel, with the guard in it, for each set of wanted inputs; its definition would run
several of CuPy's kernels and, if it is guarded, another to look for nan. CuPy's kernels read and
write one element at a time, which reaches 0.57 (with two inputs 0.85) of an H100's bandwidth. The
kernels here go in steps of 16 bytes, with which the VJPs reach 0.96. Launching such a forward costs
the CPU more time, so it is only for arrays of so many elements that the GPU takes longer than that.
Arrays with equal strides and no gaps are taken as they lie in memory.
"""

import re
from functools import partial
from itertools import chain
from pathlib import Path

import cupy
import numpy as np

from ...autograd.rules import kept_names
from ...backends.cupy.kernels import loader
from ...backends.declarations import expression_of
from ...ops import elementwise as arithmetic
from ...ops import neural, transcendental

# For each op the cotangents of its inputs, in C: of `g` and of what the definitions' VJPs keep.
RULES = {
    arithmetic.multiply: ("g * x2", "g * x1"),
    arithmetic.divide: ("g / x2", "-g * out / x2"),
    arithmetic.pow: (
        "x2 == 2 ? g * (2 * x1) : x2 == 0 ? 0 : g * (x2 * pow(x1, x2 - 1))",
        "g * (x1 == 0 && x2 >= 0 ? 0 : out * log(x1))",
    ),
    arithmetic.square: ("g * (2 * x)",),
    arithmetic.sqrt: ("g / (2 * out)",),
    arithmetic.reciprocal: ("-g * (out * out)",),
    arithmetic.abs: ("g * sign(x)",),
    arithmetic.maximum: (
        "x1 == x2 ? g / 2 : x1 < x2 ? 0 : g",
        "x1 == x2 ? g / 2 : x2 < x1 ? 0 : g",
    ),
    arithmetic.minimum: (
        "x1 == x2 ? g / 2 : x1 > x2 ? 0 : g",
        "x1 == x2 ? g / 2 : x2 > x1 ? 0 : g",
    ),
    transcendental.exp: ("g * out",),
    transcendental.expm1: ("g * (out + 1)",),
    transcendental.log: ("g / x",),
    transcendental.log1p: ("g / (1 + x)",),
    transcendental.log2: ("g / (x * (A)0.6931471805599453)",),
    transcendental.log10: ("g / (x * (A)2.302585092994046)",),
    transcendental.sin: ("g * cos(x)",),
    transcendental.cos: ("-g * sin(x)",),
    transcendental.tan: ("g * (1 + out * out)",),
    transcendental.asin: ("g / sqrt((1 - x) * (1 + x))",),
    transcendental.acos: ("-g / sqrt((1 - x) * (1 + x))",),
    transcendental.atan: ("g / (1 + x * x)",),
    transcendental.sinh: ("g * cosh(x)",),
    transcendental.cosh: ("g * sinh(x)",),
    transcendental.tanh: ("g * (1 - out * out)",),
    transcendental.asinh: ("g / sqrt(x * x + 1)",),
    transcendental.acosh: ("g / (sqrt(x - 1) * sqrt(x + 1))",),
    transcendental.atanh: ("g / ((1 - x) * (1 + x))",),
    neural.relu: ("out > 0 ? g : 0",),
    neural.sigmoid: ("g * out * (1 - out)",),
}


def _value(name):
    """The value, in C, of the function of CuPy with this name."""
    function = getattr(cupy, name)
    inputs = ("x",) if function.nin == 1 else ("x1", "x2")
    return expression_of(function, "f", False, on_cuda=True).format(*inputs).replace("(T)", "(A)")


# For each op its value, in C, of its inputs.
FORWARDS = {
    getattr(ops, name): _value(name)
    for ops, names in {
        arithmetic: (
            "add", "subtract", "multiply", "divide", "maximum", "minimum", "negative", "square",
            "sqrt",
        ),
        transcendental: ("exp", "log", "tanh"),
    }.items()
    for name in names
} | {neural.relu: "maximum(x, 0)"}  # fmt: skip

LARGE = 2**20  # elements; CUDA devices take some µs for so many

_FILE = Path(__file__).with_name("elementwise_rules.cu")


def _define(name, inputs, cotangents):
    """The definition of a kernel ``name(*inputs, *results, n, number, single, guarded)``."""
    results = [f"c{k}" for k in range(len(cotangents))]
    parameters = [f"const T* {x}_" for x in inputs] + [f"T* {c}_" for c in results]
    values = ", ".join(f"{x} = v[{k}]" for k, x in enumerate(inputs))
    assigned = " ".join(f"c[{k}] = {c};" for k, c in enumerate(cotangents))
    from_, to = (", ".join(f"{x}_" for x in names) for names in (inputs, results))
    return f"""
extern "C" __global__ void {name}({", ".join(parameters)}, long long n, double number, int single,
    bool guarded)
{{
    Arrays<{len(inputs)}, {len(results)}> at = {{{{{from_}}}, {{{to}}}}};
    each(at, n, number, single, guarded, [](const A* v, A* c) {{ A {values}; {assigned} }});
}}
"""


def _rule(topic, name, kept, count):
    """A twin's rule that launches the kernel ``name``.

    kept: the names of the values that the graph keeps for it.
    count: the number of cotangents; of more than one it returns a tuple.
    """

    def rule(xp, g, *values, guarded=False):
        return _launch(topic, name, g, (g, *values), count, guarded, copies=True)

    rule.kept_names = kept
    return rule


def _forward(topic, name, count):
    """A twin's forward, of ``count`` inputs, that launches the kernel ``name``."""

    def forward(xp, x1, x2=None):
        is_first = type(x1) is cupy.ndarray and (type(x2) is not cupy.ndarray or x1.size > 1)
        like = x1 if is_first else x2
        if like.size < LARGE:
            return NotImplemented
        return _launch(topic, name, like, (x1, x2)[:count], 1, False, copies=False)

    return forward


def _launch(topic, name, like, values, count, guarded, copies):
    """Launch a kernel on values of the shape and dtype of ``like``; return its results.

    A value can also be one element, or a number. Returns NotImplemented if the kernel does not take
    the values, and a tuple if there are several results.

    copies: whether to copy arrays whose strides differ.
    """
    shape, dtype = like.shape, like.dtype
    if not loader.covers(dtype):
        return NotImplemented
    number, single, inputs, whole = 0.0, 0, [], []
    for k, x in enumerate(values):
        if isinstance(x, (int, float)):
            number, one = float(x), True
            x = None
        elif isinstance(x, complex):
            return NotImplemented
        elif x.dtype is dtype and (x.shape == shape or (x.size == 1 and x.ndim <= len(shape))):
            one = loader.is_one(x)
            if not one:
                whole.append(x)
        else:
            return NotImplemented
        single |= one << k
        inputs.append(x)
    make = partial(cupy.empty, shape, dtype)
    if not all(x.flags.c_contiguous for x in whole):
        strides = whole[0].strides
        are_alike = all(x.strides == strides for x in whole)
        own = loader.maker(shape, dtype, strides) if are_alike else None
        if own is None and not copies:
            return NotImplemented
        make = own or make
        if own is None:
            inputs = [x if single >> k & 1 else loader.contiguous(x) for k, x in enumerate(inputs)]
    results = tuple([make() for _ in range(count)])
    options = number, np.int32(single), guarded
    loader.launch_elementwise(topic, name, (*inputs, *results), *options)
    return results if count > 1 else results[0]


def _kept(vjp, cotangent):
    """The names, of those that the definition's VJP keeps, that a cotangent in C mentions."""
    return [name for name in kept_names(vjp) if re.search(rf"\b{name}\b", cotangent)]


def _twin(call, cotangents, value=None):
    """Give an op the twins of its VJPs and, for many elements, of its forward."""
    op = call.op
    topic = f"rules of {op.name}"
    wanted = op.inputs if cotangents else ()
    kept = [_kept(op.rules[x], c) for x, c in zip(wanted, cotangents, strict=True)]
    parts = [(x, names, [c]) for x, names, c in zip(wanted, kept, cotangents, strict=True)]
    if len(cotangents) > 1:
        parts.append(("together", list(dict.fromkeys(chain(*kept))), cotangents))
    source, twins = "", {}
    for part, names, cs in parts:
        name = f"{op.name}_{part}"
        source += _define(name, ["g", *names], cs)
        twins[part] = _rule(topic, name, names, len(cs))
    if value is not None:
        name = f"{op.name}_forward"
        source += _define(name, op.inputs, [value])
        twins["forward"] = _forward(topic, name, len(op.inputs))
    loader.add_source(topic, _FILE, source)
    for twin in twins.values():
        twin.is_eager = True  # a program has generated kernels
    call.twin("cupy", **twins)


for _call in RULES | FORWARDS:
    _twin(_call, RULES.get(_call, ()), FORWARDS.get(_call))
