"""Errors of transforms about bad input name the transform, the argument and the remedy."""

import re
from fractions import Fraction

import numpy as np
import pytest

import gpugrad as gg
from gpugrad.testing import assert_close

X = gg.tensor([1.0, 2.0, 3.0])
ROWS = gg.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
S = gg.tensor(2.0)
INTEGERS = gg.tensor([1, 2, 3])


def loss(x):
    return (x * x).sum()


def pair(x, y):
    return (x * y).sum()


def double(x):
    return x * 2


def many(*xs, last=None):
    return sum((x * x).sum() for x in xs)


NESTED = {"a": [X, INTEGERS], "b": X}
DERIVATIVES = gg.grad, gg.value_and_grad, gg.jacobian, gg.hessian
GRADIENTS = gg.grad, gg.value_and_grad, gg.hessian, gg.hvp


def raises(kind, message, call):
    """Check that a call raises an error whose whole message is ``message``."""
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


each_derivative = pytest.mark.parametrize("transform", DERIVATIVES, ids=lambda t: t.__name__)


def test_not_a_function():
    for transform in *DERIVATIVES, gg.hvp, gg.vmap, gg.jvp, gg.vjp, gg.linearize:
        args = ((X,), (X,)) if transform in (gg.jvp, gg.vjp, gg.linearize) else ()
        message = "f must be a function, not float32 () on cpu; pass f itself, not f(x)"
        raises(TypeError, f"{transform.__name__}: {message}", lambda: transform(S, *args))  # noqa: B023


@pytest.mark.parametrize("transform", GRADIENTS, ids=lambda t: t.__name__)
def test_results_that_are_not_scalar(transform):
    args = (X,) * (1 + (transform is gg.hvp))
    aux = "; to return more, use has_aux=True" if transform is not gg.hvp else ""
    floating = "of f must be a real floating scalar, of shape (), not"
    for f, words in (
        (double, f"{floating} float32 of shape (3,); take its sum or mean, or use jacobian or vjp"),
        (lambda x: x[None, :1] * 2,
         f"{floating} float32 of shape (1, 1); return its one element, y.sum() or y.reshape(())"),
        (lambda x: x.sum() * 1j, f"{floating} complex64 of shape (); take its real part or abs"),
        (lambda x: gg.argmax(x), f"{floating} int64, which has no derivatives"),
        (lambda x: (loss(x), x), f"{floating} a tuple{aux}"),
        (lambda x: {"loss": loss(x)}, f"{floating} a dict{aux}"),
        (lambda x: None, f"{floating} None; is a return missing?"),
        (lambda x: "text", "must be a tensor, not str"),
    ):  # fmt: skip
        message = f"{transform.__name__}: the result {words}"
        raises(TypeError, message, lambda f=f: transform(f)(*args))


# Every transform that computes derivatives, as a function of f and a tensor.
OF_ONE_ARGUMENT = {
    "grad": lambda f, x, **aux: gg.grad(f, **aux)(x),
    "value_and_grad": lambda f, x, **aux: gg.value_and_grad(f, **aux)(x),
    "jacobian": lambda f, x, **aux: gg.jacobian(f, **aux)(x),
    "jacobian in forward mode": lambda f, x, **aux: gg.jacobian(f, mode="forward", **aux)(x),
    "hessian": lambda f, x, **aux: gg.hessian(f, **aux)(x),
    "vjp": lambda f, x, **aux: gg.vjp(f, x, **aux),
    "jvp": lambda f, x, **aux: gg.jvp(f, (x,), (x,), **aux),
    "linearize": lambda f, x, **aux: gg.linearize(f, x, **aux),
    "hvp": lambda f, x: gg.hvp(f)(x, x),
}
# Functions whose results have no graph, and what errors call these.
WITHOUT_GRAPH = {
    "a bool": (lambda x: x.sum().item() > 0, "the Python number True (bool)"),
    "another number": (lambda x: Fraction(1, 3), "the Python number 1/3 (Fraction)"),
    "a NumPy number": (lambda x: np.float32(6), "the NumPy number 6.0 (float32)"),
    "an array": (lambda x: x.detach().numpy(), "an array of numpy (float32 (3,) on cpu)"),
    "by checkpoint": (lambda x: gg.checkpoint(lambda x: 1j, x), "the Python number 1j (complex)"),
    "by compile": (gg.compile(lambda x: 2.0), "the Python number 2.0 (float)"),
}
REMEDY = (
    "which has no graph, so no derivative of it can be computed; return a tensor, and do not call "
    "item(), float() or numpy() on it"
)


