"""What `test_distributed.py` runs in several processes: functions that each of them calls.

``mpiexec -n 3 python distributed_program.py check_ FOLDER`` calls those whose names begin so, in
the checked mode. The references are computed by each process for itself.
"""

import os
import signal
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import gpugrad as gg
from gpugrad import data, distributed, nn, optim
from gpugrad.distributed import DataParallel, ShardedOptimizer
from gpugrad.training import Progress, Trainer

F64 = gg.float64


def problem(n=24):
    generator = gg.random.Generator(1)
    return generator.normal((n, 5), dtype=F64), generator.integers(0, 3, n)


def same_everywhere(tensors):
    """Whether tensors have the same bits in all processes."""
    gathered = distributed.all_gather([x.detach() for x in tensors])
    return all((x.numpy() == x.numpy()[:1]).all() for x in gathered)


def close(x, y, rtol=1e-10):
    np.testing.assert_allclose(x.detach().numpy(), y.detach().numpy(), rtol, rtol)


def part(x):
    """This process's rows."""
    return x[distributed.rank() :: distributed.size()]


def check_collectives(device="cpu"):
    rank, size = distributed.rank(), distributed.size()
    assert 0 <= distributed.local_rank() < size
    numbers = [2] * (device == "cpu")  # they are tensors too, of the CPU

    def everything(x, *ops):
        distributed.barrier()
        return (
            distributed.all_reduce({"a": [x.mT, *numbers], "b": x[:0]}),
            distributed.all_gather(x),
            distributed.broadcast(x, size - 1),
            distributed.reduce_scatter(gg.stack([x + i for i in range(size)])),
            *[distributed.all_reduce(x, op) for op in ops],
        )

    compiled = gg.compile(everything)
    # bfloat16 is there if ml_dtypes is installed, which the tests require.
    for name in ("float64", "float32", "float16", "bfloat16", "int64", "uint8", "complex64"):
        x = gg.arange(6).reshape((2, 3)).to(device, getattr(gg, name))
        ops = () if name == "complex64" else ("max", "min")
        for call, n in (everything, 1), (compiled, 1), (compiled, 2):
            others = [x * n * (r + 1) for r in range(size)]
            before = others[rank].tolist()
            total, gathered, last, scattered, *found = call(others[rank], *ops)
            assert total["a"][0].tolist() == sum(others).mT.tolist()
            assert (total["a"][0].dtype, total["a"][0].device) == (x.dtype, device)
            assert [y.item() for y in total["a"][1:]] == [number * size for number in numbers]
            assert total["b"].shape == (0, 3)
            assert gathered.tolist() == gg.stack(others).tolist()
            assert last.tolist() == others[-1].tolist()
            assert scattered.tolist() == sum(o + rank for o in others).tolist()
            assert [y.tolist() for y in found] == [others[i].tolist() for i in (-1, 0)[: len(ops)]]
            assert others[rank].tolist() == before
    assert is_compiled(compiled)
    mean = distributed.all_reduce(gg.tensor([1.0, 2.0]) * rank, "mean").tolist()
    assert mean == [(size - 1) / 2, size - 1]
    assert distributed.all_reduce(2) == 2 * size
    nans = gg.where(gg.arange(size) == rank, float("nan"), 0.0)
    for op in ("max", "min"):
        assert gg.isnan(distributed.all_reduce(nans, op)).all()
    large = gg.full(2, 60000.0, dtype=gg.float16)  # their sum is beyond float16
    assert distributed.all_reduce(large, "mean").tolist() == [60000.0] * 2


def network():
    """A model with two names for one parameter, a frozen parameter, and one that nothing uses."""
    model = nn.Sequential(
        nn.Linear(5, 8, dtype=F64), nn.Tanh(), nn.Linear(8, 8, dtype=F64),
        nn.Linear(8, 8, dtype=F64), nn.Linear(8, 3, dtype=F64),
    )  # fmt: skip
    model[3].weight = model[2].weight
    model[3].bias.requires_grad_(False)
    model.unused = nn.Parameter(gg.ones(4, dtype=F64))
    return model


def sgd(parameters):
    return optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)


def trained(model, inputs, labels, steps, make=sgd):
    optimizer = make(model.parameters())
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        optimizer.step()
    return [p.detach() for p in model.parameters()]


