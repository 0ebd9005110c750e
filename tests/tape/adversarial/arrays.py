"""Raw arrays and tensors: constants of NumPy, writes in place, views, aliases, layouts, dtypes."""

import importlib.util
from functools import partial

import numpy as np

import gpugrad as gg

from .harness import add, normal, plays, program

NO_BFLOAT16 = None if importlib.util.find_spec("ml_dtypes") else "ml_dtypes is not installed"


LAYOUTS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.T,
    "reversed": lambda x: x[::-1],
    "with gaps": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "broadcast": lambda x: np.broadcast_to(x[0], x.shape),
    "in Fortran order": np.asfortranarray,
    "not aligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "of other bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}


@program
def layouts_of_arguments(world):
    @world.compile
    def f(x):
        return x * 2, gg.sum(x, axis=0), gg.reshape(x, -1), gg.exp(x).T

    for make in gg.asarray, lambda raw: raw:

        def inputs(i, make=make):
            kinds = [*LAYOUTS.values()]
            return (make(kinds[i // 2 % len(kinds)](normal(4, 4, seed=i).numpy())),)

        world.play(f, inputs, calls=2 * len(LAYOUTS))


SCALARS = normal(seed=0), normal(1), normal(seed=2), gg.asarray(2), normal(seed=3)
NUMBERS = np.float32(2), np.array(2.0), np.float64(2), np.float32(3), np.int8(3), np.array(3)
DTYPES = "bool int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()
plays("tensors_without_axes",
      lambda x: (x * 2, x + gg.asarray([1, 2]), gg.exp(x), x.reshape(1), x[...]),
      lambda i: (SCALARS[i % 5],), calls=10)  # fmt: skip
plays("numbers_of_numpy_as_arguments",
      lambda x: (x * 2, x + gg.asarray([1, 2]), gg.exp(gg.asarray(x)), type(x)),
      lambda i: (NUMBERS[i % 6],), calls=12)  # fmt: skip
plays("dtypes_of_arguments",
      lambda x: (x + x, x * 2, x * 2.5, x**2, -x if x.dtype != bool else x),
      lambda i: ((normal(4, seed=i).numpy() * 3).astype(DTYPES[i // 2 % len(DTYPES)]),),
      calls=2 * len(DTYPES))  # fmt: skip
plays("functions_of_numpy_on_tensors",
      lambda x: (np.sum(x * x), np.exp(x), np.concatenate([x, x]), np.where(x, x, 1)))  # fmt: skip


@program(needs=NO_BFLOAT16)
def arrays_in_bfloat16(world):
    import ml_dtypes

    w = gg.asarray(normal(4, 4).numpy().astype(ml_dtypes.bfloat16)).requires_grad_()

    @world.compile
    def f(x):
        w.grad = None
        y = (gg.exp(x @ w) * w).sum()
        y.backward()
        w.detach().__isub__(w.grad * 0.1)
        return y.detach()

    world.play(f, lambda i: (normal(4, 4, seed=i).astype(w.dtype),), watch=[w])


@program
def integers_that_overflow(world):
    total = gg.asarray(np.array([120, -120, 5], np.int8))

    @world.compile
    def f(x):
        total.__iadd__(x)
        return total * 3, total // 7, total % 5, total << 1

    world.play(f, lambda i: (gg.asarray(np.array([i, -i, 100], np.int8)),), watch=[total])


@program
def complex_numbers(world):
    z = gg.asarray(normal(3).numpy() + 1j * normal(3, seed=1).numpy()).requires_grad_()

    @world.compile
    def f(x):
        z.grad = None
        y = gg.abs(z * x + gg.exp(z) * z) ** 2
        y.sum().backward()
        return y.detach(), gg.conj(z.detach()), z.grad * 1

    world.play(f, changes=[lambda: z.detach().__imul__(1j)], watch=[z])


COPIES = {
    "array": np.array,
    "asarray of another dtype": lambda a: np.asarray(a, dtype="f8"),
    "vectorize": np.vectorize(lambda v: v * 2),
    "nditer": lambda a: np.array([v * 2 for v in np.nditer(a)]),
    "elements": lambda a: np.array([a[0], a[1], a[2]]),
    "a number of an element": lambda a: np.float64(a[0] * 10),
    "rows": lambda a: np.array([*a]),
}


def _copied(copy, world):
    raw = np.array([0.5, 1.5, 2.5], np.float32)
    of_state = world.compile(lambda x: x * gg.asarray(copy(raw)))
    of_argument = world.compile(lambda x, a: x * gg.asarray(copy(a)))
    of_tensor = world.compile(lambda x: x * gg.asarray(copy(x.array)))
    x = gg.asarray(np.ones(3, np.float32))
    for k in range(6):
        raw[0] = k // 3
        for f, args in ((of_state, (x,)), (of_argument, (x, raw)), (of_tensor, (x * raw,))):
            world.call(f, *args)


for _name, _copy in COPIES.items():
    add(f"raw_arrays_read_by_{_name.replace(' ', '_')}", __name__, partial(_copied, _copy))


@program
def ops_of_the_program_that_copy_by_numpy(world):
    @gg.op
    def double(xp, x):
        """Return 2x."""
        return 2 * np.array(x)

    double.vjp(x=lambda xp, g, x: 2 * g)
    f = world.compile(lambda x: double(x))
    world.play(f, lambda i: (normal(3, seed=i // 3, dtype=np.float64),))