@pytest.mark.parametrize("transform", OF_ONE_ARGUMENT)
class TestResultsWithoutGraph:
    """Their derivatives would be 0, in silence."""

    @pytest.mark.parametrize("result", WITHOUT_GRAPH)
    def test_numbers_and_arrays(self, transform, result):
        f, what = WITHOUT_GRAPH[result]
        message = f"{transform.split()[0]}: the result is {what}, {REMEDY}"
        raises(TypeError, message, lambda: OF_ONE_ARGUMENT[transform](f, X))

    def test_among_tensors(self, transform):
        name = transform.split()[0]
        hint = "; with has_aux=True, what needs no derivative can be returned as aux"
        end = "" if name == "hvp" else hint
        for f, label, what in (
            (lambda x: {"a": [loss(x), 2]}, "['a'][1]", "the Python number 2 (int)"),
            (lambda x: [np.ones(2), x], "[0]", "an array of numpy (float64 (2,) on cpu)"),
        ):
            message = f"{name}: the result{label} is {what}, {REMEDY}{end}"
            raises(TypeError, message, lambda f=f: OF_ONE_ARGUMENT[transform](f, X))

    def test_inside_vmap_and_compile(self, transform):
        message = f"{transform.split()[0]}: the result is the Python number 2.0 (float), {REMEDY}"

        def derivative(x):
            return OF_ONE_ARGUMENT[transform](lambda x: 2.0, x)

        raises(TypeError, message, lambda: gg.vmap(derivative)(ROWS))
        raises(TypeError, message, lambda: gg.compile(derivative)(X))


def test_a_number_of_a_compiled_function():
    """The learning rate is one that may change from call to call."""
    optimizer = gg.optim.SGD([gg.nn.Parameter(gg.ones(2))], lr=0.25)
    compiled = gg.compile(lambda x: gg.grad(lambda x: optimizer.param_groups[0]["lr"] * 2)(x))
    with pytest.raises(TypeError, match=r"grad: the result is the Python number 0\.5 \("):
        compiled(X)


@each_derivative
def test_arguments_without_derivatives(transform):
    name = transform.__name__
    for x, dtype, remedy in (
        (INTEGERS, "int64", "use astype"), (3, "int64", "write 3.0"), (True, "bool", "write 1.0"),
    ):  # fmt: skip
        words = f"is {dtype}, but only floating ones have derivatives; {remedy}, or choose others"
        message = f"{name}: argument x {words} to differentiate by"
        raises(TypeError, message, lambda x=x: transform(loss)(x))
    for words, call in (
        (r"p\['a'\]\[1\] is int64", lambda: transform(lambda p: loss(p["b"]))(NESTED)),
        (r"xs\[1\] is int64", lambda: transform(many, 1)(X, INTEGERS)),
        ("last is int64", lambda: transform(many, "last")(X, last=INTEGERS)),
        (r"p\['a'\] must be an array or a number, not str",
         lambda: transform(lambda p: 1.0)({"a": "text"})),
        ("model must be .*functional_call",
         lambda: transform(lambda model: model(X).sum())(gg.nn.Linear(3, 1))),
    ):  # fmt: skip
        with pytest.raises(TypeError, match=f"{name}: argument {words}"):
            call()


def test_primals_without_derivatives():
    for call, label in (
        (lambda x: gg.vjp(lambda a, x: loss(x), X, x), "primals[1]"),
        (lambda x: gg.jvp(lambda a, x: loss(x), (X, x), (X, x)), "primals[1]"),
        (lambda x: gg.linearize(lambda a, x: loss(x), X, x), "primals[1]"),
        (lambda x: gg.hvp(lambda x: loss(x["k"]))({"k": x}, {"k": X}), "x['k']"),
    ):
        with pytest.raises(TypeError, match=re.escape(f": argument {label} is int64, but only")):
            call(INTEGERS)


