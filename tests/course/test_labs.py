"""Every wrong solution is diagnosed by its name; what is right passes, in whatever style it is written."""

import re
from pathlib import Path

import numpy as np
import pytest

import another_engine
from minitorch import course
from minitorch.course import practice, tensor
from minitorch.course.broken import edited, source
from minitorch.course.check import check
from minitorch.course.labs import ENGINE, LABS, solution
from minitorch.course.practice_checks import Practice
from minitorch.course.words import mistake, table

SOURCES = Path(course.__file__).parent
ENGINE_LABS = [lab for lab in LABS if lab.file == ENGINE]
PRACTICE_LABS = [lab for lab in LABS if lab.file != ENGINE]


# --- what is right passes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_the_one_file_engine_passes(lab):
    report = check(tensor, lab.name, practice=practice)
    assert report.ok, str(report)


def test_an_engine_in_another_style_passes():
    report = check(another_engine)
    assert report.ok, str(report)
    assert [result.note for result in report.results if result.note] == ["recursion-depth"]
    assert "about a thousand" in str(report)


def test_a_class_alone_can_be_checked():
    class Small:
        """Only what the first labs ask for."""

        def __init__(self, data, requires_grad=False, _prev=(), _op=""):
            self.data, self.grad, self.requires_grad = np.asarray(data), None, requires_grad
            self._prev, self._op, self._backward = _prev, _op, lambda: None

        def __add__(self, other):
            wanted = self.requires_grad or other.requires_grad
            return Small(self.data + other.data, wanted, (self, other) if wanted else (), "add")

    assert course.check(Small, "node").ok
    report = course.check(Small, "node", "add-mul", "unbroadcast")
    assert report.mistakes == ["no-gradient", "not-written"]
    assert course.check(Small, "order").mistakes == ["not-written"]  # there is no *


# --- wrong engines --------------------------------------------------------------------------------------------------

