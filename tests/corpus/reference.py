"""Runs models in PyTorch: outputs, loss and gradients of a module, and facts about the tensors of exported files."""

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Step:
    loss: float
    gradients: dict  # by name; None if the loss does not depend on the parameter


def as_tuple(outputs):
    return (outputs,) if torch.is_tensor(outputs) else tuple(outputs)


def goal_of(model, output, seed=0):
    """Returns the input that the loss adds, as (name, tensor)."""
    generator = torch.Generator().manual_seed(seed + 1)
    if model.loss == "mse":
        return "target", torch.randn(output.shape, generator=generator)
    shape = list(output.shape)
    classes = shape.pop(model.class_axis)
    return "labels", torch.randint(0, classes, shape, generator=generator)


def loss_of(model, output, goal):
    if model.loss == "mse":
        return F.mse_loss(output, goal)
    return F.cross_entropy(output.movedim(model.class_axis, 1), goal)


def step(model, module, inputs, goal, training, frozen_norms=()):
    """Runs one step of a copy of the module. The batch norms named in `frozen_norms` use their averages even in
    training."""
    module = copy.deepcopy(module).train(training)
    for name, part in module.named_modules():
        if name in frozen_norms:
            part.eval()
    parameters = dict(module.named_parameters())
    for p in parameters.values():
        p.requires_grad_(True)
    loss = loss_of(model, as_tuple(module(*inputs.values()))[0], goal)
    found = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return Step(loss.item(), {n: None if g is None else g.numpy() for n, g in zip(parameters, found)})


def moved(module):
    """Returns a copy with other parameter values and the same buffers. Tensors that differ in its export depend on
    parameters."""
    module = copy.deepcopy(module)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in module.parameters():
            p.add_(0.01 * torch.randn(p.shape, generator=generator) if p.is_floating_point() else 0)
    return module


def batch_norms(module):
    return {n: m for n, m in module.named_modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)}


def convolutions_before_norms(module, inputs):
    """Returns {name of a batch norm: name of the convolution whose result only this batch norm reads}."""
    made, pairs, hooks = {}, {}, []

    def look(name, part):
        def hook(_, args, result):
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and id(args[0]) in made:
                pairs[name] = made[id(args[0])][0]
            if isinstance(part, nn.modules.conv._ConvNd):
                made[id(result)] = (name, result)  # kept alive, so that its id stays unique

        return part.register_forward_hook(hook)

    module = copy.deepcopy(module).eval()
    for name, part in module.named_modules():
        hooks.append(look(name, part))
    with torch.no_grad():
        module(*inputs.values())
    return pairs