def check_that_steps_are_those_of_one_process():
    inputs, labels = problem()
    runs = []
    for bucket_bytes, steps in [(1 << 20, 100), (700, 10), (700, 10), (1, 10)]:
        gg.manual_seed(distributed.rank())  # the others' weights are not used
        model = DataParallel(network(), bucket_bytes=bucket_bytes)
        runs.append(trained(model, part(inputs), part(labels), steps))
        assert same_everywhere(runs[-1])
        assert model.module.unused.grad is None
        gg.manual_seed(0)
        for x, y in zip(runs[-1], trained(network(), inputs, labels, steps), strict=True):
            close(x, y)
    bits = [[x.numpy().tobytes() for x in run] for run in runs]
    assert bits[1] == bits[2]  # from run to run


def check_accumulation_and_missing_gradients():
    rank, size = distributed.rank(), distributed.size()
    model = nn.Module()
    for name in ("everywhere", "somewhere", "nowhere", "before"):
        setattr(model, name, nn.Parameter(gg.ones(2, dtype=F64)))
    parallel = DataParallel(model)
    parallel.forward = None

    def backward(*names):
        parallel._reducer and parallel._reducer.listen_to_all()
        sum(((rank + 1) * getattr(model, name)).sum() for name in names).backward()

    def grads():
        return [p.grad if p.grad is None else p.grad.mean().item() for p in model.parameters()]

    mean = (size + 1) / 2
    with parallel.no_sync():
        backward("everywhere", "before")
    assert grads() == [rank + 1, None, None, rank + 1]
    seen, p = [], model.everywhere
    with (
        p.register_hook(lambda g: seen.append(g.tolist())),
        p.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.tolist())),
    ):
        backward("everywhere", *["somewhere"] * (rank == 0))
    assert seen == [[rank + 1.0] * 2, [2 * mean] * 2]
    assert grads() == [2 * mean, 1 / size, None, mean]
    backward("everywhere")  # what was averaged stays as it is
    assert grads()[0] == 3 * mean
    model.zero_grad()
    with parallel.no_sync():
        if rank == 0:
            backward("everywhere")
    parallel.synchronize()
    assert grads() == [1 / size, None, None, None]
    with model.everywhere.register_hook(lambda g: 1 / 0):
        with pytest.raises(ZeroDivisionError):
            backward("everywhere")
        model.zero_grad()
    backward("everywhere")  # a pass that failed in all processes leaves nothing behind
    assert grads()[0] == mean
    model.zero_grad()
    (model.everywhere + model.somewhere).sum().backward(inputs=model.somewhere)
    assert grads() == [None, 1, None, None]
    if size > 1:
        with pytest.raises(RuntimeError, match="create_graph"):
            model.everywhere.sum().backward(create_graph=True)


def check_16_bits():
    size, rank = distributed.size(), distributed.rank()
    for dtype in (gg.float16, gg.bfloat16):
        for sum_dtype in (None, gg.float32):
            layer = DataParallel(nn.Linear(2, 1, dtype=dtype), sum_dtype=sum_dtype)
            layer(gg.full((1, 2), 40000.0 if rank else 20000.0, dtype=dtype)).sum().backward()
            grad = layer.module.weight.grad
            expected = (20000 + 40000 * (size - 1)) / size  # the sum is beyond float16
            assert grad.dtype == dtype
            np.testing.assert_allclose(grad.tolist(), [[expected] * 2], 0.01)


def bits(model):
    """The bits of a model's parameters, buffers and gradients."""
    tensors = [*model.parameters(), *model.buffers(), *[p.grad for p in model.parameters()]]
    return [x is None or x.detach().numpy().tobytes() for x in tensors]


class OfHalves(nn.Module):
    """A model whose second layer only the first process uses."""

    def __init__(self):
        self.first = nn.Linear(5, 3, dtype=gg.float16)
        self.second = nn.Linear(5, 3, dtype=gg.float16)

    def forward(self, x, everything=None):
        x = x.to(gg.float16)
        everything = distributed.rank() == 0 if everything is None else everything
        return self.first(x) + self.second(x) if everything else self.first(x)


def normalized():
    return nn.Sequential(
        nn.Linear(5, 4, dtype=F64), nn.SyncBatchNorm(4, dtype=F64), nn.Dropout(0.2),
        nn.Linear(4, 3, dtype=F64),
    )  # fmt: skip


