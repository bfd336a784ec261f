"""The checks of the labs that use an engine: proofs, training, exercises. Enters: a `Practice`. Leaves: nothing, or a
`Mistake`.

Where the subject is the learner's second file and not the engine, it is given the one-file engine, so that a mistake in
tensor.py does not show up here under another name.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.course import broken
from minitorch.course import tensor as reference
from minitorch.course.examine import close
from minitorch.course.findings import Mistake, Skipped, describe, show, where
from minitorch.testing.fields import backward, gradcheck


class Practice:
    """A learner's second file, and the engine to train with: their own."""

    def __init__(self, module: Any, engine: Any = reference) -> None:
        self.module, self.engine = module, engine

    def get(self, name: str) -> Any:
        """Return a function or class of theirs."""
        found = getattr(self.module, name, None)
        if found is None:
            raise Mistake("not-written", what=name)
        return found

    def call(self, name: str, *arguments: Any, program: str = "", **options: Any) -> Any:
        """Call a function of theirs; an exception becomes a mistake."""
        return self.guard(lambda: self.get(name)(*arguments, **options), program or f"{name}(…)")

    def guard(self, action: Callable[[], Any], program: str) -> Any:
        """Run something of theirs; an exception becomes a mistake."""
        try:
            return action()
        except NotImplementedError as error:
            raise Mistake("not-written", what=str(error) or program) from error
        except (Mistake, Skipped):
            raise
        except Exception as error:
            raise Mistake(
                "practice-crash", program=program, error=describe(error), line=where(error, self.module)
            ) from error


Tensor = reference.Tensor


def leaf(array: Any) -> Any:
    """Return a tensor of the one-file engine that requires grad."""
    return Tensor(np.array(array), requires_grad=True)


# --- gradcheck ----------------------------------------------------------------------------------------------


def _wrong(x: Any, data: Any, slope: Any) -> Any:
    """An operation whose gradient is what somebody says."""
    out = reference.result(data, (x,), "wrong")
    return out._records(lambda: x._accumulate(out.grad * slope))


def gradcheck_accepts(p: Practice) -> None:
    """Right derivatives pass, whatever an earlier backward has left."""
    cases: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("lambda x: x * x", lambda x: x * x, [[2.0]]),
        ("lambda x: x.exp()", lambda x: x.exp(), [[0.5, -1.0]]),
        ("lambda x, y: x * y + y", lambda x, y: x * y + y, [[1.0, 2.0], [3.0, -1.0]]),
        ("lambda x: (x ** 4) * 10.0", lambda x: (x**4) * 10.0, [[3.0]]),
        ("lambda x, y: x @ y", lambda x, y: x @ y, [[[1.0, 2.0]], [[3.0], [4.0]]]),
    ]
    for program, f, arrays in cases:
        inputs = [leaf(a) for a in arrays]
        before = [x.data.copy() for x in inputs]
        facts = {"program": f"gradcheck({program}, inputs)", "inputs": "; ".join(show(a) for a in before)}
        if not p.call("gradcheck", f, inputs, program=facts["program"]):
            raise Mistake("gradcheck-false-alarm", **facts, expected="True", got="False")
        if not all(np.array_equal(x.data, b) for x, b in zip(inputs, before, strict=True)):
            raise Mistake(
                "gradcheck-changes-input", **facts, expected=show(before[0]), got=show(inputs[0].data)
            )
        if not p.call("gradcheck", f, inputs, program=facts["program"]):
            raise Mistake("gradcheck-old-gradients", **facts, expected="True", got="False")


