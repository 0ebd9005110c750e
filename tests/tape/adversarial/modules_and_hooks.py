"""Modules: modes, attributes, parameters, buffers, hooks, running statistics."""

import copy

import gpugrad as gg
from gpugrad import nn

from .harness import leaf, model, normal, program


def batches(number):
    return (normal(4, 3, seed=number),)


@program
def training_and_evaluation(world):
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(0.5))
    world.watch(net, gg.random.default_generator)
    f = world.compile(lambda x: net(x).detach())
    world.play(f, batches, changes=[net.eval, net.train, net[1].eval, net[2].eval])


@program
def a_mode_that_the_function_sets(world):
    net = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.3))

    @world.compile
    def f(x):
        net.train(not net.training)
        return net(x).detach()

    world.watch(net)
    world.play(f, batches, changes=[net.eval, net.train])


@program
def running_statistics(world):
    norm = nn.BatchNorm1d(3)
    world.watch(norm)
    world.play(
        world.compile(lambda x: norm(x).detach()),
        lambda i: (normal(2 + i % 3, 3, seed=i),),
        changes=[
            lambda: norm.running_mean.__imul__(0),
            lambda: setattr(norm, "running_var", gg.ones(3) * 4),
            lambda: setattr(norm, "momentum", 0.5),
            lambda: setattr(norm, "eps", 0.1),
        ],
    )


@program
def a_buffer_that_is_rebound_inside(world):
    class Net(nn.Module):
        def __init__(self):
            self.register_buffer("mean", gg.zeros(3))

        def forward(self, x):
            self.mean = self.mean * 0.5 + x.mean(0)
            return x - self.mean

    net = Net()
    world.watch(net)
    world.play(
        world.compile(net),
        batches,
        changes=[
            lambda: setattr(net, "mean", normal(3, seed=5)),
            lambda: net.mean.__iadd__(1),
            lambda: net.load_state_dict({"mean": gg.ones(3)}),
        ],
    )


@program
def a_buffer_that_the_caller_kept(world):
    class Net(nn.Module):
        def __init__(self):
            self.register_buffer("total", gg.zeros(3))

        def forward(self, x):
            self.total += x
            return self.total * 2

    net = Net()
    kept = net.total
    world.watch(kept, net)
    world.play(
        world.compile(net),
        changes=[
            lambda: kept.__imul__(0),
            lambda: setattr(net, "total", gg.ones(3)),
            lambda: kept.__iadd__(100),
        ],
    )


@program
def parameters_that_are_replaced(world):
    net = nn.Linear(3, 2)

    def replace(seed, n=2):
        net.weight = nn.Parameter(normal(n, 3, seed=seed))
        net.bias = nn.Parameter(normal(n, seed=seed))

    replace(0)
    world.watch(net)

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    world.play(f, batches, changes=[lambda: replace(1), lambda: replace(2, 5), lambda: replace(3)])


@program
def a_parameter_that_becomes_none(world):
    net = model(3, 3)
    bias = net[0].bias
    world.play(
        world.compile(lambda x: net(x).detach()),
        batches,
        changes=[
            lambda: setattr(net[0], "bias", None),
            lambda: setattr(net[0], "bias", bias),
        ],
    )


@program
def parameters_whose_array_is_rebound(world):
    net = model(3, 3)

    def rebind(seed):
        net[0].weight.array = normal(3, 3, seed=seed).array

    def transpose():
        net[0].weight.array = net[0].weight.array.T

    world.watch(net)

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    world.play(f, batches, changes=[lambda: rebind(7), transpose, lambda: rebind(8)])


@program
def parameters_that_become_shared(world):
    net = model(3, 3, 3)
    other = net[1].weight

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    world.watch(net, other)
    world.play(
        f,
        batches,
        changes=[
            lambda: setattr(net[1], "weight", net[0].weight),
            lambda: setattr(net[1], "weight", other),
        ],
    )


