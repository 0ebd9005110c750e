"""Raw arrays and tensors: constants of NumPy, writes in place, views, aliases, layouts, dtypes."""

import importlib.util

import numpy as np

import gpugrad as gg

from .harness import leaf, normal, program

NO_BFLOAT16 = None if importlib.util.find_spec("ml_dtypes") else "ml_dtypes is not installed"


@program
def a_constant_that_numpy_computes(world):
    raw = np.array([0.1, 0.2, 0.3], np.float32)
    f = world.compile(lambda t: (t * gg.asarray(np.exp(-raw))).sum())
    world.play(
        f,
        changes=[
            lambda: raw.__setitem__(0, 5.0),
            lambda: raw.__imul__(2),
            lambda: raw.sort(),
        ],
    )


@program
def a_constant_of_numpy_without_asarray(world):
    raw = np.array([0.1, 0.2, 0.3], np.float32)
    world.play(
        world.compile(lambda t: (t * np.exp(-raw)).sum()),
        changes=[lambda: raw.__setitem__(0, 5.0)],
    )


@program
def a_raw_array_that_is_written(world):
    raw = np.array([1.0, 2.0, 3.0], np.float32)
    world.play(
        world.compile(lambda x: x * gg.asarray(raw)),
        changes=[lambda: raw.__setitem__(0, 5.0), lambda: raw.fill(2)],
    )


@program
def a_raw_array_that_is_replaced(world):
    table = {"raw": np.array([1.0, 2.0, 3.0], np.float32)}
    world.play(
        world.compile(lambda x: x * table["raw"]),
        changes=[
            lambda: table.update(raw=np.array([5.0, 6.0, 7.0], np.float32)),
            lambda: table.update(raw=np.array([5.0, 6.0, 7.0])),
            lambda: table.update(raw=np.array([5, 6, 7])),
            lambda: table.update(raw=np.float32(2)),
            lambda: table.update(raw=np.array(2.0)),
        ],
    )


@program
def an_element_of_a_raw_array(world):
    raw = np.array([1.0, 2.0, 3.0])
    world.play(
        world.compile(lambda x: x * raw[1] + float(raw.sum()) + raw.max()),
        changes=[lambda: raw.__setitem__(1, 5.0), lambda: raw.__setitem__(0, -9.0)],
    )


@program
def an_index_from_a_raw_array(world):
    order = np.array([2, 0, 1])
    world.play(
        world.compile(lambda x: x[order] + x[int(order[0])]),
        changes=[lambda: order.sort(), lambda: order.__setitem__(slice(None), [1, 1, 2])],
    )


@program
def a_branch_on_a_raw_array(world):
    flags = np.array([True, False])
    world.play(
        world.compile(lambda x: x * 2 if flags.any() else x * 3),
        changes=[lambda: flags.fill(False), lambda: flags.fill(True)],
    )


@program
def a_large_raw_array(world):
    raw = np.ones(600_000, np.float32)
    world.play(
        world.compile(lambda x: x * float(raw.max())),
        changes=[lambda: raw.__setitem__(400_000, 5.0)],
    )


@program
def a_raw_array_that_the_function_writes(world):
    raw = np.zeros(3)

    @world.compile
    def f(x):
        raw[1] += 1
        return x * gg.asarray(raw)

    world.watch(raw)
    world.play(f, changes=[lambda: raw.fill(10)])


@program
def a_raw_array_of_objects(world):
    raw = np.array([2.0, "a", None], object)
    world.play(world.compile(lambda x: x * raw[0]), changes=[lambda: raw.__setitem__(0, 3.0)])


@program
def a_structured_array(world):
    raw = np.zeros(2, [("a", "f4"), ("b", "i4")])
    raw["a"] = 2
    world.play(
        world.compile(lambda x: x * float(raw["a"][0]) + float(raw["b"].sum())),
        changes=[lambda: raw["a"].__setitem__(0, 5), lambda: raw["b"].__setitem__(1, 7)],
    )


@program
def views_of_one_array_outside(world):
    raw = np.arange(6, dtype=np.float32)
    head, tail = gg.asarray(raw[:3]), gg.asarray(raw[2:5])

    @world.compile
    def f(x):
        tail.__iadd__(x)
        return head * 2

    world.watch(raw, head, tail)
    world.play(f, changes=[lambda: raw.fill(1), lambda: head.__imul__(3)])


@program
def a_view_that_is_written_inside(world):
    w = gg.zeros((4, 3))

    @world.compile
    def f(x):
        row = w[1]
        row += x
        w[2] = row * 2
        return w.sum()

    world.watch(w)
    world.play(f, changes=[lambda: w.__imul__(0)])


