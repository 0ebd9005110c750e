"""Elementwise calls that follow each other, as one generated kernel."""

from functools import cache
from math import isnan, prod

import cupy
import numpy as np

from ...native.loops import broadcast_strides, merged
from .loader import elementwise_grid, maker, options, source

# The types in which elements of each dtype are stored, by its character. 16-bit floats are computed
# with in float, and rounded after each step as if they were stored.
STORED = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned", "l": "long long", "L": "unsigned long long", "q": "long long",
    "Q": "unsigned long long", "e": "half", "E": "bf16", "f": "float", "d": "double",
}  # fmt: skip
COMPUTED = STORED | {"e": "float", "E": "float"}


class Fused:
    """A function of arrays that broadcast to one shape, and of numbers; a kernel for each layout.

    shape: of all results.
    dtypes: of the inputs.
    steps: tuples of an expression, see `declarations.EXPRESSIONS`, the dtype with which it
        computes, that of its result, and its operands: the number of an input or, after the
        inputs, of a step; or a number as an array.
    results: the numbers of the steps whose results are returned.
    strides: of the results; None for an array in C order.
    """

    STORED = STORED

    def __init__(self, name, shape, dtypes, steps, results, strides):
        self.__name__ = name
        self.shape, self.dtypes = shape, dtypes
        self._steps, self._results = steps, results
        made = [steps[k][2] for k in results]
        self._makers = [
            (s is not None and maker(shape, dtype, s)) or (lambda d=dtype: cupy.empty(shape, d))
            for dtype, s in zip(made, strides, strict=True)
        ]
        self._size = prod(shape)
        self._known = {}
        self.text = ""  # of the kernel for the last new layout

    def __call__(self, *inputs):
        results = [make() for make in self._makers]
        arrays = [x for x in (*inputs, *results) if isinstance(x, cupy.ndarray)]
        if self._size:
            key = tuple([(x.strides, x.data.ptr % 16) for x in arrays])
            key = *key, *[isinstance(x, cupy.ndarray) for x in inputs]
            if key not in self._known:
                self._known[key] = self._prepared(inputs, results)
            run, grid, numbers = self._known[key]
            given = [
                x if isinstance(x, cupy.ndarray) else (int if d.kind in "iu" else float)(x)
                for x, d in zip(inputs, self.dtypes, strict=True)
            ]
            run(*grid, (*given, *results, self._size, *numbers))
        return tuple(results) if len(results) > 1 else results[0]

    def _prepared(self, inputs, results):
        """The kernel for arrays in this layout, its grid and its last arguments."""
        layout = _Layout(self.shape, inputs, results)
        self.text = text = self._text(layout)
        grid = elementwise_grid(self._size, np.dtype(f"V{16 // layout.pack}"))
        return compiled(text).get_function("fused"), grid, layout.numbers

    def _text(self, layout):
        count, pack = len(self.dtypes), layout.pack
        chars = [x.char for x in (*self.dtypes, *[self._steps[k][2] for k in self._results])]
        parameters, before, first, element, last = [], [], [], [], []
        for k, (char, access) in enumerate(zip(chars, layout.accesses, strict=True)):
            stored, name, is_input = STORED[char], f"a{k}", k < count
            kind = access and access.kind
            const = "const " if is_input else ""
            parameters.append(f"{const}{stored}* {name}" if access else f"{_given(char)} {name}")
            value = f"const {COMPUTED[char]} x{k} ="
            if access is None:
                before.append(f"{value} {_rounded(f'({COMPUTED[char]}){name}', char)};")
                continue
            at = f"{name} + {access.place}" if access.place else name
            if kind == "one":
                (first if access.place else before).append(f"{value} load({at});")
            elif kind == "pack":
                items = f"Items<{stored}, N>"
                loaded = f" = *(const {items}*)({at})" if is_input else ""
                first.append(f"{const}{items} p{k}{loaded};")
                if is_input:
                    element.append(f"{value} load(p{k}.items + k);")
                else:
                    last.append(f"*({items}*)({at}) = p{k};")
            elif is_input:
                element.append(f"{value} load({at} + k * (long long){access.step});")
        for k, (expression, loop, dtype, operands) in enumerate(self._steps):
            type_ = COMPUTED[loop.char]
            parts = [x if type(x) is str else f"x{x}" for x in map(_literal, operands)]
            text = expression.format(*[f"({part})" for part in parts]).replace("(T)", f"({type_})")
            text = f"({text}) != 0" if dtype.char == "?" else f"({COMPUTED[dtype.char]})({text})"
            element.append(
                f"const {COMPUTED[dtype.char]} x{count + k} = {_rounded(text, dtype.char)};"
            )
        for k, step in enumerate(self._results, count):
            access = layout.accesses[k]
            if access.kind == "pack":
                target = f"p{k}.items + k"
            else:
                target = f"a{k} + {access.place or 0} + k * (long long){access.step or 0}"
            element.append(f"store({target}, x{count + step});")
        return _KERNEL.format(
            index="unsigned" if self._size < 1 << 31 else "unsigned long long",
            parameters=", ".join([*parameters, "long long n", *layout.parameters]),
            names=", ".join([p.split()[-1] for p in (*parameters, "n", *layout.parameters)]),
            before="\n    ".join(before),
            first="\n        ".join([*layout.lines, *first]),
            element="\n            ".join(element),
            last="\n        ".join(last),
            pack=pack,
        )


