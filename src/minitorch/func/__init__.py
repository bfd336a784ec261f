"""Functions of functions, in torch.func's spelling: derivatives as functions, a function over a batch, a module as one.

Enters: a function of Tensors, or of tuples, lists and dicts of them. Leaves: another function. They nest: the
gradient of a function that itself takes gradients, per example, is written down as it is said.
"""

from minitorch.func.batching import vmap
from minitorch.func.derivatives import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp
from minitorch.func.functionalize import functionalize
from minitorch.func.modules import functional_call, replace_all_batch_norm_modules_, stack_module_state

__all__ = [
    "functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "linearize",
    "replace_all_batch_norm_modules_", "stack_module_state", "vjp", "vmap",
]  # fmt: skip
