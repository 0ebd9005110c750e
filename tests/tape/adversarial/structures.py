"""The containers of arguments and results: what is in them, which of them are one, how deep."""

import collections
import contextlib
from dataclasses import field, make_dataclass

import numpy as np

import gpugrad as gg

from .harness import normal, plays, program

STATIC = make_dataclass("STATIC", ["x", ("info", object, field(metadata={"static": True}))])
UNSET = make_dataclass("UNSET", ["x", ("late", object, field(init=False))])
KEYS = [type("Key", (), {"__lt__": lambda *_: 1 / 0})() for _ in range(2)]


class Scaled(collections.namedtuple("Scaled", "x unit")):
    def __new__(cls, x):
        return super().__new__(cls, x * 10, "m")


def cyclic(x):
    found = {"x": x}
    return found | {"again": found.setdefault("self", found)}


def changes(x, batch, log):
    batch["seen"], log[:] = True, [*log, (x, "called")]
    raise ValueError(batch["x"])


plays("batches_of_raw_arrays", lambda d: {"y": gg.exp(d["x"]) * d["more"][0].x},
      lambda i: ({"x": np.full(3, i / 8), "more": [Scaled(np.ones(3) * i)]},))  # fmt: skip
plays("named_tuples_that_make_themselves", lambda x: Scaled(gg.exp(x)))
plays("named_tuples_of_raw_arrays", lambda t: gg.exp(t.x), lambda i: (Scaled(np.full(3, i)),))
plays("static_fields_of_results", lambda x: STATIC(x, lambda: x * 2), look=lambda r: r.info())
plays("factories_of_results", lambda x: collections.defaultdict(lambda: x), look=lambda r: r["k"])
plays("one_dict_in_two_places", lambda x: [d := {"y": x * 2}, (d,)], look=lambda r: r[0] is r[1][0])
plays("arguments_in_themselves", lambda d: d["x"] * 2, lambda i: (cyclic(normal(3, seed=i)),))
plays("results_in_themselves", lambda x: cyclic(x.array * 2), look=lambda r: r["again"]["x"])
plays("fields_that_are_not_set", lambda r: UNSET(r.x), lambda i: (UNSET(normal(3, seed=i)),))
plays("keys_without_order", lambda d: d[KEYS[0]], lambda i: (dict.fromkeys(KEYS, normal(3)),))


@program
def changes_to_arguments_with_raw_arrays(world):
    f, log = world.compile(changes), []
    world.play(f, lambda i: ((x := np.full(3, i)), {"x": x}, log), watch=[log])


@program
def containers_that_are_one(world):
    default, other = [1.0], [1.0]
    f = world.compile(lambda x, a, b: x * (2 if a is b else 3) * (5 if a is default else 7))
    pairs = (other, [1.0]), (other, other), (default, other), (default, default), (other, [1.0])
    world.play(f, lambda i: (np.ones(2), *pairs[i // 4]), calls=20)


@program
def arrays_kept_in_objects(world):
    def keeps(x):
        kept.append(((y := x.array * 2).sum, lambda z=y: z, ValueError(y), Scaled(y)))

    kept = collections.deque(maxlen=2)
    world.play(world.compile(keeps), watch=[lambda: [(f(), g(), *more) for f, g, *more in kept]])


@program
def what_a_report_undoes(world):
    def counts(x):
        log[:], counter.n = b"1", x.shape

    log, counter = bytearray(), type("Counter", (), {"__slots__": ("n",)})()
    f = world.compile(counts)
    with contextlib.suppress(AttributeError, ValueError):
        f.program(normal(3))
    world.note(hasattr(counter, "n"), bytes(log))
    world.play(f, watch=[log])