@program
def a_view_that_outlives_the_call(world):
    w, kept = gg.zeros((4, 3)), []

    @world.compile
    def f(x):
        w[0] = x
        return w[0], w.T, w.reshape(3, 4)

    def keep(result):
        kept.append(result)
        result[0].__iadd__(1)

    world.watch(w, kept)
    world.play(f, after=keep)


@program
def an_argument_that_aliases_another(world):
    @world.compile
    def f(a, b):
        a += 1
        return a + b, a * b

    same, raw = normal(3), np.arange(5, dtype=np.float32)
    arguments = [
        (normal(3), normal(3, seed=1)),
        (same, same),
        (normal(3), normal(3, seed=1)),
        (gg.asarray(raw[:3]), gg.asarray(raw[1:4])),
        (same, same.detach()),
        (gg.asarray(raw[:3]), gg.asarray(raw[2:])),
        (normal(3), normal(3, seed=1)),
    ]
    world.watch(same, raw)
    world.play(f, lambda i: arguments[i % 7], calls=14)


@program
def an_argument_that_aliases_state(world):
    w = normal(3, seed=3)

    @world.compile
    def f(x):
        w.__iadd__(1)
        return x * w

    arguments = [normal(3), w, w.detach(), w[::-1], normal(3, seed=2), w, gg.asarray(w.numpy())]
    world.watch(w)
    world.play(f, lambda i: (arguments[i % 7],), calls=10)


