"""Run HIPS autograd's own examples with autograd, and with gpugrad in its place.

    python tests/autograd_suite/examples.py CHECKOUT [NAME ...]

CHECKOUT is a checkout of https://github.com/HIPS/autograd. Each example runs in a process with the
checkout's autograd, and in one with the package ``autograd`` in `adapter`, both shortened in the
same way: few iterations, seeds that are fixed, random numbers in place of MNIST, and no pictures.
The arrays that are left in its variables and found by SciPy's minimizers must be the same.
It needs Matplotlib.
"""

import os
import pickle
import re
import subprocess
import sys
import tempfile
import types
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
TOLERANCE = 1e-6
EXAMPLES = """
    bayesian_neural_net bayesian_optimization black_box_svi deep_gaussian_process fluidsim/fluidsim
    fluidsim/wing gaussian_process generative_adversarial_net gmm gplvm hmm_em ica
    logistic_regression lstm mixture_variational_inference natural_gradient_black_box_svi
    negative_binomial_maxlike neural_net neural_net_regression ode_net rnn rosenbrock sinusoid tanh
    variational_autoencoder
""".split()
# What else is replaced in the source of some.
SHORTENED = {
    "fluidsim/fluidsim": [("timesteps = 100", "timesteps = 4")],
    "fluidsim/wing": [("timesteps = 20", "timesteps = 4")],
    "hmm_em": [("max_lines=60", "max_lines=4"), ("atol=1e-3, rtol=1e-3", "atol=0.1, rtol=0.1")],
    "lstm": [("sequence_length=30", "sequence_length=5"), ("range(20)", "range(0)")],
    "natural_gradient_black_box_svi": [("num_iters = 200", "num_iters = 3")],
    "rnn": [("sequence_length=30", "sequence_length=5"), ("range(20)", "range(0)")],
}
LEFT_OUT = """\
left out: convnet, which calls convolve with parameters that SciPy's does not have, and those that
define derivatives, or look into the graph, by autograd's own interfaces for that: define_gradient,
dot_graph, fixed_points, print_trace, rkhs"""
# The solver's steps differ from those of LSODA, and its tolerance is 0.01.
TOLERANCES = {"ode_net": 0.02}


def run(checkout, name, target):
    """Run a shortened example, and write the arrays that it computes."""
    import matplotlib

    matplotlib.use("Agg")
    import scipy.optimize
    from matplotlib import pyplot

    minimize, found = scipy.optimize.minimize, []

    def minimize_shortly(*args, options=None, **keywords):
        found.append(minimize(*args, options={"maxiter": 3}, **keywords).x)
        return scipy.optimize.OptimizeResult(x=found[-1])

    def mnist():
        images = np.random.RandomState(0).randint(0, 256, (4, 300, 28, 28))
        return images[0], images[1, :, 0, 0] % 10, images[2], images[3, :, 0, 0] % 10

    scipy.optimize.minimize = minimize_shortly
    sys.modules["data_mnist"] = types.SimpleNamespace(mnist=mnist)
    os.system = lambda command: 0
    for function in ("pause", "savefig", "show"):
        setattr(pyplot, function, lambda *args, **keywords: None)
    matplotlib.image.imsave = lambda *args, **keywords: None
    path = Path(checkout, "examples", f"{name}.py")
    sys.path.insert(0, str(path.parent))
    source = path.read_text()
    for old, new in SHORTENED.get(name, ()):
        assert old in source, old
        source = source.replace(old, new)
    source = re.sub(r"num_iters=[^,)\n]+", "num_iters=3", source)
    source = source.replace("RandomState()", "RandomState(0)")
    source = source.replace("num_epochs = 50", "num_epochs = 1")
    np.random.seed(0)  # noqa: NPY002
    variables = {"__name__": "__main__", "__file__": str(path)}
    exec(compile(source, path, "exec"), variables)
    variables["found by minimizers"] = found
    arrays = {name: leaves for name, value in variables.items() if (leaves := arrays_in(value))}
    Path(target).write_bytes(pickle.dumps(arrays))


def arrays_in(value):
    """Return the floating arrays in nested containers, as NumPy's."""
    if isinstance(value, (list, tuple)):
        return [leaf for element in value for leaf in arrays_in(element)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value, key=str) for leaf in arrays_in(value[key])]
    if isinstance(value, float) or getattr(value, "dtype", None) in (np.float32, np.float64):
        return [np.asarray(value.detach() if hasattr(value, "detach") else value)]
    return []


def compare(checkout, name):
    """Return how an example fails; None if it gives the same arrays with both."""
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for path in ([checkout], [HERE / "adapter", HERE.parent.parent]):
            target = Path(folder, "arrays")
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, path))}
            environment["AUTOGRAD_CHECKOUT"] = str(checkout)
            command = [sys.executable, __file__, "--run", str(checkout), name, str(target)]
            options = {"cwd": folder, "env": environment, "capture_output": True, "text": True}
            done = subprocess.run(command, **options)
            if done.returncode:
                return done.stderr.strip()
            results.append(pickle.loads(target.read_bytes()))
    expected, found = results
    for variable, arrays in expected.items():
        others = found.get(variable, [])
        if [x.shape for x in arrays] != [x.shape for x in others]:
            return f"{variable}: {[x.shape for x in others]}, not {[x.shape for x in arrays]}"
        tolerance = TOLERANCES.get(name, TOLERANCE)
        for x, y in zip(arrays, others, strict=True):
            error = np.max(np.abs(x - y), initial=0) / max(np.max(np.abs(x), initial=0), 1)
            if not error < tolerance and not np.array_equal(x, y, equal_nan=True):
                return f"{variable}: differs by {error:.1e}"
    return None if expected else "no arrays"


def main(arguments):
    if not arguments or not Path(arguments[0], "examples", "hmm_em.py").exists():
        raise SystemExit(__doc__)
    checkout, failures = Path(arguments[0]).resolve(), 0
    for name in arguments[1:] or EXAMPLES:
        reason = compare(checkout, name)
        failures += reason is not None
        print(f"{name}: {'as with autograd' if reason is None else reason}", flush=True)
    print(f"{failures} differ\n{LEFT_OUT}")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    run(*sys.argv[2:]) if sys.argv[1:2] == ["--run"] else main(sys.argv[1:])
