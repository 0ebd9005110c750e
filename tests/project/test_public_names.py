"""`dir` and `help` show all public names, and no others."""

import inspect
import pydoc
import re
from importlib import import_module

import pytest
from samples import every

import gpugrad
from gpugrad._foreign_names import INSTEAD

SPACES = """
    gpugrad gpugrad.amp gpugrad.autograd gpugrad.cuda gpugrad.data gpugrad.data.images
    gpugrad.distributed gpugrad.fft gpugrad.io gpugrad.linalg gpugrad.nn gpugrad.nn.functional
    gpugrad.nn.init gpugrad.nn.utils gpugrad.optim gpugrad.optim.lr_scheduler
    gpugrad.optim.swa_utils gpugrad.random gpugrad.scipy gpugrad.scipy.integrate
    gpugrad.scipy.interpolate gpugrad.scipy.linalg gpugrad.scipy.optimize gpugrad.scipy.signal
    gpugrad.scipy.special gpugrad.scipy.stats gpugrad.special gpugrad.testing gpugrad.tools
    gpugrad.training gpugrad.transforms gpugrad.tree
""".split()

# Its names are NumPy's: see test_numpy_namespace.py.
OF_NUMPY = "gpugrad.numpy"


def public_names(space):
    module = import_module(space)
    return {name: getattr(module, name) for name in module.__all__}


VALUES = [value for space in SPACES for value in public_names(space).values()]
CLASSES = sorted({value for value in VALUES if inspect.isclass(value)}, key=str)


@pytest.mark.parametrize("space", SPACES)
def test_dir_lists_public_names(space):
    names, module = public_names(space), import_module(space)
    assert dir(module) == sorted(names)
    text = pydoc.plain(pydoc.render_doc(module))
    for name, value in names.items():
        assert name[0] != "_"
        if inspect.ismodule(value):
            assert value.__name__ in (*SPACES, OF_NUMPY)
        elif callable(value) and value.__module__.startswith("gpugrad"):
            assert value.__doc__
            assert re.search(rf"\b{name}\b", text)


def test_every_namespace_is_listed():
    modules = {value.__name__ for value in VALUES if inspect.ismodule(value)}
    assert modules | {"gpugrad"} == {*SPACES, OF_NUMPY}


def test_help_of_a_class_lists_its_attributes():
    for kind, checked in every(CLASSES):
        with checked:
            assert all(hasattr(kind, found.name) for found in inspect.classify_class_attrs(kind))
            text = pydoc.plain(pydoc.render_doc(kind))
            shown = {*re.findall(r"^ \|  (\w+)(?:\(| =|$)", text, re.MULTILINE)}
            missing = INSTEAD["Tensor" if issubclass(kind, gpugrad.Tensor) else "Module"]
            assert not shown & {*missing} - {*dir(kind)}


def test_a_users_subclass_shows_the_methods_it_defines():
    class Own(gpugrad.Tensor):
        def view(self, *shape):
            """Like PyTorch's method."""

    assert "view" in dir(Own)
    assert "Like PyTorch's method." in pydoc.render_doc(Own)
