"""Errors of transforms about bad input name the transform, the argument and the remedy."""

import re
from dataclasses import dataclass
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


@dataclass
class Layer:
    w: object
    b: object


NESTED = {"a": [X, INTEGERS], "b": X}
DERIVATIVES = gg.grad, gg.value_and_grad, gg.jacobian, gg.hessian
GRADIENTS = gg.grad, gg.value_and_grad, gg.hessian, gg.hvp


def raises(kind, message, call):
    """Check that a call raises an error whose whole message is ``message``."""
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        call()


@pytest.mark.parametrize("transform", [*DERIVATIVES, gg.hvp, gg.vmap], ids=lambda t: t.__name__)
def test_not_a_function(transform):
    raises(
        TypeError,
        f"{transform.__name__}: f must be a function, not float32 () on cpu; pass f itself, "
        f"not f(x)",
        lambda: transform(loss(X)),
    )
    with pytest.raises(TypeError, match=f"{transform.__name__}: f must be a function"):
        transform(None)


@pytest.mark.parametrize("transform", [gg.jvp, gg.vjp, gg.linearize], ids=lambda t: t.__name__)
def test_first_argument_not_a_function(transform):
    with pytest.raises(TypeError, match=f"{transform.__name__}: f must be a function"):
        transform(X, (X,), (X,))


@pytest.mark.parametrize("transform", GRADIENTS, ids=lambda t: t.__name__)
def test_results_that_are_not_scalar(transform):
    name = transform.__name__
    args = (X, X) if transform is gg.hvp else (X,)
    aux = "; to return more, use has_aux=True" if transform is not gg.hvp else ""
    for f, what in (
        (double, "float32 of shape (3,); take its sum or mean, or use jacobian or vjp"),
        (
            lambda x: x[None, :1] * 2,
            "float32 of shape (1, 1); return its one element, y.sum() or y.reshape(())",
        ),
        (lambda x: x.sum() * 1j, "complex64 of shape (); take its real part or abs"),
        (lambda x: gg.argmax(x), "int64, which has no derivatives"),
        (lambda x: x.sum() > 0, "bool, which has no derivatives"),
    ):
        raises(
            TypeError,
            f"{name}: the result of f must be a real floating scalar, of shape (), not {what}",
            lambda f=f: transform(f)(*args),
        )
    for f, what in (
        (lambda x: (loss(x), x), f"a tuple{aux}"),
        (lambda x: {"loss": loss(x)}, f"a dict{aux}"),
        (lambda x: None, "None; is a return missing?"),
    ):
        raises(
            TypeError,
            f"{name}: the result of f must be a scalar tensor, not {what}",
            lambda f=f: transform(f)(*args),
        )
    raises(
        TypeError,
        f"{name}: the result must be a tensor, not str",
        lambda: transform(lambda x: "text")(*args),
    )