# By the lab in which it must be found: the mistake's name, and an edit or several of the one-file engine.
WRONG = [
    # the node
    ("node", "fields-missing", ("        self._op = _op\n", "")),
    ("node", "data-not-array", ("self.data = array", "self.data = data")),
    ("node", "dtype-forced", ("array = np.asarray(data)\n", "array = np.asarray(data, dtype=np.float32)\n")),
    ("node", "dtype-forced", ("self.data = array", "self.data = array.astype(np.float64)")),
    ("node", "requires-grad-default", ("requires_grad: bool = False", "requires_grad: bool = True")),
    ("node", "grad-at-birth", ("self.grad: Any = None", "self.grad: Any = np.ones_like(self.data)")),
    ("node", "leaf-with-parents", ("self._prev = _prev\n", "self._prev = _prev or (self,)\n")),
    ("node", "not-hashable", ("    def item(self)", "    def __eq__(self, other): return True\n\n    def item(self)")),
    ("node", "requires-grad-lost", ("any(parent.requires_grad", "all(parent.requires_grad")),
    ("node", "requires-grad-lost", ("wanted = _recording and any(parent.requires_grad for parent in parents)", "wanted = parents[0].requires_grad")),
    ("node", "requires-grad-always", ("_recording and any(parent.requires_grad for parent in parents)", "_recording")),
    ("node", "graph-for-constants", ("parents if wanted else ()", "parents")),
    ("node", "parents-missing", ("parents if wanted else ()", "parents[:1] if wanted else ()")),
    ("node", "not-a-tensor", ("            self._accumulate(out.grad)\n            other._accumulate(out.grad)\n\n        return out._records(_backward)", "            pass\n\n        return out.data")),
    ("node", "constructor-crash", ("self._backward: Callable[[], None] = lambda: None", "self._backward = 1 / 0")),
    ("node", "op-not-a-string", ("op if wanted else \"\")", "7)")),
    # add and mul
    ("add-mul", "missing-accumulation", ("contribution if self.grad is None else self.grad + contribution", "contribution")),
    ("add-mul", "shared-gradient", ("contribution = np.array(contribution, dtype=self.data.dtype)", "pass"), ("unbroadcast(np.asarray(contribution), self.shape)", "contribution"), ("self.grad = contribution if self.grad is None else self.grad + contribution", "if self.grad is None:\n            self.grad = contribution\n        else:\n            self.grad += contribution")),
    ("add-mul", "grad-is-none", ("self.grad = contribution if self.grad is None else self.grad + contribution", "self.grad = self.grad + contribution")),
    ("add-mul", "factors-swapped", ("self._accumulate(out.grad * other.data)\n            other._accumulate(out.grad * self.data)", "self._accumulate(out.grad * self.data)\n            other._accumulate(out.grad * other.data)")),
    ("add-mul", "sign-lost", ("other._accumulate(-out.grad)", "other._accumulate(out.grad)")),
    ("add-mul", "sign-lost", ("lambda: self._accumulate(-out.grad)", "lambda: self._accumulate(out.grad)")),
    ("add-mul", "quotient-rule", ("-out.grad * self.data / other.data**2", "out.grad * self.data / other.data**2")),
    ("add-mul", "quotient-rule", ("-out.grad * self.data / other.data**2", "-out.grad * self.data / other.data")),
    ("add-mul", "power-rule", ("exponent * self.data ** (exponent - 1)", "exponent * self.data ** exponent")),
    ("add-mul", "power-rule", ("exponent * self.data ** (exponent - 1)", "self.data ** (exponent - 1)")),
    ("add-mul", "reversed-operands", ("return self._wrap(other) - self", "return self - self._wrap(other)")),
    ("add-mul", "reversed-operands", ("return self._wrap(other) / self", "return self / self._wrap(other)")),
    ("add-mul", "upstream-changed", ("            self._accumulate(out.grad * other.data)\n", "            out.grad *= 2; out.grad[...] /= 2; out.grad += 1\n            self._accumulate(out.grad * other.data)\n")),
    ("add-mul", "gradient-for-constants", ("        if not self.requires_grad:\n            return\n", "")),
    ("add-mul", "gradient-dtype", ("dtype=self.data.dtype)  # a copy", "dtype=np.float64)  # a copy")),
    ("add-mul", "result-dtype", ("Tensor(np.asarray(other, dtype=self.data.dtype))", "Tensor(np.asarray(other, dtype=np.float64))")),
    ("add-mul", "no-gradient", ("        if self.requires_grad:\n            self._backward = backward\n", "")),
    ("add-mul", "not-written", ("def __truediv__", "def divide")),
    ("add-mul", "wrong-value", ("result(self.data * other.data", "result(self.data + other.data")),
    ("add-mul", "wrong-derivative", ("other._accumulate(out.grad * self.data)", "other._accumulate(out.grad * self.data * 0.9)")),
    ("add-mul", "forward-crash", ("result(self.data * other.data", "result(self.data * other.dta")),
    # the order
    ("order", "wrong-order", ("stack.append((node, True))", "order.append(node)"), ("reversed(order)", "order")),
    ("order", "wrong-order", ("for node in reversed(order)", "for node in order")),
    ("order", "wrong-order", ("order = self._topological_order()", "order, i = [self], 0\n        while i < len(order):\n            order += [p for p in order[i]._prev if p not in order]\n            i += 1\n        order.reverse()")),
    ("order", "visited-twice", ("elif node not in visited:", "else:")),
    ("order", "node-skipped", ("order = self._topological_order()", "order = [*self._prev, self]")),
    ("order", "float-seed", ("self.grad = np.ones_like(self.data)  #", "self.grad = 1.0  #")),
    ("order", "no-seed", ("self.grad = np.ones_like(self.data)  # d(self)/d(self)", "pass")),
    ("order", "wrong-seed", ("self.grad = np.ones_like(self.data)", "self.grad = self.data.copy()")),
    ("order", "backward-on-non-scalar", ("if self.data.size != 1:", "if False:")),
    ("order", "backward-on-constant", ("        if not self.requires_grad:\n            raise RuntimeError", "        if False:\n            raise RuntimeError")),
    ("order", "leaf-grad-reset", ("            if node._prev:  #", "            if True:  #")),
    ("order", "gradient-dtype", ("np.ones_like(self.data)", "np.ones(self.data.shape)")),
    # broadcasting
    ("unbroadcast", "missing-unbroadcast", ("unbroadcast(np.asarray(contribution), self.shape)", "np.asarray(contribution)")),
    ("unbroadcast", "missing-unbroadcast", ("    extra = grad.ndim - len(shape)", "    return grad\n    extra = grad.ndim - len(shape)")),
    ("unbroadcast", "size-one-axes", ("return grad.sum(axis=stretched, keepdims=True)", "return grad")),
    ("unbroadcast", "keepdims-lost", ("return grad.sum(axis=stretched, keepdims=True)", "return grad.sum(axis=stretched)")),
    ("unbroadcast", "mean-instead-of-sum", ("grad = grad.sum(axis=tuple(range(extra)))", "grad = grad.mean(axis=tuple(range(extra)))")),
    ("unbroadcast", "wrong-broadcast-axis", ("grad.sum(axis=tuple(range(extra)))", "grad.sum(axis=tuple(range(grad.ndim - extra, grad.ndim)))")),
    ("unbroadcast", "not-written", ("def unbroadcast", "def undo"), ("= unbroadcast(", "= undo(")),
    # reductions
    ("reductions", "wrong-axis-keepdims", ("grad = out.grad.reshape(kept(self.shape, axis))", "grad = out.grad")),
    ("reductions", "wrong-axis-keepdims", ("out.grad.reshape(kept(self.shape, axis))", "out.grad.reshape(kept(self.shape, None if axis is None else 1 - axis % 2 if isinstance(axis, int) else axis))")),
    ("reductions", "keepdims-ignored", ("self.data.sum(axis=axis, keepdims=keepdims)", "self.data.sum(axis=axis)")),
    ("reductions", "axis-tuple", ("axis if isinstance(axis, tuple) else (axis,)", "(axis,)")),
    ("reductions", "mean-not-divided", ("return total / (self.data.size / max(total.data.size, 1))", "return total")),
    ("reductions", "mean-wrong-count", ("(self.data.size / max(total.data.size, 1))", "self.data.size")),
    ("reductions", "mean-wrong-count", ("(self.data.size / max(total.data.size, 1))", "(len(self.data) if self.data.ndim else 1)")),
    ("reductions", "max-to-all", ("out.grad.reshape(shape) * largest / largest.sum(axis=axis, keepdims=True)", "np.broadcast_to(out.grad.reshape(shape), self.shape)")),
    ("reductions", "max-ties", (" * largest / largest.sum(axis=axis, keepdims=True)", " * largest")),
    ("reductions", "read-only-gradient", ("contribution = np.array(contribution, dtype=self.data.dtype)  # a copy: nobody else writes into it", "pass"), ("contribution = unbroadcast(np.asarray(contribution), self.shape)", "contribution = contribution if np.shape(contribution) == self.shape else unbroadcast(contribution, self.shape)")),
    # shapes
    ("shapes", "gradient-shape", ("out.grad.reshape(self.shape)", "out.grad"), ("= unbroadcast(np.asarray(contribution), self.shape)", "= np.asarray(contribution) if np.size(contribution) == self.data.size else unbroadcast(np.asarray(contribution), self.shape)")),
    ("shapes", "same-permutation", ("out.grad.transpose(np.argsort(order))", "out.grad.transpose(order)")),
    ("shapes", "same-permutation", ("out.grad.transpose(np.argsort(order))", "out.grad")),
    ("shapes", "repeated-indices", ("np.add.at(grad, index, out.grad)", "grad[index] = out.grad")),
    ("shapes", "repeated-indices", ("np.add.at(grad, index, out.grad)", "grad[index] += out.grad")),
    ("shapes", "loop-variable", ("    def _backward() -> None:\n        for tensor, piece in zip(tensors, np.split(out.grad, ends, axis=axis), strict=True):\n            tensor._accumulate(piece)\n", "    closures = []\n    for i, tensor in enumerate(tensors):\n        closures.append(lambda: tensor._accumulate(np.split(out.grad, ends, axis=axis)[i]))\n\n    def _backward():\n        for closure in closures:\n            closure()\n")),
    ("shapes", "pieces-of-equal-size", ("np.split(out.grad, ends, axis=axis)", "np.split(out.grad, len(tensors), axis=axis)")),
    ("shapes", "pieces-swapped", ("np.split(out.grad, ends, axis=axis), strict=True)", "reversed(np.split(out.grad, ends, axis=axis)), strict=True)")),
    ("shapes", "joined-along-axis-0", ("np.concatenate([t.data for t in tensors], axis=axis)", "np.concatenate([t.data for t in tensors])")),
    ("shapes", "stack-axis-kept", ("out.grad.take(i, axis=axis)", "out.grad.take([i], axis=axis)"), ("contribution = unbroadcast(np.asarray(contribution), self.shape)", "contribution = contribution if np.ndim(contribution) > self.data.ndim and np.size(contribution) == self.data.size else unbroadcast(np.asarray(contribution), self.shape)")),
    ("shapes", "joined-along-axis-0", ("out.grad.take(i, axis=axis)", "out.grad[i]")),
    ("shapes", "gradient-in-place-of-zeros", ("np.add.at(grad, index, out.grad)", "grad = grad + out.grad if out.data.ndim < grad.ndim else np.zeros_like(grad)")),
    # functions
    ("elementwise", "exp-derivative", ("self._accumulate(out.grad * out.data))\n\n    def log", "self._accumulate(out.grad * self.data))\n\n    def log")),
    ("elementwise", "log-derivative", ("self._accumulate(out.grad / self.data)", "self._accumulate(out.grad * self.data)")),
    ("elementwise", "relu-mask", ("out.grad * (self.data > 0)", "np.maximum(out.grad, 0)")),
    ("elementwise", "relu-at-zero", ("out.grad * (self.data > 0)", "out.grad * (self.data >= 0)")),
    ("elementwise", "tanh-of-the-input", ("1 - out.data**2", "1 - self.data**2")),
    ("elementwise", "product-rule", ("cumulative + x * density", "cumulative")),
    ("elementwise", "gelu-mixed", ("out.grad * (cumulative + x * density)", "out.grad * (lambda t, d: 0.5 * (1 + t) + 0.5 * x * (1 - t**2) * d)(np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)), math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2))")),
    ("elementwise", "result-dtype", ("otypes=[x.dtype]", "otypes=[float]")),
    # matmul
    ("matmul", "matmul-no-transpose", ("grad @ right.swapaxes(-1, -2)", "grad @ right")),
    ("matmul", "matmul-order", ("grad @ right.swapaxes(-1, -2)", "right.swapaxes(-1, -2) @ grad")),
    ("matmul", "matmul-stack-transpose", ("grad @ right.swapaxes(-1, -2)", "grad @ right.T")),
    ("matmul", "matmul-vectors", ("            if b.ndim == 1:\n                grad = np.expand_dims(grad, -1)\n", "")),
    ("matmul", "matmul-vectors", ("a[None, :] if a.ndim == 1 else a", "a")),
    ("matmul", "matmul-first-of-stack", ("to_right = unbroadcast(left.swapaxes(-1, -2) @ grad, right.shape)", "to_right = left.swapaxes(-1, -2) @ grad\n            while to_right.ndim > right.ndim:\n                to_right = to_right[0]\n            to_right = unbroadcast(to_right, right.shape)")),
    ("matmul", "matmul-elementwise", ("out = result(a @ b,", "out = result(a * b if a.shape == b.shape else a @ b,")),
    # softmax
    ("softmax", "softmax-overflow", ("np.exp(self.data - self.data.max(axis=axis, keepdims=True))", "np.exp(self.data)")),
    ("softmax", "softmax-global-max", ("self.data - self.data.max(axis=axis, keepdims=True)", "self.data - self.data.max()")),
    ("softmax", "softmax-diagonal", ("p * (out.grad - (out.grad * p).sum(axis=axis, keepdims=True))", "out.grad * p * (1 - p)")),
    ("softmax", "softmax-diagonal", ("p * (out.grad - (out.grad * p).sum(axis=axis, keepdims=True))", "out.grad * p")),
    ("softmax", "softmax-wrong-axis", ("p = powers / powers.sum(axis=axis, keepdims=True)", "p = powers / powers.sum(axis=-1, keepdims=True)")),
    ("softmax", "softmax-wrong-axis", ("(out.grad * p).sum(axis=axis, keepdims=True)", "(out.grad * p).sum()")),
    ("softmax", "softmax-keepdims", ("powers / powers.sum(axis=axis, keepdims=True)", "powers / powers.sum(axis=axis)")),
    ("softmax", "softmax-keepdims", ("(out.grad * p).sum(axis=axis, keepdims=True)", "(out.grad * p).sum(axis=axis)")),
    # cross-entropy
    ("cross-entropy", "log-of-zero", ("log_p = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))", "log_p = np.log(np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True))")),
    ("cross-entropy", "loss-not-averaged", ("-log_p[rows, targets].mean()", "-log_p[rows, targets].sum()")),
    ("cross-entropy", "loss-sign", ("-log_p[rows, targets].mean()", "log_p[rows, targets].mean()")),
    ("cross-entropy", "every-target-for-every-row", ("-log_p[rows, targets].mean()", "-log_p[:, targets].mean()")),
    ("cross-entropy", "target-not-subtracted", ("        grad[rows, targets] -= 1\n", "")),
    ("cross-entropy", "gradient-not-averaged", ("out.grad * grad / len(targets)", "out.grad * grad")),
    ("cross-entropy", "loss-sign", ("out.grad * grad / len(targets)", "-out.grad * grad / len(targets)")),
    ("cross-entropy", "arriving-gradient-ignored", ("out.grad * grad / len(targets)", "grad / len(targets)")),
    ("cross-entropy", "saved-values-changed", ("    def _backward() -> None:\n        grad = np.exp(log_p)  #", "    grad = np.exp(log_p)\n\n    def _backward() -> None:\n        pass  #")),
    ("cross-entropy", "softmax-twice", ("shifted = logits.data - ", "logits_p = logits.softmax(1)\n    shifted = logits_p.data - ")),
    ("cross-entropy", "logits-taken-for-probabilities", ("-log_p[rows, targets].mean()", "-np.log(logits.data[rows, targets]).mean()")),
    # no_grad
    ("no-grad", "graph-under-no-grad", ("_recording and any", "any")),
    ("no-grad", "no-grad-sticks", ("_recording = before", "pass")),
    ("no-grad", "no-grad-exception", ("    try:\n        yield\n    finally:", "    yield\n    if True:")),
    ("no-grad", "no-grad-nested", ("        _recording = before", "        _recording = True")),
    ("no-grad", "detach-keeps-graph", ("return Tensor(self.data)", "return Tensor(self.data, self.requires_grad, self._prev)")),
    ("no-grad", "detach-changes-original", ("        return Tensor(self.data)\n", "        self._prev, self.requires_grad = (), False\n        return self\n")),
]  # fmt: skip