_KERNEL = """
typedef {index} Index;

template <int N> __device__ inline void part(Index from, Index to, {parameters})
{{
    {before}
    for (Index i = from + (Index)thread_number() * N; i < to; i += (Index)thread_count() * N) {{
        {first}
#pragma unroll
        for (int k = 0; k < N; k++) {{
            {element}
        }}
        {last}
    }}
}}

extern "C" __global__ void fused({parameters})
{{
    const Index packed = (Index)n / {pack} * {pack};
    part<{pack}>(0, packed, {names});
    if ({pack} > 1) part<1>(packed, (Index)n, {names});
}}
"""


@cache
def compiled(text):
    # Products and sums are rounded one by one, as where each is a kernel of its own.
    code = source("fused") + text
    return cupy.RawModule(code=code, options=(*options("float32"), "-fmad=false"))


def _given(char):
    return "long long" if np.dtype(char).kind in "iu" else "double"


def _rounded(text, char):
    return f"rounded<{STORED[char]}>({text})" if char in "eE" else text


def _literal(x):
    """An operand that is a number as text."""
    if not isinstance(x, np.ndarray):
        return x
    value, type_ = x.item(), COMPUTED[x.dtype.char]
    if isinstance(value, float):
        sign = "-" if np.signbit(value) else ""
        text = "NOT_A_NUMBER" if isnan(value) else f"{sign}INFINITY"
        return f"({type_}){value.hex() if np.isfinite(value) else text}"
    return f"({type_}){int(value)}" + "LL" * (type_ != "bool")


class _Access:
    """How a kernel finds the elements of an array.

    kind: "pack" for those that lie one after another; "one" for one element, of the whole or of a
        row; "any" otherwise.
    place: the text of where the first of them is. step: that of the distance between them.
    """

    def __init__(self, kind, place="", step=""):
        self.kind, self.place, self.step = kind, place, step


class _Layout:
    """How the arrays of a call lie in memory, as a text that is the same for most sizes.

    accesses: an `_Access` for each; None for a number.
    parameters, numbers: lengths of axes and distances between elements, as the kernel gets them.
    lines: the text that finds an element's place.
    pack: how many elements are read at a time.
    """

    def __init__(self, shape, inputs, results):
        arrays = [x for x in (*inputs, *results) if isinstance(x, cupy.ndarray)]
        rows = [broadcast_strides(x, shape) for x in arrays]
        order = sorted(range(len(rows[-1])), key=lambda k: -rows[-1][k])
        lengths = [n for n in shape if n > 1]
        lengths, rows = merged(
            [lengths[k] for k in order], *[[row[k] for k in order] for row in rows]
        )
        self.parameters, self.numbers, self.lines = [], [], []
        last = len(lengths) - 1
        if last > 0:
            self.lines.append("Index rest = i;")
        for axis in range(last, 0, -1):
            self._add(f"n{axis}", lengths[axis])
            self.lines.append(f"const Index i{axis} = rest % (Index)n{axis};")
            self.lines.append(f"rest /= (Index)n{axis};")
        if last > 0:
            self.lines.append("const Index i0 = rest;")
        is_packed = [not lengths or row[-1] == x.itemsize for x, row in zip(arrays, rows)]
        packed = [(x, row) for x, row, is_one in zip(arrays, rows, is_packed) if is_one]
        pack = 16 // max([x.itemsize for x, _ in packed], default=16)
        while pack > 1 and not (
            (last < 1 or lengths[-1] % pack == 0)
            and all(
                (x.data.ptr % (pack * x.itemsize) == 0)
                and all(step % (pack * x.itemsize) == 0 for step in row[:-1])
                for x, row in packed
            )
        ):
            pack //= 2
        self.pack = pack
        found = iter(
            [
                self._access(k, x.itemsize, row, is_one)
                for k, (x, row, is_one) in enumerate(zip(arrays, rows, is_packed, strict=True))
            ]
        )
        self.accesses = [
            next(found) if isinstance(x, cupy.ndarray) else None for x in (*inputs, *results)
        ]

    def _add(self, name, number):
        self.parameters.append(f"long long {name}")
        self.numbers.append(number)
        return name

    def _access(self, k, itemsize, row, is_packed):
        if len(row) < 2 and is_packed:
            return _Access("pack", "i")
        if not any(row):
            return _Access("one")
        terms = []
        for axis, step in enumerate(row):
            if step and not (axis == len(row) - 1 and is_packed):
                name = self._add(f"s{k}_{axis}", step // itemsize)
                terms.append(f"i{axis} * {name}" if len(row) > 1 else f"i * {name}")
            elif step:
                terms.append(f"i{axis}")
        place = " + ".join(terms)
        if is_packed:
            return _Access("pack", place)
        if not row[-1]:
            return _Access("one", place)
        return _Access("any", place, f"s{k}_{len(row) - 1}")