# Every transform that computes derivatives, as a function of f and a tensor.
OF_ONE_ARGUMENT = {
    "grad": lambda f, x: gg.grad(f)(x),
    "value_and_grad": lambda f, x: gg.value_and_grad(f)(x),
    "jacobian": lambda f, x: gg.jacobian(f)(x),
    "jacobian in forward mode": lambda f, x: gg.jacobian(f, mode="forward")(x),
    "hessian": lambda f, x: gg.hessian(f)(x),
    "hvp": lambda f, x: gg.hvp(f)(x, x),
    "vjp": lambda f, x: gg.vjp(f, x),
    "jvp": lambda f, x: gg.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: gg.linearize(f, x),
}
# Functions whose results have no graph, and what errors call these.
WITHOUT_GRAPH = {
    "item": (lambda x: x.sum().item() ** 2, "the Python number 36.0 (float)"),
    "float": (lambda x: float(x.detach().sum()), "the Python number 6.0 (float)"),
    "an integer": (lambda x: len(x), "the Python number 3 (int)"),
    "a bool": (lambda x: x.sum().item() > 0, "the Python number True (bool)"),
    "a constant": (lambda x: 1.0, "the Python number 1.0 (float)"),
    "a complex number": (lambda x: 1j, "the Python number 1j (complex)"),
    "another number": (lambda x: Fraction(1, 3), "the Python number 1/3 (Fraction)"),
    "a NumPy number": (
        lambda x: np.float32(x.sum().item()), "the NumPy number 6.0 (float32)"
    ),
    "a NumPy array": (
        lambda x: x.detach().numpy(), "an array of numpy (float32 (3,) on cpu)"
    ),
    "through checkpoint": (
        lambda x: gg.checkpoint(lambda x: x.sum().item(), x), "the Python number 6.0 (float)"
    ),
    "through a transform": (
        lambda x: gg.grad(lambda y: (y * x).sum())(x).sum().item(), "the Python number 6.0 (float)"
    ),
    "through compile": (gg.compile(lambda x: 2.0), "the Python number 2.0 (float)"),
}  # fmt: skip
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
        name = transform.split()[0]
        raises(
            TypeError,
            f"{name}: the result is {what}, {REMEDY}",
            lambda: OF_ONE_ARGUMENT[transform](f, X),
        )

    def test_among_tensors(self, transform):
        name = transform.split()[0]
        hint = "; with has_aux=True, what needs no derivative can be returned as aux"
        for f, label, what in (
            (lambda x: (loss(x), loss(x).item()), "[1]", "the Python number 14.0 (float)"),
            (lambda x: {"a": [loss(x), 2]}, "['a'][1]", "the Python number 2 (int)"),
            (lambda x: [np.ones(2), x], "[0]", "an array of numpy (float64 (2,) on cpu)"),
        ):
            raises(
                TypeError,
                f"{name}: the result{label} is {what}, {REMEDY}{'' if name == 'hvp' else hint}",
                lambda f=f: OF_ONE_ARGUMENT[transform](f, X),
            )

    def test_inside_vmap_and_compile(self, transform):
        name = transform.split()[0]
        message = f"{name}: the result is the Python number 2.0 (float), {REMEDY}"

        def derivative(x):
            return OF_ONE_ARGUMENT[transform](lambda x: 2.0, x)

        raises(TypeError, message, lambda: gg.vmap(derivative)(ROWS))
        raises(TypeError, message, lambda: gg.compile(derivative)(X))

    def test_a_constant_tensor_has_the_derivative_0(self, transform):
        derivative = OF_ONE_ARGUMENT[transform](lambda x: gg.tensor(3.0), X)
        if isinstance(derivative, tuple):  # of the value and what gives the derivative
            derivative = derivative[1]
        if transform == "vjp":
            (derivative,) = derivative(gg.tensor(1.0))
        elif transform == "linearize":
            derivative = derivative(X)
        assert not derivative.numpy().any()


@pytest.mark.parametrize(
    "call",
    [
        lambda f: gg.grad(f, has_aux=True)(X),
        lambda f: gg.value_and_grad(f, has_aux=True)(X),
        lambda f: gg.jacobian(f, has_aux=True)(X),
        lambda f: gg.hessian(f, has_aux=True)(X),
        lambda f: gg.vjp(f, X, has_aux=True),
        lambda f: gg.jvp(f, (X,), (X,), has_aux=True),
        lambda f: gg.linearize(f, X, has_aux=True),
    ],
)
def test_auxiliary_results_may_be_numbers(call):
    aux = {"loss": 1.5, "values": [np.ones(2), 3]}
    found = call(lambda x: (loss(x), aux))
    found = found[0] if isinstance(found[0], tuple) else found  # ((value, aux), gradient)
    assert found[-1]["loss"] == 1.5
    assert found[-1]["values"][1] == 3
    with pytest.raises(TypeError, match=r"the result is the Python number 14\.0"):
        call(lambda x: (loss(x).item(), loss(x)))