def gradcheck_rejects(p: Practice) -> None:
    """Wrong derivatives are noticed: everywhere, in one element, in the second input, when absent."""
    cases: list[tuple[str, Callable[..., Any], list[Any]]] = [
        ("∂x² = −2x", lambda x: _wrong(x, x.data**2, -2 * x.data), [[1.0, 2.0]]),
        ("∂x² = 2.01·x", lambda x: _wrong(x, x.data**2, 2.01 * x.data), [[1.0, 2.0]]),
        (
            "∂x² = (2·x₀, 2·x₁, 0)",
            lambda x: _wrong(x, x.data**2, 2 * x.data * (np.arange(3) < 2)),
            [[1.0, 2.0, 3.0]],
        ),
        ("∂(x·y)/∂y = 2·x", lambda x, y: x * _wrong(y, y.data, 2.0), [[1.0], [2.0]]),
        ("∂x² = x", lambda x: x * x.detach(), [[1.0, 2.0]]),
        ("∂(x·y)/∂y = None", lambda x, y: x * y.detach(), [[1.0], [2.0]]),
        ("∂x² = 0", lambda x: _wrong(x, x.data**2, 0.0 * x.data), [[1.0]]),
    ]
    for what, f, arrays in cases:
        facts = {"program": "gradcheck(f, inputs)", "inputs": "; ".join(show(np.array(a)) for a in arrays)}
        try:
            verdict = p.get("gradcheck")(f, [leaf(a) for a in arrays])
        except AssertionError:
            verdict = False  # to refuse by an exception is as good
        except NotImplementedError as error:
            raise Mistake("not-written", what="gradcheck") from error
        except Exception as error:
            raise Mistake(
                "practice-crash", **facts, error=describe(error), line=where(error, p.module)
            ) from error
        if verdict:
            raise Mistake("gradcheck-blind", **facts, what=what, expected="False", got="True")


# --- properties ---------------------------------------------------------------------------------------------


def property_accepts(p: Practice) -> None:
    """A right engine passes."""
    function = p.get("property_check")
    try:
        function(reference)
    except NotImplementedError as error:
        raise Mistake("not-written", what="property_check") from error
    except ImportError as error:
        raise Skipped(error.name or "hypothesis") from error
    except Exception as error:
        raise Mistake(
            "property-false-alarm",
            program="property_check(library)",
            error=describe(error),
            line=where(error, p.module),
        ) from error


def property_rejects(p: Practice) -> None:
    """The four bugs are found."""
    function = p.get("property_check")
    for name, engine in broken.engines().items():
        try:
            function(engine)
        except NotImplementedError as error:
            raise Mistake("not-written", what="property_check") from error
        except ImportError as error:
            raise Skipped(error.name or "hypothesis") from error
        except Exception:  # an engine with a bug may fail in any way
            continue
        raise Mistake(
            "property-blind", program="property_check(library)", what=name, expected="AssertionError", got="–"
        )


# --- training -----------------------------------------------------------------------------------------------


def network(p: Practice) -> None:
    """An MLP has the right shapes, all its parameters, and gradients for each."""
    model = p.call("MLP", p.engine, (2, 8, 1))
    facts = {"program": "MLP(library, (2, 8, 1))"}
    parameters = p.guard(lambda: list(model.parameters()), "model.parameters()")
    shapes = sorted(np.shape(q.data) for q in parameters)
    count = sum(np.size(q.data) for q in parameters)
    if count != 2 * 8 + 8 + 8 + 1:
        raise Mistake("parameters-missing", **facts, expected="33", got=f"{count}: {shapes}")
    if not all(q.requires_grad for q in parameters):
        raise Mistake("parameters-constant", **facts, expected="True", got="False")
    weights = [q.data for q in parameters if np.size(q.data) == 16]
    if weights and np.ptp(weights[0]) == 0:
        raise Mistake("weights-all-equal", **facts, got=show(weights[0].reshape(-1)[:4]))
    x = p.engine.Tensor(np.array([[0, 0], [0, 1], [1, 0]], np.float32))
    out = p.guard(lambda: model(x), "model(x)")
    if np.shape(out.data) != (3, 1):
        raise Mistake(
            "wrong-shape",
            program="model(x)",
            inputs="x: (3, 2)",
            expected="(3, 1)",
            got=str(np.shape(out.data)),
        )
    nonlinear = p.guard(
        lambda: model(p.engine.Tensor(np.array([[-5, -5], [5, 5], [0, 0]], np.float32))), "model(x)"
    )
    a, b, c = np.asarray(nonlinear.data)[:, 0]
    if abs(a + b - 2 * c) < 1e-5:
        raise Mistake("no-nonlinearity", **facts, inputs="f(-x) + f(x) - 2·f(0)", expected="≠ 0", got="0")
    p.guard(lambda: (out * out).mean().backward(), "(out * out).mean().backward()")
    without = [q for q in parameters if q.grad is None]
    if without:
        raise Mistake("no-gradient", **facts, what=", ".join(str(np.shape(q.data)) for q in without))


