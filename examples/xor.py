"""A first network: learn XOR, which no straight line can separate, from its four points.

    python examples/xor.py

Two inputs, eight hidden units with relu, one output; mean squared error; plain gradient descent,
written out by hand. Every line that is not arithmetic is one of four ideas: make tensors that require
grad, compute a loss, call backward(), step against the gradient.
"""

import minitorch

X = minitorch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])  # (4, 2)
Y = minitorch.tensor([[0.0], [1.0], [1.0], [0.0]])  # (4, 1)

LEARNING_RATE = 0.1


def main(steps: int = 1000) -> float:
    """Train for so many steps, print the way there, and return the final loss."""
    # Three seeds in four get there. With the others some points end up with no active hidden unit: there relu
    # has no slope and nothing is learnt any more, the dead units that PyTorch users know as well.
    minitorch.manual_seed(0)
    w1 = minitorch.randn(2, 8, requires_grad=True)
    b1 = minitorch.zeros(8, requires_grad=True)
    w2 = minitorch.randn(8, 1, requires_grad=True)
    b2 = minitorch.zeros(1, requires_grad=True)
    parameters = [w1, b1, w2, b2]

    def predict():
        hidden = (X @ w1 + b1).relu()  # (4, 8)
        return hidden @ w2 + b2  # (4, 1)

    for step in range(1, steps + 1):
        loss = ((predict() - Y) ** 2).mean()
        loss.backward()
        for p in parameters:
            p.data -= LEARNING_RATE * p.grad
            p.grad = None  # gradients add up over backward() calls: start the next step from nothing
        if step == 1 or step % 200 == 0:
            print(f"step {step:4}   loss {loss.item():.1e}")

    predictions = predict()
    print()
    for x, y, prediction in zip(X.tolist(), Y.tolist(), predictions.tolist(), strict=True):
        print(f"{x[0]:.0f} xor {x[1]:.0f} = {y[0]:.0f}   predicted {prediction[0]:.3f}")
    return ((predictions - Y) ** 2).mean().item()


if __name__ == "__main__":
    main()
