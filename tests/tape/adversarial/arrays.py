"""Raw arrays and tensors: constants of NumPy, writes in place, views, aliases, layouts, dtypes."""

import importlib.util

import numpy as np

import gpugrad as gg

from .harness import normal, plays, program, puts, uses

NO_BFLOAT16 = None if importlib.util.find_spec("ml_dtypes") else "ml_dtypes is not installed"


LAYOUTS = {
    "contiguous": lambda x: x, "transposed": lambda x: x.T, "reversed": lambda x: x[::-1],
    "in Fortran order": np.asfortranarray,
    "with gaps": lambda x: np.repeat(np.repeat(x, 2, 0), 2, 1)[::2, ::2],
    "broadcast": lambda x: np.broadcast_to(x[0], x.shape),
    "not aligned": lambda x: np.frombuffer(b"\0" + x.tobytes(), x.dtype, offset=1).reshape(x.shape),
    "of other bytes": lambda x: x.astype(x.dtype.newbyteorder()),
    "read-only": lambda x: np.frombuffer(x.tobytes(), x.dtype).reshape(x.shape),
}  # fmt: skip


@program
def layouts_of_arguments(world):
    def f(x):
        return x * 2, gg.sum(x, axis=0), gg.reshape(x, -1), gg.exp(x).T

    for make in gg.asarray, lambda raw: raw:

        def inputs(i, make=make):
            kinds = [*LAYOUTS.values()]
            return (make(kinds[i // 2 % len(kinds)](normal(4, 4, seed=i).numpy())),)

        world.check(f, inputs, calls=2 * len(LAYOUTS))


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

    def f(x):
        w.grad = None
        y = (gg.exp(x @ w) * w).sum()
        y.backward()
        w.detach().__isub__(w.grad * 0.1)
        return y.detach()

    world.check(f, lambda i: (normal(4, 4, seed=i).astype(w.dtype),), watch=[w])


def overflowing(x, total):
    total.__iadd__(x)
    return total * 3, total // 7, total % 5, total << 1


TRANSPOSED, GAPS = normal(7, 5, seed=2).numpy().T, normal(10, 14, seed=2).numpy()[::2, ::2]
WEIGHTS = TRANSPOSED, GAPS, np.asfortranarray(normal(5, 7, seed=4)), normal(5, 7, dtype="f8")
uses("integers_that_overflow", overflowing, lambda: gg.asarray(np.array([120, -120, 5], np.int8)),
     inputs=lambda i: (gg.asarray(np.array([i, -i, 100], np.int8)),))  # fmt: skip
uses("products_with_a_transposed_weight", lambda x, table: x @ table["w"],
     lambda: {"w": normal(5, 7)}, *puts("w", *map(gg.asarray, WEIGHTS)),
     inputs=lambda i: (normal(9, 5, seed=i),))  # fmt: skip


@program
def a_rule_of_an_op_that_reads_a_table(world):
    table = {"k": 2.0}

    @gg.op
    def scaled(xp, x):
        """Return x times a number that changes."""
        return x * table["k"]

    scaled.vjp(x=lambda xp, g: g * table["k"] * 3)
    f = world.compile(lambda x: gg.grad(lambda x: scaled(x).sum())(x) + scaled(x))
    world.play(f, changes=[lambda: table.update(k=3.0)])


@program
def ops_of_the_program_that_copy_by_numpy(world):
    @gg.op
    def double(xp, x):
        """Return 2x."""
        return 2 * np.array(x)

    double.vjp(x=lambda xp, g, x: 2 * g)
    world.check(lambda x: double(x), lambda i: (normal(3, seed=i // 3, dtype=np.float64),))