def test_a_number_of_a_compiled_function():
    """The learning rate is one that may change from call to call."""
    optimizer = gg.optim.SGD([gg.nn.Parameter(gg.ones(2))], lr=0.25)
    compiled = gg.compile(lambda x: gg.grad(lambda x: optimizer.param_groups[0]["lr"] * 2)(x))
    with pytest.raises(TypeError, match=r"grad: the result is the Python number 0\.5 \("):
        compiled(X)


@pytest.mark.parametrize("transform", DERIVATIVES, ids=lambda t: t.__name__)
def test_arguments_without_derivatives(transform):
    name = transform.__name__
    for x, dtype, remedy in (
        (INTEGERS, "int64", "use astype"),
        (np.arange(3), "int64", "use astype"),
        (3, "int64", "write 3.0"),
        (True, "bool", "write 1.0"),
    ):
        raises(
            TypeError,
            f"{name}: argument x is {dtype}, but only floating ones have derivatives; {remedy}, "
            f"or choose others to differentiate by",
            lambda x=x: transform(loss)(x),
        )
    with pytest.raises(TypeError, match=re.escape(f"{name}: argument p['a'][1] is int64")):
        transform(lambda p: loss(p["b"]))(NESTED)
    with pytest.raises(TypeError, match=rf"{name}: argument layer\.w is bool"):
        transform(lambda layer: loss(layer.b))(Layer(X > 1, X))
    with pytest.raises(TypeError, match=r": argument xs\[1\] is int64"):
        transform(many, 1)(X, INTEGERS)
    with pytest.raises(TypeError, match=": argument last is int64"):
        transform(many, "last")(X, last=INTEGERS)
    with pytest.raises(TypeError, match=r"argument p\['a'\] must be an array or a number, not str"):
        transform(lambda p: 1.0)({"a": "text"})
    with pytest.raises(TypeError, match=r"argument model must be .*functional_call"):
        transform(lambda model: model(X).sum())(gg.nn.Linear(3, 1))


def test_primals_without_derivatives():
    for call, label in (
        (lambda x: gg.vjp(lambda a, x: loss(x), X, x), "primals[1]"),
        (lambda x: gg.jvp(lambda a, x: loss(x), (X, x), (X, x)), "primals[1]"),
        (lambda x: gg.linearize(lambda a, x: loss(x), X, x), "primals[1]"),
        (lambda x: gg.hvp(loss)(x, X), "x"),
        (lambda x: gg.hvp(lambda x: loss(x["k"]))({"k": x}, {"k": X}), "x['k']"),
    ):
        with pytest.raises(TypeError, match=re.escape(f": argument {label} is int64, but only")):
            call(INTEGERS)


class TestArgnums:
    @pytest.mark.parametrize("transform", DERIVATIVES, ids=lambda t: t.__name__)
    def test_argnums_that_choose_nothing(self, transform):
        name = transform.__name__
        raises(
            TypeError,
            f"{name}: argnums is 1, but the call has 1 positional argument; arguments passed by "
            f"name are chosen by name",
            lambda: transform(pair, 1)(X, y=X),
        )
        raises(
            TypeError,
            f"{name}: argnums is -3, but the call has 2 positional arguments; arguments passed by "
            f"name are chosen by name",
            lambda: transform(pair, -3)(X, X),
        )
        raises(
            TypeError,
            f"{name}: argnums names 'z', but the arguments given are: x, y",
            lambda: transform(pair, "z")(X, y=X),
        )
        raises(
            TypeError,
            f"{name}: argnums names 'xs', but the arguments given are: xs[0], xs[1]",
            lambda: transform(many, "xs")(X, X),
        )
        raises(
            TypeError,
            f"{name}: argnums names 'last', but the arguments given are: none",
            lambda: transform(many, "last")(),
        )

    @pytest.mark.parametrize("transform", DERIVATIVES, ids=lambda t: t.__name__)
    def test_autograds_name_of_the_option(self, transform):
        with pytest.raises(TypeError, match=f"^{transform.__name__}: .*argnum is argnums here"):
            transform(pair, argnum=1)

    @pytest.mark.parametrize("argnums", [(0, 0), (0, "x"), (1, -1), ["y", "y"]], ids=repr)
    def test_twice(self, argnums):
        raises(
            ValueError,
            f"grad: argnums {argnums!r} chooses an argument twice",
            lambda: gg.grad(pair, argnums)(X, X),
        )

    @pytest.mark.parametrize("argnums", [None, 1.5, (), (0, None), True, {0}], ids=repr)
    def test_invalid_types(self, argnums):
        raises(
            TypeError,
            f"grad: argnums must be an int or a parameter's name, or a tuple of these, "
            f"not {argnums!r}",
            lambda: gg.grad(pair, argnums),
        )

    @pytest.mark.parametrize("transform", DERIVATIVES, ids=lambda t: t.__name__)
    def test_arguments_in_their_place(self, transform):
        name = transform.__name__
        raises(
            TypeError,
            f"{name}: argnums must be an int or a parameter's name, or a tuple of these, not "
            f"float32 (3,) on cpu; the arguments of f go to what is returned: {name}(f)(x)",
            lambda: transform(loss, X),
        )


