"""Elementwise calls that follow each other, as one generated kernel."""

from functools import cache
from math import isnan, prod
from typing import NamedTuple

import cupy
import numpy as np

from ...placing import broadcast_strides, merged
from .loader import elementwise_grid, maker, options, source
from .reductions import LARGE, ROWS, chunks

# The types in which elements of each dtype are stored, by its character. 16-bit floats are computed
# with in float, and rounded after each step as if they were stored.
STORED = {
    "?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short",
    "i": "int", "I": "unsigned", "l": "long long", "L": "unsigned long long", "q": "long long",
    "Q": "unsigned long long", "e": "half", "E": "bf16", "f": "float", "d": "double",
}  # fmt: skip
COMPUTED = STORED | {"e": "float", "E": "float"}
_MOST_IN_PACKS = 80  # arrays; the packs of more would not fit into a thread's registers


class Fused:
    """A function of arrays that broadcast to one shape, and of numbers; a kernel for each layout.

    shape: of all results.
    dtypes: of the inputs.
    steps: tuples of an expression, see `declarations.EXPRESSIONS`, the dtype with which it
        computes, that of its result, and its operands: the number of an input or, after the
        inputs, of a step; or a tuple of a number.
    results: the numbers of the steps whose results are returned.
    strides: of the results; None for an array in C order.
    total: the number of a step, the shape of the sums of its columns, which are one more result,
        and their number; all arrays have their results in C order then. None if nothing is summed.
    """

    STORED = STORED

    def __init__(self, name, shape, dtypes, steps, results, strides, total=None):
        self.__name__ = name
        self.shape, self.dtypes = shape, dtypes
        self._steps, self._results, self._total = steps, results, total
        made = [steps[k][2] for k in results]
        self._makers = [
            (s is not None and maker(shape, dtype, s)) or (lambda d=dtype: cupy.empty(shape, d))
            for dtype, s in zip(made, strides, strict=True)
        ]
        self._dtype = np.dtype(np.float32) if total is None else steps[total[0]][2]
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
                self._known[key] = self._prepared((*inputs, *results))
            run, pack, grid, numbers = self._known[key]
            given = [
                x if isinstance(x, cupy.ndarray) else (int if d.kind in "iu" else float)(x)
                for x, d in zip(inputs, self.dtypes, strict=True)
            ]
            args = *given, *results, self._size, *numbers
            if self._total is None:
                run(*grid, args)
            else:
                _, shape, columns = self._total
                grid, parts = chunks(self._size // columns, columns, self._dtype, pack > 1)
                results.append(cupy.empty(shape, self._dtype))
                run(grid, (32, ROWS), (*args, results[-1], *parts, columns))
        return tuple(results) if len(results) > 1 else results[0]

    def _prepared(self, arrays):
        """The kernel for arrays that lie so, how many elements it reads at a time, the grid for
        them, and numbers that it takes."""
        self.text, layout = self.source(arrays)
        run = _module(self.text, self._dtype.name).get_function("fused")
        grid = elementwise_grid(self._size, np.dtype(f"V{16 // layout.pack}"))
        return run, layout.pack, grid, layout.numbers

    def source(self, arrays):
        """The text of the kernel for inputs and results that lie so, and their `_Layout`."""
        layout = _Layout(self.shape, arrays, self._total is not None)
        if len(arrays) > _MOST_IN_PACKS:
            layout.pack = 1
        if self._total is not None:
            packs = [layout.pack == 16 // self._dtype.itemsize, self._size >= LARGE]
            layout.pack = layout.pack if all(packs) else 1
        count, pack = len(self.dtypes), layout.pack
        chars = [x.char for x in (*self.dtypes, *[self._steps[k][2] for k in self._results])]
        parameters, before, first, element, last = [], [], [], [], []
        for k, (char, access) in enumerate(zip(chars, layout.accesses, strict=True)):
            stored, name, is_input = STORED[char], f"a{k}", k < count
            kind = access and access.kind
            const = "const " if is_input else ""
            number = "long long" if char in np.typecodes["AllInteger"] else "double"
            parameters.append(f"{const}{stored}* {name}" if access else f"{number} {name}")
            value = f"const {COMPUTED[char]} x{k} ="
            if access is None:
                before.append(f"{value} {_rounded(f'({COMPUTED[char]}){name}', char)};")
                continue
            at = f"{name} + {access.place}"
            if kind == "one":
                (before if access.place == "0" else first).append(f"{value} load({at});")
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
        element += [*self._computed(), *self._stored(layout)]
        text = (_EACH if self._total is None else _SUM).format(
            index="unsigned" if self._size < 1 << 31 else "unsigned long long",
            parameters=", ".join([*parameters, "long long n", *layout.parameters]),
            names=", ".join([p.split()[-1] for p in (*parameters, "n", *layout.parameters)]),
            before="\n    ".join(before),
            first="\n        ".join([*layout.lines, *first]),
            element="\n            ".join(element),
            last="\n        ".join(last),
            pack=pack,
        )
        return text, layout

    def _computed(self):
        """The lines that compute the steps of an element."""
        count = len(self.dtypes)
        for k, (expression, loop, dtype, operands) in enumerate(self._steps):
            type_, own = COMPUTED[loop.char], COMPUTED[dtype.char]
            parts = [_literal(*x, loop) if type(x) is tuple else f"x{x}" for x in operands]
            text = expression.format(*[f"({part})" for part in parts])
            text = text.replace("(T)", f"({type_})")
            if dtype != loop:
                text = f"({text}) != 0" if own == "bool" else f"({own})({text})"
            yield f"const {own} x{count + k} = {_rounded(text, dtype.char)};"

    def _stored(self, layout):
        """The lines that store an element of each result."""
        count = len(self.dtypes)
        for k, step in enumerate(self._results, count):
            access, target = layout.accesses[k], f"p{k}.items + k"
            if access.kind != "pack":
                target = f"a{k} + {access.place} + k * (long long){access.step}"
            yield f"store({target}, x{count + step});"
        if self._total is not None:
            yield f"sums[k] = x{count + self._total[0]};"


_EACH = """
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


_SUM = """
typedef {index} Index;

template <int N> __device__ inline void part({parameters}, T* total, A* parts, unsigned* arrived,
                                             long long columns)
{{
    {before}
    auto each = [=](Index i, A* sums) {{
        {first}
#pragma unroll
        for (int k = 0; k < N; k++) {{
            {element}
        }}
        {last}
    }};
    auto get = [=](long long i, long long, A* sums) {{ each((Index)i, sums); }};
    sum_columns<N>(get, total, parts, arrived, n / columns, columns, 1);
}}

extern "C" __global__ void __launch_bounds__(32 * SUMMED_ROWS)
fused({parameters}, T* total, A* parts, unsigned* arrived, long long columns)
{{
    part<{pack}>({names}, total, parts, arrived, columns);
}}
"""


@cache
def _module(text, dtype):
    code, options = whole(text, dtype)
    return cupy.RawModule(code=code, options=options)


def whole(text, dtype):
    """What the compiler gets for the text of a kernel: the whole code, and its options."""
    # Products and sums are rounded one by one, as where each is a kernel of its own.
    return source("fused") + text, (*options(dtype), "-fmad=false")


def _rounded(text, char):
    return f"rounded<{STORED[char]}>({text})" if char in "eE" else text


def _literal(x, dtype):
    """A number, converted to a dtype, as text."""
    value, type_ = np.asarray(x, dtype)[()], COMPUTED[dtype.char]
    if type_ in ("float", "double"):
        value = float(value)
        sign = "-" if np.signbit(value) else ""
        text = "NOT_A_NUMBER" if isnan(value) else f"{sign}INFINITY"
        return f"({type_}){value.hex() if np.isfinite(value) else text}"
    return f"({type_}){int(value)}" + "LL" * (type_ != "bool")


class _Access(NamedTuple):
    """How a kernel finds the elements of an array.

    kind: "pack" for those that lie one after another; "one" for one element, of the whole or of a
        row; "any" otherwise.
    place: the text of where the first of them is. step: that of the distance between them.
    """

    kind: str
    place: str = "0"
    step: str = ""


class _Layout:
    """How the arrays of a call lie in memory, as a text that is the same for most sizes.

    accesses: an `_Access` for each; None for a number.
    parameters, numbers: lengths of axes and distances between elements, as the kernel gets them.
    lines: the text that finds an element's place.
    pack: how many elements are read at a time.
    """

    def __init__(self, shape, arrays, is_c_order):
        self.parameters, self.numbers, self.lines = [], [], []
        given = [x for x in arrays if hasattr(x, "strides")]
        rows = [broadcast_strides(x, shape) for x in given]
        order = list(range(len(rows[-1])))
        if not is_c_order:
            order.sort(key=lambda k: -rows[-1][k])
        lengths = [n for n in shape if n > 1]
        lengths, *rows = ([row[k] for k in order] for row in (lengths, *rows))
        lengths, rows = merged(lengths, *rows)
        rows = dict(zip(map(id, given), rows, strict=True))
        dense = [prod(lengths[k + 1 :]) for k in range(len(lengths))]
        if len(lengths) > 1:
            self.lines.append("Index rest = i;")
            for k in range(len(lengths) - 1, 0, -1):
                n = self._add(f"n{k}", lengths[k])
                self.lines.append(f"[[maybe_unused]] const Index i{k} = rest % (Index){n};")
                self.lines.append(f"rest /= (Index){n};")
            self.lines.append("[[maybe_unused]] const Index i0 = rest;")
        self.accesses = [
            self._access(k, x.itemsize, rows[id(x)], dense) if id(x) in rows else None
            for k, x in enumerate(arrays)
        ]
        pairs = zip(arrays, self.accesses, strict=True)
        packed = [x for x, access in pairs if access and access.kind == "pack"]
        self.pack = 16 // max([x.itemsize for x in packed], default=16)
        steps = [(step, x.itemsize) for x in packed for step in (x.data.ptr, *rows[id(x)][:-1])]
        if len(lengths) > 1:
            steps.append((lengths[-1], 1))
        while self.pack > 1 and any(step % (self.pack * size) for step, size in steps):
            self.pack //= 2

    def _add(self, name, number):
        self.parameters.append(f"long long {name}")
        self.numbers.append(number)
        return name

    def _access(self, k, itemsize, row, dense):
        row = [step // itemsize for step in row]
        if row == dense:
            return _Access("pack", "i")
        terms = []
        for axis, step in enumerate(row):
            index = f"i{axis}" if len(row) > 1 else "i"
            if step == 1 and axis == len(row) - 1:
                terms.append(index)
            elif step:
                terms.append(f"{index} * {self._add(f's{k}_{axis}', step)}")
        place = " + ".join(terms) or "0"
        if row[-1:] == [1]:
            return _Access("pack", place)
        return _Access("any", place, f"s{k}_{len(row) - 1}") if row[-1] else _Access("one", place)
