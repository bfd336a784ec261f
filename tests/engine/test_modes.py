"""no_grad, enable_grad, set_grad_enabled, inference_mode: in every form, nested, in threads and tasks."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import minitorch
from minitorch import Tensor, enable_grad, inference_mode, is_grad_enabled, no_grad, set_grad_enabled

SWITCHES = {
    "no_grad": (no_grad, False),
    "enable_grad": (enable_grad, True),
    "inference_mode": (inference_mode, False),
    "inference_mode(True)": (lambda: inference_mode(True), False),
    "inference_mode(False)": (lambda: inference_mode(False), True),
    "set_grad_enabled(False)": (lambda: set_grad_enabled(False), False),
    "set_grad_enabled(True)": (lambda: set_grad_enabled(True), True),
}
every_switch = pytest.mark.parametrize(("switch", "inside"), SWITCHES.values(), ids=SWITCHES)


@pytest.fixture(autouse=True, params=[True, False], ids=["recording", "not recording"])
def outside(request):
    """Every test runs inside both modes, and must leave the mode as it was."""
    with set_grad_enabled(request.param):
        yield request.param
        assert is_grad_enabled() is request.param


def records():
    return (Tensor([1.0], requires_grad=True) * 2).requires_grad


# --- forms --------------------------------------------------------------------------------------


@every_switch
def test_as_a_context_manager(switch, inside, outside):
    with switch():
        assert is_grad_enabled() is inside
        assert records() is inside
    assert is_grad_enabled() is outside


@every_switch
def test_as_a_decorator(switch, inside, outside):
    @switch()
    def f(a, *, b):
        """Documented."""
        return records(), a, b

    assert is_grad_enabled() is outside
    assert f(1, b=2) == (inside, 1, 2)
    assert is_grad_enabled() is outside
    assert f.__name__ == "f"
    assert f.__doc__ == "Documented."


@pytest.mark.parametrize(("bare", "inside"), [(no_grad, False), (enable_grad, True), (inference_mode, False)])
def test_as_a_bare_decorator(bare, inside):
    @bare
    def f(a):
        return records(), a

    assert f(3) == (inside, 3)
    assert f.__name__ == "f"


def test_on_a_method():
    class Model:
        @no_grad()
        def predict(self, x):
            return (x * 2).requires_grad

        @staticmethod
        @no_grad
        def static(x):
            return (x * 2).requires_grad

    x = Tensor([1.0], requires_grad=True)
    assert Model().predict(x) is False
    assert Model.static(x) is False


def test_set_grad_enabled_as_a_function(outside):
    set_grad_enabled(not outside)
    assert is_grad_enabled() is not outside
    set_grad_enabled(outside)


def test_set_grad_enabled_restores_what_was_before_the_call(outside):
    with set_grad_enabled(False), set_grad_enabled(True):
        assert is_grad_enabled()
    assert is_grad_enabled() is outside


def test_set_grad_enabled_as_a_decorator_acts_on_the_function_alone(outside):
    @set_grad_enabled(not outside)
    def f():
        return is_grad_enabled()

    assert is_grad_enabled() is outside
    assert f() is not outside


def test_set_grad_enabled_inside_a_block_ends_with_the_block(outside):
    with no_grad():
        set_grad_enabled(True)
        assert is_grad_enabled()
    assert is_grad_enabled() is outside


@pytest.mark.parametrize(
    ("switch", "inside"), [(no_grad, False), (enable_grad, True), (inference_mode, False)]
)
def test_one_switch_can_be_used_again_and_inside_itself(switch, inside, outside):
    one = switch()
    for _ in range(2):
        with one:
            with one:
                assert is_grad_enabled() is inside
            assert is_grad_enabled() is inside
        assert is_grad_enabled() is outside


# --- nesting and failures -----------------------------------------------------------------------


def test_nested(outside):
    seen = []
    with no_grad():
        seen.append(is_grad_enabled())
        with enable_grad():
            seen.append(is_grad_enabled())
            with inference_mode():
                seen.append(is_grad_enabled())
            seen.append(is_grad_enabled())
        seen.append(is_grad_enabled())
    assert seen == [False, True, False, True, False]


@every_switch
def test_an_exception_ends_the_block(switch, inside, outside):
    with pytest.raises(KeyError), switch():
        raise KeyError
    assert is_grad_enabled() is outside

    @switch()
    def f():
        raise KeyError

    with pytest.raises(KeyError):
        f()
    assert is_grad_enabled() is outside


def test_blocks_that_end_out_of_order_end_where_they_began(outside):
    # A generator that is suspended inside its own `with` leaks its mode; it must not stay for ever.
    def leaky():
        with no_grad():
            yield

    generator = leaky()
    next(generator)
    with enable_grad():
        next(generator, None)
    assert is_grad_enabled() is outside


# --- generators ---------------------------------------------------------------------------------


@every_switch
def test_a_generator_runs_inside_and_its_caller_outside(switch, inside, outside):
    @switch()
    def generate():
        seen = []
        for i in range(3):
            seen.append(is_grad_enabled())
            got = yield i
            seen.append((is_grad_enabled(), got))
        return seen

    generator = generate()
    got = [next(generator)]
    for word in ("a", "b"):
        assert is_grad_enabled() is outside
        got.append(generator.send(word))
    assert got == [0, 1, 2]
    with pytest.raises(StopIteration) as stop:
        generator.send("c")
    assert stop.value.value == [inside, (inside, "a"), inside, (inside, "b"), inside, (inside, "c")]
    assert is_grad_enabled() is outside


def test_a_generator_gets_what_is_thrown_into_it(outside):
    seen = []

    @no_grad()
    def generate():
        try:
            yield 1
        except ValueError:
            seen.append(is_grad_enabled())
        try:
            yield 2
        finally:
            seen.append(is_grad_enabled())

    generator = generate()
    assert next(generator) == 1
    assert generator.throw(ValueError()) == 2
    assert is_grad_enabled() is outside
    generator.close()
    assert seen == [False, False]
    assert is_grad_enabled() is outside
    with pytest.raises(StopIteration):
        next(generator)


def test_a_generators_own_exception_comes_out(outside):
    @no_grad()
    def generate():
        yield 1
        raise KeyError

    generator = generate()
    next(generator)
    with pytest.raises(KeyError):
        next(generator)
    assert is_grad_enabled() is outside


# --- async --------------------------------------------------------------------------------------


@every_switch
def test_a_coroutine_runs_inside(switch, inside, outside):
    @switch()
    async def work():
        before = is_grad_enabled()
        await asyncio.sleep(0)
        return before, is_grad_enabled()

    async def main():
        first = is_grad_enabled()
        seen = await work()
        return first, seen, is_grad_enabled()

    assert asyncio.run(main()) == (outside, (inside, inside), outside)


def test_tasks_do_not_see_each_others_mode():
    async def quiet(steps):
        with no_grad():
            for _ in range(5):
                steps.append(("quiet", is_grad_enabled()))
                await asyncio.sleep(0)

    async def loud(steps):
        with enable_grad():
            for _ in range(5):
                steps.append(("loud", is_grad_enabled()))
                await asyncio.sleep(0)

    async def main():
        steps = []
        await asyncio.gather(quiet(steps), loud(steps), quiet(steps))
        return steps

    steps = asyncio.run(main())
    assert len(steps) == 15
    assert {name for name, _ in steps[:3]} == {"quiet", "loud"}  # they did take turns
    assert all(enabled is (name == "loud") for name, enabled in steps)


def test_a_task_inherits_the_mode_it_was_started_in():
    async def look():
        await asyncio.sleep(0)
        return is_grad_enabled()

    async def main():
        with no_grad():
            started_inside = asyncio.create_task(look())
        with enable_grad():
            started_outside = asyncio.create_task(look())
        return await started_inside, await started_outside

    assert asyncio.run(main()) == (False, True)


@every_switch
def test_an_async_generator_runs_inside_and_its_caller_outside(switch, inside, outside):
    @switch()
    async def generate():
        try:
            for i in range(3):
                await asyncio.sleep(0)
                yield i, is_grad_enabled()
        except KeyError:
            yield "caught", is_grad_enabled()

    async def main():
        seen = [(*pair, is_grad_enabled()) async for pair in generate()]
        generator = generate()
        await generator.asend(None)
        seen.append((*await generator.athrow(KeyError()), is_grad_enabled()))
        await generator.aclose()
        generator = generate()
        await generator.asend(None)
        await generator.aclose()
        return seen, is_grad_enabled()

    seen, after = asyncio.run(main())
    assert seen == [*((i, inside, outside) for i in range(3)), ("caught", inside, outside)]
    assert after is outside


def test_an_async_generators_own_exception_comes_out(outside):
    @no_grad
    async def generate():
        yield 1
        raise KeyError

    async def main():
        async for _ in generate():
            pass

    with pytest.raises(KeyError):
        asyncio.run(main())
    assert is_grad_enabled() is outside


# --- threads ------------------------------------------------------------------------------------


def test_a_thread_has_its_own_mode():
    entered, looked = threading.Event(), threading.Event()
    seen = {}

    def quiet():
        with no_grad():
            entered.set()
            looked.wait(10)
            seen["quiet"] = is_grad_enabled()

    thread = threading.Thread(target=quiet)
    thread.start()
    entered.wait(10)
    with enable_grad():
        seen["main"] = is_grad_enabled()
    looked.set()
    thread.join()
    assert seen == {"main": True, "quiet": False}


def test_one_switch_in_two_threads_at_once():
    """A switch object holds no state: who enters first need not leave first."""
    switch, found = no_grad(), {}
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first():
        with set_grad_enabled(True):
            with switch:
                first_in.set()
                second_in.wait(10)
            found["first"] = is_grad_enabled()
        first_out.set()

    def second():
        first_in.wait(10)
        with set_grad_enabled(False):
            with switch:
                second_in.set()
                first_out.wait(10)
            found["second"] = is_grad_enabled()

    threads = [threading.Thread(target=t) for t in (first, second)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {"first": True, "second": False}


def test_one_decorated_function_in_many_threads():
    barrier = threading.Barrier(4)

    @no_grad()
    def work():
        barrier.wait(10)
        return is_grad_enabled()

    def run(_):
        inside = work()
        return inside, is_grad_enabled()

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(run, range(4))) == [(False, True)] * 4


# --- what is not recorded -----------------------------------------------------------------------


def test_what_was_recorded_stays_recorded(outside):
    with enable_grad():
        x = Tensor([2.0], requires_grad=True)
        y = (x * x).sum()
    with no_grad():
        z = y * 3
        y.backward()
    assert x.grad.tolist() == [4.0]
    assert z.requires_grad is False


def test_leaves_keep_their_flag_in_no_grad():
    with no_grad():
        x = Tensor([1.0], requires_grad=True)
        assert x.requires_grad
        assert minitorch.zeros(2, requires_grad=True).requires_grad
        for out in (x * 2, x.split(1)[0], x.sort().values, x.clone(), np.exp(x), x.float()):
            assert out.requires_grad is False or out is x


def test_a_block_left_in_another_context_leaves_a_mode_behind(outside):
    import contextvars

    switch = no_grad()
    contextvars.copy_context().run(switch.__enter__)
    contextvars.Context().run(switch.__exit__, None, None, None)
    assert contextvars.Context().run(is_grad_enabled) is True
    assert is_grad_enabled() is outside
