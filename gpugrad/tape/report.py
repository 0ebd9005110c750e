"""A program as a table and as a drawing."""

from typing import Any

from ..tools.drawing import DIRECTIONS, Drawing
from ..tools.tables import table
from .tape import Value


class Report:
    """The calls of a program in their order, where their results lie, and for how long.

    rows: a dict for each call: its number, the name of its function, the shape, dtype and bytes of
        its result, ``lifetime`` (the numbers of the first and the last call that use the memory),
        ``memory`` ("planned": a part of the program's own memory; "state": an array of the state,
        which the call overwrites; "new": an array for the caller; "view"; "value": whatever the
        call returns), and ``kernel`` (the number of the kernel that makes the call, or None).
    kernels: the C source of each generated kernel, after the names of its calls; on a CUDA device
        its body, without the code that all kernels share. To make a report waits for the compiler.
    planned_bytes: the size of the program's own memory.
    needed_bytes: the most of it that is used at one time.
    call_by_call: on a CUDA device, why the calls are made one by one, or None if they are one CUDA
        graph; None elsewhere.
    """

    def __init__(self, program: Any) -> None:
        self._program = program
        program.use_kernels()
        found, calls = [segment.kernel for segment in program.segments or ()], program.plan.calls
        texts = [(kernel.build.name, kernel.text) for kernel in found]
        texts += [(call.name, call.function.text) for call in calls if _is_generated(call)]
        self.kernels = [f"/* {name} */\n{text}" for name, text in texts]
        self._errors = [kernel.build.error for kernel in found if kernel.build.error]
        self.rows = list(_rows(program))
        self.planned_bytes = program.plan.total
        self.needed_bytes = program.plan.most_alive()
        self.call_by_call = program.call_by_call

    def __repr__(self) -> str:
        columns = {
            "call": "d", "function": None, "shape": None, "dtype": None, "bytes": ",d",
            "lifetime": None, "memory": None, "kernel": None,
        }  # fmt: skip
        rows = [["" if row[name] is None else row[name] for name in columns] for row in self.rows]
        head = (
            f"{len(self.rows)} calls, {self.planned_bytes:,d} bytes of planned memory, of which "
            f"{self.needed_bytes:,d} are needed at one time"
        )
        if self.call_by_call is not None:
            head += f"\ncalled one by one, not as a CUDA graph: {self.call_by_call}"
        elif self._program.backend.graphs is not None:
            head += "\nlaunched together, as a CUDA graph"
        if self.kernels:
            count = len(self.kernels)
            kernels = "kernel" if count == 1 else "kernels"
            head += f"\n{count} {kernels}, whose C source is in the attribute kernels"
        head += "".join([f"\na kernel could not be compiled: {error}" for error in self._errors])
        more = "; the attribute rows has all of them" if len(rows) > 30 else ""
        return f"{head}\n{table(columns, rows, 30)}{more}"

    def draw(self, direction: str = "TB") -> Drawing:
        """A picture of the calls; an arrow leads from each value to the calls that use it.

        direction: where arrows point: "TB" (top to bottom), "BT", "LR" or "RL".
        """
        if direction not in DIRECTIONS:
            raise ValueError(f"draw: direction must be one of {DIRECTIONS}, not {direction!r}")
        boxes: list = []
        arrows = []
        number: dict[Any, int] = {}
        leaving = set(self._program.tape.leaving)
        for call, row in zip(self._program.plan.calls, self.rows, strict=True):
            mine = len(boxes)
            kind = "output" if leaving.intersection(call.outs) else "op"
            shown = [f"{x.dtype} {tuple(x.shape)}" for x in call.outs if x.kind != "token"]
            shown += [] if row["kernel"] is None else [f"kernel {row['kernel']}"]
            boxes.append((kind, [call.name, *shown]))
            for x in dict.fromkeys(call.operands()):
                if x.kind == "number" or x.constant is not None:
                    continue
                if x not in number:
                    number[x] = len(boxes)
                    source = x.source.kind if x.source is not None else "value"
                    boxes.append(("leaf", [source, f"{x.dtype} {tuple(x.shape)}"]))
                arrows.append((number[x], mine, ""))
            number.update(dict.fromkeys((*call.outs, *call.targets()), mine))
        return Drawing(boxes, arrows, direction)


def _is_generated(call):
    """Whether a call runs a generated CUDA kernel."""
    return hasattr(call.function, "text")


def _rows(program):
    kernel_of = {i: k for k, s in enumerate(program.segments or ()) for i in range(s.start, s.end)}
    generated = [i for i, call in enumerate(program.plan.calls) if _is_generated(call)]
    kernel_of |= {i: k for k, i in enumerate(generated)}
    for i, call in enumerate(program.plan.calls):
        out = (*call.outs, *call.targets(), Value("token"))[0]
        storage = program.plan.storage(out)
        if call.writes and not out.memory.is_own:
            memory, lifetime = "state", ""
        elif call.is_view():
            memory, lifetime = "view", ""
        elif storage is None:
            memory, lifetime = "value", ""
        else:
            memory = storage.kind
            if memory == "planned" and out in program.tape.leaving:
                memory = "new"  # it is small, and is copied at the end
            lifetime = f"{storage.first}-{storage.last}"
        yield {
            "call": i,
            "function": call.name,
            "shape": "" if out.kind == "token" else str(tuple(out.shape)),
            "dtype": "" if out.kind == "token" else str(out.dtype),
            "bytes": out.nbytes,
            "lifetime": lifetime,
            "memory": memory,
            "kernel": kernel_of.get(i),
        }
