"""A step of 100,000 operations, forward and backward, on small tensors: what recording costs by the operation.

`truecast explain examples/full_size/many_operations.py` runs it on real tensors.
"""

import torch

CHAINS, LINKS = 140, 100


def main() -> None:
    x = torch.ones(4, requires_grad=True)
    total = torch.zeros(4)
    for _ in range(CHAINS):
        y = x
        for _ in range(LINKS):
            y = (y * 1.0001 + 0.5).tanh() * 0.9
        total = total + y
    total.sum().backward()


if __name__ == "__main__":
    main()