@program
def the_same_tensor_twice(world):
    a, b = leaf(3), leaf(3, seed=1)

    @world.compile
    def f(x, y):
        return x * y + x

    def whole(x, y):
        a.grad = b.grad = None
        f(x, y).sum().backward()

    world.watch(a, b)
    world.play(whole, lambda i: [(a, b), (a, a), (b, a), (b, b)][i % 4], calls=12)


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
        return x * 2, x.sum(0), x @ x, x.reshape(-1), gg.exp(x).T

    def inputs(i):
        kinds = [*LAYOUTS.values()]
        return (gg.asarray(kinds[i // 2 % len(kinds)](normal(4, 4, seed=i).numpy())),)

    world.play(f, inputs, calls=2 * len(LAYOUTS))


@program
def layouts_of_raw_arguments(world):
    f = world.compile(lambda x: (x * 2, gg.sum(x, axis=0), gg.exp(x)))

    def inputs(i):
        kinds = [*LAYOUTS.values()]
        return (kinds[i // 2 % len(kinds)](normal(4, 4, seed=i).numpy()),)

    world.play(f, inputs, calls=2 * len(LAYOUTS))


@program
def methods_of_raw_arguments(world):
    f = world.compile(lambda x: (x.sum(0), x.reshape(-1), x.T, x[0], x.astype("f8"), x.copy()))
    world.play(f, lambda i: (normal(4, 4, seed=i).numpy(),))


@program
def layouts_of_state(world):
    table = {"w": gg.asarray(normal(4, 4).numpy())}

    @world.compile
    def f(x):
        return x @ table["w"], table["w"].sum(1), table["w"].reshape(2, 8) * 2

    def put(kind):
        table["w"] = gg.asarray(LAYOUTS[kind](normal(4, 4, seed=5).numpy()))

    world.play(
        f,
        lambda i: (normal(4, 4, seed=i),),
        changes=[lambda kind=kind: put(kind) for kind in LAYOUTS],
    )


@program
def layouts_of_what_is_written(world):
    table = {"w": normal(4, 4)}

    @world.compile
    def f(x):
        table["w"].__iadd__(x)
        table["w"][1:, ::2] *= 2
        return table["w"].sum(0)

    def put(kind):
        raw = normal(4, 4, seed=5).numpy().copy()
        table["w"] = gg.asarray(LAYOUTS[kind](raw))

    kinds = "transposed", "reversed", "with gaps", "in Fortran order", "contiguous"
    world.watch(table)
    world.play(
        f,
        lambda i: (normal(4, 4, seed=i),),
        changes=[lambda kind=kind: put(kind) for kind in kinds],
    )


@program
def writing_to_what_is_read_only(world):
    raw = np.ones(3, np.float32)
    w = gg.asarray(raw)

    @world.compile
    def f(x):
        w.__iadd__(x)
        return w * 2

    world.watch(w)
    world.play(f, changes=[lambda: raw.setflags(write=False), lambda: raw.setflags(write=True)])


@program
def sizes_that_are_zero(world):
    @world.compile
    def f(x):
        return x * 2, x.sum(), x.reshape(-1), gg.concat([x, x]), x @ x.T

    shapes = (0, 3), (3, 0), (0, 0), (2, 3), (0, 3), (2, 3), (0, 3)
    world.play(f, lambda i: (normal(*shapes[i], seed=i),))


@program
def tensors_without_axes(world):
    f = world.compile(lambda x: (x * 2, x + gg.asarray([1, 2]), gg.exp(x), x.reshape(1), x[...]))
    inputs = [normal(seed=0), normal(1), normal(seed=2), gg.asarray(2), normal(seed=3)]
    world.play(f, lambda i: (inputs[i % 5],), calls=10)


@program
def numbers_of_numpy_as_arguments(world):
    f = world.compile(lambda x: (x * 2, x + gg.asarray([1, 2]), gg.exp(x), type(x)))
    inputs = [np.float32(2), np.array(2.0), np.float64(2), np.float32(3), np.int8(3), np.array(3)]
    world.play(f, lambda i: (inputs[i % 6],), calls=12)


@program
def dtypes_of_arguments(world):
    f = world.compile(lambda x: (x + x, x * 2, x * 2.5, x**2, -x if x.dtype != bool else x))
    names = "bool int8 uint8 int16 int32 int64 float16 float32 float64 complex64 complex128".split()

    def inputs(i):
        return ((normal(4, seed=i).numpy() * 3).astype(names[i // 2 % len(names)]),)

    world.play(f, inputs, calls=2 * len(names))


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

    world.watch(w)
    world.play(f, lambda i: (normal(4, 4, seed=i).astype(w.dtype),))


@program
def integers_that_overflow(world):
    total = gg.asarray(np.array([120, -120, 5], np.int8))

    @world.compile
    def f(x):
        total.__iadd__(x)
        return total * 3, total // 7, total % 5, total << 1

    world.watch(total)
    world.play(f, lambda i: (gg.asarray(np.array([i, -i, 100], np.int8)),))


@program
def complex_numbers(world):
    z = gg.asarray(normal(3).numpy() + 1j * normal(3, seed=1).numpy()).requires_grad_()

    @world.compile
    def f(x):
        z.grad = None
        y = gg.abs(z * x + gg.exp(z) * z) ** 2
        y.sum().backward()
        return y.detach(), gg.conj(z.detach()), z.grad * 1

    world.watch(z)
    world.play(f, changes=[lambda: z.detach().__imul__(1j)])


@program
def the_array_of_a_tensor_is_rebound(world):
    x = normal(3, seed=4)

    def rebind(array):
        x.array = array

    world.play(
        world.compile(lambda y: x * y + x.shape[0]),
        lambda i: (normal(1, seed=i),),
        changes=[
            lambda: rebind(normal(3, seed=5).array),
            lambda: rebind(normal(5, seed=5).array),
            lambda: rebind(normal(3, seed=5).array.astype("f8")),
            lambda: rebind(normal(6, seed=6).array[::2]),
            lambda: rebind(np.array([1, 2, 3])),
        ],
    )


@program
def the_array_of_a_tensor_is_rebound_inside(world):
    total = gg.zeros(3)

    @world.compile
    def f(x):
        total.array = (total * 0.5 + x).array
        return total * 2

    world.watch(total)
    world.play(f, changes=[lambda: total.__imul__(0)])


@program
def elements_that_are_assigned(world):
    table, w = {"i": 0}, gg.zeros(4)

    @world.compile
    def f(x):
        w[table["i"]] = x[0] * 2
        w[gg.asarray([1, 3])] += x[:2]
        w[w > 1] = 0.5
        return w * 2

    world.watch(w)
    world.play(f, changes=[lambda: table.update(i=2), lambda: table.update(i=-1)])


@program
def writes_between_two_reads(world):
    w = normal(3, seed=1)

    @world.compile
    def f(x):
        a = w * x
        w.__imul__(2)
        b = w * x
        w[0] = 0.0
        return a, b, w * x, w.sum()

    world.watch(w)
    world.play(f)


@program
def a_write_that_is_undone(world):
    w = normal(3, seed=1)

    @world.compile
    def f(x):
        w.__iadd__(x)
        y = (w * w).sum()
        w.__isub__(x)
        return y

    world.watch(w)
    world.play(f, changes=[lambda: w.__setitem__(0, 1e8)])


@program
def a_copy_and_its_original(world):
    w = normal(3, seed=1)

    @world.compile
    def f(x):
        copy, same = gg.tensor(w), gg.asarray(w)
        w.__iadd__(x)
        return copy, same * 1, gg.asarray(w, copy=True)

    world.watch(w)
    world.play(f)


@program
def an_argument_that_is_written(world):
    @world.compile
    def f(x):
        x *= 2
        x[0] = 7.0
        return x + 1

    inputs = [normal(3, seed=i) for i in range(8)]
    world.watch(inputs)
    world.play(f, lambda i: (inputs[i],))


@program
def a_raw_argument_that_is_written(world):
    @world.compile
    def f(x):
        x *= 2
        x[0] = 7.0
        return gg.asarray(x) + 1

    inputs = [normal(3, seed=i).numpy().copy() for i in range(8)]
    world.watch(inputs)
    world.play(f, lambda i: (inputs[i],))


@program
def an_argument_that_is_written_later(world):
    inputs = [normal(3, seed=i) for i in range(8)]
    results = []

    def later(result):
        results.append(result)
        inputs[len(results) - 1].__imul__(100)

    f = world.compile(lambda x: (x, x[1:], x.T, x.reshape(1, 3), x * 1))
    world.watch(results)
    world.play(f, lambda i: (inputs[i],), after=later)


@program
def constants_made_inside_and_written(world):
    @world.compile
    def f(x):
        start = gg.zeros(3)
        start += x
        table = gg.asarray([1.0, 2.0, 3.0])
        table[0] = x[0]
        return start, table

    world.play(f, after=lambda result: [y.__imul__(0) for y in result])


@program
def numpy_on_a_tensor_inside(world):
    f = world.compile(lambda x: gg.asarray(np.exp(x.detach().numpy())) * 2)
    world.play(f)


@program
def functions_of_numpy_on_tensors(world):
    f = world.compile(
        lambda x: (np.sum(x * x), np.exp(x), np.concatenate([x, x]), np.where(x, x, 1))
    )
    world.play(f)


@program
def the_memory_of_a_tensor_of_state_by_numpy(world):
    w = normal(3, seed=1)

    @world.compile
    def f(x):
        w.numpy()[0] += 1
        return w * x

    world.watch(w)
    world.play(f, changes=[lambda: w.numpy().fill(0)])


COPIES = {
    "array": np.array,
    "asarray of another dtype": lambda a: np.asarray(a, dtype="f8"),
    "vectorize": np.vectorize(lambda v: v * 2),
    "nditer": lambda a: np.array([v * 2 for v in np.nditer(a)]),
    "elements": lambda a: np.array([a[0], a[1], a[2]]),
    "a number of an element": lambda a: np.float64(a[0] * 10),
    "rows": lambda a: np.array([*a]),
}


def _copied(world, copy):
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

    def _program(world, copy=_copy):
        _copied(world, copy)

    _program.__name__ = f"raw_arrays_read_by_{_name.replace(' ', '_')}"
    program(_program)


@program
def elements_of_raw_arrays_are_numbers_of_numpy(world):
    a, w, x = np.array([1, 2]), np.array([1.5]), gg.asarray(np.ones(2, np.float32))
    uses = [
        lambda: {1: 10.0}.get(a[0], -1),
        lambda: a[0] in {1, 2},
        lambda: isinstance(w[0], float) + isinstance(w[0], np.floating),
        lambda: round(w[0]),
        lambda: divmod(w[0], 1)[1],
        lambda: len(str(w[0])),
        lambda: gg.tensor([w[0], w[0]]),
        lambda: gg.asarray([w, w]),
        lambda: hash(w[0]) % 7,
        lambda: np.isscalar(w[0]) + hasattr(w[0], "__len__"),
    ]
    for use in uses:
        f = world.compile(lambda x, use=use: x * use())
        for _ in range(4):
            world.call(f, x)


@program
def ops_of_the_program_that_copy_by_numpy(world):
    @gg.op
    def double(xp, x):
        """Return 2x."""
        return 2 * np.array(x)

    double.vjp(x=lambda xp, g, x: 2 * g)
    f = world.compile(lambda x: double(x))
    world.play(f, lambda i: (normal(3, seed=i // 3, dtype=np.float64),))


@program
def arrays_of_python_objects(world):
    b = np.array([1.5, 2.5, 3.5], dtype=object)
    world.play(world.compile(lambda x: x * gg.asarray((b * 2).astype(np.float32))))
    world.play(
        world.compile(lambda x, b: x * gg.asarray((b * 2).astype(np.float32))),
        lambda i: (normal(3, seed=i), b),
    )
