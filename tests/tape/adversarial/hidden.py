"""State behind functions of libraries and in C, and behind names that the code does not spell."""

import abc
import codecs
import collections
import collections.abc
import dataclasses
import datetime
import functools
import io
import itertools
import operator
import os
import random
import tempfile
import types
import unittest.mock
from decimal import Decimal, getcontext

import numpy as np

import gpugrad as gg

from .attributes import optimizer
from .harness import normal, program, puts, uses

TABLE = {"k": 2.0, "sign": 1}


def by_table(make):
    """A function of a table that it reads in some way, and the table."""

    def pair():
        table = dict(TABLE)
        return types.SimpleNamespace(table=table, of=make(table))

    return pair


for _name, (_make, _use) in {
    "a_method_in_c": (lambda t: t.get, lambda of: of("k")),
    "a_vectorized_function": (lambda t: np.vectorize(lambda v: v * t["k"]), lambda of: of(1.0)),
    "a_ufunc_of_python": (lambda t: np.frompyfunc(lambda v: v * t["k"], 1, 1), lambda of: of(1.0)),
    "a_key_of_comparisons": (
        lambda t: functools.cmp_to_key(lambda a, b: (a - b) * (t["k"] - 2.5)),
        lambda of: min([1.0, 2.0], key=of),
    ),
    "a_default_factory": (
        lambda t: collections.defaultdict(lambda: t["k"]), lambda of: (of["new"], of.pop("new"))[1],
    ),
    "other_builtins": (
        lambda t: eval("lambda: table['k']", {"__builtins__": {"table": t}}), lambda of: of(),
    ),
    "a_gradient_of_an_object": (
        lambda t: gg.grad(type("Energy", (), {"__call__": lambda _, x: x * t["k"]})()),
        lambda of: of(gg.ones(())),
    ),
}.items():  # fmt: skip
    uses(f"a_table_behind_{_name}", lambda x, s, use=_use: x * float(use(s.of)), by_table(_make),
         *[lambda s, value=value: s.table.update(k=value) for value in (3.0, 0.5)])  # fmt: skip
for _name, _make in {
    "a_made_dataclass": lambda: dataclasses.make_dataclass("C", [("k", float, 2.0)]),
    "a_new_class": lambda: types.new_class("C", (), {}, lambda names: names.update(k=2.0)),
    "an_abstract_class": lambda: type("C", (abc.ABC,), {"k": 2.0}),
    "a_generic_alias": lambda: types.GenericAlias(type("C", (), {"k": 2.0}), int),
}.items():
    uses(f"an_attribute_of_{_name}", lambda x, s: x * s[0].k, lambda make=_make: [make()],
         *[lambda s, value=value: setattr(getattr(s[0], "__origin__", s[0]), "k", value)
           for value in (3.0, 4.0)])  # fmt: skip
GROUPS = operator.attrgetter("param_groups")
uses("groups_by_an_attrgetter", lambda x, s: x * GROUPS(s)[0]["lr"], optimizer,
     *[lambda s, lr=lr: s.param_groups[0].update(lr=lr) for lr in (0.3, 0.4)])  # fmt: skip
uses("a_member_by_a_format", lambda x, s: x * float(f"{s.k}"), lambda: given_module(k=2.0),
     *puts("k", 3.0, 4.0))  # fmt: skip
uses("a_decimal", lambda x, s: x * float(Decimal(1) / 3), lambda: getcontext().copy() and None,
     *[lambda s, prec=prec: setattr(getcontext(), "prec", prec) for prec in (3, 28)])  # fmt: skip
uses("the_state_of_a_generator", lambda x, s: x * (random.getstate()[1][0] % 97), lambda: None,
     *[lambda s, seed=seed: random.seed(seed) for seed in (1, 2)])  # fmt: skip
uses("an_environment_as_text", lambda x, s: x * len(repr(os.environ)), lambda: None,
     lambda s: os.environ.update(OWN="1"), lambda s: os.environ.pop("OWN"))  # fmt: skip
uses("an_object_with_set_state", lambda x, s: x * s.k,
     lambda: types.SimpleNamespace(k=2.0, set_state=True), *puts("k", 3.0, 4.0))  # fmt: skip