def test_has_aux_without_a_pair():
    for call, name in (
        (lambda f: gg.grad(f, has_aux=True)(X), "grad"),
        (lambda f: gg.value_and_grad(f, has_aux=True)(X), "value_and_grad"),
        (lambda f: gg.hessian(f, has_aux=True)(X), "hessian"),
        (lambda f: gg.jacobian(f, has_aux=True)(X), "jacobian"),
        (lambda f: gg.vjp(f, X, has_aux=True), "vjp"),
        (lambda f: gg.jvp(f, (X,), (X,), has_aux=True), "jvp"),
        (lambda f: gg.linearize(f, X, has_aux=True), "linearize"),
    ):
        words = f"{name}: with has_aux f must return a pair (result, aux), not a "
        raises(TypeError, f"{words}Tensor", lambda call=call: call(loss))
        raises(TypeError, f"{words}tuple of 3", lambda call=call: call(lambda x: (loss(x), 1, 2)))


class TestCotangents:
    def test_cotangent_of_one_result(self):
        _, pullback = gg.vjp(double, X)
        for g, kind, words in (
            (S, ValueError, "of the result must have its shape (3,), not ()"),
            (1.0, ValueError, "of the result must have its shape (3,), not ()"),
            (X * 1j, TypeError, "of the result must be real as that is, not complex64"),
            ("a", TypeError, "of the result must be an array or a number, not str"),
            ((X,), ValueError, "must have the structure *, not (*,); * is an array"),
            (None, ValueError, "must have the structure *, not None; * is an array"),
        ):
            raises(kind, f"vjp: the cotangent {words}", lambda g=g: pullback(g))
        with pytest.raises(TypeError, match=r"pullback\(\) takes 1 positional argument but 2"):
            pullback(X, X)

    def test_none_is_0(self):
        _, pullback = gg.vjp(lambda x: (x * 2, gg.argmax(x), None, x.sum()), X)
        assert_close(pullback((X, None, None, None))[0], X * 2)
        assert_close(pullback((None, X, None, 3.0))[0], gg.full_like(X, 3.0))
        raises(
            ValueError,
            "vjp: the cotangent must have the structure (*, *, *, *), not (*, *, *); * is an array",
            lambda: pullback((X, None, None)),
        )

    def test_cotangents_of_many_results(self):
        _, pullback = gg.vjp(lambda x: {"a": x, "b": (x.sum(), x)}, X)
        must = "must have the structure {'a': *, 'b': (*, *)}, not"
        for g, words in (
            ({"a": X}, f"{must} {{'a': *}}; * is an array"),
            ((X, X, X), f"{must} (*, *, *); * is an array"),
            ({"a": X, "b": (X, X)}, "of the result['b'][0] must have its shape (), not (3,)"),
        ):
            raises(ValueError, f"vjp: the cotangent {words}", lambda g=g: pullback(g))

    def test_cotangent_of_another_library(self):
        strict = pytest.importorskip("array_api_strict")
        _, pullback = gg.vjp(double, strict.asarray([1.0, 2.0]))
        with pytest.raises(ValueError, match="must be an array of array_api_strict on CPU_DEVICE"):
            pullback(np.ones(2))