ARGNUMS = "argnums must be an int or a parameter's name, or a tuple of these, not "


class TestArgnums:
    @each_derivative
    def test_argnums_that_choose_nothing(self, transform):
        name, by_name = transform.__name__, "arguments passed by name are chosen by name"
        for f, argnums, args, named, words in (
            (pair, 1, [X], {"y": X}, f"is 1, but the call has 1 positional argument; {by_name}"),
            (pair, -3, [X, X], {}, f"is -3, but the call has 2 positional arguments; {by_name}"),
            (many, "xs", [X, X], {}, "names 'xs', but the arguments given are: xs[0], xs[1]"),
            (many, "last", [], {}, "names 'last', but the arguments given are: none"),
        ):
            message = f"{name}: argnums {words}"
            raises(TypeError, message, lambda: transform(f, argnums)(*args, **named))  # noqa: B023
        # autograd's name
        assert repr(transform(pair, argnum=1)(X, 2 * X)) == repr(transform(pair, 1)(X, 2 * X))
        with pytest.raises(TypeError, match=f"^{name}: multiple values for argument 'argnums'"):
            transform(pair, 0, argnum=1)
        end = f"; the arguments of f go to what is returned: {name}(f)(x)"
        raises(TypeError, f"{name}: {ARGNUMS}float32 (3,) on cpu{end}", lambda: transform(loss, X))

    @pytest.mark.parametrize("argnums", [(0, "x"), (1, -1), ["y", "y"]], ids=repr)
    def test_twice(self, argnums):
        message = f"grad: argnums {argnums!r} chooses an argument twice"
        raises(ValueError, message, lambda: gg.grad(pair, argnums)(X, X))

    @pytest.mark.parametrize("argnums", [1.5, (), (0, None), True], ids=repr)
    def test_invalid_types(self, argnums):
        raises(TypeError, f"grad: {ARGNUMS}{argnums!r}", lambda: gg.grad(pair, argnums))


@pytest.mark.parametrize("transform", [*OF_ONE_ARGUMENT][:-1])
def test_has_aux_without_a_pair(transform):
    def call(f):
        return OF_ONE_ARGUMENT[transform](f, X, has_aux=True)

    words = f"{transform.split()[0]}: with has_aux f must return a pair (result, aux), not a "
    raises(TypeError, f"{words}Tensor", lambda: call(loss))
    raises(TypeError, f"{words}tuple of 3", lambda: call(lambda x: (loss(x), 1, 2)))
    with pytest.raises(TypeError, match=r"the result is the Python number 14\.0"):
        call(lambda x: (loss(x).item(), loss(x)))


class TestCotangents:
    def test_cotangents_that_do_not_fit(self):
        def many(x):
            return {"a": x, "b": (x.sum(), x)}

        must = "must have the structure {'a': *, 'b': (*, *)}, not (*, *, *); * is an array"
        for f, g, kind, words in (
            (double, 1.0, ValueError, "of the result must have its shape (3,), not ()"),
            (double, X * 1j, TypeError, "of the result must be real like it, not complex64"),
            (double, "a", TypeError, "of the result must be an array or a number, not str"),
            (double, None, ValueError, "must have the structure *, not None; * is an array"),
            (many, (X, X, X), ValueError, must),
            (many, {"a": X, "b": (X, X)}, ValueError,
             "of the result['b'][0] must have its shape (), not (3,)"),
        ):  # fmt: skip
            raises(kind, f"vjp: the cotangent {words}", lambda: gg.vjp(f, X)[1](g))  # noqa: B023
        with pytest.raises(TypeError, match=r"pullback\(\) takes 1 positional argument but 2"):
            gg.vjp(double, X)[1](X, X)

    def test_none_is_0(self):
        _, pullback = gg.vjp(lambda x: (x * 2, gg.argmax(x), None, x.sum()), X)
        assert_close(pullback((X, None, None, None))[0], X * 2)
        assert_close(pullback((None, X, None, 3.0))[0], gg.full_like(X, 3.0))
        message = "vjp: the cotangent must have the structure (*, *, *, *), not (*, *, *); * is"
        raises(ValueError, f"{message} an array", lambda: pullback((X, None, None)))

    def test_cotangent_of_another_library(self):
        _, pullback = gg.vjp(double, pytest.importorskip("array_api_strict").asarray([1.0, 2.0]))
        with pytest.raises(ValueError, match="must be an array of array_api_strict on CPU_DEVICE"):
            pullback(np.ones(2))