@pytest.mark.parametrize(("lab", "name", "edits"), [(lab, name, edits) for lab, name, *edits in WRONG])
def test_wrong_engines_are_diagnosed_by_name(lab, name, edits):
    report = check(edited(*edits), lab)
    assert report.mistakes == [name], str(report)
    said = str(report)
    assert mistake("en", name)[0].split()[0] in said
    assert f"[{name}]" in said


@pytest.mark.parametrize("lab", ENGINE_LABS, ids=lambda lab: lab.name)
def test_in_order_the_lab_that_it_belongs_to_is_the_first_to_fail(lab):
    """As a learner meets them: the labs before it do not stumble over the same mistake under another name."""
    _, name, *edits = next(row for row in reversed(WRONG) if row[0] == lab.name)
    report = check(edited(*edits))
    assert (next(r.lab for r in report.results if not r.ok), report.mistakes[0]) == (lab.name, name)


def test_there_are_enough_of_them():
    assert len(WRONG) >= 100
    assert len({name for _, name, *_ in WRONG} | {name for _, name, *_ in WRONG_PRACTICE}) >= 80


def test_a_report_shows_the_smallest_input_the_expected_and_the_found():
    report = str(check(edited(("self.grad + contribution", "contribution")), "add-mul"))
    for line in (
        "out = x + x",
        "x = 2.",
        "x.grad = 2.",
        "x.grad = 1.",
        "+= is missing",
        "[missing-accumulation]",
    ):
        assert line in report