class TestTangents:
    def test_tangents_that_are_not_tuples(self):
        words = "primals and tangents must be tuples with an element for each argument of f"
        raises(TypeError, f"jvp: {words}, such as (x,), not Tensor", lambda: gg.jvp(loss, X, X))
        raises(
            TypeError, f"jvp: {words}, such as (x,), not dict", lambda: gg.jvp(loss, (X,), {"x": X})
        )

    def test_counts(self):
        raises(ValueError, "jvp: 1 primal but 2 tangents", lambda: gg.jvp(loss, (X,), (X, X)))
        _, push = gg.linearize(pair, X, X)
        raises(TypeError, "linearize: 2 primals but 1 tangent", lambda: push(X))

    def test_shapes_dtypes_and_structures(self):
        for t, kind, words in (
            (S, ValueError, "the tangent of primals[0]['w'] must have its shape (3,), not ()"),
            (
                1j * X,
                TypeError,
                "the tangent of primals[0]['w'] must be real as that is, not complex64",
            ),
        ):
            raises(
                kind,
                f"jvp: {words}",
                lambda t=t: gg.jvp(lambda p: loss(p["w"]), ({"w": X},), ({"w": t},)),
            )
        for t, shown in (({"v": X}, "{'v': *}"), (X, "*"), (None, "None")):
            raises(
                ValueError,
                f"jvp: tangents[0] must have the structure of primals[0], {{'w': *}}, not {shown}",
                lambda t=t: gg.jvp(lambda p: loss(p["w"]), ({"w": X},), (t,)),
            )
        _, push = gg.linearize(loss, X)
        raises(
            ValueError,
            "linearize: the tangent of primals[0] must have its shape (3,), not ()",
            lambda: push(1.0),
        )

    def test_vectors_of_hvp(self):
        f = gg.hvp(lambda x: loss(x["w"]))
        with pytest.raises(TypeError, match=r"^hvp\(f\)\(\) missing 1 .* argument: 'v'"):
            f(X)
        for v, words in (
            ({"w": S}, "at x['w'] must have its shape (3,), not ()"),
            (X, "must have the structure {'w': *}, not *; * is an array"),
        ):
            raises(ValueError, f"hvp: the vector {words}", lambda v=v: f({"w": X}, v))


def test_jacobians():
    raises(
        ValueError,
        "jacobian: mode must be 'forward' or 'reverse', not 'fwd'",
        lambda: gg.jacobian(loss, mode="fwd"),
    )
    raises(
        TypeError,
        "jacobian: the result[1] is int64, which has no derivatives",
        lambda: gg.jacobian(lambda x: (x, gg.argmax(x)))(X),
    )
    for transform in (gg.jacobian, gg.hessian):
        raises(
            TypeError,
            f"{transform.__name__}: argument x is complex64; give its real and imaginary parts "
            f"apart",
            lambda transform=transform: transform(lambda x: abs(x).sum())(X * 1j),
        )
    raises(
        TypeError,
        "hvp: argument x is complex64; give its real and imaginary parts apart",
        lambda: gg.hvp(lambda x: abs(x).sum())(X * 1j, X),
    )
    raises(
        TypeError,
        "jacobian: the result is complex64, which needs mode='forward'",
        lambda: gg.jacobian(lambda x: x * 1j, mode="reverse")(X),
    )
    raises(
        TypeError,
        "jacobian: the result must be a tensor, not str",
        lambda: gg.jacobian(lambda x: "text")(X),
    )