@program
def arrays_that_become_shared(world):
    a, b = leaf(3, seed=1), leaf(3, seed=2)

    @world.compile
    def f(x):
        a.grad = b.grad = None
        (a * b * x).sum().backward()
        with gg.no_grad():
            a.__isub__(a.grad * 0.1)
            b.__isub__(b.grad * 0.1)
        return a.detach() * 1

    def share():
        b.array = a.array

    def part():
        b.array = b.array.copy()

    world.watch(a, b)
    world.play(f, changes=[share, part])


@program
def weights_that_are_frozen_and_thawed(world):
    net = model(3, 4, 2)

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    world.watch(net)
    world.play(
        f,
        batches,
        changes=[
            lambda: net[0].requires_grad_(False),
            lambda: net[1].bias.requires_grad_(False),
            lambda: net.requires_grad_(True),
        ],
    )


@program
def layers_that_are_added_and_removed(world):
    net = model(3, 3, 3)

    def remove():
        del net[0]

    world.play(
        world.compile(lambda x: net(x).detach()),
        batches,
        changes=[
            lambda: net.append(nn.Tanh()),
            remove,
            lambda: net.insert(0, nn.ReLU()),
            lambda: net.__setitem__(0, nn.Sigmoid()),
        ],
    )


@program
def an_attribute_that_is_added(world):
    class Net(nn.Module):
        def forward(self, x):
            return x * self.gain if hasattr(self, "gain") else x

    net = Net()
    world.play(
        world.compile(net),
        changes=[
            lambda: setattr(net, "gain", 2.0),
            lambda: setattr(net, "gain", nn.Parameter(normal(3))),
            lambda: delattr(net, "gain"),
        ],
    )


@program
def an_attribute_written_through_vars(world):
    class Net(nn.Module):
        def __init__(self):
            self.k = 2.0

        def forward(self, x):
            return x * self.k

    net = Net()
    world.play(
        world.compile(net),
        changes=[lambda: vars(net).update(k=3.0), lambda: net.__dict__.__setitem__("k", 4.0)],
    )


@program
def an_attribute_that_is_counted_and_tested(world):
    class Net(nn.Module):
        def __init__(self):
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * 2 if self.calls % 3 == 0 else x * self.calls

    net = Net()
    world.watch(lambda: net.calls)
    world.play(world.compile(net), changes=[lambda: setattr(net, "calls", -1)], calls=9)


@program
def a_forward_of_one_module_is_replaced(world):
    net = model(3, 3)
    world.play(
        world.compile(lambda x: net[0].forward(x).detach()),
        batches,
        changes=[
            lambda: setattr(net[0], "forward", lambda x: x * 2),
            lambda: vars(net[0]).pop("forward"),
        ],
    )


@program
def a_forward_of_a_class_is_replaced(world):
    class Net(nn.Module):
        def forward(self, x):
            return x * 2

    net = Net()
    f = world.compile(lambda x: net.forward(x))
    world.play(f, changes=[lambda: setattr(Net, "forward", lambda self, x: x * 3)])


@program
def forward_hooks_that_come_and_go(world):
    net, log, handles = model(3, 3), [], []

    def hook(module, args, output):
        log.append(output.shape)
        return output * 2

    world.watch(log)
    world.play(
        world.compile(lambda x: net(x).detach()),
        batches,
        changes=[
            lambda: handles.append(net[0].register_forward_hook(hook)),
            lambda: handles.append(net[0].register_forward_pre_hook(lambda m, args: args[0] + 1)),
            lambda: handles.pop(0).remove(),
            lambda: handles.pop(0).remove(),
        ],
    )


@program
def forward_hooks_that_keep_activations(world):
    net, kept = model(3, 4, 2), {}
    for i, layer in enumerate(net):
        layer.register_forward_hook(lambda m, args, y, i=i: kept.update({i: y.detach()}))
    world.watch(kept)
    world.play(world.compile(lambda x: net(x).detach()), batches, changes=[kept.clear])


@program
def backward_hooks_that_log(world):
    net, log = model(3, 3), []
    net[0].register_full_backward_hook(lambda m, gx, gy: log.append(gy[0].detach()))

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 2).sum()
        y.backward()
        return y.detach()

    world.watch(net, log)
    world.play(f, batches, changes=[log.clear])


