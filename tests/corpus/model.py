"""Describes how a model of the corpus is made, what it is fed, and how it is trained."""

from dataclasses import dataclass
from typing import Callable

import torch
from torch import nn


@dataclass
class Model:
    """`make` returns a module. The module and the inputs are drawn from one seed."""

    name: str
    make: Callable[[], nn.Module]
    inputs: dict  # by name: a function that draws a tensor; the order is that of forward's arguments
    loss: str = "mse"
    class_axis: int = 1
    is_woken: bool = True  # whether parameters of zeros and ones get other values

    def draw(self):
        """Returns (module, inputs)."""
        torch.manual_seed(0)
        module = self.make()
        if self.is_woken:
            wake(module)
        return module, self.draw_inputs()

    def draw_inputs(self):
        return {name: make() for name, make in self.inputs.items()}


def wake(module):
    """Gives other values to parameters that are all zero or one, and to averages of batch norms. Exporters merge equal
    tensors, and a gradient that is multiplied by zero tests nothing."""
    done = set()
    for parameter in module.parameters():
        if parameter.is_floating_point() and id(parameter) not in done and is_constant(parameter):
            done.add(id(parameter))
            with torch.no_grad():
                parameter.add_(0.1 * torch.randn_like(parameter))
    for name, buffer in module.named_buffers():
        if name.endswith("running_mean"):
            buffer.add_(0.1 * torch.randn_like(buffer))
        if name.endswith("running_var"):
            buffer.mul_(1 + 0.2 * torch.rand_like(buffer))


def is_constant(tensor):
    return tensor.numel() > 0 and bool((tensor == tensor.flatten()[0]).all())


class Picked(nn.Module):
    """Turns a model with keyword arguments and many results into one with positional arguments and few results."""

    def __init__(self, model, names, pick):
        super().__init__()
        self.model, self.names, self.pick = model, names, pick

    def forward(self, *args):
        return self.pick(self.model(**dict(zip(self.names, args))))


def rows(*shape):
    return lambda: torch.randn(shape)


FIRST_WORD = 4  # smaller ids may be padding, whose row PyTorch does not learn, and no file says which row that is


def ids(limit, *shape):
    return lambda: torch.randint(FIRST_WORD, limit, shape)