class TestInAxes:
    def check(self, kind, message, in_axes, *args, f=None, **kwargs):
        raises(kind, f"vmap: {message}", lambda: gg.vmap(f or pair, in_axes)(*args, **kwargs))

    def test_lengths(self):
        self.check(
            ValueError,
            "the axes that in_axes names have different lengths: 2 in x, 3 in y",
            0, ROWS, X,
        )  # fmt: skip
        self.check(
            ValueError,
            "the axes that in_axes names have different lengths: 2 in p['a'], 3 in p['b']",
            0, {"a": ROWS, "b": X, "c": X}, f=lambda p: p["a"],
        )  # fmt: skip

    def test_counts(self):
        self.check(
            ValueError,
            "in_axes (0,) has 1 element, but the call has 2 positional arguments",
            (0,), ROWS, X,
        )  # fmt: skip
        self.check(
            ValueError,
            "in_axes (0, 0, 0) has 3 elements, but the call has 1 positional argument",
            (0, 0, 0), ROWS,
        )  # fmt: skip

    def test_axes_that_do_not_exist(self):
        remedy = "give None in in_axes for what all examples share"
        self.check(ValueError, f"argument y has shape () and no axis 0; {remedy}", 0, ROWS, S)
        self.check(ValueError, f"argument x has shape (2, 3) and no axis 2; {remedy}", 2, ROWS, X)
        self.check(ValueError, f"argument x has shape (2, 3) and no axis -3; {remedy}", -3, ROWS, X)
        self.check(
            ValueError, f"argument x[1] has shape () and no axis 0; {remedy}", 0, [X, 2.0], f=loss
        )

    def test_no_arrays(self):
        remedy = "give None in in_axes for what all examples share"
        self.check(
            TypeError,
            f"argument y ({remedy}) must be an array or a number, not str",
            0, X, "mean",
        )  # fmt: skip

    def test_by_name(self):
        remedy = (
            "arguments given by name have their examples along axis 0; bind what all share "
            "beforehand, by functools.partial"
        )
        self.check(ValueError, f"argument y has shape () and no axis 0; {remedy}", 0, ROWS, y=2.0)

    def test_nothing_mapped(self):
        message = "in_axes maps no argument; at least one must have an axis"
        self.check(ValueError, message, None, ROWS, X)
        self.check(ValueError, message, (None, [None]), ROWS, [X])
        self.check(ValueError, message, 0, f=lambda: 1.0)
        self.check(ValueError, message, 0, None, f=lambda x: 1.0)

    def test_structures(self):
        tail = "it must be nested as that is, or stop above several leaves"
        self.check(
            ValueError,
            f"in_axes {{'a': 0}} does not fit argument x, of structure *; {tail}",
            ({"a": 0}, 0), ROWS, ROWS,
        )  # fmt: skip
        self.check(
            ValueError,
            f"in_axes {{'a': 0}} does not fit argument y, of structure {{'b': [*, *]}}; {tail}",
            (0, {"a": 0}), ROWS, {"b": [ROWS, ROWS]},
        )  # fmt: skip

    @pytest.mark.parametrize("in_axes", [{"x": 0}, 0.0, "0"], ids=repr)
    def test_types(self, in_axes):
        self.check(
            TypeError,
            f"in_axes must be an int, None, or a tuple with an element for each positional "
            f"argument, not {in_axes!r}",
            in_axes, ROWS, X,
        )  # fmt: skip

    def test_arguments_in_their_place(self):
        with pytest.raises(TypeError, match=r"not float32 \(3,\) on cpu; .*: vmap\(f\)\(x\)$"):
            gg.vmap(double, X)

    def test_types_of_elements(self):
        for axis in (1.0, "a", True):
            self.check(
                TypeError,
                f"the axis of y must be an int or None, not {axis!r}",
                (0, axis), ROWS, X,
            )  # fmt: skip