@program
def tensor_hooks_that_come_and_go(world):
    w, handles, table = leaf(3), [], {"k": 2.0}

    @world.compile
    def f(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad * 1

    world.watch(w)
    world.play(
        f,
        changes=[
            lambda: handles.append(w.register_hook(lambda g: g * table["k"])),
            lambda: table.update(k=5.0),
            lambda: handles.pop().remove(),
        ],
    )


@program
def tensor_hooks_that_count(world):
    w, log = leaf(3), []
    w.register_hook(lambda g: log.append(len(log)))

    @world.compile
    def f(x):
        w.grad = None
        (w * x).sum().backward()

    world.watch(w, log)
    world.play(f, changes=[log.clear])


@program
def hooks_after_accumulation_that_step(world):
    w, table = leaf(3), {"lr": 0.1}

    def step(p):
        p.detach().__isub__(p.grad * table["lr"])
        p.grad = None

    w.register_post_accumulate_grad_hook(step)

    @world.compile
    def f(x):
        y = (w * x).sum()
        y.backward()
        return y.detach()

    world.watch(w)
    world.play(f, changes=[lambda: table.update(lr=0.5), lambda: table.update(lr=0)])


@program
def hooks_on_results_inside(world):
    w, table = leaf(3), {"k": 2.0}

    @world.compile
    def f(x):
        w.grad = None
        y = w * x
        y.register_hook(lambda g: g * table["k"])
        (y * y).sum().backward()
        return w.grad

    world.watch(w)
    world.play(f, changes=[lambda: table.update(k=3.0)])


@program
def a_module_that_is_replaced_by_its_copy(world):
    class Holder:
        pass

    holder = Holder()
    holder.net = old = model(3, 3)

    def copied():
        holder.net = copy.deepcopy(holder.net)

    world.watch(old)
    world.play(
        world.compile(lambda x: holder.net(x).detach()),
        batches,
        changes=[copied, lambda: old[0].weight.detach().__imul__(5), copied],
    )


@program
def a_state_that_is_loaded(world):
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    net[0].weight.array[...] = normal(3, 3).array
    net[0].bias.array[...] = 0
    saved = {k: gg.tensor(v) for k, v in net.state_dict().items()}

    @world.compile
    def f(x):
        net.zero_grad()
        y = (net(x) ** 3).sum()
        y.backward()
        net[0].weight.detach().__isub__(net[0].weight.grad * 0.01)
        return y.detach()

    world.watch(net)
    world.play(f, batches, changes=[lambda: net.load_state_dict(saved)] * 2)


@program
def the_rate_of_dropout(world):
    drop = nn.Dropout(0.5)
    world.watch(gg.random.default_generator)
    world.play(
        world.compile(drop),
        changes=[
            lambda: setattr(drop, "p", 0.1),
            lambda: setattr(drop, "p", 0.0),
            lambda: setattr(drop, "p", 1.0),
            lambda: gg.manual_seed(5),
        ],
    )


@program
def modules_in_lists_and_dicts(world):
    nets = {"a": [model(3, 3)], "b": (model(3, 3, seed=5),)}
    which = ["a"]
    world.play(
        world.compile(lambda x: nets[which[0]][0](x).detach()),
        batches,
        changes=[
            lambda: which.__setitem__(0, "b"),
            lambda: nets["b"][0][0].weight.detach().__imul__(2),
            lambda: nets.update(b=[model(3, 3, seed=9)]),
        ],
    )


@program
def an_own_getattr_of_a_module(world):
    class Net(nn.Module):
        def __init__(self):
            self.table = {"k": 2.0}

        def __getattr__(self, name):
            if name in vars(self).get("table", ()):
                return self.table[name]
            return super().__getattr__(name)

        def forward(self, x):
            return x * self.k

    net = Net()
    world.play(
        world.compile(net),
        changes=[lambda: net.table.update(k=3.0), lambda: setattr(net, "k", 5.0)],
    )


@program
def the_names_of_parameters(world):
    net = model(3, 3)
    world.play(
        world.compile(lambda x: x * sum(len(name) for name, _ in net.named_parameters())),
        changes=[lambda: setattr(net, "extra", nn.Parameter(normal(2)))],
    )