def of_dict(p):
    return loss(p["w"])


def push_dict(tangent):
    return gg.jvp(of_dict, ({"w": X},), (tangent,))


TANGENT = "jvp: tangents[0], as primals[0], must have the structure {'w': *}"


PUSH_PAIR, HVP = gg.linearize(pair, X, X)[1], gg.hvp(of_dict)
TUPLES = "primals and tangents must be tuples with an element for each argument of f, such as (x,)"
PARTS = "is complex64; give its real and imaginary parts apart"


MUST_FIT = "must have its shape (3,), not ()"


@pytest.mark.parametrize("kind, message, call", [
    (TypeError, f"jvp: {TUPLES}, not Tensor", lambda: gg.jvp(loss, X, X)),
    (ValueError, "jvp: 1 primal but 2 tangents", lambda: gg.jvp(loss, (X,), (X, X))),
    (TypeError, "linearize: 2 primals but 1 tangent", lambda: PUSH_PAIR(X)),
    (ValueError, f"jvp: the tangent of primals[0]['w'] {MUST_FIT}", lambda: push_dict({"w": S})),
    (TypeError, "jvp: the tangent of primals[0]['w'] must be real like it, not complex64",
     lambda: push_dict({"w": 1j * X})),
    (ValueError, f"{TANGENT}, not {{'v': *}}; * is an array", lambda: push_dict({"v": X})),
    (ValueError, f"hvp: the vector at p['w'] {MUST_FIT}", lambda: HVP({"w": X}, {"w": S})),
    (ValueError, "hvp: the vector must have the structure {'w': *}, not *; * is an array",
     lambda: HVP({"w": X}, X)),
    (TypeError, "hvp(f)() missing 1 required positional argument: 'v'", lambda: gg.hvp(loss)(X)),
    (TypeError, f"jacobian: argument x {PARTS}", lambda: gg.jacobian(loss)(X * 1j)),
    (TypeError, f"hvp: argument x {PARTS}", lambda: gg.hvp(lambda x: abs(x).sum())(X * 1j, X)),
    (ValueError, "jacobian: mode must be 'forward' or 'reverse', not 'fwd'",
     lambda: gg.jacobian(loss, mode="fwd")),
    (TypeError, "jacobian: the result[1] is int64, which has no derivatives",
     lambda: gg.jacobian(lambda x: (x, gg.argmax(x)))(X)),
    (TypeError, "jacobian: the result is complex64, which needs mode='forward'",
     lambda: gg.jacobian(lambda x: x * 1j, mode="reverse")(X)),
    (TypeError, "jacobian: the result must be a tensor, not str",
     lambda: gg.jacobian(lambda x: "text")(X)),
])  # fmt: skip
def test_tangents_and_jacobians(kind, message, call):
    raises(kind, message, call)


LENGTHS = "the axes that in_axes names have different lengths"
GIVE_NONE = "give None in in_axes for what all examples share"
NOTHING = "in_axes maps no argument; at least one must have an axis"
PREFIX = "it must be nested in the same way, or stop above several leaves"
IN_AXES = "in_axes must be an int, None, or a tuple with an element for each positional argument"