def test_out_axes():
    def check(kind, message, f, out_axes):
        raises(kind, f"vmap: {message}", lambda: gg.vmap(f, out_axes=out_axes)(ROWS))

    same = double
    check(
        ValueError,
        "out_axes is None for the result, but it differs between examples; give an axis",
        same, None,
    )  # fmt: skip
    check(
        ValueError,
        "out_axes is None for the result['a'], but it differs between examples; give an axis",
        lambda x: {"a": x, "b": S}, None,
    )  # fmt: skip
    check(
        ValueError,
        "out_axes is 2 for the result, which with the axis of examples has 2 axes",
        same, 2,
    )  # fmt: skip
    check(
        ValueError,
        "out_axes (0, 0, 0) does not fit the result, of structure (*, *); it must be nested as "
        "that is, or stop above several leaves",
        lambda x: (x, x), (0, 0, 0),
    )  # fmt: skip
    check(TypeError, "out_axes for the result must be an int or None, not 0.5", same, 0.5)
    check(TypeError, "the result[1] must be an array or a number, not str", lambda x: (x, "a"), 0)


@pytest.mark.parametrize(
    "read, remedy",
    [
        (lambda x: 1 if x.sum() > 0 else 0, "bool: .*where"),
        (lambda x: float(x.sum()), "float: .*0-d tensor"),
        (lambda x: [1, 2][x.sum().astype(gg.int64)], "int: .*index"),
        (lambda x: x.sum().item(), "item: .*read what vmap returns"),
        (lambda x: x.numpy(), "numpy: .*read what vmap returns"),
        (lambda x: np.asarray(x), "numpy.asarray: .*read what vmap returns"),
        (lambda x: x.sum().backward(), r"backward: .*gpugrad\.grad"),
        (lambda x: gg.autograd.grad(x.sum(), x), r"backward: .*gpugrad\.grad"),
        (lambda x: x.requires_grad_(), r"requires_grad_: .*gpugrad\.grad"),
    ],
    ids=str.split("bool float index item numpy asarray backward grad requires_grad_"),
)
def test_reading_inside_vmap(read, remedy):
    with pytest.raises(TypeError, match=remedy):
        gg.vmap(read)(ROWS)


class TestAfterVmap:
    """Tensors that are used after their vmap has ended."""

    @pytest.fixture
    def leaked(self):
        leaked = []
        gg.vmap(lambda x: leaked.append(x * 2) or x)(ROWS)
        return leaked[0]

    SAID = (
        "a tensor of a vmap that has ended: return it from the function that is mapped instead "
        "of keeping it"
    )

    def test_used(self, leaked):
        raises(RuntimeError, f"multiply: {self.SAID}", lambda: leaked * 2)
        raises(RuntimeError, f"multiply: {self.SAID}", lambda: gg.vmap(lambda x: x * leaked)(ROWS))
        raises(
            RuntimeError, f"vmap: the result: {self.SAID}", lambda: gg.vmap(lambda x: leaked)(ROWS)
        )
        raises(RuntimeError, f"grad: argument x: {self.SAID}", lambda: gg.grad(loss)(leaked))
        raises(
            RuntimeError,
            f"jvp: argument primals[0]: {self.SAID}",
            lambda: gg.jvp(loss, (leaked,), (X,)),
        )
        raises(
            RuntimeError,
            f"jvp: the tangent of primals[0]: {self.SAID}",
            lambda: gg.jvp(loss, (X,), (leaked,)),
        )
        assert "example" in repr(leaked)

    def test_derivatives(self):
        leaked = []
        gg.vmap(lambda x: leaked.append((gg.vjp(gg.sin, x)[1], gg.linearize(gg.sin, x)[1])) or x)(
            ROWS
        )
        for derivative, name in zip(leaked[0], ("vjp", "linearize"), strict=True):
            words = (
                f"{name}: its derivative was made inside a vmap that has ended, and can be called "
                f"only there"
            )
            raises(RuntimeError, words, lambda derivative=derivative: derivative(X))
            raises(RuntimeError, words, lambda d=derivative: gg.vmap(lambda x: d(x))(ROWS))


def test_errors_inside_name_the_op():
    with pytest.raises(ValueError, match=r"matmul.*\(3,\).*\(2, 3\)"):
        gg.grad(lambda x: (x @ ROWS).sum())(X)
    with pytest.raises(ValueError, match="add"):
        gg.vmap(lambda x: x + gg.ones(2))(ROWS)