@program
def mocks(world):
    mock, proxy = unittest.mock.Mock(k=2.0), unittest.mock.Mock(spec=dict)
    world.check(lambda x: x * mock.k, changes=[lambda: setattr(mock, "k", 3.0)])
    world.check(lambda x: x * len(dir(proxy)))


def given_module(**values):
    module = types.ModuleType("own_settings")
    vars(module).update(values)
    return module


class Rates:
    k = 0.5

    def get_last_lr(self):
        return [self.k]


uses("a_class_with_rates", lambda x, s: x * s.k, Rates, *puts("k", 3.0, 4.0))
uses("a_class_that_is_registered", lambda x, s: x * isinstance(s, collections.abc.Sequence),
     lambda: type("Items", (), {})(),
     lambda s: collections.abc.Sequence.register(type(s)))  # fmt: skip
codecs.register_error("own_handler", lambda error: ("a" * int(TABLE["k"]), error.end))


@program
def a_handler_of_codecs(world):
    changes = [functools.partial(TABLE.update, k=k) for k in (3.0, 2.0)]
    world.check(lambda x: x * len(b"\xff".decode("ascii", "own_handler")), changes=changes)


@program
def effects_of_methods_in_c(world):
    history, seen, array = [], set(), np.zeros(1)
    note, add, fill = history.append, seen.add, array.fill
    numbers = itertools.count()
    world.check(lambda x: x * len((note(1), add(next(numbers)))), watch=[history, seen])
    world.check(lambda x: (fill(x.size), x)[1], watch=[lambda: array[0]])


@program
def files(world):
    directory = tempfile.mkdtemp()
    path, other = os.path.join(directory, "a.safetensors"), os.path.join(directory, "b")

    def save(k):
        gg.save({"w": gg.ones(()) * k}, path)
        np.full(1, k).tofile(other)

    save(2.0)
    changes = [functools.partial(save, k) for k in (3.0, 4.0)]
    world.check(lambda x: x * gg.load(path)["w"], changes=changes)
    world.check(lambda x: x * float(np.fromfile(other)[0]), changes=changes)
    world.check(lambda x: x * sum(next(iter(io.FileIO(other)))), changes=changes)


@program
def caches(world):
    table = dict(TABLE)
    get, eye = functools.lru_cache(functools.partial(table.get)), functools.lru_cache(gg.eye)

    def change():
        table["k"] += 1.0
        get.cache_clear()
        eye(3)[...] = table["k"]

    world.check(lambda x: x * get("k") @ eye(3), changes=[change] * 2)


class cached_property:
    def __get__(self, x, kind=None):
        print("computed")
        return 2.0


class Config:
    k = cached_property()


class Temporary:
    def __del__(self):
        print("deleted")


def by_its_slot(x, s):
    print.__call__("called")
    return x * 2


uses("effects_of_an_own_cached_property", lambda x, s: x * s.k, Config)
uses("effects_of_deleting", lambda x, s: x * len([Temporary()]), lambda: None)
uses("effects_of_a_function_in_c_by_its_slot", by_its_slot, lambda: None)
uses("a_time_zone", lambda x, s: x * datetime.datetime(2020, 1, 1).timestamp(), lambda: None)


@program
def a_transform_of_a_compiled_function(world):
    table, log = dict(TABLE), []
    inner = gg.grad(world.compile(lambda x: (log.append(1), (x * table["k"]).sum())[1]))
    changes = [functools.partial(table.update, k=k) for k in (3.0, 4.0)]
    world.check(lambda x: inner(x) * 2, changes=changes, watch=[log])


@dataclasses.dataclass
class Batch:
    x: gg.Tensor
    scales: list = dataclasses.field(metadata={"static": True})


@program
def a_static_list_of_an_argument(world):
    scales = [2.0]
    f = world.compile(lambda batch: batch.x * batch.scales[0])
    changes = [functools.partial(scales.__setitem__, 0, value) for value in (3.0, 4.0)]
    world.check(lambda x: f(Batch(x, scales)), changes=changes)


@program
def a_long_chain(world):
    first = last = types.SimpleNamespace(k=2.0)
    for _ in range(400):
        last.next = last = types.SimpleNamespace(k=2.0)
    changes = [functools.partial(setattr, x, "k", 3.0) for x in (last, first)]
    world.check(lambda x: x * first.k + normal(3), changes=changes)
