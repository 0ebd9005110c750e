"""Twins of elementwise ops' VJPs: one kernel, with the guard in it, for each set of wanted inputs.

The definition of a VJP would run several of CuPy's kernels and, if it is guarded, another to look
for nan.
"""

import re
from itertools import chain
from pathlib import Path

import cupy
import numpy as np

from ...autograd.rules import kept_names
from ...backends.cupy.kernels.loader import add_source, covers, elementwise_grid, flat, kernel
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

_FILE = Path(__file__).with_name("elementwise_rules.cu")


def _define(name, kept, cotangents):
    """The definition of a kernel ``name(g, *kept, *results, n, number, single, guarded)``."""
    inputs = ["g", *kept]
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

    kept: the names of the values that it keeps, as the rule's parameters have to be called.
    count: the number of cotangents; of more than one it returns a tuple.
    """

    def launch(g, values, guarded):
        shape, dtype = g.shape, g.dtype
        if not covers(dtype):
            return NotImplemented
        number, single, inputs = 0.0, 0, []
        for k, x in enumerate((g, *values)):
            if isinstance(x, (int, float)):
                number, one = float(x), True
                x = None
            elif x.dtype is dtype and (x.shape == shape or x.size == 1):
                x, one = flat(x)
            else:
                return NotImplemented
            single |= one << k
            inputs.append(x)
        results = [cupy.empty(shape, dtype) for _ in range(count)]
        n = g.size
        if n:
            args = (*inputs, *results, n, number, np.int32(single), guarded)
            kernel(topic, name, dtype)(*elementwise_grid(n, dtype), args)
        return results[0] if count == 1 else tuple(results)

    # The names of a rule's parameters say what the graph keeps for it.
    names = ", ".join(kept)
    text = f"lambda xp, g, {names}, *, guarded=False: launch(g, ({names},), guarded)"
    return eval(text, {"launch": launch})


def _kept(vjp, cotangent):
    """The names, of those that the definition's VJP keeps, that a cotangent in C mentions."""
    return [name for name in kept_names(vjp) if re.search(rf"\b{name}\b", cotangent)]


def _twin(call, cotangents):
    """Give an op the twins of its VJPs."""
    op = call.op
    topic = f"rules of {op.name}"
    kept = [_kept(op.rules[x], c) for x, c in zip(op.inputs, cotangents, strict=True)]
    parts = [(x, names, [c]) for x, names, c in zip(op.inputs, kept, cotangents, strict=True)]
    if len(cotangents) > 1:
        parts.append(("together", list(dict.fromkeys(chain(*kept))), cotangents))
    source, rules = "", {}
    for part, names, cs in parts:
        name = f"{op.name}_{part}"
        source += _define(name, names, cs)
        rules[part] = _rule(topic, name, names, len(cs))
    add_source(topic, _FILE, source)
    call.twin("cupy", **rules)


for _call, _cotangents in RULES.items():
    _twin(_call, _cotangents)