# --- wrong solutions of the second file -----------------------------------------------------------------------------

PRACTICE_SOURCE = Path(practice.__file__).read_text(encoding="utf-8")

WRONG_PRACTICE = [
    ("gradcheck", "gradcheck-blind", ("                return False", "                pass")),
    ("gradcheck", "gradcheck-blind", ("tolerance * max(1.0, abs(slope))", "0.1 * max(1.0, abs(slope))")),
    ("gradcheck", "gradcheck-blind", ("    for x in inputs:\n        got", "    for x in inputs[:1]:\n        got")),
    ("gradcheck", "gradcheck-false-alarm", ("slope = (up - down) / (2 * eps)", "slope = (up - down) / eps")),
    ("gradcheck", "gradcheck-changes-input", ("            x.data[place] = before  #", "            pass  #")),
    ("gradcheck", "gradcheck-old-gradients", ("        x.grad = None  #", "        pass  #")),
    ("gradcheck", "practice-crash", ("np.zeros_like(x.data) if x.grad is None else x.grad", "x.grad"), ("            before = x.data", "            got = got + 0\n            before = x.data")),
    ("hypothesis", "property-blind", ("            return z * x + z  # z is used twice: a diamond", "            return z")),
    ("hypothesis", "property-blind", ("    reductions()\n", "")),
    ("hypothesis", "property-false-alarm", ("        assert gradcheck(f, ", "        assert not gradcheck(f, ")),
    ("hypothesis", "not-written", ("def property_check(", "def other(")),
    ("xor", "weights-all-equal", ("rng.normal(size=(n, m))", "np.ones((n, m))")),
    ("xor", "no-nonlinearity", ("(x @ w + b).relu()", "(x @ w + b)")),
    ("xor", "parameters-missing", ("for parameter in layer]", "for parameter in layer[:1]]")),
    ("xor", "parameters-constant", ("library.Tensor(bias, requires_grad=True)", "library.Tensor(bias)")),
    ("xor", "learned-nothing", ("steps: int = 600", "steps: int = 0")),
    ("xor", "wrong-shape", ("return np.asarray(model(x).data)\n", "return np.asarray(model(x).data)[:, 0]\n")),
    ("xor", "xor-not-learned", ("steps: int = 600", "steps: int = 40")),
    ("grammar", "learned-nothing", ("for _ in range(steps):\n        batch", "for _ in range(0):\n        batch")),
    ("grammar", "learned-too-little", ("for _ in range(steps):\n        batch", "for _ in range(steps // 25):\n        batch")),
    ("zero-grad", "gradients-not-zeroed", ("    zero_grad(parameters)\n    loss", "    loss")),
    ("zero-grad", "zeroed-too-late", ("    loss.backward()\n    for p in parameters:\n        p.data", "    loss.backward()\n    for p in parameters:\n        p.grad = p.grad * 0\n        p.data")),
    ("zero-grad", "uphill", ("p.data - learning_rate * p.grad", "p.data + learning_rate * p.grad")),
    ("zero-grad", "no-update", ("        p.data = p.data - learning_rate * p.grad", "        data = p.data - learning_rate * p.grad")),
    ("zero-grad", "wrong-update", ("learning_rate * p.grad", "learning_rate * p.grad / 2")),
    ("zero-grad", "loss-not-returned", ("    return float(loss.data)\n", "")),
    ("conv2d", "kernel-flipped", ("kernels.reshape(out, channels * h * w)", "kernels[:, :, ::-1, ::-1].reshape(out, channels * h * w)")),
    ("conv2d", "kernel-transposed", ("kernels.reshape(out, channels * h * w)", "(kernels.transpose(0, 1, 3, 2) if h == w else kernels).reshape(out, channels * h * w)")),
    ("conv2d", "overlaps-lost", ("    windows = images[:, :, i, j]", "    windows = _lossy(images, i, j)"), ("class Context:", "def _lossy(images, i, j):\n    taken = images[:, :, i, j]\n\n    def back():\n        grad = np.zeros_like(images.data)\n        grad[:, :, i, j] = taken.grad\n        images._accumulate(grad)\n\n    taken._backward = back\n    return taken\n\n\nclass Context:")),
    ("conv2d", "wrong-shape", (".transpose(0, 3, 1, 2)\n\n\nclass Context", "\n\n\nclass Context")),
    ("adam", "adam-no-bias-correction", ("self.means[i] / (1 - first**self.steps)", "self.means[i]"), ("self.squares[i] / (1 - second**self.steps)", "self.squares[i]")),
    ("adam", "adam-epsilon-inside", ("np.sqrt(square) + self.eps", "np.sqrt(square + self.eps)")),
    ("adam", "adam-betas-swapped", ("first, second = self.betas", "second, first = self.betas")),
    ("adam", "adam-step-not-counted", ("self.steps += 1", "self.steps = 1")),
    ("adam", "no-update", ("            p.data = p.data - self.lr", "            data = p.data - self.lr")),
    ("adam", "uphill", ("p.data - self.lr * mean", "p.data + self.lr * mean")),
    ("adam", "practice-crash", ("            if p.grad is None:\n                continue\n", "")),
    ("batch", "batch-mixed", ("        return x @ weight + bias", "        return (x - x.mean(0)) @ weight + bias")),
    ("function", "context-shared", ("context = Context()  #", "context = cls.__dict__.get('c') or Context(); cls.c = context  #")),
    ("function", "missing-accumulation", ("t.grad = grad if t.grad is None else t.grad + grad", "t.grad = grad")),
    ("function", "requires-grad-always", ("wanted = any(t.requires_grad for t in tensors)", "wanted = True")),
    ("function", "no-gradient", ("        if wanted:\n            out._backward = _backward\n", "")),
    ("forward-mode", "product-rule", ("self.tangent * other.value + self.value * other.tangent", "self.tangent * other.value")),
    ("forward-mode", "direction-ignored", ("f(Dual(x, direction))", "f(Dual(x, np.ones_like(x)))")),
    ("forward-mode", "wrong-derivative", ("np.exp(self.value) * self.tangent", "self.tangent")),
    ("compare", "differs-from-library", ("    loss = (difference * difference).mean()\n    loss.backward()\n    return [", "    loss = (difference * difference).sum()\n    loss.backward()\n    return [")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("lab", "name", "edits"), [(lab, name, edits) for lab, name, *edits in WRONG_PRACTICE]
)
def test_wrong_practice_is_diagnosed_by_name(lab, name, edits):
    module = edited(*edits, text=PRACTICE_SOURCE, name="practice")
    report = check(tensor, lab, practice=module)
    assert report.mistakes == [name], str(report)


# --- the text and the tables ----------------------------------------------------------------------------------------


def test_every_mistake_that_can_be_named_is_explained():
    sources = [path.read_text(encoding="utf-8") for path in sorted(SOURCES.glob("*.py"))]
    named = set()
    for text in sources:
        named |= set(
            re.findall(r'(?:Mistake|crash|S|Result)\(\s*(?:[\w.]+, ){0,2}"([a-z]+(?:-[a-z0-9]+)+)"', text)
        )
        named |= set(re.findall(r'(?:name =|name, tensor, program in|raise Mistake\() *"([a-z-]+)"', text))
    assert len(named) > 80
    assert named - set(table("en", "mistakes")) == set()
    everything = "\n".join(sources)
    assert [name for name in table("en", "mistakes") if f'"{name}"' not in everything] == []


def test_solutions_are_the_courses_own_lines():
    for lab in LABS:
        text = solution(lab)
        assert text.strip()
        original = source() if lab.file == ENGINE else PRACTICE_SOURCE
        for line in text.splitlines():
            assert line in original or line in ("class Tensor:", "    ...")


def test_without_pytorch_that_proof_is_skipped_and_said(monkeypatch):
    from minitorch.course import practice_checks

    absent = practice_checks.importlib.util.find_spec
    monkeypatch.setattr(
        practice_checks.importlib.util, "find_spec", lambda name: None if name == "torch" else absent(name)
    )
    report = check(tensor, "compare", practice=practice)
    assert report.ok
    assert "skipped, PyTorch is not installed" in str(report)


def test_a_practice_without_its_file_says_so():
    report = check(tensor, "gradcheck")
    assert report.mistakes == ["file-missing"]
    assert Practice(practice).engine is tensor
