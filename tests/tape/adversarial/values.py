"""Values that a function looks at: in branches, assertions and loops, as numbers and shapes."""

import gpugrad as gg

from .harness import normal, plays, uses

plays("a_branch_on_a_value", lambda x: x * 2 if x.sum() > 0 else x - 1,
      lambda i: (normal(3, seed=i) + (i % 2) * 3,), calls=8)  # fmt: skip
uses("a_branch_on_a_value_of_state", lambda x, w: x * 2 if w > 0 else x - 1,
     lambda: gg.asarray(1.0), *[lambda w: w.__imul__(-1)] * 2)  # fmt: skip
uses("equality_of_tensors_in_a_list",
     lambda x, pair: x * (2 if pair[0] in pair[1:] else 3) * pair.index(pair[1]),
     lambda: [gg.asarray(1), gg.asarray(2)], *[lambda pair: pair[0].__iadd__(1)] * 2)  # fmt: skip


def assertions(x):
    assert x.shape == (3,), "own"
    assert x.sum() > 0, "own"
    return x * 2


plays("an_assertion_on_values", assertions,
      lambda i: (gg.ones(3) * (-1.0 if i in (2, 5) else i + 1.0),), calls=8)  # fmt: skip
plays("an_assertion_on_shapes", assertions,
      lambda i: (gg.ones(4 if i in (2, 5) else 3) * (i + 1.0),), calls=8)  # fmt: skip


def reads_state(x, w):
    n = w[0].item()
    w.__iadd__(1)
    return x * n, n, w.tolist()


def loops(x):
    steps = 0
    while (x * x).sum() > 1:
        x = x * 0.5
        steps += 1
    return x, steps


uses("a_number_read_from_state", reads_state, lambda: gg.asarray([1.0, 2.0]),
     lambda w: w.__imul__(0))  # fmt: skip
plays("a_loop_that_ends_by_a_value", loops, lambda i: (gg.ones(3) * float(i),), calls=8)
plays("a_print_of_a_value", lambda x: (print(x * 2, f"{x.sum():.3f}"), x * 2))
