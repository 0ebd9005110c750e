"""Fit lifelines' models to its data sets, and print what was found as JSON.

    python survival.py {autograd,gpugrad}

lifelines differentiates with HIPS autograd. With ``gpugrad``, that package is the adapter of
`tests/autograd_suite`, with what else lifelines imports; lifelines itself is as it was installed.
"""

import json
import sys
import warnings
from pathlib import Path
from types import ModuleType

UNIVARIATE = {
    "WeibullFitter": (), "ExponentialFitter": (), "LogNormalFitter": (), "LogLogisticFitter": (),
    "GeneralizedGammaFitter": (), "PiecewiseExponentialFitter": ([10, 40],),
    "SplineFitter": ([6, 30, 50, 75],),
}  # fmt: skip
REGRESSIONS = ["WeibullAFTFitter", "LogNormalAFTFitter", "LogLogisticAFTFitter"]


def put_gpugrad_in_its_place():
    here = Path(__file__).resolve().parent
    sys.path[:0] = [str(here.parent.parent), str(here.parent / "autograd_suite" / "adapter")]
    import autograd.builtins as builtins
    import autograd.scipy  # noqa: F401

    import gpugrad as gg

    def primitive(f):
        """A function whose derivatives `defvjp` sets, by the positions of its arguments."""

        def call(*args):
            at = [i for i, x in enumerate(args) if isinstance(x, gg.Tensor)]

            def put(xs):
                full = list(args)
                for i, x in zip(at, xs, strict=True):
                    full[i] = x
                return full

            def forward(*xs):
                value = gg.asarray(f(*put(xs)))
                return value, (value, xs)

            def backward(residuals, g):
                value, xs = residuals
                return tuple([call.makers[i](value, *put(xs))(g) for i in at])

            if not at:
                return f(*args)
            own = gg.custom_vjp(lambda *xs: gg.asarray(f(*put(xs))))
            own.defvjp(forward, backward)
            return own(*[args[i] for i in at])

        return call

    def defvjp(function, *makers):
        function.makers = makers

    def unbroadcast_f(target, pullback):
        def summed(g):
            result, shape = pullback(g), gg.asarray(target).shape
            extra = tuple(range(result.ndim - len(shape)))
            result = gg.sum(result, axis=extra) if extra else result
            ones = tuple([i for i, n in enumerate(shape) if n == 1 != result.shape[i]])
            return gg.sum(result, axis=ones, keepdims=True) if ones else result

        return summed

    def make_jvp_reversemode(f):
        def at(x, *others):
            x = gg.asarray(x)
            return lambda v: gg.jvp(lambda x: f(x, *others), (x,), (gg.asarray(v),))[1].numpy()

        return at

    modules = {
        "extend": {"primitive": primitive, "defvjp": defvjp},
        "differential_operators": {"make_jvp_reversemode": make_jvp_reversemode},
        "numpy.numpy_boxes": {"ArrayBox": gg.Tensor},
        "numpy.numpy_vjps": {"unbroadcast_f": unbroadcast_f},
    }
    for name, entries in modules.items():
        module = sys.modules[f"autograd.{name}"] = ModuleType(f"autograd.{name}")
        vars(module).update(entries)
    builtins.DictBox = dict


def main(library):
    warnings.simplefilter("ignore")
    if library == "gpugrad":
        put_gpugrad_in_its_place()
    import autograd
    import lifelines
    from lifelines.datasets import load_rossi, load_waltons

    found = {"autograd": autograd.__file__}
    waltons, rossi = load_waltons(), load_rossi()
    for name, arguments in UNIVARIATE.items():
        model = getattr(lifelines, name)(*arguments).fit(waltons["T"], waltons["E"])
        interval = model.confidence_interval_.iloc[len(model.timeline) // 2]
        columns = model.summary["coef"], model.summary["se(coef)"], interval
        found[name] = [[model.log_likelihood_], *(column.tolist() for column in columns)]
    for name in REGRESSIONS:
        model = getattr(lifelines, name)().fit(rossi, "week", "arrest")
        columns = model.params_, model.standard_errors_
        found[name] = [[model.log_likelihood_], *(column.tolist() for column in columns)]
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
