"""Programs written by hand to break compiled functions: what was found, each as a few lines."""

import functools
import warnings
from contextlib import nullcontext

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from scenarios import both, plain


class Box:
    pass


def test_gradients_are_filled_with_zeros_in_their_own_memory(compile):
    def scenario(compile):
        layer, flat = nn.Linear(3, 2), mt.zeros(8)
        optimizer = optim.Adam(layer.parameters(), lr=0.01)

        @compile
        def step(x):
            layer(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)

        found = []
        for i in range(5):
            if i == 2:
                layer.weight.grad, layer.bias.grad = flat[:6].view(2, 3), flat[6:]
            flat.fill_(0.5)
            held = layer.weight.grad
            step(mt.ones(4, 3) * 0.1 * i)
            found += [flat.clone(), held is layer.weight.grad]
        return found, list(layer.parameters())

    both(scenario, compile)


def test_a_learning_rate_that_is_numpys(compile):
    def scenario(compile):
        w = mt.ones(3, requires_grad=True)
        optimizer = optim.SGD([w], lr=np.float64(0.1))

        @compile
        def step(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()

        for i in range(5):
            optimizer.param_groups[0]["lr"] = np.float64(0.1) / (i + 1)
            step(mt.ones(3))
        if compile is not plain:
            assert step.compilations == 1
        return w

    both(scenario, compile)


def test_a_learning_rate_that_is_numpys_is_read(compile):
    def scenario(compile):
        w = mt.ones(3, requires_grad=True)
        optimizer = optim.SGD([w], lr=np.float64(0.1))

        @compile
        def step(x):
            (w * x).sum().backward()
            optimizer.step()
            return optimizer.param_groups[0]["lr"]

        return [type(step(mt.ones(3))) for _ in range(3)], w

    both(scenario, compile, refused="NumPy scalar; make it a float")


def test_methods_of_what_data_has_handed_out(compile):
    def scenario(compile):
        w = mt.arange(4.0, requires_grad=True)
        part, box = w.data[1:3], Box()

        @compile
        def f(x):
            box.held = part
            return x.sum() + part.sum(), part.norm() * x, (part * 2).clamp(0, 3), part.mean(dim=0) + x, part

        found = []
        for i in range(4):
            results = f(mt.ones(4) * i)
            found += [results, [type(each) for each in results], results[-1] is part, box.held is part]
            part.add_(1)
        return found

    both(scenario, compile)


def test_an_array_from_outside_is_returned_and_stored_itself(compile):
    def scenario(compile):
        a, box = np.arange(3.0), Box()

        @compile
        def f(x, given, several):
            box.a, box.given = a, given
            given[0] += 1
            return x + mt.tensor(a).sum(), a, given, several["b"], (given, [a])

        found = []
        for i in range(4):
            given, several = np.arange(3.0) + i, {"b": np.ones(2) * i}
            _, first, second, third, (fourth, (fifth,)) = results = f(mt.ones(2), given, several)
            assert first is a is fifth is box.a
            assert second is given is fourth is box.given
            assert third is several["b"]
            a[0] = i
            found.append(results)
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


@pytest.mark.parametrize("what", ["gradient", "data"])
def test_what_a_tensor_hands_out_is_the_same_for_everybody(compile, what):
    def scenario(compile):
        w = mt.ones(3, requires_grad=True)

        @compile
        def f(x):
            (w * x).sum().backward()
            return w.grad if what == "gradient" else w.data

        found = []
        for i in range(4):
            held = w.data
            result = f(mt.ones(3) * i)
            found.append(result is (w.grad if what == "gradient" else held))
            result[0] = 7
            found += [w.grad.copy(), w.data.copy()]
        return found

    both(scenario, compile)


@pytest.mark.filterwarnings("ignore:big:DeprecationWarning")
def test_a_warning_becomes_an_error(compile):
    def scenario(compile):
        w = mt.zeros(2)

        @compile
        def f(x):
            warnings.warn("big", DeprecationWarning, stacklevel=1)
            w.add_(x)

        for i in range(6):
            with warnings.catch_warnings():
                if i in (3, 4):
                    warnings.simplefilter("error", DeprecationWarning)
                with pytest.raises(DeprecationWarning) if i in (3, 4) else nullcontext():
                    f(mt.ones(2))
        return w

    both(scenario, compile, refused="where a warning may be an error")


def test_the_methods_of_an_autograd_function_are_replaced(compile):
    def scenario(compile):
        class Base(mt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 3

        class Derived(Base):
            pass

        w = mt.ones(3, requires_grad=True)

        @compile
        def f(x):
            w.grad = None
            Derived.apply(w * x).sum().backward()
            return w.grad.clone(), Derived.apply(x)

        found = [f(mt.ones(3)) for _ in range(3)]
        Base.backward = staticmethod(lambda ctx, g: g * 0.5)
        found += [f(mt.ones(3)) for _ in range(3)]
        Derived.forward = staticmethod(lambda ctx, x: x * 7)
        return found + [f(mt.ones(3)) for _ in range(3)]

    both(scenario, compile)


def test_whether_something_can_be_called(compile):
    def scenario(compile):
        class Scale:
            pass

        scale = Scale()

        @compile
        def f(x):
            return scale(x) if callable(scale) else x

        found = [f(mt.ones(2)) for _ in range(3)]
        Scale.__call__ = lambda self, x: x * 2
        return found + [f(mt.ones(2)) for _ in range(3)]

    both(scenario, compile)


def test_a_result_is_stored_without_its_graph(compile):
    def scenario(compile):
        layer, box = nn.Linear(3, 2), Box()
        layer.register_forward_hook(lambda layer, args, out: setattr(box, "seen", out.detach()))

        @compile
        def f(x):
            box.last = layer(x)
            box.first = box.last[0].detach()
            return box.last

        found = []
        for i in range(4):
            y = f(mt.ones(2, 3) * i)
            box.seen[0] = 7
            found += [y is box.last, y.detach().clone(), box.first.clone(), box.seen.requires_grad]
            y.square().sum().backward()
            found.append(layer.weight.grad.copy())
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


@pytest.mark.parametrize("activation", [nn.Identity, nn.Tanh, nn.ReLU])
def test_a_result_is_written_into_before_backward(compile, activation):
    def scenario(compile):
        layer = nn.Linear(3, 2)
        model = nn.Sequential(layer, activation())
        run, found = compile(model), []
        for i in range(4):
            layer.zero_grad()
            y = run(mt.ones(4, 3) * i)
            y /= 2
            y[0] = 0
            try:
                y.square().sum().backward()
                found.append(layer.weight.grad.copy())
            except RuntimeError:
                found.append("its derivative needs the values of then")
        return found

    both(scenario, compile)


def test_an_optimiser_of_ones_own(compile):
    class Fading(optim.Optimizer):
        def __init__(self, parameters, lr):
            super().__init__(parameters, {"lr": lr, "beta": 0.9})

        @mt.no_grad()
        def step(self):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["step"], state["average"] = 0, mt.zeros_like(p)
                    state["step"] += 1
                    state["average"].mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                    p.add_(state["average"], alpha=-group["lr"] / (1 - group["beta"] ** state["step"]))

    def scenario(compile):
        layer = nn.Linear(3, 2)
        optimizer = Fading(layer.parameters(), lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()

        for i in range(8):
            step(mt.ones(4, 3) * i)
            if i == 2:
                optimizer.param_groups[0]["lr"] = 0.01
            if i == 4:
                optimizer.state.clear()
        if compile is not plain:
            assert step.compilations
        return list(layer.parameters()), [list(state.values()) for state in optimizer.state.values()]

    both(scenario, compile)


def test_a_number_that_the_first_call_leaves_as_it_is(compile):
    def scenario(compile):
        mean = [0.0]

        @compile
        def f(x):
            mean[0] = 0.9 * mean[0] + 0.1 * x.sum().item()
            return x - mean[0]

        found = [f(mt.ones(2) * i) for i in range(6)]
        if compile is not plain:
            assert f.compilations == 2
        return found, mean

    both(scenario, compile)


def test_counters_of_a_class(compile):
    def scenario(compile):
        class Base:
            scale = 0.5

        class Counter(Base):
            steps, mean = 0, 0.0

            @classmethod
            def step(cls, x):
                cls.steps += 1
                cls.mean = 0.9 * cls.mean + 0.1 * x.sum().item()
                return x * cls.steps + cls.mean + cls().scale

        step, found = compile(Counter.step), []
        for i in range(8):
            found.append(step(mt.ones(2) * (i + 1)))
            if i == 4:
                Base.scale = 0.25
            if i == 5:
                Counter.steps = 0
        if compile is not plain:
            assert step.compilations == 2
        return found, Counter.steps, Counter.mean

    both(scenario, compile)


def test_a_function_that_layers_call_is_replaced(compile, monkeypatch):
    def scenario(compile):
        model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
        run, x = compile(model), mt.ones(4, 3)
        found = [run(x) for _ in range(3)]
        with monkeypatch.context() as patch:
            patch.setattr(nn.functional, "linear", lambda x, weight, bias: x[:, :2] - 1)
            found += [run(x) for _ in range(2)]
        return [*found, run(x)]

    both(scenario, compile, refused="cannot be observed")


def test_a_tensor_that_a_function_remembers(compile):
    def scenario(compile):
        @functools.cache
        def positions(length):
            return mt.arange(float(length)), [mt.ones(length)]

        @compile
        def f(x):
            one, (other,) = positions(3)
            return x + one * other

        found = [f(mt.ones(3)) for _ in range(3)]
        positions(3)[0].add_(1)
        found += [f(mt.ones(3)) for _ in range(2)]
        positions(3)[1][0] = mt.zeros(3)
        return found + [f(mt.ones(3)) for _ in range(2)]

    both(scenario, compile)


def test_a_number_that_changes_beside_complex_numbers(compile):
    def scenario(compile):
        @compile
        def f(x, k):
            return x * (1 + 2j) + k, k - x.to(mt.complex64)

        return [f(mt.ones(2), 0.5 * i) for i in range(5)]

    both(scenario, compile)


@pytest.mark.parametrize("ask", [id, hash])
def test_the_id_of_a_tensor_made_inside(compile, ask):
    held = []  # so that each has an address of its own

    def scenario(compile):
        @compile
        def f(x):
            y = x * 2
            return y, ask(y)

        held.extend(f(mt.ones(2)) for _ in range(4))
        return [number == ask(y) for y, number in held[-4:]]

    both(scenario, compile, refused="the id of something that is another one at each call")
