"""Keeps the ranks of torch.distributed together: in their plans, in the order of their collectives, and in what they refuse."""
