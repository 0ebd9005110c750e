"""The C text of loops."""

import math
from itertools import product as indices_of

from .calls import TYPES, inner_loop
from .loops import merged

BLOCK = 1024  # elements of a part of a long loop, whose values stay in the cache


class _Value:
    """A value in a loop: in memory before, or computed by an operation.

    level: of the pass over the row that computes it; see `_Body`.
    is_row: whether it is one for the whole row.
    access: its place in memory, if it has one there.
    """

    def __init__(self, name, char, level, is_row, access=None, node=None):
        self.name = name
        self.char = char
        self.level = level
        self.is_row = is_row
        self.access = access
        self.node = node
        self.is_stored = False
        self.last_level = level


class Source:
    """The text of a kernel.

    table: what its first argument points to: `Root`s, addresses of functions and of their data.
    """

    def __init__(self, schedule):
        self.loops = schedule.loops
        self.table = []
        self._numbers = {}
        self._place_private()
        bodies = [_Body(self, k, loop).text() for k, loop in enumerate(self.loops)]
        registers = [
            f"    P[{k}] = DATA(ITEM(registers, {x.slot}));\n"
            for k, x in enumerate(self.table)
            if getattr(x, "kind", "") == "register"
        ]
        calls = [f"    loop{k}(P);\n" for k in range(len(bodies))]
        self.text = (
            '\n'.join(bodies)
            + "\nvoid gg_kernel(char **P, void *registers) {\n"
            + "".join([*registers, *calls])
            + "}\n"
        )

    def _place_private(self):
        """Give the values that several loops use places in the kernel's own memory."""
        roots = {x.root for loop in self.loops for row in loop.rows for x in row}
        several = [r for r in roots if r.kind == "private" and (len(r.loops) > 1 or self._is_apart(r))]
        several.sort(key=lambda r: (min(r.loops), r.start))
        taken: list = []  # offset, size, last loop
        self.nbytes = 0
        self.kept = set(several)
        for root in several:
            size = -(-(root.stop - root.start) // 64) * 64
            first, last = min(root.loops), max(root.loops)
            busy = sorted([(o, n) for o, n, a, b in taken if a <= last and first <= b])
            offset = 0
            for start, n in busy:
                if start - offset >= size:
                    break
                offset = max(offset, start + n)
            taken.append((offset, size, first, last))
            root.offset = offset
            self.nbytes = max(self.nbytes, offset + size)

    def _is_apart(self, root):
        """Whether a loop uses memory of a root that is not at the same place in each pass."""
        return any(
            x.root is root and not x.is_pointwise
            for k in root.loops for row in self.loops[k].rows for x in row
        )  # fmt: skip

    def number(self, x):
        """The place of a root, an address or ``"memory"`` in the table."""
        key = id(x) if hasattr(x, "start") else x
        if key not in self._numbers:
            self._numbers[key] = len(self.table)
            self.table.append(x)
        return self._numbers[key]

    def pointer(self, access):
        """The address of the first element, as text."""
        root = access.root
        if root.kind == "private":
            place = root.offset + access.address - root.place
            return f"(P[{self.number('memory')}] + {place})"
        return f"(P[{self.number(root)}] + {access.address - root.place})"

    def function(self, ufunc, types):
        address, data = inner_loop(ufunc, types)
        return f"P[{self.number(address)}], P[{self.number(('data', data))}]"


class _Body:
    """One loop: for each row, passes over the elements of the row.

    Passes of an even level compute expressions. Those of odd levels call functions on the whole
    row, which need their operands in memory.
    """

    def __init__(self, source, number, loop):
        self.source, self.number, self.loop = source, number, loop
        self.current = {}  # the values by their places
        self.order = []
        self.levels = {}
        self.names = 0
        self.lengths()

    def lengths(self):
        """Tell the axes of rows from the axis along a row."""
        loop = self.loop
        accesses = [x for row in loop.rows for x in row]
        if loop.is_alone or not loop.shape:
            self.outer, self.inner, strides = (), 1, [()] * len(accesses)
            self.is_flat = False
        else:
            shape = loop.shape
            if loop.is_split:
                self.outer, self.inner = shape[:1], shape[1]
                strides = [x.strides for x in accesses]
                self.is_flat = False
            else:
                shape, strides = merged(shape, *[x.strides for x in accesses])
                self.outer, self.inner = shape[:-1], shape[-1]
                self.is_flat = len(shape) == 1
        self.steps = dict(zip(map(id, accesses), strides, strict=True))

    def new(self, *args, **kwargs):
        self.names += 1
        return _Value(f"v{self.names}", *args, **kwargs)

    # Values and levels

    def read(self, access, char):
        """The value at a place."""
        value = self.current.get(access.key)
        if value is None:
            value = self.current[access.key] = self.new(
                char, -1, not self.inner_step(access), access
            )
        return value

    def inner_step(self, access):
        steps = self.steps[id(access)]
        return steps[-1] if steps else 0

    def arrange(self):
        """Give each operation its level."""
        self.nodes = []
        for operation, row in zip(self.loop.operations, self.loop.rows, strict=True):
            *inputs, out = row
            is_odd = operation.kind in ("call", "rows")
            values = [
                None if not x.is_pointwise else self.read(x, x.array.dtype.char) for x in inputs
            ]
            level = int(is_odd)
            for value in values:
                if value is not None:
                    level = max(level, _after(value.level, is_odd))
            old = self.current.get(out.key)
            if old is not None:
                level = max(level, _after(old.last_level, is_odd))
            is_row = operation.kind == "rows" or (
                self.loop.is_split and operation.kind != "columns" and not self.inner_step(out)
                and self.inner > 1
            )
            if not self.loop.shape:
                is_row = True
            value = self.new(out.array.dtype.char, level, is_row, out)
            for x in values:
                if x is not None:
                    x.last_level = max(x.last_level, level)
            if operation.kind != "columns":
                self.current[out.key] = value
            self.nodes.append((level, operation, values, inputs, value))
        for value in self.current.values():
            root = value.access.root
            is_local = root.kind == "private" and root not in self.source.kept
            value.is_stored = value.level is not None and not is_local

    def text(self):
        if self.loop.is_alone:
            return self.product()
        self.arrange()
        made = {id(node[-1]) for node in self.nodes}
        lines, pointers, buffers = [], {}, []
        body = []
        levels = sorted({node[0] for node in self.nodes})
        declared = set()

        def place(value):
            """The address of a value's elements in the row."""
            key = value.access.key
            if key not in pointers:
                name = f"p{len(pointers)}"
                pointers[key] = name, value.access
            return pointers[key][0]

        def element(value, char, level, lines):
            """An expression for the element of a value, as the type of ``char``."""
            own = TYPES[value.char]
            if id(value) not in made:
                # In memory from before.
                step = self.inner_step(value.access)
                p = place(value)
                want = TYPES[char] if value.access.array.itemsize == _size(char) else own
                if step == 0:
                    return f"(*(const {want} *){p})"
                if step == value.access.array.itemsize:
                    return f"((const {want} *){p})[i]"
                return f"(*(const {want} *)({p} + i * {step}))"
            if value.is_row or value.level == level:
                text = value.name
            elif value.is_stored and self.inner_step(value.access) == _size(value.char):
                text = f"((const {own} *){place(value)})[i]"
            elif value.is_stored:
                text = f"(*(const {own} *)({place(value)} + i * {self.inner_step(value.access)}))"
            else:
                text = f"b{value.name}[i]"
            return text

        def operand(value, access, char, level):
            """An operand of an expression: an element, with the dtype of the array that reads it."""
            if access.root.kind == "constant" and access.array.size == 1:
                literal = _literal(access.array)
                if literal is not None:
                    return literal
            seen = access.array.dtype.char
            text = element(value, seen, level, None)
            if id(value) in made and value.char != seen:
                text = f"AS({TYPES[seen]}, {text})"
            return text

        def address(value, access, level):
            """The address and the step of an operand of a function."""
            if id(value) not in made:
                return place(value), self.inner_step(value.access)
            if value.is_row:
                return f"&{value.name}", 0
            if value.is_stored:
                return place(value), self.inner_step(value.access)
            return f"b{value.name}", _size(value.char)

        def store(value, text, out):
            step = self.inner_step(value.access)
            p, own = place(value), TYPES[value.char]
            if value.is_row or step == 0:
                out.append(f"*({own} *){p} = {text};")
            elif step == _size(value.char):
                out.append(f"(({own} *){p})[i] = {text};")
            else:
                out.append(f"*({own} *)({p} + i * {step}) = {text};")

        setup = []
        for level in levels:
            scalars, vectors, calls = [], [], []
            for node_level, operation, values, inputs, value in self.nodes:
                if node_level != level:
                    continue
                own = TYPES[value.char]
                types = operation.types
                if operation.kind in ("map", "gather", "columns"):
                    out = scalars if value.is_row else vectors
                    parts = []
                    for x, access, char in zip(values, inputs, types, strict=False):
                        if x is None:
                            continue
                        text = operand(x, access, char, level)
                        if access.array.dtype.char != char:
                            text = _cast(text, char)
                        parts.append(text)
                    if operation.kind == "gather":
                        table = inputs[1]
                        last = table.array.size - 1
                        parts = [f"(int64_t){parts[0]}"]
                        index = f"({parts[0]} < 0 ? 0 : {parts[0]} > {last} ? {last} : {parts[0]})"
                        text = f"((const {own} *){self.source.pointer(table)})[{index}]"
                    elif operation.kind == "columns":
                        a = f"(({own} *){place(value)})[i]"
                        if operation.function.__name__ == "add":
                            text = f"{a} + {parts[0]}"
                        else:
                            sign = ">" if operation.function.__name__ == "maximum" else "<"
                            out.append(f"{own} {value.name}x = {a}, {value.name}y = {parts[0]};")
                            x, y = f"{value.name}x", f"{value.name}y"
                            text = f"first ? {y} : {x} {sign} {y} || {x} != {x} ? {x} : {y}"
                        out.append(f"{a} = {text};")
                        continue
                    else:
                        text = operation.function.format(*[f"({part})" for part in parts])
                        text = text.replace("(T)", f"({TYPES[types[0]]})")
                    if types[-1] != value.char:
                        text = _cast(text, value.char)
                    out.append(f"{own} {value.name} = {text};")
                    if value.is_stored:
                        store(value, value.name, out)
                    elif not value.is_row and value.last_level > level:
                        buffers.append(f"{own} b{value.name}[{self.longest()}];")
                        out.append(f"b{value.name}[i] = {value.name};")
                    continue
                operands = []
                for x, access, char in zip(values, inputs, types, strict=False):
                    operands.append(self.literal_address(access, setup) or address(x, access, level))
                n = "1" if value.is_row and operation.kind != "rows" else "n"
                if operation.kind == "rows":
                    (p, step), = operands
                    char = types[0]
                    calls.append(f"{own} {value.name};")
                    if operation.function.__name__ == "add":
                        calls.append(f"{value.name} = pairwise_{char}((const {own} *){p}, {self.inner});")
                    else:
                        f = self.source.function(operation.function, char * 3)
                        calls.append(
                            f"reduce({f}, (const char *){p}, {_size(char)}, &{value.name}, {self.inner});"
                        )
                    if value.is_stored:
                        store(value, value.name, calls)
                    continue
                f = self.source.function(operation.function, types)
                size = _size(value.char)
                if value.is_row:
                    calls.append(f"{own} {value.name};")
                    target = f"&{value.name}"
                elif value.is_stored:
                    target = place(value)
                else:
                    buffers.append(f"{own} b{value.name}[{self.longest()}];")
                    target = f"b{value.name}"
                parts = ", ".join([f"{p}, {step}" for p, step in operands])
                calls.append(f"call{len(operands)}({f}, {parts}, {target}, {n}, {size});")
                if value.is_row and value.is_stored:
                    store(value, value.name, calls)
            body += scalars
            if vectors:
                body.append("EACH (int64_t i = 0; i < n; i++) {")
                body += ["    " + line for line in vectors]
                body.append("}")
            body += calls
        return self.assembled(body, pointers, buffers, setup)

    def longest(self):
        return BLOCK if self.is_flat else self.inner

    def literal_address(self, access, setup):
        return None

    def assembled(self, body, pointers, buffers, setup):
        lines = [f"static void loop{self.number}(char **P) {{"]
        lines += ["    " + line for line in (*buffers, *setup)]
        depth = 1
        for name, access in pointers.values():
            lines.append(f"    char *const base_{name} = {self.source.pointer(access)};")
        columns = [
            (operation, row[-1]) for operation, row in
            zip(self.loop.operations, self.loop.rows, strict=True) if operation.kind == "columns"
        ]
        for operation, access in columns:
            own = TYPES[access.array.dtype.char]
            if operation.function.__name__ == "add":
                lines.append(f"    for (int64_t i = 0; i < {self.inner}; i++)")
                lines.append(f"        (({own} *){self.source.pointer(access)})[i] = ({own})-0.0;")
        if self.is_flat:
            total = self.inner
            lines.append(f"    for (int64_t start = 0; start < {total}; start += {BLOCK}) {{")
            lines.append(
                f"    const int64_t n = {total} - start < {BLOCK} ? {total} - start : {BLOCK};"
                if total % BLOCK else f"    const int64_t n = {BLOCK};"
            )
            for name, access in pointers.values():
                step = self.inner_step(access)
                lines.append(f"    char *const {name} = base_{name} + start * {step};")
            lines += ["        " + line for line in body]
            lines.append("    }")
        else:
            for k, n in enumerate(self.outer):
                lines.append(f"    for (int64_t r{k} = 0; r{k} < {n}; r{k}++) {{")
            lines.append(f"    const int64_t n = {self.inner};")
            if columns:
                lines.append("    const int first = r0 == 0; (void)first;")
            for name, access in pointers.values():
                steps = self.steps[id(access)][: len(self.outer)]
                parts = [f" + r{k} * {s}" for k, s in enumerate(steps) if s]
                lines.append(f"    char *const {name} = base_{name}{''.join(parts)};")
            lines.append("    (void)n;")
            lines += ["        " + line for line in body]
            lines += ["    }"] * len(self.outer)
        lines.append("}")
        return "\n".join(lines) + "\n"

    def product(self):
        """A product of matrices, by NumPy's own loop."""
        (operation,), (accesses,) = self.loop.operations, self.loop.rows
        x1, x2, out = [x.array for x in accesses]
        f = self.source.function(_matmul, operation.types)
        pointers = [self.source.pointer(x) for x in accesses]
        lead = out.shape[:-2]
        strides = [
            (0,) * (len(lead) - (x.ndim - 2))
            + tuple([s if n > 1 else 0 for n, s in zip(x.shape[:-2], x.strides, strict=False)])
            for x in (x1, x2, out)
        ]
        m, k, n = x1.shape[-2], x1.shape[-1], x2.shape[-1]
        steps = ", ".join(map(str, (0, 0, 0, *x1.strides[-2:], *x2.strides[-2:], *out.strides[-2:])))
        function, data = f.split(", ")
        lines = [f"static void loop{self.number}(char **P) {{"]
        lines.append(f"    const int64_t sizes[] = {{1, {m}, {k}, {n}}}, steps[] = {{{steps}}};")
        lines += [f"    for (int64_t r{i} = 0; r{i} < {size}; r{i}++) {{" for i, size in enumerate(lead)]
        places = [
            p + "".join([f" + r{i} * {s}" for i, s in enumerate(row) if s])
            for p, row in zip(pointers, strides, strict=True)
        ]
        lines.append(f"    char *args[] = {{{', '.join(places)}}};")
        lines.append(f"    ((loop_of_numpy){function})(args, sizes, steps, {data});")
        lines += ["    }"] * len(lead) + ["}"]
        return "\n".join(lines) + "\n"


def _after(level, is_odd):
    """The first level, even or odd, that is not before another one."""
    return level if level % 2 == is_odd else level + 1


def _size(char):
    return {"f": 4, "d": 8, "?": 1, "b": 1, "B": 1, "h": 2, "H": 2, "i": 4, "I": 4}.get(char, 8)


def _cast(text, char):
    return f"(uint8_t)(({text}) != 0)" if char == "?" else f"({TYPES[char]})({text})"


def _literal(array):
    """A number as text; None if only its bits would do."""
    value, own = array.reshape(()).item(), TYPES[array.dtype.char]
    if type(value) is float:
        return f"({own}){value.hex()}" if math.isfinite(value) else None
    return f"({own}){int(value)}LL" if -(1 << 63) < value < 1 << 63 else None


_ = indices_of
import numpy as _np  # noqa: E402

_matmul = _np.matmul
