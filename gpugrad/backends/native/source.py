"""The C text of loops: see `Source` for the whole, `_Body` for one loop."""

import math

import numpy as np

from .base import zero
from .calls import TYPES
from .loops import merged

BLOCK = 1024  # elements of a part of a long row, whose values stay in the cache
_PIECE = 1 << 16  # operations on elements that are worth being a piece for a thread


class Source:
    """The text of a kernel.

    table: what its first argument points to: `Root`s, ``"memory"`` for the kernel's own, and
        functions: a ufunc with the characters of its dtypes, or the name of one of the library.
    nbytes: of the kernel's own memory.
    is_divided: whether it computes products by several threads.
    """

    def __init__(self, schedule):
        self.loops = schedule.loops
        self.table, self._numbers = [], {}
        self.is_divided = False
        self._place_private()
        bodies = [_Body(self, number, loop) for number, loop in enumerate(self.loops)]
        texts = [body.text() for body in bodies]
        found = [
            f"    P[{k}] = DATA(ITEM(registers, {x.slot}));"
            for k, x in enumerate(self.table)
            if getattr(x, "kind", "") == "register"
        ]
        main = ["void gg_kernel(char **P, void *registers, int64_t threads) {", *found]
        self.text = "\n".join([*texts, *main, *[body.call() for body in bodies], "}\n"])

    def _place_private(self):
        """Give the values that several loops use places in the kernel's own memory."""
        roots = {x.root: x for loop in self.loops for row in loop.rows for x in row}
        apart = {x.root for loop in self.loops for row in loop.rows for x in row
                 if not x.is_pointwise}  # fmt: skip
        self.kept = {r for r in roots if r.kind == "private" and (len(r.loops) > 1 or r in apart)}
        self.nbytes, taken = 0, []
        for root in sorted(self.kept, key=lambda r: (min(r.loops), r.start)):
            size = -(-(root.stop - root.start) // 64) * 64
            first, last, offset = min(root.loops), max(root.loops), 0
            for start, end in sorted([t[2:] for t in taken if t[0] <= last and first <= t[1]]):
                if start - offset >= size:
                    break
                offset = max(offset, end)
            taken.append((first, last, offset, offset + size))
            root.offset = offset
            self.nbytes = max(self.nbytes, offset + size)

    def place(self, x):
        """The text for something in the table."""
        key = x if isinstance(x, (str, tuple)) else id(x)
        if key not in self._numbers:
            self._numbers[key] = len(self.table)
            self.table.append(x)
        return f"P[{self._numbers[key]}]"

    def pointer(self, access):
        """The text for the address of the first element."""
        root, offset = access.root, access.address - access.root.place
        if root.kind == "private":
            return f"({self.place('memory')} + {root.offset + offset})"
        return f"({self.place(root)} + {offset})"

    def loop_of_numpy(self, ufunc, types):
        """The text for the inner loop of a ufunc, and its data."""
        return f"{self.place((ufunc, types))}, {self.place(('data', ufunc, types))}"


class _Value:
    """A value in a loop: in memory from before, or the result of an operation.

    name: None for one from before.
    level, last_level: of the passes that compute it and that use it last; see `_Body`.
    is_row: whether it is one number for the whole row.
    access: its place in memory.
    is_stored: whether that is written.
    """

    def __init__(self, access, name=None, level=-1, *, is_row):
        self.access = access
        self.name = name
        self.level = self.last_level = level
        self.is_row = is_row
        self.is_stored = name is None
        self.char = access.array.dtype.char
        self.type = TYPES[self.char]
        self.size = access.array.itemsize


class _Body:
    """One loop, which goes through rows and, in each, makes passes over its elements.

    In a pass of an even level, expressions are computed element by element. In one of an odd level,
    functions are called on the whole row; so their operands lie in memory or in a buffer.

    outer: the lengths of the axes of the rows. inner: the length of a row. step_of: by the id of an
        access, its strides along these.
    is_flat: whether there is one long row, of which a block at a time is the row.
    """

    def __init__(self, source, number, loop):
        self.source, self.number, self.loop = source, number, loop
        accesses = [x for row in loop.rows for x in row]
        strides, self.is_flat, shape = [x.strides for x in accesses], False, loop.shape
        if loop.is_alone or not shape:
            shape, strides = (1,), [(0,)] * len(accesses)
        elif not loop.is_split:
            shape, strides = merged(shape, *strides)
            self.is_flat = len(shape) == 1
        self.outer, self.inner = shape[:-1], shape[-1]
        self.step_of = dict(zip(map(id, accesses), strides, strict=True))
        self.has_columns = any(x.kind == "columns" for x in loop.operations)
        self.pieces = 1 if loop.is_alone or self.has_columns else self._count()

    def _count(self):
        """Into how many pieces the loop is divided."""
        rows = -(-self.inner // BLOCK) if self.is_flat else math.prod(self.outer[:1])
        work = math.prod(self.outer) * self.inner * len(self.loop.operations)
        return max(1, min(work // _PIECE, rows, 64))

    def call(self):
        """The statement that runs the loop."""
        if self.pieces == 1:
            return f"    loop{self.number}(P, {'threads' if self.loop.is_alone else 0});"
        run = self.source.place("gg_run")
        return f"    ((gg_run){run})(loop{self.number}, P, {self.pieces});"

    def text(self):
        head = f"static void loop{self.number}(void *context, int64_t piece) {{"
        if self.loop.is_alone:
            lines = self._alone()
        else:
            self._arrange()
            lines = self._rows()
        return "\n".join([head, "    char **const P = context;", *lines, "}"])

    def _alone(self):
        """The lines of an operation for which there is a function of the library."""
        ((operation,), (accesses,)) = self.loop.operations, self.loop.rows
        places = [self.source.pointer(x) for x in accesses]
        if operation.kind == "product":
            self.source.is_divided |= operation.function
            numbers = ", ".join(map(str, _description(*[x.array for x in accesses])))
            # NumPy makes the product of a matrix and its transpose symmetric.
            threads = f"{places[0]} == {places[1]} ? 1 : piece"
            if not operation.function:
                function = self.source.place("gg_matmul_whole")
                return [
                    f"    static const int64_t d[] = {{{numbers}}};",
                    f"    ((gg_matmul_whole){function})(d, {', '.join(places)});",
                ]
            function = self.source.place("gg_matmul")
            return [
                f"    static const int64_t d[] = {{{numbers}}};",
                f"    ((gg_matmul){function})({threads}, d, {', '.join(places)});",
            ]
        name, items, length, options, is_given, _ = operation.function
        options = {"n": 0, "m": 0, "s": 0.0, "t": 0.0, "u": 0.0} | options
        in_piece, n, m = options.pop("in_piece"), int(options["n"]), int(options["m"])
        scalars = [float(options[key]) for key in "stu"]
        number, letter = self.source.place(("number", name)), operation.types
        numbers = [items, in_piece, length, f"{n}LL", f"{m}LL", *[x.hex() for x in scalars]]
        given = iter(range(len(places)))
        arrays = [f"&a[{next(given)}]" if x else "0" for x in is_given]
        arrays += ["0"] * (5 - len(arrays))
        function = self.source.place(f"gg_rows_{letter}")
        return [
            f"    char *a[] = {{{', '.join(places)}}};",
            f"    ((gg_rows){function})((int64_t){number},",
            f"        {', '.join(map(str, [*numbers, *arrays]))});",
        ]

    # Values and levels

    def _step(self, access):
        return self.step_of[id(access)][-1]

    def _arrange(self):
        """Give each operation its level, and find out which values are stored."""
        self.nodes, current = [], {}
        pairs = zip(self.loop.operations, self.loop.rows, strict=True)
        for number, (operation, (*inputs, out)) in enumerate(pairs):
            is_odd = operation.kind in ("call", "rows")
            values, level = [], int(is_odd)
            for x in inputs:
                if x.key not in current or not x.is_pointwise:
                    value = _Value(x, is_row=not self._step(x))
                    if x.is_pointwise:
                        current[x.key] = value
                else:
                    value = current[x.key]
                values.append(value)
                level = max(level, _not_before(value.level, is_odd))
            if out.key in current:  # whose value is overwritten
                level = max(level, _not_before(current[out.key].last_level, is_odd))
            is_row = not self._step(out) and (self.loop.is_split or not self.loop.shape)
            is_row &= operation.kind != "columns"
            value = _Value(out, f"v{number}", level, is_row=is_row)
            for x in values:
                x.last_level = max(x.last_level, level)
            if out.is_pointwise:
                current[out.key] = value
            self.nodes.append((level, operation, inputs, values, value))
        for value in current.values():
            value.is_stored |= not self._is_local(value.access.root)

    def _is_local(self, root):
        return root.kind == "private" and root not in self.source.kept

    # Text of values

    def _pointer(self, access):
        """The name of the address of a row of memory."""
        key = access.address, access.strides
        if key not in self.pointers:
            self.pointers[key] = f"p{len(self.pointers)}", access
        return self.pointers[key][0]

    def _in_memory(self, access, type_, const="const "):
        step, p = self._step(access), self._pointer(access)
        if not step:
            return f"*({const}{type_} *){p}"
        if step == access.array.itemsize:
            return f"(({const}{type_} *){p})[i]"
        return f"*({const}{type_} *)({p} + i * {step})"

    def _element(self, value, access, level):
        """The text for the element of a value, of the dtype of the array that shows it."""
        if access.root.kind == "constant" and access.array.size == 1:
            literal = _literal(access.array)
            if literal is not None:
                return literal
        type_ = TYPES[access.array.dtype.char]
        if value.name is None:
            return self._in_memory(value.access, type_)
        if value.is_row or value.level == level:
            text = value.name
        elif value.is_stored:
            return self._in_memory(value.access, type_)
        else:
            text = f"b{value.name}[i]"
        return text if type_ == value.type else f"AS({type_}, {text})"

    def _operand(self, value):
        """The address and the step of an operand of a function."""
        if value.name is not None and value.is_row:
            return f"&{value.name}", 0
        if value.is_stored:
            return self._pointer(value.access), self._step(value.access)
        return f"b{value.name}", value.size

    def _keep(self, value, level, lines):
        """Have a value that is computed element by element stored where it is needed."""
        if value.is_stored:
            lines.append(f"{self._in_memory(value.access, value.type, '')} = {value.name};")
        elif not value.is_row and value.last_level > level:
            self._buffer(value)
            lines.append(f"b{value.name}[i] = {value.name};")

    def _buffer(self, value):
        length = BLOCK if self.is_flat else self.inner
        self.buffers.append(f"{value.type} b{value.name}[{length}];")

    # Lines

    def _rows(self):
        self.pointers, self.buffers, first = {}, [], []
        passes = [
            line for level in sorted({node[0] for node in self.nodes})
            for line in self._pass(level, first)
        ]  # fmt: skip
        lines = [f"    {x}" for x in (*self.buffers, *first)]
        steps = {name: self.step_of[id(x)] for name, x in self.pointers.values()}
        for name, x in self.pointers.values():
            lines.append(f"    char *const base_{name} = {self.source.pointer(x)};")
        if self.is_flat:
            n, rest = self.inner, self.inner % BLOCK
            length = math.ceil(math.ceil(n / BLOCK) / self.pieces) * BLOCK
            lines.append(f"    int64_t end = (piece + 1) * {length};")
            lines.append(f"    if (end > {n}) end = {n};")
            lines.append(f"    for (int64_t r0 = piece * {length}; r0 < end; r0 += {BLOCK}) {{")
            whole = f"end - r0 < {BLOCK} ? end - r0 : {BLOCK}" if rest else BLOCK
        else:
            for k, n in enumerate(self.outer):
                if k == 0:
                    part = -(-n // self.pieces)
                    lines.append(f"    int64_t end = (piece + 1) * {part};")
                    lines.append(f"    if (end > {n}) end = {n};")
                    lines.append(f"    for (int64_t r0 = piece * {part}; r0 < end; r0++) {{")
                else:
                    lines.append(f"    for (int64_t r{k} = 0; r{k} < {n}; r{k}++) {{")
            whole = self.inner
        lines.append(f"    const int64_t n = {whole};")
        for name, row in steps.items():
            parts = [f" + r{k} * {s}" for k, s in enumerate(row if self.is_flat else row[:-1]) if s]
            lines.append(f"    char *const {name} = base_{name}{''.join(parts)};")
        lines += [f"        {x}" for x in passes]
        return [*lines, *["    }"] * max(len(self.outer), self.is_flat)]

    def _pass(self, level, first):
        """The lines of a pass; what comes before all rows is appended to ``first``."""
        scalars, vectors, calls = [], [], []
        for own_level, operation, inputs, values, value in self.nodes:
            if own_level != level:
                continue
            if operation.kind in ("call", "rows"):
                make = self._call if operation.kind == "call" else self._reduce
                make(operation, values, value, calls)
                continue
            parts = [
                self._element(x, access, level) if access.is_pointwise else None
                for x, access in zip(values, inputs, strict=True)
            ]
            parts = [
                _cast(text, x.array.dtype.char, char)
                for text, x, char in zip(parts, inputs, operation.types, strict=False)
                if text is not None
            ]
            lines = scalars if value.is_row else vectors
            if operation.kind == "columns":
                self._column(operation, parts[0], value, lines, first)
                continue
            if operation.kind == "gather":
                text = self._gathered(parts[0], inputs[1], value)
            else:
                text = operation.function.format(*[f"({part})" for part in parts])
                text = text.replace("(T)", f"({TYPES[operation.types[0]]})")
                text = _cast(text, operation.types[-1], value.char)
            lines.append(f"const {value.type} {value.name} = {text};")
            self._keep(value, level, lines)
        if vectors:
            vectors = ["EACH (int64_t i = 0; i < n; i++) {", *[f"    {x}" for x in vectors], "}"]
        return [*scalars, *vectors, *calls]

    def _gathered(self, index, table, value):
        last = table.array.size - 1
        index = f"({index} < 0 ? 0 : {index} > {last} ? {last} : {index})"
        return f"((const {value.type} *){self.source.pointer(table)})[{index}]"

    def _column(self, operation, text, value, lines, first):
        """Add an element to those of the rows before."""
        out = self._in_memory(value.access, value.type, "")
        if operation.function is np.add:
            place = self.source.pointer(value.access)
            first.append(f"for (int64_t i = 0; i < {self.inner}; i++)")
            first.append(f"    (({value.type} *){place})[i] = ({value.type}){zero()};")
            lines.append(f"{out} += {text};")
            return
        x, y = f"{value.name}x", f"{value.name}y"
        lines.append(f"const {value.type} {x} = {out}, {y} = {text};")
        sign = ">" if operation.function is np.maximum else "<"
        lines.append(f"{out} = r0 == 0 ? {y} : {x} {sign} {y} || {x} != {x} ? {x} : {y};")

    def _call(self, operation, values, value, lines):
        """Call NumPy's inner loop on the row."""
        if value.is_row:
            lines.append(f"{value.type} {value.name};")
        elif not value.is_stored:
            self._buffer(value)
        target = f"&{value.name}" if value.is_row else self._operand(value)[0]
        operands = [str(part) for x in values for part in self._operand(x)]
        function = self.source.loop_of_numpy(operation.function, operation.types)
        parts = function, *operands, target, "1" if value.is_row else "n", str(value.size)
        lines.append(f"call{len(values)}({', '.join(parts)});")
        if value.is_row:
            self._keep(value, value.level, lines)

    def _reduce(self, operation, values, value, lines):
        """Reduce the row."""
        place, _ = self._operand(values[0])
        lines.append(f"{value.type} {value.name};")
        if operation.function is np.add:
            total = self.source.place(f"gg_sum_{value.char}")
            lines.append(
                f"{value.name} = (({value.type} (*)(const void *, int64_t)){total})"
                f"({place}, {self.inner});"
            )
        else:
            function = self.source.loop_of_numpy(operation.function, operation.types[0] * 3)
            lines.append(f"reduce({function}, {place}, {value.size}, &{value.name}, {self.inner});")
        self._keep(value, value.level, lines)


def _not_before(level, is_odd):
    """The first level, even or odd, that is not before another one."""
    return level if level % 2 == is_odd else level + 1


def _cast(text, char, to):
    if TYPES[char] == TYPES[to] and (char == "?") == (to == "?"):
        return text
    return f"(uint8_t)(({text}) != 0)" if to == "?" else f"({TYPES[to]})({text})"


def _literal(array):
    """A number as text; None if only its bits would do."""
    value, own = array.reshape(()).item(), TYPES[array.dtype.char]
    if type(value) is float:
        return f"({own}){value.hex()}" if math.isfinite(value) else None
    return f"({own}){int(value)}LL" if -(1 << 63) < value < 1 << 63 else None


def _description(x1, x2, out):
    """A product as numbers, see ``gg_matmul`` in pool.c."""
    found = [
        "fd".index(out.dtype.char), out.ndim - 2, x1.shape[-2], x1.shape[-1], x2.shape[-1],
        *x1.strides[-2:], *x2.strides[-2:], *out.strides[-2:],
    ]  # fmt: skip
    for k in range(out.ndim - 2):
        found.append(out.shape[k])
        for x in (x1, x2, out):
            i = k - (out.ndim - x.ndim)
            found.append(x.strides[i] if i >= 0 and x.shape[i] > 1 else 0)
    return found