def adam(parameters):
    return optim.Adam(parameters, lr=0.05)


def sharded(parameters):
    return ShardedOptimizer(adam(parameters))


def check_closures():
    inputs, labels = map(part, problem())
    found = []
    for make in (adam, sharded):
        gg.manual_seed(0)
        model = DataParallel(network())
        optimizer = make(model.parameters())

        def closure(model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            loss.backward()
            return loss

        losses = [optimizer.step(closure).item() for _ in range(3)]
        found.append((losses, [p.tolist() for p in model.parameters()]))
    assert found[0] == found[1]


def plain_step(model, optimizer, scaler, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.3)
    optimizer.step()
    return distributed.all_reduce({"loss": loss.detach(), "norm": norm}, "mean")


def accumulating_step(model, optimizer, scaler, x, y):
    optimizer.zero_grad()
    with model.no_sync():
        nn.functional.cross_entropy(model(x[1:]), y[1:]).backward()
    loss = nn.functional.cross_entropy(model(x[:2]), y[:2])
    loss.backward()
    optimizer.step()
    return loss


def scaled_step(model, optimizer, scaler, x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    with model.no_sync():
        scaler.scale(loss).backward()
    model.synchronize()
    scaler.step(optimizer)
    scaler.update()
    return loss


def check_compiled_steps():
    rank, size = distributed.rank(), distributed.size()
    inputs, labels = problem(12 * size)
    inputs, labels = part(inputs), part(labels)
    for a_step, make_model, make_optimizer, options in [
        (plain_step, network, adam, {"bucket_bytes": 300}),
        (plain_step, network, sharded, {}),
        (plain_step, OfHalves, adam, {"bucket_bytes": 20}),
        (plain_step, OfHalves, adam, {"sum_dtype": F64}),
        (accumulating_step, normalized, adam, {"bucket_bytes": 100}),
        (scaled_step, network, sharded, {}),
    ]:
        runs = []
        for compiled in (False, True):
            gg.manual_seed(rank)
            model = DataParallel(make_model(), **options)
            optimizer = make_optimizer(model.parameters())
            schedule = optim.lr_scheduler.StepLR(optimizer, 3, 0.5)
            scaler = gg.amp.GradScaler(init_scale=2.0**10, growth_interval=2)
            step = partial(a_step, model, optimizer, scaler)
            step = gg.compile(step) if compiled else step
            found = []
            for i in range(8):
                # Only one of them records a second program, for a smaller batch.
                rows = 3 if i % 4 == 3 and rank == size - 1 else 5
                found += data_of(step(inputs[i : i + rows], labels[i : i + rows]))
                schedule.step()
            runs.append([*found, *bits(model)])
            assert not compiled or is_compiled(step)
        assert runs[0] == runs[1], (a_step, make_model)


def data_of(tree):
    return [x.detach().numpy().tobytes() for x in (tree.values() if type(tree) is dict else [tree])]


def is_compiled(function):
    """Whether a compiled function has recorded anything and has not given it up."""
    return bool(function._programs) and not function._given_up


def check_that_other_gradients_are_an_error():
    rank, size = distributed.rank(), distributed.size()
    if size == 1:
        return
    model = DataParallel(OfHalves())
    optimizer, x = optim.SGD(model.parameters(), lr=0.1), gg.ones((2, 5))

    @gg.compile
    def step(everything):
        optimizer.zero_grad()
        model(x, everything).sum().backward()
        optimizer.step()

    for _ in range(3):
        step(False)
    before = [p.detach().tolist() for p in model.parameters()]
    words = r"that differ have the shapes \(3, 5\), \(3,\)\."
    with pytest.raises(RuntimeError, match=words) if rank else nullcontext():
        step(rank == 0)
    assert rank == 0 or before == [p.detach().tolist() for p in model.parameters()]
    step(rank == 0)  # it is recorded anew
    assert same_everywhere([p.grad for p in model.parameters()])
    assert is_compiled(step)


def check_frozen_and_moved():
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[0].requires_grad_(False)
    parallel = DataParallel(model)
    model[1].requires_grad_(False)
    model[1].requires_grad_(True)  # new leaves
    part_of_mean = gg.full((1, 2), float(distributed.rank()))
    parallel(part_of_mean).sum().backward()
    assert same_everywhere([p.grad for p in model[1].parameters()])
    if distributed.size() > 1:
        model[0].requires_grad_(True)
        with pytest.raises(RuntimeError, match="was frozen before"):
            parallel(part_of_mean).sum().backward()
        model[0].requires_grad_(False)
        model.to(F64)
        with pytest.raises(RuntimeError, match="move the module first"):
            parallel(part_of_mean.to(F64)).sum().backward()


def check_that_models_must_agree():
    if distributed.size() > 1:
        with pytest.raises(ValueError, match=r"differ in their parameters and buffers: float32 \("):
            DataParallel(nn.Linear(2, 2 + (distributed.rank() == 0)))
        with pytest.raises(ValueError, match="sum_dtype must be real floating, not 'int32'"):
            DataParallel(nn.Linear(2, 2), sum_dtype="int32")


def check_sync_batch_norm():
    rank, size = distributed.rank(), distributed.size()
    generator = gg.random.Generator(3)
    whole = generator.normal((7, 3, 2), dtype=F64) + 100
    weights = generator.normal((7, 3, 2), dtype=F64)
    for momentum in (0.1, None):
        results = []
        for kind in (nn.BatchNorm1d, nn.SyncBatchNorm):
            layer, shares = kind(3, momentum=momentum, dtype=F64), kind is nn.SyncBatchNorm
            rows = slice(rank, None, size) if shares else slice(None)
            x = whole[rows].detach().requires_grad_()
            for _ in range(2):
                (layer(x) * weights[rows]).sum().backward()
            grads = [layer.weight.grad, layer.bias.grad]
            grads = [x.grad, *distributed.all_reduce(grads)] if shares else [part(x.grad), *grads]
            results.append([*grads, *layer.buffers(), part(layer.eval()(whole))])
        for x, y in zip(*results, strict=True):
            close(x, y, 1e-8)
    model = nn.Sequential(nn.BatchNorm1d(3), nn.ReLU(), nn.Sequential(nn.BatchNorm2d(3)))
    nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert [type(layer) for layer in (model[0], model[2][0])] == [nn.SyncBatchNorm] * 2
    x = gg.arange(2.0, dtype=F64)[: 1 + (rank == 0), None].requires_grad_()
    normalize = nn.SyncBatchNorm(1, dtype=F64)
    if size > 1:  # second derivatives go through the processes, too
        (g,) = gg.autograd.grad(normalize(x).square().sum() * 0.5, x, create_graph=True)
        g.sum().backward()


def check_trainer(folder):
    inputs, labels = problem(30)
    whole = data.TensorDataset(inputs, labels)

    def loss(model, x, y):
        out = model(x)
        return nn.functional.cross_entropy(out, y), {"right": (out.argmax(axis=1) == y).mean()}

    def trainer(parallel, path, **options):
        gg.manual_seed(0 if not parallel else distributed.rank())
        model, sampler = network(), data.RandomSampler(whole, seed=3)
        kind = data.DistributedBatchSampler if parallel else data.BatchSampler
        loader = data.DataLoader(whole, batch_sampler=kind(sampler, 7))  # the last batch has 2
        test = data.DataLoader(whole, batch_sampler=kind(data.SequentialSampler(whole), 8))
        model = DataParallel(model) if parallel else model
        optimizer = (sharded if parallel else adam)(model.parameters())
        schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        return Trainer(
            model, optimizer, loss, loader, evaluate_on={"test": test}, scheduler=schedule,
            max_norm=0.5, monitor="test/loss", checkpoint=path, callbacks=[Progress()], **options,
        )  # fmt: skip

    for options in ({"accumulate": 2}, {"compile": True}):
        (name,) = options
        alone = trainer(False, Path(folder, f"{name}-{distributed.rank()}.st"), **options)
        alone.callbacks = alone._called = []
        alone.fit(1)
        saved = gg.load(alone.checkpoint)
        alone.fit(3)
        together = trainer(True, Path(folder, f"{name}.st"), **options)
        together.fit(3)
        # A run of one process is continued by several.
        continued = trainer(True, Path(folder, f"{name}-continued.st"), **options)
        continued.load_state_dict(saved)
        continued.fit(3)
        for other in (together, continued):
            for row, found in zip(alone.history, other.history, strict=True):
                assert found == pytest.approx(row, 1e-6)
            for x, y in zip(alone.model.parameters(), other.model.parameters(), strict=True):
                close(x, y, 1e-8)
            assert same_everywhere(other.model.parameters())
            if name == "compile" and distributed.size() > 1:
                *_, compute, apply = other._update.args
                assert is_compiled(compute)
                assert is_compiled(apply)
        expected, found = (gg.load(x.checkpoint) for x in (alone, together))
        assert expected["model"].keys() == found["model"].keys()
        assert expected["loader"] == found["loader"]
        expected, found = (x["optimizer"] for x in (expected, found))
        assert found["param_groups"] == expected["param_groups"]
        gg.tree.map(lambda x, y: close(x, y, 1e-8), found["state"], expected["state"])
        kept, of_one = (len(x._states) for x in (together.optimizer.optimizer, alone.optimizer))
        assert distributed.all_reduce(kept) == of_one
        assert kept < of_one or distributed.size() == 1


def on_cuda_devices():
    """Each process has a device of its own, if only on the stand-in for CuPy."""
    rank = distributed.rank()
    os.environ["STAND_IN_PROCESS"] = str(rank)
    device = f"cuda:{rank % gg.cuda.device_count()}"
    check_collectives(device)
    compiled = gg.compile(lambda x: distributed.all_reduce([x, 2]))
    with pytest.warns(UserWarning, match="it moves arrays from one library's device"):
        assert compiled(gg.ones(1, device=device))[1].item() == 2 * distributed.size()
    inputs, labels = problem()
    gg.manual_seed(0)
    model = DataParallel(network().to(device), bucket_bytes=300)
    own = part(inputs).to(device), part(labels).to(device)
    found = trained(model, *own, 5, sharded)
    assert same_everywhere([x.cpu() for x in found])
    gg.manual_seed(0)
    for x, y in zip(found, trained(network(), inputs, labels, 5, adam), strict=True):
        close(x.cpu(), y, 1e-8)
    x = part(inputs).to(device)
    mean = nn.SyncBatchNorm(5, momentum=1.0, dtype=F64, device=device)
    mean(x)
    close(mean.running_mean.cpu(), inputs.mean(axis=0))
    runs = []
    for compiled in (False, True):
        gg.manual_seed(0)
        model = DataParallel(network().to(device), bucket_bytes=300)
        step = partial(plain_step, model, optim.SGD(model.parameters(), lr=0.1), None)
        step = gg.compile(step) if compiled else step
        for _ in range(3):
            step(*own)
        runs.append([p.detach().cpu() for p in model.parameters()])
    for x, y in zip(*runs, strict=True):
        close(x, y)
    assert is_compiled(step)
    assert "other processes" in step.program(*own).call_by_call


# Faults, of which the last of the processes is guilty.


ACTS = {
    "exit": lambda: sys.exit(3), "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda: time.sleep(600), "order": distributed.barrier,
}  # fmt: skip


def fault(kind):
    guilty = distributed.rank() == distributed.size() - 1
    if kind == "raise" and guilty:
        raise ArithmeticError("one process fails")
    if kind == "compiled":
        model = DataParallel(nn.Linear(2, 2))

        def step(x, y):
            nn.functional.cross_entropy(model(x), y).backward()

        step, labels = gg.compile(step), gg.zeros(2, dtype=gg.int64)
        for i in range(4):
            step(gg.ones((2, 2)), labels + 2 * (guilty and i == 3))
    if kind == "raise everywhere":
        raise ArithmeticError("all processes fail")
    if guilty and kind in ACTS:
        ACTS[kind]()
    if kind == "unchecked shape":
        distributed.broadcast(gg.ones(4 if guilty else 8))
    distributed.all_reduce(gg.ones(3 + (kind == "shape" and guilty)))
    distributed.barrier()
    print("no fault was found")


if __name__ == "__main__":
    prefix, *arguments = sys.argv[1:]
    timeout = float(os.environ.get("TIMEOUT", 60))
    distributed.init(timeout, check="unchecked shape" not in arguments)
    if prefix == "fault":
        fault(*arguments)
    else:
        for check in [name for name in globals() if name.startswith(prefix)]:
            globals()[check](*arguments if check == "check_trainer" else ())
        print("all is well")
