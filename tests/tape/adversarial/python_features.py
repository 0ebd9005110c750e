"""Python's own features: iterators, printing, logging, files, the clock, the environment."""

import builtins
import decimal
import functools
import os
import sys
import types
import warnings
from importlib.machinery import ModuleSpec

from .harness import add, plays, program


def imports(x):
    import math as mathematics
    from math import tau

    return x * mathematics.pi + tau


plays("a_warning_of_the_program", lambda x: (warnings.warn("own: called", stacklevel=1), x * 2))
plays("an_import_inside", imports)


PACKAGE = """
def of_package(x):
    from . import numbers
    return x * numbers.scale

def of_module(x):
    from .numbers import scale
    return x * scale

def by_full_name(x):
    import adversarial_package.numbers
    return x * adversarial_package.numbers.scale
"""


@program
def a_module_of_a_package_that_the_first_call_imports(world):
    package = world.module(PACKAGE, "adversarial_package")
    package.__path__ = [world.directory]
    with open(os.path.join(world.directory, "numbers.py"), "w") as file:
        file.write("scale = 2.0")
    changes = (
        lambda: setattr(package.numbers, "scale", package.numbers.scale + 1),
        lambda: world.module("scale = 9.0", "adversarial_package.numbers"),
        lambda: setattr(sys.modules["adversarial_package.numbers"], "scale", 5.0),
    )
    spec = ModuleSpec(package.__name__, None, is_package=True)
    for names in (package.__name__, None), (None, spec):
        package.__name__, package.__spec__ = names
        for function in package.of_package, package.of_module, package.by_full_name:
            world.play(world.compile(function), changes=changes)


@program
def an_object_in_the_place_of_a_module(world):
    def f(x):
        try:
            import adversarial_module as module
        except ImportError:
            return -x
        return x * module.scale

    def put(value):
        return lambda: sys.modules.update(adversarial_module=value)

    world.module("scale = 2.0")
    like = types.SimpleNamespace(scale=3.0)
    changes = put(like), lambda: setattr(like, "scale", 4.0), put(None)
    world.play(world.compile(f), changes=changes)
    world.play(world.compile(f), changes=changes[:2])


@program
def a_precision_of_decimals(world):
    with decimal.localcontext() as context:
        changes = [functools.partial(setattr, context, "prec", n) for n in (3, 1)]
        world.check(lambda x: x.astype("float64") * float(decimal.Decimal(1) / 3), changes=changes)


@program
def a_builtin_that_is_patched(world):
    def put(function):
        return lambda: setattr(builtins, "own_builtin_of_a_test", function)

    module = world.module("def f(x):\n    return x * own_builtin_of_a_test(2.0)")
    builtins.own_builtin_of_a_test = abs
    try:
        delete = lambda: delattr(builtins, "own_builtin_of_a_test")  # noqa: E731
        world.check(module.f, changes=[put(lambda k: k * 10), delete, put(lambda k: -k)])
    finally:
        del builtins.own_builtin_of_a_test


def of_a_module(find, world):
    """Read the number ``K`` of a module in the way of ``find``."""
    module = world.module("K = 2.0")
    changes = [lambda k=k: setattr(module, "K", k) for k in (3.0, 5.0)]
    world.check(lambda x: x * find(module), changes=changes)


def returned(x, *others):
    return x


for way, find in {
    "sys_modules": lambda m: sys.modules["adversarial_module"].K,
    "sys_modules_get": lambda m: sys.modules.get("adversarial_module").K,
    "getattr": lambda m: getattr(m, "K"),  # noqa: B009
    "getattr_by_a_computed_name": lambda m: getattr(m, "k".upper()),
    "getattr_by_a_variable_with_a_default": lambda m, name="K": getattr(m, name, "x"),
    "getattr_of_a_result": lambda m: getattr(returned(m, "K"), "k".upper()),
    "getattr_of_a_result_by_a_text": lambda m: getattr(returned(m), "K", None),
}.items():
    add(f"a_number_of_a_module_by_{way}", __name__, functools.partial(of_a_module, find))