@pytest.mark.parametrize("kind, message, f, in_axes, args", [
    (ValueError, f"{LENGTHS}: 2 in p['a'], 3 in p['b']", lambda p: p["a"], 0,
     ({"a": ROWS, "b": X, "c": X},)),
    (ValueError, "in_axes (0,) has 1 element, but the call has 2 positional arguments", pair,
     (0,), (ROWS, X)),
    (ValueError, f"argument x has shape (2, 3) and no axis -3; {GIVE_NONE}", pair, -3, (ROWS, X)),
    (ValueError, f"argument x[1] has shape () and no axis 0; {GIVE_NONE}", loss, 0, ([X, 2.0],)),
    (TypeError, f"argument y ({GIVE_NONE}) must be an array or a number, not str", pair, 0,
     (X, "mean")),
    (ValueError, NOTHING, pair, (None, [None]), (ROWS, [X])),
    (ValueError, NOTHING, lambda x: 1.0, 0, (None,)),
    (ValueError, "in_axes {'a': 0} does not fit argument y, of structure {'b': [*, *]}; "
     + PREFIX, pair, (0, {"a": 0}), (ROWS, {"b": [ROWS, ROWS]})),
    (TypeError, f"{IN_AXES}, not {{'x': 0}}", pair, {"x": 0}, (ROWS, X)),
    (TypeError, f"{IN_AXES}, not 0.0", pair, 0.0, (ROWS, X)),
    (TypeError, "the axis of y must be an int or None, not True", pair, (0, True), (ROWS, X)),
])  # fmt: skip
def test_in_axes(kind, message, f, in_axes, args):
    raises(kind, f"vmap: {message}", lambda: gg.vmap(f, in_axes)(*args))


def test_arguments_of_vmap_by_name_and_in_their_place():
    message = "arguments given by name have their examples along axis 0; bind what all share "
    message = f"vmap: argument y has shape () and no axis 0; {message}beforehand, by "
    raises(ValueError, f"{message}functools.partial", lambda: gg.vmap(pair)(ROWS, y=2.0))
    with pytest.raises(TypeError, match=r"not float32 \(3,\) on cpu; .*: vmap\(f\)\(x\)$"):
        gg.vmap(double, X)


DIFFERS = "but it differs between examples; give an axis"


@pytest.mark.parametrize("kind, message, f, out_axes", [
    (ValueError, f"out_axes is None for the result, {DIFFERS}", double, None),
    (ValueError, f"out_axes is None for the result['a'], {DIFFERS}",
     lambda x: {"a": x, "b": S}, None),
    (ValueError, "out_axes is 2 for the result, which with the axis of examples has 2 axes",
     double, 2),
    (ValueError, f"out_axes (0, 0, 0) does not fit the result, of structure (*, *); {PREFIX}",
     lambda x: (x, x), (0, 0, 0)),
    (TypeError, "out_axes for the result must be an int or None, not 0.5", double, 0.5),
    (TypeError, "the result[1] must be an array or a number, not str", lambda x: (x, "a"), 0),
])  # fmt: skip
def test_out_axes(kind, message, f, out_axes):
    raises(kind, f"vmap: {message}", lambda: gg.vmap(f, out_axes=out_axes)(ROWS))


class TestAfterVmap:
    """Tensors that are used after their vmap has ended."""

    @pytest.mark.parametrize("label, use", [
        ("multiply", lambda leaked: leaked * 2),
        ("multiply", lambda leaked: gg.vmap(lambda x: x * leaked)(ROWS)),
        ("vmap: the result", lambda leaked: gg.vmap(lambda x: leaked)(ROWS)),
        ("grad: argument x", lambda leaked: gg.grad(loss)(leaked)),
        ("jvp: argument primals[0]", lambda leaked: gg.jvp(loss, (leaked,), (X,))),
        ("jvp: the tangent of primals[0]", lambda leaked: gg.jvp(loss, (X,), (leaked,))),
    ])  # fmt: skip
    def test_used(self, label, use):
        kept = []
        gg.vmap(lambda x: kept.append(x * 2) or x)(ROWS)
        words = "a tensor of a vmap that has ended: return it from the mapped function instead"
        raises(RuntimeError, f"{label}: {words} of keeping it", lambda: use(*kept))
        assert "example" in repr(kept)

    def test_derivatives(self):
        leaked = []
        gg.vmap(lambda x: leaked.extend([gg.vjp(double, x)[1], gg.linearize(double, x)[1]]) or x)(X)
        words = "its derivative was made inside a vmap that has ended, and can be called only there"
        for d, name in zip(leaked, ("vjp", "linearize"), strict=True):
            for call in d, gg.vmap(d):
                raises(RuntimeError, f"{name}: {words}", lambda call=call: call(X))
