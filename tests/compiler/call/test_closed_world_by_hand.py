"""Programs written by hand to break compiled functions: what was found, each as a few lines."""

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