def xor(p: Practice) -> None:
    """The four answers."""
    answers = np.asarray(p.call("train_xor", p.engine, program="train_xor(library)"))
    wanted = np.array([[0.0], [1.0], [1.0], [0.0]])
    if answers.shape != (4, 1):
        raise Mistake("wrong-shape", program="train_xor(library)", expected="(4, 1)", got=str(answers.shape))
    if not np.allclose(answers, wanted, atol=0.2):
        flat = np.ptp(answers) < 0.2
        raise Mistake(
            "learned-nothing" if flat else "xor-not-learned", program="train_xor(library)", expected=show(wanted[:, 0]),
            got=show(answers[:, 0]),
        )  # fmt: skip


def cards() -> tuple[np.ndarray, np.ndarray]:
    """Return 60 cards of the grammar grid: verb and person as 23 zeros and ones, and a tense of five."""
    questions = np.zeros((60, 23), np.float32)
    card = np.arange(60)
    questions[card, card // 3] = questions[card, 20 + card % 3] = 1
    return questions, np.random.default_rng(0).integers(0, 5, 60)


def grammar(p: Practice) -> None:
    """60 cards known by heart."""
    questions, tenses = cards()
    program = "train_classifier(library, questions, tenses, (23, 64, 5), 400, 0.5)"
    model = p.call("train_classifier", p.engine, questions, tenses, (23, 64, 5), 400, 0.5, program=program)
    _accuracy(p, model, questions, tenses, 0.9, program)


def _accuracy(
    p: Practice, model: Any, inputs: np.ndarray, classes: np.ndarray, least: float, program: str
) -> None:
    logits = p.guard(lambda: np.asarray(model(p.engine.Tensor(inputs)).data), "model(x)")
    if logits.shape != (len(inputs), int(classes.max()) + 1):
        raise Mistake(
            "wrong-shape", program="model(x)", expected=str((len(inputs), 5)), got=str(logits.shape)
        )
    share = float((logits.argmax(axis=1) == classes).mean())
    if share < least:
        chance = 1.3 / (classes.max() + 1)
        name = "learned-nothing" if share < chance else "learned-too-little"
        raise Mistake(name, program=program, expected=f"≥ {least:.0%}", got=f"{share:.0%}")


def steps(p: Practice) -> None:
    """Two steps on x² from 1 with rate 0.1: 0.8, then 0.64."""
    x = leaf(np.array(1.0))
    losses = [p.call("train_step", lambda: x * x, [x], 0.1) for _ in range(2)]
    facts = {"program": "train_step(lambda: x * x, [x], 0.1) × 2", "inputs": "x = 1.0"}
    got = float(np.asarray(x.data))
    if not close(got, 0.64, 1e-6):
        known = {"gradients-not-zeroed": 0.8 - 0.1 * (2 + 1.6), "uphill": 1.2 * 1.2, "no-update": 1.0}
        name = next((n for n, value in known.items() if close(got, value, 1e-6)), "wrong-update")
        if name == "no-update" and x.grad is not None and not np.any(x.grad):
            name = "zeroed-too-late"
        raise Mistake(name, **facts, expected="x.data = 0.64", got=f"x.data = {got:.6g}")
    if losses[0] is None or not close(float(np.asarray(losses[0])), 1.0, 1e-6):
        raise Mistake("loss-not-returned", **facts, expected="1.0", got=show(losses[0]))
    y = leaf(np.array([1.0, 2.0]))
    (y * y).sum().backward()
    p.call("zero_grad", [y])
    if y.grad is not None and np.any(y.grad):
        raise Mistake(
            "gradients-not-zeroed", program="zero_grad([y])", expected="None", got=f"y.grad = {show(y.grad)}"
        )


@functools.cache
def digits() -> tuple[np.ndarray, np.ndarray]:
    """Return scikit-learn's 1,797 digits as rows of 64 numbers between 0 and 1, and their names."""
    if importlib.util.find_spec("sklearn") is None:
        raise Skipped("scikit-learn")
    loaded = importlib.import_module("sklearn.datasets").load_digits()
    return (loaded.data / 16).astype(np.float32), loaded.target


def reads_digits(p: Practice) -> None:
    """1,400 digits to learn from, the others to be read."""
    images, names = digits()
    program = "train_classifier(library, images, digits, (64, 64, 10), 500, 0.3)"
    model = p.call(
        "train_classifier", p.engine, images[:1400], names[:1400], (64, 64, 10), 500, 0.3, program=program
    )
    _accuracy(p, model, images[1400:], names[1400:], 0.88, program)


# --- exercises ----------------------------------------------------------------------------------------------


def convolution(p: Practice) -> None:
    """Values by their definition, gradients by differences."""
    rng = np.random.default_rng(0)
    for size, kernel in (
        ((1, 1, 2, 2), (1, 1, 1, 1)),
        ((1, 1, 3, 3), (1, 1, 2, 2)),
        ((2, 3, 4, 5), (2, 3, 2, 3)),
    ):
        x, k = rng.integers(-3, 4, size).astype(float), rng.integers(-3, 4, kernel).astype(float)
        facts = {"program": "conv2d(images, kernels)", "inputs": f"images = {show(x)}; kernels = {show(k)}"}
        out = p.call("conv2d", leaf(x), leaf(k), program=facts["program"])
        want, got = _correlate(x, k), np.asarray(out.data)
        if not close(got, want):
            facts |= {"expected": show(want), "got": show(got)}
            if close(got, _correlate(x, k[:, :, ::-1, ::-1])):
                raise Mistake("kernel-flipped", **facts)
            if close(got, _correlate(x, k.swapaxes(2, 3))) if kernel[2] == kernel[3] else False:
                raise Mistake("kernel-transposed", **facts)
            raise Mistake("wrong-shape" if got.shape != want.shape else "wrong-value", **facts)
        if not gradcheck(functools.partial(p.call, "conv2d"), (leaf(x), leaf(k)), raise_exception=False):
            images = leaf(x)
            backward(p.get("conv2d")(images, leaf(k)), np.ones(want.shape))
            # A pixel in two windows whose gradients overwrite each other has that of one.
            single = kernel[2:] == (1, 1)
            right = leaf(x)
            backward(_by_windows(right, k), np.ones(want.shape))
            wrong = images.grad is not None and not close(images.grad, right.grad)
            raise Mistake("overlaps-lost" if wrong and not single else "wrong-derivative", **facts)


def _by_windows(images: Any, k: np.ndarray) -> Any:
    """The right result, as a sum of shifted images: for comparison."""
    h, w = k.shape[2:]
    rows, columns = images.shape[2] - h + 1, images.shape[3] - w + 1
    pieces = [
        images[:, :, i : i + rows, j : j + columns].transpose(0, 2, 3, 1) @ Tensor(k[:, :, i, j].T)
        for i in range(h)
        for j in range(w)
    ]
    return reference.stack(pieces).sum(axis=0).transpose(0, 3, 1, 2)


def _correlate(x: np.ndarray, k: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, k.shape[2:], axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, k)


def adam(p: Practice) -> None:
    """Three steps, number by number."""
    gradients = [np.array([1.0, -2.0]), np.array([0.5, 4.0]), np.array([-1.0, 0.1])]
    x = leaf([1.0, 2.0])
    optimiser = p.call("Adam", [x], lr=0.1, eps=0.1, program="Adam([x], lr=0.1, eps=0.1)")
    seen = []
    for g in gradients:
        x.grad = g.copy()
        p.guard(optimiser.step, "Adam.step()")
        seen.append(np.array(x.data))
    facts = {
        "program": "Adam([x], lr=0.1, eps=0.1); step() × 3",
        "inputs": "x = [1., 2.]; x.grad = [1., -2.], [0.5, 4.], [-1., 0.1]",
    }
    for mistake, options in (
        ("", {}),
        ("adam-no-bias-correction", {"correct": False}),
        ("adam-epsilon-inside", {"inside": True}),
        ("adam-betas-swapped", {"betas": (0.999, 0.9)}),
        ("uphill", {"sign": 1.0}),
        ("adam-step-not-counted", {"count": False}),
    ):
        want = _adam(gradients, **options)
        if all(close(a, b, 1e-9) for a, b in zip(seen, want, strict=True)):
            if mistake:
                right = _adam(gradients)
                raise Mistake(mistake, **facts, expected=show(right[-1]), got=show(seen[-1]))
            break
    else:
        unmoved = all(close(a, [1.0, 2.0]) for a in seen)
        raise Mistake(
            "no-update" if unmoved else "wrong-update",
            **facts,
            expected=show(_adam(gradients)[-1]),
            got=show(seen[-1]),
        )
    still = leaf([1.0])
    p.guard(
        p.get("Adam")([still], lr=0.1).step, "Adam.step()"
    )  # no gradient yet: nothing to do, and no error


def _adam(
    gradients: list[np.ndarray],
    correct: bool = True,
    inside: bool = False,
    betas: tuple[float, float] = (0.9, 0.999),
    sign: float = -1.0,
    count: bool = True,
) -> list[np.ndarray]:
    x, m, v = np.array([1.0, 2.0]), np.zeros(2), np.zeros(2)
    found = []
    for t, g in enumerate(gradients, 1):
        t = t if count else 1
        m, v = betas[0] * m + (1 - betas[0]) * g, betas[1] * v + (1 - betas[1]) * g * g
        a, b = (m / (1 - betas[0] ** t), v / (1 - betas[1] ** t)) if correct else (m, v)
        x = x + sign * 0.1 * a / (np.sqrt(b + 0.1) if inside else np.sqrt(b) + 0.1)
        found.append(x)
    return found


def batch(p: Practice) -> None:
    """32 images of 784 pixels at once: the same answers as one by one, and the mean of their gradients."""
    rng = np.random.default_rng(0)
    images, names = rng.uniform(size=(32, 784)).astype(np.float32), rng.integers(0, 10, 32)
    model = p.call("MLP", reference, (784, 16, 10), program="MLP(library, (784, 16, 10))")
    facts = {"program": "model(x)", "inputs": "x: (32, 784)"}
    logits = p.guard(lambda: model(Tensor(images)), "model(x)")
    if np.shape(logits.data) != (32, 10):
        raise Mistake("wrong-shape", **facts, expected="(32, 10)", got=str(np.shape(logits.data)))
    single = p.guard(lambda: model(Tensor(images[:1])), "model(x[:1])")
    if not close(single.data, logits.data[:1], 1e-4):
        raise Mistake("batch-mixed", **facts, expected=show(single.data[0, :3]), got=show(logits.data[0, :3]))
    reference.cross_entropy(logits, names).backward()
    parameters = list(model.parameters())
    together = [np.array(q.grad) for q in parameters]
    total = [np.zeros_like(g) for g in together]
    for i in range(32):
        p.call("zero_grad", parameters)
        reference.cross_entropy(model(Tensor(images[i : i + 1])), names[i : i + 1]).backward()
        total = [t + q.grad / 32 for t, q in zip(total, parameters, strict=True)]
    for a, b in zip(together, total, strict=True):
        if not close(a, b, 1e-4):
            raise Mistake(
                "batch-mixed", **facts, expected=show(b.reshape(-1)[:3]), got=show(a.reshape(-1)[:3])
            )


def function(p: Practice) -> None:
    """An operation as a class, used twice, on two inputs, and with an input that has no gradient."""
    base = p.get("Function")

    class Cube(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(context: Any, x: Any) -> Any:
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context: Any, grad: Any) -> Any:
            (x,) = context.saved
            return grad * 3 * x**2

    class Scale(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(context: Any, x: Any, factor: Any) -> Any:
            context.save_for_backward(x, factor)
            return x * factor

        @staticmethod
        def backward(context: Any, grad: Any) -> Any:
            return grad * context.saved[1], None

    x, y = leaf(2.0), leaf(3.0)
    facts = {"program": "Cube.apply(x) + Cube.apply(y)", "inputs": "x = 2.0; y = 3.0"}
    out = p.guard(lambda: Cube.apply(x) + Cube.apply(y), facts["program"])
    if not close(out.data, 35.0):
        raise Mistake("wrong-value", **facts, expected="35.0", got=show(out.data))
    p.guard(out.backward, facts["program"])
    got = f"x.grad = {show(x.grad)}, y.grad = {show(y.grad)}"
    if x.grad is None or y.grad is None:
        raise Mistake("no-gradient", **facts, what="x", expected="x.grad = 12.0, y.grad = 27.0", got=got)
    if not (close(x.grad, 12.0) and close(y.grad, 27.0)):
        name = "context-shared" if close(x.grad, 27.0) or close(y.grad, 12.0) else "wrong-derivative"
        raise Mistake(name, **facts, expected="x.grad = 12.0, y.grad = 27.0", got=got)
    x = leaf(2.0)
    p.guard((lambda z: z + z)(Cube.apply(x)).backward, "y = Cube.apply(x); (y + y).backward()")
    p.guard(Cube.apply(x).backward, "Cube.apply(x).backward()")
    if not close(x.grad, 36.0):
        raise Mistake(
            "missing-accumulation", program="y = Cube.apply(x); (y + y).backward(); Cube.apply(x).backward()",
            inputs="x = 2.0", expected="x.grad = 36.0", got=f"x.grad = {show(x.grad)}",
        )  # fmt: skip
    x, factor = leaf(2.0), Tensor(np.array(5.0))
    p.guard(
        lambda: Scale.apply(x, factor).backward(),
        "Scale.apply(x, factor).backward()  # backward → (…, None)",
    )
    if not close(x.grad, 5.0):
        raise Mistake(
            "wrong-derivative", program="Scale.apply(x, factor)", expected="x.grad = 5.0", got=show(x.grad)
        )
    if p.guard(lambda: Cube.apply(Tensor(np.array(2.0))).requires_grad, "Cube.apply(constant)"):
        raise Mistake(
            "requires-grad-always",
            program="Cube.apply(Tensor(2.0)).requires_grad",
            expected="False",
            got="True",
        )


def forward_mode(p: Practice) -> None:
    """One pass forward gives what backward gives, in one direction."""
    cases: list[tuple[str, Callable[[Any], Any]]] = [
        ("lambda x: x + x", lambda x: (x + x).sum()),
        ("lambda x: x * x", lambda x: (x * x).sum()),
        ("lambda x: 1.0 - x", lambda x: (1.0 - x).sum()),
        ("lambda x: 2.0 / x", lambda x: (2.0 / x).sum()),
        ("lambda x: x.exp()", lambda x: x.exp().sum()),
        ("lambda x: x.log()", lambda x: x.log().sum()),
        ("lambda x: x.tanh()", lambda x: x.tanh().sum()),
        ("lambda x: (x * x).exp() / (x + 1.0).log()", lambda x: ((x * x).exp() / (x + 1.0).log()).sum()),
    ]
    x, v = np.array([1.0, 0.5]), np.array([1.0, 2.0])
    for program, f in cases:
        facts = {"program": f"jvp({program}.sum(), x, v)", "inputs": f"x = {show(x)}; v = {show(v)}"}
        point = leaf(x)
        out = f(point)
        out.backward()
        want = float((point.grad * v).sum())
        answer = p.call("jvp", f, x, v, program=facts["program"])
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            raise Mistake("wrong-shape", **facts, expected="(value, tangent)", got=show(answer))
        value, tangent = answer
        if not close(value, out.data):
            raise Mistake("wrong-value", **facts, expected=show(out.data), got=show(value))
        if not close(tangent, want, 1e-6):
            facts |= {"expected": f"{want:.6g}", "got": show(tangent)}
            if close(tangent, float(point.grad.sum()), 1e-6):
                raise Mistake("direction-ignored", **facts)
            if program == "lambda x: x * x" and close(tangent, float((x * v).sum()), 1e-6):
                raise Mistake("product-rule", **facts)
            raise Mistake("wrong-derivative", **facts)


def _network(seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    x, y = np.array([[0, 0], [0, 1], [1, 0], [1, 1]], np.float32), np.array([[0], [1], [1], [0]], np.float32)
    shapes = [(2, 8), (1, 8), (8, 1), (1, 1)]
    return [x, y, *((rng.normal(size=shape) * 0.5).astype(np.float32) for shape in shapes)]


def compare_with(name: str) -> Callable[[Practice], None]:
    """Return a check of the same network's loss and gradients in another library."""

    def compare(p: Practice) -> None:
        if importlib.util.find_spec(name) is None:
            raise Skipped({"torch": "PyTorch"}.get(name, name))
        arrays = _network()
        mine = p.call(
            "network_gradients", p.engine, *arrays, program="network_gradients(library, x, y, w1, b1, w2, b2)"
        )
        theirs = _OTHERS[name](importlib.import_module(name), arrays)
        for what, a, b in zip(("loss", "w1", "b1", "w2", "b2"), mine, theirs, strict=False):
            if not close(a, b, 1e-4):
                raise Mistake(
                    "differs-from-library",
                    program=f"{what}: {name}",
                    what=name,
                    expected=show(b),
                    got=show(np.asarray(a)),
                )

    compare.__name__ = f"compare_{name}"
    return compare


def _torch(torch: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    x, y, *rest = (torch.tensor(a) for a in arrays)
    w1, b1, w2, b2 = (a.requires_grad_() for a in rest)
    loss = ((torch.relu(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()
    loss.backward()
    return [loss.detach().numpy(), *(a.grad.numpy() for a in (w1, b1, w2, b2))]


def _tinygrad(tinygrad: Any, arrays: list[np.ndarray]) -> list[np.ndarray]:
    x, y = (tinygrad.Tensor(a) for a in arrays[:2])
    w1, b1, w2, b2 = (tinygrad.Tensor(a, requires_grad=True) for a in arrays[2:])
    loss = (((x @ w1 + b1).relu() @ w2 + b2 - y) ** 2).mean()
    loss.backward()
    return [loss.numpy(), *(a.grad.numpy() for a in (w1, b1, w2, b2))]


def _minitorch_gradients(minitorch: Any, arrays: list[np.ndarray]) -> list[Any]:
    x, y = (minitorch.tensor(a) for a in arrays[:2])
    parameters = [minitorch.tensor(a, requires_grad=True) for a in arrays[2:]]
    w1, b1, w2, b2 = parameters
    loss = (((x @ w1 + b1).relu() @ w2 + b2 - y) ** 2).mean()
    loss.backward()
    return [loss.data, *(q.grad for q in parameters)]


_OTHERS: dict[str, Callable[[Any, list[np.ndarray]], list[Any]]] = {
    "minitorch": _minitorch_gradients,
    "torch": _torch,
    "tinygrad": _tinygrad,
}
