"""A look behind backward(): the graph of a small loss, walked by hand.

    python examples/walk_the_graph.py

Three persons (I, you, she) each get one logit for each of five tenses, (3, 5) in all; the loss says how far the
logits are from the right tenses. Every tensor remembers the op that made it, and the tensors that op was given:
`grad_fn` is that memory, and `next_functions` one step further back. backward() walks the same way.
"""

import minitorch
from minitorch.autograd.graph import describe

PERSONS, TENSES = 3, 5


def walk(grad_fn, depth=0):
    """Print an op, then, further to the right, the ops that made its inputs."""
    if grad_fn is None:
        print("    " * depth + "(a constant: no gradient goes here)")
        return
    print("    " * depth + grad_fn.name())
    for made_by, _ in grad_fn.next_functions:
        walk(made_by, depth + 1)


def main():
    """Build the loss, print it, walk back from it, and compare with what backward() finds."""
    minitorch.manual_seed(0)
    features = minitorch.randn(PERSONS, 4)  # what is known of each person: a constant
    weight = minitorch.randn(4, TENSES, requires_grad=True)
    bias = minitorch.zeros(TENSES, requires_grad=True)
    targets = minitorch.tensor([0, 4, 2])  # the right tense for each person

    logits = features @ weight + bias  # (3, 5)
    right = logits.log_softmax(dim=1)[minitorch.arange(PERSONS), targets]  # (3,)
    loss = -right.mean()

    print("The loss knows where it comes from:")
    print(loss)

    print("\nOne step at a time:")
    print("loss.grad_fn                                   ", loss.grad_fn)
    print("loss.grad_fn.next_functions                    ", loss.grad_fn.next_functions)
    print("loss.grad_fn.next_functions[0][0].next_functions", end=" ")
    print(loss.grad_fn.next_functions[0][0].next_functions)

    print("\nAll the way, to the leaves:")
    walk(loss.grad_fn)

    print("\nThe same as a table, in the order in which it was computed:")
    print(describe(loss))

    loss.backward()
    print("\nbackward() has walked it, and the leaves have their gradients:")
    print("bias.grad   ", bias.grad)
    by_hand = (logits.softmax(dim=1) - minitorch.eye(TENSES)[targets]).mean(axis=0)
    print("by hand     ", by_hand.detach().numpy(), " (softmax minus target, averaged over the persons)")
    return bias.grad, by_hand.detach().numpy()


if __name__ == "__main__":
    main()
