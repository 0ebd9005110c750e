"""The C text of loops: see `Source` for the whole, `_Body` for one loop."""

import math

import numpy as np

from ..declarations import GUARD, SUBTRACT
from ..numpy.threads import description
from ..placing import merged, place
from .base import zero
from .calls import TYPES

BLOCK = 512  # elements of a part of a long row, whose values stay in the cache
_PIECE = 1 << 16  # operations on elements that are worth being a piece for a thread
PART = 1 << 15  # elements in a piece of a kernel for arrays of any size
_MANY = 8  # as in prelude.h


class Source:
    """The text of a kernel.

    table: what the pointers in its first argument point to, and their numbers: `Root`s,
        ``"memory"`` for the kernel's own memory, ``"array"`` for the type of arrays, and functions:
        a ufunc with the characters of its dtypes, or the name of a function of the library.
    nbytes: the size of the kernel's own memory.
    is_divided: whether several threads compute its products.
    is_sized: whether its only loop has the number of elements that the arrays have. If not, the
        kernel takes this number, fills the entries ``"size"``, ``"pieces"`` and ``"errors"`` of
        a copy of the table, and returns the floating-point errors.
    """

    def __init__(self, schedule, is_sized=True):
        self.loops = schedule.loops
        self.is_sized = is_sized
        self.table = {}
        self.is_divided = False
        self._place_private()
        bodies = [_Body(self, number, loop) for number, loop in enumerate(self.loops)]
        texts = [body.text() for body in bodies]
        found = enumerate(self.table)
        slots = [(k, x.slot) for k, x in found if getattr(x, "kind", "") == "register"]
        kind = self.place("array") if slots else ""
        head, first, found = "char **P, void *registers, int64_t threads", [], 0
        calls = [body.call() for body in bodies]
        if not is_sized:
            size, pieces, errors = map(self.place, ("size", "pieces", "errors"))
            head, found = f"{head.replace('*P', '*table')}, int64_t size", f"(int64_t){errors}"
            first = [
                f"    char *P[{len(self.table)}];\n    memcpy(P, table, sizeof P);",
                f"    {size} = (char *)size;",
                f"    {pieces} = (char *)(threads ? (size - 1) / {PART} + 1 : 1);",
            ]
        main = [
            f"int gg_kernel({head}) {{",
            *first,
            *[f"    FIND({k}, registers, {slot}, {kind});" for k, slot in slots],
            *calls,
            f"    return {found};\n}}\n",
        ]
        self.text = "\n".join([*texts, *main])

    def _place_private(self):
        """Place values that several loops use in the kernel's own memory."""
        accesses = [x for loop in self.loops for row in loop.rows for x in row]
        shared = [x.root for x in accesses if len(x.root.loops) > 1 or not x.is_pointwise]
        self.kept = dict.fromkeys([root for root in shared if root.kind == "private"])
        self.nbytes = place(self.kept, lambda r: (r.stop - r.start, min(r.loops), max(r.loops)))

    def place(self, x):
        """The C text for something in the table, to which it is added if it is not there."""
        return f"P[{self.table.setdefault(x, len(self.table))}]"

    def pointer(self, access):
        """The C text for the address of the first element."""
        root, offset = access.root, access.address - access.root.place
        if root.kind == "private":
            return f"({self.place('memory')} + {root.offset + offset})"
        return f"({self.place(root)} + {offset})"

    def loop_of_numpy(self, ufunc, types):
        """The C text for the inner loop of a ufunc and the loop's data."""
        return f"{self.place((ufunc, types))}, {self.place(('data', ufunc, types))}"


class _Value:
    """A value in a loop: one that is in memory before it, or the result of an operation.

    name: of the variable in C; None for one that is in memory before.
    level, last_level: of the passes that compute it and that use it last; see `_Body`.
    is_row: whether it is one number for the whole row.
    access: its place in memory.
    is_stored: whether it is there, or the loop writes it there.
    """

    def __init__(self, access, name=None, level=-1, *, is_row):
        self.access, self.name = access, name
        self.level = self.last_level = level
        self.is_row = is_row
        self.is_stored = name is None
        self.char = access.array.dtype.char
        self.type = TYPES[self.char]
        self.size = access.array.itemsize


class _Body:
    """One loop, which goes through rows and, in each, makes passes over its elements.

    A pass of an even level computes expressions element by element. One of an odd level calls
    functions on the whole row, whose operands therefore lie in memory or in a buffer.

    outer: the lengths of the axes that count rows. inner: the length of a row.
    step_of: from the id of an access to its strides along these axes.
    is_flat: whether there is one long row; its blocks then take the place of rows.
    totals: the operations that add up the whole of such a row.
    width: how many elements of a row a block computes.
    pieces: how many pieces threads share: parts of the first axis of the rows, of the long row, or
        of the columns if these are added up.
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
        kinds = [operation.kind for operation in loop.operations]
        self.totals = [x for x in loop.operations if x.kind == "total"]
        self.has_columns = "columns" in kinds
        self.width, self.pieces = self._divide(kinds)

    def _divide(self, kinds):
        work = math.prod(self.outer) * self.inner * len(kinds)
        if not self.source.is_sized:
            return BLOCK, f"(int64_t){self.source.place('pieces')}"
        most = max(1, min(work // _PIECE, 64))
        if self.is_flat:
            return BLOCK, _power_of_2(min(most, math.ceil(self.inner / BLOCK)))
        if not self.has_columns:
            most = 1 if self.loop.is_alone else min(most, *self.outer[:1], most)
            width = self.inner if self.loop.is_split else min(self.inner, BLOCK)
            return width, _power_of_2(most)
        if "rows" in kinds or any(not self._step(row[-1]) for row in self.loop.rows):
            return self.inner, 1
        width = max(64, math.ceil(self.inner / most / 16) * 16)
        return min(width, self.inner), math.ceil(self.inner / width)

    def call(self):
        """The statements that run the loop."""
        if self.totals:
            return f"    total{self.number}(P);"
        if self.pieces == 1:
            return f"    loop{self.number}(P, {'threads' if self.loop.is_alone else 0});"
        run = self.source.place("gg_run_short")
        if not self.source.is_sized:
            run = f"({self.pieces} < {_MANY} ? {run} : {self.source.place('gg_run')})"
        return f"    ((gg_run){run})(loop{self.number}, P, {self.pieces});"

    def text(self):
        if self.loop.is_alone:
            return self._loop(self._alone())
        self._arrange()
        self.pointers = {}
        places = [f"r{k}" for k in range(len(self.outer))]
        arguments = ["char **const P", *[f"const int64_t {x}" for x in (*places, "first", "n")]]
        arguments += ["double *totals"] if self.totals else []
        head, block = f"{self.number}({', '.join(arguments)}) {{", ""
        self.has_guards = not self._may_leave_out()
        if not self.has_guards:
            fast = ["int nans = 0;", *self._lines(places), "return nans;"]
            given = ", ".join([x.split()[-1].strip("*") for x in arguments])
            block = f"static int fast{_indented(head, fast)}"
            head += f"\n    if (!fast{self.number}({given})) return;"
            self.has_guards = True
        block += f"static void block{_indented(head, self._lines(places))}"
        return self._total(block) if self.totals else block + self._loop(self._rows(places))

    def _lines(self, places):
        self.buffers = []
        levels = sorted({node[0] for node in self.nodes})
        passes = [line for level in levels for line in self._pass(level)]
        lines = [*self.buffers]
        for name, access in self.pointers.values():
            steps = zip([*places, "first"], self.step_of[id(access)], strict=False)
            parts = [f" + {x} * {step}" for x, step in steps if step]
            lines.append(f"char *const {name} = {self.source.pointer(access)}{''.join(parts)};")
        return [*lines, *passes]

    def _may_leave_out(self):
        """Whether a block is computed without guards first, and with them only if one sees nan.

        Such a block must not overwrite what it reads, nor report errors of the sums that find nan:
        one is nan if a term is, and perhaps if terms are infinite. Few guards take less time.
        """
        guards = sum(x[1].function is GUARD and not x[-1].is_row for x in self.nodes)
        keys = {x.access.key for node in self.nodes for x in node[3] if x.name is None}
        is_changed = any(x.is_stored and x.access.key in keys for *_, x in self.nodes)
        has_columns = any(x.kind == "columns" for x in self.loop.operations)
        return guards > 4 and self.source.is_sized and not (is_changed or has_columns)

    def _loop(self, lines):
        head = f"static void loop{self.number}(void *context, int64_t piece) {{"
        if not self.source.is_sized:
            errors = self.source.place("errors")
            lines = ["    FIRST_ERRORS;", *lines, f"    LAST_ERRORS({errors});"]
        return "\n".join([head, "    char **const P = context;", *lines, "}"])

    def _rows(self, places):
        """The lines of a loop over the rows, or over the blocks of the long row."""
        block = f"block{self.number}(P, {''.join([f'{x}, ' for x in places])}"
        if self.is_flat:
            if self.source.is_sized:
                size = self.inner
                part = math.ceil(math.ceil(size / BLOCK) / self.pieces) * BLOCK
            else:
                size = f"(int64_t){self.source.place('size')}"
                part = f"({size} / ({BLOCK} * {self.pieces}) + 1) * {BLOCK}"
            return [
                f"    PIECE({size}, {part});",
                "    for (int64_t i = start; i < end; i += BLOCK)",
                f"        {block}i, end - i < BLOCK ? end - i : BLOCK);",
            ]
        axes = zip(places, self.outer, strict=True)
        loops = [f"    for (int64_t {x} = 0; {x} < {n}; {x}++)" for x, n in axes]
        if self.has_columns:
            zeros = [
                f"    for (int64_t i = start; i < end; i++) "
                f"(({TYPES[x.types[-1]]} *){self.source.pointer(row[-1])})[i] = {zero()};"
                for x, row in zip(self.loop.operations, self.loop.rows, strict=True)
                if x.kind == "columns" and x.function is np.add
            ]
            piece = f"    PIECE({self.inner}, {self.width});"
            return [piece, *zeros, *loops, f"        {block}start, end - start);"]
        if self.outer:
            piece = f"    PIECE({self.outer[0]}, {math.ceil(self.outer[0] / self.pieces)});"
            loops = [piece, "    for (int64_t r0 = start; r0 < end; r0++)", *loops[1:]]
        if self.width < self.inner:
            loops.append(f"    for (int64_t i = 0, n = {self.inner}; i < n; i += BLOCK)")
            return [*loops, f"        {block}i, n - i < BLOCK ? n - i : BLOCK);"]
        return [*loops, f"        {block}0, {self.inner});"]

    def _total(self, block):
        """The text for a long row, whose totals `add_up_row` in kernel.h computes by blocks."""
        k, count = self.number, len(self.totals)
        types = [TYPES[x.types[-1]] for x in self.totals]
        sums = [f"a[{i}] = ({t})a[{i}] + ({t})b[{i}];" for i, t in enumerate(types)]
        pairs = zip(self.loop.operations, self.loop.rows, strict=True)
        outs = [self.source.pointer(row[-1]) for x, row in pairs if x.kind == "total"]
        stored = enumerate(zip(types, outs, strict=True))
        stores = [f"    *({t} *){out} = totals[{i}];" for i, (t, out) in stored]
        lines = [
            f"static void add{k}(double *a, const double *b) {{ {' '.join(sums)} }}",
            f"static void total{k}(char **const P) {{",
            f"    double totals[{self.pieces * count}];",
            f"    Row row = {{block{k}, add{k}, P, {self.inner}, {self.pieces}, {count}, totals}};",
            f"    add_up_row(&row, (gg_run){self.source.place('gg_run_short')});",
        ]
        return "\n".join([block, *lines, *stores, "}"])

    def _alone(self):
        """The lines that call a function of the library for the loop's only operation."""
        ((operation,), (accesses,)) = self.loop.operations, self.loop.rows
        places = [self.source.pointer(x) for x in accesses]
        if operation.kind == "product":
            self.source.is_divided |= operation.function
            numbers = ", ".join(map(str, description(*[x.array for x in accesses])))
            # NumPy makes the product of a matrix and its transpose symmetric.
            threads = f"{places[0]} == {places[1]} ? 1 : piece" if operation.function else "0"
            function = self.source.place("gg_matmul")
            return [
                f"    static const int64_t d[] = {{{numbers}}};",
                f"    ((gg_matmul){function})({threads}, d, {', '.join(places)});",
            ]
        name, integers, floats, is_given = operation.function
        number, letter = self.source.place(("number", name)), operation.types
        numbers = [*[f"{x}LL" for x in integers], *[x.hex() for x in floats]]
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
        """Find the level of each operation, and which values the loop stores."""
        self.nodes, current = [], {}
        pairs = zip(self.loop.operations, self.loop.rows, strict=True)
        for number, (operation, (*inputs, out)) in enumerate(pairs):
            is_odd = operation.kind in ("call", "rows", "total")
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
                old = current[out.key]  # which each pass reads again if it is from before
                is_read = old.is_row and old.name is None
                level = max(level, _not_before(old.last_level + is_read, is_odd))
            is_row = not self._step(out) and (self.loop.is_split or not self.loop.shape)
            is_row &= operation.kind != "columns"
            value = _Value(out, f"v{number}", level, is_row=is_row)
            for x in values:
                x.last_level = max(x.last_level, level)
            if out.is_pointwise:
                current[out.key] = value
            self.nodes.append((level, operation, inputs, values, value))
        for value in current.values():
            root = value.access.root
            value.is_stored |= root.kind != "private" or root in self.source.kept

    # Text of values

    def _pointer(self, access):
        """The name of the variable that points to a row in memory."""
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

    def _element(self, value, access, level, may_be_0=True):
        """The C text for an element of a value, with the dtype of the array that shows it."""
        if access.root.kind == "constant" and access.array.size == 1:
            literal = _literal(access.array)
            if literal is not None and (may_be_0 or access.array.any()):
                return literal
        type_ = TYPES[access.array.dtype.char]
        is_variable = value.name is not None and (value.is_row or value.level == level)
        if value.is_stored and not is_variable:
            return self._in_memory(value.access, type_)
        text = value.name if is_variable else f"b{value.name}[i]"
        return text if type_ == value.type else f"AS({type_}, {text})"

    def _operand(self, value):
        """The C text for the address of an operand of a function, and its step."""
        if value.name is not None and value.is_row:
            return f"&{value.name}", 0
        if value.is_stored:
            return self._pointer(value.access), self._step(value.access)
        return f"b{value.name}", value.size

    def _keep(self, value, level, lines):
        """Store a value that is computed element by element where it will be needed."""
        if value.is_stored:
            lines.append(f"{self._in_memory(value.access, value.type, '')} = {value.name};")
        elif not value.is_row and value.last_level > level:
            self._buffer(value)
            lines.append(f"b{value.name}[i] = {value.name};")

    def _buffer(self, value):
        self.buffers.append(f"{value.type} b{value.name}[{self.width}];")

    # Lines

    def _pass(self, level):
        """The lines of the pass of a level."""
        scalars, vectors, calls, noted = [], [], [], []
        for own_level, operation, inputs, values, value in self.nodes:
            if own_level != level:
                continue
            if operation.kind in ("call", "rows", "total"):
                make = self._call if operation.kind == "call" else self._reduce
                make(operation, values, value, calls)
                continue
            parts = []
            for k, (x, access) in enumerate(zip(values, inputs, strict=False)):
                if access.is_pointwise:
                    # GCC takes 0.0 - x for -x where x is converted from an integer or a bool. That
                    # is -0.0 if x is 0.
                    part = self._element(x, access, level, k or operation.function != SUBTRACT)
                    parts.append(_cast(part, access.array.dtype.char, operation.types[k]))
            lines = scalars if value.is_row else vectors
            if operation.kind == "columns":
                self._column(operation, parts[0], value, lines)
                continue
            if operation.kind == "gather":
                text = self._gathered(parts[0], inputs[1], value)
            else:
                text = operation.function
                if text is GUARD and not (self.has_guards or value.is_row):
                    text = "{0}"
                    noted.append(value)
                text = text.format(*[f"({part})" for part in parts])
                text = text.replace("(T)", f"({TYPES[operation.types[0]]})")
                text = _cast(text, operation.types[-1], value.char)
            lines.append(f"const {value.type} {value.name} = {text};")
            if value in noted:
                before = f" + s{noted[-2].name}" if noted[1:] else ""
                lines.append(f"const {noted[0].type} s{value.name} = {value.name}{before};")
            self._keep(value, level, lines)
        if noted:  # GCC does not vectorize the search for nan in the loop that computes them
            sums = f"sums{level}[i]"
            self.buffers.append(f"{noted[0].type} sums{level}[{self.width}];")
            vectors.append(f"{sums} = s{noted[-1].name};")
            calls.append(f"EACH (int64_t i = 0; i < n; i++) nans |= {sums} != {sums};")
        if vectors:
            vectors = ["EACH (int64_t i = 0; i < n; i++) {", *[f"    {x}" for x in vectors], "}"]
        return [*scalars, *vectors, *calls]

    def _gathered(self, index, table, value):
        last = table.array.size - 1
        index = f"({index} < 0 ? 0 : {index} > {last} ? {last} : {index})"
        return f"((const {value.type} *){self.source.pointer(table)})[{index}]"

    def _column(self, operation, text, value, lines):
        """Add an element to the sum, maximum or minimum of the rows before."""
        out = self._in_memory(value.access, value.type, "")
        if operation.function is np.add:
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
        if operation.function is np.add:
            function = f"gg_sum_{value.char}"
            text = f"(({function}){self.source.place(function)})({place}, n)"
            if operation.kind == "total":
                lines.append(f"totals[{self.totals.index(operation)}] = {text};")
                return
            lines.append(f"const {value.type} {value.name} = {text};")
        else:
            function = self.source.loop_of_numpy(operation.function, operation.types[0] * 3)
            lines.append(f"{value.type} {value.name};")
            lines.append(f"reduce({function}, {place}, {value.size}, &{value.name}, {self.inner});")
        self._keep(value, value.level, lines)


def _indented(head, lines):
    return "\n".join([head, *[f"    {x}" for x in lines], "}\n"])


def _not_before(level, is_odd):
    """The first level from this one on that is odd, or even."""
    return level if level % 2 == is_odd else level + 1


def _cast(text, char, to):
    if TYPES[char] == TYPES[to] and (char == "?") == (to == "?"):
        return text
    return f"(uint8_t)(({text}) != 0)" if to == "?" else f"({TYPES[to]})({text})"


def _literal(array):
    """A number as C text; None if C has no literal with its bits."""
    value, own = array.reshape(()).item(), TYPES[array.dtype.char]
    if type(value) is float:
        text = value.hex().replace("inf", "INFINITY")
        return None if math.isnan(value) else f"({own}){text}"
    return f"({own}){int(value)}LL" if -(1 << 63) < value < 1 << 63 else None


def _power_of_2(n):
    """The largest power of 2 up to n.

    With as many pieces, each thread finds its half of an array in its cache, loop after loop.
    """
    return 1 << n.bit_length() - 1
